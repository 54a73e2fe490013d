/*
 * oob.h - a second thread's use of a communicator's context: a ring for small messages beside the
 * data, as NCCL's bootstrap makes it with NCCL_OOB_NET_ENABLE=1.
 *
 * Its calls are a user thread's: phandles NULL, sizes NULL in test, host memory registered for
 * each exchange, and the listen comm kept until the end.
 */
#ifndef SXT_CLI_DRIVER_OOB_H
#define SXT_CLI_DRIVER_OOB_H

#include "cli/driver/conn.h"

struct sxt_drv_oob_letter;

struct sxt_drv_oob {
	struct sxt_drv_run *run;
	struct sxt_drv_user user;
	void *listen_comm;
	void *send_comm;
	void *recv_comm;
	struct sxt_drv_oob_letter *letters; /* one per rank */
	_Alignas(16) char own_handle[NCCL_NET_HANDLE_BYTES];
	_Alignas(16) char peer_handle[NCCL_NET_HANDLE_BYTES]; /* the next rank's */
	_Atomic bool working; /* the main thread sets it, whoever does the work clears it */
	uint64_t rounds;      /* exchanges so far */
};

/**
 * sxt_drv_oob_create() - one rank's part of a ring; nothing is connected yet.
 * @run: with a net that is initialised. @user: whose it is. @out: set on success only.
 * Return: 0, or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_drv_oob_create(struct sxt_drv_run *run, const struct sxt_drv_user *user,
				      struct sxt_drv_oob **out);

/**
 * sxt_drv_oob_destroy() - free what is closed already. @oob: NULL is fine.
 */
void sxt_drv_oob_destroy(struct sxt_drv_oob *oob);

/**
 * sxt_drv_oob_listen() - job: fill own_handle.
 * @arg: struct sxt_drv_oob. Thread: user. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_oob_listen(void *arg);

/**
 * sxt_drv_oob_connect() - job: to the next rank, by peer_handle, and from the one before.
 * @arg: struct sxt_drv_oob. Thread: user. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_oob_connect(void *arg);

/**
 * sxt_drv_oob_talk() - job: let every rank have every rank's letter, again and again, until all
 * of them said in the same exchange that their work is over.
 * @arg: struct sxt_drv_oob, with working set before. Thread: user. Return: 0, or -EIO with the
 * failure noted.
 */
int sxt_drv_oob_talk(void *arg);

/**
 * sxt_drv_oob_close() - job: close what is open, in any state.
 * @arg: struct sxt_drv_oob. Thread: user. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_oob_close(void *arg);

#endif
