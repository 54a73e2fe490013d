/*
 * explain.h - what the parts of `sextant tune explain` share.
 */
#ifndef SXT_CLI_TUNE_EXPLAIN_H
#define SXT_CLI_TUNE_EXPLAIN_H

#include "cli/tune/candidates.h"

#include <jansson.h>

#define SXT_EXPLAIN_ROWS ((size_t)SXT_ALGOS * SXT_PROTOS)

/* What is asked. */
struct sxt_explain_query {
	enum sxt_coll coll;
	struct sxt_shape shape;
	uint32_t pipe_ops;
	int8_t reg;
	bool knows_nccl; /* what NCCL takes by itself: */
	struct sxt_pick nccl;
	const char *file;
	const struct sxt_rules *rules;
	const struct sxt_chooser *chooser;
};

/* One that could be taken. */
struct sxt_explain_row {
	struct sxt_pick pick;
	double us;                     /* by the model; 0: there is none */
	const struct sxt_model *model; /* NULL: there is none */
	struct sxt_choice becomes;     /* what is taken where NCCL's own choice is this one */
};

/* One size. */
struct sxt_explain {
	uint64_t bytes;
	struct sxt_explain_row
		rows[SXT_EXPLAIN_ROWS]; /* fastest first, those without a model last */
	size_t rows_cnt;
	struct sxt_choice choice; /* from what is known of NCCL's own choice */
};

/**
 * sxt_explain_make() - ask for one size.
 * @query: what is asked. @bytes: the size. @out: the answer.
 */
void sxt_explain_make(const struct sxt_explain_query *query, uint64_t bytes,
		      struct sxt_explain *out);

/**
 * sxt_explain_print() - all candidates of one size, as text.
 * @query: what was asked. @e: the answer.
 */
void sxt_explain_print(const struct sxt_explain_query *query, const struct sxt_explain *e);

/**
 * sxt_explain_print_line() - one size as a line of a table.
 * @query: what was asked. @e: the answer; NULL prints the table's head.
 */
void sxt_explain_print_line(const struct sxt_explain_query *query, const struct sxt_explain *e);

/**
 * sxt_explain_print_head() - what is asked, as text. @query: that.
 */
void sxt_explain_print_head(const struct sxt_explain_query *query);

/**
 * sxt_explain_print_formula() - how bandwidths are counted, as text. @query: what was asked.
 */
void sxt_explain_print_formula(const struct sxt_explain_query *query);

/**
 * sxt_explain_json() - one size as JSON.
 * @query: what was asked. @e: the answer. Return: a new object.
 */
json_t *sxt_explain_json(const struct sxt_explain_query *query, const struct sxt_explain *e);

#endif
