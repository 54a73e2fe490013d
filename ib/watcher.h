/*
 * watcher.h - the one thread of ours: side channels, async events of the HCAs, timers; asleep
 * otherwise. It runs while there is a listener, an attempt to connect or a connection.
 *
 * Lock order:
 *   OK:    start_lock -> lock; a context's owner word -> lock; nic->mr_lock alone
 *   ERROR: lock -> owner word; lock -> start_lock; context->lock together with lock
 */
#ifndef SXT_IB_WATCHER_H
#define SXT_IB_WATCHER_H

#include "core/list.h"
#include "core/log.h"
#include "ib/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct sxt_attempt;
struct sxt_ib;
struct sxt_stalls;

/* What an epoll event's number means. */
#define SXT_WATCH_WAKE    1u
#define SXT_WATCH_LISTEN  2u
#define SXT_WATCH_DEVICES 0x10000ull     /* plus the place in the list of devices */
#define SXT_WATCH_SIDES   0x100000000ull /* plus a serial number */

struct sxt_watcher {
	struct sxt_ib *ib;
	struct sxt_stalls *stalls; /* its own thread's; NULL: not looked for */
	bool is_manual;            /* no thread: a test calls sxt_watcher_step() */

	pthread_mutex_t start_lock; /* the four below */
	uint32_t users_cnt;
	bool is_running; /* there is a thread to join */
	bool is_stopped; /* for good, by sxt_ib_stop() */
	pthread_t thread;

	_Atomic uint32_t quit;
	int epfd;
	int wake_fd;

	/* Everything about peers; never held across a wait. */
	pthread_mutex_t lock;
	int listen_fd;
	struct sxt_wire_addr listen_addr;
	uint64_t listen_again_ns; /* not 0: accepting pauses until then, for want of descriptors */
	struct sxt_list sides;    /* struct sxt_side */
	uint64_t next_serial;
	uint32_t strangers_cnt;        /* accepted and silent so far */
	struct sxt_list listeners;     /* struct sxt_listener */
	struct sxt_attempt **attempts; /* of connecting, by the low half of their cookie */
	uint32_t attempts_cap;
	uint32_t next_conn_id;
	struct sxt_log_limit strange_log; /* whatever strangers send */
};

/**
 * sxt_watcher_create() - the watcher of a process, not running yet.
 * @ib: its process. @is_manual: never start a thread. @out: set on success;
 * sxt_watcher_destroy() frees it. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_watcher_create(struct sxt_ib *ib, bool is_manual, struct sxt_watcher **out);

/**
 * sxt_watcher_destroy() - free it; nobody uses it any more.
 * @watcher: NULL is fine.
 */
void sxt_watcher_destroy(struct sxt_watcher *watcher);

/**
 * sxt_watcher_get() - be a user; the first one starts the thread.
 * @watcher: the watcher. Thread: any but its own, takes start_lock.
 * Return: 0, -ENODEV after sxt_watcher_stop(), or the error of a system call (logged).
 */
SXT_MUST_CHECK int sxt_watcher_get(struct sxt_watcher *watcher);

/**
 * sxt_watcher_put() - be none; the last one joins the thread and closes every side channel.
 * @watcher: the watcher. Thread: any but its own, takes start_lock and lock.
 */
void sxt_watcher_put(struct sxt_watcher *watcher);

/**
 * sxt_watcher_stop() - join the thread for good, whoever still uses it.
 * @watcher: the watcher. Thread: any but its own, takes start_lock.
 */
void sxt_watcher_stop(struct sxt_watcher *watcher);

/**
 * sxt_watcher_wake() - have it look at its timers again.
 * @watcher: running. Thread: any. Path: one system call.
 */
void sxt_watcher_wake(struct sxt_watcher *watcher);

/**
 * sxt_watcher_step() - one round: wait for something, act on it, run what is due.
 * @watcher: has a user. @max_wait_ms: 0 does not wait, -1 waits as long as nothing is due.
 * Thread: its own, or a test's; takes lock.
 */
void sxt_watcher_step(struct sxt_watcher *watcher, int max_wait_ms);

#endif
