/*
 * run.c - the parent of one check: starts a process per end, watches the clock, and says how they
 * ended (slow path, main thread; loads no plugin itself).
 */
#include "cli/driver/conform/conform.h"
#include "cli/driver/conform/trial.h"

#include "core/sys.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A check gives up by itself when its time is over; a plugin's call that does not return cannot. */
#define GRACE_NS (3 * SXT_NS_PER_SEC)
#define TICK_NS  (2 * 1000 * 1000)

struct end {
	pid_t pid; /* 0: none, or gone */
	int wstatus;
	bool killed; /* by this process, because time was over */
	struct sxt_board *board;
};

struct trial_run {
	const struct sxt_conform_target *target;
	const struct sxt_conform_check *check;
	struct sxt_board *boards; /* shared with the children */
	struct end ends[2];
	int ends_cnt; /* processes of this check on this machine */
	int ranks;    /* processes of this check */
	int fds[2];   /* between the two when both are forked here */
};

static _Noreturn void child_main(struct trial_run *run, int index, pid_t parent)
{
	static struct sxt_trial trial;
	const struct sxt_conform_target *target = run->target;
	int rank = target->place != NULL && run->ranks > 1 ? target->place->rank : index;

	/* A child of a parent that is gone has nobody to report to. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	trial.target = target;
	trial.check = run->check;
	trial.board = run->ends[index].board;
	sxt_drv_boot_init(&trial.boot, rank, run->ranks);
	if (run->ends_cnt > 1) {
		/* Rank 0 keeps one socket per rank, the other one to rank 0. */
		trial.boot.fds[1 - rank] = run->fds[rank];
		close(run->fds[1 - rank]);
		sxt_drv_launch_move(rank * target->hosts / 2);
	}
	sxt_trial_main(&trial);
}

static int start(struct trial_run *run)
{
	pid_t parent = getpid();

	if (run->ends_cnt > 1 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, run->fds) != 0)
		return -errno;
	fflush(NULL);
	for (int i = 0; i < run->ends_cnt; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0)
			child_main(run, i, parent);
		run->ends[i].pid = pid;
	}
	return 0;
}

static void stop(struct trial_run *run)
{
	for (int i = 0; i < run->ends_cnt; i++) {
		if (run->ends[i].pid == 0)
			continue;
		run->ends[i].killed = true;
		kill(run->ends[i].pid, SIGKILL);
	}
}

static int reap(struct trial_run *run)
{
	int left = 0;

	for (int i = 0; i < run->ends_cnt; i++) {
		struct end *end = &run->ends[i];

		if (end->pid != 0 && waitpid(end->pid, &end->wstatus, WNOHANG) == end->pid)
			end->pid = 0;
		left += end->pid != 0;
	}
	return left;
}

/* The time a check has; one that moves much data asks for more. */
static unsigned int limit_of(const struct trial_run *run)
{
	unsigned int limit_s = run->target->timeout_s;

	for (int i = 0; i < run->ends_cnt; i++) {
		unsigned int asked_s = atomic_load(&run->ends[i].board->limit_s);

		limit_s = asked_s > limit_s ? asked_s : limit_s;
	}
	return limit_s;
}

static void await(struct trial_run *run)
{
	const struct timespec tick = {.tv_nsec = TICK_NS};
	uint64_t begin_ns = sxt_sys_host.now_ns();
	bool stopped = false;

	while (reap(run) > 0) {
		uint64_t limit_ns = limit_of(run) * SXT_NS_PER_SEC + GRACE_NS;

		if (!stopped && sxt_sys_host.now_ns() - begin_ns > limit_ns) {
			stop(run);
			stopped = true;
		}
		nanosleep(&tick, NULL);
	}
}

static const char *signal_name(int number)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {
		{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGABRT, "SIGABRT"},
		{SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"},
		{SIGPIPE, "SIGPIPE"}, {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"},
	};

	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		if (names[i].number == number)
			return names[i].name;
	}
	return strsignal(number);
}

/* Steps that are calls of NCCL's table read better with brackets. */
static void name_step(const struct sxt_board *board, char *out, size_t out_bytes)
{
	const char *step = atomic_load_explicit(&board->step, memory_order_relaxed);

	if (step == NULL)
		snprintf(out, out_bytes, "before any call");
	else if (strchr(step, ' ') != NULL)
		snprintf(out, out_bytes, "while %s", step);
	else
		snprintf(out, out_bytes, "in or after %s()", step);
}

static const char *name_end(const struct trial_run *run, int index)
{
	if (run->ends_cnt == 1)
		return "the process";
	return index == 0 ? "the receiver's process" : "the sender's process";
}

/* How an end came to no verdict of its own; false if it has one. */
static bool tell_death(const struct trial_run *run, int index, char *out, size_t out_bytes)
{
	const struct end *end = &run->ends[index];
	const char *who = name_end(run, index);
	char step[96];

	name_step(end->board, step, sizeof(step));
	if (end->killed)
		snprintf(out, out_bytes, "%s does not end: %u s are over, and it is still %s", who,
			 limit_of(run), step);
	else if (WIFSIGNALED(end->wstatus))
		snprintf(out, out_bytes, "%s was killed by %s %s", who,
			 signal_name(WTERMSIG(end->wstatus)), step);
	else if (atomic_load_explicit(&end->board->finished, memory_order_acquire) == 0)
		snprintf(out, out_bytes, "%s ended with exit status %d %s", who,
			 WEXITSTATUS(end->wstatus), step);
	else
		return false;
	return true;
}

