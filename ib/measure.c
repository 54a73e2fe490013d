/*
 * measure.c - the hot half of telemetry: stamps, counters, histograms of one connection.
 *
 * Thread: the one that drives the connection, after its call and without the owner word. Never
 * waits, allocates, logs or calls the system. Readers see whole words at any moment.
 */
#include "ib/measure.h"

#include "ib/data.h"
#include "telemetry/clock.h"

static SXT_INLINE void waited(const struct sxt_measure *measure, struct sxt_tele_counters *counters,
			      enum sxt_tele_wait what, uint64_t from, uint64_t now)
{
	uint64_t ns = sxt_tele_ticks_ns(now - from, measure->mult);

	sxt_tele_add32(&counters->latency[what][sxt_tele_latency_bucket(ns)], 1);
}

/* A caller begins after it had nothing in flight. */
static SXT_INLINE void caller_is_back(const struct sxt_measure *measure,
				      struct sxt_tele_counters *counters, uint64_t now)
{
	if (counters->started == counters->done && counters->last_done != 0)
		waited(measure, counters, SXT_TELE_WAIT_CALLER, counters->last_done, now);
}

/* Begins a request's time. */
static SXT_INLINE void accepted(struct sxt_measure *measure, struct sxt_tele_counters *counters,
				const struct sxt_request *request, uint32_t tag, uint64_t now)
{
	measure->stamps[request->index] = now;
	sxt_tele_set32(&counters->tag, tag);
	sxt_tele_set64(&counters->last_start, now);
}

void sxt_measure_sent(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
		      uint64_t bytes)
{
	struct sxt_measure *measure = conn->measure;
	struct sxt_tele_counters *counters;
	uint64_t now;

	if (SXT_UNLIKELY(measure == NULL))
		return;
	counters = measure->counters;
	now = sxt_tele_ticks();
	accepted(measure, counters, request, tag, now);
	sxt_tele_add32(&counters->sizes[sxt_tele_size_bucket(bytes)], 1);
	if (SXT_UNLIKELY(counters->waiting != 0)) {
		waited(measure, counters, SXT_TELE_WAIT_PEER, counters->waiting, now);
		sxt_tele_set64(&counters->waiting, 0);
	} else {
		caller_is_back(measure, counters, now);
	}
	sxt_tele_add64(&counters->started, 1);
}

void sxt_measure_not_now(struct sxt_conn *conn)
{
	struct sxt_measure *measure = conn->measure;
	struct sxt_tele_counters *counters;
	uint64_t now;

	if (SXT_UNLIKELY(measure == NULL))
		return;
	counters = measure->counters;
	sxt_tele_add64(&counters->not_now, 1);
	if (SXT_LIKELY(counters->waiting != 0 || conn->kind != SXT_CONN_SEND))
		return;
	now = sxt_tele_ticks();
	sxt_tele_set64(&counters->waiting, now);
	caller_is_back(measure, counters, now);
}

void sxt_measure_posted(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag)
{
	struct sxt_measure *measure = conn->measure;
	struct sxt_tele_counters *counters;
	uint64_t now;

	if (SXT_UNLIKELY(measure == NULL))
		return;
	counters = measure->counters;
	now = sxt_tele_ticks();
	accepted(measure, counters, request, tag, now);
	caller_is_back(measure, counters, now);
	sxt_tele_add64(&counters->started, 1);
}

/* One message that arrived. */
static SXT_INLINE void arrived(struct sxt_tele_counters *counters, int size)
{
	sxt_tele_add64(&counters->messages, 1);
	sxt_tele_add64(&counters->bytes, (uint32_t)size);
	sxt_tele_add32(&counters->sizes[sxt_tele_size_bucket((uint32_t)size)], 1);
}

void sxt_measure_done(const struct sxt_request *request)
{
	const struct sxt_measure *measure = request->conn->measure;
	enum sxt_tele_wait wait = SXT_TELE_WAIT_PEER;
	struct sxt_tele_counters *counters;
	uint64_t now;

	if (SXT_UNLIKELY(measure == NULL))
		return;
	counters = measure->counters;
	now = sxt_tele_ticks();
	sxt_tele_set64(&counters->last_done, now);
	sxt_tele_add64(&counters->done, 1);
	if (request->conn->kind == SXT_CONN_SEND) {
		wait = SXT_TELE_WAIT_WIRE;
		sxt_tele_add64(&counters->messages, 1);
		sxt_tele_add64(&counters->bytes, (uint32_t)request->sizes[0]);
	} else {
		arrived(counters, request->sizes[0]);
		for (uint32_t i = 1; SXT_UNLIKELY(i < request->cnt); i++)
			arrived(counters, request->sizes[i]);
	}
	waited(measure, counters, wait, measure->stamps[request->index], now);
}
