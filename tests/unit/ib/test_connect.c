/*
 * test_connect.c - listening, connecting, accepting and closing over loopback sockets, in order
 * and in every disorder.
 */
#include "core/log.h"
#include "ib/attempt.h"
#include "ib/conn.h"
#include "ib/context.h"
#include "ib/listen.h"
#include "ib/side.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/rig.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TURNS 2000

static uint32_t sides_cnt(const struct sxt_ib *ib)
{
	struct sxt_list *node;
	struct sxt_list *after;
	uint32_t cnt = 0;

	sxt_list_for_each (node, after, &ib->watcher->sides)
		cnt++;
	return cnt;
}

static void turn_often(void)
{
	for (int i = 0; i < 50; i++)
		rig_turn();
}

/* Move one message over the connection, whole. */
static void close_both(struct rig_link *link)
{
	sxt_conn_close(link->send);
	turn_often();
	sxt_conn_close(link->recv);
	turn_often();
}

static void start_two(void)
{
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(rig_start(1, true), 0);
}

static void two_processes_connect_and_move_data(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&link);
	assert_non_null(strstr(link.send->peer_name, "fake_1"));
	assert_non_null(strstr(link.recv->peer_name, "fake_0"));
	assert_true(link.send->ctx->is_private);
	rig_move_message(&link);
	close_both(&link);
	assert_int_equal(rig_logged("\n0 "), 0);
}

static void one_process_connects_to_itself(void **state)
{
	struct rig_link link;

	(void)state;
	assert_int_equal(rig_start(0, true), 0);
	rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
	rig_join(&link);
	rig_move_message(&link);
	close_both(&link);
}

static void the_watcher_threads_do_the_same(void **state)
{
	struct rig_link link;

	(void)state;
	assert_int_equal(rig_start(0, false), 0);
	assert_int_equal(rig_start(1, false), 0);
	for (int i = 0; i < 3; i++) {
		rig_listen(&link, rig.ibs[i % 2], rig.ibs[1], NULL);
		rig_join(&link);
		rig_move_message(&link);
		close_both(&link);
	}
}

static void contexts_keep_their_connections_apart(void **state)
{
	struct sxt_context *contexts[2];
	struct rig_link links[2];

	(void)state;
	start_two();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sxt_context_create(rig.ibs[0], i, &contexts[i]), 0);
		rig_listen(&links[i], rig.ibs[1], rig.ibs[0], contexts[i]);
		rig_join(&links[i]);
		assert_ptr_equal(links[i].recv->ctx, contexts[i]);
		assert_int_equal(links[i].recv->tclass, i);
		assert_ptr_not_equal(links[i].recv->paths[0].cq, links[1 - i].recv);
	}
	assert_ptr_not_equal(links[0].recv->paths[0].cq, links[1].recv->paths[0].cq);
	for (int i = 0; i < 2; i++) {
		rig_move_message(&links[i]);
		sxt_conn_close(links[i].send);
		sxt_context_destroy(contexts[i]); /* with the receiving end in it */
	}
}

static void many_connections_share_one_channel(void **state)
{
	struct rig_link links[20];

	(void)state;
	start_two();
	for (size_t i = 0; i < SXT_ARRAY_LEN(links); i++) {
		rig_listen(&links[i], rig.ibs[i % 2], rig.ibs[1 - i % 2], NULL);
		rig_join(&links[i]);
	}
	assert_int_equal(sides_cnt(rig.ibs[0]), 1);
	assert_int_equal(sides_cnt(rig.ibs[1]), 1);
	for (size_t i = 0; i < SXT_ARRAY_LEN(links); i++) {
		rig_move_message(&links[i]);
		close_both(&links[i]);
	}
}

static void one_listener_accepts_many(void **state)
{
	struct sxt_wire_handle handles[4];
	struct sxt_conn *sends[4] = {NULL};
	struct sxt_conn *recvs[4] = {NULL};
	struct sxt_listener *listener;
	size_t accepted = 0;
	size_t connected = 0;

	(void)state;
	start_two();
	assert_int_equal(sxt_listen(rig.ibs[1], NULL, 0, &handles[0], &listener), 0);
	for (size_t i = 1; i < 4; i++)
		handles[i] = handles[0];
	for (int turn = 0; turn < TURNS && (accepted < 4 || connected < 4); turn++) {
		for (size_t i = 0; i < 4; i++) {
			if (sends[i] == NULL &&
			    sxt_connect(rig.ibs[0], NULL, 0, -1, &handles[i], &sends[i]) == 0)
				connected++;
		}
		if (accepted < 4 && sxt_accept(listener, &recvs[accepted]) == 0)
			accepted++;
		rig_turn();
	}
	assert_int_equal(accepted, 4);
	assert_int_equal(connected, 4);
	sxt_listener_close(listener);
	for (size_t i = 0; i < 4; i++) {
		sxt_conn_close(sends[i]);
		sxt_conn_close(recvs[i]);
	}
}

