/*
 * rows.h - what one moment, and what changed since an earlier one, look like as rows to show. Pure:
 * no clock, no file, no terminal.
 */
#ifndef SXT_CLI_TOP_ROWS_H
#define SXT_CLI_TOP_ROWS_H

#include "cli/top/sample.h"

enum sxt_top_kind {
	SXT_TOP_PROCESSES,
	SXT_TOP_PORTS,
	SXT_TOP_LINKS,
	SXT_TOP_CONNECTIONS,
	SXT_TOP_EVENTS,
	SXT_TOP_KINDS
};

enum sxt_top_window {
	SXT_TOP_RECENT, /* between the two moments */
	SXT_TOP_WHOLE,  /* since the process or connection began */
	SXT_TOP_WINDOWS
};

enum sxt_top_tone {
	SXT_TOP_PLAIN,
	SXT_TOP_GOOD,
	SXT_TOP_DIM, /* of a process that is no more */
	SXT_TOP_WARN,
	SXT_TOP_BAD
};

#define SXT_TOP_UNKNOWN UINT64_MAX /* of a whole number; of a rate it is NAN */

struct sxt_top_span {
	uint64_t p50_ns; /* SXT_TOP_UNKNOWN: nothing was measured */
	uint64_t p99_ns;
};

/* Index 0 is out, 1 is in. Rates in GB/s, 10^9 bytes. */
struct sxt_top_flow {
	double now[2];
	double avg[2];
	uint64_t bytes[2];
	uint64_t messages[2];
	struct sxt_top_span waits[SXT_TOP_WINDOWS][SXT_TELE_WAITS];
};

/* One row of any kind; a member that means nothing for the kind is unknown, 0 or "". */
struct sxt_top_row {
	const struct sxt_top_sample *of; /* NULL: of a port, which belongs to many */
	uint64_t at;                     /* record, or number of the event */
	enum sxt_top_tone tone;
	bool gone; /* its process is no more */
	uint64_t pid;
	uint64_t rank;
	struct sxt_top_flow flow;
	double rate;        /* of a connection, the way it goes */
	double average;     /* likewise */
	double hardware[2]; /* all traffic of the port, now */
	uint64_t conns;     /* alive; of a port: processes that have it */
	uint64_t errors;    /* connections that failed */
	uint32_t state;     /* of a port, enum sxt_tele_port_state */
	uint64_t warnings;
	uint64_t flaps;
	uint64_t in_flight;
	uint64_t oldest_ns; /* 0: nothing waits */
	uint64_t tag;
	uint64_t shared;      /* of a connection's row: how many without a record it stands for */
	double shared_now[2]; /* of a link: what those without a record move */
	uint64_t wall_ns;     /* event; last change; last sign of life */
	char status[32];
	char name[64]; /* command, port, NIC, kind of event */
	char with[96]; /* the peer */
	char speed[16];
	char address[48]; /* of a port; of a connection its communicator, "" unknown */
	char text[256];   /* job, reason, error, event */
};

struct sxt_top_rows {
	struct sxt_top_row *list[SXT_TOP_KINDS];
	size_t cnt[SXT_TOP_KINDS];
};

/**
 * sxt_top_rows_make() - the rows of one moment.
 * @before: an earlier moment, NULL: rates are unknown. @after: the moment; outlives the rows.
 * @out: set on success; end with sxt_top_rows_fini(). Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_rows_make(const struct sxt_top_shot *before,
				     const struct sxt_top_shot *after, struct sxt_top_rows *out);

/**
 * sxt_top_rows_fini() - free rows; zeroed ones are fine. @rows: zeroed.
 */
void sxt_top_rows_fini(struct sxt_top_rows *rows);

/**
 * sxt_top_runs() - does the process still write? @sample: it. Return: false of one that died or
 * left its segment in order.
 */
bool sxt_top_runs(const struct sxt_top_sample *sample);

/**
 * sxt_top_comm_name() - a communicator's id. @id: as in the segment. @out: text, "" for 0.
 * @bytes: of it, at least 17.
 */
void sxt_top_comm_name(uint64_t id, char *out, size_t bytes);

/**
 * sxt_top_state_word() - of a process. @sample: it. Return: "live", "dead" or "ended".
 */
const char *sxt_top_state_word(const struct sxt_top_sample *sample);

#endif
