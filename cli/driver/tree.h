/*
 * tree.h - the two binary trees over all ranks that NCCL reduces along.
 *
 * In the first one the ranks with an odd number are leaves, and above them each bit is a level;
 * the second is its mirror image, or with an odd number of ranks the first one shifted by a rank,
 * so that nearly every rank is a leaf of one and an inner node of the other.
 */
#ifndef SXT_CLI_DRIVER_TREE_H
#define SXT_CLI_DRIVER_TREE_H

#include "core/compiler.h"

struct sxt_drv_tree {
	int parent; /* -1: this is the root */
	int children[2];
	int children_cnt;
	int levels; /* of the whole tree */
};

/**
 * sxt_drv_tree_of() - one rank's place in a tree.
 * @rank: of @ranks, at least 1. @second: which of the two trees. @out: written.
 */
void sxt_drv_tree_of(int rank, int ranks, int second, struct sxt_drv_tree *out);

#endif
