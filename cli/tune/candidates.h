/*
 * candidates.h - what a collective would take by each algorithm and protocol, by a file's models.
 */
#ifndef SXT_CLI_TUNE_CANDIDATES_H
#define SXT_CLI_TUNE_CANDIDATES_H

#include "tuner/choose.h"

/* A choice. */
struct sxt_pick {
	enum sxt_algo algo;
	enum sxt_proto proto;
};

/** sxt_pick_is_of() - is it what a choice names? @choice, @pick: they. Return: true if so. */
static inline bool sxt_pick_is_of(const struct sxt_choice *choice, const struct sxt_pick *pick)
{
	return choice->algo == (uint32_t)pick->algo && choice->proto == (uint32_t)pick->proto;
}

/**
 * sxt_tune_model() - the model of one choice: the first that applies.
 * @rules: the file. @pick: which. @coll, @shape, @bytes: of the call.
 * Return: the model, owned by @rules, or NULL.
 */
const struct sxt_model *sxt_tune_model(const struct sxt_rules *rules, struct sxt_pick pick,
				       enum sxt_coll coll, struct sxt_shape shape, uint64_t bytes);

#endif
