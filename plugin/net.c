/*
 * net.c - process state, communicators, devices, connections: the slow half of the network
 * plugin. NCCL's init and service threads.
 */
#include "plugin/net.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/ib.h"
#include "plugin/logger.h"
#include "plugin/result.h"
#include "plugin/ruleset.h"
#include "plugin/tuner.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What NCCL gets as ctx. tclass stays first: NCCL's RMA transport takes ctx for a pointer to it. */
struct net_ctx {
	int tclass;
	struct sxt_ib *ib;
	struct sxt_context *context;
};
SXT_ASSERT_OFFSET(struct net_ctx, tclass, 0);

_Static_assert(SXT_NIC_DEVS_MAX == NCCL_NET_MAX_DEVS_PER_NIC, "vProps hold all parts of a NIC");

/*
 * devices() and getProperties() name no communicator, and v6 to v10 never do: they mean the
 * transport that the last init opened. users counts communicators, plus one for v6 to v10, which
 * have no finalize. All of it is pid's: a forked child finds it empty.
 */
static struct {
	pthread_mutex_t lock;
	_Atomic pid_t pid;
	struct sxt_ib *ib;
	int users_cnt;
	bool legacy_user;
} net_process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The caller holds the lock. */
static void process_claim(void)
{
	pid_t pid = getpid();

	if (atomic_load_explicit(&net_process.pid, memory_order_relaxed) == pid)
		return;
	net_process.ib = NULL;
	net_process.users_cnt = 0;
	net_process.legacy_user = false;
	/* Relaxed: it is compared with the reader's own number and stands for nothing else. */
	atomic_store_explicit(&net_process.pid, pid, memory_order_relaxed);
}

/* Takes one use of the transport. */
static int process_enter(int abi, struct sxt_ib **out)
{
	const struct sxt_ruleset *rules;
	bool legacy = abi <= 10;
	struct sxt_ib *ib;
	int rc = 0;

	pthread_mutex_lock(&net_process.lock);
	process_claim();
	if (legacy && net_process.legacy_user) {
		*out = net_process.ib;
		goto unlock;
	}
	rc = sxt_ib_get(&ib);
	if (rc != 0)
		goto unlock;
	net_process.ib = ib;
	net_process.users_cnt++;
	net_process.legacy_user = net_process.legacy_user || legacy;
	*out = ib;
unlock:
	if (rc == 0) {
		sxt_ib_note_abi(*out, abi);
		sxt_ib_note_tuner(*out, sxt_tuner_of);
	}
	pthread_mutex_unlock(&net_process.lock);
	/* Ranks may connect before their tuners begin. Without memory now, these try again. */
	if (rc == 0)
		sxt_ignore(sxt_ruleset_get(&rules));
	return rc;
}

const struct sxt_net_hot *sxt_net_measured(void)
{
	enum sxt_measuring how = SXT_MEASURE_NOT;

	pthread_mutex_lock(&net_process.lock);
	if (net_process.ib != NULL)
		how = sxt_ib_measuring(net_process.ib);
	pthread_mutex_unlock(&net_process.lock);
	return sxt_net_hot(how);
}

static void process_leave(struct sxt_ib *ib)
{
	pthread_mutex_lock(&net_process.lock);
	if (ib == net_process.ib && --net_process.users_cnt == 0)
		net_process.ib = NULL;
	sxt_ib_put(ib);
	pthread_mutex_unlock(&net_process.lock);
}

struct sxt_ib *sxt_net_hold(void)
{
	struct sxt_ib *ib = NULL;

	pthread_mutex_lock(&net_process.lock);
	process_claim();
	if (net_process.ib != NULL && sxt_ib_get(&ib) == 0)
		net_process.users_cnt++;
	pthread_mutex_unlock(&net_process.lock);
	return ib;
}

void sxt_net_release(struct sxt_ib *ib)
{
	if (ib != NULL)
		process_leave(ib);
}

static struct sxt_ib *process_ib(void)
{
	struct sxt_ib *ib;

	pthread_mutex_lock(&net_process.lock);
	ib = net_process.ib;
	pthread_mutex_unlock(&net_process.lock);
	return ib;
}

/*
 * v6 to v10 are unloaded without a word: whatever still runs then must not outlive the process.
 * The lock is held meanwhile, since another thread may be in its last finalize. A child that was
 * forked has nothing to stop, and whoever held the lock at the fork does not exist in it.
 */
__attribute__((destructor)) static void process_exit(void)
{
	if (atomic_load_explicit(&net_process.pid, memory_order_relaxed) != getpid())
		return;
	pthread_mutex_lock(&net_process.lock);
	if (net_process.ib != NULL)
		sxt_ib_stop(net_process.ib);
	pthread_mutex_unlock(&net_process.lock);
}

