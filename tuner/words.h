/*
 * words.h - collectives, algorithms and protocols: NCCL's numbers, and their names as rules files,
 * logs and people write them.
 */
#ifndef SXT_TUNER_WORDS_H
#define SXT_TUNER_WORDS_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* The numbers are those of NCCL's tuner interface; plugin/ asserts it. */
enum sxt_coll {
	SXT_COLL_BROADCAST = 0,
	SXT_COLL_REDUCE = 1,
	SXT_COLL_ALL_GATHER = 2,
	SXT_COLL_REDUCE_SCATTER = 3,
	SXT_COLL_ALL_REDUCE = 4,
	SXT_COLLS
};

enum sxt_algo {
	SXT_ALGO_TREE = 0,
	SXT_ALGO_RING = 1,
	SXT_ALGO_COLLNET_DIRECT = 2,
	SXT_ALGO_COLLNET_CHAIN = 3,
	SXT_ALGO_NVLS = 4,
	SXT_ALGO_NVLS_TREE = 5,
	SXT_ALGO_PAT = 6,
	SXT_ALGOS
};

enum sxt_proto {
	SXT_PROTO_LL = 0,
	SXT_PROTO_LL128 = 1,
	SXT_PROTO_SIMPLE = 2,
	SXT_PROTOS
};

/* By number: "broadcast", "reduce", "allgather", "reducescatter", "allreduce". */
extern const char *const sxt_coll_names[SXT_COLLS];
/* "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat". */
extern const char *const sxt_algo_names[SXT_ALGOS];
/* "ll", "ll128", "simple". */
extern const char *const sxt_proto_names[SXT_PROTOS];

/**
 * sxt_coll_of() - the number of a collective's name, in any case; '-' counts as '_', and either may
 * be left out ("AllReduce", "all_reduce").
 * @word: the name. Return: the number, -EINVAL for none of them.
 */
int sxt_coll_of(const char *word);

/**
 * sxt_algo_of() - likewise, of an algorithm ("NVLSTree").
 * @word: the name. Return: the number, -EINVAL.
 */
int sxt_algo_of(const char *word);

/**
 * sxt_proto_of() - likewise, of a protocol.
 * @word: the name. Return: the number, -EINVAL.
 */
int sxt_proto_of(const char *word);

/**
 * sxt_is_possible() - has any NCCL up to 2.30 this algorithm and protocol for a collective?
 * @coll, @algo, @proto: which. Return: false where its cost is always "cannot be used".
 */
bool sxt_is_possible(enum sxt_coll coll, enum sxt_algo algo, enum sxt_proto proto);

#endif
