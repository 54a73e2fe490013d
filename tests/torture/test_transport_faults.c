/*
 * test_transport_faults.c - every call that the transport makes while a process opens it, listens,
 * connects, accepts and registers fails once.
 */
#include "core/config.h"
#include "core/log.h"
#include "ib/process.h"
#include "tests/torture/faults.h"
#include "tests/torture/torture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BUFFERS_CNT  40 /* more than the first table of registrations holds */
#define BUFFER_BYTES 4096
#define PATHS_CNT    4
#define POISONED_DEV (-77)
#define TABLE_FIRST  16 /* slots of a context, attempts of a process, before the table grows */

/* Two processes, as far as the transport can tell, and what a path makes in them. */
static struct {
	struct sxt_config config;
	struct sxt_ib *ibs[2];
	struct sxt_context *ctx;
	struct sxt_context *ctxs[2];
	struct sxt_listener *listener;
	struct sxt_wire_handle handle;
	struct torture_link link;
	uint8_t *buffers;
	struct sxt_mr *mrs[BUFFERS_CNT];
} bench;

static void sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	(void)text;
	if (level <= SXT_LOG_WARN)
		torture_said();
}

static void nothing(void)
{
}

static int open_transport(int i)
{
	const struct sxt_ib_parts parts = {
		.sys = &sxt_sys_host,
		.config = &bench.config,
		.verbs = faults_verbs(),
		.is_manual = false,
	};

	return sxt_ib_create(&parts, &bench.ibs[i]);
}

static void open_two(void)
{
	memset(&bench, 0, sizeof(bench));
	assert_int_equal(sxt_config_load(&bench.config), 0);
	assert_int_equal(open_transport(0), 0);
	assert_int_equal(open_transport(1), 0);
}

static void close_two(void)
{
	sxt_ib_destroy(bench.ibs[0]);
	sxt_ib_destroy(bench.ibs[1]);
	sxt_config_fini(&bench.config);
}

static void aim_link(struct sxt_context *from_ctx, struct sxt_context *to_ctx)
{
	bench.link = (struct torture_link){
		.from = bench.ibs[0],
		.to = bench.ibs[1],
		.from_ctx = from_ctx,
		.to_ctx = to_ctx,
		/* Another port than the sender's, if there is one. */
		.to_dev = sxt_ib_nics_cnt(bench.ibs[1]) - 1,
	};
}

static void use_link(void)
{
	torture_link_use(&bench.link);
}

static void close_link(void)
{
	torture_link_close(&bench.link);
}

/* A connection made, used and closed. */
static void try_link(struct sxt_context *from_ctx, struct sxt_context *to_ctx)
{
	aim_link(from_ctx, to_ctx);
	assert_int_equal(torture_link_make(&bench.link), 0);
	use_link();
	close_link();
}

/* The process's own transport, from the settings to the ports; it serves as both ends. */
static int get_process(void)
{
	int rc;

	bench.ibs[0] = TORTURE_POISON;
	rc = sxt_ib_get(&bench.ibs[0]);
	if (rc != 0)
		assert_ptr_equal(bench.ibs[0], TORTURE_POISON);
	bench.ibs[1] = bench.ibs[0];
	return rc;
}

static void use_process(void)
{
	try_link(NULL, NULL);
}

static void put_process(void)
{
	sxt_ib_put(bench.ibs[0]);
}

/* No port may be left to use; no library, or one without a function that is needed. */
static const int process_errors[] = {-ENODEV, -ENOENT, -ENOSYS, -EIO, 0};

static const char *const process_calls[] = {
	"calloc",     "realloc",   "strdup",          "open",        "dlopen",
	"dlvsym",     "getrandom", "get_device_list", "open_device", "query_device",
	"query_port", "query_gid", "alloc_pd",        NULL};

