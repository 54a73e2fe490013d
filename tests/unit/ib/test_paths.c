/*
 * test_paths.c - one connection over several ports and queue pairs: what goes where, what arrives
 * in which order, sizes with adaptive routing, receives that run short, a path that fails.
 */
#include "tests/unit/ib/pair.h"

#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB(n) ((uint64_t)(n) << 10)

static void hold_all(struct sxt_conn *conn, bool hold)
{
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		sxt_fake_hold(conn->paths[i].qp, hold);
}

/* How many of a held connection's paths had exactly `wrs` work requests to deliver. */
static uint32_t paths_with(struct sxt_conn *conn, int wrs)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		cnt += sxt_fake_deliver(conn->paths[i].qp, 1000) == wrs ? 1 : 0;
	return cnt;
}

/* Sizes on both sides of every limit, over every kind of shape, with writes large and small. */
static void every_size_arrives_over_every_shape(void **state)
{
	static const uint64_t sizes[] = {0,     1,     128,   8192,   8193,   16384,
					 16385, 16513, 65536, 100001, 262145, 700000};
	static const struct pair_shape shapes[] = {
		{.send_ports = 2, .recv_ports = 2, .qps = 1},
		{.send_ports = 4, .recv_ports = 4, .qps = 1},
		{.send_ports = 8, .recv_ports = 8, .qps = 4, .split = true},
		{.send_ports = 1, .recv_ports = 4, .qps = 1},
		{.send_ports = 3, .recv_ports = 2, .qps = 2},
		{.send_ports = 1, .recv_ports = 1, .qps = 4},
		{.send_ports = 1, .recv_ports = 1, .qps = 4, .split = true},
		{.send_ports = 1, .recv_ports = 1, .qps = 1, .adaptive = true, .ar_bytes = -2},
		{.send_ports = 2, .recv_ports = 4, .qps = 1, .adaptive = true, .ar_bytes = 0},
		{.send_ports = 8, .recv_ports = 8, .qps = 1, .adaptive = true, .ar_bytes = 20000},
	};
	struct sxt_fake_config machine = pair_usual;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(shapes) * 4; i++) {
		struct pair pair;

		machine.max_msg_bytes = i % 2 == 0 ? 1u << 30 : 16384;
		machine.inline_bytes = i % 4 < 2 ? 64 : 0;
		pair_open_shaped(&pair, &machine, &shapes[i / 4]);
		for (size_t j = 0; j < SXT_ARRAY_LEN(sizes); j++)
			pair_message_arrives(&pair, sizes[j]);
		pair_close(&pair);
	}
}

static void large_messages_take_one_path_per_port(void **state)
{
	const struct pair_shape shape = {.send_ports = 4, .recv_ports = 4, .qps = 2};
	struct sxt_request *recv;
	struct sxt_request *send;
	struct pair pair;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	assert_int_equal(pair.send->paths_cnt, 8);
	hold_all(pair.send, true);
	for (int turn = 0; turn < 9; turn++) {
		uint32_t ports = 0;

		assert_int_equal(pair_recv(&pair, 0, KIB(256), 1, &recv), 0);
		assert_int_equal(pair_send(&pair, 0, KIB(256), 1, &send), 0);
		for (uint32_t i = 0; i < 8; i++) {
			if (sxt_fake_deliver(pair.send->paths[i].qp, 9) == 1)
				ports |= 1u << pair.send->paths[i].local_place;
		}
		assert_int_equal(ports, 0xf);
		pair_done(recv, NULL);
		pair_done(send, NULL);
	}
	hold_all(pair.send, false);
	pair_close(&pair);
}

static void split_takes_every_queue_pair(void **state)
{
	const struct pair_shape shape = {.send_ports = 2, .recv_ports = 2, .qps = 4, .split = true};
	struct sxt_request *recv;
	struct sxt_request *send;
	struct pair pair;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	hold_all(pair.send, true);
	assert_int_equal(pair_recv(&pair, 0, KIB(256), 1, &recv), 0);
	assert_int_equal(pair_send(&pair, 0, KIB(256), 1, &send), 0);
	assert_int_equal(paths_with(pair.send, 1), 8);
	pair_done(recv, NULL);
	pair_done(send, NULL);
	hold_all(pair.send, false);
	pair_close(&pair);
}

