/*
 * net_calls.c - the calls of one plugin, whatever its version: each takes the alternative that
 * its table has. Service thread: connection and memory calls; progress thread: isend, irecv.
 */
#include "cli/driver/net.h"

#include <limits.h>
#include <string.h>

/* Most members NCCL puts into one group. */
#define GROUP_MAX 8

static ncclResult_t no_profiler(void **ehandle, int type, void *phandle, int64_t plugin, void *data)
{
	(void)type;
	(void)phandle;
	(void)plugin;
	(void)data;
	if (ehandle != NULL)
		*ehandle = NULL;
	return ncclSuccess;
}

ncclResult_t sxt_drv_net_init(struct sxt_drv_net *net, uint64_t commid, void **ctx_out)
{
	ncclProfilerCallback_t profiler = net->profiler != NULL ? net->profiler : no_profiler;
	ncclResult_t result;

	if (net->calls.init_ctx != NULL) {
		result = net->calls.init_ctx(ctx_out, commid, &net->config, sxt_drv_logger,
					     profiler);
	} else {
		*ctx_out = NULL;
		if (net->initialised)
			return ncclSuccess;
		if (net->calls.init_prof != NULL)
			result = net->calls.init_prof(sxt_drv_logger, profiler);
		else
			result = net->calls.init_log(sxt_drv_logger);
		net->initialised = result == ncclSuccess;
	}
	if (result == ncclSuccess)
		sxt_drv_net_bind_anew(net);
	return result;
}

ncclResult_t sxt_drv_net_finalize(struct sxt_drv_net *net, void *ctx)
{
	return net->calls.finalize != NULL ? net->calls.finalize(ctx) : ncclSuccess;
}

/* Field groups by the version that brought them. */
#define COPY_V6(o, p)                              \
	do {                                       \
		(o)->name = (p).name;              \
		(o)->pci_path = (p).pciPath;       \
		(o)->guid = (p).guid;              \
		(o)->ptr_support = (p).ptrSupport; \
		(o)->speed_mbps = (p).speed;       \
		(o)->port = (p).port;              \
		(o)->latency_us = (p).latency;     \
		(o)->max_comms = (p).maxComms;     \
		(o)->max_recvs = (p).maxRecvs;     \
	} while (0)
#define COPY_V7(o, p)                                       \
	do {                                                \
		COPY_V6(o, p);                              \
		(o)->device_type = (int)(p).netDeviceType;  \
		(o)->device_version = (p).netDeviceVersion; \
	} while (0)
#define COPY_V8(o, p)                                 \
	do {                                          \
		COPY_V7(o, p);                        \
		(o)->reg_is_global = (p).regIsGlobal; \
	} while (0)
#define COPY_V9(o, p)                                                   \
	do {                                                            \
		COPY_V8(o, p);                                          \
		(o)->force_flush = (p).forceFlush;                      \
		memcpy(&(o)->members, &(p).vProps, sizeof((p).vProps)); \
		(o)->max_p2p_bytes = (p).maxP2pBytes;                   \
		(o)->max_coll_bytes = (p).maxCollBytes;                 \
	} while (0)
#define COPY_V11(o, p)                                            \
	do {                                                      \
		COPY_V9(o, p);                                    \
		(o)->max_multi_request = (p).maxMultiRequestSize; \
	} while (0)
#define COPY_V12(o, p)                       \
	do {                                 \
		COPY_V11(o, p);              \
		(o)->rail_id = (p).railId;   \
		(o)->plane_id = (p).planeId; \
	} while (0)

/* One reader of properties per shape: table type, struct type, field group. */
#define DEFINE_PROPS(fn, table_type, props_type, copy)                                \
	static ncclResult_t fn(const void *table, int dev, struct sxt_drv_props *out) \
	{                                                                             \
		const table_type *t = table;                                          \
		props_type props;                                                     \
		ncclResult_t result;                                                  \
                                                                                      \
		memset(&props, 0x5a, sizeof(props));                                  \
		result = t->getProperties(dev, &props);                               \
		if (result == ncclSuccess)                                            \
			copy(out, props);                                             \
		return result;                                                        \
	}

