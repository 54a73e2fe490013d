/*
 * progress.c - the hot path of completions: sxt_test(), and the drain that serves every
 * connection of the context.
 *
 * Thread: NCCL's data path, under the owner word. Never waits, allocates, logs or calls the system.
 */
#include "ib/data.h"
#include "ib/measure.h"

#include <errno.h>

static void send_acked(struct sxt_send_end *end, struct sxt_path *path, uint32_t index)
{
	struct sxt_request *request = &end->requests[index % SXT_SENDS_MAX];

	path->sq_used -= index >> 8;
	path->worked = true;
	if (SXT_LIKELY(--request->open == 0))
		sxt_request_finish(request);
}

/*
 * A group's record proves the members that it tells. Done, a request may be taken and used again at
 * once: nothing is read from it afterwards.
 */
static SXT_INLINE void group_acked(struct sxt_send_end *end, struct sxt_path *path, uint32_t index)
{
	struct sxt_request *request = &end->requests[index % SXT_SENDS_MAX];

	path->sq_used -= index >> 8;
	path->worked = true;
	while (request != NULL) {
		struct sxt_request *earlier = request->sent.earlier;

		sxt_request_finish(request);
		request = earlier;
	}
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

	cts_acked(path, request->optional.cts_end);
	sxt_request_finish(request);
}

/* The sender works through the ring in order: what came later proves what lies before used up. */
static SXT_INLINE void prove(struct sxt_recv_end *end, uint64_t position)
{
	if (position > end->consumed)
		end->consumed = position;
}

/* Its place is in neither mask any more. */
static SXT_INLINE void message_whole(struct sxt_recv_end *end, struct sxt_request *request,
				     uint32_t place, int size)
{
	request->sizes[place] = size;
	end->messages_taken++;
	if (!sxt_request_is_whole(request))
		return;
	prove(end, request->position);
	sxt_request_finish(request);
}

/* The size record that came instead of data: the whole message's size. */
static bool record_take(const struct sxt_recv_end *end, uint32_t handle, uint32_t generation,
			struct sxt_member *member)
{
	uint64_t value = end->records[handle].size_and_generation;

	if (value >> 48 != generation)
		return false;
	member->bytes = value & 0xffffffffffffull;
	return true;
}

/* One write of a message that comes in several, or its size record. */
static void chunk_arrived(struct sxt_recv_end *end, struct sxt_request *request,
			  const struct ibv_wc *wc, struct sxt_member *member)
{
	uint32_t imm = ntohl(wc->imm_data);
	uint32_t handle = imm >> SXT_IMM_HANDLE_SHIFT;
	uint32_t index = imm >> SXT_IMM_INDEX_SHIFT & SXT_IMM_INDEX_MASK;

	if (index >= member->granted || (member->chunks >> index & 1u) != 0) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_CHUNK);
		return;
	}
	member->chunks |= 1ull << index;
	member->arrived++;
	end->rq_reserved--;
	if ((imm & SXT_IMM_RECORD) == 0) {
		member->bytes += wc->byte_len;
	} else if (!record_take(end, handle, sxt_request_generation(request), member)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_STALE_RECORD);
		return;
	}
	if ((imm & SXT_IMM_LAST) != 0)
		member->expected = (uint8_t)(index + 1);
	if (member->arrived != member->expected) {
		prove(end, request->position - request->cnt);
		return;
	}
	end->rq_reserved -= member->granted - member->arrived;
	request->open &= (uint8_t) ~(1u << handle % SXT_RECVS_MAX);
	message_whole(end, request, handle % SXT_RECVS_MAX, sxt_size_saturate(member->bytes));
}

/* A posted receive was taken by a message. */
static SXT_INLINE void receive_used(struct sxt_recv_end *end, struct sxt_path *path)
{
	path->worked = true;
	path->rq_posted--;
	if (path->rq_posted < end->rq_low)
		end->rq_low = path->rq_posted;
}

