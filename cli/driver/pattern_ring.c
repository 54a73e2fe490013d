/*
 * pattern_ring.c - collectives along a ring of all ranks (hot path, progress thread; pure
 * functions).
 *
 * All go round in rounds, in which a chunk moves in turns from rank to rank, cut into slices of
 * one slot. Out-of-place: a rank's own chunk is read from the input.
 */
#include "cli/driver/pattern_cut.h"

static int ring_peers(const struct sxt_drv_plan *plan, bool sending, int *peers)
{
	peers[0] = (plan->rank + (sending ? 1 : plan->ranks - 1)) % plan->ranks;
	return 1;
}

static int one_program(const struct sxt_drv_plan *plan)
{
	(void)plan;
	return 1;
}

static size_t chunk_max(const struct sxt_drv_plan *plan)
{
	return plan->capacity * plan->slices;
}

/* Where one move is: which round, which turn of it, which slice of the chunk. */
struct place {
	size_t round;
	int turn;
	size_t slice;
};

static struct place place_of(const struct sxt_drv_plan *plan, int turns, uint64_t index)
{
	const uint64_t per_round = (uint64_t)turns * plan->slices;

	return (struct place){
		.round = index / per_round,
		.turn = (int)(index % per_round / plan->slices),
		.slice = index % plan->slices,
	};
}

/* Slice of a chunk: its offset in the chunk; its bytes go to @bytes. */
static size_t slice_of(const struct sxt_drv_plan *plan, size_t slice, size_t chunk_bytes,
		       size_t *bytes)
{
	size_t full = cut_align_up(cut_div_up(chunk_bytes, plan->slices));

	*bytes = cut_clamp(slice * full, full, chunk_bytes);
	return slice * full;
}

static void set_edges(struct sxt_drv_move *move, bool recv, bool send)
{
	move->recvs[0] = 0;
	move->recvs_cnt = recv;
	move->sends[0] = 0;
	move->sends_cnt = send;
}

/* All-reduce: a round has a chunk for each rank. */
static size_t round_bytes(const struct sxt_drv_plan *plan)
{
	return chunk_max(plan) * (size_t)plan->ranks;
}

static uint64_t all_reduce_rounds(const struct sxt_drv_plan *plan)
{
	return cut_pieces(plan->bytes, round_bytes(plan));
}

static uint64_t all_reduce_moves(const struct sxt_drv_plan *plan, int program)
{
	(void)program;
	return all_reduce_rounds(plan) * (2 * (uint64_t)plan->ranks - 1) * plan->slices;
}

static uint64_t all_reduce_receives(const struct sxt_drv_plan *plan)
{
	return all_reduce_rounds(plan) * (2 * (uint64_t)plan->ranks - 2) * plan->slices;
}

/*
 * Turn t of 2n - 1: 0 sends the own part of the chunk behind; 1 .. n-2 reduce and pass on; n-1
 * finishes the own chunk; n .. 2n-3 keep a finished chunk and pass it on; 2n-2 keeps the last.
 * The chunk of turn t is rank + n-1 - t, counted round the ring.
 */
static void all_reduce_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
			    struct sxt_drv_move *out)
{
	const int n = plan->ranks;
	const struct place at = place_of(plan, 2 * n - 1, index);
	const size_t start = at.round * round_bytes(plan);
	const size_t left = plan->bytes > start ? plan->bytes - start : 0;
	const size_t even = cut_align_up(cut_div_up(left, (size_t)n));
	const size_t chunk = even < chunk_max(plan) ? even : chunk_max(plan);
	const size_t chunk_start = start + (size_t)((plan->rank + 2 * n - 1 - at.turn) % n) * chunk;
	const size_t chunk_bytes = cut_clamp(chunk_start, chunk, plan->bytes);

	(void)program;
	set_edges(out, at.turn > 0, at.turn < 2 * n - 2);
	out->reduce = at.turn > 0 && at.turn <= n - 1;
	out->store = at.turn >= n - 1;
	out->in_offset =
		plan->start + chunk_start + slice_of(plan, at.slice, chunk_bytes, &out->bytes);
	out->out_offset = out->in_offset;
}

/* All-gather and reduce-scatter: a round moves a chunk of every rank's part, in n turns. */
static uint64_t part_rounds(const struct sxt_drv_plan *plan)
{
	return cut_pieces(plan->bytes, chunk_max(plan));
}