static void foreign_and_damaged_handles_are_refused(void **state)
{
	struct sxt_wire_handle handle;
	struct sxt_conn *conn = NULL;
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	memset(&handle, 'x', sizeof(handle));
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &handle, &conn), -EBADMSG);
	handle = link.handle;
	handle.version = 7;
	handle.version_min = 7;
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &handle, &conn), -EPROTO);
	assert_int_equal(rig_logged("wire versions 7 to 7"), 1);
	handle = link.handle;
	handle.scratch_cookie = 0x41414141;
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &handle, &conn), -EBADMSG);
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 99, -1, &handle, &conn), -EINVAL);
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, -1, -1, &handle, &conn), -EINVAL);
	assert_null(conn);
	/* The scratch of a half-made connection, used after that connection has failed. */
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &link.handle, &conn), -EAGAIN);
	handle = link.handle;
	rig_advance(61 * SXT_NS_PER_SEC);
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &link.handle, &conn), -ETIMEDOUT);
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &handle, &conn), -EINVAL);
	sxt_listener_close(link.listener);
}

static int connect_until_it_ends(struct rig_link *link)
{
	for (int i = 0; i < TURNS && link->connect_rc == -EAGAIN; i++)
		rig_poll(link);
	return link->connect_rc;
}

static void a_wrong_token_is_told_to_both(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.handle.token[3] ^= 0x10;
	assert_int_equal(connect_until_it_ends(&link), -ECONNREFUSED);
	assert_int_equal(rig_logged("1 side channel: 127.0.0.1:"), 1);
	assert_true(rig_logged("token of no listener") >= 2);
	assert_int_equal(link.accept_rc, -EAGAIN);
	sxt_listener_close(link.listener);
}

static void a_wrong_token_on_a_shared_channel_hurts_nobody_else(void **state)
{
	struct rig_link good;
	struct rig_link bad;

	(void)state;
	start_two();
	rig_listen(&good, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&good);
	rig_listen(&bad, rig.ibs[0], rig.ibs[1], NULL);
	bad.handle.token[0] ^= 1;
	assert_int_equal(connect_until_it_ends(&bad), -ECONNREFUSED);
	assert_int_equal(rig_logged("no listener has this token"), 1);
	sxt_listener_close(bad.listener);
	rig_move_message(&good);
	close_both(&good);
}

static void a_listener_closed_before_accept_refuses(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.accept_rc = 1; /* nobody accepts */
	for (int i = 0; i < TURNS && link.listener->offers_cnt == 0; i++)
		rig_poll(&link);
	assert_int_equal(link.listener->offers_cnt, 1);
	sxt_listener_close(link.listener);
	link.listener = NULL;
	assert_int_equal(connect_until_it_ends(&link), -ECONNREFUSED);
	assert_true(rig_logged("closed before it accepted") >= 1);
}

static void a_listener_closed_before_connect_refuses(void **state)
{
	struct rig_link other;
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&other, rig.ibs[0], rig.ibs[1], NULL); /* keeps the socket open */
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	sxt_listener_close(link.listener);
	link.listener = NULL;
	assert_int_equal(connect_until_it_ends(&link), -ECONNREFUSED);
	sxt_listener_close(other.listener);
}

static void a_process_that_is_gone_refuses_after_a_while(void **state)
{
	struct rig_link link;
	int rc = -EAGAIN;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	sxt_listener_close(link.listener); /* and with it the socket */
	link.listener = NULL;
	for (int i = 0; i < TURNS && rc == -EAGAIN; i++) {
		rig_poll(&link);
		rc = link.connect_rc;
		rig_advance(100 * SXT_NS_PER_MS);
	}
	assert_int_equal(rc, -ECONNREFUSED);
	assert_true(rig_logged("Connection refused") >= 1);
}

