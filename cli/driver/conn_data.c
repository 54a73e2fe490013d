/*
 * conn_data.c - NCCL's proxy on one connection: isend, irecv and test (hot path, progress thread).
 */
#include "cli/driver/conn.h"

#include "core/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static SXT_COLD int fail_data(struct sxt_drv_conn *conn, const char *call, uint64_t index,
			      ncclResult_t result)
{
	char where[96];
	char text[128];

	sxt_drv_conn_where(conn, where, sizeof(where));
	snprintf(text, sizeof(text), "%s, request %llu", where, (unsigned long long)index);
	return sxt_drv_run_fail_call(conn->run, call, text, result);
}

static struct sxt_drv_request *next_request(struct sxt_drv_conn *conn)
{
	return &conn->requests[conn->posted % SXT_DRV_REQUESTS];
}

static struct sxt_drv_msg slot_of(const struct sxt_drv_conn *conn, const struct sxt_drv_lane *lane,
				  size_t bytes)
{
	return (struct sxt_drv_msg){
		.data = lane->slots + lane->posted % conn->shape->depth * conn->shape->slot_bytes,
		.bytes = bytes,
		.tag = lane->tag,
		.mhandle = lane->mhandle,
	};
}

/* Hands over one filled slot. Return: 1, 0 for "not now", -EIO. */
static int post_send(struct sxt_drv_conn *conn, int index)
{
	struct sxt_drv_lane *lane = &conn->lanes[index];
	struct sxt_drv_request *request = next_request(conn);
	struct sxt_drv_msg msg =
		slot_of(conn, lane, lane->sizes[lane->posted % conn->shape->depth]);
	ncclResult_t result;

	request->request = NULL;
	result = sxt_drv_net_isend(conn->run->net, conn->comm, &msg, &request->request);
	if (SXT_UNLIKELY(result != ncclSuccess))
		return fail_data(conn, "isend", conn->posted, result);
	if (request->request == NULL)
		return 0;
	request->n = 1;
	request->lanes[0] = (uint8_t)index;
	request->steps[0] = lane->posted++;
	conn->posted++;
	return 1;
}

static int post_sends(struct sxt_drv_conn *conn)
{
	const uint64_t limit = (uint64_t)NCCL_NET_MAX_REQUESTS * conn->lanes_cnt;
	int moved = 0;

	for (int i = 0; i < conn->lanes_cnt; i++) {
		while (conn->lanes[i].posted < conn->lanes[i].filled &&
		       conn->posted - conn->tested < limit) {
			int rc = post_send(conn, i);

			if (rc < 0)
				return rc;
			if (rc == 0)
				break;
			moved++;
		}
	}
	return moved;
}

static bool wants_receive(const struct sxt_drv_conn *conn, const struct sxt_drv_lane *lane)
{
	uint64_t free_from = lane->done < lane->consumed ? lane->done : lane->consumed;

	return lane->posted < lane->target && lane->posted - free_from < conn->shape->depth;
}

/* One group of all lanes that have a slot to fill. Return: 1, 0 for "not now" or none, -EIO. */
static int post_receive(struct sxt_drv_conn *conn)
{
	struct sxt_drv_request *request = next_request(conn);
	struct sxt_drv_msg msgs[SXT_DRV_LANES_MAX];
	ncclResult_t result;
	int n = 0;

	for (int i = 0; i < conn->lanes_cnt; i++) {
		if (!wants_receive(conn, &conn->lanes[i]))
			continue;
		msgs[n] = slot_of(conn, &conn->lanes[i], conn->shape->slot_bytes);
		request->lanes[n] = (uint8_t)i;
		request->steps[n++] = conn->lanes[i].posted;
	}
	if (n == 0)
		return 0;
	/* NCCL gives the hint to receives of one member only. */
	request->request = conn->shape->proto->optional && n == 1 ? NCCL_NET_OPTIONAL_RECV : NULL;
	result = sxt_drv_net_irecv(conn->run->net, conn->comm, n, msgs, &request->request);
	if (SXT_UNLIKELY(result != ncclSuccess))
		return fail_data(conn, "irecv", conn->posted, result);
	if (request->request == NULL)
		return 0;
	if (SXT_UNLIKELY(request->request == NCCL_NET_OPTIONAL_RECV))
		return sxt_drv_run_fail(conn->run, SXT_EXIT_BROKEN,
					"irecv() left the hint 0x1 in *request: neither a request "
					"nor NULL");
	request->n = n;
	for (int i = 0; i < n; i++)
		conn->lanes[request->lanes[i]].posted++;
	conn->posted++;
	return n;
}

