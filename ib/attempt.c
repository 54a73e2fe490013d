/*
 * attempt.c - what connecting and accepting have in common (slow path, NCCL's service thread).
 */
#include "ib/attempt.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/agree.h"
#include "ib/conn.h"
#include "ib/context.h"
#include "ib/listen.h"
#include "ib/process.h"
#include "ib/watcher.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_connecting(const struct sxt_attempt *attempt)
{
	return attempt->listener == NULL;
}

/* What messages say of the other end; the watcher writes it as it learns more. */
struct peer_words {
	char name[96];
	char trouble[320]; /* of the channel, "" while it is up */
};

static void read_peer(const struct sxt_attempt *attempt, struct peer_words *out)
{
	const struct sxt_side *side = attempt->side;

	snprintf(out->name, sizeof(out->name), "its peer");
	out->trouble[0] = '\0';
	if (side == NULL)
		return;
	pthread_mutex_lock(&attempt->ib->watcher->lock);
	snprintf(out->name, sizeof(out->name), "%s", side->peer);
	if (side->state != SXT_SIDE_UP)
		snprintf(out->trouble, sizeof(out->trouble), "%s",
			 side->why[0] != '\0' ? side->why
					      : "no answer; is a firewall in the way, or "
						"NCCL_SOCKET_IFNAME another network?");
	pthread_mutex_unlock(&attempt->ib->watcher->lock);
}

int sxt_attempt_create(struct sxt_ib *ib, const struct sxt_step *steps, struct sxt_nic *nic,
		       struct sxt_attempt **out)
{
	struct sxt_attempt *attempt = malloc(sizeof(*attempt));
	int rc;

	if (attempt == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "making a connection: %s", sxt_strerror(-ENOMEM));
		return -ENOMEM;
	}
	memset(attempt, 0, offsetof(struct sxt_attempt, paths));
	attempt->ib = ib;
	attempt->steps = steps;
	attempt->nic = nic;
	memset(&attempt->resort, 0, offsetof(struct sxt_resort, plan));
	attempt->eces.cnt = 0;
	attempt->resort.named = nic;
	attempt->resort.to = SXT_RESORT_NAMED;
	attempt->tclass = SXT_TCLASS_DEFAULT;
	attempt->begin_ns = ib->sys->now_ns();
	sxt_list_init(&attempt->ctx_node);
	rc = sxt_watcher_get(ib->watcher);
	if (rc != 0) {
		free(attempt);
		return rc;
	}
	*out = attempt;
	return 0;
}

static void forget_cookie(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	uint32_t place = (uint32_t)attempt->cookie;

	if (attempt->cookie != 0 && watcher->attempts[place] == attempt)
		watcher->attempts[place] = NULL;
}

/* A peer that has connected waits for an answer, whether or not there is an end of ours yet. */
static void tell_peer(struct sxt_attempt *attempt, int rc, const char *text)
{
	bool is_attached = attempt->conn != NULL && attempt->conn->side != NULL;
	struct sxt_frame_out frame;

	if (attempt->refused != 0 || (!is_attached && attempt->peer_id == 0))
		return;
	sxt_frame_begin(&frame, SXT_FRAME_REJECT, attempt->peer_id,
			is_attached ? attempt->conn->id : 0);
	sxt_frame_add_error(&frame, rc, text);
	sxt_side_send(attempt->side, &frame);
	attempt->refused = rc;
}

/* Everything but the connection, which may have been handed out. */
static void release(struct sxt_attempt *attempt)
{
	struct sxt_ib *ib = attempt->ib;

	if (attempt->ctx != NULL) {
		pthread_mutex_lock(&attempt->ctx->lock);
		sxt_list_remove(&attempt->ctx_node);
		pthread_mutex_unlock(&attempt->ctx->lock);
	}
	pthread_mutex_lock(&ib->watcher->lock);
	forget_cookie(attempt);
	sxt_side_put(attempt->side);
	pthread_mutex_unlock(&ib->watcher->lock);
	if (attempt->owns_ctx)
		sxt_context_destroy(attempt->ctx);
	free(attempt);
	sxt_watcher_put(ib->watcher);
}

