/*
 * context.c - open devices and their asynchronous events. Slow paths, any thread.
 */
#include "ib/soft/objects.h"

#include "core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int take_slot(struct sxt_soft_context *ctx)
{
	struct sxt_soft_context_shared *slots = ctx->engine->self->arena->contexts;
	int rc = -ENOMEM;

	pthread_mutex_lock(&ctx->engine->lock);
	for (uint32_t i = 0; i < SXT_SOFT_CONTEXTS_MAX; i++) {
		if (atomic_load_explicit(&slots[i].live, memory_order_relaxed) != 0)
			continue;
		if (sxt_soft_back(&slots[i], sizeof(slots[i])) != 0)
			break;
		memcpy(slots[i].box, ctx->box.path, sizeof(slots[i].box));
		/* Pairs with the acquire in sxt_soft_peer_event(): the path is there. */
		atomic_store_explicit(&slots[i].live, 1, memory_order_release);
		ctx->slot = i;
		rc = 0;
		break;
	}
	pthread_mutex_unlock(&ctx->engine->lock);
	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN,
			"%s: %d devices are open already in this process, or %s is full",
			ctx->hca->name, SXT_SOFT_CONTEXTS_MAX, ctx->engine->state->dir);
	return rc;
}

int sxt_soft_context_open(struct ibv_device *device, struct verbs_context **out)
{
	struct sxt_soft_device *dev = SXT_CONTAINER_OF(device, struct sxt_soft_device, base);
	struct sxt_soft_context *ctx = calloc(1, sizeof(*ctx));
	struct ibv_context *context;
	int rc;

	if (ctx == NULL)
		return -ENOMEM;
	ctx->device = dev;
	ctx->engine = dev->engine;
	ctx->hca = &dev->engine->state->fabric->hcas[dev->hca];
	rc = sxt_soft_event_open(ctx->engine->state, dev->hca, &ctx->box);
	if (rc != 0)
		goto free_context;
	rc = take_slot(ctx);
	if (rc != 0)
		goto close_box;
	context = &ctx->verbs.context;
	context->device = device;
	context->cmd_fd = -1;
	context->async_fd = ctx->box.fd;
	context->num_comp_vectors = 1;
	pthread_mutex_init(&context->mutex, NULL);
	context->ops.poll_cq = sxt_soft_cq_poll;
	context->ops.req_notify_cq = sxt_soft_cq_notify;
	context->ops.post_send = sxt_soft_qp_post_send;
	context->ops.post_recv = sxt_soft_qp_post_recv;
	context->ops.post_srq_recv = sxt_soft_srq_post_recv;
	*out = &ctx->verbs;
	return 0;
close_box:
	sxt_soft_event_close(&ctx->box);
free_context:
	free(ctx);
	return rc;
}

static bool belongs_qp(void *item, struct ibv_context *context)
{
	return ((struct sxt_soft_qp *)item)->base.context == context;
}

static bool belongs_srq(void *item, struct ibv_context *context)
{
	return ((struct sxt_soft_srq *)item)->base.context == context;
}

static bool belongs_cq(void *item, struct ibv_context *context)
{
	return ((struct sxt_soft_cq *)item)->base.context == context;
}

static bool belongs_mr(void *item, struct ibv_context *context)
{
	return ((struct sxt_soft_mr *)item)->base.context == context;
}

/* The next object of a context in a table, or NULL. */
static void *next_of(struct sxt_soft_context *ctx, struct sxt_soft_table *table,
		     bool (*belongs)(void *, struct ibv_context *))
{
	void *found = NULL;

	pthread_mutex_lock(&ctx->engine->lock);
	for (uint32_t i = 0; i < table->cap && found == NULL; i++) {
		if (table->items[i] != NULL && belongs(table->items[i], &ctx->verbs.context))
			found = table->items[i];
	}
	pthread_mutex_unlock(&ctx->engine->lock);
	return found;
}

/* Nobody will acknowledge the events of what the program left behind. */
static void drop_qp(struct sxt_soft_qp *qp)
{
	atomic_store(&qp->async_given, qp->base.events_completed);
	sxt_ignore(sxt_soft_qp_destroy(&qp->base));
}

static void drop_srq(struct sxt_soft_srq *srq)
{
	atomic_store(&srq->async_given, srq->base.events_completed);
	sxt_ignore(sxt_soft_srq_destroy(&srq->base));
}

