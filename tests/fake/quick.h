/*
 * quick.h - a verbs library file that costs next to nothing, for measuring what posts to it: RC
 * queue pairs in one process, every write delivered while it is posted. It exports libibverbs'
 * symbols, so that the built plugin opens it by NCCL_IBVERBS_LIB.
 *
 * It believes its callers: keys, bounds and queue depths are what verbs.h is for. An immediate that
 * meets no receive and a completion queue that overflows are counted and lost.
 */
#ifndef SXT_TESTS_FAKE_QUICK_H
#define SXT_TESTS_FAKE_QUICK_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_QUICK_DEVICES 8

/* What was done since the program began, and what is alive. */
struct sxt_quick_counts {
	uint64_t send_wrs;
	uint64_t send_calls; /* doorbells */
	uint64_t recv_wrs;
	uint64_t recv_calls;
	uint64_t completions;
	uint64_t polls;
	uint64_t rnr_naks;
	uint64_t cq_overruns;
	uint64_t registered_bytes; /* alive */
	uint64_t cqs_alive;
	uint64_t qps_alive;
};

/**
 * sxt_quick_counts() - what was done so far.
 * @out: filled.
 */
SXT_EXPORT void sxt_quick_counts(struct sxt_quick_counts *out);

/**
 * sxt_quick_hold() - let no completion be seen, or all of them again.
 * @hold: which.
 */
SXT_EXPORT void sxt_quick_hold(bool hold);

#endif
