/*
 * conform.h - NCCL's contract as a list of checks, each run in processes of its own: what the
 * command needs of them.
 */
#ifndef SXT_CLI_DRIVER_CONFORM_CONFORM_H
#define SXT_CLI_DRIVER_CONFORM_CONFORM_H

#include "cli/driver/launch.h"
#include "core/compiler.h"

#include <stdbool.h>

/* How a check runs; a bit mask. */
enum sxt_conform_ends {
	SXT_CONFORM_ONE = 0,
	SXT_CONFORM_BOTH = 1, /* its two ends may live in two processes */
	SXT_CONFORM_LARGE =
		2, /* it moves much data: without --check, with the newest version only */
};

enum sxt_conform_verdict {
	SXT_CONFORM_OK,
	SXT_CONFORM_FAIL,
	SXT_CONFORM_NA, /* does not apply to this version or plugin */
};

struct sxt_trial;

struct sxt_conform_check {
	const char *name;
	int abi_min;
	const char *demand; /* what a plugin must do */
	const char *why;    /* what NCCL does that depends on it */
	unsigned int ends;  /* enum sxt_conform_ends */
	/* Return: 0, -EIO with the failure noted, -ENOTSUP with the reason noted. */
	int (*run)(struct sxt_trial *trial);
};

extern const struct sxt_conform_check sxt_conform_checks[];
extern const size_t sxt_conform_checks_cnt;

/* What is checked, and where. */
struct sxt_conform_target {
	const char *plugin; /* file, or name as NCCL_NET_PLUGIN takes it */
	int abi;            /* 6 to 12; sxt_conform_probe() takes 0 too */
	int dev;            /* whose connections are made */
	int ranks;          /* 1: both ends in one process; 2 */
	int hosts;          /* ranks forked here: on so many hosts of a software fabric */
	const struct sxt_drv_place *place; /* one of 2 ranks of a launcher; NULL: forked here */
	unsigned int timeout_s;            /* of one check */
	const char *logs; /* level of the plugin's lines that go to stderr, or NULL */
};

struct sxt_conform_result {
	enum sxt_conform_verdict verdict;
	char seen[1024]; /* FAIL and NA: what was seen */
	unsigned int elapsed_ms;
};

/* What a library has. */
struct sxt_conform_plugin {
	unsigned int abis; /* bit n: a table of version n */
	char name[128];    /* the newest table's */
	char why[1024];    /* why it cannot be checked */
};

/**
 * sxt_conform_find() - a check by name. Return: static, or NULL.
 */
const struct sxt_conform_check *sxt_conform_find(const char *name);

/**
 * sxt_conform_probe() - load, initialise and count devices once, in a child process.
 * @target: its abi may be 0 for the newest.
 * @out: abis and name on success, why on failure.
 * Path: slow, main thread. Return: 0, -ENOENT when it cannot be used, or a negative errno when no
 * process can be started.
 */
SXT_MUST_CHECK int sxt_conform_probe(const struct sxt_conform_target *target,
				     struct sxt_conform_plugin *out);

/**
 * sxt_conform_run() - run one check in child processes with a time limit.
 * @target, @check: what. @out: written on success only; a plugin that crashes, exits or blocks is
 * a FAIL like any other.
 * Path: slow, main thread; the caller has started no other thread. Return: 0, or a negative errno
 * when no process can be started.
 */
SXT_MUST_CHECK int sxt_conform_run(const struct sxt_conform_target *target,
				   const struct sxt_conform_check *check,
				   struct sxt_conform_result *out);

#endif
