/*
 * tables.c - the fake net plugin's seven versions: only properties and argument lists differ.
 */
#include "tests/fake/net/fake.h"

#include <string.h>

#define FILL_V6(p, d)                                 \
	do {                                          \
		(p)->name = (d)->name;                \
		(p)->pciPath = NULL;                  \
		(p)->guid = (d)->guid;                \
		(p)->ptrSupport = NCCL_PTR_HOST;      \
		(p)->speed = 100000;                  \
		if (!SXT_FAKE_BREAKS(props_complete)) \
			(p)->port = 1;                \
		(p)->latency = 0;                     \
		(p)->maxComms = 1024;                 \
		(p)->maxRecvs = SXT_FAKE_MEMBERS_MAX; \
	} while (0)
#define FILL_V7(p, d)                                      \
	do {                                               \
		FILL_V6(p, d);                             \
		(p)->netDeviceType = NCCL_NET_DEVICE_HOST; \
		(p)->netDeviceVersion = 0;                 \
	} while (0)
#define FILL_V8(p, d)                 \
	do {                          \
		FILL_V7(p, d);        \
		(p)->regIsGlobal = 1; \
	} while (0)
#define FILL_V9(p, d)                                                                  \
	do {                                                                           \
		FILL_V8(p, d);                                                         \
		(p)->forceFlush = 0;                                                   \
		memcpy(&(p)->vProps, &(d)->members, sizeof((p)->vProps));              \
		(p)->maxP2pBytes = NCCL_NET_MAX_BYTES + SXT_FAKE_BREAKS(props_limits); \
		(p)->maxCollBytes = NCCL_NET_MAX_BYTES;                                \
	} while (0)
#define FILL_V11(p, d)                        \
	do {                                  \
		FILL_V9(p, d);                \
		(p)->maxMultiRequestSize = 1; \
	} while (0)
#define FILL_V12(p, d)                             \
	do {                                       \
		FILL_V11(p, d);                    \
		(p)->railId = NCCL_NET_UNDEFINED;  \
		(p)->planeId = NCCL_NET_UNDEFINED; \
	} while (0)

#define DEFINE_PROPS(n, type, fill)                                              \
	static ncclResult_t props_v##n(int dev, struct nccl_net_props_##type *p) \
	{                                                                        \
		struct sxt_fake_device device;                                   \
		ncclResult_t result = sxt_fake_device(dev, &device);             \
                                                                                 \
		if (result == ncclSuccess)                                       \
			fill(p, &device);                                        \
		return result;                                                   \
	}

DEFINE_PROPS(6, v6, FILL_V6)
DEFINE_PROPS(7, v7, FILL_V7)
DEFINE_PROPS(8, v8, FILL_V8)
DEFINE_PROPS(9, v9, FILL_V9)
DEFINE_PROPS(11, v11, FILL_V11)
DEFINE_PROPS(12, v12, FILL_V12)

#define DEFINE_INIT(n)                                       \
	static ncclResult_t init_v##n(ncclDebugLogger_t log) \
	{                                                    \
		return sxt_fake_init(n, log, NULL);          \
	}

DEFINE_INIT(6)
DEFINE_INIT(7)
DEFINE_INIT(8)
DEFINE_INIT(9)

static ncclResult_t init_v10(ncclDebugLogger_t log, ncclProfilerCallback_t prof)
{
	return sxt_fake_init(10, log, prof);
}

#define DEFINE_INIT_CTX(n)                                                                        \
	static ncclResult_t init_v##n(void **ctx, uint64_t id, struct nccl_net_comm_config *conf, \
				      ncclDebugLogger_t log, ncclProfilerCallback_t prof)         \
	{                                                                                         \
		ncclResult_t result = sxt_fake_init(n, log, prof);                                \
                                                                                                  \
		return result == ncclSuccess ? sxt_fake_init_ctx(id, conf, ctx) : result;         \
	}

DEFINE_INIT_CTX(11)
DEFINE_INIT_CTX(12)

static ncclResult_t listen_dev(int dev, void *handle, void **comm)
{
	return sxt_fake_listen(NULL, dev, handle, comm);
}

