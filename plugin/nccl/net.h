/*
 * net.h - NCCL's network interface, versions 6 to 12: properties and function tables.
 *
 * Each version is one struct pinned to its layout. v12 carries the comments; an older version
 * says only where it differs. Who calls what on which thread is told at the members.
 */
#ifndef SXT_PLUGIN_NCCL_NET_H
#define SXT_PLUGIN_NCCL_NET_H

#include "plugin/nccl/common.h"

#define NCCL_NET_HANDLE_BYTES        128 /* of the handle that listen fills and connect gets */
#define NCCL_NET_MAX_REQUESTS        32  /* in flight per comm; a grouped receive is one */
#define NCCL_NET_MAX_REQUESTS_V6     8   /* what the v6 header promised */
#define NCCL_NET_MAX_DEVS_PER_NIC    8   /* physical devices in a virtual one */
#define NCCL_NET_MAX_DEVS_PER_NIC_V9 4
#define NCCL_NET_MAX_BYTES           (1ull << 40) /* largest maxP2pBytes and maxCollBytes */
#define NCCL_NET_UNDEFINED           (-1)         /* traffic class, attribute, rail, plane */

/* Kinds of memory, a bit mask in ptrSupport and one bit in regMr's type. */
#define NCCL_PTR_HOST   0x1
#define NCCL_PTR_CUDA   0x2
#define NCCL_PTR_DMABUF 0x4

/*
 * From v9 on, irecv may find this value in *request: the caller finds the end of the data by
 * itself, so that completion may be reported at once and sizes need not be exact.
 */
#define NCCL_NET_OPTIONAL_RECV ((void *)0x1)

enum nccl_net_device_type {
	NCCL_NET_DEVICE_HOST = 0, /* a host plugin reports this, with version 0 */
	NCCL_NET_DEVICE_UNPACK = 1,
	NCCL_NET_DEVICE_GIN_PROXY = 2,
	NCCL_NET_DEVICE_GIN_GDAKI = 3,
	NCCL_NET_DEVICE_GIN_GPI = 4,
};

/* From v7 on, an output of connect and accept; a host plugin leaves it NULL. */
struct nccl_net_device_handle {
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	void *handle;
	size_t size;
	int needsProxyProgress;
};
SXT_ASSERT_OFFSET(struct nccl_net_device_handle, handle, 8);
SXT_ASSERT_OFFSET(struct nccl_net_device_handle, needsProxyProgress, 24);
SXT_ASSERT_SIZE(struct nccl_net_device_handle, 32);

/* From v10 on: settings of the communicator. */
struct nccl_net_comm_config {
	int trafficClass; /* NCCL_NET_UNDEFINED when the user gave none */
};
SXT_ASSERT_SIZE(struct nccl_net_comm_config, 4);

struct nccl_net_comm_attr {
	int32_t maxConcurrentPeers;
	int32_t minConcurrentPeers;
	int32_t maxFlowsPerPeer;
	int32_t minFlowsPerPeer;
};
SXT_ASSERT_SIZE(struct nccl_net_comm_attr, 16);

/* From v11 on: hints for setNetAttr. */
struct nccl_net_attr {
	struct nccl_net_comm_attr sendCommAttr;
	struct nccl_net_comm_attr recvCommAttr;
	uint32_t op; /* bit per collective */
	uint32_t algo;
	uint32_t proto;
};
SXT_ASSERT_OFFSET(struct nccl_net_attr, op, 32);
SXT_ASSERT_SIZE(struct nccl_net_attr, 44);

struct nccl_net_vdev_props_v9 {
	int ndevs;
	int devs[NCCL_NET_MAX_DEVS_PER_NIC_V9];
};
SXT_ASSERT_SIZE(struct nccl_net_vdev_props_v9, 20);

struct nccl_net_vdev_props_v12 {
	int ndevs;
	int devs[NCCL_NET_MAX_DEVS_PER_NIC]; /* makeVDevice: only ndevs of them are set */
};
SXT_ASSERT_SIZE(struct nccl_net_vdev_props_v12, 36);

