/*
 * compile.c - rules and models made into tables for one communicator.
 */
#include "tuner/choose.h"

#include "tuner/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool sxt_when_covers(const struct sxt_when *when, struct sxt_shape shape)
{
	uint64_t nodes = shape.nodes > 0 ? shape.nodes : 1;
	uint64_t per_node = (shape.ranks + nodes - 1) / nodes;

	return when->nodes.min <= shape.nodes && shape.nodes <= when->nodes.max &&
	       when->ranks.min <= shape.ranks && shape.ranks <= when->ranks.max &&
	       when->per_node.min <= per_node && per_node <= when->per_node.max;
}

static bool is_in(const struct sxt_range *range, uint64_t value)
{
	return range->min <= value && value <= range->max;
}

/* What making a chooser needs to know all along. */
struct maker {
	const struct sxt_rules *rules;
	struct sxt_shape shape;
	const bool (*allowed)[SXT_ALGOS][SXT_PROTOS];
};

static bool is_wanted(const struct maker *maker, const struct sxt_when *when, enum sxt_algo algo,
		      enum sxt_proto proto)
{
	return sxt_when_covers(when, maker->shape) &&
	       (maker->allowed == NULL || maker->allowed[when->coll][algo][proto]);
}

static void block_free(struct sxt_block *block)
{
	sxt_cuts_fini(&block->sizes);
	sxt_cuts_fini(&block->pipes);
	free(block->by_size);
	free(block->by_pipe);
	free(block->size_row);
	free(block->wishes);
}

/* Sets a rule's bit in the bitmap of every interval that lies in a range. */
static void set_bits(const struct sxt_cuts *cuts, const struct sxt_range *range, uint64_t *bitmaps,
		     uint32_t bit)
{
	for (size_t i = sxt_cuts_find(cuts, range->min);
	     i < cuts->cnt && cuts->from[i] <= range->max; i++)
		bitmaps[i * SXT_WORDS + bit / SXT_WORD] |= 1ull << bit % SXT_WORD;
}

static void set_rule(struct sxt_block *block, const struct sxt_rule *rule, uint32_t bit)
{
	const struct sxt_when *when = &rule->when;

	block->wishes[bit] =
		(struct sxt_wish){rule->algo, rule->proto, rule->channels, rule->line, rule->chunk};
	set_bits(&block->sizes, &when->bytes, block->by_size, bit);
	for (size_t reg = 0; reg < SXT_REGS; reg++) {
		if (when->reg < 0 || (size_t)when->reg == reg)
			set_bits(&block->pipes, &when->pipe_ops,
				 block->by_pipe + reg * block->reg_words, bit);
	}
}

static int block_cut(struct sxt_block *block, const struct sxt_rule *const *rules, uint32_t cnt)
{
	int rc = 0;

	for (uint32_t i = 0; i < cnt && rc == 0; i++) {
		rc = sxt_cuts_add(&block->sizes, &rules[i]->when.bytes);
		if (rc == 0)
			rc = sxt_cuts_add(&block->pipes, &rules[i]->when.pipe_ops);
	}
	if (rc == 0)
		rc = sxt_cuts_ready(&block->sizes);
	if (rc == 0)
		rc = sxt_cuts_ready(&block->pipes);
	return rc;
}

/* Zeroed, beginning at a cache line's or larger boundary. */
static void *make_aligned(size_t alignment, size_t bytes)
{
	void *memory = aligned_alloc(alignment, bytes);

	if (memory != NULL)
		memset(memory, 0, bytes);
	return memory;
}

static uint64_t *make_bitmaps(size_t cnt)
{
	return make_aligned(SXT_WORDS * sizeof(uint64_t), cnt * SXT_WORDS * sizeof(uint64_t));
}

/* A block of rules of one collective. */
static int block_make(struct sxt_block *block, const struct sxt_rule *const *rules, uint32_t cnt)
{
	int rc = block_cut(block, rules, cnt);

	if (rc != 0)
		return rc;
	block->reg_words = block->pipes.cnt * SXT_WORDS;
	block->by_size = make_bitmaps(block->sizes.cnt);
	block->by_pipe = make_bitmaps((size_t)block->pipes.cnt * SXT_REGS);
	block->wishes = calloc(cnt, sizeof(*block->wishes));
	if (block->by_size == NULL || block->by_pipe == NULL || block->wishes == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < cnt; i++)
		set_rule(block, rules[i], i);
	for (uint32_t i = 0; i <= SXT_PIPE_OPS_MAX; i++)
		block->pipe_row[i] = (uint32_t)sxt_cuts_find(&block->pipes, i) * SXT_WORDS;
	return 0;
}

