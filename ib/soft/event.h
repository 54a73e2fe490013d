/*
 * event.h - asynchronous events between processes: a FIFO per open context, in its proc folder.
 *
 * The FIFO's descriptor is ibv_context.async_fd: readable while events wait, and one read takes
 * one whole record. `soft set`, the timeline and the context's own process write to it.
 */
#ifndef SXT_IB_SOFT_EVENT_H
#define SXT_IB_SOFT_EVENT_H

#include "ib/soft/state.h"

/* One record in a FIFO; written whole (shorter than PIPE_BUF). */
struct sxt_soft_event {
	uint32_t type;     /* enum ibv_event_type */
	uint32_t port_num; /* port events; else 0 */
	uint64_t object;   /* the reader's own name for the CQ, QP or SRQ; 0 from other processes */
};

SXT_ASSERT_SIZE(struct sxt_soft_event, 16);

/* The reader's end. */
struct sxt_soft_event_box {
	int fd; /* blocking, as ibv_context.async_fd is; -1 when closed */
	char path[PATH_MAX];
};

/**
 * sxt_soft_event_open() - make the FIFO of one open context.
 * @state: attached. @hca: index. @out: written on success only; sxt_soft_event_close() it.
 * Thread: any. Return: 0, or a negative errno, logged.
 */
SXT_MUST_CHECK int sxt_soft_event_open(struct sxt_soft_state *state, uint32_t hca,
				       struct sxt_soft_event_box *out);

/**
 * sxt_soft_event_close() - close and remove a FIFO; events in it are lost.
 * @box: from sxt_soft_event_open(); closing twice is fine.
 */
void sxt_soft_event_close(struct sxt_soft_event_box *box);

/**
 * sxt_soft_event_send() - put one record into a box of any process.
 * @path: of the box. @event: copied. Never waits. Return: 0, -ENOBUFS when 4096 wait already, or
 * the negative errno of open(): -ENOENT or -ENXIO when its process is gone.
 */
SXT_MUST_CHECK int sxt_soft_event_send(const char *path, const struct sxt_soft_event *event);

/**
 * sxt_soft_event_post() - put one record into every context open on an HCA, in all processes.
 * @state: open or attached. @hca: index. @event: copied; object must be 0.
 * Never waits; a box that is full loses it. Return: how many contexts got it.
 */
int sxt_soft_event_post(struct sxt_soft_state *state, uint32_t hca,
			const struct sxt_soft_event *event);

#endif
