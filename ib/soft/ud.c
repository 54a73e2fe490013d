/*
 * ud.c - datagrams and their address handles: one packet, delivered or dropped. Hot but for the
 * address handles.
 */
#include "ib/soft/objects.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define QKEY_FROM_QP 0x80000000u /* high bit in the WR: the QP's own Q_Key is sent */
#define IPV6_VERSION 6u
#define NEXT_HDR_BTH 0x1b

int sxt_soft_ah_create(struct ibv_pd *pd, const struct ibv_ah_attr *attr, struct ibv_ah **out)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(pd->context);
	const struct sxt_soft_port *port;
	struct sxt_soft_ah *ah;

	if (attr->port_num == 0 || attr->port_num > ctx->hca->port_cnt)
		return -EINVAL;
	port = &ctx->engine->state->fabric->ports[ctx->hca->first_port + attr->port_num - 1];
	if (attr->is_global && attr->grh.sgid_index >= port->gid_cnt)
		return -EINVAL;
	if (!attr->is_global && (port->link_layer == SXT_SOFT_ETHERNET || attr->dlid == 0))
		return -EINVAL;
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL)
		return -ENOMEM;
	ah->base.context = pd->context;
	ah->base.pd = pd;
	ah->attr = *attr;
	*out = &ah->base;
	return 0;
}

int sxt_soft_ah_destroy(struct ibv_ah *base)
{
	free(SXT_CONTAINER_OF(base, struct sxt_soft_ah, base));
	return 0;
}

int sxt_soft_ah_attr_from_wc(struct ibv_context *context, uint8_t port_num, const struct ibv_wc *wc,
			     const struct ibv_grh *grh, struct ibv_ah_attr *out)
{
	struct ibv_ah_attr attr = {0};
	union ibv_gid gid;
	int index = 0;

	attr.dlid = wc->slid;
	attr.sl = wc->sl;
	attr.src_path_bits = wc->dlid_path_bits;
	attr.port_num = port_num;
	if ((wc->wc_flags & IBV_WC_GRH) != 0) {
		while (sxt_soft_gid_query(context, port_num, index, &gid) == 0 &&
		       memcmp(gid.raw, grh->dgid.raw, sizeof(gid.raw)) != 0)
			index++;
		if (sxt_soft_gid_query(context, port_num, index, &gid) != 0)
			return -EINVAL;
		attr.is_global = 1;
		attr.grh.dgid = grh->sgid;
		attr.grh.sgid_index = (uint8_t)index;
		attr.grh.flow_label = ntohl(grh->version_tclass_flow) & 0xfffff;
		attr.grh.traffic_class = (uint8_t)(ntohl(grh->version_tclass_flow) >> 20);
		attr.grh.hop_limit = 0xff;
	}
	*out = attr;
	return 0;
}

static void build_grh(const struct sxt_soft_port *port, const struct ibv_ah_attr *attr,
		      size_t bytes, struct ibv_grh *out)
{
	out->version_tclass_flow =
		htonl(IPV6_VERSION << 28 | (uint32_t)attr->grh.traffic_class << 20 |
		      (attr->grh.flow_label & 0xfffff));
	out->paylen = htons((uint16_t)bytes);
	out->next_hdr = NEXT_HDR_BTH;
	out->hop_limit = attr->grh.hop_limit;
	memcpy(out->sgid.raw, port->gids[attr->grh.sgid_index].raw, sizeof(out->sgid.raw));
	out->dgid = attr->grh.dgid;
}

/* Would the QP take a datagram from here? Under its lock. */
static bool takes(const struct sxt_soft_qp *qp, const struct sxt_soft_qp_shared *to,
		  const struct sxt_soft_wr *wr, const struct sxt_soft_port *port)
{
	uint32_t state = atomic_load_explicit(&to->state, memory_order_relaxed);
	uint32_t qkey = (wr->remote_qkey & QKEY_FROM_QP) != 0 ? qp->attr.qkey : wr->remote_qkey;

	return atomic_load_explicit(&to->qpn, memory_order_relaxed) == wr->remote_qpn &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       to->type == IBV_QPT_UD && to->qkey == qkey &&
	       &qp->engine->state->fabric->ports[to->port] == port;
}

static void deliver(struct sxt_soft_qp *qp, struct sxt_soft_peer *peer,
		    struct sxt_soft_qp_shared *to, struct sxt_soft_port *port,
		    const struct sxt_soft_message *message)
{
	switch (sxt_soft_deliver(qp->engine, peer, to, message)) {
	case SXT_SOFT_DELIVERED:
		return;
	case SXT_SOFT_DELIVER_EMPTY:
		atomic_fetch_add_explicit(&port->counters.out_of_buffer, 1, memory_order_relaxed);
		return;
	case SXT_SOFT_DELIVER_DEAD:
		return;
	default:
		/* The receiver's own mistake: its QP fails, the sender never hears of it. */
		sxt_soft_qp_fail(qp->engine, peer, to, -1);
		return;
	}
}

/* Finds the receiver and hands the datagram over, if there is one that takes it. */
static void send_to(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
		    struct sxt_soft_port *port, const struct sxt_soft_message *message)
{
	struct sxt_soft_qp_shared *to;
	struct sxt_soft_peer *peer;

	if (sxt_soft_qpn_find(qp->engine, wr->remote_qpn, &peer, &to) != 0)
		return;
	sxt_soft_shared_lock(&to->lock);
	if (takes(qp, to, wr, port))
		deliver(qp, peer, to, port, message);
	sxt_soft_shared_unlock(&to->lock);
	sxt_soft_peer_put(qp->engine, peer);
}

void sxt_soft_ud_execute(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			 struct sxt_soft_outcome *out)
{
	const struct ibv_ah_attr *attr = &SXT_CONTAINER_OF(wr->ah, struct sxt_soft_ah, base)->attr;
	struct iovec from[SXT_SOFT_SGE_MAX];
	struct sxt_soft_message message = {.from = from, .from_cnt = wr->sge_cnt};
	struct sxt_soft_port *port;
	struct ibv_grh grh;
	uint32_t fault;

	memset(out, 0, sizeof(*out));
	if (SXT_UNLIKELY(sxt_soft_fault_take(&qp->port->fault_wc, &fault))) {
		out->status = fault;
		return;
	}
	out->status = sxt_soft_gather(qp, wr, 0, from, &message.bytes);
	if (out->status != IBV_WC_SUCCESS)
		return;
	if (message.bytes > 128u << qp->port->active_mtu) {
		out->status = IBV_WC_LOC_LEN_ERR;
		return;
	}
	port = sxt_soft_port_by_address(qp->engine, qp->port, attr);
	if (port == NULL || !sxt_soft_path_is_open(qp->port, port))
		return; /* sent into the void, which is what a datagram may be */
	message.src_qpn = qp->base.qp_num;
	message.imm_data = wr->imm_data;
	message.has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
	message.solicited = (wr->flags & IBV_SEND_SOLICITED) != 0;
	message.slid = qp->port->lid;
	message.sl = attr->sl;
	if (attr->is_global) {
		build_grh(qp->port, attr, message.bytes, &grh);
		message.grh = &grh;
	}
	message.visible_ns = sxt_soft_path_time(qp->port, port, message.bytes);
	out->visible_ns = message.visible_ns;
	send_to(qp, wr, port, &message);
}
