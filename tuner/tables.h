/*
 * tables.h - rules and models as one communicator uses them.
 *
 * Rules of a collective are cut into blocks of up to 1,024. A block has a bitmap of its rules for
 * each interval of sizes and for each of pipeline operations: the first bit that both have is the
 * first rule that applies. Models are straight lines over the size, so between two sizes where
 * lines cross their order never changes: each such interval has its order ready. The sizes where
 * anything changes, in any block or model, are cut once more, all together: a call searches once.
 */
#ifndef SXT_TUNER_TABLES_H
#define SXT_TUNER_TABLES_H

#include "tuner/choose.h"
#include "tuner/cuts.h"

#define SXT_BLOCK      1024u                  /* rules */
#define SXT_WORD       64u                    /* rules in a word of a bitmap */
#define SXT_WORDS      (SXT_BLOCK / SXT_WORD) /* of a bitmap */
#define SXT_PAIR       2u                     /* words that are looked at at once */
#define SXT_REGS       4u /* low bits of a call's reg: without, with; 2 and 3 not told */
#define SXT_CANDIDATES (SXT_ALGOS * SXT_PROTOS) /* number: algo * SXT_PROTOS + proto */
#define SXT_NO_MODEL   UINT16_MAX

/* Compilers have such a pair in one register; elsewhere it is two words. */
typedef uint64_t sxt_pair __attribute__((vector_size(SXT_PAIR * sizeof(uint64_t))));

/* What a rule asks for. */
struct sxt_wish {
	uint32_t algo;
	uint32_t proto;
	uint32_t channels;
	uint32_t line;
	uint64_t chunk;
};

struct sxt_block {
	uint32_t reg_words; /* of the bitmaps of pipeline operations for one kind of buffer */
	uint64_t *by_size;  /* [row][SXT_WORDS] */
	uint64_t *by_pipe;  /* [reg][row][SXT_WORDS] */
	uint32_t *size_row; /* by place in the table's sizes, in words */
	uint32_t pipe_row[SXT_PIPE_OPS_MAX + 1]; /* by number of operations, likewise */
	struct sxt_wish *wishes;
	struct sxt_cuts sizes; /* of this block alone, of which each has a row */
	struct sxt_cuts pipes;
};

/* Between two sizes where anything changes. */
struct sxt_ranking {
	uint16_t model_of[SXT_CANDIDATES];
	uint8_t order[SXT_CANDIDATES + 1]; /* those that have a model, fastest first, then
					    * SXT_CANDIDATES */
};
SXT_ASSERT_SIZE(struct sxt_ranking, 64);

struct sxt_modelled {
	_Alignas(SXT_CACHELINE) struct sxt_model_line line;
	struct sxt_range bytes;
	double keep; /* 1 - margin */
	uint32_t algo;
	uint32_t proto;
	uint32_t candidate;
	uint32_t line_number;
};

/* One collective's. */
struct sxt_table {
	_Alignas(2 * SXT_CACHELINE) struct sxt_cuts sizes; /* a size that is quick to index by */
	struct sxt_block *blocks;
	uint32_t blocks_cnt;
	uint32_t models_cnt;
	struct sxt_modelled *models;
	struct sxt_ranking *rankings;
	uint32_t *ranking_row; /* by place in sizes */
	struct sxt_cuts model_sizes;
};

struct sxt_chooser {
	struct sxt_table tables[SXT_COLLS];
};

/**
 * sxt_modelled_us() - the time by a model.
 * @model: with its line. @bytes: of the message. Return: us.
 */
static inline double sxt_modelled_us(const struct sxt_modelled *model, uint64_t bytes)
{
	return model->line.fixed_us + model->line.byte_us * (double)bytes;
}

#endif
