/*
 * watcher.c - the watcher thread: one epoll over everything that may happen without NCCL calling.
 */
#include "ib/watcher.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/events.h"
#include "ib/port.h"
#include "ib/process.h"
#include "ib/side.h"
#include "ib/stalls.h"
#include "telemetry/clock.h"
#include "telemetry/write.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define EVENTS_MAX 64

int sxt_watcher_create(struct sxt_ib *ib, bool is_manual, struct sxt_watcher **out)
{
	struct sxt_watcher *watcher = calloc(1, sizeof(*watcher));

	if (watcher == NULL)
		return -ENOMEM;
	watcher->ib = ib;
	watcher->is_manual = is_manual;
	watcher->epfd = -1;
	watcher->wake_fd = -1;
	watcher->listen_fd = -1;
	pthread_mutex_init(&watcher->start_lock, NULL);
	pthread_mutex_init(&watcher->lock, NULL);
	sxt_list_init(&watcher->sides);
	sxt_list_init(&watcher->listeners);
	if (sxt_stalls_create(ib, &watcher->stalls) != 0) {
		sxt_watcher_destroy(watcher);
		return -ENOMEM;
	}
	*out = watcher;
	return 0;
}

void sxt_watcher_destroy(struct sxt_watcher *watcher)
{
	if (watcher == NULL)
		return;
	sxt_stalls_destroy(watcher->stalls);
	free(watcher->attempts);
	pthread_mutex_destroy(&watcher->start_lock);
	pthread_mutex_destroy(&watcher->lock);
	free(watcher);
}

static void close_fds(struct sxt_watcher *watcher)
{
	const struct sxt_sys *sys = watcher->ib->sys;

	if (watcher->epfd >= 0)
		sys->close(watcher->epfd);
	if (watcher->wake_fd >= 0)
		sys->close(watcher->wake_fd);
	watcher->epfd = -1;
	watcher->wake_fd = -1;
}

static int watch_fd(const struct sxt_watcher *watcher, int fd, uint64_t what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = what};

	return watcher->ib->sys->epoll_ctl(watcher->epfd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0
											  : -errno;
}

static int watch_devices(const struct sxt_watcher *watcher)
{
	struct sxt_list *node;
	struct sxt_list *after;
	uint64_t place = 0;
	int rc = 0;

	sxt_list_for_each (node, after, &watcher->ib->devices) {
		const struct sxt_device *device = SXT_LIST_ENTRY(node, struct sxt_device, node);

		if (device->context->async_fd >= 0 && rc == 0)
			rc = watch_fd(watcher, device->context->async_fd,
				      SXT_WATCH_DEVICES + place);
		place++;
	}
	return rc;
}

static void *run(void *arg)
{
	struct sxt_watcher *watcher = arg;

	/* Pairs with the release in join(). */
	while (atomic_load_explicit(&watcher->quit, memory_order_acquire) == 0)
		sxt_watcher_step(watcher, -1);
	return NULL;
}

/* The job's signals are for the job's threads. */
static int start_thread(struct sxt_watcher *watcher)
{
	sigset_t all;
	sigset_t before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(&watcher->thread, NULL, run, watcher);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0) {
		pthread_setname_np(watcher->thread, "sxt-watcher");
		watcher->is_running = true;
	}
	return rc;
}

static int start(struct sxt_watcher *watcher)
{
	const struct sxt_sys *sys = watcher->ib->sys;
	int rc = 0;

	atomic_store_explicit(&watcher->quit, 0, memory_order_relaxed);
	watcher->epfd = sys->epoll_create1(EPOLL_CLOEXEC);
	if (watcher->epfd < 0) {
		rc = -errno;
		goto fail;
	}
	watcher->wake_fd = sys->eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watcher->wake_fd < 0) {
		rc = -errno;
		goto fail;
	}
	rc = watch_fd(watcher, watcher->wake_fd, SXT_WATCH_WAKE);
	if (rc == 0)
		rc = watch_devices(watcher);
	if (rc == 0 && !watcher->is_manual)
		rc = start_thread(watcher);
	if (rc == 0)
		return 0;
fail:
	SXT_LOG(SXT_LOG_ERROR, "starting the watcher thread: %s%s", sxt_strerror(rc),
		rc == -EMFILE   ? "; raise ulimit -n"
		: rc == -EAGAIN ? "; raise ulimit -u, or the container's limit of threads"
				: "");
	close_fds(watcher);
	/* A limit, and not "call again". */
	return rc != -EAGAIN ? rc : -ENOMEM;
}

int sxt_watcher_get(struct sxt_watcher *watcher)
{
	int rc = 0;

	pthread_mutex_lock(&watcher->start_lock);
	if (watcher->is_stopped) {
		SXT_LOG(SXT_LOG_ERROR, "the process is exiting: no new connection is made");
		rc = -ENODEV;
	} else if (watcher->users_cnt == 0) {
		rc = start(watcher);
	}
	if (rc == 0)
		watcher->users_cnt++;
	pthread_mutex_unlock(&watcher->start_lock);
	return rc;
}

