/*
 * test_plugin_faults.c - every call that the plugin makes below its oldest and its newest table
 * while NCCL initialises, listens, connects, accepts and registers fails once.
 */
#include "core/log.h"
#include "ib/process.h"
#include "plugin/nccl/net.h"
#include "tests/torture/faults.h"
#include "tests/torture/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS_MAX   5000
#define ROUNDS_QUICK 200 /* that long the clock stands */
#define ROUND_NS     (50 * SXT_NS_PER_MS)
#define BUFFERS_CNT  20 /* more than the first table of registrations holds */
#define BUFFER_BYTES 4096
#define MESSAGE_TAG  3
#define POISONED_DEV (-77)
#define TURNS_CLOSE  20

extern struct nccl_net_v6 ncclNetPlugin_v6;
extern struct nccl_net_v12 ncclNetPlugin_v12;

/* What the paths call, whichever the version. */
struct calls {
	ncclResult_t (*init)(void);
	void (*fini)(void);
	ncclResult_t (*listen)(void *handle, void **comm);
	ncclResult_t (*connect)(void *handle, void **comm);
	ncclResult_t (*accept)(void *listener, void **comm);
	ncclResult_t (*reg_mr)(void *comm, void *data, void **mr);
	ncclResult_t (*isend)(void *comm, void *data, void *mr, void **request);
	ncclResult_t (*irecv)(void *comm, void *data, void *mr, void **request);
};

static struct {
	const struct calls *calls;
	void *ctx;
	int dev;           /* that both ends use */
	struct sxt_ib *ib; /* the transport behind it, whose watcher the test turns */
	void *listener;
	void *first_listener; /* keeps the watcher and its side channels */
	void *send;
	void *recv;
	uint8_t *buffers;
	void *mrs[BUFFERS_CNT];
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
} bench;

static void logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	SXT_PRINTF(5, 6);

static void logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
	if (level == NCCL_LOG_WARN)
		torture_said();
}

static ncclResult_t init_v6(void)
{
	return ncclNetPlugin_v6.init(logger);
}

/* There is no call for it: the transport goes from under the plugin, and the process anew. */
static void fini_v6(void)
{
	struct sxt_ib *ib;

	assert_int_equal(sxt_ib_get(&ib), 0);
	sxt_ib_put(ib);
	sxt_ib_put(ib);
	faults_new_process();
}

static ncclResult_t listen_v6(void *handle, void **comm)
{
	return ncclNetPlugin_v6.listen(bench.dev, handle, comm);
}

static ncclResult_t connect_v6(void *handle, void **comm)
{
	return ncclNetPlugin_v6.connect(bench.dev, handle, comm);
}

static ncclResult_t accept_v6(void *listener, void **comm)
{
	return ncclNetPlugin_v6.accept(listener, comm);
}

static ncclResult_t reg_mr_v6(void *comm, void *data, void **mr)
{
	return ncclNetPlugin_v6.regMr(comm, data, BUFFER_BYTES, NCCL_PTR_HOST, mr);
}

static ncclResult_t isend_v6(void *comm, void *data, void *mr, void **request)
{
	return ncclNetPlugin_v6.isend(comm, data, BUFFER_BYTES, MESSAGE_TAG, mr, request);
}

static ncclResult_t irecv_v6(void *comm, void *data, void *mr, void **request)
{
	int bytes = BUFFER_BYTES;
	int tag = MESSAGE_TAG;

	return ncclNetPlugin_v6.irecv(comm, 1, &data, &bytes, &tag, &mr, request);
}

static ncclResult_t init_v12(void)
{
	struct nccl_net_comm_config config = {.trafficClass = NCCL_NET_UNDEFINED};
	ncclResult_t result;

	bench.ctx = TORTURE_POISON;
	result = ncclNetPlugin_v12.init(&bench.ctx, 1, &config, logger, NULL);
	if (result != ncclSuccess)
		assert_ptr_equal(bench.ctx, TORTURE_POISON);
	return result;
}

static void fini_v12(void)
{
	assert_int_equal(ncclNetPlugin_v12.finalize(bench.ctx), ncclSuccess);
}

static ncclResult_t listen_v12(void *handle, void **comm)
{
	return ncclNetPlugin_v12.listen(bench.ctx, bench.dev, handle, comm);
}

static ncclResult_t connect_v12(void *handle, void **comm)
{
	struct nccl_net_device_handle *device = TORTURE_POISON;
	ncclResult_t result =
		ncclNetPlugin_v12.connect(bench.ctx, bench.dev, handle, comm, &device);

	assert_ptr_equal(device, TORTURE_POISON);
	return result;
}

