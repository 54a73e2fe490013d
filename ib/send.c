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
	struct sxt_request *request;
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
static bool ring_has(const struct sxt_send_end *end, uint64_t position)
{
	const struct sxt_wire_cts *cts = ring_entry(end, position);
	uint64_t addr_lap;

	if (atomic_load_explicit((const _Atomic uint64_t *)&cts->sequence, memory_order_acquire) !=
	    position + 1)
		return false;
	addr_lap = atomic_load_explicit((const _Atomic uint64_t *)&cts->addr_lap,
					memory_order_acquire);
	return (addr_lap & ~SXT_CTS_ADDR_MASK) == sxt_cts_lap(position);
}

/* A group counts when every member is there: matching over half of one could mismatch tags. */
static int open_group(struct sxt_send_end *end)
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
	end->used_mask = 0;
	return 0;
}

/* The first free member with this tag of the oldest group; later groups wait their turn. */
static int find_member(const struct sxt_send_end *end, uint32_t tag, uint32_t *place_out)
{
	uint32_t i;

	for (i = 0; i < end->group_cnt; i++) {
		if ((end->used_mask >> i & 1u) != 0 || ring_entry(end, end->head + i)->tag != tag)
			continue;
		*place_out = i;
		return 0;
	}
	return -EAGAIN;
}

static void use_member(struct sxt_send_end *end, uint32_t place)
{
	end->used_mask |= 1u << place;
	if (end->used_mask != (1u << end->group_cnt) - 1)
		return;
	end->head += end->group_cnt;
	end->group_cnt = 0;
}

static uint32_t immediate(const struct sxt_wire_cts *cts, uint32_t index, uint32_t flags)
{
	uint32_t imm = (uint32_t)cts->handle << SXT_IMM_HANDLE_SHIFT |
		       (cts->generation & (SXT_IMM_GENERATIONS - 1)) << SXT_IMM_GEN_SHIFT |
		       index << SXT_IMM_INDEX_SHIFT | flags;

	return htonl(imm);
}

static int post_whole(struct sxt_send_end *end, const struct message *message,
		      const struct sxt_path *path)
{
	const struct sxt_wire_cts *cts = message->cts;
	struct ibv_send_wr *wr = &end->wr;
	struct ibv_send_wr *bad;

	end->sge.addr = message->addr;
	end->sge.length = (uint32_t)message->bytes;
	end->sge.lkey = message->mr != NULL ? message->mr->lkeys[path->local_place] : 0;
	wr->wr_id = sxt_wr_id(path, SXT_WR_SEND, sxt_wr_send_index(message->request->index, 1));
	wr->num_sge = message->bytes != 0;
	wr->opcode = (cts->size_high & SXT_CTS_WANT_IMM) != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM
							      : IBV_WR_RDMA_WRITE;
	wr->imm_data = immediate(cts, 0, SXT_IMM_LAST);
	wr->wr.rdma.remote_addr = cts->addr_lap & SXT_CTS_ADDR_MASK;
	wr->wr.rdma.rkey = cts->rkeys[path->peer_place];
	return ibv_post_send(path->qp, wr, &bad);
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
	uint64_t *record = &end->records[message->request->index];

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
	uint32_t index = sxt_wr_send_index(message->request->index, cnt);
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
	uint32_t i;
	int rc = cut_make(end, message, &cut);

	for (i = 0; rc == 0 && i < cut.paths; i++)
		rc = make_room(end, sxt_conn_path(&end->conn, message->position + i),
			       stripe_wrs(&cut, i));
	for (i = 0; rc == 0 && i < cut.paths; i++)
		rc = post_stripe(end, message, &cut, i);
	if (rc == 0) {
		message->request->open = (uint8_t)cut.paths;
		message->request->striped = cut.paths > 1;
	}
	return rc;
}

static int post(struct sxt_send_end *end, const struct message *message, struct sxt_path *path)
{
	int rc;

	if (SXT_UNLIKELY(message->bytes > end->whole_bytes))
		return post_cut(end, message);
	rc = make_room(end, path, 1);
	if (rc != 0)
		return rc;
	rc = post_whole(end, message, path);
	if (SXT_UNLIKELY(rc != 0))
		return sxt_conn_post_failed(&end->conn, path, rc, "a message");
	path->sq_used++;
	message->request->open = 1;
	message->request->striped = 0;
	return 0;
}

