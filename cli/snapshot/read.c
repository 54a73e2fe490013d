/*
 * read.c - a snapshot from a file that may hold anything: sizes and numbers are bounded before
 * memory is asked for, and what is not known is passed over.
 */
#include "cli/snapshot/snapshot.h"

#include "core/status.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MAX    100000
#define SEGMENTS_MAX   4096
#define MANIFEST_BYTES (4ull << 20)
#define COUNTER_BYTES  32
#define ALL_BYTES      (1ull << 30) /* of what is kept */
#define PASSED_BYTES   (4ull << 30) /* of what is uncompressed, kept or not */

struct reading {
	struct archive *archive;
	struct sxt_snapshot snapshot;
	char *manifest;
	size_t manifest_bytes;
	uint64_t kept;
	uint64_t passed;
	char *why;
	size_t why_bytes;
};

static int SXT_PRINTF(2, 3) refuse(struct reading *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, a line above */
	vsnprintf(r->why, r->why_bytes, format, args);
	va_end(args);
	return -EPROTO;
}

static int refuse_archive(struct reading *r)
{
	const char *text = archive_error_string(r->archive);

	return refuse(r, "%s", text != NULL ? text : "it is damaged");
}

/* Names are printed to terminals, and may come from anybody. */
static void take_name(char *out, size_t out_bytes, const char *name)
{
	snprintf(out, out_bytes, "%s", name);
	for (; *out != '\0'; out++) {
		if (*out < 0x20 || *out > 0x7e)
			*out = '?';
	}
}

/* A whole entry, with a zero behind it. */
static int read_data(struct reading *r, struct archive_entry *entry, uint64_t max, char **out,
		     size_t *bytes_out)
{
	int64_t size = archive_entry_size(entry);
	size_t have = 0;
	char *data;

	if (size < 0 || (uint64_t)size > max || r->kept + (uint64_t)size > ALL_BYTES)
		return refuse(r, "an entry of it is too large (%lld bytes)", (long long)size);
	data = malloc((size_t)size + 1);
	if (data == NULL)
		return -ENOMEM;
	while (have < (size_t)size) {
		la_ssize_t got = archive_read_data(r->archive, data + have, (size_t)size - have);

		if (got <= 0)
			break;
		have += (size_t)got;
	}
	if (have < (size_t)size) {
		free(data);
		return refuse(r, "it is cut short");
	}
	data[have] = '\0';
	r->kept += have;
	*out = data;
	*bytes_out = have;
	return 0;
}

static int read_segment(struct reading *r, struct archive_entry *entry, const char *name)
{
	struct sxt_snapshot_segment *segment;
	size_t cnt = r->snapshot.segments_cnt;

	if (cnt >= SEGMENTS_MAX)
		return refuse(r, "it has more than %d segments", SEGMENTS_MAX);
	segment = realloc(r->snapshot.segments, (cnt + 1) * sizeof(*segment));
	if (segment == NULL)
		return -ENOMEM;
	r->snapshot.segments = segment;
	segment[cnt] = (struct sxt_snapshot_segment){0};
	take_name(segment[cnt].file, sizeof(segment[cnt].file), name);
	r->snapshot.segments_cnt++;
	return read_data(r, entry, SXT_SNAPSHOT_SEGMENT_BYTES, &segment[cnt].bytes,
			 &segment[cnt].bytes_cnt);
}

static int read_counter(struct reading *r, struct archive_entry *entry, const char *name)
{
	struct sxt_snapshot_counter *counter;
	size_t cnt = r->snapshot.counters_cnt;
	size_t bytes;
	char *text = NULL;
	char *end;
	int rc;

	counter = realloc(r->snapshot.counters, (cnt + 1) * sizeof(*counter));
	if (counter == NULL)
		return -ENOMEM;
	r->snapshot.counters = counter;
	counter += cnt;
	rc = read_data(r, entry, COUNTER_BYTES, &text, &bytes);
	if (rc != 0)
		return rc;
	counter->value = strtoull(text, &end, 10);
	if (end == text || strspn(end, "\n") != strlen(end) ||
	    snprintf(counter->path, sizeof(counter->path), "%s", name) >=
		    (int)sizeof(counter->path))
		rc = refuse(r, "a counter of it is no number");
	else
		r->snapshot.counters_cnt++;
	free(text);
	return rc;
}

