/*
 * sweep.c - `sextant tune sweep`: a benchmark with each algorithm and protocol in turn, and with
 * NCCL's own choice, several times over, one log each.
 */
#include "cli/tune/sweep.h"

#include "cli/tune/logs.h"
#include "cli/tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND      "sextant tune sweep"
#define DIR_DEFAULT  "sextant-sweep"
#define RUNS_MAX     1000
#define COMBOS_MAX   (SXT_ALGOS * SXT_PROTOS + 1)
#define HEAD         "# sextant sweep: "
#define HEAD_COMMAND "# sextant sweep command: "
#define HEAD_BYTES   8192

enum key {
	KEY_ALGOS = 0x100,
	KEY_PROTOS,
	KEY_TIMEOUT,
	KEY_RETRY,
	KEY_DRY,
	KEY_JSON
};

/* As NCCL writes them. */
static const char *const algo_words[SXT_ALGOS] = {"Tree",         "Ring", "CollnetDirect",
						  "CollnetChain", "NVLS", "NVLSTree",
						  "PAT"};
static const char *const proto_words[SXT_PROTOS] = {"LL", "LL128", "Simple"};

struct combo {
	int algo; /* -1: NCCL's own choice */
	int proto;
};

enum outcome {
	OUTCOME_DONE,
	OUTCOME_FAILED,
	OUTCOME_KEPT,         /* done by an earlier sweep */
	OUTCOME_STILL_FAILED, /* failed in an earlier sweep, and not tried again */
	OUTCOME_CNT
};

static const char *const outcome_words[OUTCOME_CNT] = {"done", "failed", "kept", "failed before"};

struct sweep {
	const char *dir;
	int runs;
	int timeout_s;
	bool retry;
	bool dry;
	bool json;
	bool algos[SXT_ALGOS];
	bool protos[SXT_PROTOS];
	char **command;
	char command_text[HEAD_BYTES / 2];
	struct combo combos[COMBOS_MAX];
	int combos_cnt;
	int number; /* of the run that goes on */
	int cnts[OUTCOME_CNT];
	int signal; /* that stopped it */
	sigset_t old_mask;
	json_t *rows;
};

static const struct argp_option option_list[] = {
	{"dir", 'd', "DIR", 0, "Where the logs go (" DIR_DEFAULT "); what is there is kept", 1},
	{"runs", 'n', "N", 0, "Runs of each combination, one round after the other (3)", 1},
	{"algos", KEY_ALGOS, "LIST", 0, "Of NCCL's algorithms (ring,tree)", 1},
	{"protos", KEY_PROTOS, "LIST", 0, "Of NCCL's protocols (ll,ll128,simple)", 1},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0, "End a run that takes longer (no limit)", 2},
	{"retry", KEY_RETRY, NULL, 0, "Try again what failed in an earlier sweep", 2},
	{"dry-run", KEY_DRY, NULL, 0, "Only tell what would be run", 2},
	{"json", KEY_JSON, NULL, 0, "Print one document at the end (sextant.tune-sweep/1)", 3},
	{0},
};