/* Gathers the rules of a collective that count for this communicator. */
static uint32_t gather(const struct maker *maker, enum sxt_coll coll, const struct sxt_rule **out)
{
	const struct sxt_rules *rules = maker->rules;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		const struct sxt_rule *rule = &rules->rules[i];

		if (rule->when.coll == coll &&
		    is_wanted(maker, &rule->when, rule->algo, rule->proto))
			out[cnt++] = rule;
	}
	return cnt;
}

static int make_blocks(const struct maker *maker, enum sxt_coll coll, struct sxt_table *table)
{
	const struct sxt_rule **rules;
	uint32_t blocks_cnt;
	uint32_t cnt;
	int rc = 0;

	if (maker->rules->rules_cnt == 0)
		return 0;
	rules = calloc(maker->rules->rules_cnt, sizeof(const struct sxt_rule *));
	if (rules == NULL)
		return -ENOMEM;
	cnt = gather(maker, coll, rules);
	blocks_cnt = (cnt + SXT_BLOCK - 1) / SXT_BLOCK;
	if (blocks_cnt > 0) {
		table->blocks = calloc(blocks_cnt, sizeof(struct sxt_block));
		rc = table->blocks == NULL ? -ENOMEM : 0;
	}
	for (uint32_t i = 0; i < blocks_cnt && rc == 0; i++) {
		uint32_t left = cnt - i * SXT_BLOCK;

		table->blocks_cnt = i + 1;
		rc = block_make(&table->blocks[i], rules + (size_t)i * SXT_BLOCK,
				left < SXT_BLOCK ? left : SXT_BLOCK);
	}
	free(rules);
	return rc;
}

static bool is_faster(const struct sxt_modelled *a, const struct sxt_modelled *b, uint64_t bytes)
{
	double x = sxt_modelled_us(a, bytes);
	double y = sxt_modelled_us(b, bytes);

	return x < y || (x == y && a->candidate < b->candidate);
}

/* The models in force at a size: of each candidate the first that applies. */
static void rank(const struct sxt_table *table, uint64_t bytes, struct sxt_ranking *out)
{
	uint32_t cnt = 0;

	memset(out->model_of, 0xff, sizeof(out->model_of));
	for (uint32_t i = 0; i < table->models_cnt; i++) {
		const struct sxt_modelled *model = &table->models[i];
		size_t at;

		if (!is_in(&model->bytes, bytes) || out->model_of[model->candidate] != SXT_NO_MODEL)
			continue;
		out->model_of[model->candidate] = (uint16_t)i;
		for (at = cnt++; at > 0; at--) {
			uint8_t slower = out->order[at - 1];

			if (!is_faster(model, &table->models[out->model_of[slower]], bytes))
				break;
			out->order[at] = slower;
		}
		out->order[at] = (uint8_t)model->candidate;
	}
	out->order[cnt] = SXT_CANDIDATES;
}

/* Cuts where one of two models that are in force from a size to another overtakes the other. */
static int cut_crossing(struct sxt_table *table, const struct sxt_modelled *a,
			const struct sxt_modelled *b, struct sxt_range between)
{
	bool is_first = is_faster(a, b, between.min);

	if (is_first == is_faster(a, b, between.max))
		return 0;
	while (between.max - between.min > 1) {
		uint64_t middle = between.min + (between.max - between.min) / 2;

		if (is_faster(a, b, middle) == is_first)
			between.min = middle;
		else
			between.max = middle;
	}
	between.min = between.max;
	between.max = UINT64_MAX;
	return sxt_cuts_add(&table->model_sizes, &between);
}

/* Cuts where the order changes within one interval that the models' ranges make. */
static int cut_crossings(struct sxt_table *table, struct sxt_range between)
{
	struct sxt_ranking ranking;
	int rc = 0;

	rank(table, between.min, &ranking);
	for (const uint8_t *a = ranking.order; *a < SXT_CANDIDATES; a++) {
		for (const uint8_t *b = a + 1; *b < SXT_CANDIDATES && rc == 0; b++)
			rc = cut_crossing(table, &table->models[ranking.model_of[*a]],
					  &table->models[ranking.model_of[*b]], between);
	}
	return rc;
}

static int rank_all(struct sxt_table *table)
{
	uint32_t ranges_cnt = table->model_sizes.cnt;
	int rc = 0;

	for (uint32_t i = 0; i < ranges_cnt && rc == 0; i++) {
		struct sxt_range between = {table->model_sizes.from[i], UINT64_MAX - 1};

		if (i + 1 < ranges_cnt)
			between.max = table->model_sizes.from[i + 1] - 1;
		rc = cut_crossings(table, between);
	}
	if (rc == 0)
		rc = sxt_cuts_ready(&table->model_sizes);
	if (rc != 0)
		return rc;
	table->rankings = calloc(table->model_sizes.cnt, sizeof(*table->rankings));
	if (table->rankings == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->model_sizes.cnt; i++)
		rank(table, table->model_sizes.from[i], &table->rankings[i]);
	return 0;
}

