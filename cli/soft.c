/*
 * soft.c - `sextant soft`: the software HCA; finds the subcommand.
 */
#include "cli/soft.h"

#include "cli/cli.h"

#include "core/compiler.h"
#include "core/config.h"

#include <stdio.h>
#include <string.h>

static const struct sxt_command commands[] = {
	{"run", "run a command on the software HCA", sxt_cmd_soft_run},
	{"show", "hosts, ports, processes, traffic and armed faults", sxt_cmd_soft_show},
	{"set", "ports up and down, faults, events, kills", sxt_cmd_soft_set},
};

static void print_help(FILE *out)
{
	fputs("Usage: sextant soft COMMAND [OPTION...]\n"
	      "RDMA without hardware: programs run on HCAs made of software.\n\nCommands:\n",
	      out);
	for (size_t i = 0; i < SXT_ARRAY_LEN(commands); i++)
		fprintf(out, "  %-6s %s\n", commands[i].name, commands[i].summary);
	fputs("\n`sextant soft COMMAND --help` tells more.\n", out);
}

int sxt_cmd_soft(int argc, char **argv)
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
		snprintf(name, sizeof(name), "sextant soft %s", names[i]);
		argv[1] = name;
		sxt_cli_log_to_stderr(name);
		return commands[i].run(argc - 1, argv + 1);
	}
	nearest = sxt_nearest(argv[1], names, SXT_ARRAY_LEN(names));
	fprintf(stderr, "sextant soft: no command '%s'%s%s%s; expected run, show or set\n", argv[1],
		nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "'?" : "");
	return SXT_EXIT_USAGE;
}
