/*
 * net_socket.c - a small honest net plugin over Unix sockets, of all seven versions, to test what
 * drives plugins. Receiver-driven: irecv sends a group's tags, isend waits for its tag in the
 * oldest incomplete group. One comm is used by one thread at a time.
 *
 * SXT_FAKE_FAULT=WHAT[:RANK[:NTH]] makes it misbehave in the NTH isend (default 10) whose tag is
 * RANK: corrupt, error, die, block, stall, short; or at once in every rank: init, nodevice,
 * connect.
 */
#include "plugin/nccl/net.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MEMBERS_MAX 8
#define GROUPS_MAX  32 /* open ones per connection; 8 in the receiver suffice for NCCL */
#define SENDS_MAX   (GROUPS_MAX * MEMBERS_MAX)
#define HELLO       0x66616b65686579ull

/* What listen puts into NCCL's 128 bytes; the rest of them is connect's memory. */
struct fake_handle {
	uint64_t magic;
	struct sockaddr_un addr; /* 110 bytes */
};

struct connecting {
	int fd;
	bool greeted;
};

/* One clear-to-send: the tags of a group, receiver to sender. */
struct cts {
	int32_t n;
	int32_t tags[MEMBERS_MAX];
};

/* Before each message, sender to receiver. */
struct head {
	uint32_t member;
	uint32_t bytes;
};

struct comm;

struct request {
	struct comm *comm;
	bool used;
	bool done;
	/* A send. */
	struct head head;
	const char *data;
	size_t sent; /* of head and data together */
	/* A receive. */
	struct cts cts;
	size_t cts_sent;
	char *bufs[MEMBERS_MAX];
	size_t room[MEMBERS_MAX];
	int sizes[MEMBERS_MAX];
	int arrived_cnt;
};

struct group {
	struct cts cts;
	bool taken[MEMBERS_MAX];
	int taken_cnt;
};

struct comm {
	int fd;
	bool sender;
	bool broken;
	/* Sends and receives in order; indices only grow. */
	struct request requests[SENDS_MAX];
	uint64_t posted;
	uint64_t finished;
	uint64_t cts_written; /* receiver: requests whose CTS is out */
	/* Sender. */
	struct group groups[GROUPS_MAX];
	uint64_t groups_in;
	uint64_t groups_done;
	struct cts cts_in;
	size_t cts_got;
	/* Receiver. */
	struct head head;
	size_t head_got;
	size_t data_got;
};

struct listening {
	int fd;
	int accepted;
};

static ncclDebugLogger_t logger;
static int version;
static int isends_cnt;

#define WARN(...) logger(NCCL_LOG_WARN, NCCL_SUBSYS_ALL, __FILE__, __LINE__, __VA_ARGS__)

/* "WHAT:RANK:NTH" for this isend? */
static bool fault_now(const char *what, int rank)
{
	const char *fault = getenv("SXT_FAKE_FAULT");
	size_t len = strlen(what);
	char *end;
	long nth = 10;

	if (fault == NULL || strncmp(fault, what, len) != 0)
		return false;
	if (fault[len] == '\0')
		return true;
	if (strtol(fault + len + 1, &end, 10) != rank)
		return false;
	if (*end == ':')
		nth = strtol(end + 1, NULL, 10);
	return isends_cnt >= nth;
}

static ncclResult_t fake_init(int abi, ncclDebugLogger_t log)
{
	logger = log;
	version = abi;
	logger(NCCL_LOG_INFO, NCCL_SUBSYS_INIT, __FILE__, __LINE__, "fake v%d initialised", abi);
	if (!fault_now("init", 0))
		return ncclSuccess;
	WARN("fake: init fails as asked");
	return ncclSystemError;
}

static ncclResult_t fake_devices(int *ndev)
{
	*ndev = fault_now("nodevice", 0) ? 0 : 2;
	return ncclSuccess;
}

