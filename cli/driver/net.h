/*
 * net.h - any NCCL net plugin, of any interface version from 6 to 12, behind one set of calls.
 *
 * The calls keep NCCL's contract and result codes; what a version does not have is left out or
 * answered as NCCL's own wrapper for it does. Shared by everything that drives a plugin.
 */
#ifndef SXT_CLI_DRIVER_NET_H
#define SXT_CLI_DRIVER_NET_H

#include "plugin/nccl/net.h"

#include <pthread.h>
#include <stdbool.h>

#define SXT_DRV_ABI_MIN 6
#define SXT_DRV_ABI_MAX 12

/* Properties in the newest shape; what an older version lacks has NCCL's default. */
struct sxt_drv_props {
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed_mbps;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	struct nccl_net_vdev_props_v12 members;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request;
	int rail_id;
	int plane_id;
};

/* One message of isend, or one member of irecv's group. */
struct sxt_drv_msg {
	void *data;
	size_t bytes;
	int tag;
	void *mhandle;
	void *phandle; /* of the profiler, v10 and later; NULL: none */
};

/* A piece of memory for regMr. */
struct sxt_drv_mem {
	void *data;
	size_t bytes;
	int type; /* NCCL_PTR_HOST, ... */
};

/*
 * The functions of one table, sorted by their type: of each group of alternatives one is set.
 * Members that may be NULL in NCCL's tables may be NULL here.
 */
struct sxt_drv_calls {
	ncclResult_t (*init_log)(ncclDebugLogger_t logger);
	ncclResult_t (*init_prof)(ncclDebugLogger_t logger, ncclProfilerCallback_t prof);
	ncclResult_t (*init_ctx)(void **ctx, uint64_t id, struct nccl_net_comm_config *config,
				 ncclDebugLogger_t logger, ncclProfilerCallback_t prof);
	ncclResult_t (*devices)(int *ndev);
	ncclResult_t (*listen_dev)(int dev, void *handle, void **comm);
	ncclResult_t (*listen_ctx)(void *ctx, int dev, void *handle, void **comm);
	ncclResult_t (*connect_plain)(int dev, void *handle, void **comm);
	ncclResult_t (*connect_dev)(int dev, void *handle, void **comm,
				    struct nccl_net_device_handle **dev_comm);
	ncclResult_t (*connect_config)(int dev, struct nccl_net_comm_config *config, void *handle,
				       void **comm, struct nccl_net_device_handle **dev_comm);
	ncclResult_t (*connect_ctx)(void *ctx, int dev, void *handle, void **comm,
				    struct nccl_net_device_handle **dev_comm);
	ncclResult_t (*accept_plain)(void *listen_comm, void **comm);
	ncclResult_t (*accept_dev)(void *listen_comm, void **comm,
				   struct nccl_net_device_handle **dev_comm);
	ncclResult_t (*reg_int)(void *comm, void *data, int size, int type, void **mhandle);
	ncclResult_t (*reg_size)(void *comm, void *data, size_t size, int type, void **mhandle);
	ncclResult_t (*dereg)(void *comm, void *mhandle);
	ncclResult_t (*isend_int)(void *comm, void *data, int size, int tag, void *mhandle,
				  void **request);
	ncclResult_t (*isend_size)(void *comm, void *data, size_t size, int tag, void *mhandle,
				   void **request);
	ncclResult_t (*isend_prof)(void *comm, void *data, size_t size, int tag, void *mhandle,
				   void *phandle, void **request);
	ncclResult_t (*irecv_int)(void *comm, int n, void **data, int *sizes, int *tags,
				  void **mhandles, void **request);
	ncclResult_t (*irecv_size)(void *comm, int n, void **data, size_t *sizes, int *tags,
				   void **mhandles, void **request);
	ncclResult_t (*irecv_prof)(void *comm, int n, void **data, size_t *sizes, int *tags,
				   void **mhandles, void **phandles, void **request);
	ncclResult_t (*iflush)(void *comm, int n, void **data, int *sizes, void **mhandles,
			       void **request);
	ncclResult_t (*test)(void *request, int *done, int *sizes);
	ncclResult_t (*close_send)(void *comm);
	ncclResult_t (*close_recv)(void *comm);
	ncclResult_t (*close_listen)(void *comm);
	ncclResult_t (*consumed)(void *comm, int n, void *request);
	ncclResult_t (*finalize)(void *ctx);
	ncclResult_t (*set_attr)(void *ctx, struct nccl_net_attr *attr);
	ncclResult_t (*make_vdev_v9)(int *dev, struct nccl_net_vdev_props_v9 *props);
	ncclResult_t (*make_vdev_v12)(int *dev, struct nccl_net_vdev_props_v12 *props);
};

