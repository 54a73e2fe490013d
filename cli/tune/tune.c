/*
 * tune.c - `sextant tune`: finds the subcommand.
 */
#include "cli/tune/tune.h"

#include "core/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct sxt_command commands[] = {
	{"estimate", "communication time of a training step, and the links it needs",
	 sxt_cmd_tune_estimate},
	{"explain", "what a rules file chooses for a call, and what else there is",
	 sxt_cmd_tune_explain},
	{"fit", "make rules from logs of nccl-tests", sxt_cmd_tune_fit},
	{"lint", "check a rules file, and tell its digest", sxt_cmd_tune_lint},
	{"plot", "draw logs: time and bandwidth by size, with the crossovers", sxt_cmd_tune_plot},
	{"sweep", "run a benchmark with every algorithm and protocol, keep the logs",
	 sxt_cmd_tune_sweep},
};

_Static_assert(SXT_ARRAY_LEN(commands) <= SXT_GROUP_COMMANDS, "sxt_cli_group() names them");

int sxt_cmd_tune(int argc, char **argv)
{
	static const struct sxt_command_group group = {
		.name = "tune",
		.about = "Rules for NCCL's choice of algorithm and protocol, made of measurements.",
		.list = "`sextant tune --help` lists them",
		.commands = commands,
		.commands_cnt = SXT_ARRAY_LEN(commands),
		.width = 9,
	};

	return sxt_cli_group(&group, argc, argv);
}

void sxt_tune_print_fault(const char *command, const char *path,
			  const struct sxt_rules_fault *fault)
{
	fprintf(stderr, "%s: %s", command, path);
	if (fault->line > 0)
		fprintf(stderr, ":%u", fault->line);
	if (fault->column > 0)
		fprintf(stderr, ":%u", fault->column);
	fprintf(stderr, ": %s\n", fault->text);
}

int sxt_tune_read_rules(const char *command, const char *path, struct sxt_rules **out)
{
	struct sxt_rules_fault fault = {0};
	int rc = sxt_rules_read(path, out, &fault);

	if (rc == 0)
		return SXT_EXIT_OK;
	sxt_tune_print_fault(command, path, &fault);
	return rc == -ENOENT ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
}
