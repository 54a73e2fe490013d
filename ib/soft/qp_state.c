/*
 * qp_state.c - ibv_modify_qp(): the state machine of the specification (10.3.1, tables 92 to 98).
 *
 * A transition is a row: what it needs and what it may have. Checked as a whole before anything
 * changes. Slow path, any thread.
 */
#include "ib/soft/objects.h"

#include "core/log.h"

#include <string.h>

/* What RC and UD need and allow, beside IBV_QP_STATE. */
struct transition {
	uint8_t from;
	uint8_t to;
	bool ud_only;
	int rc_need;
	int rc_may;
	int ud_need;
	int ud_may;
};

#define INIT_RC (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_UD (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTR_RC                                                           \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_RC                                                                  \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define LATER_RC \
	(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)
#define LATER_UD (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define SQD_RC                                                                            \
	(IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |      \
	 IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)

static const struct transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, false, INIT_RC, 0, INIT_UD, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, false, 0, INIT_RC, 0, INIT_UD},
	{IBV_QPS_INIT, IBV_QPS_RTR, false, RTR_RC, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, 0,
	 IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, false, RTS_RC, LATER_RC, IBV_QP_SQ_PSN, LATER_UD},
	{IBV_QPS_RTS, IBV_QPS_RTS, false, 0, LATER_RC, 0, LATER_UD},
	{IBV_QPS_RTS, IBV_QPS_SQD, false, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY, 0,
	 IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_SQD, false, 0, SQD_RC, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_SQD, IBV_QPS_RTS, false, 0, LATER_RC, 0, LATER_UD},
	{IBV_QPS_SQE, IBV_QPS_RTS, true, 0, 0, 0, LATER_UD},
};

static const struct transition *find_transition(uint32_t from, uint32_t to, bool is_rc)
{
	for (size_t i = 0; i < SXT_ARRAY_LEN(transitions); i++) {
		const struct transition *row = &transitions[i];

		if (row->from == from && row->to == to && !(row->ud_only && is_rc))
			return row;
	}
	return NULL;
}

/* Is the mask what the transition asks for? */
static bool mask_fits(const struct sxt_soft_qp *qp, uint32_t from, uint32_t to, int mask)
{
	bool is_rc = qp->base.qp_type == IBV_QPT_RC;
	const struct transition *row;
	int need;
	int may;

	/* Any state but RESET may fail; every state may be reset. Neither has attributes. */
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return (mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE)) == 0;
	row = find_transition(from, to, is_rc);
	if (row == NULL)
		return false;
	need = is_rc ? row->rc_need : row->ud_need;
	may = need | (is_rc ? row->rc_may : row->ud_may) | IBV_QP_STATE;
	return (mask & need) == need && (mask & ~may) == 0;
}

static const struct sxt_soft_port *port_named(const struct sxt_soft_qp *qp, uint8_t port_num)
{
	const struct sxt_soft_hca *hca = qp->context->hca;

	if (port_num == 0 || port_num > hca->port_cnt)
		return NULL;
	return &qp->engine->state->fabric->ports[hca->first_port + port_num - 1];
}

static bool address_fits(const struct sxt_soft_port *port, const struct ibv_ah_attr *attr)
{
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];

	if (port->link_layer == SXT_SOFT_ETHERNET && !attr->is_global)
		return false;
	if (!attr->is_global)
		return attr->dlid != 0;
	sxt_soft_gids_read(port, gids);
	return attr->grh.sgid_index < port->gid_cnt &&
	       !sxt_soft_gid_is_empty(&gids[attr->grh.sgid_index]);
}

/* Numbers with a range of their own. */
static const char *number_problem(const struct sxt_soft_qp *qp, const struct ibv_qp_attr *attr,
				  int mask)
{
	uint32_t max_rd = qp->context->hca->max_qp_rd_atom;

	if ((mask & IBV_QP_TIMEOUT) != 0 && attr->timeout > 31)
		return "timeout above 31";
	if ((mask & IBV_QP_RETRY_CNT) != 0 && attr->retry_cnt > 7)
		return "retry_cnt above 7";
	if ((mask & IBV_QP_RNR_RETRY) != 0 && attr->rnr_retry > 7)
		return "rnr_retry above 7";
	if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && attr->min_rnr_timer > 31)
		return "min_rnr_timer above 31";
	if ((mask & IBV_QP_DEST_QPN) != 0 && attr->dest_qp_num > 0xffffff)
		return "dest_qp_num of more than 24 bits";
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attr->max_rd_atomic > max_rd)
		return "max_rd_atomic above the device's";
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attr->max_dest_rd_atomic > max_rd)
		return "max_dest_rd_atomic above the device's";
	if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && attr->path_mig_state != IBV_MIG_MIGRATED)
		return "path migration is not offered";
	return NULL;
}

