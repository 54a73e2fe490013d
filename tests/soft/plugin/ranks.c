/*
 * ranks.c - two ranks with rules of their own, each a process, on the software HCA: unlike rules
 * in use at both ends fail the connection, and each rank's log names both; everything else
 * connects.
 */
#include "plugin/nccl/net.h"
#include "plugin/nccl/tuner.h"
#include "telemetry/reader.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_SECONDS 30
#define RANKS        2
#define COMM         0x77

static const char *plugin_path;

/* What a rank is started with. */
struct rank {
	const char *rules;
	bool is_tuned; /* its tuner is begun before the ranks connect */
};

/* What a rank tells at its end. */
struct report {
	ncclResult_t result;
	char warnings[8192];
};

static struct report own;

SXT_PRINTF(5, 6)
static void listen_in(int level, unsigned long flags, const char *file, int line, const char *fmt,
		      ...)
{
	size_t used = strlen(own.warnings);
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	if (level != NCCL_LOG_WARN)
		return;
	va_start(args, fmt);
	vsnprintf(own.warnings + used, sizeof(own.warnings) - used, fmt, args);
	va_end(args);
}

static bool has_time(time_t end)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	nanosleep(&pause, NULL);
	return time(NULL) < end;
}

static ncclResult_t accept_peer(const struct nccl_net_v12 *net, void *ctx, int peer)
{
	char handle[NCCL_NET_HANDLE_BYTES] = {0};
	time_t end = time(NULL) + WAIT_SECONDS;
	ncclResult_t result;
	void *listen_comm;
	void *comm = NULL;

	result = net->listen(ctx, 0, handle, &listen_comm);
	if (result != ncclSuccess || write(peer, handle, sizeof(handle)) != sizeof(handle))
		return ncclSystemError;
	while (result == ncclSuccess && comm == NULL && has_time(end))
		result = net->accept(listen_comm, &comm, NULL);
	return comm != NULL || result != ncclSuccess ? result : ncclTimeout;
}

static ncclResult_t connect_peer(const struct nccl_net_v12 *net, void *ctx, int peer)
{
	char handle[NCCL_NET_HANDLE_BYTES];
	time_t end = time(NULL) + WAIT_SECONDS;
	ncclResult_t result = ncclSuccess;
	void *comm = NULL;

	if (read(peer, handle, sizeof(handle)) != sizeof(handle))
		return ncclSystemError;
	while (result == ncclSuccess && comm == NULL && has_time(end))
		result = net->connect(ctx, 0, handle, &comm, NULL);
	return comm != NULL || result != ncclSuccess ? result : ncclTimeout;
}

/* A rank's life; its peer waits at the other end of the socket. */
static ncclResult_t live(int number, const struct rank *rank, int peer)
{
	const struct nccl_net_v12 *net;
	const struct nccl_tuner_v6 *tuner;
	struct nccl_nvl_domain_info domains = {.nNvlDomains = 2};
	struct nccl_tuner_constants constants;
	ncclResult_t result;
	void *lib = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	void *tuner_ctx = NULL;
	void *ctx;
	char last;

	if (lib == NULL)
		return ncclSystemError;
	net = dlsym(lib, "ncclNetPlugin_v12");
	tuner = dlsym(lib, "ncclTunerPlugin_v6");
	result = net->init(&ctx, COMM, NULL, listen_in, NULL);
	if (result != ncclSuccess)
		return result;
	if (rank->is_tuned)
		result = tuner->init(&tuner_ctx, COMM, 2, 2, listen_in, &domains, &constants);
	if (result == ncclSuccess)
		result = number == 0 ? accept_peer(net, ctx, peer) : connect_peer(net, ctx, peer);
	/* The other one may still need this process. */
	shutdown(peer, SHUT_WR);
	while (read(peer, &last, 1) > 0)
		;
	tuner->finalize(tuner_ctx);
	net->finalize(ctx);
	return result;
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* A rank in a process of its own. Return: where its report can be read. */
static int start(int number, const struct rank *rank, const int sockets[2])
{
	char path[64];
	int report[2];

	assert_int_equal(pipe(report), 0);
	fflush(NULL);
	if (fork() != 0) {
		close(report[1]);
		return report[0];
	}
	close(sockets[1 - number]);
	snprintf(path, sizeof(path), "/tmp/ranks.%d", (int)getpid());
	if (rank->rules != NULL) {
		write_file(path, rank->rules);
		setenv("SEXTANT_TUNER_FILE", path, 1);
	}
	own.result = live(number, rank, sockets[number]);
	unlink(path);
	_exit(write(report[1], &own, sizeof(own)) != sizeof(own));
}

static void read_all(int fd, void *out, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t more = read(fd, (char *)out + got, bytes - got);

		assert_true(more > 0);
		got += (size_t)more;
	}
	close(fd);
}