/* All but the one write that completes a fresh message. */
static void arrived_otherwise(struct sxt_recv_end *end, struct sxt_path *path,
			      const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data);
	uint32_t handle = imm >> SXT_IMM_HANDLE_SHIFT;
	struct sxt_request *request = &end->requests[handle / SXT_RECVS_MAX % SXT_RECEIVES_MAX];
	uint32_t bit = 1u << handle % SXT_RECVS_MAX;
	struct sxt_member fresh = {.granted = 1};

	receive_used(end, path);
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_OPCODE);
		return;
	}
	if (handle >= SXT_MEMBERS_MAX || (sxt_request_waits(request) & bit) == 0) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_NO_MEMBER);
		return;
	}
	if ((imm >> SXT_IMM_GEN_SHIFT) % SXT_IMM_GENERATIONS != sxt_request_generation(request)) {
		sxt_recv_bad_imm(end, wc, SXT_IMM_OLD);
		return;
	}
	if ((request->fresh & bit) == 0) {
		chunk_arrived(end, request, wc, &end->members[handle]);
		return;
	}
	request->fresh &= (uint8_t)~bit;
	request->open |= (uint8_t)bit;
	chunk_arrived(end, request, wc, &fresh);
	/* Most are whole by now: a single size record. */
	if ((request->open & bit) != 0)
		end->members[handle] = fresh;
}

/* A receive completed. Return: false if it is not the one write of a fresh message. */
static SXT_INLINE bool arrived_plain(struct sxt_recv_end *end, struct sxt_path *path,
				     const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data);
	uint32_t handle = imm >> SXT_IMM_HANDLE_SHIFT;
	struct sxt_request *request = &end->requests[handle / SXT_RECVS_MAX];
	uint32_t bit = 1u << handle % SXT_RECVS_MAX;

	if (SXT_UNLIKELY(wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || handle >= SXT_MEMBERS_MAX ||
			 request->imm != (uint16_t)imm || (request->fresh & bit) == 0))
		return false;
	receive_used(end, path);
	request->fresh &= (uint8_t)~bit;
	end->rq_reserved--;
	message_whole(end, request, handle % SXT_RECVS_MAX, (int)wc->byte_len);
	return true;
}

/*
 * How many messages' size records a write brought, from that of its handle on. Of a record that
 * counts paths or chunks it makes a number that no group has.
 */
static uint32_t records_cnt(uint32_t imm)
{
	uint32_t index = imm >> SXT_IMM_INDEX_SHIFT & SXT_IMM_INDEX_MASK;

	return index == 0 ? 1 : index - SXT_IMM_GROUP;
}

/*
 * Size records completed a receive. Those of a group carry no generation: their immediate has it.
 * Return: false if they are not of fresh messages, or not all that comes of each.
 */
static SXT_INLINE bool records_arrived(struct sxt_recv_end *end, struct sxt_path *path,
				       const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data);
	uint32_t handle = imm >> SXT_IMM_HANDLE_SHIFT;
	struct sxt_request *request = &end->requests[handle / SXT_RECVS_MAX];
	uint32_t place = handle % SXT_RECVS_MAX;
	uint32_t cnt = records_cnt(imm);
	uint32_t places = ((1u << cnt % 32) - 1) << place;
	const uint64_t *records;
	uint64_t all = 0;
	uint32_t i;

	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || handle >= SXT_MEMBERS_MAX ||
	    cnt - 1 >= SXT_RECVS_MAX || (request->fresh & places) != places ||
	    (uint16_t)(imm & ~(SXT_IMM_INDEX_MASK << SXT_IMM_INDEX_SHIFT)) !=
		    (request->imm | SXT_IMM_RECORD))
		return false;
	records = &end->records[handle].size_and_generation;
	for (i = 0; i < cnt; i++) {
		uint64_t value = records[i];

		all |= value;
		request->sizes[place + i] = (int)value;
	}
	if ((imm & SXT_IMM_GROUP << SXT_IMM_INDEX_SHIFT) == 0)
		all ^= (uint64_t)sxt_request_generation(request) << 48;
	if (all > INT_MAX)
		return false;
	receive_used(end, path);
	end->rq_reserved -= cnt;
	end->messages_taken += cnt;
	request->fresh &= (uint8_t)~places;
	if (!sxt_request_is_whole(request)) {
		prove(end, request->position - request->cnt);
		return true;
	}
	prove(end, request->position);
	sxt_request_finish(request);
	return true;
}

