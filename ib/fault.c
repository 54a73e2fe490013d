/*
 * fault.c - what goes wrong on the data path, in words: completion errors with the one hint the
 * evidence supports, peers that closed, messages that do not fit. Cold; under the owner word.
 */
#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/data.h"
#include "ib/process.h"
#include "ib/side.h"
#include "ib/tell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 768
#define HINT_BYTES 256
#define GID_BYTES  64

/* Time for the peer's own CLOSE or FAIL to come by the side channel. */
#define GRACE_NS SXT_NS_PER_SEC

/*
 * A port that went down longer ago explains nothing: NCCL's usual retries take 30 s, and HCAs may
 * stretch them to four times that.
 */
#define PORT_BLAME_NS (120 * SXT_NS_PER_SEC)

/* The first error wins: it is kept, logged once with its cause, and told to the peer. */
static SXT_COLD SXT_PRINTF(3, 4) int fail(struct sxt_conn *conn, int error, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	if (conn->error != 0)
		return conn->error;
	conn->error = error;
	conn->attention = 1;
	va_start(args, fmt);
	sxt_ignore(vsnprintf(text, sizeof(text), fmt, args));
	va_end(args);
	SXT_LOG(SXT_LOG_ERROR, "%s: %s %s: %s", sxt_conn_label(conn),
		conn->kind == SXT_CONN_SEND ? "sending to" : "receiving from", conn->peer_name,
		text);
	sxt_side_tell_failed(conn, error, text);
	sxt_tell_conn_failed(conn, error, text);
	return error;
}

static const char *wr_name(uint8_t wr_kind)
{
	switch ((enum sxt_wr_kind)wr_kind) {
	case SXT_WR_SEND:
	case SXT_WR_CHUNK:
	case SXT_WR_GROUP:
		return "RDMA write of a message";
	case SXT_WR_CTS:
	case SXT_WR_CTS_OPTIONAL:
		return "RDMA write of a clear-to-send";
	case SXT_WR_RECV:
		return "receive";
	case SXT_WR_DRAIN:
		return "closing marker";
	case SXT_WR_PROBE:
		return "probe";
	}
	return "work request";
}

static bool is_link_local(const uint8_t *gid)
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* A /24 is a guess, and the hint is worded as one. */
static bool subnets_differ(const uint8_t *a, const uint8_t *b)
{
	return sxt_gid_is_ipv4(a) && sxt_gid_is_ipv4(b) && memcmp(a, b, 15) != 0;
}

/* A port that went down explains both time-outs and flushes that name no cause. */
static bool port_hint(const struct sxt_conn *conn, char *out, size_t out_bytes)
{
	const struct sxt_port *port = conn->paths[conn->fault.path].port;
	uint64_t lost_ns = atomic_load_explicit(&port->lost_ns, memory_order_relaxed);
	uint64_t now_ns = conn->ctx->ib->sys->now_ns();

	if (lost_ns == 0 || now_ns - lost_ns > PORT_BLAME_NS)
		return false;
	sxt_ignore(snprintf(out, out_bytes,
			    "port %u of %s went down %.1f s before this: look at its cable, its "
			    "switch and `ip link`",
			    port->num, port->device->name,
			    (double)(now_ns - lost_ns) / (double)SXT_NS_PER_SEC));
	return true;
}

static void retry_hint(const struct sxt_conn *conn, char *out)
{
	const struct sxt_config *config = conn->ctx->ib->config;
	const struct sxt_path *path = &conn->paths[conn->fault.path];
	double seconds = 4.096e-6 * (double)(1ull << config->ib_timeout) * config->ib_retry_cnt;
	const char *hint = "nothing ever got through: check that both ports are on one network "
			   "and that its MTU fits";
	char port[HINT_BYTES / 2];

	if (port_hint(conn, port, sizeof(port)))
		hint = port;
	else if (conn->fault.worked)
		hint = "it worked before: look for a peer that died, a link that went down, or an "
		       "outage longer than the retries (NCCL_IB_TIMEOUT)";
	else if (path->local.path.link_layer == IBV_LINK_LAYER_ETHERNET &&
		 is_link_local(path->local.path.gid))
		hint = "the local GID is link-local and cannot be routed: choose another with "
		       "NCCL_IB_GID_INDEX";
	else if (subnets_differ(path->local.path.gid, path->peer.gid))
		hint = "the two addresses look like different subnets: check the route between "
		       "them, or keep rails apart (NCCL_CROSS_NIC=0)";
	sxt_ignore(snprintf(out, HINT_BYTES, "time-out %u, %u retries (about %.3g s); %s",
			    config->ib_timeout, config->ib_retry_cnt, seconds, hint));
}