static int make_models(const struct maker *maker, enum sxt_coll coll, struct sxt_table *table)
{
	const struct sxt_rules *rules = maker->rules;
	int rc = 0;

	if (rules->models_cnt == 0)
		return 0;
	table->models = make_aligned(_Alignof(struct sxt_modelled),
				     rules->models_cnt * sizeof(*table->models));
	if (table->models == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < rules->models_cnt && rc == 0; i++) {
		const struct sxt_model *model = &rules->models[i];

		if (model->when.coll != coll || !sxt_is_possible(coll, model->algo, model->proto) ||
		    !is_wanted(maker, &model->when, model->algo, model->proto))
			continue;
		table->models[table->models_cnt++] = (struct sxt_modelled){
			.line = sxt_model_line(model, maker->shape),
			.bytes = model->when.bytes,
			.keep = 1 - (double)model->margin,
			.algo = model->algo,
			.proto = model->proto,
			.candidate = (uint32_t)model->algo * SXT_PROTOS + model->proto,
			.line_number = model->line,
		};
		rc = sxt_cuts_add(&table->model_sizes, &model->when.bytes);
	}
	if (rc == 0 && table->models_cnt > 0)
		rc = sxt_cuts_ready(&table->model_sizes);
	if (rc == 0 && table->models_cnt > 0)
		rc = rank_all(table);
	return rc;
}

/* Where each of the table's sizes lies among those of a part of it; its room, too, since that is
 * where the largest size is found. */
static uint32_t *rows_of(const struct sxt_cuts *all, const struct sxt_cuts *part, uint32_t factor)
{
	uint32_t *rows = calloc(all->room, sizeof(*rows));

	for (uint32_t i = 0; rows != NULL && i < all->room; i++) {
		uint64_t from = i < all->cnt ? all->from[i] : all->from[all->cnt - 1];

		rows[i] = (uint32_t)sxt_cuts_find(part, from) * factor;
	}
	return rows;
}

static int add_cuts(struct sxt_cuts *all, const struct sxt_cuts *part)
{
	int rc = 0;

	for (uint32_t i = 0; i < part->cnt && rc == 0; i++) {
		const struct sxt_range range = {part->from[i], UINT64_MAX};

		rc = sxt_cuts_add(all, &range);
	}
	return rc;
}

/* The sizes of all blocks and models in one. */
static int join_sizes(struct sxt_table *table)
{
	int rc = add_cuts(&table->sizes, &table->model_sizes);

	for (uint32_t i = 0; i < table->blocks_cnt && rc == 0; i++)
		rc = add_cuts(&table->sizes, &table->blocks[i].sizes);
	if (rc == 0)
		rc = sxt_cuts_ready(&table->sizes);
	if (rc != 0)
		return rc;
	table->ranking_row = rows_of(&table->sizes, &table->model_sizes, 1);
	if (table->ranking_row == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->blocks_cnt; i++) {
		struct sxt_block *block = &table->blocks[i];

		block->size_row = rows_of(&table->sizes, &block->sizes, SXT_WORDS);
		if (block->size_row == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int table_make(const struct maker *maker, enum sxt_coll coll, struct sxt_table *table)
{
	int rc = make_blocks(maker, coll, table);

	if (rc == 0)
		rc = make_models(maker, coll, table);
	return rc == 0 ? join_sizes(table) : rc;
}

static void table_free(struct sxt_table *table)
{
	for (uint32_t i = 0; i < table->blocks_cnt; i++)
		block_free(&table->blocks[i]);
	free(table->blocks);
	free(table->models);
	free(table->rankings);
	free(table->ranking_row);
	sxt_cuts_fini(&table->model_sizes);
	sxt_cuts_fini(&table->sizes);
}

int sxt_chooser_make(const struct sxt_rules *rules, struct sxt_shape shape,
		     const bool allowed[SXT_COLLS][SXT_ALGOS][SXT_PROTOS], struct sxt_chooser **out)
{
	const struct maker maker = {.rules = rules, .shape = shape, .allowed = allowed};
	struct sxt_chooser *chooser = make_aligned(_Alignof(struct sxt_chooser), sizeof(*chooser));
	int rc = chooser == NULL ? -ENOMEM : 0;

	for (int coll = 0; coll < SXT_COLLS && rc == 0; coll++)
		rc = table_make(&maker, (enum sxt_coll)coll, &chooser->tables[coll]);
	if (rc != 0)
		goto fail;
	*out = chooser;
	return 0;
fail:
	sxt_chooser_free(chooser);
	return rc;
}

void sxt_chooser_free(struct sxt_chooser *chooser)
{
	if (chooser == NULL)
		return;
	for (size_t coll = 0; coll < SXT_COLLS; coll++)
		table_free(&chooser->tables[coll]);
	free(chooser);
}
