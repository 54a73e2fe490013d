/*
 * print.c - `sextant top --once`: all tables as text.
 */
#include "cli/top/top.h"

#include "cli/top/choices.h"
#include "cli/top/format.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HOST_COLUMNS 14 /* the first part of its name, so that the line fits */

int sxt_top_scene_step(struct sxt_top_scene *scene)
{
	struct sxt_top_shot shot;
	struct sxt_top_rows rows;
	int rc = sxt_top_source_shot(scene->source, &shot);

	if (rc != 0)
		return rc;
	rc = sxt_top_rows_make(scene->after.samples != NULL ? &scene->after : NULL, &shot, &rows);
	if (rc != 0) {
		sxt_top_shot_fini(&shot);
		return rc;
	}
	sxt_top_rows_fini(&scene->rows);
	sxt_top_shot_fini(&scene->before);
	scene->before = scene->after;
	scene->after = shot;
	scene->rows = rows;
	return 0;
}

void sxt_top_scene_fini(struct sxt_top_scene *scene)
{
	sxt_top_rows_fini(&scene->rows);
	sxt_top_shot_fini(&scene->before);
	sxt_top_shot_fini(&scene->after);
}

static double seconds_between(const struct sxt_top_scene *scene)
{
	if (scene->before.samples == NULL || scene->before.ns >= scene->after.ns)
		return 0;
	return (double)(scene->after.ns - scene->before.ns) / 1e9;
}

void sxt_top_summary(const struct sxt_top_scene *scene, char out[SXT_TOP_LINE_BYTES])
{
	double sum[2] = {NAN, NAN};
	char rate[2][SXT_TOP_CELL_BYTES];
	char when[SXT_TOP_CELL_BYTES];
	char gone_text[32] = "";
	size_t cnt = scene->rows.cnt[SXT_TOP_PROCESSES];
	size_t gone = 0;
	int host_len = (int)strcspn(scene->host, ".");

	if (host_len > HOST_COLUMNS)
		host_len = HOST_COLUMNS;
	for (size_t i = 0; i < cnt; i++) {
		const struct sxt_top_row *row = &scene->rows.list[SXT_TOP_PROCESSES][i];

		gone += row->gone;
		for (int way = 0; way < 2; way++) {
			if (!isnan(row->flow.now[way]))
				sum[way] = (isnan(sum[way]) ? 0 : sum[way]) + row->flow.now[way];
		}
	}
	for (int way = 0; way < 2; way++)
		sxt_top_print_rate(sum[way], rate[way]);
	if (gone > 0)
		snprintf(gone_text, sizeof(gone_text), ", %zu gone", gone);
	sxt_top_print_time(scene->after.wall_ns, when);
	snprintf(out, SXT_TOP_LINE_BYTES, "%.*s  %s  %zu process%s%s  out %s in %s GB/s", host_len,
		 scene->host, when, cnt, cnt == 1 ? "" : "es", gone_text, rate[0], rate[1]);
}

static void print_title(const struct sxt_top_scene *scene, const struct sxt_top_look *look,
			size_t shown, size_t cnt)
{
	double seconds = seconds_between(scene);

	printf("\n%s", sxt_top_kind_names[look->kind]);
	if (shown < cnt)
		printf(": %zu of %zu, --view %s shows all", shown, cnt,
		       sxt_top_kind_names[look->kind]);
	if (look->kind == SXT_TOP_PROCESSES && seconds > 0)
		printf(" (GB/s and waits of the last %.3g s; AVG: of the whole life)", seconds);
	putchar('\n');
}

/* What an event says is why somebody looks: it is wrapped, not cut. */
static void print_wrapped(const char *text, int indent, int width)
{
	while (*text != '\0') {
		size_t len =
			width > indent + 20 ? sxt_top_wrap(text, width - indent) : strlen(text);

		printf("%.*s\n", (int)len, text);
		text += len;
		text += strspn(text, " ");
		if (*text != '\0')
			printf("%*s", indent, "");
	}
}

