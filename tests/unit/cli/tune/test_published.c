/*
 * test_published.c - rules fitted to results that people published.
 */
#include "cli/tune/fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void read_data(struct sxt_logs *logs, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.log", SXT_TEST_DATA, name);
	assert_int_equal(sxt_logs_read(logs, path), 0);
	assert_int_equal(logs->notes_cnt, 0);
}

static const struct sxt_fit_point *point_at(const struct sxt_fit *fit, uint64_t bytes)
{
	for (size_t i = 0; i < fit->points_cnt; i++) {
		if (fit->points[i].bytes == bytes)
			return &fit->points[i];
	}
	fail_msg("no point of %llu bytes", (unsigned long long)bytes);
	return NULL;
}

/* Five logs of a cluster on which NCCL chooses well: nothing to gain, so no rule is made. */
static void published_sweep_leaves_nccl_alone(void **state)
{
	struct sxt_logs logs = {0};
	struct sxt_fit *fit = NULL;

	(void)state;
	read_data(&logs, "socket_2x1_default");
	read_data(&logs, "socket_2x1_ring_simple");
	read_data(&logs, "socket_2x1_ring_ll");
	read_data(&logs, "socket_2x1_tree_simple");
	read_data(&logs, "socket_2x1_tree_ll");
	assert_int_equal(logs.times_cnt, 14 + 14 + 8 + 14 + 11);
	assert_int_equal(sxt_fit_make(&logs, &sxt_fit_defaults, &fit), 0);
	assert_int_equal(fit->points_cnt, 14);
	assert_int_equal(fit->rules_cnt, 0);
	/* The fastest at 512 B saves 2.4 %, which noise may be. */
	assert_int_equal(point_at(fit, 512)->best_algo, SXT_ALGO_TREE);
	assert_int_equal(point_at(fit, 512)->best_proto, SXT_PROTO_SIMPLE);
	assert_float_equal(point_at(fit, 512)->gain, 0.024, 0.001);
	/* At 128 MiB ring is the best that was forced, and slower than the default. */
	assert_int_equal(point_at(fit, 128 << 20)->best_algo, SXT_ALGO_RING);
	assert_float_equal(point_at(fit, 128 << 20)->gain, -0.059, 0.001);
	sxt_fit_free(fit);
	sxt_logs_fini(&logs);
}

/* The same without a default: models, since no rule could tell what it gains. */
static void without_default_models_only(void **state)
{
	struct sxt_logs logs = {0};
	struct sxt_fit *fit = NULL;

	(void)state;
	read_data(&logs, "socket_2x1_ring_simple");
	read_data(&logs, "socket_2x1_tree_simple");
	assert_int_equal(sxt_fit_make(&logs, &sxt_fit_defaults, &fit), 0);
	assert_int_equal(fit->rules_cnt, 0);
	assert_true(fit->models_cnt >= 2);
	assert_int_equal(fit->notes_cnt, 1);
	assert_non_null(strstr(fit->notes[0], "no log of NCCL's default"));
	assert_true(isnan(point_at(fit, 512)->gain));
	sxt_fit_free(fit);
	sxt_logs_fini(&logs);
}

/* A log of the default alone, both in place and out of place. */
static void published_default_alone(void **state)
{
	struct sxt_logs logs = {0};
	struct sxt_fit *fit = NULL;
	const struct sxt_fit_time *time = NULL;

	(void)state;
	read_data(&logs, "h100_2x8_default");
	assert_int_equal(logs.times_cnt, 2 * 31);
	assert_int_equal(sxt_fit_make(&logs, &sxt_fit_defaults, &fit), 0);
	assert_int_equal(fit->points_cnt, 31);
	assert_int_equal(fit->rules_cnt + fit->models_cnt, 0);
	time = &point_at(fit, 1 << 30)->times[SXT_FIT_ANY_ALGO][SXT_FIT_ANY_PROTO];
	assert_int_equal(time->cnt, 2);
	assert_float_equal(time->us, 6748.2, 1);
	assert_int_equal(point_at(fit, 1 << 30)->best_algo, -1);
	sxt_fit_free(fit);
	sxt_logs_fini(&logs);
}

/* Whatever of the table's marks is lost: the lines' own #, or the columns but size and time. */
static void published_layouts_are_read(void **state)
{
	static const struct {
		const char *name;
		size_t times;
		uint64_t bytes;
		double us; /* of the first time there */
	} logs_of[] = {
		{"a100_2x8_default", 2 * 25, 1 << 30, 23093},
		{"h100_2x8_bare", 2 * 31, 8ull << 30, 34448.4},
		{"a100_2x8_ring", 2 * 6, 256, 93.99},
		{"t4_1x2_tree", 5, 65536, 75.48},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(logs_of); i++) {
		struct sxt_logs logs = {0};
		const struct sxt_logs_time *last = NULL;

		read_data(&logs, logs_of[i].name);
		assert_int_equal(logs.times_cnt, logs_of[i].times);
		for (size_t k = logs.times_cnt; k > 0; k--) {
			if (logs.times[k - 1].bytes == logs_of[i].bytes)
				last = &logs.times[k - 1];
		}
		assert_true(last != NULL && fabs(last->us - logs_of[i].us) < 0.01);
		sxt_logs_fini(&logs);
	}
}

/* Two systems on which ring was measured to be faster at each size that both have. */
static void ring_wins_where_it_was_faster(void **state)
{
	static const struct {
		const char *ring;
		const char *tree;
		uint64_t bytes;
		double saved; /* against tree */
	} pairs[] = {
		{"t4_1x2_ring", "t4_1x2_tree", 8, 1 - 14.49 / 17.00},
		{"t4_1x2_ring", "t4_1x2_tree", 16384, 1 - 23.56 / 62.93},
		{"h100_5x8_ring", "h100_5x8_tree", 1 << 30, 1 - 150.0 / 190},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(pairs); i++) {
		struct sxt_logs logs = {0};
		struct sxt_fit *fit = NULL;
		const struct sxt_fit_point *point;
		double saved;

		read_data(&logs, pairs[i].ring);
		read_data(&logs, pairs[i].tree);
		assert_int_equal(sxt_fit_make(&logs, &sxt_fit_defaults, &fit), 0);
		point = point_at(fit, pairs[i].bytes);
		assert_int_equal(point->best_algo, SXT_ALGO_RING);
		saved = 1 - point->times[SXT_ALGO_RING][SXT_FIT_ANY_PROTO].us /
				    point->times[SXT_ALGO_TREE][SXT_FIT_ANY_PROTO].us;
		assert_true(fabs(saved - pairs[i].saved) < 0.001);
		sxt_fit_free(fit);
		sxt_logs_fini(&logs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_sweep_leaves_nccl_alone),
		cmocka_unit_test(without_default_models_only),
		cmocka_unit_test(published_default_alone),
		cmocka_unit_test(published_layouts_are_read),
		cmocka_unit_test(ring_wins_where_it_was_faster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