/* @of: names a word's number, negative for none. */
static void parse_list(struct argp_state *state, const char *option, const char *text,
		       int (*of)(const char *word), bool *out)
{
	char word[32];

	while (*text != '\0') {
		size_t len = strcspn(text, ",");
		int number = -EINVAL;

		if (snprintf(word, sizeof(word), "%.*s", (int)len, text) < (int)sizeof(word))
			number = of(word);
		if (number < 0)
			argp_error(state, "%s: NCCL has no '%.*s'", option, (int)len, text);
		out[number] = true;
		text += len;
		text += *text == ',';
	}
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct sweep *s = state->input;

	switch (key) {
	case 'd':
		s->dir = arg;
		return 0;
	case 'n':
		s->runs = sxt_cli_parse_int(state, "--runs", arg, 1, RUNS_MAX);
		return 0;
	case KEY_ALGOS:
		memset(s->algos, 0, sizeof(s->algos));
		parse_list(state, "--algos", arg, sxt_algo_of, s->algos);
		return 0;
	case KEY_PROTOS:
		memset(s->protos, 0, sizeof(s->protos));
		parse_list(state, "--protos", arg, sxt_proto_of, s->protos);
		return 0;
	case KEY_TIMEOUT:
		s->timeout_s = sxt_cli_parse_int(state, "--timeout", arg, 1, 1000000);
		return 0;
	case KEY_RETRY:
		s->retry = true;
		return 0;
	case KEY_DRY:
		s->dry = true;
		return 0;
	case KEY_JSON:
		s->json = true;
		return 0;
	case ARGP_KEY_ARGS:
		s->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "a command is missing: sextant tune sweep -- COMMAND...");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Has NCCL it for any collective? */
static bool exists(int algo, int proto)
{
	int coll = 0;

	while (coll < SXT_COLLS &&
	       !sxt_is_possible((enum sxt_coll)coll, (enum sxt_algo)algo, (enum sxt_proto)proto))
		coll++;
	return coll < SXT_COLLS;
}

static void list_combos(struct sweep *s)
{
	s->combos[s->combos_cnt++] = (struct combo){-1, -1};
	for (int algo = 0; algo < SXT_ALGOS; algo++) {
		for (int proto = 0; proto < SXT_PROTOS; proto++) {
			if (s->algos[algo] && s->protos[proto] && exists(algo, proto))
				s->combos[s->combos_cnt++] = (struct combo){algo, proto};
		}
	}
}

/* Words with spaces and the like are quoted; a newline becomes a space, the head is one line. */
static int write_command(struct sweep *s)
{
	FILE *to = fmemopen(s->command_text, sizeof(s->command_text), "w");

	if (to == NULL)
		return -errno;
	for (char **word = s->command; *word != NULL; word++) {
		bool plain = **word != '\0' && strpbrk(*word, " \t\n\"'$&|;<>()*?`\\#") == NULL;

		fputs(word == s->command ? "" : " ", to);
		fputs(plain ? "" : "'", to);
		for (const char *c = *word; *c != '\0'; c++) {
			if (*c == '\'')
				fputs("'\\''", to);
			else
				fputc(*c == '\n' ? ' ' : *c, to);
		}
		fputs(plain ? "" : "'", to);
	}
	return fclose(to) == 0 && s->command_text[sizeof(s->command_text) - 2] == '\0' ? 0 : -E2BIG;
}

static const char *algo_name(const struct combo *combo)
{
	return combo->algo < 0 ? "default" : sxt_algo_names[combo->algo];
}

static const char *proto_name(const struct combo *combo)
{
	return combo->proto < 0 ? "default" : sxt_proto_names[combo->proto];
}

static int name_file(const struct sweep *s, const struct combo *combo, int run, const char *suffix,
		     char out[PATH_MAX])
{
	const char *between = combo->algo < 0 ? "" : "-";
	const char *proto = combo->algo < 0 ? "" : sxt_proto_names[combo->proto];

	if (snprintf(out, PATH_MAX, "%s/%s%s%s.%d.%s", s->dir, algo_name(combo), between, proto,
		     run, suffix) < PATH_MAX)
		return 0;
	return -ENAMETOOLONG;
}

/* Open MPI and MPICH start the ranks of other hosts without our environment. */
static void warn_launcher(const struct sweep *s)
{
	const char *slash = strrchr(s->command[0], '/');
	const char *name = slash != NULL ? slash + 1 : s->command[0];

	if (strncmp(name, "mpirun", 6) != 0 && strncmp(name, "mpiexec", 7) != 0 &&
	    strcmp(name, "orterun") != 0)
		return;
	for (char **word = s->command; *word != NULL; word++) {
		if (strstr(*word, "NCCL_ALGO") != NULL)
			return;
	}
	fprintf(stderr,
		COMMAND ": warning: %s does not pass NCCL_ALGO and NCCL_PROTO to other "
			"hosts by itself; add -x NCCL_ALGO -x NCCL_PROTO (Open MPI) or -genvlist "
			"NCCL_ALGO,NCCL_PROTO (MPICH), or every log shows NCCL's own choice\n",
		name);
}

/* Return: 0, or -EEXIST when the log is of another command. */
static int check_head(const struct sweep *s, const char *file)
{
	FILE *from = fopen(file, "re");
	char line[HEAD_BYTES];
	bool same = false;

	if (from == NULL)
		return -errno;
	while (!same && fgets(line, sizeof(line), from) != NULL && line[0] == '#') {
		line[strcspn(line, "\n")] = '\0';
		same = strncmp(line, HEAD_COMMAND, strlen(HEAD_COMMAND)) == 0 &&
		       strcmp(line + strlen(HEAD_COMMAND), s->command_text) == 0;
	}
	fclose(from);
	if (same)
		return 0;
	fprintf(stderr,
		COMMAND ": %s is the log of another command; give another --dir, or "
			"remove it\n",
		file);
	return -EEXIST;
}

/* Return: 0, with what there is from an earlier sweep, or an error that was told. */
static int look_back(const struct sweep *s, const char *done, const char *failed, enum outcome *out)
{
	if (access(done, F_OK) == 0) {
		*out = OUTCOME_KEPT;
		return check_head(s, done);
	}
	*out = OUTCOME_CNT;
	if (access(failed, F_OK) == 0 && !s->retry) {
		*out = OUTCOME_STILL_FAILED;
		return check_head(s, failed);
	}
	return 0;
}

/* Is there a table that can be fitted? A launcher may well fail and say it did not. */
static bool has_table(const char *file)
{
	struct sxt_logs logs = {0};
	struct stat info;
	void *text = MAP_FAILED;
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	bool found = false;

	if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0)
		text = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (text == MAP_FAILED)
		return false;
	found = sxt_logs_parse(&logs, "log", text, (size_t)info.st_size) == 0 && logs.times_cnt > 0;
	sxt_logs_fini(&logs);
	munmap(text, (size_t)info.st_size);
	return found;
}

