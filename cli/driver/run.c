/*
 * run.c - the main thread of one rank: jobs for the other threads, barriers, and the first failure.
 */
#include "cli/driver/run.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS       500
#define LEAVE_TIME_NS (10 * SXT_NS_PER_SEC)

void sxt_drv_run_init(struct sxt_drv_run *run, struct sxt_drv_boot *boot, unsigned int timeout_s,
		      unsigned int stall_s)
{
	memset(run, 0, sizeof(*run));
	pthread_mutex_init(&run->lock, NULL);
	run->boot = boot;
	run->rank = boot->rank;
	run->ranks = boot->ranks;
	run->deadline_ns = sxt_sys_host.now_ns() + timeout_s * SXT_NS_PER_SEC;
	run->stall_ns = stall_s * SXT_NS_PER_SEC;
	run->doing = "starting";
}

void sxt_drv_run_fini(struct sxt_drv_run *run)
{
	pthread_mutex_destroy(&run->lock);
}

int sxt_drv_run_fail(struct sxt_drv_run *run, int exit_status, const char *fmt, ...)
{
	int go = SXT_DRV_GO;
	va_list args;

	pthread_mutex_lock(&run->lock);
	if (run->error[0] == '\0') {
		va_start(args, fmt);
		vsnprintf(run->error, sizeof(run->error), fmt, args);
		va_end(args);
		run->exit_status = exit_status;
	}
	pthread_mutex_unlock(&run->lock);
	/* A time that is over stays over: who hangs is still to be told. */
	atomic_compare_exchange_strong(&run->stop, &go, SXT_DRV_STOP_FAILED);
	return -EIO;
}

int sxt_drv_run_fail_call(struct sxt_drv_run *run, const char *call, const char *where,
			  ncclResult_t result)
{
	/* NCCL goes on to its next network when init declines: nothing here broke. */
	int status = strcmp(call, "init") == 0 ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
	char warn[1024];

	sxt_drv_log_last_warn(warn, sizeof(warn));
	return sxt_drv_run_fail(run, status, "%s()%s%s of net v%d returned %s (%d); %s%s", call,
				where[0] != '\0' ? " " : "", where, run->net->abi,
				sxt_drv_result_name(result), (int)result,
				warn[0] != '\0' ? "the plugin's last warning: "
						: "the plugin logged no warning",
				warn);
}

static int fail_gone(struct sxt_drv_run *run, const struct sxt_drv_abort *gone)
{
	bool first;

	pthread_mutex_lock(&run->lock);
	first = run->error[0] == '\0';
	pthread_mutex_unlock(&run->lock);
	if (first) {
		run->by_peer = true;
		run->gone = *gone;
	}
	return sxt_drv_run_fail(run, gone->exit_status, "rank %d %s", gone->rank, gone->text);
}

/* Takes the result of a job that has ended. */
static int end_job(struct sxt_drv_job *job)
{
	job->ended = true;
	return sxt_drv_worker_result(job->worker);
}

/* The workers were told to stop; a plugin that never comes back cannot be waited for. */
static void await_leaving(struct sxt_drv_run *run, struct sxt_drv_job *jobs, int cnt)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + LEAVE_TIME_NS;
	struct sxt_drv_boot nobody;
	int left = 0;

	sxt_drv_boot_init(&nobody, 0, 1);
	while (left < cnt && sxt_sys_host.now_ns() < end_ns) {
		struct sxt_drv_job *job = &jobs[left];

		/* What they say counts no more: the run has failed already. */
		if (!job->ended &&
		    sxt_drv_boot_wait(&nobody, job->worker->done_fd, TICK_MS, NULL) > 0)
			sxt_ignore(end_job(job));
		left += job->ended;
	}
	if (left == cnt)
		return;
	fprintf(stderr,
		"sextant bench: rank %d: %s; a call of the plugin does not return while %s, so "
		"the process ends here\n",
		run->rank, run->error[0] != '\0' ? run->error : "time is over", run->doing);
	_exit(SXT_EXIT_BROKEN);
}

/* Return: 0 to go on, or -EIO after all workers have left: another rank, the clock or @wait_rc. */
static int stop_if_due(struct sxt_drv_run *run, struct sxt_drv_job *jobs, int cnt, int wait_rc,
		       const struct sxt_drv_abort *gone)
{
	if (wait_rc >= 0 && sxt_sys_host.now_ns() <= run->deadline_ns)
		return 0;
	if (wait_rc >= 0)
		atomic_store(&run->stop, SXT_DRV_STOP_TIMEOUT);
	else if (wait_rc == -ECONNABORTED)
		sxt_ignore(fail_gone(run, gone));
	else
		sxt_drv_run_fail(run, SXT_EXIT_BUG, "waiting failed: %s", sxt_strerror(wait_rc));
	await_leaving(run, jobs, cnt);
	if (wait_rc < 0)
		return -EIO;
	return sxt_drv_run_fail(run, SXT_EXIT_BROKEN, "--timeout is over while %s", run->doing);
}

int sxt_drv_run_jobs(struct sxt_drv_run *run, struct sxt_drv_job *jobs, int cnt,
		     void (*tick)(void *), void *tick_arg)
{
	struct sxt_drv_abort gone;
	int result = 0;
	int ended = 0;

	for (int i = 0; i < cnt; i++) {
		jobs[i].ended = false;
		sxt_drv_worker_submit(jobs[i].worker, jobs[i].work, jobs[i].arg);
	}
	while (ended < cnt) {
		struct sxt_drv_job *job = &jobs[ended];
		int rc = sxt_drv_boot_wait(run->boot, job->worker->done_fd, TICK_MS, &gone);

		if (rc > 0) {
			if (end_job(job) != 0)
				result = -EIO;
			ended++;
			continue;
		}
		if (stop_if_due(run, jobs, cnt, rc, &gone) != 0)
			return -EIO;
		if (tick != NULL)
			tick(tick_arg);
	}
	return result;
}

int sxt_drv_run_gather(struct sxt_drv_run *run, const void *in, size_t bytes, void *out)
{
	struct sxt_drv_abort gone;
	int rc = sxt_drv_boot_gather(run->boot, in, bytes, out, run->deadline_ns, &gone);

	if (rc == 0)
		return 0;
	if (rc == -ECONNABORTED)
		return fail_gone(run, &gone);
	if (rc == -ETIMEDOUT)
		return sxt_drv_run_fail(run, SXT_EXIT_BROKEN,
					"--timeout is over while %s: no word from rank %d",
					run->doing, gone.rank);
	return sxt_drv_run_fail(run, SXT_EXIT_BROKEN, "the bootstrap failed while %s: %s",
				run->doing, sxt_strerror(rc));
}

int sxt_drv_run_barrier(struct sxt_drv_run *run)
{
	return sxt_drv_run_gather(run, NULL, 0, NULL);
}
