/*
 * sim.h - a cluster whose times are known: ring and tree with what the fitted model lacks, NCCL's
 * choice by parameters that are wrong, and the logs that nccl-tests would print on it.
 */
#ifndef SXT_TEST_TUNE_SIM_H
#define SXT_TEST_TUNE_SIM_H

#include "tuner/words.h"

#include <gsl/gsl_rng.h>
#include <stdbool.h>
#include <stdio.h>

/* What an algorithm and a protocol cost. */
struct sim_costs {
	double base_us;
	double intra_us; /* a hop */
	double net_us;
	double gbs;
};

struct sim {
	gsl_rng *rng;
	uint32_t per_node;
	struct sim_costs truth[2][SXT_PROTOS]; /* tree, ring */
	struct sim_costs belief[2][SXT_PROTOS];
	double knee_log2[2][SXT_PROTOS]; /* above this size bandwidth is another */
	double knee_factor[2][SXT_PROTOS];
	uint32_t slow_from; /* jobs of more nodes have the straggler in them */
	double slow_us;     /* it is late at each of its hops */
	double slow_factor; /* of its bandwidth */
};

/**
 * sim_init() - draw a cluster.
 * @sim: the cluster. @seed: the same seed gives the same cluster and the same noise.
 */
void sim_init(struct sim *sim, unsigned long seed);

/** sim_fini() - free it. @sim: drawn. */
void sim_fini(struct sim *sim);

/**
 * sim_us() - what a collective really takes.
 * @sim: the cluster. @coll, @algo, @proto: tree or ring. @nodes, @bytes: the job and its message.
 * Return: us, negative when NCCL does not have that.
 */
double sim_us(const struct sim *sim, enum sxt_coll coll, enum sxt_algo algo, enum sxt_proto proto,
	      uint32_t nodes, uint64_t bytes);

/**
 * sim_costs() - NCCL's own cost table.
 * @sim: the cluster. @coll, @nodes, @bytes: of the call. @out: us, -1 for what it does not have.
 * Return: the entry it takes, algo * SXT_PROTOS + proto.
 */
int sim_costs(const struct sim *sim, enum sxt_coll coll, uint32_t nodes, uint64_t bytes,
	      float out[SXT_ALGOS * SXT_PROTOS]);

/**
 * sim_log() - what nccl-tests prints, with 5 % noise.
 * @sim: the cluster; draws from its random numbers. @to: the text. @coll, @nodes: the job.
 * @forced: algo * SXT_PROTOS + proto, -1 for NCCL's default. @cycles: how often all sizes.
 */
void sim_log(struct sim *sim, FILE *to, enum sxt_coll coll, uint32_t nodes, int forced, int cycles);

#endif
