/*
 * test_data.c - messages over one connection: sizes, groups, tags, order, optional receives,
 * chunks, and what each costs in verbs.
 */
#include "tests/unit/ib/pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct pair));
	pair_open(*state, &pair_usual);
	return 0;
}

static int teardown(void **state)
{
	pair_close(*state);
	free(*state);
	return 0;
}

static void every_size_arrives(void **state)
{
	static const uint64_t sizes[] = {0, 1, 8, 63, 64, 65, 127, 128, 4096, 65535, 524288};
	size_t i;

	for (i = 0; i < SXT_ARRAY_LEN(sizes); i++)
		pair_message_arrives(*state, sizes[i]);
}

static void sender_first_is_told_not_now(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *send = NULL;
	struct sxt_request *recv;
	struct sxt_fake_counts before;
	int size;

	assert_int_equal(pair_send(pair, 0, 8, 1, &send), -EAGAIN);
	assert_null(send);
	before = sxt_fake_counts();
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), -EAGAIN);
	assert_int_equal(sxt_fake_counts().polls, before.polls);
	assert_int_equal(pair_recv(pair, 0, 64, 1, &recv), 0);
	assert_int_equal(pair_send(pair, 0, 8, 2, &send), -EAGAIN); /* another tag */
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), -EAGAIN);
	pair_done(recv, &size);
	assert_int_equal(size, 8);
	pair_done(send, NULL);
}

static void done_needs_both_arrival_and_acknowledgement(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *send;
	struct sxt_request *recv;

	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), 0);
	sxt_fake_hold(pair->send->paths[0].qp, true);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
	pair_waits(send);
	pair_waits(recv);
	sxt_fake_hold_acks(pair->send->paths[0].qp, true);
	sxt_fake_hold(pair->send->paths[0].qp, false);
	pair_done(recv, NULL);
	pair_waits(send);
	sxt_fake_hold_acks(pair->send->paths[0].qp, false);
	pair_done(send, NULL);
}

static void a_done_request_polls_nothing(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv[2];
	struct sxt_request *send[2];
	struct sxt_fake_counts before;
	int i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(pair_recv(pair, 0, 8, i, &recv[i]), 0);
		assert_int_equal(pair_send(pair, 0, 8, (uint32_t)i, &send[i]), 0);
	}
	pair_done(recv[0], NULL);
	pair_done(send[0], NULL);
	before = sxt_fake_counts();
	pair_done(recv[1], NULL);
	pair_done(send[1], NULL);
	assert_int_equal(sxt_fake_counts().polls, before.polls);
}

static void group_arrives(struct pair *pair, int cnt, int turn)
{
	static const int tags[SXT_RECVS_MAX] = {7, 7, 1, 0, -1, 7, 1, 9};
	struct sxt_request *sends[SXT_RECVS_MAX];
	struct sxt_request *recv;
	int sizes[SXT_RECVS_MAX];
	int i;

	memset(pair->to, 0, PAIR_BUFFER);
	assert_int_equal(pair_recv_group(pair, cnt, 1024, tags, &recv), 0);
	/* Equal tags go in order, so sends may come in any order of the tags. */
	for (i = 0; i < cnt; i++) {
		int tag = tags[(i + turn) % cnt];

		pair_waits(recv);
		assert_int_equal(pair_send(pair, (size_t)i * 2048, (uint64_t)(100 + i),
					   (uint32_t)tag, &sends[i]),
				 0);
	}
	pair_done(recv, sizes);
	for (i = 0; i < cnt; i++) {
		int sum = 0;
		int j;

		pair_done(sends[i], &sum);
		for (j = 0; j < cnt && sizes[j] != sum; j++)
			;
		assert_in_range(j, 0, cnt - 1);
		assert_memory_equal(pair->to + j * 1024, pair->from + i * 2048, sum);
		assert_int_equal(tags[j], tags[(i + turn) % cnt]);
	}
}

static void groups_match_by_tag_in_any_order(void **state)
{
	int cnt;
	int turn;

	for (cnt = 1; cnt <= SXT_RECVS_MAX; cnt++) {
		for (turn = 0; turn < cnt; turn++)
			group_arrives(*state, cnt, turn);
	}
}