void sxt_attempt_destroy(struct sxt_attempt *attempt, const char *why)
{
	struct sxt_watcher *watcher;

	if (attempt == NULL)
		return;
	watcher = attempt->ib->watcher;
	pthread_mutex_lock(&watcher->lock);
	tell_peer(attempt, -ECONNRESET, why);
	if (attempt->conn != NULL) {
		attempt->conn->attempt = NULL;
		sxt_side_detach(attempt->conn);
	}
	pthread_mutex_unlock(&watcher->lock);
	sxt_conn_destroy(attempt->conn);
	attempt->conn = NULL;
	release(attempt);
}

int sxt_attempt_fail(struct sxt_attempt *attempt, int rc, const char *fmt, ...)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	struct peer_words peer;
	char text[400];
	va_list args;

	read_peer(attempt, &peer);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	SXT_LOG(SXT_LOG_ERROR, "%s %s on port %s: %s (%s)",
		is_connecting(attempt) ? "connect to" : "accept from", peer.name,
		attempt->nic->label, text, sxt_strerror(rc));
	pthread_mutex_lock(&watcher->lock);
	tell_peer(attempt, rc, text);
	pthread_mutex_unlock(&watcher->lock);
	/* Some calls mean a limit by it; our callers would call again for ever. */
	return rc != -EAGAIN ? rc : -ENOMEM;
}

/* Settings may want to hear of traffic that leaves its rail; one path tells for all. */
static void tell_rails(const struct sxt_conn *conn)
{
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		const struct sxt_wire_path *own = &conn->paths[i].local.path;
		const struct sxt_wire_path *peer = &conn->paths[i].peer;

		if (own->rail == 0 || peer->rail == 0 || own->rail == peer->rail)
			continue;
		SXT_LOG(SXT_LOG_INFO,
			"port %s on rail %u is connected with %s on rail %u: this traffic leaves "
			"its rail (NCCL_CROSS_NIC=0 keeps rails apart)",
			conn->paths[i].port->label, own->rail - 1u, conn->peer_name,
			peer->rail - 1u);
		return;
	}
}

/*
 * The end is whole from here on: notes about it go to the data path. Anything that came while the
 * last step ran is looked at once more under the lock.
 */
static int hand_over(struct sxt_attempt *attempt, struct sxt_conn **out)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	struct sxt_conn *conn = attempt->conn;
	char why[320] = "";
	bool is_lost = true;

	pthread_mutex_lock(&watcher->lock);
	if (attempt->refused != 0)
		memcpy(why, attempt->refused_text, sizeof(attempt->refused_text));
	else if (conn->side->state == SXT_SIDE_DEAD && conn->ended == SXT_CONN_LIVES)
		memcpy(why, conn->side->why, sizeof(why));
	else
		is_lost = false;
	if (!is_lost)
		conn->attempt = NULL;
	pthread_mutex_unlock(&watcher->lock);
	if (is_lost)
		return sxt_attempt_fail(attempt, -ECONNRESET, "%s", why);
	SXT_LOG(SXT_LOG_DEBUG, "%s %s on port %s: qp 0x%x to qp 0x%x, %u paths",
		is_connecting(attempt) ? "connected to" : "accepted", conn->peer_name,
		attempt->nic->label, conn->paths[0].local.path.qpn, conn->paths[0].peer.qpn,
		conn->paths_cnt);
	sxt_resort_tell(attempt);
	if (attempt->ib->config->ib_warn_rail_local != 0)
		tell_rails(conn);
	sxt_conn_made(conn);
	/* The connection owns its private context from here on. */
	attempt->owns_ctx = false;
	attempt->conn = NULL;
	*out = conn;
	return 0;
}

/* What there is to tell of our tuner, for this communicator. Return: false for nothing. */
static bool own_tuner(const struct sxt_attempt *attempt, struct sxt_wire_tuner *out)
{
	/* Relaxed, here and below: they stand for nothing else. */
	sxt_tuner_fn tuner = atomic_load_explicit(&attempt->ib->tuner, memory_order_relaxed);

	memset(out, 0, sizeof(*out));
	if (tuner != NULL)
		tuner(attempt->ctx != NULL ? attempt->ctx->comm_id : 0, out);
	return tuner != NULL;
}

