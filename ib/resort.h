/*
 * resort.h - where the NICs that NCCL named do not reach each other: other ports of the two hosts,
 * as a last resort. The connecting end chooses, the accepting end follows; the whole connection
 * moves, before NCCL has it, since memory is registered for one NIC.
 */
#ifndef SXT_IB_RESORT_H
#define SXT_IB_RESORT_H

#include "core/compiler.h"
#include "ib/wire.h"

#include <stdbool.h>

/* Moves over ports in one subnet, the return from them, and moves over the others. */
#define SXT_RESORT_NEAR_MAX  16
#define SXT_RESORT_FAR_MAX   8
#define SXT_RESORT_MOVES_MAX (SXT_RESORT_NEAR_MAX + 1 + SXT_RESORT_FAR_MAX)

/* A NIC of each end, by their numbers; SXT_RESORT_NAMED the one that NCCL named. */
struct sxt_resort_move {
	uint8_t from;
	uint8_t to;
	bool is_whole; /* every pair has its turns, with patience; else the best ones */
};

struct sxt_resort_plan {
	uint32_t near_cnt; /* moves within a subnet, the first ones */
	uint32_t moves_cnt;
	struct sxt_resort_move moves[SXT_RESORT_MOVES_MAX];
};

/* One end: addresses of the NIC that NCCL named, and the best one of each other port. */
struct sxt_resort_end {
	const struct sxt_wire_candidate *named;
	const struct sxt_wire_candidate *others; /* their place is the number of the port's NIC */
	uint32_t named_cnt;
	uint32_t others_cnt;
};

/**
 * sxt_resort_plan_make() - which NICs to move a connection to, in order.
 * @from, @to: both ends. @out: written: first what has an address in one subnet, the fewer named
 * NICs are left the later; then once more the named ones, if anything came before; then ports that
 * only a router could join.
 * Thread: any, pure.
 */
void sxt_resort_plan_make(const struct sxt_resort_end *from, const struct sxt_resort_end *to,
			  struct sxt_resort_plan *out);

#endif
