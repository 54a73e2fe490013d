/*
 * recv.c - the receiving end's hot path: reserves receive work requests, opens members, writes
 * clear-to-send entries into the peer's ring, and counts what arrives.
 *
 * Thread: NCCL's data path, under the owner word. Never waits, allocates, logs or calls the system.
 */
#include "ib/data.h"

#include <errno.h>

/* What one receive takes out of every pool. */
struct plan {
	uint32_t cnt;     /* ring entries */
	uint32_t members; /* 0 for an optional one that asks for no proof */
	uint32_t receives;
	bool optional;
	uint8_t grants[SXT_RECVS_MAX]; /* chunks of each */
};

static int path_fill(struct sxt_recv_end *end, struct sxt_path *path)
{
	struct ibv_recv_wr wrs[SXT_RECV_BATCH];
	struct ibv_recv_wr *bad;
	uint32_t i;

	while (path->rq_posted + SXT_RECV_BATCH <= SXT_RECV_RQ_DEPTH) {
		for (i = 0; i < SXT_RECV_BATCH; i++) {
			wrs[i].wr_id = sxt_wr_id(path, SXT_WR_RECV, 0);
			wrs[i].next = i + 1 < SXT_RECV_BATCH ? &wrs[i + 1] : NULL;
			wrs[i].sg_list = NULL;
			wrs[i].num_sge = 0;
		}
		int rc = ibv_post_recv(path->qp, wrs, &bad);

		if (rc != 0)
			return sxt_conn_post_failed(&end->conn, path, rc, "a receive");
		path->rq_posted += SXT_RECV_BATCH;
	}
	return 0;
}

int sxt_recv_fill(struct sxt_recv_end *end)
{
	uint32_t low = UINT32_MAX;

	for (uint32_t i = 0; i < end->conn.paths_cnt; i++) {
		int rc = path_fill(end, &end->conn.paths[i]);

		if (rc != 0)
			return rc;
		if (end->conn.paths[i].rq_posted < low)
			low = end->conn.paths[i].rq_posted;
	}
	end->rq_low = low;
	return 0;
}

/*
 * Chunks granted to a message of more than one write: enough for the ports' limit, one per path
 * where there is something to gain, fewer when receives get short. 0 when it is more than a member
 * can count.
 */
static SXT_NOINLINE uint32_t chunks_of(const struct sxt_recv_end *end, uint64_t bytes, uint32_t cnt)
{
	uint64_t least = ((bytes - 1) >> end->chunk_log2) + 1;
	uint64_t stripes = (bytes - 1) / sxt_conn_stripe_bytes(end->chunk_log2) + 1;
	uint32_t spare = (end->rq_low - end->rq_reserved) / (4 * cnt);

	if (least > SXT_CONN_CHUNKS_MAX)
		return 0;
	if (stripes > end->stripes)
		stripes = end->stripes;
	if (stripes > spare)
		stripes = spare;
	if (stripes <= 1)
		return (uint32_t)least;
	least = (least + stripes - 1) / stripes * stripes;
	return least <= SXT_CONN_CHUNKS_MAX ? (uint32_t)least : SXT_CONN_CHUNKS_MAX;
}

static SXT_INLINE bool plan_make(const struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				 uint32_t cnt, bool optional, struct plan *out)
{
	uint32_t i;

	if (cnt < 1 || cnt > SXT_RECVS_MAX || (optional && cnt != 1))
		return false;
	out->cnt = cnt;
	out->optional = optional;
	out->receives = 0;
	out->members = out->cnt;
	for (i = 0; i < out->cnt; i++) {
		uint32_t grant = 1;

		if (SXT_UNLIKELY(spec->bytes[i] > end->whole_bytes))
			grant = chunks_of(end, spec->bytes[i], cnt);
		if (grant == 0 || (spec->mrs[i] == NULL && spec->bytes[i] != 0))
			return false;
		out->grants[i] = (uint8_t)grant;
		out->receives += grant;
	}
	if (out->optional && end->posted + 1 - end->asked < SXT_CREDIT_EVERY) {
		out->members = 0;
		out->receives = 0;
	}
	return out->receives <= SXT_RECV_RQ_DEPTH;
}

/* A group over the ring's end takes two work requests. */
static SXT_INLINE bool fits(const struct sxt_recv_end *end, const struct plan *plan,
			    const struct sxt_path *path)
{
	return end->conn.free_requests != NULL && end->members_free_cnt >= plan->members &&
	       end->posted + plan->cnt - end->consumed <= SXT_RING_ENTRIES &&
	       (uint16_t)(path->cts_posted - path->cts_acked) <= SXT_RECV_SQ_USABLE - 2 &&
	       end->rq_reserved + plan->receives <= end->rq_low;
}

