/*
 * cq.c - completion queues: rings that processes push into and their owner polls. Hot.
 *
 * Producers (the owner and every process that sends to it) hold the shared lock; the owner's
 * pollers exclude each other by poll_lock and take entries with acquire and release alone. A
 * completion of a modelled transfer stays in the ring until its time; those behind it that are due
 * are taken first, which keeps the order within a QP because a QP's times never go back.
 */
#include "ib/soft/objects.h"

#include <stdlib.h>
#include <string.h>

static struct sxt_soft_cq *cq_of(struct ibv_cq *base)
{
	return SXT_CONTAINER_OF(base, struct sxt_soft_cq, base);
}

/* One more event, due at a time; one that nobody has taken yet stays due when it was. */
static void add_event(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
		      struct sxt_soft_cq_shared *cq, uint64_t due_ns)
{
	if (atomic_load(&cq->events) == 0 || due_ns < atomic_load(&cq->event_ns))
		atomic_store(&cq->event_ns, due_ns);
	atomic_fetch_add(&cq->events, 1);
	sxt_soft_peer_wake(engine, peer, cq->channel);
}

/* The event that waits for a completion's time comes earlier where another one is due before. */
static void hasten_event(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			 struct sxt_soft_cq_shared *cq, uint64_t due_ns)
{
	uint64_t seen;

	if (atomic_load(&cq->events) == 0)
		return;
	seen = atomic_load(&cq->event_ns);
	while (due_ns < seen) {
		if (atomic_compare_exchange_weak(&cq->event_ns, &seen, due_ns)) {
			sxt_soft_peer_wake(engine, peer, cq->channel);
			return;
		}
	}
}

/* Tells the sleeper, if this completion is one it asked for. */
static void raise_event(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			struct sxt_soft_cq_shared *cq, const struct sxt_soft_cqe *cqe)
{
	uint32_t armed;

	/* Pairs with the fence in notify: it sees the completion, or this sees it armed. */
	atomic_thread_fence(memory_order_seq_cst);
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	if (armed == SXT_SOFT_ARMED_NO) {
		hasten_event(engine, peer, cq, cqe->visible_ns);
		return;
	}
	if (armed == SXT_SOFT_ARMED_SOLICITED && cqe->solicited == 0 &&
	    cqe->status == IBV_WC_SUCCESS)
		return;
	if (!atomic_compare_exchange_strong(&cq->armed, &armed, SXT_SOFT_ARMED_NO))
		return;
	add_event(engine, peer, cq, cqe->visible_ns);
}

void sxt_soft_cq_push(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer, uint32_t slot,
		      const struct sxt_soft_cqe *cqe)
{
	struct sxt_soft_cq_shared *cq = &peer->arena->cqs[slot];
	bool overrun = false;
	uint32_t head;

	sxt_soft_shared_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	/* Pairs with the poller's release of tail: the slot has been read. */
	if (head - atomic_load_explicit(&cq->tail, memory_order_acquire) < cq->room) {
		*sxt_soft_cqe_at(peer->arena, cq, head) = *cqe;
		atomic_store_explicit(&cq->head, head + 1, memory_order_release);
	} else {
		overrun = atomic_exchange(&cq->overrun, 1) == 0;
	}
	sxt_soft_shared_unlock(&cq->lock);
	if (SXT_UNLIKELY(overrun))
		sxt_soft_peer_event(engine, peer, cq->context, IBV_EVENT_CQ_ERR,
				    sxt_soft_cookie(slot, cq->id));
	if (cq->channel != SXT_SOFT_NONE)
		raise_event(engine, peer, cq, cqe);
}

/* The next entry that is visible, out of the ring. Return: as sxt_soft_cq_next(). */
static int take_visible(struct sxt_soft_cq *cq, struct sxt_soft_cqe *out)
{
	struct sxt_soft_cq_shared *shared = cq->shared;
	uint32_t tail = atomic_load_explicit(&shared->tail, memory_order_relaxed);
	/* Pairs with the release in push: the entries up to head are written. */
	uint32_t head = atomic_load_explicit(&shared->head, memory_order_acquire);
	uint64_t now = 0;

	for (uint32_t at = tail; at != head; at++) {
		struct sxt_soft_cqe *cqe = &cq->ring[at & shared->mask];
		bool gone = cqe->kind == SXT_SOFT_CQE_GONE;

		if (!gone && cqe->visible_ns != 0) {
			if (now == 0)
				now = sxt_soft_now_ns();
			if (cqe->visible_ns > now)
				continue;
		}
		if (!gone)
			*out = *cqe;
		cqe->kind = SXT_SOFT_CQE_GONE;
		if (at == tail)
			atomic_store_explicit(&shared->tail, ++tail, memory_order_release);
		if (!gone)
			return 0;
	}
	return SXT_UNLIKELY(atomic_load_explicit(&shared->overrun, memory_order_relaxed) != 0)
		       ? -EIO
		       : -ENOENT;
}

