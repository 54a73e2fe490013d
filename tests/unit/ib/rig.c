/*
 * rig.c - see rig.h.
 */
#include "tests/unit/ib/rig.h"

#include "core/log.h"
#include "ib/oob.h"
#include "tests/fake/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define POLLS_MAX 200000
#define LOG_BYTES (1 << 18)

struct rig rig;

static _Atomic uint64_t clock_ns;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_BYTES];
static size_t log_used;

static const struct sxt_fake_config fake_config = {
	.devices_cnt = 2,
	.inline_bytes = 64,
	.max_msg_bytes = 1u << 30,
	.max_cqe = 1 << 20,
};

static uint64_t read_clock(void)
{
	return atomic_load_explicit(&clock_ns, memory_order_relaxed);
}

static void sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	int put;

	(void)file;
	(void)line;
	pthread_mutex_lock(&log_lock);
	put = snprintf(log_text + log_used, sizeof(log_text) - log_used, "%d %s\n", (int)level,
		       text);
	if (put > 0 && log_used + (size_t)put < sizeof(log_text))
		log_used += (size_t)put;
	pthread_mutex_unlock(&log_lock);
}

int rig_logged(const char *text)
{
	int cnt = 0;

	pthread_mutex_lock(&log_lock);
	for (const char *at = strstr(log_text, text); at != NULL; at = strstr(at + 1, text))
		cnt++;
	pthread_mutex_unlock(&log_lock);
	return cnt;
}

void rig_forget(void)
{
	pthread_mutex_lock(&log_lock);
	memset(log_text, 0, sizeof(log_text));
	log_used = 0;
	pthread_mutex_unlock(&log_lock);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int cnt = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		cnt++;
	closedir(dir);
	return cnt;
}

int rig_setup(void **state)
{
	(void)state;
	memset(&rig, 0, sizeof(rig));
	rig_forget();
	sxt_log_set_sink(sink);
	rig.fds_before = count_fds();
	assert_int_equal(setenv("NCCL_SOCKET_IFNAME", "=lo", 1), 0);
	assert_int_equal(sxt_config_load(&rig.config), 0);
	assert_int_equal(sxt_fake_reset(&fake_config), 0);
	rig.verbs = *sxt_fake_verbs();
	rig.sys = sxt_sys_host;
	rig.sys.now_ns = read_clock;
	atomic_store_explicit(&clock_ns, 1000 * SXT_NS_PER_SEC, memory_order_relaxed);
	return 0;
}

int rig_teardown(void **state)
{
	(void)state;
	for (int i = 0; i < RIG_IBS; i++)
		sxt_ib_destroy(rig.ibs[i]);
	sxt_config_fini(&rig.config);
	assert_int_equal(sxt_fake_reset(&fake_config), 0);
	assert_int_equal(count_fds(), rig.fds_before);
	return 0;
}

int rig_start(int i, bool is_manual)
{
	const struct sxt_ib_parts parts = {
		.sys = &rig.sys,
		.config = &rig.config,
		.verbs = &rig.verbs,
		.is_manual = is_manual,
	};

	return sxt_ib_create(&parts, &rig.ibs[i]);
}

void rig_set(const char **field, const char *value)
{
	assert_true(rig.config.owns_strings);
	free((char *)(uintptr_t)*field);
	*field = strdup(value);
	assert_non_null(*field);
}

int rig_locate(struct sxt_port *port, struct sxt_port_place *out)
{
	struct sxt_port_address best;
	uint32_t cnt;
	int rc = sxt_port_candidates(port, &best, 1, &cnt);

	if (rc == 0)
		*out = best.place;
	return rc;
}

void rig_turn(void)
{
	for (int i = 0; i < RIG_IBS; i++) {
		if (rig.ibs[i] != NULL && rig.ibs[i]->watcher->is_manual &&
		    rig.ibs[i]->watcher->users_cnt > 0)
			sxt_watcher_step(rig.ibs[i]->watcher, 0);
	}
}