static bool ended_well(const struct sxt_sweep_run *run)
{
	return !run->timed_out && WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0;
}

static void describe_end(const struct sxt_sweep_run *run, char out[64])
{
	if (run->timed_out)
		snprintf(out, 64, "took longer than %d s", run->timeout_s);
	else if (ended_well(run))
		snprintf(out, 64, "no table of nccl-tests in it");
	else if (WIFSIGNALED(run->status))
		snprintf(out, 64, "was killed by signal %d", WTERMSIG(run->status));
	else
		snprintf(out, 64, "exit status %d", WEXITSTATUS(run->status));
}

/* The last words of a log tell most. */
static void print_last_line(const char *file)
{
	FILE *from = fopen(file, "re");
	char line[512];
	char last[512] = "";

	if (from == NULL)
		return;
	while (fgets(line, sizeof(line), from) != NULL) {
		if (line[0] != '#' && strspn(line, " \t\r\n-") < strlen(line))
			snprintf(last, sizeof(last), "%s", line);
	}
	fclose(from);
	last[strcspn(last, "\n")] = '\0';
	if (last[0] != '\0')
		fprintf(stderr, "      %s\n", last);
}

static void note(struct sweep *s, const struct combo *combo, int run, const char *file,
		 enum outcome outcome, const struct sxt_sweep_run *ran)
{
	char end[64] = "";

	s->cnts[outcome]++;
	json_array_append_new(s->rows,
			      json_pack("{s:s, s:s, s:i, s:s, s:s, s:o}", "algo", algo_name(combo),
					"proto", proto_name(combo), "run", run, "file", file,
					"outcome", outcome_words[outcome], "seconds",
					ran != NULL ? json_real(ran->seconds) : json_null()));
	if (s->json)
		return;
	if (ran != NULL && outcome == OUTCOME_FAILED)
		describe_end(ran, end);
	if (ran != NULL)
		printf("%s%s%s, %.1f s: %s\n", outcome_words[outcome], end[0] != '\0' ? ", " : "",
		       end, ran->seconds, file);
	else
		printf("%s: %s\n", outcome_words[outcome], file);
	fflush(stdout);
	if (outcome == OUTCOME_FAILED)
		print_last_line(file);
}

static void announce(struct sweep *s, const struct combo *combo, int run)
{
	s->number++;
	if (s->json)
		return;
	printf("%3d/%d  run %d  %-14s %-7s  ", s->number, s->combos_cnt * s->runs, run,
	       algo_name(combo), proto_name(combo));
	fflush(stdout);
}

/* Return: 0 also when the command fails; an error ends the sweep and was told. */
static int run_command(struct sweep *s, const struct combo *combo, int run, const char *done,
		       const char *failed)
{
	char part[PATH_MAX];
	char head[HEAD_BYTES];
	struct sxt_sweep_run one = {.file = part,
				    .head = head,
				    .command = s->command,
				    .timeout_s = s->timeout_s};
	bool good;
	int rc = name_file(s, combo, run, "part", part);

	if (rc != 0)
		return rc;
	if (combo->algo >= 0) {
		one.algo = algo_words[combo->algo];
		one.proto = proto_words[combo->proto];
	}
	snprintf(head, sizeof(head), HEAD "NCCL_ALGO=%s NCCL_PROTO=%s run=%d\n" HEAD_COMMAND "%s",
		 combo->algo >= 0 ? one.algo : "default", combo->algo >= 0 ? one.proto : "default",
		 run, s->command_text);
	rc = sxt_sweep_run(&one, &s->old_mask);
	if (rc != 0 || one.signal != 0) {
		s->signal = one.signal;
		unlink(part);
		return rc;
	}
	good = ended_well(&one) && has_table(part);
	unlink(failed);
	if (rename(part, good ? done : failed) != 0)
		return -errno;
	note(s, combo, run, good ? done : failed, good ? OUTCOME_DONE : OUTCOME_FAILED, &one);
	return 0;
}

