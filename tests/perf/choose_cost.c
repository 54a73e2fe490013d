/*
 * choose_cost.c - calls of sxt_choose() with 1,000 rules, each scenario the dearest of its kind.
 * Run by choose_cost.py, which has their instructions counted.
 */
#include "tuner/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES 1000u
#define CALLS 1000u

/* Ranges that all hold one size, each with other ends; and for pipe_ops and reg one that holds none
 * of the calls, so that no rule is spared and none applies. */
static void fill_rules(struct sxt_rule *rules)
{
	for (uint32_t i = 0; i < RULES; i++)
		rules[i] = (struct sxt_rule){
			.when = {.coll = SXT_COLL_ALL_REDUCE,
				 .bytes = {1000 + i, 1000000 + 2ull * i},
				 .nodes = {0, UINT64_MAX},
				 .ranks = {0, UINT64_MAX},
				 .per_node = {0, UINT64_MAX},
				 .pipe_ops = {2 + i, 3 + i},
				 .reg = (int8_t)(i % 2)},
			.algo = SXT_ALGO_RING,
			.proto = SXT_PROTO_SIMPLE,
			.line = i + 2,
		};
}

/* All candidates modelled, with crossings between each two. */
static void fill_models(struct sxt_model *models)
{
	for (uint32_t i = 0; i < SXT_ALGOS * SXT_PROTOS; i++)
		models[i] = (struct sxt_model){
			.when = {.coll = SXT_COLL_ALL_REDUCE,
				 .bytes = {0, UINT64_MAX},
				 .nodes = {0, UINT64_MAX},
				 .ranks = {0, UINT64_MAX},
				 .per_node = {0, UINT64_MAX},
				 .reg = -1},
			.algo = (enum sxt_algo)(i / SXT_PROTOS),
			.proto = (enum sxt_proto)(i % SXT_PROTOS),
			.base_us = 5 + (float)(i * i),
			.gbs = 1 + (float)i,
			.margin = 0.03f,
			.line = i + 2,
		};
}

struct scenario {
	const char *name;
	uint32_t rules;
	uint32_t models;
	uint64_t bytes;
	uint32_t pipe_ops;
	int8_t reg;
	bool is_rising; /* NCCL's costs; falling, its choice is the last that is looked at */
	bool is_last;   /* NCCL can use the two slowest by the models alone */
};

static const struct scenario scenarios[] = {
	{"no_rule", 0, 0, 500000, 1, 0, true, false},
	{"first_of_1000", RULES, 0, 500000, 2, 0, true, false},
	{"last_of_1000", RULES, 0, 500000, RULES + 1, 1, true, false},
	{"none_of_1000", RULES, 0, 500000, 1, 0, true, false},
	{"model", 0, SXT_ALGOS *SXT_PROTOS, 500000, 1, 0, false, false},
	{"none_of_1000_then_model", RULES, SXT_ALGOS *SXT_PROTOS, 500000, 1, 0, true, false},
	{"the_same_with_falling_costs", RULES, SXT_ALGOS *SXT_PROTOS, 500000, RULES + 3, 1, false,
	 false},
	{"slowest_of_models", 0, SXT_ALGOS *SXT_PROTOS, 500000, 1, 0, false, true},
};

static int run(const struct scenario *scenario, struct sxt_rules *rules)
{
	struct sxt_chooser *chooser = NULL;
	float costs[SXT_ALGOS * SXT_PROTOS];
	struct sxt_call call = {.coll = SXT_COLL_ALL_REDUCE,
				.bytes = scenario->bytes,
				.pipe_ops = scenario->pipe_ops,
				.reg = scenario->reg,
				.costs = costs,
				.algos = SXT_ALGOS,
				.protos = SXT_PROTOS};
	struct sxt_choice choice = {0};

	for (uint32_t i = 0; i < SXT_ALGOS * SXT_PROTOS; i++) {
		costs[i] = scenario->is_rising ? 10 + (float)i : 50 - (float)i;
		if (scenario->is_last && i > 1)
			costs[i] = -1;
	}
	rules->rules_cnt = scenario->rules;
	rules->models_cnt = scenario->models;
	if (sxt_chooser_make(rules, (struct sxt_shape){16, 128}, NULL, &chooser) != 0)
		return EXIT_FAILURE;
	for (uint32_t i = 0; i < CALLS; i++)
		choice = sxt_choose(chooser, &call);
	printf("%u %d %u\n", CALLS, choice.source, choice.line);
	sxt_chooser_free(chooser);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct sxt_rule rule_list[RULES];
	static struct sxt_model model_list[SXT_ALGOS * SXT_PROTOS];
	struct sxt_rules rules = {.rules = rule_list, .models = model_list};

	fill_rules(rule_list);
	fill_models(model_list);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (argc == 1)
			puts(scenarios[i].name);
		else if (strcmp(argv[1], scenarios[i].name) == 0)
			return run(&scenarios[i], &rules);
	}
	return argc == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
