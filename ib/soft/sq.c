/*
 * sq.c - the send queue: what may be posted, what waits, what is completed, what is flushed. Hot.
 *
 * Work is carried out when it is posted. What cannot be (port down, peer gone or not ready) waits
 * in the queue, with all behind it, and is tried again by later calls of the process until the
 * time a real requester would retry is up. A slot is free when a completion of its or a later work
 * request is polled. Locks: sq_lock before stalled_lock; whoever holds stalled_lock first only
 * tries sq_lock.
 */
#include "ib/soft/objects.h"

#include <stdlib.h>
#include <string.h>

#define RC_OPCODES                                                                               \
	(1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_SEND |        \
	 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP | \
	 1u << IBV_WR_ATOMIC_FETCH_AND_ADD)
#define UD_OPCODES (1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM)
#define NO_INLINE                                                   \
	(1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP | \
	 1u << IBV_WR_ATOMIC_FETCH_AND_ADD)
#define FOR_EVER UINT64_MAX

static struct sxt_soft_waiting *waiting_at(const struct sxt_soft_qp *qp, uint32_t index)
{
	return (struct sxt_soft_waiting *)(qp->waiting + (index % qp->sq_room) * qp->waiting_bytes);
}

static int check_wr(const struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr)
{
	uint32_t allowed = qp->base.qp_type == IBV_QPT_RC ? RC_OPCODES : UD_OPCODES;
	uint64_t bytes = 0;

	if (wr->opcode >= 32 || (allowed >> wr->opcode & 1) == 0 || wr->sge_cnt > qp->max_sge)
		return EINVAL;
	if (qp->base.qp_type == IBV_QPT_UD && wr->ah == NULL)
		return EINVAL;
	if ((wr->flags & IBV_SEND_INLINE) == 0)
		return 0;
	for (uint32_t i = 0; i < wr->sge_cnt; i++)
		bytes += wr->sge[i].length;
	return bytes > qp->max_inline || (NO_INLINE >> wr->opcode & 1) != 0 ? EINVAL : 0;
}

static void enter_stalled(struct sxt_soft_qp *qp)
{
	struct sxt_soft_engine *engine = qp->engine;
	struct ibv_comp_channel *channel = qp->base.send_cq->channel;

	pthread_mutex_lock(&engine->stalled_lock);
	if (sxt_list_empty(&qp->in_stalled)) {
		sxt_list_append(&engine->stalled, &qp->in_stalled);
		atomic_fetch_add(&engine->stalled_cnt, 1);
	}
	pthread_mutex_unlock(&engine->stalled_lock);
	/* A program that polls the descriptor must come back to try again. */
	if (channel != NULL)
		sxt_soft_channel_retry(SXT_CONTAINER_OF(channel, struct sxt_soft_channel, base));
}

/* Keeps a WR with its SGEs; inline data now, because the caller may reuse it. */
static void enqueue(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr)
{
	struct sxt_soft_waiting *slot = waiting_at(qp, wr->index);
	struct ibv_sge *sges = (struct ibv_sge *)(void *)slot->tail;
	uint8_t *bytes = slot->tail + qp->max_sge * sizeof(*sges);

	slot->wr = *wr;
	slot->wr.sge = sges;
	for (uint32_t i = 0; i < wr->sge_cnt; i++) {
		sges[i] = wr->sge[i];
		if ((wr->flags & IBV_SEND_INLINE) == 0)
			continue;
		memcpy(bytes, (const void *)(uintptr_t)sges[i].addr, sges[i].length);
		sges[i].addr = (uintptr_t)bytes;
		bytes += sges[i].length;
	}
	qp->waiting_cnt++;
	if (qp->waiting_cnt == 1)
		enter_stalled(qp);
}

