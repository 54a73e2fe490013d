/*
 * tuner.h - the tuner behind all five function tables, which only translate.
 */
#ifndef SXT_PLUGIN_TUNER_H
#define SXT_PLUGIN_TUNER_H

#include "plugin/nccl/tuner.h"

struct sxt_wire_tuner;

/* What NCCL says of a communicator. */
struct sxt_tuner_comm {
	uint64_t number; /* the same as the network plugin's init is given; 0 before v5 */
	size_t ranks;
	size_t nodes;
};

/**
 * sxt_tuner_init() - one communicator.
 * @comm: what it is. @logger: NCCL's. @context: set on success, to NULL for numbers that cannot be.
 * Return: ncclSuccess, also where the rules are of no use (then everything is left to NCCL);
 * ncclInvalidUsage where the rules are not those of SEXTANT_TUNER_DIGEST; ncclSystemError without
 * memory, since a rank without rules would choose otherwise than the others (all logged).
 */
ncclResult_t sxt_tuner_init(const struct sxt_tuner_comm *comm, ncclDebugLogger_t logger,
			    void **context);

/**
 * sxt_tuner_finalize() - end a communicator. Cannot fail.
 * @context: from sxt_tuner_init(); NULL is fine.
 */
ncclResult_t sxt_tuner_finalize(void *context);

/**
 * sxt_tuner_choose() - getCollInfo of v4 and later.
 * The cost of what is chosen becomes 0, less than any estimate of NCCL's. No other entry is
 * written, none that is negative, and *channels only where a rule says how many.
 * @costs: float[algos][protos]. @reg: buffers registered, -1 not told (v3).
 * Thread: the communicator's. Path: hot. Return: ncclSuccess.
 */
ncclResult_t sxt_tuner_choose(void *context, int coll, size_t bytes, int pipe_ops, float **costs,
			      int algos, int protos, int reg, int *channels);

/**
 * sxt_tuner_choose_v3() - the same without @reg.
 */
ncclResult_t sxt_tuner_choose_v3(void *context, int coll, size_t bytes, int pipe_ops, float **costs,
				 int algos, int protos, int *channels);

/**
 * sxt_tuner_choose_v2() - there are no costs: what every machine has is chosen from, and what
 * @collnet and @nvls say is there. Both of *algo and *proto are written, or neither.
 */
ncclResult_t sxt_tuner_choose_v2(void *context, int coll, size_t bytes, int collnet, int nvls,
				 int pipe_ops, int *algo, int *proto, int *channels);

/**
 * sxt_tuner_chunk() - getChunkSize of v6.
 * @algo, @proto: what NCCL uses. @chunk: NCCL's, written where a rule says another.
 * Thread and return: as sxt_tuner_choose().
 */
ncclResult_t sxt_tuner_chunk(void *context, int coll, size_t bytes, int algo, int proto,
			     int channels, size_t *chunk);

/**
 * sxt_tuner_of() - what the tuner of a communicator answers by, for its peers.
 * @number: of the communicator; 0 not known. @out: written.
 * Thread: any, takes a lock.
 */
void sxt_tuner_of(uint64_t number, struct sxt_wire_tuner *out);

#endif
