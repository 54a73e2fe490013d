/*
 * fuzz_rules.c - rules files: what is read is written and read back to the same, and answers any
 * call; what is refused says where and why.
 */
#include "tests/fuzz/fuzz.h"

#include "tuner/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require_round_trip(const struct sxt_rules *rules)
{
	size_t room = 64 + ((size_t)rules->rules_cnt + rules->models_cnt) * SXT_RULE_LINE_BYTES;
	char *text = malloc(room);
	char line[SXT_RULE_LINE_BYTES];
	struct sxt_rules *again = NULL;
	struct sxt_rules_fault fault;
	size_t len;

	FUZZ_REQUIRE(text != NULL);
	len = (size_t)snprintf(text, room, "sextant-rules 1\n");
	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		sxt_rule_write(&rules->rules[i], line);
		len += (size_t)snprintf(text + len, room - len, "%s\n", line);
	}
	for (uint32_t i = 0; i < rules->models_cnt; i++) {
		sxt_model_write(&rules->models[i], line);
		len += (size_t)snprintf(text + len, room - len, "%s\n", line);
	}
	FUZZ_REQUIRE(sxt_rules_parse(text, len, &again, &fault) == 0);
	FUZZ_REQUIRE(again->digest == rules->digest);
	sxt_rules_free(again);
	free(text);
}

static void require_answers(const struct sxt_rules *rules)
{
	float costs[SXT_ALGOS * SXT_PROTOS];
	struct sxt_chooser *chooser = NULL;

	for (size_t i = 0; i < SXT_ALGOS * SXT_PROTOS; i++)
		costs[i] = i % 4 == 0 ? -1 : (float)i;
	FUZZ_REQUIRE(sxt_chooser_make(rules, (struct sxt_shape){2, 16}, NULL, &chooser) == 0);
	for (uint32_t bit = 0; bit < 64 * SXT_COLLS; bit++) {
		struct sxt_call call = {.coll = bit / 64,
					.bytes = 1ull << bit % 64,
					.pipe_ops = bit,
					.reg = (int8_t)(bit % 2),
					.costs = costs,
					.algos = SXT_ALGOS,
					.protos = SXT_PROTOS};
		struct sxt_choice choice = sxt_choose(chooser, &call);

		FUZZ_REQUIRE(choice.algo < SXT_ALGOS && choice.proto < SXT_PROTOS);
		if (choice.source == SXT_CHOICE_RULE || choice.source == SXT_CHOICE_MODEL)
			FUZZ_REQUIRE(costs[choice.algo * SXT_PROTOS + choice.proto] >= 0);
	}
	sxt_chooser_free(chooser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sxt_rules_fault fault = {0};
	struct sxt_rules *rules = NULL;

	if (sxt_rules_parse((const char *)data, bytes, &rules, &fault) != 0) {
		FUZZ_REQUIRE(rules == NULL && fault.text[0] != '\0');
		FUZZ_REQUIRE(memchr(fault.text, '\0', sizeof(fault.text)) != NULL);
		return 0;
	}
	require_round_trip(rules);
	require_answers(rules);
	sxt_rules_free(rules);
	return 0;
}