struct sxt_drv_net {
	int abi;
	unsigned int abis; /* bit n: the library has a table of version n */
	const char *name;  /* the plugin's own */
	char file[4096];   /* as it was opened */
	const void *table;
	struct sxt_drv_calls calls;
	bool initialised;          /* v6 to v10 take init once per load */
	pthread_mutex_t bind_lock; /* of the next */
	bool is_bound_anew;        /* the data path's calls are those that init left in the table */
	struct nccl_net_comm_config config;
	ncclProfilerCallback_t profiler; /* for init; NULL: one that makes no events */
	void *library;
};

/**
 * sxt_drv_net_open() - load a plugin and pick a table of it.
 * @name: a file, or a name as NCCL_NET_PLUGIN takes it (foo is also tried as libnccl-net-foo.so).
 * @abi: 6 to 12, or 0 for the newest it has.
 * @out: set on success only; give back with sxt_drv_net_close().
 * @why, @why_bytes: on failure, what is missing and what there is instead.
 * Path: slow, runs the library's constructors.
 * Return: 0, -ENOENT if it cannot be opened, -ENOSYS if it has no such table, -EINVAL if the table
 * lacks a member NCCL calls unchecked, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_drv_net_open(const char *name, int abi, struct sxt_drv_net **out, char *why,
				    size_t why_bytes);

/**
 * sxt_drv_net_load() - as sxt_drv_net_open(), whatever members its table lacks.
 * @name, @abi, @out, @why, @why_bytes: the same. Return: the same, but never -EINVAL.
 */
SXT_MUST_CHECK int sxt_drv_net_load(const char *name, int abi, struct sxt_drv_net **out, char *why,
				    size_t why_bytes);

/**
 * sxt_drv_net_missing() - the first member that NCCL calls unchecked and that is NULL.
 * @net: loaded. Return: its name in NCCL's table, NULL if all are there.
 */
const char *sxt_drv_net_missing(const struct sxt_drv_net *net);

/**
 * sxt_drv_net_bind_anew() - take the data path's calls from the table once more, since NCCL reads
 * them behind init only. @net: init succeeded. Thread: any, takes a lock.
 */
void sxt_drv_net_bind_anew(struct sxt_drv_net *net);

/**
 * sxt_drv_net_close() - unload; every comm is closed and every context finalized before.
 * @net: NULL is fine.
 */
void sxt_drv_net_close(struct sxt_drv_net *net);

/**
 * sxt_drv_net_init() - the plugin's init, for one communicator.
 * @commid: the same on all ranks. @ctx_out: for finalize, listen and connect; NULL before v11.
 * Versions before v11 are initialised once per load, as NCCL does. Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_init(struct sxt_drv_net *net, uint64_t commid, void **ctx_out);

/**
 * sxt_drv_net_finalize() - the plugin's finalize; nothing before v11.
 * @ctx: from sxt_drv_net_init(). Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_finalize(struct sxt_drv_net *net, void *ctx);

/**
 * sxt_drv_net_props() - getProperties into the newest shape.
 * The plugin's struct is filled with 0x5a before, because NCCL does not clear it either.
 * @out: written on success only. Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_props(struct sxt_drv_net *net, int dev, struct sxt_drv_props *out);

/**
 * sxt_drv_net_merge_max() - devices that makeVDevice of this table can merge.
 * Return: 0 without such a call (before v9, or NULL), else the room in its struct: 4, from v12
 * on 8.
 */
