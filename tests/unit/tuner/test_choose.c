/*
 * test_choose.c - what is chosen: single cases, any rules against a plain scan of the file, and
 * many instances in many threads.
 */
#include "tuner/choose.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "sextant-rules 1\n"

static const struct sxt_shape shape = {.nodes = 4, .ranks = 32};

static struct sxt_rules *parsed(const char *text)
{
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault = {0};

	if (sxt_rules_parse(text, strlen(text), &rules, &fault) != 0)
		fail_msg("line %u, column %u: %s", fault.line, fault.column, fault.text);
	return rules;
}

static struct sxt_chooser *made(const char *text, struct sxt_shape of)
{
	struct sxt_rules *rules = parsed(text);
	struct sxt_chooser *chooser = NULL;

	assert_int_equal(sxt_chooser_make(rules, of, NULL, &chooser), 0);
	sxt_rules_free(rules);
	return chooser;
}

/* A cost table in which everything costs the same. */
static void level(float costs[SXT_ALGOS * SXT_PROTOS], float cost)
{
	for (size_t i = 0; i < SXT_ALGOS * SXT_PROTOS; i++)
		costs[i] = cost;
}

static struct sxt_call call_of(uint64_t bytes, const float *costs)
{
	return (struct sxt_call){.coll = SXT_COLL_ALL_REDUCE,
				 .bytes = bytes,
				 .pipe_ops = 1,
				 .costs = costs,
				 .algos = SXT_ALGOS,
				 .protos = SXT_PROTOS};
}

static void expect(const char *text, const struct sxt_call *call, enum sxt_choice_source source,
		   uint32_t line)
{
	struct sxt_chooser *chooser = made(text, shape);
	struct sxt_choice choice = sxt_choose(chooser, call);

	sxt_chooser_free(chooser);
	if (choice.source != source || choice.line != line)
		fail_msg("%s\nsource %d, line %u", text, choice.source, choice.line);
}

static void first_rule_that_applies_wins(void **state)
{
	static const char text[] = "allreduce,0,65535,tree,ll,-1,-1,-1\n"
				   "allreduce,0,1M,ring,ll128,8,4,-1\n"
				   "allreduce,0,4294967295,ring,simple,-1,-1,-1\n"
				   "reduce,0,-1,ring,simple,-1,2,-1\n";
	float costs[SXT_ALGOS * SXT_PROTOS] = {0};
	struct sxt_chooser *chooser = made(text, shape);
	struct sxt_call call = call_of(65535, costs);
	struct sxt_choice choice = sxt_choose(chooser, &call);

	(void)state;
	level(costs, 1);
	assert_int_equal(choice.source, SXT_CHOICE_RULE);
	assert_int_equal(choice.algo, SXT_ALGO_TREE);
	assert_int_equal(choice.proto, SXT_PROTO_LL);
	assert_int_equal(choice.channels, 0);
	call.bytes = 65536;
	choice = sxt_choose(chooser, &call);
	assert_int_equal(choice.line, 2);
	assert_int_equal(choice.channels, 8);
	call.bytes = (1 << 20) + 1;
	assert_int_equal(sxt_choose(chooser, &call).line, 3);
	call.bytes = 8ull << 30;
	assert_int_equal(sxt_choose(chooser, &call).source, SXT_CHOICE_NONE);
	call.bytes = UINT64_MAX;
	assert_int_equal(sxt_choose(chooser, &call).source, SXT_CHOICE_NONE);
	call.coll = SXT_COLL_REDUCE;
	assert_int_equal(sxt_choose(chooser, &call).source, SXT_CHOICE_NONE);
	call.coll = SXT_COLLS;
	assert_int_equal(sxt_choose(chooser, &call).source, SXT_CHOICE_NONE);
	assert_int_equal(sxt_choose_chunk(chooser, &call, 0, 0), 0);
	sxt_chooser_free(chooser);
	sxt_chooser_free(NULL);
}

