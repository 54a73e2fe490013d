/*
 * table.c - columns of each kind of row; choosing, sorting, printing.
 */
#include "cli/top/table.h"

#include "cli/top/format.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum cell {
	CELL_END,
	CELL_TEXT,  /* char[] */
	CELL_COUNT, /* uint64_t */
	CELL_RATE,  /* double */
	CELL_NS,    /* uint64_t, 0 is none */
	CELL_TIME,  /* uint64_t */
	CELL_WAIT,  /* which of the three */
};

struct column {
	const char *title;
	enum cell cell;
	size_t at;  /* member of struct sxt_top_row; of CELL_WAIT enum sxt_tele_wait */
	int width;  /* of a text the narrowest */
	int widest; /* of a text that grows where there is room, else 0 */
	int rank;   /* 0 is shown always, 1 where there is room, then 2 ... */
	bool rises; /* sorted from small to large unless reversed */
};

#define AT(member) offsetof(struct sxt_top_row, member)
#define WAIT(title, wait, rank)                            \
	{                                                  \
		title, CELL_WAIT, wait, 11, 0, rank, false \
	}
#define PID                                               \
	{                                                 \
		"PID", CELL_COUNT, AT(pid), 7, 0, 0, true \
	}
#define RANK                                                \
	{                                                   \
		"RANK", CELL_COUNT, AT(rank), 4, 0, 0, true \
	}
#define FLOW(title, member, rank)                               \
	{                                                       \
		title, CELL_RATE, AT(member), 5, 0, rank, false \
	}

const char *const sxt_top_kind_names[SXT_TOP_KINDS] = {"processes", "ports", "links", "connections",
						       "events"};

static const struct column processes[] = {
	PID,
	RANK,
	{"COMMAND", CELL_TEXT, AT(name), 8, 16, 1, true},
	{"CONNS", CELL_COUNT, AT(conns), 5, 0, 1, false},
	FLOW("OUT", flow.now[0], 0),
	FLOW("AVG", flow.avg[0], 0),
	FLOW("IN", flow.now[1], 0),
	FLOW("AVG", flow.avg[1], 0),
	WAIT("PEER 50/99", SXT_TELE_WAIT_PEER, 0),
	WAIT("WIRE 50/99", SXT_TELE_WAIT_WIRE, 0),
	WAIT("APP 50/99", SXT_TELE_WAIT_CALLER, 0),
	{"STATUS", CELL_TEXT, AT(status), 6, 0, 0, true},
	{"OLDEST", CELL_NS, AT(oldest_ns), 6, 0, 2, false},
	{"WARN", CELL_COUNT, AT(warnings), 4, 0, 2, false},
	{"LAST SIGN", CELL_TIME, AT(wall_ns), 14, 0, 2, false},
	{"JOB", CELL_TEXT, AT(text), 12, 40, 3, true},
	{0},
};

static const struct column ports[] = {
	{"PORT", CELL_TEXT, AT(name), 8, 16, 0, true},
	{"STATE", CELL_TEXT, AT(status), 8, 0, 0, true},
	{"SPEED", CELL_TEXT, AT(speed), 5, 0, 0, true},
	{"USERS", CELL_COUNT, AT(conns), 5, 0, 0, false},
	FLOW("OUT", flow.now[0], 0),
	FLOW("IN", flow.now[1], 0),
	{"HW OUT", CELL_RATE, AT(hardware[0]), 6, 0, 0, false},
	{"HW IN", CELL_RATE, AT(hardware[1]), 5, 0, 0, false},
	{"FLAPS", CELL_COUNT, AT(flaps), 5, 0, 0, false},
	{"CHANGED", CELL_TIME, AT(wall_ns), 14, 0, 1, false},
	{"ADDRESS", CELL_TEXT, AT(address), 12, 40, 1, true},
	{"REASON", CELL_TEXT, AT(text), 10, 96, 0, true},
	{0},
};