static void small_messages_take_turns(void **state)
{
	const struct pair_shape shape = {.send_ports = 4, .recv_ports = 4, .qps = 1};
	struct sxt_request *recvs[8];
	struct sxt_request *sends[8];
	struct sxt_fake_counts before;
	struct sxt_fake_counts after;
	struct pair pair;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	hold_all(pair.send, true);
	before = sxt_fake_counts();
	for (int i = 0; i < 8; i++) {
		assert_int_equal(pair_recv(&pair, 0, KIB(16), 1, &recvs[i]), 0);
		assert_int_equal(pair_send(&pair, 0, KIB(16), 1, &sends[i]), 0);
	}
	after = sxt_fake_counts();
	assert_int_equal(after.send_wrs - before.send_wrs, 16);
	assert_int_equal(after.send_calls - before.send_calls, 16);
	assert_int_equal(paths_with(pair.send, 2), 4);
	for (int i = 0; i < 8; i++) {
		pair_done(recvs[i], NULL);
		pair_done(sends[i], NULL);
	}
	hold_all(pair.send, false);
	pair_close(&pair);
}

static void a_message_is_whole_when_its_last_path_is(void **state)
{
	const struct pair_shape shape = {.send_ports = 4, .recv_ports = 4, .qps = 1};
	struct sxt_request *recv[2];
	struct sxt_request *send[2];
	struct pair pair;
	int size = 0;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	sxt_fake_hold(pair.send->paths[2].qp, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pair_recv(&pair, KIB(256) * (size_t)i, KIB(100), i, &recv[i]), 0);
		assert_int_equal(pair_send(&pair, KIB(256) * (size_t)i, KIB(100), (uint32_t)i,
					   &send[i]),
				 0);
	}
	for (int i = 0; i < 2; i++) {
		pair_waits(recv[i]);
		pair_waits(send[i]);
	}
	sxt_fake_hold(pair.send->paths[2].qp, false);
	for (int i = 0; i < 2; i++) {
		pair_done(recv[i], &size);
		assert_int_equal(size, KIB(100));
		pair_done(send[i], NULL);
		assert_memory_equal(pair.to + KIB(256) * (size_t)i,
				    pair.from + KIB(256) * (size_t)i, KIB(100));
	}
	pair_close(&pair);
}

/* Message 1 overtakes message 0; a close then must not count 0 as arrived. */
static void messages_may_overtake_each_other(void **state)
{
	const struct pair_shape shape = {.send_ports = 2, .recv_ports = 2, .qps = 1};
	struct sxt_wire_progress progress;
	struct sxt_request *recv[2];
	struct sxt_request *send[2];
	struct pair pair;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	sxt_fake_hold(pair.send->paths[0].qp, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pair_recv(&pair, 0, 64, i, &recv[i]), 0);
		assert_int_equal(pair_send(&pair, 0, 64, (uint32_t)i, &send[i]), 0);
	}
	pair_done(recv[1], NULL);
	pair_done(send[1], NULL);
	pair_waits(recv[0]);
	sxt_conn_progress_get(pair.recv, &progress);
	assert_int_equal(progress.messages_taken, 0);
	assert_int_equal(progress.cts_posted, 2);
	sxt_conn_progress_get(pair.send, &progress);
	assert_int_equal(progress.messages_taken, 1);
	sxt_fake_hold(pair.send->paths[0].qp, false);
	pair_done(recv[0], NULL);
	pair_done(send[0], NULL);
	sxt_conn_progress_get(pair.recv, &progress);
	assert_int_equal(progress.messages_taken, 2);
	pair_close(&pair);
}

