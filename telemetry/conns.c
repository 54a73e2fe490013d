/*
 * conns.c - records of links, connections and their paths: given out, ended, given out again
 * (any thread, under the segment's lock; slow path).
 */
#include "telemetry/own.h"
#include "telemetry/record.h"
#include "telemetry/text.h"
#include "telemetry/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONN_HEAD_BYTES offsetof(struct sxt_tele_conn, counters)

_Static_assert(CONN_HEAD_BYTES % SXT_CACHELINE == 0, "counters share no line with another writer");

/* The link's record; the last one stands for all that came after it. */
static uint32_t link_get(struct sxt_tele *tele, const char *nic, const char *peer)
{
	struct sxt_tele_link link = {.is_used = 1};
	uint32_t i;

	sxt_tele_text_put(link.nic, sizeof(link.nic), nic);
	sxt_tele_text_put(link.peer, sizeof(link.peer), peer);
	for (i = 0; i < tele->links_cnt; i++) {
		if (strcmp(tele->links[i].peer, link.peer) == 0 &&
		    strcmp(tele->links[i].nic, link.nic) == 0)
			return i;
	}
	if (i == SXT_TELE_LINKS_CAP)
		return i - 1;
	if (i == SXT_TELE_LINKS_CAP - 1) {
		sxt_tele_text_put(link.nic, sizeof(link.nic), "others");
		sxt_tele_text_put(link.peer, sizeof(link.peer), "others");
	}
	sxt_tele_record_put(&tele->links[i], &link, offsetof(struct sxt_tele_link, conns));
	sxt_tele_note_used(tele, SXT_TELE_LINKS, ++tele->links_cnt);
	return i;
}

/* How often the links get what connections without a record moved. */
#define LONES_NS SXT_NS_PER_SEC

static void add_more(uint64_t *sum, const uint64_t *counter, uint64_t *told)
{
	uint64_t now = __atomic_load_n(counter, __ATOMIC_RELAXED);

	__atomic_fetch_add(sum, now - *told, __ATOMIC_RELAXED);
	*told = now;
}

/* What a connection moved since it was told last goes into its link's sum. */
static void fold(struct sxt_tele *tele, uint32_t link, uint32_t direction,
		 const struct sxt_tele_counters *counters, struct sxt_tele_flow *told)
{
	struct sxt_tele_flow *flow = &tele->links[link].flows[direction == SXT_TELE_RECEIVES];

	add_more(&flow->messages, &counters->messages, &told->messages);
	add_more(&flow->bytes, &counters->bytes, &told->bytes);
	add_more(&flow->not_now, &counters->not_now, &told->not_now);
}

static void paths_free(struct sxt_tele *tele, const struct sxt_tele_conn *conn)
{
	memset(tele->path_is_used + conn->path_first, 0, conn->paths);
}

/* The first of so many free records in a row, or none. */
static uint32_t paths_find(const struct sxt_tele *tele, uint32_t cnt)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < tele->paths_cap; i++) {
		found = tele->path_is_used[i] != 0 ? 0 : found + 1;
		if (found == cnt)
			return i + 1 - cnt;
	}
	return SXT_TELE_NONE;
}

/* Connections that ended give up their paths' records, oldest first, before a live one lacks. */
static uint32_t paths_take(struct sxt_tele *tele, uint32_t cnt)
{
	uint32_t ended = tele->ended_first;
	uint32_t first = paths_find(tele, cnt);

	for (; first == SXT_TELE_NONE && ended != SXT_TELE_NONE; ended = tele->ended_next[ended]) {
		struct sxt_tele_conn *conn = &tele->conns[ended];
		struct sxt_tele_conn head;

		if (conn->paths == 0)
			continue;
		paths_free(tele, conn);
		memcpy(&head, conn, CONN_HEAD_BYTES);
		head.paths = 0;
		sxt_tele_record_put(conn, &head, CONN_HEAD_BYTES);
		first = paths_find(tele, cnt);
	}
	if (first != SXT_TELE_NONE)
		memset(tele->path_is_used + first, 1, cnt);
	return first;
}

static void paths_write(struct sxt_tele *tele, const struct sxt_tele_conn_facts *facts,
			uint32_t conn, uint32_t first)
{
	for (uint32_t i = 0; i < facts->paths_cnt; i++) {
		struct sxt_tele_path path = facts->paths[i];

		path.conn = conn;
		path.messages = 0;
		path.bytes = 0;
		memset(path.reserved, 0, sizeof(path.reserved));
		memset(path.reserved2, 0, sizeof(path.reserved2));
		sxt_tele_text_clean(path.peer_hca, sizeof(path.peer_hca));
		sxt_tele_record_put(&tele->paths[first + i], &path, sizeof(path));
	}
	sxt_tele_note_used(tele, SXT_TELE_PATHS, first + facts->paths_cnt);
}

