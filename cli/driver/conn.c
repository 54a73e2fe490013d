/*
 * conn.c - connections from listen to close, as a table of steps that never block
 * (slow path, service thread).
 */
#include "cli/driver/conn.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void sxt_drv_conn_where(const struct sxt_drv_conn *conn, char *out, size_t out_bytes)
{
	int used = snprintf(out, out_bytes, "%s rank %d, channel %d", conn->sender ? "to" : "from",
			    conn->peer, conn->channel);

	if (conn->shape->user.comm >= 0 && used > 0 && (size_t)used < out_bytes)
		snprintf(out + used, out_bytes - (size_t)used, " of communicator %d",
			 conn->shape->user.comm);
}

static int fail_call(struct sxt_drv_conn *conn, const char *call, ncclResult_t result)
{
	char where[96];

	sxt_drv_conn_where(conn, where, sizeof(where));
	return sxt_drv_run_fail_call(conn->run, call, where, result);
}

/* A step returns 1 when the connection moved on, 0 to be called again, -EIO when it failed. */

static int step_listen(struct sxt_drv_conn *conn)
{
	const struct sxt_drv_user *user = &conn->shape->user;
	ncclResult_t result = sxt_drv_net_listen(conn->run->net, user->ctx, user->dev, conn->handle,
						 &conn->listen_comm);

	if (result != ncclSuccess)
		return fail_call(conn, "listen", result);
	if (conn->listen_comm == NULL)
		return sxt_drv_run_fail(conn->run, SXT_EXIT_BROKEN,
					"listen() succeeded without a listen comm");
	conn->state = SXT_DRV_CONN_LISTENING;
	return 1;
}

static int step_accept(struct sxt_drv_conn *conn)
{
	ncclResult_t result = sxt_drv_net_accept(conn->run->net, conn->listen_comm, &conn->comm);

	if (result != ncclSuccess)
		return fail_call(conn, "accept", result);
	if (conn->comm == NULL)
		return 0;
	conn->state = SXT_DRV_CONN_CLOSE_LISTEN;
	return 1;
}

static int step_close_listen(struct sxt_drv_conn *conn)
{
	ncclResult_t result = conn->run->net->calls.close_listen(conn->listen_comm);

	conn->listen_comm = NULL;
	if (result != ncclSuccess)
		return fail_call(conn, "closeListen", result);
	conn->state = SXT_DRV_CONN_REGISTER;
	return 1;
}

static int step_connect(struct sxt_drv_conn *conn)
{
	const struct sxt_drv_user *user = &conn->shape->user;
	ncclResult_t result = sxt_drv_net_connect(conn->run->net, user->ctx, user->dev,
						  conn->handle, &conn->comm);

	if (result != ncclSuccess)
		return fail_call(conn, "connect", result);
	if (conn->comm == NULL)
		return 0;
	conn->state = SXT_DRV_CONN_REGISTER;
	return 1;
}

static size_t lane_bytes(const struct sxt_drv_conn *conn)
{
	return conn->shape->slot_bytes * conn->shape->depth;
}

/* A shared mapping can be written by another process's software HCA with plain copies. */
static void *map_shared(size_t bytes)
{
	int fd = memfd_create("sextant-bench", MFD_CLOEXEC);
	void *memory = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)bytes) == 0)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return memory != MAP_FAILED ? memory : NULL;
}

static void *allocate(const struct sxt_drv_conn *conn)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (lane_bytes(conn) + page - 1) / page * page;
	void *memory;

	if (!conn->shape->private_memory)
		return map_shared(bytes);
	memory = aligned_alloc(page, bytes);
	if (memory != NULL)
		memset(memory, 0, bytes);
	return memory;
}

static int step_register(struct sxt_drv_conn *conn)
{
	for (int i = 0; i < conn->lanes_cnt; i++) {
		struct sxt_drv_lane *lane = &conn->lanes[i];
		struct sxt_drv_mem mem = {.bytes = lane_bytes(conn), .type = NCCL_PTR_HOST};
		ncclResult_t result;

		lane->slots = allocate(conn);
		if (lane->slots == NULL)
			return sxt_drv_run_fail(conn->run, SXT_EXIT_BROKEN,
						"no memory for a buffer of %zu bytes", mem.bytes);
		mem.data = lane->slots;
		result = sxt_drv_net_reg(conn->run->net, conn->comm, &mem, &lane->mhandle);
		if (result != ncclSuccess)
			return fail_call(conn, "regMr", result);
		lane->registered = true;
	}
	conn->state = SXT_DRV_CONN_READY;
	return 1;
}

/* NULL: a state to stay in until the main thread moves it. */
static int (*const steps[SXT_DRV_CONN_STATES_CNT])(struct sxt_drv_conn *) = {
	[SXT_DRV_CONN_LISTEN] = step_listen,
	[SXT_DRV_CONN_ACCEPT] = step_accept,
	[SXT_DRV_CONN_CLOSE_LISTEN] = step_close_listen,
	[SXT_DRV_CONN_CONNECT] = step_connect,
	[SXT_DRV_CONN_REGISTER] = step_register,
};