static void only_the_oldest_group_is_matched(void **state)
{
	struct pair *pair = *state;
	static const int first[] = {1, 2};
	static const int second[] = {3, 1};
	struct sxt_request *recv[2];
	struct sxt_request *send[4];

	assert_int_equal(pair_recv_group(pair, 2, 64, first, &recv[0]), 0);
	assert_int_equal(pair_recv_group(pair, 2, 64, second, &recv[1]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 3, &send[0]), -EAGAIN);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send[0]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send[1]), -EAGAIN);
	assert_int_equal(pair_send(pair, 0, 8, 2, &send[1]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send[2]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 3, &send[3]), 0);
	pair_done(recv[0], NULL);
	pair_done(recv[1], NULL);
	for (int i = 0; i < 4; i++)
		pair_done(send[i], NULL);
}

static void half_a_group_is_not_matched(void **state)
{
	struct pair *pair = *state;
	static const int tags[] = {1, 2};
	struct sxt_request *fill;
	struct sxt_request *recv;
	struct sxt_request *send;
	int i;

	/* Bring the ring to where the next group wraps: it then goes in two writes. */
	for (i = 0; i < 255; i++) {
		assert_int_equal(pair_recv(pair, 0, 8, 0, &fill), 0);
		assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
		pair_done(fill, NULL);
		pair_done(send, NULL);
	}
	sxt_fake_hold(pair->recv->paths[0].qp, true);
	assert_int_equal(pair_recv_group(pair, 2, 64, tags, &recv), 0);
	assert_int_equal(sxt_fake_deliver(pair->recv->paths[0].qp, 1), 1);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), -EAGAIN);
	sxt_fake_hold(pair->recv->paths[0].qp, false);
	assert_int_equal(pair_send(pair, 0, 8, 1, &fill), 0);
	assert_int_equal(pair_send(pair, 0, 8, 2, &send), 0);
	pair_done(fill, NULL);
	pair_done(send, NULL);
	pair_done(recv, NULL);
}

static void polled_in_vain(struct sxt_request *request, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		pair_waits(request);
}

static void member_goes_alone(struct pair *pair, uint64_t bytes)
{
	static const int tags[] = {0, 1, 2, 3};
	struct sxt_fake_counts before;
	struct sxt_request *recv;
	struct sxt_request *send;
	int sizes[4];

	assert_int_equal(pair_recv_group(pair, 4, bytes + 3, tags, &recv), 0);
	before = sxt_fake_counts();
	assert_int_equal(pair_send(pair, 0, bytes, 0, &send), 0);
	polled_in_vain(send, SXT_GATHER_PATIENCE);
	assert_int_equal(sxt_fake_counts().send_wrs - before.send_wrs, 2);
	pair_done(send, NULL);
	assert_memory_equal(pair->to, pair->from, bytes);
	for (uint32_t i = 1; i < 4; i++) {
		assert_int_equal(pair_send(pair, 0, bytes + i, i, &send), 0);
		pair_done(send, NULL);
	}
	pair_done(recv, sizes);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(sizes[i], bytes + i);
	assert_int_equal(pair->send->paths[0].sq_used, 0);
	assert_int_equal(sxt_recv_end(pair->recv)->rq_reserved, 0);
}

/* Nobody has to send all of a group before the first arrives, be that kept back or written. */
static void a_member_that_is_waited_for_goes_alone(void **state)
{
	member_goes_alone(*state, 10);
	member_goes_alone(*state, SXT_GATHER_BYTES);
}

