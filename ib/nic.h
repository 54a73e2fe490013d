/*
 * nic.h - what NCCL calls a device: one port, or several merged into one.
 *
 * A NIC of its own stands for each port, in the ports' order; merged ones come after them. They
 * are added and never taken away while the transport lives; their numbers stay.
 */
#ifndef SXT_IB_NIC_H
#define SXT_IB_NIC_H

#include "ib/ib.h"
#include "ib/port.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* NCCL keeps its device numbers in tables of 128. */
#define SXT_NICS_MAX 128

_Static_assert(SXT_NIC_DEVS_MAX == SXT_PORTS_MAX, "each member of a NIC is one port");

/*
 * What was merged, kept by the process beyond a transport's life: NCCL merges once per load of the
 * plugin and goes on using the numbers when the last communicator, and the transport with it, has
 * ended and another begins (NCCL_NET_PLUGIN_REF_COUNT). The lists stand in the order of the
 * numbers, so the transport that comes next can make the same NICs again. Under nics_lock.
 */
struct sxt_merges {
	uint64_t ports_hash; /* of the ports that the lists are about */
	int told_cnt;        /* the most numbers that NCCL was ever told */
	/* Numbers whose stand-in was logged; relaxed, it stands for nothing else. */
	_Atomic bool stood_in[SXT_NICS_MAX];
	int cnt;
	struct {
		int devs_cnt;
		int devs[SXT_NIC_DEVS_MAX];
	} lists[SXT_NICS_MAX];
};

/* Constant once it is in the table, but for the registrations. */
struct sxt_nic {
	struct sxt_port *ports[SXT_PORTS_MAX];
	uint32_t ports_cnt;
	int dev;                    /* NCCL's number of it */
	int devs[SXT_NIC_DEVS_MAX]; /* the numbers of its ports' own NICs */
	int port_num;               /* towards NCCL: see show_place() */
	uint32_t speed_mbps;        /* of all ports together */
	uint32_t max_message_log2;  /* what all of them carry */
	char label[252];            /* "mlx5_0", "mlx5_0+mlx5_1": in messages */
	char name[256];             /* label with "sxt_" in front, towards NCCL */
	char pci_path[256];         /* as NCCL shall see it; "" when unknown */

	_Atomic bool paths_told;  /* that the settings ask for too many; stands for nothing else */
	_Atomic bool resort_told; /* that another port stands in for it; stands for nothing else */

	pthread_mutex_t mr_lock; /* the three below; leaf, never held across another lock */
	struct sxt_mr **mrs;     /* sorted by first byte */
	size_t mrs_cnt;
	size_t mrs_cap;
};

/**
 * sxt_nics_open() - a NIC for each port.
 * @ib: its ports and config are set; nics is filled, freed by sxt_nics_close() also after a
 * failure. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_nics_open(struct sxt_ib *ib);

/**
 * sxt_nics_close() - free all NICs and the registrations left, before their ports are closed.
 * @ib: also half-filled.
 */
void sxt_nics_close(struct sxt_ib *ib);

/**
 * sxt_ib_nic() - the NIC that NCCL numbers as a device; one that was merged in an earlier
 * transport of the process is made again.
 * @ib: the transport. @dev: NCCL's number. @what: the call, for the message.
 * @out: set on success; for a number of an earlier transport with more ports one that stands in
 * (WARN). Thread: any. Return: 0, or -EINVAL for a number that is no NIC or in a forked child
 * (logged).
 */
SXT_MUST_CHECK int sxt_ib_nic(struct sxt_ib *ib, int dev, const char *what, struct sxt_nic **out);

/**
 * sxt_nic_is_alive() - may connections be made over a NIC's HCAs?
 * @nic: the NIC. Thread: any. Return: false when one of them failed for good.
 */
bool sxt_nic_is_alive(const struct sxt_nic *nic);

#endif
