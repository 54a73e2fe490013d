/*
 * net.h - the network plugin behind all seven function tables. The net_vN.c files only translate
 * structs; the functions below stand in the tables as they are.
 */
#ifndef SXT_PLUGIN_NET_H
#define SXT_PLUGIN_NET_H

#include "ib/ib.h"
#include "plugin/nccl/net.h"

#include <stdbool.h>

#define SXT_NET_NAME "Sextant"

/**
 * sxt_net_init() - v6 to v10: open the transport once per load.
 * @abi: which of them. @logger: NCCL's. Thread: NCCL's init threads, one at a time.
 * Return: ncclSuccess, or why NCCL should use its next network (logged).
 */
ncclResult_t sxt_net_init(int abi, ncclDebugLogger_t logger);

/**
 * sxt_net_init_ctx() - v11 and v12: one communicator.
 * @abi: which of them. @comm_id: the communicator's. @logger: NCCL's. @config: traffic class;
 * may be NULL.
 * @ctx: set on success; its first member is the traffic class as a writable int, because NCCL's
 * own RMA transport reads and writes it there. Thread and return: as sxt_net_init().
 */
ncclResult_t sxt_net_init_ctx(int abi, uint64_t comm_id, ncclDebugLogger_t logger,
			      const struct nccl_net_comm_config *config, void **ctx);

/**
 * sxt_net_finalize() - end a communicator, with all that NCCL left in it. Cannot fail.
 * @ctx: from sxt_net_init_ctx().
 */
ncclResult_t sxt_net_finalize(void *ctx);

/**
 * sxt_net_hold() - keep the transport, where a communicator has opened it.
 * Thread: any, takes a lock. Return: NULL where none has; else sxt_net_release() gives it back.
 */
struct sxt_ib *sxt_net_hold(void);

/** sxt_net_release() - the end of sxt_net_hold(). @ib: what it returned; NULL is fine. */
void sxt_net_release(struct sxt_ib *ib);

/**
 * sxt_net_devices() - how many NICs there are, physical ones first, merged ones after them.
 * @ndev: set on success.
 */
ncclResult_t sxt_net_devices(int *ndev);

/**
 * sxt_net_properties() - the newest form of one NIC's properties; older ones copy from it.
 * @dev: NIC. @props: every field is written on success.
 */
ncclResult_t sxt_net_properties(int dev, struct nccl_net_props_v12 *props);

/**
 * sxt_net_make_vdevice_v9() - v9 to v11: one NIC that uses the ports of up to 4.
 * @dev: set on success; the same parts give the same number again. @parts: physical NICs; only
 * ndevs of devs are read.
 * Thread: any; NCCL calls it under another lock than init.
 */
ncclResult_t sxt_net_make_vdevice_v9(int *dev, struct nccl_net_vdev_props_v9 *parts);

/**
 * sxt_net_make_vdevice() - v12: of up to 8; the rest as v9.
 */
ncclResult_t sxt_net_make_vdevice(int *dev, struct nccl_net_vdev_props_v12 *parts);

/**
 * sxt_net_listen() - v6 to v10. @dev: NIC. @handle: 128 bytes, written. @listen_comm: set.
 */
ncclResult_t sxt_net_listen(int dev, void *handle, void **listen_comm);

/**
 * sxt_net_listen_ctx() - v11 and v12. @ctx: communicator; the rest as sxt_net_listen().
 */
ncclResult_t sxt_net_listen_ctx(void *ctx, int dev, void *handle, void **listen_comm);

/**
 * sxt_net_connect_v6() - one poll. @send_comm: NULL while it goes on.
 * @dev: NIC. @handle: the peer's, the same memory at every poll.
 */
ncclResult_t sxt_net_connect_v6(int dev, void *handle, void **send_comm);

/**
 * sxt_net_connect_v7() - v7 to v9, as v6. @dev_comm: left alone, this is a host plugin.
 */
ncclResult_t sxt_net_connect_v7(int dev, void *handle, void **send_comm,
				struct nccl_net_device_handle **dev_comm);

/**
 * sxt_net_connect_v10() - as v7. @config: the communicator's traffic class; may be NULL.
 */
ncclResult_t sxt_net_connect_v10(int dev, struct nccl_net_comm_config *config, void *handle,
				 void **send_comm, struct nccl_net_device_handle **dev_comm);

/**
 * sxt_net_connect_ctx() - v11 and v12. @ctx: communicator; the rest as v7.
 */
ncclResult_t sxt_net_connect_ctx(void *ctx, int dev, void *handle, void **send_comm,
				 struct nccl_net_device_handle **dev_comm);

/**
 * sxt_net_accept_v6() - one poll. @listen_comm: where. @recv_comm: NULL while it goes on.
 */
ncclResult_t sxt_net_accept_v6(void *listen_comm, void **recv_comm);

/**
 * sxt_net_accept() - v7 and later. @dev_comm: left alone; the rest as v6.
 */
ncclResult_t sxt_net_accept(void *listen_comm, void **recv_comm,
			    struct nccl_net_device_handle **dev_comm);

/**
 * sxt_net_reg_mr_int() - v6 and v7. @bytes: int there; the rest as sxt_net_reg_mr().
 */
ncclResult_t sxt_net_reg_mr_int(void *comm, void *data, int bytes, int type, void **mhandle);

