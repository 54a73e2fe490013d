/*
 * test_net.c - the seven tables over a scripted transport: structs are translated whole, "not
 * now" is a NULL with success, errors come out as NCCL's codes, nothing is passed on unchecked.
 */
#include "ib/ib.h"
#include "plugin/nccl/net.h"
#include "plugin/tuner.h"
#include "tests/fake/logger.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The scripted transport: what the next call answers, what the last call was given. */
static struct {
	int rc;
	int gets_cnt;
	int puts_cnt;
	int contexts_cnt;
	struct sxt_context *context;
	int tclass;
	uint64_t comm_id;
	uint64_t bytes[SXT_RECVS_MAX];
	int cnt;
	bool optional;
	int closed_cnt;
	enum sxt_measuring measuring;
	int measured_cnt;
	int not_now_cnt;
	int tested_measured; /* tests that were to be measured */
	uint32_t looks_cnt;  /* which of its answers sxt_send_look() gives next */
	int merged[SXT_NIC_DEVS_MAX];
	int most;
	int abi;
	sxt_tuner_fn tuner;
	bool forks; /* while the transport is being opened */
	pid_t child;
} fake;

static char an_object[8]; /* stands for whatever the transport hands out */

/* exit() as a script's forked helper does it; the alarm ends it where it would hang. */
static pid_t fork_and_exit(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(10);
		exit(0);
	}
	return pid;
}

int sxt_ib_get(struct sxt_ib **out)
{
	if (fake.rc != 0)
		return fake.rc;
	if (fake.forks)
		fake.child = fork_and_exit();
	fake.gets_cnt++;
	*out = (struct sxt_ib *)an_object;
	return 0;
}

enum sxt_measuring sxt_ib_measuring(const struct sxt_ib *ib)
{
	(void)ib;
	return fake.measuring;
}

void sxt_measure_sent(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
		      enum sxt_measuring how)
{
	assert_ptr_equal(conn, an_object);
	assert_ptr_equal(request, an_object);
	assert_int_equal(tag, 0);
	assert_int_equal(how, fake.measuring);
	fake.measured_cnt++;
}

void sxt_measure_not_now(struct sxt_conn *conn, enum sxt_measuring how)
{
	assert_ptr_equal(conn, an_object);
	assert_int_equal(how, fake.measuring);
	fake.not_now_cnt++;
}

void sxt_measure_posted(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
			enum sxt_measuring how)
{
	assert_ptr_equal(conn, an_object);
	assert_ptr_equal(request, an_object);
	assert_int_equal(tag, 0);
	assert_int_equal(how, fake.measuring);
	fake.measured_cnt++;
}

struct sxt_tele *sxt_ib_tele(const struct sxt_ib *ib)
{
	assert_ptr_equal(ib, an_object);
	return NULL;
}

void sxt_ib_note_abi(struct sxt_ib *ib, int abi)
{
	assert_ptr_equal(ib, an_object);
	fake.abi = abi;
}

void sxt_ib_note_tuner(struct sxt_ib *ib, sxt_tuner_fn tuner)
{
	assert_ptr_equal(ib, an_object);
	fake.tuner = tuner;
}

void sxt_ib_put(struct sxt_ib *ib)
{
	assert_ptr_equal(ib, an_object);
	fake.puts_cnt++;
}

void sxt_ib_stop(struct sxt_ib *ib)
{
	(void)ib;
}

int sxt_ib_nics_cnt(const struct sxt_ib *ib)
{
	(void)ib;
	return 4;
}

/* NIC 3 is merged of eight, the others are physical. */
int sxt_ib_nic_props(struct sxt_ib *ib, int dev, struct sxt_nic_props *out)
{
	(void)ib;
	if (dev < 0 || dev >= 4)
		return -EINVAL;
	*out = (struct sxt_nic_props){
		.name = "sxt_mlx5_0",
		.pci_path = "/sys/devices/pci0000:00/0000:00:01.0",
		.guid = 0x1122334455667788ull,
		.speed_mbps = 400000,
		.port = 2,
		.rail = dev == 2 ? 5 : -1,
		.plane = dev == 2 ? 1 : -1,
		.devs_cnt = dev == 3 ? 8 : 1,
		.devs = {dev == 3 ? 10 : dev, 11, 12, 13, 14, 15, 16, 17},
		.max_conns = 65536,
		.max_message_bytes = 1ull << 36,
	};
	return 0;
}

