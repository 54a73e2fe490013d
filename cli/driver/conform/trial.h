/*
 * trial.h - one check that is running: the child process's side, shared by all checks.
 *
 * A check that fails returns at once and leaves everything open: its process ends. With two ranks
 * both processes run the same check; what belongs to the other end is skipped.
 */
#ifndef SXT_CLI_DRIVER_CONFORM_TRIAL_H
#define SXT_CLI_DRIVER_CONFORM_TRIAL_H

#include "cli/driver/boot.h"
#include "cli/driver/conform/conform.h"
#include "cli/driver/net.h"

#include <pthread.h>
#include <stdatomic.h>

/* What a child tells its parent, in memory that both map; survives the child. */
struct sxt_board {
	_Atomic(const char *) step;   /* the plugin's call at hand; text of this program */
	_Atomic unsigned int limit_s; /* of this check; 0: the target's */
	_Atomic int finished;         /* the rest is complete */
	int verdict;                  /* enum sxt_conform_verdict */
	bool by_peer;                 /* it failed because the other end did */
	bool late;                    /* it failed because time was over */
	char seen[1024];
	unsigned int abis; /* sxt_conform_probe() only */
	char name[128];
};

struct sxt_trial {
	const struct sxt_conform_target *target;
	const struct sxt_conform_check *check;
	struct sxt_board *board;
	struct sxt_drv_boot boot;
	bool sends; /* this process plays the sending end */
	bool receives;
	uint64_t deadline_ns;
	unsigned int limit_s; /* from the start to there */
	pthread_mutex_t lock; /* guards the board's verdict and text */
	atomic_uint pauses;
	_Atomic(const char *) in_progress; /* a call that returned ncclInProgress, or NULL */
	int output_fd;                     /* what standard output and error lead to; -1: no such */
	/* Set by sxt_trial_open(). */
	struct sxt_drv_net *net;
	void *ctx;
	int devices_cnt;
	int dev;
	struct sxt_drv_props props;
};

/* One call that must succeed. Evaluates to 0, or -EIO with the failure noted. */
#define SXT_CALL(trial, name, call) \
	(sxt_trial_step(trial, name), sxt_trial_judge(trial, name, call))

/* One call that may fail. Evaluates to its result. */
#define SXT_TRY(trial, name, call) (sxt_trial_step(trial, name), sxt_trial_note(trial, name, call))

/**
 * sxt_trial_main() - the life of a child process up to its verdict.
 * @trial: target, check, board and boot are set. Return: never; the process ends here.
 */
_Noreturn void sxt_trial_main(struct sxt_trial *trial);

/**
 * sxt_trial_fail() - note what was seen; the first failure stays.
 * @fmt: a sentence without a full stop. Thread: any. Return: -EIO, to be returned on.
 */
int sxt_trial_fail(struct sxt_trial *trial, const char *fmt, ...) SXT_PRINTF(2, 3);

/**
 * sxt_trial_skip() - note that the check does not apply.
 * @fmt: why, in a few words. Return: -ENOTSUP, to be returned on.
 */
int sxt_trial_skip(struct sxt_trial *trial, const char *fmt, ...) SXT_PRINTF(2, 3);

/**
 * sxt_trial_step() - what the process is at, for crashes and calls that do not return.
 * @step: a string of this program. Thread: any.
 */
void sxt_trial_step(struct sxt_trial *trial, const char *step);

/**
 * sxt_trial_note() - remember a result that NCCL would take for success.
 * @call: its name. Thread: any. Return: @result, ncclInProgress as ncclSuccess.
 */
ncclResult_t sxt_trial_note(struct sxt_trial *trial, const char *call, ncclResult_t result);

/**
 * sxt_trial_judge() - a result that must be success. ncclInProgress is, as NCCL reads it.
 * @call: its name. Thread: any. Return: 0, or -EIO with the failure noted.
 */
int sxt_trial_judge(struct sxt_trial *trial, const char *call, ncclResult_t result);

/**
 * sxt_trial_pause() - give the processor away between two rounds of polling.
 * @what: what is awaited, for the failure when time is over. Thread: any.
 * Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_trial_pause(struct sxt_trial *trial, const char *what);

/**
 * sxt_trial_extend() - give a check that moves much data more time than others have.
 * @factor: times as much. Thread: main, before any other.
 */
void sxt_trial_extend(struct sxt_trial *trial, unsigned int factor);

/**
 * sxt_trial_over() - is the check's time over? Return: true once it is.
 */
bool sxt_trial_over(const struct sxt_trial *trial);

/**
 * sxt_trial_open() - load the plugin, init, devices, and the properties of the device.
 * Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_trial_open(struct sxt_trial *trial);

/**
 * sxt_trial_load() - load the plugin and nothing more. Return: as sxt_trial_open().
 */
SXT_MUST_CHECK int sxt_trial_load(struct sxt_trial *trial);

/**
 * sxt_trial_init() - init of what is loaded, devices, properties. Return: as sxt_trial_open().
 */
SXT_MUST_CHECK int sxt_trial_init(struct sxt_trial *trial);

/**
 * sxt_trial_finalize() - finalize the context, v11 and later. The library stays.
 * Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_trial_finalize(struct sxt_trial *trial);

/**
 * sxt_trial_sync() - wait for the other end where it is another process.
 * Thread: main. Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_trial_sync(struct sxt_trial *trial);

/**
 * sxt_trial_swap() - the receiving end's bytes for the sending one.
 * @inout: @bytes; the receiver's are left as they are. Return: as sxt_trial_sync().
 */
SXT_MUST_CHECK int sxt_trial_swap(struct sxt_trial *trial, void *inout, size_t bytes);

/**
 * sxt_trial_count() - entries of a folder of /proc/self, "fd" or "task".
 * Return: their number, without the descriptor that reading takes.
 */
int sxt_trial_count(const char *folder);

/**
 * sxt_trial_await_count() - wait up to two seconds until a folder of /proc/self has no more than
 * @most entries: a thread that was joined may stand there for a moment.
 * Return: their number at the end.
 */
int sxt_trial_await_count(const char *folder, int most);

#define SXT_CHECK(id, name, abi_min, demand, why, ends) int sxt_check_##id(struct sxt_trial *trial);
#include "cli/driver/conform/checks.def"
#undef SXT_CHECK

#endif
