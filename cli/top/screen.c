/*
 * screen.c - the live view: draws what scene and table say, and follows the keys.
 */
#include "cli/top/top.h"

#include "cli/top/format.h"

#include "core/compiler.h"
#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_MIN_MS 250
#define INTERVAL_MAX_MS 60000
#define TABLE_TOP       3
#define KEY_ESCAPE      27

struct screen {
	struct sxt_top_scene *scene;
	struct sxt_top_look *look;
	const struct sxt_top_row **list; /* what is shown, in order */
	size_t cnt;
	size_t selected;
	size_t first;  /* row at the top of the table */
	char key[192]; /* of the selected row, to find it again */
	struct sxt_top_layout layout;
	unsigned int interval_ms;
	uint64_t next_ns;
	bool paused;
	bool helps;
	bool edits_filter;
	int rc;
};

static const char *const help[] = {
	"q         quit; the job does not notice",
	"1 ... 5   processes, ports, links, connections, events; Tab: the next one",
	"< >       sort by the column to the left or right; r: the other way round",
	"arrows    choose a row, its details are below the table; PgUp PgDn Home End",
	"/         show only rows with a text in some column; Esc: all again",
	"t         waits of the last interval, or of the whole life",
	"d         hide processes that are no more, or show them",
	"+ -       look more often, less often; p: hold the picture",
	"",
	"OUT IN    GB/s (10^9 bytes) now; AVG: since the process or connection began",
	"50/99     half of all messages waited less, 1 of 100 waited longer",
	"  PEER    sending: for the peer's receive; receiving: from posting a receive",
	"          to its arrival",
	"  WIRE    sending: from handing a message to the HCA until it is acknowledged",
	"  APP     nothing in flight: for NCCL to come with the next message",
	"HW        all traffic of the port by its own counters, other programs' too",
	"STATUS    dead: killed or crashed; ended: left in order; STALL: waits too long",
};

static attr_t attribute_of(enum sxt_top_tone tone)
{
	switch (tone) {
	case SXT_TOP_GOOD:
		return COLOR_PAIR(1);
	case SXT_TOP_DIM:
		return A_DIM;
	case SXT_TOP_WARN:
		return COLOR_PAIR(2) | A_BOLD;
	case SXT_TOP_BAD:
		return COLOR_PAIR(3) | A_BOLD;
	default:
		return A_NORMAL;
	}
}

static void put_line(int y, attr_t attribute, const char *text)
{
	attrset(attribute);
	mvaddnstr(y, 0, text, (int)sxt_top_cut(text, COLS));
	attrset(A_NORMAL);
}

static void key_of(enum sxt_top_kind kind, const struct sxt_top_row *row, char out[192])
{
	if (row->of != NULL)
		snprintf(out, 192, "%d %s %" PRIu64, (int)kind, row->of->file, row->at);
	else
		snprintf(out, 192, "%d %s", (int)kind, row->name);
}

/* After a shot or another order the same row stays selected, wherever it went. */
static void select_again(struct screen *s)
{
	char key[192];

	for (size_t i = 0; s->key[0] != '\0' && i < s->cnt; i++) {
		key_of(s->look->kind, s->list[i], key);
		if (strcmp(key, s->key) == 0) {
			s->selected = i;
			return;
		}
	}
	if (s->selected >= s->cnt)
		s->selected = s->cnt > 0 ? s->cnt - 1 : 0;
}

static int detail_lines(void)
{
	return LINES < 40 ? 3 : 6;
}

static int table_lines(void)
{
	int lines = LINES - TABLE_TOP - detail_lines() - 1;

	return lines > 1 ? lines : 1;
}

