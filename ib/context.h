/*
 * context.h - one communicator's data-path state: completion queues, the owner word, the mailbox,
 * the table of its connections.
 *
 * Whoever touches that state holds the owner word. NCCL's data-path threads take it by one
 * exchange that never waits (the loser answers "not now"); slow paths may wait for it.
 */
#ifndef SXT_IB_CONTEXT_H
#define SXT_IB_CONTEXT_H

#include "core/list.h"
#include "ib/ib.h"
#include "ib/verbs.h"

#include <pthread.h>
#include <stdatomic.h>

struct sxt_conn;
struct sxt_port;

/* Completions taken per CQ in one call, so that one call stays short. */
#define SXT_DRAIN_MAX 32

/* One completion queue; admits queue pairs while all their completions fit. */
struct sxt_cq {
	struct ibv_cq *cq;
	struct sxt_port *port;
	uint32_t capacity;
	uint32_t reserved;    /* completions the admitted queue pairs can have outstanding */
	struct sxt_list node; /* in sxt_context.cqs */
};

struct sxt_context {
	/*
	 * Owner's line: every data-path call exchanges owner and looks at mailbox. Other threads
	 * (the watcher) write mailbox, so rarely that a line of its own would only be one more to
	 * fetch in every call.
	 */
	_Alignas(SXT_CACHELINE) _Atomic uint32_t owner; /* 0 free, 1 taken */
	_Atomic uint32_t mailbox;                       /* not 0: some connection has notes */
	struct sxt_conn **conns; /* by slot; NULL where free. Changed under the owner word only */
	uint32_t conns_cap;

	/* What sxt_test() polls into, under the owner word. */
	_Alignas(SXT_CACHELINE) struct ibv_wc wcs[SXT_DRAIN_MAX];

	/* Cold. */
	_Alignas(SXT_CACHELINE) struct sxt_ib *ib;
	int tclass;
	bool is_private;           /* belongs to one connection or listener (ABI v6 to v10) */
	pthread_mutex_t lock;      /* lists below */
	struct sxt_list cqs;       /* struct sxt_cq */
	struct sxt_list attempts;  /* struct sxt_attempt: being connected or accepted */
	struct sxt_list listeners; /* struct sxt_listener */
	_Atomic uint64_t stale_completions_cnt; /* of connections that are gone */
	uint64_t comm_id;                       /* of NCCL; 0 unknown */
	uint32_t comm_record;                   /* its place there, UINT32_MAX none */
};

/**
 * sxt_context_try_own() - take the data-path state without waiting.
 * @ctx: the context. Return: true if the caller now owns it and must release it.
 */
static inline bool sxt_context_try_own(struct sxt_context *ctx)
{
	/* Acquire pairs with the release in sxt_context_disown(). */
	return atomic_exchange_explicit(&ctx->owner, 1, memory_order_acquire) == 0;
}

/**
 * sxt_context_disown() - release what sxt_context_try_own() or sxt_context_own() took.
 * @ctx: the context.
 */
static inline void sxt_context_disown(struct sxt_context *ctx)
{
	atomic_store_explicit(&ctx->owner, 0, memory_order_release);
}

/**
 * sxt_context_own() - take the data-path state, waiting for the holder (slow paths only).
 * @ctx: the context. Holders never block, so the wait is short; yields meanwhile.
 */
void sxt_context_own(struct sxt_context *ctx);

/**
 * sxt_context_add_conn() - give a connection its slot, which its work requests carry.
 * @ctx: the context. @conn: stays in the table until sxt_context_remove_conn().
 * @slot_out: set on success; below 2^16.
 * Thread: slow paths; waits for the owner word. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_context_add_conn(struct sxt_context *ctx, struct sxt_conn *conn,
					uint32_t *slot_out);

/**
 * sxt_context_remove_conn() - free a slot; completions that still carry it are dropped, counted.
 * @ctx: the context; the caller holds the owner word. @slot: from sxt_context_add_conn().
 */
void sxt_context_remove_conn(struct sxt_context *ctx, uint32_t slot);

/**
 * sxt_context_cq_get() - a CQ of a port with room for one more queue pair.
 * @ctx: the context. @port: whose device. @completions: the most it can have outstanding: signaled
 * sends and receives, and all of both queues when they are flushed.
 * @more: how many alike the same connection will ask for on this port; a CQ of a private context
 * that is made now has room for them too.
 * @out: set on success; give back with sxt_context_cq_put() and the same number.
 * Path: slow. Return: 0, -ENOMEM or the error of ibv_create_cq() (logged).
 */
SXT_MUST_CHECK int sxt_context_cq_get(struct sxt_context *ctx, struct sxt_port *port,
				      uint32_t completions, uint32_t more, struct sxt_cq **out);

/**
 * sxt_context_cq_put() - give back the room of one queue pair, already destroyed.
 * @ctx: the context. @cq: NULL is fine. @completions: as asked for.
 */
void sxt_context_cq_put(struct sxt_context *ctx, struct sxt_cq *cq, uint32_t completions);

#endif
