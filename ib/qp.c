/*
 * qp.c - one RC queue pair through its states (slow path), and what a refusal means.
 */
#include "ib/qp.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/device.h"
#include "ib/explain.h"
#include "ib/place.h"
#include "ib/process.h"

#include <errno.h>
#include <string.h>

#define HOP_LIMIT     255
#define MIN_RNR_TIMER 12 /* 0.64 ms */
#define RNR_RETRY     7  /* for ever */

static int create(const struct sxt_port *port, struct sxt_qp_spec *spec, struct ibv_qp **out)
{
	const uint32_t tries[] = {spec->inline_bytes, 64, 8, 0};
	struct ibv_qp_init_attr attr = {0};
	int rc = -EINVAL;

	/* Too much inline is the one wish a provider refuses that we can do without. */
	for (size_t i = 0; i < SXT_ARRAY_LEN(tries) && rc == -EINVAL; i++) {
		if (tries[i] > spec->inline_bytes)
			continue;
		attr = (struct ibv_qp_init_attr){
			.qp_context = spec->user,
			.send_cq = spec->cq,
			.recv_cq = spec->cq,
			.qp_type = IBV_QPT_RC,
			.cap =
				{
					.max_send_wr = spec->send_depth,
					.max_recv_wr = spec->recv_depth,
					.max_send_sge = 1,
					.max_recv_sge = 1,
					.max_inline_data = tries[i],
				},
		};
		rc = sxt_verbs_create_qp(port->device->verbs, port->device->pd, &attr, out);
	}
	if (rc == 0) {
		spec->send_depth = attr.cap.max_send_wr;
		spec->recv_depth = attr.cap.max_recv_wr;
		spec->inline_bytes = attr.cap.max_inline_data;
	}
	return rc;
}

static int to_init(const struct sxt_port *port, struct ibv_qp *qp)
{
	uint16_t pkey = sxt_place_pkey(port);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = pkey,
		.port_num = port->num,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int rc = sxt_verbs_modify_qp(port->device->verbs, qp, &attr,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     IBV_QP_ACCESS_FLAGS);

	char why[SXT_EXPLAIN_BYTES];

	if (rc == 0)
		return 0;
	sxt_explain_init(port, pkey, rc, why);
	SXT_LOG(SXT_LOG_ERROR, "qp 0x%x on %s: modify to INIT: %s%s", qp->qp_num, port->label,
		sxt_strerror(rc), why);
	return rc;
}

int sxt_qp_create(const struct sxt_port *port, struct sxt_qp_spec *spec, struct ibv_qp **out)
{
	struct ibv_qp *qp = NULL;
	char why[SXT_EXPLAIN_BYTES];
	int rc;

	rc = create(port, spec, &qp);
	if (rc != 0) {
		sxt_explain_create(port, SXT_DEVICE_QPS, rc, why);
		SXT_LOG(SXT_LOG_ERROR,
			"create a queue pair on %s (%u sends, %u receives, the device allows %d): "
			"%s%s",
			port->label, spec->send_depth, spec->recv_depth,
			port->device->attr.max_qp_wr, sxt_strerror(rc), why);
		return rc;
	}
	sxt_device_count(port->device, SXT_DEVICE_QPS, 1);
	rc = to_init(port, qp);
	if (rc != 0) {
		sxt_qp_destroy(port, qp);
		return rc;
	}
	*out = qp;
	return 0;
}

/* The subnet stands in the first eight bytes of a GID; two of them may hold a routable LID. */
static bool same_ib_subnet(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, 4) == 0 && memcmp(a + 6, b + 6, 2) == 0;
}

static bool needs_grh(const struct sxt_qp_route *route)
{
	const struct sxt_wire_path *own = &route->local->path;

	if (own->link_layer == IBV_LINK_LAYER_ETHERNET || route->local->grh_required)
		return true;
	return !same_ib_subnet(own->gid, route->peer->gid);
}

