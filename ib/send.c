/*
 * send.c - the sending end's hot path: finds the receive a message is for in the ring the peer
 * writes, and posts the message as RDMA writes.
 *
 * Thread: NCCL's data path, under the owner word. Never waits, allocates, logs or calls the system.
 */
#include "ib/send.h"

#include <errno.h>

static const struct sxt_wire_cts *ring_entry(const struct sxt_send_end *end, uint64_t position)
{
	return &end->ring[position % SXT_RING_ENTRIES];
}

/* Both ends of the line are there; acquire keeps the loads of what is between behind them. */
static SXT_INLINE bool entry_is(const struct sxt_wire_cts *cts, uint64_t position, uint8_t lap)
{
	uint64_t sequence;
	uint64_t addr_lap;

	sequence = atomic_load_explicit((const _Atomic uint64_t *)&cts->sequence,
					memory_order_acquire);
	if (sequence - position != 1)
		return false;
	addr_lap = atomic_load_explicit((const _Atomic uint64_t *)&cts->addr_lap,
					memory_order_acquire);
	return (uint8_t)(addr_lap >> SXT_CTS_LAP_SHIFT) == lap;
}

static SXT_INLINE bool ring_has(const struct sxt_send_end *end, uint64_t position)
{
	return entry_is(ring_entry(end, position), position,
			(uint8_t)(sxt_cts_lap(position) >> SXT_CTS_LAP_SHIFT));
}

/*
 * A group that was opened: where the peer takes it so and there is one path, its members are told
 * together. Their entries in the send queue are taken now.
 */
static SXT_INLINE void gather_begin(struct sxt_send_end *end, uint32_t cnt, uint32_t group)
{
	if ((group & SXT_CTS_GROUP_TOGETHER) == 0 || end->gathered_bytes == 0 ||
	    end->conn.paths->sq_used + cnt + 1 > SXT_SEND_SQ_DEPTH)
		return;
	end->member_bytes = end->gathered_bytes;
	end->members_posted = 0;
	end->gathered_wrs = cnt + 1;
	end->conn.paths->sq_used += cnt + 1;
	end->untold = NULL;
	end->patience = SXT_GATHER_PATIENCE;
	end->conn.is_gathering = 1;
}

/* Whether the entries of a group after its first are there. */
static SXT_INLINE bool ring_has_rest(const struct sxt_send_end *end, uint32_t cnt)
{
	const struct sxt_wire_cts *cts = ring_entry(end, end->head);
	uint64_t position = end->head;
	uint64_t last = position + cnt - 1;
	uint8_t lap = (uint8_t)(sxt_cts_lap(position) >> SXT_CTS_LAP_SHIFT);

	while (position != last) {
		cts++;
		if (SXT_UNLIKELY(++position % SXT_RING_ENTRIES == 0)) {
			cts = end->ring;
			lap++;
		}
		if (!entry_is(cts, position, lap))
			return false;
	}
	return true;
}

/*
 * The oldest group, whose first entry is there. It counts when every member is: matching over half
 * of one could mismatch tags.
 */
static SXT_NOINLINE int open_group(struct sxt_send_end *end)
{
	const struct sxt_wire_cts *first = ring_entry(end, end->head);
	uint32_t group = first->group;
	uint32_t cnt = group & SXT_CTS_GROUP_CNT;

	if (SXT_UNLIKELY(cnt - 1 >= SXT_RECVS_MAX || (group & SXT_CTS_GROUP_PLACE) != 0))
		return sxt_send_bad_cts(end, first);
	if (!ring_has_rest(end, cnt))
		return end->conn.peer_closed ? sxt_send_closed(end) : -EAGAIN;
	end->group_cnt = cnt;
	end->free_mask = (1u << cnt) - 1;
	gather_begin(end, cnt, group);
	return 0;
}

/* The first free member with this tag of the oldest group; later groups wait their turn. */
static int find_member(const struct sxt_send_end *end, uint32_t tag, uint64_t *place_out)
{
	uint32_t mask;

	for (mask = end->free_mask; mask != 0; mask &= mask - 1) {
		uint64_t place = (uint64_t)__builtin_ctz(mask);

		if (ring_entry(end, end->head + place)->tag != tag)
			continue;
		*place_out = place;
		return 0;
	}
	return -EAGAIN;
}

