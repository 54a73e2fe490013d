/*
 * torture.c - see torture.h.
 */
#include "tests/torture/torture.h"

#include "ib/process.h"
#include "ib/watcher.h"
#include "tests/fake/verbs.h"
#include "tests/torture/faults.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS_MAX     1000
#define ROUNDS_MAX    5000
#define ROUNDS_QUICK  200 /* that long the clock stands */
#define ROUND_NS      (50 * SXT_NS_PER_MS)
#define MESSAGE_BYTES 4096
#define TURNS_CLOSE   20

static int said_cnt;

int torture_setup(void **state)
{
	static const struct sxt_fake_config machine = {
		.devices_cnt = 2,
		.inline_bytes = 64,
		.max_msg_bytes = 1u << 30,
		.max_cqe = 1 << 20,
	};

	(void)state;
	assert_int_equal(sxt_fake_reset(&machine), 0);
	assert_int_equal(setenv("NCCL_SOCKET_IFNAME", "=lo", 1), 0);
	return 0;
}

void torture_said(void)
{
	said_cnt++;
}

/* One run of a path. */
struct run {
	const struct torture_path *path;
	uint32_t k;
	const char *failed; /* the call that did, or NULL */
	int error;
};

static struct faults_live live_of(const struct torture_path *path)
{
	struct faults_live live = faults_live();

	live.others = path->count != NULL ? path->count() : 0;
	return live;
}

static void check_live(const struct run *run, const char *when, const struct faults_live *before,
		       bool is_final)
{
	struct faults_live now = live_of(run->path);

	if (!is_final && run->path->keeps && now.blocks > before->blocks)
		now.blocks = before->blocks;
	if (!is_final && run->path->keeps_cqs && now.objects > before->objects)
		now.objects = before->objects;
	if (memcmp(&now, before, sizeof(now)) == 0)
		return;
	fail_msg("%s, call %u (%s) failed, %s: alive are %ld blocks (before: %ld), %ld mappings "
		 "(%ld), %ld threads (%ld), %ld libraries (%ld), %ld verbs objects (%ld), %ld "
		 "descriptors (%ld), %ld others (%ld)",
		 run->path->name, run->k, run->failed != NULL ? run->failed : "none", when,
		 now.blocks, before->blocks, now.mappings, before->mappings, now.threads,
		 before->threads, now.libraries, before->libraries, now.objects, before->objects,
		 now.fds, before->fds, now.others, before->others);
}

static void check_error(const struct run *run, int rc)
{
	bool is_known = !run->path->is_nccl && (rc == -ENOMEM || rc == -run->error);

	for (const int *error = run->path->errors; *error != 0 && !is_known; error++)
		is_known = rc == *error;
	/* "Call again" is not how a path ends. */
	if (run->failed == NULL || !is_known || (rc == -EAGAIN && !run->path->is_nccl))
		fail_msg("%s, call %u (%s) failed: the answer is %d", run->path->name, run->k,
			 run->failed != NULL ? run->failed : "none", rc);
	if (said_cnt == 0 && !run->path->is_mute)
		fail_msg("%s, call %u (%s) failed: nothing was logged", run->path->name, run->k,
			 run->failed);
}

/* Return: the call that failed, NULL if there was no k-th one. */
static const char *run_with_failing_call(const struct torture_path *path, uint32_t k)
{
	struct run run = {.path = path, .k = k};
	struct faults_live before = live_of(path);
	struct faults_live ready;
	int rc;

	path->setup();
	ready = live_of(path);
	said_cnt = 0;
	faults_arm(k);
	rc = path->act();
	faults_disarm();
	run.failed = faults_failed(&run.error);
	if (rc != 0) {
		check_error(&run, rc);
		check_live(&run, "after it", &ready, false);
		rc = path->act();
		if (rc != 0)
			fail_msg("%s, call %u (%s) failed: the next try answers %d", path->name, k,
				 run.failed, rc);
	}
	path->use();
	path->undo();
	path->teardown();
	/* The first run may make what the process keeps. */
	if (k > 0)
		check_live(&run, "at the end", &before, true);
	return run.failed;
}

void torture_run(const struct torture_path *path)
{
	const char *failed[CALLS_MAX];
	uint32_t stride = path->stride != 0 ? path->stride : 1;
	uint32_t cnt = 0;

	run_with_failing_call(path, 0);
	while (cnt < CALLS_MAX) {
		failed[cnt] = run_with_failing_call(path, cnt * stride + 1);
		if (failed[cnt] == NULL)
			break;
		cnt++;
	}
	assert_in_range(cnt, 1, CALLS_MAX - 1);
	print_message("%s: %u calls failed\n", path->name, cnt);
	/* One that was not seen is not wrapped any more, or the path is not what it was. */
	for (const char *const *call = path->calls; *call != NULL; call++) {
		uint32_t i = 0;

		while (i < cnt && strcmp(failed[i], *call) != 0)
			i++;
		if (i == cnt)
			fail_msg("%s: %s was never made to fail", path->name, *call);
	}
}

void torture_turn(struct sxt_ib *ib)
{
	if (ib != NULL && ib->watcher->users_cnt > 0)
		sxt_watcher_step(ib->watcher, 0);
}

