/*
 * format.h - numbers as a few characters.
 */
#ifndef SXT_CLI_TOP_FORMAT_H
#define SXT_CLI_TOP_FORMAT_H

#include "cli/top/rows.h"

#define SXT_TOP_CELL_BYTES 320

/**
 * sxt_top_print_rate() - GB/s in 5 characters. @value: NAN is "-". @out: text.
 */
void sxt_top_print_rate(double value, char out[SXT_TOP_CELL_BYTES]);

/**
 * sxt_top_print_count() - a whole number; from 100,000 on with k, M or G.
 * @value: SXT_TOP_UNKNOWN is "-". @out: text.
 */
void sxt_top_print_count(uint64_t value, char out[SXT_TOP_CELL_BYTES]);

/**
 * sxt_top_print_ns() - a duration in 5 characters. @ns: SXT_TOP_UNKNOWN is "-". @out: text.
 */
void sxt_top_print_ns(uint64_t ns, char out[SXT_TOP_CELL_BYTES]);

/**
 * sxt_top_print_span() - "p50/p99". @span: unknown is "-". @out: text.
 */
void sxt_top_print_span(const struct sxt_top_span *span, char out[SXT_TOP_CELL_BYTES]);

/**
 * sxt_top_print_time() - local date and time. @wall_ns: 0 is "-". @out: text.
 */
void sxt_top_print_time(uint64_t wall_ns, char out[SXT_TOP_CELL_BYTES]);

/**
 * sxt_top_columns_of() - columns that a text takes. @text: UTF-8. Return: its characters.
 */
int sxt_top_columns_of(const char *text);

/**
 * sxt_top_cut() - where to cut a text. @text: UTF-8. @columns: at most. Return: bytes that fit.
 */
size_t sxt_top_cut(const char *text, int columns);

/**
 * sxt_top_append_cell() - append a text in exactly so many columns, cut with '~' where it has to.
 * @line: appended to, of SXT_TOP_LINE_BYTES. @text: UTF-8. @width: columns. @right: alignment.
 */
void sxt_top_append_cell(char *line, const char *text, int width, bool right);

#endif