DEFINE_PROPS(props_v6, struct nccl_net_v6, struct nccl_net_props_v6, COPY_V6)
DEFINE_PROPS(props_v7, struct nccl_net_v7, struct nccl_net_props_v7, COPY_V7)
DEFINE_PROPS(props_v8, struct nccl_net_v8, struct nccl_net_props_v8, COPY_V8)
DEFINE_PROPS(props_v9, struct nccl_net_v9, struct nccl_net_props_v9, COPY_V9)
DEFINE_PROPS(props_v10, struct nccl_net_v10, struct nccl_net_props_v9, COPY_V9)
DEFINE_PROPS(props_v11, struct nccl_net_v11, struct nccl_net_props_v11, COPY_V11)
DEFINE_PROPS(props_v12, struct nccl_net_v12, struct nccl_net_props_v12, COPY_V12)

ncclResult_t sxt_drv_net_props(struct sxt_drv_net *net, int dev, struct sxt_drv_props *out)
{
	static ncclResult_t (*const readers[])(const void *, int, struct sxt_drv_props *) = {
		props_v6, props_v7, props_v8, props_v9, props_v10, props_v11, props_v12,
	};
	/* What NCCL puts where an old version says nothing. */
	struct sxt_drv_props props = {
		.members = {1, {dev}},
		.max_p2p_bytes = 1u << 30,
		.max_coll_bytes = 1u << 30,
		.max_multi_request = 1,
		.rail_id = NCCL_NET_UNDEFINED,
		.plane_id = NCCL_NET_UNDEFINED,
	};
	ncclResult_t result = readers[net->abi - SXT_DRV_ABI_MIN](net->table, dev, &props);

	if (result == ncclSuccess)
		*out = props;
	return result;
}

int sxt_drv_net_merge_max(const struct sxt_drv_net *net)
{
	if (net->calls.make_vdev_v12 != NULL)
		return NCCL_NET_MAX_DEVS_PER_NIC;
	return net->calls.make_vdev_v9 != NULL ? NCCL_NET_MAX_DEVS_PER_NIC_V9 : 0;
}

ncclResult_t sxt_drv_net_make_vdevice(struct sxt_drv_net *net, const int *devs, int n, int *dev_out)
{
	struct nccl_net_vdev_props_v12 props;
	struct nccl_net_vdev_props_v9 old_props;

	*dev_out = -1;
	if (n < 1 || n > sxt_drv_net_merge_max(net))
		return ncclInvalidUsage;
	if (net->calls.make_vdev_v12 != NULL) {
		memset(&props, 0x5a, sizeof(props));
		props.ndevs = n;
		memcpy(props.devs, devs, (size_t)n * sizeof(*devs));
		return net->calls.make_vdev_v12(dev_out, &props);
	}
	memset(&old_props, 0x5a, sizeof(old_props));
	old_props.ndevs = n;
	memcpy(old_props.devs, devs, (size_t)n * sizeof(*devs));
	return net->calls.make_vdev_v9(dev_out, &old_props);
}

ncclResult_t sxt_drv_net_listen(struct sxt_drv_net *net, void *ctx, int dev, void *handle,
				void **comm)
{
	memset(handle, 0, NCCL_NET_HANDLE_BYTES);
	if (net->calls.listen_ctx != NULL)
		return net->calls.listen_ctx(ctx, dev, handle, comm);
	return net->calls.listen_dev(dev, handle, comm);
}

ncclResult_t sxt_drv_net_connect(struct sxt_drv_net *net, void *ctx, int dev, void *handle,
				 void **comm)
{
	struct nccl_net_device_handle *dev_comm = NULL;

	if (net->calls.connect_ctx != NULL)
		return net->calls.connect_ctx(ctx, dev, handle, comm, &dev_comm);
	if (net->calls.connect_config != NULL)
		return net->calls.connect_config(dev, &net->config, handle, comm, &dev_comm);
	if (net->calls.connect_dev != NULL)
		return net->calls.connect_dev(dev, handle, comm, &dev_comm);
	return net->calls.connect_plain(dev, handle, comm);
}

