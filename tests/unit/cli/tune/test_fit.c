/*
 * test_fit.c - rules and models from logs whose true times are known.
 */
#include "cli/tune/fit.h"
#include "tuner/choose.h"

#include <errno.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEFAULT (-1)
#define MIB     (1ull << 20)

/* What a choice takes, in us. */
struct line {
	double fixed;
	double per_mib;
};

static const struct line ring = {.fixed = 100, .per_mib = 10};
static const struct line tree = {.fixed = 20, .per_mib = 20}; /* crosses ring at 8 MiB */

struct scene {
	struct sxt_logs logs;
	struct sxt_fit *fit;
	gsl_rng *rng;
	uint32_t nodes;
	double noise;
	uint32_t runs;
};

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -1;
	s->rng = gsl_rng_alloc(gsl_rng_mt19937);
	s->nodes = 4;
	s->noise = 0.01;
	s->runs = 5;
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	sxt_fit_free(s->fit);
	sxt_logs_fini(&s->logs);
	gsl_rng_free(s->rng);
	free(s);
	return 0;
}

static double us_of(struct line line, uint64_t bytes)
{
	return line.fixed + line.per_mib * (double)bytes / (double)MIB;
}

/* One time into the logs, as the parser would. */
static void add_time(struct scene *s, struct sxt_logs_time time)
{
	struct sxt_logs *logs = &s->logs;

	logs->times = reallocarray(logs->times, logs->times_cnt + 1, sizeof(*logs->times));
	assert_non_null(logs->times);
	time.us *= exp(gsl_ran_gaussian(s->rng, s->noise));
	logs->times[logs->times_cnt++] = time;
}

/* Every size from 64 KiB to 1 GiB with one choice that takes what the line says. */
static void add_log(struct scene *s, int algo, int proto, struct line line)
{
	for (uint32_t run = 0; run < s->runs; run++) {
		for (int power = 16; power <= 30; power++)
			add_time(s, (struct sxt_logs_time){.coll = SXT_COLL_ALL_REDUCE,
							   .nodes = s->nodes,
							   .ranks = s->nodes * 8,
							   .bytes = 1ull << power,
							   .us = us_of(line, 1ull << power),
							   .algo = (int8_t)algo,
							   .proto = (int8_t)proto,
							   .run = run});
	}
}

static const struct sxt_fit *make(struct scene *s)
{
	sxt_fit_free(s->fit);
	s->fit = NULL;
	assert_int_equal(sxt_fit_make(&s->logs, &sxt_fit_defaults, &s->fit), 0);
	return s->fit;
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

/* NCCL takes ring everywhere: tree's rule ends where ring takes over. */
static void test_crossover(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;

	add_log(s, DEFAULT, DEFAULT, ring);
	add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, ring);
	add_log(s, SXT_ALGO_TREE, SXT_PROTO_SIMPLE, tree);
	fit = make(s);
	assert_int_equal(fit->rules_cnt, 1);
	assert_int_equal(fit->rules[0].algo, SXT_ALGO_TREE);
	assert_int_equal(fit->rules[0].proto, SXT_PROTO_SIMPLE);
	assert_true(fit->rules[0].when.bytes.min == 0 || fit->rules[0].when.bytes.min == 65536);
	assert_in_range(fit->rules[0].when.bytes.max, 4 * MIB, 8 * MIB + MIB / 4);
	assert_true(fit->rules[0].confidence >= 0.95F);
	assert_true(fit->rules[0].gain > 0.5F);
	assert_int_equal(point_at(fit, MIB)->rule_algo, SXT_ALGO_TREE);
	assert_true(fabs(point_at(fit, MIB)->gain - (1 - 40.0 / 110)) < 0.02);
	assert_int_equal(point_at(fit, 64 * MIB)->rule_algo, -1);
	assert_true(point_at(fit, 64 * MIB)->rule_gain == 0);
}

/* NCCL takes LL128's ring: both others have a rule, and the rules meet. */
static void test_two_rules_meet(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;

	add_log(s, DEFAULT, DEFAULT, (struct line){150, 25});
	add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, ring);
	add_log(s, SXT_ALGO_TREE, SXT_PROTO_SIMPLE, tree);
	fit = make(s);
	assert_int_equal(fit->rules_cnt, 2);
	assert_int_equal(fit->rules[0].algo, SXT_ALGO_TREE);
	assert_int_equal(fit->rules[1].algo, SXT_ALGO_RING);
	assert_int_equal(fit->rules[0].when.bytes.max + 1, fit->rules[1].when.bytes.min);
	assert_in_range(fit->rules[1].when.bytes.min, 4 * MIB, 16 * MIB);
	assert_int_equal(fit->rules[1].when.bytes.max, 1024 * MIB);
}

/* What noise alone sets apart makes no rule, whichever seed made it. */
static void test_noise_makes_no_rule(void **state)
{
	struct scene *s = *state;
	size_t rules = 0;

	s->noise = 0.05;
	s->runs = 3;
	for (unsigned long seed = 1; seed <= 20; seed++) {
		gsl_rng_set(s->rng, seed);
		s->logs.times_cnt = 0;
		add_log(s, DEFAULT, DEFAULT, ring);
		add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, ring);
		add_log(s, SXT_ALGO_RING, SXT_PROTO_LL128, ring);
		rules += make(s)->rules_cnt;
	}
	/* Of 600 chances one in twenty is lucky; a second one beside it is rare. */
	assert_in_range(rules, 0, 6);
}

