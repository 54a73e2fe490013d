/*
 * sweep.h - what the parts of `sextant tune sweep` share.
 */
#ifndef SXT_CLI_TUNE_SWEEP_H
#define SXT_CLI_TUNE_SWEEP_H

#include "core/compiler.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>

/* One run of the command. */
struct sxt_sweep_run {
	const char *algo; /* for NCCL_ALGO; NULL leaves both unset: NCCL's own choice */
	const char *proto;
	const char *file; /* log: the head, then all that the command writes */
	const char *head; /* without its last newline */
	char **command;
	int timeout_s; /* 0: none */
	bool timed_out;
	int signal; /* that stopped it and is to stop the sweep; 0: none */
	int status; /* as waitpid() gives it */
	double seconds;
};

/**
 * sxt_sweep_signals() - block the signals that sxt_sweep_run() waits for.
 * @old: the mask before; also what the command gets. Call once, from the only thread.
 */
void sxt_sweep_signals(sigset_t *old);

/**
 * sxt_sweep_run() - run the command in a process group of its own, until it ended.
 * @run: what to run; the last four members are written on success. @old: of sxt_sweep_signals().
 * SIGINT, SIGTERM and SIGHUP are passed on to the group. Return: 0; -ENOENT and the like when the
 * command cannot be started; an error of the log file's.
 */
SXT_MUST_CHECK int sxt_sweep_run(struct sxt_sweep_run *run, const sigset_t *old);

#endif