/* Into another subnet the router is the one to send to: by the peer's routable LID. */
static uint16_t ib_destination(const struct sxt_port *port, const struct sxt_qp_route *route)
{
	const struct sxt_wire_path *peer = route->peer;
	uint16_t flid = sxt_gid_flid(peer->gid);

	if (same_ib_subnet(route->local->path.gid, peer->gid))
		return peer->lid;
	if (flid != 0)
		return flid;
	SXT_LOG(SXT_LOG_WARN,
		"%s: %s is in another InfiniBand subnet and its GID has no routable LID; trying "
		"its LID %u: see NCCL_IB_ROUTABLE_FLID_GID_INDEX there",
		port->label, route->peer_name, peer->lid);
	return peer->lid;
}

static bool is_at(const struct sxt_port *port, const struct sxt_port_place *local, int index)
{
	const struct sxt_device *device = port->device;
	union ibv_gid gid;
	uint8_t type;

	if (sxt_verbs_query_gid(device->verbs, device->context, port->num, index, &gid) != 0 ||
	    memcmp(gid.raw, local->path.gid, sizeof(gid.raw)) != 0)
		return false;
	/* Both RoCE versions have an entry of the same address. */
	return local->path.link_layer == IBV_LINK_LAYER_INFINIBAND ||
	       sxt_verbs_query_gid_type(device->verbs, device->context, port->num, index, &type) !=
		       0 ||
	       (type == SXT_GID_TYPE_ROCE_V2) == (local->path.gid_type == SXT_GID_TYPE_ROCE_V2);
}

/*
 * What was chosen is the address. Between the choice, which the peer had to hear of, and this call
 * it may have got another index. One that is gone keeps its old one, which fails.
 */
static uint8_t gid_index(const struct sxt_port *port, const struct sxt_port_place *local)
{
	if (is_at(port, local, local->gid_index))
		return (uint8_t)local->gid_index;
	for (int i = 0; i <= UINT8_MAX; i++) {
		if (!is_at(port, local, i))
			continue;
		SXT_LOG(SXT_LOG_INFO,
			"port %s: GID moved from index %u to %d while connecting, which goes on "
			"with it",
			port->label, local->gid_index, i);
		return (uint8_t)i;
	}
	return (uint8_t)local->gid_index;
}

static void fill_address(const struct sxt_port *port, const struct sxt_qp_route *route,
			 struct ibv_ah_attr *out)
{
	const struct sxt_config *config = port->device->ib->config;

	*out = (struct ibv_ah_attr){
		.port_num = port->num,
		.sl = (uint8_t)(config->ib_sl >= 0 ? config->ib_sl : 0),
	};
	if (route->local->path.link_layer == IBV_LINK_LAYER_INFINIBAND)
		out->dlid = ib_destination(port, route);
	if (!needs_grh(route))
		return;
	out->is_global = 1;
	memcpy(out->grh.dgid.raw, route->peer->gid, sizeof(out->grh.dgid.raw));
	out->grh.sgid_index = gid_index(port, route->local);
	out->grh.hop_limit = HOP_LIMIT;
	out->grh.traffic_class = (uint8_t)route->tclass;
}