/* The second clear-to-send is there before the first: the first comes first all the same. */
static void a_late_clear_to_send_is_waited_for(void **state)
{
	const struct pair_shape shape = {.send_ports = 2, .recv_ports = 2, .qps = 1};
	struct sxt_request *recv[2];
	struct sxt_request *send;
	struct pair pair;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	sxt_fake_hold(pair.recv->paths[0].qp, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pair_recv(&pair, (size_t)i * 64, 64, 5, &recv[i]), 0);
	assert_int_equal(pair_send(&pair, 0, 64, 5, &send), -EAGAIN);
	sxt_fake_hold(pair.recv->paths[0].qp, false);
	assert_int_equal(pair_send(&pair, 0, 64, 5, &send), 0);
	pair_done(send, NULL);
	pair_done(recv[0], NULL);
	pair_waits(recv[1]);
	assert_int_equal(pair_send(&pair, 0, 64, 5, &send), 0);
	pair_done(send, NULL);
	pair_done(recv[1], NULL);
	pair_close(&pair);
}

static void adaptive_routing_sends_the_size_behind(void **state)
{
	const struct pair_shape shape = {
		.send_ports = 2, .recv_ports = 2, .qps = 1, .adaptive = true, .ar_bytes = 8192};
	struct sxt_fake_counts before;
	struct sxt_request *recv;
	struct sxt_request *send;
	struct pair pair;
	int size = 0;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	hold_all(pair.send, true);
	before = sxt_fake_counts();
	assert_int_equal(pair_recv(&pair, 0, KIB(200), 1, &recv), 0);
	assert_int_equal(pair_send(&pair, 0, KIB(100) + 1, 1, &send), 0);
	/* The clear-to-send, and on each path data and record, the latter inline. */
	assert_int_equal(sxt_fake_counts().send_wrs - before.send_wrs, 5);
	assert_int_equal(sxt_fake_counts().send_wrs_inline - before.send_wrs_inline, 3);
	assert_int_equal(sxt_fake_counts().send_calls - before.send_calls, 3);
	assert_int_equal(paths_with(pair.send, 2), 2);
	pair_done(recv, &size);
	assert_int_equal(size, KIB(100) + 1);
	pair_done(send, NULL);
	/* Up to the threshold nothing is different. */
	before = sxt_fake_counts();
	assert_int_equal(pair_recv(&pair, 0, 8192, 1, &recv), 0);
	assert_int_equal(pair_send(&pair, 0, 8192, 1, &send), 0);
	assert_int_equal(sxt_fake_counts().send_wrs - before.send_wrs, 2);
	hold_all(pair.send, false);
	pair_done(recv, &size);
	assert_int_equal(size, 8192);
	pair_done(send, NULL);
	pair_close(&pair);
}

/* As many receives as NCCL may have open, each striped over all paths or less, never refused. */
static void grants_shrink_before_receives_run_out(void **state)
{
	static const struct pair_shape shapes[] = {
		{.send_ports = 8, .recv_ports = 8, .qps = 1},
		{.send_ports = 4, .recv_ports = 4, .qps = 2, .split = true},
	};
	struct sxt_request *recvs[SXT_REQUESTS_MAX];
	struct sxt_request *sends[SXT_REQUESTS_MAX];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(shapes); i++) {
		struct pair pair;

		pair_open_shaped(&pair, &pair_usual, &shapes[i]);
		for (int j = 0; j < SXT_REQUESTS_MAX; j++)
			assert_int_equal(pair_recv(&pair, 0, KIB(512), j, &recvs[j]), 0);
		for (int j = 0; j < SXT_REQUESTS_MAX; j++)
			assert_int_equal(pair_send(&pair, 0, KIB(512), (uint32_t)j, &sends[j]), 0);
		for (int j = 0; j < SXT_REQUESTS_MAX; j++) {
			pair_done(recvs[j], NULL);
			pair_done(sends[j], NULL);
		}
		assert_int_equal(sxt_recv_end(pair.recv)->rq_reserved, 0);
		pair_close(&pair);
	}
}