/* Properties: NCCL does not clear the struct before the call, so every field is set. */

struct nccl_net_props_v6 {
	char *name;
	char *pciPath;
	uint64_t guid;
	int ptrSupport;
	int speed; /* Mbit/s */
	int port;
	float latency; /* us */
	int maxComms;
	int maxRecvs;
};
SXT_ASSERT_OFFSET(struct nccl_net_props_v6, ptrSupport, 24);
SXT_ASSERT_OFFSET(struct nccl_net_props_v6, speed, 28);
SXT_ASSERT_OFFSET(struct nccl_net_props_v6, latency, 36);
SXT_ASSERT_OFFSET(struct nccl_net_props_v6, maxRecvs, 44);
SXT_ASSERT_SIZE(struct nccl_net_props_v6, 48);

struct nccl_net_props_v7 {
	char *name;
	char *pciPath;
	uint64_t guid;
	int ptrSupport;
	int speed;
	int port;
	float latency;
	int maxComms;
	int maxRecvs;
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
};
SXT_ASSERT_OFFSET(struct nccl_net_props_v7, speed, 28);
SXT_ASSERT_OFFSET(struct nccl_net_props_v7, maxRecvs, 44);
SXT_ASSERT_OFFSET(struct nccl_net_props_v7, netDeviceVersion, 52);
SXT_ASSERT_SIZE(struct nccl_net_props_v7, 56);

struct nccl_net_props_v8 {
	char *name;
	char *pciPath;
	uint64_t guid;
	int ptrSupport;
	int regIsGlobal;
	int speed;
	int port;
	float latency;
	int maxComms;
	int maxRecvs;
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
};
SXT_ASSERT_OFFSET(struct nccl_net_props_v8, regIsGlobal, 28);
SXT_ASSERT_OFFSET(struct nccl_net_props_v8, maxRecvs, 48);
SXT_ASSERT_OFFSET(struct nccl_net_props_v8, netDeviceVersion, 56);
SXT_ASSERT_SIZE(struct nccl_net_props_v8, 64);

/* v9 and v10 share one layout. */
struct nccl_net_props_v9 {
	char *name;
	char *pciPath;
	uint64_t guid;
	int ptrSupport;
	int regIsGlobal;
	int forceFlush;
	int speed;
	int port;
	float latency;
	int maxComms;
	int maxRecvs;
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	struct nccl_net_vdev_props_v9 vProps;
	size_t maxP2pBytes;
	size_t maxCollBytes;
};
SXT_ASSERT_OFFSET(struct nccl_net_props_v9, forceFlush, 32);
SXT_ASSERT_OFFSET(struct nccl_net_props_v9, maxRecvs, 52);
SXT_ASSERT_OFFSET(struct nccl_net_props_v9, vProps, 64);
SXT_ASSERT_OFFSET(struct nccl_net_props_v9, maxP2pBytes, 88);
SXT_ASSERT_SIZE(struct nccl_net_props_v9, 104);

struct nccl_net_props_v11 {
	char *name;
	char *pciPath;
	uint64_t guid;
	int ptrSupport;
	int regIsGlobal;
	int forceFlush;
	int speed;
	int port;
	float latency;
	int maxComms;
	int maxRecvs;
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	struct nccl_net_vdev_props_v9 vProps;
	size_t maxP2pBytes;
	size_t maxCollBytes;
	int maxMultiRequestSize;
};
SXT_ASSERT_OFFSET(struct nccl_net_props_v11, vProps, 64);
SXT_ASSERT_OFFSET(struct nccl_net_props_v11, maxCollBytes, 96);
SXT_ASSERT_OFFSET(struct nccl_net_props_v11, maxMultiRequestSize, 104);
SXT_ASSERT_SIZE(struct nccl_net_props_v11, 112);

