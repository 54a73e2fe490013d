/*
 * connect.c - the sending end of a connection, step by step (slow path, polled by NCCL), and the
 * end of either.
 */
#include "ib/attempt.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/conn.h"
#include "ib/context.h"
#include "ib/process.h"
#include "ib/prove.h"
#include "ib/watcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_FIRST 16
#define ATTEMPTS_MAX   (1u << 20)

#define CONNECT_AWAIT 2 /* in connect_steps */

/*
 * A channel that died may have been an old one of a peer that has begun to listen anew: the
 * handle's own address is tried once before giving up. The caller holds the watcher's lock.
 */
static int try_again(struct sxt_attempt *attempt)
{
	if (attempt->dialled)
		return attempt->side->error != 0 ? attempt->side->error : -ECONNREFUSED;
	if (attempt->conn != NULL)
		sxt_side_detach(attempt->conn);
	sxt_side_put(attempt->side);
	attempt->side = NULL;
	attempt->dialled = true;
	attempt->step = 0;
	return -EAGAIN;
}

static int fail_dead(struct sxt_attempt *attempt, int rc)
{
	char why[320];

	pthread_mutex_lock(&attempt->ib->watcher->lock);
	memcpy(why, attempt->side->why, sizeof(why));
	pthread_mutex_unlock(&attempt->ib->watcher->lock);
	return sxt_attempt_fail(attempt, rc, "%s", why);
}

/* The caller holds the watcher's lock. */
static int have_channel(struct sxt_attempt *attempt)
{
	struct sxt_side *side = attempt->side;
	int rc;

	if (side != NULL)
		return 0;
	rc = sxt_side_get(attempt->ib->watcher, &attempt->handle, attempt->dialled, &side);
	if (rc != 0 || side == NULL)
		return rc;
	attempt->side = side;
	attempt->dialled = side->is_dialled && !side->was_up &&
			   memcmp(side->token, attempt->handle.token, SXT_TOKEN_BYTES) == 0;
	return 0;
}

static int connect_dial(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	int rc;

	pthread_mutex_lock(&watcher->lock);
	rc = have_channel(attempt);
	if (rc == 0 && attempt->side->state == SXT_SIDE_DEAD)
		rc = try_again(attempt);
	else if (rc == 0)
		rc = attempt->side->state == SXT_SIDE_UP ? 0 : -EAGAIN;
	pthread_mutex_unlock(&watcher->lock);

	if (rc == 0 || rc == -EAGAIN)
		return rc;
	if (attempt->side != NULL)
		return fail_dead(attempt, rc);
	return sxt_attempt_fail(attempt, rc, "opening its side channel");
}

static int connect_offer(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint32_t peer_ports_cnt = attempt->handle.ports_cnt != 0 ? attempt->handle.ports_cnt : 1;
	int rc = sxt_attempt_need_context(attempt);

	if (rc == 0)
		rc = sxt_resort_begin(attempt);
	if (rc == 0)
		rc = sxt_attempt_make_conn(attempt, SXT_CONN_SEND,
					   sxt_conn_paths_cnt(attempt->nic, peer_ports_cnt));
	if (rc == 0)
		rc = sxt_prove_offer(attempt);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&watcher->lock);
	attempt->is_answered = false;
	attempt->unproven = 0;
	attempt->theirs_cnt = 0;
	sxt_side_attach(attempt->side, attempt->conn);
	sxt_attempt_send(attempt, SXT_FRAME_CONNECT);
	pthread_mutex_unlock(&watcher->lock);
	return 0;
}

/* Paths over their next pairs, or all over other ports, and the peer is told. 0: other ports. */
static int connect_again(struct sxt_attempt *attempt, uint64_t failed)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	int rc = failed != 0 ? sxt_prove_retry(attempt, failed) : -ENETUNREACH;

	if (rc == -ENETUNREACH)
		rc = sxt_resort_move(attempt);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&watcher->lock);
	attempt->is_answered = false;
	attempt->unproven = 0;
	sxt_attempt_send(attempt, SXT_FRAME_CONNECT);
	pthread_mutex_unlock(&watcher->lock);
	return -EAGAIN;
}

/*
 * Wait for a flag of the inbox, unless something ends the attempt; -EAGAIN also when paths were
 * made anew. @frame goes out once more when the channel came back, since it may be lost.
 */
