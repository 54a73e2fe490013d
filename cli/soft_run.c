/*
 * soft_run.c - `sextant soft run`: the parent that stays while a command runs on the fabric.
 *
 * It holds the fabric's state alive, marks dead processes, does the timeline and keeps the
 * counters in the sysfs tree fresh. One thread around one poll().
 */
#include "cli/cli.h"
#include "cli/soft.h"
#include "cli/soft_dir.h"
#include "cli/soft_watch.h"

#include "ib/soft/fabric.h"
#include "ib/soft/sysfs_tree.h"

#include "core/compiler.h"
#include "core/config.h"
#include "core/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REFRESH_MS       1000 /* counters, and a look at processes whose death nobody told */
#define LEFT_BEHIND_MS   2000 /* for processes the command left behind, to end by themselves */
#define EXIT_CANNOT_EXEC 126  /* as shells and env(1) have it */
#define EXIT_NO_COMMAND  127

struct run_args {
	const char *fabric;
	const char *host;
	const char *name;
	bool preload;
	bool unlimited;
	char **command;
};

struct run {
	struct run_args args;
	struct sxt_soft_plan plan; /* zeroed when a surrounding run has it */
	struct sxt_soft_member member;
	struct sxt_soft_watch watch;
	char library[PATH_MAX];
	sigset_t old_mask;
	struct sigaction old_sigchld;
	int signal_fd;
	pid_t child;
	int status; /* as waitpid() gives it; valid once child is 0 */
	uint64_t refreshed_ns;
	uint64_t traffic[SXT_SOFT_PORTS_MAX]; /* what the counter files show, to skip idle ports */
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct run_args *args = state->input;