static void prepare(struct screen *s)
{
	size_t lines = (size_t)table_lines();

	free(s->list);
	s->list = NULL;
	s->cnt = 0;
	s->rc = sxt_top_select(&s->scene->rows, s->look, &s->list, &s->cnt);
	if (s->rc != 0)
		return;
	select_again(s);
	if (s->selected < s->first)
		s->first = s->selected;
	if (s->selected >= s->first + lines)
		s->first = s->selected - lines + 1;
	if (s->first > 0 && s->first + lines > s->cnt)
		s->first = s->cnt > lines ? s->cnt - lines : 0;
	s->layout =
		sxt_top_layout_make(s->look, s->list + s->first,
				    s->cnt - s->first < lines ? s->cnt - s->first : lines, COLS);
}

static void draw_tabs(const struct screen *s)
{
	const struct sxt_top_troubles *troubles = sxt_top_source_troubles(s->scene->source);
	char text[256];
	int x = 0;

	for (int kind = 0; kind < SXT_TOP_KINDS; kind++) {
		bool is_shown = kind == (int)s->look->kind;

		snprintf(text, sizeof(text), "%d %s", kind + 1, sxt_top_kind_names[kind]);
		attrset(is_shown ? A_BOLD | A_UNDERLINE : A_NORMAL);
		mvaddstr(1, x, text);
		x += (int)strlen(text) + 2;
	}
	attrset(A_NORMAL);
	if (s->paused)
		snprintf(text, sizeof(text), "held");
	else if (s->interval_ms == 0)
		snprintf(text, sizeof(text), "snapshot");
	else
		snprintf(text, sizeof(text), "%g s", s->interval_ms / 1000.0);
	if (troubles->cnt > 0 || troubles->foreign_cnt > 0)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ", %zu unread: ?",
			 troubles->cnt + troubles->foreign_cnt);
	mvaddstr(1, x, text);
	x += (int)strlen(text) + 2;
	snprintf(text, sizeof(text), "waits: %s",
		 s->look->window == SXT_TOP_WHOLE ? "whole" : "now");
	mvaddnstr(1, x, text, COLS > x ? COLS - x : 0);
}

static void draw_rows(const struct screen *s)
{
	char line[SXT_TOP_LINE_BYTES];

	sxt_top_head_line(&s->layout, s->look, line);
	put_line(2, A_REVERSE, line);
	mvchgat(2, 0, -1, A_REVERSE, 0, NULL);
	for (size_t i = s->first; i < s->cnt && i < s->first + (size_t)table_lines(); i++) {
		int y = TABLE_TOP + (int)(i - s->first);
		attr_t attribute = attribute_of(s->list[i]->tone);

		sxt_top_row_line(&s->layout, s->look, s->list[i], line);
		put_line(y, attribute, line);
		if (i == s->selected)
			mvchgat(y, 0, -1, attribute | A_REVERSE, (short)PAIR_NUMBER(attribute),
				NULL);
	}
	if (s->cnt == 0)
		put_line(TABLE_TOP, A_NORMAL,
			 s->look->filter[0] != '\0' ? "  none that fits the filter; Esc shows all"
						    : "  none");
}

static void draw_detail(const struct screen *s)
{
	char text[SXT_TOP_LINE_BYTES];
	const char *rest = text;

	if (s->cnt == 0)
		return;
	sxt_top_detail(s->look->kind, s->list[s->selected], text);
	for (int i = 0; i < detail_lines() && *rest != '\0'; i++) {
		size_t len = sxt_top_wrap(rest, COLS);

		mvaddnstr(LINES - 1 - detail_lines() + i, 0, rest, (int)len);
		rest += len;
		rest += strspn(rest, " ");
	}
}

/* What plain output would say, line by line. */
static void draw_troubles(const struct screen *s, int y)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	char *rest;

	if (out == NULL)
		return;
	sxt_top_print_troubles(s->scene->source, s->scene->rows.cnt[SXT_TOP_PROCESSES], out);
	if (fclose(out) != 0) {
		free(text);
		return;
	}
	for (rest = text; rest != NULL && *rest != '\0' && y < LINES - 1; y++) {
		char *end = strchrnul(rest, '\n');

		mvaddnstr(y, 0, rest, (int)(end - rest));
		rest = *end != '\0' ? end + 1 : end;
	}
	free(text);
}

