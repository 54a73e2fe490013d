/*
 * port.h - the HCAs of this machine, opened once, and their ports as they are right now.
 */
#ifndef SXT_IB_PORT_H
#define SXT_IB_PORT_H

#include "core/list.h"
#include "ib/gid.h"
#include "ib/verbs.h"
#include "ib/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct sxt_ib;

/* What an HCA has a limited number of. */
enum sxt_device_object {
	SXT_DEVICE_MRS,
	SXT_DEVICE_CQS,
	SXT_DEVICE_QPS,
	SXT_DEVICE_OBJECTS,
};

/* One HCA, constant after opening but for what the watcher notes. */
struct sxt_device {
	const struct sxt_ib *ib;
	const struct sxt_verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	uint64_t guid;
	char name[64];
	char pci_path[256]; /* real path below /sys, "" when unknown */
	char pf_path[256];  /* of a virtual function its physical function's, else "" */
	struct sxt_list node;
	/* Set by the watcher for good after DEVICE_FATAL; relaxed, it stands for nothing else. */
	_Atomic uint32_t is_dead;
	uint32_t unknown_events; /* the watcher's: kinds of event told once, one bit each */
	/* Unlike MTUs that were told, a bit for two; relaxed, it stands for nothing else. */
	_Atomic uint64_t mtus_told;
	uint8_t late[32]; /* ports that could not be used at start, a bit each; the watcher's then
			   */
	/* Of ours, for explanations; relaxed, they stand for nothing else. */
	_Atomic uint32_t objects[SXT_DEVICE_OBJECTS];
};

/* Where a port is reached, read at each connect. */
struct sxt_port_place {
	struct sxt_wire_path path; /* qpn, psn and epoch are the connection's to fill */
	uint16_t gid_index;
	bool grh_required;
};

/* A port as it was when it was last looked at. */
struct sxt_port_seen {
	struct sxt_port_place place;
	uint32_t speed_mbps;
	uint16_t sm_lid;
	uint8_t prefix_len; /* of the address, as struct sxt_gid has it */
	bool is_usable;
};

/*
 * One port offered to NCCL. The attributes are those at start, which NCCL was told;
 * sxt_port_candidates() reads afresh.
 */
struct sxt_port {
	struct sxt_device *device;
	uint8_t num;
	uint8_t link_layer;
	int16_t rail; /* of NCCL_IB_HCA, -1 not said */
	int16_t plane;
	uint32_t index; /* among the transport's ports, and of its record in telemetry */
	uint32_t speed_mbps;
	uint32_t max_message_log2;
	uint64_t max_message_bytes;
	char label[80]; /* "mlx5_0", "mlx5_0:2": in messages and settings */
	char name[88];  /* label with "sxt_" in front, towards NCCL */
	/* Last PORT_ERR, 0 for never. The watcher writes it, the explanation of a fault reads it:
	 * relaxed, it stands for nothing else. */
	_Atomic uint64_t lost_ns;
	uint64_t lost_cnt;         /* PORT_ERRs; with the next the watcher's */
	bool is_lost;              /* no event but PORT_ERR came since the last of them */
	pthread_mutex_t seen_lock; /* of seen; leaf */
	struct sxt_port_seen seen;
};

/**
 * sxt_ports_open() - open the HCAs and list the ports that can be used.
 * @ib: its sys, config and verbs are set; devices and ports are filled, freed by
 * sxt_ports_close() also after a failure.
 * Logs each port used, each port left out and why.
 * Path: slow, system calls. Return: 0, -ENODEV when no port can be used, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_ports_open(struct sxt_ib *ib);

/**
 * sxt_ports_close() - free ports, domains and devices; no registration is left.
 * @ib: also half-filled.
 */
void sxt_ports_close(struct sxt_ib *ib);

/**
 * sxt_port_reread() - look at a port after an event that says it changed, and log what did.
 * @port: the port. Thread: any, the watcher does. Path: slow, system calls.
 */
void sxt_port_reread(struct sxt_port *port);

/**
 * sxt_port_look_late() - look at a port that could not be used at start, after an event that says
 * it changed. Tells once that it could be used now: NCCL asks for devices once, so it stays left
 * out.
 * @device: the HCA. @num: a port of it, whichever. Thread: the watcher. Path: slow, system calls.
 */
void sxt_port_look_late(struct sxt_device *device, unsigned int num);

/**
 * sxt_port_seen_get() - the port as it was when it was last looked at.
 * @port: the port. @out: written. Thread: any, takes a leaf lock.
 */
void sxt_port_seen_get(struct sxt_port *port, struct sxt_port_seen *out);

/**
 * sxt_port_is_alive() - did the port's HCA not fail for good?
 * @port: the port. Thread: any. Return: false if it did.
 */
static inline bool sxt_port_is_alive(const struct sxt_port *port)
{
	return atomic_load_explicit(&port->device->is_dead, memory_order_relaxed) == 0;
}

/* A port's GID table as it is now, in order of use. */
struct sxt_port_gids {
	struct sxt_gid_table table;
	struct sxt_gid *gids;       /* the table's */
	struct sxt_gid_rank *ranks; /* one per entry, candidates first */
	uint32_t candidates_cnt;
	uint32_t notes; /* SXT_GID_NOTE_* */
};

/**
 * sxt_port_gids_fini() - free the ranked table of a port; a zeroed one is fine.
 * @gids: empty afterwards.
 */
void sxt_port_gids_fini(struct sxt_port_gids *gids);

/* An address of a port: as the table has it, and all that connecting there needs. */
struct sxt_port_address {
	struct sxt_gid gid;
	struct sxt_port_place place;
};

/**
 * sxt_port_candidates() - the addresses a port can be reached at now, best first, for the
 * handshake. What identifies one is its bytes and type: an index may belong to another address
 * the next time.
 * @port: the port. @out: at most @most are written. @cnt_out: how many, at least 1.
 * Logs what is no longer as it was. Thread: any.
 * Path: slow, system calls. Return: 0, -ENETDOWN when the port is not active or belongs to another
 * network namespace, -EADDRNOTAVAIL when no GID can be used, -ENODEV when the HCA failed, -ENOMEM,
 * or the error of a verb (logged).
 */
SXT_MUST_CHECK int sxt_port_candidates(struct sxt_port *port, struct sxt_port_address *out,
				       uint32_t most, uint32_t *cnt_out);

#endif