static const struct column links[] = {
	PID,
	RANK,
	{"NIC", CELL_TEXT, AT(name), 8, 32, 0, true},
	{"WITH", CELL_TEXT, AT(with), 10, 40, 0, true},
	{"CONNS", CELL_COUNT, AT(conns), 5, 0, 1, false},
	FLOW("OUT", flow.now[0], 0),
	FLOW("AVG", flow.avg[0], 0),
	FLOW("IN", flow.now[1], 0),
	FLOW("AVG", flow.avg[1], 0),
	WAIT("PEER 50/99", SXT_TELE_WAIT_PEER, 0),
	WAIT("WIRE 50/99", SXT_TELE_WAIT_WIRE, 0),
	WAIT("APP 50/99", SXT_TELE_WAIT_CALLER, 1),
	{"OLDEST", CELL_NS, AT(oldest_ns), 6, 0, 2, false},
	{"STATUS", CELL_TEXT, AT(status), 6, 0, 1, true},
	{0},
};

static const struct column connections[] = {
	PID,
	RANK,
	{"WAY", CELL_TEXT, AT(speed), 3, 0, 0, true},
	{"WITH", CELL_TEXT, AT(with), 10, 40, 0, true},
	{"TAG", CELL_COUNT, AT(tag), 5, 0, 2, true},
	{"NIC", CELL_TEXT, AT(name), 8, 32, 2, true},
	{"COMM", CELL_TEXT, AT(address), 16, 0, 4, true},
	FLOW("NOW", rate, 0),
	FLOW("AVG", average, 1),
	WAIT("PEER 50/99", SXT_TELE_WAIT_PEER, 0),
	WAIT("WIRE 50/99", SXT_TELE_WAIT_WIRE, 0),
	WAIT("APP 50/99", SXT_TELE_WAIT_CALLER, 0),
	{"FLIGHT", CELL_COUNT, AT(in_flight), 6, 0, 1, false},
	{"OLDEST", CELL_NS, AT(oldest_ns), 6, 0, 1, false},
	{"STATUS", CELL_TEXT, AT(status), 6, 0, 0, true},
	{"ERROR", CELL_TEXT, AT(text), 12, 192, 3, true},
	{0},
};

static const struct column events[] = {
	{"TIME", CELL_TIME, AT(wall_ns), 14, 0, 0, false},
	PID,
	RANK,
	{"KIND", CELL_TEXT, AT(name), 7, 0, 0, true},
	{"TEXT", CELL_TEXT, AT(text), 20, 232, 0, true},
	{0},
};

static const struct column *const columns_of[SXT_TOP_KINDS] = {processes, ports, links, connections,
							       events};

static const struct sxt_top_span *wait_of(const struct sxt_top_row *row, size_t wait,
					  enum sxt_top_window window)
{
	return &row->flow.waits[row->gone ? SXT_TOP_WHOLE : window][wait];
}

static void print_cell(const struct column *column, const struct sxt_top_row *row,
		       enum sxt_top_window window, char out[SXT_TOP_CELL_BYTES])
{
	const void *member = (const char *)row + column->at;
	uint64_t ns;

	switch (column->cell) {
	case CELL_COUNT:
		sxt_top_print_count(*(const uint64_t *)member, out);
		break;
	case CELL_RATE:
		sxt_top_print_rate(*(const double *)member, out);
		break;
	case CELL_NS:
		ns = *(const uint64_t *)member;
		sxt_top_print_ns(ns != 0 ? ns : SXT_TOP_UNKNOWN, out);
		break;
	case CELL_TIME:
		sxt_top_print_time(*(const uint64_t *)member, out);
		break;
	case CELL_WAIT:
		sxt_top_print_span(wait_of(row, column->at, window), out);
		break;
	default:
		snprintf(out, SXT_TOP_CELL_BYTES, "%s", (const char *)member);
		break;
	}
}

