/*
 * conform.c - `sextant conform`: a net plugin against NCCL's contract, check by check.
 */
#include "cli/conform.h"
#include "cli/cli.h"

#include "core/config.h"
#include "core/status.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABI_MIN 6
#define ABI_MAX 12

enum key {
	KEY_PLUGIN = 0x100,
	KEY_ABI,
	KEY_CHECK,
	KEY_SKIP,
	KEY_LIST,
	KEY_DEV,
	KEY_RANKS,
	KEY_HOSTS,
	KEY_JSON,
	KEY_DEBUG,
	KEY_TIMEOUT,
};

static const struct argp_option option_list[] = {
	{NULL, 0, NULL, 0, "What is checked:", 1},
	{"plugin", KEY_PLUGIN, "FILE", 0, "Any NCCL net plugin; a name as NCCL_NET_PLUGIN takes it",
	 1},
	{"abi", KEY_ABI, "N", 0, "Version of its table, 6 to 12, or all (the newest it has)", 1},
	{"check", KEY_CHECK, "NAME", 0, "Only this check; may be given again", 1},
	{"skip", KEY_SKIP, "NAME", 0, "All but this check; may be given again", 1},
	{"list", KEY_LIST, NULL, 0, "Print the checks, each with its first version", 1},
	{NULL, 0, NULL, 0, "On what:", 2},
	{"dev", KEY_DEV, "N", 0, "The plugin's device that connections are made on (0)", 2},
	{"ranks", KEY_RANKS, "N", 0,
	 "2: the ends of data checks in two processes (1, or a launcher's variables)", 2},
	{"hosts", KEY_HOSTS, "N", 0, "2: those on two hosts of the software fabric (1)", 2},
	{NULL, 0, NULL, 0, "How it is told:", 3},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.conform/1)", 3},
	{"debug", KEY_DEBUG, "LEVEL", 0, "Show the plugin's lines: WARN INFO TRACE (none)", 3},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0, "A check that takes longer has failed (20)", 3},
	{0},
};

static const struct sxt_conform_check *find_check(struct argp_state *state, const char *option,
						  const char *name)
{
	const struct sxt_conform_check *check = sxt_conform_find(name);
	const char *names[CONFORM_CHECKS_MAX];
	const char *nearest;
	size_t cnt = 0;

	if (check != NULL)
		return check;
	for (; cnt < sxt_conform_checks_cnt && cnt < CONFORM_CHECKS_MAX; cnt++)
		names[cnt] = sxt_conform_checks[cnt].name;
	nearest = sxt_nearest(name, names, cnt);
	argp_error(state, "%s: there is no check '%s'%s%s%s; --list shows them", option, name,
		   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
		   nearest != NULL ? "'?" : "");
	return NULL;
}

static bool is_in(const struct sxt_conform_check *const *checks, size_t cnt,
		  const struct sxt_conform_check *check)
{
	for (size_t i = 0; i < cnt; i++) {
		if (checks[i] == check)
			return true;
	}
	return false;
}

/* Naming one twice is naming it once. */
static void add_once(const struct sxt_conform_check **checks, size_t *cnt,
		     const struct sxt_conform_check *check)
{
	if (*cnt < CONFORM_CHECKS_MAX && !is_in(checks, *cnt, check))
		checks[(*cnt)++] = check;
}

static void check_all(struct conform_options *o, struct argp_state *state)
{
	if (o->target.plugin == NULL && !o->list)
		argp_error(state, "--plugin FILE says which plugin to check");
	if (o->target.hosts > 1 && o->target.ranks != 2)
		argp_error(state, "--hosts 2 needs --ranks 2");
	o->named = o->checks_cnt > 0;
	if (o->named && o->skipped_cnt > 0)
		argp_error(state, "--check and --skip cannot be given together");
	for (size_t i = 0; i < sxt_conform_checks_cnt && !o->named; i++) {
		if (!is_in(o->skipped, o->skipped_cnt, &sxt_conform_checks[i]))
			o->checks[o->checks_cnt++] = &sxt_conform_checks[i];
	}
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct conform_options *o = state->input;

	switch (key) {
	case KEY_PLUGIN:
		o->target.plugin = arg;
		return 0;
	case KEY_ABI:
		o->all_versions = strcmp(arg, "all") == 0;
		if (!o->all_versions)
			o->target.abi = sxt_cli_parse_int(state, "--abi", arg, ABI_MIN, ABI_MAX);
		return 0;
	case KEY_CHECK:
		add_once(o->checks, &o->checks_cnt, find_check(state, "--check", arg));
		return 0;
	case KEY_SKIP:
		add_once(o->skipped, &o->skipped_cnt, find_check(state, "--skip", arg));
		return 0;
	case KEY_LIST:
		o->list = true;
		return 0;
	case KEY_DEV:
		o->target.dev = sxt_cli_parse_int(state, "--dev", arg, 0, 127);
		return 0;
	case KEY_RANKS:
		o->target.ranks = sxt_cli_parse_int(state, "--ranks", arg, 1, 2);
		return 0;
	case KEY_HOSTS:
		o->target.hosts = sxt_cli_parse_int(state, "--hosts", arg, 1, 2);
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_DEBUG:
		o->target.logs = arg;
		if (strcmp(arg, "WARN") != 0 && strcmp(arg, "INFO") != 0 &&
		    strcmp(arg, "TRACE") != 0)
			argp_error(state, "--debug: '%s' is none of WARN, INFO, TRACE", arg);
		return 0;
	case KEY_TIMEOUT:
		o->target.timeout_s =
			(unsigned int)sxt_cli_parse_int(state, "--timeout", arg, 1, 1000000);
		return 0;
	case ARGP_KEY_END:
		check_all(o, state);
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static void parse(int argc, char **argv, struct conform_options *out)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		NULL,
		"Check a net plugin against NCCL's contract, one process per check.\v"
		"One line per check: ok, FAIL with what was seen, n/a with the reason. Exit "
		"status: 0 no check failed, 1 one did, 64 usage, 69 the plugin cannot be used.",
		NULL,
		NULL,
		NULL,
	};

	*out = (struct conform_options){.target = {.hosts = 1, .timeout_s = 20}};
	argp_parse(&argp, argc, argv, 0, NULL, out);
}