static void draw_keys(const struct screen *s)
{
	char text[160];

	if (s->edits_filter) {
		snprintf(text, sizeof(text), "show rows with: %s_  (Enter: keep, Esc: all)",
			 s->look->filter);
		put_line(LINES - 1, A_BOLD, text);
		return;
	}
	snprintf(text, sizeof(text), "%s",
		 "q quit  1-5 view  <> sort  r reverse  / filter  t waits  d dead  p hold  ? help");
	put_line(LINES - 1, A_REVERSE, text);
	mvchgat(LINES - 1, 0, -1, A_REVERSE, 0, NULL);
	if (s->look->filter[0] != '\0') {
		snprintf(text, sizeof(text), " filter: %s ", s->look->filter);
		put_line(LINES - 1, A_REVERSE | A_BOLD, text);
	}
}

static void draw(struct screen *s)
{
	char line[SXT_TOP_LINE_BYTES];

	erase();
	sxt_top_summary(s->scene, line);
	put_line(0, A_BOLD, line);
	if (s->helps) {
		for (size_t i = 0; i < SXT_ARRAY_LEN(help); i++)
			put_line(2 + (int)i, A_NORMAL, help[i]);
		draw_troubles(s, 3 + (int)SXT_ARRAY_LEN(help));
		put_line(LINES - 1, A_REVERSE, "any key: back");
	} else {
		draw_tabs(s);
		if (s->scene->rows.cnt[SXT_TOP_PROCESSES] == 0) {
			draw_troubles(s, TABLE_TOP);
		} else {
			draw_rows(s);
			draw_detail(s);
		}
		draw_keys(s);
	}
	refresh();
}

static void move_to(struct screen *s, int64_t row)
{
	int64_t last = s->cnt > 0 ? (int64_t)s->cnt - 1 : 0;

	s->selected = (size_t)(row < 0 ? 0 : row > last ? last : row);
	if (s->cnt > 0)
		key_of(s->look->kind, s->list[s->selected], s->key);
}

static void show_kind(struct screen *s, int kind)
{
	s->look->kind = (enum sxt_top_kind)(kind % SXT_TOP_KINDS);
	s->selected = s->first = 0;
	s->key[0] = '\0';
}

/* Return: was it one of them? */
static bool follow_move(struct screen *s, int key)
{
	int64_t at = (int64_t)s->selected;

	switch (key) {
	case KEY_UP:
		move_to(s, at - 1);
		return true;
	case KEY_DOWN:
		move_to(s, at + 1);
		return true;
	case KEY_PPAGE:
		move_to(s, at - table_lines());
		return true;
	case KEY_NPAGE:
		move_to(s, at + table_lines());
		return true;
	case KEY_HOME:
		move_to(s, 0);
		return true;
	case KEY_END:
		move_to(s, INT64_MAX);
		return true;
	default:
		return false;
	}
}

static void follow_filter(struct screen *s, int key)
{
	char *filter = s->look->filter;
	size_t len = strlen(filter);

	if (key == KEY_ESCAPE)
		filter[0] = '\0';
	if (key == KEY_ESCAPE || key == '\n' || key == KEY_ENTER)
		s->edits_filter = false;
	else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && len > 0)
		filter[len - 1] = '\0';
	else if (key >= ' ' && key < 127 && len + 1 < sizeof(s->look->filter)) {
		filter[len] = (char)key;
		filter[len + 1] = '\0';
	}
}

static void change_interval(struct screen *s, bool shorter)
{
	unsigned int next = shorter ? s->interval_ms / 2 : s->interval_ms * 2;

	if (s->interval_ms != 0 && next >= INTERVAL_MIN_MS && next <= INTERVAL_MAX_MS)
		s->interval_ms = next;
}

