/*
 * send.c - the sending end's hot path: finds the receive a message is for in the ring the peer
 * writes, and posts the message as RDMA writes.
 *
 * Thread: NCCL's data path, under the owner word. Never waits, allocates, logs or calls the system.
 */
#include "ib/data.h"

#include <errno.h>

/* One message on its way to the queue pair. */
struct message {
	const struct sxt_wire_cts *cts;
	struct sxt_request **out;
	const struct sxt_mr *mr; /* NULL where bytes are 0 */
	uint64_t addr;
	uint64_t bytes;
	uint64_t position; /* of cts */
	uint32_t tag;
	uint32_t place; /* in the oldest group */
};

static const struct sxt_wire_cts *ring_entry(const struct sxt_send_end *end, uint64_t position)
{
	return &end->ring[position % SXT_RING_ENTRIES];
}

/* Both ends of the line are there; acquire keeps the loads of what is between behind them. */
static SXT_INLINE bool ring_has(const struct sxt_send_end *end, uint64_t position)
{
	const struct sxt_wire_cts *cts = ring_entry(end, position);
	uint64_t addr_lap;

	if (atomic_load_explicit((const _Atomic uint64_t *)&cts->sequence, memory_order_acquire) -
		    1 !=
	    position)
		return false;
	addr_lap = atomic_load_explicit((const _Atomic uint64_t *)&cts->addr_lap,
					memory_order_acquire);
	return (uint8_t)(addr_lap >> SXT_CTS_LAP_SHIFT) ==
	       (uint8_t)(sxt_cts_lap(position) >> SXT_CTS_LAP_SHIFT);
}

/* A group counts when every member is there: matching over half of one could mismatch tags. */
static SXT_NOINLINE int open_group(struct sxt_send_end *end)
{
	const struct sxt_wire_cts *first = ring_entry(end, end->head);
	uint32_t cnt;
	uint32_t i;

	if (!ring_has(end, end->head))
		return end->conn.peer_closed ? sxt_send_closed(end) : -EAGAIN;
	cnt = first->group & 0xfu;
	if (SXT_UNLIKELY(cnt == 0 || cnt > SXT_RECVS_MAX || first->group >> 4 != 0))
		return sxt_send_bad_cts(end, first);
	for (i = 1; i < cnt; i++) {
		if (!ring_has(end, end->head + i))
			return end->conn.peer_closed ? sxt_send_closed(end) : -EAGAIN;
	}
	end->group_cnt = cnt;
	end->free_mask = (1u << cnt) - 1;
	return 0;
}

/* The first free member with this tag of the oldest group; later groups wait their turn. */
static int find_member(const struct sxt_send_end *end, uint32_t tag, uint32_t *place_out)
{
	uint32_t mask;

	for (mask = end->free_mask; mask != 0; mask &= mask - 1) {
		uint32_t place = (uint32_t)__builtin_ctz(mask);

		if (ring_entry(end, end->head + place)->tag != tag)
			continue;
		*place_out = place;
		return 0;
	}
	return -EAGAIN;
}

static void use_member(struct sxt_send_end *end, uint32_t place)
{
	end->free_mask &= ~(1u << place);
	if (end->free_mask == 0)
		end->head += end->group_cnt;
}

static uint32_t immediate(const struct sxt_wire_cts *cts, uint32_t index, uint32_t flags)
{
	uint32_t imm = (uint32_t)cts->handle << SXT_IMM_HANDLE_SHIFT |
		       (cts->generation & (SXT_IMM_GENERATIONS - 1)) << SXT_IMM_GEN_SHIFT |
		       index << SXT_IMM_INDEX_SHIFT | flags;

	return htonl(imm);
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
						 const struct message *message,
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
	request->sent.bytes = message->bytes;
	request->position = message->position;
	request->path = path;
	end->imms += flags & SXT_REQ_IMM;
	path->sq_used++;
	return request;
}