static const char *below(const char *name, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(name, folder, len) == 0 && name[len] != '\0' ? name + len : NULL;
}

static int read_entry(struct reading *r, struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);
	const char *part;

	if (name == NULL || archive_entry_filetype(entry) != AE_IFREG)
		return 0;
	if (strcmp(name, SXT_SNAPSHOT_TOP "manifest.json") == 0) {
		if (r->manifest != NULL)
			return refuse(r, "it has two manifests");
		return read_data(r, entry, MANIFEST_BYTES, &r->manifest, &r->manifest_bytes);
	}
	part = below(name, SXT_SNAPSHOT_TOP "segments/");
	if (part != NULL)
		return read_segment(r, entry, part);
	part = below(name, SXT_SNAPSHOT_TOP "counters/");
	return part != NULL ? read_counter(r, entry, part) : 0;
}

static int read_entries(struct reading *r)
{
	struct archive_entry *entry;
	int rc = 0;

	for (int i = 0; rc == 0; i++) {
		int status = archive_read_next_header(r->archive, &entry);

		if (status == ARCHIVE_EOF)
			return 0;
		if (status != ARCHIVE_OK && status != ARCHIVE_WARN)
			return refuse_archive(r);
		r->passed +=
			archive_entry_size(entry) > 0 ? (uint64_t)archive_entry_size(entry) : 0;
		if (i >= ENTRIES_MAX || r->passed > PASSED_BYTES)
			return refuse(r, "it is larger than any snapshot");
		rc = read_entry(r, entry);
	}
	return rc;
}

static int apply_segment(struct reading *r, json_t *row)
{
	const char *file;
	json_int_t now;
	int alive;

	if (json_unpack(row, "{s:s, s:b, s:I}", "file", &file, "alive", &alive, "now_ticks",
			&now) != 0)
		return refuse(r, "its manifest does not describe each segment");
	for (size_t i = 0; i < r->snapshot.segments_cnt; i++) {
		struct sxt_snapshot_segment *segment = &r->snapshot.segments[i];

		if (strcmp(segment->file, file) != 0)
			continue;
		segment->alive = alive != 0;
		segment->now = (uint64_t)now;
		return 0;
	}
	return refuse(r, "it lacks a segment that its manifest names");
}

static int apply_misses(struct reading *r, json_t *misses)
{
	size_t i;
	json_t *row;

	r->snapshot.misses = calloc(json_array_size(misses) + 1, sizeof(*r->snapshot.misses));
	if (r->snapshot.misses == NULL)
		return -ENOMEM;
	json_array_foreach(misses, i, row)
	{
		struct sxt_snapshot_miss *miss = &r->snapshot.misses[r->snapshot.misses_cnt];
		const char *file;
		int error;

		if (json_unpack(row, "{s:s, s:i}", "file", &file, "errno", &error) != 0 ||
		    error <= 0)
			return refuse(r, "its manifest is not as it has to be");
		miss->rc = -error;
		take_name(miss->file, sizeof(miss->file), file);
		r->snapshot.misses_cnt++;
	}
	return 0;
}