/* Return: false to quit. */
static bool follow(struct screen *s, int key)
{
	struct sxt_top_look *look = s->look;

	if (key == KEY_RESIZE || follow_move(s, key))
		return true;
	switch (key) {
	case 'q':
		return false;
	case '\t':
		show_kind(s, (int)look->kind + 1);
		break;
	case '<':
	case KEY_LEFT:
		sxt_top_move_sort(look, &s->layout, -1);
		break;
	case '>':
	case KEY_RIGHT:
		sxt_top_move_sort(look, &s->layout, 1);
		break;
	case 'r':
		look->reverse[look->kind] = !look->reverse[look->kind];
		break;
	case '/':
		s->edits_filter = true;
		break;
	case KEY_ESCAPE:
		look->filter[0] = '\0';
		break;
	case 't':
		look->window = look->window == SXT_TOP_RECENT ? SXT_TOP_WHOLE : SXT_TOP_RECENT;
		break;
	case 'd':
		look->hides_gone = !look->hides_gone;
		break;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	case '+':
	case '-':
		change_interval(s, key == '+');
		break;
	case '?':
	case 'h':
		s->helps = true;
		break;
	default:
		if (key >= '1' && key < '1' + SXT_TOP_KINDS)
			show_kind(s, key - '1');
		break;
	}
	return true;
}

static bool handle(struct screen *s, int key)
{
	if (s->helps && key != KEY_RESIZE) {
		s->helps = false;
		return key != 'q';
	}
	if (s->edits_filter && key != KEY_RESIZE) {
		follow_filter(s, key);
		return true;
	}
	return follow(s, key);
}

/* Waits for a key until the next shot is due. Return: ERR: it is. */
static int wait_key(const struct screen *s)
{
	uint64_t now = sxt_sys_host.now_ns();

	if (s->interval_ms == 0 || s->paused)
		timeout(-1);
	else
		timeout(s->next_ns > now ? (int)((s->next_ns - now) / 1000000) + 1 : 0);
	return getch();
}

static void run(struct screen *s)
{
	bool goes_on = true;

	s->next_ns = sxt_sys_host.now_ns() + s->interval_ms * SXT_NS_PER_MS;
	while (goes_on && s->rc == 0) {
		int key;

		prepare(s);
		if (s->rc != 0)
			return;
		draw(s);
		key = wait_key(s);
		if (key != ERR) {
			goes_on = handle(s, key);
		} else if (!s->paused && s->interval_ms != 0 &&
			   sxt_sys_host.now_ns() >= s->next_ns) {
			s->rc = sxt_top_scene_step(s->scene);
			s->next_ns = sxt_sys_host.now_ns() + s->interval_ms * SXT_NS_PER_MS;
		}
	}
}

static void set_colours(void)
{
	if (!has_colors())
		return;
	start_color();
	use_default_colors();
	init_pair(1, COLOR_GREEN, -1);
	init_pair(2, COLOR_YELLOW, -1);
	init_pair(3, COLOR_RED, -1);
}

int sxt_top_screen(struct sxt_top_scene *scene, struct sxt_top_look *look, unsigned int interval_ms)
{
	struct screen s = {.scene = scene, .look = look, .interval_ms = interval_ms};
	SCREEN *terminal;

	setlocale(LC_CTYPE, "");
	terminal = newterm(NULL, stdout, stdin);
	if (terminal == NULL) {
		fputs("sextant top: this terminal is of an unknown kind (TERM); --once prints "
		      "text\n",
		      stderr);
		return SXT_EXIT_MISSING;
	}
	set_colours();
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, true);
	set_escdelay(25);
	run(&s);
	endwin();
	delscreen(terminal);
	free(s.list);
	if (s.rc != 0) {
		fprintf(stderr, "sextant top: %s\n", sxt_strerror(s.rc));
		return SXT_EXIT_BROKEN;
	}
	return SXT_EXIT_OK;
}