struct nccl_net_props_v12 {
	char *name;      /* unique; stays valid while the library is loaded, as pciPath does */
	char *pciPath;   /* folder under /sys, or NULL */
	uint64_t guid;   /* devices of one (guid, port) share their bandwidth in NCCL's graph */
	int ptrSupport;  /* mask of NCCL_PTR_ */
	int regIsGlobal; /* a registration serves every comm of the device */
	int forceFlush;  /* 1: iflush after every receive into GPU memory */
	int speed;       /* Mbit/s */
	int port;
	float latency; /* us; NCCL cuts the fraction off */
	int maxComms;
	int maxRecvs; /* members of a grouped receive */
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	struct nccl_net_vdev_props_v12 vProps; /* a physical device: {1, {itself}} */
	size_t maxP2pBytes;
	size_t maxCollBytes;
	int maxMultiRequestSize;
	int16_t railId;
	int16_t planeId;
};
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, ptrSupport, 24);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, regIsGlobal, 28);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, forceFlush, 32);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, speed, 36);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, port, 40);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, latency, 44);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, maxComms, 48);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, maxRecvs, 52);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, netDeviceType, 56);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, netDeviceVersion, 60);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, vProps, 64);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, maxP2pBytes, 104);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, maxCollBytes, 112);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, maxMultiRequestSize, 120);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, railId, 124);
SXT_ASSERT_OFFSET(struct nccl_net_props_v12, planeId, 126);
SXT_ASSERT_SIZE(struct nccl_net_props_v12, 128);

/*
 * Members that are alike in every version that has them. They are macros and not a struct because
 * they stand in the middle of each table.
 *
 * iflush: a NULL request means there is nothing to flush. sizes stays int in every version.
 * test: sizes may be NULL; else written when done, one entry for a send, n for a grouped receive.
 * irecvConsumed: where it is not NULL, a done receive request lives until this call.
 */
#define NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE                                                       \
	ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles, \
			       void **request);                                                 \
	ncclResult_t (*test)(void *request, int *done, int *sizes);                             \
	ncclResult_t (*closeSend)(void *sendComm);                                              \
	ncclResult_t (*closeRecv)(void *recvComm);                                              \
	ncclResult_t (*closeListen)(void *listenComm);
#define NCCL_NET_MEMBERS_DEVICE_MR                                                   \
	ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle); \
	ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);

struct nccl_net_v6 {
	const char *name;
	ncclResult_t (*init)(ncclDebugLogger_t logger);
	ncclResult_t (*devices)(int *ndev);
	ncclResult_t (*getProperties)(int dev, struct nccl_net_props_v6 *props);
	ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
	ncclResult_t (*connect)(int dev, void *handle, void **sendComm);
	ncclResult_t (*accept)(void *listenComm, void **recvComm);
	ncclResult_t (*regMr)(void *comm, void *data, int size, int type, void **mhandle);
	ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
				    int fd, void **mhandle);
	ncclResult_t (*deregMr)(void *comm, void *mhandle);
	ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
			      void **request);
	ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
			      void **mhandles, void **request);
	NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE
};
SXT_ASSERT_OFFSET(struct nccl_net_v6, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v6, closeListen, 128);
SXT_ASSERT_SIZE(struct nccl_net_v6, 136);

/* v7: connect and accept give a device handle; getDeviceMr and irecvConsumed. */
struct nccl_net_v7 {
	const char *name;
	ncclResult_t (*init)(ncclDebugLogger_t logger);
	ncclResult_t (*devices)(int *ndev);
	ncclResult_t (*getProperties)(int dev, struct nccl_net_props_v7 *props);
	ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
	ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
				struct nccl_net_device_handle **sendDevComm);
	ncclResult_t (*accept)(void *listenComm, void **recvComm,
			       struct nccl_net_device_handle **recvDevComm);
	ncclResult_t (*regMr)(void *comm, void *data, int size, int type, void **mhandle);
	ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
				    int fd, void **mhandle);
	ncclResult_t (*deregMr)(void *comm, void *mhandle);
	ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
			      void **request);
	ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
			      void **mhandles, void **request);
	NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE
	NCCL_NET_MEMBERS_DEVICE_MR
};
SXT_ASSERT_OFFSET(struct nccl_net_v7, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v7, getDeviceMr, 136);
SXT_ASSERT_SIZE(struct nccl_net_v7, 152);

