/*
 * fake.h - a small honest net plugin over Unix sockets, of all seven versions, to test what drives
 * plugins.
 *
 * Receiver-driven: irecv sends a group's tags and sizes, isend waits for its tag in the oldest
 * incomplete group. One comm is used by one thread at a time; everything else by any, at once.
 */
#ifndef SXT_TESTS_FAKE_NET_FAKE_H
#define SXT_TESTS_FAKE_NET_FAKE_H

#include "core/list.h"
#include "plugin/nccl/net.h"
#include "tests/fake/net/broken.h"

#include <stdbool.h>

#define SXT_FAKE_MEMBERS_MAX 8
#define SXT_FAKE_GROUPS_MAX  32 /* open ones per connection */
#define SXT_FAKE_SENDS_MAX   (SXT_FAKE_GROUPS_MAX * SXT_FAKE_MEMBERS_MAX)
#define SXT_FAKE_DEVICES     2 /* physical ones */

/* What init gives. The first member is a writable int: NCCL's RMA transport takes it for one. */
struct sxt_fake_ctx {
	int traffic_class;
	uint64_t comm_id;
	unsigned int attrs_cnt; /* calls of setNetAttr */
	struct sxt_list node;   /* in the list of all contexts */
	struct sxt_list objects;
};

/* Whatever finalize, or unloading, has to free where nobody else did. */
struct sxt_fake_object {
	struct sxt_list node; /* in sxt_fake_ctx.objects */
	struct sxt_fake_ctx *ctx;
	void (*destroy)(struct sxt_fake_object *object);
};

struct sxt_fake_mr {
	struct sxt_fake_object object;
	const char *data;
	size_t bytes;
};

/* One clear-to-send, receiver to sender. */
struct sxt_fake_cts {
	uint32_t n;
	int32_t tags[SXT_FAKE_MEMBERS_MAX];
	uint64_t room[SXT_FAKE_MEMBERS_MAX];
};

/* Before each message, sender to receiver. */
struct sxt_fake_head {
	uint64_t bytes;
	uint32_t member;
	uint32_t spoiled; /* a broken variant damages it */
};

struct sxt_fake_comm;

struct sxt_fake_request {
	struct sxt_fake_comm *comm;
	bool used;
	bool done;
	/* A send. */
	struct sxt_fake_head head;
	const char *data;
	size_t sent; /* of head and data together */
	/* A receive. */
	struct sxt_fake_cts cts;
	size_t cts_sent;
	bool optional;
	char *bufs[SXT_FAKE_MEMBERS_MAX];
	int sizes[SXT_FAKE_MEMBERS_MAX];
	uint32_t arrived_cnt;
};

struct sxt_fake_group {
	struct sxt_fake_cts cts;
	bool taken[SXT_FAKE_MEMBERS_MAX];
	uint32_t taken_cnt;
};

struct sxt_fake_comm {
	struct sxt_fake_object object;
	int fd;
	bool sender;
	bool consumes; /* the table has irecvConsumed: a receive request lives until then */
	bool broken;
	/* Sends and receives in order; indices only grow. */
	struct sxt_fake_request requests[SXT_FAKE_SENDS_MAX];
	uint64_t posted;
	uint64_t finished;
	uint64_t cts_written; /* receiver: requests whose clear-to-send is out */
	/* Sender. */
	struct sxt_fake_group groups[SXT_FAKE_GROUPS_MAX];
	uint64_t groups_in;
	uint64_t groups_done;
	struct sxt_fake_cts cts_in;
	size_t cts_got;
	/* Receiver. */
	struct sxt_fake_head head;
	size_t head_got;
	size_t data_got;
	struct sxt_broken_notes notes;
};

/* One isend, whatever its version. */
struct sxt_fake_send {
	void *data;
	size_t bytes;
	int tag;
	void *mhandle;
};

/* One irecv, whatever its version. */
struct sxt_fake_recv {
	int n;
	void **data;
	size_t sizes[SXT_FAKE_MEMBERS_MAX];
	const int *tags;
	void **mhandles;
	bool optional;
};

/* Device properties, whatever the version; the rest is alike for all devices. */
struct sxt_fake_device {
	char *name;
	uint64_t guid;
	struct nccl_net_vdev_props_v12 members;
};

#define SXT_FAKE_LOG(level, ...) \
	sxt_fake_logger()(level, NCCL_SUBSYS_ALL, __FILE__, __LINE__, __VA_ARGS__)
#define SXT_FAKE_WARN(...) SXT_FAKE_LOG(NCCL_LOG_WARN, __VA_ARGS__)

/**
 * sxt_fake_logger() - the logger of the last init.
 * Thread: any, after init. Return: never NULL then.
 */
ncclDebugLogger_t sxt_fake_logger(void);

/**
 * sxt_fake_init() - init of a version without contexts.
 * @abi: the table it stands in. @profiler: may be NULL. Return: the plugin's result.
 */
ncclResult_t sxt_fake_init(int abi, ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);

/**
 * sxt_fake_init_ctx() - a context, after sxt_fake_init().
 * @out: set on success; sxt_fake_finalize() frees it and all that was made in it.
 * Return: the plugin's result.
 */