static ncclResult_t listen_ctx(void *ctx, int dev, void *handle, void **comm)
{
	return ctx != NULL ? sxt_fake_listen(ctx, dev, handle, comm) : ncclInternalError;
}

static ncclResult_t connect_plain(int dev, void *handle, void **comm)
{
	return sxt_fake_connect(NULL, dev, handle, comm);
}

static ncclResult_t connect_dev(int dev, void *handle, void **comm,
				struct nccl_net_device_handle **dev_comm)
{
	*dev_comm = NULL;
	return sxt_fake_connect(NULL, dev, handle, comm);
}

static ncclResult_t connect_config(int dev, struct nccl_net_comm_config *config, void *handle,
				   void **comm, struct nccl_net_device_handle **dev_comm)
{
	return config != NULL ? connect_dev(dev, handle, comm, dev_comm) : ncclInternalError;
}

static ncclResult_t connect_ctx(void *ctx, int dev, void *handle, void **comm,
				struct nccl_net_device_handle **dev_comm)
{
	*dev_comm = NULL;
	return ctx != NULL ? sxt_fake_connect(ctx, dev, handle, comm) : ncclInternalError;
}

static ncclResult_t accept_dev(void *listen_comm, void **comm,
			       struct nccl_net_device_handle **dev_comm)
{
	*dev_comm = NULL;
	return sxt_fake_accept(listen_comm, comm);
}

static ncclResult_t reg_int(void *comm, void *data, int size, int type, void **mhandle)
{
	return size >= 0 ? sxt_fake_reg(comm, data, (size_t)size, type, mhandle)
			 : ncclInvalidArgument;
}

static ncclResult_t isend_prof(void *comm, void *data, size_t size, int tag, void *mhandle,
			       void *phandle, void **req)
{
	const struct sxt_fake_send send = {data, size, tag, mhandle};
	void *event = NULL;

	if (SXT_FAKE_BREAKS(profiler_handles) && phandle != NULL)
		sxt_fake_profiler()(&event, NCCL_PROFILER_START, phandle, 0, NULL);
	return sxt_fake_isend(comm, &send, req);
}

static ncclResult_t isend_size(void *comm, void *data, size_t size, int tag, void *mhandle,
			       void **req)
{
	return isend_prof(comm, data, size, tag, mhandle, NULL, req);
}

static ncclResult_t isend_int(void *comm, void *data, int size, int tag, void *mhandle, void **req)
{
	return size >= 0 ? isend_prof(comm, data, (size_t)size, tag, mhandle, NULL, req)
			 : ncclInvalidArgument;
}

/* The hint is for v9 and later. */
static ncclResult_t irecv_int(void *comm, int n, void **data, int *sizes, int *tags,
			      void **mhandles, void **req)
{
	struct sxt_fake_recv recv = {.n = n, .data = data, .tags = tags, .mhandles = mhandles};

	if (n < 1 || n > SXT_FAKE_MEMBERS_MAX || *req != NULL)
		return ncclInvalidArgument;
	for (int i = 0; i < n; i++) {
		if (sizes[i] < 0)
			return ncclInvalidArgument;
		recv.sizes[i] = (size_t)sizes[i];
	}
	return sxt_fake_irecv(comm, &recv, req);
}

static ncclResult_t irecv_size(void *comm, int n, void **data, size_t *sizes, int *tags,
			       void **mhandles, void **req)
{
	struct sxt_fake_recv recv = {.n = n, .data = data, .tags = tags, .mhandles = mhandles};

	if (n < 1 || n > SXT_FAKE_MEMBERS_MAX || (*req != NULL && *req != NCCL_NET_OPTIONAL_RECV))
		return ncclInvalidArgument;
	memcpy(recv.sizes, sizes, sizeof(sizes[0]) * (size_t)n);
	recv.optional = *req != NULL;
	return sxt_fake_irecv(comm, &recv, req);
}

static ncclResult_t irecv_prof(void *comm, int n, void **data, size_t *sizes, int *tags,
			       void **mhandles, void **phandles, void **req)
{
	if (SXT_FAKE_BREAKS(oob_null_args) && phandles == NULL)
		return sxt_broken_refuse();
	return irecv_size(comm, n, data, sizes, tags, mhandles, req);
}