static uint64_t part_moves(const struct sxt_drv_plan *plan, int program)
{
	(void)program;
	return part_rounds(plan) * (uint64_t)plan->ranks * plan->slices;
}

static uint64_t part_receives(const struct sxt_drv_plan *plan)
{
	return part_rounds(plan) * (uint64_t)(plan->ranks - 1) * plan->slices;
}

/* Offset in a part; the slice's bytes go to @bytes. */
static size_t offset_in_part(const struct sxt_drv_plan *plan, const struct place *at, size_t *bytes)
{
	const size_t start = at->round * chunk_max(plan);
	const size_t chunk_bytes = cut_clamp(start, chunk_max(plan), plan->bytes);

	return plan->start + start + slice_of(plan, at->slice, chunk_bytes, bytes);
}

/* Turn t keeps rank - t's chunk and passes it on; the last one is not passed on. */
static void all_gather_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
			    struct sxt_drv_move *out)
{
	const int n = plan->ranks;
	const struct place at = place_of(plan, n, index);
	const size_t part = (size_t)((plan->rank + n - at.turn) % n);

	(void)program;
	set_edges(out, at.turn > 0, at.turn < n - 1);
	out->reduce = false;
	out->store = true;
	out->in_offset = offset_in_part(plan, &at, &out->bytes);
	out->out_offset = out->in_offset + part * plan->part_bytes;
}

/* Turn t adds the own share of the part of rank - 1 - t and passes it on; the last is the own. */
static void reduce_scatter_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
				struct sxt_drv_move *out)
{
	const int n = plan->ranks;
	const struct place at = place_of(plan, n, index);
	const size_t part = (size_t)((plan->rank + n - 1 - at.turn) % n);

	(void)program;
	set_edges(out, at.turn > 0, at.turn < n - 1);
	out->reduce = at.turn > 0;
	out->store = at.turn == n - 1;
	out->out_offset = offset_in_part(plan, &at, &out->bytes);
	out->in_offset = out->out_offset + part * plan->part_bytes;
}

static void expect_sum(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out)
{
	(void)rank;
	(void)part;
	(void)cnt;
	out->first_element = 0;
	out->first_rank = 0;
	out->ranks_cnt = ranks;
}

static void expect_gathered(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out)
{
	(void)rank;
	(void)ranks;
	(void)cnt;
	out->first_element = 0;
	out->first_rank = part;
	out->ranks_cnt = 1;
}

static void expect_scattered(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out)
{
	(void)part;
	out->first_element = (size_t)rank * cnt;
	out->first_rank = 0;
	out->ranks_cnt = ranks;
}

/* Bus factors are nccl-tests' own, doc/PERFORMANCE.md there: what the slowest link must carry. */
static double twice_around(int ranks)
{
	return 2.0 * (ranks - 1) / ranks;
}

static double once_around(int ranks)
{
	return 1.0 * (ranks - 1) / ranks;
}

const struct sxt_drv_pattern sxt_drv_ring_all_reduce = {
	.name = "all_reduce",
	.algo = "ring",
	.proto = "simple",
	.simple_slot_bytes = 1 << 20,
	.simple_depth = 4,
	.simple_slices = 2,
	.channels = 2,
	.reduces = true,
	.peers = ring_peers,
	.programs = one_program,
	.moves = all_reduce_moves,
	.move = all_reduce_move,
	.receives = all_reduce_receives,
	.expect = expect_sum,
	.bus_factor = twice_around,
};

const struct sxt_drv_pattern sxt_drv_ring_all_gather = {
	.name = "all_gather",
	.algo = "ring",
	.proto = "simple",
	.simple_slot_bytes = 1 << 20,
	.simple_depth = 4,
	.simple_slices = 2,
	.channels = 2,
	.parts_out = true,
	.peers = ring_peers,
	.programs = one_program,
	.moves = part_moves,
	.move = all_gather_move,
	.receives = part_receives,
	.expect = expect_gathered,
	.bus_factor = once_around,
};

const struct sxt_drv_pattern sxt_drv_ring_reduce_scatter = {
	.name = "reduce_scatter",
	.algo = "ring",
	.proto = "simple",
	.simple_slot_bytes = 1 << 20,
	.simple_depth = 4,
	.simple_slices = 2,
	.channels = 2,
	.reduces = true,
	.parts_in = true,
	.peers = ring_peers,
	.programs = one_program,
	.moves = part_moves,
	.move = reduce_scatter_move,
	.receives = part_receives,
	.expect = expect_scattered,
	.bus_factor = once_around,
};