/**
 * sxt_net_reg_mr() - register memory. @comm: send or receive comm. @type: NCCL_PTR_HOST.
 * @mhandle: set on success. Thread: also while another moves data on @comm.
 */
ncclResult_t sxt_net_reg_mr(void *comm, void *data, size_t bytes, int type, void **mhandle);

/**
 * sxt_net_reg_mr_dmabuf() - register memory behind a DMA-BUF. @fd: not kept. @offset: in it.
 * The rest as sxt_net_reg_mr().
 */
ncclResult_t sxt_net_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				   int fd, void **mhandle);

/**
 * sxt_net_dereg_mr() - give a registration back. Cannot fail.
 */
ncclResult_t sxt_net_dereg_mr(void *comm, void *mhandle);

/**
 * sxt_net_isend_int() - v6 to v8. @bytes: int there; the rest as sxt_net_isend().
 */
ncclResult_t sxt_net_isend_int(void *send_comm, void *data, int bytes, int tag, void *mhandle,
			       void **request);

/**
 * sxt_net_isend_v9() - start a message. @request: NULL when the peer has no room yet.
 * Thread: data path.
 */
ncclResult_t sxt_net_isend_v9(void *send_comm, void *data, size_t bytes, int tag, void *mhandle,
			      void **request);

/**
 * sxt_net_isend() - v10 and later. @phandle: profiler's, not used; the rest as v9.
 */
ncclResult_t sxt_net_isend(void *send_comm, void *data, size_t bytes, int tag, void *mhandle,
			   void *phandle, void **request);

/**
 * sxt_net_irecv_int() - v6 to v8. @sizes: int there; no optional receives.
 */
ncclResult_t sxt_net_irecv_int(void *recv_comm, int n, void **data, int *sizes, int *tags,
			       void **mhandles, void **request);

/**
 * sxt_net_irecv_v9() - post n buffers. @request: comes in as NCCL_NET_OPTIONAL_RECV where NCCL
 * does not need the completion; NULL when there is no room yet. Thread: data path.
 */
ncclResult_t sxt_net_irecv_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
			      void **mhandles, void **request);

/**
 * sxt_net_irecv() - v10 and later. @phandles: profiler's, not used; the rest as v9.
 */
ncclResult_t sxt_net_irecv(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
			   void **mhandles, void **phandles, void **request);

/**
 * sxt_net_iflush() - host memory needs none: success with a NULL request, NCCL's "nothing to do".
 */
ncclResult_t sxt_net_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
			    void **request);

/**
 * sxt_net_test() - is a request done? @done: 0 or 1. @sizes: may be NULL; else one entry for a
 * send, n for a receive, written when done. Thread: data path.
 */
ncclResult_t sxt_net_test(void *request, int *done, int *sizes);

/**
 * sxt_net_close_conn() - closeSend and closeRecv of every version. @comm: NULL is fine.
 * Cannot fail: an error here would make NCCL leak every other connection.
 */
ncclResult_t sxt_net_close_conn(void *comm);

/**
 * sxt_net_close_listen() - closeListen of every version. Cannot fail.
 */
ncclResult_t sxt_net_close_listen(void *listen_comm);

/**
 * sxt_net_sizes_of() - the int sizes of v6 to v8. @n: as NCCL gives it. @sizes: n of them.
 * @out: room for SXT_RECVS_MAX. Return: false for numbers that cannot be.
 */
bool sxt_net_sizes_of(int n, const int *sizes, size_t *out);

/* The data path's calls that are measured while telemetry is on. */
struct sxt_net_hot {
	ncclResult_t (*isend)(void *send_comm, void *data, size_t bytes, int tag, void *mhandle,
			      void *phandle, void **request);
	ncclResult_t (*isend_v9)(void *send_comm, void *data, size_t bytes, int tag, void *mhandle,
				 void **request);
	ncclResult_t (*isend_int)(void *send_comm, void *data, int bytes, int tag, void *mhandle,
				  void **request);
	ncclResult_t (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
			      void **mhandles, void **phandles, void **request);
	ncclResult_t (*irecv_v9)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				 void **mhandles, void **request);
	ncclResult_t (*irecv_int)(void *recv_comm, int n, void **data, int *sizes, int *tags,
				  void **mhandles, void **request);
	ncclResult_t (*test)(void *request, int *done, int *sizes);
};

/**
 * sxt_net_hot() - those that measure in a certain way.
 * @how: which. Return: constant; for SXT_MEASURE_NOT those above.
 */
const struct sxt_net_hot *sxt_net_hot(enum sxt_measuring how);

/**
 * sxt_net_measured() - those that fit this process's telemetry.
 * Thread: any, takes a lock. Return: as sxt_net_hot(); before a successful init not measured.
 */
const struct sxt_net_hot *sxt_net_measured(void);

/*
 * Put them into a table. NCCL copies or calls them after init only, and they change only where no
 * connection is left: later communicators find what stands there already.
 */
#define SXT_NET_MEASURE(table, suffix)                               \
	do {                                                         \
		const struct sxt_net_hot *hot_ = sxt_net_measured(); \
                                                                     \
		if ((table).test != hot_->test) {                    \
			(table).isend = hot_->isend##suffix;         \
			(table).irecv = hot_->irecv##suffix;         \
			(table).test = hot_->test;                   \
		}                                                    \
	} while (0)

#endif
