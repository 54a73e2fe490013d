/*
 * end.c - checks of how things end: closing, finalize, unloading, and what stays behind.
 */
#include "cli/driver/conform/pair.h"

#include "core/sys.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 4
#define STRIDE   8192
#define SIGNALS  65

extern char **environ;

static int open_pair(struct sxt_trial *trial, struct sxt_pair *pair)
{
	return sxt_trial_open(trial) != 0 ? -EIO : sxt_pair_open(pair, trial);
}

static int post_messages(struct sxt_pair *pair, struct sxt_drv_msg *rooms)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		rooms[i] = sxt_pair_clear(pair, SXT_PAIR_HOME + (size_t)i * STRIDE, 4096);
		if (sxt_pair_recv(pair, 1, &rooms[i]) != 0)
			return -EIO;
	}
	return sxt_trial_sync(pair->trial);
}

static int send_messages(struct sxt_pair *pair)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct sxt_drv_msg msg =
			sxt_pair_fill(pair, SXT_PAIR_HOME + (size_t)i * STRIDE, 4096, i);
		bool posted = false;
		int moved = 0;

		/* No send is tested. */
		while (!posted) {
			if (sxt_pair_try_send(pair, &msg, &posted) != 0 ||
			    (!posted &&
			     (sxt_pair_poll_recvs(pair, &moved) != 0 ||
			      sxt_trial_pause(pair->trial, "isend() gives no request") != 0)))
				return -EIO;
		}
	}
	return 0;
}

/* A send whose receiver is gone may be done or fail; it may not stay. */
static int end_sends(struct sxt_pair *pair)
{
	struct sxt_trial *trial = pair->trial;
	struct sxt_flow *flow = &pair->sends;

	while (flow->done < flow->posted) {
		struct sxt_op *op = &flow->ops[flow->done];
		int done = 0;

		if (SXT_TRY(trial, "test", trial->net->calls.test(op->request, &done, op->sizes)) !=
		    ncclSuccess)
			return 0;
		flow->done += done != 0;
		if (done == 0 &&
		    sxt_trial_pause(trial, "sends after their receiver has taken the data and "
					   "closed") != 0)
			return -EIO;
	}
	return 0;
}

/* The receiver's data is there before it closes; without test of the sends, where they are here. */
static int take_messages(struct sxt_pair *pair, const struct sxt_drv_msg *rooms)
{
	int moved = 0;

	while (pair->recvs.done < pair->recvs.posted) {
		if (sxt_pair_poll_recvs(pair, &moved) != 0 ||
		    (pair->recvs.done < pair->recvs.posted &&
		     sxt_trial_pause(pair->trial, "receives of what was sent") != 0))
			return -EIO;
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		if (sxt_pair_verify(pair, &rooms[i], 4096, i) != 0)
			return -EIO;
	}
	return 0;
}