/* v8: regMr takes a size_t. */
struct nccl_net_v8 {
	const char *name;
	ncclResult_t (*init)(ncclDebugLogger_t logger);
	ncclResult_t (*devices)(int *ndev);
	ncclResult_t (*getProperties)(int dev, struct nccl_net_props_v8 *props);
	ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
	ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
				struct nccl_net_device_handle **sendDevComm);
	ncclResult_t (*accept)(void *listenComm, void **recvComm,
			       struct nccl_net_device_handle **recvDevComm);
	ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
				    int fd, void **mhandle);
	ncclResult_t (*deregMr)(void *comm, void *mhandle);
	ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
			      void **request);
	ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
			      void **mhandles, void **request);
	NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE
	NCCL_NET_MEMBERS_DEVICE_MR
};
SXT_ASSERT_OFFSET(struct nccl_net_v8, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v8, irecvConsumed, 144);
SXT_ASSERT_SIZE(struct nccl_net_v8, 152);

/* v9: isend and irecv take size_t sizes; makeVDevice; the optional-receive hint. */
struct nccl_net_v9 {
	const char *name;
	ncclResult_t (*init)(ncclDebugLogger_t logger);
	ncclResult_t (*devices)(int *ndev);
	ncclResult_t (*getProperties)(int dev, struct nccl_net_props_v9 *props);
	ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
	ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
				struct nccl_net_device_handle **sendDevComm);
	ncclResult_t (*accept)(void *listenComm, void **recvComm,
			       struct nccl_net_device_handle **recvDevComm);
	ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
				    int fd, void **mhandle);
	ncclResult_t (*deregMr)(void *comm, void *mhandle);
	ncclResult_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
			      void **request);
	ncclResult_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
			      void **mhandles, void **request);
	NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE
	NCCL_NET_MEMBERS_DEVICE_MR
	ncclResult_t (*makeVDevice)(int *d, struct nccl_net_vdev_props_v9 *props);
};
SXT_ASSERT_OFFSET(struct nccl_net_v9, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v9, makeVDevice, 152);
SXT_ASSERT_SIZE(struct nccl_net_v9, 160);

/*
 * v10: profiler callback and handles; connect gets the communicator's settings, the same pointer
 * for every connection of it.
 */
struct nccl_net_v10 {
	const char *name;
	ncclResult_t (*init)(ncclDebugLogger_t logger, ncclProfilerCallback_t profFunction);
	ncclResult_t (*devices)(int *ndev);
	ncclResult_t (*getProperties)(int dev, struct nccl_net_props_v9 *props);
	ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
	ncclResult_t (*connect)(int dev, struct nccl_net_comm_config *config, void *handle,
				void **sendComm, struct nccl_net_device_handle **sendDevComm);
	ncclResult_t (*accept)(void *listenComm, void **recvComm,
			       struct nccl_net_device_handle **recvDevComm);
	ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
				    int fd, void **mhandle);
	ncclResult_t (*deregMr)(void *comm, void *mhandle);
	ncclResult_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
			      void *phandle, void **request);
	ncclResult_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
			      void **mhandles, void **phandles, void **request);
	NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE
	NCCL_NET_MEMBERS_DEVICE_MR
	ncclResult_t (*makeVDevice)(int *d, struct nccl_net_vdev_props_v9 *props);
};
SXT_ASSERT_OFFSET(struct nccl_net_v10, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v10, makeVDevice, 152);
SXT_ASSERT_SIZE(struct nccl_net_v10, 160);

/*
 * v11 and v12 differ in their property structs only: a context per communicator, finalize after
 * the last use of it (the library is closed after the last one), setNetAttr.
 *
 * Service thread: listen, connect, accept (never block; success with a NULL comm means "call
 * again", and connect's handle keeps its bytes between the calls), regMr, regMrDmaBuf, deregMr,
 * close. Progress thread: isend and irecv (success with a NULL request means "not now"), iflush,
 * test. Only regMr and deregMr overlap the data path of one comm. isend's tag is the sender's
 * rank, irecv's tags the ranks of the senders it expects; phandles may be NULL.
 * May be NULL: regMrDmaBuf, getDeviceMr, irecvConsumed, makeVDevice, setNetAttr.
 */
