/*
 * abi_private.c - the one function of libibverbs' private node that takes objects of ours.
 *
 * ibv_devinfo calls it. It is in the LD_PRELOAD object too: the real library's would look into a
 * context that is not its own.
 */
#include "ib/soft/abi.h"

#include "ib/soft/engine.h"

#include <errno.h>

/* As rdma-core's drivers have it: sysfs tells InfiniBand and RoCE v1 apart by the link layer. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

SXT_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				  enum ibv_gid_type_sysfs *type);

SXT_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				  enum ibv_gid_type_sysfs *type)
{
	struct ibv_gid_entry entry;
	int rc = sxt_soft_gid_entry(context, port_num, index, &entry);

	if (rc != 0 && rc != -ENODATA) {
		errno = -rc;
		return -1;
	}
	if (rc == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2)
		*type = IBV_GID_TYPE_SYSFS_ROCE_V2;
	else
		*type = IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
	return 0;
}

#define SXT_API(name)
#define SXT_ALIAS(name, number)                                       \
	extern __typeof__(name) sxt_soft_##name##_##number            \
		__attribute__((alias(#name), visibility("default"))); \
	__asm__(".symver sxt_soft_" #name "_" #number ", " #name "@IBVERBS_PRIVATE_" #number);
#include "ib/soft/private_api.inc"
