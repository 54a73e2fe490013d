/*
 * pairs.h - which address of one end a path joins with which of the other: all pairs that could
 * work, in the order in which both ends try them. Pure, and the same on both sides.
 */
#ifndef SXT_IB_PAIRS_H
#define SXT_IB_PAIRS_H

#include "core/compiler.h"
#include "ib/wire.h"

#include <stdbool.h>

/* Addresses of both ends as the handshake carries them, each port's best first. */
struct sxt_pair_ends {
	const struct sxt_wire_candidate *from; /* the connecting end's */
	const struct sxt_wire_candidate *to;   /* the accepting end's */
	uint32_t from_cnt;
	uint32_t to_cnt;
	uint32_t from_ports_cnt;
	uint32_t to_ports_cnt;
};

struct sxt_pair {
	uint8_t from;  /* in from */
	uint8_t to;    /* in to */
	bool is_again; /* it had its turn before */
	/* How long a probe may stay without an answer before the next pair's turn comes. */
	uint64_t patience_ns;
};

/**
 * sxt_pair_of() - what a path joins at one of its tries.
 * @ends: both ends. @path: its number: path i prefers port i of either side, modulo their number.
 * @epoch: the try: 0 is made before the accepting end's addresses are known and means the same
 * pair as 1, unless that needs another port of the connecting end.
 * @out: set on success. Only pairs of one link layer, one RoCE version and one address family
 * count. First come those of the preferred connecting port, among them those within one subnet,
 * among them the preferred accepting port, among them the best addresses. After the last one the
 * first few come again, with more patience.
 * Thread: any, pure. Return: 0, or -ENETUNREACH when nothing is left to try.
 */
SXT_MUST_CHECK int sxt_pair_of(const struct sxt_pair_ends *ends, uint32_t path, uint32_t epoch,
			       struct sxt_pair *out);

/**
 * sxt_pairs_near() - do the two ends have any pair within one subnet?
 * @ends: both ends. Thread: any, pure. Return: true if so.
 */
bool sxt_pairs_near(const struct sxt_pair_ends *ends);

/**
 * sxt_pairs_text() - what was tried, for the message when nothing worked.
 * @ends: both ends. @path: which. @out, @out_bytes: "10.0.0.1 -> 10.0.1.2, ...", cut with "...".
 */
void sxt_pairs_text(const struct sxt_pair_ends *ends, uint32_t path, char *out, size_t out_bytes);

#endif