#define NCCL_NET_TABLE_WITH_CONTEXT(props_type, vprops_type)                                   \
	const char *name;                                                                      \
	ncclResult_t (*init)(void **ctx, uint64_t commId, struct nccl_net_comm_config *config, \
			     ncclDebugLogger_t logger, ncclProfilerCallback_t profFunction);   \
	ncclResult_t (*devices)(int *ndev);                                                    \
	ncclResult_t (*getProperties)(int dev, props_type *props);                             \
	ncclResult_t (*listen)(void *ctx, int dev, void *handle, void **listenComm);           \
	ncclResult_t (*connect)(void *ctx, int dev, void *handle, void **sendComm,             \
				struct nccl_net_device_handle **sendDevComm);                  \
	ncclResult_t (*accept)(void *listenComm, void **recvComm,                              \
			       struct nccl_net_device_handle **recvDevComm);                   \
	ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);  \
	ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type,             \
				    uint64_t offset, int fd, void **mhandle);                  \
	ncclResult_t (*deregMr)(void *comm, void *mhandle);                                    \
	ncclResult_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle, \
			      void *phandle, void **request);                                  \
	ncclResult_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,    \
			      void **mhandles, void **phandles, void **request);               \
	NCCL_NET_MEMBERS_FLUSH_TEST_CLOSE                                                      \
	NCCL_NET_MEMBERS_DEVICE_MR                                                             \
	ncclResult_t (*makeVDevice)(int *d, vprops_type *props);                               \
	ncclResult_t (*finalize)(void *ctx);                                                   \
	ncclResult_t (*setNetAttr)(void *ctx, struct nccl_net_attr *netAttr);

struct nccl_net_v11 {
	NCCL_NET_TABLE_WITH_CONTEXT(struct nccl_net_props_v11, struct nccl_net_vdev_props_v9)
};
SXT_ASSERT_OFFSET(struct nccl_net_v11, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v11, finalize, 160);
SXT_ASSERT_SIZE(struct nccl_net_v11, 176);

struct nccl_net_v12 {
	NCCL_NET_TABLE_WITH_CONTEXT(struct nccl_net_props_v12, struct nccl_net_vdev_props_v12)
};
SXT_ASSERT_OFFSET(struct nccl_net_v12, init, 8);
SXT_ASSERT_OFFSET(struct nccl_net_v12, isend, 80);
SXT_ASSERT_OFFSET(struct nccl_net_v12, irecv, 88);
SXT_ASSERT_OFFSET(struct nccl_net_v12, test, 104);
SXT_ASSERT_OFFSET(struct nccl_net_v12, irecvConsumed, 144);
SXT_ASSERT_OFFSET(struct nccl_net_v12, makeVDevice, 152);
SXT_ASSERT_OFFSET(struct nccl_net_v12, finalize, 160);
SXT_ASSERT_OFFSET(struct nccl_net_v12, setNetAttr, 168);
SXT_ASSERT_SIZE(struct nccl_net_v12, 176);

/* The symbols NCCL looks for, newest first. */
extern SXT_EXPORT struct nccl_net_v6 ncclNetPlugin_v6;
extern SXT_EXPORT struct nccl_net_v7 ncclNetPlugin_v7;
extern SXT_EXPORT struct nccl_net_v8 ncclNetPlugin_v8;
extern SXT_EXPORT struct nccl_net_v9 ncclNetPlugin_v9;
extern SXT_EXPORT struct nccl_net_v10 ncclNetPlugin_v10;
extern SXT_EXPORT struct nccl_net_v11 ncclNetPlugin_v11;
extern SXT_EXPORT struct nccl_net_v12 ncclNetPlugin_v12;

#endif
