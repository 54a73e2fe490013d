/*
 * soft.c - `sextant soft`: the software HCA; finds the subcommand.
 */
#include "cli/soft.h"

#include "cli/cli.h"

#include "core/compiler.h"

static const struct sxt_command commands[] = {
	{"run", "run a command on the software HCA", sxt_cmd_soft_run},
	{"show", "hosts, ports, processes, traffic and armed faults", sxt_cmd_soft_show},
	{"set", "ports up and down, faults, events, kills", sxt_cmd_soft_set},
};

_Static_assert(SXT_ARRAY_LEN(commands) <= SXT_GROUP_COMMANDS, "sxt_cli_group() names them");

int sxt_cmd_soft(int argc, char **argv)
{
	static const struct sxt_command_group group = {
		.name = "soft",
		.about = "RDMA without hardware: programs run on HCAs made of software.",
		.list = "expected run, show or set",
		.commands = commands,
		.commands_cnt = SXT_ARRAY_LEN(commands),
		.width = 6,
	};

	return sxt_cli_group(&group, argc, argv);
}