int sxt_ib_merge(struct sxt_ib *ib, const int *devs, int cnt, int most, int *dev_out)
{
	assert_ptr_equal(ib, an_object);
	fake.cnt = cnt;
	fake.most = most;
	assert_in_range(cnt, 1, most);
	memcpy(fake.merged, devs, (size_t)cnt * sizeof(*devs));
	if (fake.rc != 0)
		return fake.rc;
	*dev_out = 42;
	return 0;
}

int sxt_context_create(struct sxt_ib *ib, int tclass, struct sxt_context **out)
{
	(void)ib;
	fake.tclass = tclass;
	if (fake.rc != 0)
		return fake.rc;
	fake.contexts_cnt++;
	*out = (struct sxt_context *)an_object;
	return 0;
}

void sxt_context_note_comm(struct sxt_context *ctx, uint64_t comm_id)
{
	assert_ptr_equal(ctx, an_object);
	fake.comm_id = comm_id;
}

void sxt_context_destroy(struct sxt_context *ctx)
{
	assert_ptr_equal(ctx, an_object);
	fake.contexts_cnt--;
}

int sxt_listen(struct sxt_ib *ib, struct sxt_context *ctx, int dev, void *handle,
	       struct sxt_listener **out)
{
	(void)ib;
	(void)dev;
	(void)handle;
	fake.context = ctx;
	if (fake.rc != 0)
		return fake.rc;
	*out = (struct sxt_listener *)an_object;
	return 0;
}

void sxt_listener_close(struct sxt_listener *listener)
{
	(void)listener;
	fake.closed_cnt++;
}

int sxt_connect(struct sxt_ib *ib, struct sxt_context *ctx, int dev, int tclass, void *handle,
		struct sxt_conn **out)
{
	(void)ib;
	(void)dev;
	(void)handle;
	fake.context = ctx;
	fake.tclass = tclass;
	if (fake.rc != 0)
		return fake.rc;
	*out = (struct sxt_conn *)an_object;
	return 0;
}

int sxt_accept(struct sxt_listener *listener, struct sxt_conn **out)
{
	(void)listener;
	if (fake.rc != 0)
		return fake.rc;
	*out = (struct sxt_conn *)an_object;
	return 0;
}

void sxt_conn_close(struct sxt_conn *conn)
{
	(void)conn;
	fake.closed_cnt++;
}

int sxt_mr_get(struct sxt_conn *conn, const struct sxt_mr_spec *spec, struct sxt_mr **out)
{
	(void)conn;
	fake.bytes[0] = spec->bytes;
	if (fake.rc != 0)
		return fake.rc;
	*out = (struct sxt_mr *)an_object;
	return 0;
}

void sxt_mr_put(struct sxt_conn *conn, struct sxt_mr *mr)
{
	(void)conn;
	(void)mr;
}

/* In turn whatever a sending end that has something may say. */
enum sxt_send_look sxt_send_look(struct sxt_conn *conn)
{
	static const enum sxt_send_look all[] = {SXT_SEND_SINGLE, SXT_SEND_FIRST, SXT_SEND_MEMBER,
						 SXT_SEND_ANY};

	(void)conn;
	return fake.rc == -EAGAIN ? SXT_SEND_WAIT : all[fake.looks_cnt++ % SXT_ARRAY_LEN(all)];
}

int sxt_send_any(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag, struct sxt_mr *mr,
		 struct sxt_request **out)
{
	(void)conn;
	(void)data;
	(void)tag;
	(void)mr;
	fake.bytes[0] = bytes;
	if (fake.rc != 0)
		return fake.rc;
	*out = (struct sxt_request *)an_object;
	return 0;
}

int sxt_send_plain(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
		   struct sxt_mr *mr, struct sxt_request **out)
{
	if (bytes % 2 != 0)
		return SXT_SEND_OTHERWISE;
	return sxt_send_any(conn, data, bytes, tag, mr, out);
}

bool sxt_send_open(struct sxt_conn *conn)
{
	(void)conn;
	return fake.looks_cnt % 8 < 4;
}

struct sxt_request *sxt_send_member(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
				    struct sxt_mr *mr)
{
	(void)conn;
	(void)data;
	(void)tag;
	(void)mr;
	fake.bytes[0] = bytes;
	return bytes % 2 != 0 ? NULL : (struct sxt_request *)an_object;
}

