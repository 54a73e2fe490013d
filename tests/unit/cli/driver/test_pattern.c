/*
 * test_pattern.c - what the moves of each pattern add up to, on one thread and without a network.
 */
#include "cli/driver/data.h"
#include "cli/driver/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS_MAX    7
#define PROGRAMS_MAX (2 * RANKS_MAX)
#define ITERATION    7
#define CAPACITY     256
#define SLICES_MAX   4096
#define CHANNELS     2 /* shares of one buffer, run one after the other */

/* From one rank to another: slices on their way, in order. */
struct link {
	uint8_t *bytes;
	size_t written;
	size_t read;
	size_t lengths[SLICES_MAX];
	uint64_t sent_cnt;
	uint64_t received_cnt;
};

struct net {
	const struct sxt_drv_pattern *pattern;
	const struct sxt_drv_type *type;
	int ranks;
	size_t bytes;
	struct sxt_drv_plan plans[RANKS_MAX];
	uint64_t next[RANKS_MAX][PROGRAMS_MAX];
	uint8_t *input[RANKS_MAX];
	uint8_t *output[RANKS_MAX];
	struct link links[RANKS_MAX][RANKS_MAX];
};

static struct net net;

static void build(const struct sxt_drv_pattern *pattern, int ranks, size_t bytes)
{
	memset(&net, 0, sizeof(net));
	net.pattern = pattern;
	net.type = sxt_drv_type_find("float");
	net.ranks = ranks;
	net.bytes = bytes;
	for (int r = 0; r < ranks; r++) {
		net.input[r] = calloc(1, bytes + 1);
		net.output[r] = calloc(1, bytes + 1);
		net.type->fill(net.input[r], 0, bytes / 4, r, ITERATION);
		for (int to = 0; to < ranks; to++)
			net.links[r][to].bytes = calloc(1, bytes * 3 + 1);
	}
}

static void tear_down(void)
{
	for (int r = 0; r < net.ranks; r++) {
		free(net.input[r]);
		free(net.output[r]);
		for (int to = 0; to < net.ranks; to++)
			free(net.links[r][to].bytes);
	}
}

static void plan_channel(int channel)
{
	const size_t part = sxt_drv_pattern_part(net.pattern, net.bytes, net.ranks);
	const size_t half = part / 2 / 4 * 4;

	memset(net.next, 0, sizeof(net.next));
	for (int r = 0; r < net.ranks; r++) {
		struct sxt_drv_plan *plan = &net.plans[r];

		*plan = (struct sxt_drv_plan){
			.start = channel == 0 ? 0 : half,
			.bytes = channel == 0 ? half : part - half,
			.part_bytes = part,
			.capacity = CAPACITY,
			.slices = net.pattern->simple_slices,
			.rank = r,
			.ranks = net.ranks,
		};
		sxt_drv_tree_of(r, net.ranks, channel, &plan->tree);
		for (int other = 0; other < net.ranks; other++) {
			net.links[r][other].sent_cnt = 0;
			net.links[r][other].received_cnt = 0;
			net.links[r][other].written = 0;
			net.links[r][other].read = 0;
		}
	}
}

static struct link *link_of(int rank, int edge, bool sending)
{
	int peers[RANKS_MAX];
	int cnt = net.pattern->peers(&net.plans[rank], sending, peers);

	assert_true(edge >= 0 && edge < cnt);
	return sending ? &net.links[rank][peers[edge]] : &net.links[peers[edge]][rank];
}

static const uint8_t *receive(struct link *link, size_t bytes)
{
	const uint8_t *slice = link->bytes + link->read;

	/* The sender cut the same slice. */
	assert_int_equal(link->lengths[link->received_cnt++], bytes);
	link->read += bytes;
	return slice;
}

static void send(struct link *link, const uint8_t *slice, size_t bytes)
{
	assert_true(link->sent_cnt < SLICES_MAX);
	memcpy(link->bytes + link->written, slice, bytes);
	link->written += bytes;
	link->lengths[link->sent_cnt++] = bytes;
}

static bool has_arrived(int rank, const struct sxt_drv_move *move)
{
	for (int i = 0; i < move->recvs_cnt; i++) {
		const struct link *link = link_of(rank, move->recvs[i], false);

		if (link->received_cnt == link->sent_cnt)
			return false;
	}
	return true;
}