/* For sorting: what is unknown is less than anything. */
static double number_of(const struct column *column, const struct sxt_top_row *row,
			enum sxt_top_window window)
{
	const void *member = (const char *)row + column->at;
	uint64_t value;

	if (column->cell == CELL_RATE)
		return isnan(*(const double *)member) ? -1 : *(const double *)member;
	value = column->cell == CELL_WAIT ? wait_of(row, column->at, window)->p99_ns
					  : *(const uint64_t *)member;
	return value == SXT_TOP_UNKNOWN ? -1 : (double)value;
}

static int compare(const void *a, const void *b, void *context)
{
	const struct sxt_top_row *left = *(const struct sxt_top_row *const *)a;
	const struct sxt_top_row *right = *(const struct sxt_top_row *const *)b;
	const struct sxt_top_look *look = context;
	const struct column *column = &columns_of[look->kind][look->sort[look->kind]];
	int order;

	/* What is gone stands last, however the rest is sorted. */
	if (left->gone != right->gone && look->kind != SXT_TOP_EVENTS)
		return left->gone ? 1 : -1;
	if (column->cell == CELL_TEXT) {
		order = strverscmp((const char *)left + column->at,
				   (const char *)right + column->at);
	} else {
		double l = number_of(column, left, look->window);
		double r = number_of(column, right, look->window);

		order = (l > r) - (l < r);
	}
	if (order != 0)
		return column->rises != look->reverse[look->kind] ? order : -order;
	return (left > right) - (left < right);
}

void sxt_top_look_init(struct sxt_top_look *look)
{
	*look = (struct sxt_top_look){0};
	look->sort[SXT_TOP_PROCESSES] = 1; /* RANK */
	look->sort[SXT_TOP_LINKS] = 0;
	look->sort[SXT_TOP_CONNECTIONS] = 7; /* NOW */
}

static bool matches(const struct sxt_top_row *row, const struct sxt_top_look *look)
{
	char text[SXT_TOP_CELL_BYTES];

	if (look->hides_gone && row->gone)
		return false;
	if (look->filter[0] == '\0')
		return true;
	for (const struct column *column = columns_of[look->kind]; column->cell != CELL_END;
	     column++) {
		print_cell(column, row, look->window, text);
		if (strcasestr(text, look->filter) != NULL)
			return true;
	}
	return false;
}

int sxt_top_select(const struct sxt_top_rows *rows, const struct sxt_top_look *look,
		   const struct sxt_top_row ***out, size_t *cnt_out)
{
	size_t all = rows->cnt[look->kind];
	const struct sxt_top_row **list = malloc((all + 1) * sizeof(*list));
	size_t cnt = 0;

	if (list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < all; i++) {
		if (matches(&rows->list[look->kind][i], look))
			list[cnt++] = &rows->list[look->kind][i];
	}
	qsort_r(list, cnt, sizeof(*list), compare, (void *)look);
	*out = list;
	*cnt_out = cnt;
	return 0;
}

/* How wide a column has to be for the rows, within its bounds. */
static int width_for(const struct column *column, const struct sxt_top_look *look,
		     const struct sxt_top_row *const *list, size_t cnt)
{
	char text[SXT_TOP_CELL_BYTES];
	int width = (int)strlen(column->title) + 1; /* and the mark of sorting */

	for (size_t i = 0; i < cnt; i++) {
		int columns;

		print_cell(column, list[i], look->window, text);
		columns = sxt_top_columns_of(text);
		width = columns > width ? columns : width;
	}
	if (width > column->widest)
		width = column->widest;
	return width > column->width ? width : column->width;
}

static void grow(struct sxt_top_layout *layout, const struct sxt_top_look *look,
		 const struct sxt_top_row *const *list, size_t cnt, int room)
{
	for (int i = 0; i < layout->cnt; i++) {
		const struct column *column = &columns_of[layout->kind][layout->column[i]];
		int more;

		if (column->widest == 0)
			continue;
		more = width_for(column, look, list, cnt) - column->width;
		if (more > room)
			more = room;
		layout->width[i] += more;
		room -= more;
	}
}

