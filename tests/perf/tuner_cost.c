/*
 * tuner_cost.c - calls of the plugin's tuner for callgrind to count, one scenario after the other:
 * each prints how many calls it was and dumps what was counted under its name.
 *
 * usage: tuner_cost PLUGIN, with SEXTANT_TUNER_FILE naming rules for the scenarios
 */
#include "plugin/nccl/net.h"
#include "plugin/nccl/tuner.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#define CALLS 1000

static const struct nccl_tuner_v6 *tuner;
static void *context;

SXT_PRINTF(5, 6)
static void quiet_logger(int level, unsigned long flags, const char *file, int line,
			 const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

struct scenario {
	const char *name;
	int coll;
	size_t step; /* bytes of call i: i * step */
	int pipe_ops;
	int is_answered;
};

/* The table is NCCL's anew in each call, and costs the same in all scenarios. */
static int call(const struct scenario *scenario, size_t bytes)
{
	float costs[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
	int channels = 0;
	int answered = 0;

	for (size_t i = 0; i < SXT_ARRAY_LEN(costs); i++) {
		for (size_t k = 0; k < SXT_ARRAY_LEN(costs[0]); k++)
			costs[i][k] = 10.0f;
	}
	if (tuner->getCollInfo(context, scenario->coll, bytes, scenario->pipe_ops, (float **)costs,
			       NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, 0,
			       &channels) != ncclSuccess)
		return -1;
	for (size_t i = 0; i < SXT_ARRAY_LEN(costs); i++) {
		for (size_t k = 0; k < SXT_ARRAY_LEN(costs[0]); k++)
			answered += costs[i][k] == 0.0f;
	}
	return answered;
}

static int run(const struct scenario *scenario)
{
	CALLGRIND_ZERO_STATS;
	for (size_t i = 0; i < CALLS; i++) {
		if (call(scenario, i * scenario->step) != scenario->is_answered) {
			fprintf(stderr, "%s: call %zu is answered otherwise\n", scenario->name, i);
			return 1;
		}
	}
	CALLGRIND_DUMP_STATS_AT(scenario->name);
	printf("%s cnt=%d\n", scenario->name, CALLS);
	return 0;
}

int main(int argc, char **argv)
{
	/* The sizes walk through all bands of the rules that tuner_cost.py writes. */
	static const struct scenario scenarios[] = {
		{"bands", NCCL_COLL_ALL_REDUCE, 4096, 1, 1},
		{"last", NCCL_COLL_ALL_GATHER, 4096, 1000, 1},
		{"none", NCCL_COLL_REDUCE, 4096, 1, 0},
	};
	struct nccl_nvl_domain_info domains = {.nNvlDomains = 16};
	struct nccl_tuner_constants constants = {0};
	struct nccl_net_comm_config config = {0};
	struct nccl_net_v12 *net;
	void *net_context = NULL;
	int failed = 0;
	void *lib;

	if (argc != 2)
		return 64;
	lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 69;
	}
	net = dlsym(lib, "ncclNetPlugin_v12");
	tuner = dlsym(lib, "ncclTunerPlugin_v6");
	/* With the transport's telemetry, in which answers are counted. */
	if (net == NULL || tuner == NULL ||
	    net->init(&net_context, 1, &config, quiet_logger, NULL) != ncclSuccess ||
	    tuner->init(&context, 1, 128, 16, quiet_logger, &domains, &constants) != ncclSuccess)
		return 1;
	for (size_t i = 0; i < SXT_ARRAY_LEN(scenarios); i++)
		failed |= run(&scenarios[i]);
	tuner->finalize(context);
	net->finalize(net_context);
	return failed;
}