/* What the port must be able to honour. Return: what is wrong, or NULL. */
static const char *value_problem(const struct sxt_soft_qp *qp, const struct ibv_qp_attr *attr,
				 int mask)
{
	const struct sxt_soft_port *port = qp->port;

	if ((mask & IBV_QP_PORT) != 0) {
		port = port_named(qp, attr->port_num);
		if (port == NULL)
			return "no such port";
	}
	if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr->pkey_index >= port->pkey_cnt)
		return "no such P_Key index";
	if ((mask & IBV_QP_PATH_MTU) != 0 &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > port->active_mtu))
		return "path MTU above the port's active MTU";
	if ((mask & IBV_QP_AV) != 0) {
		if (attr->ah_attr.port_num != 0 && attr->ah_attr.port_num != port->port_num)
			return "address vector names another port";
		if (!address_fits(port, &attr->ah_attr))
			return "address vector: RoCE needs a GRH, a GRH a filled GID index, "
			       "InfiniBand a DLID";
	}
	return number_problem(qp, attr, mask);
}

static void take_numbers(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if ((mask & IBV_QP_TIMEOUT) != 0)
		to->timeout = from->timeout;
	if ((mask & IBV_QP_RETRY_CNT) != 0)
		to->retry_cnt = from->retry_cnt;
	if ((mask & IBV_QP_RNR_RETRY) != 0)
		to->rnr_retry = from->rnr_retry;
	if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
		to->min_rnr_timer = from->min_rnr_timer;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
		to->max_rd_atomic = from->max_rd_atomic;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if ((mask & IBV_QP_RQ_PSN) != 0)
		to->rq_psn = from->rq_psn & 0xffffff;
	if ((mask & IBV_QP_SQ_PSN) != 0)
		to->sq_psn = from->sq_psn & 0xffffff;
}

static void take_values(struct sxt_soft_qp *qp, const struct ibv_qp_attr *from, int mask)
{
	struct ibv_qp_attr *to = &qp->attr;

	if ((mask & IBV_QP_PORT) != 0) {
		to->port_num = from->port_num;
		qp->port = &qp->engine->state->fabric
				    ->ports[qp->context->hca->first_port + from->port_num - 1];
	}
	if ((mask & IBV_QP_PKEY_INDEX) != 0)
		to->pkey_index = from->pkey_index;
	if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
		to->qp_access_flags = from->qp_access_flags;
	if ((mask & IBV_QP_QKEY) != 0)
		to->qkey = from->qkey;
	if ((mask & IBV_QP_PATH_MTU) != 0)
		to->path_mtu = from->path_mtu;
	if ((mask & IBV_QP_DEST_QPN) != 0)
		to->dest_qp_num = from->dest_qp_num;
	if ((mask & IBV_QP_AV) != 0)
		to->ah_attr = from->ah_attr;
	take_numbers(to, from, mask);
}

/* What peers look at. Under the shared lock. */
static void publish_values(struct sxt_soft_qp *qp)
{
	struct sxt_soft_qp_shared *shared = qp->shared;
	const struct ibv_qp_attr *attr = &qp->attr;
	struct sxt_soft_port *answer =
		sxt_soft_port_by_address(qp->engine, qp->port, &attr->ah_attr);

	shared->answer_port = answer == NULL
				      ? SXT_SOFT_NONE
				      : (uint32_t)(answer - qp->engine->state->fabric->ports);
	shared->rq_psn = attr->rq_psn;
	shared->port = (uint32_t)(qp->port - qp->engine->state->fabric->ports);
	shared->pkey = qp->port->pkeys[attr->pkey_index];
	shared->access = attr->qp_access_flags;
	shared->qkey = attr->qkey;
	shared->path_mtu =
		(uint8_t)(qp->base.qp_type == IBV_QPT_RC ? attr->path_mtu : qp->port->active_mtu);
	shared->dest_qpn = attr->dest_qp_num;
	shared->min_rnr_timer = attr->min_rnr_timer;
	shared->max_dest_rd_atomic = attr->max_dest_rd_atomic;
}