static int apply_manifest(struct reading *r, json_t *root)
{
	const char *schema;
	const char *host;
	json_t *segments;
	json_t *misses;
	json_int_t taken;
	json_t *row;
	size_t i;
	int rc;

	if (json_unpack(root, "{s:s}", "schema", &schema) != 0 ||
	    strncmp(schema, SXT_SNAPSHOT_SCHEMA, strlen(SXT_SNAPSHOT_SCHEMA) - 1) != 0)
		return refuse(r, "its manifest is that of something else");
	if (strcmp(schema, SXT_SNAPSHOT_SCHEMA) != 0) {
		refuse(r, "it is of version %.32s, this command reads " SXT_SNAPSHOT_SCHEMA,
		       schema);
		return -EPROTONOSUPPORT;
	}
	if (json_unpack(root, "{s:s, s:I, s:o, s:o}", "host", &host, "taken_ns", &taken, "segments",
			&segments, "unreadable", &misses) != 0 ||
	    taken < 0)
		return refuse(r, "its manifest is not as it has to be");
	take_name(r->snapshot.host, sizeof(r->snapshot.host), host);
	r->snapshot.taken_ns = (uint64_t)taken;
	if (json_array_size(segments) != r->snapshot.segments_cnt)
		return refuse(r, "it does not have the segments that its manifest names");
	rc = apply_misses(r, misses);
	json_array_foreach(segments, i, row)
	{
		if (rc == 0)
			rc = apply_segment(r, row);
	}
	return rc;
}

static int read_manifest(struct reading *r)
{
	json_error_t error;
	json_t *root;
	int rc;

	if (r->manifest == NULL)
		return refuse(r, "it has no manifest; was it made by `sextant snapshot`?");
	root = json_loadb(r->manifest, r->manifest_bytes, JSON_REJECT_DUPLICATES, &error);
	if (root == NULL)
		return refuse(r, "its manifest is no JSON");
	rc = apply_manifest(r, root);
	json_decref(root);
	return rc;
}

/* The archive is open, or what went wrong stands in it. */
static int read_archive(struct reading *r, int opened, struct sxt_snapshot *out)
{
	int rc = opened == ARCHIVE_OK ? read_entries(r) : refuse_archive(r);

	if (rc == 0)
		rc = read_manifest(r);
	if (rc == -ENOMEM)
		snprintf(r->why, r->why_bytes, "%s", sxt_strerror(rc));
	archive_read_free(r->archive);
	free(r->manifest);
	if (rc == 0)
		*out = r->snapshot;
	else
		sxt_snapshot_fini(&r->snapshot);
	return rc;
}

static int begin(struct reading *r)
{
	r->archive = archive_read_new();
	if (r->archive == NULL)
		return -ENOMEM;
	archive_read_support_filter_gzip(r->archive);
	archive_read_support_format_tar(r->archive);
	return 0;
}

int sxt_snapshot_read(const char *file, struct sxt_snapshot *out, char *why, size_t why_bytes)
{
	struct reading r = {.why = why, .why_bytes = why_bytes};
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0) {
		rc = -errno;
		snprintf(why, why_bytes, "%s", sxt_strerror(rc));
		return rc;
	}
	rc = begin(&r);
	if (rc == 0)
		rc = read_archive(&r, archive_read_open_fd(r.archive, fd, 64 * 1024), out);
	close(fd);
	return rc;
}

int sxt_snapshot_parse(const void *bytes, size_t bytes_cnt, struct sxt_snapshot *out, char *why,
		       size_t why_bytes)
{
	struct reading r = {.why = why, .why_bytes = why_bytes};
	int rc = begin(&r);

	if (rc == 0)
		rc = read_archive(&r, archive_read_open_memory(r.archive, bytes, bytes_cnt), out);
	return rc;
}

static int by_path(const void *path, const void *counter)
{
	return strcmp(path, ((const struct sxt_snapshot_counter *)counter)->path);
}

bool sxt_snapshot_counter(const struct sxt_snapshot *snapshot, const char *path, uint64_t *out)
{
	size_t cnt = snapshot->counters_cnt;
	const struct sxt_snapshot_counter *found =
		lfind(path, snapshot->counters, &cnt, sizeof(*found), by_path);

	if (found != NULL)
		*out = found->value;
	return found != NULL;
}

void sxt_snapshot_fini(struct sxt_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->segments_cnt; i++)
		free(snapshot->segments[i].bytes);
	free(snapshot->segments);
	free(snapshot->counters);
	free(snapshot->misses);
	*snapshot = (struct sxt_snapshot){0};
}
