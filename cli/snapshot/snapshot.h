/*
 * snapshot.h - a file that holds all telemetry segments of a host and the counters of its ports at
 * one moment; docs/top.md describes it.
 */
#ifndef SXT_CLI_SNAPSHOT_SNAPSHOT_H
#define SXT_CLI_SNAPSHOT_SNAPSHOT_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_SNAPSHOT_SCHEMA "sextant.snapshot/1"
#define SXT_SNAPSHOT_TOP    "sextant-snapshot/"

#define SXT_SNAPSHOT_SEGMENT_BYTES (256ull << 20) /* a larger one is not taken */

struct sxt_snapshot_segment {
	char file[80]; /* its name in the folder it came from */
	bool alive;    /* its process was */
	uint64_t now;  /* ticks of its clock when it was taken */
	char *bytes;
	size_t bytes_cnt;
};

struct sxt_snapshot_counter {
	char path[160]; /* "mlx5_0/1/counters/port_xmit_data" */
	uint64_t value;
};

/* A file whose segment could not be had. */
struct sxt_snapshot_miss {
	char file[80];
	int rc; /* negative errno */
};

struct sxt_snapshot {
	char host[64];
	uint64_t taken_ns; /* CLOCK_REALTIME */
	struct sxt_snapshot_segment *segments;
	size_t segments_cnt;
	struct sxt_snapshot_counter *counters;
	size_t counters_cnt;
	struct sxt_snapshot_miss *misses;
	size_t misses_cnt;
};

/**
 * sxt_snapshot_take() - copy every segment that can be read, and the counters of all ports.
 * @dir: of segments. @root: of /sys. @out: set on success; end with sxt_snapshot_fini().
 * Return: 0, -ENOMEM, or the error of opening @dir.
 */
SXT_MUST_CHECK int sxt_snapshot_take(const char *dir, const char *root, struct sxt_snapshot *out);

/**
 * sxt_snapshot_write() - as a file.
 * @snapshot: what. @file: its name, must not exist; "-" for standard output.
 * @why, @why_bytes: what failed. Return: 0, -EEXIST, or -EIO; then no file is left.
 */
SXT_MUST_CHECK int sxt_snapshot_write(const struct sxt_snapshot *snapshot, const char *file,
				      char *why, size_t why_bytes);

/**
 * sxt_snapshot_read() - read a file back, whatever it holds.
 * @file: its name. @out: set on success; end with sxt_snapshot_fini().
 * @why, @why_bytes: what is wrong with it. Return: 0, -ENOMEM, -EPROTO for no snapshot or a damaged
 * one, -EPROTONOSUPPORT for one of another version, or the error of opening it.
 */
SXT_MUST_CHECK int sxt_snapshot_read(const char *file, struct sxt_snapshot *out, char *why,
				     size_t why_bytes);

/**
 * sxt_snapshot_parse() - the same over a file's bytes.
 * @bytes, @bytes_cnt: the file. @out, @why, @why_bytes: as above. Return: as above.
 */
SXT_MUST_CHECK int sxt_snapshot_parse(const void *bytes, size_t bytes_cnt, struct sxt_snapshot *out,
				      char *why, size_t why_bytes);

/**
 * sxt_snapshot_counter() - one counter.
 * @snapshot: where. @path: as in struct sxt_snapshot_counter. @out: set when it is there.
 * Return: is it there?
 */
bool sxt_snapshot_counter(const struct sxt_snapshot *snapshot, const char *path, uint64_t *out);

/**
 * sxt_snapshot_fini() - free what it holds; a zeroed one is fine. @snapshot: zeroed.
 */
void sxt_snapshot_fini(struct sxt_snapshot *snapshot);

#endif
