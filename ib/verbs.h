/*
 * verbs.h - the verbs library as a table of its functions, opened at run time, and calls through
 * it whose results are always 0 or a negative errno.
 *
 * libibverbs answers with an errno, with -1 or with NULL and errno; the wrappers below are the
 * only place that knows which. Posting and polling are inline calls through ibv_context.ops and
 * need no symbol: use ibv_post_send(), ibv_post_recv() and ibv_poll_cq() as they are.
 */
#ifndef SXT_IB_VERBS_H
#define SXT_IB_VERBS_H

#include "core/compiler.h"
#include "core/config.h"

#include <infiniband/verbs.h>

/* Raw functions, with libibverbs' own results; optional ones are NULL where it is too old. */
struct sxt_verbs {
	int (*fork_init)(void); /* optional */
	struct ibv_device **(*get_device_list)(int *cnt);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	__be64 (*get_device_guid)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_port_speed)(struct ibv_context *context, uint32_t port,
				uint64_t *speed_100mbps); /* optional */
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags,
			    size_t entry_bytes); /* optional */
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t most, uint32_t flags, size_t entry_bytes); /* optional */
	int (*query_pkey)(struct ibv_context *context, uint8_t port, int index,
			  __be16 *pkey); /* optional */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t bytes, int access);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				       unsigned int access); /* optional */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t iova, int fd, int access); /* optional */
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece); /* optional */
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);   /* optional */
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	const char *(*wc_status_str)(enum ibv_wc_status status);
	const char *(*event_type_str)(enum ibv_event_type type);
	void *library; /* for sxt_verbs_close(); NULL in a table made by hand */
};

/**
 * sxt_verbs_open() - open the library that NCCL_IBVERBS_LIB names and fill the table.
 * @config: names it. @out: written on success; give back with sxt_verbs_close().
 * Path: slow, runs the library's constructors. Return: 0, -ENOENT or -ENOSYS (logged with the
 * loader's words and what to install).
 */
SXT_MUST_CHECK int sxt_verbs_open(const struct sxt_config *config, struct sxt_verbs *out);

/**
 * sxt_verbs_close() - close the library; a table made by hand or zeroed is fine.
 * @verbs: unusable afterwards.
 */
void sxt_verbs_close(struct sxt_verbs *verbs);

/**
 * sxt_verbs_device_list() - ibv_get_device_list().
 * @verbs: the table. @list_out, @cnt_out: set on success; free with verbs->free_device_list.
 * Return: 0 (also when there are none), or the negative errno, -ENOSYS without kernel support.
 */
SXT_MUST_CHECK int sxt_verbs_device_list(const struct sxt_verbs *verbs,
					 struct ibv_device ***list_out, int *cnt_out);

/**
 * sxt_verbs_open_device() - ibv_open_device().
 * @verbs: the table. @device: from the list. @out: set on success.
 * Return: 0 or the negative errno, -EACCES where the device file may not be opened.
 */
SXT_MUST_CHECK int sxt_verbs_open_device(const struct sxt_verbs *verbs, struct ibv_device *device,
					 struct ibv_context **out);

/**
 * sxt_verbs_query_device() - ibv_query_device().
 * @verbs: the table. @context: an open device. @out: written on success.
 * Return: 0 or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_query_device(const struct sxt_verbs *verbs,
					  struct ibv_context *context, struct ibv_device_attr *out);

/**
 * sxt_verbs_query_port() - the port's attributes as they are now, link layer included.
 * @verbs: the table. @context: an open device. @port: 1 and up. @out: written on success.
 * Return: 0 or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_query_port(const struct sxt_verbs *verbs, struct ibv_context *context,
					uint8_t port, struct ibv_port_attr *out);

/**
 * sxt_verbs_query_port_speed() - a port's effective speed, where the library can tell.
 * @verbs: the table. @context: an open device. @port: 1 and up. @mbps_out: written on success.
 * Return: 0, -EOPNOTSUPP where the library is too old, -ERANGE, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_query_port_speed(const struct sxt_verbs *verbs,
					      struct ibv_context *context, uint8_t port,
					      uint32_t *mbps_out);

/**
 * sxt_verbs_query_gid() - one entry of a port's GID table.
 * @verbs: the table. @context: an open device. @port, @index: which. @out: written on success.
 * Return: 0, or the negative errno; an empty entry is all zeroes, or an error, as drivers differ.
 */
SXT_MUST_CHECK int sxt_verbs_query_gid(const struct sxt_verbs *verbs, struct ibv_context *context,
				       uint8_t port, int index, union ibv_gid *out);

