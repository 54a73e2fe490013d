/*
 * engine.h - the software HCA's verbs, as functions: what the libibverbs ABI is a skin over.
 *
 * Objects are verbs' own structs (the engine embeds them as first member). Control verbs return 0
 * or -errno and set their output on success only; data-path functions (`_post_`, `_poll`,
 * `_notify`) have exactly the type of the ibv_context_ops member they are stored in, with its
 * return convention. Threads: as verbs, every function may be called by any thread.
 */
#ifndef SXT_IB_SOFT_ENGINE_H
#define SXT_IB_SOFT_ENGINE_H

#include "core/compiler.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

/**
 * sxt_soft_device_list() - the HCAs of this process's host; the first call attaches the process.
 * @out: NULL-terminated array; free() it. The devices in it live until the process ends.
 * @cnt_out: how many. Both set on success only.
 * A forked child that calls this attaches anew, as a process of its own.
 * Return: 0, -ENOMEM, or as sxt_soft_state_attach(); logged.
 */
SXT_MUST_CHECK int sxt_soft_device_list(struct ibv_device ***out, int *cnt_out);

/**
 * sxt_soft_device_guid() - the node GUID.
 * @device: from sxt_soft_device_list(). Return: the GUID in network order.
 */
__be64 sxt_soft_device_guid(const struct ibv_device *device);

/**
 * sxt_soft_device_index() - what ibv_get_device_index() answers.
 * @device: from sxt_soft_device_list(). Return: a number that is the device's own in the fabric.
 */
int sxt_soft_device_index(const struct ibv_device *device);

/**
 * sxt_soft_context_open() - open a device.
 * @device: from sxt_soft_device_list().
 * @out: a zeroed verbs_context whose `context` has device, async_fd, cmd_fd, num_comp_vectors,
 * mutex and the data-path ops (poll_cq, req_notify_cq, post_send, post_recv, post_srq_recv) filled
 * in; sz, abi_compat, priv and the function pointers of verbs_context are the caller's.
 * Return: 0, -ENOMEM, or the negative errno of a system call, logged.
 */
SXT_MUST_CHECK int sxt_soft_context_open(struct ibv_device *device, struct verbs_context **out);

/**
 * sxt_soft_context_close() - close a device; objects the program left behind go with it.
 * @context: from sxt_soft_context_open().
 */
void sxt_soft_context_close(struct ibv_context *context);

/**
 * sxt_soft_device_query() - ibv_query_device() and, for size, ibv_query_device_ex().
 * @context: open. @attr: orig_attr and the extension, filled up to @attr_bytes.
 * @attr_bytes: sizeof(struct ibv_device_attr_ex) as the caller was compiled.
 * Return: 0, or -EINVAL when @attr_bytes does not cover orig_attr.
 */
SXT_MUST_CHECK int sxt_soft_device_query(struct ibv_context *context,
					 struct ibv_device_attr_ex *attr, size_t attr_bytes);

/**
 * sxt_soft_port_query() - ibv_query_port().
 * @context: open. @port_num: from 1. @attr: filled up to @attr_bytes (older callers: fewer).
 * Return: 0, or -EINVAL when there is no such port.
 */
SXT_MUST_CHECK int sxt_soft_port_query(struct ibv_context *context, uint8_t port_num,
				       struct ibv_port_attr *attr, size_t attr_bytes);

/**
 * sxt_soft_gid_query() - ibv_query_gid(); an empty entry is all zero.
 * @context: open. @port_num: from 1. @index: of the entry. @out: set on success only.
 * Return: 0, or -EINVAL when port or index do not exist.
 */
SXT_MUST_CHECK int sxt_soft_gid_query(struct ibv_context *context, uint8_t port_num, int index,
				      union ibv_gid *out);

/**
 * sxt_soft_gid_entry() - one entry as ibv_query_gid_ex() gives it.
 * @context: open. @port_num: from 1. @index: of the entry. @out: set on success only.
 * Return: 0, -EINVAL when port or index do not exist, -ENODATA when the entry is empty.
 */
