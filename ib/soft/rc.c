/*
 * rc.c - reliable connections: one work request from checks to completion. Hot.
 *
 * The initiator does all of it: it finds the peer's QP, holds that QP's lock, moves the memory,
 * takes a receive where the operation needs one and writes the peer's completion. What a real
 * requester would retry is answered with a stall and tried again by sq.c.
 */
#include "ib/soft/objects.h"

#include "core/log.h"
#include "core/status.h"

#include <stdlib.h>
#include <string.h>

#define ATOMIC_BYTES 8u

enum ibv_wc_status sxt_soft_gather(const struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
				   uint32_t access, struct iovec *out, size_t *bytes_out)
{
	struct sxt_soft_arena *arena = qp->engine->self->arena;
	bool is_inline = (wr->flags & IBV_SEND_INLINE) != 0;
	size_t bytes = 0;

	for (uint32_t i = 0; i < wr->sge_cnt; i++) {
		const struct ibv_sge *sge = &wr->sge[i];
		const struct sxt_soft_mr_entry *mr;
		uint64_t addr = sge->addr;

		if (!is_inline && sge->length != 0) {
			mr = sxt_soft_mr_find(arena, qp->shared->pd, sge->lkey, addr, sge->length,
					      access);
			if (mr == NULL)
				return IBV_WC_LOC_PROT_ERR;
			addr = mr->addr + (addr - mr->iova);
		}
		out[i].iov_base = (void *)(uintptr_t)addr;
		out[i].iov_len = sge->length;
		bytes += sge->length;
	}
	*bytes_out = bytes;
	return bytes <= SXT_SOFT_MAX_MSG_BYTES ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

/* Who the QP talks to, kept until it is gone. */
static bool resolve(struct sxt_soft_qp *qp)
{
	const struct sxt_soft_fabric *fabric = qp->engine->state->fabric;

	if (SXT_LIKELY(qp->dst != NULL &&
		       sxt_soft_proc_is_alive(fabric, qp->dst->slot, qp->dst->word) &&
		       atomic_load_explicit(&qp->dst_qp->qpn, memory_order_relaxed) ==
			       qp->attr.dest_qp_num))
		return true;
	sxt_soft_qp_unresolve(qp);
	qp->dst_port = sxt_soft_port_by_address(qp->engine, qp->port, &qp->attr.ah_attr);
	if (qp->dst_port == NULL)
		return false;
	if (sxt_soft_qpn_find(qp->engine, qp->attr.dest_qp_num, &qp->dst, &qp->dst_qp) != 0) {
		qp->dst = NULL;
		return false;
	}
	return true;
}

static bool pkeys_match(uint16_t a, uint16_t b)
{
	/* Same partition, and at least one of the two a full member. */
	return (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000) != 0;
}

/*
 * Would the peer's QP take a packet of ours, and we its answer? Under its lock. Packet sequence
 * numbers move in step from where both ends were told to start, so only that is compared.
 */
static bool peer_takes(const struct sxt_soft_qp *qp)
{
	const struct sxt_soft_qp_shared *peer = qp->dst_qp;
	const struct sxt_soft_port *ports = qp->engine->state->fabric->ports;
	uint32_t state = atomic_load_explicit(&peer->state, memory_order_relaxed);

	return atomic_load_explicit(&peer->qpn, memory_order_relaxed) == qp->attr.dest_qp_num &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       peer->type == IBV_QPT_RC && peer->dest_qpn == qp->base.qp_num &&
	       peer->rq_psn == qp->attr.sq_psn && &ports[peer->port] == qp->dst_port &&
	       peer->answer_port == (uint32_t)(qp->port - ports) &&
	       pkeys_match(peer->pkey, qp->shared->pkey) &&
	       qp->shared->path_mtu <= qp->dst_port->active_mtu;
}

/* What the responder says: a status for the initiator, an event for itself. */
static void responder_error(struct sxt_soft_qp *qp, struct sxt_soft_outcome *out, uint32_t status,
			    int event)
{
	sxt_soft_qp_fail(qp->engine, qp->dst, qp->dst_qp, event);
	if (status == IBV_WC_REM_ACCESS_ERR)
		atomic_fetch_add_explicit(&qp->port->counters.remote_access, 1,
					  memory_order_relaxed);
	out->status = status;
}

static const struct sxt_soft_mr_entry *remote_find(struct sxt_soft_qp *qp,
						   const struct sxt_soft_wr *wr, size_t bytes,
						   uint32_t access, struct sxt_soft_outcome *out)
{
	const struct sxt_soft_mr_entry *mr;

	if ((qp->dst_qp->access & access) == 0) {
		responder_error(qp, out, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
		return NULL;
	}
	mr = sxt_soft_mr_find(qp->dst->arena, qp->dst_qp->pd, wr->rkey, wr->remote_addr, bytes,
			      access);
	if (mr == NULL)
		responder_error(qp, out, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	return mr;
}

/* A move that the kernel refused. */
static void move_failed(struct sxt_soft_qp *qp, struct sxt_soft_outcome *out, int rc)
{
	if (rc == -ESRCH) {
		/* Killed: to the wire it has fallen silent. */
		out->stall = SXT_SOFT_STALL_UNREACHABLE;
		return;
	}
	SXT_LOG(SXT_LOG_WARN, "qp 0x%x: moving memory of process %d: %s%s", qp->base.qp_num,
		qp->dst->pid, sxt_strerror(rc),
		rc == -EPERM ? "; allow it with kernel.yama.ptrace_scope=0 or CAP_SYS_PTRACE, or "
			       "use shared memory (memfd, /dev/shm)"
			     : "; it was unmapped after it was registered");
	out->status = IBV_WC_REM_OP_ERR;
}

static void count_transfer(struct sxt_soft_port *from, struct sxt_soft_port *to, uint8_t mtu,
			   size_t bytes)
{
	uint64_t packets = bytes == 0 ? 1 : (bytes + (127u << mtu)) / (128u << mtu);

	atomic_fetch_add_explicit(&from->counters.xmit_bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&from->counters.xmit_packets, packets, memory_order_relaxed);
	atomic_fetch_add_explicit(&to->counters.rcv_bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&to->counters.rcv_packets, packets, memory_order_relaxed);
}

/* A transfer one way and the short packet of the other way: acknowledgement or request. */
static uint64_t answer_time(const struct sxt_soft_qp *qp, uint64_t transfer_ns)
{
	if (SXT_LIKELY(transfer_ns == 0))
		return 0;
	return transfer_ns + sxt_soft_path_latency(qp->port, qp->dst_port);
}

static void receiver_not_ready(struct sxt_soft_qp *qp, struct sxt_soft_outcome *out)
{
	static const uint32_t timer_us[32] = {655360, 10,     20,     30,    40,    60,    80,
					      120,    160,    240,    320,   480,   640,   960,
					      1280,   1920,   2560,   3840,  5120,  7680,  10240,
					      15360,  20480,  30720,  40960, 61440, 81920, 122880,
					      163840, 245760, 327680, 491520};

	out->stall = SXT_SOFT_STALL_RNR;
	out->rnr_wait_ns = timer_us[qp->dst_qp->min_rnr_timer & 31] * 1000ull;
}

/* SEND, and the immediate of a WRITE whose data is there already. */
static void deliver(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
		    struct sxt_soft_message *message, struct sxt_soft_outcome *out)
{
	message->src_qpn = qp->base.qp_num;
	message->imm_data = wr->imm_data;
	message->has_imm = wr->opcode != IBV_WR_SEND;
	message->solicited = (wr->flags & IBV_SEND_SOLICITED) != 0;
	message->slid = qp->port->lid;
	message->sl = qp->attr.ah_attr.sl;
	switch (sxt_soft_deliver(qp->engine, qp->dst, qp->dst_qp, message)) {
	case SXT_SOFT_DELIVERED:
		return;
	case SXT_SOFT_DELIVER_EMPTY:
		receiver_not_ready(qp, out);
		return;
	case SXT_SOFT_DELIVER_DEAD:
		out->stall = SXT_SOFT_STALL_UNREACHABLE;
		return;
	case SXT_SOFT_DELIVER_TOO_LONG:
		responder_error(qp, out, IBV_WC_REM_INV_REQ_ERR, -1);
		return;
	default:
		responder_error(qp, out, IBV_WC_REM_OP_ERR, -1);
		return;
	}
}

static bool receive_waits(const struct sxt_soft_qp *qp)
{
	const struct sxt_soft_qp_shared *peer = qp->dst_qp;
	const struct sxt_soft_recv_ring *ring =
		peer->srq == SXT_SOFT_NONE ? &peer->rq : &qp->dst->arena->srqs[peer->srq].rq;

	return atomic_load_explicit(&ring->head, memory_order_acquire) !=
	       atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* Everything below runs with the peer's QP locked and sets out->status on a failure. */
static void execute_write(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			  struct sxt_soft_outcome *out)
{
	struct iovec from[SXT_SOFT_SGE_MAX];
	struct sxt_soft_message message = {.is_write = true};
	const struct sxt_soft_mr_entry *mr;
	size_t bytes;
	int rc;

	out->status = sxt_soft_gather(qp, wr, 0, from, &bytes);
	if (out->status != IBV_WC_SUCCESS)
		return;
	/* The immediate's receive is looked for first: a stalled WRITE moves nothing. */
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !receive_waits(qp)) {
		receiver_not_ready(qp, out);
		return;
	}
	if (bytes != 0) {
		mr = remote_find(qp, wr, bytes, IBV_ACCESS_REMOTE_WRITE, out);
		if (mr == NULL)
			return;
		rc = sxt_soft_move_write(qp->dst, mr, wr->remote_addr, from, wr->sge_cnt, bytes);
		if (rc != 0) {
			move_failed(qp, out, rc);
			return;
		}
	}
	message.visible_ns = sxt_soft_path_time(qp->port, qp->dst_port, bytes);
	out->visible_ns = answer_time(qp, message.visible_ns);
	count_transfer(qp->port, qp->dst_port, qp->shared->path_mtu, bytes);
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		message.bytes = bytes;
		deliver(qp, wr, &message, out);
	}
}

static void execute_send(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			 struct sxt_soft_outcome *out)
{
	struct iovec from[SXT_SOFT_SGE_MAX];
	struct sxt_soft_message message = {.from = from, .from_cnt = wr->sge_cnt};

	out->status = sxt_soft_gather(qp, wr, 0, from, &message.bytes);
	if (out->status != IBV_WC_SUCCESS)
		return;
	if (!receive_waits(qp)) {
		receiver_not_ready(qp, out);
		return;
	}
	message.visible_ns = sxt_soft_path_time(qp->port, qp->dst_port, message.bytes);
	out->visible_ns = answer_time(qp, message.visible_ns);
	count_transfer(qp->port, qp->dst_port, qp->shared->path_mtu, message.bytes);
	deliver(qp, wr, &message, out);
}

static void execute_read(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			 struct sxt_soft_outcome *out)
{
	struct iovec to[SXT_SOFT_SGE_MAX];
	const struct sxt_soft_mr_entry *mr;
	size_t bytes;
	int rc;

	out->status = sxt_soft_gather(qp, wr, IBV_ACCESS_LOCAL_WRITE, to, &bytes);
	if (out->status != IBV_WC_SUCCESS)
		return;
	if (qp->dst_qp->max_dest_rd_atomic == 0) {
		responder_error(qp, out, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (bytes != 0) {
		mr = remote_find(qp, wr, bytes, IBV_ACCESS_REMOTE_READ, out);
		if (mr == NULL)
			return;
		rc = sxt_soft_move_read(qp->dst, mr, wr->remote_addr, to, wr->sge_cnt, bytes);
		if (rc != 0) {
			move_failed(qp, out, rc);
			return;
		}
	}
	out->byte_len = (uint32_t)bytes;
	out->visible_ns = answer_time(qp, sxt_soft_path_time(qp->dst_port, qp->port, bytes));
	count_transfer(qp->dst_port, qp->port, qp->shared->path_mtu, bytes);
}

static void execute_atomic(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			   struct sxt_soft_outcome *out)
{
	struct iovec to[SXT_SOFT_SGE_MAX];
	const struct sxt_soft_mr_entry *mr;
	uint64_t old;
	size_t bytes;
	int rc;

	out->status = sxt_soft_gather(qp, wr, IBV_ACCESS_LOCAL_WRITE, to, &bytes);
	if (out->status != IBV_WC_SUCCESS)
		return;
	if (bytes != ATOMIC_BYTES || wr->sge_cnt != 1) {
		out->status = IBV_WC_LOC_LEN_ERR;
		return;
	}
	if (wr->remote_addr % ATOMIC_BYTES != 0 || qp->dst_qp->max_dest_rd_atomic == 0) {
		responder_error(qp, out, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	mr = remote_find(qp, wr, ATOMIC_BYTES, IBV_ACCESS_REMOTE_ATOMIC, out);
	if (mr == NULL)
		return;
	rc = sxt_soft_move_atomic(qp->dst, mr, wr->remote_addr, wr, &old);
	if (rc != 0) {
		move_failed(qp, out, rc);
		return;
	}
	memcpy(to[0].iov_base, &old, sizeof(old));
	out->byte_len = ATOMIC_BYTES;
	out->visible_ns = answer_time(qp, sxt_soft_path_time(qp->dst_port, qp->port, ATOMIC_BYTES));
	count_transfer(qp->port, qp->dst_port, qp->shared->path_mtu, ATOMIC_BYTES);
}

static void execute_locked(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			   struct sxt_soft_outcome *out)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		execute_write(qp, wr, out);
		return;
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		execute_send(qp, wr, out);
		return;
	case IBV_WR_RDMA_READ:
		execute_read(qp, wr, out);
		return;
	default:
		execute_atomic(qp, wr, out);
		return;
	}
}

void sxt_soft_rc_execute(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			 struct sxt_soft_outcome *out)
{
	uint32_t fault;

	memset(out, 0, sizeof(*out));
	out->status = IBV_WC_SUCCESS;
	if (SXT_UNLIKELY(sxt_soft_fault_take(&qp->port->fault_wc, &fault))) {
		out->status = fault;
		return;
	}
	if (SXT_UNLIKELY(!resolve(qp) || !sxt_soft_path_is_open(qp->port, qp->dst_port))) {
		out->stall = SXT_SOFT_STALL_UNREACHABLE;
		return;
	}
	sxt_soft_shared_lock(&qp->dst_qp->lock);
	if (SXT_LIKELY(peer_takes(qp)))
		execute_locked(qp, wr, out);
	else
		out->stall = SXT_SOFT_STALL_UNREACHABLE;
	sxt_soft_shared_unlock(&qp->dst_qp->lock);
}