bool sxt_send_may_wait(struct sxt_conn *conn, uint64_t bytes)
{
	(void)conn;
	(void)bytes;
	return fake.rc == 0 && fake.looks_cnt % 2 != 0;
}

int sxt_send_members(struct sxt_conn *conn)
{
	(void)conn;
	return fake.rc;
}

int sxt_recv(struct sxt_conn *conn, const struct sxt_recv_spec *spec, struct sxt_request **out)
{
	(void)conn;
	fake.cnt = spec->cnt;
	fake.optional = spec->optional;
	memcpy(fake.bytes, spec->bytes, (size_t)spec->cnt * sizeof(spec->bytes[0]));
	if (fake.rc != 0)
		return fake.rc;
	*out = (struct sxt_request *)an_object;
	return 0;
}

bool sxt_test_done(struct sxt_request *request, int *sizes, enum sxt_measuring how)
{
	(void)request;
	(void)sizes;
	assert_int_equal(how, fake.measuring);
	return false;
}

int sxt_test_waiting(struct sxt_request *request, bool *done_out, int *sizes,
		     enum sxt_measuring how)
{
	fake.tested_measured += how != SXT_MEASURE_NOT && how == fake.measuring;
	(void)request;
	if (fake.rc != 0)
		return fake.rc;
	*done_out = true;
	if (sizes != NULL)
		sizes[0] = 77;
	return 0;
}

static int reset_fake(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	return 0;
}

#define ASSERT_PROPS_COMMON(props)                                      \
	do {                                                            \
		assert_string_equal((props)->name, "sxt_mlx5_0");       \
		assert_non_null((props)->pciPath);                      \
		assert_int_equal((props)->guid, 0x1122334455667788ull); \
		assert_int_equal((props)->ptrSupport, NCCL_PTR_HOST);   \
		assert_int_equal((props)->speed, 400000);               \
		assert_int_equal((props)->port, 2);                     \
		assert_true((props)->latency == 0);                     \
		assert_int_equal((props)->maxComms, 65536);             \
		assert_int_equal((props)->maxRecvs, 8);                 \
	} while (0)

#define ASSERT_PROPS_V7(props)                                                  \
	do {                                                                    \
		ASSERT_PROPS_COMMON(props);                                     \
		assert_int_equal((props)->netDeviceType, NCCL_NET_DEVICE_HOST); \
		assert_int_equal((props)->netDeviceVersion, 0);                 \
	} while (0)

#define ASSERT_PROPS_V9(props)                                       \
	do {                                                         \
		ASSERT_PROPS_V7(props);                              \
		assert_int_equal((props)->regIsGlobal, 1);           \
		assert_int_equal((props)->forceFlush, 0);            \
		assert_int_equal((props)->vProps.ndevs, 1);          \
		assert_int_equal((props)->vProps.devs[0], 1);        \
		assert_int_equal((props)->maxP2pBytes, 1ull << 36);  \
		assert_int_equal((props)->maxCollBytes, 1ull << 36); \
	} while (0)