static ncclResult_t make_vdevice_4(int *dev, struct nccl_net_vdev_props_v9 *props)
{
	return sxt_fake_make_device(dev, props->ndevs, props->devs, NCCL_NET_MAX_DEVS_PER_NIC_V9);
}

static ncclResult_t make_vdevice_8(int *dev, struct nccl_net_vdev_props_v12 *props)
{
	return sxt_fake_make_device(dev, props->ndevs, props->devs, NCCL_NET_MAX_DEVS_PER_NIC);
}

static ncclResult_t set_net_attr(void *opaque, struct nccl_net_attr *attr)
{
	struct sxt_fake_ctx *ctx = opaque;

	if (ctx == NULL || attr == NULL)
		return ncclInvalidArgument;
	ctx->attrs_cnt++;
	return ncclSuccess;
}

#define COMMON(n)                                                                                  \
	.name = "Fake", .init = init_v##n, .devices = sxt_fake_devices, .deregMr = sxt_fake_dereg, \
	.iflush = sxt_fake_iflush, .test = sxt_fake_test, .closeSend = sxt_fake_close,             \
	.closeRecv = sxt_fake_close, .closeListen = sxt_fake_close_listen

struct nccl_net_v6 ncclNetPlugin_v6 = {
	COMMON(6),
	.getProperties = props_v6,
	.listen = listen_dev,
	.connect = connect_plain,
	.accept = sxt_fake_accept,
	.regMr = reg_int,
	.isend = isend_int,
	.irecv = irecv_int,
};
/* Version 7 plays a plugin with irecvConsumed. */
struct nccl_net_v7 ncclNetPlugin_v7 = {
	COMMON(7),
	.getProperties = props_v7,
	.listen = listen_dev,
	.connect = connect_dev,
	.accept = accept_dev,
	.regMr = reg_int,
	.isend = isend_int,
	.irecv = irecv_int,
	.irecvConsumed = sxt_fake_consumed,
};
struct nccl_net_v8 ncclNetPlugin_v8 = {
	COMMON(8),
	.getProperties = props_v8,
	.listen = listen_dev,
	.connect = connect_dev,
	.accept = accept_dev,
	.regMr = sxt_fake_reg,
	.isend = isend_int,
	.irecv = irecv_int,
};
struct nccl_net_v9 ncclNetPlugin_v9 = {
	COMMON(9),
	.getProperties = props_v9,
	.listen = listen_dev,
	.connect = connect_dev,
	.accept = accept_dev,
	.regMr = sxt_fake_reg,
	.isend = isend_size,
	.irecv = irecv_size,
	.makeVDevice = make_vdevice_4,
};
struct nccl_net_v10 ncclNetPlugin_v10 = {
	COMMON(10),
	.getProperties = props_v9,
	.listen = listen_dev,
	.connect = connect_config,
	.accept = accept_dev,
	.regMr = sxt_fake_reg,
	.isend = isend_prof,
	.irecv = irecv_prof,
	.makeVDevice = make_vdevice_4,
};
struct nccl_net_v11 ncclNetPlugin_v11 = {
	COMMON(11),
	.getProperties = props_v11,
	.listen = listen_ctx,
	.connect = connect_ctx,
	.accept = accept_dev,
	.regMr = sxt_fake_reg,
	.isend = isend_prof,
	.irecv = irecv_prof,
	.makeVDevice = make_vdevice_4,
	.finalize = sxt_fake_finalize,
	.setNetAttr = set_net_attr,
};
struct nccl_net_v12 ncclNetPlugin_v12 = {
	COMMON(12),
	.getProperties = props_v12,
	.listen = listen_ctx,
	.connect = connect_ctx,
	.accept = accept_dev,
	.regMr = sxt_fake_reg,
	.isend = isend_prof,
	.irecv = irecv_prof,
	.makeVDevice = make_vdevice_8,
	.finalize = sxt_fake_finalize,
	.setNetAttr = set_net_attr,
};
