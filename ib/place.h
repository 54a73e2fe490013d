/*
 * place.h - what listing the ports needs of place.c beyond port.h.
 */
#ifndef SXT_IB_PLACE_H
#define SXT_IB_PLACE_H

#include "ib/port.h"

#define SXT_PLACE_WHY_BYTES 768

/* All there is to know of a port that can be used. */
struct sxt_place_survey {
	struct ibv_port_attr attr;
	struct sxt_port_gids gids;
	struct sxt_port_place place; /* at the best address */
};

/**
 * sxt_place_survey() - read a port anew, and say nothing.
 * @port: device, number and link layer are set. @out: written on success, its gids are due to
 * sxt_port_gids_fini(). @why: SXT_PLACE_WHY_BYTES, the reason on failure.
 * Path: slow, system calls. Return: as sxt_port_candidates().
 */
SXT_MUST_CHECK int sxt_place_survey(const struct sxt_port *port, struct sxt_place_survey *out,
				    char *why);

/**
 * sxt_place_read_facts() - what sysfs and the machine's interfaces tell about entries of a port's
 * GID table, as sxt_gid_read_facts(); nothing on InfiniBand.
 * @port: the port. @gids, @cnt: the entries, with index and address.
 * Path: slow, a few small files per entry.
 */
void sxt_place_read_facts(const struct sxt_port *port, struct sxt_gid *gids, uint32_t cnt);

/**
 * sxt_place_pkey() - the P_Key index that a port's queue pairs use: NCCL_IB_PKEY, unless nothing
 * stands there and the table has a key elsewhere.
 * @port: the port. Logs a WARN when it is another one.
 * Path: slow, system calls. Return: an index.
 */
uint16_t sxt_place_pkey(const struct sxt_port *port);

/**
 * sxt_place_remember() - keep what was seen of a port, for comparison at the next look.
 * @port: the port. @found: from sxt_place_survey(), NULL when it cannot be used.
 */
void sxt_place_remember(struct sxt_port *port, const struct sxt_place_survey *found);

#endif
