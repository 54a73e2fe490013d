/*
 * misuse.c - what people and peers do wrong, done to the built plugin on the software HCA: each
 * is answered by the right code and by a line that names the object and the remedy, nothing
 * hangs, and the next communicator works. Both ends are in this process, on one device.
 */
#include "ib/wire.h"
#include "plugin/nccl/net.h"
#include "tests/fake/logger.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BUFFER_BYTES 65536
#define WAIT_SECONDS 30

static const struct nccl_net_v12 *net;

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* One communicator and one connection of it with both ends here. */
struct pair {
	void *ctx;
	void *listen_comm;
	void *send_comm;
	void *recv_comm;
	void *send_mr;
	void *recv_mr;
	char *buffers; /* BUFFER_BYTES to send from, then as many to receive into */
	char handle[NCCL_NET_HANDLE_BYTES];
};

static void pair_init(struct pair *pair)
{
	heard_forget();
	memset(pair, 0, sizeof(*pair));
	assert_int_equal(net->init(&pair->ctx, 1, NULL, heard_logger, NULL), ncclSuccess);
	assert_int_equal(net->listen(pair->ctx, 0, pair->handle, &pair->listen_comm), ncclSuccess);
	pair->buffers = mmap(NULL, 2 * BUFFER_BYTES, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pair->buffers, MAP_FAILED);
}

static void pair_connect(struct pair *pair)
{
	double end = now_seconds() + WAIT_SECONDS;

	while (pair->send_comm == NULL || pair->recv_comm == NULL) {
		if (pair->send_comm == NULL)
			assert_int_equal(net->connect(pair->ctx, 0, pair->handle, &pair->send_comm,
						      NULL),
					 ncclSuccess);
		if (pair->recv_comm == NULL)
			assert_int_equal(net->accept(pair->listen_comm, &pair->recv_comm, NULL),
					 ncclSuccess);
		assert_true(now_seconds() < end);
	}
	assert_int_equal(net->regMr(pair->send_comm, pair->buffers, BUFFER_BYTES, NCCL_PTR_HOST,
				    &pair->send_mr),
			 ncclSuccess);
	assert_int_equal(net->regMr(pair->recv_comm, pair->buffers + BUFFER_BYTES, BUFFER_BYTES,
				    NCCL_PTR_HOST, &pair->recv_mr),
			 ncclSuccess);
}

/* Every call must succeed whatever happened before, as NCCL leaks the rest otherwise. */
static void pair_fini(struct pair *pair)
{
	if (pair->send_mr != NULL)
		assert_int_equal(net->deregMr(pair->send_comm, pair->send_mr), ncclSuccess);
	if (pair->recv_mr != NULL)
		assert_int_equal(net->deregMr(pair->recv_comm, pair->recv_mr), ncclSuccess);
	if (pair->send_comm != NULL)
		assert_int_equal(net->closeSend(pair->send_comm), ncclSuccess);
	if (pair->recv_comm != NULL)
		assert_int_equal(net->closeRecv(pair->recv_comm), ncclSuccess);
	if (pair->listen_comm != NULL)
		assert_int_equal(net->closeListen(pair->listen_comm), ncclSuccess);
	assert_int_equal(net->finalize(pair->ctx), ncclSuccess);
	munmap(pair->buffers, 2 * BUFFER_BYTES);
}

static void *post_recv(struct pair *pair, size_t bytes, int tag)
{
	void *data[1] = {pair->buffers + BUFFER_BYTES};
	size_t sizes[1] = {bytes};
	int tags[1] = {tag};
	void *mhandles[1] = {pair->recv_mr};
	double end = now_seconds() + WAIT_SECONDS;
	void *request = NULL;

	while (request == NULL && now_seconds() < end)
		assert_int_equal(net->irecv(pair->recv_comm, 1, data, sizes, tags, mhandles, NULL,
					    &request),
				 ncclSuccess);
	assert_non_null(request);
	return request;
}

/* The answer of isend once it is no longer "not now". */
static ncclResult_t post_send(struct pair *pair, size_t bytes, int tag, void **request)
{
	double end = now_seconds() + WAIT_SECONDS;
	ncclResult_t result = ncclSuccess;

	*request = NULL;
	while (*request == NULL && result == ncclSuccess && now_seconds() < end)
		result = net->isend(pair->send_comm, pair->buffers, bytes, tag, pair->send_mr, NULL,
				    request);
	return result;
}