static void a_peer_that_says_nothing_meets_the_deadline(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.accept_rc = 1; /* connected, but never accepted */
	for (int i = 0; i < 100; i++)
		rig_poll(&link);
	assert_int_equal(link.connect_rc, -EAGAIN);
	rig_advance(31 * SXT_NS_PER_SEC);
	rig_poll(&link);
	rig_poll(&link);
	assert_int_equal(rig_logged("waiting for the peer to accept since 31 s"), 1);
	rig_advance(30 * SXT_NS_PER_SEC);
	rig_poll(&link);
	assert_int_equal(link.connect_rc, -ETIMEDOUT);
	assert_int_equal(rig_logged("still waiting for the peer to accept"), 1);
	/* The offer went with it: accept finds nothing of it. */
	turn_often();
	assert_int_equal(link.listener->offers_cnt, 0);
	sxt_listener_close(link.listener);
}

static void accept_has_a_deadline_too(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.connect_rc = 1; /* nobody connects */
	rig_poll(&link);
	rig_advance(61 * SXT_NS_PER_SEC);
	rig_poll(&link);
	assert_int_equal(link.accept_rc, -ETIMEDOUT);
	assert_int_equal(rig_logged("still waiting for the peer to connect"), 1);
	sxt_listener_close(link.listener);
}

static void unlike_link_layers_are_refused_by_name(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	for (int i = 0; i < TURNS && sxt_list_empty(&link.listener->offers); i++) {
		link.connect_rc = sxt_connect(rig.ibs[0], NULL, 0, -1, &link.handle, &link.send);
		rig_turn();
	}
	SXT_LIST_ENTRY(link.listener->offers.next, struct sxt_offer, node)->paths[0].link_layer =
		IBV_LINK_LAYER_INFINIBAND;
	for (int i = 0; i < TURNS && link.connect_rc == -EAGAIN; i++)
		rig_poll(&link);
	assert_int_equal(link.accept_rc, -EOPNOTSUPP);
	assert_int_equal(link.connect_rc, -EOPNOTSUPP);
	assert_true(rig_logged("fake_1 is RoCE and") >= 2); /* at both ends */
	sxt_listener_close(link.listener);
}

/* How far a connection is made before it is dropped. */
static void drop_after(int polls)
{
	struct sxt_context *ctx;
	struct sxt_context *to_ctx;
	struct rig_link link;

	start_two();
	assert_int_equal(sxt_context_create(rig.ibs[0], -1, &ctx), 0);
	assert_int_equal(sxt_context_create(rig.ibs[1], -1, &to_ctx), 0);
	rig_listen(&link, rig.ibs[0], rig.ibs[1], to_ctx);
	link.from_ctx = ctx;
	for (int i = 0; i < polls; i++)
		rig_poll(&link);
	sxt_context_destroy(ctx);
	turn_often();
	sxt_context_destroy(to_ctx);
	turn_often();
	for (int i = 0; i < RIG_IBS; i++) {
		assert_int_equal(rig.ibs[i]->watcher->users_cnt, 0);
		sxt_ib_destroy(rig.ibs[i]);
		rig.ibs[i] = NULL;
	}
}

static void dropping_at_any_point_leaves_nothing(void **state)
{
	(void)state;
	for (int polls = 0; polls < 24; polls++)
		drop_after(polls);
}

static void what_was_not_dropped_goes_with_the_process(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.accept_rc = 1;
	for (int i = 0; i < 20; i++)
		rig_poll(&link);
	/* A listener, an offer and a half-made connection without a context are left. */
}

static void a_peer_that_gives_up_ends_accept(void **state)
{
	struct sxt_context *ctx;
	struct rig_link link;

	(void)state;
	start_two();
	assert_int_equal(sxt_context_create(rig.ibs[0], -1, &ctx), 0);
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.from_ctx = ctx;
	for (int i = 0; i < TURNS; i++) {
		rig_poll(&link);
		if (link.listener->attempt != NULL && link.listener->attempt->conn != NULL)
			break;
	}
	assert_non_null(link.listener->attempt);
	sxt_context_destroy(ctx);
	for (int i = 0; i < TURNS && link.accept_rc == -EAGAIN; i++) {
		link.accept_rc = sxt_accept(link.listener, &link.recv);
		rig_turn();
	}
	assert_int_equal(link.accept_rc, -ECONNRESET);
	assert_int_equal(rig_logged("the communicator was destroyed"), 1);
	sxt_listener_close(link.listener);
}