/* Optional receives take no receives of the peer, so that only the send queue is in the way. */
static void a_full_path_says_not_now_and_posts_nothing(void **state)
{
	const struct pair_shape shape = {.send_ports = 2, .recv_ports = 2, .qps = 1};
	struct sxt_fake_config machine = pair_usual;
	struct sxt_request *sends[19];
	struct sxt_fake_counts before;
	struct sxt_request *recv;
	struct pair pair;

	(void)state;
	machine.max_msg_bytes = 16384; /* 16 writes of each message on either path */
	pair_open_shaped(&pair, &machine, &shape);
	sxt_fake_hold(pair.send->paths[1].qp, true);
	for (uint32_t i = 0; i < 19; i++) {
		assert_int_equal(pair_recv_optional(&pair, 0, KIB(512), 1, &recv), 0);
		pair_done(recv, NULL);
		before = sxt_fake_counts();
		assert_int_equal(pair_send(&pair, 0, KIB(512), 1, &sends[i]), i < 18 ? 0 : -EAGAIN);
	}
	assert_int_equal(sxt_fake_counts().send_wrs, before.send_wrs);
	assert_int_equal(pair.send->paths[1].sq_used, SXT_SEND_SQ_DEPTH);
	sxt_fake_hold(pair.send->paths[1].qp, false);
	assert_int_equal(pair_send(&pair, 0, KIB(512), 1, &sends[18]), 0);
	for (uint32_t i = 0; i < 19; i++)
		pair_done(sends[i], NULL);
	pair_close(&pair);
}

static void a_path_that_fails_names_its_port(void **state)
{
	const struct pair_shape shape = {.send_ports = 4, .recv_ports = 4, .qps = 1};
	struct sxt_request *recv;
	struct sxt_request *send;
	bool done = false;
	struct pair pair;
	char qps[64];
	int rc = 0;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	assert_int_equal(pair_recv(&pair, 0, KIB(256), 1, &recv), 0);
	sxt_fake_fail_next(pair.send->paths[2].qp, IBV_WC_RETRY_EXC_ERR, 129);
	assert_int_equal(pair_send(&pair, 0, KIB(256), 1, &send), 0);
	for (int i = 0; i < 4 && rc == 0; i++) {
		rc = sxt_test(send, &done, NULL);
		pair_advance(2 * SXT_NS_PER_SEC);
	}
	assert_int_equal(rc, -EREMOTEIO);
	assert_int_equal(pair_log_cnt(), 1);
	assert_non_null(strstr(pair_log(), "port fake_2:1"));
	snprintf(qps, sizeof(qps), "qp 0x%x -> 0x%x", pair.send->paths[2].local.path.qpn,
		 pair.recv->paths[2].local.path.qpn);
	assert_non_null(strstr(pair_log(), qps));
	pair_close(&pair);
}

static void there_are_no_more_paths_than_a_frame_carries(void **state)
{
	const struct pair_shape shape = {.send_ports = 8, .recv_ports = 8, .qps = 16};
	struct pair pair;

	(void)state;
	pair_open_shaped(&pair, &pair_usual, &shape);
	assert_int_equal(pair.send->paths_cnt, SXT_PATHS_MAX);
	pair_message_arrives(&pair, 500000);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_arrives_over_every_shape),
		cmocka_unit_test(large_messages_take_one_path_per_port),
		cmocka_unit_test(split_takes_every_queue_pair),
		cmocka_unit_test(small_messages_take_turns),
		cmocka_unit_test(a_message_is_whole_when_its_last_path_is),
		cmocka_unit_test(messages_may_overtake_each_other),
		cmocka_unit_test(a_late_clear_to_send_is_waited_for),
		cmocka_unit_test(adaptive_routing_sends_the_size_behind),
		cmocka_unit_test(grants_shrink_before_receives_run_out),
		cmocka_unit_test(a_full_path_says_not_now_and_posts_nothing),
		cmocka_unit_test(a_path_that_fails_names_its_port),
		cmocka_unit_test(there_are_no_more_paths_than_a_frame_carries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
