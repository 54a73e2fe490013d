/*
 * doctor.c - `sextant doctor`: is this machine fit for NCCL over RDMA, and what is not?
 */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/doctor/facts.h"
#include "cli/doctor/pairs.h"

#include "core/config.h"
#include "core/status.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WATCH_MAX_S 86400

enum key {
	KEY_ROOT = 0x100,
	KEY_SINCE,
	KEY_WATCH,
	KEY_JSON,
	KEY_LIST,
	KEY_MARKDOWN,
};

struct doctor_args {
	const char *root;
	const char *since;
	unsigned int watch_s;
	bool json;
	bool list;
	bool markdown;
};

static const struct sxt_doctor_check checks[] = {
	{SXT_THEME_LOAD, sxt_check_load},   {SXT_THEME_DEVICES, sxt_check_devices},
	{SXT_THEME_PORTS, sxt_check_ports}, {SXT_THEME_SPEED, sxt_check_speed},
	{SXT_THEME_MTU, sxt_check_mtu},     {SXT_THEME_COUNTERS, sxt_check_counters},
	{SXT_THEME_QOS, sxt_check_qos},     {SXT_THEME_NETWORK, sxt_check_network},
	{SXT_THEME_PCI, sxt_check_pci},     {SXT_THEME_LIMITS, sxt_check_limits},
	{SXT_THEME_GPU, sxt_check_gpu},     {SXT_THEME_SETTINGS, sxt_check_settings},
};

static const struct argp_option option_list[] = {
	{"root", KEY_ROOT, "DIR", 0, "Read /sys, /proc, /etc and /dev below DIR, a saved tree", 1},
	{"since", KEY_SINCE, "DIR", 0, "Compare counters with an earlier saved tree", 1},
	{"watch", KEY_WATCH, "SECONDS", 0, "Watch counters this long and tell which grow", 1},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.doctor/1)", 2},
	{"list", KEY_LIST, NULL, 0, "Print everything that can be found, and what to do", 2},
	{"markdown", KEY_MARKDOWN, NULL, 0, "The list as a table, as in docs/doctor.md", 2},
	{0},
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct doctor_args *args = state->input;

	switch (key) {
	case KEY_ROOT:
		args->root = arg;
		return 0;
	case KEY_SINCE:
		args->since = arg;
		return 0;
	case KEY_WATCH:
		args->watch_s =
			(unsigned int)sxt_cli_parse_int(state, "--watch", arg, 1, WATCH_MAX_S);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_LIST:
		args->list = true;
		return 0;
	case KEY_MARKDOWN:
		args->list = args->markdown = true;
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static void parse(int argc, char **argv, struct doctor_args *out)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		"\ncollect [OPTION...]\npairs --listen [ADDR:PORT]\npairs HOST:PORT",
		"Tell whether this machine is fit for NCCL over RDMA: what is wrong, what was "
		"seen, "
		"what to do about it.\v"
		"Changes nothing, needs neither plugin nor libibverbs, and works in containers. "
		"Without privilege some things cannot be seen; it says which. Exit status: 0 fine, "
		"1 warnings, 2 something cannot work, 64 usage, 69 no such tree.",
		NULL,
		NULL,
		NULL,
	};

	argp_parse(&argp, argc, argv, 0, NULL, out);
}

static bool is_folder(const char *path)
{
	struct stat info;

	if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
		return true;
	fprintf(stderr, "sextant doctor: %s is no folder that can be read\n", path);
	return false;
}

static int examine(struct sxt_doctor *d, bool json)
{
	if (strcmp(d->root, "/") != 0)
		d->facts = sxt_doctor_slurp(d, SXT_FACTS_FILE, NULL);
	sxt_doctor_load_settings(d);
	sxt_doctor_load_ports(d);
	for (size_t i = 0; i < SXT_ARRAY_LEN(checks); i++) {
		d->theme = checks[i].theme;
		checks[i].run(d);
	}
	if (d->out_of_memory) {
		fprintf(stderr, "sextant doctor: %s; the report would not be whole\n",
			sxt_strerror(ENOMEM));
		return SXT_EXIT_BROKEN;
	}
	return sxt_doctor_report(d, json);
}

int sxt_cmd_doctor(int argc, char **argv)
{
	const char *sysroot = sxt_env_get("SEXTANT_SYSROOT");
	struct doctor_args args = {.root = sysroot != NULL && sysroot[0] != '\0' ? sysroot : "/"};
	struct sxt_doctor d = {0};
	int status;

	if (argc > 1 && strcmp(argv[1], "collect") == 0) {
		argv[1] = (char[]){"sextant doctor collect"};
		return sxt_doctor_collect(argc - 1, argv + 1, args.root);
	}
	if (argc > 1 && strcmp(argv[1], "pairs") == 0) {
		argv[1] = (char[]){"sextant doctor pairs"};
		return sxt_doctor_pairs(argc - 1, argv + 1);
	}
	parse(argc, argv, &args);
	if (args.list)
		return sxt_doctor_list(args.markdown);
	if (!is_folder(args.root) || (args.since != NULL && !is_folder(args.since)))
		return SXT_EXIT_MISSING;
	d.root = args.root;
	d.software = args.root == sysroot && sxt_env_get("SEXTANT_SOFT_STATE") != NULL;
	d.since = args.since;
	d.watch_s = args.watch_s;
	status = examine(&d, args.json);
	sxt_doctor_fini(&d);
	return status;
}
