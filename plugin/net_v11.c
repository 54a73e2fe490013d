/*
 * net_v11.c - version 11 of NCCL's network interface: its properties and its table.
 */
#include "plugin/net.h"
#include "plugin/props.h"

/* The profiler is not called. */
static ncclResult_t init(void **ctx, uint64_t comm_id, struct nccl_net_comm_config *config,
			 ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
	ncclResult_t result = sxt_net_init_ctx(11, comm_id, logger, config, ctx);

	(void)profiler;
	if (result == ncclSuccess)
		SXT_NET_MEASURE(ncclNetPlugin_v11, );
	return result;
}

static ncclResult_t get_properties(int dev, struct nccl_net_props_v11 *props)
{
	struct nccl_net_props_v12 newest;
	ncclResult_t result = sxt_net_properties(dev, &newest);

	if (result == ncclSuccess) {
		SXT_PROPS_COPY_V9(props, &newest);
		props->maxMultiRequestSize = newest.maxMultiRequestSize;
	}
	return result;
}

struct nccl_net_v11 ncclNetPlugin_v11 = {
	.name = SXT_NET_NAME,
	.init = init,
	.devices = sxt_net_devices,
	.getProperties = get_properties,
	.listen = sxt_net_listen_ctx,
	.connect = sxt_net_connect_ctx,
	.accept = sxt_net_accept,
	.regMr = sxt_net_reg_mr,
	.regMrDmaBuf = sxt_net_reg_mr_dmabuf,
	.deregMr = sxt_net_dereg_mr,
	.isend = sxt_net_isend,
	.irecv = sxt_net_irecv,
	.iflush = sxt_net_iflush,
	.test = sxt_net_test,
	.closeSend = sxt_net_close_conn,
	.closeRecv = sxt_net_close_conn,
	.closeListen = sxt_net_close_listen,
	.makeVDevice = sxt_net_make_vdevice_v9,
	.finalize = sxt_net_finalize,
};
