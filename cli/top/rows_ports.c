/*
 * rows_ports.c - rows of physical ports: what all processes say of one, and what its own counters
 * do.
 */
#include "cli/top/rows_parts.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *word;
	enum sxt_top_tone tone;
	int weight; /* of what processes say differently, the heaviest is shown */
} states[] = {
	[SXT_TELE_PORT_UNUSED] = {"?", SXT_TOP_DIM, 0},
	[SXT_TELE_PORT_DOWN] = {"DOWN", SXT_TOP_BAD, 3},
	[SXT_TELE_PORT_UP] = {"up", SXT_TOP_PLAIN, 1},
	[SXT_TELE_PORT_LEFT_OUT] = {"left out", SXT_TOP_DIM, 2},
	[SXT_TELE_PORT_DEAD] = {"DEAD", SXT_TOP_BAD, 4},
};

static void print_speed(uint32_t mbps, char *out, size_t bytes)
{
	if (mbps == 0)
		snprintf(out, bytes, "-");
	else if (mbps < 1000)
		snprintf(out, bytes, "%" PRIu32 "M", mbps);
	else
		snprintf(out, bytes, "%gG", mbps / 1000.0);
}

static void print_address(const struct sxt_tele_port *port, char *out, size_t bytes)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	char text[INET6_ADDRSTRLEN] = "";

	if (port->link_layer == 1) {
		snprintf(out, bytes, "LID %" PRIu32, port->lid);
		return;
	}
	if (memcmp(port->gid, mapped, sizeof(mapped)) == 0)
		inet_ntop(AF_INET, port->gid + sizeof(mapped), text, sizeof(text));
	else
		inet_ntop(AF_INET6, port->gid, text, sizeof(text));
	snprintf(out, bytes, "%s", text);
}

static uint32_t state_of(const struct sxt_tele_port *port)
{
	return port->state < SXT_ARRAY_LEN(states) ? port->state : SXT_TELE_PORT_UNUSED;
}

static void describe(struct sxt_top_row *row, const struct sxt_top_pair *pair,
		     const struct sxt_tele_port *port)
{
	uint32_t state = state_of(port);

	row->state = state;
	row->tone = row->gone ? SXT_TOP_DIM : states[state].tone;
	row->wall_ns = sxt_tele_wall_ns(pair->after->view, port->changed);
	snprintf(row->status, sizeof(row->status), "%s", states[state].word);
	snprintf(row->text, sizeof(row->text), "%s", port->reason);
	print_speed(port->speed_mbps, row->speed, sizeof(row->speed));
	print_address(port, row->address, sizeof(row->address));
}

static struct sxt_top_row *find_row(struct sxt_top_rows *rows, const char *name)
{
	for (size_t i = 0; i < rows->cnt[SXT_TOP_PORTS]; i++) {
		if (strcmp(rows->list[SXT_TOP_PORTS][i].name, name) == 0)
			return &rows->list[SXT_TOP_PORTS][i];
	}
	return NULL;
}

/* What living processes say comes before what others said. */
static struct sxt_top_row *merge_port(const struct sxt_top_pair *pair, struct sxt_top_rows *rows,
				      const struct sxt_tele_port *port)
{
	bool gone = !sxt_top_runs(pair->after);
	struct sxt_top_row *row;
	char name[64];

	snprintf(name, sizeof(name), "%s:%" PRIu32, port->hca, port->num);
	row = find_row(rows, name);
	if (row == NULL) {
		row = &rows->list[SXT_TOP_PORTS][rows->cnt[SXT_TOP_PORTS]];
		*row = sxt_top_row_of(NULL, rows->cnt[SXT_TOP_PORTS]++);
		memcpy(row->name, name, sizeof(name));
		row->gone = gone;
		describe(row, pair, port);
	} else if ((row->gone && !gone) ||
		   (row->gone == gone &&
		    states[state_of(port)].weight > states[row->state].weight)) {
		row->gone = gone;
		describe(row, pair, port);
	}
	row->conns += !gone;
	if (port->flaps > row->flaps)
		row->flaps = port->flaps;
	return row;
}