/* The immediate of a message of one write, in network order. */
static SXT_INLINE uint32_t immediate_whole(uint64_t word)
{
	uint32_t handle = (uint32_t)word & 0xffffu << SXT_CTS_WORD_HANDLE_SHIFT;
	uint32_t generation = (uint32_t)(word >> (SXT_CTS_WORD_GEN_SHIFT - SXT_IMM_GEN_SHIFT)) &
			      (SXT_IMM_GENERATIONS - 1) << SXT_IMM_GEN_SHIFT;

	_Static_assert(SXT_CTS_WORD_HANDLE_SHIFT == SXT_IMM_HANDLE_SHIFT, "the handle stays");
	return htonl(handle | generation | SXT_IMM_LAST);
}

/* Undo a message whose write was refused: its connection has failed. */
static SXT_COLD int whole_refused(struct sxt_send_end *end, struct sxt_request *request, int rc)
{
	struct sxt_path *path = request->path;

	path->sq_used--;
	request->open = 0;
	request->flags = 0;
	sxt_request_give(request);
	return sxt_conn_post_failed(&end->conn, path, rc, "a message");
}

/*
 * A message's request, and the work request of its data; the caller has seen a free request, room
 * in the path's queue and in the receive. Nobody looks at the request before the owner word is
 * given back: its completion is polled under that.
 */
static SXT_INLINE struct sxt_request *whole_make(struct sxt_send_end *end,
						 const struct sxt_message *message,
						 struct sxt_path *path, struct ibv_send_wr *wr,
						 struct ibv_sge *sge)
{
	const struct sxt_wire_cts *cts = message->cts;
	uint64_t word = sxt_cts_word(cts);
	struct sxt_request *request = sxt_request_take(&end->conn);
	uint32_t flags = (uint32_t)word >> SXT_REQ_CTS_SHIFT & (SXT_REQ_IMM | SXT_REQ_OPTIONAL);

	sge->addr = message->addr;
	sge->length = (uint32_t)message->bytes;
	sge->lkey = message->mr != NULL ? message->mr->lkeys[path->local_place] : 0;
	wr->wr_id = request->sent.wr_id | path->wr_tail;
	wr->num_sge = message->bytes != 0;
	_Static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_RDMA_WRITE_WITH_IMM == SXT_REQ_IMM,
		       "whether there is an immediate is the opcode");
	wr->opcode = (enum ibv_wr_opcode)(flags & SXT_REQ_IMM);
	wr->imm_data = immediate_whole(word);
	wr->wr.rdma.remote_addr = cts->addr_lap & SXT_CTS_ADDR_MASK;
	wr->wr.rdma.rkey = cts->rkeys[path->peer_place];
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->open = 1;
	request->flags = (uint8_t)flags;
	request->sent.size = (int)message->bytes;
	request->sent.tag = message->tag;
	request->position = message->position;
	request->path = path;
	end->imms += flags & SXT_REQ_IMM;
	path->sq_used++;
	return request;
}

static SXT_INLINE int post_whole(struct sxt_send_end *end, const struct sxt_message *message,
				 struct sxt_path *path)
{
	struct sxt_request *request = whole_make(end, message, path, &end->wr, &end->sge);
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(path->qp, &end->wr, &bad);

	if (SXT_UNLIKELY(rc != 0))
		return whole_refused(end, request, rc);
	*message->out = request;
	return 0;
}

/* One write, and behind it the size record that brings its immediate. */
static int post_recorded(struct sxt_send_end *end, const struct sxt_message *message,
			 struct sxt_path *path)
{
	struct ibv_send_wr *wrs = end->recorded_wrs;
	struct sxt_request *request =
		whole_make(end, message, path, &wrs[0], &end->recorded_sges[0]);
	uint64_t *record = &end->records[request->index];
	struct ibv_send_wr *bad;
	int rc;

