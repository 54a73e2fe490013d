/*
 * mr.h - registered memory: a cache of the caller's buffers per NIC, and our own rings.
 *
 * The cache is keyed by page range and kind; a range inside one that is registered already is
 * served by it. Any thread; system calls are made under the NIC's lock, which the data path never
 * takes.
 */
#ifndef SXT_IB_MR_H
#define SXT_IB_MR_H

#include "ib/ib.h"
#include "ib/nic.h"
#include "ib/port.h"

/*
 * One registration on every port of a NIC. The keys fill the first line: the data path loads them
 * and nothing else.
 */
struct sxt_mr {
	_Alignas(SXT_CACHELINE) uint32_t lkeys[SXT_PORTS_MAX]; /* by the port's place in the NIC, */
	uint32_t rkeys[SXT_PORTS_MAX];                         /* zeroes after the last */

	uint64_t first; /* address of the first byte covered */
	uint64_t bytes; /* covered; more than asked for, to page ends */

	/* Under the NIC's mr_lock. Ports of one HCA share a registration: NULL after the first. */
	struct ibv_mr *verbs_mrs[SXT_PORTS_MAX];
	uint32_t refs;
	bool is_dmabuf;
};
SXT_ASSERT_OFFSET(struct sxt_mr, lkeys, 0);
SXT_ASSERT_OFFSET(struct sxt_mr, first, SXT_CACHELINE);

/**
 * sxt_mr_register_ring() - register memory of our own, strictly ordered, outside the cache.
 * @port: whose HCA. @addr, @bytes: the memory. @access: IBV_ACCESS_* flags.
 * @what: "clear-to-send ring", for messages. @out: set on success; sxt_mr_deregister_ring().
 * Path: slow. Return: 0, or the error of the verb (logged with what to do).
 */
SXT_MUST_CHECK int sxt_mr_register_ring(const struct sxt_port *port, void *addr, size_t bytes,
					int access, const char *what, struct ibv_mr **out);

/**
 * sxt_mr_deregister_ring() - undo sxt_mr_register_ring().
 * @port: as then. @mr: NULL is fine.
 */
void sxt_mr_deregister_ring(const struct sxt_port *port, struct ibv_mr *mr);

/**
 * sxt_mr_cache_get() - find or make a registration that covers a range, on all ports of one NIC.
 * @nic: the NIC. @spec: the range. @out: set on success; give back with sxt_mr_cache_put().
 * Thread: any, takes nic->mr_lock. Path: slow. Return: as sxt_mr_get(); a port that refuses leaves
 * nothing registered on the others.
 */
SXT_MUST_CHECK int sxt_mr_cache_get(struct sxt_nic *nic, const struct sxt_mr_spec *spec,
				    struct sxt_mr **out);

/**
 * sxt_mr_cache_put() - give a registration back; the last one deregisters.
 * @nic: as for sxt_mr_cache_get(). @mr: NULL is fine.
 * Thread: any, takes nic->mr_lock.
 */
void sxt_mr_cache_put(struct sxt_nic *nic, struct sxt_mr *mr);

/**
 * sxt_mr_cache_close() - deregister what was never given back (logged), before the NIC is freed.
 * @nic: the NIC; nothing uses it any more.
 */
void sxt_mr_cache_close(struct sxt_nic *nic);

#endif