/*
 * A completion was taken: its work queue slots are free. False for a receive that was completed
 * before, by a sender that was killed before it took it out of its ring.
 */
static bool release(struct sxt_soft_cq *cq, const struct sxt_soft_cqe *cqe)
{
	/* Its completions go before the QP does: what is in the ring has a QP. */
	struct sxt_soft_qp *qp = cq->engine->qps.items[cqe->qp_slot];

	if (cqe->kind == SXT_SOFT_CQE_SEND) {
		/* Pairs with the acquire in submit: the WR's slot may be written again. */
		atomic_store_explicit(&qp->sq_tail, cqe->wq_release, memory_order_release);
	} else if (cqe->kind == SXT_SOFT_CQE_RECV) {
		if (SXT_UNLIKELY(atomic_load_explicit(&qp->recv_done, memory_order_relaxed) ==
				 cqe->wq_release))
			return false;
		atomic_store_explicit(&qp->recv_done, cqe->wq_release, memory_order_release);
	}
	return true;
}

int sxt_soft_cq_next(struct sxt_soft_cq *cq, struct sxt_soft_cqe *out)
{
	int rc;

	do
		rc = take_visible(cq, out);
	while (rc == 0 && !release(cq, out));
	return rc;
}

uint64_t sxt_soft_cq_next_visible_ns(struct sxt_soft_cq *cq, uint64_t now_ns)
{
	struct sxt_soft_cq_shared *shared = cq->shared;
	uint32_t head = atomic_load_explicit(&shared->head, memory_order_acquire);
	uint64_t first = 0;

	for (uint32_t at = atomic_load(&shared->tail); at != head; at++) {
		const struct sxt_soft_cqe *cqe = &cq->ring[at & shared->mask];

		if (cqe->kind != SXT_SOFT_CQE_GONE && cqe->visible_ns > now_ns &&
		    (first == 0 || cqe->visible_ns < first))
			first = cqe->visible_ns;
	}
	return first;
}

