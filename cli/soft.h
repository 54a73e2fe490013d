/*
 * soft.h - the subcommands of `sextant soft`.
 */
#ifndef SXT_CLI_SOFT_H
#define SXT_CLI_SOFT_H

/**
 * sxt_cmd_soft_run() - `sextant soft run`: run a command on the software HCA.
 * @argc, @argv: the subcommand's own arguments. Return: the command's status, 128+n by signal n.
 */
int sxt_cmd_soft_run(int argc, char **argv);

/**
 * sxt_cmd_soft_show() - `sextant soft show`: what a running fabric has and does.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_soft_show(int argc, char **argv);

/**
 * sxt_cmd_soft_set() - `sextant soft set`: change a running fabric.
 * @argc, @argv: the subcommand's own arguments. Return: exit status.
 */
int sxt_cmd_soft_set(int argc, char **argv);

#endif
