/*
 * model.c - the alpha-beta model. Multiplications, additions and divisions only, each rounded once
 * (see CMakeLists.txt): the result is the same on every machine.
 */
#include "tuner/model.h"

/* Levels of a binary tree of so many nodes. */
static uint32_t depth_of(uint32_t nodes)
{
	return nodes > 1 ? 32u - (uint32_t)__builtin_clz(nodes - 1) : 0;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

struct sxt_hops sxt_hops_of(enum sxt_coll coll, enum sxt_algo algo, struct sxt_shape shape)
{
	uint32_t turns = coll == SXT_COLL_ALL_REDUCE ? 2 : 1;
	uint32_t steps = shape.ranks > 0 ? shape.ranks - 1 : 0;
	uint32_t within = shape.nodes > 0 ? (shape.ranks + shape.nodes - 1) / shape.nodes - 1 : 0;
	uint32_t between = shape.nodes > 1;
	uint32_t intra = 0;
	uint32_t inter = 0;

	switch (algo) {
	case SXT_ALGO_RING:
		inter = turns * between * smaller(shape.nodes, steps);
		intra = turns * steps - inter;
		break;
	case SXT_ALGO_TREE:
		intra = turns * within;
		inter = turns * depth_of(shape.nodes);
		break;
	case SXT_ALGO_COLLNET_DIRECT: /* ranks of a node reach each other at once */
		intra = turns * smaller(within, 1);
		inter = between;
		break;
	case SXT_ALGO_COLLNET_CHAIN:
		intra = turns * within;
		inter = between;
		break;
	case SXT_ALGO_NVLS: /* the switch reduces and copies */
		intra = turns;
		inter = between;
		break;
	case SXT_ALGO_NVLS_TREE:
		intra = turns;
		inter = turns * depth_of(shape.nodes);
		break;
	default: /* PAT */
		intra = within;
		inter = turns * depth_of(shape.nodes);
		break;
	}
	return (struct sxt_hops){
		.intra = (float)intra,
		.inter = (float)inter,
		.traffic = (float)sxt_bus_factor(coll, shape.ranks),
	};
}

struct sxt_model_line sxt_model_line(const struct sxt_model *model, struct sxt_shape shape)
{
	struct sxt_hops hops = sxt_hops_of(model->when.coll, model->algo, shape);
	double intra_us = (double)hops.intra * (double)model->intra_us;
	double inter_us = (double)hops.inter * (double)model->inter_us;

	return (struct sxt_model_line){
		.fixed_us = (double)model->base_us + intra_us + inter_us,
		.byte_us = (double)hops.traffic / ((double)model->gbs * 1000),
	};
}

double sxt_model_us(const struct sxt_model *model, struct sxt_shape shape, uint64_t bytes)
{
	struct sxt_model_line line = sxt_model_line(model, shape);

	return line.fixed_us + line.byte_us * (double)bytes;
}

double sxt_bus_factor(enum sxt_coll coll, uint32_t ranks)
{
	if (ranks < 2)
		return 1;
	if (coll == SXT_COLL_ALL_REDUCE)
		return 2 * ((double)ranks - 1) / (double)ranks;
	if (coll == SXT_COLL_ALL_GATHER || coll == SXT_COLL_REDUCE_SCATTER)
		return ((double)ranks - 1) / (double)ranks;
	return 1;
}