SXT_MUST_CHECK int sxt_soft_gid_entry(struct ibv_context *context, uint32_t port_num,
				      uint32_t index, struct ibv_gid_entry *out);

/**
 * sxt_soft_gid_table() - all entries that are not empty, of all ports.
 * @context: open. @entries, @max: where to. Return: how many, or -EINVAL when there are more.
 */
SXT_MUST_CHECK ssize_t sxt_soft_gid_table(struct ibv_context *context,
					  struct ibv_gid_entry *entries, size_t max);

/**
 * sxt_soft_pkey_query() - ibv_query_pkey().
 * @context: open. @port_num: from 1. @index: of the entry. @out: set on success only.
 * Return: 0, or -EINVAL when port or index do not exist.
 */
SXT_MUST_CHECK int sxt_soft_pkey_query(struct ibv_context *context, uint8_t port_num, int index,
				       __be16 *out);

/**
 * sxt_soft_async_get() - wait for the next event, as ibv_get_async_event().
 * @context: open; O_NONBLOCK on its async_fd is honoured. @out: set on success only; give it to
 * sxt_soft_async_ack(). Return: 0, -EAGAIN, or the negative errno of read().
 */
SXT_MUST_CHECK int sxt_soft_async_get(struct ibv_context *context, struct ibv_async_event *out);

/**
 * sxt_soft_async_ack() - the event is dealt with; destroying its object may go on.
 * @event: from sxt_soft_async_get(), once.
 */
void sxt_soft_async_ack(const struct ibv_async_event *event);

/**
 * sxt_soft_pd_alloc() - a protection domain.
 * @context: open. @out: set on success only. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_pd_alloc(struct ibv_context *context, struct ibv_pd **out);

/**
 * sxt_soft_pd_dealloc() - free a protection domain.
 * @pd: domain. Return: 0, or -EBUSY while objects belong to it.
 */
SXT_MUST_CHECK int sxt_soft_pd_dealloc(struct ibv_pd *pd);

/* What the three registration verbs ask for. */
struct sxt_soft_mr_request {
	void *addr;      /* start of the memory; unused with a DMA-BUF */
	uint64_t iova;   /* what peers and local SGEs call the first byte */
	size_t length;   /* bytes; 0 is allowed */
	uint64_t access; /* enum ibv_access_flags */
	int dmabuf_fd;   /* -1 for memory of the process, else a descriptor mmap() takes */
	uint64_t dmabuf_offset;
};

/**
 * sxt_soft_mr_register() - ibv_reg_mr(), ibv_reg_mr_iova2() and ibv_reg_dmabuf_mr().
 * @pd: domain. @request: not kept. @out: set on success only.
 * Shared mappings of a file or memfd are moved by plain copies, all else by process_vm_*.
 * Return: 0, -EINVAL (access flags, wrap-around, an iova with another offset in its page than the
 * memory), -EFAULT (no such memory), -EPERM when the kernel
 * lets no peer reach private memory (logged, with the remedy), -ENOMEM, or an armed fault's errno.
 */
SXT_MUST_CHECK int sxt_soft_mr_register(struct ibv_pd *pd,
					const struct sxt_soft_mr_request *request,
					struct ibv_mr **out);

/**
 * sxt_soft_mr_deregister() - when it returns no peer reads or writes the memory any more.
 * @mr: from sxt_soft_mr_register(). Waits for transfers in the middle. Return: 0.
 */
SXT_MUST_CHECK int sxt_soft_mr_deregister(struct ibv_mr *mr);

/**
 * sxt_soft_channel_create() - a completion channel; its fd can be polled and set O_NONBLOCK.
 * @context: open. @out: set on success only. Return: 0, -ENOMEM, or the negative errno of a
 * system call.
 */
SXT_MUST_CHECK int sxt_soft_channel_create(struct ibv_context *context,
					   struct ibv_comp_channel **out);