static void take_board(const struct sxt_board *board, struct sxt_conform_result *out)
{
	out->verdict = (enum sxt_conform_verdict)board->verdict;
	snprintf(out->seen, sizeof(out->seen), "%s", board->seen);
}

/* How near an end's account is to the cause; the nearest one is told. */
enum nearness {
	FINE,
	HEARD,   /* it failed because the other end did */
	LATE,    /* it waited until time was over */
	BLOCKED, /* a call did not return */
	SAW,     /* it saw what is wrong */
	DIED,
};

static enum nearness nearness_of(const struct end *end)
{
	const struct sxt_board *board = end->board;

	if (end->killed)
		return BLOCKED;
	if (WIFSIGNALED(end->wstatus) ||
	    atomic_load_explicit(&board->finished, memory_order_acquire) == 0)
		return DIED;
	if (board->verdict == SXT_CONFORM_OK)
		return FINE;
	if (board->by_peer)
		return HEARD;
	return board->late ? LATE : SAW;
}

static void sum_up(const struct trial_run *run, struct sxt_conform_result *out)
{
	int nearest = 0;

	if (run->ends_cnt > 1 && nearness_of(&run->ends[1]) > nearness_of(&run->ends[0]))
		nearest = 1;
	if (tell_death(run, nearest, out->seen, sizeof(out->seen)))
		out->verdict = SXT_CONFORM_FAIL;
	else
		take_board(run->ends[nearest].board, out);
}

/* Runs the processes of @check; the boards hold what they said. */
static int run_check(struct trial_run *run)
{
	int rc;

	run->boards = mmap(NULL, 2 * sizeof(*run->boards), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run->boards == MAP_FAILED)
		return -errno;
	for (int i = 0; i < 2; i++) {
		run->ends[i].board = &run->boards[i];
		run->fds[i] = -1;
	}
	/* Where it is ignored, children vanish by themselves and no wait finds them. */
	signal(SIGCHLD, SIG_DFL);
	rc = start(run);
	for (int i = 0; i < 2; i++) {
		if (run->fds[i] >= 0)
			close(run->fds[i]);
	}
	if (rc != 0)
		stop(run);
	await(run);
	return rc;
}

static void end_check(struct trial_run *run)
{
	if (run->boards != MAP_FAILED)
		munmap(run->boards, 2 * sizeof(*run->boards));
}

int sxt_conform_run(const struct sxt_conform_target *target, const struct sxt_conform_check *check,
		    struct sxt_conform_result *out)
{
	struct trial_run run = {.target = target, .check = check, .ends_cnt = 1, .ranks = 1};
	struct sxt_conform_result result = {.verdict = SXT_CONFORM_OK};
	uint64_t begin_ns = sxt_sys_host.now_ns();
	int rc;

	if (target->abi < check->abi_min) {
		result.verdict = SXT_CONFORM_NA;
		snprintf(result.seen, sizeof(result.seen), "needs v%d", check->abi_min);
		*out = result;
		return 0;
	}
	if (target->ranks == 2 && (check->ends & SXT_CONFORM_BOTH) != 0) {
		run.ranks = 2;
		run.ends_cnt = target->place != NULL ? 1 : 2;
	}
	rc = run_check(&run);
	if (rc == 0) {
		sum_up(&run, &result);
		result.elapsed_ms =
			(unsigned int)((sxt_sys_host.now_ns() - begin_ns) / SXT_NS_PER_MS);
		*out = result;
	}
	end_check(&run);
	return rc;
}

/* The probe is a check of its own, which is in no list. */
static int probe(struct sxt_trial *trial)
{
	int rc = sxt_trial_load(trial);

	if (rc != 0)
		return rc;
	trial->board->abis = trial->net->abis;
	snprintf(trial->board->name, sizeof(trial->board->name), "%s",
		 trial->net->name != NULL ? trial->net->name : "(no name)");
	if (SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, 1, &trial->ctx)) != 0 ||
	    SXT_CALL(trial, "devices", trial->net->calls.devices(&trial->devices_cnt)) != 0)
		return -EIO;
	if (trial->devices_cnt <= trial->target->dev)
		return sxt_trial_fail(trial, "devices() gives %d%s", trial->devices_cnt,
				      trial->devices_cnt > 0 ? ": there is no such --dev" : "");
	return 0;
}

int sxt_conform_probe(const struct sxt_conform_target *target, struct sxt_conform_plugin *out)
{
	static const struct sxt_conform_check check = {.name = "probe", .run = probe};
	struct trial_run run = {.target = target, .check = &check, .ends_cnt = 1, .ranks = 1};
	struct sxt_conform_result result = {.verdict = SXT_CONFORM_OK};
	int rc = run_check(&run);

	if (rc == 0) {
		const struct sxt_board *board = run.ends[0].board;

		sum_up(&run, &result);
		out->abis = board->abis;
		snprintf(out->name, sizeof(out->name), "%s", board->name);
		snprintf(out->why, sizeof(out->why), "%s", result.seen);
		rc = result.verdict == SXT_CONFORM_OK ? 0 : -ENOENT;
	}
	end_check(&run);
	return rc;
}
