/*
 * test_odd.c - what lint finds in rules, against every call tried one by one.
 */
#include "cli/tune/odd.h"

#include "core/compiler.h"
#include "tuner/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Calls of 1 to NODES nodes and fewer than SIZES bytes: a bit for each, so that sets are words. */
#define SIZES     16u
#define NODES     4u
#define RULES_MAX 12u
#define FOUND_MAX 64u

static struct sxt_odd found[FOUND_MAX];
static uint32_t found_cnt;

static void take(const struct sxt_odd *odd, void *arg)
{
	(void)arg;
	assert_true(found_cnt < FOUND_MAX);
	found[found_cnt++] = *odd;
}

static void look(const struct sxt_rules *rules)
{
	found_cnt = 0;
	assert_int_equal(sxt_odd_find(rules, take, NULL), 0);
}

static const struct sxt_odd *finding(uint32_t line, enum sxt_odd_kind kind)
{
	for (uint32_t i = 0; i < found_cnt; i++) {
		if (found[i].line == line && found[i].kind == kind)
			return &found[i];
	}
	return NULL;
}

static void look_at(const char *text)
{
	struct sxt_rules_fault fault;
	struct sxt_rules *rules;

	assert_int_equal(sxt_rules_parse(text, strlen(text), &rules, &fault), 0);
	look(rules);
	sxt_rules_free(rules);
}

static void assert_found(uint32_t line, enum sxt_odd_kind kind, uint32_t other, uint32_t more)
{
	const struct sxt_odd *odd = finding(line, kind);

	assert_non_null(odd);
	assert_int_equal(odd->other, other);
	assert_int_equal(odd->more, more);
}

static void nothing_is_odd_about_bands(void **state)
{
	(void)state;
	look_at("sextant-rules 1\n");
	assert_int_equal(found_cnt, 0);
	look_at("sextant-rules 1\n"
		"rule coll=allreduce bytes=64K..64K nodes=2 algo=ring proto=ll\n" /* an exception */
		"rule coll=allreduce bytes=0..1M algo=tree proto=ll\n"
		"rule coll=allreduce bytes=1048577..inf algo=ring proto=simple\n"
		"rule coll=broadcast algo=ring proto=simple\n");
	assert_int_equal(found_cnt, 0);
}

static void bands_that_meet_in_one_byte_overlap(void **state)
{
	(void)state;
	look_at("sextant-rules 1\n"
		"rule coll=reduce bytes=0..1K algo=ring proto=ll\n"
		"rule coll=reduce bytes=1K..2K algo=ring proto=simple\n"
		"rule coll=reduce bytes=2049..inf algo=ring proto=ll\n");
	assert_int_equal(found_cnt, 1);
	assert_found(3, SXT_ODD_OVERLAP, 2, 0);
	assert_int_equal(found[0].bytes.min, 1024);
	assert_int_equal(found[0].bytes.max, 1024);
}

static void rules_hide_one_together(void **state)
{
	(void)state;
	look_at("sextant-rules 1\n"
		"rule coll=reduce bytes=4K..inf algo=ring proto=simple\n"
		"rule coll=reduce bytes=0..4095 algo=ring proto=ll\n"
		"rule coll=reduce bytes=1K..8K algo=ring proto=ll128\n"
		"rule coll=allgather bytes=1K..8K algo=ring proto=ll128\n");
	assert_int_equal(found_cnt, 1);
	assert_found(4, SXT_ODD_HIDDEN, 2, 1);
}

static void choices_no_nccl_has_are_told(void **state)
{
	(void)state;
	look_at("sextant-rules 1\n"
		"rule coll=broadcast algo=tree proto=simple\n"
		"rule coll=allreduce algo=nvls proto=ll\n"
		"rule coll=allgather algo=pat proto=simple\n"
		"model coll=reduce algo=tree proto=ll gbs=1\n");
	assert_int_equal(found_cnt, 3);
	assert_found(2, SXT_ODD_IMPOSSIBLE, 0, 0);
	assert_found(3, SXT_ODD_IMPOSSIBLE, 0, 0);
	assert_found(5, SXT_ODD_IMPOSSIBLE, 0, 0);
	assert_int_equal(found[1].algo, SXT_ALGO_NVLS);
}

static struct sxt_range draw(uint64_t first, uint64_t last, unsigned int *seed)
{
	uint64_t a = first + (uint64_t)rand_r(seed) % (last - first + 1);
	uint64_t b = first + (uint64_t)rand_r(seed) % (last - first + 1);

	return (struct sxt_range){a < b ? a : b, a < b ? b : a};
}

static void draw_rules(struct sxt_rules *rules, unsigned int seed)
{
	const struct sxt_range any = {0, UINT64_MAX};

	rules->rules_cnt = 1 + (uint32_t)rand_r(&seed) % RULES_MAX;
	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		struct sxt_range nodes = {1, NODES};

		if (rand_r(&seed) % 3 == 0)
			nodes = draw(1, NODES, &seed);
		rules->rules[i] = (struct sxt_rule){
			.when = {rand_r(&seed) % 4 == 0 ? SXT_COLL_REDUCE : SXT_COLL_ALL_REDUCE,
				 draw(0, SIZES - 1, &seed), nodes, any, any, any, -1},
			.algo = SXT_ALGO_RING,
			.proto = (enum sxt_proto)(rand_r(&seed) % SXT_PROTOS),
			.line = i + 2,
		};
	}
}

