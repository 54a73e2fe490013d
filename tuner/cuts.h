/*
 * cuts.h - a line of numbers cut into intervals, and which one a number is in.
 */
#ifndef SXT_TUNER_CUTS_H
#define SXT_TUNER_CUTS_H

#include "tuner/rules.h"

/* from[0] is 0; behind the last begin comes UINT64_MAX, up to a power of 16. */
struct sxt_cuts {
	uint64_t *from;   /* where each interval begins */
	uint32_t cnt;     /* intervals */
	uint32_t step;    /* bytes of a 16th of the room that is in use */
	uint32_t touched; /* cuts so far, while it is made */
	uint32_t room;
};

/**
 * sxt_cuts_add() - cut where a range begins and behind its end.
 * @cuts: not ready yet. @range: to cut out. Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_cuts_add(struct sxt_cuts *cuts, const struct sxt_range *range);

/**
 * sxt_cuts_ready() - sort the cuts, for sxt_cuts_find().
 * @cuts: to which no more is added until it is made again. Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_cuts_ready(struct sxt_cuts *cuts);

/** sxt_cuts_fini() - free them. @cuts: zeroed is fine. */
void sxt_cuts_fini(struct sxt_cuts *cuts);

/**
 * sxt_cuts_step() - one comparison of a search.
 * @at: a begin that is not above the value. @bytes: how far on the next one is that it may be.
 * @value: to find. Return: that one, or @at.
 */
static inline const char *sxt_cuts_step(const char *at, size_t bytes, uint64_t value)
{
	const char *next = at + bytes;

	return *(const uint64_t *)next <= value ? next : at;
}

/**
 * sxt_cuts_find() - the interval that a number is in.
 * @cuts: ready. @value: to find; the largest number of all is found at the end of the room.
 * Path: hot: a comparison for each doubling of the intervals, and no branch but one for each four.
 * Return: its index, below room.
 */
static inline size_t sxt_cuts_find(const struct sxt_cuts *cuts, uint64_t value)
{
	const char *first = (const char *)cuts->from;
	const char *at = first;

	for (size_t step = cuts->step; step != 0; step /= 16) {
		at = sxt_cuts_step(at, step * 8, value);
		at = sxt_cuts_step(at, step * 4, value);
		at = sxt_cuts_step(at, step * 2, value);
		at = sxt_cuts_step(at, step, value);
	}
	return (size_t)(at - first) / sizeof(*cuts->from);
}

#endif