static void request_start(struct sxt_send_end *end, const struct message *message,
			  const struct sxt_path *path, bool posted)
{
	struct sxt_request *request = sxt_request_take(&end->conn);
	uint32_t flags = SXT_REQ_ACTIVE;

	if ((message->cts->size_high & SXT_CTS_OPTIONAL) != 0)
		flags |= SXT_REQ_OPTIONAL;
	if (posted && (message->cts->size_high & SXT_CTS_WANT_IMM) != 0) {
		flags |= SXT_REQ_IMM;
		end->imms++;
	}
	request->flags = (uint8_t)flags;
	request->path = (uint8_t)(path - end->conn.paths);
	request->position = message->position;
	request->sent.size = sxt_size_saturate(message->bytes);
	request->sent.bytes = message->bytes;
	request->sent.tag = message->tag;
	/* Nobody looks at it before the owner word is given back: its completion is polled under
	 * that, and the caller does not have it yet. */
	atomic_store_explicit(&request->done, !posted, memory_order_relaxed);
}

/* Everything that may fail comes before the request is taken and the member used. */
static int start(struct sxt_send_end *end, const struct message *message)
{
	const struct sxt_wire_cts *cts = message->cts;
	struct sxt_path *path = sxt_conn_path(&end->conn, message->position);
	bool needed = message->bytes != 0 || (cts->size_high & SXT_CTS_WANT_IMM) != 0;
	int rc;

	if (SXT_UNLIKELY(message->bytes > sxt_cts_bytes(cts)))
		return sxt_send_too_large(end, cts, message->bytes);
	if (SXT_UNLIKELY(end->conn.peer_closed)) {
		/* What nobody waits for any more counts as delivered. */
		if ((cts->size_high & SXT_CTS_OPTIONAL) == 0)
			return sxt_send_closed(end);
		needed = false;
	}
	if (SXT_LIKELY(needed)) {
		rc = post(end, message, path);
		if (rc != 0)
			return rc;
	}
	request_start(end, message, path, needed);
	use_member(end, message->place);
	return 0;
}

static int send_one(struct sxt_send_end *end, struct message *message)
{
	int rc;

	if (SXT_UNLIKELY(end->conn.attention)) {
		rc = sxt_conn_attend(&end->conn, NULL);
		if (rc != 0)
			return rc;
	}
	if (end->group_cnt == 0) {
		rc = open_group(end);
		if (rc != 0)
			return rc;
	}
	rc = find_member(end, message->tag, &message->place);
	if (rc != 0)
		return rc;
	message->position = end->head + message->place;
	message->cts = ring_entry(end, message->position);
	message->request = end->conn.free_requests;
	if (SXT_UNLIKELY(message->request == NULL))
		return -EAGAIN;
	return start(end, message);
}

/* The rest of sxt_send(); gives the owner word back. */
static SXT_NOINLINE int send_owned(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
				   const struct sxt_mr *mr, struct sxt_request **out)
{
	struct sxt_context *ctx = conn->ctx;
	struct message message;
	int rc;

	if (SXT_UNLIKELY(atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0))
		sxt_context_read_notes(ctx);
	if (SXT_UNLIKELY(conn->kind != SXT_CONN_SEND || (mr == NULL && bytes != 0))) {
		rc = sxt_conn_misuse(conn, bytes);
	} else {
		message.addr = (uintptr_t)data;
		message.bytes = bytes;
		message.mr = mr;
		message.tag = tag;
		rc = send_one(sxt_send_end(conn), &message);
		if (rc == 0)
			*out = message.request;
	}
	sxt_context_disown(ctx);
	return rc;
}

/* NCCL asks over and over before the peer posts: no receive there, and nothing else to look at. */
static bool is_idle(const struct sxt_conn *conn)
{
	const struct sxt_send_end *end = (const struct sxt_send_end *)conn;

	return atomic_load_explicit(&conn->ctx->mailbox, memory_order_relaxed) == 0 &&
	       conn->attention == 0 && conn->kind == SXT_CONN_SEND && end->group_cnt == 0 &&
	       !ring_has(end, end->head);
}

int sxt_send(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag, struct sxt_mr *mr,
	     struct sxt_request **out)
{
	if (!sxt_context_try_own(conn->ctx))
		return -EAGAIN;
	/* Nothing is saved and called for on this way out. */
	if (is_idle(conn)) {
		sxt_context_disown(conn->ctx);
		return -EAGAIN;
	}
	return send_owned(conn, data, bytes, tag, mr, out);
}
