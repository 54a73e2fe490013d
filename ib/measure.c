/*
 * measure.c - the hot half of telemetry: stamps, counters, histograms of one connection.
 *
 * Thread: the one that drives the connection, after its call and without the owner word. Never
 * waits, allocates, logs or calls the system. Readers see whole words at any moment.
 */
#include "ib/measure.h"

/* A caller begins after it had nothing in flight. */
static SXT_INLINE void caller_is_back(struct sxt_tele_counters *counters, uint64_t now)
{
	if (counters->started == counters->done)
		sxt_measure_waited(counters->latency[SXT_TELE_WAIT_CALLER], counters->last_done,
				   now);
}

/* Begins a request's time. */
static SXT_INLINE void accepted(struct sxt_measure *measure, struct sxt_tele_counters *counters,
				const struct sxt_request *request, uint32_t tag, uint64_t now)
{
	measure->stamps[request->index] = now;
	sxt_tele_set32(&counters->tag, tag);
	sxt_tele_set64(&counters->last_start, now);
	sxt_tele_add64(&counters->started, 1);
}

void sxt_measure_sent(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
		      enum sxt_measuring how)
{
	struct sxt_measure *measure = conn->measure;
	struct sxt_tele_counters *counters = measure->counters;
	uint64_t now = sxt_measure_stamp(how);

	if (SXT_UNLIKELY(counters->waiting != 0)) {
		sxt_measure_waited(counters->latency[SXT_TELE_WAIT_PEER], counters->waiting, now);
		sxt_tele_set64(&counters->waiting, 0);
	} else {
		caller_is_back(counters, now);
	}
	accepted(measure, counters, request, tag, now);
}

void sxt_measure_not_now(struct sxt_conn *conn, enum sxt_measuring how)
{
	struct sxt_tele_counters *counters = conn->measure->counters;
	uint64_t now;

	sxt_tele_add64(&counters->not_now, 1);
	if (SXT_LIKELY(counters->waiting != 0 || conn->kind != SXT_CONN_SEND))
		return;
	now = sxt_measure_stamp(how);
	sxt_tele_set64(&counters->waiting, now);
	caller_is_back(counters, now);
}

void sxt_measure_posted(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
			enum sxt_measuring how)
{
	struct sxt_measure *measure = conn->measure;
	struct sxt_tele_counters *counters = measure->counters;
	uint64_t now = sxt_measure_stamp(how);

	caller_is_back(counters, now);
	accepted(measure, counters, request, tag, now);
}
