/*
 * tuner_tables.c - versions 2 to 6 of NCCL's tuner interface.
 */
#include "plugin/net.h"
#include "plugin/tuner.h"

static ncclResult_t init_v2(size_t ranks, size_t nodes, ncclDebugLogger_t logger, void **context)
{
	const struct sxt_tuner_comm comm = {.ranks = ranks, .nodes = nodes};

	return sxt_tuner_init(&comm, logger, context);
}

/* NCCL's constants stay as they are: what they lead to would differ from what nccl-tests saw. */
static ncclResult_t init_v5(void **context, uint64_t number, size_t ranks, size_t nodes,
			    ncclDebugLogger_t logger, struct nccl_nvl_domain_info *nvl_domains,
			    struct nccl_tuner_constants *constants)
{
	const struct sxt_tuner_comm comm = {.number = number, .ranks = ranks, .nodes = nodes};

	(void)nvl_domains;
	(void)constants;
	return sxt_tuner_init(&comm, logger, context);
}

const struct nccl_tuner_v2 ncclTunerPlugin_v2 = {
	.name = SXT_NET_NAME,
	.init = init_v2,
	.getCollInfo = sxt_tuner_choose_v2,
	.destroy = sxt_tuner_finalize,
};

const struct nccl_tuner_v3 ncclTunerPlugin_v3 = {
	.name = SXT_NET_NAME,
	.init = init_v2,
	.getCollInfo = sxt_tuner_choose_v3,
	.destroy = sxt_tuner_finalize,
};

const struct nccl_tuner_v4 ncclTunerPlugin_v4 = {
	.name = SXT_NET_NAME,
	.init = init_v2,
	.getCollInfo = sxt_tuner_choose,
	.destroy = sxt_tuner_finalize,
};

const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {
	.name = SXT_NET_NAME,
	.init = init_v5,
	.getCollInfo = sxt_tuner_choose,
	.finalize = sxt_tuner_finalize,
};

const struct nccl_tuner_v6 ncclTunerPlugin_v6 = {
	.name = SXT_NET_NAME,
	.init = init_v5,
	.getCollInfo = sxt_tuner_choose,
	.finalize = sxt_tuner_finalize,
	.getChunkSize = sxt_tuner_chunk,
};
