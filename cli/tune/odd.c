/*
 * odd.c - rules compared with each other: hidden, overlapping, and holes between their sizes.
 *
 * The rules are gone through by their smallest size; the active ones are those begun that have not
 * ended, so that every two with a size in common are compared once, when the later of them begins.
 */
#include "cli/tune/odd.h"

#include "tuner/words.h"

#include <errno.h>
#include <stdlib.h>

/* A rule and what is known of it. */
struct entry {
	const struct sxt_rule *rule;
	uint64_t from;  /* smallest size that no earlier rule was seen to answer */
	bool is_hidden; /* there is none */
	struct sxt_odd hidden;
	struct sxt_odd overlap; /* line 0: none */
	struct sxt_odd hole;    /* line 0: none */
};

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

/* One more of a kind; the one in the earliest line is named. */
static void count(struct sxt_odd *odd, struct sxt_odd one)
{
	uint32_t cnt = odd->line == 0 ? 0 : odd->more + 1;

	if (cnt == 0 || one.other < odd->other)
		*odd = one;
	odd->more = cnt;
}

/* The sizes come in the order of their beginnings, so what they leave out is never had later. */
static void hide(struct entry *late, const struct sxt_rule *early)
{
	const struct sxt_range *bytes = &early->when.bytes;

	if (late->is_hidden || bytes->min > late->from || bytes->max < late->from)
		return;
	count(&late->hidden, (struct sxt_odd){.kind = SXT_ODD_HIDDEN,
					      .line = late->rule->line,
					      .other = early->line,
					      .bytes = late->rule->when.bytes});
	late->is_hidden = bytes->max >= late->rule->when.bytes.max;
	late->from = bytes->max + !late->is_hidden;
}

/* A narrow rule before a wide one, or behind it, is how exceptions are written. */
static bool overlaps(const struct sxt_rule *early, const struct sxt_rule *late)
{
	const struct sxt_when *a = &early->when;
	const struct sxt_when *b = &late->when;

	return meet_all(a, b) && !same_answer(early, late) &&
	       !(has_others(a, b) && has(&a->bytes, &b->bytes)) &&
	       !(has_others(b, a) && has(&b->bytes, &a->bytes));
}

static void compare(struct entry *a, struct entry *b)
{
	struct entry *late = a->rule > b->rule ? a : b;
	const struct sxt_rule *early = late == a ? b->rule : a->rule;
	struct sxt_range both = late->rule->when.bytes;

	if (has_others(&early->when, &late->rule->when))
		hide(late, early);
	if (!overlaps(early, late->rule))
		return;
	if (early->when.bytes.min > both.min)
		both.min = early->when.bytes.min;
	if (early->when.bytes.max < both.max)
		both.max = early->when.bytes.max;
	count(&late->overlap, (struct sxt_odd){.kind = SXT_ODD_OVERLAP,
					       .line = late->rule->line,
					       .other = early->line,
					       .bytes = both});
}

/* @active: room for all of @entries[0..cnt), which lie by their smallest size. */
static void compare_all(struct entry *entries, uint32_t cnt, struct entry **active)
{
	uint32_t active_cnt = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct sxt_when *when = &entries[i].rule->when;
		uint32_t kept = 0;

		for (uint32_t k = 0; k < active_cnt; k++) {
			const struct sxt_when *other = &active[k]->rule->when;

			if (other->coll != when->coll || other->bytes.max < when->bytes.min)
				continue;
			compare(active[k], &entries[i]);
			active[kept++] = active[k];
		}
		active[kept++] = &entries[i];
		active_cnt = kept;
	}
}

/* The next rule for the same calls of larger sizes. */
static const struct sxt_rule *next_of(const struct entry *entries, uint32_t cnt, uint32_t i)
{
	const struct sxt_when *when = &entries[i].rule->when;

	for (uint32_t k = i + 1; k < cnt && entries[k].rule->when.coll == when->coll; k++) {
		const struct sxt_when *other = &entries[k].rule->when;

		if (other->bytes.min > when->bytes.max && has_others(other, when) &&
		    has_others(when, other))
			return entries[k].rule;
	}
	return NULL;
}