static uint64_t calls_of(const struct sxt_rule *rule)
{
	uint64_t set = 0;

	for (uint64_t bytes = rule->when.bytes.min; bytes <= rule->when.bytes.max; bytes++) {
		for (uint64_t nodes = rule->when.nodes.min; nodes <= rule->when.nodes.max; nodes++)
			set |= 1ull << (bytes * NODES + nodes - 1);
	}
	return set;
}

static bool same_coll(const struct sxt_rules *rules, uint32_t a, uint32_t b)
{
	return rules->rules[a].when.coll == rules->rules[b].when.coll;
}

/* Rule i is told to be hidden only if no call is left to it; of rules for all nodes always then. */
static void check_hidden(const struct sxt_rules *rules, uint32_t i)
{
	uint64_t left = calls_of(&rules->rules[i]);
	bool is_flat = true;

	for (uint32_t k = 0; k < i; k++) {
		const struct sxt_range *nodes = &rules->rules[k].when.nodes;

		if (!same_coll(rules, i, k))
			continue;
		left &= ~calls_of(&rules->rules[k]);
		is_flat &= nodes->min == 1 && nodes->max == NODES;
	}
	if (finding(i + 2, SXT_ODD_HIDDEN) != NULL)
		assert_int_equal(left, 0);
	else if (is_flat)
		assert_int_not_equal(left, 0);
}

static void check_overlap(const struct sxt_rules *rules, uint32_t i)
{
	const struct sxt_odd *odd = finding(i + 2, SXT_ODD_OVERLAP);
	uint64_t mine = calls_of(&rules->rules[i]);
	uint32_t first = 0;
	uint32_t cnt = 0;

	for (uint32_t k = 0; k < i; k++) {
		uint64_t both = mine & calls_of(&rules->rules[k]);

		if (!same_coll(rules, i, k) || both == 0 || both == mine ||
		    both == calls_of(&rules->rules[k]) ||
		    rules->rules[i].proto == rules->rules[k].proto)
			continue;
		first = cnt++ == 0 ? k + 2 : first;
	}
	if (finding(i + 2, SXT_ODD_HIDDEN) != NULL)
		cnt = 0;
	assert_int_equal(odd != NULL, cnt > 0);
	if (odd != NULL)
		assert_found(i + 2, SXT_ODD_OVERLAP, first, cnt - 1);
}

/* Is there a rule for these bytes whose nodes are those of rule i, or more? */
static bool is_had(const struct sxt_rules *rules, uint32_t i, uint64_t bytes)
{
	const struct sxt_range *mine = &rules->rules[i].when.nodes;

	for (uint32_t k = 0; k < rules->rules_cnt; k++) {
		const struct sxt_when *when = &rules->rules[k].when;

		if (same_coll(rules, i, k) && when->nodes.min <= mine->min &&
		    when->nodes.max >= mine->max && when->bytes.min <= bytes &&
		    when->bytes.max >= bytes)
			return true;
	}
	return false;
}

static void check_hole(const struct sxt_rules *rules, uint32_t i)
{
	const struct sxt_odd *odd = finding(i + 2, SXT_ODD_HOLE);
	const struct sxt_when *mine = &rules->rules[i].when;
	uint64_t end = 0;
	uint64_t from = mine->bytes.max + 1;
	uint64_t to;

	for (uint32_t k = 0; k < rules->rules_cnt; k++) {
		const struct sxt_when *when = &rules->rules[k].when;

		if (same_coll(rules, i, k) && when->nodes.min == mine->nodes.min &&
		    when->nodes.max == mine->nodes.max && when->bytes.min >= from &&
		    (end == 0 || when->bytes.min < end))
			end = when->bytes.min;
	}
	while (from < end && is_had(rules, i, from))
		from++;
	assert_int_equal(odd != NULL, from < end);
	if (odd == NULL)
		return;
	for (to = from; to + 1 < end && !is_had(rules, i, to + 1); to++)
		;
	assert_int_equal(odd->bytes.min, from);
	assert_int_equal(odd->bytes.max, to);
}

static void findings_are_those_of_every_call_tried(void **state)
{
	uint32_t kinds[SXT_ODD_HOLE + 1] = {0};

	(void)state;
	for (unsigned int seed = 1; seed <= 2000; seed++) {
		struct sxt_rule list[RULES_MAX];
		struct sxt_rules rules = {.rules = list};

		draw_rules(&rules, seed);
		look(&rules);
		for (uint32_t i = 0; i < rules.rules_cnt; i++) {
			check_hidden(&rules, i);
			check_overlap(&rules, i);
			check_hole(&rules, i);
		}
		for (uint32_t i = 0; i < found_cnt; i++) {
			kinds[found[i].kind]++;
			assert_true(i == 0 || found[i - 1].line <= found[i].line);
		}
	}
	assert_true(kinds[SXT_ODD_HIDDEN] > 100 && kinds[SXT_ODD_OVERLAP] > 100 &&
		    kinds[SXT_ODD_HOLE] > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_odd_about_bands),
		cmocka_unit_test(bands_that_meet_in_one_byte_overlap),
		cmocka_unit_test(rules_hide_one_together),
		cmocka_unit_test(choices_no_nccl_has_are_told),
		cmocka_unit_test(findings_are_those_of_every_call_tried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