/* NCCL does not clear the struct, so neither does the test: what stays poisoned was forgotten. */
#define GET_PROPS(version, props)                                                                  \
	do {                                                                                       \
		memset((props), 0xa5, sizeof(*(props)));                                           \
		assert_int_equal(ncclNetPlugin_v##version.getProperties(1, (props)), ncclSuccess); \
	} while (0)

static void properties_are_whole_in_every_version(void **state)
{
	struct nccl_net_props_v6 v6;
	struct nccl_net_props_v7 v7;
	struct nccl_net_props_v8 v8;
	struct nccl_net_props_v9 v9;
	struct nccl_net_props_v11 v11;
	struct nccl_net_props_v12 v12;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	GET_PROPS(6, &v6);
	ASSERT_PROPS_COMMON(&v6);
	GET_PROPS(7, &v7);
	ASSERT_PROPS_V7(&v7);
	GET_PROPS(8, &v8);
	ASSERT_PROPS_V7(&v8);
	assert_int_equal(v8.regIsGlobal, 1);
	GET_PROPS(9, &v9);
	ASSERT_PROPS_V9(&v9);
	GET_PROPS(10, &v9);
	ASSERT_PROPS_V9(&v9);
	GET_PROPS(11, &v11);
	ASSERT_PROPS_V9(&v11);
	assert_int_equal(v11.maxMultiRequestSize, 1);
	GET_PROPS(12, &v12);
	ASSERT_PROPS_V9(&v12);
	assert_int_equal(v12.maxMultiRequestSize, 1);
	assert_int_equal(v12.railId, -1);
	assert_int_equal(v12.planeId, -1);
	assert_int_equal(ncclNetPlugin_v12.getProperties(2, &v12), ncclSuccess);
	assert_int_equal(v12.railId, 5);
	assert_int_equal(v12.planeId, 1);
	assert_int_equal(ncclNetPlugin_v12.getProperties(4, &v12), ncclInvalidArgument);
}

static void a_merged_nic_names_its_parts(void **state)
{
	struct nccl_net_props_v9 v9;
	struct nccl_net_props_v11 v11;
	struct nccl_net_props_v12 v12;
	int ndev = 0;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.devices(&ndev), ncclSuccess);
	assert_int_equal(ndev, 4);
	assert_int_equal(ncclNetPlugin_v12.getProperties(3, &v12), ncclSuccess);
	assert_int_equal(v12.vProps.ndevs, 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(v12.vProps.devs[i], 10 + i);
	/* More than the older structs hold: what follows in them stays whole. */
	assert_int_equal(ncclNetPlugin_v9.getProperties(3, &v9), ncclSuccess);
	assert_int_equal(v9.vProps.ndevs, 4);
	assert_int_equal(v9.vProps.devs[3], 13);
	assert_int_equal(v9.maxP2pBytes, 1ull << 36);
	assert_int_equal(ncclNetPlugin_v11.getProperties(3, &v11), ncclSuccess);
	assert_int_equal(v11.vProps.ndevs, 4);
	assert_int_equal(v11.maxP2pBytes, 1ull << 36);
}

/* NCCL sets no more than ndevs entries. */
#define MERGE(version, vprops, most_)                                                              \
	do {                                                                                       \
		struct vprops parts;                                                               \
		int dev = 0;                                                                       \
                                                                                                   \
		memset(&parts, 0xa5, sizeof(parts));                                               \
		parts.ndevs = 2;                                                                   \
		parts.devs[0] = 7;                                                                 \
		parts.devs[1] = version;                                                           \
		fake.rc = 0;                                                                       \
		assert_int_equal(ncclNetPlugin_v##version.makeVDevice(&dev, &parts), ncclSuccess); \
		assert_int_equal(dev, 42);                                                         \
		assert_int_equal(fake.cnt, 2);                                                     \
		assert_int_equal(fake.most, most_);                                                \
		assert_int_equal(fake.merged[0], 7);                                               \
		assert_int_equal(fake.merged[1], version);                                         \
		fake.rc = -EOPNOTSUPP;                                                             \
		dev = -3;                                                                          \
		assert_int_equal(ncclNetPlugin_v##version.makeVDevice(&dev, &parts),               \
				 ncclInvalidUsage);                                                \
		assert_int_equal(dev, -3);                                                         \
	} while (0)

static void devices_are_merged_in_every_version_that_can(void **state)
{
	(void)state;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	MERGE(9, nccl_net_vdev_props_v9, 4);
	MERGE(10, nccl_net_vdev_props_v9, 4);
	MERGE(11, nccl_net_vdev_props_v9, 4);
	MERGE(12, nccl_net_vdev_props_v12, 8);
}

static void not_now_is_success_with_nothing(void **state)
{
	void *out = an_object;
	void *data[1] = {an_object};
	size_t sizes[1] = {8};
	int tags[1] = {0};
	void *mhandles[1] = {an_object};

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	fake.rc = -EAGAIN;
	assert_int_equal(ncclNetPlugin_v12.isend(an_object, data, 8, 0, an_object, NULL, &out),
			 ncclSuccess);
	assert_null(out);
	out = NULL;
	assert_int_equal(ncclNetPlugin_v12.irecv(an_object, 1, data, sizes, tags, mhandles, NULL,
						 &out),
			 ncclSuccess);
	assert_null(out);
	out = an_object;
	assert_int_equal(ncclNetPlugin_v12.accept(an_object, &out, NULL), ncclSuccess);
	assert_null(out);
	out = an_object;
	assert_int_equal(ncclNetPlugin_v9.connect(0, an_object, &out, NULL), ncclSuccess);
	assert_null(out);
}

static void a_failed_connection_leaves_the_comm_alone(void **state)
{
	void *out = an_object;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	fake.rc = -ECONNREFUSED;
	assert_int_equal(ncclNetPlugin_v12.accept(an_object, &out, NULL), ncclRemoteError);
	assert_ptr_equal(out, an_object);
	assert_int_equal(ncclNetPlugin_v9.connect(0, an_object, &out, NULL), ncclRemoteError);
	assert_ptr_equal(out, an_object);
}

static void errors_come_out_as_nccls_codes(void **state)
{
	int done = 1;

	(void)state;
	fake.rc = -EREMOTEIO;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclRemoteError);
	assert_int_equal(done, 0);
	fake.rc = -EMSGSIZE;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclInvalidUsage);
	fake.rc = -ENOMEM;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclSystemError);
	fake.rc = -ENETDOWN;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclSystemError);
	fake.rc = -EADDRNOTAVAIL;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclSystemError);
	fake.rc = -ENOSPC;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclSystemError);
	fake.rc = -12345;
	assert_int_equal(ncclNetPlugin_v12.test(an_object, &done, NULL), ncclInternalError);
}