/* The first sizes above a rule's, below the next one's, that no rule has. */
static void find_hole(struct entry *entries, uint32_t cnt, uint32_t i)
{
	const struct sxt_rule *rule = entries[i].rule;
	const struct sxt_rule *next = next_of(entries, cnt, i);
	uint64_t from = rule->when.bytes.max + 1;

	for (uint32_t k = 0; k < cnt && next != NULL && from < next->when.bytes.min; k++) {
		const struct sxt_when *other = &entries[k].rule->when;

		if (!has_others(other, &rule->when) || other->bytes.max < from)
			continue;
		if (other->bytes.min > from) {
			next = entries[k].rule;
			break;
		}
		from = other->bytes.max + (other->bytes.max < UINT64_MAX);
	}
	if (next == NULL || from >= next->when.bytes.min)
		return;
	entries[i].hole = (struct sxt_odd){.kind = SXT_ODD_HOLE,
					   .line = rule->line,
					   .other = next->line,
					   .bytes = {from, next->when.bytes.min - 1}};
}

static int by_size(const void *a, const void *b)
{
	const struct sxt_rule *x = ((const struct entry *)a)->rule;
	const struct sxt_rule *y = ((const struct entry *)b)->rule;

	if (x->when.coll != y->when.coll)
		return x->when.coll < y->when.coll ? -1 : 1;
	if (x->when.bytes.min != y->when.bytes.min)
		return x->when.bytes.min < y->when.bytes.min ? -1 : 1;
	return x < y ? -1 : 1;
}

static int by_line(const void *a, const void *b)
{
	return ((const struct entry *)a)->rule < ((const struct entry *)b)->rule ? -1 : 1;
}

static void tell_impossible(const struct sxt_odd *odd,
			    void (*found)(const struct sxt_odd *odd, void *arg), void *arg)
{
	if (!sxt_is_possible(odd->coll, odd->algo, odd->proto))
		found(odd, arg);
}

static void tell(const struct entry *entry, void (*found)(const struct sxt_odd *odd, void *arg),
		 void *arg)
{
	tell_impossible(&(struct sxt_odd){.kind = SXT_ODD_IMPOSSIBLE,
					  .line = entry->rule->line,
					  .coll = entry->rule->when.coll,
					  .algo = entry->rule->algo,
					  .proto = entry->rule->proto,
					  .bytes = entry->rule->when.bytes},
			found, arg);
	if (entry->is_hidden)
		found(&entry->hidden, arg);
	else if (entry->overlap.line != 0)
		found(&entry->overlap, arg);
	if (entry->hole.line != 0)
		found(&entry->hole, arg);
}

int sxt_odd_find(const struct sxt_rules *rules, void (*found)(const struct sxt_odd *odd, void *arg),
		 void *arg)
{
	uint32_t cnt = rules->rules_cnt;
	struct entry *entries = calloc(cnt + 1, sizeof(*entries));
	struct entry **active = calloc(cnt + 1, sizeof(struct entry *));
	int rc = entries != NULL && active != NULL ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < cnt && rc == 0; i++)
		entries[i] = (struct entry){.rule = &rules->rules[i],
					    .from = rules->rules[i].when.bytes.min};
	if (rc == 0) {
		qsort(entries, cnt, sizeof(*entries), by_size);
		compare_all(entries, cnt, active);
		for (uint32_t i = 0; i < cnt; i++)
			find_hole(entries, cnt, i);
		qsort(entries, cnt, sizeof(*entries), by_line);
	}
	for (uint32_t i = 0; i < cnt && rc == 0; i++)
		tell(&entries[i], found, arg);
	for (uint32_t i = 0; i < rules->models_cnt && rc == 0; i++) {
		const struct sxt_model *model = &rules->models[i];

		tell_impossible(&(struct sxt_odd){.kind = SXT_ODD_IMPOSSIBLE,
						  .line = model->line,
						  .coll = model->when.coll,
						  .algo = model->algo,
						  .proto = model->proto,
						  .bytes = model->when.bytes},
				found, arg);
	}
	free(active);
	free(entries);
	return rc;
}
