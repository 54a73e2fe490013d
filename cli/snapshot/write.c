/*
 * write.c - a snapshot as a compressed tar archive.
 */
#include "cli/snapshot/snapshot.h"

#include "core/status.h"
#include "core/sys.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool write_entry(struct archive *archive, const struct sxt_snapshot *snapshot,
			const char *name, const void *data, size_t bytes)
{
	struct archive_entry *entry = archive_entry_new();
	bool fine;

	if (entry == NULL)
		return false;
	archive_entry_set_pathname(entry, name);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_mtime(entry, (time_t)(snapshot->taken_ns / SXT_NS_PER_SEC), 0);
	archive_entry_set_size(entry, (la_int64_t)bytes);
	fine = archive_write_header(archive, entry) == ARCHIVE_OK &&
	       (bytes == 0 || archive_write_data(archive, data, bytes) == (la_ssize_t)bytes);
	archive_entry_free(entry);
	return fine;
}

static json_t *manifest(const struct sxt_snapshot *snapshot)
{
	json_t *segments = json_array();
	json_t *misses = json_array();

	for (size_t i = 0; i < snapshot->segments_cnt; i++) {
		const struct sxt_snapshot_segment *segment = &snapshot->segments[i];

		json_array_append_new(segments, json_pack("{s:s, s:b, s:I}", "file", segment->file,
							  "alive", segment->alive, "now_ticks",
							  (json_int_t)segment->now));
	}
	for (size_t i = 0; i < snapshot->misses_cnt; i++)
		json_array_append_new(misses,
				      json_pack("{s:s, s:s, s:i}", "file", snapshot->misses[i].file,
						"error", sxt_errname(snapshot->misses[i].rc),
						"errno", -snapshot->misses[i].rc));
	return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "schema", SXT_SNAPSHOT_SCHEMA, "version",
			 SXT_VERSION, "host", snapshot->host, "taken_ns",
			 (json_int_t)snapshot->taken_ns, "segments", segments, "unreadable",
			 misses);
}

static bool write_all(struct archive *archive, const struct sxt_snapshot *snapshot)
{
	json_t *root = manifest(snapshot);
	char *text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	bool fine = text != NULL && write_entry(archive, snapshot, SXT_SNAPSHOT_TOP "manifest.json",
						text, strlen(text));
	char name[512];

	json_decref(root);
	free(text);
	for (size_t i = 0; fine && i < snapshot->segments_cnt; i++) {
		snprintf(name, sizeof(name), SXT_SNAPSHOT_TOP "segments/%s",
			 snapshot->segments[i].file);
		fine = write_entry(archive, snapshot, name, snapshot->segments[i].bytes,
				   snapshot->segments[i].bytes_cnt);
	}
	for (size_t i = 0; fine && i < snapshot->counters_cnt; i++) {
		char value[24];

		snprintf(name, sizeof(name), SXT_SNAPSHOT_TOP "counters/%s",
			 snapshot->counters[i].path);
		snprintf(value, sizeof(value), "%" PRIu64 "\n", snapshot->counters[i].value);
		fine = write_entry(archive, snapshot, name, value, strlen(value));
	}
	return fine;
}

static int write_fd(const struct sxt_snapshot *snapshot, int fd, char *why, size_t why_bytes)
{
	struct archive *archive = archive_write_new();
	bool fine;

	if (archive == NULL) {
		snprintf(why, why_bytes, "%s", sxt_strerror(ENOMEM));
		return -ENOMEM;
	}
	/* A fast level: most of a segment is zeros, and the job's CPUs have better to do. */
	fine = archive_write_add_filter_gzip(archive) == ARCHIVE_OK &&
	       archive_write_set_filter_option(archive, "gzip", "compression-level", "1") ==
		       ARCHIVE_OK &&
	       archive_write_set_format_pax_restricted(archive) == ARCHIVE_OK &&
	       archive_write_open_fd(archive, fd) == ARCHIVE_OK && write_all(archive, snapshot) &&
	       archive_write_close(archive) == ARCHIVE_OK;
	if (!fine)
		snprintf(why, why_bytes, "%s",
			 archive_error_string(archive) != NULL ? archive_error_string(archive)
							       : sxt_strerror(ENOMEM));
	archive_write_free(archive);
	return fine ? 0 : -EIO;
}

int sxt_snapshot_write(const struct sxt_snapshot *snapshot, const char *file, char *why,
		       size_t why_bytes)
{
	int fd;
	int rc;

	if (strcmp(file, "-") == 0)
		return write_fd(snapshot, STDOUT_FILENO, why, why_bytes);
	/* Whose messages go where is nobody else's business. */
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = -errno;
		snprintf(why, why_bytes, "%s", sxt_strerror(rc));
		return rc == -EEXIST ? rc : -EIO;
	}
	rc = write_fd(snapshot, fd, why, why_bytes);
	if (close(fd) != 0 && rc == 0) {
		snprintf(why, why_bytes, "%s", sxt_strerror(errno));
		rc = -EIO;
	}
	if (rc != 0)
		sxt_ignore(unlink(file));
	return rc;
}
