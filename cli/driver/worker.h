/*
 * worker.h - a thread that runs one job at a time: NCCL's service and progress threads.
 */
#ifndef SXT_CLI_DRIVER_WORKER_H
#define SXT_CLI_DRIVER_WORKER_H

#include "core/compiler.h"

#include <pthread.h>
#include <stdbool.h>

struct sxt_drv_worker {
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t wake;
	int (*job)(void *arg); /* NULL while idle */
	void *arg;
	int result;
	bool quit;
	int done_fd; /* eventfd: readable once a job has ended */
};

/**
 * sxt_drv_worker_start() - start the thread.
 * @worker: zeroed by the caller. @name: as ps shows it. Return: 0, or a negative errno.
 */
SXT_MUST_CHECK int sxt_drv_worker_start(struct sxt_drv_worker *worker, const char *name);

/**
 * sxt_drv_worker_submit() - hand over a job; the worker is idle.
 */
void sxt_drv_worker_submit(struct sxt_drv_worker *worker, int (*job)(void *), void *arg);

/**
 * sxt_drv_worker_result() - take the result of a job that has ended (done_fd is readable).
 * Return: what the job returned.
 */
int sxt_drv_worker_result(struct sxt_drv_worker *worker);

/**
 * sxt_drv_worker_stop() - join the thread; one that was never started is fine.
 */
void sxt_drv_worker_stop(struct sxt_drv_worker *worker);

#endif