static uint8_t wc_opcode(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

static void count_error(struct sxt_soft_qp *qp, uint32_t status)
{
	struct sxt_soft_counters *counters = &qp->port->counters;

	atomic_fetch_add_explicit(status == IBV_WC_WR_FLUSH_ERR ? &counters->cqe_flush
								: &counters->cqe_error,
				  1, memory_order_relaxed);
}

void sxt_soft_sq_complete(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr, uint32_t status,
			  uint32_t byte_len, uint64_t visible_ns)
{
	struct sxt_soft_cqe cqe = {0};

	if (visible_ns < qp->send_visible_ns)
		visible_ns = qp->send_visible_ns;
	qp->send_visible_ns = visible_ns;
	if (status == IBV_WC_SUCCESS) {
		if (!qp->sq_sig_all && (wr->flags & IBV_SEND_SIGNALED) == 0)
			return;
	} else {
		count_error(qp, status);
	}
	cqe.visible_ns = visible_ns;
	cqe.wr_id = wr->wr_id;
	cqe.qpn = qp->base.qp_num;
	cqe.qp_slot = qp->slot;
	cqe.byte_len = byte_len;
	cqe.wq_release = wr->index + 1;
	cqe.kind = SXT_SOFT_CQE_SEND;
	cqe.status = (uint8_t)status;
	cqe.opcode = wc_opcode(wr->opcode);
	sxt_soft_cq_push(qp->engine, qp->engine->self, qp->send_cq->slot, &cqe);
}

/* Everything that waits is completed as flushed, oldest first. */
static void flush(struct sxt_soft_qp *qp)
{
	while (qp->waiting_cnt != 0) {
		uint32_t index = qp->sq_head - qp->waiting_cnt--;

		sxt_soft_sq_complete(qp, &waiting_at(qp, index)->wr, IBV_WC_WR_FLUSH_ERR, 0, 0);
	}
	qp->stall = SXT_SOFT_STALL_NONE;
}

void sxt_soft_sq_fail(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr, uint32_t status)
{
	sxt_soft_sq_complete(qp, wr, status, 0, 0);
	sxt_soft_shared_lock(&qp->shared->lock);
	sxt_soft_qp_fail(qp->engine, qp->engine->self, qp->shared, -1);
	sxt_soft_shared_unlock(&qp->shared->lock);
	flush(qp);
}

static uint64_t stall_limit_ns(const struct sxt_soft_qp *qp, const struct sxt_soft_outcome *outcome)
{
	const struct ibv_qp_attr *attr = &qp->attr;

	if (outcome->stall == SXT_SOFT_STALL_RNR)
		return attr->rnr_retry == 7 ? FOR_EVER : outcome->rnr_wait_ns * attr->rnr_retry;
	if (attr->timeout == 0)
		return FOR_EVER;
	return (4096ull << attr->timeout) * (attr->retry_cnt + 1u);
}

static void count_stall(struct sxt_soft_qp *qp, const struct sxt_soft_outcome *outcome,
			uint64_t now)
{
	uint64_t period = outcome->rnr_wait_ns;

	if (now < qp->next_nak_ns)
		return;
	if (outcome->stall == SXT_SOFT_STALL_RNR) {
		atomic_fetch_add_explicit(&qp->dst_port->counters.out_of_buffer, 1,
					  memory_order_relaxed);
	} else {
		atomic_fetch_add_explicit(&qp->port->counters.ack_timeout, 1, memory_order_relaxed);
		period = qp->attr.timeout == 0 ? SXT_SOFT_RETRY_NS : 4096ull << qp->attr.timeout;
	}
	qp->next_nak_ns = now + period;
}

/* A WR was refused: 0 while it may be tried again, else the status to give up with. */
static uint32_t note_stall(struct sxt_soft_qp *qp, const struct sxt_soft_outcome *outcome)
{
	uint64_t now = sxt_soft_now_ns();

	if (qp->stall != outcome->stall) {
		qp->stall = outcome->stall;
		qp->stalled_since_ns = now;
		qp->next_nak_ns = now;
	}
	qp->stall_limit_ns = stall_limit_ns(qp, outcome);
	count_stall(qp, outcome, now);
	if (now - qp->stalled_since_ns < qp->stall_limit_ns)
		return 0;
	if (outcome->stall != SXT_SOFT_STALL_RNR)
		return IBV_WC_RETRY_EXC_ERR;
	atomic_fetch_add_explicit(&qp->port->counters.rnr_nak, 1, memory_order_relaxed);
	return IBV_WC_RNR_RETRY_EXC_ERR;
}

static void execute(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
		    struct sxt_soft_outcome *out)
{
	if (qp->base.qp_type == IBV_QPT_RC)
		sxt_soft_rc_execute(qp, wr, out);
	else
		sxt_soft_ud_execute(qp, wr, out);
	if (SXT_UNLIKELY(out->stall != SXT_SOFT_STALL_NONE)) {
		out->status = note_stall(qp, out);
		if (out->status != 0)
			out->stall = SXT_SOFT_STALL_NONE;
	} else {
		qp->stall = SXT_SOFT_STALL_NONE;
	}
}

static void finish(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
		   const struct sxt_soft_outcome *outcome)
{
	if (SXT_LIKELY(outcome->status == IBV_WC_SUCCESS))
		sxt_soft_sq_complete(qp, wr, IBV_WC_SUCCESS, outcome->byte_len,
				     outcome->visible_ns);
	else
		sxt_soft_sq_fail(qp, wr, outcome->status);
}

void sxt_soft_sq_progress(struct sxt_soft_qp *qp)
{
	uint32_t state = atomic_load_explicit(&qp->shared->state, memory_order_acquire);
	struct sxt_soft_outcome outcome;

	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
		flush(qp);
		return;
	}
	while (state == IBV_QPS_RTS && qp->waiting_cnt != 0) {
		const struct sxt_soft_wr *wr = &waiting_at(qp, qp->sq_head - qp->waiting_cnt)->wr;

		execute(qp, wr, &outcome);
		if (outcome.stall != SXT_SOFT_STALL_NONE)
			return;
		qp->waiting_cnt--;
		finish(qp, wr, &outcome);
	}
}

