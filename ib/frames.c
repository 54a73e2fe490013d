/*
 * frames.c - what the frames of a peer do to listeners, attempts and connections. The watcher's
 * thread, under its lock: leaves facts and notes, acts on nothing.
 */
#include "ib/attempt.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/conn.h"
#include "ib/listen.h"
#include "ib/side.h"
#include "ib/watcher.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void reject(struct sxt_side *side, uint32_t peer_id, int rc, const char *why)
{
	struct sxt_frame_out frame;

	sxt_frame_begin(&frame, SXT_FRAME_REJECT, peer_id, 0);
	sxt_frame_add_error(&frame, rc, why);
	sxt_side_send(side, &frame);
}

/* By our number where the peer knows it, else by its own. */
static struct sxt_conn *find_conn(const struct sxt_side *side, const struct sxt_wire_frame *header)
{
	struct sxt_list *node;

	/* From the newest: most frames are about connections being made. */
	for (node = side->conns.prev; node != &side->conns; node = node->prev) {
		struct sxt_conn *conn = SXT_LIST_ENTRY(node, struct sxt_conn, side_node);
		bool is_peers = header->conn_from == 0 || conn->peer_id == 0 ||
				conn->peer_id == header->conn_from;

		if (header->conn_to != 0 ? conn->id == header->conn_to && is_peers
					 : conn->peer_id == header->conn_from)
			return conn;
	}
	return NULL;
}

static void take_candidates(struct sxt_attempt *attempt, const struct sxt_frame_facts *facts)
{
	if (facts->candidates_cnt == 0)
		return;
	attempt->theirs_cnt = facts->candidates_cnt;
	memcpy(attempt->theirs, facts->candidates,
	       facts->candidates_cnt * sizeof(facts->candidates[0]));
}

/* The connecting end; its plan is made from the first ones. */
static void take_others(struct sxt_attempt *attempt, const struct sxt_frame_facts *facts)
{
	attempt->resort.others_cnt = facts->others_cnt;
	memcpy(attempt->resort.others, facts->others, facts->others_cnt * sizeof(facts->others[0]));
}

/* Some path of the peer is at another try than the one we know. */
static bool is_news(const struct sxt_wire_path *known, const struct sxt_frame_facts *facts)
{
	for (uint32_t i = 0; i < facts->paths_cnt; i++) {
		if (known[i].epoch != facts->paths[i].epoch)
			return true;
	}
	return false;
}

/* A further try of the peer, or the last one once more because the channel broke. */
static void on_connect_again(struct sxt_conn *conn, const struct sxt_frame_facts *facts)
{
	struct sxt_attempt *attempt = conn->attempt;

	if (attempt == NULL || conn->kind != SXT_CONN_RECV ||
	    facts->paths_cnt != attempt->paths_cnt || !is_news(attempt->paths, facts))
		return;
	memcpy(attempt->paths, facts->paths, facts->paths_cnt * sizeof(facts->paths[0]));
	take_candidates(attempt, facts);
	attempt->eces = facts->eces;
	attempt->memory = facts->ring;
	attempt->resort.to = SXT_RESORT_NAMED;
	if (facts->has_resort)
		attempt->resort.to = facts->resort < SXT_RESORT_NAMED ? (uint8_t)facts->resort
								      : SXT_RESORT_NAMED - 1;
	attempt->is_retried = true;
}

static void on_connect(struct sxt_side *side, const struct sxt_wire_frame *header,
		       const struct sxt_frame_facts *facts)
{
	struct sxt_watcher *watcher = side->watcher;
	struct sxt_listener *listener = NULL;
	struct sxt_conn *conn;
	int rc;

	if (header->conn_from == 0 || !facts->has_token || facts->paths_cnt == 0 ||
	    !facts->has_ring) {
		reject(side, header->conn_from, -EPROTO, "CONNECT lacks a record");
		return;
	}
	/* Sent again because the channel broke: it was heard the first time. */
	if (sxt_listeners_know(watcher, side, header->conn_from))
		return;
	conn = find_conn(side, header);
	if (conn != NULL) {
		on_connect_again(conn, facts);
		return;
	}
	listener = sxt_listener_find(watcher, facts->token);
	if (listener == NULL) {
		reject(side, header->conn_from, -ECONNREFUSED,
		       "no listener has this token: it was closed, or never was");
		return;
	}
	rc = sxt_listener_offer(listener, side, header->conn_from, facts);
	if (rc != 0)
		reject(side, header->conn_from, rc, "too many connections wait to be accepted");
}

static void refuse_attempt(struct sxt_attempt *attempt, int rc, const char *text)
{
	if (attempt->refused != 0)
		return;
	attempt->refused = rc;
	snprintf(attempt->refused_text, sizeof(attempt->refused_text), "%s", text);
}

/* An answer to an earlier try. */
static bool is_stale(const struct sxt_conn *conn, const struct sxt_frame_facts *facts)
{
	for (uint32_t i = 0; i < facts->paths_cnt && i < conn->paths_cnt; i++) {
		if (conn->paths[i].local.path.epoch != facts->paths[i].epoch)
			return true;
	}
	return false;
}

