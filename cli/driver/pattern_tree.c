/*
 * pattern_tree.c - all-reduce up and down a binary tree (hot path, progress thread; pure
 * functions).
 *
 * As NCCL splits its threads: one program reduces upwards while another one passes the results
 * down. The root has one program that does both. Edges: the children, then the parent.
 */
#include "cli/driver/pattern_cut.h"

#define CHUNK_MIN 32768 /* NCCL does not cut finer to fill the tree */

static bool is_root(const struct sxt_drv_plan *plan)
{
	return plan->tree.parent < 0;
}

static int tree_peers(const struct sxt_drv_plan *plan, bool sending, int *peers)
{
	int cnt = 0;

	(void)sending; /* a connection each way */
	for (int i = 0; i < plan->tree.children_cnt; i++)
		peers[cnt++] = plan->tree.children[i];
	if (!is_root(plan))
		peers[cnt++] = plan->tree.parent;
	return cnt;
}

static int tree_programs(const struct sxt_drv_plan *plan)
{
	return is_root(plan) ? 1 : 2;
}

/* Small enough that every level has something to do; the same on all ranks. */
static size_t chunk_bytes(const struct sxt_drv_plan *plan)
{
	size_t chunk = plan->capacity;

	while (chunk / 2 >= CHUNK_MIN && plan->bytes / chunk < 4 * (size_t)plan->tree.levels)
		chunk /= 2;
	/* Whole elements of every type. */
	return chunk / SXT_DRV_CUT_ALIGN * SXT_DRV_CUT_ALIGN;
}

static uint64_t tree_moves(const struct sxt_drv_plan *plan, int program)
{
	(void)program;
	return cut_pieces(plan->bytes, chunk_bytes(plan));
}

static uint64_t tree_receives(const struct sxt_drv_plan *plan)
{
	return tree_moves(plan, 0);
}

static void fan(int *edges, int *cnt, int first, int end)
{
	*cnt = 0;
	while (first < end)
		edges[(*cnt)++] = first++;
}

static void tree_move(const struct sxt_drv_plan *plan, int program, uint64_t index,
		      struct sxt_drv_move *out)
{
	const size_t chunk = chunk_bytes(plan);
	const size_t start = index * chunk;
	const int parent = plan->tree.children_cnt; /* its edge */
	const bool up = program == 0;
	const bool down = program != 0 || is_root(plan);

	if (up)
		fan(out->recvs, &out->recvs_cnt, 0, parent);
	else
		fan(out->recvs, &out->recvs_cnt, parent, parent + 1);
	if (down)
		fan(out->sends, &out->sends_cnt, 0, parent);
	else
		fan(out->sends, &out->sends_cnt, parent, parent + 1);
	out->reduce = up && out->recvs_cnt > 0;
	out->store = down;
	out->in_offset = plan->start + start;
	out->out_offset = out->in_offset;
	out->bytes = cut_clamp(start, chunk, plan->bytes);
}

static void expect_sum(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out)
{
	sxt_drv_ring_all_reduce.expect(rank, ranks, part, cnt, out);
}

/* nccl-tests counts an all-reduce alike whatever its algorithm. */
static double tree_factor(int ranks)
{
	return sxt_drv_ring_all_reduce.bus_factor(ranks);
}

const struct sxt_drv_pattern sxt_drv_tree_all_reduce = {
	.name = "all_reduce",
	.algo = "tree",
	.proto = "simple",
	.simple_slot_bytes = 512 << 10,
	.simple_depth = 8,
	.simple_slices = 1,
	.channels = 2,
	.reduces = true,
	.peers = tree_peers,
	.programs = tree_programs,
	.moves = tree_moves,
	.move = tree_move,
	.receives = tree_receives,
	.expect = expect_sum,
	.bus_factor = tree_factor,
};