static ncclResult_t accept_v12(void *listener, void **comm)
{
	struct nccl_net_device_handle *device = TORTURE_POISON;
	ncclResult_t result = ncclNetPlugin_v12.accept(listener, comm, &device);

	assert_ptr_equal(device, TORTURE_POISON);
	return result;
}

static ncclResult_t reg_mr_v12(void *comm, void *data, void **mr)
{
	return ncclNetPlugin_v12.regMr(comm, data, BUFFER_BYTES, NCCL_PTR_HOST, mr);
}

static ncclResult_t isend_v12(void *comm, void *data, void *mr, void **request)
{
	return ncclNetPlugin_v12.isend(comm, data, BUFFER_BYTES, MESSAGE_TAG, mr, NULL, request);
}

static ncclResult_t irecv_v12(void *comm, void *data, void *mr, void **request)
{
	size_t bytes = BUFFER_BYTES;
	int tag = MESSAGE_TAG;

	return ncclNetPlugin_v12.irecv(comm, 1, &data, &bytes, &tag, &mr, NULL, request);
}

static const struct calls calls_v6 = {
	.init = init_v6,
	.fini = fini_v6,
	.listen = listen_v6,
	.connect = connect_v6,
	.accept = accept_v6,
	.reg_mr = reg_mr_v6,
	.isend = isend_v6,
	.irecv = irecv_v6,
};

static const struct calls calls_v12 = {
	.init = init_v12,
	.fini = fini_v12,
	.listen = listen_v12,
	.connect = connect_v12,
	.accept = accept_v12,
	.reg_mr = reg_mr_v12,
	.isend = isend_v12,
	.irecv = irecv_v12,
};

static void turn(void)
{
	torture_turn(bench.ib);
}

static void nothing(void)
{
}

static int init(void)
{
	return (int)bench.calls->init();
}

static void fini(void)
{
	bench.calls->fini();
}

static void find_transport(void)
{
	assert_int_equal(sxt_ib_get(&bench.ib), 0);
	sxt_ib_put(bench.ib);
}

static int listen_once(void)
{
	uint8_t poisoned[NCCL_NET_HANDLE_BYTES];
	ncclResult_t result;

	memset(poisoned, 0x5a, sizeof(poisoned));
	memcpy(bench.handle, poisoned, sizeof(poisoned));
	bench.listener = TORTURE_POISON;
	result = bench.calls->listen(bench.handle, &bench.listener);
	if (result != ncclSuccess) {
		assert_ptr_equal(bench.listener, TORTURE_POISON);
		assert_memory_equal(bench.handle, poisoned, sizeof(poisoned));
	}
	return (int)result;
}

static void close_listener(void)
{
	assert_int_equal(ncclNetPlugin_v12.closeListen(bench.listener), ncclSuccess);
}

/* One poll: success with a comm, success without one to be polled again, or an error. */
static bool is_over(ncclResult_t result, void *const *comm)
{
	if (result != ncclSuccess)
		assert_ptr_equal(*comm, TORTURE_POISON);
	return result != ncclSuccess || *comm != NULL;
}

static void close_ends(void)
{
	assert_int_equal(ncclNetPlugin_v12.closeSend(bench.send), ncclSuccess);
	for (int i = 0; i < TURNS_CLOSE; i++)
		turn();
	assert_int_equal(ncclNetPlugin_v12.closeRecv(bench.recv), ncclSuccess);
}

/*
 * Polled by turns, as far as they are not over. An accept that nobody has come to waits as long as
 * its listener lives.
 */
static ncclResult_t join(void)
{
	ncclResult_t connected = ncclSuccess;
	ncclResult_t accepted = ncclSuccess;
	bool connect_is_over = false;
	bool accept_is_over = false;
	int after = 0;

	for (int i = 0; i < ROUNDS_MAX && after < ROUNDS_QUICK; i++) {
		if (!connect_is_over) {
			bench.send = TORTURE_POISON;
			connected = bench.calls->connect(bench.handle, &bench.send);
			connect_is_over = is_over(connected, &bench.send);
		}
		if (!accept_is_over) {
			bench.recv = TORTURE_POISON;
			accepted = bench.calls->accept(bench.listener, &bench.recv);
			accept_is_over = is_over(accepted, &bench.recv);
		}
		turn();
		if (connect_is_over && accept_is_over)
			break;
		after += connect_is_over;
		if (i > ROUNDS_QUICK)
			faults_advance(ROUND_NS);
	}
	assert_true(connect_is_over);
	assert_true(accept_is_over || connected != ncclSuccess);
	if (connected != ncclSuccess)
		bench.send = NULL;
	if (accepted != ncclSuccess)
		bench.recv = NULL;
	return accepted != ncclSuccess ? accepted : connected;
}

static int make_both_ends(void)
{
	ncclResult_t result;
	int rc = listen_once();

	if (rc != 0)
		return rc;
	result = join();
	close_listener();
	if (result != ncclSuccess)
		close_ends();
	return (int)result;
}