/* A completion without error, if it is one of several messages, or of a size record. */
static SXT_INLINE bool completed_grouped(struct sxt_conn *conn, struct sxt_path *path,
					 const struct ibv_wc *wc)
{
	if (sxt_wr_kind(wc->wr_id) == SXT_WR_RECV)
		return records_arrived(sxt_recv_end(conn), path, wc);
	if (sxt_wr_kind(wc->wr_id) != SXT_WR_GROUP)
		return false;
	group_acked(sxt_send_end(conn), path, sxt_wr_index(wc->wr_id));
	return true;
}

/* Any completion without error, on its own path. */
static void completed_on(struct sxt_conn *conn, struct sxt_path *path, const struct ibv_wc *wc)
{
	/* Before the switch, which is a table in memory: a line more to fetch. */
	if (completed_grouped(conn, path, wc))
		return;
	if (sxt_wr_kind(wc->wr_id) == SXT_WR_RECV) {
		if (!arrived_plain(sxt_recv_end(conn), path, wc))
			arrived_otherwise(sxt_recv_end(conn), path, wc);
		return;
	}
	switch (sxt_wr_kind(wc->wr_id)) {
	case SXT_WR_SEND:
		send_acked(sxt_send_end(conn), path, sxt_wr_index(wc->wr_id));
		break;
	case SXT_WR_CTS:
		cts_acked(path, sxt_wr_index(wc->wr_id));
		break;
	case SXT_WR_CTS_OPTIONAL:
		optional_acked(sxt_recv_end(conn), path, sxt_wr_index(wc->wr_id));
		break;
	case SXT_WR_PROBE:
		sxt_path_probed(conn, path, true);
		break;
	case SXT_WR_RECV:
	case SXT_WR_GROUP:
	case SXT_WR_CHUNK:
	case SXT_WR_DRAIN:
		break;
	}
}

/* Of any connection of the context, or of one that is gone: of that nothing may be touched. */
static void completed(struct sxt_context *ctx, const struct ibv_wc *wc)
{
	uint32_t slot = wc->wr_id >> SXT_WR_SLOT_SHIFT & SXT_WR_SLOT_MASK;
	struct sxt_conn *conn = slot < ctx->conns_cap ? ctx->conns[slot] : NULL;

	if (SXT_UNLIKELY(conn == NULL || !sxt_wr_is_of(conn, wc->wr_id)))
		atomic_fetch_add_explicit(&ctx->stale_completions_cnt, 1, memory_order_relaxed);
	else if (SXT_UNLIKELY(wc->status != IBV_WC_SUCCESS))
		sxt_conn_completion_error(conn, wc);
	else
		completed_on(conn, &conn->paths[wc->wr_id >> SXT_WR_PATH_SHIFT & SXT_WR_PATH_MASK],
			     wc);
}

static SXT_NOINLINE void completed_all(struct sxt_context *ctx, const struct ibv_wc *wc,
				       const struct ibv_wc *end)
{
	for (; wc < end; wc++)
		completed(ctx, wc);
}

int sxt_data_drain(struct sxt_conn *conn, struct sxt_cq *cq)
{
	struct ibv_wc wcs[SXT_DRAIN_MAX];
	int cnt = ibv_poll_cq(cq->cq, SXT_DRAIN_MAX, wcs);

	if (SXT_UNLIKELY(cnt < 0)) {
		sxt_conn_poll_failed(conn, cnt);
		return 0;
	}
	completed_all(conn->ctx, wcs, wcs + cnt);
	return cnt;
}

int sxt_data_drain_all(struct sxt_conn *conn)
{
	int cnt = 0;

	for (uint32_t i = 0; i < conn->cqs_cnt; i++)
		cnt += sxt_data_drain(conn, conn->cqs[i]);
	return cnt;
}

