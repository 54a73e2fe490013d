/*
 * rules_parts.h - what the parser's files share: words of a line, and faults.
 */
#ifndef SXT_TUNER_RULES_PARTS_H
#define SXT_TUNER_RULES_PARTS_H

#include "tuner/fields.h"

/* A piece of the text, not terminated. */
struct sxt_piece {
	const char *text;
	size_t len;
	uint32_t line;
	uint32_t column; /* 0: the line as a whole */
};

/* What a line came to. */
struct sxt_parsed {
	bool is_rule;
	bool is_model;
	struct sxt_rule rule;
	struct sxt_model model;
};

/**
 * sxt_fault_set() - tell what is wrong with a piece.
 * @fault: set. @piece: of the file. @format: what is wrong. Return: -EINVAL.
 */
int sxt_fault_set(struct sxt_rules_fault *fault, const struct sxt_piece *piece, const char *format,
		  ...) SXT_PRINTF(3, 4);

/**
 * sxt_fault_word() - likewise, with the piece itself in front.
 * @fault: set. @piece: of the file. @why: what is wrong with it. Return: -EINVAL.
 */
int sxt_fault_word(struct sxt_rules_fault *fault, const struct sxt_piece *piece, const char *why);

/**
 * sxt_piece_is() - is it this word? @piece: to look at. @word: the word. Return: true if so.
 */
bool sxt_piece_is(const struct sxt_piece *piece, const char *word);

/**
 * sxt_piece_value() - parse it as the value of a field.
 * @piece: the value's text. @field: which. @record: its member is written on success.
 * @fault: set on failure. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_piece_value(const struct sxt_piece *piece, const struct sxt_field *field,
				   void *record, struct sxt_rules_fault *fault);

/**
 * sxt_line_parse() - a line of Sextant's format behind the first.
 * @line: without its end. @out: written on success. @fault: set on failure. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_line_parse(const struct sxt_piece *line, struct sxt_parsed *out,
				  struct sxt_rules_fault *fault);

/**
 * sxt_csv_parse() - a line of NVIDIA's CSV.
 * @line: without its end. @out: written on success. @fault: set on failure. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_csv_parse(const struct sxt_piece *line, struct sxt_parsed *out,
				 struct sxt_rules_fault *fault);

#endif
