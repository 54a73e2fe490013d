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
#include <string.h>

#define CHUNK_LOG2_MIN 7u /* every cut lies at a multiple of 128 bytes */

static int qp_make(struct sxt_conn *conn, uint32_t index)
{
	struct sxt_path *path = &conn->paths[index];
	uint32_t more = (conn->paths_cnt - 1 - index) / conn->nic->ports_cnt;
	bool sends = conn->kind == SXT_CONN_SEND;
	struct sxt_qp_spec spec = {
		.user = conn,
		.send_depth = sends ? SXT_SEND_SQ_DEPTH : SXT_RECV_SQ_DEPTH,
		.recv_depth = sends ? SXT_SEND_RQ_DEPTH : SXT_RECV_RQ_DEPTH,
		.inline_bytes = sends ? SXT_GROUP_RECORD_BYTES : sizeof(struct sxt_wire_cts),
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
	path->inline_bytes = spec.inline_bytes;
	return 0;
}

static int identify(const struct sxt_conn *conn, struct sxt_path *path)
{
	uint32_t psn = 0;
	int rc = sxt_sys_random(conn->ctx->ib->sys, &psn, sizeof(psn));

	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "%s: no random numbers for a queue pair: %s",
			path->port->label, sxt_strerror(rc));
		return rc;
	}
	path->local.path.qpn = path->qp->qp_num;
	path->local.path.psn = psn & 0xffffffu;
	path->local.path.place = path->local_place;
	return 0;
}

int sxt_path_create(struct sxt_conn *conn, uint32_t index, uint32_t place,
		    const struct sxt_port_place *local)
{
	struct sxt_path *path = &conn->paths[index];
	int rc;

	path->local_place = (uint8_t)place;
	path->port = conn->nic->ports[place];
	path->local = *local;
	path->wr_tail = conn->wr_tail | (uint64_t)index << SXT_WR_PATH_SHIFT;
	path->lkey = conn->kind == SXT_CONN_SEND ? sxt_send_end(conn)->memory_mrs[place]->lkey
						 : sxt_recv_end(conn)->shadow_mrs[place]->lkey;
	rc = qp_make(conn, index);
	if (rc == 0)
		sxt_qp_query_ece(path->port, path->qp, &path->ece);
	return rc == 0 ? identify(conn, path) : rc;
}

void sxt_path_move(struct sxt_conn *conn, uint32_t index, const struct sxt_port_place *local)
{
	struct sxt_path *path = &conn->paths[index];
	struct sxt_port_place moved = *local;

	moved.path.qpn = path->local.path.qpn;
	moved.path.psn = path->local.path.psn;
	moved.path.place = path->local.path.place;
	moved.path.epoch = path->local.path.epoch;
	path->local = moved;
}

void sxt_path_hear_ece(struct sxt_conn *conn, const struct sxt_wire_ece *ece)
{
	if (ece->path < conn->paths_cnt)
		conn->paths[ece->path].peer_ece = (struct ibv_ece){
			.vendor_id = ece->vendor_id,
			.options = ece->options,
			.comp_mask = ece->comp_mask,
		};
}

int sxt_path_join(struct sxt_conn *conn, uint32_t index, const struct sxt_wire_path *peer)
{
	struct sxt_path *path = &conn->paths[index];
	struct sxt_qp_route route = {
		.local = &path->local,
		.peer = peer,
		.tclass = conn->tclass,
		.peer_name = conn->peer_name,
		.ece = &path->ece,
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
	/* One end without any, and neither has it. */
	if (path->ece.vendor_id != 0)
		path->ece = path->peer_ece;
	return sxt_qp_join(path->port, path->qp, &route);
}

void sxt_path_probe(struct sxt_conn *conn, uint32_t index)
{
	struct sxt_path *path = &conn->paths[index];
	struct ibv_send_wr wr = {
		.wr_id = sxt_wr_id(path, SXT_WR_PROBE, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.rkey = path->rkey,
	};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = conn->kind == SXT_CONN_SEND ? sxt_send_end(conn)->records_addr
							     : sxt_recv_end(conn)->ring_addr;
	sxt_context_own(conn->ctx);
	path->probe = SXT_PROBE_SENT;
	path->probe_end_ns = conn->ctx->ib->sys->now_ns() + path->patience_ns;
	if (ibv_post_send(path->qp, &wr, &bad) != 0)
		path->probe = SXT_PROBE_FAILED;
	else if (conn->kind == SXT_CONN_SEND)
		path->sq_used++;
	sxt_context_disown(conn->ctx);
}

void sxt_path_probed(struct sxt_conn *conn, struct sxt_path *path, bool is_acked)
{
	if (conn->kind == SXT_CONN_SEND)
		path->sq_used--;
	path->worked = path->worked || is_acked;
	path->probe = is_acked ? SXT_PROBE_ACKED : SXT_PROBE_FAILED;
}

bool sxt_path_is_flushed(const struct sxt_conn *conn, const struct sxt_path *path)
{
	if (path->qp == NULL)
		return true;
	if (conn->kind == SXT_CONN_RECV)
		return path->rq_posted == 0 && path->drain_seen;
	if (conn->is_gathering)
		return path->sq_used == sxt_send_end((struct sxt_conn *)conn)->gathered_wrs &&
		       path->drain_seen;
	return path->sq_used == 0;
}

/*
 * Unsignaled entries leave no count of what is still to be flushed, so a marker behind them tells.
 * A send end needs none but where members of a group are not told: its last write is signaled
 * otherwise.
 */
static void marker_post(struct sxt_path *path)
{
	struct ibv_send_wr wr = {
		.wr_id = sxt_wr_id(path, SXT_WR_DRAIN, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	/* A provider that refuses it in ERROR has nothing left to say either. */
	if (ibv_post_send(path->qp, &wr, &bad) != 0)
		path->drain_seen = true;
}

void sxt_path_to_error(struct sxt_conn *conn, struct sxt_path *path)
{
	if (path->qp != NULL && sxt_qp_to_error(path->port, path->qp) == 0 &&
	    (conn->kind == SXT_CONN_RECV || conn->is_gathering))
		marker_post(path);
}

int sxt_path_discard(struct sxt_conn *conn, uint32_t index)
{
	struct sxt_path *path = &conn->paths[index];
	bool is_flushed;

	sxt_path_to_error(conn, path);
	is_flushed = sxt_conn_drain(conn, path);
	sxt_path_destroy(conn, index, is_flushed);
	if (!is_flushed) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: a queue pair that is given up does not say what became of its work "
			"requests; the HCA or its driver is in trouble",
			path->port->label);
		return -EIO;
	}
	memset(path, 0, sizeof(*path));
	return 0;
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
