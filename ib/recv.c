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
	uint32_t cnt; /* ring entries */
	uint32_t receives;
	struct sxt_request *proof; /* an optional one's that asks for proof */
	bool optional;
	bool wants_imm;                /* one immediate at least per message */
	uint8_t group;                 /* SXT_CTS_GROUP_*, of the first */
	uint8_t grants[SXT_RECVS_MAX]; /* chunks of each */
};

static int path_fill(struct sxt_recv_end *end, struct sxt_path *path)
{
	uint64_t wr_id = sxt_wr_id(path, SXT_WR_RECV, 0);
	struct ibv_recv_wr *bad;
	int rc;

	if (end->receives[0].wr_id != wr_id) {
		for (uint32_t i = 0; i < SXT_RECV_BATCH; i++)
			end->receives[i] = (struct ibv_recv_wr){
				.wr_id = wr_id,
				.next = i + 1 < SXT_RECV_BATCH ? &end->receives[i + 1] : NULL,
			};
	}
	while (path->rq_posted + SXT_RECV_BATCH <= SXT_RECV_RQ_DEPTH) {
		rc = ibv_post_recv(path->qp, end->receives, &bad);
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

/* A proof that is still waited for speaks for this one too. */
static struct sxt_request *proof_wanted(const struct sxt_recv_end *end)
{
	struct sxt_request *proof =
		&end->requests[SXT_REQUESTS_MAX + end->proof_next % SXT_PROOFS_MAX];

	if (end->posted + 1 - end->asked < SXT_CREDIT_EVERY || sxt_request_waits(proof) != 0)
		return NULL;
	return proof;
}

static bool plan_make(const struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
		      struct plan *out)
{
	uint32_t i;

	if (spec->cnt < 1 || spec->cnt > SXT_RECVS_MAX || (spec->optional && spec->cnt != 1))
		return false;
	out->cnt = (uint32_t)spec->cnt;
	out->optional = spec->optional;
	out->receives = 0;
	for (i = 0; i < out->cnt; i++) {
		uint32_t grant = 1;

		if (SXT_UNLIKELY(spec->bytes[i] > end->whole_bytes))
			grant = chunks_of(end, spec->bytes[i], out->cnt);
		if (grant == 0 || (spec->mrs[i] == NULL && spec->bytes[i] != 0))
			return false;
		out->grants[i] = (uint8_t)grant;
		out->receives += grant;
	}
	out->proof = out->optional ? proof_wanted(end) : NULL;
	out->wants_imm = !out->optional || out->proof != NULL;
	out->group = (uint8_t)out->cnt;
	if (out->cnt > 1 && out->receives == out->cnt)
		out->group |= SXT_CTS_GROUP_TOGETHER;
	if (!out->wants_imm)
		out->receives = 0;
	return out->receives <= SXT_RECV_RQ_DEPTH;
}

/* A group over the ring's end takes two work requests. */
static bool fits(const struct sxt_recv_end *end, const struct plan *plan,
		 const struct sxt_path *path)
{
	return end->conn.free_requests != NULL &&
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
static int make_room(struct sxt_recv_end *end, const struct plan *plan, const struct sxt_path *path)
{
	int rc = receives_top_up(end);

	if (rc != 0 || SXT_LIKELY(fits(end, plan, path)))
		return rc;
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

/* One key per port of ours; the others stay what they were, nobody reads them. */
static void keys_fill(const struct sxt_recv_end *end, const struct sxt_mr *mr,
		      struct sxt_wire_cts *cts)
{
	uint32_t ports_cnt = end->ports_cnt;

	for (uint32_t i = 0; i < ports_cnt; i++)
		cts->rkeys[i] = mr != NULL ? mr->rkeys[i] : end->records_mrs[i]->rkey;
}

static SXT_INLINE void entry_fill(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				  const struct plan *plan, uint32_t i, struct sxt_wire_cts *cts)
{
	const struct sxt_mr *mr = spec->mrs[i];
	uint16_t flags = plan->wants_imm ? SXT_CTS_WANT_IMM : 0;

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
	cts->group = (uint8_t)(plan->group | i << SXT_CTS_GROUP_PLACE_SHIFT);
	cts->sequence = end->posted + i + 1;
}

/* A request's next use, waiting for the messages of a plan. */
static void await(struct sxt_recv_end *end, struct sxt_request *request, const struct plan *plan)
{
	uint32_t open = 0;
	uint32_t i;

	request->imm = (uint16_t)(request->imm + SXT_REQ_IMM_NEXT);
	request->cnt = (uint8_t)plan->cnt;
	request->position = end->posted + plan->cnt;
	for (i = 0; plan->receives != plan->cnt && i < plan->cnt; i++) {
		if (plan->grants[i] == 1)
			continue;
		open |= 1u << i;
		end->members[request->index * SXT_RECVS_MAX + i] =
			(struct sxt_member){.granted = plan->grants[i]};
	}
	request->open = (uint8_t)open;
	request->fresh = (uint8_t)(((1u << plan->cnt) - 1) & ~open);
}

/* The receive's entries on this side; `waiting` is whose members their messages are, or NULL. */
static void entries_make(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
			 const struct plan *plan, const struct sxt_request *waiting)
{
	uint32_t i;

	for (i = 0; i < plan->cnt; i++) {
		struct sxt_wire_cts *cts = &end->shadow[(end->posted + i) % SXT_RING_ENTRIES];

		entry_fill(end, spec, plan, i, cts);
		if (waiting == NULL)
			continue;
		cts->handle = (uint16_t)(waiting->index * SXT_RECVS_MAX + i);
		cts->generation = (uint8_t)sxt_request_generation(waiting);
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

/*
 * Write the receive's entries. A single one goes inline where the provider takes 64 bytes (some
 * stop at 48): the HCA then fetches nothing. Several go as one write out of the shadow: one work
 * request instead of up to eight, and the peer checks each entry's own sequence. A group over the
 * ring's end takes two, still one doorbell.
 *
 * The send queue drains: an optional entry is signaled, of the other writes on a path at least one
 * in SXT_CTS_SIGNAL_EVERY, so no more than that many stay unproven once all are polled.
 */
static int post_entries(struct sxt_recv_end *end, const struct plan *plan, struct sxt_path *path,
			struct sxt_request *request)
{
	uint32_t slot = (uint32_t)(end->posted % SXT_RING_ENTRIES);
	bool wraps = slot + plan->cnt > SXT_RING_ENTRIES;
	uint32_t before = wraps ? SXT_RING_ENTRIES - slot : plan->cnt;
	uint16_t cts_end = (uint16_t)(path->cts_posted + 1 + wraps);
	struct ibv_sge sges[2];
	struct ibv_send_wr first;
	struct ibv_send_wr last; /* what a write needs is set, the rest nobody reads */
	struct ibv_send_wr *bad;

	sges[0].lkey = path->lkey;
	last.next = NULL;
	last.sg_list = &sges[0];
	last.num_sge = 1;
	last.opcode = IBV_WR_RDMA_WRITE;
	last.wr_id = plan->optional ? sxt_wr_id(path, SXT_WR_CTS_OPTIONAL, request->index)
				    : sxt_wr_id(path, SXT_WR_CTS, cts_end);
	last.wr.rdma.rkey = path->rkey;
	last.send_flags = plan->cnt == 1 && end->can_inline ? IBV_SEND_INLINE : 0;
	if (plan->optional || (uint16_t)(cts_end - path->cts_signaled) >= SXT_CTS_SIGNAL_EVERY) {
		last.send_flags |= IBV_SEND_SIGNALED;
		path->cts_signaled = cts_end;
	}
	path->cts_posted = cts_end;
	if (plan->optional)
		request->optional.cts_end = cts_end;
	write_make(end, &last, end->posted, &end->shadow[slot], before);
	if (SXT_LIKELY(!wraps))
		return ibv_post_send(path->qp, &last, &bad);
	first = last;
	first.send_flags = 0;
	first.next = &last;
	sges[1].lkey = path->lkey;
	last.sg_list = &sges[1];
	write_make(end, &last, end->posted + before, end->shadow, plan->cnt - before);
	return ibv_post_send(path->qp, &first, &bad);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/*
 * How many plain receives may follow one another without a look at the pools: what is left of each
 * only grows meanwhile by what completes, and none of them is signaled. They take the paths in
 * turn.
 */
static uint32_t plain_budget(const struct sxt_recv_end *end)
{
	uint32_t unsignaled = SXT_CTS_SIGNAL_EVERY - 1;
	uint32_t left = (uint32_t)(SXT_RING_ENTRIES - (end->posted - end->consumed));
	uint32_t i;

	if (!end->can_inline)
		return 0;
	for (i = 0; i < end->conn.paths_cnt; i++) {
		const struct sxt_path *path = &end->conn.paths[i];
		uint16_t since = (uint16_t)(path->cts_posted - path->cts_signaled);
		uint16_t open = (uint16_t)(path->cts_posted - path->cts_acked);

		unsignaled = smaller(unsignaled, SXT_CTS_SIGNAL_EVERY - 1 - since);
		if (open >= SXT_RECV_SQ_USABLE - 1)
			return 0;
		unsignaled = smaller(unsignaled, SXT_RECV_SQ_USABLE - 1 - open);
	}
	left = smaller(left, end->rq_low - end->rq_reserved);
	return smaller(left, unsignaled * end->conn.paths_cnt);
}

static int recv_planned(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
			struct sxt_request **out)
{
	struct sxt_path *path = sxt_conn_path(&end->conn, end->posted);
	struct sxt_request *waiting;
	struct sxt_request *request;
	struct plan plan;
	int rc;

	if (SXT_UNLIKELY(!plan_make(end, spec, &plan)))
		return sxt_recv_bad_spec(end, spec);
	rc = make_room(end, &plan, path);
	if (rc != 0)
		return rc;
	request = sxt_request_take(&end->conn);
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->cnt = (uint8_t)plan.cnt;
	request->flags = plan.optional ? SXT_REQ_OPTIONAL : 0;
	request->path = path;
	request->position = end->posted + plan.cnt;
	request->sizes[0] = 0;
	if (end->conn.paths_cnt > 1 && plan.receives > 1)
		request->flags |= SXT_REQ_STRIPED;
	waiting = plan.optional ? plan.proof : request;
	if (waiting != NULL)
		await(end, waiting, &plan);
	entries_make(end, spec, &plan, waiting);
	rc = post_entries(end, &plan, path, request);
	if (SXT_UNLIKELY(rc != 0)) {
		request->open = 0;
		request->fresh = 0;
		sxt_request_give(request);
		return sxt_conn_post_failed(&end->conn, path, rc, "a clear-to-send");
	}
	end->posted += plan.cnt;
	end->rq_reserved += plan.receives;
	end->proof_next += plan.proof != NULL;
	if (plan.wants_imm)
		end->asked = end->posted;
	*out = request;
	return 0;
}

/* The entries of a group that needs nothing special. Return: false if it does. */
static SXT_INLINE bool group_entries(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				     uint64_t word)
{
	struct sxt_wire_cts *cts = &end->shadow[end->posted % SXT_RING_ENTRIES];
	struct sxt_mr *const *mrs = spec->mrs; /* locals: what is written might be any of these */
	void *const *data = spec->data;
	const uint64_t *bytes = spec->bytes;
	const int *tags = spec->tags;
	uint64_t most = end->whole_bytes;
	uint64_t sequence = end->posted;
	uint64_t lap = sxt_cts_lap(sequence);
	uint64_t cnt = (uint64_t)spec->cnt;
	uint64_t i;

	for (i = 0; i < cnt; i++, cts++) {
		const struct sxt_mr *mr = mrs[i];

		if (SXT_UNLIKELY(mr == NULL || bytes[i] > most))
			return false;
		cts->addr_lap = (uintptr_t)data[i] | lap;
		cts->rkeys[0] = mr->rkeys[0];
		cts->tag = (uint32_t)tags[i];
		cts->size_low = (uint32_t)bytes[i];
		memcpy((char *)cts + offsetof(struct sxt_wire_cts, size_high), &word, sizeof(word));
		word += 1ull << SXT_CTS_WORD_HANDLE_SHIFT |
			1ull << (SXT_CTS_WORD_GROUP_SHIFT + SXT_CTS_GROUP_PLACE_SHIFT);
		cts->sequence = ++sequence;
	}
	return true;
}

/* Any receive; the owner word is held and given back. */
static SXT_NOINLINE int recv_any(struct sxt_conn *conn, const struct sxt_recv_spec *spec,
				 struct sxt_request **out)
{
	struct sxt_recv_end *end = sxt_recv_end(conn);
	struct sxt_context *ctx = conn->ctx;
	int rc = 0;

	if (SXT_UNLIKELY(atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0))
		sxt_context_read_notes(ctx);
	if (SXT_UNLIKELY(conn->kind != SXT_CONN_RECV))
		rc = sxt_conn_misuse(conn, 0);
	else if (SXT_UNLIKELY(conn->attention))
		rc = sxt_conn_attend(conn, NULL);
	if (rc == 0)
		rc = receives_top_up(end);
	if (rc == 0) {
		rc = recv_planned(end, spec, out);
		end->plain_left = spec->cnt == 1 ? plain_budget(end) : 0;
	}
	sxt_context_disown(ctx);
	return rc;
}

/*
 * A group as most are: messages of one write each, waited for, on one path, not over the ring's
 * end, in one unsignaled write. The owner word is held and given back.
 */
static SXT_NOINLINE int recv_group(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				   struct sxt_request **out)
{
	uint32_t cnt = (uint32_t)spec->cnt;
	struct sxt_request *request = end->conn.free_requests;
	struct sxt_path *path = end->conn.paths;
	uint16_t cts_end = (uint16_t)(path->cts_posted + 1);
	struct ibv_send_wr *bad;
	uint64_t word;
	int rc = receives_top_up(end);

	if (rc != 0 || request == NULL || cnt - 2 > SXT_RECVS_MAX - 2 || end->conn.paths_cnt != 1 ||
	    end->posted % SXT_RING_ENTRIES + cnt > SXT_RING_ENTRIES ||
	    end->posted + cnt - end->consumed > SXT_RING_ENTRIES ||
	    end->rq_reserved + cnt > end->rq_low ||
	    (uint16_t)(cts_end - path->cts_signaled) >= SXT_CTS_SIGNAL_EVERY ||
	    (uint16_t)(path->cts_posted - path->cts_acked) > SXT_RECV_SQ_USABLE - 2)
		return recv_any(&end->conn, spec, out);
	word = SXT_CTS_WANT_IMM |
	       (uint64_t)(request->index * SXT_RECVS_MAX) << SXT_CTS_WORD_HANDLE_SHIFT |
	       1ull << SXT_CTS_WORD_CHUNKS_SHIFT |
	       (uint64_t)((uint16_t)(request->imm + SXT_REQ_IMM_NEXT) >> SXT_IMM_GEN_SHIFT)
		       << SXT_CTS_WORD_GEN_SHIFT |
	       (uint64_t)(SXT_CTS_GROUP_TOGETHER | cnt) << SXT_CTS_WORD_GROUP_SHIFT;
	if (!group_entries(end, spec, word))
		return recv_any(&end->conn, spec, out);
	end->group_sge.addr = (uintptr_t)&end->shadow[end->posted % SXT_RING_ENTRIES];
	end->group_sge.length = cnt * (uint32_t)sizeof(*end->shadow);
	end->group_wr.wr.rdma.remote_addr =
		end->ring_addr + end->posted % SXT_RING_ENTRIES * sizeof(*end->shadow);
	request = sxt_request_take(&end->conn);
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->fresh = (uint8_t)((1u << cnt) - 1);
	request->open = 0;
	request->cnt = (uint8_t)cnt;
	request->flags = 0;
	request->imm = (uint16_t)(request->imm + SXT_REQ_IMM_NEXT);
	request->path = path;
	request->position = end->posted + cnt;
	end->posted += cnt;
	end->asked = end->posted;
	end->rq_reserved += cnt;
	end->plain_left = 0; /* counted anew by the next that asks */
	path->cts_posted = cts_end;
	rc = ibv_post_send(path->qp, &end->group_wr, &bad);
	if (SXT_UNLIKELY(rc != 0))
		rc = sxt_conn_post_failed(&end->conn, path, rc, "a clear-to-send");
	else
		*out = request;
	sxt_context_disown(end->conn.ctx);
	return rc;
}

void sxt_recv_ready(struct sxt_recv_end *end)
{
	const struct sxt_path *path = &end->conn.paths[0];

	end->wr.sg_list = &end->sge;
	end->wr.num_sge = 1;
	end->wr.opcode = IBV_WR_RDMA_WRITE;
	end->wr.send_flags = IBV_SEND_INLINE;
	end->wr.wr_id = sxt_wr_id(path, SXT_WR_CTS, 0);
	end->wr.wr.rdma.rkey = path->rkey;
	end->sge.addr = (uintptr_t)&end->cts;
	end->sge.length = sizeof(end->cts);
	end->group_wr = end->wr;
	end->group_wr.send_flags = 0;
	end->group_wr.sg_list = &end->group_sge;
	end->group_sge.lkey = path->lkey;
	end->cts.size_high = SXT_CTS_WANT_IMM;
	end->cts.max_chunks = 1;
	end->cts.group = 1;
	end->plain_left = plain_budget(end);
}

/* The path of a plain receive, and in its work request and entry what depends on that. */
static SXT_INLINE struct sxt_path *plain_path(struct sxt_recv_end *end, const struct sxt_mr *mr)
{
	struct sxt_path *path = end->conn.paths;

	end->cts.rkeys[0] = mr->rkeys[0];
	if (SXT_LIKELY(end->conn.paths_cnt == 1))
		return path;
	path += end->posted % end->conn.paths_cnt;
	end->wr.wr_id = sxt_wr_id(path, SXT_WR_CTS, 0);
	end->wr.wr.rdma.rkey = path->rkey;
	for (uint32_t i = 1; i < end->ports_cnt; i++)
		end->cts.rkeys[i] = mr->rkeys[i];
	return path;
}

/*
 * A receive as nearly all are: one message of one write that is waited for, on a connection where
 * nothing is the matter. Its entry goes inline and unsignaled, its work request and what never
 * changes in the entry were made when the connection was. The owner word is held and given back.
 */
static SXT_INLINE int recv_plain(struct sxt_recv_end *end, const struct sxt_recv_spec *spec,
				 struct sxt_request **out)
{
	struct sxt_request *request = sxt_request_take(&end->conn);
	struct sxt_path *path = plain_path(end, spec->mrs[0]);
	uint64_t position = end->posted;
	struct ibv_send_wr *bad;
	int rc;

	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->fresh = 1;
	request->open = 0;
	request->cnt = 1;
	request->flags = 0;
	request->imm = (uint16_t)(request->imm + SXT_REQ_IMM_NEXT);
	request->path = path;
	request->position = position + 1;
	end->cts.addr_lap = (uintptr_t)spec->data[0] | sxt_cts_lap(position);
	end->cts.tag = (uint32_t)spec->tags[0];
	end->cts.size_low = (uint32_t)spec->bytes[0];
	end->cts.handle = (uint16_t)(request->index * SXT_RECVS_MAX);
	end->cts.generation = (uint8_t)sxt_request_generation(request);
	end->cts.sequence = position + 1;
	end->wr.wr.rdma.remote_addr =
		end->ring_addr + position % SXT_RING_ENTRIES * sizeof(struct sxt_wire_cts);
	end->posted = position + 1;
	end->asked = position + 1;
	end->rq_reserved++;
	end->plain_left--;
	path->cts_posted++;
	rc = ibv_post_send(path->qp, &end->wr, &bad);
	if (SXT_UNLIKELY(rc != 0))
		rc = sxt_conn_post_failed(&end->conn, path, rc, "a clear-to-send");
	else
		*out = request;
	sxt_context_disown(end->conn.ctx);
	return rc;
}

static SXT_INLINE bool is_plain(const struct sxt_recv_end *end, const struct sxt_recv_spec *spec)
{
	return !spec->optional && spec->mrs[0] != NULL && spec->bytes[0] <= end->whole_bytes &&
	       end->plain_left != 0 && end->conn.free_requests != NULL;
}

int sxt_recv(struct sxt_conn *conn, const struct sxt_recv_spec *spec, struct sxt_request **out)
{
	if (!sxt_context_try_own(conn->ctx))
		return -EAGAIN;
	if (SXT_UNLIKELY(!sxt_conn_is_calm(conn, SXT_CONN_RECV) ||
			 atomic_load_explicit(&conn->ctx->mailbox, memory_order_relaxed) != 0))
		return recv_any(conn, spec, out);
	if (spec->cnt > 1)
		return recv_group(sxt_recv_end(conn), spec, out);
	if (SXT_LIKELY(spec->cnt == 1 && is_plain(sxt_recv_end(conn), spec)))
		return recv_plain(sxt_recv_end(conn), spec, out);
	return recv_any(conn, spec, out);
}
