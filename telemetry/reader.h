/*
 * reader.h - libsextant-telemetry: reading the segments that segment.h lays out, live or after the
 * process that wrote them died.
 *
 * Nothing here writes into a segment, and nothing trusts it: whatever the bytes are, and however
 * short its file is cut meanwhile, every call returns, and every text that comes out is
 * terminated, valid UTF-8 and free of control characters.
 * A view is used by one thread at a time. Errors are negative errno values.
 */
#ifndef SXT_TELEMETRY_READER_H
#define SXT_TELEMETRY_READER_H

#include <telemetry/segment.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

struct sxt_tele_view; /* one segment */

/* A file that looks like a segment by its name. */
struct sxt_tele_file {
	char path[4096];
	uint32_t uid;
	uint32_t pid;
	uint64_t start_time;
};

/**
 * sxt_tele_list() - the segments in a folder, those of the caller's user first, then by process.
 * @dir: NULL for SXT_TELE_DIR. @out: *cnt_out of them on success; free() it.
 * Return: 0, -ENOMEM, or the error of opendir().
 */
int sxt_tele_list(const char *dir, struct sxt_tele_file **out, size_t *cnt_out);

/**
 * sxt_tele_open() - begin to read a segment. It is not mapped: another user's file that is cut
 * short under a mapping would end the reader.
 * @path: of the file. @out: set on success; sxt_tele_close() frees it.
 * Return: 0; -EACCES another user's; -EAGAIN it is being made; -EPROTO it is none, or damaged;
 * -EPROTONOSUPPORT its version is another one; or the error of a system call.
 */
int sxt_tele_open(const char *path, struct sxt_tele_view **out);

/**
 * sxt_tele_map() - the same over bytes in memory, as those of a snapshot.
 * @bytes, @bytes_cnt: aligned to 8, kept, not copied; outlive the view.
 * @now_ticks: the moment they show. @out: as above. Return: as sxt_tele_open(), or -EINVAL for
 * bytes that are not aligned.
 */
int sxt_tele_map(const void *bytes, size_t bytes_cnt, uint64_t now_ticks,
		 struct sxt_tele_view **out);

/**
 * sxt_tele_close() - end reading. @view: NULL is fine.
 */
void sxt_tele_close(struct sxt_tele_view *view);

/**
 * sxt_tele_header() - whose segment it is. @view: the segment.
 * Return: a copy with texts made safe, as of the last sxt_tele_refresh().
 */
const struct sxt_tele_header *sxt_tele_header(const struct sxt_tele_view *view);

/**
 * sxt_tele_refresh() - read the header and the clock anew.
 * @view: the segment. Return: true while the process that writes it lives: it is not closed nor
 * cut short, and the writer holds its lock (flock) on the file, which needs no pid and so works
 * across pid namespaces. Bytes in memory have no lock: of them the state decides.
 */
bool sxt_tele_refresh(struct sxt_tele_view *view);

/**
 * sxt_tele_cap() - records of a section. @view: the segment. @kind: which. Return: how many.
 */
uint32_t sxt_tele_cap(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind);

/**
 * sxt_tele_used() - records of a section that may be in use, as of the last sxt_tele_refresh().
 * @view: the segment. @kind: which. Return: how many, from the first one; of events the cap.
 */
uint32_t sxt_tele_used(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind);

/* Copies of the records of a section that are in use. */
struct sxt_tele_records {
	char *list;   /* one after the other */
	uint32_t *at; /* index of each, ascending */
	uint32_t cnt;
	size_t bytes; /* of one, as in segment.h */
};

/**
 * sxt_tele_records_get() - all records of a section that are in use, many with one system call.
 * @view: the segment. @kind: one before SXT_TELE_EVENTS. @conns: the connections, which say whose
 * a path is; for SXT_TELE_PATHS only, else NULL. @out: what the _get() below would give, each; set
 * on success, end with sxt_tele_records_fini(). Return: 0, -ENOMEM, or -EINVAL for a wrong kind.
 */
int sxt_tele_records_get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			 const struct sxt_tele_records *conns, struct sxt_tele_records *out);

/** sxt_tele_records_fini() - free records; zeroed ones are fine. @records: zeroed. */
void sxt_tele_records_fini(struct sxt_tele_records *records);

/**
 * sxt_tele_record() - the record with an index. @records: where. @at: its index in the section.
 * Return: the record, NULL when it was not in use.
 */
const void *sxt_tele_record(const struct sxt_tele_records *records, uint32_t at);

/**
 * sxt_tele_port_get() - one port. @view: the segment. @i: below sxt_tele_cap(). @out: filled.
 * Return: false for an unused record, one past the end, or one whose writer died while writing.
 */
bool sxt_tele_port_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_port *out);

/** sxt_tele_link_get() - one link. Returns as sxt_tele_port_get(). */
bool sxt_tele_link_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_link *out);

/** sxt_tele_conn_get() - one connection with its counters. Returns as sxt_tele_port_get(). */
bool sxt_tele_conn_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_conn *out);

/**
 * sxt_tele_path_get() - one path; its counters are an even share of its connection's.
 * Returns as sxt_tele_port_get().
 */
bool sxt_tele_path_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_path *out);

/** sxt_tele_comm_get() - one communicator. Returns as sxt_tele_port_get(). */
bool sxt_tele_comm_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_comm *out);

/**
 * sxt_tele_event_get() - one event. @view: the segment. @number: from 0, of header->events.
 * @out: filled. Return: false if it was overwritten or is not whole.
 */
bool sxt_tele_event_get(const struct sxt_tele_view *view, uint64_t number,
			struct sxt_tele_event *out);

/**
 * sxt_tele_choice_get() - what the tuner chose. @view: the segment. @i: below sxt_tele_cap().
 * @out: filled. Return: false if it never did, or for a record past the end.
 */
bool sxt_tele_choice_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_choice *out);

/**
 * sxt_tele_now() - the present on the segment's clock; of a dead one the last moment that
 * anything in it is stamped with. @view: the segment. Return: ticks.
 */
uint64_t sxt_tele_now(const struct sxt_tele_view *view);

/** sxt_tele_ns() - a difference of ticks. Return: ns; 0 of a negative one. */
uint64_t sxt_tele_ns(const struct sxt_tele_view *view, uint64_t ticks);

/** sxt_tele_wall_ns() - a time stamp on CLOCK_REALTIME. Return: ns since 1970; 0 stays 0. */
uint64_t sxt_tele_wall_ns(const struct sxt_tele_view *view, uint64_t ticks);

/** sxt_tele_latency_floor_ns() - of bucket i, SXT_TELE_LATENCY_BUCKETS. Return: its first ns. */
uint64_t sxt_tele_latency_floor_ns(uint32_t i);

/** sxt_tele_size_floor() - of bucket i, SXT_TELE_SIZE_BUCKETS. Return: its fewest bytes. */
uint64_t sxt_tele_size_floor(uint32_t i);

/**
 * sxt_tele_quantile_ns() - a quantile of a histogram, interpolated within its bucket.
 * @buckets: SXT_TELE_LATENCY_BUCKETS counts. @q: 0 to 1. Return: ns; 0 for an empty one.
 */
uint64_t sxt_tele_quantile_ns(const uint32_t *buckets, double q);

#pragma GCC visibility pop

#endif
