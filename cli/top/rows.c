/*
 * rows.c - rows of processes, links, connections and events; those of ports are in rows_ports.c.
 */
#include "cli/top/rows.h"

#include "cli/top/rows_parts.h"

#include "core/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the setting of its process. */
static bool stalls(const struct sxt_top_row *row)
{
	uint64_t limit_ns = row->of->header.stall_sec * SXT_NS_PER_SEC;

	return limit_ns != 0 && row->oldest_ns >= limit_ns;
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static uint32_t add_up(uint32_t a, uint32_t b)
{
	return a + b < a ? UINT32_MAX : a + b;
}

void sxt_top_tally_add(struct sxt_top_tally *tally, int way, uint64_t bytes, uint64_t messages,
		       enum sxt_top_window window)
{
	tally->bytes[window][way] += bytes;
	tally->messages[window][way] += messages;
}

/* What is accepted and not done waits at least since then; a caller that is sent away, too. */
static uint64_t oldest_ns(const struct sxt_top_sample *sample, const struct sxt_tele_conn *conn)
{
	const struct sxt_tele_counters *c = &conn->counters;
	uint64_t since = c->waiting;

	if (conn->state != SXT_TELE_CONN_LIVE || !sxt_top_runs(sample))
		return 0;
	if (c->started == c->done + 1)
		since = c->last_start;
	else if (c->started > c->done)
		since = c->last_done != 0 ? c->last_done : conn->opened;
	if (since == 0 || since >= sample->now)
		return 0;
	return sxt_tele_ns(sample->view, sample->now - since);
}

/* What a record held of another connection is not subtracted: all of this one is new. */
static void tally_conn(struct sxt_top_tally *tally, const struct sxt_top_pair *pair, uint32_t n)
{
	static const struct sxt_tele_counters none;
	const struct sxt_tele_conn *conn = sxt_top_nth(pair->after, SXT_TELE_CONNS, n);
	const struct sxt_tele_conn *before =
		sxt_top_conn_before(pair, pair->after->of[SXT_TELE_CONNS].at[n], conn);
	const struct sxt_tele_counters *was = before != NULL ? &before->counters : &none;
	const struct sxt_tele_counters *is = &conn->counters;
	uint64_t oldest = oldest_ns(pair->after, conn);
	int way = sxt_top_way(conn);

	tally->live += conn->state == SXT_TELE_CONN_LIVE;
	tally->failed += conn->state == SXT_TELE_CONN_FAILED;
	tally->oldest_ns = oldest > tally->oldest_ns ? oldest : tally->oldest_ns;
	sxt_top_tally_add(tally, way, is->bytes, is->messages, SXT_TOP_WHOLE);
	sxt_top_tally_add(tally, way, grown(was->bytes, is->bytes),
			  grown(was->messages, is->messages), SXT_TOP_RECENT);
	for (int wait = 0; wait < SXT_TELE_WAITS; wait++) {
		for (int i = 0; i < SXT_TELE_LATENCY_BUCKETS; i++) {
			uint32_t *recent = &tally->latency[SXT_TOP_RECENT][wait][i];
			uint32_t *whole = &tally->latency[SXT_TOP_WHOLE][wait][i];

			/* Buckets may wrap: their difference is still right. */
			*recent = add_up(*recent, is->latency[wait][i] - was->latency[wait][i]);
			*whole = add_up(*whole, is->latency[wait][i]);
		}
	}
}

/* What a link held before, with all that connections had which gave up their records since. */
struct link_sum {
	struct sxt_top_tally tally;
	struct sxt_tele_flow had[2];
};

static void flow_add(struct sxt_tele_flow *sum, uint64_t messages, uint64_t bytes)
{
	sum->messages += messages;
	sum->bytes += bytes;
}

/* Return: its sum among those of the links in use, NULL of a link that is not. */
static struct link_sum *sum_of(const struct sxt_top_sample *sample, struct link_sum *sums,
			       uint32_t link)
{
	const struct sxt_tele_records *links = &sample->of[SXT_TELE_LINKS];
	const char *record = sxt_tele_record(links, link);

	return record != NULL ? &sums[(size_t)(record - links->list) / links->bytes] : NULL;
}

/* Afterwards what is more than this in a link's flows moved since. */
static void find_had(const struct sxt_top_pair *pair, struct link_sum *sums)
{
	const struct sxt_top_sample *before = pair->before;

	for (uint32_t i = 0; before != NULL && i < before->of[SXT_TELE_LINKS].cnt; i++) {
		const struct sxt_tele_link *link = sxt_top_nth(before, SXT_TELE_LINKS, i);
		struct link_sum *sum = sum_of(pair->after, sums, before->of[SXT_TELE_LINKS].at[i]);

		for (int way = 0; sum != NULL && way < 2; way++)
			flow_add(&sum->had[way], link->flows[way].messages, link->flows[way].bytes);
	}
	for (uint32_t i = 0; before != NULL && i < before->of[SXT_TELE_CONNS].cnt; i++) {
		const struct sxt_tele_conn *was = sxt_top_nth(before, SXT_TELE_CONNS, i);
		uint32_t at = before->of[SXT_TELE_CONNS].at[i];
		const struct sxt_tele_conn *is = sxt_top_record(pair->after, SXT_TELE_CONNS, at);
		struct link_sum *sum = sum_of(pair->after, sums, was->link);

		if (sum != NULL && is != NULL && is->generation != was->generation)
			flow_add(&sum->had[sxt_top_way(was)], was->counters.messages,
				 was->counters.bytes);
	}
}

/* What a link's connections without a record moved, and those that gave theirs up. */
static void tally_flow(struct sxt_top_tally *tally, const struct sxt_tele_link *link, int way,
		       const struct sxt_tele_flow *had)
{
	const struct sxt_tele_flow *flow = &link->flows[way];

	tally->live += link->shared[way];
	sxt_top_tally_add(tally, way, flow->bytes, flow->messages, SXT_TOP_WHOLE);
	sxt_top_tally_add(tally, way, grown(had->bytes, flow->bytes),
			  grown(had->messages, flow->messages), SXT_TOP_RECENT);
}

static struct sxt_top_span span_of(const uint32_t *buckets)
{
	for (int i = 0; i < SXT_TELE_LATENCY_BUCKETS; i++) {
		if (buckets[i] != 0)
			return (struct sxt_top_span){
				.p50_ns = sxt_tele_quantile_ns(buckets, 0.5),
				.p99_ns = sxt_tele_quantile_ns(buckets, 0.99),
			};
	}
	return (struct sxt_top_span){SXT_TOP_UNKNOWN, SXT_TOP_UNKNOWN};
}

struct sxt_top_flow sxt_top_tally_flow(const struct sxt_top_tally *tally, uint64_t recent_ns,
				       uint64_t whole_ns)
{
	struct sxt_top_flow flow;

	for (int way = 0; way < 2; way++) {
		uint64_t recent = tally->bytes[SXT_TOP_RECENT][way];

		flow.bytes[way] = tally->bytes[SXT_TOP_WHOLE][way];
		flow.messages[way] = tally->messages[SXT_TOP_WHOLE][way];
		/* Bytes per ns are GB/s. */
		flow.now[way] = recent_ns > 0 ? (double)recent / (double)recent_ns : NAN;
		flow.avg[way] = whole_ns > 0 ? (double)flow.bytes[way] / (double)whole_ns : NAN;
	}
	for (int window = 0; window < SXT_TOP_WINDOWS; window++) {
		for (int wait = 0; wait < SXT_TELE_WAITS; wait++)
			flow.waits[window][wait] = span_of(tally->latency[window][wait]);
	}
	return flow;
}

bool sxt_top_runs(const struct sxt_top_sample *sample)
{
	return sample->alive && sample->header.state != SXT_TELE_CLOSED;
}

const char *sxt_top_state_word(const struct sxt_top_sample *sample)
{
	if (sample->header.state == SXT_TELE_CLOSED)
		return "ended";
	return sample->alive ? "live" : "dead";
}

struct sxt_top_row sxt_top_row_of(const struct sxt_top_sample *sample, uint64_t at)
{
	struct sxt_top_row row = {
		.of = sample,
		.at = at,
		.rank = SXT_TOP_UNKNOWN,
		.tag = SXT_TOP_UNKNOWN,
		.rate = NAN,
		.average = NAN,
		.hardware = {NAN, NAN},
		.flow = {.now = {NAN, NAN}, .avg = {NAN, NAN}},
	};

	if (sample == NULL)
		return row;
	row.pid = sample->header.pid;
	if (sample->header.rank >= 0)
		row.rank = (uint64_t)sample->header.rank;
	row.gone = !sxt_top_runs(sample);
	row.tone = row.gone ? SXT_TOP_DIM : SXT_TOP_PLAIN;
	return row;
}

const struct sxt_tele_conn *sxt_top_conn_before(const struct sxt_top_pair *pair, uint32_t at,
						const struct sxt_tele_conn *after)
{
	const struct sxt_tele_conn *conn = NULL;

	if (pair->before != NULL)
		conn = sxt_top_record(pair->before, SXT_TELE_CONNS, at);
	if (conn == NULL || conn->generation != after->generation || conn->id != after->id)
		return NULL;
	return conn;
}

void sxt_top_comm_name(uint64_t id, char *out, size_t bytes)
{
	out[0] = '\0';
	if (id != 0)
		snprintf(out, bytes, "%016" PRIx64, id);
}

static void describe_conn(struct sxt_top_row *row, const struct sxt_tele_conn *conn)
{
	const struct sxt_tele_link *link = sxt_top_record(row->of, SXT_TELE_LINKS, conn->link);
	int way = sxt_top_way(conn);

	row->rate = conn->state == SXT_TELE_CONN_LIVE ? row->flow.now[way] : NAN;
	row->average = row->flow.avg[way];
	row->in_flight = conn->counters.started - conn->counters.done;
	if (row->in_flight > UINT32_MAX)
		row->in_flight = 0;
	if (conn->counters.messages > 0)
		row->tag = conn->counters.tag;
	snprintf(row->speed, sizeof(row->speed), "%s", way == 0 ? "out" : "in");
	if (link != NULL) {
		snprintf(row->name, sizeof(row->name), "%s", link->nic);
		snprintf(row->with, sizeof(row->with), "%s", link->peer);
	}
	snprintf(row->text, sizeof(row->text), "%s", conn->text);
	sxt_top_comm_name(conn->comm, row->address, sizeof(row->address));
	if (conn->state == SXT_TELE_CONN_FAILED) {
		row->errors = 1;
		row->tone = SXT_TOP_BAD;
	} else if (conn->state == SXT_TELE_CONN_CLOSED) {
		row->tone = SXT_TOP_DIM;
	} else if (stalls(row)) {
		row->tone = SXT_TOP_WARN;
	}
	snprintf(row->status, sizeof(row->status), "%s",
		 conn->state == SXT_TELE_CONN_FAILED   ? "FAIL"
		 : conn->state == SXT_TELE_CONN_CLOSED ? "ended"
		 : row->gone                           ? "dead"
		 : stalls(row)                         ? "STALL"
						       : "live");
}

static struct sxt_top_row conn_row(const struct sxt_top_pair *pair, uint32_t n)
{
	const struct sxt_top_sample *sample = pair->after;
	const struct sxt_tele_conn *conn = sxt_top_nth(sample, SXT_TELE_CONNS, n);
	uint32_t at = sample->of[SXT_TELE_CONNS].at[n];
	struct sxt_top_row row = sxt_top_row_of(sample, at);
	struct sxt_top_tally tally = {0};
	uint64_t end = conn->ended != 0 ? conn->ended : sample->now;

	tally_conn(&tally, pair, n);
	row.oldest_ns = tally.oldest_ns;
	row.flow = sxt_top_tally_flow(&tally, row.gone ? 0 : pair->recent_ns,
				      end > conn->opened
					      ? sxt_tele_ns(sample->view, end - conn->opened)
					      : 0);
	describe_conn(&row, conn);
	return row;
}

/* What the row of a process and that of a link have in common. */
static void sum_up(struct sxt_top_row *row, const struct sxt_top_pair *pair,
		   const struct sxt_top_tally *tally)
{
	const struct sxt_top_sample *sample = pair->after;
	uint64_t made = sample->header.made_ticks;

	row->conns = tally->live;
	row->errors = tally->failed;
	row->oldest_ns = tally->oldest_ns;
	row->flow = sxt_top_tally_flow(tally, row->gone ? 0 : pair->recent_ns,
				       sample->now > made
					       ? sxt_tele_ns(sample->view, sample->now - made)
					       : 0);
	if (row->errors > 0)
		row->tone = SXT_TOP_BAD;
	else if (stalls(row))
		row->tone = SXT_TOP_WARN;
	if (row->errors > 0 && !row->gone)
		snprintf(row->status, sizeof(row->status), "%" PRIu64 " err", row->errors);
	else
		snprintf(row->status, sizeof(row->status), "%s",
			 row->tone == SXT_TOP_WARN ? "STALL" : sxt_top_state_word(sample));
}

static struct sxt_top_row process_row(const struct sxt_top_pair *pair,
				      const struct sxt_top_tally *tally)
{
	const struct sxt_top_sample *sample = pair->after;
	struct sxt_top_row row = sxt_top_row_of(sample, 0);

	sum_up(&row, pair, tally);
	row.warnings = sample->header.warnings;
	if (row.gone)
		/* Nothing tells when a process was killed: its last trace has to do. */
		row.wall_ns = sample->header.closed_wall_ns != 0
				      ? sample->header.closed_wall_ns
				      : sxt_tele_wall_ns(sample->view, sample->now);
	snprintf(row.name, sizeof(row.name), "%s", sample->header.command);
	snprintf(row.text, sizeof(row.text), "%s", sample->header.job);
	return row;
}

/* All connections of a link without a record that go one way. */
static struct sxt_top_row shared_row(const struct sxt_top_pair *pair, uint32_t n, int way,
				     const struct sxt_tele_flow *had)
{
	const struct sxt_top_sample *sample = pair->after;
	const struct sxt_tele_link *link = sxt_top_nth(sample, SXT_TELE_LINKS, n);
	struct sxt_top_row row = sxt_top_row_of(sample, sample->of[SXT_TELE_LINKS].at[n]);
	struct sxt_top_tally tally = {0};

	tally_flow(&tally, link, way, had);
	row.flow = sxt_top_tally_flow(&tally, row.gone ? 0 : pair->recent_ns, 0);
	row.rate = row.flow.now[way];
	row.shared = link->shared[way];
	row.in_flight = SXT_TOP_UNKNOWN;
	snprintf(row.speed, sizeof(row.speed), "%s", way == 0 ? "out" : "in");
	snprintf(row.name, sizeof(row.name), "%s", link->nic);
	snprintf(row.with, sizeof(row.with), "%s", link->peer);
	snprintf(row.status, sizeof(row.status), "x%" PRIu64, row.shared);
	return row;
}

static struct sxt_top_row link_row(const struct sxt_top_pair *pair, uint32_t n,
				   const struct sxt_top_tally *tally)
{
	const struct sxt_top_sample *sample = pair->after;
	const struct sxt_tele_link *link = sxt_top_nth(sample, SXT_TELE_LINKS, n);
	struct sxt_top_row row = sxt_top_row_of(sample, sample->of[SXT_TELE_LINKS].at[n]);

	sum_up(&row, pair, tally);
	row.conns = link->conns;
	snprintf(row.name, sizeof(row.name), "%s", link->nic);
	snprintf(row.with, sizeof(row.with), "%s", link->peer);
	return row;
}

static const char *event_word(uint32_t kind)
{
	static const char *const words[] = {"?",      "warning", "port", "opened",
					    "closed", "failed",  "stall"};

	return words[kind < SXT_ARRAY_LEN(words) ? kind : 0];
}

static struct sxt_top_row event_row(const struct sxt_top_sample *sample, size_t n)
{
	const struct sxt_tele_event *event = &sample->events[n];
	struct sxt_top_row row = sxt_top_row_of(sample, event->sequence);

	if (event->kind == SXT_TELE_EVENT_FAILED)
		row.tone = SXT_TOP_BAD;
	else if (event->kind == SXT_TELE_EVENT_STALL || event->kind == SXT_TELE_EVENT_LINE)
		row.tone = SXT_TOP_WARN;
	row.wall_ns = sxt_tele_wall_ns(sample->view, event->ticks);
	snprintf(row.name, sizeof(row.name), "%s", event_word(event->kind));
	snprintf(row.text, sizeof(row.text), "%s", event->text);
	return row;
}

static const struct sxt_top_sample *sample_before(const struct sxt_top_shot *before,
						  const struct sxt_top_sample *after)
{
	for (size_t i = 0; before != NULL && i < before->samples_cnt; i++) {
		if (strcmp(before->samples[i].file, after->file) == 0 &&
		    before->samples[i].now < after->now)
			return &before->samples[i];
	}
	return NULL;
}

/* Room for the rows of all kinds; as many as there are records. */
static int reserve(const struct sxt_top_shot *shot, struct sxt_top_rows *rows)
{
	size_t cnt[SXT_TOP_KINDS] = {[SXT_TOP_PROCESSES] = shot->samples_cnt};

	for (size_t i = 0; i < shot->samples_cnt; i++) {
		cnt[SXT_TOP_PORTS] += shot->samples[i].of[SXT_TELE_PORTS].cnt;
		cnt[SXT_TOP_LINKS] += shot->samples[i].of[SXT_TELE_LINKS].cnt;
		cnt[SXT_TOP_CONNECTIONS] += shot->samples[i].of[SXT_TELE_CONNS].cnt +
					    2 * (size_t)shot->samples[i].of[SXT_TELE_LINKS].cnt;
		cnt[SXT_TOP_EVENTS] += shot->samples[i].events_cnt;
	}
	for (int kind = 0; kind < SXT_TOP_KINDS; kind++) {
		rows->list[kind] = calloc(cnt[kind] + 1, sizeof(*rows->list[kind]));
		if (rows->list[kind] == NULL)
			return -ENOMEM;
	}
	return 0;
}

static void append(struct sxt_top_rows *rows, enum sxt_top_kind kind, struct sxt_top_row row)
{
	rows->list[kind][rows->cnt[kind]++] = row;
}

/* A link's row, and those of its connections without a record. */
static void add_link(const struct sxt_top_pair *pair, uint32_t n, struct link_sum *sum,
		     struct sxt_top_tally *all, struct sxt_top_rows *rows)
{
	const struct sxt_tele_link *link = sxt_top_nth(pair->after, SXT_TELE_LINKS, n);
	double now[2] = {NAN, NAN};
	struct sxt_top_row row;

	for (int way = 0; way < 2; way++) {
		tally_flow(&sum->tally, link, way, &sum->had[way]);
		tally_flow(all, link, way, &sum->had[way]);
		if (link->shared[way] == 0)
			continue;
		row = shared_row(pair, n, way, &sum->had[way]);
		now[way] = row.rate;
		append(rows, SXT_TOP_CONNECTIONS, row);
	}
	row = link_row(pair, n, &sum->tally);
	memcpy(row.shared_now, now, sizeof(now));
	append(rows, SXT_TOP_LINKS, row);
}

/* @sums: zeroed, one for each link. */
static void add_rows(const struct sxt_top_pair *pair, struct link_sum *sums,
		     struct sxt_top_rows *rows)
{
	const struct sxt_top_sample *sample = pair->after;
	struct sxt_top_tally all = {0};

	for (uint32_t i = 0; i < sample->of[SXT_TELE_CONNS].cnt; i++) {
		const struct sxt_tele_conn *conn = sxt_top_nth(sample, SXT_TELE_CONNS, i);
		struct link_sum *sum = sum_of(sample, sums, conn->link);

		append(rows, SXT_TOP_CONNECTIONS, conn_row(pair, i));
		tally_conn(&all, pair, i);
		if (sum != NULL)
			tally_conn(&sum->tally, pair, i);
	}
	find_had(pair, sums);
	for (uint32_t i = 0; i < sample->of[SXT_TELE_LINKS].cnt; i++)
		add_link(pair, i, &sums[i], &all, rows);
	append(rows, SXT_TOP_PROCESSES, process_row(pair, &all));
	for (size_t i = 0; i < sample->events_cnt; i++)
		append(rows, SXT_TOP_EVENTS, event_row(sample, i));
}

int sxt_top_rows_make(const struct sxt_top_shot *before, const struct sxt_top_shot *after,
		      struct sxt_top_rows *out)
{
	struct sxt_top_rows rows = {0};
	int rc = reserve(after, &rows);

	for (size_t i = 0; rc == 0 && i < after->samples_cnt; i++) {
		struct sxt_top_pair pair = {.after = &after->samples[i]};
		struct link_sum *sums =
			calloc((size_t)pair.after->of[SXT_TELE_LINKS].cnt + 1, sizeof(*sums));

		pair.before = sample_before(before, pair.after);
		if (pair.before != NULL)
			pair.recent_ns =
				sxt_tele_ns(pair.after->view, pair.after->now - pair.before->now);
		if (sums == NULL) {
			rc = -ENOMEM;
			break;
		}
		add_rows(&pair, sums, &rows);
		sxt_top_add_ports(&pair, &rows);
		free(sums);
	}
	if (rc != 0) {
		sxt_top_rows_fini(&rows);
		return rc;
	}
	sxt_top_join_hardware(before, after, &rows);
	*out = rows;
	return 0;
}

void sxt_top_rows_fini(struct sxt_top_rows *rows)
{
	for (int kind = 0; kind < SXT_TOP_KINDS; kind++)
		free(rows->list[kind]);
	*rows = (struct sxt_top_rows){0};
}
