/*
 * recv.c - posting receives, to a QP or to an SRQ, and the SRQ itself. Posting is hot.
 *
 * The owner is the only one that adds to a ring; whoever sends takes from it (deliver.c).
 */
#include "ib/soft/objects.h"

#include <stdlib.h>

static struct sxt_soft_srq *srq_of(const struct ibv_srq *base)
{
	return SXT_CONTAINER_OF(base, struct sxt_soft_srq, base);
}

int sxt_soft_recv_ring_init(struct sxt_soft_engine *engine, struct sxt_soft_recv_ring *ring,
			    uint32_t room, uint32_t max_sge, size_t *bytes_out)
{
	uint32_t slots = 1;
	uint64_t offset = 0;
	size_t stride = sizeof(struct sxt_soft_recv_wqe) + max_sge * sizeof(struct ibv_sge);
	size_t bytes;
	int rc;

	while (slots < room)
		slots <<= 1;
	bytes = room == 0 ? 0 : slots * stride;
	if (bytes != 0) {
		rc = sxt_soft_heap_take(engine, bytes, &offset);
		if (rc != 0)
			return rc;
	}
	ring->offset = offset;
	ring->mask = slots - 1;
	ring->stride_bytes = (uint32_t)stride;
	ring->room = room;
	ring->max_sge = max_sge;
	atomic_store(&ring->head, 0);
	atomic_store(&ring->tail, 0);
	*bytes_out = bytes;
	return 0;
}

/* Writes one receive; @freed: how many slots are free again since the beginning. */
static int ring_add(struct sxt_soft_arena *arena, struct sxt_soft_recv_ring *ring, uint32_t freed,
		    const struct ibv_recv_wr *wr)
{
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	struct sxt_soft_recv_wqe *wqe;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > ring->max_sge)
		return EINVAL;
	if (head - freed >= ring->room)
		return ENOMEM;
	wqe = sxt_soft_recv_wqe_at(arena, ring, head);
	wqe->wr_id = wr->wr_id;
	wqe->sge_cnt = (uint32_t)wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
	/* Pairs with the sender's acquire in deliver.c. */
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
	return 0;
}

/* What is posted to a QP in ERROR is flushed at once. */
static void flush_if_failed(struct sxt_soft_qp *qp)
{
	/* Pairs with the fence in sxt_soft_qp_fail(): one of the two sees the other. */
	atomic_thread_fence(memory_order_seq_cst);
	if (SXT_LIKELY(atomic_load_explicit(&qp->shared->state, memory_order_relaxed) !=
		       IBV_QPS_ERR))
		return;
	sxt_soft_shared_lock(&qp->shared->lock);
	sxt_soft_qp_fail(qp->engine, qp->engine->self, qp->shared, -1);
	sxt_soft_shared_unlock(&qp->shared->lock);
}

int sxt_soft_qp_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sxt_soft_qp *qp = SXT_CONTAINER_OF(base, struct sxt_soft_qp, base);
	struct sxt_soft_arena *arena = qp->engine->self->arena;
	int rc = 0;

	pthread_mutex_lock(&qp->rq_lock);
	for (; wr != NULL; wr = wr->next) {
		if (base->srq != NULL ||
		    atomic_load_explicit(&qp->shared->state, memory_order_relaxed) == IBV_QPS_RESET)
			rc = EINVAL;
		else
			/* Pairs with the poller's release: the slot's completion was taken. */
			rc = ring_add(arena, &qp->shared->rq,
				      atomic_load_explicit(&qp->recv_done, memory_order_acquire),
				      wr);
		if (rc != 0) {
			*bad = wr;
			break;
		}
	}
	flush_if_failed(qp);
	pthread_mutex_unlock(&qp->rq_lock);
	return rc;
}

int sxt_soft_srq_post_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sxt_soft_srq *srq = srq_of(base);
	struct sxt_soft_recv_ring *ring = &srq->shared->rq;
	int rc = 0;

	pthread_mutex_lock(&srq->post_lock);
	for (; wr != NULL; wr = wr->next) {
		/* Pairs with the taker's release: it has read the slot. */
		rc = ring_add(srq->engine->self->arena, ring,
			      atomic_load_explicit(&ring->tail, memory_order_acquire), wr);
		if (rc != 0) {
			*bad = wr;
			break;
		}
	}
	pthread_mutex_unlock(&srq->post_lock);
	return rc;
}

static int take_slot(struct sxt_soft_engine *engine, struct sxt_soft_srq *srq)
{
	int rc = -ENOMEM;

	pthread_mutex_lock(&engine->lock);
	srq->slot = sxt_soft_table_take(&engine->srqs, srq);
	if (srq->slot != SXT_SOFT_NONE) {
		srq->shared = &engine->self->arena->srqs[srq->slot];
		rc = sxt_soft_lock_ready(&srq->shared->lock, &srq->shared->lock_ready);
		if (rc != 0)
			engine->srqs.items[srq->slot] = NULL;
	}
	pthread_mutex_unlock(&engine->lock);
	return rc;
}

