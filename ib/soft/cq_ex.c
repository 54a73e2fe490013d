/*
 * cq_ex.c - the extended CQ: one completion at a time, fields read through pointers. Hot.
 *
 * start_poll takes poll_lock when it finds a completion; end_poll gives it back.
 */
#include "ib/soft/objects.h"

#include <time.h>

static struct sxt_soft_cq *cq_of(struct ibv_cq_ex *ex)
{
	return SXT_CONTAINER_OF(ex, struct sxt_soft_cq, ex);
}

/* ENOENT when there is none, EIO when the CQ overran; else the current one is loaded. */
static int load_next(struct sxt_soft_cq *cq)
{
	int rc = sxt_soft_cq_next(cq, &cq->current);

	if (rc != 0)
		return -rc;
	cq->ex.wr_id = cq->current.wr_id;
	cq->ex.status = (enum ibv_wc_status)cq->current.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sxt_soft_cq *cq = cq_of(ex);
	int rc;

	if (attr->comp_mask != 0)
		return EINVAL;
	if (SXT_UNLIKELY(atomic_load_explicit(&cq->engine->stalled_cnt, memory_order_relaxed)))
		sxt_soft_progress_all(cq->engine);
	pthread_mutex_lock(&cq->poll_lock);
	rc = load_next(cq);
	if (rc != 0)
		pthread_mutex_unlock(&cq->poll_lock);
	return rc;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return load_next(cq_of(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	pthread_mutex_unlock(&cq_of(ex)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return (enum ibv_wc_opcode)cq_of(ex)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->current.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	uint64_t modelled = cq_of(ex)->current.visible_ns;

	return modelled != 0 ? modelled : sxt_soft_now_ns();
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec -
	       (sxt_soft_now_ns() - read_completion_ts(ex));
}

void sxt_soft_cq_ex_init(struct sxt_soft_cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0)
		ex->read_byte_len = read_byte_len;
	if ((wc_flags & IBV_WC_EX_WITH_IMM) != 0)
		ex->read_imm_data = read_imm_data;
	if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0)
		ex->read_qp_num = read_qp_num;
	if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0)
		ex->read_src_qp = read_src_qp;
	if ((wc_flags & IBV_WC_EX_WITH_SLID) != 0)
		ex->read_slid = read_slid;
	if ((wc_flags & IBV_WC_EX_WITH_SL) != 0)
		ex->read_sl = read_sl;
	if ((wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0)
		ex->read_completion_ts = read_completion_ts;
	if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