static void the_process_opens(void **state)
{
	static const struct torture_path path = {
		.name = "opening the process's transport",
		.calls = process_calls,
		.errors = process_errors,
		.setup = nothing,
		.act = get_process,
		.use = use_process,
		.undo = put_process,
		.teardown = nothing,
	};

	(void)state;
	memset(&bench, 0, sizeof(bench));
	torture_run(&path);
}

static const int no_errors[] = {0};

static int make_context(void)
{
	int rc;

	bench.ctx = TORTURE_POISON;
	rc = sxt_context_create(bench.ibs[1], SXT_TCLASS_DEFAULT, &bench.ctx);
	if (rc != 0)
		assert_ptr_equal(bench.ctx, TORTURE_POISON);
	return rc;
}

static void use_context(void)
{
	try_link(NULL, bench.ctx);
}

static void end_context(void)
{
	sxt_context_destroy(bench.ctx);
}

static const char *const context_calls[] = {"posix_memalign", NULL};

static void a_context_is_created(void **state)
{
	static const struct torture_path path = {
		.name = "creating a context",
		.calls = context_calls,
		.errors = no_errors,
		.setup = open_two,
		.act = make_context,
		.use = use_context,
		.undo = end_context,
		.teardown = close_two,
	};

	(void)state;
	torture_run(&path);
}

static int listen_once(void)
{
	struct sxt_wire_handle poisoned;
	int rc;

	memset(&poisoned, 0x5a, sizeof(poisoned));
	bench.handle = poisoned;
	bench.listener = TORTURE_POISON;
	rc = sxt_listen(bench.ibs[1], NULL, 0, &bench.handle, &bench.listener);
	if (rc != 0) {
		assert_ptr_equal(bench.listener, TORTURE_POISON);
		assert_memory_equal(&bench.handle, &poisoned, sizeof(poisoned));
	}
	return rc;
}

static void use_listener(void)
{
	try_link(NULL, NULL);
}

static void end_listener(void)
{
	sxt_listener_close(bench.listener);
}

/* The kernel gives no random numbers. */
static const int listen_errors[] = {-EIO, 0};

static const char *const listen_calls[] = {"calloc",     "epoll_create1",  "eventfd",
					   "epoll_ctl",  "pthread_create", "getrandom",
					   "getifaddrs", "socket",         "bind",
					   "listen",     "getsockname",    NULL};

static void a_listener_opens(void **state)
{
	static const struct torture_path path = {
		.name = "listening",
		.calls = listen_calls,
		.errors = listen_errors,
		.setup = open_two,
		.act = listen_once,
		.use = use_listener,
		.undo = end_listener,
		.teardown = close_two,
	};

	(void)state;
	torture_run(&path);
}

static int make_private_link(void)
{
	aim_link(NULL, NULL);
	return torture_link_make(&bench.link);
}

/* Each end hears of the other's trouble as one of these; -EREMOTEIO is a connection that broke. */
static const int link_errors[] = {-EIO, -EREMOTEIO, -ECONNREFUSED, -ECONNRESET, -ETIMEDOUT, 0};

static const char *const link_calls[] = {"calloc",        "realloc",
					 "aligned_alloc", "posix_memalign",
					 "mmap",          "memfd_create",
					 "ftruncate",     "pthread_create",
					 "connect",       "accept4",
					 "send",          "recv",
					 "setsockopt",    "getsockopt",
					 "epoll_ctl",     "epoll_wait",
					 "read",          "getrandom",
					 "create_cq",     "create_qp",
					 "modify_qp",     "reg_mr",
					 "post_recv",     "query_port",
					 "query_gid",     NULL};

static void both_ends_are_made(void **state)
{
	static const struct torture_path path = {
		.name = "listening, connecting and accepting",
		.calls = link_calls,
		.keeps = true,
		.errors = link_errors,
		.setup = open_two,
		.act = make_private_link,
		.use = use_link,
		.undo = close_link,
		.teardown = close_two,
	};

	(void)state;
	torture_run(&path);
}