static int await(struct sxt_attempt *attempt, const bool *flag, uint16_t frame)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint64_t unproven;
	bool is_refused;
	int rc = -EAGAIN;

	pthread_mutex_lock(&watcher->lock);
	is_refused = attempt->refused != 0;
	unproven = attempt->unproven;
	if (is_refused) {
		rc = attempt->refused;
	} else if (unproven != 0) {
		rc = -EAGAIN;
	} else if (*flag) {
		rc = 0;
	} else if (attempt->side->state == SXT_SIDE_DEAD) {
		rc = try_again(attempt);
	} else if (attempt->side->state == SXT_SIDE_UP &&
		   attempt->side->incarnation != attempt->incarnation) {
		sxt_attempt_send(attempt, frame);
	}
	pthread_mutex_unlock(&watcher->lock);

	if (unproven != 0 && !is_refused) {
		attempt->step = CONNECT_AWAIT;
		return connect_again(attempt, unproven);
	}
	if (rc == 0 || rc == -EAGAIN)
		return rc;
	if (is_refused)
		return sxt_attempt_fail(attempt, rc, "the peer refuses: %s", attempt->refused_text);
	return fail_dead(attempt, rc);
}

static int connect_await(struct sxt_attempt *attempt)
{
	return await(attempt, &attempt->is_answered, SXT_FRAME_CONNECT);
}

static int connect_join(struct sxt_attempt *attempt)
{
	int rc;

	if (sxt_resort_prefers(attempt)) {
		attempt->step = CONNECT_AWAIT;
		return connect_again(attempt, 0);
	}
	rc = sxt_prove_join(attempt);
	if (rc == 0)
		sxt_prove_send(attempt);
	return rc;
}

static int connect_prove(struct sxt_attempt *attempt)
{
	static const bool never;
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint64_t failed;
	int rc = sxt_prove_wait(attempt, &failed);

	if (rc != 0)
		return await(attempt, &never, SXT_FRAME_CONNECT);
	if (failed != 0) {
		attempt->step = CONNECT_AWAIT;
		return connect_again(attempt, failed);
	}
	pthread_mutex_lock(&watcher->lock);
	sxt_attempt_send(attempt, SXT_FRAME_READY);
	pthread_mutex_unlock(&watcher->lock);
	return 0;
}

static int connect_proven(struct sxt_attempt *attempt)
{
	return await(attempt, &attempt->is_ready, SXT_FRAME_READY);
}

static const struct sxt_step connect_steps[] = {
	{"the peer's listening socket to answer", connect_dial},
	{"nothing", connect_offer},
	{"the peer to accept", connect_await},
	{"nothing", connect_join},
	{"an answer of the peer's port to a probe", connect_prove},
	{"the peer to probe our port", connect_proven},
	{NULL, NULL},
};

/* FNV-1a: enough to tell a handle whose scratch was overwritten or never ours. */
static uint64_t scratch_hash(const struct sxt_wire_handle *handle)
{
	const uint8_t *bytes = (const uint8_t *)&handle->scratch_cookie;
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(handle->token); i++)
		hash = (hash ^ handle->token[i]) * 0x100000001b3ull;
	for (size_t i = 0; i < sizeof(handle->scratch_cookie); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ull;
	return hash;
}

static int find_place(struct sxt_watcher *watcher, uint32_t *out)
{
	uint32_t cap = watcher->attempts_cap;
	struct sxt_attempt **grown;

	for (uint32_t i = 0; i < cap; i++) {
		if (watcher->attempts[i] == NULL) {
			*out = i;
			return 0;
		}
	}
	cap = cap != 0 ? cap * 2 : ATTEMPTS_FIRST;
	grown = cap <= ATTEMPTS_MAX ? realloc(watcher->attempts, cap * sizeof(*grown)) : NULL;
	if (grown == NULL)
		return -ENOMEM;
	memset(grown + watcher->attempts_cap, 0, (cap - watcher->attempts_cap) * sizeof(*grown));
	*out = watcher->attempts_cap;
	watcher->attempts = grown;
	watcher->attempts_cap = cap;
	return 0;
}

/* A place in the table and a random half, so that an old handle does not meet another attempt. */
static int give_cookie(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint32_t nonce;
	uint32_t place;
	int rc = sxt_sys_random(attempt->ib->sys, &nonce, sizeof(nonce));

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&watcher->lock);
	rc = find_place(watcher, &place);
	if (rc == 0) {
		attempt->cookie = (uint64_t)(nonce | 1u) << 32 | place;
		watcher->attempts[place] = attempt;
	}
	pthread_mutex_unlock(&watcher->lock);
	return rc;
}

