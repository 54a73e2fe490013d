/*
 * fields.h - the words that a rule and a model are made of: one table for each, by which both
 * formats are read and lines are written.
 */
#ifndef SXT_TUNER_FIELDS_H
#define SXT_TUNER_FIELDS_H

#include "tuner/rules.h"
#include "tuner/values.h"

enum sxt_field_kind {
	SXT_FIELD_COLL,
	SXT_FIELD_ALGO,
	SXT_FIELD_PROTO,
	SXT_FIELD_SIZES,  /* struct sxt_range of bytes */
	SXT_FIELD_COUNTS, /* struct sxt_range of counts */
	SXT_FIELD_REG,
	SXT_FIELD_CHANNELS,
	SXT_FIELD_CHUNK,
	SXT_FIELD_REAL
};

struct sxt_field {
	const char *key;
	enum sxt_field_kind kind;
	size_t offset; /* in struct sxt_rule or struct sxt_model */
	bool is_required;
	bool is_told; /* for people only: what is chosen does not depend on it */
	double min;   /* of a REAL */
	double max;   /* of a REAL, and of COUNTS where it is not 0 */
};

/* A kind of line: "rule" or "model". */
struct sxt_record {
	const char *name;
	const struct sxt_field *fields;
	size_t fields_cnt;
};

extern const struct sxt_record sxt_rule_record;
extern const struct sxt_record sxt_model_record;

/* Beyond these NCCL's own limits begin, or harm. */
#define SXT_CHANNELS_MAX 64u
#define SXT_CHUNK_MIN    4096u
#define SXT_CHUNK_MAX    (16u << 20)
#define SXT_CHUNK_STEP   512u

/**
 * sxt_field_parse() - one value into its record.
 * @field: which. @text: the whole word. @record: its member is written on success.
 * @why: on failure, what is wrong with the word, to stand behind it. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_field_parse(const struct sxt_field *field, const char *text, void *record,
				   char why[160]);

/**
 * sxt_record_write() - a record as a line, without the newline.
 * @kind: of record. @record: to write; what has its default is left out.
 * @has_told: with what is for people only. @out: terminated.
 */
void sxt_record_write(const struct sxt_record *kind, const void *record, bool has_told,
		      char out[SXT_RULE_LINE_BYTES]);

/**
 * sxt_rule_check() - what no single value of a rule shows.
 * @rule: of valid values. @why: on failure, what is wrong. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_rule_check(const struct sxt_rule *rule, char why[160]);

/* Rules and models before the first value is read. */
extern const struct sxt_rule sxt_rule_default;
extern const struct sxt_model sxt_model_default;

#endif