int sxt_attempt_check_tuner(struct sxt_attempt *attempt)
{
	struct sxt_ib *ib = attempt->ib;
	struct sxt_wire_tuner own;
	struct sxt_agree_line line;
	struct peer_words peer;
	char name[96];

	if (!attempt->has_tuner || !own_tuner(attempt, &own))
		return 0;
	read_peer(attempt, &peer);
	snprintf(name, sizeof(name), "%s:%d", ib->host, (int)ib->pid);
	if (!sxt_agree_tuner(name, &own, peer.name, &attempt->tuner, &line))
		return 0;
	if (line.level == SXT_LOG_ERROR)
		return sxt_attempt_fail(attempt, -EPROTO, "%s", line.text);
	if (!atomic_exchange_explicit(&ib->tuner_was_told, true, memory_order_relaxed))
		SXT_LOG(line.level, "%s", line.text);
	return 0;
}

/* Ranks that chose differently wait for connections that the others do not make. */
static void tuner_words(const struct sxt_attempt *attempt, char *out, size_t out_bytes)
{
	struct sxt_wire_tuner own;
	char text[SXT_TUNER_TEXT_BYTES];

	out[0] = '\0';
	if (!own_tuner(attempt, &own))
		return;
	sxt_tuner_text(&own, text);
	snprintf(out, out_bytes,
		 "; the tuner here has %s: compare with the line \"tuner:\" of the peer's log or "
		 "`sextant tune lint FILE` there",
		 text);
}

static int check_time(struct sxt_attempt *attempt)
{
	uint64_t limit_ns = attempt->ib->config->connect_timeout_s * SXT_NS_PER_SEC;
	uint64_t spent_ns = attempt->ib->sys->now_ns() - attempt->begin_ns;
	const char *waits_for = attempt->steps[attempt->step].waits_for;
	struct peer_words peer;
	char tuner[224];

	if (spent_ns < limit_ns / 2 || (spent_ns < limit_ns && attempt->was_warned))
		return -EAGAIN;
	read_peer(attempt, &peer);
	tuner_words(attempt, tuner, sizeof(tuner));
	if (spent_ns >= limit_ns)
		return sxt_attempt_fail(attempt, -ETIMEDOUT,
					"gave up after %u s (SEXTANT_CONNECT_TIMEOUT), still "
					"waiting for %s%s%s%s",
					attempt->ib->config->connect_timeout_s, waits_for,
					peer.trouble[0] != '\0' ? "; its side channel: " : "",
					peer.trouble, tuner);
	attempt->was_warned = true;
	SXT_LOG(SXT_LOG_WARN,
		"%s %s on port %s: waiting for %s since %u s; gives up at %u s "
		"(SEXTANT_CONNECT_TIMEOUT), continuing%s",
		is_connecting(attempt) ? "connect to" : "accept from", peer.name,
		attempt->nic->label, waits_for, (uint32_t)(spent_ns / SXT_NS_PER_SEC),
		attempt->ib->config->connect_timeout_s, tuner);
	return -EAGAIN;
}

int sxt_attempt_poll(struct sxt_attempt *attempt, struct sxt_conn **out)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	int rc;

	do {
		rc = attempt->steps[attempt->step].run(attempt);
		attempt->step += rc == 0 ? 1 : 0;
	} while (rc == 0 && attempt->steps[attempt->step].run != NULL);

	/* A user for the connection before the attempt stops being one. */
	if (rc == 0)
		rc = sxt_watcher_get(watcher);
	if (rc == 0) {
		rc = hand_over(attempt, out);
		if (rc != 0)
			sxt_watcher_put(watcher);
	}
	if (rc == 0) {
		release(attempt);
		return 0;
	}
	if (rc == -EAGAIN)
		rc = check_time(attempt);
	if (rc != -EAGAIN)
		sxt_attempt_destroy(attempt, "the other end failed");
	return rc;
}