static void add_rate(double *sum, double more)
{
	if (!isnan(more))
		*sum = isnan(*sum) ? more : *sum + more;
}

/* Traffic of one process over one port, by its paths. */
static void tally_port(const struct sxt_top_pair *pair, uint32_t port, struct sxt_top_tally *tally)
{
	const struct sxt_tele_records *paths = &pair->after->of[SXT_TELE_PATHS];

	for (uint32_t i = 0; i < paths->cnt; i++) {
		const struct sxt_tele_path *path = sxt_top_nth(pair->after, SXT_TELE_PATHS, i);
		const struct sxt_tele_path *was = NULL;
		const struct sxt_tele_conn *conn;

		if (path->port != port)
			continue;
		conn = sxt_top_record(pair->after, SXT_TELE_CONNS, path->conn);
		if (conn == NULL)
			continue;
		if (sxt_top_conn_before(pair, path->conn, conn) != NULL)
			was = sxt_top_record(pair->before, SXT_TELE_PATHS, paths->at[i]);
		sxt_top_tally_add(tally, sxt_top_way(conn), path->bytes, path->messages,
				  SXT_TOP_WHOLE);
		if (was == NULL || was->bytes <= path->bytes)
			sxt_top_tally_add(tally, sxt_top_way(conn),
					  path->bytes - (was != NULL ? was->bytes : 0), 0,
					  SXT_TOP_RECENT);
	}
}

void sxt_top_add_ports(const struct sxt_top_pair *pair, struct sxt_top_rows *rows)
{
	const struct sxt_tele_records *ports = &pair->after->of[SXT_TELE_PORTS];

	for (uint32_t i = 0; i < ports->cnt; i++) {
		struct sxt_top_row *row =
			merge_port(pair, rows, sxt_top_nth(pair->after, SXT_TELE_PORTS, i));
		struct sxt_top_tally tally = {0};
		struct sxt_top_flow flow;

		tally_port(pair, ports->at[i], &tally);
		flow = sxt_top_tally_flow(&tally, sxt_top_runs(pair->after) ? pair->recent_ns : 0,
					  0);
		for (int way = 0; way < 2; way++) {
			add_rate(&row->flow.now[way], flow.now[way]);
			row->flow.bytes[way] += flow.bytes[way];
			row->flow.messages[way] += flow.messages[way];
		}
	}
}

static const struct sxt_top_hardware *find_hardware(const struct sxt_top_shot *shot,
						    const struct sxt_top_hardware *like)
{
	for (size_t i = 0; shot != NULL && i < shot->hardware_cnt; i++) {
		if (shot->hardware[i].num == like->num &&
		    strcmp(shot->hardware[i].hca, like->hca) == 0)
			return &shot->hardware[i];
	}
	return NULL;
}

void sxt_top_join_hardware(const struct sxt_top_shot *before, const struct sxt_top_shot *after,
			   struct sxt_top_rows *rows)
{
	for (size_t i = 0; i < after->hardware_cnt; i++) {
		const struct sxt_top_hardware *now = &after->hardware[i];
		const struct sxt_top_hardware *was = find_hardware(before, now);
		struct sxt_top_row *row;
		char name[64];

		snprintf(name, sizeof(name), "%s:%" PRIu32, now->hca, now->num);
		row = find_row(rows, name);
		for (int way = 0; row != NULL && was != NULL && way < 2; way++) {
			if (now->has[way] && was->has[way] && now->bytes[way] >= was->bytes[way] &&
			    after->ns > before->ns)
				row->hardware[way] = (double)(now->bytes[way] - was->bytes[way]) /
						     (double)(after->ns - before->ns);
		}
	}
}
