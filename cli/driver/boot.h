/*
 * boot.h - the ranks' own rendezvous: a star of stream sockets around rank 0.
 *
 * It carries handles, barriers and results, and it is how a rank learns that another one failed:
 * a rank that gives up says why and shuts its end down, one that dies just closes it.
 */
#ifndef SXT_CLI_DRIVER_BOOT_H
#define SXT_CLI_DRIVER_BOOT_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_DRV_MAX_RANKS 256

/* What another rank said before it left. */
struct sxt_drv_abort {
	int rank;
	int exit_status; /* enum sxt_exit */
	bool silent;     /* it did not say anything: text is what that means */
	char text[1024];
};

struct sxt_drv_boot {
	int rank;
	int ranks;
	/* Rank 0: one socket per rank, [0] unused. Others: [0] leads to rank 0. -1 when closed. */
	int fds[SXT_DRV_MAX_RANKS];
};

/**
 * sxt_drv_boot_init() - an unconnected boot. @boot: overwritten. @rank, @ranks: who this is.
 */
void sxt_drv_boot_init(struct sxt_drv_boot *boot, int rank, int ranks);

/**
 * sxt_drv_boot_connect() - meet over TCP: rank 0 listens, the others come to it.
 * @addr: name or address of rank 0's host. @port: as text.
 * @timeout_s: how long to wait for everybody.
 * @why, @why_bytes: on failure, who is missing and what was tried.
 * Return: 0 or a negative errno; what is open goes with sxt_drv_boot_close().
 */
SXT_MUST_CHECK int sxt_drv_boot_connect(struct sxt_drv_boot *boot, const char *addr,
					const char *port, unsigned int timeout_s, char *why,
					size_t why_bytes);

/**
 * sxt_drv_boot_gather() - all ranks' contributions to all ranks.
 * @in: @bytes. @out: ranks x @bytes. @deadline_ns: when to give up.
 * @gone: on -ECONNABORTED, who left and why.
 * Return: 0, -ECONNABORTED when a rank left, -ETIMEDOUT, or a negative errno.
 */
SXT_MUST_CHECK int sxt_drv_boot_gather(struct sxt_drv_boot *boot, const void *in, size_t bytes,
				       void *out, uint64_t deadline_ns, struct sxt_drv_abort *gone);

/**
 * sxt_drv_boot_wait() - wait until @fd is readable, a rank leaves, or @timeout_ms is over.
 * @fd: -1 for none. @gone: on -ECONNABORTED, who left and why.
 * Return: 1 readable, 0 time over, -ECONNABORTED, or a negative errno.
 */
SXT_MUST_CHECK int sxt_drv_boot_wait(struct sxt_drv_boot *boot, int fd, int timeout_ms,
				     struct sxt_drv_abort *gone);

/**
 * sxt_drv_boot_abort() - tell the others that the run is over, and why.
 * @why: whose failure it is. Best effort. Return: true if rank 0 (or every rank) was told.
 */
bool sxt_drv_boot_abort(struct sxt_drv_boot *boot, const struct sxt_drv_abort *why);

/**
 * sxt_drv_boot_drop() - hear no more of a rank. @rank: one that left.
 */
void sxt_drv_boot_drop(struct sxt_drv_boot *boot, int rank);

/**
 * sxt_drv_boot_close() - close every socket.
 */
void sxt_drv_boot_close(struct sxt_drv_boot *boot);

#endif
