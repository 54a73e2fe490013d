/*
 * test_units.c - numbers of a command line, and the model that applies to a call.
 */
#include "cli/tune/candidates.h"
#include "cli/tune/tune.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_close(double value, double wanted)
{
	if (!(fabs(value - wanted) <= 1e-9 * wanted))
		fail_msg("%g, not %g", value, wanted);
}

static void counts_are_powers_of_1000(void **state)
{
	static const struct {
		const char *text;
		double value;
	} good[] = {{"13B", 13e9}, {"350M", 350e6}, {"1.3e9", 1.3e9}, {"12.5", 12.5}, {"7k", 7000},
		    {"7K", 7000},  {"2G", 2e9},     {"1.5T", 1.5e12}, {"0x10", 16.0}};
	static const char *const bad[] = {"",    "B",   "0",   "-1",  "1Q",
					  "1MB", "1 M", "nan", "inf", "1e999"};
	double value = 5;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(good); i++) {
		assert_int_equal(sxt_tune_count(good[i].text, &value), 0);
		assert_close(value, good[i].value);
	}
	value = 5;
	for (size_t i = 0; i < SXT_ARRAY_LEN(bad); i++) {
		assert_int_equal(sxt_tune_count(bad[i], &value), -EINVAL);
		assert_close(value, 5);
	}
}

static void bandwidths_are_bits_or_bytes(void **state)
{
	static const struct {
		const char *text;
		double bytes;
	} good[] = {{"100G", 12.5e9}, {"100Gb/s", 12.5e9},  {"100Gbit", 12.5e9}, {"12.5GB", 12.5e9},
		    {"400Gb", 50e9},  {"12.5GB/s", 12.5e9}, {"800M", 1e8},       {"800Mb", 1e8},
		    {"800Mb/s", 1e8}, {"100MB", 1e8},       {"100MB/s", 1e8}};
	static const char *const bad[] = {"", "100", "G", "0G", "-1G", "1g", "1Gib", "1G ", "1T"};
	double bytes = 5;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(good); i++) {
		assert_int_equal(sxt_tune_bandwidth(good[i].text, &bytes), 0);
		assert_close(bytes, good[i].bytes);
	}
	bytes = 5;
	for (size_t i = 0; i < SXT_ARRAY_LEN(bad); i++) {
		assert_int_equal(sxt_tune_bandwidth(bad[i], &bytes), -EINVAL);
		assert_close(bytes, 5);
	}
}

/* 0: none of the file's. */
static uint32_t line_of_model(const struct sxt_rules *rules, enum sxt_coll coll, uint32_t nodes,
			      uint64_t bytes)
{
	const struct sxt_pick ring = {SXT_ALGO_RING, SXT_PROTO_SIMPLE};
	const struct sxt_shape shape = {.nodes = nodes, .ranks = nodes * 8};
	const struct sxt_model *model = sxt_tune_model(rules, ring, coll, shape, bytes);

	return model != NULL ? model->line : 0;
}

static void the_first_model_that_applies_counts(void **state)
{
	static const char text[] =
		"sextant-rules 1\n"
		"model coll=allreduce algo=tree proto=simple gbs=1\n"
		"model coll=allreduce bytes=1K..64K nodes=2..4 algo=ring proto=simple gbs=2\n"
		"model coll=allreduce bytes=64K..inf algo=ring proto=simple gbs=3\n"
		"model coll=reduce algo=ring proto=ll gbs=4\n";
	struct sxt_rules_fault fault;
	struct sxt_rules *rules;

	(void)state;
	assert_int_equal(sxt_rules_parse(text, strlen(text), &rules, &fault), 0);
	assert_int_equal(line_of_model(rules, SXT_COLL_ALL_REDUCE, 2, 1023), 0);
	assert_int_equal(line_of_model(rules, SXT_COLL_ALL_REDUCE, 2, 1024), 3);
	assert_int_equal(line_of_model(rules, SXT_COLL_ALL_REDUCE, 4, 65536), 3);
	assert_int_equal(line_of_model(rules, SXT_COLL_ALL_REDUCE, 4, 65537), 4);
	assert_int_equal(line_of_model(rules, SXT_COLL_ALL_REDUCE, 5, 65535), 0);
	assert_int_equal(line_of_model(rules, SXT_COLL_ALL_REDUCE, 5, UINT64_MAX), 4);
	assert_int_equal(line_of_model(rules, SXT_COLL_REDUCE, 2, 1024), 0);
	sxt_rules_free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_powers_of_1000),
		cmocka_unit_test(bandwidths_are_bits_or_bytes),
		cmocka_unit_test(the_first_model_that_applies_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