int sxt_check_close_receiver_first(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg rooms[MESSAGES];

	if (open_pair(trial, &pair) != 0 || post_messages(&pair, rooms) != 0 ||
	    send_messages(&pair) != 0 || take_messages(&pair, rooms) != 0 ||
	    sxt_pair_close_recv(&pair) != 0 || sxt_trial_sync(trial) != 0 || end_sends(&pair) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_close_in_flight(struct sxt_trial *trial)
{
	static struct sxt_pair busy;
	static struct sxt_pair beside;
	struct sxt_drv_msg rooms[MESSAGES];
	struct sxt_drv_msg more[MESSAGES];

	/* The sends are never tested, and half of the receives are never sent to. */
	if (open_pair(trial, &busy) != 0 || sxt_pair_open(&beside, trial) != 0 ||
	    post_messages(&busy, rooms) != 0 || post_messages(&busy, more) != 0 ||
	    send_messages(&busy) != 0 || sxt_trial_sync(trial) != 0 || sxt_pair_close(&busy) != 0 ||
	    sxt_trial_sync(trial) != 0 || sxt_pair_exchange(&beside, 4096, 1) != 0)
		return -EIO;
	return sxt_pair_end(&beside);
}

int sxt_check_finalize_one_of_two(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct sxt_pair other;
	void *second = NULL;

	if (open_pair(trial, &pair) != 0 || sxt_pair_exchange(&pair, 4096, 1) != 0 ||
	    SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, 2, &second)) != 0 ||
	    sxt_pair_live(&other, trial, second) != 0 ||
	    SXT_CALL(trial, "finalize", sxt_drv_net_finalize(trial->net, second)) != 0 ||
	    sxt_pair_exchange(&pair, 4096, 2) != 0 || sxt_pair_live(&other, trial, trial->ctx) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

/* Threads and descriptors of this process. */
struct holdings {
	int threads;
	int fds;
};

static struct holdings count_holdings(void)
{
	return (struct holdings){.threads = sxt_trial_count("task"), .fds = sxt_trial_count("fd")};
}

static void *end_at_once(void *arg)
{
	return arg;
}

/*
 * The count to compare with. With the first thread of a process its runtime may start one of its
 * own, as the thread sanitizer does; that is not the plugin's.
 */
static struct holdings count_first(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
		pthread_join(thread, NULL);
	return count_holdings();
}

static int compare_threads(struct sxt_trial *trial, struct holdings before, const char *when)
{
	int threads = sxt_trial_await_count("task", before.threads);

	if (threads <= before.threads)
		return 0;
	return sxt_trial_fail(trial, "%d threads run %s, %d did before", threads, when,
			      before.threads);
}

static int compare_fds(struct sxt_trial *trial, struct holdings before, const char *when)
{
	int fds = sxt_trial_await_count("fd", before.fds);

	if (fds <= before.fds)
		return 0;
	return sxt_trial_fail(trial, "%d descriptors are open %s, %d were after the first", fds,
			      when, before.fds);
}

int sxt_check_finalize_leftovers(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct holdings before;
	struct holdings first = {0};

	if (sxt_trial_load(trial) != 0)
		return -EIO;
	before = count_first();
	if (sxt_trial_init(trial) != 0)
		return -EIO;
	for (int i = 0; i < 4; i++) {
		if (sxt_pair_live_context(&pair, trial, 2 + (uint64_t)i) != 0)
			return -EIO;
		/* What a plugin opens once for the process may stay. */
		if (i == 0)
			first = count_holdings();
	}
	if (compare_fds(trial, first, "after the fourth finalize()") != 0 ||
	    sxt_trial_finalize(trial) != 0)
		return -EIO;
	return compare_threads(trial, before, "after the last finalize()");
}

/* What of the process belongs to the application. */
struct surroundings {
	struct sigaction actions[SIGNALS];
	char cwd[4096];
	mode_t mask;
	char *variables;
};

static char *copy_environment(void)
{
	size_t bytes = 1;
	size_t used = 0;
	char *copy;

	for (char **v = environ; *v != NULL; v++)
		bytes += strlen(*v) + 1;
	copy = calloc(1, bytes);
	for (char **v = environ; copy != NULL && *v != NULL; v++)
		used += (size_t)snprintf(copy + used, bytes - used, "%s\n", *v);
	return copy;
}

static void look_around(struct surroundings *out)
{
	memset(out, 0, sizeof(*out));
	for (int i = 1; i < SIGNALS; i++)
		sigaction(i, NULL, &out->actions[i]);
	if (getcwd(out->cwd, sizeof(out->cwd)) == NULL)
		out->cwd[0] = '\0';
	out->mask = umask(0);
	umask(out->mask);
	out->variables = copy_environment();
}

static int compare_surroundings(struct sxt_trial *trial, const struct surroundings *before,
				const struct surroundings *after)
{
	for (int i = 1; i < SIGNALS; i++) {
		if (before->actions[i].sa_handler != after->actions[i].sa_handler)
			return sxt_trial_fail(trial, "the handler of signal %d (%s) was changed", i,
					      strsignal(i));
	}
	if (before->mask != after->mask || strcmp(before->cwd, after->cwd) != 0)
		return sxt_trial_fail(trial, "the working directory or the umask was changed");
	if (before->variables == NULL || after->variables == NULL ||
	    strcmp(before->variables, after->variables) != 0)
		return sxt_trial_fail(trial, "the environment was changed");
	return 0;
}

int sxt_check_process_untouched(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct surroundings before;
	static struct surroundings after;
	int rc;

	look_around(&before);
	if (sxt_trial_open(trial) != 0 || sxt_pair_live(&pair, trial, trial->ctx) != 0 ||
	    sxt_trial_finalize(trial) != 0)
		return -EIO;
	look_around(&after);
	rc = compare_surroundings(trial, &before, &after);
	free(before.variables);
	free(after.variables);
	return rc;
}

int sxt_check_output_silent(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	char text[128] = "";
	ssize_t got;

	if (trial->target->logs != NULL)
		return sxt_trial_skip(trial, "--debug sends the plugin's log to standard error");
	if (trial->output_fd < 0)
		return sxt_trial_fail(trial, "no memory file for what the plugin writes");
	if (sxt_trial_open(trial) != 0 || sxt_pair_live(&pair, trial, trial->ctx) != 0 ||
	    sxt_trial_finalize(trial) != 0)
		return -EIO;
	fflush(NULL);
	got = pread(trial->output_fd, text, sizeof(text) - 1, 0);
	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (got > 0)
		return sxt_trial_fail(trial, "it wrote '%s'%s", text,
				      (size_t)got > strlen(text) + 1 ? " and more" : "");
	return 0;
}

static void unload(struct sxt_trial *trial)
{
	sxt_trial_step(trial, "dlclose");
	sxt_drv_net_close(trial->net);
	trial->net = NULL;
	sxt_trial_step(trial, "running on after dlclose");
}

int sxt_check_unload_clean(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct holdings before = count_first();

	if (sxt_trial_open(trial) != 0 || sxt_pair_live(&pair, trial, trial->ctx) != 0 ||
	    sxt_trial_finalize(trial) != 0)
		return -EIO;
	unload(trial);
	return compare_threads(trial, before, "after dlclose()");
}

int sxt_check_unload_open_comms(struct sxt_trial *trial)
{
	/* Time for a thread whose code is gone to stumble; nothing has to happen in it. */
	const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
	static struct sxt_pair pair;
	struct sxt_drv_msg rooms[MESSAGES];

	if (open_pair(trial, &pair) != 0 || sxt_pair_exchange(&pair, 4096, 1) != 0 ||
	    post_messages(&pair, rooms) != 0)
		return -EIO;
	unload(trial);
	nanosleep(&pause, NULL);
	return 0;
}

int sxt_check_reload(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct holdings first = {0};

	for (int i = 0; i < 5; i++) {
		if (sxt_trial_open(trial) != 0 || sxt_pair_live(&pair, trial, trial->ctx) != 0 ||
		    sxt_trial_finalize(trial) != 0)
			return -EIO;
		unload(trial);
		/* What stays once, as a library that is never unloaded does, is not growth. */
		if (i == 0)
			first = count_holdings();
	}
	if (compare_threads(trial, first, "after the fifth dlclose()") != 0)
		return -EIO;
	return compare_fds(trial, first, "after the fifth dlclose()");
}