/* The slots of both contexts are taken and as many attempts wait, so that every table grows. */
static void open_two_full(void)
{
	struct torture_link link;

	open_two();
	for (int i = 0; i < 2; i++)
		assert_int_equal(sxt_context_create(bench.ibs[i], SXT_TCLASS_DEFAULT,
						    &bench.ctxs[i]),
				 0);
	for (int i = 0; i < TABLE_FIRST; i++) {
		aim_link(bench.ctxs[0], bench.ctxs[1]);
		assert_int_equal(torture_link_make(&bench.link), 0);
	}
	assert_int_equal(sxt_listen(bench.ibs[1], NULL, 0, &bench.handle, &bench.listener), 0);
	for (int i = 0; i < TABLE_FIRST; i++) {
		link.handle = bench.handle;
		assert_int_equal(sxt_connect(bench.ibs[0], NULL, 0, SXT_TCLASS_DEFAULT,
					     &link.handle, &link.send),
				 -EAGAIN);
	}
}

static int make_link_in_contexts(void)
{
	aim_link(bench.ctxs[0], bench.ctxs[1]);
	return torture_link_make(&bench.link);
}

static void close_two_full(void)
{
	sxt_listener_close(bench.listener);
	for (int i = 0; i < 2; i++)
		sxt_context_destroy(bench.ctxs[i]);
	close_two();
}

static const char *const full_calls[] = {"calloc", "realloc",   "aligned_alloc", "mmap",   "send",
					 "recv",   "create_qp", "modify_qp",     "reg_mr", NULL};

static void full_contexts_get_one_more(void **state)
{
	static const struct torture_path path = {
		.name = "connecting in contexts that are full",
		.calls = full_calls,
		.keeps = true,
		.errors = link_errors,
		.setup = open_two_full,
		.act = make_link_in_contexts,
		.use = use_link,
		.undo = close_link,
		.teardown = close_two_full,
	};

	(void)state;
	torture_run(&path);
}

static int live_there_and_back(void)
{
	int rc[2];

	for (int i = 0; i < 2; i++) {
		aim_link(NULL, NULL);
		bench.link.from = bench.ibs[i];
		bench.link.to = bench.ibs[1 - i];
		rc[i] = torture_link_make(&bench.link);
		if (rc[i] == 0)
			close_link();
	}
	/* What failed once is over. */
	assert_true(rc[0] == 0 || rc[1] == 0);
	return rc[0] != 0 ? rc[0] : rc[1];
}

static void connections_live_and_end(void **state)
{
	static const struct torture_path path = {
		.name = "connecting and closing, there and back",
		.calls = link_calls,
		.keeps = true,
		.errors = link_errors,
		.setup = open_two,
		.act = live_there_and_back,
		.use = use_process,
		.undo = nothing,
		.teardown = close_two,
	};

	(void)state;
	torture_run(&path);
}

static const int both_ports[] = {0, 1};

static int merge_nics(void)
{
	int dev = POISONED_DEV;
	int rc = sxt_ib_merge(bench.ibs[1], both_ports, SXT_ARRAY_LEN(both_ports), SXT_NIC_DEVS_MAX,
			      &dev);

	assert_int_equal(dev, rc == 0 ? 2 : POISONED_DEV);
	return rc;
}

static const char *const merge_calls[] = {"calloc", NULL};

static void nics_are_merged(void **state)
{
	static const struct torture_path path = {
		.name = "merging NICs",
		.calls = merge_calls,
		.errors = no_errors,
		.setup = open_two,
		.act = merge_nics,
		.use = use_process,
		.undo = nothing,
		.teardown = close_two,
	};

	(void)state;
	torture_run(&path);
}

/* Two ports with two queue pairs each on both sides. */
static void open_two_merged(void)
{
	int dev;

	open_two();
	bench.config.ib_qps_per_connection = PATHS_CNT / SXT_ARRAY_LEN(both_ports);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sxt_ib_merge(bench.ibs[i], both_ports, SXT_ARRAY_LEN(both_ports),
					      SXT_NIC_DEVS_MAX, &dev),
				 0);
}