static void what_nccl_cannot_use_is_never_chosen(void **state)
{
	static const float bad[] = {-1, -0.5f, NAN, INFINITY, -INFINITY};
	static const char rule[] = "allreduce,0,-1,pat,simple,-1,-1,-1\n";
	float costs[SXT_ALGOS * SXT_PROTOS] = {0};
	struct sxt_call call = call_of(1, costs);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		level(costs, 1);
		costs[SXT_ALGO_PAT * SXT_PROTOS + SXT_PROTO_SIMPLE] = bad[i];
		expect(rule, &call, SXT_CHOICE_UNAVAILABLE, 1);
	}
	level(costs, 0);
	expect(rule, &call, SXT_CHOICE_RULE, 1);
	call.algos = SXT_ALGO_PAT;
	expect(rule, &call, SXT_CHOICE_UNAVAILABLE, 1);
	call.costs = NULL;
	expect(rule, &call, SXT_CHOICE_UNAVAILABLE, 1);
	call.algos = SXT_ALGOS;
	expect(rule, &call, SXT_CHOICE_RULE, 1);
	call.protos = 2;
	expect(rule, &call, SXT_CHOICE_UNAVAILABLE, 1);
}

static void rules_left_out_by_the_user_are_not_there(void **state)
{
	static bool allowed[SXT_COLLS][SXT_ALGOS][SXT_PROTOS];
	struct sxt_rules *rules = parsed("allreduce,0,-1,tree,ll,-1,-1,-1\n"
					 "allreduce,0,-1,ring,ll,-1,-1,-1\n");
	struct sxt_chooser *chooser = NULL;
	struct sxt_call call = call_of(1, NULL);

	(void)state;
	allowed[SXT_COLL_ALL_REDUCE][SXT_ALGO_RING][SXT_PROTO_LL] = true;
	assert_int_equal(sxt_chooser_make(rules, shape, allowed, &chooser), 0);
	assert_int_equal(sxt_choose(chooser, &call).line, 2);
	sxt_chooser_free(chooser);
	sxt_rules_free(rules);
}

static void chunk_is_that_of_the_rule_for_the_same_choice(void **state)
{
	struct sxt_chooser *chooser =
		made(HEAD "rule coll=allreduce bytes=..1K algo=ring proto=ll chunk=8K\n"
			  "rule coll=allreduce algo=ring proto=simple\n",
		     shape);
	struct sxt_call call = {.coll = SXT_COLL_ALL_REDUCE, .bytes = 1024, .reg = -1};

	(void)state;
	assert_int_equal(sxt_choose_chunk(chooser, &call, SXT_ALGO_RING, SXT_PROTO_LL), 8192);
	assert_int_equal(sxt_choose_chunk(chooser, &call, SXT_ALGO_RING, SXT_PROTO_SIMPLE), 0);
	assert_int_equal(sxt_choose_chunk(chooser, &call, SXT_ALGO_TREE, SXT_PROTO_LL), 0);
	call.bytes = 1025;
	assert_int_equal(sxt_choose_chunk(chooser, &call, SXT_ALGO_RING, SXT_PROTO_SIMPLE), 0);
	sxt_chooser_free(chooser);
}

#define RING_FAST "model coll=allreduce algo=ring proto=simple gbs=100 base_us=10\n"
#define TREE_SLOW "model coll=allreduce algo=tree proto=simple gbs=50 base_us=5\n"

