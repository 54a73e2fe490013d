/*
 * port.h - the HCAs of this machine, opened once, and their ports as they are right now.
 */
#ifndef SXT_IB_PORT_H
#define SXT_IB_PORT_H

#include "core/list.h"
#include "ib/verbs.h"
#include "ib/wire.h"

#include <stdbool.h>

struct sxt_ib;

/* One HCA, constant after opening. */
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
};

/* One port offered to NCCL. The attributes are those at start; sxt_port_locate() reads afresh. */
struct sxt_port {
	struct sxt_device *device;
	uint8_t num;
	uint8_t link_layer;
	uint32_t speed_mbps;
	uint32_t max_message_log2;
	uint64_t max_message_bytes;
	char label[80]; /* "mlx5_0", "mlx5_0:2": in messages and settings */
	char name[88];  /* label with "sxt_" in front, towards NCCL */
	/* Last PORT_ERR, 0 for never. The watcher writes it, the explanation of a fault reads it:
	 * relaxed, it stands for nothing else. */
	_Atomic uint64_t lost_ns;
};

/* Where a port is reached, read at each connect. */
struct sxt_port_place {
	struct sxt_wire_path path; /* qpn, psn and epoch are the connection's to fill */
	uint16_t gid_index;
	bool grh_required;
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
 * sxt_port_locate() - the port's address, MTU and limits as they are now.
 * @port: the port. @out: written on success.
 * Path: slow, system calls. Return: 0, -ENETDOWN when the port is not active, -EADDRNOTAVAIL
 * when no GID can be used, or the error of a verb (logged).
 */
SXT_MUST_CHECK int sxt_port_locate(const struct sxt_port *port, struct sxt_port_place *out);

/**
 * sxt_port_gid_is_ipv4() - does a GID stand for an IPv4 address (::ffff:a.b.c.d)?
 * @gid: 16 bytes; the address is the last four. Return: true if so.
 */
bool sxt_port_gid_is_ipv4(const uint8_t *gid);

/**
 * sxt_port_gid_text() - a GID for messages: dotted quad where IPv4 is mapped, else IPv6 text.
 * @gid: 16 bytes. @out, @out_bytes: text, at least 64 bytes.
 */
void sxt_port_gid_text(const uint8_t *gid, char *out, size_t out_bytes);

#endif
