/*
 * host.h - limits of this machine and process that make verbs calls fail: pinned memory, the rdma
 * controller of a cgroup, what of a GPU's memory can be reached over PCI.
 */
#ifndef SXT_IB_HOST_H
#define SXT_IB_HOST_H

#include "core/compiler.h"

#include <stdbool.h>

/* Memory that registrations pin. */
struct sxt_host_pinned {
	uint64_t limit_bytes; /* UINT64_MAX: none, or it does not count for this process */
	uint64_t used_bytes;  /* by this process */
	bool is_exempt;       /* by CAP_IPC_LOCK */
};

/* What a cgroup allows of one HCA, and what is in use. */
struct sxt_host_cgroup {
	char folder[192]; /* below the root */
	uint64_t limit;
	uint64_t used;
};

/**
 * sxt_host_pinned_read() - how much this process may pin, and how much it has.
 * @root: SEXTANT_SYSROOT. @out: written on success.
 * Path: slow. Return: 0, -ENODATA when /proc does not tell, or the negative errno of reading.
 */
SXT_MUST_CHECK int sxt_host_pinned_read(const char *root, struct sxt_host_pinned *out);

/**
 * sxt_host_cgroup_read() - the limit of the cgroup this process is in, or of the nearest one above
 * that has any.
 * @root: SEXTANT_SYSROOT. @device: name of the HCA. @what: "hca_object", verbs objects of all
 * kinds, or "hca_handle", how often the HCA is open. @out: written on success.
 * Path: slow. Return: 0, -ENODATA when there is no limit, or the negative errno of reading.
 */
SXT_MUST_CHECK int sxt_host_cgroup_read(const char *root, const char *device, const char *what,
					struct sxt_host_cgroup *out);

/**
 * sxt_host_gpu_bar_read() - the smallest window through which other devices reach the memory of a
 * NVIDIA GPU here (the largest BAR of each).
 * @root: SEXTANT_SYSROOT. @bytes_out: set on success.
 * Path: slow, allocates. Return: 0, -ENODATA when there is no GPU, or an error of reading.
 */
SXT_MUST_CHECK int sxt_host_gpu_bar_read(const char *root, uint64_t *bytes_out);

#endif
