/*
 * odd.c - rules compared with each other: hidden, overlapping, and holes between their sizes.
 */
#include "cli/tune/odd.h"

static bool has(const struct sxt_range *outer, const struct sxt_range *inner)
{
	return outer->min <= inner->min && outer->max >= inner->max;
}

static bool meet(const struct sxt_range *a, const struct sxt_range *b)
{
	return a->min <= b->max && b->min <= a->max;
}

/* In all but the sizes. */
static bool has_others(const struct sxt_when *outer, const struct sxt_when *inner)
{
	return outer->coll == inner->coll && has(&outer->nodes, &inner->nodes) &&
	       has(&outer->ranks, &inner->ranks) && has(&outer->per_node, &inner->per_node) &&
	       has(&outer->pipe_ops, &inner->pipe_ops) &&
	       (outer->reg < 0 || outer->reg == inner->reg);
}

static bool meet_all(const struct sxt_when *a, const struct sxt_when *b)
{
	return a->coll == b->coll && meet(&a->bytes, &b->bytes) && meet(&a->nodes, &b->nodes) &&
	       meet(&a->ranks, &b->ranks) && meet(&a->per_node, &b->per_node) &&
	       meet(&a->pipe_ops, &b->pipe_ops) && (a->reg < 0 || b->reg < 0 || a->reg == b->reg);
}

static bool same_answer(const struct sxt_rule *a, const struct sxt_rule *b)
{
	return a->algo == b->algo && a->proto == b->proto && a->channels == b->channels &&
	       a->chunk == b->chunk;
}

/*
 * How far from @from on the sizes of a rule's calls are answered by @rules[0..cnt): to the size
 * before the one returned. @first: line of a rule that does, where it is 0.
 */
static uint64_t answered_to(const struct sxt_rule *rules, uint32_t cnt, const struct sxt_when *when,
			    uint64_t from, uint32_t *first)
{
	bool grows = true;

	while (grows && from <= when->bytes.max) {
		grows = false;
		for (uint32_t i = 0; i < cnt && !grows; i++) {
			const struct sxt_when *w = &rules[i].when;

			grows = has_others(w, when) && w->bytes.min <= from && w->bytes.max >= from;
			if (grows && *first == 0)
				*first = rules[i].line;
			if (grows && w->bytes.max == UINT64_MAX)
				return UINT64_MAX;
			if (grows)
				from = w->bytes.max + 1;
		}
	}
	return from;
}

static bool is_hidden(const struct sxt_rules *rules, uint32_t i, struct sxt_odd *out)
{
	const struct sxt_when *when = &rules->rules[i].when;
	uint32_t first = 0;
	uint64_t to = answered_to(rules->rules, i, when, when->bytes.min, &first);

	*out = (struct sxt_odd){SXT_ODD_HIDDEN, rules->rules[i].line, first, when->bytes};
	return first != 0 && (to > when->bytes.max || to == UINT64_MAX);
}

/* A narrow rule before a wide one, or behind it, is how exceptions are written. */
static bool overlaps(const struct sxt_rule *early, const struct sxt_rule *late, struct sxt_odd *out)
{
	const struct sxt_when *a = &early->when;
	const struct sxt_when *b = &late->when;

	*out = (struct sxt_odd){SXT_ODD_OVERLAP, late->line, early->line, b->bytes};
	if (a->bytes.min > out->bytes.min)
		out->bytes.min = a->bytes.min;
	if (a->bytes.max < out->bytes.max)
		out->bytes.max = a->bytes.max;
	return meet_all(a, b) && !same_answer(early, late) &&
	       !(has_others(a, b) && has(&a->bytes, &b->bytes)) &&
	       !(has_others(b, a) && has(&b->bytes, &a->bytes));
}

/* The next rule for the same calls of larger sizes, with no rule for those between. */
static bool has_hole(const struct sxt_rules *rules, uint32_t i, struct sxt_odd *out)
{
	const struct sxt_rule *rule = &rules->rules[i];
	const struct sxt_rule *next = NULL;
	struct sxt_when gap = rule->when;
	uint32_t first = 0;

	if (rule->when.bytes.max == UINT64_MAX)
		return false;
	for (uint32_t k = 0; k < rules->rules_cnt; k++) {
		const struct sxt_rule *other = &rules->rules[k];

		if (has_others(&other->when, &rule->when) &&
		    has_others(&rule->when, &other->when) &&
		    other->when.bytes.min > rule->when.bytes.max &&
		    (next == NULL || other->when.bytes.min < next->when.bytes.min))
			next = other;
	}
	if (next == NULL || next->when.bytes.min == rule->when.bytes.max + 1)
		return false;
	gap.bytes = (struct sxt_range){rule->when.bytes.max + 1, next->when.bytes.min - 1};
	gap.bytes.min = answered_to(rules->rules, rules->rules_cnt, &gap, gap.bytes.min, &first);
	*out = (struct sxt_odd){SXT_ODD_HOLE, rule->line, next->line, gap.bytes};
	return gap.bytes.min <= gap.bytes.max;
}

void sxt_odd_find(const struct sxt_rules *rules,
		  void (*found)(const struct sxt_odd *odd, void *arg), void *arg)
{
	struct sxt_odd odd;

	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		if (is_hidden(rules, i, &odd)) {
			found(&odd, arg);
			continue;
		}
		for (uint32_t k = 0; k < i; k++) {
			if (overlaps(&rules->rules[k], &rules->rules[i], &odd))
				found(&odd, arg);
		}
	}
	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		if (has_hole(rules, i, &odd))
			found(&odd, arg);
	}
}
