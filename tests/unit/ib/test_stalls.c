/*
 * test_stalls.c - the watcher's look at the counters of every connection: what is told, how often,
 * about whom. The counters are the test's; waits are as old as the test says.
 */
#include "ib/stalls.h"

#include "core/log.h"
#include "ib/conn.h"
#include "ib/measure.h"
#include "ib/side.h"
#include "ib/stall.h"
#include "ib/tell.h"
#include "tests/unit/ib/pair.h"
#include "tests/unit/ib/tree.h"
#include "tests/unit/telemetry/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LEAST     60u /* s, SEXTANT_STALL_SECONDS by default */
#define MORE_CNT  6   /* pairs of connections besides the first */
#define TICKS_SEC ((uint64_t)(1e9f / sxt_tele_ns_per_tick))

static struct {
	struct pair pair;
	struct sxt_side side; /* that carries all of them */
	struct sxt_stalls *stalls;
	struct sxt_conn *more[2 * MORE_CNT];
	uint64_t now_ns;
	uint64_t now_ticks;
	uint32_t warn_cnt;
	uint32_t idle_cnt;
	char warn[2048];
	char idle[2048];
} rig;

static void take_line(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	if (level == SXT_LOG_WARN) {
		rig.warn_cnt++;
		snprintf(rig.warn, sizeof(rig.warn), "%s", text);
	} else if (strncmp(text, "APP-IDLE", 8) == 0) {
		rig.idle_cnt++;
		snprintf(rig.idle, sizeof(rig.idle), "%s", text);
	}
}

static void tap_line(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	sxt_tell_line(rig.pair.ib.tele, level, text);
}

static void carry(struct sxt_conn *conn)
{
	assert_int_equal(sxt_tell_conn_making(conn), 0);
	sxt_tell_conn_made(conn);
	conn->side = &rig.side;
	sxt_list_append(&rig.side.conns, &conn->side_node);
}

static void uncarry(struct sxt_conn *conn)
{
	sxt_list_remove(&conn->side_node);
	conn->side = NULL;
}

static int open_rig(void **state)
{
	assert_int_equal(rig_set_up(state), 0);
	memset(&rig, 0, sizeof(rig));
	pair_open(&rig.pair, &pair_usual);
	rig.pair.ib.tele = rig_create(64);
	snprintf(rig.pair.ib.host, sizeof(rig.pair.ib.host), "node1");
	rig.pair.ib.pid = 66;
	sxt_list_init(&rig.pair.watcher.sides);
	sxt_list_init(&rig.side.conns);
	snprintf(rig.side.peer, sizeof(rig.side.peer), "node2:77");
	sxt_list_append(&rig.pair.watcher.sides, &rig.side.node);
	carry(rig.pair.send);
	carry(rig.pair.recv);
	assert_int_equal(sxt_stalls_create(&rig.pair.ib, &rig.stalls), 0);
	assert_non_null(rig.stalls);
	rig.now_ns = 1000 * SXT_NS_PER_SEC;
	rig.now_ticks = sxt_tele_ticks();
	atomic_store(&sxt_log_max_level, SXT_LOG_INFO);
	sxt_log_set_sink(take_line);
	sxt_log_set_tap(tap_line);
	return 0;
}

static int close_rig(void **state)
{
	sxt_log_set_tap(NULL);
	sxt_stalls_destroy(rig.stalls);
	uncarry(rig.pair.send);
	uncarry(rig.pair.recv);
	for (int i = 0; i < 2 * MORE_CNT && rig.more[i] != NULL; i++) {
		uncarry(rig.more[i]);
		sxt_conn_destroy(rig.more[i]);
	}
	pair_close(&rig.pair);
	sxt_tele_destroy(rig.pair.ib.tele);
	return rig_tear_down(state);
}

/* So many looks, each when it is due. */
static void pass(uint32_t sec)
{
	for (; sec > 0; sec--) {
		rig.now_ns += SXT_NS_PER_SEC;
		rig.now_ticks += TICKS_SEC;
		sxt_stalls_run(rig.stalls, rig.now_ns, rig.now_ticks);
	}
}

