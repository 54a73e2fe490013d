/*
 * model.h - what a collective should take: an alpha-beta model with NCCL's own structure of hops
 * (graph/tuning.cc) and parameters from the rules file, so that every rank computes the same.
 */
#ifndef SXT_TUNER_MODEL_H
#define SXT_TUNER_MODEL_H

#include "tuner/rules.h"

#define SXT_MODEL_VERSION 1u /* raised when the same parameters come to another time */

/* A communicator's shape. */
struct sxt_shape {
	uint32_t nodes;
	uint32_t ranks;
};

/* The structure of one algorithm on one shape. */
struct sxt_hops {
	float intra;   /* hops within nodes, one after the other */
	float inter;   /* hops between nodes */
	float traffic; /* bytes through one rank's link by byte of the message, in bus bandwidth's
			  sense: sxt_bus_factor() for every algorithm */
};

/**
 * sxt_hops_of() - hops and traffic of an algorithm. Ring: ranks - 1 steps, twice for all-reduce, of
 * which one per node and turn goes between nodes. Tree: up, and down again for all-reduce, log2 of
 * the nodes between them, rounded up, and the ranks of a node within. Others by the same account.
 * @coll, @algo: which. @shape: at least one node, no more nodes than ranks.
 * Return: the structure.
 */
struct sxt_hops sxt_hops_of(enum sxt_coll coll, enum sxt_algo algo, struct sxt_shape shape);

/* A model on one shape: us = fixed_us + byte_us * bytes. */
struct sxt_model_line {
	double fixed_us;
	double byte_us;
};

/**
 * sxt_model_line() - a model's time as a function of the size alone.
 * @model: parameters. @shape: of the communicator. Return: the line; no time falls with the size.
 */
struct sxt_model_line sxt_model_line(const struct sxt_model *model, struct sxt_shape shape);

/**
 * sxt_model_us() - the time by a model.
 * @model: parameters. @shape: of the communicator. @bytes: of the message.
 * Return: us; arithmetic in double in a fixed order, so equal on every machine.
 */
double sxt_model_us(const struct sxt_model *model, struct sxt_shape shape, uint64_t bytes);

/**
 * sxt_bus_factor() - bus bandwidth by algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md):
 * all-reduce 2(n-1)/n, all-gather and reduce-scatter (n-1)/n, others 1.
 * @coll: which. @ranks: n. Return: the factor.
 */
double sxt_bus_factor(enum sxt_coll coll, uint32_t ranks);

#endif