static void only_v9_and_later_know_optional_receives(void **state)
{
	void *request = NCCL_NET_OPTIONAL_RECV;
	void *data[2] = {an_object, an_object};
	int int_sizes[2] = {8, 16};
	size_t sizes[2] = {8, 16};
	int tags[2] = {0, 1};
	void *mhandles[2] = {an_object, an_object};

	(void)state;
	ncclNetPlugin_v8.irecv(an_object, 1, data, int_sizes, tags, mhandles, &request);
	assert_false(fake.optional);
	request = NCCL_NET_OPTIONAL_RECV;
	ncclNetPlugin_v9.irecv(an_object, 1, data, sizes, tags, mhandles, &request);
	assert_true(fake.optional);
	request = NCCL_NET_OPTIONAL_RECV;
	ncclNetPlugin_v12.irecv(an_object, 2, data, sizes, tags, mhandles, NULL, &request);
	assert_false(fake.optional);
	assert_int_equal(fake.bytes[1], 16);
}

static void int_sizes_are_checked(void **state)
{
	void *request = NULL;
	void *mhandle = NULL;
	void *data[1] = {an_object};
	int sizes[1] = {-1};
	int tags[1] = {0};
	void *mhandles[1] = {an_object};

	(void)state;
	assert_int_equal(ncclNetPlugin_v6.isend(an_object, data, -1, 0, NULL, &request),
			 ncclInvalidArgument);
	assert_int_equal(ncclNetPlugin_v6.irecv(an_object, 1, data, sizes, tags, mhandles,
						&request),
			 ncclInvalidArgument);
	assert_int_equal(ncclNetPlugin_v6.irecv(an_object, 9, data, sizes, tags, mhandles,
						&request),
			 ncclInvalidArgument);
	assert_int_equal(ncclNetPlugin_v6.irecv(an_object, 0, data, sizes, tags, mhandles,
						&request),
			 ncclInvalidArgument);
	assert_int_equal(ncclNetPlugin_v7.regMr(an_object, data, -5, NCCL_PTR_HOST, &mhandle),
			 ncclInvalidArgument);
}

static void sizes_beyond_int_pass_whole(void **state)
{
	void *request = NULL;
	void *mhandle = NULL;

	(void)state;
	ncclNetPlugin_v9.isend(an_object, an_object, 3ull << 30, 0, an_object, &request);
	assert_int_equal(fake.bytes[0], 3ull << 30);
	ncclNetPlugin_v8.regMr(an_object, an_object, 3ull << 30, NCCL_PTR_HOST, &mhandle);
	assert_int_equal(fake.bytes[0], 3ull << 30);
}

/* Whatever part of the transport a message takes. */
static void every_way_of_sending_ends_in_a_request(void **state)
{
	int cases;

	(void)state;
	for (cases = 0; cases < 32; cases++) {
		size_t bytes = cases % 16 < 8 ? 8 : 9;
		void *request = NULL;

		fake.rc = cases < 16 ? 0 : -EREMOTEIO;
		assert_int_equal(ncclNetPlugin_v9.isend(an_object, an_object, bytes, 0, an_object,
							&request),
				 fake.rc == 0 ? ncclSuccess : ncclRemoteError);
		assert_ptr_equal(request, fake.rc == 0 ? an_object : NULL);
		assert_int_equal(fake.bytes[0], bytes);
	}
}