static void drop_cq(struct sxt_soft_cq *cq)
{
	atomic_store(&cq->async_given, cq->base.async_events_completed);
	cq->comp_given = cq->base.comp_events_completed;
	sxt_ignore(sxt_soft_cq_destroy(&cq->base));
}

void sxt_soft_context_close(struct ibv_context *context)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(context);
	struct sxt_soft_engine *engine = ctx->engine;
	void *item;

	/* As the kernel does when a program closes or dies: users before what they use. */
	while ((item = next_of(ctx, &engine->qps, belongs_qp)) != NULL)
		drop_qp(item);
	while ((item = next_of(ctx, &engine->srqs, belongs_srq)) != NULL)
		drop_srq(item);
	while ((item = next_of(ctx, &engine->cqs, belongs_cq)) != NULL)
		drop_cq(item);
	while ((item = next_of(ctx, &engine->mrs, belongs_mr)) != NULL)
		sxt_ignore(sxt_soft_mr_deregister(&((struct sxt_soft_mr *)item)->base));
	atomic_store_explicit(&engine->self->arena->contexts[ctx->slot].live, 0,
			      memory_order_release);
	sxt_soft_event_close(&ctx->box);
	pthread_mutex_destroy(&context->mutex);
	free(ctx);
}

/* What an event is about. */
enum subject {
	SUBJECT_PORT,
	SUBJECT_CQ,
	SUBJECT_QP,
	SUBJECT_SRQ
};

static enum subject subject_of(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return SUBJECT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return SUBJECT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return SUBJECT_SRQ;
	default:
		return SUBJECT_PORT;
	}
}

/* Finds the object of a cookie and counts the event on it. Under engine->lock. */
static bool claim_object(struct sxt_soft_engine *engine, uint64_t cookie, enum subject subject,
			 struct ibv_async_event *out)
{
	uint32_t slot = (uint32_t)cookie;
	uint32_t identity = (uint32_t)(cookie >> 32);

	if (subject == SUBJECT_QP && slot < engine->qps.cap && engine->qps.items[slot] != NULL) {
		struct sxt_soft_qp *qp = engine->qps.items[slot];

		if (qp->closing || qp->base.qp_num != identity)
			return false;
		out->element.qp = &qp->base;
		atomic_fetch_add(&qp->async_given, 1);
		return true;
	}
	if (subject == SUBJECT_CQ && slot < engine->cqs.cap && engine->cqs.items[slot] != NULL) {
		struct sxt_soft_cq *cq = engine->cqs.items[slot];

		if (cq->closing || cq->shared->id != identity)
			return false;
		out->element.cq = &cq->base;
		atomic_fetch_add(&cq->async_given, 1);
		return true;
	}
	if (subject == SUBJECT_SRQ && slot < engine->srqs.cap && engine->srqs.items[slot] != NULL) {
		struct sxt_soft_srq *srq = engine->srqs.items[slot];

		if (srq->closing)
			return false;
		out->element.srq = &srq->base;
		atomic_fetch_add(&srq->async_given, 1);
		return true;
	}
	return false;
}

int sxt_soft_async_get(struct ibv_context *context, struct ibv_async_event *out)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(context);
	struct sxt_soft_event event;
	struct ibv_async_event result;
	bool claimed;
	ssize_t got;

	for (;;) {
		got = read(context->async_fd, &event, sizeof(event));
		if (got != sizeof(event))
			return got < 0 ? -errno : -EIO;
		memset(&result, 0, sizeof(result));
		result.event_type = (enum ibv_event_type)event.type;
		if (subject_of(event.type) == SUBJECT_PORT) {
			result.element.port_num = (int)event.port_num;
			break;
		}
		/* An event of an object that is gone by now is of no use to anybody. */
		pthread_mutex_lock(&ctx->engine->lock);
		claimed = claim_object(ctx->engine, event.object, subject_of(event.type), &result);
		pthread_mutex_unlock(&ctx->engine->lock);
		if (claimed)
			break;
	}
	*out = result;
	return 0;
}

/* Counts an acknowledgement and wakes who destroys the object. */
static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void sxt_soft_async_ack(const struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (subject_of(event->event_type)) {
	case SUBJECT_CQ:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case SUBJECT_QP:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case SUBJECT_SRQ:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	case SUBJECT_PORT:
		break;
	}
}