/* The caller holds start_lock. */
static void join(struct sxt_watcher *watcher)
{
	if (!watcher->is_running)
		return;
	/* Pairs with the acquire in run(). */
	atomic_store_explicit(&watcher->quit, 1, memory_order_release);
	sxt_watcher_wake(watcher);
	pthread_join(watcher->thread, NULL);
	watcher->is_running = false;
}

void sxt_watcher_put(struct sxt_watcher *watcher)
{
	pthread_mutex_lock(&watcher->start_lock);
	watcher->users_cnt--;
	if (watcher->users_cnt == 0) {
		join(watcher);
		pthread_mutex_lock(&watcher->lock);
		sxt_sides_close_all(watcher);
		pthread_mutex_unlock(&watcher->lock);
		close_fds(watcher);
	}
	pthread_mutex_unlock(&watcher->start_lock);
}

void sxt_watcher_stop(struct sxt_watcher *watcher)
{
	pthread_mutex_lock(&watcher->start_lock);
	join(watcher);
	watcher->is_stopped = true;
	pthread_mutex_unlock(&watcher->start_lock);
}

void sxt_watcher_wake(struct sxt_watcher *watcher)
{
	uint64_t one = 1;

	/* A full counter means that it will wake anyway. */
	sxt_ignore(watcher->ib->sys->write(watcher->wake_fd, &one, sizeof(one)));
}

static struct sxt_device *find_device(const struct sxt_watcher *watcher, uint64_t place)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->ib->devices) {
		if (place-- == 0)
			return SXT_LIST_ENTRY(node, struct sxt_device, node);
	}
	return NULL;
}

/* A descriptor that only ever fails would keep the watcher awake. */
static void forget_device(const struct sxt_watcher *watcher, const struct sxt_device *device,
			  int rc)
{
	struct epoll_event none = {0};

	SXT_LOG(SXT_LOG_WARN, "HCA %s: reading its async events: %s; they are no longer watched",
		device->name, sxt_strerror(rc));
	sxt_ignore(watcher->ib->sys->epoll_ctl(watcher->epfd, EPOLL_CTL_DEL,
					       device->context->async_fd, &none));
}

static void on_device(struct sxt_watcher *watcher, uint64_t place)
{
	struct sxt_device *device = find_device(watcher, place);
	int rc = device != NULL ? sxt_events_drain(watcher, device) : 0;

	if (rc != 0)
		forget_device(watcher, device, rc);
}

static void on_event(struct sxt_watcher *watcher, const struct epoll_event *event)
{
	uint64_t what = event->data.u64;
	uint64_t count;

	if (what == SXT_WATCH_WAKE)
		sxt_ignore(watcher->ib->sys->read(watcher->wake_fd, &count, sizeof(count)));
	else if (what == SXT_WATCH_LISTEN)
		sxt_sides_accept(watcher);
	else if (what >= SXT_WATCH_SIDES)
		sxt_sides_event(watcher, what, event->events);
	else
		on_device(watcher, what - SXT_WATCH_DEVICES);
}

/* Milliseconds until something is due, rounded up; -1 when nothing is. */
static int wait_ms(const struct sxt_watcher *watcher, int max_wait_ms)
{
	uint64_t next_ns = sxt_sides_next_ns(watcher);
	uint64_t shared_ns = sxt_tele_shared_due_ns(watcher->ib->tele);
	uint64_t stalls_ns = sxt_stalls_next_ns(watcher->stalls);
	uint64_t now_ns = watcher->ib->sys->now_ns();
	uint64_t ms;

	if (shared_ns < next_ns)
		next_ns = shared_ns;
	if (stalls_ns < next_ns)
		next_ns = stalls_ns;
	if (next_ns == UINT64_MAX)
		return max_wait_ms;
	ms = next_ns <= now_ns ? 0 : (next_ns - now_ns + SXT_NS_PER_MS - 1) / SXT_NS_PER_MS;
	if (ms > 60000)
		ms = 60000;
	return max_wait_ms >= 0 && (uint64_t)max_wait_ms < ms ? max_wait_ms : (int)ms;
}

void sxt_watcher_step(struct sxt_watcher *watcher, int max_wait_ms)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t now_ns;
	int cnt;

	pthread_mutex_lock(&watcher->lock);
	max_wait_ms = wait_ms(watcher, max_wait_ms);
	pthread_mutex_unlock(&watcher->lock);

	cnt = watcher->ib->sys->epoll_wait(watcher->epfd, events, EVENTS_MAX, max_wait_ms);

	pthread_mutex_lock(&watcher->lock);
	for (int i = 0; i < cnt; i++)
		on_event(watcher, &events[i]);
	now_ns = watcher->ib->sys->now_ns();
	sxt_sides_run_timers(watcher, now_ns);
	sxt_tele_add_shared(watcher->ib->tele, now_ns);
	pthread_mutex_unlock(&watcher->lock);
	sxt_stalls_run(watcher->stalls, now_ns, sxt_tele_ticks());
}
