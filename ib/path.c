/*
 * path.c - the life of one path's queue pair (slow path).
 */
#include "ib/path.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/data.h"
#include "ib/process.h"
#include "ib/qp.h"

#include <errno.h>

#define CHUNK_LOG2_MIN 7u /* every cut lies at a multiple of 128 bytes */

static int qp_make(struct sxt_conn *conn, uint32_t index, uint32_t *inline_out)
{
	struct sxt_path *path = &conn->paths[index];
	uint32_t more = (conn->paths_cnt - 1 - index) / conn->nic->ports_cnt;
	bool sends = conn->kind == SXT_CONN_SEND;
	struct sxt_qp_spec spec = {
		.user = conn,
		.send_depth = sends ? SXT_SEND_SQ_DEPTH : SXT_RECV_SQ_DEPTH,
		.recv_depth = sends ? SXT_SEND_RQ_DEPTH : SXT_RECV_RQ_DEPTH,
		.inline_bytes =
			sends ? sizeof(struct sxt_wire_record) : sizeof(struct sxt_wire_cts),
	};
	int rc;

	/* Flushed, every work request of both queues completes. */
	path->cq_completions = spec.send_depth + spec.recv_depth;
	rc = sxt_context_cq_get(conn->ctx, path->port, path->cq_completions, more, &path->cq);
	if (rc != 0)
		return rc;
	path->poll = path->cq->cq;
	spec.cq = path->poll;
	rc = sxt_qp_create(path->port, &spec, &path->qp);
	if (rc != 0)
		return rc;
	*inline_out = spec.inline_bytes;
	return 0;
}

static int locate(const struct sxt_conn *conn, struct sxt_path *path)
{
	uint32_t psn = 0;
	int rc = sxt_port_locate(path->port, &path->local);

	if (rc != 0)
		return rc;
	rc = sxt_sys_random(conn->ctx->ib->sys, &psn, sizeof(psn));
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "%s: no random numbers for a queue pair: %s",
			path->port->label, sxt_strerror(rc));
		return rc;
	}
	path->local.path.qpn = path->qp->qp_num;
	path->local.path.psn = psn & 0xffffffu;
	return 0;
}

int sxt_path_create(struct sxt_conn *conn, uint32_t index, uint32_t *inline_out)
{
	struct sxt_path *path = &conn->paths[index];
	int rc;

	path->local_place = (uint8_t)(index % conn->nic->ports_cnt);
	path->port = conn->nic->ports[path->local_place];
	path->wr_tail = conn->wr_tail | (uint64_t)index << SXT_WR_PATH_SHIFT;
	rc = qp_make(conn, index, inline_out);
	return rc == 0 ? locate(conn, path) : rc;
}

int sxt_path_join(struct sxt_conn *conn, uint32_t index, const struct sxt_wire_path *peer)
{
	struct sxt_path *path = &conn->paths[index];
	struct sxt_qp_route route = {
		.local = &path->local,
		.peer = peer,
		.tclass = conn->tclass,
		.peer_name = conn->peer_name,
	};

	/* What the peer says must be something the data path can trust. */
	if (peer->max_message_log2 < CHUNK_LOG2_MIN) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: %s says its port takes messages of 2^%u bytes, at least 2^%u are "
			"needed",
			path->port->label, conn->peer_name, peer->max_message_log2, CHUNK_LOG2_MIN);
		return -EPROTO;
	}
	path->peer = *peer;
	return sxt_qp_join(path->port, path->qp, &route);
}

void sxt_path_destroy(struct sxt_conn *conn, uint32_t index, bool is_empty)
{
	struct sxt_path *path = &conn->paths[index];

	sxt_qp_destroy(path->port, path->qp);
	path->qp = NULL;
	/* What may still come into the CQ needs its room: an overrun would fail everybody in it. */
	if (is_empty)
		sxt_context_cq_put(conn->ctx, path->cq, path->cq_completions);
}
