/*
 * process.h - what one process has of the transport: settings, verbs library, ports, watcher.
 */
#ifndef SXT_IB_PROCESS_H
#define SXT_IB_PROCESS_H

#include "core/config.h"
#include "core/list.h"
#include "core/sys.h"
#include "ib/ib.h"
#include "ib/nic.h"
#include "ib/port.h"
#include "ib/verbs.h"
#include "ib/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct sxt_tele;
struct sxt_watcher;

struct sxt_ib {
	const struct sxt_sys *sys;
	const struct sxt_config *config;
	const struct sxt_verbs *verbs;
	pid_t pid; /* a forked child may not use what it inherited */
	uint8_t process[SXT_UUID_BYTES];
	char host[64];
	struct sxt_gid_wishes gid_wishes; /* of the settings */
	struct sxt_list devices;          /* struct sxt_device */
	struct sxt_port **ports;
	int ports_cnt;
	pthread_mutex_t nics_lock; /* adding NICs; leaf */
	struct sxt_nic
		*nics[SXT_NICS_MAX]; /* what NCCL numbers as devices, never changed once in */
	struct sxt_merges *merges;   /* or NULL: none are kept */
	_Atomic int nics_cnt; /* release publishes the NIC before, acquire reads it: no lock */
	char left_out[768];   /* which ports are not among them and why, for when none is left */
	struct sxt_watcher *watcher;
	_Atomic int abi;             /* of NCCL's interface, for messages; 0 unknown */
	struct sxt_tele *tele;       /* this process's segment; NULL: telemetry is off */
	_Atomic(sxt_tuner_fn) tuner; /* NULL: there is none to tell of */
	_Atomic bool tuner_was_told; /* that it differs from a peer's */
};

/* What a transport is made from; all of it outlives the transport. */
struct sxt_ib_parts {
	const struct sxt_sys *sys;
	const struct sxt_config *config;
	const struct sxt_verbs *verbs;
	struct sxt_merges *merges; /* kept from transport to transport; NULL is fine */
	struct sxt_tele *tele;     /* NULL: telemetry is off */
	bool is_manual;            /* no watcher thread: the caller runs sxt_watcher_step() */
};

/**
 * sxt_ib_create() - a transport of given parts, apart from the process's own; tests use it.
 * @parts: kept by reference. @out: set on success; sxt_ib_destroy() frees it.
 * Path: slow. Return: as sxt_ib_get().
 */
SXT_MUST_CHECK int sxt_ib_create(const struct sxt_ib_parts *parts, struct sxt_ib **out);

/**
 * sxt_ib_destroy() - free a transport; its contexts, listeners and connections must be gone.
 * @ib: NULL is fine. Thread: any but the watcher, joins it.
 */
void sxt_ib_destroy(struct sxt_ib *ib);

#endif
