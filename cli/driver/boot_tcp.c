/*
 * boot_tcp.c - how ranks of separate processes meet: rank 0 listens, each other rank comes and
 * says who it is (slow path, main thread only).
 */
#include "cli/driver/boot.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HELLO_MAGIC  0x3168656c6c6f5853ull /* "SXolleh1" */
#define HELLO_WAIT_S 2

/* The first bytes of every rank but 0. */
struct hello {
	uint64_t magic;
	uint32_t rank;
	uint32_t ranks;
};

static void set_options(int fd)
{
	const int one = 1;

	/* Latency of barriers, and hosts that vanish without a word; neither is needed to work. */
	sxt_ignore(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	sxt_ignore(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)));
}

static int listen_on(const char *port, char *why, size_t why_bytes)
{
	const int one = 1;
	const int zero = 0;
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
	struct sockaddr_in addr4 = {.sin_family = AF_INET};
	uint16_t number = (uint16_t)strtoul(port, NULL, 10); /* checked by the caller */
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int rc;

	addr.sin6_port = htons(number);
	addr4.sin_port = htons(number);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		rc = bind(fd, (const struct sockaddr *)&addr, sizeof(addr));
	} else {
		/* A kernel without IPv6. */
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		rc = bind(fd, (const struct sockaddr *)&addr4, sizeof(addr4));
	}
	if (rc == 0 && listen(fd, SXT_DRV_MAX_RANKS) == 0)
		return fd;
	rc = -errno;
	snprintf(why, why_bytes, "cannot listen on port %s: %s; set MASTER_PORT to a free one",
		 port, sxt_strerror(rc));
	close(fd);
	return rc;
}

/* Takes one visitor; one that is none of our ranks is sent away and is no error. */
static int welcome(struct sxt_drv_boot *boot, int listen_fd, char *why, size_t why_bytes)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	const struct timeval limit = {.tv_sec = HELLO_WAIT_S};
	struct hello hello = {0};

	/* Who came may be gone again. */
	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ? 0 : -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
	    recv(fd, &hello, sizeof(hello), MSG_WAITALL) != (ssize_t)sizeof(hello) ||
	    hello.magic != HELLO_MAGIC) {
		close(fd);
		return 0;
	}
	if (hello.ranks != (uint32_t)boot->ranks || hello.rank == 0 ||
	    hello.rank >= (uint32_t)boot->ranks || boot->fds[hello.rank] >= 0) {
		snprintf(why, why_bytes,
			 "a process says it is rank %u of %u, but this run has %d ranks and each "
			 "once; another run on the same MASTER_PORT?",
			 hello.rank, hello.ranks, boot->ranks);
		close(fd);
		return -EPROTO;
	}
	set_options(fd);
	boot->fds[hello.rank] = fd;
	return 1;
}

static int gather_ranks(struct sxt_drv_boot *boot, int listen_fd, uint64_t deadline_ns, char *why,
			size_t why_bytes)
{
	int here = 1;

	while (here < boot->ranks) {
		struct pollfd pfd = {.fd = listen_fd, .events = POLLIN};
		int rc = poll(&pfd, 1, 200);

		if (rc > 0) {
			rc = welcome(boot, listen_fd, why, why_bytes);
			if (rc < 0)
				return rc;
			here += rc;
		}
		if (here < boot->ranks && sxt_sys_host.now_ns() > deadline_ns) {
			int missing = 1;

			while (boot->fds[missing] >= 0)
				missing++;
			snprintf(why, why_bytes,
				 "only %d of %d ranks came, rank %d is the first missing; is it "
				 "started with the same MASTER_ADDR and MASTER_PORT?",
				 here, boot->ranks, missing);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

static int try_connect(const struct addrinfo *list)
{
	int rc = -ECONNREFUSED;

	for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next) {
		int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, ai->ai_protocol);

		if (fd < 0) {
			rc = -errno;
			continue;
		}
		if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0)
			return fd;
		rc = -errno;
		close(fd);
	}
	return rc;
}

static int visit_root(struct sxt_drv_boot *boot, const char *addr, const char *port,
		      uint64_t deadline_ns, char *why, size_t why_bytes)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
	const struct hello hello = {HELLO_MAGIC, (uint32_t)boot->rank, (uint32_t)boot->ranks};
	struct addrinfo *list = NULL;
	int fd;
	int rc = getaddrinfo(addr, port, &hints, &list);

	if (rc != 0) {
		snprintf(why, why_bytes, "cannot resolve MASTER_ADDR '%s': %s", addr,
			 gai_strerror(rc));
		return -EADDRNOTAVAIL;
	}
	/* Rank 0 may start later than this process. */
	fd = try_connect(list);
	while (fd < 0 && sxt_sys_host.now_ns() < deadline_ns) {
		nanosleep(&pause, NULL);
		fd = try_connect(list);
	}
	freeaddrinfo(list);
	if (fd < 0) {
		snprintf(why, why_bytes, "cannot reach rank 0 at %s port %s: %s", addr, port,
			 sxt_strerror(fd));
		return fd;
	}
	set_options(fd);
	boot->fds[0] = fd;
	if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello)) {
		snprintf(why, why_bytes, "rank 0 at %s port %s hung up: %m", addr, port);
		return -ECONNRESET;
	}
	return 0;
}

int sxt_drv_boot_connect(struct sxt_drv_boot *boot, const char *addr, const char *port,
			 unsigned int timeout_s, char *why, size_t why_bytes)
{
	uint64_t deadline_ns = sxt_sys_host.now_ns() + timeout_s * SXT_NS_PER_SEC;
	int listen_fd;
	int rc;

	why[0] = '\0';
	if (boot->rank != 0)
		return visit_root(boot, addr, port, deadline_ns, why, why_bytes);
	listen_fd = listen_on(port, why, why_bytes);
	if (listen_fd < 0)
		return listen_fd;
	rc = gather_ranks(boot, listen_fd, deadline_ns, why, why_bytes);
	close(listen_fd);
	return rc;
}
