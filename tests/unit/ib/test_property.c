/*
 * test_property.c - random receives, groups, sends, delays and tests on several connections of
 * one context: every byte lands where the model says, nothing hangs, nothing overflows.
 *
 * test_property [SEED] runs that one seed; without, a fixed series.
 */
#include "tests/unit/ib/pair.h"

#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LANES       2
#define SLOT_BYTES  2048u
#define LANE_SLOTS  256u /* as many as messages can be waited for */
#define GROUPS_MAX  512
#define STEPS       6000
#define SEEDS       20
#define SEEDS_SOAK  2000 /* tests/run.sh --soak */
#define PHASE_STEPS 2500u
#define END_ROUNDS  20000
#define RECVS_AHEAD 300 /* groups open or unsent, below GROUPS_MAX */

static const struct sxt_fake_config machine = {
	.devices_cnt = 2,
	.inline_bytes = 64,
	.max_msg_bytes = 512, /* so that slots are filled by up to four chunks */
	.max_cqe = 1 << 16,
};

struct message {
	uint32_t slot;
	uint64_t room;
	int tag;
	bool sent;
	size_t source;
	uint64_t bytes;
	struct sxt_request *send; /* until done */
};

struct group {
	int cnt;
	bool optional;
	int sent_cnt;
	struct sxt_request *recv; /* until done */
	bool recv_done;
	struct message messages[SXT_RECVS_MAX];
};

struct lane {
	struct sxt_conn *send;
	struct sxt_conn *recv;
	uint32_t base; /* of its slots in the buffer */
	bool slot_used[LANE_SLOTS];
	struct group groups[GROUPS_MAX]; /* ring */
	uint32_t oldest;                 /* not finished */
	uint32_t sending;                /* the group sends go to */
	uint32_t next;
	uint32_t finished;
};

/*
 * How often each step comes, in 64ths; it changes, so that now the sender is far behind and the
 * ring full, now everything is waited for.
 */
struct phase {
	uint32_t recv;
	uint32_t send;
	uint32_t test;
	uint32_t optional; /* of single receives, in eighths */
	bool in_order;     /* most messages of a group, none of more than one write */
	uint32_t left;     /* steps */
};

static uint64_t random_state;

static uint32_t pick(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32) % below;
}

static uint8_t *slot_addr(const struct pair *pair, const struct lane *lane, uint32_t slot)
{
	return pair->to + (lane->base + slot) * SLOT_BYTES;
}

static bool slots_take(struct lane *lane, struct group *group)
{
	uint32_t slot = 0;
	int i;

	for (i = 0; i < group->cnt; i++, slot++) {
		while (slot < LANE_SLOTS && lane->slot_used[slot])
			slot++;
		if (slot == LANE_SLOTS)
			return false;
		group->messages[i].slot = slot;
	}
	return true;
}

static void step_recv(struct pair *pair, struct lane *lane, const struct phase *phase)
{
	uint32_t most = phase->in_order ? machine.max_msg_bytes : SLOT_BYTES;
	uint32_t optional = phase->optional;
	struct group group = {
		.cnt = pick(8) >= optional && pick(2) == 0 ? 1 + (int)pick(SXT_RECVS_MAX) : 1};
	void *data[SXT_RECVS_MAX];
	uint64_t bytes[SXT_RECVS_MAX];
	int tags[SXT_RECVS_MAX];
	struct sxt_mr *mrs[SXT_RECVS_MAX];
	struct sxt_recv_spec spec = {.data = data, .bytes = bytes, .tags = tags, .mrs = mrs};
	int rc;
	int i;

	group.optional = group.cnt == 1 && pick(8) < optional;
	if (lane->next - lane->oldest >= RECVS_AHEAD || !slots_take(lane, &group))
		return;
	for (i = 0; i < group.cnt; i++) {
		struct message *message = &group.messages[i];

		message->room = pick(4) == 0 ? pick(64) : pick(most + 1);
		message->tag = (int)pick(4);
		data[i] = slot_addr(pair, lane, message->slot);
		memset(data[i], 0xa5, SLOT_BYTES);
		bytes[i] = message->room;
		tags[i] = message->tag;
		mrs[i] = pair->to_mr;
	}
	spec.cnt = group.cnt;
	spec.optional = group.optional;
	rc = sxt_recv(lane->recv, &spec, &group.recv);
	if (rc == -EAGAIN)
		return;
	assert_int_equal(rc, 0);
	for (i = 0; i < group.cnt; i++)
		lane->slot_used[group.messages[i].slot] = true;
	lane->groups[lane->next++ % GROUPS_MAX] = group;
}

/* Whichever member the sender's rule gives a message with this tag. */
static struct message *match(struct group *group, int tag)
{
	int i;

	for (i = 0; i < group->cnt; i++) {
		if (!group->messages[i].sent && group->messages[i].tag == tag)
			return &group->messages[i];
	}
	return NULL;
}

