/*
 * sweep_run.c - one run of the command of `sextant tune sweep`, into its log.
 */
#include "cli/tune/sweep.h"

#include "core/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_AFTER_S 10 /* a command that was asked to end and does not */

/* They would choose where NCCL is to be seen choosing. */
static const char *const unset[] = {"NCCL_ALGO", "NCCL_PROTO", "SEXTANT_TUNER_FILE",
				    "SEXTANT_TUNER_DIGEST", "NCCL_TUNER_CONFIG_FILE"};

static void waited_for(sigset_t *out)
{
	sigemptyset(out);
	sigaddset(out, SIGCHLD);
	sigaddset(out, SIGHUP);
	sigaddset(out, SIGINT);
	sigaddset(out, SIGTERM);
}

void sxt_sweep_signals(sigset_t *old)
{
	sigset_t mine;

	waited_for(&mine);
	sigprocmask(SIG_BLOCK, &mine, old);
}

/* In the child; the error goes to the parent through the pipe. */
static void become(const struct sxt_sweep_run *run, int log_fd, int pipe_fd, const sigset_t *old)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int error;

	setpgid(0, 0);
	for (size_t i = 0; i < SXT_ARRAY_LEN(unset); i++)
		unsetenv(unset[i]);
	if ((run->algo != NULL && setenv("NCCL_ALGO", run->algo, 1) != 0) ||
	    (run->proto != NULL && setenv("NCCL_PROTO", run->proto, 1) != 0) ||
	    dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
	    dup2(log_fd, STDERR_FILENO) < 0)
		goto fail;
	sigprocmask(SIG_SETMASK, old, NULL);
	execvp(run->command[0], run->command);
fail:
	error = errno;
	sxt_ignore(write(pipe_fd, &error, sizeof(error)));
	_exit(1);
}

/* Return: 0 and the child's number once the command runs. */
static int start(const struct sxt_sweep_run *run, int log_fd, const sigset_t *old, pid_t *out)
{
	int fds[2];
	int error = 0;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	child = fork();
	if (child == 0)
		become(run, log_fd, fds[1], old);
	if (child < 0)
		error = errno;
	close(fds[1]);
	if (child > 0 && read(fds[0], &error, sizeof(error)) > 0)
		waitpid(child, NULL, 0);
	close(fds[0]);
	*out = child;
	return -error;
}

static void await(struct sxt_sweep_run *run, pid_t child)
{
	uint64_t start_ns = sxt_sys_host.now_ns();
	uint64_t limit_s = run->timeout_s > 0 ? (uint64_t)run->timeout_s : UINT32_MAX;
	const struct timespec second = {.tv_sec = 1};
	sigset_t mine;

	waited_for(&mine);
	while (waitpid(child, &run->status, WNOHANG) == 0) {
		int signal = sigtimedwait(&mine, NULL, &second);
		uint64_t after_s = (sxt_sys_host.now_ns() - start_ns) / SXT_NS_PER_SEC;

		if (signal > 0 && signal != SIGCHLD) {
			run->signal = signal;
			kill(-child, signal);
			limit_s = after_s;
		} else if (after_s >= limit_s + KILL_AFTER_S) {
			kill(-child, SIGKILL);
		} else if (after_s >= limit_s && run->signal == 0) {
			run->timed_out = true;
			kill(-child, SIGTERM);
		}
	}
	/* Ranks that the launcher left behind would spoil the next run. */
	kill(-child, SIGKILL);
	run->seconds = (double)(sxt_sys_host.now_ns() - start_ns) / 1e9;
}

int sxt_sweep_run(struct sxt_sweep_run *run, const sigset_t *old)
{
	int fd = open(run->file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	pid_t child = -1;
	int rc;

	if (fd < 0)
		return -errno;
	run->timed_out = false;
	run->signal = 0;
	rc = dprintf(fd, "%s\n", run->head) < 0 ? -errno : 0;
	if (rc == 0)
		rc = start(run, fd, old, &child);
	if (rc == 0) {
		setpgid(child, child);
		await(run, child);
	}
	close(fd);
	return rc;
}