/* A completion of a path, if it is what most are: a message acknowledged, or arrived. */
static SXT_INLINE bool completed_plain(struct sxt_conn *conn, struct sxt_path *path,
				       const struct ibv_wc *wc)
{
	uint64_t without_index = (wc->wr_id ^ path->wr_tail) << (64 - SXT_WR_INDEX_SHIFT);

	if (SXT_UNLIKELY(wc->status != IBV_WC_SUCCESS))
		return false;
	if (without_index == (uint64_t)SXT_WR_SEND << (64 - SXT_WR_INDEX_SHIFT)) {
		send_acked(sxt_send_end(conn), path, sxt_wr_index(wc->wr_id));
		return true;
	}
	if (without_index == (uint64_t)SXT_WR_GROUP << (64 - SXT_WR_INDEX_SHIFT)) {
		group_acked(sxt_send_end(conn), path, sxt_wr_index(wc->wr_id));
		return true;
	}
	return without_index == (uint64_t)SXT_WR_RECV << (64 - SXT_WR_INDEX_SHIFT) &&
	       arrived_plain(sxt_recv_end(conn), path, wc);
}

/* No look into the context's table is needed for it. */
static bool is_of_path(const struct sxt_path *path, const struct ibv_wc *wc)
{
	uint64_t without_index = (wc->wr_id ^ path->wr_tail) << (64 - SXT_WR_INDEX_SHIFT);

	return without_index >> (64 - SXT_WR_INDEX_SHIFT) <= SXT_WR_KIND_MASK;
}

static bool is_done(const struct sxt_request *request)
{
	return atomic_load_explicit(&request->done, memory_order_relaxed) != 0;
}

/*
 * It did not come where it was expected, or it comes in several places. Its own CQ was drained
 * already; of the others one per call is enough for what is not striped, since a sender leaves the
 * expected path only when that is in trouble.
 */
static void drain_elsewhere(struct sxt_conn *conn, const struct sxt_request *request)
{
	if ((request->flags & SXT_REQ_STRIPED) != 0) {
		sxt_ignore(sxt_data_drain_all(conn));
		return;
	}
	conn->poll_next = (uint8_t)((conn->poll_next + 1u) % conn->cqs_cnt);
	sxt_ignore(sxt_data_drain(conn, conn->cqs[conn->poll_next]));
}

/* Sizes of a group after the first; two at once. */
static SXT_INLINE void take_group(const struct sxt_request *request, int *sizes,
				  enum sxt_measuring how)
{
	uint32_t cnt = request->cnt;
	uint32_t i;

	if (how != SXT_MEASURE_NOT)
		sxt_measure_others(request);
	if (sizes == NULL)
		return;
	for (i = 1; i + 1 < cnt; i += 2)
		memcpy(&sizes[i], &request->sizes[i], 2 * sizeof(*sizes));
	if (i < cnt)
		sizes[i] = request->sizes[i];
}

/* A done request's sizes; it is free afterwards. */
static SXT_INLINE void take(struct sxt_request *request, int *sizes, enum sxt_measuring how)
{
	if (how != SXT_MEASURE_NOT)
		sxt_measure_done(request, how);
	if (sizes != NULL)
		sizes[0] = request->sizes[0];
	if (SXT_UNLIKELY(request->cnt > 1))
		take_group(request, sizes, how);
	sxt_request_give(request);
}

/*
 * What a poll brought that is not plain, or not enough: `left` completions from wc on, or an error
 * of the poll. The owner word is held and given back. Return: 1 done and taken, 0 not, or the
 * connection's error.
 */
static SXT_INLINE int further(struct sxt_request *request, const struct ibv_wc *wc, int left,
			      int *sizes, enum sxt_measuring how)
{
	struct sxt_conn *conn = request->conn;
	struct sxt_path *path = request->path;
	bool done;
	int rc = 0;

	if (SXT_UNLIKELY(left < 0))
		sxt_conn_poll_failed(conn, left);
	for (; left > 0; left--, wc++) {
		if (!is_of_path(path, wc) || wc->status != IBV_WC_SUCCESS)
			completed(conn->ctx, wc);
		else if (!completed_grouped(conn, path, wc))
			completed_on(conn, path, wc);
	}
	if (SXT_LIKELY(is_done(request))) {
		sxt_context_disown(conn->ctx);
		take(request, sizes, how);
		return 1;
	}
	if (conn->cqs_cnt > 1)
		drain_elsewhere(conn, request);
	if (!is_done(request) && SXT_UNLIKELY(conn->attention))
		rc = sxt_conn_attend(conn, request);
	else if (!is_done(request) && conn->is_gathering && --sxt_send_end(conn)->patience == 0)
		rc = sxt_send_tell(sxt_send_end(conn));
	done = is_done(request);
	sxt_context_disown(conn->ctx);
	if (rc != 0 && rc != -EAGAIN)
		return rc;
	if (done)
		take(request, sizes, how);
	return done;
}

