/*
 * pattern.c - the table of patterns, and those between pairs of ranks (hot path, progress thread;
 * pure functions).
 */
#include "cli/driver/pattern.h"

#include "cli/driver/pattern_cut.h"

#include <string.h>

/* Send and receive: each rank to the next one. */
static int next_peers(const struct sxt_drv_plan *plan, bool sending, int *peers)
{
	peers[0] = (plan->rank + (sending ? 1 : plan->ranks - 1)) % plan->ranks;
	return 1;
}

static int sendrecv_programs(const struct sxt_drv_plan *plan)
{
	(void)plan;
	return 2;
}

static uint64_t pair_moves(const struct sxt_drv_plan *plan, int program)
{
	(void)program;
	return cut_pieces(plan->bytes, plan->capacity);
}

static uint64_t pair_receives(const struct sxt_drv_plan *plan)
{
	return pair_moves(plan, 0);
}

static void sendrecv_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
			  struct sxt_drv_move *out)
{
	const size_t start = index * plan->capacity;

	*out = (struct sxt_drv_move){
		.sends_cnt = program == 0,
		.recvs_cnt = program != 0,
		.store = program != 0,
		.in_offset = plan->start + start,
		.out_offset = plan->start + start,
		.bytes = cut_clamp(start, plan->capacity, plan->bytes),
	};
}

static void expect_before(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out)
{
	(void)part;
	(void)cnt;
	out->first_element = 0;
	out->first_rank = (rank + ranks - 1) % ranks;
	out->ranks_cnt = 1;
}

static double sendrecv_factor(int ranks)
{
	(void)ranks;
	return 1.0;
}

/*
 * All-to-all: edge k leads to rank + 1 + k, or comes from rank - 1 - k. Program 0 copies the own
 * part, 1 .. n-1 send along the edges, n .. 2n-2 receive.
 */
static int all_peers(const struct sxt_drv_plan *plan, bool sending, int *peers)
{
	for (int k = 0; k < plan->ranks - 1; k++) {
		int far = sending ? k + 1 : plan->ranks - 1 - k;

		peers[k] = (plan->rank + far) % plan->ranks;
	}
	return plan->ranks - 1;
}

static int alltoall_programs(const struct sxt_drv_plan *plan)
{
	return 2 * plan->ranks - 1;
}

static void alltoall_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
			  struct sxt_drv_move *out)
{
	const int n = plan->ranks;
	const size_t start = index * plan->capacity;
	const bool recv = program >= n;
	const int far = recv ? 2 * n - 1 - program : program;
	const size_t part = (size_t)((plan->rank + far) % n);

	*out = (struct sxt_drv_move){
		.sends = {program - 1},
		.sends_cnt = program > 0 && !recv,
		.recvs = {program - n},
		.recvs_cnt = recv,
		.store = program == 0 || recv,
		.bytes = cut_clamp(start, plan->capacity, plan->bytes),
	};
	out->in_offset = part * plan->part_bytes + plan->start + start;
	out->out_offset = out->in_offset;
}

static void expect_exchanged(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out)
{
	(void)ranks;
	out->first_element = (size_t)rank * cnt;
	out->first_rank = part;
	out->ranks_cnt = 1;
}

/* nccl-tests, doc/PERFORMANCE.md: a rank keeps one part and sends the others. */
static double alltoall_factor(int ranks)
{
	return 1.0 * (ranks - 1) / ranks;
}

#define SENDRECV                                                                              \
	.algo = "p2p", .simple_slot_bytes = 128 << 10, .simple_depth = 8, .simple_slices = 1, \
	.channels = 2, .groups = true, .peers = next_peers, .programs = sendrecv_programs,    \
	.moves = pair_moves, .move = sendrecv_move, .receives = pair_receives,                \
	.expect = expect_before, .bus_factor = sendrecv_factor

static const struct sxt_drv_pattern sendrecv = {.name = "sendrecv", .proto = "simple", SENDRECV};
static const struct sxt_drv_pattern ll = {.name = "ll", .proto = "ll", SENDRECV};

static const struct sxt_drv_pattern alltoall = {
	.name = "alltoall",
	.algo = "p2p",
	.proto = "simple",
	.simple_slot_bytes = 128 << 10,
	.simple_depth = 8,
	.simple_slices = 1,
	.channels = 8,
	.groups = true,
	.shares_comms = true,
	.parts_in = true,
	.parts_out = true,
	.peers = all_peers,
	.programs = alltoall_programs,
	.moves = pair_moves,
	.move = alltoall_move,
	.receives = pair_receives,
	.expect = expect_exchanged,
	.bus_factor = alltoall_factor,
};

const struct sxt_drv_pattern *const sxt_drv_patterns[] = {
	&sendrecv,
	&sxt_drv_ring_all_reduce,
	&sxt_drv_tree_all_reduce,
	&sxt_drv_ring_all_gather,
	&sxt_drv_ring_reduce_scatter,
	&alltoall,
	&ll,
};
const size_t sxt_drv_patterns_cnt = SXT_ARRAY_LEN(sxt_drv_patterns);

const struct sxt_drv_pattern *sxt_drv_pattern_find(const char *name, const char *algo)
{
	for (size_t i = 0; i < sxt_drv_patterns_cnt; i++) {
		const struct sxt_drv_pattern *pattern = sxt_drv_patterns[i];

		if (strcmp(pattern->name, name) == 0 &&
		    (algo == NULL || strcmp(pattern->algo, algo) == 0))
			return pattern;
	}
	return NULL;
}

size_t sxt_drv_pattern_part(const struct sxt_drv_pattern *pattern, size_t bytes, int ranks)
{
	return pattern->parts_in || pattern->parts_out ? bytes / (size_t)ranks : bytes;
}