static int receives_top_up(struct sxt_recv_end *end)
{
	if (SXT_LIKELY(end->rq_low + SXT_RECV_BATCH > SXT_RECV_RQ_DEPTH))
		return 0;
	return sxt_recv_fill(end);
}

/*
 * Polls once where something is short: after optional receives were done NCCL has nothing left to
 * test, so this may be the only call that comes.
 */
static SXT_NOINLINE int make_room_slow(struct sxt_recv_end *end, const struct plan *plan,
				       const struct sxt_path *path)
{
	int rc;

	sxt_ignore(sxt_data_drain_all(&end->conn));
	if (end->conn.attention) {
		rc = sxt_conn_attend(&end->conn, NULL);
		if (rc != 0)
			return rc;
	}
	rc = receives_top_up(end);
	if (rc != 0)
		return rc;
	return fits(end, plan, path) ? 0 : -EAGAIN;
}

static SXT_INLINE int make_room(struct sxt_recv_end *end, const struct plan *plan,
				const struct sxt_path *path)
{
	struct plan copy; /* the plan itself stays in registers when its address goes nowhere */
	int rc = receives_top_up(end);

	if (rc != 0)
		return rc;
	if (SXT_LIKELY(fits(end, plan, path)))
		return 0;
	copy = *plan;
	return make_room_slow(end, &copy, path);
}

static SXT_INLINE struct sxt_member *member_open(struct sxt_recv_end *end, const struct plan *plan,
						 uint32_t place, uint16_t request)
{
	struct sxt_member *member = &end->members[end->members_free];

	end->members_free = member->next_free;
	end->members_free_cnt--;
	member->chunks = 0;
	member->bytes = 0;
	member->request = request;
	member->ring_begin = (uint16_t)end->posted;
	member->place = (uint8_t)place;
	member->generation = (member->generation + 1) % SXT_IMM_GENERATIONS;
	member->granted = plan->grants[place];
	member->arrived = 0;
	member->expected = 0;
	member->open = 1;
	return member;
}

static void member_close(struct sxt_recv_end *end, struct sxt_member *member)
{
	member->open = 0;
	member->next_free = end->members_free;
	end->members_free = (uint16_t)(member - end->members);
	end->members_free_cnt++;
}

/* One key per port of ours; the others stay what they were, nobody reads them. */
static SXT_INLINE void keys_fill(const struct sxt_recv_end *end, const struct sxt_mr *mr,
				 struct sxt_wire_cts *cts)
{
	uint32_t ports_cnt = end->ports_cnt;

	if (SXT_LIKELY(ports_cnt == 1 && mr != NULL)) {
		cts->rkeys[0] = mr->rkeys[0];
		return;
	}
	for (uint32_t i = 0; i < ports_cnt; i++)
		cts->rkeys[i] = mr != NULL ? mr->rkeys[i] : end->records_mrs[i]->rkey;
}

static SXT_INLINE void entry_fill(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				  const struct plan *plan, uint32_t i, struct sxt_wire_cts *cts)
{
	const struct sxt_mr *mr = spec->mrs[i];
	uint16_t flags = plan->members != 0 ? SXT_CTS_WANT_IMM : 0;

	if (plan->optional)
		flags |= SXT_CTS_OPTIONAL;
	/* Nothing is written for 0 bytes, but the address and the key still have to be good ones:
	 * some HCAs check them. */
	cts->addr_lap = (mr != NULL ? (uintptr_t)spec->data[i] : (uintptr_t)end->records) |
			sxt_cts_lap(end->posted + i);
	keys_fill(end, mr, cts);
	cts->tag = (uint32_t)spec->tags[i];
	cts->size_low = (uint32_t)spec->bytes[i];
	cts->size_high = (uint16_t)(spec->bytes[i] >> 32 | flags);
	cts->max_chunks = plan->grants[i];
	cts->group = (uint8_t)(plan->cnt | i << 4);
	cts->sequence = end->posted + i + 1;
}

/* The receive's members and entries on this side; the caller posts them. */
static SXT_INLINE void entries_make(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				    const struct plan *plan, const struct sxt_request *request)
{
	uint16_t owner = plan->optional ? SXT_NONE : request->index;
	uint32_t i;

	for (i = 0; i < plan->cnt; i++) {
		struct sxt_wire_cts *cts =
			plan->cnt == 1 && end->can_inline
				? &end->cts
				: &end->shadow[(end->posted + i) % SXT_RING_ENTRIES];

		entry_fill(end, spec, plan, i, cts);
		if (plan->members == 0)
			continue;
		struct sxt_member *member = member_open(end, plan, i, owner);

		cts->handle = (uint16_t)(member - end->members);
		cts->generation = member->generation;
	}
}