static void run(const struct rank ranks[RANKS], struct report reports[RANKS])
{
	int sockets[RANKS];
	int fds[RANKS];
	int status;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	for (int i = 0; i < RANKS; i++)
		fds[i] = start(i, &ranks[i], sockets);
	for (int i = 0; i < RANKS; i++)
		close(sockets[i]);
	for (int i = 0; i < RANKS; i++)
		read_all(fds[i], &reports[i], sizeof(reports[i]));
	for (int i = 0; i < RANKS; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
}

static void assert_warned(const struct report *report, const char *words)
{
	if (strstr(report->warnings, words) == NULL)
		fail_msg("no warning says \"%s\"; they are: %s", words, report->warnings);
}

#define TREE "allreduce,0,-1,tree,simple,-1,-1,-1\n"
#define RING "allreduce,0,-1,ring,simple,-1,-1,-1\n"

static void unlike_rules_in_use_fail_the_connection_at_both_ends(void **state)
{
	const struct rank ranks[RANKS] = {{TREE, true}, {RING, true}};
	struct report reports[RANKS];

	(void)state;
	run(ranks, reports);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(reports[i].result, ncclRemoteError);
		assert_warned(&reports[i], "tuner rules differ: digest ");
		assert_warned(&reports[i], "set SEXTANT_TUNER_FILE alike on all hosts");
	}
}

static void rules_at_one_end_only_fail_it_too(void **state)
{
	const struct rank ranks[RANKS] = {{TREE, true}, {NULL, true}};
	struct report reports[RANKS];

	(void)state;
	run(ranks, reports);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(reports[i].result, ncclRemoteError);
		assert_warned(&reports[i], ", no rules on ");
	}
}

static void unlike_rules_of_which_one_is_unused_are_told(void **state)
{
	const struct rank ranks[RANKS] = {{TREE, true}, {RING, false}};
	struct report reports[RANKS];

	(void)state;
	run(ranks, reports);
	for (int i = 0; i < RANKS; i++)
		assert_int_equal(reports[i].result, ncclSuccess);
	assert_warned(&reports[0], "tuner rules differ: digest ");
	assert_warned(&reports[0], " (not in use) on ");
	assert_string_equal(reports[1].warnings, "");
}

/* Other words for the same, and none at all. */
static void like_rules_connect_in_silence(void **state)
{
	const struct rank pairs[][RANKS] = {
		{{TREE, true}, {"# the same\r\nAllReduce,0,-1,Tree,Simple,-1,-1,-1\r\n", true}},
		{{NULL, true}, {NULL, false}},
		{{RING, false}, {RING, false}},
	};
	struct report reports[RANKS];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(pairs); i++) {
		run(pairs[i], reports);
		for (int k = 0; k < RANKS; k++) {
			assert_int_equal(reports[k].result, ncclSuccess);
			assert_string_equal(reports[k].warnings, "");
		}
	}
}

