/*
 * sample.c - copies of segments at one moment.
 */
#include "cli/top/sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t record_bytes[SXT_TELE_EVENTS] = {
	[SXT_TELE_PORTS] = sizeof(struct sxt_tele_port),
	[SXT_TELE_LINKS] = sizeof(struct sxt_tele_link),
	[SXT_TELE_CONNS] = sizeof(struct sxt_tele_conn),
	[SXT_TELE_PATHS] = sizeof(struct sxt_tele_path),
};

void sxt_top_file_name(const struct sxt_tele_file *file, char out[SXT_TOP_FILE_BYTES])
{
	const char *slash = strrchr(file->path, '/');

	snprintf(out, SXT_TOP_FILE_BYTES, "%.79s", slash != NULL ? slash + 1 : file->path);
}

static bool get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind, uint32_t i,
		void *out)
{
	switch (kind) {
	case SXT_TELE_PORTS:
		return sxt_tele_port_get(view, i, out);
	case SXT_TELE_LINKS:
		return sxt_tele_link_get(view, i, out);
	case SXT_TELE_CONNS:
		return sxt_tele_conn_get(view, i, out);
	default:
		return sxt_tele_path_get(view, i, out);
	}
}

/* Room for all is asked for first, what is not touched costs nothing, and most is given back. */
static int take_records(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			struct sxt_top_records *out)
{
	uint32_t cap = sxt_tele_cap(view, kind);
	char *fewer;

	*out = (struct sxt_top_records){.bytes = record_bytes[kind]};
	if (cap == 0)
		return 0;
	out->list = malloc(cap * out->bytes);
	out->at = malloc(cap * sizeof(*out->at));
	if (out->list == NULL || out->at == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < cap; i++) {
		if (get(view, kind, i, out->list + out->cnt * out->bytes))
			out->at[out->cnt++] = i;
	}
	fewer = realloc(out->list, out->cnt > 0 ? out->cnt * out->bytes : 1);
	if (fewer != NULL)
		out->list = fewer;
	return 0;
}

static int take_events(const struct sxt_tele_view *view, struct sxt_top_sample *sample)
{
	uint32_t cap = sxt_tele_cap(view, SXT_TELE_EVENTS);
	uint64_t end = sample->header.events;

	if (cap == 0 || end == 0)
		return 0;
	sample->events = malloc(cap * sizeof(*sample->events));
	if (sample->events == NULL)
		return -ENOMEM;
	for (uint64_t i = end > cap ? end - cap : 0; i < end; i++) {
		if (sxt_tele_event_get(view, i, &sample->events[sample->events_cnt]))
			sample->events_cnt++;
	}
	return 0;
}

int sxt_top_sample_take(const struct sxt_tele_view *view, const char *file, bool alive,
			struct sxt_top_sample *out)
{
	struct sxt_top_sample sample = {.view = view,
					.header = *sxt_tele_header(view),
					.alive = alive};
	int rc = 0;

	snprintf(sample.file, sizeof(sample.file), "%s", file);
	for (int kind = 0; rc == 0 && kind < SXT_TELE_EVENTS; kind++)
		rc = take_records(view, (enum sxt_tele_section_kind)kind, &sample.of[kind]);
	if (rc == 0)
		rc = take_events(view, &sample);
	/* Last, so that nothing in the sample is younger. */
	sample.now = sxt_tele_now(view);
	if (rc == 0)
		*out = sample;
	else
		sxt_top_sample_fini(&sample);
	return rc;
}

void sxt_top_sample_fini(struct sxt_top_sample *sample)
{
	for (int kind = 0; kind < SXT_TELE_EVENTS; kind++) {
		free(sample->of[kind].list);
		free(sample->of[kind].at);
	}
	free(sample->events);
	*sample = (struct sxt_top_sample){0};
}

void sxt_top_shot_fini(struct sxt_top_shot *shot)
{
	for (size_t i = 0; i < shot->samples_cnt; i++)
		sxt_top_sample_fini(&shot->samples[i]);
	free(shot->samples);
	free(shot->hardware);
	*shot = (struct sxt_top_shot){0};
}

static int by_index(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a;
	uint32_t right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

const void *sxt_top_nth(const struct sxt_top_sample *sample, enum sxt_tele_section_kind kind,
			uint32_t n)
{
	return sample->of[kind].list + n * sample->of[kind].bytes;
}

const void *sxt_top_record(const struct sxt_top_sample *sample, enum sxt_tele_section_kind kind,
			   uint32_t at)
{
	const struct sxt_top_records *records = &sample->of[kind];
	const uint32_t *found = NULL;

	if (records->cnt > 0)
		found = bsearch(&at, records->at, records->cnt, sizeof(at), by_index);
	return found != NULL ? sxt_top_nth(sample, kind, (uint32_t)(found - records->at)) : NULL;
}
