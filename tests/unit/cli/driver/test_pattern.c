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

#define RANKS_MAX 5
#define ITERATION 7

/* A ring in memory: each rank's slices on their way to the next one, in order. */
struct ring {
	const struct sxt_drv_pattern *pattern;
	const struct sxt_drv_type *type;
	struct sxt_drv_plan plans[RANKS_MAX];
	uint64_t next[RANKS_MAX][SXT_DRV_PROGRAMS_MAX];
	uint8_t *input[RANKS_MAX];
	uint8_t *output[RANKS_MAX];
	uint8_t *queue[RANKS_MAX]; /* bytes sent by this rank and not yet received */
	size_t written[RANKS_MAX];
	size_t read[RANKS_MAX];
	size_t lengths[RANKS_MAX][4096];
	uint64_t sent_cnt[RANKS_MAX];
	uint64_t received_cnt[RANKS_MAX];
};

static void build(struct ring *ring, const char *pattern, int ranks, size_t bytes)
{
	memset(ring, 0, sizeof(*ring));
	ring->pattern = sxt_drv_pattern_find(pattern);
	ring->type = sxt_drv_type_find("float");
	for (int r = 0; r < ranks; r++) {
		ring->plans[r] = (struct sxt_drv_plan){
			.bytes = bytes, .capacity = 256, .slices = 2, .rank = r, .ranks = ranks};
		ring->input[r] = calloc(1, bytes + 1);
		ring->output[r] = calloc(1, bytes + 1);
		ring->queue[r] = calloc(1, bytes * 2 * RANKS_MAX + 1);
		ring->type->fill(ring->input[r], 0, bytes / 4, r, ITERATION);
	}
}

static void tear_down(struct ring *ring)
{
	for (int r = 0; r < RANKS_MAX; r++) {
		free(ring->input[r]);
		free(ring->output[r]);
		free(ring->queue[r]);
	}
}

/* Makes one move of a rank; false when it must wait or is through. */
static bool move_once(struct ring *ring, int rank, int program)
{
	struct sxt_drv_plan *plan = &ring->plans[rank];
	int before = (rank + plan->ranks - 1) % plan->ranks;
	uint8_t slice[256];
	struct sxt_drv_move move;

	if (ring->next[rank][program] == ring->pattern->moves(plan))
		return false;
	ring->pattern->move(plan, program, ring->next[rank][program], &move);
	if (move.recv && ring->received_cnt[rank] == ring->sent_cnt[before])
		return false;
	assert_true(move.bytes <= plan->capacity);
	assert_true(move.bytes == 0 || move.offset + move.bytes <= plan->bytes);
	if (move.bytes > 0)
		memcpy(slice, ring->input[rank] + move.offset, move.bytes);
	if (move.recv) {
		uint64_t index = ring->received_cnt[rank]++;

		/* The sender cut the same slice. */
		assert_int_equal(ring->lengths[before][index], move.bytes);
		memcpy(slice, ring->queue[before] + ring->read[before], move.bytes);
		ring->read[before] += move.bytes;
	}
	if (move.reduce)
		ring->type->reduce(slice, slice, ring->input[rank] + move.offset, move.bytes / 4,
				   SXT_DRV_SUM);
	if (move.store && move.bytes > 0)
		memcpy(ring->output[rank] + move.offset, slice, move.bytes);
	if (move.send) {
		memcpy(ring->queue[rank] + ring->written[rank], slice, move.bytes);
		ring->written[rank] += move.bytes;
		ring->lengths[rank][ring->sent_cnt[rank]++] = move.bytes;
	}
	ring->next[rank][program]++;
	return true;
}

static void run(struct ring *ring, int ranks)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (int r = 0; r < ranks; r++) {
			for (int p = 0; p < ring->pattern->programs_cnt; p++)
				moved = move_once(ring, r, p) || moved;
		}
	}
	for (int r = 0; r < ranks; r++) {
		for (int p = 0; p < ring->pattern->programs_cnt; p++)
			assert_int_equal(ring->next[r][p], ring->pattern->moves(&ring->plans[r]));
		assert_int_equal(ring->received_cnt[r], ring->pattern->receives(&ring->plans[r]));
	}
}

static void check(struct ring *ring, int rank, const struct sxt_drv_expect *expect)
{
	size_t first = 0;

	assert_int_equal(ring->type->check(ring->output[rank], ring->plans[rank].bytes / 4, expect,
					   &first),
			 0);
}

static const size_t sizes[] = {0, 4, 16, 20, 252, 256, 260, 1024, 2052, 5000, 12288};

static void all_reduce_sums_every_rank_at_every_size(void **state)
{
	struct ring ring;

	(void)state;
	for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
		for (size_t i = 0; i < SXT_ARRAY_LEN(sizes); i++) {
			const struct sxt_drv_expect expect = {0, ranks, ITERATION, SXT_DRV_SUM};

			build(&ring, "all_reduce", ranks, sizes[i]);
			run(&ring, ranks);
			for (int r = 0; r < ranks; r++)
				check(&ring, r, &expect);
			tear_down(&ring);
		}
	}
}

static void sendrecv_moves_the_data_of_the_rank_before(void **state)
{
	struct ring ring;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(sizes); i++) {
		build(&ring, "sendrecv", 3, sizes[i]);
		run(&ring, 3);
		for (int r = 0; r < 3; r++) {
			const struct sxt_drv_expect expect = {(r + 2) % 3, 1, ITERATION,
							      SXT_DRV_SUM};

			check(&ring, r, &expect);
		}
		tear_down(&ring);
	}
}

static void an_operation_of_0_bytes_still_sends_a_message(void **state)
{
	struct sxt_drv_plan plan = {.bytes = 0, .capacity = 256, .slices = 2, .ranks = 2};

	(void)state;
	for (size_t i = 0; i < sxt_drv_patterns_cnt; i++) {
		assert_true(sxt_drv_patterns[i].moves(&plan) > 0);
		assert_true(sxt_drv_patterns[i].receives(&plan) > 0);
	}
}

static void bus_factors_are_nccl_tests(void **state)
{
	(void)state;
	assert_true(sxt_drv_pattern_find("all_reduce")->bus_factor(4) == 1.5);
	assert_true(sxt_drv_pattern_find("sendrecv")->bus_factor(4) == 1.0);
	assert_null(sxt_drv_pattern_find("broadcast"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_reduce_sums_every_rank_at_every_size),
		cmocka_unit_test(sendrecv_moves_the_data_of_the_rank_before),
		cmocka_unit_test(an_operation_of_0_bytes_still_sends_a_message),
		cmocka_unit_test(bus_factors_are_nccl_tests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
