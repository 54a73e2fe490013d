/*
 * rows_parts.h - what rows.c and rows_ports.c share.
 */
#ifndef SXT_CLI_TOP_ROWS_PARTS_H
#define SXT_CLI_TOP_ROWS_PARTS_H

#include "cli/top/rows.h"

/* One process at two moments. */
struct sxt_top_pair {
	const struct sxt_top_sample *before; /* NULL: it was not seen before */
	const struct sxt_top_sample *after;
	uint64_t recent_ns; /* between them, 0 without before */
};

/* Sums over connections or paths. */
struct sxt_top_tally {
	uint64_t bytes[SXT_TOP_WINDOWS][2];
	uint64_t messages[SXT_TOP_WINDOWS][2];
	uint32_t latency[SXT_TOP_WINDOWS][SXT_TELE_WAITS][SXT_TELE_LATENCY_BUCKETS];
	uint64_t live;   /* connections */
	uint64_t failed; /* connections */
	uint64_t oldest_ns;
};

static inline int sxt_top_way(const struct sxt_tele_conn *conn)
{
	return conn->direction == SXT_TELE_RECEIVES ? 1 : 0;
}

/**
 * sxt_top_tally_add() - add traffic to a sum.
 * @tally: the sum. @way: 0 out, 1 in. @bytes, @messages: how much. @window: of when.
 */
void sxt_top_tally_add(struct sxt_top_tally *tally, int way, uint64_t bytes, uint64_t messages,
		       enum sxt_top_window window);

/**
 * sxt_top_tally_flow() - a sum as rates and quantiles.
 * @tally: the sum. @recent_ns, @whole_ns: how long it took; 0: unknown. Return: the flow.
 */
struct sxt_top_flow sxt_top_tally_flow(const struct sxt_top_tally *tally, uint64_t recent_ns,
				       uint64_t whole_ns);

/**
 * sxt_top_row_of() - a row in which all but whose it is is unknown.
 * @sample: its process, NULL for a row of several. @at: index of the record. Return: the row.
 */
struct sxt_top_row sxt_top_row_of(const struct sxt_top_sample *sample, uint64_t at);

/**
 * sxt_top_conn_before() - what a connection's record held earlier.
 * @pair: the process. @at: index. @after: what it holds now.
 * Return: NULL when the record was not in use or another connection's.
 */
const struct sxt_tele_conn *sxt_top_conn_before(const struct sxt_top_pair *pair, uint32_t at,
						const struct sxt_tele_conn *after);

/**
 * sxt_top_add_ports() - add a process's ports, to the rows of the same ports where there are some.
 * @pair: the process. @rows: with room for them.
 */
void sxt_top_add_ports(const struct sxt_top_pair *pair, struct sxt_top_rows *rows);

/**
 * sxt_top_join_hardware() - give the rows of ports what the ports' own counters say.
 * @before: NULL: rates stay unknown. @after: the moment. @rows: all of them.
 */
void sxt_top_join_hardware(const struct sxt_top_shot *before, const struct sxt_top_shot *after,
			   struct sxt_top_rows *rows);

#endif