/* A choice that is as fast for one size in the middle does not cut the rule of the other. */
static void test_hysteresis(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;

	add_log(s, DEFAULT, DEFAULT, (struct line){200, 20});
	add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, ring);
	add_log(s, SXT_ALGO_RING, SXT_PROTO_LL128, (struct line){101, 10.1});
	for (size_t i = 0; i < s->logs.times_cnt; i++) {
		struct sxt_logs_time *time = &s->logs.times[i];

		if (time->bytes == 8 * MIB && time->proto == SXT_PROTO_LL128)
			time->us *= 0.98;
	}
	fit = make(s);
	assert_int_equal(fit->rules_cnt, 1);
	assert_true(fit->rules[0].when.bytes.max == 1024 * MIB);
}

/* Without the default no gain can be told: models, and a note that says so. */
static void test_no_default(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;

	add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, ring);
	add_log(s, SXT_ALGO_TREE, SXT_PROTO_SIMPLE, tree);
	fit = make(s);
	assert_int_equal(fit->rules_cnt, 0);
	assert_int_equal(fit->models_cnt, 2);
	assert_int_equal(fit->notes_cnt, 1);
	assert_non_null(strstr(fit->notes[0], "no log of NCCL's default"));
	assert_true(isnan(point_at(fit, MIB)->gain));
	assert_int_equal(point_at(fit, MIB)->best_algo, SXT_ALGO_TREE);
	for (size_t i = 0; i < fit->models_cnt; i++) {
		struct line line = fit->models[i].algo == SXT_ALGO_TREE ? tree : ring;
		struct sxt_shape shape = {.nodes = 4, .ranks = 32};

		for (uint64_t bytes = MIB; bytes <= 1024 * MIB; bytes *= 4) {
			double us = sxt_model_us(&fit->models[i], shape, bytes);

			assert_true(fabs(us / us_of(line, bytes) - 1) < 0.03);
		}
	}
}

/* Two scales give models of those between, where hops of latency grow and bandwidth stays. */
static void test_between_scales(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;
	size_t found = 0;

	for (s->nodes = 4; s->nodes <= 16; s->nodes *= 4) {
		struct sxt_shape shape = {.nodes = s->nodes, .ranks = 8 * s->nodes};
		struct sxt_hops hops = sxt_hops_of(SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, shape);
		struct line line = {.fixed = 10 + 5.0 * (double)hops.inter,
				    .per_mib = 20 * (double)hops.traffic};

		add_log(s, DEFAULT, DEFAULT, line);
		add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, line);
	}
	fit = make(s);
	assert_int_equal(fit->rules_cnt, 0);
	for (size_t i = 0; i < fit->models_cnt; i++) {
		const struct sxt_model *model = &fit->models[i];
		struct sxt_shape shape = {.nodes = 8, .ranks = 64};
		double hops = 16;
		double us = sxt_model_us(model, shape, 16 * MIB);

		assert_int_equal(model->when.nodes.min, 5);
		assert_int_equal(model->when.nodes.max, 15);
		if (model->when.bytes.min > 16 * MIB || model->when.bytes.max < 16 * MIB)
			continue;
		found++;
		assert_true(fabs(us / (10 + 5 * hops + 20 * 16 * 2 * 63.0 / 64) - 1) < 0.05);
		assert_true(model->margin >= 0.03F);
	}
	assert_int_equal(found, 1);
}

/* A log without NCCL_PROTO cannot become a rule, but is not passed over in silence. */
static void test_proto_not_forced(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;

	add_log(s, DEFAULT, DEFAULT, ring);
	add_log(s, SXT_ALGO_TREE, DEFAULT, tree);
	fit = make(s);
	assert_int_equal(fit->rules_cnt, 0);
	assert_int_equal(fit->notes_cnt, 1);
	assert_non_null(strstr(fit->notes[0], "forced no NCCL_PROTO"));
}

/* What is written is read back to the same, and the same logs give the same text. */
static void test_written(void **state)
{
	struct scene *s = *state;
	const struct sxt_fit *fit = NULL;
	char *text[2] = {NULL, NULL};
	size_t bytes[2] = {0, 0};
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault;

	add_log(s, DEFAULT, DEFAULT, (struct line){150, 25});
	add_log(s, SXT_ALGO_RING, SXT_PROTO_SIMPLE, ring);
	add_log(s, SXT_ALGO_TREE, SXT_PROTO_LL, tree);
	s->nodes = 32;
	add_log(s, SXT_ALGO_TREE, SXT_PROTO_LL, tree);
	for (int i = 0; i < 2; i++) {
		FILE *to = open_memstream(&text[i], &bytes[i]);

		assert_non_null(to);
		fit = make(s);
		assert_int_equal(sxt_fit_write(fit, to), 0);
		fclose(to);
	}
	assert_string_equal(text[0], text[1]);
	if (sxt_rules_parse(text[0], bytes[0], &rules, &fault) != 0)
		fail_msg("line %u: %s\n%s", fault.line, fault.text, text[0]);
	assert_int_equal(rules->rules_cnt, fit->rules_cnt);
	assert_int_equal(rules->models_cnt, fit->models_cnt);
	assert_true(rules->rules_cnt > 0 && rules->models_cnt > 0);
	sxt_rules_free(rules);
	free(text[0]);
	free(text[1]);
}

static void test_nothing(void **state)
{
	struct scene *s = *state;

	assert_int_equal(sxt_fit_make(&s->logs, &sxt_fit_defaults, &s->fit), -ENOENT);
	assert_null(s->fit);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_crossover),  TEST(test_two_rules_meet),   TEST(test_noise_makes_no_rule),
		TEST(test_hysteresis), TEST(test_no_default),       TEST(test_between_scales),
		TEST(test_written),    TEST(test_proto_not_forced), TEST(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