static int list_checks(void)
{
	for (size_t i = 0; i < sxt_conform_checks_cnt; i++)
		printf("%-24s v%-3d %s\n", sxt_conform_checks[i].name,
		       sxt_conform_checks[i].abi_min, sxt_conform_checks[i].demand);
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}

/* Whether this is one of two ranks of a launcher. Return: enum sxt_exit. */
static int find_place(struct conform_options *o, struct sxt_drv_place *place)
{
	char why[512];
	int rc;

	if (o->target.ranks != 0)
		return SXT_EXIT_OK;
	o->target.ranks = 1;
	rc = sxt_drv_launch_env(place, why, sizeof(why));
	if (rc == -ENOENT || (rc == 0 && place->ranks == 1))
		return SXT_EXIT_OK;
	if (rc != 0 || place->ranks != 2) {
		if (rc == 0)
			snprintf(why, sizeof(why),
				 "the launcher started %d ranks, a connection has 2; --ranks 1 "
				 "looks at no launcher",
				 place->ranks);
		fprintf(stderr, "sextant conform: %s\n", why);
		return SXT_EXIT_USAGE;
	}
	o->target.ranks = 2;
	o->target.place = place;
	return SXT_EXIT_OK;
}

static int newest(unsigned int abis)
{
	int abi = ABI_MAX;

	while (abi > ABI_MIN && (abis & (1u << abi)) == 0)
		abi--;
	return abi;
}

/* All checks of one version. Return: 0, or a negative errno. */
static int check_version(const struct conform_options *o, int abi, struct conform_report *report)
{
	struct sxt_conform_target target = o->target;
	bool second = target.place != NULL && target.place->rank != 0;
	bool old = abi != newest(report->plugin->abis);

	target.abi = abi;
	sxt_conform_report_version(report, abi);
	for (size_t i = 0; i < o->checks_cnt; i++) {
		const struct sxt_conform_check *check = o->checks[i];
		struct sxt_conform_result result = {.verdict = SXT_CONFORM_NA};
		int rc = 0;

		/* What one process does alone, rank 0 does. */
		if (second && (check->ends & SXT_CONFORM_BOTH) == 0)
			continue;
		if (old && !o->named && (check->ends & SXT_CONFORM_LARGE) != 0)
			snprintf(result.seen, sizeof(result.seen),
				 "runs with the newest version, or with --check");
		else
			rc = sxt_conform_run(&target, check, &result);
		if (rc != 0)
			return rc;
		sxt_conform_report_check(report, check, &result);
	}
	return 0;
}

static int check_versions(const struct conform_options *o, const struct sxt_conform_plugin *plugin)
{
	struct conform_report report;
	int rc = 0;

	sxt_conform_report_begin(&report, o, plugin);
	if (!o->all_versions)
		rc = check_version(o, o->target.abi != 0 ? o->target.abi : newest(plugin->abis),
				   &report);
	for (int abi = ABI_MIN; abi <= ABI_MAX && o->all_versions && rc == 0; abi++) {
		if ((plugin->abis & (1u << abi)) != 0)
			rc = check_version(o, abi, &report);
	}
	if (rc != 0)
		fprintf(stderr, "sextant conform: cannot start a process: %s\n", sxt_strerror(rc));
	return rc != 0 ? (int)SXT_EXIT_BROKEN : sxt_conform_report_end(&report);
}

int sxt_cmd_conform(int argc, char **argv)
{
	struct sxt_conform_plugin plugin = {0};
	struct conform_options options;
	struct sxt_drv_place place;
	int status;
	int rc;

	parse(argc, argv, &options);
	if (options.list)
		return list_checks();
	status = find_place(&options, &place);
	if (status != SXT_EXIT_OK)
		return status;
	rc = sxt_conform_probe(&options.target, &plugin);
	if (rc != 0) {
		fprintf(stderr, "sextant conform: cannot use the plugin '%s': %s\n",
			options.target.plugin, rc == -ENOENT ? plugin.why : sxt_strerror(rc));
		return rc == -ENOENT ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
	}
	return check_versions(&options, &plugin);
}
