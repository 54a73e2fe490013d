/*
 * channel.c - completion channels: how a program sleeps until a completion comes.
 *
 * The descriptor a program sees is an epoll over a FIFO, which any process makes readable, and a
 * timer, for completions that are on their way and for work to try again. Slow paths, any thread.
 */
#include "ib/soft/objects.h"

#include "core/log.h"
#include "core/status.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct sxt_soft_channel *channel_of(struct ibv_comp_channel *base)
{
	return SXT_CONTAINER_OF(base, struct sxt_soft_channel, base);
}

static void channel_free(struct sxt_soft_channel *channel)
{
	if (channel->base.fd >= 0)
		close(channel->base.fd);
	if (channel->timer_fd >= 0)
		close(channel->timer_fd);
	if (channel->fifo_fd >= 0) {
		close(channel->fifo_fd);
		unlink(channel->path);
	}
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_descriptors(struct sxt_soft_channel *channel)
{
	int rc;

	if (mkfifo(channel->path, 0600) != 0)
		return -errno;
	channel->fifo_fd = open(channel->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (channel->fifo_fd < 0) {
		rc = -errno;
		unlink(channel->path);
		return rc;
	}
	channel->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (channel->timer_fd < 0)
		return -errno;
	channel->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (channel->base.fd < 0)
		return -errno;
	rc = watch(channel->base.fd, channel->fifo_fd);
	return rc != 0 ? rc : watch(channel->base.fd, channel->timer_fd);
}

int sxt_soft_channel_create(struct ibv_context *context, struct ibv_comp_channel **out)
{
	struct sxt_soft_engine *engine = sxt_soft_context_of(context)->engine;
	struct sxt_soft_channel *channel = calloc(1, sizeof(*channel));
	int len;
	int rc;

	if (channel == NULL)
		return -ENOMEM;
	channel->base.context = context;
	channel->base.fd = -1;
	channel->fifo_fd = -1;
	channel->timer_fd = -1;
	pthread_mutex_init(&channel->lock, NULL);
	sxt_list_init(&channel->cqs);
	pthread_mutex_lock(&engine->lock);
	channel->number = engine->next_channel++;
	pthread_mutex_unlock(&engine->lock);
	len = snprintf(channel->path, sizeof(channel->path), "%s/proc/%u/channel-%u",
		       engine->state->dir, engine->self->slot, channel->number);
	rc = len < (int)sizeof(channel->path) ? open_descriptors(channel) : -ENAMETOOLONG;
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "completion channel %s: %s", channel->path,
			sxt_strerror(rc));
		channel_free(channel);
		return rc;
	}
	*out = &channel->base;
	return 0;
}

int sxt_soft_channel_destroy(struct ibv_comp_channel *base)
{
	struct sxt_soft_channel *channel = channel_of(base);
	bool busy;

	pthread_mutex_lock(&channel->lock);
	busy = !sxt_list_empty(&channel->cqs);
	pthread_mutex_unlock(&channel->lock);
	if (busy)
		return -EBUSY;
	channel_free(channel);
	return 0;
}

void sxt_soft_channel_add(struct sxt_soft_channel *channel, struct sxt_soft_cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	sxt_list_append(&channel->cqs, &cq->in_channel);
	channel->base.refcnt++;
	cq->shared->channel = channel->number;
	pthread_mutex_unlock(&channel->lock);
}

void sxt_soft_channel_remove(struct sxt_soft_channel *channel, struct sxt_soft_cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	sxt_list_remove(&cq->in_channel);
	channel->base.refcnt--;
	pthread_mutex_unlock(&channel->lock);
}

/* Makes the descriptor readable at a time; 0 is never. Under channel->lock. */
static void set_timer(struct sxt_soft_channel *channel, uint64_t at_ns)
{
	struct itimerspec value = {.it_value.tv_sec = (time_t)(at_ns / 1000000000u),
				   .it_value.tv_nsec = (long)(at_ns % 1000000000u)};

	/* 0 disarms, which also takes the readiness away. */
	sxt_ignore(timerfd_settime(channel->timer_fd, TFD_TIMER_ABSTIME, &value, NULL));
}