/* A record nobody uses: a new one, else the one that ended first; or none. */
static uint32_t record_take(struct sxt_tele *tele)
{
	uint32_t i = tele->ended_first;
	struct sxt_tele_flow told = {0};
	const struct sxt_tele_conn *conn;

	if (tele->conns_cnt < tele->conns_cap)
		return tele->conns_cnt++;
	if (i == SXT_TELE_NONE)
		return i;
	tele->ended_first = tele->ended_next[i];
	if (tele->ended_first == SXT_TELE_NONE)
		tele->ended_last = SXT_TELE_NONE;
	conn = &tele->conns[i];
	fold(tele, conn->link, conn->direction, &conn->counters, &told);
	paths_free(tele, conn);
	return i;
}

static void record_give(struct sxt_tele *tele, uint32_t i)
{
	tele->ended_next[i] = SXT_TELE_NONE;
	if (tele->ended_last == SXT_TELE_NONE)
		tele->ended_first = i;
	else
		tele->ended_next[tele->ended_last] = i;
	tele->ended_last = i;
}

/*
 * The counters begin anew under the same sequence: who reads meanwhile reads again. Those of a
 * record that was never used are zeros.
 */
static void record_open(struct sxt_tele *tele, const struct sxt_tele_conn_facts *facts, uint32_t i,
			uint32_t link)
{
	struct sxt_tele_conn *conn = &tele->conns[i];
	bool is_new = conn->state == SXT_TELE_CONN_FREE;
	struct sxt_tele_conn clean = {.state = SXT_TELE_CONN_LIVE,
				      .direction = facts->direction,
				      .link = link,
				      .id = facts->id,
				      .peer_id = facts->peer_id,
				      .comm = facts->comm,
				      .opened = sxt_tele_ticks()};
	uint32_t first = facts->paths_cnt > 0 ? paths_take(tele, facts->paths_cnt) : SXT_TELE_NONE;

	if (!is_new)
		clean.generation = conn->generation + 1;
	if (first != SXT_TELE_NONE) {
		clean.path_first = first;
		clean.paths = facts->paths_cnt;
		paths_write(tele, facts, i, first);
	}
	sxt_tele_record_put(conn, &clean, is_new ? CONN_HEAD_BYTES : sizeof(clean));
	sxt_tele_note_used(tele, SXT_TELE_CONNS, i + 1);
}

/* Counters that are seen in their link only. */
static struct sxt_tele_counters *lone_open(struct sxt_tele *tele,
					   const struct sxt_tele_conn_facts *facts, uint32_t link)
{
	struct sxt_tele_lone *lone = NULL;

	__atomic_fetch_add(&tele->header->conns_shared, 1, __ATOMIC_RELAXED);
	if (posix_memalign((void **)&lone, SXT_CACHELINE, sizeof(*lone)) != 0)
		return &tele->spare.counters;
	memset(lone, 0, sizeof(*lone));
	lone->link = link;
	lone->direction = facts->direction;
	__atomic_fetch_add(&tele->links[link].shared[facts->direction == SXT_TELE_RECEIVES], 1,
			   __ATOMIC_RELAXED);
	if (sxt_list_empty(&tele->lones))
		tele->lones_due_ns = sxt_sys_host.now_ns() + LONES_NS;
	sxt_list_append(&tele->lones, &lone->node);
	return &lone->counters;
}

static void lone_fold(struct sxt_tele *tele, struct sxt_tele_lone *lone)
{
	fold(tele, lone->link, lone->direction, &lone->counters, &lone->told);
}

uint64_t sxt_tele_shared_due_ns(struct sxt_tele *tele)
{
	uint64_t due_ns = UINT64_MAX;

	if (tele == NULL)
		return due_ns;
	pthread_mutex_lock(&tele->lock);
	if (!sxt_list_empty(&tele->lones))
		due_ns = tele->lones_due_ns;
	pthread_mutex_unlock(&tele->lock);
	return due_ns;
}

void sxt_tele_add_shared(struct sxt_tele *tele, uint64_t now_ns)
{
	struct sxt_list *node;
	struct sxt_list *after;

	if (tele == NULL)
		return;
	pthread_mutex_lock(&tele->lock);
	if (now_ns >= tele->lones_due_ns) {
		sxt_list_for_each (node, after, &tele->lones)
			lone_fold(tele, SXT_LIST_ENTRY(node, struct sxt_tele_lone, node));
		tele->lones_due_ns = now_ns + LONES_NS;
	}
	pthread_mutex_unlock(&tele->lock);
}