static struct sxt_attempt *find_attempt(struct sxt_watcher *watcher,
					const struct sxt_wire_handle *handle)
{
	uint32_t place = (uint32_t)handle->scratch_cookie;
	struct sxt_attempt *attempt = NULL;

	pthread_mutex_lock(&watcher->lock);
	if (place < watcher->attempts_cap)
		attempt = watcher->attempts[place];
	if (attempt != NULL && attempt->cookie != handle->scratch_cookie)
		attempt = NULL;
	pthread_mutex_unlock(&watcher->lock);
	return attempt;
}

static int check_handle(const struct sxt_ib *ib, const struct sxt_wire_handle *handle)
{
	char why[320];
	int rc = sxt_handle_check(handle, why, sizeof(why));

	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "connect: the handle is of no use: %s", why);
	} else if (handle->scratch_cookie == 0 ? handle->scratch_check != 0
					       : handle->scratch_check != scratch_hash(handle)) {
		SXT_LOG(SXT_LOG_ERROR,
			"connect: the handle's own bytes are intact but its scratch is not "
			"(0x%llx): it was changed between two calls",
			(unsigned long long)handle->scratch_cookie);
		rc = -EBADMSG;
	} else if (handle->scratch_cookie != 0 && find_attempt(ib->watcher, handle) == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "connect: the handle belongs to an attempt that has ended");
		rc = -EINVAL;
	}
	return rc;
}

static int begin(struct sxt_ib *ib, struct sxt_context *ctx, struct sxt_nic *nic, int tclass,
		 struct sxt_wire_handle *handle, struct sxt_attempt **out)
{
	struct sxt_attempt *attempt;
	int rc = sxt_resort_check(ib, nic, "connect");

	if (rc == 0)
		rc = sxt_attempt_create(ib, connect_steps, nic, &attempt);

	if (rc != 0)
		return rc;
	attempt->tclass = tclass;
	attempt->handle = *handle;
	rc = give_cookie(attempt);
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "connect: %s", sxt_strerror(rc));
		sxt_attempt_destroy(attempt, "");
		return rc;
	}
	if (ctx != NULL) {
		attempt->ctx = ctx;
		pthread_mutex_lock(&ctx->lock);
		sxt_list_append(&ctx->attempts, &attempt->ctx_node);
		pthread_mutex_unlock(&ctx->lock);
	}
	handle->scratch_cookie = attempt->cookie;
	handle->scratch_check = scratch_hash(handle);
	*out = attempt;
	return 0;
}

int sxt_connect(struct sxt_ib *ib, struct sxt_context *ctx, int dev, int tclass, void *handle,
		struct sxt_conn **out)
{
	struct sxt_wire_handle wire;
	struct sxt_attempt *attempt;
	struct sxt_nic *nic;
	int rc = sxt_ib_nic(ib, dev, "connect", &nic);

	memcpy(&wire, handle, sizeof(wire)); /* NCCL's bytes, of any alignment */
	if (rc == 0)
		rc = check_handle(ib, &wire);
	if (rc != 0)
		return rc;
	attempt = wire.scratch_cookie != 0 ? find_attempt(ib->watcher, &wire) : NULL;
	if (attempt == NULL)
		rc = begin(ib, ctx, nic, tclass, &wire, &attempt);
	if (rc == 0)
		rc = sxt_attempt_poll(attempt, out);
	if (rc != -EAGAIN) {
		/* Whatever comes of it, the handle may be used for another attempt. */
		wire.scratch_cookie = 0;
		wire.scratch_check = 0;
	}
	memcpy(handle, &wire, sizeof(wire));
	return rc;
}

void sxt_conn_close(struct sxt_conn *conn)
{
	struct sxt_wire_progress progress;
	struct sxt_frame_out frame;
	struct sxt_watcher *watcher;
	struct sxt_context *ctx;

	if (conn == NULL)
		return;
	ctx = conn->ctx;
	watcher = ctx->ib->watcher;
	sxt_context_own(ctx);
	sxt_conn_progress_get(conn, &progress);
	sxt_context_disown(ctx);

	pthread_mutex_lock(&watcher->lock);
	if (conn->side != NULL) {
		sxt_frame_begin(&frame, SXT_FRAME_CLOSE, conn->peer_id, conn->id);
		sxt_frame_add(&frame, SXT_TLV_PROGRESS, &progress, sizeof(progress));
		sxt_side_send(conn->side, &frame);
	}
	sxt_side_detach(conn);
	pthread_mutex_unlock(&watcher->lock);

	sxt_conn_destroy(conn);
	if (ctx->is_private)
		sxt_context_destroy(ctx);
	sxt_watcher_put(watcher);
}