static int post_receives(struct sxt_drv_conn *conn)
{
	int moved = 0;
	int rc = 1;

	while (rc > 0 && conn->posted - conn->tested < NCCL_NET_MAX_REQUESTS &&
	       conn->posted - conn->released < SXT_DRV_REQUESTS) {
		rc = post_receive(conn);
		if (rc < 0)
			return rc;
		moved += rc;
	}
	return moved;
}

/* Always the oldest request, as NCCL does. */
static int test_oldest(struct sxt_drv_conn *conn)
{
	int moved = 0;

	while (conn->tested < conn->posted) {
		struct sxt_drv_request *request = &conn->requests[conn->tested % SXT_DRV_REQUESTS];
		int sizes[SXT_DRV_LANES_MAX] = {0};
		int done = 0;
		ncclResult_t result = conn->run->net->calls.test(request->request, &done, sizes);

		if (SXT_UNLIKELY(result != ncclSuccess))
			return fail_data(conn, "test", conn->tested, result);
		if (done == 0)
			break;
		for (int i = 0; i < request->n; i++) {
			struct sxt_drv_lane *lane = &conn->lanes[request->lanes[i]];

			if (!conn->sender)
				lane->sizes[request->steps[i] % conn->shape->depth] =
					(size_t)sizes[i];
			lane->done++;
		}
		moved += request->n;
		conn->tested++;
	}
	return moved;
}

static bool is_consumed(const struct sxt_drv_conn *conn, const struct sxt_drv_request *request)
{
	for (int i = 0; i < request->n; i++) {
		if (conn->lanes[request->lanes[i]].consumed <= request->steps[i])
			return false;
	}
	return true;
}

/* Where the table has irecvConsumed, a receive request lives until the GPU is through with it. */
static int release_consumed(struct sxt_drv_conn *conn)
{
	const struct sxt_drv_calls *calls = &conn->run->net->calls;

	if (conn->sender || calls->consumed == NULL) {
		conn->released = conn->tested;
		return 0;
	}
	while (conn->released < conn->tested) {
		struct sxt_drv_request *request =
			&conn->requests[conn->released % SXT_DRV_REQUESTS];
		ncclResult_t result;

		if (!is_consumed(conn, request))
			break;
		result = calls->consumed(conn->comm, request->n, request->request);
		if (SXT_UNLIKELY(result != ncclSuccess))
			return fail_data(conn, "irecvConsumed", conn->released, result);
		conn->released++;
	}
	return 0;
}

int sxt_drv_conn_poll(struct sxt_drv_conn *conn)
{
	int posted = conn->sender ? post_sends(conn) : post_receives(conn);
	int tested;

	if (posted < 0)
		return posted;
	tested = test_oldest(conn);
	if (tested < 0)
		return tested;
	if (release_consumed(conn) != 0)
		return -EIO;
	return posted + tested;
}

bool sxt_drv_conn_idle(const struct sxt_drv_conn *conn)
{
	if (conn->tested != conn->posted)
		return false;
	for (int i = 0; i < conn->lanes_cnt; i++) {
		const struct sxt_drv_lane *lane = &conn->lanes[i];

		if (lane->posted != (conn->sender ? lane->filled : lane->target))
			return false;
	}
	return true;
}

void sxt_drv_conn_describe(const struct sxt_drv_conn *conn, char *out, size_t out_bytes)
{
	char where[96];
	int used;

	sxt_drv_conn_where(conn, where, sizeof(where));
	used = snprintf(out, out_bytes, "%s:", where);
	for (int i = 0; i < conn->lanes_cnt && used > 0 && (size_t)used < out_bytes; i++) {
		const struct sxt_drv_lane *lane = &conn->lanes[i];

		used += snprintf(out + used, out_bytes - (size_t)used,
				 conn->sender ? " filled %llu, sent %llu, done %llu"
					      : " wanted %llu, posted %llu, done %llu",
				 (unsigned long long)(conn->sender ? lane->filled : lane->target),
				 (unsigned long long)lane->posted, (unsigned long long)lane->done);
	}
}