/* The answer of test once it is done or an error. */
static ncclResult_t wait_for(void *request, int *size)
{
	double end = now_seconds() + WAIT_SECONDS;
	ncclResult_t result = ncclSuccess;
	int done = 0;

	while (!done && result == ncclSuccess) {
		result = net->test(request, &done, size);
		assert_true(now_seconds() < end);
	}
	return result;
}

static void send_one(struct pair *pair, size_t bytes)
{
	void *recv_request = post_recv(pair, BUFFER_BYTES, 7);
	void *send_request;
	int size = -1;

	memset(pair->buffers, 0x5a, bytes);
	assert_int_equal(post_send(pair, bytes, 7, &send_request), ncclSuccess);
	assert_int_equal(wait_for(send_request, NULL), ncclSuccess);
	assert_int_equal(wait_for(recv_request, &size), ncclSuccess);
	assert_int_equal(size, bytes);
	assert_memory_equal(pair->buffers, pair->buffers + BUFFER_BYTES, bytes);
}

static void a_good_pair_works(void **state)
{
	struct pair pair;

	(void)state;
	pair_init(&pair);
	pair_connect(&pair);
	send_one(&pair, 0);
	send_one(&pair, 8);
	send_one(&pair, BUFFER_BYTES);
	pair_fini(&pair);
}

static void a_send_larger_than_its_receive_fails_both_ends(void **state)
{
	void *send_request;
	void *recv_request;
	struct pair pair;

	(void)state;
	pair_init(&pair);
	pair_connect(&pair);
	recv_request = post_recv(&pair, 64, 7);
	assert_int_equal(post_send(&pair, 65, 7, &send_request), ncclInvalidUsage);
	assert_heard("65 bytes");
	assert_heard("64 bytes");
	/* Sticky at the sender, told to the receiver. */
	assert_int_equal(post_send(&pair, 1, 7, &send_request), ncclInvalidUsage);
	assert_int_not_equal(wait_for(recv_request, NULL), ncclSuccess);
	pair_fini(&pair);
}

static void a_pointer_outside_its_registration_fails_with_its_name(void **state)
{
	void *send_request = NULL;
	struct pair pair;
	ncclResult_t result;
	char *elsewhere;

	(void)state;
	pair_init(&pair);
	pair_connect(&pair);
	elsewhere = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	assert_ptr_not_equal(elsewhere, MAP_FAILED);
	post_recv(&pair, 64, 7);
	do {
		result = net->isend(pair.send_comm, elsewhere, 64, 7, pair.send_mr, NULL,
				    &send_request);
	} while (result == ncclSuccess && send_request == NULL);
	if (result == ncclSuccess)
		result = wait_for(send_request, NULL);
	assert_int_not_equal(result, ncclSuccess);
	assert_heard("registration");
	munmap(elsewhere, BUFFER_BYTES);
	pair_fini(&pair);
}

static void a_missing_registration_is_refused(void **state)
{
	void *request = NULL;
	struct pair pair;

	(void)state;
	pair_init(&pair);
	pair_connect(&pair);
	net->deregMr(pair.send_comm, pair.send_mr);
	pair.send_mr = NULL;
	post_recv(&pair, 64, 7);
	assert_int_equal(post_send(&pair, 64, 7, &request), ncclInvalidArgument);
	assert_heard("without a registration");
	pair_fini(&pair);
}

static ncclResult_t connect_until_over(struct pair *pair, void **comm)
{
	double end = now_seconds() + WAIT_SECONDS;
	ncclResult_t result = ncclSuccess;

	*comm = NULL;
	while (*comm == NULL && result == ncclSuccess && now_seconds() < end)
		result = net->connect(pair->ctx, 0, pair->handle, comm, NULL);
	return result;
}

static void a_handle_that_is_none_is_recognised(void **state)
{
	struct pair pair;
	void *comm;

	(void)state;
	pair_init(&pair);
	memset(pair.handle, 0x11, sizeof(pair.handle));
	assert_int_equal(connect_until_over(&pair, &comm), ncclInvalidArgument);
	assert_heard("handle");
	pair_fini(&pair);
}

static void a_peer_of_another_version_is_named(void **state)
{
	struct sxt_wire_handle *handle;
	struct pair pair;
	void *comm;

	(void)state;
	pair_init(&pair);
	handle = (struct sxt_wire_handle *)pair.handle;
	handle->version = SXT_WIRE_VERSION + 8;
	handle->version_min = SXT_WIRE_VERSION + 7;
	assert_int_not_equal(connect_until_over(&pair, &comm), ncclSuccess);
	assert_heard("version");
	pair_fini(&pair);
}

