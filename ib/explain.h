/*
 * explain.h - what a refused verbs call means, in words behind the error's name: the limit that was
 * hit, what is in use and what was wanted, as far as they can be read when it happens.
 */
#ifndef SXT_IB_EXPLAIN_H
#define SXT_IB_EXPLAIN_H

#include "ib/port.h"
#include "ib/qp.h"

#define SXT_EXPLAIN_BYTES 640

/**
 * sxt_explain_open() - an HCA that could not be opened, or not be used then.
 * @device: the HCA; ib and name are set. @from: from the library's list. @rc: negative errno.
 * @out: as sxt_explain_register(). Return: the error behind @rc, where the library hid it.
 */
int sxt_explain_open(const struct sxt_device *device, const struct ibv_device *from, int rc,
		     char *out);

/**
 * sxt_explain_register() - a registration that was refused.
 * @port: on whose HCA. @region: what was to be registered. @rc: negative errno.
 * @out: SXT_EXPLAIN_BYTES; "; ..." or "" when the error says it all.
 * Path: slow, reads files of /proc and /sys; the same for the others.
 */
void sxt_explain_register(const struct sxt_port *port, const struct sxt_verbs_region *region,
			  int rc, char *out);

/**
 * sxt_explain_create() - a queue pair or completion queue that was refused.
 * @port: on whose HCA. @kind: which. @rc: negative errno. @out: as sxt_explain_register().
 */
void sxt_explain_create(const struct sxt_port *port, enum sxt_device_object kind, int rc,
			char *out);

/**
 * sxt_explain_init() - a queue pair that could not be moved to INIT.
 * @port: its port. @pkey: the index of its P_Key. @rc: negative errno.
 * @out: as sxt_explain_register().
 */
void sxt_explain_init(const struct sxt_port *port, uint16_t pkey, int rc, char *out);

/**
 * sxt_explain_join() - a queue pair that could not be moved to RTR.
 * @port: its port. @route: the way it was to go. @rc: negative errno.
 * @out: as sxt_explain_register().
 */
void sxt_explain_join(const struct sxt_port *port, const struct sxt_qp_route *route, int rc,
		      char *out);

#endif
