/*
 * qp_ex.c - the ibv_wr_* way to post: work requests are built in place, then posted as one. Hot.
 *
 * wr_start takes the QP's sq_lock, wr_complete and wr_abort give it back; in between the caller
 * fills the current request. Inline data is copied, as the interface promises.
 */
#include "ib/soft/objects.h"

#include <stdlib.h>
#include <string.h>

#define RC_OPS                                                                                  \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

static struct sxt_soft_qp *qp_of(struct ibv_qp_ex *ex)
{
	return SXT_CONTAINER_OF(ex, struct sxt_soft_qp, ex);
}

static struct sxt_soft_wr *current(struct sxt_soft_qp *qp)
{
	return qp->build.cnt == 0 ? NULL : &qp->build.wrs[qp->build.cnt - 1];
}

static struct ibv_sge *sges_of(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr)
{
	return &qp->build.sges[(size_t)(wr - qp->build.wrs) * qp->max_sge];
}

static struct sxt_soft_wr *begin(struct ibv_qp_ex *ex, uint32_t opcode)
{
	struct sxt_soft_qp *qp = qp_of(ex);
	struct sxt_soft_builder *build = &qp->build;
	struct sxt_soft_wr *wr;

	if (build->cnt == qp->sq_room) {
		if (build->error == 0)
			build->error = ENOMEM;
		/* What follows goes into the last one, and none is posted. */
		build->cnt = qp->sq_room == 0 ? 0 : qp->sq_room - 1;
	}
	wr = &build->wrs[build->cnt++];
	memset(wr, 0, sizeof(*wr));
	wr->opcode = opcode;
	wr->wr_id = ex->wr_id;
	wr->flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	wr->sge = sges_of(qp, wr);
	return wr;
}

static void begin_remote(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t rkey, uint64_t addr)
{
	struct sxt_soft_wr *wr = begin(ex, opcode);

	wr->rkey = rkey;
	wr->remote_addr = addr;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr);
	current(qp_of(ex))->imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct sxt_soft_wr *wr;

	begin_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr);
	wr = current(qp_of(ex));
	wr->compare_add = compare;
	wr->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr);
	current(qp_of(ex))->compare_add = add;
}

/* The current request, or NULL after an error. */
static struct sxt_soft_wr *filled(struct ibv_qp_ex *ex)
{
	struct sxt_soft_qp *qp = qp_of(ex);

	if (qp->build.error == 0 && qp->build.cnt == 0)
		qp->build.error = EINVAL;
	return qp->build.error != 0 ? NULL : current(qp);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct sxt_soft_wr *wr = filled(ex);

	if (wr == NULL)
		return;
	wr->ah = ah;
	wr->remote_qpn = qpn;
	wr->remote_qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t cnt, const struct ibv_sge *list)
{
	struct sxt_soft_qp *qp = qp_of(ex);
	struct sxt_soft_wr *wr = filled(ex);

	if (wr == NULL)
		return;
	if (cnt > qp->max_sge) {
		qp->build.error = EINVAL;
		return;
	}
	if (cnt != 0)
		memcpy(sges_of(qp, wr), list, cnt * sizeof(*list));
	wr->sge_cnt = (uint32_t)cnt;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t cnt,
				    const struct ibv_data_buf *list)
{
	struct sxt_soft_qp *qp = qp_of(ex);
	struct sxt_soft_wr *wr = filled(ex);
	struct ibv_sge *sge;
	uint8_t *to;
	size_t bytes = 0;

	if (wr == NULL)
		return;
	to = &qp->build.inline_bytes[(size_t)(wr - qp->build.wrs) * qp->max_inline];
	for (size_t i = 0; i < cnt; i++) {
		if (list[i].length > qp->max_inline - bytes) {
			qp->build.error = EINVAL;
			return;
		}
		memcpy(to + bytes, list[i].addr, list[i].length);
		bytes += list[i].length;
	}
	sge = sges_of(qp, wr);
	sge->addr = (uintptr_t)to;
	sge->length = (uint32_t)bytes;
	wr->sge_cnt = 1;
	wr->flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct sxt_soft_qp *qp = qp_of(ex);

	pthread_mutex_lock(&qp->sq_lock);
	qp->build.cnt = 0;
	qp->build.error = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&qp_of(ex)->sq_lock);
}

/* All or none: what is wrong or does not fit is found before the first one is carried out. */
static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sxt_soft_qp *qp = qp_of(ex);
	struct sxt_soft_builder *build = &qp->build;
	uint32_t used = qp->sq_head - atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
	int rc = build->error;

	if (rc == 0 && build->cnt > qp->sq_room - used)
		rc = ENOMEM;
	for (uint32_t i = 0; i < build->cnt && rc == 0; i++)
		rc = sxt_soft_sq_submit(qp, &build->wrs[i]);
	pthread_mutex_unlock(&qp->sq_lock);
	return rc;
}

int sxt_soft_qp_ex_init(struct sxt_soft_qp *qp, uint64_t ops, bool is_ud)
{
	struct sxt_soft_builder *build = &qp->build;
	size_t room = qp->sq_room == 0 ? 1 : qp->sq_room;
	struct ibv_qp_ex *ex = &qp->ex;

	if ((ops & ~(uint64_t)(is_ud ? UD_OPS : RC_OPS)) != 0)
		return -EOPNOTSUPP;
	build->wrs = calloc(room, sizeof(*build->wrs));
	build->sges = calloc(room * qp->max_sge, sizeof(*build->sges));
	build->inline_bytes = calloc(room, qp->max_inline + 1);
	if (build->wrs == NULL || build->sges == NULL || build->inline_bytes == NULL)
		return -ENOMEM; /* the QP's destructor frees them */
	qp->is_ex = true;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	return 0;
}

void sxt_soft_qp_ex_fini(struct sxt_soft_qp *qp)
{
	free(qp->build.wrs);
	free(qp->build.sges);
	free(qp->build.inline_bytes);
}