ncclResult_t sxt_fake_init_ctx(uint64_t comm_id, const struct nccl_net_comm_config *config,
			       void **out);

/**
 * sxt_fake_finalize() - frees a context and whatever was left open in it.
 * @ctx: from sxt_fake_init_ctx(). Return: the plugin's result.
 */
ncclResult_t sxt_fake_finalize(void *ctx);

/**
 * sxt_fake_profiler() - the profiler callback of the last init.
 * Thread: any. Return: NULL where there is none.
 */
ncclProfilerCallback_t sxt_fake_profiler(void);

/**
 * sxt_fake_abi() - the version of the last init. Thread: any. Return: 6 to 12.
 */
int sxt_fake_abi(void);

/**
 * sxt_fake_object_add() - enter an object that nothing else frees if its owner forgets it.
 * @object: destroy is set. @ctx: NULL for the versions without contexts. Thread: any.
 */
void sxt_fake_object_add(struct sxt_fake_object *object, struct sxt_fake_ctx *ctx);

/**
 * sxt_fake_object_free() - remove an object and destroy it.
 * @object: as it was added. Thread: any.
 */
void sxt_fake_object_free(struct sxt_fake_object *object);

/**
 * sxt_fake_devices() - devices of every version. Return: the plugin's result.
 */
ncclResult_t sxt_fake_devices(int *ndev);

/**
 * sxt_fake_device() - what getProperties says of one device.
 * @out: set on success only; the name stays valid. Return: the plugin's result.
 */
ncclResult_t sxt_fake_device(int dev, struct sxt_fake_device *out);

/**
 * sxt_fake_make_device() - makeVDevice: several physical devices as one.
 * @out: its index, set on success only. @max: members that the version allows.
 * Return: the plugin's result.
 */
ncclResult_t sxt_fake_make_device(int *out, int ndevs, const int *devs, int max);

/**
 * sxt_fake_listen() - listen of every version.
 * @ctx: NULL before v11. @out: set on success only. Return: the plugin's result.
 */
ncclResult_t sxt_fake_listen(struct sxt_fake_ctx *ctx, int dev, void *handle, void **out);

/**
 * sxt_fake_connect() - one poll of connect; the first one only begins, so that every connection
 * is polled. Its state is kept in the end of the handle.
 * @out: NULL for "call again". Return: the plugin's result.
 */
ncclResult_t sxt_fake_connect(struct sxt_fake_ctx *ctx, int dev, void *handle, void **out);

/**
 * sxt_fake_accept() - one poll of accept. @out: NULL for "call again". Return: the plugin's result.
 */
ncclResult_t sxt_fake_accept(void *listen_comm, void **out);

/**
 * sxt_fake_close_listen() - closeListen. Return: the plugin's result.
 */
ncclResult_t sxt_fake_close_listen(void *listen_comm);

/**
 * sxt_fake_close() - closeSend and closeRecv; requests may be in flight. Return: the plugin's
 * result.
 */
ncclResult_t sxt_fake_close(void *comm);

/**
 * sxt_fake_reg() - regMr. @out: set on success only. Thread: any, also during isend and irecv on
 * the comm. Return: the plugin's result.
 */
ncclResult_t sxt_fake_reg(void *comm, void *data, size_t bytes, int type, void **out);

/**
 * sxt_fake_dereg() - deregMr. Thread: as sxt_fake_reg(). Return: the plugin's result.
 */
ncclResult_t sxt_fake_dereg(void *comm, void *mhandle);

/**
 * sxt_fake_isend() - isend of every version. @request: NULL for "not now". Return: the plugin's
 * result.
 */
ncclResult_t sxt_fake_isend(struct sxt_fake_comm *comm, const struct sxt_fake_send *send,
			    void **request);

/**
 * sxt_fake_irecv() - irecv of every version. @request: NULL for "not now". Return: the plugin's
 * result.
 */
ncclResult_t sxt_fake_irecv(struct sxt_fake_comm *comm, const struct sxt_fake_recv *recv,
			    void **request);

/**
 * sxt_fake_test() - test of every version. Return: the plugin's result.
 */
ncclResult_t sxt_fake_test(void *request, int *done, int *sizes);

/**
 * sxt_fake_consumed() - irecvConsumed. Return: the plugin's result.
 */
ncclResult_t sxt_fake_consumed(void *comm, int n, void *request);

/**
 * sxt_fake_iflush() - iflush: socket reads need none. Return: the plugin's result.
 */
ncclResult_t sxt_fake_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
			     void **request);

/**
 * sxt_fake_fault() - is this the moment of SXT_FAKE_FAULT=WHAT[:RANK[:NTH]]?
 * @what: corrupt, error, die, block, stall, short, init, nodevice or connect.
 * @rank: the tag of the isend. Thread: any. Return: true to misbehave so.
 */
bool sxt_fake_fault(const char *what, int rank);

/**
 * sxt_fake_fault_isend() - count an isend and misbehave in it, as SXT_FAKE_FAULT says.
 * @send: its data or size may be changed. Return: ncclSuccess, or what isend shall return.
 */
ncclResult_t sxt_fake_fault_isend(struct sxt_fake_send *send);

#endif
