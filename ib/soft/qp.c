/*
 * qp.c - making, asking and destroying queue pairs. Slow paths, any thread.
 */
#include "ib/soft/objects.h"

#include <stdlib.h>
#include <string.h>

static struct sxt_soft_qp *qp_of(struct ibv_qp *base)
{
	return SXT_CONTAINER_OF(base, struct sxt_soft_qp, base);
}

static struct sxt_soft_cq *cq_of(struct ibv_cq *base)
{
	return SXT_CONTAINER_OF(base, struct sxt_soft_cq, base);
}

void sxt_soft_qp_unresolve(struct sxt_soft_qp *qp)
{
	sxt_soft_peer_put(qp->engine, qp->dst);
	qp->dst = NULL;
	qp->dst_qp = NULL;
	qp->dst_port = NULL;
}

static int check_attr(const struct sxt_soft_context *ctx, const struct ibv_qp_init_attr_ex *attr)
{
	const struct sxt_soft_hca *hca = ctx->hca;
	uint32_t max_sge = hca->max_sge < SXT_SOFT_SGE_MAX ? hca->max_sge : SXT_SOFT_SGE_MAX;
	const struct ibv_qp_cap *cap = &attr->cap;
	uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & ~known) != 0)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == NULL ||
	    attr->send_cq == NULL || attr->recv_cq == NULL)
		return -EINVAL;
	if (cap->max_send_wr > hca->max_qp_wr || cap->max_send_sge > max_sge ||
	    cap->max_inline_data > hca->max_inline)
		return -EINVAL;
	if (attr->srq == NULL && (cap->max_recv_wr > hca->max_qp_wr || cap->max_recv_sge > max_sge))
		return -EINVAL;
	return 0;
}

static int take_slot(struct sxt_soft_engine *engine, struct sxt_soft_qp *qp)
{
	int rc = -ENOMEM;

	pthread_mutex_lock(&engine->lock);
	qp->slot = sxt_soft_table_take(&engine->qps, qp);
	if (qp->slot != SXT_SOFT_NONE) {
		qp->shared = &engine->self->arena->qps[qp->slot];
		rc = sxt_soft_lock_ready(&qp->shared->lock, &qp->shared->lock_ready);
		if (rc != 0)
			engine->qps.items[qp->slot] = NULL;
	}
	pthread_mutex_unlock(&engine->lock);
	if (rc != 0)
		qp->shared = NULL;
	return rc;
}

static void give_slot(struct sxt_soft_qp *qp)
{
	pthread_mutex_lock(&qp->engine->lock);
	qp->engine->qps.items[qp->slot] = NULL;
	pthread_mutex_unlock(&qp->engine->lock);
}

static int make_queues(struct sxt_soft_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	bool has_rq = attr->srq == NULL;

	qp->sq_room = cap->max_send_wr;
	qp->max_sge = cap->max_send_sge == 0 ? 1 : cap->max_send_sge;
	qp->max_inline = cap->max_inline_data;
	qp->cap = *cap;
	qp->waiting_bytes = sizeof(struct sxt_soft_waiting) + qp->max_sge * sizeof(struct ibv_sge) +
			    ((qp->max_inline + 7) & ~7u);
	qp->waiting = calloc(qp->sq_room == 0 ? 1 : qp->sq_room, qp->waiting_bytes);
	if (qp->waiting == NULL)
		return -ENOMEM;
	return sxt_soft_recv_ring_init(qp->engine, &qp->shared->rq, has_rq ? cap->max_recv_wr : 0,
				       has_rq ? cap->max_recv_sge : 0, &qp->rq_bytes);
}

static void fill_shared(struct sxt_soft_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	struct sxt_soft_qp_shared *shared = qp->shared;

	sxt_soft_shared_lock(&shared->lock);
	shared->type = attr->qp_type;
	shared->pd = SXT_CONTAINER_OF(attr->pd, struct sxt_soft_pd, base)->id;
	shared->context = qp->context->slot;
	shared->port = 0;
	shared->send_cq = cq_of(attr->send_cq)->slot;
	shared->recv_cq = cq_of(attr->recv_cq)->slot;
	shared->srq = attr->srq == NULL
			      ? SXT_SOFT_NONE
			      : SXT_CONTAINER_OF(attr->srq, struct sxt_soft_srq, base)->slot;
	shared->dest_qpn = 0;
	shared->access = 0;
	shared->recv_visible_ns = 0;
	atomic_store(&shared->state, IBV_QPS_RESET);
	atomic_store(&shared->qpn, qp->base.qp_num);
	sxt_soft_shared_unlock(&shared->lock);
}

static void count_users(const struct sxt_soft_qp *qp, uint32_t by)
{
	atomic_fetch_add(&SXT_CONTAINER_OF(qp->base.pd, struct sxt_soft_pd, base)->users, by);
	atomic_fetch_add(&cq_of(qp->base.send_cq)->users, by);
	atomic_fetch_add(&cq_of(qp->base.recv_cq)->users, by);
	if (qp->base.srq != NULL)
		atomic_fetch_add(&SXT_CONTAINER_OF(qp->base.srq, struct sxt_soft_srq, base)->users,
				 by);
}

