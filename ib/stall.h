/*
 * stall.h - what a connection that does not get on waits for, when that is said again, and in
 * which words. Nothing here looks at anything but its arguments.
 */
#ifndef SXT_IB_STALL_H
#define SXT_IB_STALL_H

#include "core/compiler.h"
#include "core/sys.h"
#include "telemetry/segment.h"

#include <stdbool.h>

enum sxt_stall_word {
	SXT_STALL_NONE,        /* never used */
	SXT_STALL_PEER_LATE,   /* a sender with data whose peer posted no receive */
	SXT_STALL_SENDER_LATE, /* a posted receive whose data did not come */
	SXT_STALL_WIRE,        /* a write that is posted and not completed */
	SXT_STALL_APP_IDLE     /* nothing in flight, and the caller came with nothing */
};

struct sxt_stall {
	enum sxt_stall_word word;
	uint64_t since; /* ticks of the last progress */
	uint64_t in_flight;
	uint64_t done;
};

/**
 * sxt_stall_judge() - what a connection waits for.
 * @direction: of the connection. @counters: may be written meanwhile. @out: filled. Where they
 * were read amid a change the next look has another since. Thread: any.
 */
void sxt_stall_judge(enum sxt_tele_direction direction, const struct sxt_tele_counters *counters,
		     struct sxt_stall *out);

/* Of one connection: the stall that was seen last, and how old it is when it is told. */
struct sxt_stall_memory {
	uint64_t since;
	uint64_t tell_ns;
};

/**
 * sxt_stall_is_due() - is a stall to be told now? Once at @least_ns, again when it has doubled and
 * not within five minutes; never at the first look at it.
 * @memory: of the connection, zeroed at first. @since: names the stall. @waited_ns: its age.
 * @least_ns: SEXTANT_STALL_SECONDS. Return: true if so; it then counts as told.
 */
bool sxt_stall_is_due(struct sxt_stall_memory *memory, uint64_t since, uint64_t waited_ns,
		      uint64_t least_ns);

#define SXT_STALL_LINES 10u /* a minute, of one process */

struct sxt_stall_budget {
	uint64_t begin_ns; /* of the minute */
	uint32_t told_cnt;
	uint32_t held_cnt; /* that were due and not told */
};

/**
 * sxt_stall_budget_begin() - begin another minute when the present one is over.
 * @budget: zeroed at first. @now_ns: now. Return: how many were held back in the one that ended.
 */
uint32_t sxt_stall_budget_begin(struct sxt_stall_budget *budget, uint64_t now_ns);

/**
 * sxt_stall_budget_take() - may one more line be said in this minute?
 * @budget: the budget. Return: true if so; a line that may not is counted.
 */
bool sxt_stall_budget_take(struct sxt_stall_budget *budget);

/* What the growth of a counter means; core/counters.def. */
enum sxt_stall_sign {
	SXT_STALL_SYMBOL,
	SXT_STALL_LINK,
	SXT_STALL_RETRANSMIT,
	SXT_STALL_RNR,
	SXT_STALL_CONGESTION,
	SXT_STALL_WAIT,
	SXT_STALL_SIGNS
};

#define SXT_STALL_COUNTERS_MAX 64 /* of core/counters.def */

/* A port's counters at one time; UINT64_MAX where there is none. */
struct sxt_stall_sample {
	uint64_t at_ns;
	uint64_t values[SXT_STALL_COUNTERS_MAX];
};

/**
 * sxt_stall_sample_read() - read the counters of a port.
 * @root: SEXTANT_SYSROOT. @hca, @port: the port. @now_ns: now. @out: filled.
 * Path: slow, some hundred system calls, and the HCA may be asked for each.
 */
void sxt_stall_sample_read(const char *root, const char *hca, uint32_t port, uint64_t now_ns,
			   struct sxt_stall_sample *out);

#define SXT_STALL_UNREAD 0x80000000u /* among the signs: no counter of a port is known */

/**
 * sxt_stall_growth() - what a port did between two samples, as "RETRANSMIT heavy (packet_seq_err
 * +4830), CONGESTION (np_cnp_sent +2)"; heavy is 100 a second and more.
 * @before, @after: the samples. @out, @out_bytes: text, terminated, "" when nothing grew.
 * Return: signs that grew, a bit each, or SXT_STALL_UNREAD.
 */
uint32_t sxt_stall_growth(const struct sxt_stall_sample *before,
			  const struct sxt_stall_sample *after, char *out, size_t out_bytes);

struct sxt_stall_facts {
	struct sxt_stall stall;
	uint64_t waited_ns;
	uint64_t since_wall_ns;
	const char *here; /* "host:pid" */
	const char *peer;
	int64_t rank; /* of this side and of the peer's; -1 not known */
	int64_t peer_rank;
	const char *ports;  /* "mlx5_0, mlx5_1" */
	const char *growth; /* of them, "" none; with WIRE only, as the next */
	uint32_t signs;
};

/**
 * sxt_stall_line() - who waits for whom, since when, where, and what to look at.
 * @facts: of a stall whose word is neither NONE nor APP_IDLE.
 * @out, @out_bytes: text, terminated; 1,600 bytes are enough for any facts.
 */
void sxt_stall_line(const struct sxt_stall_facts *facts, char *out, size_t out_bytes);

#endif
