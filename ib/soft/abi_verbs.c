/*
 * abi_verbs.c - PDs, MRs, CQs, QPs, SRQs and address handles as libibverbs exports them.
 *
 * Thin: the engine does the work and answers 0 or -errno, here that becomes what the manual page
 * of each verb says. Control path, any thread; the data path goes through ibv_context.ops and
 * never comes by here.
 */
#include "ib/soft/abi.h"

#include "ib/soft/engine.h"

#include <errno.h>

SXT_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = NULL;
	int rc = sxt_soft_pd_alloc(context, &pd);

	if (rc != 0)
		errno = -rc;
	return pd;
}

SXT_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return -sxt_soft_pd_dealloc(pd);
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, const struct sxt_soft_mr_request *request)
{
	struct ibv_mr *mr = NULL;
	int rc = sxt_soft_mr_register(pd, request, &mr);

	if (rc != 0)
		errno = -rc;
	return mr;
}

SXT_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					   uint64_t iova, unsigned int access)
{
	struct sxt_soft_mr_request request = {
		.addr = addr,
		.iova = iova,
		.length = length,
		.access = access,
		.dmabuf_fd = -1,
	};

	return mr_register(pd, &request);
}

SXT_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

SXT_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

SXT_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					    uint64_t iova, int fd, int access)
{
	struct sxt_soft_mr_request request = {
		.iova = iova,
		.length = length,
		.access = (unsigned int)access,
		.dmabuf_fd = fd,
		.dmabuf_offset = offset,
	};

	if (fd < 0) {
		errno = EBADF;
		return NULL;
	}
	return mr_register(pd, &request);
}

/* The region is untouched and stays valid, which is what this error code promises. */
SXT_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			    size_t length, int access)
{
	sxt_ignore(mr == NULL || pd == NULL || addr == NULL || length == 0 || flags == access);
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}

SXT_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return -sxt_soft_mr_deregister(mr);
}

SXT_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = NULL;
	int rc = sxt_soft_channel_create(context, &channel);

	if (rc != 0)
		errno = -rc;
	return channel;
}

SXT_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return -sxt_soft_channel_destroy(channel);
}

SXT_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct ibv_cq_ex *cq = NULL;
	int rc = cqe < 1 ? -EINVAL : sxt_soft_cq_create(context, &attr, &cq);

	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	return ibv_cq_ex_to_cq(cq);
}

SXT_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return -sxt_soft_cq_resize(cq, cqe);
}

SXT_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	return -sxt_soft_cq_destroy(cq);
}

SXT_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				void **cq_context)
{
	int rc = sxt_soft_cq_event_get(channel, cq, cq_context);

	if (rc == 0)
		return 0;
	errno = -rc;
	return -1;
}

SXT_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	sxt_soft_cq_event_ack(cq, nevents);
}

/* The old structure is the beginning of the extended one, as verbs.h itself relies on. */
SXT_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = NULL;
	int rc = sxt_soft_qp_create(pd->context, &ex, &qp);

	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	attr->cap = ex.cap;
	return qp;
}

SXT_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return sxt_soft_qp_to_ex(qp);
}

SXT_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			    struct ibv_qp_init_attr *init_attr)
{
	sxt_ignore(attr_mask); /* a hint of what the caller needs; it gets everything */
	return -sxt_soft_qp_query(qp, attr, init_attr);
}

/* Only promised where one write is one copy in address order, which the kernel does not say. */
SXT_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	sxt_ignore(qp == NULL || op == IBV_WR_SEND || flags != 0);
	return 0;
}

SXT_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return -sxt_soft_qp_modify(qp, attr, attr_mask);
}

SXT_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	return -sxt_soft_qp_destroy(qp);
}

SXT_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = NULL;
	int rc = sxt_soft_srq_create(pd, attr, &srq);

	if (rc != 0)
		errno = -rc;
	return srq;
}

SXT_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	return -sxt_soft_srq_modify(srq, attr, attr_mask);
}

SXT_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return -sxt_soft_srq_query(srq, attr);
}

SXT_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	return -sxt_soft_srq_destroy(srq);
}

SXT_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = NULL;
	int rc = sxt_soft_ah_create(pd, attr, &ah);

	if (rc != 0)
		errno = -rc;
	return ah;
}

SXT_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
				   struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	int rc = sxt_soft_ah_attr_from_wc(context, port_num, wc, grh, ah_attr);

	if (rc == 0)
		return 0;
	errno = -rc;
	return -1;
}

SXT_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
						struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}

SXT_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	return -sxt_soft_ah_destroy(ah);
}