/* Makes one move of a rank; false when it must wait or is through. */
static bool move_once(int rank, int program)
{
	const struct sxt_drv_plan *plan = &net.plans[rank];
	uint8_t slice[CAPACITY];
	struct sxt_drv_move move;

	if (net.next[rank][program] == net.pattern->moves(plan, program))
		return false;
	net.pattern->move(plan, program, net.next[rank][program], &move);
	if (!has_arrived(rank, &move))
		return false;
	assert_true(move.bytes <= plan->capacity);
	assert_true(move.recvs_cnt <= 1 || move.reduce);
	assert_true(move.bytes == 0 || move.in_offset + move.bytes <= net.bytes);
	if (move.bytes > 0)
		memcpy(slice, net.input[rank] + move.in_offset, move.bytes);
	for (int i = 0; i < move.recvs_cnt; i++) {
		const uint8_t *came = receive(link_of(rank, move.recvs[i], false), move.bytes);

		if (move.reduce)
			net.type->reduce(slice, slice, came, move.bytes / 4, SXT_DRV_SUM);
		else
			memcpy(slice, came, move.bytes);
	}
	if (move.store && move.bytes > 0) {
		assert_true(move.out_offset + move.bytes <= net.bytes);
		memcpy(net.output[rank] + move.out_offset, slice, move.bytes);
	}
	for (int i = 0; i < move.sends_cnt; i++)
		send(link_of(rank, move.sends[i], true), slice, move.bytes);
	net.next[rank][program]++;
	return true;
}

static bool move_rank(int rank)
{
	const int programs = net.pattern->programs(&net.plans[rank]);
	bool moved = false;

	assert_true(programs <= PROGRAMS_MAX);
	for (int p = 0; p < programs; p++)
		moved = move_once(rank, p) || moved;
	return moved;
}

static void check_through(int rank)
{
	const struct sxt_drv_plan *plan = &net.plans[rank];
	int peers[RANKS_MAX];
	int ins = net.pattern->peers(plan, false, peers);

	for (int p = 0; p < net.pattern->programs(plan); p++)
		assert_int_equal(net.next[rank][p], net.pattern->moves(plan, p));
	for (int i = 0; i < ins; i++) {
		const struct link *link = &net.links[peers[i]][rank];

		assert_int_equal(link->received_cnt, net.pattern->receives(plan));
		assert_int_equal(link->received_cnt, link->sent_cnt);
	}
}

static void run_channel(int channel)
{
	bool moved = true;

	plan_channel(channel);
	while (moved) {
		moved = false;
		for (int r = 0; r < net.ranks; r++)
			moved = move_rank(r) || moved;
	}
	for (int r = 0; r < net.ranks; r++)
		check_through(r);
}

static void check_output(int rank)
{
	const size_t part = sxt_drv_pattern_part(net.pattern, net.bytes, net.ranks);
	const int parts = net.pattern->parts_out ? net.ranks : 1;

	for (int i = 0; i < parts; i++) {
		struct sxt_drv_expect expect = {.iteration = ITERATION, .op = SXT_DRV_SUM};
		size_t first = 0;

		net.pattern->expect(rank, net.ranks, i, part / 4, &expect);
		assert_int_equal(net.type->check(net.output[rank] + (size_t)i * part, part / 4,
						 &expect, &first),
				 0);
	}
}

/* Sizes of a rank's part where there are parts, else of the whole. */
static const size_t sizes[] = {0, 4, 16, 20, 252, 256, 260, 1024, 2052, 5000, 12288};

static void run_pattern(const struct sxt_drv_pattern *pattern, int ranks, size_t size)
{
	bool parts = pattern->parts_in || pattern->parts_out;

	build(pattern, ranks, parts ? size * (size_t)ranks : size);
	for (int channel = 0; channel < CHANNELS; channel++)
		run_channel(channel);
	for (int r = 0; r < ranks; r++)
		check_output(r);
	tear_down();
}

static void every_pattern_gives_every_rank_its_data_at_every_size(void **state)
{
	(void)state;
	for (size_t p = 0; p < sxt_drv_patterns_cnt; p++) {
		for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
			for (size_t i = 0; i < SXT_ARRAY_LEN(sizes); i++)
				run_pattern(sxt_drv_patterns[p], ranks, sizes[i]);
		}
	}
}