static void finish(void *request)
{
	int done = 0;

	assert_non_null(request);
	for (int i = 0; i < ROUNDS_MAX && done == 0; i++) {
		assert_int_equal(ncclNetPlugin_v12.test(request, &done, NULL), ncclSuccess);
		turn();
	}
	assert_int_equal(done, 1);
}

/* A message between two buffers. */
static void move_message(uint8_t *from, uint8_t *to)
{
	const struct calls *calls = bench.calls;
	void *received = NULL;
	void *sent = NULL;
	void *from_mr;
	void *to_mr;

	for (size_t i = 0; i < BUFFER_BYTES; i++)
		from[i] = (uint8_t)(i * 13 + 5);
	memset(to, 0, BUFFER_BYTES);
	assert_int_equal(calls->reg_mr(bench.send, from, &from_mr), ncclSuccess);
	assert_int_equal(calls->reg_mr(bench.recv, to, &to_mr), ncclSuccess);
	assert_int_equal(calls->irecv(bench.recv, to, to_mr, &received), ncclSuccess);
	assert_int_equal(calls->isend(bench.send, from, from_mr, &sent), ncclSuccess);
	finish(sent);
	finish(received);
	assert_memory_equal(from, to, BUFFER_BYTES);
	assert_int_equal(ncclNetPlugin_v12.deregMr(bench.send, from_mr), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.deregMr(bench.recv, to_mr), ncclSuccess);
}

static void take_buffers(void)
{
	void *memory = NULL;

	assert_int_equal(posix_memalign(&memory, BUFFER_BYTES, BUFFERS_CNT * BUFFER_BYTES), 0);
	bench.buffers = memory;
}

static void use_both_ends(void)
{
	take_buffers();
	move_message(bench.buffers, bench.buffers + BUFFER_BYTES);
	free(bench.buffers);
}

/* What the plugin says it has is there, and carries a connection. */
static void use_plugin(void)
{
	int cnt = 0;

	assert_int_equal(ncclNetPlugin_v12.devices(&cnt), ncclSuccess);
	assert_in_range(cnt, 1, 3); /* two ports, and both as one */
	find_transport();
	assert_int_equal(make_both_ends(), ncclSuccess);
	use_both_ends();
	close_ends();
}

static const char *const init_calls[] = {"open",      "strdup", "dlopen",          "dlvsym",
					 "getrandom", "calloc", "get_device_list", "open_device",
					 NULL};
static const char *const link_calls[] = {"pthread_create", "socket",    "calloc",
					 "mmap",           "create_cq", "create_qp",
					 "modify_qp",      "reg_mr",    NULL};
static const char *const listen_calls[] = {"pthread_create", "socket", "calloc", NULL};
static const char *const register_calls[] = {"realloc", "posix_memalign", "reg_mr_iova2", NULL};

static const int init_errors[] = {ncclSystemError, 0};
/* A state that the driver refuses to enter, and memory that cannot be registered, are EINVAL and
 * EFAULT. */
static const int link_errors[] = {ncclSystemError, ncclRemoteError, ncclInvalidArgument, 0};
static const int register_errors[] = {ncclSystemError, ncclInvalidArgument, 0};

static const struct torture_path init_path = {
	.name = "init",
	.is_nccl = true,
	.calls = init_calls,
	.errors = init_errors,
	.setup = nothing,
	.act = init,
	.use = use_plugin,
	.undo = fini,
	.teardown = nothing,
};

static void open_plugin(void)
{
	assert_int_equal(init(), ncclSuccess);
	find_transport();
}

static void use_listener(void)
{
	assert_int_equal(join(), ncclSuccess);
	use_both_ends();
	close_ends();
}

static const struct torture_path listen_path = {
	.name = "listen",
	.is_nccl = true,
	.calls = listen_calls,
	.errors = init_errors,
	.setup = open_plugin,
	.act = listen_once,
	.use = use_listener,
	.undo = close_listener,
	.teardown = fini,
};

static const struct torture_path link_path = {
	.name = "listen, connect and accept",
	.is_nccl = true,
	.calls = link_calls,
	.keeps = true,
	.keeps_cqs = true,
	.errors = link_errors,
	.setup = open_plugin,
	.act = make_both_ends,
	.use = use_both_ends,
	.undo = close_ends,
	.teardown = fini,
};

static const char *const again_calls[] = {"calloc", "mmap", "create_qp", "reg_mr", NULL};

/* A communicator keeps its completion queue, and a process its side channel to the peer. */
static void open_plugin_warm(void)
{
	open_plugin();
	assert_int_equal(listen_once(), ncclSuccess);
	assert_int_equal(join(), ncclSuccess);
	close_ends();
	bench.first_listener = bench.listener;
}

