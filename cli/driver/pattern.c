/*
 * pattern.c - moves of each pattern by number (hot path, progress thread; pure functions).
 */
#include "cli/driver/pattern.h"

#include <string.h>

#define ALIGN 16 /* slices and chunks start at multiples, as NCCL's */

static size_t div_up(size_t a, size_t b)
{
	return (a + b - 1) / b;
}

static size_t align_up(size_t a)
{
	return div_up(a, ALIGN) * ALIGN;
}

/* The part of [offset, offset + bytes) that lies before @end. */
static size_t clamp(size_t offset, size_t bytes, size_t end)
{
	if (offset >= end)
		return 0;
	return end - offset < bytes ? end - offset : bytes;
}

/* A message of 0 bytes is a message: every operation has one move at least. */
static uint64_t sendrecv_moves(const struct sxt_drv_plan *plan)
{
	return plan->bytes == 0 ? 1 : div_up(plan->bytes, plan->capacity);
}

static void sendrecv_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
			  struct sxt_drv_move *out)
{
	*out = (struct sxt_drv_move){
		.send = program == 0,
		.recv = program != 0,
		.store = program != 0,
		.offset = index * plan->capacity,
	};
	out->bytes = clamp(out->offset, plan->capacity, plan->bytes);
}

static double sendrecv_factor(int ranks)
{
	(void)ranks;
	return 1.0;
}

/* Ring all-reduce goes round in rounds of one chunk per rank. */
static size_t round_bytes(const struct sxt_drv_plan *plan)
{
	return plan->capacity * plan->slices * (size_t)plan->ranks;
}

static uint64_t rounds_of(const struct sxt_drv_plan *plan)
{
	return plan->bytes == 0 ? 1 : div_up(plan->bytes, round_bytes(plan));
}

static uint64_t ring_moves(const struct sxt_drv_plan *plan)
{
	return rounds_of(plan) * (2 * (uint64_t)plan->ranks - 1) * plan->slices;
}

static uint64_t ring_receives(const struct sxt_drv_plan *plan)
{
	return rounds_of(plan) * (2 * (uint64_t)plan->ranks - 2) * plan->slices;
}

/*
 * Turn t of 2n - 1: 0 sends the own part of the chunk behind; 1 .. n-2 reduce and pass on; n-1
 * finishes the own chunk; n .. 2n-3 keep a finished chunk and pass it on; 2n-2 keeps the last.
 * The chunk of turn t is rank + n-1 - t, counted round the ring.
 */
static void ring_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
		      struct sxt_drv_move *out)
{
	const int n = plan->ranks;
	const uint64_t per_round = (2 * (uint64_t)n - 1) * plan->slices;
	const size_t start = index / per_round * round_bytes(plan);
	const int turn = (int)(index % per_round / plan->slices);
	const size_t slice_index = index % plan->slices;
	const size_t left = plan->bytes > start ? plan->bytes - start : 0;
	const size_t full = plan->capacity * plan->slices;
	const size_t even = align_up(div_up(left, (size_t)n));
	const size_t chunk = even < full ? even : full;
	const size_t chunk_start = start + (size_t)((plan->rank + 2 * n - 1 - turn) % n) * chunk;
	const size_t chunk_bytes = clamp(chunk_start, chunk, plan->bytes);
	const size_t slice = align_up(div_up(chunk_bytes, plan->slices));

	(void)program;
	out->recv = turn > 0;
	out->reduce = turn > 0 && turn <= n - 1;
	out->store = turn >= n - 1;
	out->send = turn < 2 * n - 2;
	out->offset = chunk_start + slice_index * slice;
	out->bytes = clamp(slice_index * slice, slice, chunk_bytes);
}

static double ring_factor(int ranks)
{
	return 2.0 * (ranks - 1) / ranks;
}

const struct sxt_drv_pattern sxt_drv_patterns[] = {
	{"sendrecv", "each rank sends to the next and receives from the one before", "simple",
	 128 << 10, 8, 1, 2, false, true, sendrecv_moves, sendrecv_move, sendrecv_moves,
	 sendrecv_factor},
	{"all_reduce", "ring all-reduce: reduce-scatter, then all-gather", "simple", 1 << 20, 4, 2,
	 1, true, false, ring_moves, ring_move, ring_receives, ring_factor},
	{"ll", "as sendrecv, with flags in the data that the receiver polls in memory", "ll",
	 128 << 10, 8, 1, 2, false, true, sendrecv_moves, sendrecv_move, sendrecv_moves,
	 sendrecv_factor},
};
const size_t sxt_drv_patterns_cnt = SXT_ARRAY_LEN(sxt_drv_patterns);

const struct sxt_drv_pattern *sxt_drv_pattern_find(const char *name)
{
	for (size_t i = 0; i < sxt_drv_patterns_cnt; i++) {
		if (strcmp(sxt_drv_patterns[i].name, name) == 0)
			return &sxt_drv_patterns[i];
	}
	return NULL;
}
