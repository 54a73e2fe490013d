/*
 * choose.h - the tuner's answer to one call: a pure function of the call, the communicator's shape
 * and the rules. Compiled once per communicator, so that a call costs a search and no more.
 */
#ifndef SXT_TUNER_CHOOSE_H
#define SXT_TUNER_CHOOSE_H

#include "tuner/model.h"

/**
 * sxt_when_covers() - can it apply to calls of a communicator at all?
 * @when: its nodes, ranks and per_node count. @shape: of the communicator. Return: true if so.
 */
bool sxt_when_covers(const struct sxt_when *when, struct sxt_shape shape);

struct sxt_chooser; /* the rules as they apply to one communicator; never changes */

/**
 * sxt_chooser_make() - compile rules for a communicator.
 * @rules: not used after the call. @shape: of the communicator.
 * @allowed: by [coll][algo][proto], what NCCL_ALGO and NCCL_PROTO leave; rules and models of the
 * rest are not there. NULL: all.
 * @out: set on success; give back with sxt_chooser_free().
 * Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_chooser_make(const struct sxt_rules *rules, struct sxt_shape shape,
				    const bool allowed[SXT_COLLS][SXT_ALGOS][SXT_PROTOS],
				    struct sxt_chooser **out);

/** sxt_chooser_free() - free it. @chooser: NULL is fine. */
void sxt_chooser_free(struct sxt_chooser *chooser);

enum sxt_choice_source {
	SXT_CHOICE_NONE = 0, /* nothing applies: NCCL's choice stays, nothing is written */
	SXT_CHOICE_RULE = 1,
	SXT_CHOICE_MODEL = 2,
	SXT_CHOICE_UNAVAILABLE = 3, /* a rule applies, but NCCL cannot use what it names */
	SXT_CHOICE_CLOSE = 4        /* the model's best gains less than its margin */
};

struct sxt_call {
	uint32_t coll; /* NCCL's number; one this does not know gets SXT_CHOICE_NONE */
	uint64_t bytes;
	uint32_t pipe_ops;
	int8_t reg; /* 0, 1; -1 not told (before v4): rules that ask for it do not apply */
	/* NCCL's own costs in us as [algos][protos], negative: cannot be used. NULL (v2): there are
	 * none, rules are taken unchecked and the model does not answer. */
	const float *costs;
	uint32_t algos; /* 6 before PAT */
	uint32_t protos;
};

struct sxt_choice {
	enum sxt_choice_source source;
	/* The rest is written for RULE and MODEL, algo and proto for UNAVAILABLE and CLOSE too. */
	uint32_t algo;
	uint32_t proto;
	uint32_t channels; /* 0 leaves NCCL's */
	uint32_t line;     /* of the file */
};

/**
 * sxt_choice_is_made() - does it replace NCCL's own?
 * @choice: of sxt_choose(). Return: true if a rule or a model names another.
 */
static inline bool sxt_choice_is_made(const struct sxt_choice *choice)
{
	return choice->source == SXT_CHOICE_RULE || choice->source == SXT_CHOICE_MODEL;
}

/**
 * sxt_choose() - the answer to a call.
 * @chooser: of the communicator. @call: as NCCL asked. Thread: any. Path: hot: no lock, no
 * allocation, no system call; at most 300 instructions with 1,000 rules.
 * Return: the choice.
 */
struct sxt_choice sxt_choose(const struct sxt_chooser *chooser, const struct sxt_call *call);

/**
 * sxt_choose_chunk() - the chunk size a rule wants for what was chosen.
 * @chooser: of the communicator. @call: costs, algos and protos are not read. @algo, @proto: what
 * NCCL uses: a rule that names others does not count.
 * Return: bytes, 0 when no rule says any.
 */
uint64_t sxt_choose_chunk(const struct sxt_chooser *chooser, const struct sxt_call *call,
			  uint32_t algo, uint32_t proto);

#endif
