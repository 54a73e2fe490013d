/*
 * points.h - logs as one curve for each choice, for what is drawn and printed.
 */
#ifndef SXT_CLI_TUNE_POINTS_H
#define SXT_CLI_TUNE_POINTS_H

#include "cli/tune/fit.h"

/**
 * sxt_tune_read_logs() - read logs, telling what is wrong with them on standard error.
 * @command: "sextant tune fit", for messages. @args, @cnt: as the user wrote them.
 * @out: what could be read; give back with sxt_logs_fini() in any case.
 * Return: SXT_EXIT_OK, SXT_EXIT_FOUND when some log could not be used, SXT_EXIT_BROKEN when there
 * is nothing to go on with, SXT_EXIT_MISSING when that is because no file was found.
 */
int sxt_tune_read_logs(const char *command, char *const *args, int cnt, struct sxt_logs *out);

/**
 * sxt_tune_choice_name() - "ring/simple", "ring" where only that was forced, "NCCL's choice".
 * @algo, @proto: indices of sxt_fit_point's times, or -1. @out: text.
 */
void sxt_tune_choice_name(int algo, int proto, char out[32]);

#endif