int sxt_attempt_need_context(struct sxt_attempt *attempt)
{
	int rc;

	if (attempt->ctx != NULL)
		return 0;
	rc = sxt_context_create(attempt->ib, attempt->tclass, &attempt->ctx);
	if (rc != 0)
		return sxt_attempt_fail(attempt, rc, "making its context");
	attempt->ctx->is_private = true;
	attempt->owns_ctx = true;
	return 0;
}

/* NCCL_IB_TC, else what was asked for, else the communicator's, else 0. */
static int traffic_class(const struct sxt_attempt *attempt, int kind)
{
	const struct sxt_config *config = attempt->ib->config;
	int tclass = config->ib_tc;

	/* What a receiving end sends is clear-to-send writes. */
	if (kind == SXT_CONN_RECV && config->ib_fifo_tc >= 0)
		return config->ib_fifo_tc;
	if (tclass < 0)
		tclass = attempt->tclass;
	if (tclass < 0)
		tclass = attempt->ctx->tclass;
	return tclass < 0 || tclass > 255 ? 0 : tclass;
}

int sxt_attempt_make_conn(struct sxt_attempt *attempt, int kind, uint32_t paths_cnt)
{
	int rc;

	if (attempt->conn != NULL)
		return 0;
	rc = sxt_conn_create(attempt->ctx, attempt->nic, (enum sxt_conn_kind)kind, paths_cnt,
			     &attempt->conn);
	if (rc != 0)
		return sxt_attempt_fail(attempt, rc, "making its queue pair");
	attempt->conn->tclass = traffic_class(attempt, kind);
	attempt->conn->attempt = attempt;
	return 0;
}

static const char *link_layer_name(uint8_t link_layer)
{
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

int sxt_attempt_check_links(struct sxt_attempt *attempt)
{
	struct sxt_conn *conn = attempt->conn;
	uint8_t own = attempt->nic->ports[0]->link_layer;
	pthread_mutex_lock(&attempt->ib->watcher->lock);
	snprintf(conn->peer_name, sizeof(conn->peer_name), "%.64s %.24s", attempt->side->peer,
		 attempt->paths[0].hca);
	pthread_mutex_unlock(&attempt->ib->watcher->lock);
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		uint8_t peers = attempt->paths[i].link_layer;

		if (own != peers)
			return sxt_attempt_fail(
				attempt, -EOPNOTSUPP,
				"%s is %s and %s of %s is %s: they cannot be connected; leave one "
				"of them out with NCCL_IB_HCA",
				attempt->nic->label, link_layer_name(own), attempt->paths[i].hca,
				conn->peer_name, link_layer_name(peers));
	}
	return 0;
}

int sxt_attempt_start_conn(struct sxt_attempt *attempt)
{
	struct sxt_conn *conn = attempt->conn;
	int rc;

	for (uint32_t i = 0; i < attempt->eces.cnt; i++)
		sxt_path_hear_ece(conn, &attempt->eces.of[i]);
	rc = sxt_conn_start(conn, attempt->paths, &attempt->memory);
	return rc == 0 ? 0
		       : sxt_attempt_fail(attempt, rc, "joining its queue pair with the peer's");
}

static void add_candidates(const struct sxt_attempt *attempt, struct sxt_frame_out *frame)
{
	for (uint32_t i = 0; i < attempt->own_cnt; i++)
		sxt_frame_add(frame, SXT_TLV_CANDIDATE, &attempt->own[i], sizeof(attempt->own[i]));
}

/* What the connecting end can choose from when these do not do. */
static void add_others(const struct sxt_attempt *attempt, struct sxt_frame_out *frame)
{
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];
	uint32_t cnt = sxt_resort_others(attempt->ib, attempt->resort.named, others);

	for (uint32_t i = 0; i < cnt; i++)
		sxt_frame_add(frame, SXT_TLV_OTHER, &others[i], sizeof(others[i]));
}

static void add_ece(const struct sxt_conn *conn, uint32_t index, struct sxt_frame_out *frame)
{
	const struct ibv_ece *own = &conn->paths[index].ece;
	const struct sxt_wire_ece wire = {
		.vendor_id = own->vendor_id,
		.options = own->options,
		.comp_mask = own->comp_mask,
		.path = (uint8_t)index,
	};

	if (wire.vendor_id != 0)
		sxt_frame_add(frame, SXT_TLV_ECE, &wire, sizeof(wire));
}