static void a_closed_peer_is_noted_with_its_progress(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&link);
	rig_move_message(&link);
	sxt_conn_close(link.recv);
	turn_often();
	assert_int_equal(link.send->ended, SXT_CONN_PEER_CLOSED);
	assert_int_equal(link.send->notes, SXT_NOTE_PEER_CLOSED);
	assert_int_equal(link.send->ctx->mailbox, 1);
	assert_int_equal(link.send->peer_progress.messages_taken, 1);
	assert_int_equal(link.send->peer_progress.cts_posted, 1);
	sxt_conn_close(link.send);
}

/* A peer that reads only while its sender really waits for it. */
static int wait_for_peer(int epfd, struct epoll_event *events, int max_events, int timeout_ms)
{
	int cnt = sxt_sys_host.epoll_wait(epfd, events, max_events, timeout_ms);

	if (cnt == 0 && timeout_ms > 0) {
		rig.sys.epoll_wait = sxt_sys_host.epoll_wait;
		sxt_watcher_step(rig.ibs[1]->watcher, 0);
		rig.sys.epoll_wait = wait_for_peer;
	}
	return cnt;
}

/* More than the sockets between two processes hold. */
static void fill_channel(struct sxt_side *from, const struct sxt_side *to)
{
	struct sxt_frame_out frame;
	int bytes = 4096;

	assert_int_equal(setsockopt(from->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(setsockopt(to->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	sxt_frame_begin(&frame, SXT_FRAME_READY, 9999, 9999);
	pthread_mutex_lock(&from->watcher->lock);
	while (from->tx.used < 16384)
		sxt_side_send(from, &frame);
	pthread_mutex_unlock(&from->watcher->lock);
}

static void a_slow_peer_hears_the_last_words(void **state)
{
	struct sxt_wire_handle handle;
	struct sxt_listener *listener;
	struct rig_link link;
	int fd;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&link);
	/* Somebody waits to be accepted, which keeps the watcher's epoll from sleeping. */
	assert_int_equal(sxt_listen(rig.ibs[0], NULL, 0, &handle, &listener), 0);
	fd = rig_dial(rig.ibs[0]);
	fill_channel(link.send->side, link.recv->side);
	rig.sys.epoll_wait = wait_for_peer;
	sxt_listener_close(listener);
	sxt_conn_close(link.send);
	rig.sys.epoll_wait = sxt_sys_host.epoll_wait;
	turn_often();
	assert_int_equal(link.recv->ended, SXT_CONN_PEER_CLOSED);
	assert_int_equal(link.recv->side->state, SXT_SIDE_DEAD);
	sxt_conn_close(link.recv);
	close(fd);
}

static void a_close_that_does_not_say_how_far_is_a_failure(void **state)
{
	struct sxt_watcher *watcher;
	struct sxt_frame_out frame;
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&link);
	watcher = rig.ibs[1]->watcher;
	pthread_mutex_lock(&watcher->lock);
	sxt_frame_begin(&frame, SXT_FRAME_CLOSE, link.recv->peer_id, link.recv->id);
	sxt_side_send(link.recv->side, &frame);
	pthread_mutex_unlock(&watcher->lock);
	turn_often();
	assert_int_equal(link.send->notes, SXT_NOTE_FAILED);
	assert_int_equal(link.send->note_error, -EPROTO);
	assert_int_equal(rig_logged("CLOSE"), 1);
	close_both(&link);
}

static void a_failed_peer_is_noted_and_its_words_logged(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&link);
	sxt_side_tell_failed(link.recv, -EIO, "the disk is on fire");
	turn_often();
	assert_int_equal(link.send->notes, SXT_NOTE_FAILED);
	assert_int_equal(link.send->note_error, -EREMOTEIO);
	assert_int_equal(rig_logged("the disk is on fire"), 1);
	close_both(&link);
}

static void settings_reach_the_connection(void **state)
{
	struct sxt_context *ctx;
	struct rig_link link;

	(void)state;
	rig.config.ib_fifo_tc = 96;
	start_two();
	assert_int_equal(sxt_context_create(rig.ibs[0], 33, &ctx), 0);
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.from_ctx = ctx;
	rig_join(&link);
	assert_int_equal(link.send->tclass, 33);
	assert_int_equal(link.recv->tclass, 96);
	close_both(&link);
	rig.config.ib_tc = 41;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	link.from_ctx = ctx;
	rig_join(&link);
	assert_int_equal(link.send->tclass, 41);
	close_both(&link);
	sxt_context_destroy(ctx);
}

/* Queue pairs that can still be made before the machine refuses. */
static int qps_left;
static int qps_refused_errno;

static struct ibv_qp *create_few_qps(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (qps_left-- > 0)
		return sxt_fake_verbs()->create_qp(pd, attr);
	errno = qps_refused_errno;
	return NULL;
}

static void an_accept_without_a_queue_pair_tells_the_peer(void **state)
{
	struct rig_link link;

	(void)state;
	qps_left = 1;
	qps_refused_errno = ENOMEM;
	rig.verbs.create_qp = create_few_qps;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	for (int i = 0; i < TURNS && link.connect_rc == -EAGAIN; i++)
		rig_poll(&link);
	assert_int_equal(link.accept_rc, -ENOMEM);
	assert_int_equal(link.connect_rc, -ENOMEM);
	assert_int_equal(rig_logged("the peer refuses: making its queue pair"), 1);
	sxt_listener_close(link.listener);
}

static void a_limit_that_says_again_ends_the_attempt(void **state)
{
	struct rig_link link;

	(void)state;
	qps_left = 0;
	qps_refused_errno = EAGAIN;
	rig.verbs.create_qp = create_few_qps;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	for (int i = 0; i < TURNS && link.connect_rc == -EAGAIN; i++)
		rig_poll(&link);
	assert_int_equal(link.connect_rc, -ENOMEM);
	assert_int_equal(rig_logged("making its queue pair"), 1);
	sxt_listener_close(link.listener);
}

static int refuse_epoll(int flags)
{
	(void)flags;
	errno = EAGAIN;
	return -1;
}

static void a_watcher_that_cannot_start_ends_the_attempt(void **state)
{
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig.sys.epoll_create1 = refuse_epoll;
	rig_poll(&link);
	assert_int_equal(link.connect_rc, -ENOMEM);
	sxt_listener_close(link.listener);
}

/* NCCL's bootstrap keeps handles where chars may lie. */
static void a_handle_may_lie_anywhere(void **state)
{
	_Alignas(8) char bytes[SXT_HANDLE_BYTES + 4];
	struct rig_link link;

	(void)state;
	start_two();
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	memcpy(bytes + 4, &link.handle, SXT_HANDLE_BYTES);
	for (int i = 0; i < TURNS && link.connect_rc == -EAGAIN; i++) {
		link.connect_rc =
			sxt_connect(rig.ibs[0], NULL, 0, SXT_TCLASS_DEFAULT, bytes + 4, &link.send);
		link.accept_rc = link.accept_rc != -EAGAIN ? link.accept_rc
							   : sxt_accept(link.listener, &link.recv);
		rig_turn();
	}
	rig_join(&link);
	close_both(&link);
}

static void a_stopped_transport_makes_no_connection(void **state)
{
	struct sxt_wire_handle handle;
	struct sxt_listener *listener = NULL;
	struct rig_link link;

	(void)state;
	assert_int_equal(rig_start(0, false), 0);
	rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
	rig_join(&link);
	sxt_ib_stop(rig.ibs[0]);
	sxt_ib_stop(rig.ibs[0]);
	assert_int_equal(sxt_listen(rig.ibs[0], NULL, 0, &handle, &listener), -ENODEV);
	assert_null(listener);
	sxt_conn_close(link.send);
	sxt_conn_close(link.recv);
}

static void traffic_across_rails_is_told_where_that_is_asked_for(void **state)
{
	struct rig_link link;

	(void)state;
	rig_set(&rig.config.ib_hca, "fake_0:1:3,fake_1:1:0");
	assert_int_equal(rig_start(0, false), 0);
	for (uint32_t i = 0; i < 2; i++) {
		rig.config.ib_warn_rail_local = i;
		rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
		rig_join(&link);
		assert_int_equal(rig_logged("leaves its rail"), i * 2);
		sxt_conn_close(link.send);
		sxt_conn_close(link.recv);
	}
	assert_int_equal(rig_logged("port fake_0 on rail 3 is connected with "), 1);
	assert_int_equal(rig_logged("port fake_1 on rail 0 is connected with "), 1);
}

static void a_forked_child_is_refused(void **state)
{
	struct sxt_wire_handle handle;
	struct sxt_listener *listener;
	int status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(rig_start(0, true), 0);
	pid = fork();
	if (pid == 0)
		_exit(sxt_listen(rig.ibs[0], NULL, 0, &handle, &listener) == -EINVAL ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define THREADS       4
#define THREAD_ROUNDS 12

struct worker {
	pthread_t thread;
	int i;
	int failures_cnt;
};

/* No assertion of cmocka's may be made on a thread of ours. */
static bool connect_and_close(struct sxt_ib *from, struct sxt_ib *to)
{
	struct sxt_wire_handle handle;
	struct sxt_listener *listener = NULL;
	struct sxt_conn *send = NULL;
	struct sxt_conn *recv = NULL;
	int connect_rc = -EAGAIN;
	int accept_rc = -EAGAIN;

	if (sxt_listen(to, NULL, 0, &handle, &listener) != 0)
		return false;
	while (connect_rc == -EAGAIN || accept_rc == -EAGAIN) {
		if (connect_rc == -EAGAIN)
			connect_rc = sxt_connect(from, NULL, 1, -1, &handle, &send);
		if (accept_rc == -EAGAIN)
			accept_rc = sxt_accept(listener, &recv);
		sched_yield();
	}
	sxt_listener_close(listener);
	sxt_conn_close(send);
	sxt_conn_close(recv);
	return connect_rc == 0 && accept_rc == 0;
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (int round = 0; round < THREAD_ROUNDS; round++) {
		int from = (worker->i + round) % 3 == 0;

		if (!connect_and_close(rig.ibs[from], rig.ibs[1 - from]))
			worker->failures_cnt++;
	}
	return NULL;
}

/* One channel of a process breaks, as a cable or a firewall would have it. */
static void cut_something(struct sxt_ib *ib)
{
	struct sxt_list *node;
	struct sxt_list *after;

	pthread_mutex_lock(&ib->watcher->lock);
	sxt_list_for_each (node, after, &ib->watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (side->state == SXT_SIDE_UP)
			shutdown(side->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&ib->watcher->lock);
}

static void threads_connect_while_channels_break(void **state)
{
	struct worker workers[THREADS];
	struct sxt_wire_handle handles[RIG_IBS];
	struct sxt_listener *listeners[RIG_IBS];

	(void)state;
	rig.sys.now_ns = sxt_sys_host.now_ns;
	for (int i = 0; i < RIG_IBS; i++) {
		assert_int_equal(rig_start(i, false), 0);
		/* Keeps its watcher running throughout. */
		assert_int_equal(sxt_listen(rig.ibs[i], NULL, 0, &handles[i], &listeners[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.i = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 8; i++) {
		cut_something(rig.ibs[i % 2]);
		poll(NULL, 0, 5); /* nothing hangs on how long */
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].failures_cnt, 0);
	}
	for (int i = 0; i < RIG_IBS; i++)
		sxt_listener_close(listeners[i]);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(two_processes_connect_and_move_data),
		RIG_TEST(one_process_connects_to_itself),
		RIG_TEST(the_watcher_threads_do_the_same),
		RIG_TEST(threads_connect_while_channels_break),
		RIG_TEST(contexts_keep_their_connections_apart),
		RIG_TEST(many_connections_share_one_channel),
		RIG_TEST(one_listener_accepts_many),
		RIG_TEST(foreign_and_damaged_handles_are_refused),
		RIG_TEST(a_wrong_token_is_told_to_both),
		RIG_TEST(a_wrong_token_on_a_shared_channel_hurts_nobody_else),
		RIG_TEST(a_listener_closed_before_accept_refuses),
		RIG_TEST(a_listener_closed_before_connect_refuses),
		RIG_TEST(a_process_that_is_gone_refuses_after_a_while),
		RIG_TEST(a_peer_that_says_nothing_meets_the_deadline),
		RIG_TEST(accept_has_a_deadline_too),
		RIG_TEST(unlike_link_layers_are_refused_by_name),
		RIG_TEST(dropping_at_any_point_leaves_nothing),
		RIG_TEST(what_was_not_dropped_goes_with_the_process),
		RIG_TEST(a_peer_that_gives_up_ends_accept),
		RIG_TEST(a_closed_peer_is_noted_with_its_progress),
		RIG_TEST(a_slow_peer_hears_the_last_words),
		RIG_TEST(a_close_that_does_not_say_how_far_is_a_failure),
		RIG_TEST(a_failed_peer_is_noted_and_its_words_logged),
		RIG_TEST(settings_reach_the_connection),
		RIG_TEST(an_accept_without_a_queue_pair_tells_the_peer),
		RIG_TEST(a_limit_that_says_again_ends_the_attempt),
		RIG_TEST(a_watcher_that_cannot_start_ends_the_attempt),
		RIG_TEST(a_handle_may_lie_anywhere),
		RIG_TEST(a_stopped_transport_makes_no_connection),
		RIG_TEST(traffic_across_rails_is_told_where_that_is_asked_for),
		RIG_TEST(a_forked_child_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