/* What the table says of its rows, by words that do not come from it. */
static void patterns_expect_what_their_names_say(void **state)
{
	struct sxt_drv_expect e = {0};

	(void)state;
	sxt_drv_pattern_find("all_reduce", "tree")->expect(2, 4, 0, 100, &e);
	assert_true(e.first_element == 0 && e.first_rank == 0 && e.ranks_cnt == 4);
	sxt_drv_pattern_find("sendrecv", NULL)->expect(0, 4, 0, 100, &e);
	assert_true(e.first_element == 0 && e.first_rank == 3 && e.ranks_cnt == 1);
	sxt_drv_pattern_find("all_gather", NULL)->expect(2, 4, 1, 100, &e);
	assert_true(e.first_element == 0 && e.first_rank == 1 && e.ranks_cnt == 1);
	sxt_drv_pattern_find("reduce_scatter", NULL)->expect(2, 4, 0, 100, &e);
	assert_true(e.first_element == 200 && e.first_rank == 0 && e.ranks_cnt == 4);
	sxt_drv_pattern_find("alltoall", NULL)->expect(2, 4, 1, 100, &e);
	assert_true(e.first_element == 200 && e.first_rank == 1 && e.ranks_cnt == 1);
}

static void an_operation_of_0_bytes_still_sends_a_message(void **state)
{
	struct sxt_drv_plan plan = {.capacity = 256, .slices = 2, .ranks = 2};

	(void)state;
	sxt_drv_tree_of(0, 2, 0, &plan.tree);
	for (size_t i = 0; i < sxt_drv_patterns_cnt; i++) {
		assert_true(sxt_drv_patterns[i]->moves(&plan, 0) > 0);
		assert_true(sxt_drv_patterns[i]->receives(&plan) > 0);
	}
}

static void a_tree_cuts_finer_while_it_has_levels_to_fill(void **state)
{
	const struct sxt_drv_pattern *tree = sxt_drv_pattern_find("all_reduce", "tree");
	struct sxt_drv_plan plan = {.capacity = 512 << 10, .slices = 1, .ranks = 8};
	struct sxt_drv_move move;

	(void)state;
	sxt_drv_tree_of(1, 8, 0, &plan.tree);
	plan.bytes = 256 << 20;
	assert_int_equal(tree->moves(&plan, 0), 512);
	plan.bytes = 1 << 20;
	assert_int_equal(tree->moves(&plan, 0), 16);
	plan.bytes = 1000;
	assert_int_equal(tree->moves(&plan, 0), 1);
	/* Data of LL128: no power of 2, but whole elements of every type. */
	plan.capacity = 576000;
	plan.bytes = 4 << 20;
	tree->move(&plan, 0, 1, &move);
	assert_int_equal(move.in_offset % 16, 0);
	assert_true(move.bytes < 576000);
}

static void bus_factors_are_nccl_tests(void **state)
{
	(void)state;
	assert_true(sxt_drv_pattern_find("all_reduce", NULL)->bus_factor(4) == 1.5);
	assert_true(sxt_drv_pattern_find("all_reduce", "tree")->bus_factor(4) == 1.5);
	assert_true(sxt_drv_pattern_find("all_gather", NULL)->bus_factor(4) == 0.75);
	assert_true(sxt_drv_pattern_find("reduce_scatter", NULL)->bus_factor(4) == 0.75);
	assert_true(sxt_drv_pattern_find("alltoall", NULL)->bus_factor(4) == 0.75);
	assert_true(sxt_drv_pattern_find("sendrecv", NULL)->bus_factor(4) == 1.0);
}

static void an_algorithm_belongs_to_its_pattern(void **state)
{
	(void)state;
	assert_string_equal(sxt_drv_pattern_find("all_reduce", NULL)->algo, "ring");
	assert_string_equal(sxt_drv_pattern_find("all_reduce", "tree")->algo, "tree");
	assert_null(sxt_drv_pattern_find("all_gather", "tree"));
	assert_null(sxt_drv_pattern_find("broadcast", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pattern_gives_every_rank_its_data_at_every_size),
		cmocka_unit_test(patterns_expect_what_their_names_say),
		cmocka_unit_test(an_operation_of_0_bytes_still_sends_a_message),
		cmocka_unit_test(a_tree_cuts_finer_while_it_has_levels_to_fill),
		cmocka_unit_test(bus_factors_are_nccl_tests),
		cmocka_unit_test(an_algorithm_belongs_to_its_pattern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
