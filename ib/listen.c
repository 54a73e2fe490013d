/*
 * listen.c - listeners, and the receiving end of a connection step by step (slow path, polled by
 * NCCL).
 */
#include "ib/listen.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/attempt.h"
#include "ib/conn.h"
#include "ib/context.h"
#include "ib/process.h"
#include "ib/prove.h"
#include "ib/watcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sxt_listener *sxt_listener_find(const struct sxt_watcher *watcher, const uint8_t *token)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->listeners) {
		struct sxt_listener *listener = SXT_LIST_ENTRY(node, struct sxt_listener, node);

		if (memcmp(listener->token, token, sizeof(listener->token)) == 0)
			return listener;
	}
	return NULL;
}

int sxt_listener_offer(struct sxt_listener *listener, struct sxt_side *side, uint32_t peer_id,
		       const struct sxt_frame_facts *facts)
{
	struct sxt_offer *offer;

	if (listener->offers_cnt >= SXT_OFFERS_MAX)
		return -ENOBUFS;
	offer = calloc(1, sizeof(*offer) + facts->paths_cnt * sizeof(offer->paths[0]));
	if (offer == NULL)
		return -ENOMEM;
	offer->side = side;
	side->refs++;
	offer->peer_id = peer_id;
	offer->candidates_cnt = facts->candidates_cnt;
	memcpy(offer->candidates, facts->candidates,
	       facts->candidates_cnt * sizeof(offer->candidates[0]));
	offer->paths_cnt = facts->paths_cnt;
	memcpy(offer->paths, facts->paths, facts->paths_cnt * sizeof(offer->paths[0]));
	offer->eces = facts->eces;
	offer->ring = facts->ring;
	offer->has_tuner = facts->has_tuner;
	offer->tuner = facts->tuner;
	sxt_list_append(&listener->offers, &offer->node);
	listener->offers_cnt++;
	return 0;
}

static void offer_free(struct sxt_listener *listener, struct sxt_offer *offer)
{
	sxt_list_remove(&offer->node);
	listener->offers_cnt--;
	sxt_side_put(offer->side);
	free(offer);
}

static bool is_offer(const struct sxt_offer *offer, const struct sxt_side *side, uint32_t peer_id)
{
	return offer->side == side && (peer_id == 0 || offer->peer_id == peer_id);
}

static uint32_t forget(struct sxt_listener *listener, const struct sxt_side *side, uint32_t peer_id)
{
	struct sxt_list *node;
	struct sxt_list *after;
	uint32_t cnt = 0;

	sxt_list_for_each (node, after, &listener->offers) {
		struct sxt_offer *offer = SXT_LIST_ENTRY(node, struct sxt_offer, node);

		if (is_offer(offer, side, peer_id)) {
			offer_free(listener, offer);
			cnt++;
		}
	}
	return cnt;
}

uint32_t sxt_listeners_forget(struct sxt_watcher *watcher, const struct sxt_side *side,
			      uint32_t peer_id)
{
	struct sxt_list *node;
	struct sxt_list *after;
	uint32_t cnt = 0;

	sxt_list_for_each (node, after, &watcher->listeners)
		cnt += forget(SXT_LIST_ENTRY(node, struct sxt_listener, node), side, peer_id);
	return cnt;
}

static bool knows(const struct sxt_listener *listener, const struct sxt_side *side,
		  uint32_t peer_id)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &listener->offers) {
		if (is_offer(SXT_LIST_ENTRY(node, struct sxt_offer, node), side, peer_id))
			return true;
	}
	return false;
}

bool sxt_listeners_know(const struct sxt_watcher *watcher, const struct sxt_side *side,
			uint32_t peer_id)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->listeners) {
		if (knows(SXT_LIST_ENTRY(node, struct sxt_listener, node), side, peer_id))
			return true;
	}
	return false;
}

static void fill_handle(const struct sxt_listener *listener, void *handle)
{
	const struct sxt_ib *ib = listener->ib;
	struct sxt_wire_handle wire = {
		.magic = SXT_WIRE_MAGIC,
		.version = SXT_WIRE_VERSION,
		.version_min = SXT_WIRE_VERSION_MIN,
		.addr = ib->watcher->listen_addr,
		.ports_cnt = (uint8_t)listener->nic->ports_cnt,
	};

	memcpy(wire.token, listener->token, sizeof(wire.token));
	memcpy(wire.process, ib->process, sizeof(wire.process));
	memcpy(handle, &wire, sizeof(wire));
}

static void listener_free(struct sxt_listener *listener)
{
	struct sxt_watcher *watcher = listener->ib->watcher;

	free(listener);
	sxt_watcher_put(watcher);
}