/* Messages that a record cannot tell among others that it does. */
static void a_group_of_all_kinds_arrives(void **state)
{
	struct pair *pair = *state;
	static const int tags[SXT_RECVS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
	static const uint64_t sizes[SXT_RECVS_MAX] = {8, 16384, 8, 0, 100, 1, 0, 64};
	struct sxt_request *sends[SXT_RECVS_MAX];
	struct sxt_request *recv;
	int told[SXT_RECVS_MAX];
	uint32_t first;
	uint32_t i;

	for (first = 0; first < SXT_RECVS_MAX; first++) {
		memset(pair->to, 0, PAIR_BUFFER);
		assert_int_equal(pair_recv_group(pair, SXT_RECVS_MAX, 16384, tags, &recv), 0);
		for (i = 0; i < SXT_RECVS_MAX; i++) {
			uint32_t tag = (first + i) % SXT_RECVS_MAX;

			assert_int_equal(pair_send(pair, tag * 64, sizes[tag], tag, &sends[tag]),
					 0);
		}
		pair_done(recv, told);
		for (i = 0; i < SXT_RECVS_MAX; i++) {
			int size;

			pair_done(sends[i], &size);
			assert_int_equal(size, sizes[i]);
			assert_int_equal(told[i], sizes[i]);
			assert_memory_equal(pair->to + i * 16384, pair->from + i * 64, sizes[i]);
		}
		assert_int_equal(pair->send->paths[0].sq_used, 0);
		assert_int_equal(sxt_recv_end(pair->recv)->rq_reserved, 0);
	}
}

/* Members that are kept back, or written and not told: nothing of them is lost from the books. */
static void a_group_may_be_left_half_sent(void **state)
{
	static const uint64_t sizes[] = {8, 16384, 8};
	static const int tags[] = {0, 1, 2, 3};
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;
	struct sxt_wire_progress progress;

	assert_int_equal(pair_recv_group(pair, 4, 16384, tags, &recv), 0);
	for (uint32_t i = 0; i < SXT_ARRAY_LEN(sizes); i++)
		assert_int_equal(pair_send(pair, 0, sizes[i], i, &send), 0);
	pair_waits(recv);
	pair_waits(send);
	sxt_conn_progress_get(pair->send, &progress);
	assert_int_equal(progress.messages_taken, 0);
	sxt_path_to_error(pair->send, &pair->send->paths[0]);
	assert_true(sxt_conn_drain(pair->send, NULL));
}

static void thirty_two_receives_fit(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv[SXT_REQUESTS_MAX];
	struct sxt_request *send[SXT_REQUESTS_MAX];
	struct sxt_request *more;
	int i;

	for (i = 0; i < SXT_REQUESTS_MAX; i++)
		assert_int_equal(pair_recv(pair, (size_t)i * 64, 64, i, &recv[i]), 0);
	assert_int_equal(pair_recv(pair, 0, 64, 1, &more), -EAGAIN);
	for (i = 0; i < SXT_REQUESTS_MAX; i++)
		assert_int_equal(pair_send(pair, (size_t)i * 64, 64, (uint32_t)i, &send[i]), 0);
	for (i = SXT_REQUESTS_MAX - 1; i >= 0; i--) {
		pair_done(recv[i], NULL);
		pair_done(send[i], NULL);
	}
	assert_memory_equal(pair->to, pair->from, SXT_REQUESTS_MAX * 64);
}

static void two_hundred_and_fifty_six_sends_fit(void **state)
{
	struct pair *pair = *state;
	static const int tags[SXT_RECVS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
	struct sxt_request *recv[SXT_REQUESTS_MAX];
	struct sxt_request *send[SXT_REQUESTS_MAX * SXT_RECVS_MAX];
	struct sxt_request *more;
	int turn;
	int i;

	sxt_fake_hold(pair->send->paths[0].qp, true);
	for (turn = 0; turn < 3; turn++) {
		for (i = 0; i < SXT_REQUESTS_MAX; i++)
			assert_int_equal(pair_recv_group(pair, SXT_RECVS_MAX, 64, tags, &recv[i]),
					 0);
		for (i = 0; i < SXT_REQUESTS_MAX * SXT_RECVS_MAX; i++)
			assert_int_equal(pair_send(pair, 0, 8, (uint32_t)i % 8, &send[i]), 0);
		assert_int_equal(pair_send(pair, 0, 8, 0, &more), -EAGAIN);
		pair_waits(recv[0]);
		sxt_fake_hold(pair->send->paths[0].qp, false);
		sxt_fake_hold(pair->send->paths[0].qp, true);
		for (i = 0; i < SXT_REQUESTS_MAX; i++)
			pair_done(recv[i], NULL);
		for (i = 0; i < SXT_REQUESTS_MAX * SXT_RECVS_MAX; i++)
			pair_done(send[i], NULL);
	}
}

/* A thousand steps of nothing that nobody waits for, and a sender that does not even look. */
static void optional_receives_never_overrun_the_ring(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *request;
	uint32_t posted = 0;
	uint32_t sent = 0;
	int rounds = 0;

	while (sent < 1000) {
		assert_in_range(rounds++, 0, 100);
		while (posted < 1000 && pair_recv_optional(pair, 0, 64, 5, &request) == 0) {
			pair_done(request, NULL);
			posted++;
		}
		assert_in_range(posted - sent, 0, SXT_RING_ENTRIES);
		assert_true(posted == 1000 || posted > sent);
		while (pair_send(pair, 0, 0, 5, &request) == 0) {
			pair_done(request, NULL);
			sent++;
		}
		assert_int_equal(sent, posted);
	}
}

static void optional_data_lands_without_completions(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;
	struct sxt_fake_counts before = sxt_fake_counts();
	struct sxt_fake_counts after;
	int size = -1;
	int i;

	for (i = 0; i < 256; i++) {
		pair->from[0] = (uint8_t)i;
		assert_int_equal(pair_recv_optional(pair, 0, 4096, 5, &recv), 0);
		pair_done(recv, &size);
		assert_int_equal(size, 0);
		assert_int_equal(pair_send(pair, 0, 100, 5, &send), 0);
		pair_done(send, &size);
		assert_int_equal(size, 100);
		assert_memory_equal(pair->to, pair->from, 100);
	}
	after = sxt_fake_counts();
	assert_int_equal(after.send_wrs - before.send_wrs, 2 * 256);
	assert_int_equal(after.send_calls - before.send_calls, 2 * 256);
	assert_in_range(after.recv_calls - before.recv_calls, 0, 256 / 64);
	assert_in_range(after.completions - before.completions, 2 * 256, 2 * 256 + 256 / 64);
	/* The last proof came after the receive it rode on was done. */
	sxt_ignore(sxt_data_drain_all(pair->recv));
	assert_int_equal(sxt_recv_end(pair->recv)->rq_reserved, 0);
	assert_int_equal(sxt_recv_end(pair->recv)->messages_taken, 256 / 64);
}

static void optional_receive_is_done_when_its_entry_is_acknowledged(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *more;
	int i;

	sxt_fake_hold_acks(pair->recv->paths[0].qp, true);
	assert_int_equal(pair_recv_optional(pair, 0, 64, 5, &recv), 0);
	pair_waits(recv);
	sxt_fake_hold_acks(pair->recv->paths[0].qp, false);
	pair_done(recv, NULL);

	/* Full, with nothing left to test: the call that finds no room has to poll by itself. */
	sxt_fake_hold(pair->send->paths[0].qp, true);
	for (i = 1; i < 256; i++) {
		assert_int_equal(pair_recv_optional(pair, 0, 64, 5, &recv), 0);
		pair_done(recv, NULL);
	}
	assert_int_equal(pair_recv_optional(pair, 0, 64, 5, &recv), -EAGAIN);
	for (i = 0; i < 256; i++) {
		assert_int_equal(pair_send(pair, 0, 0, 5, &more), 0);
		if (i / 64 * 64 + 63 != i)
			pair_done(more, NULL);
	}
	assert_int_equal(pair_recv_optional(pair, 0, 64, 5, &recv), -EAGAIN);
	sxt_fake_hold(pair->send->paths[0].qp, false);
	assert_int_equal(pair_recv_optional(pair, 0, 64, 5, &recv), 0);
	pair_done(recv, NULL);
}

static void optional_and_normal_mix(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv[3];
	struct sxt_request *send[3];
	int size;
	int i;

	for (i = 0; i < 500; i++) {
		assert_int_equal(pair_recv_optional(pair, 0, 64, 1, &recv[0]), 0);
		assert_int_equal(pair_recv(pair, 64, 64, 2, &recv[1]), 0);
		assert_int_equal(pair_recv_optional(pair, 128, 64, 3, &recv[2]), 0);
		assert_int_equal(pair_send(pair, 0, 0, 1, &send[0]), 0);
		assert_int_equal(pair_send(pair, 64, 9, 2, &send[1]), 0);
		assert_int_equal(pair_send(pair, 128, 64, 3, &send[2]), 0);
		pair_done(recv[1], &size);
		assert_int_equal(size, 9);
		pair_done(recv[2], NULL);
		pair_done(recv[0], NULL);
		pair_done(send[2], NULL);
		pair_done(send[0], NULL);
		pair_done(send[1], NULL);
	}
	assert_memory_equal(pair->to + 128, pair->from + 128, 64);
}

static const struct sxt_fake_config tiny = {
	.devices_cnt = 2,
	.inline_bytes = 64,
	.max_msg_bytes = 4096 + 100, /* rounded down to a power of two */
	.max_cqe = 1 << 16,
};

static void large_messages_are_cut(void **state)
{
	static const uint64_t sizes[] = {4096, 4097, 8191, 8192, 65537, 64 * 4096 - 1, 64 * 4096};
	struct pair pair;
	struct sxt_fake_counts before;
	struct sxt_fake_counts after;
	size_t i;

	(void)state;
	pair_open(&pair, &tiny);
	for (i = 0; i < SXT_ARRAY_LEN(sizes); i++) {
		uint64_t chunks = (sizes[i] + 4095) / 4096;

		before = sxt_fake_counts();
		pair_message_arrives(&pair, sizes[i]);
		after = sxt_fake_counts();
		assert_int_equal(after.send_calls - before.send_calls, 2);
		assert_int_equal(after.send_wrs - before.send_wrs, 1 + chunks);
	}
	/* A small message into a large receive gives back what it did not need. */
	struct sxt_request *recv;
	struct sxt_request *send;
	int size;

	assert_int_equal(pair_recv(&pair, 0, 64 * 4096, 1, &recv), 0);
	assert_int_equal(sxt_recv_end(pair.recv)->rq_reserved, 64);
	assert_int_equal(pair_send(&pair, 0, 10000, 1, &send), 0);
	pair_done(recv, &size);
	assert_int_equal(size, 10000);
	pair_done(send, NULL);
	assert_int_equal(sxt_recv_end(pair.recv)->rq_reserved, 0);
	/* Optional ones are cut the same way. */
	assert_int_equal(pair_recv_optional(&pair, 0, 64 * 4096, 1, &recv), 0);
	pair_done(recv, NULL);
	memset(pair.to, 0, PAIR_BUFFER);
	assert_int_equal(pair_send(&pair, 0, 50000, 1, &send), 0);
	pair_done(send, NULL);
	assert_memory_equal(pair.to, pair.from, 50000);
	assert_int_equal(pair.to[50000], 0);
	pair_close(&pair);
}

static void receives_run_short_before_the_queue_does(void **state)
{
	struct pair pair;
	struct sxt_request *recv[5];
	struct sxt_request *send;
	int i;

	(void)state;
	pair_open(&pair, &tiny);
	/* 288 receives: four of 64 chunks fit, the fifth waits. */
	for (i = 0; i < 4; i++)
		assert_int_equal(pair_recv(&pair, 0, 64 * 4096, i, &recv[i]), 0);
	assert_int_equal(pair_recv(&pair, 0, 64 * 4096, 4, &recv[4]), -EAGAIN);
	assert_int_equal(pair_recv(&pair, 0, 32 * 4096, 4, &recv[4]), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pair_send(&pair, 0, 64 * 4096, (uint32_t)i, &send), 0);
		pair_done(send, NULL);
		pair_done(recv[i], NULL);
	}
	assert_int_equal(pair_send(&pair, 0, 32 * 4096, 4, &send), 0);
	pair_done(send, NULL);
	pair_done(recv[4], NULL);
	pair_close(&pair);
}

static void a_full_send_queue_says_not_now(void **state)
{
	struct pair pair;
	static const int tags[] = {5, 6};
	struct sxt_request *recv[5];
	struct sxt_request *send[7];
	int i;

	(void)state;
	pair_open(&pair, &tiny);
	sxt_fake_hold(pair.send->paths[0].qp, true);
	for (i = 0; i < 5; i++)
		assert_int_equal(pair_recv_optional(&pair, 0, 64 * 4096, i, &recv[i]), 0);
	for (i = 0; i < 5; i++) {
		pair_done(recv[i], NULL);
		assert_int_equal(pair_send(&pair, 0, (i < 4 ? 64 : 32) * 4096, (uint32_t)i,
					   &send[i]),
				 0);
	}
	assert_int_equal(pair.send->paths[0].sq_used, SXT_SEND_SQ_DEPTH);
	assert_int_equal(pair_recv_group(&pair, 2, 64, tags, &recv[0]), 0);
	assert_int_equal(pair_send(&pair, 0, 8, 5, &send[5]), -EAGAIN);
	assert_int_equal(pair.send->paths[0].sq_used, SXT_SEND_SQ_DEPTH);
	sxt_fake_hold(pair.send->paths[0].qp, false);
	assert_int_equal(pair_send(&pair, 0, 8, 5, &send[5]), 0);
	assert_int_equal(pair_send(&pair, 0, 8, 6, &send[6]), 0);
	for (i = 0; i < 7; i++)
		pair_done(send[i], NULL);
	pair_done(recv[0], NULL);
	pair_close(&pair);
}

static void works_without_inline(void **state)
{
	static const uint32_t limits[] = {0, 48};
	struct sxt_fake_config config = pair_usual;
	struct pair pair;
	size_t i;
	int turn;

	(void)state;
	for (i = 0; i < SXT_ARRAY_LEN(limits); i++) {
		config.inline_bytes = limits[i];
		pair_open(&pair, &config);
		for (turn = 0; turn < 300; turn++)
			pair_message_arrives(&pair, 8);
		assert_int_equal(sxt_fake_counts().send_wrs_inline, 0);
		group_arrives(&pair, 8, 3);
		/* No shadow slot is filled again while a write of it is in flight. */
		struct sxt_request *request;
		int posted = 0;

		sxt_fake_hold(pair.recv->paths[0].qp, true);
		while (posted < SXT_REQUESTS_MAX && pair_recv(&pair, 0, 8, 0, &request) == 0)
			posted++;
		assert_int_equal(posted, SXT_REQUESTS_MAX);
		sxt_fake_hold(pair.recv->paths[0].qp, false);
		for (; posted > 0; posted--) {
			assert_int_equal(pair_send(&pair, 0, 8, 0, &request), 0);
			pair_done(request, NULL);
		}
		pair_close(&pair);
	}
}

/* A connection may move to a NIC that takes less inline, or routes otherwise, while it is made. */
static void what_an_end_could_before_it_moved_is_forgotten(void **state)
{
	struct pair *pair = *state;
	struct sxt_send_end *end = sxt_send_end(pair->send);
	uint64_t ar_bytes = end->ar_bytes;
	struct sxt_fake_counts before;

	end->ar_bytes = 0;
	sxt_send_ready(end);
	assert_int_equal(end->recorded_bytes, end->chunk_bytes);
	end->ar_bytes = ar_bytes;
	end->inline_bytes = 8;
	sxt_send_ready(end);
	assert_int_equal(end->recorded_bytes, 0);
	before = sxt_fake_counts();
	group_arrives(pair, 8, 0);
	assert_int_equal(sxt_fake_counts().send_wrs - before.send_wrs, 1 + 8);
}

/* Messages come and go, but no clear-to-send is ever acknowledged: its send queue fills up. */
static void unacknowledged_entries_are_bounded(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;
	uint32_t cnt = 0;

	sxt_fake_hold_acks(pair->recv->paths[0].qp, true);
	while (pair_recv(pair, 0, 64, 1, &recv) == 0) {
		assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
		pair_done(send, NULL);
		pair_done(recv, NULL);
		assert_in_range(++cnt, 1, SXT_RECV_SQ_USABLE);
	}
	assert_int_equal(cnt, SXT_RECV_SQ_USABLE - 1);
	sxt_fake_hold_acks(pair->recv->paths[0].qp, false);
	assert_int_equal(pair_recv(pair, 0, 64, 1, &recv), 0);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
	pair_done(send, NULL);
	pair_done(recv, NULL);
}

static void a_message_costs_what_was_promised(void **state)
{
	struct pair *pair = *state;
	struct sxt_fake_counts before;
	struct sxt_fake_counts after;
	struct sxt_request *recv;
	struct sxt_request *send;
	const uint64_t cnt = 1600;
	uint64_t i;

	before = sxt_fake_counts();
	for (i = 0; i < cnt; i++) {
		assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), 0);
		assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
		pair_done(send, NULL);
		pair_done(recv, NULL);
	}
	after = sxt_fake_counts();
	assert_int_equal(after.send_wrs - before.send_wrs, 2 * cnt);
	assert_int_equal(after.send_calls - before.send_calls, 2 * cnt);
	assert_in_range(after.recv_wrs - before.recv_wrs, cnt - 16, cnt);
	assert_in_range(after.recv_calls - before.recv_calls, cnt / 16 - 1, cnt / 16);
	assert_in_range(after.completions - before.completions, 2 * cnt, 2 * cnt + cnt / 16);
	assert_in_range(after.polls - before.polls, 2 * cnt, 2 * cnt);
}