void sxt_soft_channel_retry(struct sxt_soft_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	set_timer(channel, sxt_soft_now_ns() + SXT_SOFT_RETRY_NS);
	pthread_mutex_unlock(&channel->lock);
}

static void note_wait(uint64_t *wait_until_ns, uint64_t at_ns)
{
	if (*wait_until_ns == 0 || at_ns < *wait_until_ns)
		*wait_until_ns = at_ns;
}

/*
 * Takes one event that is due, and sets the timer to when there is something to do again: the
 * next event, or work to try. @more_out: others are due too.
 */
static struct sxt_soft_cq *take_event(struct sxt_soft_channel *channel, bool *more_out)
{
	struct sxt_soft_engine *engine = sxt_soft_context_of(channel->base.context)->engine;
	uint64_t now = sxt_soft_now_ns();
	uint64_t wait_until_ns = 0;
	struct sxt_soft_cq *taken = NULL;
	struct sxt_list *node;
	struct sxt_list *after;

	*more_out = false;
	pthread_mutex_lock(&channel->lock);
	sxt_list_for_each (node, after, &channel->cqs) {
		struct sxt_soft_cq *cq = SXT_LIST_ENTRY(node, struct sxt_soft_cq, in_channel);
		uint64_t due = atomic_load(&cq->shared->event_ns);

		if (atomic_load(&cq->shared->events) == 0)
			continue;
		if (due > now) {
			note_wait(&wait_until_ns, due);
		} else if (taken != NULL) {
			*more_out = true;
		} else {
			taken = cq;
			atomic_fetch_sub(&cq->shared->events, 1);
			*more_out = atomic_load(&cq->shared->events) != 0;
		}
	}
	if (taken != NULL) {
		/* The next get_cq_event of a busy CQ comes first to the others. */
		sxt_list_remove(&taken->in_channel);
		sxt_list_append(&channel->cqs, &taken->in_channel);
		pthread_mutex_lock(&taken->base.mutex);
		taken->comp_given++;
		pthread_mutex_unlock(&taken->base.mutex);
	}
	/* Counted before sxt_soft_channel_retry() takes the lock: one of the two sets the timer. */
	if (atomic_load(&engine->stalled_cnt) != 0)
		note_wait(&wait_until_ns, now + SXT_SOFT_RETRY_NS);
	set_timer(channel, wait_until_ns);
	pthread_mutex_unlock(&channel->lock);
	return taken;
}

static void drain(const struct sxt_soft_channel *channel)
{
	char bytes[512];

	while (read(channel->fifo_fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		;
}

/* Sleeps until the FIFO is written or the timer, which other threads set too, has run down. */
static int sleep_on(const struct sxt_soft_channel *channel)
{
	struct pollfd fd = {.fd = channel->base.fd, .events = POLLIN};

	return poll(&fd, 1, -1) < 0 ? -errno : 0;
}

int sxt_soft_cq_event_get(struct ibv_comp_channel *base, struct ibv_cq **cq_out,
			  void **cq_context_out)
{
	struct sxt_soft_channel *channel = channel_of(base);
	struct sxt_soft_engine *engine = sxt_soft_context_of(base->context)->engine;
	struct sxt_soft_cq *cq;
	bool more;
	int rc;

	for (;;) {
		if (atomic_load(&engine->stalled_cnt) != 0)
			sxt_soft_progress_all(engine);
		/* Emptied first: what comes after this makes it readable again. */
		drain(channel);
		cq = take_event(channel, &more);
		if (cq != NULL)
			break;
		if ((fcntl(base->fd, F_GETFL) & O_NONBLOCK) != 0)
			return -EAGAIN;
		rc = sleep_on(channel);
		if (rc != 0)
			return rc;
	}
	/* The descriptor stays readable while there is more to get. */
	if (more)
		sxt_ignore(write(channel->fifo_fd, "", 1));
	*cq_out = &cq->base;
	*cq_context_out = cq->base.cq_context;
	return 0;
}

void sxt_soft_cq_event_ack(struct ibv_cq *cq, unsigned int cnt)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += cnt;
	pthread_cond_broadcast(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
