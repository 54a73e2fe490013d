/*
 * odd.h - what is odd about rules that can all be read: ones that never answer, ones that meet,
 * sizes between them that none has, and choices that no NCCL has.
 */
#ifndef SXT_CLI_TUNE_ODD_H
#define SXT_CLI_TUNE_ODD_H

#include "tuner/rules.h"

enum sxt_odd_kind {
	SXT_ODD_IMPOSSIBLE, /* sxt_is_possible() says no: NCCL chooses where the rule applies */
	SXT_ODD_HIDDEN,     /* earlier rules answer all of its calls */
	SXT_ODD_OVERLAP, /* an earlier rule answers some of them, and neither is within the other */
	SXT_ODD_HOLE     /* between two rules that differ in their sizes alone */
};

/* One finding. */
struct sxt_odd {
	enum sxt_odd_kind kind;
	uint32_t line;          /* of the rule or model, of a hole the rule's above it */
	uint32_t other;         /* line of the other rule: the first of several */
	uint32_t more;          /* rules besides that one: that hide it, that it meets */
	struct sxt_range bytes; /* that are concerned, with the first of several */
	enum sxt_coll coll;     /* of an impossible one, with what it names */
	enum sxt_algo algo;
	enum sxt_proto proto;
};

/**
 * sxt_odd_find() - look for all of them. The time grows with the number of pairs of rules of one
 * collective that have a size in common.
 * @rules: parsed. @found: called at most three times for each rule and once for each model, by
 * line for each of the two. @arg: its argument.
 * Return: 0, -ENOMEM before anything was found.
 */
SXT_MUST_CHECK int sxt_odd_find(const struct sxt_rules *rules,
				void (*found)(const struct sxt_odd *odd, void *arg), void *arg);

#endif