	switch (key) {
	case 'f':
		args->fabric = arg;
		return 0;
	case 'H':
		args->host = arg;
		return 0;
	case 'n':
		if (arg[0] == '\0' || strlen(arg) > 64 || strchr(arg, '/') != NULL)
			argp_error(state, "--name is '%s'; expected 1..64 bytes without '/'", arg);
		args->name = arg;
		return 0;
	case 'p':
		args->preload = true;
		return 0;
	case 'u':
		args->unlimited = true;
		return 0;
	case ARGP_KEY_ARGS:
		args->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command; expected `sextant soft run [OPTION...] -- COMMAND`");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The build tree has cli/sextant and lib/, an installation bin/sextant and the library folder. */
static int find_library(struct run *run)
{
	static const char *const folders[] = {"../lib", "../" SXT_LIBDIR};
	const char *file =
		run->args.preload ? "libsextant-soft-preload.so" : "sextant/soft/libibverbs.so.1";
	char self[PATH_MAX];
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = '\0';
	if (strrchr(self, '/') != NULL)
		*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < SXT_ARRAY_LEN(folders); i++) {
		int wanted = snprintf(path, sizeof(path), "%s/%s/%s", self, folders[i], file);

		if (wanted >= (int)sizeof(path) || access(path, R_OK) != 0)
			continue;
		/* The folder may be a link; the file may be one to a longer version of its name. */
		if (!run->args.preload)
			*strrchr(path, '/') = '\0';
		if (realpath(path, run->library) != NULL)
			return 0;
	}
	fprintf(stderr,
		"sextant soft run: no %s in %s/../lib or %s/../%s; build or install Sextant "
		"whole\n",
		file, self, self, SXT_LIBDIR);
	return -ENOENT;
}

static int load_plan(struct run *run)
{
	char why[1024];
	int rc = sxt_soft_plan_load(run->args.fabric, &run->plan, why, sizeof(why));

	if (rc != 0) {
		fprintf(stderr, "sextant soft run: %s\n", why);
		return rc;
	}
	if (run->args.fabric != NULL && run->args.fabric[0] != '\0' &&
	    realpath(run->args.fabric, run->plan.fabric->source) == NULL) {
		rc = -errno;
		fprintf(stderr, "sextant soft run: %s: %m\n", run->args.fabric);
		return rc;
	}
	/* Other layouts and other speeds make other fabrics. */
	run->plan.hash ^= (uint64_t)SXT_SOFT_VERSION << 32 | sizeof(struct sxt_soft_fabric);
	if (!run->args.unlimited)
		return 0;
	run->plan.hash = ~run->plan.hash;
	for (uint32_t i = 0; i < run->plan.fabric->port_cnt; i++) {
		run->plan.fabric->ports[i].bandwidth_bps = 0;
		run->plan.fabric->ports[i].latency_ns = 0;
	}
	return 0;
}

/* Inside another run, and with nothing said that asks for a fabric of its own: the same fabric. */
static int join(struct run *run)
{
	const char *outer = sxt_env_get("SEXTANT_SOFT_STATE");
	struct timespec now;
	int rc;

	if (outer != NULL && outer[0] != '\0' && run->args.fabric == NULL &&
	    run->args.name == NULL && !run->args.unlimited)
		return sxt_soft_dir_join_at(outer, &run->member);
	if (run->args.fabric == NULL)
		run->args.fabric = sxt_env_get("SEXTANT_SOFT_FABRIC");
	rc = load_plan(run);
	if (rc != 0)
		return rc;
	clock_gettime(CLOCK_MONOTONIC, &now);
	run->plan.fabric->start_ns = (uint64_t)now.tv_sec * SXT_NS_PER_SEC + (uint64_t)now.tv_nsec;
	return sxt_soft_dir_join(&run->plan, run->args.name != NULL ? run->args.name : "",
				 &run->member);
}

static int check_host(struct run *run)
{
	const struct sxt_soft_fabric *fabric = run->member.state->fabric;
	const char *names[SXT_SOFT_HOSTS_MAX];
	const char *nearest;
	int host;

	if (run->args.host == NULL)
		run->args.host = sxt_env_get("SEXTANT_SOFT_HOST");
	if (run->args.host == NULL)
		run->args.host = "";
	host = sxt_soft_host_find(fabric, run->args.host);
	if (host >= 0)
		return host;
	for (uint32_t i = 0; i < fabric->host_cnt; i++)
		names[i] = fabric->hosts[i].name;
	nearest = sxt_nearest(run->args.host, names, fabric->host_cnt);
	fprintf(stderr,
		"sextant soft run: no host '%s' in the fabric %s%s%s; expected a name or "
		"0..%" PRIu32 "\n",
		run->args.host, fabric->source, nearest != NULL ? "; did you mean " : "",
		nearest != NULL ? nearest : "", fabric->host_cnt - 1);
	return -EINVAL;
}

static int prepend_env(const char *name, const char *value)
{
	const char *old = sxt_env_get(name);
	char *joined;
	int rc;

	if (old == NULL || old[0] == '\0')
		return setenv(name, value, 1);
	if (asprintf(&joined, "%s:%s", value, old) < 0)
		return -1;
	rc = setenv(name, joined, 1);
	free(joined);
	return rc;
}

static int set_environment(const struct run *run, uint32_t host)
{
	const struct sxt_soft_state *state = run->member.state;
	char root[PATH_MAX];
	int rc = sxt_soft_tree_root(state, host, root);

	if (rc != 0)
		return rc;
	if (setenv("SEXTANT_SOFT_STATE", state->dir, 1) != 0 ||
	    setenv("SEXTANT_SOFT_HOST", state->fabric->hosts[host].name, 1) != 0 ||
	    setenv("SEXTANT_SYSROOT", root, 1) != 0)
		return -errno;
	if (state->fabric->source[0] == '/' &&
	    setenv("SEXTANT_SOFT_FABRIC", state->fabric->source, 1) != 0)
		return -errno;
	if (prepend_env(run->args.preload ? "LD_PRELOAD" : "LD_LIBRARY_PATH", run->library) != 0)
		return -errno;
	return 0;
}

static int block_signals(struct run *run)
{
	static const int taken[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,
				    SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
	/* Where it is ignored, children vanish by themselves and no wait finds them. */
	const struct sigaction told = {.sa_handler = SIG_DFL};
	sigset_t mask;

	if (sigaction(SIGCHLD, &told, &run->old_sigchld) != 0)
		return -errno;
	sigemptyset(&mask);
	for (size_t i = 0; i < SXT_ARRAY_LEN(taken); i++)
		sigaddset(&mask, taken[i]);
	if (sigprocmask(SIG_BLOCK, &mask, &run->old_mask) != 0)
		return -errno;
	run->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signal_fd >= 0 ? 0 : -errno;
}

static void run_child(const struct run *run, uint32_t host)
{
	int rc = set_environment(run, host);

	if (rc == 0 && sigaction(SIGCHLD, &run->old_sigchld, NULL) == 0 &&
	    sigprocmask(SIG_SETMASK, &run->old_mask, NULL) == 0)
		execvp(run->args.command[0], run->args.command);
	if (rc != 0)
		errno = -rc;
	fprintf(stderr, "sextant soft run: cannot run %s: %m\n", run->args.command[0]);
	_exit(errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC);
}

static uint64_t now_ns(void)
{
	return sxt_sys_host.now_ns();
}

static uint64_t traffic_of(const struct sxt_soft_port *port)
{
	uint64_t sum = 0;

#define ADD_COUNTER(name, folder, file) \
	sum += atomic_load_explicit(&port->counters.name, memory_order_relaxed);
	SXT_SOFT_COUNTERS(ADD_COUNTER)
#undef ADD_COUNTER
	return sum;
}

/* A tree that cannot be written any more hurts nobody's transfers: the next second tries again. */
static void refresh_counters(struct run *run)
{
	const struct sxt_soft_fabric *fabric = run->member.state->fabric;

	run->refreshed_ns = now_ns();
	for (uint32_t i = 0; i < fabric->port_cnt; i++) {
		uint64_t traffic = traffic_of(&fabric->ports[i]);

		if (traffic != run->traffic[i] &&
		    sxt_soft_tree_update_counters(run->member.state, i) == 0)
			run->traffic[i] = traffic;
	}
}

static void do_action(struct run *run, const struct sxt_soft_action *action)
{
	char text[256];
	int done_cnt;
	int rc = sxt_soft_action_apply(run->member.state, action, &done_cnt);

	sxt_soft_action_format(run->member.state->fabric, action, text, sizeof(text));
	fprintf(stderr, "sextant soft run: at %" PRIu64 " ms: %s%s%s\n",
		(uint64_t)(action->at_ns / SXT_NS_PER_MS), text, rc != 0 ? ": " : "",
		rc != 0 ? sxt_strerror(rc) : "");
}

/* Does what is due. Returns how long until the next action, in ms, at most REFRESH_MS. */
static int step_timeline(struct run *run)
{
	struct sxt_soft_fabric *fabric = run->member.state->fabric;
	uint32_t next = atomic_load(&fabric->timeline_next);

	while (next < run->plan.actions_cnt) {
		const struct sxt_soft_action *action = &run->plan.actions[next];
		uint64_t due_ns = fabric->start_ns + action->at_ns;
		uint64_t now = now_ns();

		if (due_ns > now && due_ns - now > REFRESH_MS * SXT_NS_PER_MS)
			return REFRESH_MS;
		if (due_ns > now)
			return (int)((due_ns - now) / SXT_NS_PER_MS) + 1;
		/* Every run of the fabric has the same timeline; one of them takes each action. */
		if (atomic_compare_exchange_strong(&fabric->timeline_next, &next, next + 1)) {
			do_action(run, action);
			next++;
		}
	}
	return REFRESH_MS;
}

static void reap(struct run *run)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != run->child)
			continue; /* an orphan of the command: we are its subreaper */
		run->child = 0;
		run->status = status;
	}
}