static int listener_create(struct sxt_ib *ib, struct sxt_nic *nic, struct sxt_listener **out)
{
	struct sxt_listener *listener = calloc(1, sizeof(*listener));
	int rc;

	if (listener == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "listen: %s", sxt_strerror(-ENOMEM));
		return -ENOMEM;
	}
	listener->ib = ib;
	listener->nic = nic;
	sxt_list_init(&listener->node);
	sxt_list_init(&listener->ctx_node);
	sxt_list_init(&listener->offers);
	rc = sxt_watcher_get(ib->watcher);
	if (rc != 0) {
		free(listener);
		return rc;
	}
	rc = sxt_sys_random(ib->sys, listener->token, sizeof(listener->token));
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "listen: the kernel gives no random numbers");
		listener_free(listener);
		return rc;
	}
	*out = listener;
	return 0;
}

int sxt_listen(struct sxt_ib *ib, struct sxt_context *ctx, int dev, void *handle,
	       struct sxt_listener **out)
{
	struct sxt_listener *listener;
	struct sxt_nic *nic;
	int rc = sxt_ib_nic(ib, dev, "listen", &nic);

	if (rc == 0)
		rc = sxt_resort_check(ib, nic, "listen");
	if (rc == 0)
		rc = listener_create(ib, nic, &listener);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&ib->watcher->lock);
	rc = sxt_sides_listen(ib->watcher);
	if (rc == 0) {
		sxt_list_append(&ib->watcher->listeners, &listener->node);
		fill_handle(listener, handle);
	}
	pthread_mutex_unlock(&ib->watcher->lock);
	if (rc != 0) {
		listener_free(listener);
		return rc;
	}
	listener->ctx = ctx;
	if (ctx != NULL) {
		pthread_mutex_lock(&ctx->lock);
		sxt_list_append(&ctx->listeners, &listener->ctx_node);
		pthread_mutex_unlock(&ctx->lock);
	}
	*out = listener;
	return 0;
}

static void refuse_offer(const struct sxt_offer *offer, const char *why)
{
	struct sxt_frame_out frame;

	sxt_frame_begin(&frame, SXT_FRAME_REJECT, offer->peer_id, 0);
	sxt_frame_add_error(&frame, -ECONNREFUSED, why);
	sxt_side_send(offer->side, &frame);
}

void sxt_listener_close(struct sxt_listener *listener)
{
	struct sxt_watcher *watcher;
	struct sxt_list *node;
	struct sxt_list *after;

	if (listener == NULL)
		return;
	watcher = listener->ib->watcher;
	sxt_attempt_destroy(listener->attempt, "the listener was closed before it accepted");
	if (listener->ctx != NULL) {
		pthread_mutex_lock(&listener->ctx->lock);
		sxt_list_remove(&listener->ctx_node);
		pthread_mutex_unlock(&listener->ctx->lock);
	}
	pthread_mutex_lock(&watcher->lock);
	sxt_list_remove(&listener->node);
	sxt_list_for_each (node, after, &listener->offers) {
		struct sxt_offer *offer = SXT_LIST_ENTRY(node, struct sxt_offer, node);

		refuse_offer(offer, "the listener was closed before it accepted");
		offer_free(listener, offer);
	}
	pthread_mutex_unlock(&watcher->lock);
	listener_free(listener);
}

static int accept_take(struct sxt_attempt *attempt)
{
	struct sxt_listener *listener = attempt->listener;
	struct sxt_watcher *watcher = attempt->ib->watcher;
	int rc = -EAGAIN;

	pthread_mutex_lock(&watcher->lock);
	if (!sxt_list_empty(&listener->offers)) {
		struct sxt_offer *offer =
			SXT_LIST_ENTRY(listener->offers.next, struct sxt_offer, node);

		attempt->side = offer->side;
		attempt->side->refs++;
		attempt->peer_id = offer->peer_id;
		attempt->paths_cnt = offer->paths_cnt;
		memcpy(attempt->paths, offer->paths, offer->paths_cnt * sizeof(offer->paths[0]));
		attempt->theirs_cnt = offer->candidates_cnt;
		memcpy(attempt->theirs, offer->candidates,
		       offer->candidates_cnt * sizeof(offer->candidates[0]));
		attempt->eces = offer->eces;
		attempt->memory = offer->ring;
		attempt->has_tuner = offer->has_tuner;
		attempt->tuner = offer->tuner;
		attempt->is_answered = true;
		offer_free(listener, offer);
		rc = 0;
	}
	pthread_mutex_unlock(&watcher->lock);
	return rc;
}

