/*
 * tune.h - what the subcommands of `sextant tune` share.
 */
#ifndef SXT_CLI_TUNE_TUNE_H
#define SXT_CLI_TUNE_TUNE_H

#include "cli/cli.h"

#include "tuner/rules.h"

/**
 * sxt_cmd_tune_lint() - `sextant tune lint`: what is wrong or odd in a rules file, and its digest.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_cmd_tune_lint(int argc, char **argv);

/**
 * sxt_cmd_tune_explain() - `sextant tune explain`: what a rules file makes of a call.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_cmd_tune_explain(int argc, char **argv);

/**
 * sxt_cmd_tune_fit() - `sextant tune fit`: rules from logs of nccl-tests.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_cmd_tune_fit(int argc, char **argv);

/**
 * sxt_cmd_tune_plot() - `sextant tune plot`: logs as a picture.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_cmd_tune_plot(int argc, char **argv);

/**
 * sxt_cmd_tune_sweep() - `sextant tune sweep`: a benchmark with every algorithm and protocol.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_cmd_tune_sweep(int argc, char **argv);

/**
 * sxt_cmd_tune_estimate() - `sextant tune estimate`: what a training step needs of the links.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_cmd_tune_estimate(int argc, char **argv);

/**
 * sxt_tune_read_rules() - read a rules file, and tell on standard error why it cannot be.
 * @command: "sextant tune explain", for the message. @path: the file.
 * @out: set on success; give back with sxt_rules_free(). Return: exit status.
 */
int sxt_tune_read_rules(const char *command, const char *path, struct sxt_rules **out);

/**
 * sxt_tune_print_fault() - tell on standard error what is wrong with a rules file.
 * @command: "sextant tune lint". @path: the file. @fault: of the parser.
 */
void sxt_tune_print_fault(const char *command, const char *path,
			  const struct sxt_rules_fault *fault);

/**
 * sxt_tune_count() - a number of people's: "13B", "350M", "1.3e9", "12.5"; powers of 1000.
 * @text: the whole word. @out: written on success. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_tune_count(const char *text, double *out);

/**
 * sxt_tune_bandwidth() - a bandwidth: "100G", "100Gb/s" in bits, "12.5GB", "12.5GB/s" in bytes.
 * @text: the whole word. @out: bytes a second, written on success. Return: 0, -EINVAL.
 */
SXT_MUST_CHECK int sxt_tune_bandwidth(const char *text, double *out);

/**
 * sxt_tune_bus_formula() - what bus bandwidth is by algorithm bandwidth, as text.
 * @coll: which. Return: " x 2(n-1)/n" and the like, "" where they are the same.
 */
const char *sxt_tune_bus_formula(enum sxt_coll coll);

#endif
