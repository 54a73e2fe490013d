/*
 * session.h - one rank's use of a plugin, from loading it to finalize, in NCCL's order of calls.
 */
#ifndef SXT_CLI_DRIVER_SESSION_H
#define SXT_CLI_DRIVER_SESSION_H

#include "cli/driver/bench.h"

struct sxt_drv_session {
	struct sxt_drv_run run;
	struct sxt_drv_worker service;
	struct sxt_drv_worker progress;
	struct sxt_drv_bench *bench;
	bool initialised;
	int dev;
	struct sxt_drv_props props; /* of that device */
};

/**
 * sxt_drv_session_doing() - note what the main thread is at, for messages when time is over.
 * @what: a static string.
 */
void sxt_drv_session_doing(struct sxt_drv_session *session, const char *what);

/**
 * sxt_drv_session_watch() - end the process when the plugin does not return for so long.
 * @seconds: from now. One session per process. Thread: main.
 */
void sxt_drv_session_watch(unsigned int seconds);

/**
 * sxt_drv_session_open() - load the plugin, and init, devices, getProperties on this thread.
 * @session: its run is initialised, all else zero.
 * @plugin: file or name, NULL for our own: next to the program, else where the loader looks.
 * @abi: 0 for the newest. @dev: index or name, NULL for @local_rank modulo the devices.
 * Return: 0, or -EIO with the failure noted; sxt_drv_session_close() is due either way.
 */
SXT_MUST_CHECK int sxt_drv_session_open(struct sxt_drv_session *session, const char *plugin,
					int abi, const char *dev, int local_rank);

/**
 * sxt_drv_session_connect() - start the threads and make every connection of a benchmark.
 * @spec: the same on all ranks. Thread: main.
 * Return: 0, or -EIO with the failure noted; sxt_drv_session_close() is due either way.
 */
SXT_MUST_CHECK int sxt_drv_session_connect(struct sxt_drv_session *session,
					   const struct sxt_drv_bench_spec *spec);

/**
 * sxt_drv_session_close() - close connections, join threads, finalize. Goes on after a failure:
 * what is open is the plugin's to free. May be called twice. Thread: main.
 * Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_session_close(struct sxt_drv_session *session);

/**
 * sxt_drv_session_fini() - free a closed session and unload the plugin.
 */
void sxt_drv_session_fini(struct sxt_drv_session *session);

#endif
