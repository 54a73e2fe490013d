/*
 * sys.c - the real machine behind struct sxt_sys.
 */
#include "core/sys.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SXT_NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static uint64_t host_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t host_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static int host_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return bind(fd, addr, len);
}

static int host_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return accept4(fd, addr, len, flags);
}

static int host_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return connect(fd, addr, len);
}

static int host_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return getsockname(fd, addr, len);
}

static int host_eventfd(unsigned int value, int flags)
{
	return eventfd(value, flags);
}

const struct sxt_sys sxt_sys_host = {
	.now_ns = host_now_ns,
	.wall_ns = host_wall_ns,
	.socket = socket,
	.bind = host_bind,
	.listen = listen,
	.accept4 = host_accept4,
	.connect = host_connect,
	.getsockname = host_getsockname,
	.getsockopt = getsockopt,
	.setsockopt = setsockopt,
	.send = send,
	.recv = recv,
	.getifaddrs = getifaddrs,
	.freeifaddrs = freeifaddrs,
	.epoll_create1 = epoll_create1,
	.epoll_ctl = epoll_ctl,
	.epoll_wait = epoll_wait,
	.eventfd = host_eventfd,
	.read = read,
	.write = write,
	.close = close,
	.getrandom = getrandom,
};

int sxt_sys_random(const struct sxt_sys *sys, void *out, size_t bytes)
{
	ssize_t got;

	/* getrandom() up to 256 bytes is never cut short by a signal: getrandom(2). */
	do {
		got = sys->getrandom(out, bytes, 0);
	} while (got < 0 && errno == EINTR);
	return got == (ssize_t)bytes ? 0 : -EIO;
}