/* Back to the beginning: queues empty, unpolled completions gone, attributes forgotten. */
static void reset(struct sxt_soft_qp *qp)
{
	struct sxt_soft_qp_shared *shared = qp->shared;

	sxt_soft_shared_lock(&shared->lock);
	atomic_store(&shared->state, IBV_QPS_RESET);
	shared->recv_visible_ns = 0;
	shared->dest_qpn = 0;
	sxt_soft_shared_unlock(&shared->lock);
	/* Before the counters: a poller at work would set them to where they were. */
	sxt_soft_cq_purge(qp->send_cq, qp->base.qp_num);
	sxt_soft_cq_purge(SXT_CONTAINER_OF(qp->base.recv_cq, struct sxt_soft_cq, base),
			  qp->base.qp_num);
	sxt_soft_sq_drop(qp);
	sxt_soft_qp_unresolve(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	atomic_store(&qp->recv_done, 0);
	atomic_store(&shared->rq.head, 0);
	atomic_store(&shared->rq.tail, 0);
}

/* Applies a checked change. With sq_lock and rq_lock. */
static void apply(struct sxt_soft_qp *qp, const struct ibv_qp_attr *attr, int mask, uint32_t from,
		  uint32_t to)
{
	struct sxt_soft_qp_shared *shared = qp->shared;

	if (to == IBV_QPS_RESET) {
		reset(qp);
		return;
	}
	take_values(qp, attr, mask);
	if ((mask & (IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PORT)) != 0)
		sxt_soft_qp_unresolve(qp);
	sxt_soft_shared_lock(&shared->lock);
	publish_values(qp);
	if (to == IBV_QPS_ERR)
		sxt_soft_qp_fail(qp->engine, qp->engine->self, shared, -1);
	else if (atomic_load(&shared->state) == from)
		/* Else a peer's request failed the QP in the meantime, and that stands. */
		atomic_store(&shared->state, to);
	sxt_soft_shared_unlock(&shared->lock);
	if (to == IBV_QPS_RTS || to == IBV_QPS_ERR)
		sxt_soft_sq_progress(qp);
	if (to == IBV_QPS_SQD && from == IBV_QPS_RTS && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 &&
	    attr->en_sqd_async_notify)
		sxt_soft_peer_event(qp->engine, qp->engine->self, shared->context,
				    IBV_EVENT_SQ_DRAINED,
				    sxt_soft_cookie(qp->slot, qp->base.qp_num));
}

static int modify_locked(struct sxt_soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	uint32_t from = atomic_load(&qp->shared->state);
	uint32_t to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
	const char *problem;

	if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from)
		problem = "cur_qp_state is not the QP's state";
	else if (!mask_fits(qp, from, to, mask))
		problem = "no such transition, or its attribute mask lacks something or has too "
			  "much";
	else
		problem = value_problem(qp, attr, mask);
	if (problem != NULL) {
		SXT_LOG(SXT_LOG_INFO, "qp 0x%x: modify from state %u to %u, mask 0x%x: %s",
			qp->base.qp_num, from, to, (unsigned int)mask, problem);
		return -EINVAL;
	}
	apply(qp, attr, mask, from, to);
	return 0;
}

int sxt_soft_qp_modify(struct ibv_qp *base, const struct ibv_qp_attr *attr, int mask)
{
	struct sxt_soft_qp *qp = SXT_CONTAINER_OF(base, struct sxt_soft_qp, base);
	int rc;

	pthread_mutex_lock(&qp->sq_lock);
	pthread_mutex_lock(&qp->rq_lock);
	rc = modify_locked(qp, attr, mask);
	if (rc == 0)
		base->state = (enum ibv_qp_state)atomic_load(&qp->shared->state);
	pthread_mutex_unlock(&qp->rq_lock);
	pthread_mutex_unlock(&qp->sq_lock);
	return rc;
}
