/*
 * measure.h - what the data path writes into a connection's telemetry counters: a time stamp when
 * a message or receive is accepted and one when it is seen done, and what follows from them.
 *
 * Nothing of it is in the data path itself: plugin/net_measured.c calls it around that, in function
 * tables that stand in only while telemetry is on.
 */
#ifndef SXT_IB_MEASURE_H
#define SXT_IB_MEASURE_H

#include "ib/ib.h"
#include "telemetry/write.h"

/* Of one connection, from when it is made. Written by the thread that drives it. */
struct sxt_measure {
	struct sxt_tele_counters *counters;
	uint64_t mult; /* of sxt_tele_ticks_mult() */
	struct sxt_tele *tele;
	struct sxt_tele_handle handle;
	uint64_t stamps[]; /* by request: when it was accepted */
};

#endif