static void group_costs(struct pair *pair, uint64_t bytes, uint64_t doorbells)
{
	static const int tags[SXT_RECVS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
	struct sxt_fake_counts before = sxt_fake_counts();
	uint64_t taken = sxt_recv_end(pair->recv)->messages_taken;
	struct sxt_request *sends[SXT_RECVS_MAX];
	struct sxt_wire_progress progress;
	struct sxt_fake_counts after;
	struct sxt_request *recv;
	uint32_t i;

	assert_int_equal(pair_recv_group(pair, SXT_RECVS_MAX, bytes, tags, &recv), 0);
	for (i = 0; i < SXT_RECVS_MAX; i++)
		assert_int_equal(pair_send(pair, i * 8, bytes, i, &sends[i]), 0);
	for (i = 0; i < SXT_RECVS_MAX; i++)
		pair_done(sends[i], NULL);
	pair_done(recv, NULL);
	after = sxt_fake_counts();
	assert_int_equal(after.send_wrs - before.send_wrs, 1 + SXT_RECVS_MAX + 1);
	assert_int_equal(after.send_calls - before.send_calls, 1 + doorbells);
	assert_int_equal(after.completions - before.completions, 2);
	assert_int_equal(sxt_recv_end(pair->recv)->messages_taken, taken + SXT_RECVS_MAX);
	sxt_conn_progress_get(pair->send, &progress);
	assert_int_equal(progress.messages_taken, taken + SXT_RECVS_MAX);
}

/* One write of entries, one completion at either end; small members share a doorbell. */
static void a_group_is_told_at_once(void **state)
{
	group_costs(*state, 4096, 1);
	group_costs(*state, SXT_GATHER_BYTES, SXT_RECVS_MAX);
}

static void the_loser_of_the_owner_word_is_told_not_now(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), 0);
	assert_true(sxt_context_try_own(pair->send_ctx));
	assert_true(sxt_context_try_own(pair->recv_ctx));
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), -EAGAIN);
	assert_int_equal(pair_recv(pair, 0, 8, 1, &send), -EAGAIN);
	pair_waits(recv);
	sxt_context_disown(pair->send_ctx);
	sxt_context_disown(pair->recv_ctx);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
	pair_done(send, NULL);
	pair_done(recv, NULL);
}