/**
 * sxt_verbs_query_gid_type() - the type of one entry, where the library can tell.
 * @verbs: the table. @context: an open device. @port, @index: which.
 * @out: an enum ibv_gid_type: 0 IB, 1 RoCE v1, 2 RoCE v2; written on success.
 * Return: 0, -EOPNOTSUPP where the library is too old, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_query_gid_type(const struct sxt_verbs *verbs,
					    struct ibv_context *context, uint8_t port, int index,
					    uint8_t *out);

/**
 * sxt_verbs_query_gid_table() - the entries of all ports that are not empty, in one call.
 * @verbs: the table. @context: an open device. @out: written on success, room for @most.
 * @cnt_out: how many. Return: 0, -EOPNOTSUPP where the library is too old, or the negative errno,
 * also when there are more than @most.
 */
SXT_MUST_CHECK int sxt_verbs_query_gid_table(const struct sxt_verbs *verbs,
					     struct ibv_context *context, struct ibv_gid_entry *out,
					     uint32_t most, uint32_t *cnt_out);

/**
 * sxt_verbs_query_pkey() - one entry of a port's P_Key table.
 * @verbs: the table. @context: an open device. @port, @index: which.
 * @out: host order, 0 for an empty one; written on success.
 * Return: 0, -EOPNOTSUPP where the library cannot tell, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_query_pkey(const struct sxt_verbs *verbs, struct ibv_context *context,
					uint8_t port, int index, uint16_t *out);

/**
 * sxt_verbs_alloc_pd() - ibv_alloc_pd().
 * @verbs: the table. @context: an open device. @out: set on success.
 * Return: 0 or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_alloc_pd(const struct sxt_verbs *verbs, struct ibv_context *context,
				      struct ibv_pd **out);

/* One registration: plain, or of a DMA-BUF when dmabuf_fd is not -1. */
struct sxt_verbs_region {
	void *addr;
	size_t bytes;
	unsigned int access; /* IBV_ACCESS_*; optional ones are dropped where unknown */
	int dmabuf_fd;
	uint64_t dmabuf_offset;
};

/**
 * sxt_verbs_reg_mr() - register memory by whichever call the region needs.
 * @verbs: the table. @pd: its domain. @region: what. @out: set on success.
 * Return: 0, -EOPNOTSUPP for a DMA-BUF where the library is too old, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_reg_mr(const struct sxt_verbs *verbs, struct ibv_pd *pd,
				    const struct sxt_verbs_region *region, struct ibv_mr **out);

/**
 * sxt_verbs_create_cq() - ibv_create_cq() without a completion channel.
 * @verbs: the table. @context: an open device. @cqe: entries wanted.
 * @user: comes back as cq_context. @out: set on success.
 * Return: 0 or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_create_cq(const struct sxt_verbs *verbs, struct ibv_context *context,
				       uint32_t cqe, void *user, struct ibv_cq **out);

/**
 * sxt_verbs_create_qp() - ibv_create_qp().
 * @verbs: the table. @pd: its domain. @attr: capabilities granted are written back.
 * @out: set on success. Return: 0 or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_create_qp(const struct sxt_verbs *verbs, struct ibv_pd *pd,
				       struct ibv_qp_init_attr *attr, struct ibv_qp **out);

/**
 * sxt_verbs_modify_qp() - ibv_modify_qp().
 * @verbs: the table. @qp: which. @attr, @mask: as the call takes them.
 * Return: 0 or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_modify_qp(const struct sxt_verbs *verbs, struct ibv_qp *qp,
				       struct ibv_qp_attr *attr, int mask);

/**
 * sxt_verbs_query_ece() - what a queue pair can agree on with its peer; in RTS what it agreed on.
 * @verbs: the table. @qp: past RESET. @out: written on success.
 * Return: 0, -EOPNOTSUPP where library or provider cannot, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_query_ece(const struct sxt_verbs *verbs, struct ibv_qp *qp,
				       struct ibv_ece *out);

/**
 * sxt_verbs_set_ece() - agree to what the peer's queue pair says.
 * @verbs: the table. @qp: in INIT. @ece: the peer's.
 * Return: 0, -EOPNOTSUPP where library or provider cannot, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_set_ece(const struct sxt_verbs *verbs, struct ibv_qp *qp,
				     const struct ibv_ece *ece);

/**
 * sxt_verbs_get_event() - ibv_get_async_event() on a descriptor that does not block.
 * @verbs: the table. @context: an open device. @out: written on success, to be acknowledged.
 * Return: 0, -EAGAIN when there is none, or the negative errno.
 */
SXT_MUST_CHECK int sxt_verbs_get_event(const struct sxt_verbs *verbs, struct ibv_context *context,
				       struct ibv_async_event *out);

#endif
