/*
 * points.h - from the logs of a command line to a fit, and names for what was measured: what fit
 * and plot share.
 */
#ifndef SXT_CLI_TUNE_POINTS_H
#define SXT_CLI_TUNE_POINTS_H

#include "cli/cli.h"
#include "cli/tune/fit.h"

/* The logs of a command line, as the user wrote them. */
struct sxt_tune_logs {
	char **args;
	int cnt;
};

/**
 * sxt_tune_parse_logs() - argp's part for the arguments LOG...; at least one.
 * @key, @state: as argp gives them. @out: set by ARGP_KEY_ARGS.
 * Return: 0, or ARGP_ERR_UNKNOWN of a key that is another's.
 */
error_t sxt_tune_parse_logs(int key, struct argp_state *state, struct sxt_tune_logs *out);

/* What becomes of a fit. @args: the caller's. Return: exit status. */
typedef int (*sxt_tune_show_fn)(const void *args, const struct sxt_fit *fit);

/**
 * sxt_tune_show_fit() - read logs, fit, and show; what is wrong with logs is told on standard
 * error.
 * @command: "sextant tune fit", for messages. @logs: of the command line. @options: of the fit.
 * @show: called once if there is something to go on with. @args: for it.
 * Return: exit status: SXT_EXIT_FOUND when some log could not be used, SXT_EXIT_BROKEN when there
 * is nothing to go on with, SXT_EXIT_MISSING when that is because no file was found; else @show's.
 */
int sxt_tune_show_fit(const char *command, const struct sxt_tune_logs *logs,
		      const struct sxt_fit_options *options, sxt_tune_show_fn show,
		      const void *args);

/**
 * sxt_tune_same_shape() - are two points of one collective on one shape?
 * @a, @b: points. Return: true if so.
 */
bool sxt_tune_same_shape(const struct sxt_fit_point *a, const struct sxt_fit_point *b);

/**
 * sxt_tune_choice_name() - "ring/simple", "ring" where only that was forced, "NCCL's choice".
 * @algo, @proto: indices of sxt_fit_point's times, or -1. @out: text.
 */
void sxt_tune_choice_name(int algo, int proto, char out[32]);

#endif
