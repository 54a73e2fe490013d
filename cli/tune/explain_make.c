/*
 * explain_make.c - one call as the tuner would answer it, for each choice NCCL could make itself.
 */
#include "cli/tune/explain.h"

#include <stdlib.h>

#define NCCL_US  1.0f /* costs that make NCCL's own choice one of them; only their order counts */
#define OTHER_US 2.0f

/* The answer where @nccl is the cheapest of NCCL's own table; NULL: nothing is known of that. */
static struct sxt_choice ask(const struct sxt_explain_query *query, uint64_t bytes,
			     const struct sxt_pick *nccl)
{
	float costs[SXT_ALGOS * SXT_PROTOS];
	const struct sxt_call call = {
		.coll = query->coll,
		.bytes = bytes,
		.pipe_ops = query->pipe_ops,
		.reg = query->reg,
		.costs = nccl != NULL ? costs : NULL,
		.algos = SXT_ALGOS,
		.protos = SXT_PROTOS,
	};

	for (size_t i = 0; i < SXT_ARRAY_LEN(costs); i++)
		costs[i] = OTHER_US;
	if (nccl != NULL)
		costs[nccl->algo * SXT_PROTOS + nccl->proto] = NCCL_US;
	return sxt_choose(query->chooser, &call);
}

static int compare_rows(const void *left, const void *right)
{
	const struct sxt_explain_row *a = left;
	const struct sxt_explain_row *b = right;

	if ((a->model == NULL) != (b->model == NULL))
		return a->model == NULL ? 1 : -1;
	if (a->us != b->us)
		return a->us < b->us ? -1 : 1;
	return (int)(a->pick.algo * SXT_PROTOS + a->pick.proto) -
	       (int)(b->pick.algo * SXT_PROTOS + b->pick.proto);
}

static bool is_named(const struct sxt_explain_query *query, const struct sxt_choice *choice,
		     const struct sxt_pick *pick)
{
	return (choice->source == SXT_CHOICE_RULE && sxt_pick_is_of(choice, pick)) ||
	       (query->knows_nccl && query->nccl.algo == pick->algo &&
		query->nccl.proto == pick->proto);
}

void sxt_explain_make(const struct sxt_explain_query *query, uint64_t bytes,
		      struct sxt_explain *out)
{
	*out = (struct sxt_explain){.bytes = bytes};
	out->choice = ask(query, bytes, query->knows_nccl ? &query->nccl : NULL);
	for (size_t i = 0; i < SXT_EXPLAIN_ROWS; i++) {
		struct sxt_explain_row row = {.pick = {(enum sxt_algo)(i / SXT_PROTOS),
						       (enum sxt_proto)(i % SXT_PROTOS)}};

		row.model =
			sxt_tune_model(query->rules, row.pick, query->coll, query->shape, bytes);
		if (row.model == NULL && !is_named(query, &out->choice, &row.pick))
			continue;
		if (row.model != NULL)
			row.us = sxt_model_us(row.model, query->shape, bytes);
		row.becomes = ask(query, bytes, &row.pick);
		out->rows[out->rows_cnt++] = row;
	}
	qsort(out->rows, out->rows_cnt, sizeof(out->rows[0]), compare_rows);
}
