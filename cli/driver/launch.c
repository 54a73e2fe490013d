/*
 * launch.c - forked ranks and their parent (slow path; the parent loads nothing and has no thread).
 */
#include "cli/driver/launch.h"

#include "cli/driver/boot.h"
#include "core/config.h"
#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ranks tell each other that the run is over; this is for those that cannot listen any more. */
#define GRACE_NS (20 * SXT_NS_PER_SEC)

struct family {
	const struct sxt_drv_fork *spec;
	pid_t pids[SXT_DRV_MAX_RANKS]; /* 0 once it is gone */
	int alive_cnt;
	int root_fds[SXT_DRV_MAX_RANKS]; /* rank 0's ends; [0] unused */
	int leaf_fds[SXT_DRV_MAX_RANKS];
	int status;
	uint64_t deadline_ns;
};

static void close_fds(struct family *family)
{
	for (int i = 0; i < SXT_DRV_MAX_RANKS; i++) {
		if (family->root_fds[i] >= 0)
			close(family->root_fds[i]);
		if (family->leaf_fds[i] >= 0)
			close(family->leaf_fds[i]);
		family->root_fds[i] = -1;
		family->leaf_fds[i] = -1;
	}
}

static int open_fds(struct family *family)
{
	for (int i = 0; i < SXT_DRV_MAX_RANKS; i++) {
		family->root_fds[i] = -1;
		family->leaf_fds[i] = -1;
	}
	for (int i = 1; i < family->spec->ranks; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
			return -errno;
		family->root_fds[i] = pair[0];
		family->leaf_fds[i] = pair[1];
	}
	return 0;
}

/* Keeps what this rank needs of the family's sockets, closes the rest. */
static void keep_own_fds(struct family *family, int rank, int *fds)
{
	for (int i = 0; i < SXT_DRV_MAX_RANKS; i++) {
		int *own = rank == 0 ? &family->root_fds[i] : &family->leaf_fds[i];

		fds[i] = -1;
		if (rank != 0 && i != rank)
			continue;
		fds[rank == 0 ? i : 0] = *own;
		*own = -1;
	}
	close_fds(family);
}

void sxt_drv_launch_move(int host)
{
	const char *state = sxt_env_get("SEXTANT_SOFT_STATE");
	char sysroot[PATH_MAX];
	char name[16];

	if (state == NULL)
		return;
	/* Its HCAs, and its /sys (docs/fabric.md, by number). */
	snprintf(name, sizeof(name), "%d", host);
	snprintf(sysroot, sizeof(sysroot), "%s/hosts/%d", state, host);
	setenv("SEXTANT_SOFT_HOST", name, 1);
	setenv("SEXTANT_SYSROOT", sysroot, 1);
}

static int child_main(struct family *family, int rank,
		      int (*body)(const struct sxt_drv_place *, void *), void *arg)
{
	const struct sxt_drv_fork *spec = family->spec;
	int fds[SXT_DRV_MAX_RANKS];
	struct sxt_drv_place place = {
		.rank = rank,
		.ranks = spec->ranks,
		.host = rank * spec->hosts / spec->ranks,
		.forked = true,
		.fds = fds,
	};

	for (int i = 0; i < rank; i++)
		place.local_rank += i * spec->hosts / spec->ranks == place.host;
	keep_own_fds(family, rank, fds);
	sxt_drv_launch_move(place.host);
	return body(&place, arg);
}

static int spawn(struct family *family, int rank, int (*body)(const struct sxt_drv_place *, void *),
		 void *arg)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	sigset_t set;

	if (pid < 0)
		return -errno;
	if (pid > 0) {
		family->pids[rank] = pid;
		family->alive_cnt++;
		return 0;
	}
	/* A child of a parent that is gone has nobody to report to. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SXT_EXIT_BROKEN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	exit(child_main(family, rank, body, arg));
}

static void worst(struct family *family, int status)
{
	if (status > family->status)
		family->status = status;
}

static void shorten(struct family *family, uint64_t from_now_ns)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + from_now_ns;

	if (end_ns < family->deadline_ns)
		family->deadline_ns = end_ns;
}

static void note_end(struct family *family, pid_t pid, int wstatus)
{
	int rank = 0;

	while (rank < family->spec->ranks && family->pids[rank] != pid)
		rank++;
	if (rank == family->spec->ranks)
		return;
	family->pids[rank] = 0;
	family->alive_cnt--;
	if (WIFSIGNALED(wstatus)) {
		fprintf(stderr, "%s: rank %d (process %d) was killed by signal %d (%s)\n",
			family->spec->progname, rank, (int)pid, WTERMSIG(wstatus),
			strsignal(WTERMSIG(wstatus)));
		worst(family, SXT_EXIT_BROKEN);
		shorten(family, GRACE_NS);
	} else if (WEXITSTATUS(wstatus) != 0) {
		worst(family, WEXITSTATUS(wstatus));
		shorten(family, GRACE_NS);
	}
}

static void kill_rest(struct family *family)
{
	for (int i = 0; i < family->spec->ranks; i++) {
		if (family->pids[i] == 0)
			continue;
		fprintf(stderr, "%s: rank %d (process %d) does not end: killing it\n",
			family->spec->progname, i, (int)family->pids[i]);
		kill(family->pids[i], SIGKILL);
	}
	worst(family, SXT_EXIT_BROKEN);
	family->deadline_ns = UINT64_MAX;
}

static void await_all(struct family *family, const sigset_t *sigchld)
{
	const struct timespec tick = {.tv_sec = 1};

	while (family->alive_cnt > 0) {
		int wstatus;
		pid_t pid = waitpid(-1, &wstatus, WNOHANG);

		if (pid > 0)
			note_end(family, pid, wstatus);
		else if (sxt_sys_host.now_ns() > family->deadline_ns)
			kill_rest(family);
		else
			sigtimedwait(sigchld, NULL, &tick);
	}
}

int sxt_drv_launch_fork(const struct sxt_drv_fork *spec,
			int (*body)(const struct sxt_drv_place *, void *), void *arg)
{
	struct family family = {.spec = spec};
	sigset_t sigchld;
	int rc;

	family.deadline_ns = sxt_sys_host.now_ns() + spec->timeout_s * SXT_NS_PER_SEC + GRACE_NS;
	/* Where it is ignored, ranks vanish by themselves and no wait finds them. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&sigchld);
	sigaddset(&sigchld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &sigchld, NULL);
	fflush(NULL);
	rc = open_fds(&family);
	for (int i = 0; i < spec->ranks && rc == 0; i++)
		rc = spawn(&family, i, body, arg);
	close_fds(&family);
	if (rc != 0) {
		fprintf(stderr, "%s: cannot start %d ranks: %s\n", spec->progname, spec->ranks,
			sxt_strerror(rc));
		kill_rest(&family);
	}
	await_all(&family, &sigchld);
	return family.status;
}
