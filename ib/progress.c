/*
 * progress.c - the hot path of completions: sxt_test(), and the drain that serves every
 * connection of the context.
 *
 * Thread: NCCL's data path, under the owner word. Never waits, allocates, logs or calls the system.
 */
#include "ib/data.h"

#include <errno.h>

static void send_acked(struct sxt_send_end *end, struct sxt_path *path, uint32_t index)
{
	struct sxt_request *request = &end->requests[index % SXT_SENDS_MAX];

	path->sq_used -= index >> 8;
	path->worked = true;
	if (--request->open == 0)
		sxt_request_finish(request);
}

/* One queue pair completes in order: a signaled entry proves all before it written. */
static void cts_acked(struct sxt_path *path, uint32_t index)
{
	path->cts_acked = (uint16_t)index;
	path->worked = true;
}

static void optional_acked(struct sxt_recv_end *end, struct sxt_path *path, uint32_t index)
{
	struct sxt_request *request = &end->requests[index % SXT_REQUESTS_MAX];

	cts_acked(path, request->cts_end);
	sxt_request_finish(request);
}

static void completed(struct sxt_context *ctx, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id & SXT_WR_SLOT_MASK;
	struct sxt_conn *conn = slot < ctx->conns_cap ? ctx->conns[slot] : NULL;
	uint32_t index = sxt_wr_index(wc->wr_id);
	struct sxt_path *path;

	if (SXT_UNLIKELY(conn == NULL || !sxt_wr_is_of(conn, wc->wr_id))) {
		/* Its connection is gone, and nothing of it may be touched. */
		atomic_fetch_add_explicit(&ctx->stale_completions_cnt, 1, memory_order_relaxed);
		return;
	}
	if (SXT_UNLIKELY(wc->status != IBV_WC_SUCCESS)) {
		sxt_conn_completion_error(conn, wc);
		return;
	}
	path = &conn->paths[wc->wr_id >> SXT_WR_PATH_SHIFT & SXT_WR_PATH_MASK];
	switch ((enum sxt_wr_kind)(wc->wr_id >> SXT_WR_KIND_SHIFT)) {
	case SXT_WR_SEND:
		send_acked(sxt_send_end(conn), path, index);
		break;
	case SXT_WR_RECV:
		sxt_recv_arrived(sxt_recv_end(conn), path, wc);
		break;
	case SXT_WR_CTS:
		cts_acked(path, index);
		break;
	case SXT_WR_CTS_OPTIONAL:
		optional_acked(sxt_recv_end(conn), path, index);
		break;
	case SXT_WR_CHUNK:
	case SXT_WR_DRAIN:
		break;
	}
}

int sxt_data_drain(struct sxt_conn *conn, struct sxt_cq *cq)
{
	struct ibv_wc wcs[SXT_DRAIN_MAX];
	struct sxt_context *ctx = conn->ctx;
	int cnt = ibv_poll_cq(cq->cq, SXT_DRAIN_MAX, wcs);
	int i;

	if (SXT_UNLIKELY(cnt < 0)) {
		sxt_conn_poll_failed(conn, cnt);
		return 0;
	}
	for (i = 0; i < cnt; i++)
		completed(ctx, &wcs[i]);
	return cnt;
}

int sxt_data_drain_all(struct sxt_conn *conn)
{
	int cnt = 0;

	for (uint32_t i = 0; i < conn->cqs_cnt; i++)
		cnt += sxt_data_drain(conn, conn->cqs[i]);
	return cnt;
}

/*
 * It did not come where it was expected, or it comes in several places. Its own CQ was drained
 * already; of the others one per call is enough for what is not striped, since a sender leaves the
 * expected path only when that is in trouble.
 */
static SXT_NOINLINE void drain_elsewhere(struct sxt_conn *conn, const struct sxt_request *request)
{
	if (request->striped) {
		sxt_ignore(sxt_data_drain_all(conn));
		return;
	}
	conn->poll_next = (uint8_t)((conn->poll_next + 1u) % conn->cqs_cnt);
	sxt_ignore(sxt_data_drain(conn, conn->cqs[conn->poll_next]));
}

static bool is_done(const struct sxt_request *request)
{
	return atomic_load_explicit(&request->done, memory_order_relaxed) != 0;
}

/* Whether it is done after one drain; 0 or the connection's error. */
static int poll_once(struct sxt_request *request, bool *done_out)
{
	struct sxt_conn *conn = request->conn;
	struct sxt_context *ctx = conn->ctx;
	bool done;
	int rc = 0;

	if (!sxt_context_try_own(ctx)) {
		*done_out = false;
		return 0;
	}
	if (SXT_UNLIKELY(atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0))
		sxt_context_read_notes(ctx);
	sxt_ignore(sxt_data_drain(conn, conn->paths[request->path].cq));
	done = is_done(request);
	if (SXT_UNLIKELY(!done && conn->cqs_cnt > 1)) {
		drain_elsewhere(conn, request);
		done = is_done(request);
	}
	if (SXT_UNLIKELY(!done && conn->attention != 0)) {
		rc = sxt_conn_attend(conn, request);
		done = is_done(request);
	}
	sxt_context_disown(ctx);
	if (rc != 0 && rc != -EAGAIN)
		return rc;
	*done_out = done;
	return 0;
}

int sxt_test(struct sxt_request *request, bool *done_out, int *sizes)
{
	bool done;
	int rc;
	int i;

	/* Pairs with the release in sxt_request_finish(). */
	if (atomic_load_explicit(&request->done, memory_order_acquire) == 0) {
		rc = poll_once(request, &done);
		if (rc != 0)
			return rc;
		if (!done) {
			*done_out = false;
			return 0;
		}
	}
	if (sizes != NULL) {
		for (i = 0; i < request->cnt; i++)
			sizes[i] = request->sizes[i];
	}
	sxt_request_give(request);
	*done_out = true;
	return 0;
}
