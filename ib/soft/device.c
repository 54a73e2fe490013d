/*
 * device.c - devices and their tables, as the fabric file has them. Slow paths, any thread.
 */
#include "ib/soft/objects.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sxt_soft_port *port_of(struct ibv_context *context, uint32_t port_num)
{
	const struct sxt_soft_context *ctx = sxt_soft_context_of(context);

	if (port_num == 0 || port_num > ctx->hca->port_cnt)
		return NULL;
	return &ctx->engine->state->fabric->ports[ctx->hca->first_port + port_num - 1];
}

int sxt_soft_engine_devices(struct sxt_soft_engine *engine)
{
	const struct sxt_soft_fabric *fabric = engine->state->fabric;
	const struct sxt_soft_host *host = &fabric->hosts[engine->state->host];

	engine->devices = calloc((size_t)host->hca_cnt + 1, sizeof(*engine->devices));
	if (engine->devices == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < host->hca_cnt; i++) {
		struct sxt_soft_device *device = &engine->devices[i];
		const struct sxt_soft_hca *hca = &fabric->hcas[host->first_hca + i];

		device->engine = engine;
		device->hca = host->first_hca + i;
		device->base.node_type = IBV_NODE_CA;
		device->base.transport_type = IBV_TRANSPORT_IB;
		snprintf(device->base.name, sizeof(device->base.name), "%s", hca->name);
		snprintf(device->base.dev_name, sizeof(device->base.dev_name), "uverbs%u", i);
		snprintf(device->base.dev_path, sizeof(device->base.dev_path),
			 "/sys/class/infiniband_verbs/uverbs%u", i);
		snprintf(device->base.ibdev_path, sizeof(device->base.ibdev_path),
			 "/sys/class/infiniband/%s", hca->name);
	}
	engine->device_cnt = host->hca_cnt;
	return 0;
}

int sxt_soft_device_list(struct ibv_device ***out, int *cnt_out)
{
	struct sxt_soft_engine *engine;
	struct ibv_device **list;
	int rc = sxt_soft_engine_get(&engine);

	if (rc != 0)
		return rc;
	list = calloc((size_t)engine->device_cnt + 1, sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < engine->device_cnt; i++)
		list[i] = &engine->devices[i].base;
	*out = list;
	*cnt_out = (int)engine->device_cnt;
	return 0;
}

static const struct sxt_soft_hca *hca_of(const struct ibv_device *device)
{
	const struct sxt_soft_device *dev = SXT_CONTAINER_OF(device, struct sxt_soft_device, base);

	return &dev->engine->state->fabric->hcas[dev->hca];
}

__be64 sxt_soft_device_guid(const struct ibv_device *device)
{
	return htobe64(hca_of(device)->node_guid);
}

int sxt_soft_device_index(const struct ibv_device *device)
{
	return (int)SXT_CONTAINER_OF(device, struct sxt_soft_device, base)->hca;
}

static void fill_limits(const struct sxt_soft_hca *hca, struct ibv_device_attr *attr)
{
	attr->max_mr_size = hca->max_mr_size;
	attr->page_size_cap = ~0xfffull;
	attr->max_qp = (int)hca->max_qp;
	attr->max_qp_wr = (int)hca->max_qp_wr;
	attr->max_sge = (int)hca->max_sge;
	attr->max_sge_rd = (int)hca->max_sge;
	attr->max_cq = (int)hca->max_cq;
	attr->max_cqe = (int)hca->max_cqe;
	attr->max_mr = (int)hca->max_mr;
	attr->max_pd = (int)hca->max_pd;
	attr->max_qp_rd_atom = (int)hca->max_qp_rd_atom;
	attr->max_qp_init_rd_atom = (int)hca->max_qp_rd_atom;
	attr->max_res_rd_atom = (int)(hca->max_qp_rd_atom * hca->max_qp);
	attr->max_ah = (int)hca->max_ah;
	attr->max_srq = (int)hca->max_srq;
	attr->max_srq_wr = (int)hca->max_srq_wr;
	attr->max_srq_sge = (int)hca->max_srq_sge;
}