/* A key pressed at the terminal reaches the whole process group: only what was sent is passed on.
 */
static void take_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(run);
		else if (info.ssi_code != SI_KERNEL && run->child != 0)
			kill(run->child, (int)info.ssi_signo);
	}
}

static void step(struct run *run, int limit_ms)
{
	struct pollfd polls[1 + SXT_SOFT_WATCH_POLLS_MAX];
	int timeout_ms = step_timeline(run);
	size_t cnt;

	polls[0] = (struct pollfd){.fd = run->signal_fd, .events = POLLIN};
	cnt = 1 + sxt_soft_watch_polls(&run->watch, polls + 1);
	if (timeout_ms > limit_ms)
		timeout_ms = limit_ms;
	sxt_ignore(poll(polls, cnt, timeout_ms)); /* interrupted or not: everything is looked at */
	take_signals(run);
	sxt_soft_watch_step(&run->watch);
	if (now_ns() - run->refreshed_ns >= REFRESH_MS * SXT_NS_PER_MS)
		refresh_counters(run);
}

/* Signals every process that is our child by now. Returns how many there are. */
static int signal_children(int signo)
{
	char path[64];
	char text[4096];
	char *at = text;
	char *end;
	size_t got;
	FILE *file;
	int cnt = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = '\0';
	/* A list too long for the buffer is cut in a number: only what a space follows is whole. */
	for (long pid = strtol(at, &end, 10); end != at && *end == ' ';
	     pid = strtol(at, &end, 10)) {
		kill((pid_t)pid, signo);
		at = end;
		cnt++;
	}
	return cnt;
}

