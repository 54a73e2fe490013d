/*
 * sample.h - what segments and port counters held at one moment, copied so that two moments can be
 * compared.
 */
#ifndef SXT_CLI_TOP_SAMPLE_H
#define SXT_CLI_TOP_SAMPLE_H

#include "core/compiler.h"
#include "telemetry/reader.h"

#include <stdbool.h>

#define SXT_TOP_FILE_BYTES 80 /* a segment's name with its end */

/* One process at one moment. */
struct sxt_top_sample {
	const struct sxt_tele_view *view; /* converts time stamps only; outlives the sample */
	char file[SXT_TOP_FILE_BYTES];    /* name of the segment */
	struct sxt_tele_header header;
	bool alive;
	uint64_t now; /* ticks */
	struct sxt_tele_records of[SXT_TELE_EVENTS];
	struct sxt_tele_event *events;
	size_t events_cnt;
	struct sxt_tele_choice *choices; /* in use */
	uint32_t *choices_at;            /* where each of them is */
	size_t choices_cnt;
};

/* What all traffic of a port comes to, as its own counters say. */
struct sxt_top_hardware {
	char hca[32];
	uint32_t num;
	bool has[2];
	uint64_t bytes[2]; /* sent, received */
};

/* All segments at one moment. */
struct sxt_top_shot {
	struct sxt_top_sample *samples;
	size_t samples_cnt;
	struct sxt_top_hardware *hardware;
	size_t hardware_cnt;
	uint64_t ns;      /* a clock that two shots share */
	uint64_t wall_ns; /* CLOCK_REALTIME */
};

/**
 * sxt_top_file_name() - the name of a segment without its folder.
 * @file: it. @out: text.
 */
void sxt_top_file_name(const struct sxt_tele_file *file, char out[SXT_TOP_FILE_BYTES]);

/**
 * sxt_top_sample_take() - copy what a segment holds.
 * @view: refreshed. @file: its name. @alive: of its process. @out: set on success; end with
 * sxt_top_sample_fini(). Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_sample_take(const struct sxt_tele_view *view, const char *file,
				       bool alive, struct sxt_top_sample *out);

/**
 * sxt_top_sample_fini() - free a sample; a zeroed one is fine. @sample: unusable afterwards.
 */
void sxt_top_sample_fini(struct sxt_top_sample *sample);

/**
 * sxt_top_shot_fini() - free a shot with its samples; a zeroed one is fine. @shot: zeroed.
 */
void sxt_top_shot_fini(struct sxt_top_shot *shot);

/**
 * sxt_top_record() - the record with an index.
 * @sample: where. @kind: section, not SXT_TELE_EVENTS. @at: index.
 * Return: the record of that section's type, or NULL when it was not in use.
 */
const void *sxt_top_record(const struct sxt_top_sample *sample, enum sxt_tele_section_kind kind,
			   uint32_t at);

/**
 * sxt_top_nth() - the records in use, one after the other.
 * @sample: where. @kind: section, not SXT_TELE_EVENTS. @n: below its cnt.
 * Return: the record.
 */
const void *sxt_top_nth(const struct sxt_top_sample *sample, enum sxt_tele_section_kind kind,
			uint32_t n);

#endif
