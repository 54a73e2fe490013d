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

static void print_help(FILE *out)
{
	fputs("Usage: sextant tune COMMAND [OPTION...]\n"
	      "Rules for NCCL's choice of algorithm and protocol, made of measurements.\n\n"
	      "Commands:\n",
	      out);
	for (size_t i = 0; i < SXT_ARRAY_LEN(commands); i++)
		fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fputs("\n`sextant tune COMMAND --help` tells more.\n", out);
}

int sxt_cmd_tune(int argc, char **argv)
{
	static char name[64];
	const char *names[SXT_ARRAY_LEN(commands)];
	const char *nearest;

	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		print_help(argc < 2 ? stderr : stdout);
		return argc < 2 ? SXT_EXIT_USAGE : SXT_EXIT_OK;
	}
	for (size_t i = 0; i < SXT_ARRAY_LEN(commands); i++) {
		names[i] = commands[i].name;
		if (strcmp(argv[1], names[i]) != 0)
			continue;
		snprintf(name, sizeof(name), "sextant tune %s", names[i]);
		argv[1] = name;
		sxt_cli_log_to_stderr(name);
		return commands[i].run(argc - 1, argv + 1);
	}
	nearest = sxt_nearest(argv[1], names, SXT_ARRAY_LEN(names));
	fprintf(stderr, "sextant tune: no command '%s'%s%s%s; `sextant tune --help` lists them\n",
		argv[1], nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "'?" : "");
	return SXT_EXIT_USAGE;
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