static void fill_wc(struct ibv_wc *wc, const struct sxt_soft_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = (enum ibv_wc_status)cqe->status;
	wc->opcode = (enum ibv_wc_opcode)cqe->opcode;
	wc->vendor_err = 0;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm_data;
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->flags;
	wc->pkey_index = cqe->pkey_index;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

int sxt_soft_cq_poll(struct ibv_cq *base, int num_entries, struct ibv_wc *wc)
{
	struct sxt_soft_cq *cq = cq_of(base);
	struct sxt_soft_cqe cqe;
	int rc = 0;
	int got = 0;

	if (SXT_UNLIKELY(atomic_load_explicit(&cq->engine->stalled_cnt, memory_order_relaxed)))
		sxt_soft_progress_all(cq->engine);
	pthread_mutex_lock(&cq->poll_lock);
	while (got < num_entries) {
		rc = sxt_soft_cq_next(cq, &cqe);
		if (rc != 0)
			break;
		fill_wc(&wc[got++], &cqe);
	}
	pthread_mutex_unlock(&cq->poll_lock);
	return got == 0 && rc == -EIO ? -1 : got;
}

int sxt_soft_cq_notify(struct ibv_cq *base, int solicited_only)
{
	struct sxt_soft_cq *cq = cq_of(base);
	struct sxt_soft_cq_shared *shared = cq->shared;
	uint32_t want = solicited_only ? SXT_SOFT_ARMED_SOLICITED : SXT_SOFT_ARMED_ANY;
	uint64_t coming;

	if (shared->channel == SXT_SOFT_NONE)
		return 0;
	/* A pending request for any completion is not weakened. */
	if (atomic_load(&shared->armed) != SXT_SOFT_ARMED_ANY)
		atomic_store(&shared->armed, want);
	atomic_thread_fence(memory_order_seq_cst);
	/* What is on its way has been pushed already and will not ask again. */
	pthread_mutex_lock(&cq->poll_lock);
	coming = sxt_soft_cq_next_visible_ns(cq, sxt_soft_now_ns());
	pthread_mutex_unlock(&cq->poll_lock);
	if (coming == 0)
		return 0;
	if (atomic_exchange(&shared->armed, SXT_SOFT_ARMED_NO) != SXT_SOFT_ARMED_NO)
		add_event(cq->engine, cq->engine->self, shared, coming);
	return 0;
}

void sxt_soft_cq_purge(struct sxt_soft_cq *cq, uint32_t qpn)
{
	struct sxt_soft_cq_shared *shared = cq->shared;
	uint32_t head;
	uint32_t tail;

	pthread_mutex_lock(&cq->poll_lock);
	sxt_soft_shared_lock(&shared->lock);
	head = atomic_load(&shared->head);
	tail = atomic_load(&shared->tail);
	for (uint32_t at = tail; at != head; at++) {
		struct sxt_soft_cqe *cqe = &cq->ring[at & shared->mask];

		if (cqe->qpn == qpn)
			cqe->kind = SXT_SOFT_CQE_GONE;
	}
	/* Nobody may poll it again: the room counts now. */
	while (tail != head && cq->ring[tail & shared->mask].kind == SXT_SOFT_CQE_GONE)
		tail++;
	atomic_store(&shared->tail, tail);
	sxt_soft_shared_unlock(&shared->lock);
	pthread_mutex_unlock(&cq->poll_lock);
}

static uint32_t ring_slots(uint32_t room)
{
	uint32_t slots = 1;

	while (slots < room)
		slots <<= 1;
	return slots;
}

/* A slot of the arena's table, with a working lock. */
static int take_slot(struct sxt_soft_engine *engine, struct sxt_soft_cq *cq)
{
	int rc = -ENOMEM;

	pthread_mutex_lock(&engine->lock);
	cq->slot = sxt_soft_table_take(&engine->cqs, cq);
	if (cq->slot != SXT_SOFT_NONE) {
		cq->shared = &engine->self->arena->cqs[cq->slot];
		rc = sxt_soft_lock_ready(&cq->shared->lock, &cq->shared->lock_ready);
		cq->shared->id = ++engine->next_cq_id;
		if (rc != 0)
			engine->cqs.items[cq->slot] = NULL;
	}
	pthread_mutex_unlock(&engine->lock);
	return rc;
}

static void give_slot(struct sxt_soft_engine *engine, struct sxt_soft_cq *cq)
{
	pthread_mutex_lock(&engine->lock);
	engine->cqs.items[cq->slot] = NULL;
	pthread_mutex_unlock(&engine->lock);
}

static int check_attr(const struct sxt_soft_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->cqe == 0 || attr->cqe > ctx->hca->max_cqe || attr->comp_vector != 0)
		return -EINVAL;
	if ((attr->wc_flags &
	     ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
	    (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)
		return -EOPNOTSUPP;
	return 0;
}

static void fill_shared(struct sxt_soft_cq *cq, const struct sxt_soft_context *ctx, uint32_t room,
			uint64_t offset)
{
	struct sxt_soft_cq_shared *shared = cq->shared;

	shared->context = ctx->slot;
	shared->channel = SXT_SOFT_NONE;
	shared->offset = offset;
	shared->mask = ring_slots(room) - 1;
	shared->room = room;
	atomic_store(&shared->overrun, 0);
	atomic_store(&shared->armed, SXT_SOFT_ARMED_NO);
	atomic_store(&shared->events, 0);
	atomic_store(&shared->head, 0);
	atomic_store(&shared->tail, 0);
	cq->ring = (struct sxt_soft_cqe *)((uint8_t *)ctx->engine->self->arena + offset);
	shared->live = 1;
}

int sxt_soft_cq_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
		       struct ibv_cq_ex **out)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(context);
	struct sxt_soft_cq *cq;
	uint64_t offset;
	int rc = check_attr(ctx, attr);

	if (rc != 0)
		return rc;
	cq = calloc(1, sizeof(*cq));
	if (cq == NULL)
		return -ENOMEM;
	cq->engine = ctx->engine;
	rc = take_slot(ctx->engine, cq);
	if (rc != 0)
		goto free_cq;
	cq->ring_bytes = ring_slots(attr->cqe) * sizeof(struct sxt_soft_cqe);
	rc = sxt_soft_heap_take(ctx->engine, cq->ring_bytes, &offset);
	if (rc != 0)
		goto give_back;
	fill_shared(cq, ctx, attr->cqe, offset);
	pthread_mutex_init(&cq->poll_lock, NULL);
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	sxt_list_init(&cq->in_channel);
	cq->base.context = context;
	cq->base.channel = attr->channel;
	cq->base.cq_context = attr->cq_context;
	cq->base.handle = cq->slot;
	cq->base.cqe = (int)attr->cqe;
	sxt_soft_cq_ex_init(cq, attr->wc_flags);
	if (attr->channel != NULL)
		sxt_soft_channel_add(SXT_CONTAINER_OF(attr->channel, struct sxt_soft_channel, base),
				     cq);
	*out = &cq->ex;
	return 0;
give_back:
	give_slot(ctx->engine, cq);
free_cq:
	free(cq);
	return rc;
}

