/*
 * stalls.h - the watcher's look, a few times per SEXTANT_STALL_SECONDS, at every connection's
 * telemetry counters: who waits too long is told in the log and in the segment.
 */
#ifndef SXT_IB_STALLS_H
#define SXT_IB_STALLS_H

#include "core/compiler.h"

struct sxt_ib;
struct sxt_stalls;

/**
 * sxt_stalls_create() - a look-out for stalls.
 * @ib: its settings and segment are set. @out: set on success, to NULL where nothing is looked at:
 * without telemetry, or with SEXTANT_STALL_SECONDS=0. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_stalls_create(struct sxt_ib *ib, struct sxt_stalls **out);

/** sxt_stalls_destroy() - end it. @stalls: NULL is fine. */
void sxt_stalls_destroy(struct sxt_stalls *stalls);

/**
 * sxt_stalls_next_ns() - when sxt_stalls_run() has something to do.
 * @stalls: NULL is fine. Thread: the watcher. Return: a time, UINT64_MAX for never.
 */
uint64_t sxt_stalls_next_ns(const struct sxt_stalls *stalls);

/**
 * sxt_stalls_run() - look, and tell what is due.
 * @stalls: NULL is fine. @now_ns: does nothing before it is due. @now_ticks: on the segment's
 * clock. Thread: the watcher, takes its lock. Path: slow, reads counters of a port after a write
 * has been under way for half of the time that makes a stall, without the lock.
 */
void sxt_stalls_run(struct sxt_stalls *stalls, uint64_t now_ns, uint64_t now_ticks);

#endif