/* What the command left running has lost its fabric: it is asked to end, then made to. */
static void end_left_behind(struct run *run)
{
	uint64_t deadline_ns = now_ns() + LEFT_BEHIND_MS * SXT_NS_PER_MS;

	reap(run);
	if (signal_children(SIGTERM) == 0)
		return;
	while (signal_children(0) > 0) {
		step(run, 50);
		reap(run);
		if (now_ns() > deadline_ns)
			signal_children(SIGKILL);
	}
}

static int exit_status(const struct run *run)
{
	if (WIFSIGNALED(run->status))
		return 128 + WTERMSIG(run->status);
	return WEXITSTATUS(run->status);
}

static int run_command(struct run *run, uint32_t host)
{
	int rc = block_signals(run);

	if (rc == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		rc = -errno;
	if (rc == 0)
		rc = sxt_soft_watch_init(&run->watch, run->member.state);
	if (rc != 0) {
		fprintf(stderr, "sextant soft run: cannot prepare: %s\n", sxt_strerror(rc));
		return SXT_EXIT_BROKEN;
	}
	/* What the timeline has for the very beginning is so before the command looks. */
	sxt_ignore(step_timeline(run));
	fflush(NULL);
	run->child = fork();
	if (run->child == 0)
		run_child(run, host);
	if (run->child < 0) {
		fprintf(stderr, "sextant soft run: cannot fork: %m\n");
		sxt_soft_watch_fini(&run->watch);
		return SXT_EXIT_BROKEN;
	}
	while (run->child != 0)
		step(run, REFRESH_MS);
	end_left_behind(run);
	sxt_soft_watch_step(&run->watch);
	sxt_soft_watch_fini(&run->watch);
	return exit_status(run);
}

static int run_on_fabric(struct run *run)
{
	int host;
	int status;
	int rc;

	if (find_library(run) != 0)
		return SXT_EXIT_MISSING;
	rc = join(run);
	if (rc != 0)
		return rc == -EINVAL || rc == -ENOENT ? SXT_EXIT_USAGE : SXT_EXIT_BROKEN;
	host = check_host(run);
	status = host >= 0 ? run_command(run, (uint32_t)host) : SXT_EXIT_USAGE;
	sxt_soft_dir_leave(&run->member);
	return status;
}

int sxt_cmd_soft_run(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"fabric", 'f', "FILE", 0,
		 "Hosts, HCAs and faults, as docs/fabric.md describes; without it two hosts a and "
		 "b "
		 "with two RoCE ports each",
		 0},
		{"host", 'H', "NAME", 0,
		 "The host the command runs on, a name or a number from 0 "
		 "(default: the first)",
		 0},
		{"name", 'n', "NAME", 0, "Share the fabric only with runs of the same name", 0},
		{"preload", 'p', NULL, 0,
		 "By LD_PRELOAD over the system's libibverbs instead of LD_LIBRARY_PATH", 0},
		{"unlimited", 'u', NULL, 0, "No modelled bandwidth and latency, on all ports", 0},
		{0},
	};
	static const struct argp argp = {
		options,
		parse_arg,
		"-- COMMAND [ARGUMENT...]",
		"Run a command on the software HCA. Runs with the same fabric share it, so that a "
		"server and a client can be started in two terminals.\v"
		"The exit status is the command's, 128+N if signal N ended it; 127 if there is no "
		"such command. Processes the command leaves behind are ended with it.",
		NULL,
		NULL,
		NULL,
	};
	static struct run run = {.signal_fd = -1};
	int status;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &run.args);
	status = run_on_fabric(&run);
	sxt_soft_plan_fini(&run.plan);
	if (run.signal_fd >= 0)
		close(run.signal_fd);
	return status;
}
