/*
 * churn.c - a writer whose every block can be checked, and the check.
 */
#include "tests/unit/telemetry/churn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MESSAGE_BYTES 8
#define REWRITES      16 /* of a record that is read meanwhile, or too few of them would tear */

static char letter(uint32_t round)
{
	return (char)('a' + round % 26);
}

/* A text of one letter, as long as its place: a torn one has two. */
static void fill(char *text, size_t bytes, uint32_t round)
{
	memset(text, letter(round), bytes - 1);
	text[bytes - 1] = '\0';
}

static void require_whole(const char *text)
{
	assert_int_equal(strspn(text, (char[]){text[0], '\0'}), strlen(text));
}

/* As the data path does: each counter whole, all of them behind each other. */
static void count(struct sxt_tele_counters *counters, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		sxt_tele_add64(&counters->started, 1);
		sxt_tele_set64(&counters->last_start, sxt_tele_ticks());
		sxt_tele_add64(&counters->bytes, MESSAGE_BYTES);
		sxt_tele_add64(&counters->messages, 1);
		sxt_tele_add64(&counters->done, 1);
		sxt_tele_add32(&counters->latency[SXT_TELE_WAIT_WIRE][i % 72], 1);
		sxt_tele_add32(&counters->sizes[i % 16], 1);
	}
}

static void set_port(struct sxt_tele *tele, uint32_t round)
{
	struct sxt_tele_port port = {.state = 1 + round / REWRITES % 4,
				     .num = round,
				     .mtu = round,
				     .flaps = round};

	fill(port.hca, sizeof(port.hca), round);
	fill(port.reason, sizeof(port.reason), round);
	sxt_tele_port_set(tele, 0, &port);
}

void churn_step(struct sxt_tele *tele, uint32_t round)
{
	struct sxt_tele_path paths[2] = {{.qpn = round, .peer_qpn = round},
					 {.qpn = round, .peer_qpn = round}};
	const struct sxt_tele_conn_facts facts = {.direction = SXT_TELE_SENDS,
						  .id = round,
						  .peer_id = round,
						  .nic = "nic",
						  .peer = round % 2 != 0 ? "odd:1" : "even:2",
						  .paths = paths,
						  .paths_cnt = 1 + round % 2};
	struct sxt_tele_handle handle;
	char text[sizeof(((struct sxt_tele_conn *)0)->text)];

	sxt_tele_conn_open(tele, &facts, &handle);
	count(handle.counters, 1 + round % 50);
	for (uint32_t i = 0; round % 3 == 0 && i < REWRITES; i++) {
		fill(text, sizeof(text), round + i);
		sxt_tele_conn_fail(tele, &handle, letter(round + i), text);
	}
	count(handle.counters, 1 + round % 50);
	sxt_tele_conn_end(tele, &handle);
	for (uint32_t i = 0; round % 8 == 0 && i < REWRITES; i++)
		set_port(tele, round * REWRITES + i);
	fill(text, sizeof(text), round);
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, round, text);
}

static void check_conn(const struct sxt_tele_view *view, uint32_t i, struct churn_seen *seen)
{
	struct sxt_tele_conn conn;

	if (!sxt_tele_conn_get(view, i, &conn))
		return;
	seen->looks++;
	assert_int_equal(conn.id, conn.peer_id);
	assert_in_range(conn.state, SXT_TELE_CONN_LIVE, SXT_TELE_CONN_FAILED);
	assert_int_equal(conn.error, conn.text[0]); /* 0 of one that did not fail */
	assert_true((conn.state == SXT_TELE_CONN_FAILED) == (conn.error != 0));
	assert_int_equal(strlen(conn.text), conn.error != 0 ? sizeof(conn.text) - 1 : 0);
	require_whole(conn.text);
	assert_int_equal(conn.counters.bytes % MESSAGE_BYTES, 0);
	assert_true(conn.counters.started <= 100);
	assert_true(conn.generation >= seen->generation[i]);
	if (conn.generation == seen->generation[i])
		assert_true(conn.counters.bytes >= seen->bytes[i]);
	seen->generation[i] = conn.generation;
	seen->bytes[i] = conn.counters.bytes;
}

static void check_path(const struct sxt_tele_view *view, uint32_t i)
{
	struct sxt_tele_path path;

	if (sxt_tele_path_get(view, i, &path))
		assert_int_equal(path.qpn, path.peer_qpn);
}

static void check_events(const struct sxt_tele_view *view, struct churn_seen *seen)
{
	const struct sxt_tele_header *header = sxt_tele_header(view);
	struct sxt_tele_event event;

	assert_true(header->events >= seen->events);
	seen->events = header->events;
	for (uint64_t back = 1; back <= 20 && back <= header->events; back++) {
		if (!sxt_tele_event_get(view, header->events - back, &event))
			continue;
		assert_in_range(event.kind, SXT_TELE_EVENT_LINE, SXT_TELE_EVENT_STALL);
		if (event.kind == SXT_TELE_EVENT_LINE || event.kind == SXT_TELE_EVENT_FAILED)
			require_whole(event.text);
	}
}

void churn_check(struct sxt_tele_view *view, struct churn_seen *seen)
{
	struct sxt_tele_link link;
	struct sxt_tele_port port;

	sxt_tele_refresh(view);
	for (uint32_t i = 0; i < sxt_tele_cap(view, SXT_TELE_CONNS); i++)
		check_conn(view, i, seen);
	for (uint32_t i = 0; i < sxt_tele_cap(view, SXT_TELE_PATHS); i++)
		check_path(view, i);
	for (uint32_t i = 0; i < 2; i++) {
		if (sxt_tele_link_get(view, i, &link))
			assert_int_equal(link.flows[0].bytes % MESSAGE_BYTES, 0);
	}
	if (sxt_tele_port_get(view, 0, &port)) {
		assert_int_equal(port.num, port.mtu);
		assert_int_equal(port.num, port.flaps);
		require_whole(port.hca);
		require_whole(port.reason);
		assert_int_equal(port.hca[0], port.reason[0]);
	}
	check_events(view, seen);
}
