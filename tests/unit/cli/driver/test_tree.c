/*
 * test_tree.c - the shape of both trees, for every number of ranks up to 33.
 */
#include "cli/driver/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#define RANKS_MAX 33

static struct sxt_drv_tree place(int rank, int ranks, int second)
{
	struct sxt_drv_tree tree;

	sxt_drv_tree_of(rank, ranks, second, &tree);
	return tree;
}

static bool is_child(const struct sxt_drv_tree *of, int rank)
{
	for (int i = 0; i < of->children_cnt; i++) {
		if (of->children[i] == rank)
			return true;
	}
	return false;
}

/* Steps from a rank to the root; fails where there is a circle. */
static int depth_of(int rank, int ranks, int second)
{
	int depth = 0;

	for (int parent = place(rank, ranks, second).parent; parent >= 0;
	     parent = place(parent, ranks, second).parent)
		assert_true(++depth < ranks);
	return depth;
}

static void every_rank_but_the_root_hangs_on_its_parent(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
		for (int i = 0; i < 2 * ranks; i++) {
			struct sxt_drv_tree tree = place(i / 2, ranks, i % 2);
			struct sxt_drv_tree above;

			assert_true(tree.children_cnt <= 2);
			if (tree.parent < 0)
				continue;
			above = place(tree.parent, ranks, i % 2);
			assert_true(is_child(&above, i / 2));
		}
	}
}

static void one_root_and_as_many_children_as_other_ranks(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
		for (int second = 0; second < 2; second++) {
			int roots = 0;
			int children = 0;

			for (int rank = 0; rank < ranks; rank++) {
				roots += place(rank, ranks, second).parent < 0;
				children += place(rank, ranks, second).children_cnt;
			}
			assert_int_equal(roots, 1);
			assert_int_equal(children, ranks - 1);
		}
	}
}

static void no_rank_is_deeper_than_the_levels_told(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
		for (int i = 0; i < 2 * ranks; i++)
			assert_true(depth_of(i / 2, ranks, i % 2) < place(0, ranks, 0).levels);
	}
	assert_int_equal(place(0, 1, 0).levels, 1);
	assert_int_equal(place(0, 32, 0).levels, 6);
	assert_int_equal(place(0, 33, 0).levels, 7);
}

/* So that both trees together load every rank alike. */
static void an_inner_node_of_one_tree_is_a_leaf_of_the_other(void **state)
{
	(void)state;
	for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
		int both = 0;

		for (int rank = 0; rank < ranks; rank++)
			both += place(rank, ranks, 0).children_cnt > 0 &&
				place(rank, ranks, 1).children_cnt > 0;
		assert_int_equal(both, ranks % 2);
	}
}

/* Not full: 10 and 12 stand under 8 as if there were 16, and 13 hangs on 12, its 14 is not there.
 */
static void the_tree_of_14_ranks(void **state)
{
	static const int parents[14] = {-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12};

	(void)state;
	for (int rank = 0; rank < 14; rank++)
		assert_int_equal(place(rank, 14, 0).parent, parents[rank]);
	assert_int_equal(place(13, 14, 1).parent, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rank_but_the_root_hangs_on_its_parent),
		cmocka_unit_test(one_root_and_as_many_children_as_other_ranks),
		cmocka_unit_test(no_rank_is_deeper_than_the_levels_told),
		cmocka_unit_test(an_inner_node_of_one_tree_is_a_leaf_of_the_other),
		cmocka_unit_test(the_tree_of_14_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
