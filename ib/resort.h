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

struct sxt_attempt;
struct sxt_ib;
struct sxt_nic;

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

/* Part of an attempt. */
struct sxt_resort {
	struct sxt_nic *named;
	uint32_t moves_cnt; /* how often the connection moved */
	bool is_planned;    /* the connecting end */
	bool is_whole;      /* as in the move that was made last */
	uint32_t plan_next; /* in the plan */
	uint8_t to;         /* the accepting end's NIC; there, of the inbox */
	uint32_t others_cnt;
	char tried[160]; /* between the named NICs, or why one cannot; "" while on them */
	/* Last, as in the attempt. */
	struct sxt_resort_plan plan;
	struct sxt_wire_candidate others[SXT_OTHERS_MAX]; /* the peer's, of the inbox */
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

/**
 * sxt_resort_others() - the best address of every port that could take a NIC's place, as it was
 * when the port was last looked at.
 * @ib: the process. @nic: the NIC. @out: SXT_OTHERS_MAX of them.
 * Thread: any. Makes no system call. Return: how many.
 */
uint32_t sxt_resort_others(const struct sxt_ib *ib, const struct sxt_nic *nic,
			   struct sxt_wire_candidate *out);

/**
 * sxt_resort_check() - can a connection of a NIC be made, over its own HCAs or another port?
 * @ib: the process. @nic: the NIC. @what: the call, for the message. Thread: any.
 * Return: 0, or -ENODEV when an HCA of it failed for good and nothing stands in (logged).
 */
SXT_MUST_CHECK int sxt_resort_check(const struct sxt_ib *ib, const struct sxt_nic *nic,
				    const char *what);

/**
 * sxt_resort_beckons() - the connecting end: is there anything better than pairs of the NICs it is
 * on that lie in no common subnet?
 * @attempt: answered. Return: true if so.
 */
bool sxt_resort_beckons(struct sxt_attempt *attempt);

/**
 * sxt_resort_prefers() - the connecting end: do the settings want other ports than the NICs that
 * NCCL named, because those lie in no common subnet and others do?
 * @attempt: answered. Return: true if so, before the first move only.
 */
bool sxt_resort_prefers(struct sxt_attempt *attempt);

/**
 * sxt_resort_move() - the connecting end: go to the next NICs of the plan and offer there.
 * @attempt: nothing is left to try where it is; CONNECT is due on success.
 * Return: 0, or why not (logged): -ENETUNREACH when the plan is at its end.
 */
SXT_MUST_CHECK int sxt_resort_move(struct sxt_attempt *attempt);

/**
 * sxt_resort_follow() - the accepting end: go where the peer's CONNECT says.
 * @attempt: with the peer's paths. A port without an address is no failure: nothing fits there.
 * Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_resort_follow(struct sxt_attempt *attempt);

/**
 * sxt_resort_begin() - find the addresses of the NIC that NCCL named; where it has none any more
 * the connecting end begins on another one, and the accepting end has none to offer.
 * @attempt: its end may be still to make: attempt->nic is where.
 * Path: slow. Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_resort_begin(struct sxt_attempt *attempt);

/**
 * sxt_resort_tell() - say that other ports than those NCCL named carry a connection.
 * @attempt: its end is made. A WARN once per NIC, then INFO; nothing where it did not move.
 */
void sxt_resort_tell(const struct sxt_attempt *attempt);

#endif