static const char *fixed_hint(uint8_t status)
{
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		return "the queue pair failed without naming a cause: look for device or port "
		       "events in this log and the peer's";
	case IBV_WC_LOC_PROT_ERR:
		return "the local buffer lies outside its registration, or that was undone while "
		       "in use";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "the peer had no receive posted, which its grants rule out: please report "
		       "this with both logs";
	case IBV_WC_REM_ACCESS_ERR:
		return "the peer died or undid the registration of the buffer while the write was "
		       "on its way: look for an abort there";
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return "the peer's HCA refused it: look at the peer's log";
	default:
		return "please report this with both logs";
	}
}

/* rxe fails a queue pair like this when a packet finds no route, as when the link is down. */
static bool names_no_cause(uint8_t status)
{
	return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_LOC_QP_OP_ERR;
}

/* The peer may know better than our HCA why. */
static bool peer_may_explain(uint8_t status)
{
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return true;
	default:
		return false;
	}
}

static int fault_report(struct sxt_conn *conn)
{
	const struct sxt_conn_fault *fault = &conn->fault;
	const struct sxt_path *path = &conn->paths[fault->path];
	char local[GID_BYTES];
	char peer[GID_BYTES];
	char hint[HINT_BYTES];

	conn->suspect = 0;
	sxt_gid_text(path->local.path.gid, local, sizeof(local));
	sxt_gid_text(path->peer.gid, peer, sizeof(peer));
	if (fault->status == IBV_WC_RETRY_EXC_ERR)
		retry_hint(conn, hint);
	else if (!names_no_cause(fault->status) || !port_hint(conn, hint, sizeof(hint)))
		sxt_ignore(snprintf(hint, sizeof(hint), "%s", fixed_hint(fault->status)));
	return fail(conn, -EREMOTEIO,
		    "%s failed, %" PRIu64
		    " bytes, tag %u: %s (status %u, vendor 0x%x); port %s:%u, "
		    "qp 0x%x -> 0x%x, gid %s -> %s, %u flushed; %s",
		    wr_name(fault->wr_kind), fault->bytes, fault->tag,
		    conn->ctx->ib->verbs->wc_status_str((enum ibv_wc_status)fault->status),
		    fault->status, fault->vendor, path->port->device->name, path->port->num,
		    path->local.path.qpn, path->peer.qpn, local, peer, fault->flush_cnt, hint);
}

static void fault_remember(struct sxt_conn *conn, const struct ibv_wc *wc)
{
	struct sxt_conn_fault *fault = &conn->fault;
	uint32_t index = sxt_wr_index(wc->wr_id);

	fault->status = (uint8_t)wc->status;
	fault->vendor = wc->vendor_err;
	fault->wr_kind = (uint8_t)sxt_wr_kind(wc->wr_id);
	fault->path = wc->wr_id >> SXT_WR_PATH_SHIFT & SXT_WR_PATH_MASK;
	fault->worked = conn->paths[fault->path].worked;
	fault->bytes = 0;
	fault->tag = 0;
	if (fault->wr_kind == SXT_WR_SEND || fault->wr_kind == SXT_WR_CHUNK ||
	    fault->wr_kind == SXT_WR_GROUP) {
		const struct sxt_request *request =
			&sxt_send_end(conn)->requests[index % SXT_SENDS_MAX];

		fault->bytes = sxt_request_bytes(request);
		fault->tag = request->sent.tag;
	}
	fault->report_ns = conn->ctx->ib->sys->now_ns();
	if (peer_may_explain(fault->status))
		fault->report_ns += GRACE_NS;
	conn->suspect = 1;
	conn->attention = 1;
}

/* A completion in error has used its queue entry all the same. */
static void book(struct sxt_conn *conn, const struct ibv_wc *wc)
{
	struct sxt_path *path = &conn->paths[wc->wr_id >> SXT_WR_PATH_SHIFT & SXT_WR_PATH_MASK];

	switch (sxt_wr_kind(wc->wr_id)) {
	case SXT_WR_SEND:
	case SXT_WR_GROUP:
		path->sq_used -= sxt_wr_index(wc->wr_id) >> 8;
		break;
	case SXT_WR_RECV:
		path->rq_posted--;
		break;
	case SXT_WR_DRAIN:
		path->drain_seen = true;
		break;
	case SXT_WR_PROBE:
		sxt_path_probed(conn, path, false);
		break;
	case SXT_WR_CHUNK:
	case SXT_WR_CTS:
	case SXT_WR_CTS_OPTIONAL:
		break;
	}
}