void rig_advance(uint64_t ns)
{
	atomic_fetch_add_explicit(&clock_ns, ns, memory_order_relaxed);
}

void rig_listen(struct rig_link *link, struct sxt_ib *from, struct sxt_ib *to,
		struct sxt_context *to_ctx)
{
	memset(link, 0, sizeof(*link));
	link->from = from;
	link->to = to;
	link->connect_rc = -EAGAIN;
	link->accept_rc = -EAGAIN;
	assert_int_equal(sxt_listen(to, to_ctx, sxt_ib_nics_cnt(to) > 1 ? 1 : 0, &link->handle,
				    &link->listener),
			 0);
}

void rig_poll(struct rig_link *link)
{
	if (link->connect_rc == -EAGAIN)
		link->connect_rc = sxt_connect(link->from, link->from_ctx, 0, SXT_TCLASS_DEFAULT,
					       &link->handle, &link->send);
	if (link->accept_rc == -EAGAIN && link->listener != NULL)
		link->accept_rc = sxt_accept(link->listener, &link->recv);
	rig_turn();
}

void rig_join(struct rig_link *link)
{
	for (int i = 0;
	     i < POLLS_MAX && (link->connect_rc == -EAGAIN || link->accept_rc == -EAGAIN); i++)
		rig_poll(link);
	assert_int_equal(link->connect_rc, 0);
	assert_int_equal(link->accept_rc, 0);
	sxt_listener_close(link->listener);
	link->listener = NULL;
}

void rig_move_message(struct rig_link *link)
{
	static char from[4096];
	static char to[4096];
	const struct sxt_mr_spec from_spec = {.addr = from, .bytes = sizeof(from), .dmabuf_fd = -1};
	const struct sxt_mr_spec to_spec = {.addr = to, .bytes = sizeof(to), .dmabuf_fd = -1};
	void *data[1] = {to};
	const uint64_t bytes[1] = {sizeof(to)};
	const int tags[1] = {3};
	struct sxt_mr *mrs[2];
	const struct sxt_recv_spec spec = {
		.cnt = 1, .data = data, .bytes = bytes, .tags = tags, .mrs = &mrs[1]};
	struct sxt_request *requests[2];
	bool done[2] = {false, false};
	int sizes[2] = {0, 0};

	memset(from, 0x6b, sizeof(from));
	memset(to, 0, sizeof(to));
	assert_int_equal(sxt_mr_get(link->send, &from_spec, &mrs[0]), 0);
	assert_int_equal(sxt_mr_get(link->recv, &to_spec, &mrs[1]), 0);
	assert_int_equal(sxt_recv(link->recv, &spec, &requests[1]), 0);
	assert_int_equal(sxt_send(link->send, from, sizeof(from), 3, mrs[0], &requests[0]), 0);
	for (int i = 0; i < POLLS_MAX && !(done[0] && done[1]); i++) {
		for (int k = 0; k < 2; k++) {
			if (!done[k])
				assert_int_equal(sxt_test(requests[k], &done[k], &sizes[k]), 0);
		}
	}
	assert_true(done[0] && done[1]);
	assert_int_equal(sizes[1], sizeof(from));
	assert_memory_equal(from, to, sizeof(from));
	sxt_mr_put(link->send, mrs[0]);
	sxt_mr_put(link->recv, mrs[1]);
}

int rig_dial(const struct sxt_ib *ib)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int on = 1;
	int fd;

	assert_int_equal(sxt_oob_from_wire(&ib->watcher->listen_addr, &addr, &len), 0);
	fd = socket(addr.ss_family, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
	return fd;
}

bool rig_hung_up(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char bytes[1024];

	for (int i = 0; i < 200; i++) {
		rig_turn();
		if (poll(&poll_fd, 1, 1) == 1 && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0)
			return true;
	}
	return false;
}
