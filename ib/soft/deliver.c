/*
 * deliver.c - the receiving side of a message, carried out by the sender's process. Hot.
 *
 * The caller holds the receiving QP's shared lock. A receive work request stays in the QP's ring
 * until its completion is written; where the sender is killed in between it is completed again, and
 * the poller drops the second. An SRQ's leaves first: other QPs would receive into it again.
 */
#include "ib/soft/objects.h"

#include <stdlib.h>
#include <string.h>

#define GRH_BYTES 40u

/* Where receive work requests come from: the QP's own ring, or its SRQ's. */
struct source {
	struct sxt_soft_recv_ring *ring;
	struct sxt_soft_srq_shared *srq; /* locked; NULL for the QP's own */
	uint32_t pd;
};

static void source_open(struct sxt_soft_arena *arena, struct sxt_soft_qp_shared *qp,
			struct source *out)
{
	out->ring = &qp->rq;
	out->srq = NULL;
	out->pd = qp->pd;
	if (qp->srq == SXT_SOFT_NONE)
		return;
	out->srq = &arena->srqs[qp->srq];
	sxt_soft_shared_lock(&out->srq->lock);
	out->ring = &out->srq->rq;
	out->pd = out->srq->pd;
}

static void source_close(const struct source *source)
{
	if (source->srq != NULL)
		sxt_soft_shared_unlock(&source->srq->lock);
}

static uint32_t ring_fill(const struct sxt_soft_recv_ring *ring)
{
	/* Pairs with the poster's release: the entries up to head are written. */
	return atomic_load_explicit(&ring->head, memory_order_acquire) -
	       atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/* The part [skip, skip + bytes) of a gather list. Return: pieces. */
static uint32_t slice(const struct iovec *from, uint32_t cnt, size_t skip, size_t bytes,
		      struct iovec *out)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < cnt && bytes != 0; i++) {
		size_t len = from[i].iov_len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		len -= skip;
		if (len > bytes)
			len = bytes;
		out[used].iov_base = (uint8_t *)from[i].iov_base + skip;
		out[used++].iov_len = len;
		bytes -= len;
		skip = 0;
	}
	return used;
}

static enum sxt_soft_delivery scatter(struct sxt_soft_peer *peer, uint32_t pd,
				      const struct sxt_soft_recv_wqe *wqe, const struct iovec *from,
				      uint32_t from_cnt, size_t bytes)
{
	struct iovec part[SXT_SOFT_SGE_MAX + 1];
	size_t done = 0;

	for (uint32_t i = 0; i < wqe->sge_cnt && done < bytes; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		size_t take = bytes - done < sge->length ? bytes - done : sge->length;
		const struct sxt_soft_mr_entry *mr;
		uint32_t cnt;
		int rc;

		if (take == 0)
			continue;
		mr = sxt_soft_mr_find(peer->arena, pd, sge->lkey, sge->addr, sge->length,
				      IBV_ACCESS_LOCAL_WRITE);
		if (mr == NULL)
			return SXT_SOFT_DELIVER_BAD_KEY;
		cnt = slice(from, from_cnt, done, take, part);
		rc = sxt_soft_move_write(peer, mr, sge->addr, part, cnt, take);
		if (rc != 0)
			return rc == -ESRCH ? SXT_SOFT_DELIVER_DEAD : SXT_SOFT_DELIVER_FAULT;
		done += take;
	}
	return done == bytes ? SXT_SOFT_DELIVERED : SXT_SOFT_DELIVER_TOO_LONG;
}

static size_t wqe_room(const struct sxt_soft_recv_wqe *wqe)
{
	size_t room = 0;

	for (uint32_t i = 0; i < wqe->sge_cnt; i++)
		room += wqe->sge[i].length;
	return room;
}

/* Places the data of a SEND; UD has room for a GRH in front of it. */
static enum sxt_soft_delivery place(struct sxt_soft_peer *peer, uint32_t pd,
				    const struct sxt_soft_recv_wqe *wqe,
				    const struct sxt_soft_message *message, bool is_ud)
{
	struct iovec with_grh[SXT_SOFT_SGE_MAX + 1];
	static const struct ibv_grh no_grh;
	size_t bytes = message->bytes + (is_ud ? GRH_BYTES : 0);

	if (message->is_write)
		return SXT_SOFT_DELIVERED;
	if (wqe_room(wqe) < bytes)
		return SXT_SOFT_DELIVER_TOO_LONG;
	if (!is_ud)
		return scatter(peer, pd, wqe, message->from, message->from_cnt, bytes);
	with_grh[0].iov_base = (void *)(uintptr_t)(message->grh != NULL ? message->grh : &no_grh);
	with_grh[0].iov_len = GRH_BYTES;
	memcpy(&with_grh[1], message->from, message->from_cnt * sizeof(with_grh[0]));
	return scatter(peer, pd, wqe, with_grh, message->from_cnt + 1, bytes);
}

static void fill_cqe(struct sxt_soft_cqe *cqe, const struct sxt_soft_qp_shared *qp, uint32_t slot,
		     const struct sxt_soft_message *message)
{
	bool is_ud = qp->type == IBV_QPT_UD;

	cqe->qpn = atomic_load_explicit(&qp->qpn, memory_order_relaxed);
	cqe->qp_slot = slot;
	cqe->kind = qp->srq == SXT_SOFT_NONE ? SXT_SOFT_CQE_RECV : SXT_SOFT_CQE_SRQ;
	cqe->opcode = message->is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	cqe->byte_len = (uint32_t)(message->bytes + (is_ud ? GRH_BYTES : 0));
	cqe->imm_data = message->imm_data;
	cqe->src_qp = message->src_qpn;
	cqe->slid = message->slid;
	cqe->sl = message->sl;
	cqe->solicited = message->solicited;
	cqe->flags = (uint8_t)((message->has_imm ? IBV_WC_WITH_IMM : 0) |
			       (is_ud && message->grh != NULL ? IBV_WC_GRH : 0));
}