static struct sxt_tele_lone *lone_of(const struct sxt_tele_handle *handle)
{
	return SXT_CONTAINER_OF(handle->counters, struct sxt_tele_lone, counters);
}

/* "sends to node2:4711 over mlx5_0", of a connection with a record or without one. */
static void tell(struct sxt_tele *tele, enum sxt_tele_event_kind kind,
		 const struct sxt_tele_handle *handle, uint32_t direction)
{
	const struct sxt_tele_link *link = &tele->links[handle->link];
	char text[sizeof(((struct sxt_tele_event *)0)->text)];

	snprintf(text, sizeof(text), "%s %s over %s",
		 direction == SXT_TELE_SENDS ? "sends to" : "receives from", link->peer, link->nic);
	sxt_tele_event(tele, kind, handle->conn, text);
}

void sxt_tele_conn_open(struct sxt_tele *tele, const struct sxt_tele_conn_facts *facts,
			struct sxt_tele_handle *out)
{
	struct sxt_tele_handle handle = {0};

	pthread_mutex_lock(&tele->lock);
	handle.link = link_get(tele, facts->nic, facts->peer);
	handle.conn = record_take(tele);
	if (handle.conn != SXT_TELE_NONE) {
		record_open(tele, facts, handle.conn, handle.link);
		handle.counters = &tele->conns[handle.conn].counters;
	} else {
		handle.counters = lone_open(tele, facts, handle.link);
	}
	__atomic_fetch_add(&tele->links[handle.link].conns, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&tele->lock);
	__atomic_fetch_add(&tele->header->conns_opened, 1, __ATOMIC_RELAXED);
	tell(tele, SXT_TELE_EVENT_OPENED, &handle, facts->direction);
	*out = handle;
}

/* Rewrites the record's head; its counters belong to somebody else. */
static void record_close(struct sxt_tele_conn *conn, enum sxt_tele_conn_state state, int error,
			 const char *text)
{
	struct sxt_tele_conn head;

	memcpy(&head, conn, CONN_HEAD_BYTES);
	head.state = state;
	head.ended = sxt_tele_ticks();
	head.error = error;
	sxt_tele_text_put(head.text, sizeof(head.text), text);
	sxt_tele_record_put(conn, &head, CONN_HEAD_BYTES);
}

void sxt_tele_conn_fail(struct sxt_tele *tele, const struct sxt_tele_handle *handle, int error,
			const char *text)
{
	if (tele == NULL)
		return;
	pthread_mutex_lock(&tele->lock);
	if (handle->conn != SXT_TELE_NONE)
		record_close(&tele->conns[handle->conn], SXT_TELE_CONN_FAILED, error, text);
	else
		lone_of(handle)->has_failed = true;
	pthread_mutex_unlock(&tele->lock);
	sxt_tele_event(tele, SXT_TELE_EVENT_FAILED, handle->conn, text);
}

/* Return: true if the connection ended in order. */
static bool lone_end(struct sxt_tele *tele, const struct sxt_tele_handle *handle)
{
	struct sxt_tele_lone *lone = lone_of(handle);
	bool has_failed = lone->has_failed;

	if (lone == &tele->spare)
		return true;
	lone_fold(tele, lone);
	__atomic_fetch_sub(&tele->links[lone->link].shared[lone->direction == SXT_TELE_RECEIVES], 1,
			   __ATOMIC_RELAXED);
	sxt_list_remove(&lone->node);
	free(lone);
	return !has_failed;
}

static bool record_end(struct sxt_tele *tele, uint32_t i)
{
	struct sxt_tele_conn *conn = &tele->conns[i];
	bool is_live = conn->state == SXT_TELE_CONN_LIVE;

	if (is_live)
		record_close(conn, SXT_TELE_CONN_CLOSED, 0, NULL);
	record_give(tele, i);
	return is_live;
}

void sxt_tele_conn_end(struct sxt_tele *tele, const struct sxt_tele_handle *handle)
{
	uint32_t direction;
	bool in_order;

	if (tele == NULL)
		return;
	pthread_mutex_lock(&tele->lock);
	if (handle->conn != SXT_TELE_NONE) {
		direction = tele->conns[handle->conn].direction;
		in_order = record_end(tele, handle->conn);
	} else {
		direction = lone_of(handle)->direction;
		in_order = lone_end(tele, handle);
	}
	__atomic_fetch_sub(&tele->links[handle->link].conns, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&tele->lock);
	if (in_order)
		tell(tele, SXT_TELE_EVENT_CLOSED, handle, direction);
}