/* The tag of the first that was not sent, else any; one never matches. */
static int pick_tag(const struct group *group, bool in_order)
{
	if (!in_order || pick(16) == 0)
		return (int)pick(5);
	for (int i = 0; i < group->cnt; i++) {
		if (!group->messages[i].sent)
			return group->messages[i].tag;
	}
	return 0;
}

static void step_send(struct pair *pair, struct lane *lane, bool in_order)
{
	struct group *group = &lane->groups[lane->sending % GROUPS_MAX];
	int tag = pick_tag(group, in_order);
	struct message *message;
	struct sxt_request *request;
	uint64_t bytes;
	size_t source;
	int rc;

	message = lane->sending != lane->next ? match(group, tag) : NULL;
	bytes = message == NULL || pick(5) == 0 ? 0 : pick((uint32_t)message->room + 1);
	source = pick(PAIR_BUFFER - SLOT_BYTES);
	rc = sxt_send(lane->send, pair->from + source, bytes, (uint32_t)tag, pair->from_mr,
		      &request);
	if (rc == -EAGAIN)
		return;
	assert_int_equal(rc, 0);
	assert_non_null(message);
	if (message == NULL)
		return; /* cannot be; an analyzer does not know cmocka */
	message->sent = true;
	message->bytes = bytes;
	message->source = source;
	message->send = request;
	if (++group->sent_cnt == group->cnt)
		lane->sending++;
}

static void check_message(const struct pair *pair, const struct lane *lane,
			  const struct message *message)
{
	const uint8_t *data = slot_addr(pair, lane, message->slot);
	uint64_t i;

	assert_memory_equal(data, pair->from + message->source, message->bytes);
	for (i = message->bytes; i < SLOT_BYTES; i++)
		assert_int_equal(data[i], 0xa5);
}

static void check_sizes(const struct group *group, const int *sizes)
{
	int i;

	for (i = 0; i < group->cnt; i++)
		assert_int_equal(sizes[i], group->optional ? 0 : (int)group->messages[i].bytes);
}

static void test_recv(const struct pair *pair, struct lane *lane, struct group *group)
{
	int sizes[SXT_RECVS_MAX];
	bool done;
	int i;

	if (group->recv_done)
		return;
	assert_int_equal(sxt_test(group->recv, &done, sizes), 0);
	if (!done)
		return;
	group->recv_done = true;
	if (group->optional)
		return;
	assert_int_equal(group->sent_cnt, group->cnt);
	check_sizes(group, sizes);
	for (i = 0; i < group->cnt; i++)
		check_message(pair, lane, &group->messages[i]);
}

static void test_sends(const struct pair *pair, struct lane *lane, struct group *group)
{
	int size = -1;
	bool done;
	int i;

	for (i = 0; i < group->cnt; i++) {
		struct message *message = &group->messages[i];

		if (message->send == NULL)
			continue;
		assert_int_equal(sxt_test(message->send, &done, &size), 0);
		if (!done)
			continue;
		assert_int_equal(size, message->bytes);
		check_message(pair, lane, message);
		message->send = NULL;
	}
}

static bool finished(const struct group *group)
{
	int i;

	for (i = 0; i < group->cnt; i++) {
		if (group->messages[i].send != NULL)
			return false;
	}
	return group->recv_done && group->sent_cnt == group->cnt;
}

static void step_test(const struct pair *pair, struct lane *lane)
{
	struct group *group;
	uint32_t i;
	int j;

	for (i = lane->oldest; i != lane->next; i++) {
		if (pick(4) == 0)
			continue;
		group = &lane->groups[i % GROUPS_MAX];
		test_recv(pair, lane, group);
		test_sends(pair, lane, group);
	}
	for (; lane->oldest != lane->next; lane->oldest++, lane->finished++) {
		group = &lane->groups[lane->oldest % GROUPS_MAX];
		if (!finished(group))
			return;
		for (j = 0; j < group->cnt; j++)
			lane->slot_used[group->messages[j].slot] = false;
	}
}

static void step_delay(struct lane *lane)
{
	uint32_t i = pick(lane->send->paths_cnt);
	struct ibv_qp *qp = pick(2) == 0 ? lane->send->paths[i].qp : lane->recv->paths[i].qp;

	switch (pick(4)) {
	case 0:
		sxt_fake_hold(qp, pick(3) == 0);
		break;
	case 1:
		sxt_fake_hold_acks(qp, pick(3) == 0);
		break;
	default:
		sxt_ignore(sxt_fake_deliver(qp, (int)pick(32)));
		break;
	}
}