static void a_wrong_token_is_refused_by_the_listener(void **state)
{
	struct sxt_wire_handle *handle;
	struct pair pair;
	void *comm;

	(void)state;
	pair_init(&pair);
	handle = (struct sxt_wire_handle *)pair.handle;
	handle->token[3] ^= 0xff;
	assert_int_equal(connect_until_over(&pair, &comm), ncclRemoteError);
	assert_null(comm);
	pair_fini(&pair);
}

static int dial(const struct pair *pair)
{
	const struct sxt_wire_handle *handle = (const struct sxt_wire_handle *)pair->handle;
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(handle->addr.port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(handle->addr.family, 4); /* NCCL_SOCKET_FAMILY says so */
	memcpy(&addr.sin_addr, handle->addr.ip, sizeof(addr.sin_addr));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void wait_until_heard(const char *words)
{
	double end = now_seconds() + WAIT_SECONDS;

	while (heard_cnt(words) == 0 && now_seconds() < end)
		usleep(1000);
	assert_heard(words);
}

static void garbage_on_the_listening_socket_hurts_nobody(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: whoever\r\n\r\n                  ";
	static const char half[] = {'S'};
	struct pair pair;
	int stranger;
	int slow;

	(void)state;
	pair_init(&pair);
	stranger = dial(&pair);
	slow = dial(&pair);
	assert_int_equal(send(stranger, http, sizeof(http), MSG_NOSIGNAL), sizeof(http));
	assert_int_equal(send(slow, half, sizeof(half), MSG_NOSIGNAL), sizeof(half));
	wait_until_heard("127.0.0.1");
	pair_connect(&pair);
	send_one(&pair, 4096);
	close(stranger);
	close(slow);
	pair_fini(&pair);
}

static void a_peer_that_never_answers_is_given_up(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(addr);
	struct sxt_wire_handle *handle;
	struct pair pair;
	double begin;
	void *comm;
	int fd;

	(void)state;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	setenv("SEXTANT_CONNECT_TIMEOUT", "2", 1);
	pair_init(&pair);
	unsetenv("SEXTANT_CONNECT_TIMEOUT");
	handle = (struct sxt_wire_handle *)pair.handle;
	handle->addr.port = ntohs(addr.sin_port);
	handle->process[0] ^= 0xff; /* not the channel to ourselves */
	begin = now_seconds();
	assert_int_equal(connect_until_over(&pair, &comm), ncclRemoteError);
	assert_true(now_seconds() - begin < WAIT_SECONDS);
	assert_heard("SEXTANT_CONNECT_TIMEOUT");
	close(fd);
	pair_fini(&pair);
}

static void half_made_things_are_freed_by_finalize(void **state)
{
	struct pair pair;
	void *comm = NULL;

	(void)state;
	pair_init(&pair);
	for (int i = 0; i < 100; i++)
		assert_int_equal(net->connect(pair.ctx, 0, pair.handle, &comm, NULL), ncclSuccess);
	assert_null(comm); /* nobody accepts */
	pair.listen_comm = NULL;
	pair_fini(&pair);
}

static void closing_with_requests_in_flight_is_quiet(void **state)
{
	struct pair pair;

	(void)state;
	pair_init(&pair);
	pair_connect(&pair);
	for (int i = 0; i < 8; i++)
		post_recv(&pair, 64, 7);
	pair_fini(&pair);
}

static void the_receiver_may_leave_first(void **state)
{
	void *recv_request;
	void *send_request;
	struct pair pair;

	(void)state;
	pair_init(&pair);
	pair_connect(&pair);
	recv_request = post_recv(&pair, 64, 7);
	assert_int_equal(post_send(&pair, 64, 7, &send_request), ncclSuccess);
	assert_int_equal(wait_for(recv_request, NULL), ncclSuccess);
	assert_int_equal(net->deregMr(pair.recv_comm, pair.recv_mr), ncclSuccess);
	assert_int_equal(net->closeRecv(pair.recv_comm), ncclSuccess);
	pair.recv_mr = NULL;
	pair.recv_comm = NULL;
	assert_int_equal(wait_for(send_request, NULL), ncclSuccess);
	pair_fini(&pair);
}

static void a_bad_setting_is_told_and_strict_makes_it_an_error(void **state)
{
	struct pair pair;
	void *ctx = NULL;

	(void)state;
	setenv("NCCL_IB_TIMEOUT", "20ms", 1);
	pair_init(&pair);
	assert_heard("NCCL_IB_TIMEOUT");
	assert_heard("20ms");
	pair_fini(&pair);
	setenv("SEXTANT_STRICT", "1", 1);
	assert_int_equal(net->init(&ctx, 1, NULL, heard_logger, NULL), ncclInvalidUsage);
	unsetenv("SEXTANT_STRICT");
	unsetenv("NCCL_IB_TIMEOUT");
}

static void the_log_file_has_what_is_wrong_with_the_settings(void **state)
{
	char path[] = "/tmp/sextant-misuse-XXXXXX";
	char text[4096] = "";
	struct pair pair;
	ssize_t got;
	int fd;

	(void)state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	setenv("SEXTANT_LOG_FILE", path, 1);
	setenv("NCCL_IB_TC", "9999", 1);
	pair_init(&pair);
	unsetenv("NCCL_IB_TC");
	unsetenv("SEXTANT_LOG_FILE");
	got = read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	assert_non_null(strstr(text, "WARN setting NCCL_IB_TC=9999"));
	pair_fini(&pair);
	close(fd);
	unlink(path);
}

static void a_misspelt_setting_finds_its_nearest(void **state)
{
	struct pair pair;

	(void)state;
	setenv("NCCL_IB_GID_INDX", "3", 1);
	pair_init(&pair);
	assert_heard("NCCL_IB_GID_INDEX");
	unsetenv("NCCL_IB_GID_INDX");
	pair_fini(&pair);
}

static void a_missing_verbs_library_is_named_with_its_remedy(void **state)
{
	void *ctx = NULL;

	(void)state;
	setenv("NCCL_IBVERBS_LIB", "libibverbs-of-nobody.so.9", 1);
	assert_int_equal(net->init(&ctx, 1, NULL, heard_logger, NULL), ncclSystemError);
	unsetenv("NCCL_IBVERBS_LIB");
	assert_heard("libibverbs-of-nobody.so.9");
	assert_heard("install");
}

static void a_disabled_plugin_declines(void **state)
{
	void *ctx = NULL;

	(void)state;
	setenv("NCCL_IB_DISABLE", "1", 1);
	assert_int_not_equal(net->init(&ctx, 1, NULL, heard_logger, NULL), ncclSuccess);
	unsetenv("NCCL_IB_DISABLE");
	assert_heard("NCCL_IB_DISABLE");
}

static int load(void **state)
{
	const char *path = *state;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		fprintf(stderr, "misuse: %s\n", dlerror());
		return -1;
	}
	net = dlsym(library, "ncclNetPlugin_v12");
	return net != NULL ? 0 : -1;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_good_pair_works),
	cmocka_unit_test(a_send_larger_than_its_receive_fails_both_ends),
	cmocka_unit_test(a_pointer_outside_its_registration_fails_with_its_name),
	cmocka_unit_test(a_missing_registration_is_refused),
	cmocka_unit_test(a_handle_that_is_none_is_recognised),
	cmocka_unit_test(a_peer_of_another_version_is_named),
	cmocka_unit_test(a_wrong_token_is_refused_by_the_listener),
	cmocka_unit_test(garbage_on_the_listening_socket_hurts_nobody),
	cmocka_unit_test(a_peer_that_never_answers_is_given_up),
	cmocka_unit_test(half_made_things_are_freed_by_finalize),
	cmocka_unit_test(closing_with_requests_in_flight_is_quiet),
	cmocka_unit_test(the_receiver_may_leave_first),
	cmocka_unit_test(a_bad_setting_is_told_and_strict_makes_it_an_error),
	cmocka_unit_test(a_misspelt_setting_finds_its_nearest),
	cmocka_unit_test(the_log_file_has_what_is_wrong_with_the_settings),
	cmocka_unit_test(a_missing_verbs_library_is_named_with_its_remedy),
	cmocka_unit_test(a_disabled_plugin_declines),
	cmocka_unit_test(a_good_pair_works), /* whatever came before, the next one works */
};

static const char *plugin_path;

static int setup(void **state)
{
	*state = (void *)plugin_path;
	return load(state);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: misuse PLUGIN [TEST]\n");
		return 64;
	}
	plugin_path = argv[1];
	if (argc == 3)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests_name("misuse", tests, setup, NULL);
}
