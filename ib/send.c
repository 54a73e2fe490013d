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
	uint64_t addr;
	uint64_t bytes;
	uint32_t lkey;
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

static uint32_t immediate(const struct sxt_wire_cts *cts, uint32_t index, bool last)
{
	uint32_t imm = (uint32_t)cts->handle << SXT_IMM_HANDLE_SHIFT |
		       (cts->generation & (SXT_IMM_GENERATIONS - 1)) << SXT_IMM_GEN_SHIFT |
		       index << SXT_IMM_INDEX_SHIFT | (last ? SXT_IMM_LAST : 0);

	return htonl(imm);
}

static int post_whole(struct sxt_send_end *end, const struct message *message)
{
	struct ibv_send_wr *wr = &end->wr;
	struct ibv_send_wr *bad;

	end->sge.addr = message->addr;
	end->sge.length = (uint32_t)message->bytes;
	end->sge.lkey = message->lkey;
	wr->wr_id = sxt_wr_id(&end->conn, SXT_WR_SEND, message->request->index);
	wr->num_sge = message->bytes != 0;
	wr->opcode = (message->cts->size_high & SXT_CTS_WANT_IMM) != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM
								       : IBV_WR_RDMA_WRITE;
	wr->imm_data = immediate(message->cts, 0, true);
	wr->wr.rdma.remote_addr = message->cts->addr_lap & SXT_CTS_ADDR_MASK;
	wr->wr.rdma.rkey = message->cts->rkeys[0];
	return ibv_post_send(end->conn.qp, wr, &bad);
}

/*
 * Larger than the port's largest write: a chain under one doorbell, cut at multiples of chunk_bytes
 * and so of 128 bytes, as LL and LL128 need it. Only the last write is signaled: a queue pair
 * completes in order, so it speaks for all.
 */
static SXT_COLD int post_chunks(struct sxt_send_end *end, const struct message *message,
				uint32_t cnt)
{
	struct ibv_send_wr wrs[SXT_CONN_CHUNKS_MAX];
	struct ibv_sge sges[SXT_CONN_CHUNKS_MAX];
	struct ibv_send_wr *bad;
	uint64_t left = message->bytes;
	uint32_t i;

	for (i = 0; i < cnt; i++, left -= end->chunk_bytes) {
		uint64_t offset = i * end->chunk_bytes;
		bool last = i == cnt - 1;

		sges[i].addr = message->addr + offset;
		sges[i].length = (uint32_t)(last ? left : end->chunk_bytes);
		sges[i].lkey = message->lkey;
		wrs[i] = end->wr;
		wrs[i].wr_id = sxt_wr_id(&end->conn, last ? SXT_WR_SEND : SXT_WR_CHUNK,
					 message->request->index);
		wrs[i].next = last ? NULL : &wrs[i + 1];
		wrs[i].sg_list = &sges[i];
		wrs[i].num_sge = 1;
		wrs[i].opcode = (message->cts->size_high & SXT_CTS_WANT_IMM) != 0
					? IBV_WR_RDMA_WRITE_WITH_IMM
					: IBV_WR_RDMA_WRITE;
		wrs[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
		wrs[i].imm_data = immediate(message->cts, i, last);
		wrs[i].wr.rdma.remote_addr = (message->cts->addr_lap & SXT_CTS_ADDR_MASK) + offset;
		wrs[i].wr.rdma.rkey = message->cts->rkeys[0];
	}
	return ibv_post_send(end->conn.qp, wrs, &bad);
}

/* Room in the send queue; polls once where it is full, since no other call may come to do so. */
static int make_room(struct sxt_send_end *end, uint32_t wrs)
{
	if (SXT_LIKELY(end->sq_used + wrs <= SXT_SEND_SQ_DEPTH))
		return 0;
	sxt_ignore(sxt_data_drain(&end->conn));
	if (end->conn.attention) {
		int rc = sxt_conn_attend(&end->conn, NULL);

		if (rc != 0)
			return rc;
	}
	return end->sq_used + wrs <= SXT_SEND_SQ_DEPTH ? 0 : -EAGAIN;
}

static int post(struct sxt_send_end *end, const struct message *message)
{
	uint32_t wrs = 1;
	int rc;

	if (SXT_UNLIKELY(message->bytes > end->chunk_bytes)) {
		uint64_t chunks = (message->bytes - 1) / end->chunk_bytes + 1;

		if (chunks > message->cts->max_chunks || chunks > SXT_CONN_CHUNKS_MAX)
			return sxt_send_bad_cts(end, message->cts);
		wrs = (uint32_t)chunks;
	}
	rc = make_room(end, wrs);
	if (rc != 0)
		return rc;
	message->request->wrs = (uint16_t)wrs;
	rc = SXT_LIKELY(wrs == 1) ? post_whole(end, message) : post_chunks(end, message, wrs);
	if (SXT_UNLIKELY(rc != 0))
		return sxt_conn_post_failed(&end->conn, rc, "a message");
	end->sq_used += wrs;
	return 0;
}

static void request_start(struct sxt_send_end *end, const struct message *message, uint32_t tag,
			  bool posted)
{
	struct sxt_request *request = sxt_request_take(&end->conn);
	uint32_t flags = SXT_REQ_ACTIVE;

	if ((message->cts->size_high & SXT_CTS_OPTIONAL) != 0)
		flags |= SXT_REQ_OPTIONAL;
	if (posted && (message->cts->size_high & SXT_CTS_WANT_IMM) != 0) {
		flags |= SXT_REQ_IMM;
		request->sent.ordinal = end->ordinal++;
	}
	request->flags = (uint8_t)flags;
	request->sent.size = sxt_size_saturate(message->bytes);
	request->sent.bytes = message->bytes;
	request->sent.tag = tag;
	/* Nobody looks at it before the owner word is given back: its completion is polled under
	 * that, and the caller does not have it yet. */
	atomic_store_explicit(&request->done, !posted, memory_order_relaxed);
}

/* Everything that may fail comes before the request is taken and the member used. */
static int start(struct sxt_send_end *end, const struct message *message, uint32_t tag)
{
	const struct sxt_wire_cts *cts = message->cts;
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
		rc = post(end, message);
		if (rc != 0)
			return rc;
	}
	request_start(end, message, tag, needed);
	use_member(end, message->place);
	return 0;
}

static int send_one(struct sxt_send_end *end, struct message *message, uint32_t tag)
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
	rc = find_member(end, tag, &message->place);
	if (rc != 0)
		return rc;
	message->cts = ring_entry(end, end->head + message->place);
	message->request = end->conn.free_requests;
	if (SXT_UNLIKELY(message->request == NULL))
		return -EAGAIN;
	return start(end, message, tag);
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
		message.lkey = mr != NULL ? mr->lkeys[0] : 0;
		rc = send_one(sxt_send_end(conn), &message, tag);
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
