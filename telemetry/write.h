/*
 * write.h - the writing side of a telemetry segment (segment.h): made when the transport is,
 * reserved whole, one writer per block. Everything accepts a NULL segment and does nothing then:
 * telemetry that is off or could not be had costs its users no thought.
 */
#ifndef SXT_TELEMETRY_WRITE_H
#define SXT_TELEMETRY_WRITE_H

#include "core/compiler.h"
#include "telemetry/segment.h"

#include <stdbool.h>
#include <stdint.h>

struct sxt_tele; /* this process's segment */

/* Records a segment is made with; the connections' are the caller's choice. */
#define SXT_TELE_PORTS_CAP      64u
#define SXT_TELE_LINKS_CAP      1024u /* the last one is for all that come after it */
#define SXT_TELE_COMMS_CAP      256u
#define SXT_TELE_EVENTS_CAP     1024u
#define SXT_TELE_CHOICES_CAP    110u /* 5 collectives by 7 algorithms and 3 protocols, or left */
#define SXT_TELE_CONNS_MAX      (1u << 20)
#define SXT_TELE_PATHS_PER_CONN 2u

struct sxt_tele_options {
	const char *dir;     /* SXT_TELE_DIR but in tests */
	uint32_t conns_cap;  /* SEXTANT_TELEMETRY_CONNECTIONS; at most SXT_TELE_CONNS_MAX */
	uint32_t keep_sec;   /* SEXTANT_TELEMETRY_KEEP: of dead processes' segments */
	uint32_t stall_sec;  /* SEXTANT_STALL_SECONDS, for readers */
	const char *release; /* version text */
};

/**
 * sxt_tele_bytes() - how large a segment is; all of it is reserved, so this is also its memory.
 * @conns_cap: connections with a record of their own.
 * Return: 4,096 + 256 x (64 ports + 1,024 links + 1,024 events) + 64 x 256 communicators +
 * 160 x 110 choices + (2,048 + 2 x 256) x conns_cap.
 */
uint64_t sxt_tele_bytes(uint32_t conns_cap);

/**
 * sxt_tele_create() - reap stale segments of this user, then make this process's own.
 * @options: where and how large. @out: set on success; sxt_tele_destroy() ends it.
 * Thread: any. Path: slow, system calls. Logs one WARN with the reason and what to do when it
 * fails. Return: 0, -ENOSPC when it would take more than half of what is free, or another error
 * of a system call.
 */
SXT_MUST_CHECK int sxt_tele_create(const struct sxt_tele_options *options, struct sxt_tele **out);

/**
 * sxt_tele_destroy() - mark the segment closed and remove its file; a reader that has it open
 * keeps it. @tele: NULL is fine. Nobody else may use it any more.
 */
void sxt_tele_destroy(struct sxt_tele *tele);

/**
 * sxt_tele_retire() - mark the segment closed and remove its file, but keep it mapped: the process
 * ends while threads may still write. @tele: sxt_tele_destroy() may follow.
 */
void sxt_tele_retire(struct sxt_tele *tele);

/** sxt_tele_note_abi() - NCCL's interface version. Thread: any. */
void sxt_tele_note_abi(struct sxt_tele *tele, int abi);

/**
 * sxt_tele_port_set() - write a port's record.
 * @tele: the segment. @i: its number, below the section's cap; others are ignored. @port: all but
 * sequence and reserved bytes. Thread: one at a time. An event is told when state changed.
 */
void sxt_tele_port_set(struct sxt_tele *tele, uint32_t i, const struct sxt_tele_port *port);

/* What is known of a connection when it is made. */
struct sxt_tele_conn_facts {
	enum sxt_tele_direction direction;
	uint32_t id;
	uint32_t peer_id;
	uint64_t comm;                     /* communicator's id, 0 unknown */
	const char *nic;                   /* "mlx5_0+mlx5_1" */
	const char *peer;                  /* "host:pid" */
	const struct sxt_tele_path *paths; /* sequence, conn and counters are not read */
	uint32_t paths_cnt;
};

/* A connection's place in the segment. */
struct sxt_tele_handle {
	struct sxt_tele_counters *counters; /* never NULL; shared ones are the link's alone */
	uint32_t conn;                      /* index of its record, UINT32_MAX without one */
	uint32_t link;
};

/**
 * sxt_tele_conn_open() - give a connection a record and its paths theirs, the link's shared one
 * when none is left.
 * @tele: not NULL. @facts: copied. @out: filled. Thread: any, takes a lock. Path: slow. An event
 * is told.
 */
void sxt_tele_conn_open(struct sxt_tele *tele, const struct sxt_tele_conn_facts *facts,
			struct sxt_tele_handle *out);

/**
 * sxt_tele_conn_fail() - the connection failed; whoever drives it may go on writing its counters.
 * @tele: the segment. @handle: from sxt_tele_conn_open(). @error: errno. @text: of the failure.
 * Thread: any, takes a lock. Path: slow. An event is told.
 */
void sxt_tele_conn_fail(struct sxt_tele *tele, const struct sxt_tele_handle *handle, int error,
			const char *text);

/**
 * sxt_tele_conn_end() - the connection is no more; its record stays readable until it is needed.
 * @tele: the segment. @handle: from sxt_tele_conn_open(), not used again.
 * Thread: any, takes a lock. Path: slow. An event is told but after sxt_tele_conn_fail().
 */
void sxt_tele_conn_end(struct sxt_tele *tele, const struct sxt_tele_handle *handle);

/**
 * sxt_tele_comm_open() - a communicator begins.
 * @tele: the segment. @id: as NCCL has it. Thread: any, takes a lock.
 * Return: its record's index for sxt_tele_comm_end(), UINT32_MAX without one.
 */
uint32_t sxt_tele_comm_open(struct sxt_tele *tele, uint64_t id);

/**
 * sxt_tele_comm_end() - a communicator is no more; its record stays readable until it is needed.
 * @tele: the segment. @i: from sxt_tele_comm_open(). Thread: any, takes a lock.
 */
void sxt_tele_comm_end(struct sxt_tele *tele, uint32_t i);

/**
 * sxt_tele_shared_due_ns() - when sxt_tele_add_shared() has something to do.
 * @tele: the segment. Thread: any, takes a lock. Return: on sxt_sys's clock, UINT64_MAX never.
 */
uint64_t sxt_tele_shared_due_ns(struct sxt_tele *tele);

/**
 * sxt_tele_add_shared() - what connections without a record moved becomes seen in their links.
 * @tele: the segment. @now_ns: does nothing before it is due. Thread: any, takes a lock.
 */
void sxt_tele_add_shared(struct sxt_tele *tele, uint64_t now_ns);

/**
 * sxt_tele_event() - append to the ring of events.
 * @tele: the segment. @kind: what. @subject: index of the record it is about, UINT32_MAX none.
 * @text: cut where it is too long. Thread: any, never waits.
 */
void sxt_tele_event(struct sxt_tele *tele, enum sxt_tele_event_kind kind, uint32_t subject,
		    const char *text);

/**
 * sxt_tele_choices() - the records of what the tuner chooses; the caller says which is for what.
 * @tele: the segment. Return: SXT_TELE_CHOICES_CAP zeroed records as long as the segment, or NULL.
 */
struct sxt_tele_choice *sxt_tele_choices(struct sxt_tele *tele);

#endif
