/*
 * measure.h - what the data path writes into a connection's telemetry counters: a time stamp when
 * a message or receive is accepted and one when it is seen done, and what follows from them.
 *
 * Nothing of it is in the data path without telemetry: plugin/net_calls.h makes each call once that
 * does not measure, and once for each clock; which of them are in NCCL's tables init decides.
 */
#ifndef SXT_IB_MEASURE_H
#define SXT_IB_MEASURE_H

#include "ib/data.h"
#include "ib/ib.h"
#include "ib/stall.h"
#include "telemetry/clock.h"
#include "telemetry/write.h"

/* Of one connection, from when it is made. Written by the thread that drives it. */
struct sxt_measure {
	struct sxt_tele_counters *counters;
	uint32_t *done_row; /* in their latency: what a request waits for until it is done */
	struct sxt_tele *tele;
	struct sxt_tele_handle handle;
	bool has_failed;               /* atomic: whatever is in flight will not come */
	struct sxt_stall_memory stall; /* the watcher's */
	uint64_t stamps[];             /* by request: when it was accepted */
};

static SXT_INLINE uint64_t sxt_measure_stamp(enum sxt_measuring how)
{
	return how == SXT_MEASURE_BY_COUNTER ? sxt_tele_clock_counter() : sxt_sys_host.now_ns();
}

/* One more that waited since `from`, in a row of the latencies. */
static SXT_INLINE void sxt_measure_waited(uint32_t *row, uint64_t from, uint64_t now)
{
	sxt_tele_add32(&row[sxt_tele_ticks_bucket(now - from)], 1);
}

/* One message that was sent, or arrived. */
static SXT_INLINE void sxt_measure_message(struct sxt_tele_counters *counters, int size)
{
	sxt_tele_add64(&counters->messages, 1);
	sxt_tele_add64(&counters->bytes, (uint32_t)size);
	sxt_tele_add32(&counters->sizes[sxt_tele_size_bucket((uint32_t)size)], 1);
}

/* A request is done and about to be taken; of its messages the first is counted. */
static SXT_INLINE void sxt_measure_done(const struct sxt_request *request, enum sxt_measuring how)
{
	const struct sxt_measure *measure = request->conn->measure;
	struct sxt_tele_counters *counters = measure->counters;
	uint64_t now = sxt_measure_stamp(how);

	sxt_tele_set64(&counters->last_done, now);
	sxt_tele_add64(&counters->done, 1);
	sxt_measure_message(counters, request->sizes[0]);
	sxt_measure_waited(measure->done_row, measure->stamps[request->index], now);
}

/* The messages of a done receive after the first. */
static SXT_INLINE void sxt_measure_others(const struct sxt_request *request)
{
	for (uint32_t i = 1; i < request->cnt; i++)
		sxt_measure_message(request->conn->measure->counters, request->sizes[i]);
}

#endif