static void close_plugin_warm(void)
{
	assert_int_equal(ncclNetPlugin_v12.closeListen(bench.first_listener), ncclSuccess);
	fini();
}

static const struct torture_path again_path = {
	.name = "listen, connect and accept once more",
	.is_nccl = true,
	.calls = again_calls,
	.keeps = true,
	.errors = link_errors,
	.setup = open_plugin_warm,
	.act = make_both_ends,
	.use = use_both_ends,
	.undo = close_ends,
	.teardown = close_plugin_warm,
};

static const char *const merge_calls[] = {"calloc", NULL};

static int merge(void)
{
	struct nccl_net_vdev_props_v12 parts = {.ndevs = 2, .devs = {0, 1}};
	int dev = POISONED_DEV;
	ncclResult_t result = ncclNetPlugin_v12.makeVDevice(&dev, &parts);

	assert_int_equal(dev, result == ncclSuccess ? 2 : POISONED_DEV);
	bench.dev = dev;
	return (int)result;
}

static void use_merged(void)
{
	use_plugin();
	bench.dev = 0;
}

static const struct torture_path merge_path = {
	.name = "makeVDevice",
	.is_nccl = true,
	.calls = merge_calls,
	.errors = init_errors,
	.setup = open_plugin,
	.act = merge,
	.use = use_merged,
	.undo = nothing,
	.teardown = fini,
};

static void open_plugin_with_ends(void)
{
	open_plugin();
	assert_int_equal(make_both_ends(), ncclSuccess);
	take_buffers();
}

static void deregister_all(void)
{
	for (int i = 0; i < BUFFERS_CNT; i++) {
		assert_int_equal(ncclNetPlugin_v12.deregMr(bench.send, bench.mrs[i]), ncclSuccess);
		bench.mrs[i] = NULL;
	}
}

static int register_all(void)
{
	ncclResult_t result = ncclSuccess;

	for (size_t i = 0; i < BUFFERS_CNT && result == ncclSuccess; i++) {
		bench.mrs[i] = TORTURE_POISON;
		result = bench.calls->reg_mr(bench.send, bench.buffers + i * BUFFER_BYTES,
					     &bench.mrs[i]);
		if (result != ncclSuccess) {
			assert_ptr_equal(bench.mrs[i], TORTURE_POISON);
			bench.mrs[i] = NULL;
		}
	}
	if (result != ncclSuccess)
		deregister_all();
	return (int)result;
}

static void use_registrations(void)
{
	move_message(bench.buffers, bench.buffers + BUFFER_BYTES);
}

static void close_plugin_with_ends(void)
{
	close_ends();
	free(bench.buffers);
	fini();
}

static const struct torture_path register_path = {
	.name = "regMr",
	.is_nccl = true,
	.calls = register_calls,
	.keeps = true,
	.errors = register_errors,
	.setup = open_plugin_with_ends,
	.act = register_all,
	.use = use_registrations,
	.undo = deregister_all,
	.teardown = close_plugin_with_ends,
};

/* Every path below one table, which is the test's state. */
static void init_fails(void **state)
{
	memset(&bench, 0, sizeof(bench));
	bench.calls = *state;
	torture_run(&init_path);
}

static void listen_fails(void **state)
{
	memset(&bench, 0, sizeof(bench));
	bench.calls = *state;
	torture_run(&listen_path);
}

static void connect_and_accept_fail(void **state)
{
	memset(&bench, 0, sizeof(bench));
	bench.calls = *state;
	torture_run(&link_path);
}

static void the_next_ones_fail(void **state)
{
	memset(&bench, 0, sizeof(bench));
	bench.calls = *state;
	torture_run(&again_path);
}

static void merging_fails(void **state)
{
	memset(&bench, 0, sizeof(bench));
	bench.calls = *state;
	torture_run(&merge_path);
}

static void registering_fails(void **state)
{
	memset(&bench, 0, sizeof(bench));
	bench.calls = *state;
	torture_run(&register_path);
}

#define BELOW(test, table)                                          \
	{                                                           \
		.name = #test " below " #table, .test_func = test,  \
		.initial_state = (void *)(uintptr_t)&calls_##table, \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BELOW(init_fails, v6),
		BELOW(init_fails, v12),
		BELOW(listen_fails, v6),
		BELOW(listen_fails, v12),
		BELOW(connect_and_accept_fail, v6),
		BELOW(connect_and_accept_fail, v12),
		BELOW(the_next_ones_fail, v6),
		BELOW(the_next_ones_fail, v12),
		BELOW(merging_fails, v12),
		BELOW(registering_fails, v6),
		BELOW(registering_fails, v12),
	};

	return cmocka_run_group_tests(tests, torture_setup, NULL);
}
