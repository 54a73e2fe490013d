/*
 * main.c - the `sextant` command: finds the subcommand and runs it.
 */
#include "cli/cli.h"

#include "core/compiler.h"
#include "core/config.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sxt_command commands[] = {
	{"bench", "drive a net plugin as NCCL would: data checked, nccl-tests' table",
	 sxt_cmd_bench},
	{"conform", "check a net plugin against NCCL's contract", sxt_cmd_conform},
	{"doctor", "what is wrong with this machine for NCCL over RDMA, and what to do",
	 sxt_cmd_doctor},
	{"env", "list every setting with its value and meaning", sxt_cmd_env},
	{"export", "telemetry and port counters for Prometheus", sxt_cmd_export},
	{"snapshot", "save this host's telemetry and port counters as a file", sxt_cmd_snapshot},
	{"soft", "run programs on the software HCA, without hardware", sxt_cmd_soft},
	{"top", "watch the processes that use Sextant on this host", sxt_cmd_top},
	{"tune", "make and explain rules for NCCL's choice of algorithm", sxt_cmd_tune},
};

static const char *log_prefix = "sextant";

static void stderr_sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	if (level <= SXT_LOG_WARN)
		fprintf(stderr, "%s: %s%s\n", log_prefix, level == SXT_LOG_WARN ? "warning: " : "",
			text);
}

void sxt_cli_log_to_stderr(const char *name)
{
	log_prefix = name;
	sxt_log_set_sink(stderr_sink);
}

int sxt_cli_parse_int(struct argp_state *state, const char *name, const char *text, int min,
		      int max)
{
	char *end = NULL;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
		argp_error(state, "%s must be %d..%d (got '%s')", name, min, max, text);
	return (int)value;
}

error_t sxt_cli_no_argument(int key, const char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	argp_error(state, "takes no argument, got '%s'", arg);
	return 0;
}

int sxt_cli_print_json(json_t *root)
{
	int rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

	json_decref(root);
	if (rc != 0 || putchar('\n') == EOF || fflush(stdout) != 0) {
		fprintf(stderr, "sextant: cannot write to standard output: %m\n");
		return SXT_EXIT_BROKEN;
	}
	return SXT_EXIT_OK;
}

static void print_group_help(const struct sxt_command_group *group, FILE *out)
{
	fprintf(out, "Usage: sextant %s COMMAND [OPTION...]\n%s\n\nCommands:\n", group->name,
		group->about);
	for (size_t i = 0; i < group->commands_cnt; i++)
		fprintf(out, "  %-*s %s\n", group->width, group->commands[i].name,
			group->commands[i].summary);
	fprintf(out, "\n`sextant %s COMMAND --help` tells more.\n", group->name);
}

int sxt_cli_group(const struct sxt_command_group *group, int argc, char **argv)
{
	static char name[64];
	const char *names[SXT_GROUP_COMMANDS];
	const char *nearest;

	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		print_group_help(group, argc < 2 ? stderr : stdout);
		return argc < 2 ? SXT_EXIT_USAGE : SXT_EXIT_OK;
	}
	for (size_t i = 0; i < group->commands_cnt; i++) {
		names[i] = group->commands[i].name;
		if (strcmp(argv[1], names[i]) != 0)
			continue;
		snprintf(name, sizeof(name), "sextant %s %s", group->name, names[i]);
		argv[1] = name;
		sxt_cli_log_to_stderr(name);
		return group->commands[i].run(argc - 1, argv + 1);
	}
	nearest = sxt_nearest(argv[1], names, group->commands_cnt);
	fprintf(stderr, "sextant %s: no command '%s'%s%s%s; %s\n", group->name, argv[1],
		nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "'?" : "", group->list);
	return SXT_EXIT_USAGE;
}

static void print_help(FILE *out)
{
	fputs("Usage: sextant COMMAND [OPTION...]\n"
	      "Network plugin for NCCL over RDMA: its command for people.\n\nCommands:\n",
	      out);
	for (size_t i = 0; i < SXT_ARRAY_LEN(commands); i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
	fputs("\n`sextant COMMAND --help` tells more. Exit status: 0 fine, 1 found something,\n"
	      "2 broken, 64 usage, 69 device or library missing, 70 a bug of Sextant's.\n",
	      out);
}

static int unknown_command(const char *name)
{
	const char *names[SXT_ARRAY_LEN(commands)];
	const char *nearest;

	for (size_t i = 0; i < SXT_ARRAY_LEN(commands); i++)
		names[i] = commands[i].name;
	nearest = sxt_nearest(name, names, SXT_ARRAY_LEN(names));
	fprintf(stderr, "sextant: no command '%s'%s%s%s; `sextant --help` lists them\n", name,
		nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "'?" : "");
	return SXT_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static char name[64];

	if (argc < 2) {
		print_help(stderr);
		return SXT_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return SXT_EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("sextant " SXT_VERSION);
		return SXT_EXIT_OK;
	}
	argp_err_exit_status = SXT_EXIT_USAGE;
	for (size_t i = 0; i < SXT_ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "sextant %s", argv[1]);
		argv[1] = name;
		sxt_cli_log_to_stderr(name);
		return commands[i].run(argc - 1, argv + 1);
	}
	return unknown_command(argv[1]);
}