/* Moves what is in the ring to another one. Under both locks. */
static void move_ring(struct sxt_soft_cq *cq, uint64_t offset, uint32_t room)
{
	struct sxt_soft_cq_shared *shared = cq->shared;
	struct sxt_soft_cqe *ring =
		(struct sxt_soft_cqe *)((uint8_t *)cq->engine->self->arena + offset);
	uint32_t mask = ring_slots(room) - 1;
	uint32_t head = atomic_load(&shared->head);

	for (uint32_t at = atomic_load(&shared->tail); at != head; at++)
		ring[at & mask] = cq->ring[at & shared->mask];
	cq->ring = ring;
	shared->offset = offset;
	shared->mask = mask;
	shared->room = room;
}

int sxt_soft_cq_resize(struct ibv_cq *base, int cqe)
{
	struct sxt_soft_cq *cq = cq_of(base);
	struct sxt_soft_cq_shared *shared = cq->shared;
	uint64_t old_offset = shared->offset;
	size_t old_bytes = cq->ring_bytes;
	size_t bytes;
	uint64_t offset;
	int rc;

	if (cqe <= 0 || (uint32_t)cqe > sxt_soft_context_of(base->context)->hca->max_cqe)
		return -EINVAL;
	bytes = ring_slots((uint32_t)cqe) * sizeof(struct sxt_soft_cqe);
	rc = sxt_soft_heap_take(cq->engine, bytes, &offset);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&cq->poll_lock);
	sxt_soft_shared_lock(&shared->lock);
	if (atomic_load(&shared->head) - atomic_load(&shared->tail) > (uint32_t)cqe) {
		rc = -EINVAL;
	} else {
		move_ring(cq, offset, (uint32_t)cqe);
		cq->ring_bytes = bytes;
		base->cqe = cqe;
	}
	sxt_soft_shared_unlock(&shared->lock);
	pthread_mutex_unlock(&cq->poll_lock);
	if (rc != 0)
		sxt_soft_heap_give(cq->engine, offset, bytes);
	else
		sxt_soft_heap_give(cq->engine, old_offset, old_bytes);
	return rc;
}

/* Every event the program got must have been acknowledged, or it would touch freed memory. */
static void wait_acknowledged(struct sxt_soft_cq *cq)
{
	pthread_mutex_lock(&cq->base.mutex);
	while (cq->base.comp_events_completed != cq->comp_given ||
	       cq->base.async_events_completed != atomic_load(&cq->async_given))
		pthread_cond_wait(&cq->base.cond, &cq->base.mutex);
	pthread_mutex_unlock(&cq->base.mutex);
}

int sxt_soft_cq_destroy(struct ibv_cq *base)
{
	struct sxt_soft_cq *cq = cq_of(base);

	if (atomic_load(&cq->users) != 0)
		return -EBUSY;
	pthread_mutex_lock(&cq->engine->lock);
	cq->closing = true;
	pthread_mutex_unlock(&cq->engine->lock);
	if (base->channel != NULL)
		sxt_soft_channel_remove(SXT_CONTAINER_OF(base->channel, struct sxt_soft_channel,
							 base),
					cq);
	wait_acknowledged(cq);
	sxt_soft_shared_lock(&cq->shared->lock);
	cq->shared->live = 0;
	sxt_soft_shared_unlock(&cq->shared->lock);
	sxt_soft_heap_give(cq->engine, cq->shared->offset, cq->ring_bytes);
	give_slot(cq->engine, cq);
	pthread_mutex_destroy(&cq->poll_lock);
	pthread_mutex_destroy(&base->mutex);
	pthread_cond_destroy(&base->cond);
	free(cq);
	return 0;
}