static void fill_base(struct sxt_soft_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *base = &qp->base;

	base->context = &qp->context->verbs.context;
	base->qp_context = attr->qp_context;
	base->pd = attr->pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	base->handle = qp->slot;
	base->state = IBV_QPS_RESET;
	base->qp_type = attr->qp_type;
	qp->send_cq = cq_of(attr->send_cq);
	qp->sq_sig_all = attr->sq_sig_all != 0;
	/* Before INIT names one: every port has counters. */
	qp->port = &qp->engine->state->fabric->ports[qp->context->hca->first_port];
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	pthread_mutex_init(&qp->sq_lock, NULL);
	pthread_mutex_init(&qp->rq_lock, NULL);
	sxt_list_init(&qp->in_stalled);
}

static void qp_free(struct sxt_soft_qp *qp)
{
	if (qp->shared != NULL) {
		sxt_soft_heap_give(qp->engine, qp->shared->rq.offset, qp->rq_bytes);
		give_slot(qp);
	}
	sxt_soft_qp_ex_fini(qp);
	free(qp->waiting);
	free(qp);
}

int sxt_soft_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		       struct ibv_qp **out)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(context);
	struct sxt_soft_qp *qp;
	int rc = check_attr(ctx, attr);

	if (rc != 0)
		return rc;
	qp = calloc(1, sizeof(*qp));
	if (qp == NULL)
		return -ENOMEM;
	qp->engine = ctx->engine;
	qp->context = ctx;
	rc = take_slot(ctx->engine, qp);
	if (rc != 0)
		goto fail;
	rc = make_queues(qp, attr);
	if (rc != 0)
		goto fail;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
		rc = sxt_soft_qp_ex_init(qp, attr->send_ops_flags, attr->qp_type == IBV_QPT_UD);
		if (rc != 0)
			goto fail;
	}
	rc = sxt_soft_qpn_take(ctx->engine, qp->slot, &qp->base.qp_num);
	if (rc != 0)
		goto fail;
	fill_base(qp, attr);
	fill_shared(qp, attr);
	count_users(qp, 1);
	*out = &qp->base;
	return 0;
fail:
	qp_free(qp);
	return rc;
}

struct ibv_qp_ex *sxt_soft_qp_to_ex(struct ibv_qp *base)
{
	struct sxt_soft_qp *qp = qp_of(base);

	return qp->is_ex ? &qp->ex : NULL;
}

int sxt_soft_qp_query(struct ibv_qp *base, struct ibv_qp_attr *attr,
		      struct ibv_qp_init_attr *init_attr)
{
	struct sxt_soft_qp *qp = qp_of(base);
	enum ibv_qp_state state =
		(enum ibv_qp_state)atomic_load_explicit(&qp->shared->state, memory_order_acquire);

	pthread_mutex_lock(&qp->sq_lock);
	*attr = qp->attr;
	attr->cap = qp->cap;
	pthread_mutex_unlock(&qp->sq_lock);
	attr->qp_state = state;
	attr->cur_qp_state = state;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->sq_draining = 0;
	base->state = state;
	memset(init_attr, 0, sizeof(*init_attr));
	init_attr->qp_context = base->qp_context;
	init_attr->send_cq = base->send_cq;
	init_attr->recv_cq = base->recv_cq;
	init_attr->srq = base->srq;
	init_attr->cap = qp->cap;
	init_attr->qp_type = base->qp_type;
	init_attr->sq_sig_all = qp->sq_sig_all;
	return 0;
}

static void leave_stalled(struct sxt_soft_qp *qp)
{
	pthread_mutex_lock(&qp->engine->stalled_lock);
	if (!sxt_list_empty(&qp->in_stalled)) {
		sxt_list_remove(&qp->in_stalled);
		atomic_fetch_sub(&qp->engine->stalled_cnt, 1);
	}
	pthread_mutex_unlock(&qp->engine->stalled_lock);
}

int sxt_soft_qp_destroy(struct ibv_qp *base)
{
	struct sxt_soft_qp *qp = qp_of(base);
	struct sxt_soft_qp_shared *shared = qp->shared;

	pthread_mutex_lock(&qp->engine->lock);
	qp->closing = true;
	pthread_mutex_unlock(&qp->engine->lock);
	leave_stalled(qp);
	/* Waits for whoever sends to it at this moment; then nobody finds it. */
	sxt_soft_shared_lock(&shared->lock);
	atomic_store(&shared->qpn, 0);
	atomic_store(&shared->state, IBV_QPS_RESET);
	sxt_soft_shared_unlock(&shared->lock);
	sxt_soft_qpn_give(qp->engine, base->qp_num);
	sxt_soft_cq_purge(cq_of(base->send_cq), base->qp_num);
	sxt_soft_cq_purge(cq_of(base->recv_cq), base->qp_num);
	pthread_mutex_lock(&base->mutex);
	while (base->events_completed != atomic_load(&qp->async_given))
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
	sxt_soft_qp_unresolve(qp);
	count_users(qp, UINT32_MAX); /* one less */
	pthread_mutex_destroy(&base->mutex);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&qp->sq_lock);
	pthread_mutex_destroy(&qp->rq_lock);
	qp_free(qp);
	return 0;
}