void sxt_soft_progress_all(struct sxt_soft_engine *engine)
{
	struct sxt_list *node;
	struct sxt_list *after;

	/* Somebody else is at it: no need to wait. */
	if (pthread_mutex_trylock(&engine->stalled_lock) != 0)
		return;
	sxt_list_for_each (node, after, &engine->stalled) {
		struct sxt_soft_qp *qp = SXT_LIST_ENTRY(node, struct sxt_soft_qp, in_stalled);

		if (pthread_mutex_trylock(&qp->sq_lock) != 0)
			continue;
		sxt_soft_sq_progress(qp);
		if (qp->waiting_cnt == 0) {
			sxt_list_remove(&qp->in_stalled);
			atomic_fetch_sub(&engine->stalled_cnt, 1);
		}
		pthread_mutex_unlock(&qp->sq_lock);
	}
	pthread_mutex_unlock(&engine->stalled_lock);
}

/* A QP that is not in RTS: refused, lined up, or flushed at once. */
static int submit_elsewhere(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr, uint32_t state)
{
	switch (state) {
	case IBV_QPS_SQD:
		enqueue(qp, wr);
		return 0;
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		flush(qp);
		sxt_soft_sq_complete(qp, wr, IBV_WC_WR_FLUSH_ERR, 0, 0);
		return 0;
	default:
		return EINVAL;
	}
}

int sxt_soft_sq_submit(struct sxt_soft_qp *qp, struct sxt_soft_wr *wr)
{
	uint32_t state = atomic_load_explicit(&qp->shared->state, memory_order_acquire);
	struct sxt_soft_outcome outcome;
	int rc = check_wr(qp, wr);

	if (rc != 0)
		return rc;
	if (state < IBV_QPS_RTS)
		return EINVAL;
	/* Pairs with the release of the poller that freed the slot. */
	if (qp->sq_head - atomic_load_explicit(&qp->sq_tail, memory_order_acquire) >= qp->sq_room)
		return ENOMEM;
	if (SXT_UNLIKELY(qp->waiting_cnt != 0))
		sxt_soft_sq_progress(qp);
	wr->index = qp->sq_head;
	state = atomic_load_explicit(&qp->shared->state, memory_order_acquire);
	if (SXT_UNLIKELY(state != IBV_QPS_RTS)) {
		rc = submit_elsewhere(qp, wr, state);
		if (rc == 0)
			qp->sq_head++;
		return rc;
	}
	if (SXT_UNLIKELY(qp->waiting_cnt != 0)) {
		enqueue(qp, wr);
		qp->sq_head++;
		return 0;
	}
	execute(qp, wr, &outcome);
	if (SXT_UNLIKELY(outcome.stall != SXT_SOFT_STALL_NONE))
		enqueue(qp, wr);
	else
		finish(qp, wr, &outcome);
	qp->sq_head++;
	return 0;
}

void sxt_soft_sq_drop(struct sxt_soft_qp *qp)
{
	qp->waiting_cnt = 0;
	qp->stall = SXT_SOFT_STALL_NONE;
	qp->sq_head = 0;
	atomic_store(&qp->sq_tail, 0);
	qp->send_visible_ns = 0;
}

static void convert(const struct sxt_soft_qp *qp, const struct ibv_send_wr *from,
		    struct sxt_soft_wr *to)
{
	bool is_atomic = from->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			 from->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	to->wr_id = from->wr_id;
	to->opcode = from->opcode;
	to->flags = from->send_flags;
	to->imm_data = from->imm_data;
	to->sge = from->sg_list;
	to->sge_cnt = (uint32_t)from->num_sge;
	if (qp->base.qp_type == IBV_QPT_UD) {
		to->ah = from->wr.ud.ah;
		to->remote_qpn = from->wr.ud.remote_qpn;
		to->remote_qkey = from->wr.ud.remote_qkey;
		return;
	}
	to->remote_addr = is_atomic ? from->wr.atomic.remote_addr : from->wr.rdma.remote_addr;
	to->rkey = is_atomic ? from->wr.atomic.rkey : from->wr.rdma.rkey;
	to->compare_add = from->wr.atomic.compare_add;
	to->swap = from->wr.atomic.swap;
}

int sxt_soft_qp_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sxt_soft_qp *qp = SXT_CONTAINER_OF(base, struct sxt_soft_qp, base);
	struct sxt_soft_wr one;
	int rc = 0;

	memset(&one, 0, sizeof(one));
	pthread_mutex_lock(&qp->sq_lock);
	for (; wr != NULL; wr = wr->next) {
		convert(qp, wr, &one);
		rc = sxt_soft_sq_submit(qp, &one);
		if (rc != 0) {
			*bad = wr;
			break;
		}
	}
	pthread_mutex_unlock(&qp->sq_lock);
	return rc;
}
