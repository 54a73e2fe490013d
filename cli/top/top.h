/*
 * top.h - what the views of `sextant top` share: one pair of moments and the rows made of it.
 */
#ifndef SXT_CLI_TOP_TOP_H
#define SXT_CLI_TOP_TOP_H

#include "cli/top/source.h"
#include "cli/top/table.h"

/* What is shown now. */
struct sxt_top_scene {
	struct sxt_top_source *source;
	struct sxt_top_shot before; /* empty: there was no earlier one */
	struct sxt_top_shot after;
	struct sxt_top_rows rows;
	char host[64];
};

/**
 * sxt_top_scene_step() - what was new becomes old, and a new shot is taken.
 * @scene: with its source. Return: 0, or -ENOMEM with the scene as it was.
 */
SXT_MUST_CHECK int sxt_top_scene_step(struct sxt_top_scene *scene);

/**
 * sxt_top_scene_fini() - free shots and rows; the source stays. @scene: unusable afterwards.
 */
void sxt_top_scene_fini(struct sxt_top_scene *scene);

/**
 * sxt_top_summary() - the first line: host, time, processes, GB/s of all.
 * @scene: what is shown. @out: one line of at most 80 columns.
 */
void sxt_top_summary(const struct sxt_top_scene *scene, char out[SXT_TOP_LINE_BYTES]);

/**
 * sxt_top_print() - everything as text on standard output.
 * @scene: what is shown. @look: how; every kind is printed unless @only_kind.
 * @width: of lines, 0: as it takes. @rows_max: of connections and events where all is printed.
 * Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_print(const struct sxt_top_scene *scene, const struct sxt_top_look *look,
				 bool only_kind, int width, size_t rows_max);

/**
 * sxt_top_print_json() - everything as one document (schema sextant.top/1).
 * @scene: what is shown. Return: exit status.
 */
int sxt_top_print_json(const struct sxt_top_scene *scene);

/**
 * sxt_top_screen() - the live view; returns when the user quits.
 * @scene: with its source; stepped. @look: how it begins. @interval_ms: between shots; 0: only one.
 * Return: exit status.
 */
int sxt_top_screen(struct sxt_top_scene *scene, struct sxt_top_look *look,
		   unsigned int interval_ms);

#endif