/* What init has against its input are the user's settings (SEXTANT_STRICT). */
static ncclResult_t init_result(int rc)
{
	return rc == -EINVAL ? ncclInvalidUsage : sxt_result(rc);
}

ncclResult_t sxt_net_init(int abi, ncclDebugLogger_t logger)
{
	struct sxt_ib *ib;

	sxt_logger_set(logger);
	return init_result(process_enter(abi, &ib));
}

ncclResult_t sxt_net_init_ctx(int abi, uint64_t comm_id, ncclDebugLogger_t logger,
			      const struct nccl_net_comm_config *config, void **ctx)
{
	struct net_ctx *made;
	int rc;

	sxt_logger_set(logger);
	made = calloc(1, sizeof(*made));
	if (made == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "init: %s", sxt_strerror(-ENOMEM));
		return sxt_result(-ENOMEM);
	}
	made->tclass = config != NULL ? config->trafficClass : SXT_TCLASS_DEFAULT;
	rc = process_enter(abi, &made->ib);
	if (rc != 0)
		goto fail;
	rc = sxt_context_create(made->ib, made->tclass, &made->context);
	if (rc != 0)
		goto fail;
	sxt_context_note_comm(made->context, comm_id);
	*ctx = made;
	return ncclSuccess;
fail:
	if (made->ib != NULL)
		process_leave(made->ib);
	free(made);
	return init_result(rc);
}

ncclResult_t sxt_net_finalize(void *ctx)
{
	struct net_ctx *made = ctx;

	if (made == NULL)
		return ncclSuccess;
	sxt_context_destroy(made->context);
	process_leave(made->ib);
	free(made);
	return ncclSuccess;
}

ncclResult_t sxt_net_devices(int *ndev)
{
	struct sxt_ib *ib = process_ib();

	if (ib == NULL)
		return sxt_result(-ENODEV);
	*ndev = sxt_ib_nics_cnt(ib);
	return ncclSuccess;
}

ncclResult_t sxt_net_properties(int dev, struct nccl_net_props_v12 *props)
{
	struct sxt_ib *ib = process_ib();
	struct sxt_nic_props nic;
	int rc = ib != NULL ? sxt_ib_nic_props(ib, dev, &nic) : -ENODEV;

	if (rc != 0)
		return sxt_result(rc);
	*props = (struct nccl_net_props_v12){
		.name = (char *)nic.name,
		.pciPath = (char *)nic.pci_path,
		.guid = nic.guid,
		.ptrSupport = NCCL_PTR_HOST,
		.regIsGlobal = 1,
		.forceFlush = 0,
		.speed = (int)nic.speed_mbps,
		.port = nic.port,
		.latency = 0,
		.maxComms = nic.max_conns,
		.maxRecvs = SXT_RECVS_MAX,
		.netDeviceType = NCCL_NET_DEVICE_HOST,
		.netDeviceVersion = 0,
		.vProps = {.ndevs = nic.devs_cnt},
		.maxP2pBytes = nic.max_message_bytes,
		.maxCollBytes = nic.max_message_bytes,
		.maxMultiRequestSize = 1,
		.railId = (int16_t)(nic.rail >= 0 ? nic.rail : NCCL_NET_UNDEFINED),
		.planeId = (int16_t)(nic.plane >= 0 ? nic.plane : NCCL_NET_UNDEFINED),
	};
	memcpy(props->vProps.devs, nic.devs, sizeof(props->vProps.devs));
	return ncclSuccess;
}

static ncclResult_t make_vdevice(int *dev, const int *devs, int cnt, int most)
{
	struct sxt_ib *ib = process_ib();
	int made;
	int rc = ib != NULL ? sxt_ib_merge(ib, devs, cnt, most, &made) : -ENODEV;

	if (rc == 0)
		*dev = made;
	return sxt_result(rc);
}

ncclResult_t sxt_net_make_vdevice_v9(int *dev, struct nccl_net_vdev_props_v9 *parts)
{
	return make_vdevice(dev, parts->devs, parts->ndevs, NCCL_NET_MAX_DEVS_PER_NIC_V9);
}

ncclResult_t sxt_net_make_vdevice(int *dev, struct nccl_net_vdev_props_v12 *parts)
{
	return make_vdevice(dev, parts->devs, parts->ndevs, NCCL_NET_MAX_DEVS_PER_NIC);
}

static ncclResult_t net_listen(struct sxt_ib *ib, struct sxt_context *context, int dev,
			       void *handle, void **listen_comm)
{
	struct sxt_listener *listener;
	int rc = ib != NULL ? sxt_listen(ib, context, dev, handle, &listener) : -ENODEV;

	if (rc == 0)
		*listen_comm = listener;
	return sxt_result(rc);
}