static void turn_both(const struct torture_link *link)
{
	torture_turn(link->from);
	if (link->to != link->from)
		torture_turn(link->to);
}

void torture_link_close(struct torture_link *link)
{
	sxt_conn_close(link->send);
	for (int i = 0; i < TURNS_CLOSE; i++)
		turn_both(link);
	sxt_conn_close(link->recv);
	link->send = NULL;
	link->recv = NULL;
}

/* Where a call put something it must have succeeded, else nothing may be there. */
static void check_output(int rc, void **out)
{
	if (rc == 0)
		assert_ptr_not_equal(*out, TORTURE_POISON);
	else
		assert_ptr_equal(*out, TORTURE_POISON);
	if (rc != 0)
		*out = NULL;
}

static int begin(struct torture_link *link)
{
	struct sxt_wire_handle poisoned;
	int rc;

	memset(&poisoned, 0x5a, sizeof(poisoned));
	link->handle = poisoned;
	link->listener = TORTURE_POISON;
	link->send = TORTURE_POISON;
	link->recv = TORTURE_POISON;
	rc = sxt_listen(link->to, link->to_ctx, link->to_dev, &link->handle, &link->listener);
	check_output(rc, (void **)&link->listener);
	if (rc != 0)
		assert_memory_equal(&link->handle, &poisoned, sizeof(poisoned));
	return rc;
}

/*
 * Polled by turns. An end whose peer has failed must hear of it, but an accept that nobody has come
 * to waits as long as its listener lives, so that it is not waited for.
 */
static int join(struct torture_link *link)
{
	int connect_rc = -EAGAIN;
	int accept_rc = -EAGAIN;
	int after = 0;

	for (int i = 0; i < ROUNDS_MAX && after < ROUNDS_QUICK; i++) {
		if (connect_rc == -EAGAIN)
			connect_rc = sxt_connect(link->from, link->from_ctx, link->from_dev,
						 SXT_TCLASS_DEFAULT, &link->handle, &link->send);
		if (accept_rc == -EAGAIN)
			accept_rc = sxt_accept(link->listener, &link->recv);
		turn_both(link);
		if (connect_rc != -EAGAIN && accept_rc != -EAGAIN)
			break;
		after += connect_rc != -EAGAIN;
		if (i > ROUNDS_QUICK)
			faults_advance(ROUND_NS);
	}
	if (connect_rc == -EAGAIN || (connect_rc == 0 && accept_rc == -EAGAIN))
		fail_msg("neither made nor failed: connect %d, accept %d", connect_rc, accept_rc);
	check_output(connect_rc, (void **)&link->send);
	check_output(accept_rc, (void **)&link->recv);
	if (accept_rc != 0 && accept_rc != -EAGAIN)
		return accept_rc;
	return connect_rc;
}

int torture_link_make(struct torture_link *link)
{
	int rc = begin(link);

	if (rc != 0)
		return rc;
	rc = join(link);
	sxt_listener_close(link->listener);
	link->listener = NULL;
	if (rc != 0)
		torture_link_close(link);
	return rc;
}

static struct sxt_mr *take_buffer(struct sxt_conn *conn, uint8_t **out)
{
	struct sxt_mr_spec spec = {.bytes = MESSAGE_BYTES, .dmabuf_fd = -1};
	struct sxt_mr *mr;

	assert_int_equal(posix_memalign(&spec.addr, MESSAGE_BYTES, MESSAGE_BYTES), 0);
	memset(spec.addr, 0, MESSAGE_BYTES);
	assert_int_equal(sxt_mr_get(conn, &spec, &mr), 0);
	*out = spec.addr;
	return mr;
}

static void finish(const struct torture_link *link, struct sxt_request *request, int *bytes)
{
	bool is_done = false;

	for (int i = 0; i < ROUNDS_MAX && !is_done; i++) {
		assert_int_equal(sxt_test(request, &is_done, bytes), 0);
		turn_both(link);
	}
	assert_true(is_done);
}

void torture_link_use(struct torture_link *link)
{
	uint64_t bytes = MESSAGE_BYTES;
	struct sxt_request *sent = NULL;
	struct sxt_request *received;
	uint8_t *from;
	uint8_t *to;
	struct sxt_mr *from_mr = take_buffer(link->send, &from);
	struct sxt_mr *to_mr = take_buffer(link->recv, &to);
	const struct sxt_recv_spec spec = {
		.cnt = 1, .data = (void **)&to, .bytes = &bytes, .tags = &(int){7}, .mrs = &to_mr};
	int got = 0;

	for (size_t i = 0; i < MESSAGE_BYTES; i++)
		from[i] = (uint8_t)(i * 31 + 1);
	assert_int_equal(sxt_recv(link->recv, &spec, &received), 0);
	assert_int_equal(sxt_send(link->send, from, bytes, 7, from_mr, &sent), 0);
	finish(link, sent, NULL);
	finish(link, received, &got);
	assert_int_equal(got, MESSAGE_BYTES);
	assert_memory_equal(from, to, MESSAGE_BYTES);
	sxt_mr_put(link->send, from_mr);
	sxt_mr_put(link->recv, to_mr);
	free(from);
	free(to);
}