static int step(struct sweep *s, const struct combo *combo, int run)
{
	char done[PATH_MAX];
	char failed[PATH_MAX];
	enum outcome before;
	int rc = name_file(s, combo, run, "log", done);

	if (rc == 0)
		rc = name_file(s, combo, run, "failed", failed);
	if (rc == 0)
		rc = look_back(s, done, failed, &before);
	if (rc != 0)
		return rc;
	announce(s, combo, run);
	if (before != OUTCOME_CNT)
		note(s, combo, run, before == OUTCOME_KEPT ? done : failed, before, NULL);
	else if (s->dry)
		printf("would run: %s\n", done);
	else
		rc = run_command(s, combo, run, done, failed);
	return rc;
}

/* Rounds, so that what changes with time hits all alike; each begins one further on, so that no
 * combination always follows the same one. */
static int sweep_all(struct sweep *s)
{
	for (int run = 1; run <= s->runs; run++) {
		for (int i = 0; i < s->combos_cnt; i++) {
			int rc = step(s, &s->combos[(i + run - 1) % s->combos_cnt], run);

			if (rc != 0 || s->signal != 0)
				return rc;
		}
		if (!s->dry && s->cnts[OUTCOME_DONE] + s->cnts[OUTCOME_KEPT] == 0)
			return 0;
	}
	return 0;
}

static int finish(struct sweep *s)
{
	int good = s->cnts[OUTCOME_DONE] + s->cnts[OUTCOME_KEPT];
	int bad = s->cnts[OUTCOME_FAILED] + s->cnts[OUTCOME_STILL_FAILED];
	int status = bad > 0 ? SXT_EXIT_FOUND : SXT_EXIT_OK;

	if (s->signal != 0) {
		fprintf(stderr,
			"\n" COMMAND ": stopped by signal %d; the same command line "
			"goes on with what is left\n",
			s->signal);
		status = SXT_EXIT_BROKEN;
	} else if (good == 0 && bad > 0) {
		fprintf(stderr,
			COMMAND ": no run ended well, so none is tried further; does "
				"this work by itself? %s\n",
			s->command_text);
		status = SXT_EXIT_BROKEN;
	}
	if (s->json) {
		int printed = sxt_cli_print_json(json_pack("{s:s, s:s, s:s, s:i, s:O}", "schema",
							   "sextant.tune-sweep/1", "dir", s->dir,
							   "command", s->command_text, "runs",
							   s->runs, "results", s->rows));

		return printed != SXT_EXIT_OK ? printed : status;
	}
	if (good > 0)
		printf("%d logs%s%.0d%s. Next: sextant tune fit %s/*.log\n", good,
		       bad > 0 ? ", " : "", bad, bad > 0 ? " runs failed" : "", s->dir);
	return status;
}

static int run(struct sweep *s)
{
	int rc;

	warn_launcher(s);
	list_combos(s);
	rc = write_command(s);
	if (rc == -E2BIG) {
		fprintf(stderr, COMMAND ": the command is too long; put it into a "
					"script\n");
		return SXT_EXIT_USAGE;
	}
	if (rc == 0 && !s->dry && mkdir(s->dir, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, COMMAND ": cannot make the folder %s: %m\n", s->dir);
		return SXT_EXIT_BROKEN;
	}
	if (rc == 0)
		rc = sweep_all(s);
	if (rc == -EEXIST)
		return SXT_EXIT_BROKEN;
	if (rc != 0) {
		fprintf(stderr, COMMAND ": cannot run %s into %s: %s\n", s->command[0], s->dir,
			sxt_strerror(rc));
		return rc == -ENOENT ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
	}
	return finish(s);
}

int sxt_cmd_tune_sweep(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		"-- COMMAND...",
		"Run a benchmark (nccl-tests under mpirun, srun or torchrun, or `sextant bench`) "
		"with every algorithm and protocol, by NCCL_ALGO and NCCL_PROTO, and with NCCL's "
		"own choice; keep each run's output as a log for `sextant tune fit`.\v"
		"A run that fails is kept as *.failed, and the sweep goes on. When it was stopped, "
		"the same command line goes on with what is left. Rules that the environment "
		"names are taken away, so that the default is NCCL's. Exit status: 0 all runs "
		"ended well, 1 some failed, 2 none did or it was stopped, 64 usage, 69 no such "
		"command.",
		NULL,
		NULL,
		NULL,
	};
	struct sweep s = {.dir = DIR_DEFAULT, .runs = 3};
	int status;

	s.algos[SXT_ALGO_RING] = s.algos[SXT_ALGO_TREE] = true;
	memset(s.protos, true, sizeof(s.protos));
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &s);
	s.rows = json_array();
	sxt_sweep_signals(&s.old_mask);
	status = run(&s);
	json_decref(s.rows);
	return status;
}
