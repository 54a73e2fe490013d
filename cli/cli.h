/*
 * cli.h - what the subcommands of `sextant` share.
 */
#ifndef SXT_CLI_CLI_H
#define SXT_CLI_CLI_H

#include "core/status.h"

#include <argp.h>
#include <jansson.h>

/* One subcommand: `sextant NAME ...`. */
struct sxt_command {
	const char *name;
	const char *summary; /* one line for `sextant --help` */
	/* argv[0] is "sextant NAME"; returns an enum sxt_exit, or for `soft run` its child's. */
	int (*run)(int argc, char **argv);
};

/* A command that only has commands of its own: `sextant soft`. */
struct sxt_command_group {
	const char *name;  /* "soft" */
	const char *about; /* what they are for, a line */
	const char *list;  /* where the valid ones are told: "expected run, show or set" */
	const struct sxt_command *commands;
	size_t commands_cnt;
	int width; /* of their names in the help */
};

/**
 * sxt_cli_group() - run one command of a group; tells its help, or the nearest name.
 * @group: the group; at most SXT_GROUP_COMMANDS. @argc, @argv: as of a command.
 * Return: exit status.
 */
int sxt_cli_group(const struct sxt_command_group *group, int argc, char **argv);

#define SXT_GROUP_COMMANDS 16

/**
 * sxt_cmd_env() - `sextant env`: every setting, its value, where it comes from.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_env(int argc, char **argv);

/**
 * sxt_cmd_soft() - `sextant soft run, show, set`: the software HCA.
 * @argc, @argv: the subcommand's own arguments. Return: exit status, for run the command's.
 */
int sxt_cmd_soft(int argc, char **argv);

/**
 * sxt_cmd_bench() - `sextant bench`: drive a net plugin as NCCL would, checked and timed.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_bench(int argc, char **argv);

/**
 * sxt_cmd_conform() - `sextant conform`: a net plugin against NCCL's contract.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_conform(int argc, char **argv);

/**
 * sxt_cmd_doctor() - `sextant doctor`: what is wrong with this machine, and what to do.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_doctor(int argc, char **argv);

/**
 * sxt_cmd_export() - `sextant export`: telemetry and port counters for Prometheus.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_export(int argc, char **argv);

/**
 * sxt_cmd_top() - `sextant top`: live view of the processes that use Sextant on this host.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_top(int argc, char **argv);

/**
 * sxt_cmd_snapshot() - `sextant snapshot`: telemetry of this host as a file.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_snapshot(int argc, char **argv);

/**
 * sxt_cmd_tune() - `sextant tune sweep, fit, plot, lint, explain, estimate`: rules of the tuner.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_tune(int argc, char **argv);

/**
 * sxt_cli_parse_int() - an option's whole number; ends the command with a usage error otherwise.
 * @state: of the parser. @name: the option, "--abi". @text: its value. @min, @max: its range.
 * Return: the number.
 */
int sxt_cli_parse_int(struct argp_state *state, const char *name, const char *text, int min,
		      int max);

/**
 * sxt_cli_no_argument() - the end of a parser whose command takes options alone.
 * @key, @arg, @state: as argp gives them; an argument ends the command with a usage error.
 * Return: ARGP_ERR_UNKNOWN of any other key.
 */
error_t sxt_cli_no_argument(int key, const char *arg, struct argp_state *state);

/**
 * sxt_cli_print_json() - write one JSON document and a newline to standard output.
 * @root: the document, with its "schema" member; the reference is taken.
 * Return: 0, or SXT_EXIT_BROKEN when standard output cannot be written.
 */
int sxt_cli_print_json(json_t *root);

/**
 * sxt_cli_log_to_stderr() - send warnings and errors of the libraries to standard error.
 * @name: the command's name, put before each line; not copied.
 */
void sxt_cli_log_to_stderr(const char *name);

#endif