static void model_overrules_only_beyond_its_margin(void **state)
{
	static const char models[] = HEAD RING_FAST TREE_SLOW;
	float costs[SXT_ALGOS * SXT_PROTOS] = {0};
	struct sxt_call call = call_of(64 << 20, costs);

	(void)state;
	level(costs, 9);
	costs[SXT_ALGO_TREE * SXT_PROTOS + SXT_PROTO_SIMPLE] = 1;
	expect(models, &call, SXT_CHOICE_MODEL, 2);
	call.bytes = 1024;
	expect(models, &call, SXT_CHOICE_CLOSE, 3); /* it is NCCL's choice already */
	call.bytes = 265000;
	expect(models, &call, SXT_CHOICE_CLOSE, 2); /* ring is faster by less than 3 % */
	call.bytes = 64 << 20;
	costs[0] = 0; /* NCCL's choice is one that there is no model of */
	expect(models, &call, SXT_CHOICE_CLOSE, 2);
	expect(HEAD "rule coll=allreduce bytes=..1K algo=ring proto=ll\n" RING_FAST, &call,
	       SXT_CHOICE_CLOSE, 3);
	level(costs, -1);
	expect(models, &call, SXT_CHOICE_NONE, 0);
	level(costs, NAN);
	expect(models, &call, SXT_CHOICE_NONE, 0);
	call.costs = NULL;
	expect(models, &call, SXT_CHOICE_NONE, 0);
	call.costs = costs;
	call.protos = 2;
	expect(models, &call, SXT_CHOICE_NONE, 0);
}

/* What the header says, in the plainest way. */
struct plain {
	const struct sxt_rules *rules;
	struct sxt_shape shape;
};

static bool is_in(const struct sxt_range *range, uint64_t value)
{
	return range->min <= value && value <= range->max;
}

static const struct sxt_rule *plain_rule(const struct plain *plain, const struct sxt_call *call)
{
	for (uint32_t i = 0; i < plain->rules->rules_cnt; i++) {
		const struct sxt_when *when = &plain->rules->rules[i].when;

		if (when->coll == call->coll && sxt_when_covers(when, plain->shape) &&
		    is_in(&when->bytes, call->bytes) && is_in(&when->pipe_ops, call->pipe_ops) &&
		    (when->reg < 0 || when->reg == call->reg))
			return &plain->rules->rules[i];
	}
	return NULL;
}

static const struct sxt_model *plain_model(const struct plain *plain, const struct sxt_call *call,
					   uint32_t candidate)
{
	for (uint32_t i = 0; i < plain->rules->models_cnt; i++) {
		const struct sxt_model *model = &plain->rules->models[i];

		if (model->when.coll == call->coll &&
		    sxt_is_possible(model->when.coll, model->algo, model->proto) &&
		    model->algo == candidate / SXT_PROTOS &&
		    model->proto == candidate % SXT_PROTOS &&
		    sxt_when_covers(&model->when, plain->shape) &&
		    is_in(&model->when.bytes, call->bytes))
			return model;
	}
	return NULL;
}

static struct sxt_choice plain_by_model(const struct plain *plain, const struct sxt_call *call)
{
	struct sxt_choice choice = {.source = SXT_CHOICE_NONE};
	const struct sxt_model *best = NULL;
	const struct sxt_model *theirs = NULL;
	float least = HUGE_VALF;
	double best_us = 0;

	for (uint32_t i = 0; i < call->algos * SXT_PROTOS; i++) {
		const struct sxt_model *model = plain_model(plain, call, i);
		double us = model != NULL ? sxt_model_us(model, plain->shape, call->bytes) : 0;

		if (!(call->costs[i] >= 0) || isinf(call->costs[i]))
			continue;
		if (call->costs[i] < least) {
			least = call->costs[i];
			theirs = model;
		}
		if (model != NULL && (best == NULL || us < best_us)) {
			best = model;
			best_us = us;
		}
	}
	if (best == NULL)
		return choice;
	choice.source = SXT_CHOICE_CLOSE;
	if (theirs != NULL && theirs != best &&
	    best_us <= sxt_model_us(theirs, plain->shape, call->bytes) * (1 - (double)best->margin))
		choice.source = SXT_CHOICE_MODEL;
	choice.algo = best->algo;
	choice.proto = best->proto;
	choice.line = best->line;
	return choice;
}

static struct sxt_choice plain_choice(const struct plain *plain, const struct sxt_call *call)
{
	const struct sxt_rule *rule = plain_rule(plain, call);
	struct sxt_choice choice = {0};
	float cost;