static void on_accept(struct sxt_conn *conn, const struct sxt_wire_frame *header,
		      const struct sxt_frame_facts *facts)
{
	struct sxt_attempt *attempt = conn->attempt;
	struct sxt_frame_out frame;

	if (conn->kind != SXT_CONN_SEND)
		return;
	if (attempt == NULL) {
		/* Sent again because the channel broke: so READY may be lost as well. */
		sxt_frame_begin(&frame, SXT_FRAME_READY, conn->peer_id, conn->id);
		sxt_side_send(conn->side, &frame);
		return;
	}
	if (attempt->is_answered || is_stale(conn, facts))
		return;
	if (header->conn_from == 0 || facts->paths_cnt != conn->paths_cnt || !facts->has_records) {
		refuse_attempt(attempt, -EPROTO, "its ACCEPT lacks a record or has too many");
		return;
	}
	conn->peer_id = header->conn_from;
	attempt->peer_id = header->conn_from;
	attempt->paths_cnt = facts->paths_cnt;
	memcpy(attempt->paths, facts->paths, facts->paths_cnt * sizeof(facts->paths[0]));
	take_candidates(attempt, facts);
	take_others(attempt, facts);
	attempt->eces = facts->eces;
	attempt->memory = facts->records;
	attempt->is_answered = true;
}

static void on_ready(struct sxt_conn *conn)
{
	struct sxt_frame_out frame;

	if (conn->kind != SXT_CONN_RECV)
		return;
	if (conn->attempt != NULL) {
		conn->attempt->is_ready = true;
		return;
	}
	/* Sent again because the channel broke: so PROVEN may be lost as well. */
	sxt_frame_begin(&frame, SXT_FRAME_PROVEN, conn->peer_id, conn->id);
	sxt_side_send(conn->side, &frame);
}

static void on_unproven(struct sxt_conn *conn, const struct sxt_frame_facts *facts)
{
	struct sxt_attempt *attempt = conn->attempt;
	uint64_t all = conn->paths_cnt < 64 ? (1ull << conn->paths_cnt) - 1 : UINT64_MAX;

	/* Not what came twice, because the channel broke, and was acted upon. */
	if (attempt == NULL || conn->kind != SXT_CONN_SEND || !facts->has_failed ||
	    !facts->has_tries || facts->tries != attempt->tries)
		return;
	take_candidates(attempt, facts);
	take_others(attempt, facts);
	attempt->unproven |= facts->failed & all;
}

static void on_close(struct sxt_conn *conn, const struct sxt_frame_facts *facts)
{
	struct sxt_attempt *attempt = conn->attempt;

	/* An accepting end that is ready is whole, even if accept() has not said so yet. */
	if (attempt != NULL && !attempt->is_ready) {
		refuse_attempt(attempt, -ECONNRESET, "it closed the connection while it was made");
		return;
	}
	if (conn->ended != SXT_CONN_LIVES)
		return;
	if (!facts->has_progress) {
		SXT_LOG(SXT_LOG_ERROR,
			"peer %s sent CLOSE without saying how far it got: do both sides run the "
			"same Sextant?",
			conn->peer_name);
		sxt_side_note_failed(conn, -EPROTO);
		return;
	}
	conn->ended = SXT_CONN_PEER_CLOSED;
	conn->peer_progress = facts->progress;
	sxt_conn_note(conn, SXT_NOTE_PEER_CLOSED);
}

static void on_failure(struct sxt_conn *conn, const struct sxt_wire_frame *header,
		       const struct sxt_frame_facts *facts)
{
	if (conn->attempt != NULL) {
		refuse_attempt(conn->attempt, facts->has_error ? facts->error : -ECONNREFUSED,
			       facts->text);
		return;
	}
	if (conn->ended == SXT_CONN_LIVES)
		SXT_LOG(SXT_LOG_ERROR, "peer %s sent %s: %s (%s there)", conn->peer_name,
			sxt_frame_type_name(header->type), facts->text, sxt_strerror(facts->error));
	sxt_side_note_failed(conn, -EREMOTEIO);
}

static void on_unknown(struct sxt_side *side, const struct sxt_wire_frame *header)
{
	if (header->type == SXT_FRAME_ACCEPT)
		reject(side, header->conn_from, -ECONNRESET, "connecting was given up");
	else if (header->type != SXT_FRAME_READY && header->conn_to == 0)
		sxt_ignore(sxt_listeners_forget(side->watcher, side, header->conn_from));
}

void sxt_frames_take(struct sxt_side *side, const struct sxt_wire_frame *header,
		     const struct sxt_frame_facts *facts)
{
	struct sxt_conn *conn;

	if (header->type == SXT_FRAME_CONNECT) {
		on_connect(side, header, facts);
		return;
	}
	conn = find_conn(side, header);
	if (conn == NULL) {
		on_unknown(side, header);
		return;
	}
	switch (header->type) {
	case SXT_FRAME_ACCEPT:
		on_accept(conn, header, facts);
		break;
	case SXT_FRAME_READY:
		on_ready(conn);
		break;
	case SXT_FRAME_PROVEN:
		if (conn->attempt != NULL && conn->kind == SXT_CONN_SEND)
			conn->attempt->is_ready = true;
		break;
	case SXT_FRAME_UNPROVEN:
		on_unproven(conn, facts);
		break;
	case SXT_FRAME_CLOSE:
		on_close(conn, facts);
		break;
	case SXT_FRAME_REJECT:
	case SXT_FRAME_FAIL:
		on_failure(conn, header, facts);
		break;
	default: /* a later version's: nothing we could do with it */
		break;
	}
}
