/*
 * own.h - the inside of a segment that this process writes; for the sources of the writer only.
 */
#ifndef SXT_TELEMETRY_OWN_H
#define SXT_TELEMETRY_OWN_H

#include "core/list.h"
#include "telemetry/clock.h"
#include "telemetry/segment.h"
#include "telemetry/write.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#define SXT_TELE_NONE UINT32_MAX /* no record */

/* A connection without a record, whose counters are added to its link. */
struct sxt_tele_lone {
	struct sxt_tele_counters counters;
	struct sxt_list node;
	struct sxt_tele_flow told; /* of the counters what the link has */
	uint32_t link;
	uint32_t direction;
	bool has_failed;
};

struct sxt_tele {
	struct sxt_list node; /* of the process's segments; fork.c */
	struct sxt_tele_header *header;
	struct sxt_tele_port *ports;
	struct sxt_tele_link *links;
	struct sxt_tele_conn *conns;
	struct sxt_tele_path *paths;
	struct sxt_tele_comm *comms;
	struct sxt_tele_event *events;
	size_t bytes;
	int fd;        /* holds the lock that tells readers that we live; -1 after a fork */
	bool is_child; /* a fork's: the mapping is its own memory and the file its parent's */
	char path[PATH_MAX];
	struct sxt_tele_moment made;
	uint32_t conns_cap;
	uint32_t paths_cap;

	pthread_mutex_t lock; /* all below, and the records of links, connections and paths */
	uint32_t links_cnt;
	uint32_t conns_cnt;   /* records used at least once; the next ones are free */
	uint32_t ended_first; /* of those that ended, oldest first */
	uint32_t ended_last;
	uint32_t *ended_next;  /* by record */
	uint8_t *path_is_used; /* by record */
	struct sxt_list lones;
	uint64_t lones_due_ns;      /* when they are added to their links next */
	struct sxt_tele_lone spare; /* what nobody reads, for when memory is out */
};

/**
 * sxt_tele_note_used() - tell readers how far a section's records go.
 * @tele: the segment. @kind: the section. @cnt: the records, from its first one, that are written.
 * Thread: one at a time for each kind.
 */
static inline void sxt_tele_note_used(struct sxt_tele *tele, enum sxt_tele_section_kind kind,
				      uint32_t cnt)
{
	uint32_t *used = &tele->header->used[kind];

	if (*used < cnt)
		__atomic_store_n(used, cnt, __ATOMIC_RELEASE);
}

/**
 * sxt_tele_fork_lock() - keep the process from forking while a segment is made or ends.
 * Thread: any; not twice.
 */
void sxt_tele_fork_lock(void);

/** sxt_tele_fork_unlock() - the end of sxt_tele_fork_lock(). */
void sxt_tele_fork_unlock(void);

/**
 * sxt_tele_fork_guard() - from now on a child that is forked gets memory of its own in place of
 * the segment. @tele: mapped. Call under sxt_tele_fork_lock(); undone by sxt_tele_fork_forget().
 */
void sxt_tele_fork_guard(struct sxt_tele *tele);

/** sxt_tele_fork_forget() - undo sxt_tele_fork_guard(). @tele: as there, under the lock. */
void sxt_tele_fork_forget(struct sxt_tele *tele);

/**
 * sxt_tele_identify() - write who this process is into a new header.
 * @header: of the segment. @release: of Sextant. Path: slow, reads the environment and /proc.
 */
void sxt_tele_identify(struct sxt_tele_header *header, const char *release);

/**
 * sxt_tele_start_time() - of this process, as field 22 of /proc/self/stat.
 * Path: slow. Return: clock ticks since boot, 0 where it cannot be read.
 */
uint64_t sxt_tele_start_time(void);

/**
 * sxt_tele_has_room() - would a segment fit and leave as much again free?
 * @dir: where. @bytes: of the segment. @free_out: bytes that are free.
 * Return: true; also where the folder's file system does not say.
 */
bool sxt_tele_has_room(const char *dir, uint64_t bytes, uint64_t *free_out);

/**
 * sxt_tele_reap() - remove segments of this user whose processes are gone: those that ended more
 * than keep_sec ago, all but the last SXT_TELE_DEAD_MAX, and more, oldest first, while there is no
 * room. @dir: where. @keep_sec: how long they may stay. @bytes: of the segment to be made.
 * Path: slow. Errors are nobody's concern: what cannot be removed stays.
 */
void sxt_tele_reap(const char *dir, uint32_t keep_sec, uint64_t bytes);

#define SXT_TELE_DEAD_MAX 64

#endif