/* Of CONNECT and ACCEPT: all there is to know of our end. */
static void add_end(const struct sxt_attempt *attempt, uint16_t memory_type,
		    struct sxt_frame_out *frame)
{
	const struct sxt_conn *conn = attempt->conn;
	struct sxt_wire_memory memory;

	sxt_conn_memory(conn, &memory);
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		sxt_frame_add(frame, SXT_TLV_PATH, &conn->paths[i].local.path,
			      sizeof(struct sxt_wire_path));
	sxt_frame_add(frame, memory_type, &memory, sizeof(memory));
	add_candidates(attempt, frame);
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		add_ece(conn, i, frame);
}

static void add_connect(struct sxt_attempt *attempt, struct sxt_frame_out *frame)
{
	const uint32_t to = attempt->resort.to;
	struct sxt_wire_tuner tuner;

	attempt->tries = 0;
	for (uint32_t i = 0; i < attempt->conn->paths_cnt; i++)
		attempt->tries += attempt->conn->paths[i].local.path.epoch;
	sxt_frame_add(frame, SXT_TLV_TOKEN, attempt->handle.token, sizeof(attempt->handle.token));
	if (own_tuner(attempt, &tuner))
		sxt_frame_add(frame, SXT_TLV_TUNER, &tuner, sizeof(tuner));
	add_end(attempt, SXT_TLV_RING, frame);
	if (to != SXT_RESORT_NAMED)
		sxt_frame_add(frame, SXT_TLV_RESORT, &to, sizeof(to));
}

static void add_unproven(const struct sxt_attempt *attempt, struct sxt_frame_out *frame)
{
	uint32_t tries = 0;

	for (uint32_t i = 0; i < attempt->paths_cnt; i++)
		tries += attempt->paths[i].epoch;
	sxt_frame_add(frame, SXT_TLV_FAILED, &attempt->unproven, sizeof(attempt->unproven));
	sxt_frame_add(frame, SXT_TLV_TRIES, &tries, sizeof(tries));
	add_candidates(attempt, frame);
	add_others(attempt, frame);
}

void sxt_attempt_send(struct sxt_attempt *attempt, uint16_t type)
{
	struct sxt_conn *conn = attempt->conn;
	struct sxt_frame_out frame;

	sxt_frame_begin(&frame, type, conn->peer_id, conn->id);
	if (type == SXT_FRAME_CONNECT) {
		add_connect(attempt, &frame);
	} else if (type == SXT_FRAME_ACCEPT) {
		add_end(attempt, SXT_TLV_RECORDS, &frame);
		add_others(attempt, &frame);
	} else if (type == SXT_FRAME_UNPROVEN) {
		add_unproven(attempt, &frame);
	}
	attempt->incarnation = conn->side->incarnation;
	sxt_side_send(conn->side, &frame);
}

void sxt_attempts_drop(struct sxt_context *ctx)
{
	struct sxt_list *node;
	struct sxt_list *after;

	/* The caller is alone with the context: nobody adds to the lists meanwhile. */
	sxt_list_for_each (node, after, &ctx->attempts)
		sxt_attempt_destroy(SXT_LIST_ENTRY(node, struct sxt_attempt, ctx_node),
				    "the communicator was destroyed");
	sxt_list_for_each (node, after, &ctx->listeners)
		sxt_listener_close(SXT_LIST_ENTRY(node, struct sxt_listener, ctx_node));
}

void sxt_attempts_drop_all(struct sxt_ib *ib)
{
	struct sxt_list *node;
	struct sxt_list *after;

	for (uint32_t i = 0; i < ib->watcher->attempts_cap; i++)
		sxt_attempt_destroy(ib->watcher->attempts[i], "the process ended");
	sxt_list_for_each (node, after, &ib->watcher->listeners)
		sxt_listener_close(SXT_LIST_ENTRY(node, struct sxt_listener, node));
}
