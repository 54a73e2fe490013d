/*
 * fuzz_snapshot.c - files that claim to be snapshots, and the segments in them: the input is the
 * file. What is accepted is shown, every kind of row.
 */
#include "tests/fuzz/fuzz.h"

#include "cli/top/source.h"
#include "cli/top/table.h"

#include <stdlib.h>
#include <string.h>

static void show(const struct sxt_top_rows *rows)
{
	struct sxt_top_look look;
	char line[SXT_TOP_LINE_BYTES];

	sxt_top_look_init(&look);
	for (int kind = 0; kind < SXT_TOP_KINDS; kind++) {
		const struct sxt_top_row **list;
		struct sxt_top_layout layout;
		size_t cnt;

		look.kind = (enum sxt_top_kind)kind;
		FUZZ_REQUIRE(sxt_top_select(rows, &look, &list, &cnt) == 0);
		layout = sxt_top_layout_make(&look, list, cnt, 80);
		for (size_t i = 0; i < cnt; i++) {
			sxt_top_row_line(&layout, &look, list[i], line);
			FUZZ_REQUIRE(strlen(line) < sizeof(line) && strchr(line, '\033') == NULL);
			sxt_top_detail(look.kind, list[i], line);
			FUZZ_REQUIRE(strlen(line) < sizeof(line) && strchr(line, '\033') == NULL);
		}
		free(list);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sxt_top_source *source = NULL;
	struct sxt_snapshot snapshot = {0};
	struct sxt_top_shot shot = {0};
	struct sxt_top_rows rows = {0};
	char why[256] = "";

	if (sxt_snapshot_parse(data, bytes, &snapshot, why, sizeof(why)) != 0) {
		FUZZ_REQUIRE(why[0] != '\0' && snapshot.segments == NULL);
		return 0;
	}
	FUZZ_REQUIRE(sxt_top_source_load(&snapshot, &source) == 0);
	FUZZ_REQUIRE(sxt_top_source_shot(source, &shot) == 0);
	FUZZ_REQUIRE(sxt_top_rows_make(&shot, &shot, &rows) == 0);
	show(&rows);
	sxt_top_rows_fini(&rows);
	sxt_top_shot_fini(&shot);
	sxt_top_source_close(source);
	sxt_snapshot_fini(&snapshot);
	return 0;
}
