/*
 * export.h - what the parts of `sextant export` share: sums that only grow, made from segments
 * whose records come and go, and the pages that tell them. One thread at a time.
 */
#ifndef SXT_CLI_EXPORT_EXPORT_H
#define SXT_CLI_EXPORT_EXPORT_H

#include "cli/export/page.h"

#include "core/list.h"
#include "telemetry/reader.h"

#define SXT_EXPORT_LABELS_BYTES   1024
#define SXT_EXPORT_PROCESSES_MAX  128 /* with labels of their own */
#define SXT_EXPORT_LINGER_SEC     300 /* how long an ended process is told of */
#define SXT_EXPORT_LATENCIES      24  /* one per power of two: three of the segment's */
#define SXT_EXPORT_FINE_OF_COARSE 3

enum sxt_export_segment_state {
	SXT_EXPORT_LIVE,
	SXT_EXPORT_ENDED,
	SXT_EXPORT_DENIED,
	SXT_EXPORT_DAMAGED,
	SXT_EXPORT_OTHER_VERSION,
	SXT_EXPORT_SEGMENT_STATES
};

/* Of a process, or of all that have no labels of their own. They only grow. */
struct sxt_export_totals {
	char labels[SXT_EXPORT_LABELS_BYTES]; /* process, job_id, rank */
	uint64_t opened;
	uint64_t shared;
	uint64_t warnings;
	uint64_t events[SXT_TELE_EVENT_STALL + 1]; /* by kind; 0 those that were not seen */
};

/* The connections of one process and NIC with one peer in one direction. */
struct sxt_export_group {
	struct sxt_list node;
	struct sxt_export_totals *owner;
	char nic[64];
	char peer[96];
	unsigned int way; /* 0 send, 1 receive */
	char labels[SXT_EXPORT_LABELS_BYTES];

	/* These only grow. */
	uint64_t requests;
	uint64_t done;
	uint64_t messages;
	uint64_t bytes;
	uint64_t not_now;
	uint64_t latency[SXT_TELE_WAITS][SXT_EXPORT_LATENCIES];
	uint64_t latency_ns[SXT_TELE_WAITS]; /* summed, by the middles of the segment's buckets */
	uint64_t sizes[SXT_TELE_SIZE_BUCKETS];
	uint64_t sized_bytes; /* of the messages in these */

	/* As of the last look. */
	uint64_t open;
	uint64_t failed;
	uint64_t in_flight;
	uint64_t stalled_ns[SXT_TELE_WAIT_WIRE + 1]; /* by what it waits for */
};

/* What was last seen of a connection's record. */
struct sxt_export_conn {
	bool seen;
	uint32_t generation;
	uint32_t link;
	unsigned int way;
	struct sxt_tele_counters counters;
};

/* What was last seen of a link's record. */
struct sxt_export_link {
	struct sxt_tele_link now;
	struct sxt_tele_flow claimed[2];    /* in its flows, but told as of a connection before */
	struct sxt_tele_flow told[2];       /* of the rest */
	struct sxt_export_group *groups[2]; /* NULL until needed */
};

struct sxt_export_process {
	struct sxt_list node;
	char *path;
	struct sxt_tele_view *view; /* NULL once its last numbers were taken */
	bool listed;                /* its file is there */
	bool alive;
	uint64_t comms_cnt; /* communicators in use */
	bool forgotten;     /* no longer told of; known only so that it does not come back */
	uint64_t ended_ns;
	struct sxt_tele_header header;
	char info[SXT_EXPORT_LABELS_BYTES];
	struct sxt_export_totals own;
	struct sxt_export_totals *totals; /* own, or everybody else's */
	struct sxt_tele_header counted;   /* of it what the totals already hold */
	struct sxt_export_conn *conns;
	struct sxt_export_link *links;
	uint32_t conns_cap;
	uint32_t links_cap;
};

struct sxt_export {
	const char **dirs; /* patterns as glob() takes them */
	size_t dirs_cnt;
	unsigned int limit; /* groups with a peer's name */
	const char *root;   /* of /sys */

	struct sxt_list processes;
	struct sxt_list groups;
	unsigned int processes_cnt; /* with labels of their own */
	unsigned int named_cnt;     /* groups that count against the limit */
	uint64_t merged;            /* groups that had to share */
	struct sxt_export_totals other;
	uint64_t segments[SXT_EXPORT_SEGMENT_STATES];
	uint64_t take_ns; /* how long the last look took */
};

/**
 * sxt_export_take() - look at all segments and add to the sums what is new.
 * @e: sums. Path: slow, system calls, allocates; what memory is short for is taken next time.
 */
void sxt_export_take(struct sxt_export *e);

/**
 * sxt_export_fini() - free the sums. @e: only its options may be used again.
 */
void sxt_export_fini(struct sxt_export *e);

/**
 * sxt_export_link_group() - where a link's connections of one direction are summed.
 * @e: sums. @process: whose. @link: index of its record. @way: 0 send, 1 receive.
 * Return: the group, made when there is none; NULL when memory is short.
 */
struct sxt_export_group *sxt_export_link_group(struct sxt_export *e,
					       struct sxt_export_process *process, uint32_t link,
					       unsigned int way);

/**
 * sxt_export_way() - where a connection's messages go. @conn: it. Return: 0 send, 1 receive.
 */
static inline unsigned int sxt_export_way(const struct sxt_tele_conn *conn)
{
	return conn->direction == SXT_TELE_RECEIVES;
}

/**
 * sxt_export_drop_groups() - a process is no longer told of: neither are its connections.
 * @e: sums. @process: whose.
 */
void sxt_export_drop_groups(struct sxt_export *e, const struct sxt_export_process *process);

/**
 * sxt_export_conns() - the families of connections and processes. @e: sums. @page: where.
 */
void sxt_export_conns(struct sxt_export *e, struct sxt_page *page);

/**
 * sxt_export_ports() - the families of ports: who uses them, and what the hardware counts.
 * @e: sums. @page: where. Path: slow, reads /sys.
 */
void sxt_export_ports(struct sxt_export *e, struct sxt_page *page);

/**
 * sxt_export_page() - take, then tell all of it.
 * @e: sums. @open_metrics: which format. @len_out: bytes of the page.
 * Return: text to free(), or NULL when memory is short.
 */
char *sxt_export_page(struct sxt_export *e, bool open_metrics, size_t *len_out);

/**
 * sxt_export_serve() - answer HTTP until a signal ends it.
 * @e: sums. @listen: "ADDR:PORT". Return: exit status.
 */
int sxt_export_serve(struct sxt_export *e, const char *listen);

/**
 * sxt_export_wants_open_metrics() - what a client that sends this Accept header wants.
 * @accept: the header, or NULL. Return: true for OpenMetrics, false for Prometheus' own format.
 */
bool sxt_export_wants_open_metrics(const char *accept);

#endif