static void check_invariants(const struct lane *lane)
{
	const struct sxt_recv_end *recv = sxt_recv_end(lane->recv);
	const struct sxt_send_end *send = sxt_send_end(lane->send);

	assert_true(recv->consumed <= recv->posted);
	assert_true(recv->posted - recv->consumed <= SXT_RING_ENTRIES);
	assert_true(recv->rq_reserved <= recv->rq_low);
	assert_true(recv->consumed <= send->head);
	assert_true(send->head <= recv->posted);
	for (uint32_t i = 0; i < lane->recv->paths_cnt; i++) {
		const struct sxt_path *path = &lane->recv->paths[i];

		assert_true(recv->rq_low <= path->rq_posted);
		assert_true(path->rq_posted <= SXT_RECV_RQ_DEPTH);
		assert_true((uint16_t)(path->cts_posted - path->cts_acked) <= SXT_RECV_SQ_USABLE);
		assert_true(lane->send->paths[i].sq_used <= SXT_SEND_SQ_DEPTH);
	}
}

static void step(struct pair *pair, struct lane *lane, struct phase *phase)
{
	uint32_t turn = pick(64);

	if (phase->left-- == 0) {
		phase->recv = 4 + pick(40);
		phase->send = pick(3) == 0 ? 0 : pick(63 - phase->recv);
		phase->test = pick(64 - phase->recv - phase->send);
		if (pick(2) == 0)
			phase->test = 63 - phase->recv - phase->send;
		phase->optional = pick(3) == 0 ? pick(9) : pick(2) * 8;
		phase->in_order = pick(2) == 0;
		phase->left = pick(PHASE_STEPS);
	}
	if (turn < phase->recv)
		step_recv(pair, lane, phase);
	else if (turn < phase->recv + phase->send)
		step_send(pair, lane, phase->in_order);
	else if (turn < phase->recv + phase->send + phase->test)
		step_test(pair, lane);
	else
		step_delay(lane);
	check_invariants(lane);
}

static void run_out(struct pair *pair, struct lane *lane)
{
	int rounds = 0;

	for (uint32_t i = 0; i < lane->send->paths_cnt; i++) {
		sxt_fake_hold(lane->send->paths[i].qp, false);
		sxt_fake_hold(lane->recv->paths[i].qp, false);
		sxt_fake_hold_acks(lane->send->paths[i].qp, false);
		sxt_fake_hold_acks(lane->recv->paths[i].qp, false);
	}
	while (lane->oldest != lane->next) {
		assert_in_range(rounds++, 0, END_ROUNDS);
		step_send(pair, lane, false);
		step_test(pair, lane);
	}
}

static void run_seed(uint64_t seed)
{
	static struct lane lanes[LANES];
	struct phase phase = {0};
	struct pair_shape shape;
	struct pair pair;
	uint32_t finished_cnt = 0;
	int i;

	print_message("seed %llu\n", (unsigned long long)seed);
	random_state = seed * 0x9e3779b97f4a7c15ull + 1;
	memset(lanes, 0, sizeof(lanes));
	shape.send_ports = 1u << pick(4);
	shape.recv_ports = pick(3) == 0 ? 1 + pick(8) : shape.send_ports;
	shape.qps = 1 + pick(4);
	shape.split = pick(2) != 0;
	shape.adaptive = pick(3) == 0;
	shape.ar_bytes = (int)pick(16384);
	/* Every other run is the usual one path. */
	if (pick(2) == 0)
		shape = (struct pair_shape){.send_ports = 1, .recv_ports = 1, .qps = 1};
	pair_open_shaped(&pair, &machine, &shape);
	lanes[0].send = pair.send;
	lanes[0].recv = pair.recv;
	pair_more(&pair, &lanes[1].send, &lanes[1].recv);
	lanes[1].base = LANE_SLOTS;
	for (i = 0; i < STEPS * LANES; i++)
		step(&pair, &lanes[pick(LANES)], &phase);
	for (i = 0; i < LANES; i++) {
		run_out(&pair, &lanes[i]);
		/* Proof that came last lies in the CQ still; then nothing is reserved. */
		while (sxt_data_drain_all(lanes[i].recv) != 0)
			;
		assert_int_equal(sxt_recv_end(lanes[i].recv)->rq_reserved, 0);
		for (uint32_t k = 0; k < SXT_RECEIVES_MAX; k++)
			assert_int_equal(sxt_request_waits(
						 &sxt_recv_end(lanes[i].recv)->requests[k]),
					 0);
		for (uint32_t k = 0; k < lanes[i].send->paths_cnt; k++)
			assert_int_equal(lanes[i].send->paths[k].sq_used, 0);
		finished_cnt += lanes[i].finished;
	}
	assert_true(finished_cnt > 20);
	sxt_conn_destroy(lanes[1].send);
	sxt_conn_destroy(lanes[1].recv);
	pair_close(&pair);
}

static uint64_t one_seed;

static void every_byte_lands_where_it_should(void **state)
{
	uint64_t seed;

	(void)state;
	if (one_seed != 0) {
		run_seed(one_seed);
		return;
	}
	for (seed = 1; seed <= (getenv("SEXTANT_TEST_SOAK") != NULL ? SEEDS_SOAK : SEEDS); seed++)
		run_seed(seed);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_lands_where_it_should),
	};

	if (argc > 1)
		one_seed = strtoull(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