static SXT_INLINE int post_whole(struct sxt_send_end *end, const struct message *message,
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
static int post_recorded(struct sxt_send_end *end, const struct message *message,
			 struct sxt_path *path)
{
	struct ibv_send_wr *wrs = end->recorded_wrs;
	struct sxt_request *request =
		whole_make(end, message, path, &wrs[0], &end->recorded_sges[0]);
	uint64_t *record = &end->records[request->index];
	struct ibv_send_wr *bad;
	int rc;

	*record = message->bytes | (uint64_t)message->cts->generation << 48;
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

	end->wr.sg_list = &end->sge;
	end->wr.send_flags = IBV_SEND_SIGNALED;
	wrs[0].next = &wrs[1];
	wrs[0].sg_list = &end->recorded_sges[0];
	wrs[1].sg_list = &end->recorded_sges[1];
	wrs[1].num_sge = 1;
	wrs[1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wrs[1].send_flags = IBV_SEND_SIGNALED | (end->can_inline ? IBV_SEND_INLINE : 0u);
	end->recorded_sges[1].length = sizeof(*end->records);
	if (end->stripes == 1 && end->ar_bytes <= end->chunk_bytes)
		end->recorded_bytes = end->chunk_bytes;
}

/* Room in a path's send queue; polls once where it is full, since no other call may come to. */
static int make_room(struct sxt_send_end *end, const struct sxt_path *path, uint32_t wrs)
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

static void request_start(struct sxt_send_end *end, const struct message *message)
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

/* How a message is cut: chunk i of size bytes goes over the i-th of its paths, round and round. */
struct cut {
	uint64_t size;   /* of a chunk, a multiple of 128: LL and LL128 need whole lines */
	uint32_t chunks; /* the last one may be shorter */
	uint32_t paths;
	bool record; /* each path's immediate comes with a size record of its own, behind the data
		      */
};

static uint32_t smaller(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* Even shares, no more paths than have something to carry or the receiver has granted. */
static int cut_make(struct sxt_send_end *end, const struct message *message, struct cut *out)
{
	bool imm = (message->cts->size_high & SXT_CTS_WANT_IMM) != 0;
	uint64_t least = (message->bytes - 1) / end->chunk_bytes + 1;
	uint32_t most = imm ? message->cts->max_chunks : SXT_CONN_CHUNKS_MAX;
	uint64_t chunks;

	out->record = imm && message->bytes > end->ar_bytes;
	if (most == 0 || least > SXT_CONN_CHUNKS_MAX || (least > most && !out->record))
		return sxt_send_bad_cts(end, message->cts);
	out->paths = smaller((message->bytes - 1) / end->stripe_bytes + 1, end->stripes);
	out->paths = smaller(out->paths, most);
	chunks = (least + out->paths - 1) / out->paths * out->paths;
	if (chunks > SXT_CONN_CHUNKS_MAX || (chunks > most && !out->record))
		chunks = least;
	out->size = ((message->bytes - 1) / chunks + 1 + 127) & ~127ull;
	out->chunks = (uint32_t)((message->bytes - 1) / out->size) + 1;
	out->paths = smaller(out->chunks, out->paths);
	return 0;
}

/* Work requests of a cut's i-th path. */
static uint32_t stripe_wrs(const struct cut *cut, uint32_t i)
{
	return (cut->chunks - i + cut->paths - 1) / cut->paths + (cut->record ? 1 : 0);
}

/* The size record that says how much came before it on this path, and in all. */
static void record_make(struct sxt_send_end *end, const struct message *message,
			const struct sxt_path *path, struct ibv_send_wr *wr)
{
	uint64_t *record = &end->records[end->conn.free_requests->index];

	*record = message->bytes | (uint64_t)message->cts->generation << 48;
	*wr->sg_list = (struct ibv_sge){(uintptr_t)record, sizeof(*record), path->lkey};
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->send_flags = end->can_inline ? IBV_SEND_INLINE : 0;
	wr->wr.rdma.remote_addr = end->records_addr + message->cts->handle * sizeof(*record);
	wr->wr.rdma.rkey = path->rkey;
}

static void chunk_make(const struct message *message, const struct sxt_path *path,
		       const struct cut *cut, uint32_t chunk, struct ibv_send_wr *wr)
{
	bool imm = (message->cts->size_high & SXT_CTS_WANT_IMM) != 0 && !cut->record;
	uint64_t offset = chunk * cut->size;

	*wr->sg_list = (struct ibv_sge){
		.addr = message->addr + offset,
		.length = smaller(message->bytes - offset, (uint32_t)cut->size),
		.lkey = message->mr->lkeys[path->local_place],
	};
	wr->num_sge = 1;
	wr->opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	wr->send_flags = 0;
	wr->wr.rdma.remote_addr = (message->cts->addr_lap & SXT_CTS_ADDR_MASK) + offset;
	wr->wr.rdma.rkey = message->cts->rkeys[path->peer_place];
	wr->imm_data = immediate(message->cts, chunk, chunk == cut->chunks - 1 ? SXT_IMM_LAST : 0);
}

/*
 * A chain under one doorbell for one path. Only its last write is signaled: a queue pair completes
 * in order, so it speaks for all before it.
 */
static int post_stripe(struct sxt_send_end *end, const struct message *message,
		       const struct cut *cut, uint32_t stripe)
{
	struct sxt_path *path = sxt_conn_path(&end->conn, message->position + stripe);
	struct ibv_send_wr wrs[SXT_CONN_CHUNKS_MAX + 1];
	struct ibv_sge sges[SXT_CONN_CHUNKS_MAX + 1];
	uint32_t cnt = stripe_wrs(cut, stripe);
	uint32_t index = sxt_wr_send_index(end->conn.free_requests->index, cnt);
	struct ibv_send_wr *bad;
	uint32_t i;
	int rc;

	for (i = 0; i < cnt; i++) {
		uint32_t chunk = stripe + i * cut->paths;

		wrs[i].wr_id = sxt_wr_id(path, SXT_WR_CHUNK, index);
		wrs[i].next = &wrs[i + 1];
		wrs[i].sg_list = &sges[i];
		if (chunk < cut->chunks)
			chunk_make(message, path, cut, chunk, &wrs[i]);
		else
			record_make(end, message, path, &wrs[i]);
	}
	if (cut->record)
		wrs[cnt - 1].imm_data =
			immediate(message->cts, stripe,
				  SXT_IMM_RECORD | (stripe == cut->paths - 1 ? SXT_IMM_LAST : 0));
	wrs[cnt - 1].wr_id = sxt_wr_id(path, SXT_WR_SEND, index);
	wrs[cnt - 1].next = NULL;
	wrs[cnt - 1].send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(path->qp, wrs, &bad);
	if (rc != 0)
		return sxt_conn_post_failed(&end->conn, path, rc, "a message");
	path->sq_used += cnt;
	return 0;
}

/* More than one write. Nothing is posted before there is room for all of it. */
static SXT_NOINLINE int post_cut(struct sxt_send_end *end, const struct message *message)
{
	struct cut cut = {0}; /* gcc at -O2 does not see that it is written where it is used */
	struct sxt_request *request = end->conn.free_requests;
	uint32_t i;
	int rc = cut_make(end, message, &cut);

	for (i = 0; rc == 0 && i < cut.paths; i++)
		rc = make_room(end, sxt_conn_path(&end->conn, message->position + i),
			       stripe_wrs(&cut, i));
	for (i = 0; rc == 0 && i < cut.paths; i++)
		rc = post_stripe(end, message, &cut, i);
	if (rc != 0)
		return rc;
	request_start(end, message);
	end->imms += request->flags & SXT_REQ_IMM;
	request->open = (uint8_t)cut.paths;
	if (cut.paths > 1)
		request->flags |= SXT_REQ_STRIPED;
	return 0;
}

static int post(struct sxt_send_end *end, const struct message *message)
{
	struct sxt_path *path = sxt_conn_path(&end->conn, message->position);
	int rc;

	if (message->bytes <= end->whole_bytes) {
		rc = make_room(end, path, 1);
		return rc == 0 ? post_whole(end, message, path) : rc;
	}
	if (message->bytes > end->recorded_bytes ||
	    (message->cts->size_high & SXT_CTS_WANT_IMM) == 0)
		return post_cut(end, message);
	rc = make_room(end, path, 2);
	return rc == 0 ? post_recorded(end, message, path) : rc;
}

/* Nothing has to be written, or nobody waits for it any more. */
static void finish_unposted(struct sxt_send_end *end, const struct message *message)
{
	struct sxt_request *request = end->conn.free_requests;

	request_start(end, message);
	request->flags &= (uint8_t)~SXT_REQ_IMM;
	sxt_request_finish(request);
}

/* Everything that may fail comes before the request is taken and the member used. */
static SXT_INLINE int start(struct sxt_send_end *end, const struct message *message)
{
	const struct sxt_wire_cts *cts = message->cts;
	bool needed = message->bytes != 0 || (cts->size_high & SXT_CTS_WANT_IMM) != 0;
	int rc = 0;

	if (SXT_UNLIKELY(message->bytes > sxt_cts_bytes(cts)))
		return sxt_send_too_large(end, cts, message->bytes);
	if (SXT_UNLIKELY(end->conn.peer_closed)) {
		/* What nobody waits for any more counts as delivered. */
		if ((cts->size_high & SXT_CTS_OPTIONAL) == 0)
			return sxt_send_closed(end);
		needed = false;
	}
	if (SXT_LIKELY(needed))
		rc = post(end, message);
	else
		finish_unposted(end, message);
	if (rc == 0)
		use_member(end, message->place);
	return rc;
}

static int send_one(struct sxt_send_end *end, struct message *message)
{
	int rc;

	if (SXT_UNLIKELY(end->conn.attention)) {
		rc = sxt_conn_attend(&end->conn, NULL);
		if (rc != 0)
			return rc;
	}
	if (end->free_mask == 0) {
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
	struct message message = {
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

/* Whether an entry takes a message in one write; what is more to it goes the long way. */
static SXT_INLINE bool is_plain(const struct sxt_send_end *end, uint64_t position, uint64_t bytes,
				uint32_t tag)
{
	const struct sxt_wire_cts *cts = ring_entry(end, position);

	/* Neither 0 nor too much; whole_bytes is below 2^32. */
	return cts->tag == tag && bytes - 1 < end->whole_bytes && bytes <= cts->size_low &&
	       end->conn.free_requests != NULL &&
	       sxt_conn_path(&end->conn, position)->sq_used != SXT_SEND_SQ_DEPTH;
}

/* The first free entry of the oldest group, which most senders of a group take in order. */
static SXT_INLINE uint64_t first_free(const struct sxt_send_end *end)
{
	return end->head + (uint32_t)__builtin_ctz(end->free_mask);
}

enum sxt_send_look sxt_send_look(struct sxt_conn *conn, uint64_t bytes, uint32_t tag,
				 const struct sxt_mr *mr)
{
	const struct sxt_send_end *end = sxt_send_end(conn);
	struct sxt_context *ctx = conn->ctx;

	if (!sxt_context_try_own(ctx))
		return SXT_SEND_WAIT;
	if (SXT_UNLIKELY(!sxt_conn_is_calm(conn, SXT_CONN_SEND) ||
			 atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0))
		return SXT_SEND_ANY;
	if (end->free_mask != 0)
		return SXT_SEND_GROUPED;
	if (!ring_has(end, end->head)) {
		sxt_context_disown(ctx);
		return SXT_SEND_WAIT;
	}
	if (ring_entry(end, end->head)->group != 1)
		return SXT_SEND_GROUPED;
	return SXT_LIKELY(mr != NULL && is_plain(end, end->head, bytes, tag)) ? SXT_SEND_PLAIN
									      : SXT_SEND_ANY;
}

int sxt_send_plain(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
		   struct sxt_mr *mr, struct sxt_request **out)
{
	struct sxt_send_end *end = sxt_send_end(conn);
	uint64_t position = end->head++;
	struct message message = {
		.cts = ring_entry(end, position),
		.out = out,
		.mr = mr,
		.addr = (uintptr_t)data,
		.bytes = bytes,
		.position = position,
		.tag = tag,
	};
	int rc;

	/* As sxt_send_look() saw it. */
	if (mr == NULL || bytes == 0)
		__builtin_unreachable();
	rc = post_whole(end, &message, sxt_conn_path(conn, position));
	sxt_context_disown(conn->ctx);
	return rc;
}

int sxt_send_grouped(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
		     struct sxt_mr *mr, struct sxt_request **out)
{
	struct sxt_send_end *end = sxt_send_end(conn);
	struct message message = {
		.out = out, .mr = mr, .addr = (uintptr_t)data, .bytes = bytes, .tag = tag};
	int rc;

	if (end->free_mask == 0 && open_group(end) != 0)
		return SXT_SEND_OTHERWISE;
	message.position = first_free(end);
	if (SXT_UNLIKELY(mr == NULL || !is_plain(end, message.position, bytes, tag)))
		return SXT_SEND_OTHERWISE;
	message.cts = ring_entry(end, message.position);
	end->free_mask &= end->free_mask - 1;
	if (end->free_mask == 0)
		end->head += end->group_cnt;
	rc = post_whole(end, &message, sxt_conn_path(conn, message.position));
	sxt_context_disown(conn->ctx);
	return rc;
}

int sxt_send(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag, struct sxt_mr *mr,
	     struct sxt_request **out)
{
	int rc = SXT_SEND_OTHERWISE;

	switch (sxt_send_look(conn, bytes, tag, mr)) {
	case SXT_SEND_WAIT:
		return -EAGAIN;
	case SXT_SEND_PLAIN:
		return sxt_send_plain(conn, data, bytes, tag, mr, out);
	case SXT_SEND_GROUPED:
		rc = sxt_send_grouped(conn, data, bytes, tag, mr, out);
		break;
	case SXT_SEND_ANY:
		break;
	}
	if (rc == SXT_SEND_OTHERWISE)
		rc = sxt_send_any(conn, data, bytes, tag, mr, out);
	return rc;
}
