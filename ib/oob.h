/*
 * oob.h - which local address the side channels listen on.
 */
#ifndef SXT_IB_OOB_H
#define SXT_IB_OOB_H

#include "core/config.h"
#include "core/sys.h"
#include "ib/wire.h"

/* A place peers can reach, without a port yet. */
struct sxt_oob {
	struct sockaddr_storage addr;
	socklen_t addr_len;
	char ifname[32];
};

/**
 * sxt_oob_choose() - choose as NCCL documents for NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY.
 * @sys: for getifaddrs(). @config: the settings. @out: written on success.
 * Path: slow. Return: 0, -EINVAL for an unknown family, -ENODEV when nothing fits (logged with
 * the interfaces that were seen).
 */
SXT_MUST_CHECK int sxt_oob_choose(const struct sxt_sys *sys, const struct sxt_config *config,
				  struct sxt_oob *out);

/**
 * sxt_oob_to_wire() - a socket address as it goes to the peer.
 * @addr: AF_INET or AF_INET6. @out: written.
 */
void sxt_oob_to_wire(const struct sockaddr_storage *addr, struct sxt_wire_addr *out);

/**
 * sxt_oob_from_wire() - and back.
 * @addr: from the peer. @out: written on success. @len_out: its length, set on success.
 * Return: 0, or -EBADMSG for a family that is neither.
 */
SXT_MUST_CHECK int sxt_oob_from_wire(const struct sxt_wire_addr *addr, struct sockaddr_storage *out,
				     socklen_t *len_out);

/**
 * sxt_oob_text() - an address and port for messages.
 * @addr: AF_INET or AF_INET6, else "?" comes out. @out, @out_bytes: text, at least 64 bytes.
 */
void sxt_oob_text(const struct sockaddr_storage *addr, char *out, size_t out_bytes);

#endif