/* The first cause wins; a flush is none, it only says that there was one. */
void sxt_conn_completion_error(struct sxt_conn *conn, const struct ibv_wc *wc)
{
	bool flush = wc->status == IBV_WC_WR_FLUSH_ERR;

	book(conn, wc);
	if (flush)
		conn->fault.flush_cnt++;
	if (conn->error != 0 || conn->peer_closed || conn->is_making)
		return;
	if (!conn->suspect || (!flush && conn->fault.status == IBV_WC_WR_FLUSH_ERR))
		fault_remember(conn, wc);
}

static void drain_dry(struct sxt_conn *conn)
{
	for (uint32_t i = 0; i < conn->cqs_cnt; i++) {
		uint32_t most = conn->cqs[i]->capacity / SXT_DRAIN_MAX + 1;

		while (most-- > 0 && sxt_data_drain(conn, conn->cqs[i]) == SXT_DRAIN_MAX)
			;
	}
}

static void finish(const struct sxt_request *request)
{
	sxt_request_finish((struct sxt_request *)request);
}

/* The peer took every message before its count; what was optional nobody waits for. */
static int send_attend_closed(struct sxt_send_end *end, const struct sxt_request *request)
{
	uint64_t taken = end->conn.peer_progress.messages_taken;

	if (request == NULL)
		return 0;
	drain_dry(&end->conn);
	if (atomic_load_explicit(&request->done, memory_order_relaxed) != 0)
		return 0;
	if ((request->flags & SXT_REQ_OPTIONAL) != 0 ||
	    ((request->flags & SXT_REQ_IMM) != 0 && request->position < taken)) {
		finish(request);
		return 0;
	}
	return fail(&end->conn, -ECONNRESET,
		    "the peer closed the connection without taking a message of %" PRIu64
		    " bytes, tag %u, that it had posted a receive for",
		    sxt_request_bytes(request), request->sent.tag);
}

static int recv_attend_closed(struct sxt_recv_end *end, const struct sxt_request *request)
{
	const struct sxt_wire_progress *progress = &end->conn.peer_progress;

	if (request == NULL)
		return fail(&end->conn, -ECONNRESET,
			    "the peer closed the connection, so no message will come for "
			    "the receive posted now");
	drain_dry(&end->conn);
	if (atomic_load_explicit(&request->done, memory_order_relaxed) != 0)
		return 0;
	if ((request->flags & SXT_REQ_OPTIONAL) != 0 && request->position <= progress->cts_posted) {
		finish(request);
		return 0;
	}
	/* Acknowledged by our HCA: its completion is about to appear. */
	if (end->messages_taken < progress->messages_taken && end->conn.fault.flush_cnt == 0)
		return -EAGAIN;
	return fail(&end->conn, -ECONNRESET,
		    "the peer closed the connection after %" PRIu64
		    " messages, with a receive of %u still waiting",
		    progress->messages_taken, request->cnt);
}

int sxt_conn_attend(struct sxt_conn *conn, const struct sxt_request *request)
{
	if (conn->error != 0)
		return conn->error;
	if (conn->peer_closed)
		return conn->kind == SXT_CONN_SEND
			       ? send_attend_closed(sxt_send_end(conn), request)
			       : recv_attend_closed(sxt_recv_end(conn), request);
	if (conn->suspect && conn->ctx->ib->sys->now_ns() < conn->fault.report_ns)
		return -EAGAIN;
	return conn->suspect ? fault_report(conn) : 0;
}

int sxt_conn_post_failed(struct sxt_conn *conn, const struct sxt_path *path, int rc,
			 const char *what)
{
	/* Verbs answer with an errno, some providers with its negative or -1. */
	int error = rc < -1 ? rc : rc == -1 ? -EIO : -rc;

	return fail(conn, -EREMOTEIO,
		    "posting %s to qp 0x%x on %s was refused: %s; the queue pair may have failed: "
		    "look for device or port events before this line",
		    what, path->local.path.qpn, path->port->label, sxt_strerror(error));
}

void sxt_conn_poll_failed(struct sxt_conn *conn, int rc)
{
	sxt_ignore(fail(conn, -EREMOTEIO,
			"the completion queue cannot be read (ibv_poll_cq answered %d): "
			"it overran or the device failed",
			rc));
}