static void gpu_memory_is_refused_while_it_is_not_offered(void **state)
{
	void *mhandle = NULL;

	(void)state;
	assert_int_equal(ncclNetPlugin_v12.regMr(an_object, an_object, 64, NCCL_PTR_CUDA, &mhandle),
			 ncclInvalidUsage);
	assert_null(mhandle);
}

static void a_communicator_is_a_context_that_starts_with_its_traffic_class(void **state)
{
	struct nccl_net_comm_config config = {.trafficClass = 106};
	void *listen_comm = NULL;
	void *ctx = NULL;
	char handle[128];

	(void)state;
	assert_int_equal(ncclNetPlugin_v12.init(&ctx, 1, &config, heard_logger, NULL), ncclSuccess);
	assert_ptr_equal(fake.tuner, sxt_tuner_of);
	assert_int_equal(*(int *)ctx, 106);
	assert_int_equal(fake.comm_id, 1);
	*(int *)ctx = 7; /* as NCCL's RMA transport does */
	assert_int_equal(ncclNetPlugin_v12.listen(ctx, 0, handle, &listen_comm), ncclSuccess);
	assert_ptr_equal(fake.context, an_object);
	assert_int_equal(ncclNetPlugin_v12.finalize(ctx), ncclSuccess);
	assert_int_equal(fake.contexts_cnt, 0);
	assert_int_equal(fake.puts_cnt, 1);
}