static int make_merged_link(void)
{
	aim_link(NULL, NULL);
	bench.link.from_dev = bench.link.to_dev;
	return torture_link_make(&bench.link);
}

/* Small messages take the paths in turn. */
static void use_every_path(void)
{
	for (int i = 0; i < PATHS_CNT; i++)
		use_link();
}

static void ends_of_several_paths_are_made(void **state)
{
	static const struct torture_path path = {
		.name = "connecting over several paths",
		.calls = link_calls,
		.keeps = true,
		.errors = link_errors,
		.setup = open_two_merged,
		.act = make_merged_link,
		.use = use_every_path,
		.undo = close_link,
		.teardown = close_two,
	};

	(void)state;
	torture_run(&path);
}

static void take_buffers(void)
{
	void *memory = NULL;

	assert_int_equal(posix_memalign(&memory, BUFFER_BYTES, BUFFERS_CNT * BUFFER_BYTES), 0);
	bench.buffers = memory;
}

static void open_two_with_buffers(void)
{
	open_two();
	assert_int_equal(make_private_link(), 0);
	take_buffers();
}

static void open_two_merged_with_buffers(void)
{
	open_two_merged();
	assert_int_equal(make_merged_link(), 0);
	take_buffers();
}

static void put_buffers(void)
{
	for (int i = 0; i < BUFFERS_CNT; i++) {
		sxt_mr_put(bench.link.send, bench.mrs[i]);
		bench.mrs[i] = NULL;
	}
}

static int get_buffers(void)
{
	int rc = 0;

	for (int i = 0; i < BUFFERS_CNT && rc == 0; i++) {
		const struct sxt_mr_spec spec = {
			.addr = bench.buffers + (size_t)i * BUFFER_BYTES,
			.bytes = BUFFER_BYTES,
			.dmabuf_fd = -1,
		};

		bench.mrs[i] = TORTURE_POISON;
		rc = sxt_mr_get(bench.link.send, &spec, &bench.mrs[i]);
		if (rc != 0) {
			assert_ptr_equal(bench.mrs[i], TORTURE_POISON);
			bench.mrs[i] = NULL;
		}
	}
	if (rc != 0)
		put_buffers();
	return rc;
}

static void close_two_with_buffers(void)
{
	close_link();
	free(bench.buffers);
	close_two();
}

static const char *const register_calls[] = {"realloc", "posix_memalign", "reg_mr_iova2", NULL};

static void memory_is_registered(void **state)
{
	static const struct torture_path path = {
		.name = "registering",
		.calls = register_calls,
		.keeps = true,
		.errors = no_errors,
		.setup = open_two_with_buffers,
		.act = get_buffers,
		.use = use_link,
		.undo = put_buffers,
		.teardown = close_two_with_buffers,
	};

	(void)state;
	torture_run(&path);
}

static void memory_is_registered_on_every_port(void **state)
{
	static const struct torture_path path = {
		.name = "registering on every port",
		.calls = register_calls,
		.keeps = true,
		.errors = no_errors,
		.setup = open_two_merged_with_buffers,
		.act = get_buffers,
		.use = use_every_path,
		.undo = put_buffers,
		.teardown = close_two_with_buffers,
	};

	(void)state;
	torture_run(&path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_process_opens),
		cmocka_unit_test(a_context_is_created),
		cmocka_unit_test(a_listener_opens),
		cmocka_unit_test(both_ends_are_made),
		cmocka_unit_test(full_contexts_get_one_more),
		cmocka_unit_test(connections_live_and_end),
		cmocka_unit_test(nics_are_merged),
		cmocka_unit_test(ends_of_several_paths_are_made),
		cmocka_unit_test(memory_is_registered),
		cmocka_unit_test(memory_is_registered_on_every_port),
	};

	sxt_log_set_sink(sink);
	return cmocka_run_group_tests(tests, torture_setup, NULL);
}
