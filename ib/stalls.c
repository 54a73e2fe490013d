/*
 * stalls.c - see stalls.h (slow path). What is known of a connection is copied under the watcher's
 * lock, which keeps the connection from being freed; counters are read and lines said without it.
 */
#include "ib/stalls.h"

#include "core/log.h"
#include "ib/conn.h"
#include "ib/measure.h"
#include "ib/process.h"
#include "ib/side.h"
#include "ib/stall.h"
#include "ib/tell.h"
#include "ib/watcher.h"
#include "telemetry/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS 4 /* in the time that makes a stall */

#define RANK_UNKNOWN (-1)
#define RANK_SEVERAL (-2)

/* A connection that is to be told. */
struct report {
	struct sxt_stall stall;
	uint64_t waited_ns;
	uint32_t record; /* in the segment */
	int64_t rank;
	int64_t peer_rank;
	uint32_t ports_cnt;
	const struct sxt_port *ports[SXT_PATHS_MAX];
	char peer[sizeof(((struct sxt_side *)0)->peer)];
};

/* A port over which some write takes long, and what its counters were when that was first seen. */
struct suspect {
	bool is_now;
	bool was_before;
	struct sxt_stall_sample before;
};

/* All connections of the process in one look. */
struct look {
	uint64_t now_ticks;
	uint32_t used_cnt;
	uint32_t idle_cnt;
	uint64_t latest; /* progress of any */
	uint32_t reports_cnt;
	struct report reports[SXT_STALL_LINES];
};

struct sxt_stalls {
	struct sxt_ib *ib;
	uint64_t least_ns;
	uint64_t next_ns;
	uint64_t idle_told; /* progress after which everything was idle */
	char here[96];
	struct sxt_stall_budget budget;
	struct look look;
	struct suspect *suspects; /* by index of the port */
};

int sxt_stalls_create(struct sxt_ib *ib, struct sxt_stalls **out)
{
	struct sxt_stalls *stalls;

	*out = NULL;
	if (ib->tele == NULL || ib->config->stall_s == 0)
		return 0;
	stalls = calloc(1, sizeof(*stalls));
	if (stalls == NULL)
		return -ENOMEM;
	stalls->ib = ib;
	stalls->least_ns = ib->config->stall_s * SXT_NS_PER_SEC;
	snprintf(stalls->here, sizeof(stalls->here), "%.63s:%d", ib->host, (int)ib->pid);
	*out = stalls;
	return 0;
}

void sxt_stalls_destroy(struct sxt_stalls *stalls)
{
	if (stalls == NULL)
		return;
	free(stalls->suspects);
	free(stalls);
}

uint64_t sxt_stalls_next_ns(const struct sxt_stalls *stalls)
{
	return stalls != NULL ? stalls->next_ns : UINT64_MAX;
}

static uint64_t waited_ns(const struct sxt_stalls *stalls, uint64_t since)
{
	uint64_t now = stalls->look.now_ticks;

	return now > since ? (uint64_t)((float)(now - since) * sxt_tele_ns_per_tick) : 0;
}

/* NULL while it is being made, without a record, and after its failure. */
static struct sxt_measure *measure_of(const struct sxt_conn *conn)
{
	struct sxt_measure *measure = conn->measure;

	/* Pairs with the release in sxt_tell_conn_made(). */
	if (measure == NULL || conn->ended != SXT_CONN_LIVES ||
	    __atomic_load_n(&measure->counters, __ATOMIC_ACQUIRE) == NULL ||
	    __atomic_load_n(&measure->has_failed, __ATOMIC_RELAXED))
		return NULL;
	return measure;
}

/* The tag of a message is its sender's rank. */
static void learn_rank(int64_t *rank, const struct sxt_side *side, enum sxt_conn_kind kind)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &side->conns) {
		const struct sxt_conn *conn = SXT_LIST_ENTRY(node, struct sxt_conn, side_node);
		const struct sxt_measure *measure = measure_of(conn);
		uint32_t tag;

		if (conn->kind != kind || measure == NULL ||
		    __atomic_load_n(&measure->counters->started, __ATOMIC_RELAXED) == 0)
			continue;
		tag = __atomic_load_n(&measure->counters->tag, __ATOMIC_RELAXED);
		if (*rank == RANK_UNKNOWN)
			*rank = tag;
		else if (*rank != tag)
			*rank = RANK_SEVERAL;
	}
}