static ncclResult_t fake_listen(int dev, void *opaque, void **out)
{
	struct fake_handle *handle = opaque;
	struct listening *l = calloc(1, sizeof(*l));
	socklen_t len = sizeof(handle->addr);

	_Static_assert(sizeof(*handle) + sizeof(void *) <= NCCL_NET_HANDLE_BYTES,
		       "handle too large");
	(void)dev;
	l->accepted = -1;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	handle->addr.sun_family = AF_UNIX;
	/* No name given: the kernel chooses an abstract one. */
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&handle->addr, sizeof(sa_family_t)) != 0 ||
	    getsockname(l->fd, (struct sockaddr *)&handle->addr, &len) != 0 ||
	    listen(l->fd, 1) != 0) {
		WARN("fake: listen: %m");
		close(l->fd);
		free(l);
		return ncclSystemError;
	}
	handle->magic = HELLO + len;
	*out = l;
	return ncclSuccess;
}

static struct comm *make_comm(int fd, bool sender)
{
	struct comm *comm = calloc(1, sizeof(*comm));

	comm->fd = fd;
	comm->sender = sender;
	return comm;
}

/* The first call only begins, so that every connection is polled. */
static ncclResult_t fake_connect(void *opaque, void **out)
{
	struct fake_handle *handle = opaque;
	struct connecting **state =
		(struct connecting **)((char *)opaque + NCCL_NET_HANDLE_BYTES - sizeof(void *));
	uint64_t hello = HELLO;

	*out = NULL;
	if (fault_now("connect", 0)) {
		WARN("fake: connect fails as asked");
		return ncclRemoteError;
	}
	if (*state == NULL) {
		*state = calloc(1, sizeof(**state));
		(*state)->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		return ncclSuccess;
	}
	if (!(*state)->greeted) {
		socklen_t len = (socklen_t)(handle->magic - HELLO);

		if (connect((*state)->fd, (struct sockaddr *)&handle->addr, len) != 0)
			return errno == EAGAIN ? ncclSuccess : ncclSystemError;
		if (send((*state)->fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
			return ncclRemoteError;
		(*state)->greeted = true;
	}
	if (recv((*state)->fd, &hello, sizeof(hello), 0) != sizeof(hello))
		return errno == EAGAIN ? ncclSuccess : ncclRemoteError;
	*out = make_comm((*state)->fd, true);
	free(*state);
	*state = NULL;
	return ncclSuccess;
}

static ncclResult_t fake_accept(void *opaque, void **out)
{
	struct listening *l = opaque;
	uint64_t hello;

	*out = NULL;
	if (l->accepted < 0)
		l->accepted = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (l->accepted < 0)
		return errno == EAGAIN ? ncclSuccess : ncclSystemError;
	if (recv(l->accepted, &hello, sizeof(hello), 0) != sizeof(hello))
		return errno == EAGAIN ? ncclSuccess : ncclRemoteError;
	if (send(l->accepted, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		return ncclRemoteError;
	*out = make_comm(l->accepted, false);
	l->accepted = -1;
	return ncclSuccess;
}

static ncclResult_t fake_close_listen(void *opaque)
{
	struct listening *l = opaque;

	if (l->accepted >= 0)
		close(l->accepted);
	close(l->fd);
	free(l);
	return ncclSuccess;
}

static ncclResult_t fake_close(void *opaque)
{
	struct comm *comm = opaque;

	close(comm->fd);
	free(comm);
	return ncclSuccess;
}

static ncclResult_t fake_reg(void *comm, void *data, int type, void **mhandle)
{
	(void)comm;
	if (type != NCCL_PTR_HOST)
		return ncclInvalidArgument;
	*mhandle = data;
	return ncclSuccess;
}

static ncclResult_t fake_reg_size(void *comm, void *data, size_t size, int type, void **mhandle)
{
	(void)size;
	return fake_reg(comm, data, type, mhandle);
}

static ncclResult_t fake_reg_int(void *comm, void *data, int size, int type, void **mhandle)
{
	(void)size;
	return fake_reg(comm, data, type, mhandle);
}

static ncclResult_t fake_dereg(void *comm, void *mhandle)
{
	(void)comm;
	return mhandle != NULL ? ncclSuccess : ncclInvalidArgument;
}

/* Bytes moved; 0 for "not now"; marks the comm broken when the peer is gone. */
static size_t pull(struct comm *comm, void *buf, size_t bytes)
{
	ssize_t n = bytes > 0 ? recv(comm->fd, buf, bytes, 0) : 0;

	if (bytes > 0 && (n == 0 || (n < 0 && errno != EAGAIN)))
		comm->broken = true;
	return n > 0 ? (size_t)n : 0;
}

static size_t push(struct comm *comm, const void *buf, size_t bytes)
{
	ssize_t n = send(comm->fd, buf, bytes, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN)
		comm->broken = true;
	return n > 0 ? (size_t)n : 0;
}

/* Reads clear-to-sends while there is room for them. */
static void read_cts(struct comm *comm)
{
	while (comm->groups_in - comm->groups_done < GROUPS_MAX) {
		comm->cts_got += pull(comm, (char *)&comm->cts_in + comm->cts_got,
				      sizeof(comm->cts_in) - comm->cts_got);
		if (comm->cts_got < sizeof(comm->cts_in))
			return;
		comm->groups[comm->groups_in++ % GROUPS_MAX] = (struct group){.cts = comm->cts_in};
		comm->cts_got = 0;
	}
}

static void write_messages(struct comm *comm)
{
	while (comm->finished < comm->posted) {
		struct request *r = &comm->requests[comm->finished % SENDS_MAX];
		size_t sent;

		if (r->sent < sizeof(r->head))
			sent = push(comm, (char *)&r->head + r->sent, sizeof(r->head) - r->sent);
		else if (r->sent < sizeof(r->head) + r->head.bytes)
			sent = push(comm, r->data + r->sent - sizeof(r->head),
				    sizeof(r->head) + r->head.bytes - r->sent);
		else {
			r->done = true;
			comm->finished++;
			continue;
		}
		r->sent += sent;
		if (sent == 0)
			return;
	}
}

static void write_cts(struct comm *comm)
{
	while (comm->cts_written < comm->posted) {
		struct request *r = &comm->requests[comm->cts_written % SENDS_MAX];

		r->cts_sent +=
			push(comm, (char *)&r->cts + r->cts_sent, sizeof(r->cts) - r->cts_sent);
		if (r->cts_sent < sizeof(r->cts))
			return;
		comm->cts_written++;
	}
}

/* Return: true when a whole message has arrived and more may. */
static bool read_message(struct comm *comm)
{
	struct request *r = &comm->requests[comm->finished % SENDS_MAX];
	uint32_t member;

	if (comm->head_got < sizeof(comm->head))
		comm->head_got += pull(comm, (char *)&comm->head + comm->head_got,
				       sizeof(comm->head) - comm->head_got);
	if (comm->head_got < sizeof(comm->head))
		return false;
	member = comm->head.member;
	if (member >= (uint32_t)r->cts.n || comm->head.bytes > r->room[member]) {
		WARN("fake: %u bytes for member %u do not fit", comm->head.bytes, member);
		comm->broken = true;
		return false;
	}
	comm->data_got +=
		pull(comm, r->bufs[member] + comm->data_got, comm->head.bytes - comm->data_got);
	if (comm->data_got < comm->head.bytes)
		return false;
	r->sizes[member] = (int)comm->head.bytes;
	comm->head_got = 0;
	comm->data_got = 0;
	if (++r->arrived_cnt == r->cts.n) {
		r->done = true;
		comm->finished++;
	}
	return true;
}

static void progress(struct comm *comm)
{
	if (comm->sender) {
		read_cts(comm);
		write_messages(comm);
		return;
	}
	write_cts(comm);
	while (comm->finished < comm->posted && read_message(comm))
		;
}

static struct request *next_request(struct comm *comm)
{
	struct request *r = &comm->requests[comm->posted % SENDS_MAX];

	if (r->used)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->comm = comm;
	r->used = true;
	comm->posted++;
	return r;
}

/* Index of the tag in the oldest incomplete group, or -1. */
static int take_member(struct comm *comm, int tag)
{
	struct group *g = &comm->groups[comm->groups_done % GROUPS_MAX];

	if (comm->groups_done == comm->groups_in)
		return -1;
	for (int i = 0; i < g->cts.n; i++) {
		if (g->taken[i] || g->cts.tags[i] != tag)
			continue;
		g->taken[i] = true;
		if (++g->taken_cnt == g->cts.n)
			comm->groups_done++;
		return i;
	}
	return -1;
}

static ncclResult_t misbehave(struct comm *comm, char *data, size_t *bytes, int tag)
{
	isends_cnt++;
	if (fault_now("die", tag))
		raise(SIGKILL);
	while (fault_now("block", tag))
		pause();
	if (fault_now("corrupt", tag) && *bytes > 0)
		data[*bytes / 2] ^= 1;
	if (fault_now("short", tag) && *bytes > 0)
		(*bytes)--;
	if (!fault_now("error", tag))
		return ncclSuccess;
	WARN("fake: isend on fd %d fails as asked", comm->fd);
	return ncclSystemError;
}

static ncclResult_t fake_isend(void *opaque, void *data, size_t bytes, int tag, void **request)
{
	struct comm *comm = opaque;
	struct request *r;
	int member;

	*request = NULL;
	progress(comm);
	if (comm->broken) {
		WARN("fake: the receiver has gone");
		return ncclRemoteError;
	}
	if (fault_now("stall", tag) || comm->posted - comm->finished >= SENDS_MAX ||
	    comm->requests[comm->posted % SENDS_MAX].used)
		return ncclSuccess;
	member = take_member(comm, tag);
	if (member < 0)
		return ncclSuccess;
	if (misbehave(comm, data, &bytes, tag) != ncclSuccess)
		return ncclSystemError;
	r = next_request(comm);
	r->head = (struct head){(uint32_t)member, (uint32_t)bytes};
	r->data = data;
	write_messages(comm);
	*request = r;
	return ncclSuccess;
}

/* The hint of an optional receive is ignored, as NCCL allows. */
static ncclResult_t fake_irecv(struct comm *comm, int n, void **data, const size_t *sizes,
			       const int *tags, void **request)
{
	struct request *r;

	*request = NULL;
	if (n < 1 || n > MEMBERS_MAX)
		return ncclInvalidArgument;
	if (comm->posted - comm->finished >= GROUPS_MAX)
		return ncclSuccess;
	r = next_request(comm);
	if (r == NULL)
		return ncclSuccess;
	r->cts.n = n;
	for (int i = 0; i < n; i++) {
		r->cts.tags[i] = tags[i];
		r->bufs[i] = data[i];
		r->room[i] = sizes[i];
	}
	progress(comm);
	*request = r;
	return ncclSuccess;
}

static ncclResult_t fake_test(void *opaque, int *done, int *sizes)
{
	struct request *r = opaque;

	if (!r->done)
		progress(r->comm);
	*done = r->done;
	if (!r->done && r->comm->broken) {
		WARN("fake: the %s has gone", r->comm->sender ? "receiver" : "sender");
		return ncclRemoteError;
	}
	if (!r->done)
		return ncclSuccess;
	if (sizes != NULL && r->comm->sender)
		sizes[0] = (int)r->head.bytes;
	else if (sizes != NULL)
		memcpy(sizes, r->sizes, sizeof(sizes[0]) * (size_t)r->cts.n);
	/* Version 7 plays a plugin with irecvConsumed: the request lives on. */
	r->used = version == 7 && !r->comm->sender;
	return ncclSuccess;
}

static ncclResult_t fake_consumed(void *comm, int n, void *request)
{
	struct request *r = request;

	if (r->comm != comm || r->cts.n != n || !r->done)
		return ncclInvalidArgument;
	r->used = false;
	return ncclSuccess;
}

static ncclResult_t fake_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
				void **request)
{
	(void)comm;
	(void)n;
	(void)data;
	(void)sizes;
	(void)mhandles;
	*request = NULL;
	return ncclSuccess;
}

/* The versions: only argument lists differ. */

#define NAME_AND_PLACE(p, dev)                                              \
	do {                                                                \
		(p)->name = (dev) == 0 ? (char *)"fake0" : (char *)"fake1"; \
		(p)->pciPath = NULL;                                        \
		(p)->guid = 0xfa4e + (uint64_t)(dev);                       \
		(p)->ptrSupport = NCCL_PTR_HOST;                            \
		(p)->speed = 100000;                                        \
		(p)->port = 1;                                              \
		(p)->latency = 0;                                           \
		(p)->maxComms = 1024;                                       \
		(p)->maxRecvs = MEMBERS_MAX;                                \
	} while (0)

#define DEFINE_PROPS(n, type)                                                    \
	static ncclResult_t props_v##n(int dev, struct nccl_net_props_##type *p) \
	{                                                                        \
		memset(p, 0, sizeof(*p));                                        \
		NAME_AND_PLACE(p, dev);                                          \
		return ncclSuccess;                                              \
	}

DEFINE_PROPS(6, v6)
DEFINE_PROPS(7, v7)
DEFINE_PROPS(8, v8)
DEFINE_PROPS(9, v9)
DEFINE_PROPS(11, v11)
DEFINE_PROPS(12, v12)

#define DEFINE_INIT(n)                                       \
	static ncclResult_t init_v##n(ncclDebugLogger_t log) \
	{                                                    \
		return fake_init(n, log);                    \
	}

DEFINE_INIT(6)
DEFINE_INIT(7)
DEFINE_INIT(8)
DEFINE_INIT(9)

static ncclResult_t init_v10(ncclDebugLogger_t log, ncclProfilerCallback_t prof)
{
	(void)prof;
	return fake_init(10, log);
}

/* A context that must be finalized, so that a leak check sees a driver that forgets to. */
static ncclResult_t init_ctx(int abi, void **ctx, ncclDebugLogger_t log)
{
	ncclResult_t result = fake_init(abi, log);
	int *mine;

	if (result != ncclSuccess)
		return result;
	mine = malloc(sizeof(*mine));
	*mine = abi;
	*ctx = mine;
	return ncclSuccess;
}

#define DEFINE_INIT_CTX(n)                                                                        \
	static ncclResult_t init_v##n(void **ctx, uint64_t id, struct nccl_net_comm_config *conf, \
				      ncclDebugLogger_t log, ncclProfilerCallback_t prof)         \
	{                                                                                         \
		(void)id;                                                                         \
		(void)conf;                                                                       \
		(void)prof;                                                                       \
		return init_ctx(n, ctx, log);                                                     \
	}

DEFINE_INIT_CTX(11)
DEFINE_INIT_CTX(12)

static ncclResult_t finalize_ctx(void *ctx)
{
	free(ctx);
	return ncclSuccess;
}

static ncclResult_t listen_ctx(void *ctx, int dev, void *handle, void **comm)
{
	return ctx != NULL ? fake_listen(dev, handle, comm) : ncclInternalError;
}

static ncclResult_t connect_plain(int dev, void *handle, void **comm)
{
	(void)dev;
	return fake_connect(handle, comm);
}

static ncclResult_t connect_dev(int dev, void *handle, void **comm,
				struct nccl_net_device_handle **dev_comm)
{
	(void)dev;
	*dev_comm = NULL;
	return fake_connect(handle, comm);
}

static ncclResult_t connect_config(int dev, struct nccl_net_comm_config *config, void *handle,
				   void **comm, struct nccl_net_device_handle **dev_comm)
{
	return config != NULL ? connect_dev(dev, handle, comm, dev_comm) : ncclInternalError;
}

static ncclResult_t connect_ctx(void *ctx, int dev, void *handle, void **comm,
				struct nccl_net_device_handle **dev_comm)
{
	return ctx != NULL ? connect_dev(dev, handle, comm, dev_comm) : ncclInternalError;
}

static ncclResult_t accept_dev(void *listen_comm, void **comm,
			       struct nccl_net_device_handle **dev_comm)
{
	*dev_comm = NULL;
	return fake_accept(listen_comm, comm);
}

static ncclResult_t isend_int(void *comm, void *data, int size, int tag, void *mhandle, void **req)
{
	return mhandle != NULL ? fake_isend(comm, data, (size_t)size, tag, req)
			       : ncclInvalidArgument;
}

static ncclResult_t isend_size(void *comm, void *data, size_t size, int tag, void *mhandle,
			       void **req)
{
	return mhandle != NULL ? fake_isend(comm, data, size, tag, req) : ncclInvalidArgument;
}

static ncclResult_t isend_prof(void *comm, void *data, size_t size, int tag, void *mhandle,
			       void *phandle, void **req)
{
	(void)phandle;
	return isend_size(comm, data, size, tag, mhandle, req);
}

static ncclResult_t irecv_int(void *comm, int n, void **data, int *sizes, int *tags,
			      void **mhandles, void **req)
{
	size_t wide[MEMBERS_MAX];

	for (int i = 0; i < n && i < MEMBERS_MAX; i++)
		wide[i] = (size_t)sizes[i];
	/* The hint is for v9 and later. */
	if (*req != NULL || mhandles[0] == NULL)
		return ncclInvalidArgument;
	return fake_irecv(comm, n, data, wide, tags, req);
}

static ncclResult_t irecv_size(void *comm, int n, void **data, size_t *sizes, int *tags,
			       void **mhandles, void **req)
{
	if ((*req != NULL && *req != NCCL_NET_OPTIONAL_RECV) || mhandles[0] == NULL)
		return ncclInvalidArgument;
	return fake_irecv(comm, n, data, sizes, tags, req);
}

static ncclResult_t irecv_prof(void *comm, int n, void **data, size_t *sizes, int *tags,
			       void **mhandles, void **phandles, void **req)
{
	(void)phandles;
	return irecv_size(comm, n, data, sizes, tags, mhandles, req);
}

#define COMMON(n)                                                                          \
	.name = "Fake", .init = init_v##n, .devices = fake_devices, .deregMr = fake_dereg, \
	.iflush = fake_iflush, .test = fake_test, .closeSend = fake_close,                 \
	.closeRecv = fake_close, .closeListen = fake_close_listen

const struct nccl_net_v6 ncclNetPlugin_v6 = {
	COMMON(6),
	.getProperties = props_v6,
	.listen = fake_listen,
	.connect = connect_plain,
	.accept = fake_accept,
	.regMr = fake_reg_int,
	.isend = isend_int,
	.irecv = irecv_int,
};
const struct nccl_net_v7 ncclNetPlugin_v7 = {
	COMMON(7),
	.getProperties = props_v7,
	.listen = fake_listen,
	.connect = connect_dev,
	.accept = accept_dev,
	.regMr = fake_reg_int,
	.isend = isend_int,
	.irecv = irecv_int,
	.irecvConsumed = fake_consumed,
};
const struct nccl_net_v8 ncclNetPlugin_v8 = {
	COMMON(8),
	.getProperties = props_v8,
	.listen = fake_listen,
	.connect = connect_dev,
	.accept = accept_dev,
	.regMr = fake_reg_size,
	.isend = isend_int,
	.irecv = irecv_int,
};
const struct nccl_net_v9 ncclNetPlugin_v9 = {
	COMMON(9),
	.getProperties = props_v9,
	.listen = fake_listen,
	.connect = connect_dev,
	.accept = accept_dev,
	.regMr = fake_reg_size,
	.isend = isend_size,
	.irecv = irecv_size,
};
const struct nccl_net_v10 ncclNetPlugin_v10 = {
	COMMON(10),
	.getProperties = props_v9,
	.listen = fake_listen,
	.connect = connect_config,
	.accept = accept_dev,
	.regMr = fake_reg_size,
	.isend = isend_prof,
	.irecv = irecv_prof,
};
const struct nccl_net_v11 ncclNetPlugin_v11 = {
	COMMON(11),
	.getProperties = props_v11,
	.listen = listen_ctx,
	.connect = connect_ctx,
	.accept = accept_dev,
	.regMr = fake_reg_size,
	.isend = isend_prof,
	.irecv = irecv_prof,
	.finalize = finalize_ctx,
};
const struct nccl_net_v12 ncclNetPlugin_v12 = {
	COMMON(12),
	.getProperties = props_v12,
	.listen = listen_ctx,
	.connect = connect_ctx,
	.accept = accept_dev,
	.regMr = fake_reg_size,
	.isend = isend_prof,
	.irecv = irecv_prof,
	.finalize = finalize_ctx,
};
