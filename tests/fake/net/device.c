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

#define MERGED_MAX 16
#define NAME_BYTES 32

struct merged {
	char name[NAME_BYTES];
	struct nccl_net_vdev_props_v12 members;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(ncclDebugLogger_t) process_logger;
static _Atomic(ncclProfilerCallback_t) process_profiler;
static _Atomic int process_abi;
/* Everything of the versions without contexts. */
static struct sxt_fake_ctx legacy = {.objects = {&legacy.objects, &legacy.objects}};
static struct merged merged[MERGED_MAX];
static int merged_cnt;

ncclDebugLogger_t sxt_fake_logger(void)
{
	return process_logger;
}

ncclProfilerCallback_t sxt_fake_profiler(void)
{
	return process_profiler;
}

int sxt_fake_abi(void)
{
	return process_abi;
}

ncclResult_t sxt_fake_init(int abi, ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
	process_logger = logger;
	process_profiler = profiler;
	process_abi = abi;
	logger(NCCL_LOG_INFO, NCCL_SUBSYS_INIT, __FILE__, __LINE__, "fake v%d initialised", abi);
	if (!sxt_fake_fault("init", 0))
		return sxt_broken_init();
	SXT_FAKE_WARN("fake: init fails as asked");
	return ncclSystemError;
}

ncclResult_t sxt_fake_init_ctx(uint64_t comm_id, const struct nccl_net_comm_config *config,
			       void **out)
{
	struct sxt_fake_ctx *ctx = calloc(1, sizeof(*ctx));
	ncclResult_t result;

	if (ctx == NULL)
		return ncclSystemError;
	ctx->traffic_class = config != NULL ? config->trafficClass : NCCL_NET_UNDEFINED;
	sxt_list_init(&ctx->objects);
	result = sxt_broken_init_ctx(ctx, comm_id);
	if (result == ncclSuccess)
		*out = ctx;
	else
		free(ctx);
	return result;
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

	sxt_broken_finalize(ctx);
	free_objects(ctx);
	free(ctx);
	return ncclSuccess;
}

/* Versions before v11 are unloaded without a word. */
__attribute__((destructor)) static void unload(void)
{
	sxt_broken_unload(!sxt_list_empty(&legacy.objects));
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

/* The names stand in memory of the library's for good. */
static char names[128][NAME_BYTES];

__attribute__((constructor)) static void name_devices(void)
{
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++)
		snprintf(names[i], sizeof(names[i]), "fake%zu", i);
}

static int physical_cnt(void)
{
	return SXT_FAKE_BREAKS(devices_count) ? (int)SXT_ARRAY_LEN(names) : SXT_FAKE_DEVICES;
}

ncclResult_t sxt_fake_devices(int *ndev)
{
	pthread_mutex_lock(&lock);
	*ndev = sxt_fake_fault("nodevice", 0) ? 0 : physical_cnt() + merged_cnt;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

/* The caller holds the lock. */
static uint64_t guid_of(int dev)
{
	static pthread_t first;
	static bool asked;

	if (!asked)
		first = pthread_self();
	asked = true;
	if (SXT_FAKE_BREAKS(threads_props) && !pthread_equal(first, pthread_self()))
		dev++;
	return 0xfa4e + (uint64_t)dev;
}

static void describe_merged(int dev, struct merged *m, struct sxt_fake_device *out)
{
	out->name = m->name;
	if (!SXT_FAKE_BREAKS(vdevice_merge))
		out->members = m->members;
	else
		out->members = (struct nccl_net_vdev_props_v12){1, {dev}};
}

ncclResult_t sxt_fake_device(int dev, struct sxt_fake_device *out)
{
	int physical = physical_cnt();

	pthread_mutex_lock(&lock);
	if (dev < 0 || dev >= physical + merged_cnt) {
		pthread_mutex_unlock(&lock);
		SXT_FAKE_WARN("fake: there is no device %d", dev);
		return ncclInvalidArgument;
	}
	out->guid = guid_of(dev);
	if (dev < physical) {
		out->name = names[SXT_FAKE_BREAKS(props_names) ? 0 : dev];
		out->members = (struct nccl_net_vdev_props_v12){1, {dev}};
	} else {
		describe_merged(dev, &merged[dev - physical], out);
	}
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

/* Each physical device at most once, and no merged one. */
static bool can_merge(int ndevs, const int *devs, int max)
{
	bool seen[SXT_ARRAY_LEN(names)] = {false};

	if (ndevs < 1 || ndevs > max)
		return false;
	for (int i = 0; i < ndevs; i++) {
		bool there = devs[i] >= 0 && devs[i] < physical_cnt();

		if (there ? seen[devs[i]] : !SXT_FAKE_BREAKS(vdevice_refuse))
			return false;
		if (there)
			seen[devs[i]] = true;
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
	if (merged_cnt < MERGED_MAX) {
		m = &merged[merged_cnt];
		m->members.ndevs = ndevs;
		memcpy(m->members.devs, devs, sizeof(devs[0]) * (size_t)ndevs);
		snprintf(m->name, sizeof(m->name), "fake-merged%d", merged_cnt);
		*out = physical_cnt() + merged_cnt;
		/* One that is told and not counted, as asked. */
		merged_cnt += !sxt_fake_fault("uncounted", 0);
		result = ncclSuccess;
	}
	pthread_mutex_unlock(&lock);
	return result;
}
