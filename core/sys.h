/*
 * sys.h - the only door to time, sockets, epoll and random numbers.
 *
 * Code takes a `const struct sxt_sys *` and calls through it, so that a test can be the clock and
 * the network. Every member keeps the contract of the system call it is named for (-1 and errno),
 * except now_ns. sxt_sys_host is the real machine.
 */
#ifndef SXT_CORE_SYS_H
#define SXT_CORE_SYS_H

#include "core/compiler.h"

#include <ifaddrs.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#define SXT_NS_PER_SEC 1000000000ull
#define SXT_NS_PER_MS  1000000ull

struct sxt_sys {
	/* Monotonic time in ns, from an origin that never moves; cannot fail. */
	uint64_t (*now_ns)(void);
	/* Time of day in ns since 1970, which may jump; for people to read; cannot fail. */
	uint64_t (*wall_ns)(void);

	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *addr, socklen_t len);
	int (*listen)(int fd, int backlog);
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *len, int flags);
	int (*connect)(int fd, const struct sockaddr *addr, socklen_t len);
	int (*getsockname)(int fd, struct sockaddr *addr, socklen_t *len);
	int (*getsockopt)(int fd, int level, int name, void *value, socklen_t *len);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t len);
	ssize_t (*send)(int fd, const void *buf, size_t bytes, int flags);
	ssize_t (*recv)(int fd, void *buf, size_t bytes, int flags);
	int (*getifaddrs)(struct ifaddrs **out);
	void (*freeifaddrs)(struct ifaddrs *list);

	int (*epoll_create1)(int flags);
	int (*epoll_ctl)(int epfd, int op, int fd, struct epoll_event *event);
	int (*epoll_wait)(int epfd, struct epoll_event *events, int max_events, int timeout_ms);
	int (*eventfd)(unsigned int value, int flags);
	ssize_t (*read)(int fd, void *buf, size_t bytes);
	ssize_t (*write)(int fd, const void *buf, size_t bytes);
	int (*close)(int fd);

	ssize_t (*getrandom)(void *buf, size_t bytes, unsigned int flags);
};

extern const struct sxt_sys sxt_sys_host;

/**
 * sxt_sys_random() - fill a buffer with random bytes, whole or not at all.
 * @sys: the machine. @out: filled on success. @bytes: at most 256.
 * Return: 0, or -EIO when the kernel has no random numbers to give.
 */
SXT_MUST_CHECK int sxt_sys_random(const struct sxt_sys *sys, void *out, size_t bytes);

#endif