/* The work request for entries that do not wrap; `from` is the first one's copy on this side. */
static void write_make(struct sxt_recv_end *end, struct ibv_send_wr *wr, uint64_t position,
		       const struct sxt_wire_cts *from, uint32_t cnt)
{
	wr->sg_list->addr = (uintptr_t)from;
	wr->sg_list->length = cnt * (uint32_t)sizeof(*from);
	wr->wr.rdma.remote_addr =
		end->ring_addr + position % SXT_RING_ENTRIES * sizeof(struct sxt_wire_cts);
}

/* A group over the ring's end: two writes, still one doorbell. */
static SXT_COLD int post_wrapped(struct sxt_recv_end *end, struct sxt_path *path, uint32_t cnt)
{
	uint32_t before = SXT_RING_ENTRIES - (uint32_t)(end->posted % SXT_RING_ENTRIES);
	struct ibv_send_wr first = end->wr;
	struct ibv_sge sge = end->sge;
	struct ibv_send_wr *bad;

	first.sg_list = &sge;
	first.wr_id = sxt_wr_id(path, SXT_WR_CTS, 0);
	first.next = &end->wr;
	first.send_flags = 0;
	write_make(end, &first, end->posted, &end->shadow[SXT_RING_ENTRIES - before], before);
	write_make(end, &end->wr, end->posted + before, end->shadow, cnt - before);
	return ibv_post_send(path->qp, &first, &bad);
}

/*
 * Write the receive's entries. A single one goes inline where the provider takes 64 bytes (some
 * stop at 48): the HCA then fetches nothing. Several go as one write out of the shadow: one work
 * request instead of up to eight, and the peer checks each entry's own sequence.
 *
 * The send queue drains: an optional entry is signaled, of the other writes on a path at least one
 * in SXT_CTS_SIGNAL_EVERY, so no more than that many stay unproven once all are polled.
 */
static SXT_INLINE int post_entries(struct sxt_recv_end *end, const struct plan *plan,
				   struct sxt_path *path, struct sxt_request *request)
{
	uint32_t slot = (uint32_t)(end->posted % SXT_RING_ENTRIES);
	bool wraps = slot + plan->cnt > SXT_RING_ENTRIES;
	uint16_t cts_end = (uint16_t)(path->cts_posted + 1 + wraps);
	bool in_line = plan->cnt == 1 && end->can_inline;
	bool signaled =
		plan->optional || (uint16_t)(cts_end - path->cts_signaled) >= SXT_CTS_SIGNAL_EVERY;
	struct ibv_send_wr *bad;

	end->wr.send_flags = (in_line ? IBV_SEND_INLINE : 0u) | (signaled ? IBV_SEND_SIGNALED : 0u);
	end->wr.wr_id = plan->optional ? sxt_wr_id(path, SXT_WR_CTS_OPTIONAL, request->index)
				       : sxt_wr_id(path, SXT_WR_CTS, cts_end);
	end->wr.wr.rdma.rkey = path->rkey;
	end->sge.lkey = path->lkey;
	if (signaled)
		path->cts_signaled = cts_end;
	path->cts_posted = cts_end;
	request->cts_end = cts_end;
	if (SXT_UNLIKELY(wraps))
		return post_wrapped(end, path, plan->cnt);
	write_make(end, &end->wr, end->posted, in_line ? &end->cts : &end->shadow[slot], plan->cnt);
	return ibv_post_send(path->qp, &end->wr, &bad);
}

/*
 * Made twice by the compiler: nearly all receives are of one message that is waited for, and with
 * both known a third of the instructions goes away.
 */
static SXT_INLINE int recv_kind(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				uint32_t cnt, bool optional, struct sxt_request **out)
{
	struct sxt_path *path = sxt_conn_path(&end->conn, end->posted);
	struct sxt_request *request;
	struct plan plan;
	int rc;

	if (SXT_UNLIKELY(!plan_make(end, spec, cnt, optional, &plan)))
		return sxt_recv_bad_spec(end, spec);
	rc = make_room(end, &plan, path);
	if (rc != 0)
		return rc;
	request = sxt_request_take(&end->conn);
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->cnt = (uint8_t)cnt;
	request->open = (uint8_t)cnt;
	request->flags = SXT_REQ_ACTIVE | (plan.optional ? SXT_REQ_OPTIONAL : 0);
	request->path = (uint8_t)(path - end->conn.paths);
	request->striped = plan.receives > cnt || cnt > 1;
	request->position = end->posted + cnt;
	request->sizes[0] = 0;
	entries_make(end, spec, &plan, request);
	rc = post_entries(end, &plan, path, request);
	if (SXT_UNLIKELY(rc != 0)) {
		sxt_request_give(request);
		return sxt_conn_post_failed(&end->conn, path, rc, "a clear-to-send");
	}
	end->posted += cnt;
	end->rq_reserved += plan.receives;
	if (plan.members != 0)
		end->asked = end->posted;
	*out = request;
	return 0;
}