/* Which paths do not work, a bit each, or all there is to join with. Under the watcher's lock. */
static void answer(struct sxt_attempt *attempt, uint64_t failed)
{
	attempt->unproven = failed;
	if (failed != 0)
		attempt->is_ready = false;
	sxt_attempt_send(attempt, failed != 0 ? SXT_FRAME_UNPROVEN : SXT_FRAME_ACCEPT);
}

static int accept_answer(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint64_t failed;
	int rc = sxt_prove_answer(attempt, &failed);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&watcher->lock);
	answer(attempt, failed);
	pthread_mutex_unlock(&watcher->lock);
	return 0;
}

static int accept_make(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	int rc = sxt_attempt_check_tuner(attempt);

	if (rc == 0)
		rc = sxt_attempt_need_context(attempt);
	if (rc == 0)
		rc = sxt_resort_begin(attempt);
	if (rc == 0)
		rc = sxt_attempt_make_conn(attempt, SXT_CONN_RECV, attempt->paths_cnt);
	if (rc != 0)
		return rc;
	/* On the channel before joining, so that the peer hears why if that fails. */
	pthread_mutex_lock(&watcher->lock);
	attempt->conn->peer_id = attempt->peer_id;
	sxt_side_attach(attempt->side, attempt->conn);
	pthread_mutex_unlock(&watcher->lock);
	return accept_answer(attempt);
}

static int accept_ready(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	bool is_retried;
	char why[320] = "";
	int rc = -EAGAIN;

	pthread_mutex_lock(&watcher->lock);
	is_retried = attempt->is_retried;
	attempt->is_retried = false;
	if (is_retried) {
		attempt->is_ready = false;
	} else if (attempt->refused != 0) {
		rc = attempt->refused;
		memcpy(why, attempt->refused_text, sizeof(attempt->refused_text));
	} else if (attempt->is_ready) {
		rc = 0;
	} else if (attempt->side->state == SXT_SIDE_DEAD) {
		rc = -ECONNRESET;
		memcpy(why, attempt->side->why, sizeof(why));
	} else if (attempt->side->state == SXT_SIDE_UP &&
		   attempt->side->incarnation != attempt->incarnation) {
		/* The channel broke and came back: the frame, or its answer, may be lost. */
		answer(attempt, attempt->unproven);
	}
	pthread_mutex_unlock(&watcher->lock);

	if (is_retried) {
		rc = accept_answer(attempt);
		return rc != 0 ? rc : -EAGAIN;
	}
	if (rc == 0)
		sxt_prove_send(attempt);
	if (rc == 0 || rc == -EAGAIN)
		return rc;
	return sxt_attempt_fail(attempt, rc, "the peer gave up: %s", why);
}

/* Something for accept_ready() to look at. */
static bool has_news(const struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	bool news;

	pthread_mutex_lock(&watcher->lock);
	news = attempt->is_retried || attempt->refused != 0 ||
	       attempt->side->state == SXT_SIDE_DEAD;
	pthread_mutex_unlock(&watcher->lock);
	return news;
}

/* Our own probes; where one fails the peer begins anew, and so do we with waiting for it. */
static int accept_prove(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint64_t failed;
	int rc = sxt_prove_wait(attempt, &failed);

	if (rc != 0) {
		attempt->step -= has_news(attempt) ? 1 : 0;
		return rc;
	}
	pthread_mutex_lock(&watcher->lock);
	if (failed != 0)
		answer(attempt, failed);
	else
		sxt_attempt_send(attempt, SXT_FRAME_PROVEN);
	pthread_mutex_unlock(&watcher->lock);
	attempt->step -= failed != 0 ? 1 : 0;
	return failed != 0 ? -EAGAIN : 0;
}

static const struct sxt_step accept_steps[] = {
	{"the peer to connect", accept_take},
	{"nothing", accept_make},
	{"the peer to be ready", accept_ready},
	{"an answer of the peer's port to a probe", accept_prove},
	{NULL, NULL},
};

int sxt_accept(struct sxt_listener *listener, struct sxt_conn **out)
{
	int rc = 0;

	if (listener->attempt == NULL) {
		rc = sxt_attempt_create(listener->ib, accept_steps, listener->nic,
					&listener->attempt);
		if (rc != 0)
			return rc;
		listener->attempt->listener = listener;
		listener->attempt->ctx = listener->ctx;
	}
	rc = sxt_attempt_poll(listener->attempt, out);
	if (rc != -EAGAIN)
		listener->attempt = NULL;
	return rc;
}