static uint8_t smaller_mtu(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* Once for an HCA and two MTUs: jumbo frames are often set on one end only. */
static void tell_mtu(const struct sxt_port *port, const struct sxt_qp_route *route)
{
	uint8_t own = route->local->path.mtu & 7;
	uint8_t peer = route->peer->mtu & 7;
	uint64_t bit = 1ull << (own * 8 + peer);

	if (own == peer ||
	    (atomic_fetch_or_explicit(&port->device->mtus_told, bit, memory_order_relaxed) & bit) !=
		    0)
		return;
	SXT_LOG(SXT_LOG_WARN,
		"port %s has MTU %u and %s %u: connections between them use %u; give both ends' "
		"interfaces the same MTU",
		port->label, 128u << own, route->peer_name, 128u << peer,
		128u << smaller_mtu(own, peer));
}

static int to_rtr(const struct sxt_port *port, struct ibv_qp *qp, const struct sxt_qp_route *route)
{
	const struct sxt_wire_path *own = &route->local->path;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)smaller_mtu(own->mtu, route->peer->mtu),
		.dest_qp_num = route->peer->qpn,
		.rq_psn = route->peer->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	char from[64];
	char to[64];
	char why[SXT_EXPLAIN_BYTES];
	int rc;

	tell_mtu(port, route);
	fill_address(port, route, &attr.ah_attr);
	rc = sxt_verbs_modify_qp(port->device->verbs, qp, &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER);
	if (rc == 0)
		return 0;
	sxt_gid_text(own->gid, from, sizeof(from));
	sxt_gid_text(route->peer->gid, to, sizeof(to));
	sxt_explain_join(port, route, rc, why);
	SXT_LOG(SXT_LOG_ERROR,
		"qp 0x%x modify to RTR: %s (%s GID index %u %s LID %u to %s qp 0x%x GID %s LID "
		"%u)%s",
		qp->qp_num, sxt_strerror(rc), port->label, route->local->gid_index, from, own->lid,
		route->peer_name, route->peer->qpn, to, route->peer->lid, why);
	return rc;
}

static int to_rts(const struct sxt_port *port, struct ibv_qp *qp, const struct sxt_qp_route *route)
{
	const struct sxt_config *config = port->device->ib->config;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)config->ib_timeout,
		.retry_cnt = (uint8_t)config->ib_retry_cnt,
		.rnr_retry = RNR_RETRY,
		.sq_psn = route->local->path.psn,
		.max_rd_atomic = 1,
	};
	int rc = sxt_verbs_modify_qp(port->device->verbs, qp, &attr,
				     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC);

	if (rc != 0)
		SXT_LOG(SXT_LOG_ERROR, "qp 0x%x on %s to %s: modify to RTS: %s", qp->qp_num,
			port->label, route->peer_name, sxt_strerror(rc));
	return rc;
}

void sxt_qp_query_ece(const struct sxt_port *port, struct ibv_qp *qp, struct ibv_ece *out)
{
	const struct sxt_device *device = port->device;

	if (device->ib->config->ib_ece_enable == 0 ||
	    sxt_verbs_query_ece(device->verbs, qp, out) != 0)
		*out = (struct ibv_ece){0};
}

/* HCAs of two vendors agree on nothing, and the queue pair does what any can. */
static void set_ece(const struct sxt_port *port, struct ibv_qp *qp,
		    const struct sxt_qp_route *route)
{
	int rc = sxt_verbs_set_ece(port->device->verbs, qp, route->ece);

	if (rc == 0)
		return;
	SXT_LOG(SXT_LOG_INFO,
		"qp 0x%x on %s does not agree to what %s offers (vendor 0x%x, options 0x%x): %s; "
		"going on without",
		qp->qp_num, port->label, route->peer_name, route->ece->vendor_id,
		route->ece->options, sxt_strerror(rc));
	*route->ece = (struct ibv_ece){0};
}

int sxt_qp_join(const struct sxt_port *port, struct ibv_qp *qp, const struct sxt_qp_route *route)
{
	int rc;

	if (route->ece != NULL && route->ece->vendor_id != 0)
		set_ece(port, qp, route);
	rc = to_rtr(port, qp, route);
	if (rc == 0)
		rc = to_rts(port, qp, route);
	/* What was agreed on is known when it took effect. */
	if (rc == 0 && route->ece != NULL && route->ece->vendor_id != 0)
		sxt_qp_query_ece(port, qp, route->ece);
	return rc;
}

int sxt_qp_to_error(const struct sxt_port *port, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return sxt_verbs_modify_qp(port->device->verbs, qp, &attr, IBV_QP_STATE);
}

void sxt_qp_destroy(const struct sxt_port *port, struct ibv_qp *qp)
{
	int rc;

	if (qp == NULL)
		return;
	rc = port->device->verbs->destroy_qp(qp);
	sxt_device_count(port->device, SXT_DEVICE_QPS, -1);
	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN,
			"a queue pair of %s was not destroyed: %s; it stays until the "
			"process ends",
			port->label, sxt_strerror(rc));
}
