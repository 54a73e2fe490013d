/*
 * test_model.c - hops and times worked out by hand, and lines that are written and read back.
 */
#include "tuner/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void hops_are_those_of_the_structure(void **state)
{
	static const struct {
		enum sxt_coll coll;
		enum sxt_algo algo;
		struct sxt_shape shape;
		float intra;
		float inter;
	} rows[] = {
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, {4, 32}, 54, 8},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, {1, 8}, 14, 0},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, {4, 4}, 0, 6},
		{SXT_COLL_ALL_GATHER, SXT_ALGO_RING, {4, 32}, 27, 4},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_TREE, {4, 32}, 14, 4},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_TREE, {5, 40}, 14, 6},
		{SXT_COLL_REDUCE, SXT_ALGO_TREE, {4, 32}, 7, 2},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_COLLNET_DIRECT, {4, 32}, 2, 1},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_COLLNET_CHAIN, {4, 32}, 14, 1},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_NVLS, {1, 8}, 2, 0},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_NVLS_TREE, {8, 64}, 2, 6},
		{SXT_COLL_ALL_GATHER, SXT_ALGO_PAT, {16, 16}, 0, 4},
		{SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, {0, 0}, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sxt_hops hops = sxt_hops_of(rows[i].coll, rows[i].algo, rows[i].shape);

		if (hops.intra != rows[i].intra || hops.inter != rows[i].inter)
			fail_msg("row %zu: %g within, %g between", i, (double)hops.intra,
				 (double)hops.inter);
	}
}

static void time_is_base_hops_and_bytes(void **state)
{
	const struct sxt_model model = {.when = {.coll = SXT_COLL_ALL_REDUCE},
					.algo = SXT_ALGO_RING,
					.base_us = 10,
					.intra_us = 0.5f,
					.inter_us = 4,
					.gbs = 100};

	(void)state;
	/* 10 + 54 * 0.5 + 8 * 4 + 2 * 31 / 32 * 32,000,000 B / 100 GB/s */
	assert_true(sxt_model_us(&model, (struct sxt_shape){4, 32}, 32000000) == 69 + 620);
	assert_true(sxt_bus_factor(SXT_COLL_ALL_GATHER, 4) == 0.75);
	assert_true(sxt_bus_factor(SXT_COLL_BROADCAST, 4) == 1);
	assert_true(sxt_bus_factor(SXT_COLL_ALL_REDUCE, 1) == 1);
}

static void written_lines_are_read_back_to_the_same(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct sxt_rules *rules = NULL;
		struct sxt_rules_fault fault = {0};
		struct sxt_model model = {.when = {.bytes = {0, UINT64_MAX},
						   .nodes = {0, UINT64_MAX},
						   .ranks = {0, UINT64_MAX},
						   .per_node = {0, UINT64_MAX},
						   .pipe_ops = {0, UINT64_MAX},
						   .reg = -1},
					  .gbs = 1,
					  .line = 2};
		char line[SXT_RULE_LINE_BYTES];
		char text[SXT_RULE_LINE_BYTES + 32];

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		/* Floats of any size that a file may have. */
		model.base_us = (float)(seed >> 40) / (float)(1ull << (seed >> 8) % 38);
		model.margin = (float)(seed >> 33 & 0xffff) / 70000;
		model.when.bytes.min = seed >> 1 >> (seed & 31);
		model.when.bytes.max = model.when.bytes.min + (seed >> 50);
		sxt_model_write(&model, line);
		snprintf(text, sizeof(text), "sextant-rules 1\n%s", line);
		if (sxt_rules_parse(text, strlen(text), &rules, &fault) != 0)
			fail_msg("%s: %s", line, fault.text);
		if (rules->models[0].base_us != model.base_us ||
		    rules->models[0].margin != model.margin ||
		    rules->models[0].when.bytes.min != model.when.bytes.min ||
		    rules->models[0].when.bytes.max != model.when.bytes.max)
			fail_msg("%s", line);
		sxt_rules_free(rules);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hops_are_those_of_the_structure),
		cmocka_unit_test(time_is_base_hops_and_bytes),
		cmocka_unit_test(written_lines_are_read_back_to_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