static SXT_NOINLINE int further_plain(struct sxt_request *request, const struct ibv_wc *wc,
				      int left, int *sizes)
{
	return further(request, wc, left, sizes, SXT_MEASURE_NOT);
}

static SXT_NOINLINE int further_by_counter(struct sxt_request *request, const struct ibv_wc *wc,
					   int left, int *sizes)
{
	return further(request, wc, left, sizes, SXT_MEASURE_BY_COUNTER);
}

static SXT_NOINLINE int further_by_clock(struct sxt_request *request, const struct ibv_wc *wc,
					 int left, int *sizes)
{
	return further(request, wc, left, sizes, SXT_MEASURE_BY_CLOCK);
}

/* Apart from its callers, so that they save few registers. */
static SXT_INLINE int test_further(struct sxt_request *request, const struct ibv_wc *wc, int left,
				   int *sizes, enum sxt_measuring how)
{
	if (how == SXT_MEASURE_BY_COUNTER)
		return further_by_counter(request, wc, left, sizes);
	if (how == SXT_MEASURE_BY_CLOCK)
		return further_by_clock(request, wc, left, sizes);
	return further_plain(request, wc, left, sizes);
}

/*
 * A request that was not done, as test_further(). Nothing is called but the poll while all is
 * plain, so that few registers are saved.
 */
static SXT_INLINE int test_owned(struct sxt_request *request, struct sxt_context *ctx, int *sizes,
				 enum sxt_measuring how)
{
	int left = ibv_poll_cq(request->path->poll, SXT_DRAIN_MAX, ctx->wcs);
	struct sxt_conn *conn = request->conn;
	struct sxt_path *path;
	const struct ibv_wc *wc;

	if (left == 0) {
		if (SXT_UNLIKELY(!sxt_conn_is_simple(conn)))
			return test_further(request, NULL, 0, sizes, how);
		sxt_context_disown(conn->ctx);
		return 0;
	}
	/* Loaded once more: they are not worth a register over the call. */
	path = request->path;
	ctx = conn->ctx;
	wc = ctx->wcs;
	for (; left > 0 && completed_plain(conn, path, wc); wc++)
		left--;
	if (SXT_UNLIKELY(left != 0 || !is_done(request)))
		return test_further(request, wc, left, sizes, how);
	take(request, sizes, how);
	sxt_context_disown(ctx);
	return 1;
}

int sxt_test_waiting(struct sxt_request *request, bool *done_out, int *sizes,
		     enum sxt_measuring how)
{
	struct sxt_context *ctx = request->conn->ctx;
	int rc;

	if (!sxt_context_try_own(ctx)) {
		*done_out = false;
		return 0;
	}
	if (SXT_UNLIKELY(atomic_load_explicit(&ctx->mailbox, memory_order_relaxed) != 0)) {
		sxt_context_read_notes(ctx);
		ctx = request->conn->ctx;
	}
	rc = test_owned(request, ctx, sizes, how);
	if (SXT_UNLIKELY(rc < 0))
		return rc;
	*done_out = rc != 0;
	return 0;
}

bool sxt_test_done(struct sxt_request *request, int *sizes, enum sxt_measuring how)
{
	/* Pairs with the release in sxt_request_finish(). */
	if (atomic_load_explicit(&request->done, memory_order_acquire) == 0)
		return false;
	take(request, sizes, how);
	return true;
}

int sxt_test(struct sxt_request *request, bool *done_out, int *sizes)
{
	if (!sxt_test_done(request, sizes, SXT_MEASURE_NOT))
		return sxt_test_waiting(request, done_out, sizes, SXT_MEASURE_NOT);
	*done_out = true;
	return 0;
}
