/*
 * launch.h - where the ranks come from: children of this process, or a launcher's environment.
 */
#ifndef SXT_CLI_DRIVER_LAUNCH_H
#define SXT_CLI_DRIVER_LAUNCH_H

#include "core/compiler.h"

#include <stdbool.h>

/* How many and where; from the command line. */
struct sxt_drv_fork {
	int ranks;
	int hosts;              /* rank r lives on host r x hosts / ranks */
	unsigned int timeout_s; /* children still there that long after are killed */
	const char *progname;   /* before messages */
};

/* One rank's place. */
struct sxt_drv_place {
	int rank;
	int ranks;
	int local_rank; /* among the ranks of its host */
	int host;       /* forked ranks: the pretended host's number; else -1 */
	bool forked;
	const int *fds;   /* forked: rank 0: one socket per rank; others: [0] leads to rank 0 */
	const char *addr; /* else: where rank 0 is */
	const char *port;
};

/**
 * sxt_drv_launch_fork() - run @body in one child per rank and wait for all.
 * @spec: how many. @body: one rank; its return value is the child's exit status. @arg: for it.
 * No library is loaded and no thread started before. Each child gets SEXTANT_SOFT_HOST when
 * SEXTANT_SOFT_STATE is set. A child that dies of a signal is told with its rank; those that do not
 * end soon after it are killed. Return: enum sxt_exit, the worst of all children.
 */
int sxt_drv_launch_fork(const struct sxt_drv_fork *spec,
			int (*body)(const struct sxt_drv_place *, void *), void *arg);

/**
 * sxt_drv_launch_move() - on a software fabric: this process from now on lives on another host.
 * @host: its number. Does nothing without SEXTANT_SOFT_STATE. Thread: before any other.
 */
void sxt_drv_launch_move(int host);

/**
 * sxt_drv_launch_env() - this process's place by the launcher's variables: RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT, else Open MPI's, else Slurm's.
 * @out: written on success only.
 * @why, @why_bytes: on failure, which variable is missing or wrong.
 * Return: 0, -ENOENT when no launcher is to be seen, or -EINVAL.
 */
SXT_MUST_CHECK int sxt_drv_launch_env(struct sxt_drv_place *out, char *why, size_t why_bytes);

#endif
