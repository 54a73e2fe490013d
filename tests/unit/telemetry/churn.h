/*
 * churn.h - a writer that does everything a process can do to its segment, in a pattern that a
 * reader can check: what is torn does not fit.
 */
#ifndef SXT_TESTS_UNIT_TELEMETRY_CHURN_H
#define SXT_TESTS_UNIT_TELEMETRY_CHURN_H

#include "telemetry/own.h"
#include "telemetry/reader.h"

/**
 * churn_step() - open, count on, fail and end connections, set a port, tell an event.
 * @tele: the segment. @round: a number of the caller's; texts and counters are made of it.
 */
void churn_step(struct sxt_tele *tele, uint32_t round);

/* What a reader saw last; zeroed before the first look. */
struct churn_seen {
	uint64_t bytes[64]; /* by record */
	uint32_t generation[64];
	uint64_t events;
	uint64_t looks; /* records that were whole */
};

/**
 * churn_check() - look at every record once; a cmocka assertion fails on what is torn or went
 * back. @view: of a segment with at most 64 connections. @seen: kept between calls.
 */
void churn_check(struct sxt_tele_view *view, struct churn_seen *seen);

#endif
