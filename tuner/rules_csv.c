/*
 * rules_csv.c - a line of the CSV that NVIDIA's example tuner documents, read without its guesses.
 */
#include "tuner/rules_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS_MIN 8
#define COLUMNS_MAX 10

/* Key of each column in a rule; min and max of the sizes stand by themselves. */
static const char *const keys[COLUMNS_MAX] = {"coll",     NULL,    NULL,    "algo",     "proto",
					      "channels", "nodes", "ranks", "pipe_ops", "reg"};

#define COLUMN_MIN      1
#define COLUMN_MAX      2
#define COLUMN_CHANNELS 5 /* from here on -1 leaves it open */

static struct sxt_piece trimmed(struct sxt_piece piece)
{
	while (piece.len > 0 && (piece.text[0] == ' ' || piece.text[0] == '\t')) {
		piece.text++;
		piece.len--;
		piece.column++;
	}
	while (piece.len > 0 &&
	       (piece.text[piece.len - 1] == ' ' || piece.text[piece.len - 1] == '\t'))
		piece.len--;
	return piece;
}

/* Spreadsheets put quotes around what they like. */
static struct sxt_piece unquoted(struct sxt_piece piece)
{
	piece = trimmed(piece);
	if (piece.len < 2 || piece.text[0] != '"' || piece.text[piece.len - 1] != '"')
		return piece;
	piece.text++;
	piece.len -= 2;
	piece.column++;
	return trimmed(piece);
}

/* Return: how many columns the line has, at most one more than fit. */
static size_t split(const struct sxt_piece *line, struct sxt_piece out[COLUMNS_MAX + 1])
{
	struct sxt_piece rest = *line;
	size_t cnt = 0;

	while (cnt < COLUMNS_MAX + 1) {
		const char *comma = memchr(rest.text, ',', rest.len);
		size_t len = comma != NULL ? (size_t)(comma - rest.text) : rest.len;

		out[cnt] = rest;
		out[cnt].len = len;
		out[cnt] = unquoted(out[cnt]);
		cnt++;
		if (comma == NULL)
			break;
		rest.text += len + 1;
		rest.len -= len + 1;
		rest.column += (uint32_t)len + 1;
	}
	return cnt;
}

static int parse_size(const struct sxt_piece *piece, uint64_t *out, struct sxt_rules_fault *fault)
{
	char text[SXT_VALUE_BYTES];
	int rc = -EINVAL;

	if (piece->len < sizeof(text)) {
		memcpy(text, piece->text, piece->len);
		text[piece->len] = '\0';
		rc = sxt_bytes_parse(text, out);
	}
	if (rc != 0)
		return sxt_fault_word(fault, piece,
				      rc == -ERANGE ? "is out of range; at most 64 bits of bytes"
						    : "is no size; write 65536, 64K, 1M, or -1");
	return 0;
}

static int parse_sizes(const struct sxt_piece columns[COLUMNS_MAX], struct sxt_range *out,
		       struct sxt_rules_fault *fault)
{
	struct sxt_range range = {0, UINT64_MAX};
	int rc = parse_size(&columns[COLUMN_MIN], &range.min, fault);

	if (rc == 0)
		rc = parse_size(&columns[COLUMN_MAX], &range.max, fault);
	if (rc != 0)
		return rc;
	if (range.min == UINT64_MAX)
		range.min = 0;
	if (range.min > range.max)
		return sxt_fault_set(fault, &columns[COLUMN_MIN],
				     "the smallest size %.*s is above the largest, %.*s",
				     (int)columns[COLUMN_MIN].len, columns[COLUMN_MIN].text,
				     (int)columns[COLUMN_MAX].len, columns[COLUMN_MAX].text);
	*out = range;
	return 0;
}

static const struct sxt_field *field_of(const char *key)
{
	const struct sxt_field *field = sxt_rule_record.fields;

	while (strcmp(field->key, key) != 0)
		field++;
	return field;
}

static int parse_columns(const struct sxt_piece columns[COLUMNS_MAX], size_t cnt,
			 struct sxt_rule *rule, struct sxt_rules_fault *fault)
{
	struct sxt_piece whole = columns[0];
	char why[160];
	int rc = 0;

	for (size_t i = 0; i < cnt && rc == 0; i++) {
		if (i == COLUMN_MIN)
			rc = parse_sizes(columns, &rule->when.bytes, fault);
		if (keys[i] == NULL || (i >= COLUMN_CHANNELS && sxt_piece_is(&columns[i], "-1")))
			continue;
		if (memmem(columns[i].text, columns[i].len, "..", 2) != NULL)
			return sxt_fault_word(fault, &columns[i],
					      "is a range, which this format does not have");
		rc = sxt_piece_value(&columns[i], field_of(keys[i]), rule, fault);
	}
	whole.column = 0;
	if (rc == 0 && sxt_rule_check(rule, why) != 0)
		rc = sxt_fault_set(fault, &whole, "%s", why);
	return rc;
}

int sxt_csv_parse(const struct sxt_piece *line, struct sxt_parsed *out,
		  struct sxt_rules_fault *fault)
{
	struct sxt_parsed parsed = {.rule = sxt_rule_default};
	struct sxt_piece columns[COLUMNS_MAX + 1];
	struct sxt_piece whole = trimmed(*line);
	size_t cnt;
	int rc;

	*out = parsed;
	if (whole.len == 0 || whole.text[0] == '#')
		return 0;
	cnt = split(line, columns);
	/* The line of column names that spreadsheets need. */
	if (sxt_piece_is(&columns[0], "collective_type"))
		return 0;
	whole.column = 0;
	if (cnt == 1)
		return sxt_fault_word(fault, line,
				      "has no commas: for lines of rule and model the file's first "
				      "line has to be \"sextant-rules 1\"");
	if (cnt < COLUMNS_MIN || cnt > COLUMNS_MAX)
		return sxt_fault_set(fault, &whole,
				     "%s%zu columns; expected %d to %d: coll,min,max,algo,proto,"
				     "channels,nodes,ranks[,pipe_ops[,reg]]",
				     cnt > COLUMNS_MAX ? "at least " : "", cnt, COLUMNS_MIN,
				     COLUMNS_MAX);
	rc = parse_columns(columns, cnt, &parsed.rule, fault);
	parsed.is_rule = true;
	if (rc == 0)
		*out = parsed;
	return rc;
}
