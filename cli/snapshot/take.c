/*
 * take.c - makes a snapshot: segments as images of whole records, counters of all ports.
 */
#include "cli/snapshot/snapshot.h"

#include "cli/top/sample.h"

#include "core/sys.h"
#include "core/sysfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTERS_MAX 65536

static const char class_dir[] = "/sys/class/infiniband";

/* Not where a header says that a record is outside. */
static void put(struct sxt_snapshot_segment *segment, const struct sxt_tele_section *section,
		uint64_t i, const void *record, size_t bytes)
{
	uint64_t at = section->offset + i * section->stride;

	if (i < section->cap && section->stride >= bytes && at <= segment->bytes_cnt &&
	    segment->bytes_cnt - at >= bytes)
		memcpy(segment->bytes + at, record, bytes);
}

/* A plain copy of a segment that lives would hold halves of records; a sample does not. */
static int make_image(const struct sxt_top_sample *sample, struct sxt_snapshot_segment *segment)
{
	const struct sxt_tele_section *sections = sample->header.sections;

	if (sample->header.bytes < sizeof(sample->header) ||
	    sample->header.bytes > SXT_SNAPSHOT_SEGMENT_BYTES)
		return -EPROTO;
	segment->bytes_cnt = sample->header.bytes;
	segment->bytes = calloc(1, segment->bytes_cnt);
	if (segment->bytes == NULL)
		return -ENOMEM;
	memcpy(segment->bytes, &sample->header, sizeof(sample->header));
	for (int kind = 0; kind < SXT_TELE_EVENTS; kind++) {
		const struct sxt_tele_records *records = &sample->of[kind];

		for (uint32_t n = 0; n < records->cnt; n++)
			put(segment, &sections[kind], records->at[n],
			    sxt_top_nth(sample, (enum sxt_tele_section_kind)kind, n),
			    records->bytes);
	}
	for (size_t n = 0; n < sample->events_cnt && sections[SXT_TELE_EVENTS].cap > 0; n++) {
		const struct sxt_tele_event *event = &sample->events[n];

		put(segment, &sections[SXT_TELE_EVENTS],
		    (event->sequence / 2 - 1) % sections[SXT_TELE_EVENTS].cap, event,
		    sizeof(*event));
	}
	for (size_t n = 0; n < sample->choices_cnt; n++)
		put(segment, &sections[SXT_TELE_CHOICES], sample->choices_at[n],
		    &sample->choices[n], sizeof(sample->choices[n]));
	return 0;
}

static int take_segment(const struct sxt_tele_file *file, struct sxt_snapshot_segment *out)
{
	struct sxt_snapshot_segment segment = {0};
	struct sxt_top_sample sample = {0};
	struct sxt_tele_view *view;
	int rc = sxt_tele_open(file->path, &view);

	if (rc != 0)
		return rc;
	segment.alive = sxt_tele_refresh(view);
	sxt_top_file_name(file, segment.file);
	rc = sxt_top_sample_take(view, segment.file, segment.alive, &sample);
	if (rc == 0)
		rc = make_image(&sample, &segment);
	segment.now = sample.now;
	sxt_top_sample_fini(&sample);
	sxt_tele_close(view);
	if (rc == 0)
		*out = segment;
	return rc;
}

static int take_segments(const char *dir, struct sxt_snapshot *snapshot)
{
	struct sxt_tele_file *files;
	size_t cnt;
	int rc = sxt_tele_list(dir, &files, &cnt);

	if (rc != 0)
		return rc;
	snapshot->segments = calloc(cnt + 1, sizeof(*snapshot->segments));
	snapshot->misses = calloc(cnt + 1, sizeof(*snapshot->misses));
	if (snapshot->segments == NULL || snapshot->misses == NULL)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < cnt; i++) {
		struct sxt_snapshot_miss *miss = &snapshot->misses[snapshot->misses_cnt];
		int error = take_segment(&files[i], &snapshot->segments[snapshot->segments_cnt]);

		if (error == -ENOMEM)
			rc = error;
		snapshot->segments_cnt += error == 0;
		/* One that went away meanwhile ended in order. */
		if (error == 0 || error == -ENOENT)
			continue;
		miss->rc = error;
		sxt_top_file_name(&files[i], miss->file);
		snapshot->misses_cnt++;
	}
	free(files);
	return rc;
}

static int add_counter(struct sxt_snapshot *snapshot, const char *path, const char *text)
{
	struct sxt_snapshot_counter *counter;
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (end == text || *end != '\0' || snapshot->counters_cnt >= COUNTERS_MAX)
		return 0;
	counter = realloc(snapshot->counters,
			  (snapshot->counters_cnt + 1) * sizeof(*snapshot->counters));
	if (counter == NULL)
		return -ENOMEM;
	snapshot->counters = counter;
	counter += snapshot->counters_cnt;
	if (snprintf(counter->path, sizeof(counter->path), "%s", path) >=
	    (int)sizeof(counter->path))
		return 0;
	counter->value = value;
	snapshot->counters_cnt++;
	return 0;
}

/* Counters that are no numbers, or refuse to be read, are left out. */
static int take_folder(const char *root, const char *hca, const char *port, const char *folder,
		       struct sxt_snapshot *snapshot)
{
	struct sxt_names names = {0};
	char path[1024];
	char below[1024];
	char text[64];
	int rc = 0;

	snprintf(path, sizeof(path), "%s/%s/ports/%s/%s", class_dir, hca, port, folder);
	if (sxt_sysfs_list(root, path, &names) != 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < names.cnt; i++) {
		if (snprintf(below, sizeof(below), "%s/%s", path, names.list[i]) >=
			    (int)sizeof(below) ||
		    sxt_sysfs_read(root, below, text, sizeof(text)) != 0)
			continue;
		snprintf(below, sizeof(below), "%s/%s/%s/%s", hca, port, folder, names.list[i]);
		rc = add_counter(snapshot, below, text);
	}
	sxt_names_fini(&names);
	return rc;
}

static int take_hca(const char *root, const char *hca, struct sxt_snapshot *snapshot)
{
	struct sxt_names ports = {0};
	char path[512];
	int rc = 0;

	snprintf(path, sizeof(path), "%s/%s/ports", class_dir, hca);
	if (sxt_sysfs_list(root, path, &ports) != 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < ports.cnt; i++) {
		rc = take_folder(root, hca, ports.list[i], "counters", snapshot);
		if (rc == 0)
			rc = take_folder(root, hca, ports.list[i], "hw_counters", snapshot);
	}
	sxt_names_fini(&ports);
	return rc;
}

static int take_counters(const char *root, struct sxt_snapshot *snapshot)
{
	struct sxt_names hcas = {0};
	int rc = 0;

	if (sxt_sysfs_list(root, class_dir, &hcas) != 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < hcas.cnt; i++)
		rc = take_hca(root, hcas.list[i], snapshot);
	sxt_names_fini(&hcas);
	return rc;
}

int sxt_snapshot_take(const char *dir, const char *root, struct sxt_snapshot *out)
{
	struct sxt_snapshot snapshot = {0};
	int rc = take_segments(dir, &snapshot);

	if (rc == 0)
		rc = take_counters(root, &snapshot);
	if (rc != 0) {
		sxt_snapshot_fini(&snapshot);
		return rc;
	}
	snapshot.taken_ns = sxt_sys_host.wall_ns();
	if (gethostname(snapshot.host, sizeof(snapshot.host) - 1) != 0)
		snapshot.host[0] = '\0';
	*out = snapshot;
	return 0;
}