struct lane {
	struct pair *pair;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	size_t offset;
	int failures;
};

static int finish(struct sxt_request *request)
{
	bool done = false;
	int rc = 0;

	while (rc == 0 && !done)
		rc = sxt_test(request, &done, NULL);
	return rc;
}

/* Starts a receive of cnt messages, sends them and waits for all. Return: how much of it failed. */
static int lane_round(struct lane *lane, int cnt, bool optional)
{
	void *data[4];
	uint64_t bytes[4];
	int tags[4];
	struct sxt_mr *mrs[4];
	struct sxt_recv_spec spec = {.cnt = cnt,
				     .data = data,
				     .bytes = bytes,
				     .tags = tags,
				     .mrs = mrs,
				     .optional = optional};
	struct sxt_request *sends[4];
	struct sxt_request *recv;
	int failures;
	int rc;
	int i;

	for (i = 0; i < cnt; i++) {
		data[i] = lane->pair->to + lane->offset + i * 256;
		bytes[i] = 256;
		tags[i] = i;
		mrs[i] = lane->pair->to_mr;
	}
	do
		rc = sxt_recv(lane->recv, &spec, &recv);
	while (rc == -EAGAIN);
	failures = rc != 0;
	for (i = 0; i < cnt; i++) {
		do
			rc = sxt_send(lane->send, lane->pair->from + lane->offset + i * 256, 256,
				      (uint32_t)i, lane->pair->from_mr, &sends[i]);
		while (rc == -EAGAIN);
		failures += rc != 0;
	}
	for (i = 0; failures == 0 && i < cnt; i++)
		failures += finish(sends[i]) != 0;
	return failures != 0 ? failures : finish(recv) != 0;
}

