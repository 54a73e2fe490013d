/*
 * connect.c - the fake net plugin's connections and registrations, from listen to close.
 */
#include "tests/fake/net/fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO 0x66616b65686579ull

/* What listen puts into NCCL's 128 bytes; the rest of them is connect's memory. */
struct handle {
	uint64_t magic;
	struct sockaddr_un addr; /* 110 bytes */
};
_Static_assert(sizeof(struct handle) + sizeof(void *) <= NCCL_NET_HANDLE_BYTES, "too large");

struct listening {
	struct sxt_fake_object object;
	int fd;
	int accepted;
};

struct connecting {
	struct sxt_fake_object object;
	int fd;
	bool greeted;
};

static void destroy_listening(struct sxt_fake_object *object)
{
	struct listening *l = SXT_CONTAINER_OF(object, struct listening, object);

	if (l->accepted >= 0)
		close(l->accepted);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static void destroy_connecting(struct sxt_fake_object *object)
{
	struct connecting *c = SXT_CONTAINER_OF(object, struct connecting, object);

	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static void destroy_comm(struct sxt_fake_object *object)
{
	struct sxt_fake_comm *comm = SXT_CONTAINER_OF(object, struct sxt_fake_comm, object);

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

ncclResult_t sxt_fake_listen(struct sxt_fake_ctx *ctx, int dev, void *opaque, void **out)
{
	struct handle *handle = opaque;
	struct listening *l;
	socklen_t len = sizeof(handle->addr);

	if (check_device(dev) != ncclSuccess)
		return ncclInvalidArgument;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return ncclSystemError;
	l->object.destroy = destroy_listening;
	l->accepted = -1;
	l->fd = open_socket();
	handle->addr.sun_family = AF_UNIX;
	/* No name given: the kernel chooses an abstract one. */
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&handle->addr, sizeof(sa_family_t)) != 0 ||
	    getsockname(l->fd, (struct sockaddr *)&handle->addr, &len) != 0 ||
	    listen(l->fd, 1) != 0) {
		SXT_FAKE_WARN("fake: listen: %m");
		destroy_listening(&l->object);
		return ncclSystemError;
	}
	handle->magic = HELLO + len;
	sxt_fake_object_add(&l->object, ctx);
	*out = l;
	return ncclSuccess;
}

static ncclResult_t make_comm(struct sxt_fake_ctx *ctx, int fd, bool sender, void **out)
{
	struct sxt_fake_comm *comm = calloc(1, sizeof(*comm));

	if (comm == NULL)
		return ncclSystemError;
	comm->object.destroy = destroy_comm;
	comm->fd = fd;
	comm->sender = sender;
	comm->consumes = sxt_fake_abi() == 7;
	sxt_fake_object_add(&comm->object, ctx);
	*out = comm;
	return ncclSuccess;
}

static ncclResult_t begin_connect(struct sxt_fake_ctx *ctx, struct connecting **out)
{
	struct connecting *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return ncclSystemError;
	c->object.destroy = destroy_connecting;
	c->fd = open_socket();
	sxt_fake_object_add(&c->object, ctx);
	*out = c;
	return ncclSuccess;
}

static ncclResult_t greet(struct connecting *c, const struct handle *handle)
{
	socklen_t len = (socklen_t)(handle->magic - HELLO);
	uint64_t hello = HELLO;

	if (connect(c->fd, (const struct sockaddr *)&handle->addr, len) != 0)
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
	return *finished || errno == EAGAIN ? ncclSuccess : ncclRemoteError;
}

ncclResult_t sxt_fake_connect(struct sxt_fake_ctx *ctx, int dev, void *opaque, void **out)
{
	struct connecting **state =
		(struct connecting **)((char *)opaque + NCCL_NET_HANDLE_BYTES - sizeof(void *));
	bool finished = false;
	ncclResult_t result;

	*out = NULL;
	if (sxt_fake_fault("connect", 0)) {
		SXT_FAKE_WARN("fake: connect fails as asked");
		return ncclRemoteError;
	}
	if (check_device(dev) != ncclSuccess)
		return ncclInvalidArgument;
	if (*state == NULL)
		return begin_connect(ctx, state);
	result = step_connect(*state, opaque, &finished);
	if (result != ncclSuccess)
		SXT_FAKE_WARN("fake: the listener has gone");
	if (result == ncclSuccess && finished) {
		result = make_comm(ctx, (*state)->fd, true, out);
		if (result == ncclSuccess)
			(*state)->fd = -1;
	}
	if (result != ncclSuccess || finished) {
		sxt_fake_object_free(&(*state)->object);
		*state = NULL;
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
	result = make_comm(l->object.ctx, l->accepted, false, out);
	if (result == ncclSuccess)
		l->accepted = -1;
	return result;
}

ncclResult_t sxt_fake_close_listen(void *opaque)
{
	struct listening *l = opaque;

	sxt_fake_object_free(&l->object);
	return ncclSuccess;
}

ncclResult_t sxt_fake_close(void *opaque)
{
	struct sxt_fake_comm *comm = opaque;

	sxt_fake_object_free(&comm->object);
	return ncclSuccess;
}

ncclResult_t sxt_fake_reg(void *opaque, void *data, size_t bytes, int type, void **out)
{
	struct sxt_fake_comm *comm = opaque;
	struct sxt_fake_mr *mr;

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
	return ncclSuccess;
}

ncclResult_t sxt_fake_dereg(void *comm, void *mhandle)
{
	struct sxt_fake_mr *mr = mhandle;

	(void)comm;
	if (mr != NULL)
		sxt_fake_object_free(&mr->object);
	return ncclSuccess;
}
