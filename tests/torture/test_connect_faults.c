/*
 * test_connect_faults.c - the k-th fallible call of the system or of verbs fails while a
 * connection is made, used and closed, for every k: no crash, no hang, an honest error or none,
 * nothing left (the rig looks for objects and descriptors).
 */
#include "ib/conn.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS_MAX 5000
#define K_MAX      400

static uint32_t calls_cnt;
static uint32_t failing_call;
static const char *failed_name;

static bool fails(const char *name)
{
	calls_cnt++;
	if (calls_cnt != failing_call)
		return false;
	failed_name = name;
	return true;
}

/* A function that fails when its turn comes, else does what the original does. */
#define FAILING(name, result, error, answer, args, call) \
	static result name args                          \
	{                                                \
		if (fails(#name)) {                      \
			errno = (error);                 \
			return answer;                   \
		}                                        \
		return call;                             \
	}

#define HOST (&sxt_sys_host)
#define FAKE (sxt_fake_verbs())

FAILING(fail_socket, int, EMFILE, -1, (int domain, int type, int protocol),
	HOST->socket(domain, type, protocol));
FAILING(fail_bind, int, EADDRNOTAVAIL, -1, (int fd, const struct sockaddr *addr, socklen_t len),
	HOST->bind(fd, addr, len));
FAILING(fail_listen, int, EADDRINUSE, -1, (int fd, int backlog), HOST->listen(fd, backlog));
FAILING(fail_accept4, int, ENFILE, -1, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
	HOST->accept4(fd, addr, len, flags));
FAILING(fail_connect, int, ENETUNREACH, -1, (int fd, const struct sockaddr *addr, socklen_t len),
	HOST->connect(fd, addr, len));
FAILING(fail_getsockname, int, ENOBUFS, -1, (int fd, struct sockaddr *addr, socklen_t *len),
	HOST->getsockname(fd, addr, len));
FAILING(fail_getsockopt, int, ENOBUFS, -1,
	(int fd, int level, int name, void *value, socklen_t *len),
	HOST->getsockopt(fd, level, name, value, len));
FAILING(fail_setsockopt, int, ENOPROTOOPT, -1,
	(int fd, int level, int name, const void *value, socklen_t len),
	HOST->setsockopt(fd, level, name, value, len));
FAILING(fail_send, ssize_t, EPIPE, -1, (int fd, const void *buf, size_t bytes, int flags),
	HOST->send(fd, buf, bytes, flags));
FAILING(fail_recv, ssize_t, ECONNRESET, -1, (int fd, void *buf, size_t bytes, int flags),
	HOST->recv(fd, buf, bytes, flags));
FAILING(fail_getifaddrs, int, ENOMEM, -1, (struct ifaddrs * *out), HOST->getifaddrs(out));
FAILING(fail_epoll_create1, int, EMFILE, -1, (int flags), HOST->epoll_create1(flags));
FAILING(fail_epoll_ctl, int, ENOSPC, -1, (int epfd, int op, int fd, struct epoll_event *event),
	HOST->epoll_ctl(epfd, op, fd, event));
FAILING(fail_eventfd, int, EMFILE, -1, (unsigned int value, int flags),
	HOST->eventfd(value, flags));
FAILING(fail_getrandom, ssize_t, ENOSYS, -1, (void *buf, size_t bytes, unsigned int flags),
	HOST->getrandom(buf, bytes, flags));

FAILING(fail_open_device, struct ibv_context *, EACCES, NULL, (struct ibv_device * device),
	FAKE->open_device(device));
FAILING(fail_query_device, int, EIO, EIO,
	(struct ibv_context * context, struct ibv_device_attr *attr),
	FAKE->query_device(context, attr));
FAILING(fail_query_port, int, EIO, EIO,
	(struct ibv_context * context, uint8_t port, struct ibv_port_attr *attr),
	FAKE->query_port(context, port, attr));
FAILING(fail_query_gid, int, EIO, -1,
	(struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid),
	FAKE->query_gid(context, port, index, gid));
FAILING(fail_alloc_pd, struct ibv_pd *, ENOMEM, NULL, (struct ibv_context * context),
	FAKE->alloc_pd(context));
FAILING(fail_reg_mr, struct ibv_mr *, ENOMEM, NULL,
	(struct ibv_pd * pd, void *addr, size_t bytes, int access),
	FAKE->reg_mr(pd, addr, bytes, access));
FAILING(fail_create_cq, struct ibv_cq *, ENOMEM, NULL,
	(struct ibv_context * context, int cqe, void *user, struct ibv_comp_channel *channel,
	 int vector),
	FAKE->create_cq(context, cqe, user, channel, vector));
FAILING(fail_create_qp, struct ibv_qp *, ENOMEM, NULL,
	(struct ibv_pd * pd, struct ibv_qp_init_attr *attr), FAKE->create_qp(pd, attr));
FAILING(fail_modify_qp, int, EINVAL, EINVAL,
	(struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask), FAKE->modify_qp(qp, attr, mask));

static void arm(uint32_t k)
{
	calls_cnt = 0;
	failing_call = k;
	failed_name = NULL;
	rig.sys.socket = fail_socket;
	rig.sys.bind = fail_bind;
	rig.sys.listen = fail_listen;
	rig.sys.accept4 = fail_accept4;
	rig.sys.connect = fail_connect;
	rig.sys.getsockname = fail_getsockname;
	rig.sys.getsockopt = fail_getsockopt;
	rig.sys.setsockopt = fail_setsockopt;
	rig.sys.send = fail_send;
	rig.sys.recv = fail_recv;
	rig.sys.getifaddrs = fail_getifaddrs;
	rig.sys.epoll_create1 = fail_epoll_create1;
	rig.sys.epoll_ctl = fail_epoll_ctl;
	rig.sys.eventfd = fail_eventfd;
	rig.sys.getrandom = fail_getrandom;
	rig.verbs.open_device = fail_open_device;
	rig.verbs.query_device = fail_query_device;
	rig.verbs.query_port = fail_query_port;
	rig.verbs.query_gid = fail_query_gid;
	rig.verbs.alloc_pd = fail_alloc_pd;
	rig.verbs.reg_mr = fail_reg_mr;
	rig.verbs.reg_mr_iova2 = NULL;
	rig.verbs.create_cq = fail_create_cq;
	rig.verbs.create_qp = fail_create_qp;
	rig.verbs.modify_qp = fail_modify_qp;
}

/* Both ends until they are made or have failed; the clock runs, so that none waits for ever. */
static void make(struct rig_link *link)
{
	for (int i = 0; i < ROUNDS_MAX; i++) {
		rig_poll(link);
		if (i > 200)
			rig_advance(50 * SXT_NS_PER_MS);
		if (link->connect_rc != -EAGAIN && link->accept_rc != -EAGAIN)
			return;
	}
	fail_msg("call %u (%s): neither made nor failed: connect %d, accept %d", failing_call,
		 failed_name != NULL ? failed_name : "none", link->connect_rc, link->accept_rc);
}

static void use(struct sxt_ib *from, struct sxt_ib *to)
{
	struct rig_link link;
	int rc;

	memset(&link, 0, sizeof(link));
	link.from = from;
	link.to = to;
	link.connect_rc = -EAGAIN;
	link.accept_rc = -EAGAIN;
	rc = sxt_listen(to, NULL, 0, &link.handle, &link.listener);
	if (rc != 0) {
		assert_null(link.listener);
		assert_int_equal(link.handle.magic, 0);
		return;
	}
	make(&link);
	assert_true((link.connect_rc == 0) == (link.send != NULL));
	assert_true((link.accept_rc == 0) == (link.recv != NULL));
	sxt_listener_close(link.listener);
	sxt_conn_close(link.send);
	for (int i = 0; i < 20; i++)
		rig_turn();
	sxt_conn_close(link.recv);
}

/* Return: whether the k-th call happened at all. */
static bool run_with_failing_call(uint32_t k)
{
	void *state = NULL;
	bool happened;

	rig_setup(&state);
	arm(k);
	if (rig_start(0, true) == 0 && rig_start(1, true) == 0) {
		use(rig.ibs[0], rig.ibs[1]);
		/* What failed once is over: the next connection is as good as any. */
		use(rig.ibs[1], rig.ibs[0]);
	}
	happened = failed_name != NULL;
	failing_call = 0;
	rig_teardown(&state);
	return happened;
}

static void every_call_may_fail(void **state)
{
	uint32_t k = 1;

	(void)state;
	while (k < K_MAX && run_with_failing_call(k))
		k++;
	/* A connection takes this many calls at least, and an end to them was reached. */
	assert_in_range(k, 60, K_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
