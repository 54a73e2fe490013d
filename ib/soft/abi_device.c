/*
 * abi_device.c - devices, contexts and their attributes as libibverbs exports them.
 *
 * Control path only, any thread. Functions that answer an int give 0 or an errno value unless
 * their manual page says -1 and errno.
 */
#include "ib/soft/abi.h"

#include "core/config.h"
#include "core/log.h"
#include "ib/soft/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void say_no_fabric(void)
{
	static _Atomic bool said;

	if (atomic_exchange_explicit(&said, true, memory_order_relaxed))
		return;
	SXT_LOG(SXT_LOG_WARN, "software HCA: SEXTANT_SOFT_STATE is not set, so there is no fabric "
			      "and no device; start the program with: sextant soft run -- COMMAND");
}

SXT_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = NULL;
	int cnt = 0;
	int rc = 0;

	if (num_devices != NULL)
		*num_devices = 0;
	if (sxt_env_get("SEXTANT_SOFT_STATE") == NULL) {
		say_no_fabric();
		list = calloc(1, sizeof(*list));
		if (list == NULL)
			rc = -ENOMEM;
	} else {
		rc = sxt_soft_device_list(&list, &cnt);
	}
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	if (num_devices != NULL)
		*num_devices = cnt;
	return list;
}

SXT_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

SXT_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

SXT_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return sxt_soft_device_index(device);
}

SXT_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return sxt_soft_device_guid(device);
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	if (input != NULL && input->comp_mask != 0)
		return EINVAL;
	return -sxt_soft_device_query(context, attr, attr_bytes);
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t attr_bytes)
{
	return -sxt_soft_port_query(context, port_num, attr, attr_bytes);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = NULL;
	int rc = sxt_soft_cq_create(context, attr, &cq);

	if (rc != 0)
		errno = -rc;
	return cq;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = NULL;
	int rc = sxt_soft_qp_create(context, attr, &qp);

	if (rc != 0)
		errno = -rc;
	return qp;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};
	uint32_t basic_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	struct ibv_srq *srq = NULL;
	int rc;

	sxt_ignore(context != NULL); /* the PD has it too */
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
		errno = EINVAL;
		return NULL;
	}
	if ((attr->comp_mask & ~basic_mask) != 0 ||
	    ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	rc = sxt_soft_srq_create(attr->pd, &basic, &srq);
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	attr->attr = basic.attr;
	return srq;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	*srq_num = sxt_soft_srq_number(srq);
	return 0;
}

SXT_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *verbs = NULL;
	int rc = sxt_soft_context_open(device, &verbs);

	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	/* Members that stay NULL are verbs.h's way to say EOPNOTSUPP. */
	verbs->sz = sizeof(*verbs);
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->query_port = query_port;
	verbs->query_device_ex = query_device_ex;
	verbs->create_cq_ex = create_cq_ex;
	verbs->create_qp_ex = create_qp_ex;
	verbs->create_srq_ex = create_srq_ex;
	verbs->get_srq_num = get_srq_num;
	return &verbs->context;
}

SXT_EXPORT int ibv_close_device(struct ibv_context *context)
{
	sxt_soft_context_close(context);
	return 0;
}

SXT_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex whole;
	int rc = sxt_soft_device_query(context, &whole, sizeof(whole));

	if (rc == 0)
		*attr = whole.orig_attr;
	return -rc;
}

/* The exported function fills the structure as it was before it grew; verbs.h takes the inline. */
SXT_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num,
			      struct _compat_ibv_port_attr *attr)
{
	return -sxt_soft_port_query(context, port_num, (struct ibv_port_attr *)attr,
				    offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int minus_one(int rc)
{
	if (rc == 0)
		return 0;
	errno = -rc;
	return -1;
}

SXT_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
			     union ibv_gid *gid)
{
	return minus_one(sxt_soft_gid_query(context, port_num, index, gid));
}

/*
 * Callers compiled with a longer entry than ours get zeros in what we do not know; shorter ones
 * do not exist, the structure was never smaller.
 */
SXT_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
				 struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry own;
	int rc;

	if (flags != 0)
		return EOPNOTSUPP;
	if (entry_size < sizeof(own))
		return EINVAL;
	rc = sxt_soft_gid_entry(context, port_num, gid_index, &own);
	if (rc != 0)
		return -rc;
	memset(entry, 0, entry_size);
	*entry = own;
	return 0;
}

SXT_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
					size_t max_entries, uint32_t flags, size_t entry_size)
{
	ssize_t cnt;

	if (flags != 0)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(*entries))
		return -EINVAL;
	cnt = sxt_soft_gid_table(context, entries, max_entries);
	/* From the last one on, so that an entry moves before its place is written over. */
	for (ssize_t i = cnt - 1; i > 0 && entry_size != sizeof(*entries); i--) {
		char *place = (char *)entries + (size_t)i * entry_size;

		memmove(place, &entries[i], sizeof(*entries));
		memset(place + sizeof(*entries), 0, entry_size - sizeof(*entries));
	}
	if (cnt > 0)
		memset((char *)entries + sizeof(*entries), 0, entry_size - sizeof(*entries));
	return cnt;
}

SXT_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index,
			      __be16 *pkey)
{
	return minus_one(sxt_soft_pkey_query(context, port_num, index, pkey));
}

SXT_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 seen;

	for (int i = 0; sxt_soft_pkey_query(context, port_num, i, &seen) == 0; i++)
		if (seen == pkey)
			return i;
	errno = EINVAL;
	return -1;
}

SXT_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	return minus_one(sxt_soft_async_get(context, event));
}

SXT_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	sxt_soft_async_ack(event);
}

/* Peers reach memory through the page tables of whoever registered it: a fork harms nothing. */
SXT_EXPORT int ibv_fork_init(void)
{
	return 0;
}

SXT_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Not in verbs.h, but exported since libibverbs 1.0, for providers and librdmacm. */
SXT_EXPORT int ibv_dontfork_range(void *base, size_t size);
SXT_EXPORT int ibv_dofork_range(void *base, size_t size);
SXT_EXPORT const char *ibv_get_sysfs_path(void);
SXT_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

SXT_EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	sxt_ignore(base != NULL && size != 0);
	return 0;
}

SXT_EXPORT int ibv_dofork_range(void *base, size_t size)
{
	sxt_ignore(base != NULL && size != 0);
	return 0;
}

SXT_EXPORT const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

SXT_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;
	int fd;

	if (size == 0 || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = size == 0 ? EINVAL : ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len < 0)
		return -1;
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if ((size_t)len < size)
		buf[len] = '\0';
	return (int)len;
}