/* One of two threads that drive a connection each, all in the same two contexts. */
static void *lane_run(void *arg)
{
	struct lane *lane = arg;

	for (int i = 0; i < 2000 && lane->failures == 0; i++)
		lane->failures += lane_round(lane, i % 3 == 1 ? 4 : 1, i % 3 == 0);
	return NULL;
}

static void threads_share_a_context(void **state)
{
	struct pair *pair = *state;
	struct lane lanes[2] = {
		{.pair = pair, .send = pair->send, .recv = pair->recv},
		{.pair = pair, .offset = 4096},
	};
	pthread_t thread;

	pair_more(pair, &lanes[1].send, &lanes[1].recv);
	assert_int_equal(pthread_create(&thread, NULL, lane_run, &lanes[1]), 0);
	lane_run(&lanes[0]);
	pthread_join(thread, NULL);
	assert_int_equal(lanes[0].failures + lanes[1].failures, 0);
	assert_memory_equal(pair->to, pair->from, 1024);
	assert_memory_equal(pair->to + 4096, pair->from + 4096, 1024);
	sxt_conn_destroy(lanes[1].send);
	sxt_conn_destroy(lanes[1].recv);
}

static void sizes_over_int_are_told_as_the_most(void **state)
{
	(void)state;
	assert_int_equal(sxt_size_saturate(0), 0);
	assert_int_equal(sxt_size_saturate(INT_MAX), INT_MAX);
	assert_int_equal(sxt_size_saturate((uint64_t)INT_MAX + 1), INT_MAX);
	assert_int_equal(sxt_size_saturate(SXT_MESSAGE_BYTES_MAX), INT_MAX);
}

