/*
 * session.h - one rank's use of a plugin, from loading it to finalize, in NCCL's order of calls.
 */
#ifndef SXT_CLI_DRIVER_SESSION_H
#define SXT_CLI_DRIVER_SESSION_H

#include "cli/driver/comm.h"

/* How a plugin is used. */
struct sxt_drv_use {
	const char *plugin; /* file or name; NULL: ours, next to the program or the loader's */
	int abi;            /* 0: the newest */
	const char *dev;    /* index or name; NULL: local_rank modulo the devices */
	int local_rank;
	int ports; /* 1, or how many devices at most are merged, from device 0 on; no dev then */
	int comms;
	bool oob;
};

struct sxt_drv_session {
	struct sxt_drv_run run;
	struct sxt_drv_use use;
	struct sxt_drv_comm comms[SXT_DRV_COMMS_MAX];
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
 * sxt_drv_session_open() - load the plugin, then init, devices, getProperties and, for several
 * ports, makeVDevice on this thread.
 * @session: its run is initialised, all else zero. @use: complete.
 * Return: 0, or -EIO with the failure noted; sxt_drv_session_close() is due either way.
 */
SXT_MUST_CHECK int sxt_drv_session_open(struct sxt_drv_session *session,
					const struct sxt_drv_use *use);

/**
 * sxt_drv_session_connect() - start the threads and make every connection of a benchmark.
 * @spec: complete, and the same on all ranks. Thread: main.
 * Return: 0, or -EIO with the failure noted; sxt_drv_session_close() is due either way.
 */
SXT_MUST_CHECK int sxt_drv_session_connect(struct sxt_drv_session *session,
					   const struct sxt_drv_bench_spec *spec);

/**
 * sxt_drv_session_disconnect() - close every connection, all ranks at the same time.
 * @session: connected, without work. Thread: main.
 * Return: 0, or -EIO with the failure noted; sxt_drv_session_close() is due either way.
 */
SXT_MUST_CHECK int sxt_drv_session_disconnect(struct sxt_drv_session *session);

/**
 * sxt_drv_session_reconnect() - make them again after sxt_drv_session_disconnect().
 * @session: of all ranks. Thread: main. Return: as sxt_drv_session_disconnect().
 */
SXT_MUST_CHECK int sxt_drv_session_reconnect(struct sxt_drv_session *session);

/**
 * sxt_drv_session_work() - run the benches' operations in all communicators at once.
 * @bytes: of one operation. @iterations: 0 is fine.
 * @tick, @tick_arg: as sxt_drv_run_jobs(). Thread: main. Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_drv_session_work(struct sxt_drv_session *session, size_t bytes,
					int iterations, void (*tick)(void *), void *tick_arg);

/**
 * sxt_drv_session_oob_rounds() - exchanges out of band so far, over all communicators.
 * Return: their number; 0 where none were asked for.
 */
uint64_t sxt_drv_session_oob_rounds(const struct sxt_drv_session *session);

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