/* The records of this process's segment, by collective, algorithm and protocol. */
static uint64_t calls_of(uint32_t coll, uint32_t algo, uint32_t bucket)
{
	struct sxt_tele_choice choice;
	struct sxt_tele_view *view;
	struct sxt_tele_file *files;
	uint64_t calls = 0;
	size_t cnt;

	assert_int_equal(sxt_tele_list(NULL, &files, &cnt), 0);
	for (size_t i = 0; i < cnt; i++) {
		if (files[i].pid != (uint32_t)getpid())
			continue;
		assert_int_equal(sxt_tele_open(files[i].path, &view), 0);
		for (uint32_t at = 0; at < sxt_tele_cap(view, SXT_TELE_CHOICES); at++) {
			if (sxt_tele_choice_get(view, at, &choice) && choice.coll == coll &&
			    choice.algo == algo)
				calls += choice.calls[bucket];
		}
		sxt_tele_close(view);
	}
	free(files);
	return calls;
}

static void ask(const struct nccl_tuner_v6 *tuner, void *ctx, int coll, size_t bytes)
{
	float costs[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
	int channels = 0;

	for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
		costs[i / NCCL_NUM_PROTOCOLS][i % NCCL_NUM_PROTOCOLS] = 10.0f;
	assert_int_equal(tuner->getCollInfo(ctx, coll, bytes, 1, (float **)costs,
					    NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, 0, &channels),
			 ncclSuccess);
}

/* Also after the network plugin's communicator ended: NCCL may share one among several. */
static void what_is_chosen_is_counted_in_the_segment(void **state)
{
	struct nccl_nvl_domain_info domains = {.nNvlDomains = 2};
	struct nccl_tuner_constants constants;
	const struct nccl_net_v12 *net;
	const struct nccl_tuner_v6 *tuner;
	void *ctxs[2];
	char path[64];
	void *net_ctx;
	void *lib;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/ranks.%d", (int)getpid());
	write_file(path, TREE);
	setenv("SEXTANT_TUNER_FILE", path, 1);
	setenv("SEXTANT_TELEMETRY", "1", 1);
	lib = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(lib);
	net = dlsym(lib, "ncclNetPlugin_v12");
	tuner = dlsym(lib, "ncclTunerPlugin_v6");
	assert_int_equal(net->init(&net_ctx, COMM, NULL, listen_in, NULL), ncclSuccess);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tuner->init(&ctxs[i], COMM, 2, 2, listen_in, &domains, &constants),
				 ncclSuccess);
	ask(tuner, ctxs[0], NCCL_COLL_ALL_REDUCE, 1024);
	ask(tuner, ctxs[1], NCCL_COLL_ALL_REDUCE, 4095);
	ask(tuner, ctxs[1], NCCL_COLL_BROADCAST, 0);
	ask(tuner, ctxs[1], 77, 0);
	assert_int_equal(calls_of(NCCL_COLL_ALL_REDUCE, NCCL_ALGO_TREE, 5), 2);
	assert_int_equal(calls_of(NCCL_COLL_BROADCAST, SXT_TELE_CHOICE_LEFT, 0), 1);
	assert_int_equal(net->finalize(net_ctx), ncclSuccess);
	assert_int_equal(tuner->finalize(ctxs[0]), ncclSuccess);
	ask(tuner, ctxs[1], NCCL_COLL_ALL_REDUCE, 1024);
	assert_int_equal(calls_of(NCCL_COLL_ALL_REDUCE, NCCL_ALGO_TREE, 5), 3);
	assert_int_equal(tuner->finalize(ctxs[1]), ncclSuccess);
	assert_int_equal(calls_of(NCCL_COLL_ALL_REDUCE, NCCL_ALGO_TREE, 5), 0);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unlike_rules_in_use_fail_the_connection_at_both_ends),
		cmocka_unit_test(rules_at_one_end_only_fail_it_too),
		cmocka_unit_test(unlike_rules_of_which_one_is_unused_are_told),
		cmocka_unit_test(like_rules_connect_in_silence),
		cmocka_unit_test(what_is_chosen_is_counted_in_the_segment),
	};

	if (argc != 2)
		return 64;
	plugin_path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