int sxt_conn_misuse(struct sxt_conn *conn, uint64_t bytes)
{
	if (bytes != 0 && conn->kind == SXT_CONN_SEND)
		return fail(conn, -EINVAL,
			    "a message of %" PRIu64
			    " bytes came without a registration of its buffer",
			    bytes);
	return fail(conn, -EINVAL, "%s was called on the other end of a connection",
		    conn->kind == SXT_CONN_SEND ? "receive" : "send");
}

int sxt_send_too_large(struct sxt_send_end *end, const struct sxt_wire_cts *cts, uint64_t bytes)
{
	return fail(&end->conn, -EMSGSIZE,
		    "a message of %" PRIu64 " bytes, tag %u, is larger than the %" PRIu64
		    " bytes the peer posted for it: the two ranks disagree about the "
		    "operation",
		    bytes, cts->tag, sxt_cts_bytes(cts));
}

int sxt_send_bad_cts(struct sxt_send_end *end, const struct sxt_wire_cts *cts)
{
	return fail(&end->conn, -EPROTO,
		    "clear-to-send %" PRIu64 " makes no sense: group 0x%x, %" PRIu64
		    " bytes in at most %u chunks of %" PRIu64
		    "; do both sides run the same Sextant?",
		    cts->sequence, cts->group, sxt_cts_bytes(cts), cts->max_chunks,
		    end->chunk_bytes);
}

int sxt_send_closed(struct sxt_send_end *end)
{
	return fail(&end->conn, -ECONNRESET,
		    "the peer closed the connection before it took the message sent now "
		    "(taken up to receive %" PRIu64 " of %" PRIu64 ")",
		    end->conn.peer_progress.messages_taken, end->conn.peer_progress.cts_posted);
}

int sxt_recv_bad_spec(struct sxt_recv_end *end, const struct sxt_recv_spec *spec)
{
	uint64_t most = sxt_conn_message_max(end->chunk_log2);
	uint64_t bytes = 0;
	int i;

	if (spec->cnt < 1 || spec->cnt > SXT_RECVS_MAX || (spec->optional && spec->cnt != 1))
		return fail(&end->conn, -EINVAL,
			    "a receive of %d messages%s; 1 to %d can be grouped", spec->cnt,
			    spec->optional ? " with optional completion" : "",
			    spec->optional ? 1 : SXT_RECVS_MAX);
	for (i = 0; i < spec->cnt; i++) {
		if (spec->mrs[i] == NULL && spec->bytes[i] != 0)
			return fail(&end->conn, -EINVAL,
				    "a receive of %" PRIu64
				    " bytes came without a registration of its buffer",
				    spec->bytes[i]);
		bytes += spec->bytes[i];
	}
	return fail(&end->conn, -EMSGSIZE,
		    "a receive of %" PRIu64 " bytes in %d messages is more than the ports "
		    "carry at once: %" PRIu64 " each, %u writes in all",
		    bytes, spec->cnt, most, SXT_RECV_RQ_DEPTH);
}

void sxt_recv_bad_imm(struct sxt_recv_end *end, const struct ibv_wc *wc,
		      enum sxt_imm_problem problem)
{
	static const char *const problems[] = {
		[SXT_IMM_NO_MEMBER] = "no receive with this handle is open",
		[SXT_IMM_OLD] = "it belongs to an earlier use of the handle",
		[SXT_IMM_CHUNK] = "this chunk was not granted or came twice",
		[SXT_IMM_STALE_RECORD] = "its size record is of another use of the handle",
		[SXT_IMM_OPCODE] = "it is no RDMA write with immediate",
	};
	uint32_t imm = ntohl(wc->imm_data);
	uint32_t handle = imm >> SXT_IMM_HANDLE_SHIFT;

	sxt_ignore(fail(
		&end->conn, -EPROTO,
		"a message arrived that was not asked for: %s; opcode %d, immediate 0x%08x, handle "
		"%u "
		"generation %u (open: %u), chunk %u%s, %u bytes: please report this with both logs",
		problems[problem], wc->opcode, imm, handle, imm >> SXT_IMM_GEN_SHIFT & 3u,
		handle < SXT_MEMBERS_MAX
			? sxt_request_generation(&end->requests[handle / SXT_RECVS_MAX])
			: 0u,
		imm >> SXT_IMM_INDEX_SHIFT & SXT_IMM_INDEX_MASK,
		(imm & SXT_IMM_LAST) != 0 ? ", the last" : "", wc->byte_len));
}
