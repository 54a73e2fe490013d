/*
 * connect.c - the fake net plugin's connections and registrations, from listen to close.
 */
#include "tests/fake/net/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO 0x66616b65686579ull

struct connecting;

/* NCCL's 128 bytes: what listen says, and connect's memory. */
struct handle {
	uint64_t magic;
	uint64_t home; /* where listen wrote it */
	socklen_t len; /* of the name */
	char name[16]; /* the kernel chooses abstract ones of 6 bytes */
	struct connecting *connecting;
};
_Static_assert(sizeof(struct handle) <= NCCL_NET_HANDLE_BYTES, "too large");

/* Polls, and attempts that are open at once, that a variant puts up with. */
#define PATIENCE     150
#define ATTEMPTS_MAX 3

static _Atomic int attempts_cnt;

struct listening {
	struct sxt_fake_object object;
	int fd;
	int accepted;
	int dev;
	unsigned int polls_cnt;
};

struct connecting {
	struct sxt_fake_object object;
	int fd;
	bool greeted;
	unsigned int polls_cnt;
	unsigned int attrs_cnt; /* of the context, at the first poll */
};

/* For the variant that gives the handle of a listen comm nobody has used yet once more. */
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listening *waiting;
static struct handle waiting_handle;

static bool is_unused(const struct listening *l)
{
	struct pollfd visitor = {.fd = l->fd, .events = POLLIN};

	return l->polls_cnt == 0 && poll(&visitor, 1, 0) == 0;
}

static void share_waiting(struct listening *l, struct handle *handle)
{
	pthread_mutex_lock(&waiting_lock);
	if (waiting != NULL && is_unused(waiting)) {
		close(l->fd);
		l->fd = fcntl(waiting->fd, F_DUPFD_CLOEXEC, 0);
		*handle = waiting_handle;
	}
	waiting = l;
	waiting_handle = *handle;
	pthread_mutex_unlock(&waiting_lock);
}

static void forget_waiting(const struct listening *l)
{
	pthread_mutex_lock(&waiting_lock);
	if (waiting == l)
		waiting = NULL;
	pthread_mutex_unlock(&waiting_lock);
}

