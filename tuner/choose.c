/*
 * choose.c - the answer to a call, by tables that compile.c made: one search for the size, then for
 * rules a look into bitmaps, and for models into an order that is ready.
 */
#include "tuner/choose.h"

#include "tuner/tables.h"

#include <string.h>

/* The first rule of a block that applies, NULL for none. */
static SXT_INLINE const struct sxt_wish *find_wish(const struct sxt_block *block, size_t interval,
						   size_t pipe, size_t reg)
{
	const uint64_t *a = block->by_size + block->size_row[interval];
	const uint64_t *b = block->by_pipe + block->pipe_row[pipe] + reg * block->reg_words;
	const sxt_pair *pairs_a = (const sxt_pair *)a;
	const sxt_pair *pairs_b = (const sxt_pair *)b;
	sxt_pair any = pairs_a[0] & pairs_b[0];
	size_t word = 0;

#pragma GCC unroll 8
	for (size_t i = 1; i < SXT_WORDS / SXT_PAIR; i++)
		any |= pairs_a[i] & pairs_b[i];
	if ((any[0] | any[1]) == 0)
		return NULL;
	while ((a[word] & b[word]) == 0)
		word++;
	return &block->wishes[word * SXT_WORD + (size_t)__builtin_ctzll(a[word] & b[word])];
}

/* The rule of a call, NULL for none. */
static SXT_INLINE const struct sxt_wish *wish_of(const struct sxt_table *table,
						 const struct sxt_call *call, size_t interval)
{
	size_t pipe = call->pipe_ops < SXT_PIPE_OPS_MAX ? call->pipe_ops : SXT_PIPE_OPS_MAX;
	size_t reg = (uint8_t)call->reg % SXT_REGS;
	const struct sxt_wish *wish = NULL;

	for (uint32_t left = table->blocks_cnt; left > 0 && wish == NULL; left--)
		wish = find_wish(&table->blocks[table->blocks_cnt - left], interval, pipe, reg);
	return wish;
}

/*
 * The bits of costs from 0 to the largest finite float are whole numbers in the same order; those
 * of what NCCL cannot use, of infinity and of what is no number are above all of them.
 */
#define COST_END 0x7f800000u

static uint32_t bits_of(const float *cost)
{
	uint32_t bits;

	memcpy(&bits, cost, sizeof(bits));
	return bits;
}

static bool is_available(const struct sxt_call *call, uint32_t algo, uint32_t proto)
{
	if (algo >= call->algos || proto >= call->protos)
		return false;
	return call->costs == NULL ||
	       bits_of(&call->costs[(size_t)algo * call->protos + proto]) < COST_END;
}

/* What NCCL would choose itself: the first of the cheapest, of which there is one. */
static SXT_INLINE size_t cheapest(const float *costs, size_t algos)
{
	const float *best = costs;
	uint32_t least = UINT32_MAX;

	/* By rows: where the row is known, its cheapest takes three looks at most. */
#pragma GCC unroll 7
	for (size_t algo = 0; algo < algos; algo++) {
		const float *row = &costs[algo * SXT_PROTOS];
		uint32_t row_least = bits_of(&row[0]);

		row_least = bits_of(&row[1]) < row_least ? bits_of(&row[1]) : row_least;
		row_least = bits_of(&row[2]) < row_least ? bits_of(&row[2]) : row_least;
		best = row_least < least ? row : best;
		least = row_least < least ? row_least : least;
	}
	while (bits_of(best) != least)
		best++;
	return (size_t)(best - costs);
}

/* The fastest by the models of what NCCL can use; SXT_CANDIDATES for none. */
static size_t fastest(const struct sxt_ranking *ranking, const float *costs, size_t cnt)
{
	const uint8_t *at = ranking->order;

	for (; *at < SXT_CANDIDATES; at++) {
		if (*at < cnt && bits_of(&costs[*at]) < COST_END)
			break;
	}
	return *at;
}

static SXT_INLINE struct sxt_choice choose_by_model(const struct sxt_table *table,
						    const struct sxt_call *call, size_t interval)
{
	struct sxt_choice choice = {.source = SXT_CHOICE_NONE};
	size_t cnt = (size_t)call->algos * SXT_PROTOS;
	const struct sxt_ranking *ranking;
	const struct sxt_modelled *model;
	size_t best;
	size_t theirs;

	if (table->models_cnt == 0 || call->costs == NULL || call->protos != SXT_PROTOS)
		return choice;
	ranking = &table->rankings[table->ranking_row[interval]];
	best = fastest(ranking, call->costs, cnt);
	if (best == SXT_CANDIDATES)
		return choice;
	model = &table->models[ranking->model_of[best]];
	choice.source = SXT_CHOICE_CLOSE;
	choice.algo = model->algo;
	choice.proto = model->proto;
	choice.line = model->line_number;
	theirs = call->algos == SXT_ALGOS ? cheapest(call->costs, SXT_ALGOS)
					  : cheapest(call->costs, call->algos);
	if (theirs == best || theirs >= SXT_CANDIDATES || ranking->model_of[theirs] == SXT_NO_MODEL)
		return choice;
	if (sxt_modelled_us(model, call->bytes) <=
	    sxt_modelled_us(&table->models[ranking->model_of[theirs]], call->bytes) * model->keep)
		choice.source = SXT_CHOICE_MODEL;
	return choice;
}

struct sxt_choice sxt_choose(const struct sxt_chooser *chooser, const struct sxt_call *call)
{
	struct sxt_choice choice = {.source = SXT_CHOICE_NONE};
	const struct sxt_table *table;
	const struct sxt_wish *wish;
	size_t interval;

	if (call->coll >= SXT_COLLS)
		return choice;
	table = &chooser->tables[call->coll];
	interval = sxt_cuts_find(&table->sizes, call->bytes);
	wish = wish_of(table, call, interval);
	if (wish == NULL)
		return choose_by_model(table, call, interval);
	choice.source = is_available(call, wish->algo, wish->proto) ? SXT_CHOICE_RULE
								    : SXT_CHOICE_UNAVAILABLE;
	choice.algo = wish->algo;
	choice.proto = wish->proto;
	choice.channels = wish->channels;
	choice.line = wish->line;
	return choice;
}

uint64_t sxt_choose_chunk(const struct sxt_chooser *chooser, const struct sxt_call *call,
			  uint32_t algo, uint32_t proto)
{
	const struct sxt_table *table;
	const struct sxt_wish *wish;

	if (call->coll >= SXT_COLLS)
		return 0;
	table = &chooser->tables[call->coll];
	wish = wish_of(table, call, sxt_cuts_find(&table->sizes, call->bytes));
	return wish != NULL && wish->algo == algo && wish->proto == proto ? wish->chunk : 0;
}
