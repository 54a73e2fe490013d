/*
 * device.c - the fake net plugin's process state: logger, contexts and what is open in them,
 * devices real and merged.
 */
#include "tests/fake/net/fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64
#define NAME_BYTES  32

struct merged {
	char name[NAME_BYTES];
	struct nccl_net_vdev_props_v12 members;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(ncclDebugLogger_t) process_logger;
static _Atomic int process_abi;
/* Everything of the versions without contexts. */
static struct sxt_fake_ctx legacy = {.objects = {&legacy.objects, &legacy.objects}};
static struct merged merged[DEVICES_MAX];
static int merged_cnt;

ncclDebugLogger_t sxt_fake_logger(void)
{
	return process_logger;
}

int sxt_fake_abi(void)
{
	return process_abi;
}

ncclResult_t sxt_fake_init(int abi, ncclDebugLogger_t logger)
{
	process_logger = logger;
	process_abi = abi;
	logger(NCCL_LOG_INFO, NCCL_SUBSYS_INIT, __FILE__, __LINE__, "fake v%d initialised", abi);
	if (!sxt_fake_fault("init", 0))
		return ncclSuccess;
	SXT_FAKE_WARN("fake: init fails as asked");
	return ncclSystemError;
}

ncclResult_t sxt_fake_init_ctx(int abi, const struct nccl_net_comm_config *config,
			       ncclDebugLogger_t logger, void **out)
{
	ncclResult_t result = sxt_fake_init(abi, logger);
	struct sxt_fake_ctx *ctx;

	if (result != ncclSuccess)
		return result;
	ctx = calloc(1, sizeof(*ctx));
	if (ctx == NULL)
		return ncclSystemError;
	ctx->traffic_class = config != NULL ? config->trafficClass : NCCL_NET_UNDEFINED;
	sxt_list_init(&ctx->objects);
	*out = ctx;
	return ncclSuccess;
}

static void free_objects(struct sxt_fake_ctx *ctx)
{
	while (!sxt_list_empty(&ctx->objects))
		sxt_fake_object_free(
			SXT_LIST_ENTRY(ctx->objects.next, struct sxt_fake_object, node));
}

ncclResult_t sxt_fake_finalize(void *opaque)
{
	struct sxt_fake_ctx *ctx = opaque;

	free_objects(ctx);
	free(ctx);
	return ncclSuccess;
}

/* Versions before v11 are unloaded without a word. */
__attribute__((destructor)) static void unload(void)
{
	free_objects(&legacy);
}

void sxt_fake_object_add(struct sxt_fake_object *object, struct sxt_fake_ctx *ctx)
{
	object->ctx = ctx;
	pthread_mutex_lock(&lock);
	sxt_list_append(ctx != NULL ? &ctx->objects : &legacy.objects, &object->node);
	pthread_mutex_unlock(&lock);
}

void sxt_fake_object_free(struct sxt_fake_object *object)
{
	pthread_mutex_lock(&lock);
	sxt_list_remove(&object->node);
	pthread_mutex_unlock(&lock);
	object->destroy(object);
}

ncclResult_t sxt_fake_devices(int *ndev)
{
	pthread_mutex_lock(&lock);
	*ndev = sxt_fake_fault("nodevice", 0) ? 0 : SXT_FAKE_DEVICES + merged_cnt;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

ncclResult_t sxt_fake_device(int dev, struct sxt_fake_device *out)
{
	static char *const names[SXT_FAKE_DEVICES] = {"fake0", "fake1"};
	ncclResult_t result = ncclSuccess;

	pthread_mutex_lock(&lock);
	if (dev < 0 || dev >= SXT_FAKE_DEVICES + merged_cnt) {
		SXT_FAKE_WARN("fake: there is no device %d", dev);
		result = ncclInvalidArgument;
	} else if (dev < SXT_FAKE_DEVICES) {
		*out = (struct sxt_fake_device){.name = names[dev], .members = {1, {dev}}};
	} else {
		struct merged *m = &merged[dev - SXT_FAKE_DEVICES];

		*out = (struct sxt_fake_device){.name = m->name, .members = m->members};
	}
	pthread_mutex_unlock(&lock);
	if (result == ncclSuccess)
		out->guid = 0xfa4e + (uint64_t)dev;
	return result;
}

/* Each physical device at most once, and no merged one. */
static bool can_merge(int ndevs, const int *devs, int max)
{
	unsigned int seen = 0;

	if (ndevs < 1 || ndevs > max)
		return false;
	for (int i = 0; i < ndevs; i++) {
		if (devs[i] < 0 || devs[i] >= SXT_FAKE_DEVICES || (seen & 1u << devs[i]) != 0)
			return false;
		seen |= 1u << devs[i];
	}
	return true;
}

ncclResult_t sxt_fake_make_device(int *out, int ndevs, const int *devs, int max)
{
	ncclResult_t result = ncclInvalidUsage;
	struct merged *m;

	if (!can_merge(ndevs, devs, max) || sxt_fake_fault("merge", 0)) {
		SXT_FAKE_WARN("fake: cannot merge these %d devices", ndevs);
		return ncclInvalidUsage;
	}
	pthread_mutex_lock(&lock);
	if (merged_cnt < DEVICES_MAX) {
		m = &merged[merged_cnt];
		m->members.ndevs = ndevs;
		memcpy(m->members.devs, devs, sizeof(devs[0]) * (size_t)ndevs);
		snprintf(m->name, sizeof(m->name), "fake-merged%d", merged_cnt);
		*out = SXT_FAKE_DEVICES + merged_cnt;
		/* One that is told and not counted, as asked. */
		merged_cnt += !sxt_fake_fault("uncounted", 0);
		result = ncclSuccess;
	}
	pthread_mutex_unlock(&lock);
	return result;
}