static SXT_NOINLINE int recv_any(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				 struct sxt_request **out)
{
	return recv_kind(end, spec, (uint32_t)spec->cnt, spec->optional, out);
}

static int recv_owned(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
		      struct sxt_request **out)
{
	if (SXT_UNLIKELY(end->conn.attention)) {
		int rc = sxt_conn_attend(&end->conn, NULL);

		if (rc != 0)
			return rc;
	}
	if (SXT_LIKELY(spec->cnt == 1 && !spec->optional))
		return recv_kind(end, spec, 1, false, out);
	return recv_any(end, spec, out);
}

int sxt_recv(struct sxt_conn *conn, const struct sxt_recv_spec *spec, struct sxt_request **out)
{
	struct sxt_context *ctx = conn->ctx;
	int rc;

	if (!sxt_context_try_own(ctx))
		return -EAGAIN;
	if (SXT_UNLIKELY(atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0))
		sxt_context_read_notes(ctx);
	if (SXT_LIKELY(conn->kind == SXT_CONN_RECV))
		rc = recv_owned(sxt_recv_end(conn), spec, out);
	else
		rc = sxt_conn_misuse(conn, 0);
	sxt_context_disown(ctx);
	return rc;
}

/*
 * The sender works through the ring in order, so a message of a group proves everything before
 * the group used up, and the last one the group too.
 */
static void prove(struct sxt_recv_end *end, const struct sxt_member *member, uint32_t cnt)
{
	uint16_t behind = (uint16_t)((uint16_t)end->posted - member->ring_begin);
	uint64_t position = end->posted - behind + cnt;

	if (position > end->consumed)
		end->consumed = position;
}

static void member_whole(struct sxt_recv_end *end, struct sxt_member *member)
{
	uint32_t proven = 1; /* an optional one that was asked for proof stands alone */

	end->rq_reserved -= member->granted - member->arrived;
	end->messages_taken++;
	if (member->request != SXT_NONE) {
		struct sxt_request *request = &end->requests[member->request];

		request->sizes[member->place] = sxt_size_saturate(member->bytes);
		request->open--;
		proven = request->open == 0 ? request->cnt : 0;
		if (request->open == 0)
			sxt_request_finish(request);
	}
	prove(end, member, proven);
	member_close(end, member);
}

/* The size record that came instead of data: the whole message's size. */
static bool record_take(const struct sxt_recv_end *end, struct sxt_member *member)
{
	const struct sxt_wire_record *record = &end->records[member - end->members];
	uint64_t value = record->size_and_generation;

	if (value >> 48 != member->generation)
		return false;
	member->bytes = value & 0xffffffffffffull;
	return true;
}

void sxt_recv_arrived(struct sxt_recv_end *end, struct sxt_path *path, const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data);
	uint32_t handle = imm >> SXT_IMM_HANDLE_SHIFT;
	uint32_t index = imm >> SXT_IMM_INDEX_SHIFT & SXT_IMM_INDEX_MASK;
	struct sxt_member *member = &end->members[handle % SXT_MEMBERS_MAX];

	path->rq_posted--;
	if (path->rq_posted < end->rq_low)
		end->rq_low = path->rq_posted;
	path->worked = true;
	if (SXT_UNLIKELY(wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_OPCODE);
		return;
	}
	if (SXT_UNLIKELY(handle >= SXT_MEMBERS_MAX || !member->open)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_NO_MEMBER);
		return;
	}
	if (SXT_UNLIKELY((imm >> SXT_IMM_GEN_SHIFT) % SXT_IMM_GENERATIONS != member->generation)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_OLD);
		return;
	}
	if (SXT_UNLIKELY(index >= member->granted || (member->chunks >> index & 1u) != 0)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_CHUNK);
		return;
	}
	member->chunks |= 1ull << index;
	member->arrived++;
	end->rq_reserved--;
	if (SXT_LIKELY((imm & SXT_IMM_RECORD) == 0)) {
		member->bytes += wc->byte_len;
	} else if (!record_take(end, member)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_STALE_RECORD);
		return;
	}
	if ((imm & SXT_IMM_LAST) != 0)
		member->expected = (uint8_t)(index + 1);
	if (member->arrived == member->expected)
		member_whole(end, member);
	else
		prove(end, member, 0);
}