int sxt_soft_device_query(struct ibv_context *context, struct ibv_device_attr_ex *attr,
			  size_t attr_bytes)
{
	const struct sxt_soft_hca *hca = sxt_soft_context_of(context)->hca;
	struct ibv_device_attr_ex full;
	struct ibv_device_attr *orig = &full.orig_attr;

	if (attr_bytes < sizeof(struct ibv_device_attr))
		return -EINVAL;
	memset(&full, 0, sizeof(full));
	snprintf(orig->fw_ver, sizeof(orig->fw_ver), "%s", hca->fw_ver);
	orig->node_guid = htobe64(hca->node_guid);
	orig->sys_image_guid = htobe64(hca->sys_image_guid);
	orig->vendor_id = hca->vendor_id;
	orig->vendor_part_id = hca->vendor_part_id;
	orig->hw_ver = hca->hw_ver;
	orig->phys_port_cnt = (uint8_t)hca->port_cnt;
	orig->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
	orig->atomic_cap = IBV_ATOMIC_HCA;
	orig->max_pkeys = SXT_SOFT_PKEYS_MAX;
	orig->local_ca_ack_delay = 0;
	fill_limits(hca, orig);
	full.device_cap_flags_ex = orig->device_cap_flags;
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = 1000000; /* kHz: completion time stamps are in ns */
	full.phys_port_cnt_ex = (uint32_t)hca->port_cnt;
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, attr_bytes < sizeof(full) ? attr_bytes : sizeof(full));
	return 0;
}

int sxt_soft_port_query(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
			size_t attr_bytes)
{
	const struct sxt_soft_port *port = port_of(context, port_num);
	struct ibv_port_attr full;

	if (port == NULL)
		return -EINVAL;
	memset(&full, 0, sizeof(full));
	full.state = (enum ibv_port_state)atomic_load_explicit(&port->state, memory_order_relaxed);
	full.phys_state = (uint8_t)atomic_load_explicit(&port->phys_state, memory_order_relaxed);
	full.max_mtu = (enum ibv_mtu)port->max_mtu;
	full.active_mtu = (enum ibv_mtu)port->active_mtu;
	full.gid_tbl_len = port->gid_cnt;
	full.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_REINIT_SUP;
	full.max_msg_sz = SXT_SOFT_MAX_MSG_BYTES;
	full.pkey_tbl_len = port->pkey_cnt;
	full.lid = port->lid;
	full.sm_lid = port->sm_lid;
	full.lmc = port->lmc;
	full.max_vl_num = 1;
	full.active_width = port->active_width;
	full.active_speed = (uint8_t)(port->active_speed > 128 ? 128 : port->active_speed);
	full.link_layer = port->link_layer;
	full.flags = port->link_layer == SXT_SOFT_ETHERNET ? IBV_QPF_GRH_REQUIRED : 0;
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, attr_bytes < sizeof(full) ? attr_bytes : sizeof(full));
	return 0;
}

int sxt_soft_gid_query(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *out)
{
	const struct sxt_soft_port *port = port_of(context, port_num);
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];

	if (port == NULL || index < 0 || index >= port->gid_cnt)
		return -EINVAL;
	sxt_soft_gids_read(port, gids);
	memcpy(out->raw, gids[index].raw, sizeof(out->raw));
	return 0;
}

static int entry_of(const struct sxt_soft_port *port, const struct sxt_soft_gid *gids,
		    uint32_t index, struct ibv_gid_entry *out)
{
	const struct sxt_soft_gid *gid = &gids[index];

	if (sxt_soft_gid_is_empty(gid))
		return -ENODATA;
	memset(out, 0, sizeof(*out));
	memcpy(out->gid.raw, gid->raw, sizeof(out->gid.raw));
	out->gid_index = index;
	out->port_num = port->port_num;
	out->gid_type = gid->type;
	out->ndev_ifindex = gid->ndev_ifindex;
	return 0;
}

int sxt_soft_gid_entry(struct ibv_context *context, uint32_t port_num, uint32_t index,
		       struct ibv_gid_entry *out)
{
	const struct sxt_soft_port *port = port_of(context, port_num);
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];

	if (port == NULL || index >= port->gid_cnt)
		return -EINVAL;
	sxt_soft_gids_read(port, gids);
	return entry_of(port, gids, index, out);
}

ssize_t sxt_soft_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max)
{
	const struct sxt_soft_context *ctx = sxt_soft_context_of(context);
	size_t cnt = 0;

	for (uint32_t num = 1; num <= ctx->hca->port_cnt; num++) {
		const struct sxt_soft_port *port = port_of(context, num);
		struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];

		sxt_soft_gids_read(port, gids);
		for (uint32_t i = 0; i < port->gid_cnt; i++) {
			struct ibv_gid_entry entry;

			if (entry_of(port, gids, i, &entry) != 0)
				continue;
			if (cnt == max)
				return -EINVAL;
			entries[cnt++] = entry;
		}
	}
	return (ssize_t)cnt;
}

int sxt_soft_pkey_query(struct ibv_context *context, uint8_t port_num, int index, __be16 *out)
{
	const struct sxt_soft_port *port = port_of(context, port_num);

	if (port == NULL || index < 0 || index >= port->pkey_cnt)
		return -EINVAL;
	*out = htons(port->pkeys[index]);
	return 0;
}