ncclResult_t sxt_net_listen(int dev, void *handle, void **listen_comm)
{
	return net_listen(process_ib(), NULL, dev, handle, listen_comm);
}

ncclResult_t sxt_net_listen_ctx(void *ctx, int dev, void *handle, void **listen_comm)
{
	struct net_ctx *made = ctx;

	return net_listen(made->ib, made->context, dev, handle, listen_comm);
}

/* "Call again" is success with a NULL comm. */
static ncclResult_t polled(int rc, struct sxt_conn *conn, void **comm)
{
	if (rc == 0)
		*comm = conn;
	else if (rc == -EAGAIN)
		*comm = NULL;
	return rc == -EAGAIN ? ncclSuccess : sxt_result(rc);
}

static ncclResult_t legacy_connect(int dev, int tclass, void *handle, void **send_comm)
{
	struct sxt_ib *ib = process_ib();
	struct sxt_conn *conn = NULL;
	int rc = ib != NULL ? sxt_connect(ib, NULL, dev, tclass, handle, &conn) : -ENODEV;

	return polled(rc, conn, send_comm);
}

ncclResult_t sxt_net_connect_v6(int dev, void *handle, void **send_comm)
{
	return legacy_connect(dev, SXT_TCLASS_DEFAULT, handle, send_comm);
}

ncclResult_t sxt_net_connect_v7(int dev, void *handle, void **send_comm,
				struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return legacy_connect(dev, SXT_TCLASS_DEFAULT, handle, send_comm);
}

ncclResult_t sxt_net_connect_v10(int dev, struct nccl_net_comm_config *config, void *handle,
				 void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return legacy_connect(dev, config != NULL ? config->trafficClass : SXT_TCLASS_DEFAULT,
			      handle, send_comm);
}

ncclResult_t sxt_net_connect_ctx(void *ctx, int dev, void *handle, void **send_comm,
				 struct nccl_net_device_handle **dev_comm)
{
	struct net_ctx *made = ctx;
	struct sxt_conn *conn = NULL;
	int rc = sxt_connect(made->ib, made->context, dev, made->tclass, handle, &conn);

	(void)dev_comm;
	return polled(rc, conn, send_comm);
}

ncclResult_t sxt_net_accept_v6(void *listen_comm, void **recv_comm)
{
	struct sxt_conn *conn = NULL;
	int rc = sxt_accept(listen_comm, &conn);

	return polled(rc, conn, recv_comm);
}

ncclResult_t sxt_net_accept(void *listen_comm, void **recv_comm,
			    struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return sxt_net_accept_v6(listen_comm, recv_comm);
}

ncclResult_t sxt_net_close_conn(void *comm)
{
	sxt_conn_close(comm);
	return ncclSuccess;
}

ncclResult_t sxt_net_close_listen(void *listen_comm)
{
	sxt_listener_close(listen_comm);
	return ncclSuccess;
}

static ncclResult_t reg_mr(void *comm, const struct sxt_mr_spec *spec, int type, void **mhandle)
{
	struct sxt_mr *mr;
	int rc;

	if (type != NCCL_PTR_HOST) {
		SXT_LOG(SXT_LOG_WARN,
			"registering %p (%llu bytes) as memory type %d: only host memory (%d) is "
			"supported, as getProperties said",
			spec->addr, (unsigned long long)spec->bytes, type, NCCL_PTR_HOST);
		return sxt_result(-EOPNOTSUPP);
	}
	rc = sxt_mr_get(comm, spec, &mr);
	if (rc == 0)
		*mhandle = mr;
	return sxt_result(rc);
}

ncclResult_t sxt_net_reg_mr(void *comm, void *data, size_t bytes, int type, void **mhandle)
{
	const struct sxt_mr_spec spec = {.addr = data, .bytes = bytes, .dmabuf_fd = -1};

	return reg_mr(comm, &spec, type, mhandle);
}

ncclResult_t sxt_net_reg_mr_int(void *comm, void *data, int bytes, int type, void **mhandle)
{
	if (bytes < 0) {
		SXT_LOG(SXT_LOG_WARN, "registering %p: size %d is negative", data, bytes);
		return sxt_result(-EINVAL);
	}
	return sxt_net_reg_mr(comm, data, (size_t)bytes, type, mhandle);
}

ncclResult_t sxt_net_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				   int fd, void **mhandle)
{
	const struct sxt_mr_spec spec = {.addr = data,
					 .bytes = bytes,
					 .dmabuf_fd = fd,
					 .dmabuf_offset = offset};

	return reg_mr(comm, &spec, type, mhandle);
}

ncclResult_t sxt_net_dereg_mr(void *comm, void *mhandle)
{
	sxt_mr_put(comm, mhandle);
	return ncclSuccess;
}
