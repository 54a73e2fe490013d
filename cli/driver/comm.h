/*
 * comm.h - one communicator of one rank: its context in the plugin, its threads, its connections.
 */
#ifndef SXT_CLI_DRIVER_COMM_H
#define SXT_CLI_DRIVER_COMM_H

#include "cli/driver/bench.h"
#include "cli/driver/oob.h"

#define SXT_DRV_COMMS_MAX 16

struct sxt_drv_comm {
	struct sxt_drv_run *run;
	struct sxt_drv_user user;
	bool initialised;
	struct sxt_drv_worker service;
	struct sxt_drv_worker progress;
	struct sxt_drv_worker guest; /* plays the user thread that talks out of band */
	struct sxt_drv_bench *bench;
	struct sxt_drv_oob *oob; /* NULL unless asked for */
};

/**
 * sxt_drv_comm_init() - the plugin's init for this communicator.
 * @comm: zeroed, its run and user.comm set. @id: the same on all ranks. Thread: main.
 * Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_drv_comm_init(struct sxt_drv_comm *comm, uint64_t id);

/**
 * sxt_drv_comm_start() - threads and buffers.
 * @spec: the same on all ranks. @oob_dev: device to talk out of band on, -1 not to. Thread: main.
 * Return: 0, or -EIO with the failure noted.
 */
SXT_MUST_CHECK int sxt_drv_comm_start(struct sxt_drv_comm *comm,
				      const struct sxt_drv_bench_spec *spec, int oob_dev);

/**
 * sxt_drv_comm_connect() - job: sxt_drv_conns_connect(), and tell the guest that it is done.
 * @arg: struct sxt_drv_comm. Thread: service. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_comm_connect(void *arg);

/**
 * sxt_drv_comm_work() - job: sxt_drv_bench_work(), and tell the guest that it is done.
 * @arg: struct sxt_drv_comm. Thread: progress. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_comm_work(void *arg);

/**
 * sxt_drv_comm_finalize() - join the threads, and the plugin's finalize. Thread: main.
 * @comm: closed, in any state. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_comm_finalize(struct sxt_drv_comm *comm);

#endif