ncclResult_t sxt_drv_net_accept(struct sxt_drv_net *net, void *listen_comm, void **comm)
{
	struct nccl_net_device_handle *dev_comm = NULL;

	if (net->calls.accept_dev != NULL)
		return net->calls.accept_dev(listen_comm, comm, &dev_comm);
	return net->calls.accept_plain(listen_comm, comm);
}

ncclResult_t sxt_drv_net_reg(struct sxt_drv_net *net, void *comm, const struct sxt_drv_mem *mem,
			     void **mhandle)
{
	if (net->calls.reg_size != NULL)
		return net->calls.reg_size(comm, mem->data, mem->bytes, mem->type, mhandle);
	if (mem->bytes > INT_MAX)
		return ncclInternalError;
	return net->calls.reg_int(comm, mem->data, (int)mem->bytes, mem->type, mhandle);
}

ncclResult_t sxt_drv_net_isend(struct sxt_drv_net *net, void *comm, const struct sxt_drv_msg *msg,
			       void **request)
{
	const struct sxt_drv_calls *c = &net->calls;

	if (c->isend_prof != NULL)
		return c->isend_prof(comm, msg->data, msg->bytes, msg->tag, msg->mhandle,
				     msg->phandle, request);
	if (c->isend_size != NULL)
		return c->isend_size(comm, msg->data, msg->bytes, msg->tag, msg->mhandle, request);
	if (msg->bytes > INT_MAX)
		return ncclInternalError;
	return c->isend_int(comm, msg->data, (int)msg->bytes, msg->tag, msg->mhandle, request);
}

/* irecv wants one array per field. */
struct columns {
	void *data[GROUP_MAX];
	void *mhandles[GROUP_MAX];
	size_t sizes[GROUP_MAX];
	int int_sizes[GROUP_MAX];
	int tags[GROUP_MAX];
};

static bool split_columns(struct columns *col, int n, const struct sxt_drv_msg *msgs)
{
	bool fits_int = true;

	for (int i = 0; i < n; i++) {
		col->data[i] = msgs[i].data;
		col->mhandles[i] = msgs[i].mhandle;
		col->sizes[i] = msgs[i].bytes;
		col->int_sizes[i] = (int)msgs[i].bytes;
		col->tags[i] = msgs[i].tag;
		fits_int = fits_int && msgs[i].bytes <= INT_MAX;
	}
	return fits_int;
}

static ncclResult_t irecv_with(struct sxt_drv_net *net, void *comm, int n,
			       const struct sxt_drv_msg *msgs, void **phandles, void **request)
{
	const struct sxt_drv_calls *c = &net->calls;
	struct columns col;
	bool fits_int;

	if (n < 1 || n > GROUP_MAX)
		return ncclInvalidArgument;
	fits_int = split_columns(&col, n, msgs);
	if (c->irecv_prof != NULL)
		return c->irecv_prof(comm, n, col.data, col.sizes, col.tags, col.mhandles, phandles,
				     request);
	if (c->irecv_size != NULL)
		return c->irecv_size(comm, n, col.data, col.sizes, col.tags, col.mhandles, request);
	*request = NULL;
	if (!fits_int)
		return ncclInternalError;
	return c->irecv_int(comm, n, col.data, col.int_sizes, col.tags, col.mhandles, request);
}

ncclResult_t sxt_drv_net_irecv(struct sxt_drv_net *net, void *comm, int n,
			       const struct sxt_drv_msg *msgs, void **request)
{
	void *phandles[GROUP_MAX] = {NULL};

	for (int i = 0; i < n && i < GROUP_MAX; i++)
		phandles[i] = msgs[i].phandle;
	return irecv_with(net, comm, n, msgs, phandles, request);
}

ncclResult_t sxt_drv_net_irecv_bare(struct sxt_drv_net *net, void *comm,
				    const struct sxt_drv_msg *msg, void **request)
{
	*request = NULL;
	return irecv_with(net, comm, 1, msg, NULL, request);
}