static void each_table_says_which_version_is_in_use(void **state)
{
	void *ctx[2] = {NULL, NULL};

	(void)state;
#define INIT(number, ...)                                                                 \
	do {                                                                              \
		assert_int_equal(ncclNetPlugin_v##number.init(__VA_ARGS__), ncclSuccess); \
		assert_int_equal(fake.abi, number);                                       \
	} while (0)
	INIT(6, heard_logger);
	INIT(7, heard_logger);
	INIT(8, heard_logger);
	INIT(9, heard_logger);
	INIT(10, heard_logger, NULL);
	INIT(11, &ctx[0], 1, NULL, heard_logger, NULL);
	INIT(12, &ctx[1], 1, NULL, heard_logger, NULL);
#undef INIT
	assert_int_equal(ncclNetPlugin_v11.finalize(ctx[0]), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.finalize(ctx[1]), ncclSuccess);
}

static void a_failed_init_keeps_nothing(void **state)
{
	void *ctx = NULL;

	(void)state;
	fake.rc = -ENODEV;
	assert_int_equal(ncclNetPlugin_v12.init(&ctx, 1, NULL, heard_logger, NULL),
			 ncclSystemError);
	assert_null(ctx);
	fake.rc = -EINVAL; /* bad settings, and SEXTANT_STRICT */
	assert_int_equal(ncclNetPlugin_v12.init(&ctx, 1, NULL, heard_logger, NULL),
			 ncclInvalidUsage);
	assert_int_equal(fake.gets_cnt, fake.puts_cnt);
}

static void a_child_forked_during_init_can_exit(void **state)
{
	void *ctx = NULL;
	int status = -1;

	(void)state;
	fake.forks = true;
	assert_int_equal(ncclNetPlugin_v12.init(&ctx, 1, NULL, heard_logger, NULL), ncclSuccess);
	assert_true(fake.child > 0);
	assert_int_equal(waitpid(fake.child, &status, 0), fake.child);
	assert_int_equal(status, 0);
	assert_int_equal(ncclNetPlugin_v12.finalize(ctx), ncclSuccess);
}

/* What a forked child checks, as its exit status; no assertion of cmocka's may be made in it. */
static int begin_anew(void)
{
	int gets_cnt = fake.gets_cnt;
	void *ctx = NULL;
	int ndev = 0;

	if (ncclNetPlugin_v12.init(&ctx, 1, NULL, heard_logger, NULL) != ncclSuccess)
		return 1;
	if (ncclNetPlugin_v12.finalize(ctx) != ncclSuccess)
		return 2;
	/* Its last communicator is gone, whatever the parent still has. */
	if (ncclNetPlugin_v12.devices(&ndev) == ncclSuccess)
		return 3;
	if (ncclNetPlugin_v10.init(heard_logger, NULL) != ncclSuccess)
		return 4;
	return fake.gets_cnt == gets_cnt + 2 ? 0 : 5;
}

static void a_forked_child_begins_anew(void **state)
{
	void *ctx = NULL;
	int status = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(ncclNetPlugin_v10.init(heard_logger, NULL), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.init(&ctx, 1, NULL, heard_logger, NULL), ncclSuccess);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(begin_anew());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(ncclNetPlugin_v12.finalize(ctx), ncclSuccess);
}

static void v10_hands_on_the_communicators_traffic_class(void **state)
{
	struct nccl_net_comm_config config = {.trafficClass = 41};
	void *comm = NULL;
	char handle[128];

	(void)state;
	assert_int_equal(ncclNetPlugin_v10.init(heard_logger, NULL), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v10.connect(0, &config, handle, &comm, NULL), ncclSuccess);
	assert_int_equal(fake.tclass, 41);
	assert_null(fake.context);
}

static void closing_and_flushing_always_succeed(void **state)
{
	void *request = an_object;

	(void)state;
	assert_int_equal(ncclNetPlugin_v12.closeSend(NULL), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.closeRecv(an_object), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.closeListen(NULL), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.deregMr(an_object, NULL), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.finalize(NULL), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v12.iflush(an_object, 1, NULL, NULL, NULL, &request),
			 ncclSuccess);
	assert_null(request);
}

/* What NCCL 2.30 calls without looking whether it is there. */
static void members_called_unchecked_are_there(void **state)
{
	(void)state;
	assert_string_equal(ncclNetPlugin_v6.name, "Sextant");
	assert_string_equal(ncclNetPlugin_v12.name, "Sextant");
	assert_non_null(ncclNetPlugin_v12.finalize);
	assert_non_null(ncclNetPlugin_v11.finalize);
	assert_non_null(ncclNetPlugin_v6.iflush);
	assert_non_null(ncclNetPlugin_v12.iflush);
	assert_null(ncclNetPlugin_v12.irecvConsumed); /* else requests would live past test() */
}

/* Each version's calls write down what they did, once its init saw that telemetry is on. */
#define MEASURED(how, number, init_args, isend_call, irecv_call)                                 \
	do {                                                                                     \
		void *request = NULL;                                                            \
		int done = 0;                                                                    \
                                                                                                 \
		memset(&fake, 0, sizeof(fake));                                                  \
		fake.measuring = how;                                                            \
		assert_int_equal(ncclNetPlugin_v##number.init init_args, ncclSuccess);           \
		for (int round = 0; round < 8; round++)                                          \
			assert_int_equal(ncclNetPlugin_v##number.isend isend_call, ncclSuccess); \
		assert_int_equal(fake.measured_cnt, 8);                                          \
		request = NULL;                                                                  \
		assert_int_equal(ncclNetPlugin_v##number.irecv irecv_call, ncclSuccess);         \
		assert_int_equal(fake.measured_cnt, 9);                                          \
		assert_int_equal(ncclNetPlugin_v##number.test(an_object, &done, NULL),           \
				 ncclSuccess);                                                   \
		assert_int_equal(done, 1);                                                       \
		assert_int_equal(fake.tested_measured, 1);                                       \
		fake.rc = -EAGAIN;                                                               \
		assert_int_equal(ncclNetPlugin_v##number.isend isend_call, ncclSuccess);         \
		assert_null(request);                                                            \
		assert_int_equal(ncclNetPlugin_v##number.irecv irecv_call, ncclSuccess);         \
		assert_null(request);                                                            \
		assert_int_equal(fake.not_now_cnt, 2);                                           \
		fake.rc = -EREMOTEIO;                                                            \
		assert_int_equal(ncclNetPlugin_v##number.isend isend_call, ncclRemoteError);     \
		assert_int_equal(fake.measured_cnt, 9);                                          \
	} while (0)

static void every_version_measures(enum sxt_measuring how)
{
	void *ctx = NULL;
	void *data[1] = {an_object};
	int int_sizes[1] = {8};
	size_t sizes[1] = {8};
	int tags[1] = {0};
	void *mhandles[1] = {an_object};

#define INT_ISEND  (an_object, data, 8, 0, an_object, &request)
#define INT_IRECV  (an_object, 1, data, int_sizes, tags, mhandles, &request)
#define SIZE_IRECV (an_object, 1, data, sizes, tags, mhandles, &request)
#define PROF_ISEND (an_object, data, 8, 0, an_object, NULL, &request)
#define PROF_IRECV (an_object, 1, data, sizes, tags, mhandles, NULL, &request)
#define INIT_CTX   (&ctx, 1, NULL, heard_logger, NULL)
	MEASURED(how, 6, (heard_logger), INT_ISEND, INT_IRECV);
	MEASURED(how, 7, (heard_logger), INT_ISEND, INT_IRECV);
	MEASURED(how, 8, (heard_logger), INT_ISEND, INT_IRECV);
	MEASURED(how, 9, (heard_logger), INT_ISEND, SIZE_IRECV);
	MEASURED(how, 10, (heard_logger, NULL), PROF_ISEND, PROF_IRECV);
	MEASURED(how, 11, INIT_CTX, PROF_ISEND, PROF_IRECV);
	assert_int_equal(ncclNetPlugin_v11.finalize(ctx), ncclSuccess);
	MEASURED(how, 12, INIT_CTX, PROF_ISEND, PROF_IRECV);
	assert_int_equal(ncclNetPlugin_v12.finalize(ctx), ncclSuccess);
}

static void every_version_measures_by_the_clock_there_is(void **state)
{
	(void)state;
	every_version_measures(SXT_MEASURE_BY_COUNTER);
	every_version_measures(SXT_MEASURE_BY_CLOCK);
	every_version_measures(SXT_MEASURE_BY_COUNTER);
}

/* Of connections that were made without it nothing can be counted. */
static void a_later_init_without_telemetry_measures_no_more(void **state)
{
	void *request = NULL;
	int done = 0;

	(void)state;
	fake.measuring = SXT_MEASURE_BY_COUNTER;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	fake.measuring = SXT_MEASURE_NOT;
	assert_int_equal(ncclNetPlugin_v8.init(heard_logger), ncclSuccess);
	assert_int_equal(ncclNetPlugin_v8.isend(an_object, NULL, 8, 0, an_object, &request),
			 ncclSuccess);
	assert_int_equal(ncclNetPlugin_v8.test(an_object, &done, NULL), ncclSuccess);
	assert_int_equal(fake.measured_cnt + fake.tested_measured, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(properties_are_whole_in_every_version, reset_fake),
		cmocka_unit_test_setup(a_merged_nic_names_its_parts, reset_fake),
		cmocka_unit_test_setup(devices_are_merged_in_every_version_that_can, reset_fake),
		cmocka_unit_test_setup(not_now_is_success_with_nothing, reset_fake),
		cmocka_unit_test_setup(a_failed_connection_leaves_the_comm_alone, reset_fake),
		cmocka_unit_test_setup(errors_come_out_as_nccls_codes, reset_fake),
		cmocka_unit_test_setup(only_v9_and_later_know_optional_receives, reset_fake),
		cmocka_unit_test_setup(int_sizes_are_checked, reset_fake),
		cmocka_unit_test_setup(sizes_beyond_int_pass_whole, reset_fake),
		cmocka_unit_test_setup(every_way_of_sending_ends_in_a_request, reset_fake),
		cmocka_unit_test_setup(gpu_memory_is_refused_while_it_is_not_offered, reset_fake),
		cmocka_unit_test_setup(
			a_communicator_is_a_context_that_starts_with_its_traffic_class, reset_fake),
		cmocka_unit_test_setup(each_table_says_which_version_is_in_use, reset_fake),
		cmocka_unit_test_setup(a_failed_init_keeps_nothing, reset_fake),
		cmocka_unit_test_setup(a_child_forked_during_init_can_exit, reset_fake),
		cmocka_unit_test_setup(a_forked_child_begins_anew, reset_fake),
		cmocka_unit_test_setup(v10_hands_on_the_communicators_traffic_class, reset_fake),
		cmocka_unit_test_setup(closing_and_flushing_always_succeed, reset_fake),
		cmocka_unit_test_setup(members_called_unchecked_are_there, reset_fake),
		cmocka_unit_test_setup(every_version_measures_by_the_clock_there_is, reset_fake),
		cmocka_unit_test_setup(a_later_init_without_telemetry_measures_no_more, reset_fake),
	};

	return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