/* As under adaptive routing: data as a plain write, the size in a record. */
static void a_size_record_tells_the_size(void **state)
{
	struct pair *pair = *state;
	struct sxt_recv_end *end = sxt_recv_end(pair->recv);
	struct sxt_request *recv;
	struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 8};
	uint32_t handle;
	uint32_t generation;
	int size;

	assert_int_equal(pair_recv(pair, 0, 4096, 1, &recv), 0);
	handle = recv->index * SXT_RECVS_MAX;
	generation = sxt_request_generation(recv);
	end->records[handle].size_and_generation = 3333 | (uint64_t)generation << 48;
	wc.wr_id = sxt_wr_id(end->conn.paths, SXT_WR_RECV, 0);
	wc.imm_data = htonl(handle << SXT_IMM_HANDLE_SHIFT | generation << SXT_IMM_GEN_SHIFT |
			    SXT_IMM_RECORD | SXT_IMM_LAST);
	sxt_fake_push(pair->recv->paths[0].cq->cq, &wc);
	pair_done(recv, &size);
	assert_int_equal(size, 3333);
	/* The fake still has the receive that this completion of our own did not take. */
	end->conn.paths[0].rq_posted++;
}

/* A record for more messages than wait, or of none, and a size that no message of a write has. */
static void a_groups_record_that_fits_nothing_is_refused(void **state)
{
	static const struct {
		uint32_t cnt;
		uint64_t size;
	} cases[] = {{0, 1}, {3, 1}, {8, 1}, {9, 1}, {2, 1ull << 31}};
	static const int tags[] = {0, 1};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 64};
		struct sxt_request *recv;
		struct sxt_recv_end *end;
		bool done = false;
		struct pair pair;
		uint32_t handle;

		pair_open(&pair, &pair_usual);
		end = sxt_recv_end(pair.recv);
		assert_int_equal(pair_recv_group(&pair, 2, 64, tags, &recv), 0);
		handle = recv->index * SXT_RECVS_MAX;
		for (uint32_t k = 0; k < SXT_RECVS_MAX; k++)
			end->records[handle + k].size_and_generation = cases[i].size;
		wc.wr_id = sxt_wr_id(end->conn.paths, SXT_WR_RECV, 0);
		wc.imm_data =
			htonl(handle << SXT_IMM_HANDLE_SHIFT |
			      sxt_request_generation(recv) << SXT_IMM_GEN_SHIFT | SXT_IMM_RECORD |
			      (SXT_IMM_GROUP + cases[i].cnt) << SXT_IMM_INDEX_SHIFT | SXT_IMM_LAST);
		sxt_fake_push(end->conn.paths[0].cq->cq, &wc);
		assert_int_equal(sxt_test(recv, &done, NULL), -EPROTO);
		assert_false(done);
		assert_int_equal(pair_log_cnt(), 1);
		end->conn.paths[0].rq_posted++; /* the completion was our own */
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(every_size_arrives),
		TEST(sender_first_is_told_not_now),
		TEST(done_needs_both_arrival_and_acknowledgement),
		TEST(a_done_request_polls_nothing),
		TEST(groups_match_by_tag_in_any_order),
		TEST(only_the_oldest_group_is_matched),
		TEST(half_a_group_is_not_matched),
		TEST(a_member_that_is_waited_for_goes_alone),
		TEST(a_group_of_all_kinds_arrives),
		TEST(a_group_may_be_left_half_sent),
		TEST(thirty_two_receives_fit),
		TEST(two_hundred_and_fifty_six_sends_fit),
		TEST(optional_receives_never_overrun_the_ring),
		TEST(optional_data_lands_without_completions),
		TEST(optional_receive_is_done_when_its_entry_is_acknowledged),
		TEST(optional_and_normal_mix),
		cmocka_unit_test(large_messages_are_cut),
		cmocka_unit_test(receives_run_short_before_the_queue_does),
		cmocka_unit_test(a_full_send_queue_says_not_now),
		cmocka_unit_test(works_without_inline),
		TEST(what_an_end_could_before_it_moved_is_forgotten),
		TEST(unacknowledged_entries_are_bounded),
		TEST(a_message_costs_what_was_promised),
		TEST(a_group_is_told_at_once),
		TEST(the_loser_of_the_owner_word_is_told_not_now),
		TEST(threads_share_a_context),
		cmocka_unit_test(sizes_over_int_are_told_as_the_most),
		TEST(a_size_record_tells_the_size),
		cmocka_unit_test(a_groups_record_that_fits_nothing_is_refused),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
