/*
 * forced.h - what NCCL_ALGO and NCCL_PROTO leave to the tuner. Pure functions.
 */
#ifndef SXT_PLUGIN_FORCED_H
#define SXT_PLUGIN_FORCED_H

#include "tuner/words.h"

#include <stdbool.h>

struct sxt_forced {
	bool is_named[SXT_COLLS]; /* what to use for it is said: NCCL decides alone */
	bool allowed[SXT_COLLS][SXT_ALGOS][SXT_PROTOS];
};

/**
 * sxt_forced_read() - read both as NCCL does: `ring,tree` for every collective, `allreduce:tree`
 * for one, `;` between, `^` in front for all but these; the last word about a collective counts.
 * @algo, @proto: NCCL_ALGO and NCCL_PROTO; NULL where unset. What NCCL would not understand counts
 * as saying what to use.
 * @out: written.
 */
void sxt_forced_read(const char *algo, const char *proto, struct sxt_forced *out);

#endif
