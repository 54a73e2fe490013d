/*
 * soft_watch.h - `soft run` notices processes of the fabric that die, and marks them dead.
 */
#ifndef SXT_CLI_SOFT_WATCH_H
#define SXT_CLI_SOFT_WATCH_H

#include "ib/soft/state.h"

#include <poll.h>

struct sxt_soft_watch {
	struct sxt_soft_state *state;
	int wake_fd;                        /* the state's FIFO: somebody attached */
	int pid_fds[SXT_SOFT_PROCS_MAX];    /* -1 where nothing is watched */
	uint64_t words[SXT_SOFT_PROCS_MAX]; /* whom each descriptor stands for */
};

/* The wake FIFO and every process. */
#define SXT_SOFT_WATCH_POLLS_MAX (1 + SXT_SOFT_PROCS_MAX)

/**
 * sxt_soft_watch_init() - begin to watch.
 * @watch: filled in on success; sxt_soft_watch_fini() it. @state: open, outlives it.
 * Return: 0 or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_watch_init(struct sxt_soft_watch *watch, struct sxt_soft_state *state);

/**
 * sxt_soft_watch_fini() - stop watching and hand over to the other `soft run` of the fabric.
 * @watch: initialised.
 */
void sxt_soft_watch_fini(struct sxt_soft_watch *watch);

/**
 * sxt_soft_watch_polls() - what to wait for.
 * @watch: initialised. @out: room for SXT_SOFT_WATCH_POLLS_MAX. Return: how many were written.
 */
size_t sxt_soft_watch_polls(const struct sxt_soft_watch *watch, struct pollfd *out);

/**
 * sxt_soft_watch_step() - mark dead who died, watch who is new; any time, cheap.
 * @watch: initialised.
 */
void sxt_soft_watch_step(struct sxt_soft_watch *watch);

#endif