	if (rule == NULL)
		return plain_by_model(plain, call);
	cost = rule->algo < call->algos ? call->costs[rule->algo * SXT_PROTOS + rule->proto] : -1;
	choice.source = cost >= 0 && !isinf(cost) ? SXT_CHOICE_RULE : SXT_CHOICE_UNAVAILABLE;
	choice.algo = rule->algo;
	choice.proto = rule->proto;
	choice.channels = rule->channels;
	choice.line = rule->line;
	return choice;
}

/* xorshift64: the same everywhere. */
static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % below;
}

/* A range that is often any, often of one value, with ends that other ranges share. */
static struct sxt_range some_range(uint64_t *seed, uint64_t below)
{
	struct sxt_range range = {draw(seed, below), 0};

	range.max = draw(seed, 3) != 0 ? range.min + draw(seed, below) : UINT64_MAX;
	if (draw(seed, 3) == 0)
		range = (struct sxt_range){0, UINT64_MAX};
	return range;
}

static struct sxt_when some_when(uint64_t *seed)
{
	return (struct sxt_when){
		.coll = draw(seed, 8) == 0 ? (enum sxt_coll)draw(seed, SXT_COLLS)
					   : SXT_COLL_ALL_REDUCE,
		.bytes = some_range(seed, 300),
		.nodes = draw(seed, 4) == 0 ? some_range(seed, 8)
					    : (struct sxt_range){0, UINT64_MAX},
		.ranks = {0, UINT64_MAX},
		.per_node = {0, UINT64_MAX},
		.pipe_ops = some_range(seed, 20),
		.reg = (int8_t)((int)draw(seed, 3) - 1),
	};
}

static void fill_rules(struct sxt_rules *rules, uint64_t *seed)
{
	for (uint32_t i = 0; i < rules->rules_cnt; i++)
		rules->rules[i] = (struct sxt_rule){
			.when = some_when(seed),
			.algo = (enum sxt_algo)draw(seed, SXT_ALGOS),
			.proto = (enum sxt_proto)draw(seed, SXT_PROTOS),
			.channels = (uint32_t)draw(seed, 9),
			.line = i + 2,
		};
	for (uint32_t i = 0; i < rules->models_cnt; i++)
		rules->models[i] = (struct sxt_model){
			.when = some_when(seed),
			.algo = (enum sxt_algo)draw(seed, SXT_ALGOS),
			.proto = (enum sxt_proto)draw(seed, SXT_PROTOS),
			.base_us = (float)draw(seed, 50),
			.inter_us = (float)draw(seed, 5),
			.gbs = (float)(1 + draw(seed, 100)) / 10000,
			.margin = (float)draw(seed, 20) / 100,
			.line = rules->rules_cnt + i + 2,
		};
}

static struct sxt_call some_call(uint64_t *seed, float costs[SXT_ALGOS * SXT_PROTOS])
{
	for (size_t i = 0; i < SXT_ALGOS * SXT_PROTOS; i++) {
		costs[i] = draw(seed, 3) == 0 ? -1.0f : (float)draw(seed, 30);
		if (draw(seed, 50) == 0)
			costs[i] = NAN;
	}
	return (struct sxt_call){
		.coll = draw(seed, 8) == 0 ? (uint32_t)draw(seed, SXT_COLLS) : SXT_COLL_ALL_REDUCE,
		.bytes = draw(seed, 20) == 0 ? draw(seed, 1ull << 40) : draw(seed, 620),
		.pipe_ops = (uint32_t)draw(seed, 42),
		.reg = (int8_t)((int)draw(seed, 3) - 1),
		.costs = costs,
		.algos = draw(seed, 4) == 0 ? SXT_ALGO_PAT : SXT_ALGOS,
		.protos = SXT_PROTOS,
	};
}

