/*
 * tuner.h - NCCL's tuner interface, versions 2 to 6.
 *
 * Called on the thread that launches a collective. The answer must be the same on every rank of
 * the communicator, and an error of getCollInfo fails the collective: a tuner returns none.
 */
#ifndef SXT_PLUGIN_NCCL_TUNER_H
#define SXT_PLUGIN_NCCL_TUNER_H

#include "plugin/nccl/common.h"

#define NCCL_NUM_ALGORITHMS 7
#define NCCL_NUM_PROTOCOLS  3
#define NCCL_NUM_HW_LINKS   3 /* NVLINK, PCI, NET */
#define NCCL_NUM_COMPCAPS   4
#define NCCL_NUM_SCALES     3 /* 1 node, 2 nodes, more */

enum nccl_coll {
	NCCL_COLL_BROADCAST = 0,
	NCCL_COLL_REDUCE = 1,
	NCCL_COLL_ALL_GATHER = 2,
	NCCL_COLL_REDUCE_SCATTER = 3,
	NCCL_COLL_ALL_REDUCE = 4, /* higher numbers exist and are left alone */
};

enum nccl_algo {
	NCCL_ALGO_TREE = 0,
	NCCL_ALGO_RING = 1,
	NCCL_ALGO_COLLNET_DIRECT = 2,
	NCCL_ALGO_COLLNET_CHAIN = 3,
	NCCL_ALGO_NVLS = 4,
	NCCL_ALGO_NVLS_TREE = 5,
	NCCL_ALGO_PAT = 6, /* not in older releases, which pass numAlgo 6 */
};

enum nccl_proto {
	NCCL_PROTO_LL = 0,
	NCCL_PROTO_LL128 = 1,
	NCCL_PROTO_SIMPLE = 2,
};

/* In the cost table: NCCL cannot use this combination. Never written over. */
#define NCCL_ALGO_PROTO_IGNORE (-1.0f)

struct nccl_nvl_domain_info {
	int nNvlDomains;
	int minRanksPerNvlDomain;
	int maxRanksPerNvlDomain;
};
SXT_ASSERT_SIZE(struct nccl_nvl_domain_info, 12);

/* Latencies in us, bandwidths in GB/s; init may change them before NCCL computes its model. */
struct nccl_tuner_constants {
	double baseLatencies[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
	double hwLatencies[NCCL_NUM_HW_LINKS][NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
	double llMaxBws[NCCL_NUM_COMPCAPS][NCCL_NUM_SCALES];
	double perChMaxRingLL128Bws[NCCL_NUM_COMPCAPS][NCCL_NUM_SCALES];
	double perChMaxTreeLL128Bws[NCCL_NUM_COMPCAPS][NCCL_NUM_SCALES];
	double perChMaxTreeBws[NCCL_NUM_COMPCAPS][NCCL_NUM_SCALES];
	double perChMaxNVLSTreeBws[NCCL_NUM_COMPCAPS][NCCL_NUM_SCALES];
};
SXT_ASSERT_OFFSET(struct nccl_tuner_constants, hwLatencies, 168);
SXT_ASSERT_OFFSET(struct nccl_tuner_constants, llMaxBws, 672);
SXT_ASSERT_OFFSET(struct nccl_tuner_constants, perChMaxRingLL128Bws, 768);
SXT_ASSERT_OFFSET(struct nccl_tuner_constants, perChMaxTreeLL128Bws, 864);
SXT_ASSERT_OFFSET(struct nccl_tuner_constants, perChMaxTreeBws, 960);
SXT_ASSERT_OFFSET(struct nccl_tuner_constants, perChMaxNVLSTreeBws, 1056);
SXT_ASSERT_SIZE(struct nccl_tuner_constants, 1152);

/* v2 has no cost table: *algorithm and *protocol come in as -1; both are set, or neither. */
struct nccl_tuner_v2 {
	const char *name;
	ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger,
			     void **context);
	ncclResult_t (*getCollInfo)(void *context, int collType, size_t nBytes, int collNetSupport,
				    int nvlsSupport, int numPipeOps, int *algorithm, int *protocol,
				    int *nChannels);
	ncclResult_t (*destroy)(void *context);
};
SXT_ASSERT_OFFSET(struct nccl_tuner_v2, getCollInfo, 16);
SXT_ASSERT_SIZE(struct nccl_tuner_v2, 32);

/*
 * From v3 on, collCostTable is really float[numAlgo][numProto] in us, whatever its type says;
 * *nChannels comes in as 0, which means NCCL's own choice.
 */
struct nccl_tuner_v3 {
	const char *name;
	ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger,
			     void **context);
	ncclResult_t (*getCollInfo)(void *context, int collType, size_t nBytes, int numPipeOps,
				    float **collCostTable, int numAlgo, int numProto,
				    int *nChannels);
	ncclResult_t (*destroy)(void *context);
};
SXT_ASSERT_SIZE(struct nccl_tuner_v3, 32);

struct nccl_tuner_v4 {
	const char *name;
	ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger,
			     void **context);
	ncclResult_t (*getCollInfo)(void *context, int collType, size_t nBytes, int numPipeOps,
				    float **collCostTable, int numAlgo, int numProto, int regBuff,
				    int *nChannels);
	ncclResult_t (*destroy)(void *context);
};
SXT_ASSERT_SIZE(struct nccl_tuner_v4, 32);

struct nccl_tuner_v5 {
	const char *name;
	ncclResult_t (*init)(void **ctx, uint64_t commId, size_t nRanks, size_t nNodes,
			     ncclDebugLogger_t logger, struct nccl_nvl_domain_info *nvlDomainInfo,
			     struct nccl_tuner_constants *constants);
	ncclResult_t (*getCollInfo)(void *context, int collType, size_t nBytes, int numPipeOps,
				    float **collCostTable, int numAlgo, int numProto, int regBuff,
				    int *nChannels);
	ncclResult_t (*finalize)(void *context);
};
SXT_ASSERT_SIZE(struct nccl_tuner_v5, 32);

/* getChunkSize may be NULL; *chunkSize comes in as NCCL's value and has no lower clamp. */
struct nccl_tuner_v6 {
	const char *name;
	ncclResult_t (*init)(void **ctx, uint64_t commId, size_t nRanks, size_t nNodes,
			     ncclDebugLogger_t logger, struct nccl_nvl_domain_info *nvlDomainInfo,
			     struct nccl_tuner_constants *constants);
	ncclResult_t (*getCollInfo)(void *context, int collType, size_t nBytes, int numPipeOps,
				    float **collCostTable, int numAlgo, int numProto, int regBuff,
				    int *nChannels);
	ncclResult_t (*finalize)(void *context);
	ncclResult_t (*getChunkSize)(void *context, int collType, size_t nBytes, int algo,
				     int proto, int nChannels, size_t *chunkSize);
};
SXT_ASSERT_OFFSET(struct nccl_tuner_v6, finalize, 24);
SXT_ASSERT_OFFSET(struct nccl_tuner_v6, getChunkSize, 32);
SXT_ASSERT_SIZE(struct nccl_tuner_v6, 40);

/* The symbols NCCL looks for, newest first. */
extern SXT_EXPORT const struct nccl_tuner_v2 ncclTunerPlugin_v2;
extern SXT_EXPORT const struct nccl_tuner_v3 ncclTunerPlugin_v3;
extern SXT_EXPORT const struct nccl_tuner_v4 ncclTunerPlugin_v4;
extern SXT_EXPORT const struct nccl_tuner_v5 ncclTunerPlugin_v5;
extern SXT_EXPORT const struct nccl_tuner_v6 ncclTunerPlugin_v6;

#endif