	*record = sxt_send_record(message);
	end->recorded_sges[1].addr = (uintptr_t)record;
	end->recorded_sges[1].lkey = path->lkey;
	wrs[0].opcode = IBV_WR_RDMA_WRITE;
	wrs[1].wr_id = sxt_wr_id(path, SXT_WR_SEND, sxt_wr_send_index(request->index, 2));
	wrs[1].imm_data = wrs[0].imm_data | htonl(SXT_IMM_RECORD);
	wrs[1].wr.rdma.remote_addr = end->records_addr + message->cts->handle * sizeof(*record);
	wrs[1].wr.rdma.rkey = path->rkey;
	path->sq_used++;
	*message->out = request;
	rc = ibv_post_send(path->qp, wrs, &bad);
	if (SXT_LIKELY(rc == 0))
		return 0;
	path->sq_used--;
	return whole_refused(end, request, rc);
}

void sxt_send_ready(struct sxt_send_end *end)
{
	struct ibv_send_wr *wrs = end->recorded_wrs;

	/* Those of another NIC, where the connection has moved. */
	end->gathered_bytes = 0;
	end->recorded_bytes = 0;
	end->wr.sg_list = &end->sge;
	end->wr.send_flags = IBV_SEND_SIGNALED;
	wrs[0].next = &wrs[1];
	wrs[0].sg_list = &end->recorded_sges[0];
	wrs[1].sg_list = &end->recorded_sges[1];
	wrs[1].num_sge = 1;
	wrs[1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wrs[1].send_flags = IBV_SEND_SIGNALED |
			    (end->inline_bytes >= sizeof(*end->records) ? IBV_SEND_INLINE : 0u);
	end->recorded_sges[1].length = sizeof(*end->records);
	for (uint32_t i = 0; i < SXT_RECVS_MAX; i++) {
		struct sxt_member_wr *member = &end->members[i];

		member->wr.next = &end->members[(i + 1) % SXT_RECVS_MAX].wr;
		member->wr.sg_list = &member->sge;
		member->wr.num_sge = 1;
		member->wr.opcode = IBV_WR_RDMA_WRITE;
	}
	end->group_wr.sg_list = &end->group_sge;
	end->group_wr.num_sge = 1;
	end->group_wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	end->group_wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	end->group_wr.wr.rdma.rkey = end->conn.paths->rkey;
	end->group_sge.addr = (uintptr_t)end->group_records;
	if (end->conn.paths_cnt == 1 && end->inline_bytes >= sizeof(end->group_records))
		end->gathered_bytes = end->whole_bytes;
	/* With a request's sent.wr_id, whose kind is SXT_WR_SEND, it says SXT_WR_CHUNK. */
	end->member_tail = end->conn.paths->wr_tail | (SXT_WR_CHUNK & ~SXT_WR_SEND);
	if (end->stripes == 1 && end->ar_bytes <= end->chunk_bytes)
		end->recorded_bytes = end->chunk_bytes;
}

int sxt_send_room(struct sxt_send_end *end, const struct sxt_path *path, uint32_t wrs)
{
	if (SXT_LIKELY(path->sq_used + wrs <= SXT_SEND_SQ_DEPTH))
		return 0;
	sxt_ignore(sxt_data_drain(&end->conn, path->cq));
	if (end->conn.attention) {
		int rc = sxt_conn_attend(&end->conn, NULL);

		if (rc != 0)
			return rc;
	}
	return path->sq_used + wrs <= SXT_SEND_SQ_DEPTH ? 0 : -EAGAIN;
}

void sxt_send_request_start(struct sxt_send_end *end, const struct sxt_message *message)
{
	struct sxt_request *request = sxt_request_take(&end->conn);
	uint32_t flags = message->cts->size_high >> SXT_REQ_CTS_SHIFT;

	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->flags = flags & (SXT_REQ_IMM | SXT_REQ_OPTIONAL);
	request->path = sxt_conn_path(&end->conn, message->position);
	request->position = message->position;
	request->sent.size = sxt_size_saturate(message->bytes);
	request->sent.tag = message->tag;
	request->sent.bytes = message->bytes;
	*message->out = request;
}

static int post(struct sxt_send_end *end, const struct sxt_message *message)
{
	struct sxt_path *path = sxt_conn_path(&end->conn, message->position);
	bool is_whole = message->bytes <= end->whole_bytes;
	int rc;

	if (!is_whole && (message->bytes > end->recorded_bytes ||
			  (message->cts->size_high & SXT_CTS_WANT_IMM) == 0))
		return sxt_send_cut(end, message);
	rc = sxt_send_room(end, path, is_whole ? 1 : 2);
	if (rc != 0)
		return rc;
	sxt_send_use_member(end, message->place);
	return is_whole ? post_whole(end, message, path) : post_recorded(end, message, path);
}

/* Nothing has to be written, or nobody waits for it any more. */
static void finish_unposted(struct sxt_send_end *end, const struct sxt_message *message)
{
	struct sxt_request *request = end->conn.free_requests;

	sxt_send_use_member(end, message->place);
	sxt_send_request_start(end, message);
	request->flags &= (uint8_t)~SXT_REQ_IMM;
	sxt_request_finish(request);
}

/* While a group is gathered its members are taken in order, so the free ones are the last. */
uint32_t sxt_send_untold_cnt(const struct sxt_send_end *end)
{
	return end->free_mask != 0 ? (uint32_t)__builtin_ctz(end->free_mask) : end->group_cnt;
}

/* The work request of the record that tells the peer of the first members of the oldest group. */
static SXT_INLINE void tell_make(struct sxt_send_end *end, uint32_t cnt)
{
	const struct sxt_wire_cts *cts = ring_entry(end, end->head);
	const struct sxt_request *last = end->untold;

	end->group_wr.wr_id = sxt_wr_id(last->path, SXT_WR_GROUP,
					sxt_wr_send_index(last->index, end->gathered_wrs));
	end->group_wr.imm_data =
		sxt_send_immediate(cts, SXT_IMM_GROUP | cnt, SXT_IMM_RECORD | SXT_IMM_LAST);
	end->group_wr.wr.rdma.remote_addr = end->records_addr + cts->handle * sizeof(*end->records);
	end->group_sge.length = cnt * (uint32_t)sizeof(*end->records);
	end->imms += cnt;
	end->member_bytes = 0;
	end->conn.is_gathering = 0;
}

/* Post the members that were kept back, and behind them, where it is time, the record of all. */
static int gather_post(struct sxt_send_end *end, bool tell)
{
	uint32_t cnt = sxt_send_untold_cnt(end);
	struct sxt_member_wr *member = &end->members[end->members_posted];
	struct ibv_send_wr *first = &member->wr;
	struct ibv_send_wr **link = &end->members[cnt - 1].wr.next;
	struct ibv_send_wr *next = *link;
	struct ibv_send_wr *bad;
	int rc;

	if (tell)
		tell_make(end, cnt);
	*link = tell ? &end->group_wr : NULL;
	if (end->members_posted == cnt)
		first = &end->group_wr;
	end->members_posted = cnt;
	rc = ibv_post_send(end->conn.paths->qp, first, &bad);
	*link = next;
	if (SXT_LIKELY(rc == 0))
		return 0;
	end->conn.is_gathering = 1;
	return sxt_conn_post_failed(&end->conn, end->conn.paths, rc, "messages of a group");
}

int sxt_send_tell(struct sxt_send_end *end)
{
	if (sxt_send_untold_cnt(end) != 0)
		return gather_post(end, true);
	end->member_bytes = 0;
	end->conn.is_gathering = 0;
	end->conn.paths->sq_used -= end->gathered_wrs;
	return 0;
}

/* What may have to wait comes before the member is used and the request taken. */
static SXT_INLINE int start(struct sxt_send_end *end, const struct sxt_message *message)
{
	const struct sxt_wire_cts *cts = message->cts;
	bool needed = message->bytes != 0 || (cts->size_high & SXT_CTS_WANT_IMM) != 0;

	if (SXT_UNLIKELY(message->bytes > sxt_cts_bytes(cts)))
		return sxt_send_too_large(end, cts, message->bytes);
	if (SXT_UNLIKELY(end->conn.peer_closed)) {
		/* What nobody waits for any more counts as delivered; not so a gathered group. */
		if ((cts->size_high & SXT_CTS_OPTIONAL) == 0 || end->conn.is_gathering)
			return sxt_send_closed(end);
		needed = false;
	}
	if (SXT_UNLIKELY(end->conn.is_gathering)) {
		int rc = sxt_send_tell(end);

		if (rc != 0)
			return rc;
	}
	if (SXT_LIKELY(needed))
		return post(end, message);
	finish_unposted(end, message);
	return 0;
}

static int send_one(struct sxt_send_end *end, struct sxt_message *message)
{
	int rc;

	if (SXT_UNLIKELY(end->conn.attention)) {
		rc = sxt_conn_attend(&end->conn, NULL);
		if (rc != 0)
			return rc;
	}
	if (end->free_mask == 0) {
		if (!ring_has(end, end->head))
			return end->conn.peer_closed ? sxt_send_closed(end) : -EAGAIN;
		rc = open_group(end);
		if (rc != 0)
			return rc;
	}
	rc = find_member(end, message->tag, &message->place);
	if (rc != 0)
		return rc;
	message->position = end->head + message->place;
	message->cts = ring_entry(end, message->position);
	if (SXT_UNLIKELY(end->conn.free_requests == NULL))
		return -EAGAIN;
	return start(end, message);
}

/* Any message; the owner word is held and given back. */
SXT_NOINLINE int sxt_send_any(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
			      struct sxt_mr *mr, struct sxt_request **out)
{
	struct sxt_message message = {
		.out = out, .mr = mr, .addr = (uintptr_t)data, .bytes = bytes, .tag = tag};
	struct sxt_context *ctx = conn->ctx;
	int rc;

	if (SXT_UNLIKELY(atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0))
		sxt_context_read_notes(ctx);
	if (SXT_UNLIKELY(conn->kind != SXT_CONN_SEND || (mr == NULL && bytes != 0)))
		rc = sxt_conn_misuse(conn, bytes);
	else
		rc = send_one(sxt_send_end(conn), &message);
	sxt_context_disown(ctx);
	return rc;
}

/* Nothing is to be attended to, and no note was left. */
static SXT_INLINE bool is_calm(const struct sxt_conn *conn)
{
	return sxt_conn_is_calm(conn, SXT_CONN_SEND) &&
	       atomic_load_explicit(&conn->ctx->mailbox, memory_order_relaxed) == 0;
}

enum sxt_send_look sxt_send_look(struct sxt_conn *conn)
{
	const struct sxt_send_end *end = sxt_send_end(conn);

	if (!sxt_context_try_own(conn->ctx))
		return SXT_SEND_WAIT;
	if (SXT_UNLIKELY(!is_calm(conn)))
		return SXT_SEND_ANY;
	if (end->free_mask != 0)
		return SXT_SEND_MEMBER;
	if (!ring_has(end, end->head)) {
		sxt_context_disown(conn->ctx);
		return SXT_SEND_WAIT;
	}
	return SXT_LIKELY(ring_entry(end, end->head)->group == 1) ? SXT_SEND_SINGLE
								  : SXT_SEND_FIRST;
}

int sxt_send_plain(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
		   struct sxt_mr *mr, struct sxt_request **out)
{
	struct sxt_send_end *end = sxt_send_end(conn);
	struct sxt_message message = {
		.cts = ring_entry(end, end->head),
		.out = out,
		.mr = mr,
		.addr = (uintptr_t)data,
		.bytes = bytes,
		.position = end->head,
		.tag = tag,
	};
	struct sxt_path *path = sxt_conn_path(conn, message.position);
	int rc;

	/* Neither 0 nor too much; whole_bytes is below 2^32. */
	if (SXT_UNLIKELY(message.cts->tag != tag || bytes - 1 >= end->whole_bytes ||
			 bytes > message.cts->size_low || mr == NULL ||
			 conn->free_requests == NULL || path->sq_used == SXT_SEND_SQ_DEPTH))
		return SXT_SEND_OTHERWISE;
	end->head++;
	rc = post_whole(end, &message, path);
	sxt_context_disown(conn->ctx);
	return rc;
}

bool sxt_send_open(struct sxt_conn *conn)
{
	return open_group(sxt_send_end(conn)) == 0;
}

/* The request and the work request of a member whose group is gathered. */
static SXT_INLINE struct sxt_request *member_make(struct sxt_send_end *end,
						  const struct sxt_message *message)
{
	struct sxt_path *path = end->conn.paths;
	struct sxt_request *request = sxt_request_take(&end->conn);
	struct sxt_member_wr *member = &end->members[message->place];
	const struct sxt_wire_cts *cts = message->cts;

	member->sge.addr = message->addr;
	member->sge.length = (uint32_t)message->bytes;
	member->sge.lkey = message->mr->lkeys[path->local_place];
	member->wr.wr_id = request->sent.wr_id | end->member_tail;
	member->wr.wr.rdma.remote_addr = cts->addr_lap & SXT_CTS_ADDR_MASK;
	member->wr.wr.rdma.rkey = cts->rkeys[path->peer_place];
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	request->flags = SXT_REQ_IMM;
	request->sent.size = (int)message->bytes;
	request->sent.tag = message->tag;
	request->sent.earlier = end->untold;
	request->position = message->position;
	request->path = path;
	end->untold = request;
	end->group_records[message->place] = message->bytes;
	return request;
}

struct sxt_request *sxt_send_member(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
				    struct sxt_mr *mr)
{
	struct sxt_send_end *end = sxt_send_end(conn);
	uint64_t place = (uint64_t)__builtin_ctz(end->free_mask);
	struct sxt_message message = {
		.mr = mr,
		.addr = (uintptr_t)data,
		.bytes = bytes,
		.position = end->head + place,
		.tag = tag,
		.place = place,
	};

	message.cts = ring_entry(end, message.position);
	/* Neither 0 nor too much; member_bytes is below 2^32. */
	if (SXT_UNLIKELY(message.cts->tag != tag || bytes - 1 >= end->member_bytes ||
			 bytes > message.cts->size_low || mr == NULL ||
			 conn->free_requests == NULL))
		return NULL;
	end->free_mask &= end->free_mask - 1;
	return member_make(end, &message);
}

bool sxt_send_may_wait(struct sxt_conn *conn, uint64_t bytes)
{
	if (sxt_send_end(conn)->free_mask == 0 || bytes >= SXT_GATHER_BYTES)
		return false;
	sxt_context_disown(conn->ctx);
	return true;
}

int sxt_send_members(struct sxt_conn *conn)
{
	struct sxt_send_end *end = sxt_send_end(conn);
	struct sxt_context *ctx = conn->ctx;
	bool is_last = end->free_mask == 0;
	int rc = gather_post(end, is_last);

	if (is_last)
		end->head += end->group_cnt;
	sxt_context_disown(ctx);
	return rc;
}

/* All parts but sxt_send_plain() together. */
static SXT_NOINLINE int send_otherwise(struct sxt_conn *conn, void *data, uint64_t bytes,
				       uint32_t tag, struct sxt_mr *mr, struct sxt_request **out)
{
	struct sxt_send_end *end = sxt_send_end(conn);
	struct sxt_request *request = NULL;
	int rc;

	if (is_calm(conn) && (end->free_mask != 0 ||
			      (ring_entry(end, end->head)->group != 1 && sxt_send_open(conn))))
		request = sxt_send_member(conn, data, bytes, tag, mr);
	if (request == NULL)
		return sxt_send_any(conn, data, bytes, tag, mr, out);
	rc = sxt_send_may_wait(conn, bytes) ? 0 : sxt_send_members(conn);
	if (rc == 0)
		*out = request;
	return rc;
}

int sxt_send(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag, struct sxt_mr *mr,
	     struct sxt_request **out)
{
	enum sxt_send_look look = sxt_send_look(conn);
	int rc = SXT_SEND_OTHERWISE;

	if (look == SXT_SEND_WAIT)
		return -EAGAIN;
	if (look == SXT_SEND_SINGLE)
		rc = sxt_send_plain(conn, data, bytes, tag, mr, out);
	return rc == SXT_SEND_OTHERWISE ? send_otherwise(conn, data, bytes, tag, mr, out) : rc;
}