/**
 * sxt_soft_channel_destroy() - close a channel.
 * @channel: channel. Return: 0, or -EBUSY while CQs use it.
 */
SXT_MUST_CHECK int sxt_soft_channel_destroy(struct ibv_comp_channel *channel);

/**
 * sxt_soft_cq_event_get() - wait for a completion event, as ibv_get_cq_event().
 * @channel: channel. @cq_out, @cq_context_out: set on success only.
 * Return: 0, -EAGAIN with O_NONBLOCK, -EINTR, or the negative errno of a system call.
 */
SXT_MUST_CHECK int sxt_soft_cq_event_get(struct ibv_comp_channel *channel, struct ibv_cq **cq_out,
					 void **cq_context_out);

/**
 * sxt_soft_cq_event_ack() - events are dealt with; destroying the CQ may go on.
 * @cq: CQ. @cnt: how many.
 */
void sxt_soft_cq_event_ack(struct ibv_cq *cq, unsigned int cnt);

/**
 * sxt_soft_cq_create() - a CQ; ibv_create_cq() passes its arguments through the attribute struct.
 * @context: open. @attr: cqe, cq_context, channel (or NULL), wc_flags, comp_mask, flags.
 * @out: set on success only; also an ibv_cq (ibv_cq_ex_to_cq()), with all start_poll and read_*
 * pointers that wc_flags asks for. Return: 0, -EINVAL, -EOPNOTSUPP (wc_flags), or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_cq_create(struct ibv_context *context,
				      const struct ibv_cq_init_attr_ex *attr,
				      struct ibv_cq_ex **out);

/**
 * sxt_soft_cq_resize() - change the room of a CQ; what is in it stays.
 * @cq: CQ. @cqe: wanted entries. Return: 0, -EINVAL (too many, or fewer than are in it), -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_cq_resize(struct ibv_cq *cq, int cqe);

/**
 * sxt_soft_cq_destroy() - waits until all its events are acknowledged.
 * @cq: CQ. Return: 0, or -EBUSY while QPs use it.
 */
SXT_MUST_CHECK int sxt_soft_cq_destroy(struct ibv_cq *cq);

/**
 * sxt_soft_cq_poll() - ibv_context_ops.poll_cq.
 * @cq: CQ. @num_entries: room in @wc. Return: completions written, or -1 when the CQ overran.
 */
int sxt_soft_cq_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

/**
 * sxt_soft_cq_notify() - ibv_context_ops.req_notify_cq.
 * @cq: CQ. @solicited_only: as verbs. Return: 0.
 */
int sxt_soft_cq_notify(struct ibv_cq *cq, int solicited_only);

/**
 * sxt_soft_qp_create() - RC and UD queue pairs; ibv_create_qp() passes its arguments through.
 * @context: open. @attr: capacities are written back on success; comp_mask PD and SEND_OPS_FLAGS.
 * @out: set on success only; with SEND_OPS_FLAGS ibv_qp_to_qp_ex() of it works.
 * Return: 0, -EINVAL (capacities, missing CQ or PD), -EOPNOTSUPP (type, flags), -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				      struct ibv_qp **out);

/**
 * sxt_soft_qp_to_ex() - ibv_qp_to_qp_ex().
 * @qp: from sxt_soft_qp_create(). Return: the extended view, NULL if made without SEND_OPS_FLAGS.
 */
struct ibv_qp_ex *sxt_soft_qp_to_ex(struct ibv_qp *qp);

/**
 * sxt_soft_qp_query() - ibv_query_qp(); every attribute is filled whatever the mask.
 * @qp: QP. @attr, @init_attr: out. Return: 0.
 */
SXT_MUST_CHECK int sxt_soft_qp_query(struct ibv_qp *qp, struct ibv_qp_attr *attr,
				     struct ibv_qp_init_attr *init_attr);