int sxt_drv_net_merge_max(const struct sxt_drv_net *net);

/**
 * sxt_drv_net_make_vdevice() - merge devices into a new one.
 * @devs, @n: 1 to sxt_drv_net_merge_max(); what is behind them in the plugin's struct is 0x5a, as
 * NCCL does not clear it. @dev_out: as the plugin set it, -1 if it did not.
 * Return: the plugin's result; ncclInvalidUsage if the table cannot say it.
 */
ncclResult_t sxt_drv_net_make_vdevice(struct sxt_drv_net *net, const int *devs, int n,
				      int *dev_out);

/**
 * sxt_drv_net_listen() - open for one connection.
 * @handle: NCCL_NET_HANDLE_BYTES, cleared here. @comm: the listen comm. Return: the plugin's.
 */
ncclResult_t sxt_drv_net_listen(struct sxt_drv_net *net, void *ctx, int dev, void *handle,
				void **comm);

/**
 * sxt_drv_net_connect() - one poll of connect.
 * @handle: the peer's, the same memory at every poll. @comm: NULL afterwards means "call again".
 * Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_connect(struct sxt_drv_net *net, void *ctx, int dev, void *handle,
				 void **comm);

/**
 * sxt_drv_net_accept() - one poll of accept.
 * @comm: NULL afterwards means "call again". Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_accept(struct sxt_drv_net *net, void *listen_comm, void **comm);

/**
 * sxt_drv_net_reg() - regMr. Sizes over 2 GiB are refused before v8, as NCCL does.
 * Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_reg(struct sxt_drv_net *net, void *comm, const struct sxt_drv_mem *mem,
			     void **mhandle);

/**
 * sxt_drv_net_isend() - hand over one message.
 * @request: NULL afterwards means "not now". Path: hot. Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_isend(struct sxt_drv_net *net, void *comm, const struct sxt_drv_msg *msg,
			       void **request);

/**
 * sxt_drv_net_irecv() - hand over a group of buffers.
 * @msgs, @n: bytes are upper bounds, tags the senders' ranks.
 * @request: holds NCCL_NET_OPTIONAL_RECV or NULL on entry; the hint reaches v9 and later only.
 * NULL afterwards means "not now". Path: hot. Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_irecv(struct sxt_drv_net *net, void *comm, int n,
			       const struct sxt_drv_msg *msgs, void **request);

/**
 * sxt_drv_net_irecv_bare() - irecv as NCCL's bootstrap calls it: one buffer, phandles NULL.
 * @request: NULL afterwards means "not now". Return: the plugin's result.
 */
ncclResult_t sxt_drv_net_irecv_bare(struct sxt_drv_net *net, void *comm,
				    const struct sxt_drv_msg *msg, void **request);

/**
 * sxt_drv_result_name() - the symbol of a result code, "ncclSystemError".
 * Return: a static string; "ncclResult_t out of range" for a number that is none.
 */
const char *sxt_drv_result_name(ncclResult_t result);

/**
 * sxt_drv_log_set() - which of the plugin's lines go to standard error.
 * @level: "NONE", "VERSION", "WARN", "INFO", "ABORT" or "TRACE", without case.
 * @rank: put before each line. Thread: before the plugin is loaded.
 * Return: 0, or -EINVAL for another word.
 */
SXT_MUST_CHECK int sxt_drv_log_set(const char *level, int rank);

/**
 * sxt_drv_log_last_warn() - the last WARN the plugin logged, as ncclGetLastError() would have it.
 * @out, @out_bytes: its text, empty if there was none. Thread: any.
 */
void sxt_drv_log_last_warn(char *out, size_t out_bytes);

/**
 * sxt_drv_logger() - what plugins get as NCCL's logger. Thread: any.
 */
void sxt_drv_logger(int level, unsigned long flags, const char *file, int line, const char *fmt,
		    ...) SXT_PRINTF(5, 6);

#endif
