/*
 * odd.h - what is odd about rules that can all be read: ones that never answer, ones that meet,
 * sizes between them that none has.
 */
#ifndef SXT_CLI_TUNE_ODD_H
#define SXT_CLI_TUNE_ODD_H

#include "tuner/rules.h"

enum sxt_odd_kind {
	SXT_ODD_HIDDEN,  /* earlier rules answer all of its calls */
	SXT_ODD_OVERLAP, /* an earlier rule answers some of them, and neither is within the other */
	SXT_ODD_HOLE     /* between two rules that differ in their sizes alone */
};

/* One finding. */
struct sxt_odd {
	enum sxt_odd_kind kind;
	uint32_t line;          /* of the rule, of a hole the one above it */
	uint32_t other;         /* line of the other rule; of a hidden one the first of several */
	struct sxt_range bytes; /* that are concerned */
};

/**
 * sxt_odd_find() - look for all of them. The time is quadratic in the number of rules.
 * @rules: parsed. @found: called for each, by line for each kind. @arg: its argument.
 */
void sxt_odd_find(const struct sxt_rules *rules,
		  void (*found)(const struct sxt_odd *odd, void *arg), void *arg);

#endif
