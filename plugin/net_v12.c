/*
 * net_v12.c - version 12 of NCCL's network interface: the newest, whose properties are the ones
 * the others copy from.
 */
#include "plugin/net.h"

/* The profiler is not called. */
static ncclResult_t init(void **ctx, uint64_t comm_id, struct nccl_net_comm_config *config,
			 ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
	ncclResult_t result = sxt_net_init_ctx(12, comm_id, logger, config, ctx);

	(void)profiler;
	if (result == ncclSuccess)
		SXT_NET_MEASURE(ncclNetPlugin_v12, );
	return result;
}

struct nccl_net_v12 ncclNetPlugin_v12 = {
	.name = SXT_NET_NAME,
	.init = init,
	.devices = sxt_net_devices,
	.getProperties = sxt_net_properties,
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
	.makeVDevice = sxt_net_make_vdevice,
	.finalize = sxt_net_finalize,
};