/* Its text is the last column. */
static void print_event(const struct sxt_top_layout *layout, const struct sxt_top_look *look,
			const struct sxt_top_row *row, int width)
{
	struct sxt_top_layout head = *layout;
	char line[SXT_TOP_LINE_BYTES];
	int indent = 0;

	head.cnt--;
	for (int i = 0; i < head.cnt; i++)
		indent += head.width[i] + 1;
	sxt_top_row_line(&head, look, row, line);
	printf("%s%*s", line, indent - sxt_top_columns_of(line), "");
	print_wrapped(row->text[0] != '\0' ? row->text : "-", indent, width);
}

static void print_row(const struct sxt_top_layout *layout, const struct sxt_top_look *look,
		      const struct sxt_top_row *row, int width)
{
	char line[SXT_TOP_LINE_BYTES];

	if (look->kind == SXT_TOP_EVENTS) {
		print_event(layout, look, row, width);
		return;
	}
	sxt_top_row_line(layout, look, row, line);
	puts(line);
}

static int print_kind(const struct sxt_top_scene *scene, const struct sxt_top_look *look, int width,
		      size_t rows_max)
{
	const struct sxt_top_row **list;
	struct sxt_top_layout layout;
	char line[SXT_TOP_LINE_BYTES];
	size_t cnt;
	size_t shown;
	int rc = sxt_top_select(&scene->rows, look, &list, &cnt);

	if (rc != 0)
		return rc;
	shown = cnt < rows_max ? cnt : rows_max;
	print_title(scene, look, shown, cnt);
	layout = sxt_top_layout_make(look, list, shown, width);
	if (shown > 0) {
		sxt_top_head_line(&layout, look, line);
		puts(line);
	} else {
		puts("  none");
	}
	for (size_t i = 0; i < shown; i++)
		print_row(&layout, look, list[i], width);
	free(list);
	return 0;
}

static void print_choices(const struct sxt_top_scene *scene, int width)
{
	char text[SXT_TOP_LINE_BYTES];

	for (size_t i = 0; i < scene->rows.cnt[SXT_TOP_PROCESSES]; i++) {
		const struct sxt_top_row *row = &scene->rows.list[SXT_TOP_PROCESSES][i];

		sxt_top_choices_say(row->of, text, sizeof(text));
		if (text[0] == '\0')
			continue;
		printf("pid %llu tuner: ", (unsigned long long)row->pid);
		print_wrapped(text, 8, width);
	}
}

/* One that ended by itself needs no words; of one that was killed they are what is left. */
static void print_dead(const struct sxt_top_scene *scene, const struct sxt_top_look *look)
{
	char text[SXT_TOP_LINE_BYTES];

	for (size_t i = 0; !look->hides_gone && i < scene->rows.cnt[SXT_TOP_PROCESSES]; i++) {
		const struct sxt_top_row *row = &scene->rows.list[SXT_TOP_PROCESSES][i];

		if (!row->gone)
			continue;
		sxt_top_print_time(row->wall_ns, text);
		printf("pid %llu %s: last sign of life %s\n", (unsigned long long)row->pid,
		       sxt_top_state_word(row->of), text);
	}
}

int sxt_top_print(const struct sxt_top_scene *scene, const struct sxt_top_look *look,
		  bool only_kind, int width, size_t rows_max)
{
	struct sxt_top_look each = *look;
	char line[SXT_TOP_LINE_BYTES];
	int rc = 0;

	if (scene->rows.cnt[SXT_TOP_PROCESSES] > 0) {
		sxt_top_summary(scene, line);
		puts(line);
	}
	for (int kind = 0; kind < SXT_TOP_KINDS && scene->rows.cnt[SXT_TOP_PROCESSES] > 0; kind++) {
		if (only_kind && kind != (int)look->kind)
			continue;
		each.kind = (enum sxt_top_kind)kind;
		if (rc == 0)
			rc = print_kind(scene, &each, width,
					only_kind || kind < SXT_TOP_CONNECTIONS ? SIZE_MAX
										: rows_max);
		if (kind == SXT_TOP_PROCESSES) {
			print_dead(scene, &each);
			print_choices(scene, width);
		}
	}
	sxt_top_print_troubles(scene->source, scene->rows.cnt[SXT_TOP_PROCESSES], stdout);
	return rc;
}
