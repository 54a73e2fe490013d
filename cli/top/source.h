/*
 * source.h - where segments come from: a folder that is looked at again and again, or a snapshot.
 */
#ifndef SXT_CLI_TOP_SOURCE_H
#define SXT_CLI_TOP_SOURCE_H

#include "cli/snapshot/snapshot.h"
#include "cli/top/sample.h"

#include <stdio.h>

struct sxt_top_source;

/* Segments that cannot be shown, and why. */
struct sxt_top_troubles {
	int dir_rc; /* of looking at the folder */
	size_t foreign_cnt;
	struct sxt_snapshot_miss *list; /* all others */
	size_t cnt;
};

/**
 * sxt_top_source_open() - begin to look at a folder.
 * @dir: of segments, NULL for the usual one. @root: of /sys. Both outlive the source.
 * @out: set on success; end with sxt_top_source_close(). Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_source_open(const char *dir, const char *root,
				       struct sxt_top_source **out);

/**
 * sxt_top_source_load() - the same over a snapshot.
 * @snapshot: outlives the source. @out: as above. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_source_load(const struct sxt_snapshot *snapshot,
				       struct sxt_top_source **out);

/**
 * sxt_top_source_close() - end it; shots taken from it cannot be used any more.
 * @source: NULL is fine.
 */
void sxt_top_source_close(struct sxt_top_source *source);

/**
 * sxt_top_source_shot() - what all segments hold now.
 * @source: looks for new segments first, and forgets those that two shots ago were there last.
 * @out: set on success; end with sxt_top_shot_fini(). Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_source_shot(struct sxt_top_source *source, struct sxt_top_shot *out);

/**
 * sxt_top_source_troubles() - what could not be read at the last shot.
 * @source: it. Return: valid until the next shot.
 */
const struct sxt_top_troubles *sxt_top_source_troubles(const struct sxt_top_source *source);

/**
 * sxt_top_print_troubles() - say what cannot be shown and what to do, or, where there is nothing
 * at all, what may be the reason.
 * @source: it. @shown_cnt: processes that were shown. @out: lines of at most 80 columns.
 */
void sxt_top_print_troubles(const struct sxt_top_source *source, size_t shown_cnt, FILE *out);

#endif