static const char *const state_names[SXT_DRV_CONN_STATES_CNT] = {
	[SXT_DRV_CONN_LISTEN] = "not listening yet",
	[SXT_DRV_CONN_LISTENING] = "listening",
	[SXT_DRV_CONN_ACCEPT] = "accept() gives no comm yet",
	[SXT_DRV_CONN_CLOSE_LISTEN] = "accepted",
	[SXT_DRV_CONN_CONNECT] = "connect() gives no comm yet",
	[SXT_DRV_CONN_REGISTER] = "connected, memory not registered",
	[SXT_DRV_CONN_READY] = "ready",
};

static int step(struct sxt_drv_conn *conn)
{
	return steps[conn->state] != NULL ? steps[conn->state](conn) : 0;
}

int sxt_drv_conns_listen(void *arg)
{
	struct sxt_drv_conns *conns = arg;
	int rc = 0;

	for (int i = 0; i < conns->cnt && rc >= 0; i++) {
		if (!conns->list[i].sender)
			rc = step(&conns->list[i]);
	}
	return rc < 0 ? rc : 0;
}

static int fail_late(struct sxt_drv_conns *conns, const char *why)
{
	char where[96];

	for (int i = 0; i < conns->cnt; i++) {
		const struct sxt_drv_conn *conn = &conns->list[i];

		if (conn->state == SXT_DRV_CONN_READY)
			continue;
		sxt_drv_conn_where(conn, where, sizeof(where));
		return sxt_drv_run_fail(conns->run, SXT_EXIT_BROKEN,
					"%s while connecting: the connection %s: %s", why, where,
					state_names[conn->state]);
	}
	return 0;
}

/* Called when nothing moved: gives the processor away, and looks at the clock. */
static int wait_a_little(struct sxt_drv_conns *conns, uint64_t last_move_ns)
{
	const struct timespec pause = {.tv_nsec = 100 * 1000};
	int stop = atomic_load_explicit(&conns->run->stop, memory_order_relaxed);

	if (stop == SXT_DRV_STOP_TIMEOUT)
		return fail_late(conns, "--timeout is over");
	if (stop != SXT_DRV_GO)
		return -EIO;
	if (sxt_sys_host.now_ns() - last_move_ns > conns->run->stall_ns)
		return fail_late(conns, "nothing moved for the time of --stall");
	nanosleep(&pause, NULL);
	return 0;
}

int sxt_drv_conns_connect(void *arg)
{
	struct sxt_drv_conns *conns = arg;
	uint64_t last_move_ns = sxt_sys_host.now_ns();
	int ready_cnt = 0;

	for (int i = 0; i < conns->cnt; i++) {
		if (conns->list[i].state == SXT_DRV_CONN_LISTENING)
			conns->list[i].state = SXT_DRV_CONN_ACCEPT;
	}
	while (ready_cnt < conns->cnt) {
		int moved = 0;

		ready_cnt = 0;
		for (int i = 0; i < conns->cnt; i++) {
			int rc = step(&conns->list[i]);

			if (rc < 0)
				return rc;
			moved += rc;
			ready_cnt += conns->list[i].state == SXT_DRV_CONN_READY;
		}
		if (moved > 0) {
			last_move_ns = sxt_sys_host.now_ns();
			continue;
		}
		if (ready_cnt < conns->cnt && wait_a_little(conns, last_move_ns) != 0)
			return -EIO;
	}
	return 0;
}

static void release_lane(struct sxt_drv_conn *conn, struct sxt_drv_lane *lane, int *rc)
{
	ncclResult_t result = ncclSuccess;

	if (lane->registered)
		result = conn->run->net->calls.dereg(conn->comm, lane->mhandle);
	if (result != ncclSuccess)
		*rc = fail_call(conn, "deregMr", result);
	lane->registered = false;
}

static void free_lane(struct sxt_drv_conn *conn, struct sxt_drv_lane *lane)
{
	if (lane->slots == NULL)
		return;
	if (conn->shape->private_memory)
		free(lane->slots);
	else
		munmap(lane->slots, lane_bytes(conn));
	lane->slots = NULL;
}

static int close_one(struct sxt_drv_conn *conn)
{
	const struct sxt_drv_calls *calls = &conn->run->net->calls;
	ncclResult_t result = ncclSuccess;
	int rc = 0;

	for (int i = 0; i < conn->lanes_cnt; i++)
		release_lane(conn, &conn->lanes[i], &rc);
	if (conn->comm != NULL)
		result = conn->sender ? calls->close_send(conn->comm)
				      : calls->close_recv(conn->comm);
	conn->comm = NULL;
	if (result != ncclSuccess)
		rc = fail_call(conn, conn->sender ? "closeSend" : "closeRecv", result);
	if (conn->listen_comm != NULL && calls->close_listen(conn->listen_comm) != ncclSuccess)
		rc = fail_call(conn, "closeListen", ncclSystemError);
	conn->listen_comm = NULL;
	for (int i = 0; i < conn->lanes_cnt; i++)
		free_lane(conn, &conn->lanes[i]);
	conn->state = conn->sender ? SXT_DRV_CONN_CONNECT : SXT_DRV_CONN_LISTEN;
	return rc;
}

int sxt_drv_conns_close(void *arg)
{
	struct sxt_drv_conns *conns = arg;
	int rc = 0;

	for (int i = 0; i < conns->cnt; i++) {
		if (close_one(&conns->list[i]) != 0)
			rc = -EIO;
	}
	return rc;
}
