/*
 * table.h - rows as lines of text: which columns fit, in which order, which rows. Pure.
 */
#ifndef SXT_CLI_TOP_TABLE_H
#define SXT_CLI_TOP_TABLE_H

#include "cli/top/rows.h"

#define SXT_TOP_COLUMNS_MAX 20
#define SXT_TOP_LINE_BYTES  4096

/* What the user wants to see. */
struct sxt_top_look {
	enum sxt_top_kind kind;
	enum sxt_top_window window; /* of the waits; of what is gone it is the whole always */
	int sort[SXT_TOP_KINDS];    /* column */
	bool reverse[SXT_TOP_KINDS];
	bool hides_gone;
	char filter[64]; /* part of any column's text, upper and lower case are one */
};

/* The columns that were chosen, and how wide each is. */
struct sxt_top_layout {
	enum sxt_top_kind kind;
	int cnt;
	int column[SXT_TOP_COLUMNS_MAX];
	int width[SXT_TOP_COLUMNS_MAX];
};

/**
 * sxt_top_look_init() - the defaults. @look: filled.
 */
void sxt_top_look_init(struct sxt_top_look *look);

/**
 * sxt_top_select() - the rows of look->kind that are to be seen, in order.
 * @rows: all. @look: what is wanted. @out: *cnt_out pointers into @rows on success; free() it.
 * Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_top_select(const struct sxt_top_rows *rows, const struct sxt_top_look *look,
				  const struct sxt_top_row ***out, size_t *cnt_out);

/**
 * sxt_top_layout_make() - choose columns: those that matter most first, as many as fit.
 * @look: kind and window. @list, @cnt: the rows to be shown. @width: of a line; 0: as it takes.
 * Return: the layout.
 */
struct sxt_top_layout sxt_top_layout_make(const struct sxt_top_look *look,
					  const struct sxt_top_row *const *list, size_t cnt,
					  int width);

/**
 * sxt_top_head_line() - the columns' titles; the one that is sorted by has a mark.
 * @layout: from sxt_top_layout_make(). @look: the same. @out: text without a newline.
 */
void sxt_top_head_line(const struct sxt_top_layout *layout, const struct sxt_top_look *look,
		       char out[SXT_TOP_LINE_BYTES]);

/**
 * sxt_top_row_line() - one row.
 * @layout: from sxt_top_layout_make(). @look: the same. @row: it. @out: text without a newline.
 */
void sxt_top_row_line(const struct sxt_top_layout *layout, const struct sxt_top_look *look,
		      const struct sxt_top_row *row, char out[SXT_TOP_LINE_BYTES]);

/**
 * sxt_top_detail() - one row in words, with what its line has no room for.
 * @kind: of the row. @row: it. @out: one line of any length.
 */
void sxt_top_detail(enum sxt_top_kind kind, const struct sxt_top_row *row,
		    char out[SXT_TOP_LINE_BYTES]);

/**
 * sxt_top_move_sort() - sort by the next column. @look: changed. @layout: what is seen.
 * @step: 1 to the right, -1 to the left.
 */
void sxt_top_move_sort(struct sxt_top_look *look, const struct sxt_top_layout *layout, int step);

/**
 * sxt_top_sort_by() - sort by a column of look->kind. @look: changed.
 * @title: its title, upper and lower case are one. Return: false if there is none.
 */
bool sxt_top_sort_by(struct sxt_top_look *look, const char *title);

/**
 * sxt_top_wrap() - where a line of text ends.
 * @text: UTF-8. @width: columns. Return: bytes up to the last blank that fits, or that fit.
 */
size_t sxt_top_wrap(const char *text, int width);

extern const char *const sxt_top_kind_names[SXT_TOP_KINDS];

#endif
