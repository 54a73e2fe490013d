/*
 * context.c - one communicator's owner word, slots and completion queues (slow path; the hot part
 * is inline in context.h).
 */
#include "ib/context.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/attempt.h"
#include "ib/conn.h"
#include "ib/data.h"
#include "ib/device.h"
#include "ib/explain.h"
#include "ib/port.h"
#include "ib/process.h"
#include "telemetry/write.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 16
#define SLOTS_MAX   (1u << 16) /* as many as a work request's number carries */

/*
 * A shared CQ has room for 64 connections with one path on its port: 26624 entries of 64 bytes, 2
 * MiB where the provider rounds up to a power of two.
 */
#define SHARED_CONNS     64u
#define SHARED_CQE_FIRST (SHARED_CONNS * (SXT_RECV_SQ_DEPTH + SXT_RECV_RQ_DEPTH))

int sxt_context_create(struct sxt_ib *ib, int tclass, struct sxt_context **out)
{
	struct sxt_context *ctx = NULL;

	if (posix_memalign((void **)&ctx, SXT_CACHELINE, sizeof(*ctx)) != 0) {
		SXT_LOG(SXT_LOG_ERROR, "making a communicator's state: %s", sxt_strerror(-ENOMEM));
		return -ENOMEM;
	}
	memset(ctx, 0, sizeof(*ctx));
	ctx->ib = ib;
	ctx->tclass = tclass;
	ctx->comm_record = UINT32_MAX;
	pthread_mutex_init(&ctx->lock, NULL);
	sxt_list_init(&ctx->cqs);
	sxt_list_init(&ctx->attempts);
	sxt_list_init(&ctx->listeners);
	*out = ctx;
	return 0;
}

void sxt_context_note_comm(struct sxt_context *ctx, uint64_t comm_id)
{
	ctx->comm_id = comm_id;
	ctx->comm_record = sxt_tele_comm_open(ctx->ib->tele, comm_id);
}

static struct sxt_conn *any_conn(const struct sxt_context *ctx)
{
	for (uint32_t i = 0; i < ctx->conns_cap; i++) {
		if (ctx->conns[i] != NULL)
			return ctx->conns[i];
	}
	return NULL;
}

static void cq_free(struct sxt_cq *cq)
{
	int rc = 0;

	sxt_list_remove(&cq->node);
	if (cq->cq != NULL) {
		rc = cq->port->device->verbs->destroy_cq(cq->cq);
		sxt_device_count(cq->port->device, SXT_DEVICE_CQS, -1);
	}
	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN, "a completion queue of %s was not destroyed: %s",
			cq->port->label, sxt_strerror(rc));
	free(cq);
}

void sxt_context_destroy(struct sxt_context *ctx)
{
	struct sxt_list *node;
	struct sxt_list *after;
	struct sxt_conn *conn;

	if (ctx == NULL)
		return;
	sxt_attempts_drop(ctx);
	while ((conn = any_conn(ctx)) != NULL)
		sxt_conn_close(conn);
	sxt_list_for_each (node, after, &ctx->cqs)
		cq_free(SXT_LIST_ENTRY(node, struct sxt_cq, node));
	if (ctx->comm_record != UINT32_MAX)
		sxt_tele_comm_end(ctx->ib->tele, ctx->comm_record);
	free(ctx->conns);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

void sxt_context_own(struct sxt_context *ctx)
{
	while (!sxt_context_try_own(ctx))
		sched_yield();
}

static int grow_slots(struct sxt_context *ctx)
{
	uint32_t cap = ctx->conns_cap != 0 ? ctx->conns_cap * 2 : SLOTS_FIRST;
	struct sxt_conn **grown;

	if (cap > SLOTS_MAX)
		return -ENOMEM;
	grown = realloc(ctx->conns, cap * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	memset(grown + ctx->conns_cap, 0, (cap - ctx->conns_cap) * sizeof(*grown));
	ctx->conns = grown;
	ctx->conns_cap = cap;
	return 0;
}

int sxt_context_add_conn(struct sxt_context *ctx, struct sxt_conn *conn, uint32_t *slot_out)
{
	uint32_t slot = 0;
	int rc = 0;

	sxt_context_own(ctx);
	while (slot < ctx->conns_cap && ctx->conns[slot] != NULL)
		slot++;
	if (slot == ctx->conns_cap)
		rc = grow_slots(ctx);
	if (rc == 0) {
		ctx->conns[slot] = conn;
		*slot_out = slot;
	}
	sxt_context_disown(ctx);
	return rc;
}

void sxt_context_remove_conn(struct sxt_context *ctx, uint32_t slot)
{
	if (slot < ctx->conns_cap)
		ctx->conns[slot] = NULL;
}

static struct sxt_cq *find_room(const struct sxt_context *ctx, const struct sxt_port *port,
				uint32_t completions)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &ctx->cqs) {
		struct sxt_cq *cq = SXT_LIST_ENTRY(node, struct sxt_cq, node);

		if (cq->port == port && cq->capacity - cq->reserved >= completions)
			return cq;
	}
	return NULL;
}

static uint32_t cq_entries(const struct sxt_context *ctx, const struct sxt_port *port,
			   uint32_t completions, uint32_t more)
{
	uint32_t max = (uint32_t)port->device->attr.max_cqe;
	uint32_t wanted = completions * (1 + more);

	if (!ctx->is_private && wanted < SHARED_CQE_FIRST)
		wanted = SHARED_CQE_FIRST;
	if (wanted > max && completions <= max)
		wanted = max;
	return wanted;
}

static int cq_create(struct sxt_port *port, uint32_t entries, struct sxt_cq **out)
{
	struct sxt_cq *cq = calloc(1, sizeof(*cq));
	char why[SXT_EXPLAIN_BYTES];
	int rc;

	if (cq == NULL)
		return -ENOMEM;
	cq->port = port;
	sxt_list_init(&cq->node);
	rc = sxt_verbs_create_cq(port->device->verbs, port->device->context, entries, cq, &cq->cq);
	if (rc != 0) {
		sxt_explain_create(port, SXT_DEVICE_CQS, rc, why);
		SXT_LOG(SXT_LOG_ERROR,
			"create a completion queue of %u entries on %s (the device allows %d): "
			"%s%s",
			entries, port->label, port->device->attr.max_cqe, sxt_strerror(rc), why);
		cq_free(cq);
		return rc;
	}
	sxt_device_count(port->device, SXT_DEVICE_CQS, 1);
	/* A library that gives fewer than asked breaks its contract; more is ours to use. */
	cq->capacity = (uint32_t)cq->cq->cqe;
	*out = cq;
	return 0;
}

int sxt_context_cq_get(struct sxt_context *ctx, struct sxt_port *port, uint32_t completions,
		       uint32_t more, struct sxt_cq **out)
{
	struct sxt_cq *cq;
	int rc = 0;

	pthread_mutex_lock(&ctx->lock);
	cq = find_room(ctx, port, completions);
	if (cq == NULL) {
		rc = cq_create(port, cq_entries(ctx, port, completions, more), &cq);
		if (rc == 0)
			sxt_list_append(&ctx->cqs, &cq->node);
	}
	if (rc == 0) {
		cq->reserved += completions;
		*out = cq;
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

void sxt_context_cq_put(struct sxt_context *ctx, struct sxt_cq *cq, uint32_t completions)
{
	if (cq == NULL)
		return;
	/* An empty CQ stays for the next connection; the context frees it. */
	pthread_mutex_lock(&ctx->lock);
	cq->reserved -= completions;
	pthread_mutex_unlock(&ctx->lock);
}