static uint8_t status_of(enum sxt_soft_delivery result)
{
	switch (result) {
	case SXT_SOFT_DELIVERED:
		return IBV_WC_SUCCESS;
	case SXT_SOFT_DELIVER_TOO_LONG:
		return IBV_WC_LOC_LEN_ERR;
	default:
		return IBV_WC_LOC_PROT_ERR;
	}
}

/* Takes a receive out of an SRQ; tells when it runs low. */
static void consume_shared(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			   const struct source *source, uint32_t srq_slot)
{
	uint32_t left = ring_fill(source->ring) - 1;

	/* Pairs with the poster's acquire: the slot may be written again. */
	atomic_fetch_add_explicit(&source->ring->tail, 1, memory_order_release);
	if (source->srq->limit == 0 || left >= source->srq->limit)
		return;
	source->srq->limit = 0;
	sxt_soft_peer_event(engine, peer, source->srq->context, IBV_EVENT_SRQ_LIMIT_REACHED,
			    sxt_soft_cookie(srq_slot, 0));
}

enum sxt_soft_delivery sxt_soft_deliver(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
					struct sxt_soft_qp_shared *qp,
					const struct sxt_soft_message *message)
{
	struct sxt_soft_cqe cqe = {0};
	const struct sxt_soft_recv_wqe *wqe;
	enum sxt_soft_delivery result;
	struct source source;
	uint32_t tail;

	source_open(peer->arena, qp, &source);
	if (ring_fill(source.ring) == 0) {
		source_close(&source);
		return SXT_SOFT_DELIVER_EMPTY;
	}
	tail = atomic_load_explicit(&source.ring->tail, memory_order_relaxed);
	wqe = sxt_soft_recv_wqe_at(peer->arena, source.ring, tail);
	result = place(peer, source.pd, wqe, message, qp->type == IBV_QPT_UD);
	if (result == SXT_SOFT_DELIVER_DEAD) {
		source_close(&source);
		return result;
	}
	fill_cqe(&cqe, qp, (uint32_t)(qp - peer->arena->qps), message);
	cqe.wr_id = wqe->wr_id;
	cqe.wq_release = tail + 1;
	cqe.status = status_of(result);
	cqe.visible_ns = message->visible_ns;
	/* A later message of an earlier time would overtake: keep the QP's own order. */
	if (cqe.visible_ns < qp->recv_visible_ns)
		cqe.visible_ns = qp->recv_visible_ns;
	qp->recv_visible_ns = cqe.visible_ns;
	if (source.srq != NULL)
		consume_shared(engine, peer, &source, qp->srq);
	source_close(&source);
	sxt_soft_cq_push(engine, peer, qp->recv_cq, &cqe);
	if (source.srq == NULL)
		atomic_store_explicit(&qp->rq.tail, tail + 1, memory_order_release);
	return result;
}

/* Completes what a QP's own receive queue holds with FLUSH, oldest first. */
static void flush_receives(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			   struct sxt_soft_qp_shared *qp)
{
	struct sxt_soft_cqe cqe = {0};

	cqe.qpn = atomic_load_explicit(&qp->qpn, memory_order_relaxed);
	cqe.qp_slot = (uint32_t)(qp - peer->arena->qps);
	cqe.kind = SXT_SOFT_CQE_RECV;
	cqe.opcode = IBV_WC_RECV;
	cqe.status = IBV_WC_WR_FLUSH_ERR;
	cqe.visible_ns = qp->recv_visible_ns;
	while (ring_fill(&qp->rq) != 0) {
		uint32_t tail = atomic_load_explicit(&qp->rq.tail, memory_order_relaxed);

		cqe.wr_id = sxt_soft_recv_wqe_at(peer->arena, &qp->rq, tail)->wr_id;
		cqe.wq_release = tail + 1;
		sxt_soft_cq_push(engine, peer, qp->recv_cq, &cqe);
		atomic_store_explicit(&qp->rq.tail, tail + 1, memory_order_release);
	}
}

void sxt_soft_qp_fail(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
		      struct sxt_soft_qp_shared *qp, int event)
{
	uint64_t cookie = sxt_soft_cookie((uint32_t)(qp - peer->arena->qps),
					  atomic_load_explicit(&qp->qpn, memory_order_relaxed));
	bool already = atomic_load(&qp->state) == IBV_QPS_ERR;

	atomic_store(&qp->state, IBV_QPS_ERR);
	/* Pairs with the fence in post_recv: this sees its entry, or it sees the state. */
	atomic_thread_fence(memory_order_seq_cst);
	if (qp->srq == SXT_SOFT_NONE)
		flush_receives(engine, peer, qp);
	if (already)
		return;
	if (event >= 0)
		sxt_soft_peer_event(engine, peer, qp->context, (uint32_t)event, cookie);
	if (qp->srq != SXT_SOFT_NONE)
		sxt_soft_peer_event(engine, peer, qp->context, IBV_EVENT_QP_LAST_WQE_REACHED,
				    cookie);
}
