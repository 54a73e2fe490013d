/*
 * net_v6.c - version 6 of NCCL's network interface: its properties and its table.
 */
#include "plugin/net.h"
#include "plugin/props.h"

static ncclResult_t init(ncclDebugLogger_t logger)
{
	ncclResult_t result = sxt_net_init(6, logger);

	if (result == ncclSuccess)
		SXT_NET_MEASURE(ncclNetPlugin_v6, _int);
	return result;
}

static ncclResult_t get_properties(int dev, struct nccl_net_props_v6 *props)
{
	struct nccl_net_props_v12 newest;
	ncclResult_t result = sxt_net_properties(dev, &newest);

	if (result == ncclSuccess)
		SXT_PROPS_COPY_V6(props, &newest);
	return result;
}

struct nccl_net_v6 ncclNetPlugin_v6 = {
	.name = SXT_NET_NAME,
	.init = init,
	.devices = sxt_net_devices,
	.getProperties = get_properties,
	.listen = sxt_net_listen,
	.connect = sxt_net_connect_v6,
	.accept = sxt_net_accept_v6,
	.regMr = sxt_net_reg_mr_int,
	.regMrDmaBuf = sxt_net_reg_mr_dmabuf,
	.deregMr = sxt_net_dereg_mr,
	.isend = sxt_net_isend_int,
	.irecv = sxt_net_irecv_int,
	.iflush = sxt_net_iflush,
	.test = sxt_net_test,
	.closeSend = sxt_net_close_conn,
	.closeRecv = sxt_net_close_conn,
	.closeListen = sxt_net_close_listen,
};