static void give_slot(struct sxt_soft_engine *engine, struct sxt_soft_srq *srq)
{
	pthread_mutex_lock(&engine->lock);
	engine->srqs.items[srq->slot] = NULL;
	pthread_mutex_unlock(&engine->lock);
}

static bool attr_fits(const struct sxt_soft_hca *hca, const struct ibv_srq_attr *attr)
{
	uint32_t max_sge =
		hca->max_srq_sge < SXT_SOFT_SGE_MAX ? hca->max_srq_sge : SXT_SOFT_SGE_MAX;

	return attr->max_wr != 0 && attr->max_wr <= hca->max_srq_wr && attr->max_sge <= max_sge;
}

int sxt_soft_srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **out)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(pd->context);
	struct sxt_soft_pd *owner = SXT_CONTAINER_OF(pd, struct sxt_soft_pd, base);
	struct sxt_soft_srq *srq;
	int rc;

	if (!attr_fits(ctx->hca, &attr->attr))
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (srq == NULL)
		return -ENOMEM;
	srq->engine = ctx->engine;
	rc = take_slot(ctx->engine, srq);
	if (rc != 0)
		goto free_srq;
	if (attr->attr.max_sge == 0)
		attr->attr.max_sge = 1;
	rc = sxt_soft_recv_ring_init(ctx->engine, &srq->shared->rq, attr->attr.max_wr,
				     attr->attr.max_sge, &srq->ring_bytes);
	if (rc != 0)
		goto give_back;
	srq->shared->pd = owner->id;
	srq->shared->context = ctx->slot;
	srq->shared->limit = 0;
	srq->shared->live = 1;
	pthread_mutex_init(&srq->post_lock, NULL);
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	srq->base.context = pd->context;
	srq->base.srq_context = attr->srq_context;
	srq->base.pd = pd;
	srq->base.handle = srq->slot;
	atomic_fetch_add(&owner->users, 1);
	*out = &srq->base;
	return 0;
give_back:
	give_slot(ctx->engine, srq);
free_srq:
	free(srq);
	return rc;
}

int sxt_soft_srq_modify(struct ibv_srq *base, const struct ibv_srq_attr *attr, int mask)
{
	struct sxt_soft_srq *srq = srq_of(base);

	if ((mask & IBV_SRQ_MAX_WR) != 0)
		return -EOPNOTSUPP;
	if (mask != IBV_SRQ_LIMIT || attr->srq_limit > srq->shared->rq.room)
		return -EINVAL;
	sxt_soft_shared_lock(&srq->shared->lock);
	srq->shared->limit = attr->srq_limit;
	sxt_soft_shared_unlock(&srq->shared->lock);
	return 0;
}

int sxt_soft_srq_query(struct ibv_srq *base, struct ibv_srq_attr *out)
{
	struct sxt_soft_srq *srq = srq_of(base);

	sxt_soft_shared_lock(&srq->shared->lock);
	out->max_wr = srq->shared->rq.room;
	out->max_sge = srq->shared->rq.max_sge;
	out->srq_limit = srq->shared->limit;
	sxt_soft_shared_unlock(&srq->shared->lock);
	return 0;
}

uint32_t sxt_soft_srq_number(const struct ibv_srq *base)
{
	return srq_of(base)->slot;
}

int sxt_soft_srq_destroy(struct ibv_srq *base)
{
	struct sxt_soft_srq *srq = srq_of(base);
	struct sxt_soft_pd *pd = SXT_CONTAINER_OF(base->pd, struct sxt_soft_pd, base);

	if (atomic_load(&srq->users) != 0)
		return -EBUSY;
	pthread_mutex_lock(&srq->engine->lock);
	srq->closing = true;
	pthread_mutex_unlock(&srq->engine->lock);
	pthread_mutex_lock(&base->mutex);
	while (base->events_completed != atomic_load(&srq->async_given))
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
	sxt_soft_shared_lock(&srq->shared->lock);
	srq->shared->live = 0;
	sxt_soft_shared_unlock(&srq->shared->lock);
	sxt_soft_heap_give(srq->engine, srq->shared->rq.offset, srq->ring_bytes);
	give_slot(srq->engine, srq);
	atomic_fetch_sub(&pd->users, 1);
	pthread_mutex_destroy(&srq->post_lock);
	pthread_mutex_destroy(&base->mutex);
	pthread_cond_destroy(&base->cond);
	free(srq);
	return 0;
}
