/*
 * run.h - one rank of a run: what its threads share, how they stop, and who says what failed.
 */
#ifndef SXT_CLI_DRIVER_RUN_H
#define SXT_CLI_DRIVER_RUN_H

#include "cli/driver/boot.h"
#include "cli/driver/net.h"
#include "cli/driver/worker.h"

#include <pthread.h>
#include <stdatomic.h>

/* Why the loops of the service and the progress thread have to end. */
enum sxt_drv_stop {
	SXT_DRV_GO = 0,
	SXT_DRV_STOP_FAILED,  /* another rank or another thread failed: leave quietly */
	SXT_DRV_STOP_TIMEOUT, /* the run's time is over: say where it hangs */
};

struct sxt_drv_run {
	int rank;
	int ranks;
	struct sxt_drv_boot *boot;
	struct sxt_drv_net *net;
	uint64_t deadline_ns; /* of the whole run */
	uint64_t stall_ns;    /* longest time without any step */
	_Atomic int stop;     /* enum sxt_drv_stop; loops read it */
	pthread_mutex_t lock; /* guards the two below */
	char error[2048];     /* the first failure of this rank, empty if none */
	int exit_status;      /* enum sxt_exit that goes with it */
	bool by_peer;         /* the failure is another rank's, that of gone; main thread only */
	struct sxt_drv_abort gone;
	const char *doing; /* what the main thread is at, for the last watchdog */
};

/* What one of several workers is to do at the same time as the others. */
struct sxt_drv_job {
	struct sxt_drv_worker *worker;
	int (*work)(void *arg);
	void *arg;
	bool ended;
};

/**
 * sxt_drv_run_init() - prepare the state of one rank.
 * @run: zeroed by this. @boot: stays the caller's. @timeout_s, @stall_s: limits in seconds.
 */
void sxt_drv_run_init(struct sxt_drv_run *run, struct sxt_drv_boot *boot, unsigned int timeout_s,
		      unsigned int stall_s);

/**
 * sxt_drv_run_fail() - note a failure; the first one of a run stays.
 * @exit_status: enum sxt_exit. @fmt: whole sentence without the rank, which is put before it.
 * Tells the loops of the rank's other threads to leave. Thread: any. Return: -EIO, to be returned
 * on.
 */
int sxt_drv_run_fail(struct sxt_drv_run *run, int exit_status, const char *fmt, ...)
	SXT_PRINTF(3, 4);

/**
 * sxt_drv_run_fail_call() - note that a call of the plugin failed, with the last WARN it logged.
 * @call: its name in NCCL's table. @where: which device, connection or peer; may be "".
 * @result: what it returned. Thread: any. Return: -EIO, to be returned on.
 */
int sxt_drv_run_fail_call(struct sxt_drv_run *run, const char *call, const char *where,
			  ncclResult_t result);

/**
 * sxt_drv_run_jobs() - run jobs at the same time and wait for all, watching the other ranks and
 * the clock.
 * @jobs: one per worker. @cnt: how many.
 * @tick: called about twice a second meanwhile, with @tick_arg; may be NULL.
 * A job that does not leave within 10 s after it was told to ends the process, since a plugin that
 * blocks its caller cannot be unwound. Thread: main. Return: 0, or -EIO when a job failed or the
 * run was stopped.
 */
int sxt_drv_run_jobs(struct sxt_drv_run *run, struct sxt_drv_job *jobs, int cnt,
		     void (*tick)(void *), void *tick_arg);

/**
 * sxt_drv_run_gather() - every rank's contribution to every rank.
 * @in: @bytes of this rank. @out: ranks x @bytes. Thread: main. Return: 0, or -EIO with the failure
 * noted.
 */
int sxt_drv_run_gather(struct sxt_drv_run *run, const void *in, size_t bytes, void *out);

/**
 * sxt_drv_run_barrier() - wait for every rank. Thread: main. Return: as sxt_drv_run_gather().
 */
int sxt_drv_run_barrier(struct sxt_drv_run *run);

/**
 * sxt_drv_run_fini() - release what the state itself holds; the boot and the net stay.
 */
void sxt_drv_run_fini(struct sxt_drv_run *run);

#endif