/**
 * sxt_soft_qp_modify() - ibv_modify_qp(): the state machine of the specification.
 * @qp: QP. @attr, @mask: a mask that lacks what the transition needs or has what it forbids, or a
 * value the port cannot honour, is refused and changes nothing. Return: 0 or -EINVAL.
 */
SXT_MUST_CHECK int sxt_soft_qp_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask);

/**
 * sxt_soft_qp_destroy() - its completions still unpolled go with it, as on hardware.
 * @qp: QP; waits until its async events are acknowledged. Return: 0.
 */
SXT_MUST_CHECK int sxt_soft_qp_destroy(struct ibv_qp *qp);

/**
 * sxt_soft_qp_post_send() - ibv_context_ops.post_send.
 * @qp: QP. @wr: list. @bad: first one not taken. Return: 0 or errno (positive).
 */
int sxt_soft_qp_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/**
 * sxt_soft_qp_post_recv() - ibv_context_ops.post_recv.
 * @qp: QP. @wr: list. @bad: first one not taken. Return: 0 or errno (positive).
 */
int sxt_soft_qp_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/**
 * sxt_soft_srq_create() - a basic SRQ; ibv_create_srq_ex() of that type passes pd and attr on.
 * @pd: domain. @attr: capacities are written back on success. @out: set on success only.
 * Return: 0, -EINVAL (capacities), -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
				       struct ibv_srq **out);

/**
 * sxt_soft_srq_modify() - IBV_SRQ_LIMIT; resizing is not offered.
 * @srq: SRQ. @attr, @mask: as verbs. Return: 0, -EINVAL, or -EOPNOTSUPP (IBV_SRQ_MAX_WR).
 */
SXT_MUST_CHECK int sxt_soft_srq_modify(struct ibv_srq *srq, const struct ibv_srq_attr *attr,
				       int mask);

/**
 * sxt_soft_srq_query() - capacities and limit.
 * @srq: SRQ. @out: filled. Return: 0.
 */
SXT_MUST_CHECK int sxt_soft_srq_query(struct ibv_srq *srq, struct ibv_srq_attr *out);

/**
 * sxt_soft_srq_number() - ibv_get_srq_num().
 * @srq: SRQ. Return: a number that is its own in this process.
 */
uint32_t sxt_soft_srq_number(const struct ibv_srq *srq);

/**
 * sxt_soft_srq_destroy() - waits until its async events are acknowledged.
 * @srq: SRQ. Return: 0, or -EBUSY while QPs use it.
 */
SXT_MUST_CHECK int sxt_soft_srq_destroy(struct ibv_srq *srq);

/**
 * sxt_soft_srq_post_recv() - ibv_context_ops.post_srq_recv.
 * @srq: SRQ. @wr: list. @bad: first one not taken. Return: 0 or errno (positive).
 */
int sxt_soft_srq_post_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/**
 * sxt_soft_ah_create() - an address handle for UD.
 * @pd: domain. @attr: not kept. @out: set on success only.
 * Return: 0, -EINVAL (port, GID index, an address nobody can have), -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_ah_create(struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				      struct ibv_ah **out);

/**
 * sxt_soft_ah_destroy() - free an address handle.
 * @ah: handle. Return: 0.
 */
SXT_MUST_CHECK int sxt_soft_ah_destroy(struct ibv_ah *ah);

/**
 * sxt_soft_ah_attr_from_wc() - who sent a UD message, as ibv_init_ah_from_wc() needs it.
 * @context: open. @port_num: where it came in. @wc, @grh: of the message. @out: set on success.
 * Return: 0, or -EINVAL when the GRH's destination is no GID of the port.
 */
SXT_MUST_CHECK int sxt_soft_ah_attr_from_wc(struct ibv_context *context, uint8_t port_num,
					    const struct ibv_wc *wc, const struct ibv_grh *grh,
					    struct ibv_ah_attr *out);

/* Answer -EOPNOTSUPP, and are therefore the caller's: rereg_mr, ECE, multicast, memory windows,
 * XRC, flows, work queues, device memory, parent domains. */

#endif
