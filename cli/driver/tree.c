/*
 * tree.c - places in a double binary tree (slow path, pure functions).
 */
#include "cli/driver/tree.h"

/* The lowest bit of a number that is not 0. */
static int low_bit(int number)
{
	return number & -number;
}

/*
 * In the first tree: one level up, the lowest bit goes and the next one is there. Where that rank
 * does not exist the lowest bit just goes; it ends at the root, rank 0.
 */
static int parent_in_first(int rank, int ranks)
{
	int bit = low_bit(rank);
	int up = (rank ^ bit) | bit << 1;

	if (rank == 0)
		return -1;
	return up < ranks ? up : rank ^ bit;
}

static int to_first(int rank, int ranks, int second)
{
	if (second == 0)
		return rank;
	return ranks % 2 == 0 ? ranks - 1 - rank : (rank + ranks - 1) % ranks;
}

static int from_first(int node, int ranks, int second)
{
	if (second == 0)
		return node;
	return ranks % 2 == 0 ? ranks - 1 - node : (node + 1) % ranks;
}

void sxt_drv_tree_of(int rank, int ranks, int second, struct sxt_drv_tree *out)
{
	int node = to_first(rank, ranks, second);
	int parent = parent_in_first(node, ranks);

	*out = (struct sxt_drv_tree){.parent = -1, .levels = 1};
	if (parent >= 0)
		out->parent = from_first(parent, ranks, second);
	for (int other = 1; other < ranks; other++) {
		if (parent_in_first(other, ranks) == node)
			out->children[out->children_cnt++] = from_first(other, ranks, second);
	}
	while (1 << (out->levels - 1) < ranks)
		out->levels++;
}
