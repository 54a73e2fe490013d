/*
 * soft_watch.c - one pidfd per process of the fabric (slow path, one thread).
 *
 * Several `soft run` may watch the same process; burying is idempotent. A kernel without pidfds,
 * or a process out of descriptors, is covered by the look at /proc in every step, once a second.
 */
#include "cli/soft_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_wake(const struct sxt_soft_state *state, int flags)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/wake", state->dir) >= (int)sizeof(path))
		return -1;
	return open(path, flags | O_NONBLOCK | O_CLOEXEC);
}

int sxt_soft_watch_init(struct sxt_soft_watch *watch, struct sxt_soft_state *state)
{
	/* Read and write, so that it is never at its end. */
	int fd = open_wake(state, O_RDWR);

	if (fd < 0)
		return -errno;
	watch->state = state;
	watch->wake_fd = fd;
	for (size_t i = 0; i < SXT_SOFT_PROCS_MAX; i++)
		watch->pid_fds[i] = -1;
	memset(watch->words, 0, sizeof(watch->words));
	return 0;
}

void sxt_soft_watch_fini(struct sxt_soft_watch *watch)
{
	for (size_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		if (watch->pid_fds[i] >= 0)
			close(watch->pid_fds[i]);
	}
	/* A wake-up we took may have been for a process that others now have to watch. */
	sxt_ignore(write(watch->wake_fd, "", 1));
	close(watch->wake_fd);
}

size_t sxt_soft_watch_polls(const struct sxt_soft_watch *watch, struct pollfd *out)
{
	size_t cnt = 0;

	out[cnt++] = (struct pollfd){.fd = watch->wake_fd, .events = POLLIN};
	for (size_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		if (watch->pid_fds[i] >= 0)
			out[cnt++] = (struct pollfd){.fd = watch->pid_fds[i], .events = POLLIN};
	}
	return cnt;
}

static bool is_gone(const struct sxt_soft_proc *proc)
{
	uint64_t start_ticks;

	return sxt_soft_proc_start_ticks(proc->pid, &start_ticks) != 0 ||
	       start_ticks != proc->start_ticks;
}

static void unwatch(struct sxt_soft_watch *watch, uint32_t slot)
{
	if (watch->pid_fds[slot] >= 0)
		close(watch->pid_fds[slot]);
	watch->pid_fds[slot] = -1;
}

static void step_slot(struct sxt_soft_watch *watch, uint32_t slot)
{
	struct sxt_soft_proc *proc = &watch->state->fabric->procs[slot];
	/* Acquire: pairs with the release in attach, the other members are there. */
	uint64_t word = atomic_load_explicit(&proc->word, memory_order_acquire);

	if (word != watch->words[slot])
		unwatch(watch, slot);
	watch->words[slot] = word;
	if (sxt_soft_proc_word_state(word) != SXT_SOFT_PROC_ALIVE)
		return;
	if (watch->pid_fds[slot] < 0)
		watch->pid_fds[slot] = (int)syscall(SYS_pidfd_open, proc->pid, 0);
	/* Looked at after opening: a descriptor of a later process with this pid is noticed. */
	if (is_gone(proc)) {
		unwatch(watch, slot);
		sxt_soft_proc_bury(watch->state, slot, word);
	}
}

void sxt_soft_watch_step(struct sxt_soft_watch *watch)
{
	char drained[64];

	while (read(watch->wake_fd, drained, sizeof(drained)) > 0)
		;
	for (uint32_t slot = 0; slot < SXT_SOFT_PROCS_MAX; slot++)
		step_slot(watch, slot);
}