static int64_t rank_here(const struct sxt_watcher *watcher)
{
	int64_t rank = RANK_UNKNOWN;
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->sides)
		learn_rank(&rank, SXT_LIST_ENTRY(node, struct sxt_side, node), SXT_CONN_SEND);
	return rank;
}

static void report_ports(struct report *report, const struct sxt_conn *conn)
{
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		const struct sxt_port *port = conn->paths[i].port;
		uint32_t k = 0;

		while (k < report->ports_cnt && report->ports[k] != port)
			k++;
		if (k == report->ports_cnt)
			report->ports[report->ports_cnt++] = port;
	}
}

static void report_add(struct sxt_stalls *stalls, const struct sxt_conn *conn,
		       const struct sxt_stall *stall)
{
	struct report *report = &stalls->look.reports[stalls->look.reports_cnt++];

	*report = (struct report){
		.stall = *stall,
		.waited_ns = waited_ns(stalls, stall->since),
		.record = conn->measure->handle.conn,
		.rank = rank_here(stalls->ib->watcher),
		.peer_rank = RANK_UNKNOWN,
	};
	learn_rank(&report->peer_rank, conn->side, SXT_CONN_RECV);
	report_ports(report, conn);
	memcpy(report->peer, conn->side->peer, sizeof(report->peer));
}

static void suspect_ports(struct sxt_stalls *stalls, const struct sxt_conn *conn)
{
	if (stalls->suspects == NULL)
		stalls->suspects = calloc((size_t)stalls->ib->ports_cnt, sizeof(struct suspect));
	for (uint32_t i = 0; i < conn->paths_cnt && stalls->suspects != NULL; i++)
		stalls->suspects[conn->paths[i].port->index].is_now = true;
}

static void look_at_conn(struct sxt_stalls *stalls, const struct sxt_conn *conn)
{
	struct sxt_measure *measure = measure_of(conn);
	struct sxt_stall stall;
	uint64_t waited;

	if (measure == NULL)
		return;
	sxt_stall_judge(conn->kind == SXT_CONN_SEND ? SXT_TELE_SENDS : SXT_TELE_RECEIVES,
			measure->counters, &stall);
	if (stall.word == SXT_STALL_NONE)
		return;
	stalls->look.used_cnt++;
	if (stall.since > stalls->look.latest)
		stalls->look.latest = stall.since;
	if (stall.word == SXT_STALL_APP_IDLE) {
		stalls->look.idle_cnt++;
		return;
	}
	waited = waited_ns(stalls, stall.since);
	if (stall.word == SXT_STALL_WIRE && waited >= stalls->least_ns / 2)
		suspect_ports(stalls, conn);
	if (sxt_stall_is_due(&measure->stall, stall.since, waited, stalls->least_ns) &&
	    sxt_stall_budget_take(&stalls->budget))
		report_add(stalls, conn, &stall);
}

static void look_at_all(struct sxt_stalls *stalls, uint64_t now_ticks)
{
	struct sxt_list *node;
	struct sxt_list *after;

	stalls->look = (struct look){.now_ticks = now_ticks};
	sxt_list_for_each (node, after, &stalls->ib->watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);
		struct sxt_list *conn;
		struct sxt_list *next;

		sxt_list_for_each (conn, next, &side->conns)
			look_at_conn(stalls, SXT_LIST_ENTRY(conn, struct sxt_conn, side_node));
	}
}

static void port_sample(const struct sxt_stalls *stalls, const struct sxt_port *port,
			uint64_t now_ns, struct sxt_stall_sample *out)
{
	sxt_stall_sample_read(stalls->ib->config->sysroot, port->device->name, port->num, now_ns,
			      out);
}

/* What the counters were before is kept as long as some write over the port takes long. */
static void sample_suspects(struct sxt_stalls *stalls, uint64_t now_ns)
{
	for (int i = 0; stalls->suspects != NULL && i < stalls->ib->ports_cnt; i++) {
		struct suspect *suspect = &stalls->suspects[i];

		if (suspect->is_now && !suspect->was_before)
			port_sample(stalls, stalls->ib->ports[i], now_ns, &suspect->before);
		suspect->was_before = suspect->is_now;
		suspect->is_now = false;
	}
}

