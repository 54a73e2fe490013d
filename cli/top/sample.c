/*
 * sample.c - copies of segments at one moment.
 */
#include "cli/top/sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHOICES_MAX 4096 /* of a segment that we did not write */

/* Links change once a second at most, but while connections come and go. */
#define LINKS_TRIED 3

void sxt_top_file_name(const struct sxt_tele_file *file, char out[SXT_TOP_FILE_BYTES])
{
	const char *slash = strrchr(file->path, '/');

	snprintf(out, SXT_TOP_FILE_BYTES, "%.79s", slash != NULL ? slash + 1 : file->path);
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

static int take_choices(const struct sxt_tele_view *view, struct sxt_top_sample *sample)
{
	uint32_t cap = sxt_tele_cap(view, SXT_TELE_CHOICES);

	cap = cap < CHOICES_MAX ? cap : CHOICES_MAX;
	if (cap == 0)
		return 0;
	sample->choices = malloc(cap * sizeof(*sample->choices));
	sample->choices_at = malloc(cap * sizeof(*sample->choices_at));
	if (sample->choices == NULL || sample->choices_at == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < cap; i++) {
		sample->choices_at[sample->choices_cnt] = i;
		sample->choices_cnt +=
			sxt_tele_choice_get(view, i, &sample->choices[sample->choices_cnt]);
	}
	return 0;
}

static int take_records(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			struct sxt_top_sample *sample)
{
	sxt_tele_records_fini(&sample->of[kind]);
	return sxt_tele_records_get(view, kind,
				    kind == SXT_TELE_PATHS ? &sample->of[SXT_TELE_CONNS] : NULL,
				    &sample->of[kind]);
}

static bool are_same(const struct sxt_tele_records *a, const struct sxt_tele_records *b)
{
	return a->cnt == b->cnt && memcmp(a->list, b->list, a->cnt * a->bytes) == 0;
}

/*
 * A record that is given to another connection adds what it held to its link: read in between it
 * would be counted twice, or not at all.
 */
static int take_links_and_conns(const struct sxt_tele_view *view, struct sxt_top_sample *sample)
{
	int rc = take_records(view, SXT_TELE_LINKS, sample);

	for (int tried = 0; rc == 0 && tried < LINKS_TRIED; tried++) {
		struct sxt_tele_records links = sample->of[SXT_TELE_LINKS];
		bool is_still;

		sample->of[SXT_TELE_LINKS] = (struct sxt_tele_records){0};
		rc = take_records(view, SXT_TELE_CONNS, sample);
		if (rc == 0)
			rc = take_records(view, SXT_TELE_LINKS, sample);
		is_still = rc == 0 && are_same(&links, &sample->of[SXT_TELE_LINKS]);
		sxt_tele_records_fini(&links);
		if (is_still)
			break;
	}
	return rc;
}

int sxt_top_sample_take(const struct sxt_tele_view *view, const char *file, bool alive,
			struct sxt_top_sample *out)
{
	struct sxt_top_sample sample = {.view = view,
					.header = *sxt_tele_header(view),
					.alive = alive};
	int rc = 0;

	snprintf(sample.file, sizeof(sample.file), "%s", file);
	rc = take_links_and_conns(view, &sample);
	for (int kind = 0; rc == 0 && kind < SXT_TELE_EVENTS; kind++) {
		if (sample.of[kind].list == NULL)
			rc = take_records(view, (enum sxt_tele_section_kind)kind, &sample);
	}
	if (rc == 0)
		rc = take_events(view, &sample);
	if (rc == 0)
		rc = take_choices(view, &sample);
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
	for (int kind = 0; kind < SXT_TELE_EVENTS; kind++)
		sxt_tele_records_fini(&sample->of[kind]);
	free(sample->events);
	free(sample->choices);
	free(sample->choices_at);
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

const void *sxt_top_nth(const struct sxt_top_sample *sample, enum sxt_tele_section_kind kind,
			uint32_t n)
{
	return sample->of[kind].list + n * sample->of[kind].bytes;
}

const void *sxt_top_record(const struct sxt_top_sample *sample, enum sxt_tele_section_kind kind,
			   uint32_t at)
{
	return sxt_tele_record(&sample->of[kind], at);
}