static void destroy_listening(struct sxt_fake_object *object)
{
	struct listening *l = SXT_CONTAINER_OF(object, struct listening, object);

	forget_waiting(l);
	if (l->accepted >= 0)
		close(l->accepted);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static void destroy_connecting(struct sxt_fake_object *object)
{
	struct connecting *c = SXT_CONTAINER_OF(object, struct connecting, object);

	attempts_cnt--;
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static void destroy_comm(struct sxt_fake_object *object)
{
	struct sxt_fake_comm *comm = SXT_CONTAINER_OF(object, struct sxt_fake_comm, object);

	sxt_broken_forget(comm);
	close(comm->fd);
	free(comm);
}

static void destroy_mr(struct sxt_fake_object *object)
{
	free(SXT_CONTAINER_OF(object, struct sxt_fake_mr, object));
}

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static ncclResult_t check_device(int dev)
{
	struct sxt_fake_device device;

	return sxt_fake_device(dev, &device);
}

/* No name given: the kernel chooses one. */
static int listen_anywhere(int fd, struct sockaddr_un *addr, socklen_t *len)
{
	addr->sun_family = AF_UNIX;
	*len = sizeof(*addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, sizeof(sa_family_t)) != 0 ||
	    getsockname(fd, (struct sockaddr *)addr, len) != 0 || listen(fd, 1) != 0)
		return -errno;
	*len -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
	return *len <= sizeof(((struct handle *)NULL)->name) ? 0 : -ENAMETOOLONG;
}

ncclResult_t sxt_fake_listen(struct sxt_fake_ctx *ctx, int dev, void *opaque, void **out)
{
	struct handle *handle = opaque;
	struct listening *l;
	struct sockaddr_un addr;

	if (check_device(dev) != ncclSuccess)
		return ncclInvalidArgument;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return ncclSystemError;
	l->object.destroy = destroy_listening;
	l->accepted = -1;
	l->dev = dev;
	l->fd = open_socket();
	if (listen_anywhere(l->fd, &addr, &handle->len) != 0) {
		SXT_FAKE_WARN("fake: listen: %m");
		destroy_listening(&l->object);
		return ncclSystemError;
	}
	handle->magic = HELLO;
	handle->home = (uintptr_t)handle;
	memcpy(handle->name, addr.sun_path, handle->len);
	if (SXT_FAKE_BREAKS(listen_handle))
		share_waiting(l, handle);
	sxt_fake_object_add(&l->object, ctx);
	*out = l;
	return ncclSuccess;
}

/* @like: the object it comes from. */
static ncclResult_t make_comm(const struct sxt_fake_object *like, int fd, int dev, void **out)
{
	struct sxt_fake_comm *comm = calloc(1, sizeof(*comm));

	if (comm == NULL)
		return ncclSystemError;
	comm->object.destroy = destroy_comm;
	comm->fd = fd;
	comm->sender = like->destroy == destroy_connecting;
	comm->consumes = sxt_fake_abi() == 7;
	sxt_broken_made(comm, like, dev);
	sxt_fake_object_add(&comm->object, like->ctx);
	*out = comm;
	return ncclSuccess;
}

static ncclResult_t begin_connect(struct sxt_fake_ctx *ctx, struct connecting **out)
{
	struct connecting *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return ncclSystemError;
	attempts_cnt++;
	c->object.destroy = destroy_connecting;
	c->fd = open_socket();
	c->attrs_cnt = ctx != NULL ? ctx->attrs_cnt : 0;
	sxt_fake_object_add(&c->object, ctx);
	*out = c;
	return ncclSuccess;
}

static ncclResult_t greet(struct connecting *c, const struct handle *handle)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	uint64_t hello = HELLO;

	memcpy(addr.sun_path, handle->name, handle->len);
	if (connect(c->fd, (struct sockaddr *)&addr,
		    (socklen_t)offsetof(struct sockaddr_un, sun_path) + handle->len) != 0)
		return errno == EAGAIN ? ncclSuccess : ncclRemoteError;
	if (send(c->fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		return ncclRemoteError;
	c->greeted = true;
	return ncclSuccess;
}

/* Moves on by what is there already; *finished when the peer has answered. */
static ncclResult_t step_connect(struct connecting *c, const struct handle *handle, bool *finished)
{
	ncclResult_t result = c->greeted ? ncclSuccess : greet(c, handle);
	uint64_t hello;

	if (result != ncclSuccess || !c->greeted)
		return result;
	*finished = recv(c->fd, &hello, sizeof(hello), 0) == sizeof(hello);
	if (*finished || errno == EAGAIN)
		return ncclSuccess;
	SXT_FAKE_WARN("fake: the listener has gone");
	return ncclRemoteError;
}

/* Does a variant spoil this poll? */
static bool breaks_connect(struct connecting *c, const struct handle *handle)
{
	c->polls_cnt++;
	if (SXT_FAKE_BREAKS(connect_first) && c->polls_cnt == PATIENCE)
		return true;
	if (SXT_FAKE_BREAKS(connect_half_made) && attempts_cnt > ATTEMPTS_MAX)
		return true;
	if (SXT_FAKE_BREAKS(connect_handle_kept) && handle->home != (uintptr_t)handle)
		return true;
	return SXT_FAKE_BREAKS(attr_every_poll) && c->attrs_cnt != c->object.ctx->attrs_cnt;
}

ncclResult_t sxt_fake_connect(struct sxt_fake_ctx *ctx, int dev, void *opaque, void **out)
{
	struct handle *handle = opaque;
	struct connecting *c = handle->connecting;
	bool finished = false;
	ncclResult_t result;

	*out = NULL;
	if (sxt_fake_fault("connect", 0)) {
		SXT_FAKE_WARN("fake: connect fails as asked");
		return ncclRemoteError;
	}
	if (check_device(dev) != ncclSuccess || handle->magic != HELLO)
		return ncclInvalidArgument;
	if (c == NULL)
		return begin_connect(ctx, &handle->connecting);
	if (breaks_connect(c, handle))
		result = sxt_broken_refuse();
	else
		result = step_connect(c, handle, &finished);
	if (finished)
		result = make_comm(&c->object, c->fd, dev, out);
	if (finished && result == ncclSuccess)
		c->fd = -1;
	if (finished || result != ncclSuccess) {
		sxt_fake_object_free(&c->object);
		handle->connecting = NULL;
	}
	return result;
}

ncclResult_t sxt_fake_accept(void *opaque, void **out)
{
	struct listening *l = opaque;
	ncclResult_t result;
	uint64_t hello;
	ssize_t got;

	*out = NULL;
	l->polls_cnt++;
	if (SXT_FAKE_BREAKS(accept_first) && l->polls_cnt == PATIENCE)
		return sxt_broken_refuse();
	if (l->accepted < 0)
		l->accepted = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (l->accepted < 0)
		return errno == EAGAIN ? ncclSuccess : ncclSystemError;
	got = recv(l->accepted, &hello, sizeof(hello), 0);
	if (got < 0 && errno == EAGAIN)
		return ncclSuccess;
	if (got != sizeof(hello) ||
	    send(l->accepted, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
		/* It gave up half-way; the next one may be the one that is meant. */
		close(l->accepted);
		l->accepted = -1;
		return ncclSuccess;
	}
	result = make_comm(&l->object, l->accepted, l->dev, out);
	if (result == ncclSuccess)
		l->accepted = -1;
	return result;
}

ncclResult_t sxt_fake_close_listen(void *opaque)
{
	struct listening *l = opaque;

	sxt_broken_listen_closed(l);
	sxt_fake_object_free(&l->object);
	return ncclSuccess;
}

ncclResult_t sxt_fake_close(void *opaque)
{
	struct sxt_fake_comm *comm = opaque;
	ncclResult_t result = sxt_broken_close(comm);

	sxt_fake_object_free(&comm->object);
	return result;
}

ncclResult_t sxt_fake_reg(void *opaque, void *data, size_t bytes, int type, void **out)
{
	struct sxt_fake_comm *comm = opaque;
	struct sxt_fake_mr *mr;
	ncclResult_t result = sxt_broken_reg(comm, data);

	if (result != ncclSuccess)
		return result;
	if (type != NCCL_PTR_HOST) {
		SXT_FAKE_WARN("fake: memory type %d is not host memory", type);
		return ncclInvalidArgument;
	}
	mr = calloc(1, sizeof(*mr));
	if (mr == NULL)
		return ncclSystemError;
	mr->object.destroy = destroy_mr;
	mr->data = data;
	mr->bytes = bytes;
	sxt_fake_object_add(&mr->object, comm->object.ctx);
	*out = mr;
	return SXT_FAKE_BREAKS(result_codes) ? ncclInProgress : ncclSuccess;
}

ncclResult_t sxt_fake_dereg(void *comm, void *mhandle)
{
	struct sxt_fake_mr *mr = mhandle;

	(void)comm;
	if (mr != NULL)
		sxt_fake_object_free(&mr->object);
	return ncclSuccess;
}