static void compare(const struct plain *plain, uint64_t *seed)
{
	struct sxt_chooser *chooser = NULL;
	float costs[SXT_ALGOS * SXT_PROTOS] = {0};

	assert_int_equal(sxt_chooser_make(plain->rules, plain->shape, NULL, &chooser), 0);
	for (int i = 0; i < 2000; i++) {
		uint64_t before = *seed;
		struct sxt_call call = some_call(seed, costs);
		struct sxt_choice is = sxt_choose(chooser, &call);
		struct sxt_choice wanted = plain_choice(plain, &call);

		if (memcmp(&is, &wanted, sizeof(is)) != 0)
			fail_msg("seed %#llx: %d of line %u, expected %d of line %u",
				 (unsigned long long)before, is.source, is.line, wanted.source,
				 wanted.line);
	}
	sxt_chooser_free(chooser);
}

static void any_rules_choose_as_a_plain_scan_does(void **state)
{
	static const uint32_t cnts[][2] = {{1, 0},  {0, 1},   {5, 5},     {60, 20},
					   {64, 0}, {300, 9}, {1000, 40}, {2500, 100}};
	uint64_t seed = 20261201;

	(void)state;
	for (size_t i = 0; i < sizeof(cnts) / sizeof(cnts[0]); i++) {
		struct sxt_rules rules = {.rules_cnt = cnts[i][0], .models_cnt = cnts[i][1]};
		struct plain plain = {.rules = &rules, .shape = shape};

		rules.rules = calloc(rules.rules_cnt + 1, sizeof(*rules.rules));
		rules.models = calloc(rules.models_cnt + 1, sizeof(*rules.models));
		assert_true(rules.rules != NULL && rules.models != NULL);
		for (int turn = 0; turn < 4; turn++) {
			fill_rules(&rules, &seed);
			compare(&plain, &seed);
		}
		/* Models alone, of all collectives. */
		rules.rules_cnt = 0;
		compare(&plain, &seed);
		free(rules.rules);
		free(rules.models);
	}
}

#define INSTANCES 64
#define CALLS     512

struct instance {
	const struct sxt_rules *rules;
	uint64_t seed;
	struct sxt_choice choices[CALLS];
	int rc;
};

/* Asks the same calls as every other instance, in an order of its own. */
static void *ask_shuffled(void *arg)
{
	struct instance *self = arg;
	struct sxt_chooser *chooser = NULL;
	uint32_t order[CALLS] = {0};

	self->rc = sxt_chooser_make(self->rules, shape, NULL, &chooser);
	if (self->rc != 0)
		return NULL;
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t at = draw(&self->seed, i + 1);

		order[i] = order[at];
		order[at] = i;
	}
	for (uint32_t i = 0; i < CALLS; i++) {
		float costs[SXT_ALGOS * SXT_PROTOS] = {0};
		uint64_t seed = 77 + 1001ull * order[i];
		struct sxt_call call = some_call(&seed, costs);

		self->choices[order[i]] = sxt_choose(chooser, &call);
	}
	sxt_chooser_free(chooser);
	return NULL;
}

static void every_instance_answers_alike_in_any_order(void **state)
{
	static struct sxt_rule rule_list[200];
	static struct sxt_model model_list[30];
	static struct instance instances[INSTANCES];
	struct sxt_rules rules = {rule_list, 200, model_list, 30, false, 0};
	pthread_t threads[INSTANCES];
	uint64_t seed = 4711;

	(void)state;
	fill_rules(&rules, &seed);
	for (size_t i = 0; i < INSTANCES; i++) {
		instances[i].rules = &rules;
		instances[i].seed = i + 1;
		assert_int_equal(pthread_create(&threads[i], NULL, ask_shuffled, &instances[i]), 0);
	}
	for (size_t i = 0; i < INSTANCES; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(instances[i].rc, 0);
		assert_memory_equal(instances[i].choices, instances[0].choices,
				    sizeof(instances[0].choices));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_rule_that_applies_wins),
		cmocka_unit_test(what_nccl_cannot_use_is_never_chosen),
		cmocka_unit_test(rules_left_out_by_the_user_are_not_there),
		cmocka_unit_test(chunk_is_that_of_the_rule_for_the_same_choice),
		cmocka_unit_test(model_overrules_only_beyond_its_margin),
		cmocka_unit_test(any_rules_choose_as_a_plain_scan_does),
		cmocka_unit_test(every_instance_answers_alike_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