static struct sxt_tele_counters *counters_of(struct sxt_conn *conn)
{
	return conn->measure->counters;
}

/* One message that was begun now, of a sender that says it is this rank. */
static void begin(struct sxt_conn *conn, uint32_t tag)
{
	struct sxt_tele_counters *counters = counters_of(conn);

	counters->started++;
	counters->last_start = rig.now_ticks;
	counters->tag = tag;
}

static void end(struct sxt_conn *conn)
{
	struct sxt_tele_counters *counters = counters_of(conn);

	counters->done++;
	counters->last_done = rig.now_ticks;
}

/* Return: how many events of a kind there are; @last is the newest. */
static uint32_t events_of(enum sxt_tele_event_kind kind, struct sxt_tele_event *last)
{
	struct sxt_tele_view *view = rig_view(rig.pair.ib.tele);
	struct sxt_tele_event event = {0};
	uint32_t cnt = 0;

	for (uint64_t i = 0; i < sxt_tele_header(view)->events; i++) {
		if (!sxt_tele_event_get(view, i, &event) || event.kind != (uint32_t)kind)
			continue;
		*last = event;
		cnt++;
	}
	sxt_tele_close(view);
	return cnt;
}

static void a_late_sender_is_told_once_and_in_the_segment(void **state)
{
	struct sxt_tele_event event = {0};

	(void)state;
	begin(rig.pair.recv, 5);
	pass(LEAST - 2);
	assert_int_equal(rig.warn_cnt, 0);
	pass(LEAST);
	assert_int_equal(rig.warn_cnt, 1);
	assert_non_null(strstr(rig.warn, "SENDER-LATE: node1:66 waits for rank 5 (node2:77) for "));
	assert_int_equal(events_of(SXT_TELE_EVENT_LINE, &event), 0);
	assert_int_equal(events_of(SXT_TELE_EVENT_STALL, &event), 1);
	assert_int_equal(event.subject, rig.pair.recv->measure->handle.conn);
	assert_memory_equal(event.text, rig.warn, strlen(event.text));
	pass(600);
	assert_int_equal(rig.warn_cnt, 2); /* it has doubled */
}

static void a_wait_that_ends_in_time_is_not_told(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		begin(rig.pair.recv, 5);
		pass(LEAST - 5);
		end(rig.pair.recv);
	}
	assert_int_equal(rig.warn_cnt, 0);
}

static void a_late_peer_is_named_by_what_it_sends(void **state)
{
	(void)state;
	begin(rig.pair.recv, 5);
	end(rig.pair.recv);
	begin(rig.pair.send, 3);
	end(rig.pair.send);
	counters_of(rig.pair.send)->waiting = rig.now_ticks;
	pass(2 * LEAST);
	assert_int_equal(rig.warn_cnt, 1);
	assert_non_null(
		strstr(rig.warn, "PEER-LATE: rank 3 (node1:66) waits for rank 5 (node2:77) for "));
	assert_non_null(strstr(rig.warn, rig.pair.ib.ports[0]->label));
}

static void counter_write(const char *name, unsigned value)
{
	char path[256];
	char text[32];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 rig.pair.send->paths[0].port->device->name, name);
	snprintf(text, sizeof(text), "%u\n", value);
	tree_text(path, text);
}

static void the_wire_is_told_with_what_its_port_did_meanwhile(void **state)
{
	const char *sysroot = rig.pair.config.sysroot;

	(void)state;
	rig.pair.config.sysroot = tree_open();
	counter_write("local_ack_timeout_err", 7);
	begin(rig.pair.send, 3);
	pass(LEAST - 10);
	counter_write("local_ack_timeout_err", 10);
	pass(LEAST);
	assert_int_equal(rig.warn_cnt, 1);
	assert_non_null(strstr(rig.warn, "WIRE: rank 3 (node1:66) waits for node2:77 for "));
	assert_non_null(strstr(rig.warn, " s: RETRANSMIT (local_ack_timeout_err +3). Packets"));
	tree_close();
	rig.pair.config.sysroot = sysroot;
}