/* "mlx5_0 within 30 s: RETRANSMIT (packet_seq_err +3)". Return: the signs. */
static uint32_t port_growth(const struct sxt_stalls *stalls, const struct sxt_port *port,
			    uint64_t now_ns, char *out, size_t out_bytes)
{
	const struct suspect *suspect;
	struct sxt_stall_sample now;
	size_t len = strlen(out);
	uint32_t signs;
	char text[600];

	if (stalls->suspects == NULL)
		return SXT_STALL_UNREAD;
	suspect = &stalls->suspects[port->index];
	if (suspect->before.at_ns >= now_ns)
		return SXT_STALL_UNREAD;
	port_sample(stalls, port, now_ns, &now);
	signs = sxt_stall_growth(&suspect->before, &now, text, sizeof(text));
	if ((signs & ~SXT_STALL_UNREAD) != 0)
		snprintf(out + len, out_bytes - len, "%s%s within %llu s: %s", len > 0 ? "; " : "",
			 port->label,
			 (unsigned long long)((now_ns - suspect->before.at_ns - 1) /
						      SXT_NS_PER_SEC +
					      1),
			 text);
	return signs;
}

static void tell(struct sxt_stalls *stalls, const struct report *report, uint64_t now_ns)
{
	uint64_t wall_ns = stalls->ib->sys->wall_ns();
	char ports[256] = "";
	char growth[800] = "";
	char line[1600];
	struct sxt_stall_facts facts = {
		.stall = report->stall,
		.waited_ns = report->waited_ns,
		.since_wall_ns = wall_ns > report->waited_ns ? wall_ns - report->waited_ns : 0,
		.here = stalls->here,
		.peer = report->peer,
		.rank = report->rank,
		.peer_rank = report->peer_rank,
		.ports = ports,
		.growth = growth,
	};

	for (uint32_t i = 0; i < report->ports_cnt; i++) {
		size_t len = strlen(ports);

		snprintf(ports + len, sizeof(ports) - len, "%s%s", i > 0 ? ", " : "",
			 report->ports[i]->label);
		if (report->stall.word == SXT_STALL_WIRE)
			facts.signs |= port_growth(stalls, report->ports[i], now_ns, growth,
						   sizeof(growth));
	}
	sxt_stall_line(&facts, line, sizeof(line));
	sxt_tell_stall(stalls->ib->tele, report->record, line);
}

/* A job that computes, or waits for something else than its network: no fault, once a time. */
static void tell_idle(struct sxt_stalls *stalls)
{
	const struct look *look = &stalls->look;
	uint64_t idle_ns = waited_ns(stalls, look->latest);

	if (look->used_cnt == 0 || look->idle_cnt < look->used_cnt || idle_ns < stalls->least_ns ||
	    look->latest <= stalls->idle_told)
		return;
	stalls->idle_told = look->latest;
	SXT_LOG(SXT_LOG_INFO,
		"APP-IDLE: %s: none of %u connections has anything in flight, and nobody came with "
		"more for %llu s: the job computes, or waits for something else than the network",
		stalls->here, look->used_cnt, (unsigned long long)(idle_ns / SXT_NS_PER_SEC));
}

void sxt_stalls_run(struct sxt_stalls *stalls, uint64_t now_ns, uint64_t now_ticks)
{
	struct sxt_watcher *watcher;
	uint32_t held_cnt;

	if (stalls == NULL || now_ns < stalls->next_ns)
		return;
	watcher = stalls->ib->watcher;
	stalls->next_ns = now_ns + stalls->least_ns / LOOKS;
	held_cnt = sxt_stall_budget_begin(&stalls->budget, now_ns);
	if (held_cnt > 0)
		SXT_LOG(SXT_LOG_WARN,
			"%u more connections stalled within the last minute than the %u that were "
			"told: sextant top shows them all",
			held_cnt, SXT_STALL_LINES);
	pthread_mutex_lock(&watcher->lock);
	look_at_all(stalls, now_ticks);
	pthread_mutex_unlock(&watcher->lock);
	sample_suspects(stalls, now_ns);
	for (uint32_t i = 0; i < stalls->look.reports_cnt; i++)
		tell(stalls, &stalls->look.reports[i], now_ns);
	tell_idle(stalls);
}