struct sxt_top_layout sxt_top_layout_make(const struct sxt_top_look *look,
					  const struct sxt_top_row *const *list, size_t cnt,
					  int width)
{
	const struct column *columns = columns_of[look->kind];
	struct sxt_top_layout layout = {.kind = look->kind};
	bool chosen[SXT_TOP_COLUMNS_MAX] = {false};
	int room = width > 0 ? width + 1 : SXT_TOP_LINE_BYTES;

	for (int rank = 0; rank < 5; rank++) {
		for (int i = 0; columns[i].cell != CELL_END; i++) {
			if (columns[i].rank != rank || (rank > 0 && room < columns[i].width + 1))
				continue;
			chosen[i] = true;
			room -= columns[i].width + 1;
		}
	}
	for (int i = 0; columns[i].cell != CELL_END; i++) {
		if (!chosen[i])
			continue;
		layout.column[layout.cnt] = i;
		layout.width[layout.cnt++] = columns[i].width;
	}
	grow(&layout, look, list, cnt, room > 0 ? room : 0);
	return layout;
}

static bool is_right(const struct column *column)
{
	return column->cell != CELL_TEXT && column->cell != CELL_TIME;
}

static void end_line(char *line)
{
	size_t len = strlen(line);

	while (len > 0 && line[len - 1] == ' ')
		line[--len] = '\0';
}

/* The mark stands right behind the title, in the gap to the next column if need be. */
static void mark_title(char *line, const struct column *column, int width, bool rises)
{
	size_t title = strlen(column->title);

	line[is_right(column) || title > (size_t)width ? (size_t)width : title] = rises ? '^' : 'v';
}

void sxt_top_head_line(const struct sxt_top_layout *layout, const struct sxt_top_look *look,
		       char out[SXT_TOP_LINE_BYTES])
{
	out[0] = '\0';
	for (int i = 0; i < layout->cnt; i++) {
		const struct column *column = &columns_of[layout->kind][layout->column[i]];
		size_t begin = strlen(out);

		sxt_top_append_cell(out, column->title, layout->width[i], is_right(column));
		sxt_top_append_cell(out, "", 1, false);
		if (layout->column[i] == look->sort[layout->kind])
			mark_title(out + begin, column, layout->width[i],
				   column->rises != look->reverse[layout->kind]);
	}
	end_line(out);
}

void sxt_top_row_line(const struct sxt_top_layout *layout, const struct sxt_top_look *look,
		      const struct sxt_top_row *row, char out[SXT_TOP_LINE_BYTES])
{
	char text[SXT_TOP_CELL_BYTES];

	out[0] = '\0';
	for (int i = 0; i < layout->cnt; i++) {
		const struct column *column = &columns_of[layout->kind][layout->column[i]];

		print_cell(column, row, look->window, text);
		if (i > 0)
			sxt_top_append_cell(out, "", 1, false);
		sxt_top_append_cell(out, text, layout->width[i], is_right(column));
	}
	end_line(out);
}

void sxt_top_move_sort(struct sxt_top_look *look, const struct sxt_top_layout *layout, int step)
{
	int *sort = &look->sort[look->kind];
	int place = 0;

	for (int i = 0; i < layout->cnt; i++) {
		if (layout->column[i] <= *sort)
			place = i;
	}
	place = (place + step + layout->cnt) % layout->cnt;
	*sort = layout->column[place];
	look->reverse[look->kind] = false;
}

bool sxt_top_sort_by(struct sxt_top_look *look, const char *title)
{
	const struct column *columns = columns_of[look->kind];

	for (int i = 0; columns[i].cell != CELL_END; i++) {
		if (strcasecmp(columns[i].title, title) == 0) {
			look->sort[look->kind] = i;
			return true;
		}
	}
	return false;
}