static void an_idle_job_is_told_once_and_is_no_warning(void **state)
{
	(void)state;
	pass(2 * LEAST);
	assert_int_equal(rig.idle_cnt, 0); /* nobody used it so far */
	begin(rig.pair.send, 3);
	end(rig.pair.send);
	pass(10 * LEAST);
	assert_int_equal(rig.idle_cnt, 1);
	assert_non_null(strstr(rig.idle, "node1:66: none of 1 connections"));
	begin(rig.pair.send, 3);
	end(rig.pair.send);
	pass(10 * LEAST);
	assert_int_equal(rig.idle_cnt, 2); /* after it was busy */
	assert_int_equal(rig.warn_cnt, 0);
}

static void more_connections(void)
{
	for (int i = 0; i < 2 * MORE_CNT; i += 2) {
		pair_more(&rig.pair, &rig.more[i], &rig.more[i + 1]);
		/* Made with telemetry on, so measured already. */
		for (int k = i; k < i + 2; k++) {
			rig.more[k]->side = &rig.side;
			sxt_list_append(&rig.side.conns, &rig.more[k]->side_node);
		}
	}
}

static void many_stalls_are_few_lines_and_a_count(void **state)
{
	struct sxt_tele_event event = {0};

	(void)state;
	more_connections();
	for (int i = 0; i < 2 * MORE_CNT; i++)
		begin(rig.more[i], 5);
	pass(LEAST + 20);
	assert_int_equal(rig.warn_cnt, SXT_STALL_LINES);
	pass(LEAST);
	assert_int_equal(rig.warn_cnt, SXT_STALL_LINES + 1);
	assert_non_null(strstr(rig.warn, "2 more connections stalled"));
	assert_int_equal(events_of(SXT_TELE_EVENT_STALL, &event), SXT_STALL_LINES);
	assert_int_equal(events_of(SXT_TELE_EVENT_LINE, &event), 1);
	assert_string_equal(event.text, rig.warn);
}

static void a_failed_connection_is_not_told(void **state)
{
	(void)state;
	begin(rig.pair.recv, 5);
	begin(rig.pair.send, 3);
	sxt_tell_conn_failed(rig.pair.recv, -ECONNRESET, "for a test");
	rig.pair.send->ended = SXT_CONN_PEER_CLOSED;
	pass(3 * LEAST);
	assert_int_equal(rig.warn_cnt, 0);
}

static void nothing_is_looked_at_where_it_is_off(void **state)
{
	struct sxt_stalls *stalls = rig.stalls;
	struct sxt_tele *tele = rig.pair.ib.tele;

	(void)state;
	rig.pair.config.stall_s = 0;
	assert_int_equal(sxt_stalls_create(&rig.pair.ib, &stalls), 0);
	assert_null(stalls);
	rig.pair.config.stall_s = LEAST;
	rig.pair.ib.tele = NULL;
	stalls = rig.stalls;
	assert_int_equal(sxt_stalls_create(&rig.pair.ib, &stalls), 0);
	assert_null(stalls);
	rig.pair.ib.tele = tele;
	assert_true(sxt_stalls_next_ns(NULL) == UINT64_MAX);
	sxt_stalls_run(NULL, 0, 0);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		ROW(a_late_sender_is_told_once_and_in_the_segment),
		ROW(a_wait_that_ends_in_time_is_not_told),
		ROW(a_late_peer_is_named_by_what_it_sends),
		ROW(the_wire_is_told_with_what_its_port_did_meanwhile),
		ROW(an_idle_job_is_told_once_and_is_no_warning),
		ROW(many_stalls_are_few_lines_and_a_count),
		ROW(a_failed_connection_is_not_told),
		ROW(nothing_is_looked_at_where_it_is_off),
	};
#undef ROW

	return cmocka_run_group_tests(tests, NULL, NULL);
}
