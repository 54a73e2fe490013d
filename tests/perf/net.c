/*
 * net.c - loading the plugin, connecting, and the calls of the data path with their answers
 * checked. One thread; nothing of the C library is called where messages are counted.
 */
#include "tests/perf/net.h"

#include "tests/fake/quick.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define POLLS_MAX 5000
#define TESTS_MAX 1000
#define PAUSE_NS  2000000

static _Alignas(4096) char from_memory[NET_LARGE_BYTES];
static _Alignas(4096) char to_memory[NET_LARGE_BYTES];

_Noreturn void net_die(const char *what, int result)
{
	fprintf(stderr, "%s failed (result %d)\n", what, result);
	exit(2);
}

static void check(const char *what, ncclResult_t result)
{
	if (SXT_UNLIKELY(result != ncclSuccess))
		net_die(what, (int)result);
}

static SXT_PRINTF(5, 6) void hear(int level, unsigned long flags, const char *file, int line,
				  const char *fmt, ...)
{
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	if (level != NCCL_LOG_WARN)
		return;
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

void net_open(struct net *net, const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int devices_cnt = 0;

	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		net_die("dlopen", 0);
	}
	net->table = dlsym(library, "ncclNetPlugin_v12");
	if (net->table == NULL)
		net_die("dlsym of ncclNetPlugin_v12", 0);
	check("init", net->table->init(&net->send_ctx, 1, NULL, hear, NULL));
	check("init", net->table->init(&net->recv_ctx, 1, NULL, hear, NULL));
	check("devices", net->table->devices(&devices_cnt));
	if (devices_cnt < SXT_QUICK_DEVICES)
		net_die("finding the verbs library's ports", 0);
}

int net_merge(const struct net *net, int ports_cnt)
{
	struct nccl_net_vdev_props_v12 props = {.ndevs = ports_cnt};
	int dev = -1;

	if (net->table->makeVDevice == NULL)
		return -1;
	for (int i = 0; i < ports_cnt; i++)
		props.devs[i] = i;
	check("makeVDevice", net->table->makeVDevice(&dev, &props));
	return dev;
}

static int64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return (int64_t)(info.uordblks + info.hblkhd);
}

static int64_t registered_bytes(void)
{
	struct sxt_quick_counts counts;

	sxt_quick_counts(&counts);
	return (int64_t)counts.registered_bytes;
}

static void pause_polling(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	nanosleep(&pause, NULL);
}

/* What one call made memory grow by; asking is not free, so only where it is wanted. */
struct gauge {
	int64_t heap;
	int64_t registered;
};

static struct gauge gauge_start(const struct net_growth *growth)
{
	if (growth == NULL)
		return (struct gauge){0};
	return (struct gauge){.heap = heap_bytes(), .registered = registered_bytes()};
}

static void poll_connect(const struct net *net, int dev, void *handle, struct net_pair *pair,
			 struct net_growth *growth)
{
	struct gauge before = gauge_start(growth);

	check("connect", net->table->connect(net->send_ctx, dev, handle, &pair->send, NULL));
	if (growth == NULL)
		return;
	growth->send_heap += heap_bytes() - before.heap;
	growth->send_registered += registered_bytes() - before.registered;
}

static void poll_accept(const struct net *net, void *listen_comm, struct net_pair *pair,
			struct net_growth *growth)
{
	struct gauge before = gauge_start(growth);

	check("accept", net->table->accept(listen_comm, &pair->recv, NULL));
	if (growth == NULL)
		return;
	growth->recv_heap += heap_bytes() - before.heap;
	growth->recv_registered += registered_bytes() - before.registered;
}

void net_connect(const struct net *net, int dev, struct net_pair *pair, struct net_growth *growth)
{
	char handle[NCCL_NET_HANDLE_BYTES] = {0};
	void *listen_comm = NULL;

	*pair = (struct net_pair){.table = net->table};
	check("listen", net->table->listen(net->recv_ctx, dev, handle, &listen_comm));
	for (int i = 0; i < POLLS_MAX && (pair->send == NULL || pair->recv == NULL); i++) {
		if (pair->send == NULL)
			poll_connect(net, dev, handle, pair, growth);
		pause_polling();
		if (pair->recv == NULL)
			poll_accept(net, listen_comm, pair, growth);
		pause_polling();
	}
	if (pair->send == NULL || pair->recv == NULL)
		net_die("connecting in time", 0);
	check("closeListen", net->table->closeListen(listen_comm));
}

void net_register(struct net_pair *pair)
{
	pair->from = from_memory;
	pair->to = to_memory;
	check("regMr", pair->table->regMr(pair->send, pair->from, NET_LARGE_BYTES, NCCL_PTR_HOST,
					  &pair->send_mr));
	check("regMr", pair->table->regMr(pair->recv, pair->to, NET_LARGE_BYTES, NCCL_PTR_HOST,
					  &pair->recv_mr));
}

void net_close(struct net_pair *pair)
{
	if (pair->send_mr != NULL)
		check("deregMr", pair->table->deregMr(pair->send, pair->send_mr));
	if (pair->recv_mr != NULL)
		check("deregMr", pair->table->deregMr(pair->recv, pair->recv_mr));
	check("closeSend", pair->table->closeSend(pair->send));
	check("closeRecv", pair->table->closeRecv(pair->recv));
}

void *net_irecv(struct net_pair *pair, int cnt, size_t bytes, bool optional)
{
	void *request = optional ? NCCL_NET_OPTIONAL_RECV : NULL;
	void *mrs[NET_GROUP];
	void *data[NET_GROUP];
	size_t sizes[NET_GROUP];
	int tags[NET_GROUP];

	for (int i = 0; i < cnt; i++) {
		mrs[i] = pair->recv_mr;
		data[i] = pair->to + (size_t)i * bytes;
		sizes[i] = bytes;
		tags[i] = i;
	}
	check("irecv", pair->table->irecv(pair->recv, cnt, data, sizes, tags, mrs, NULL, &request));
	if (SXT_UNLIKELY(request == NULL))
		net_die("irecv with room for it", 0);
	return request;
}

void *net_isend(struct net_pair *pair, size_t bytes, int tag)
{
	void *request = NULL;

	check("isend", pair->table->isend(pair->send, pair->from + (size_t)tag * bytes, bytes, tag,
					  pair->send_mr, NULL, &request));
	if (SXT_UNLIKELY(request == NULL))
		net_die("isend with a receive for it", 0);
	return request;
}

void net_wait(const struct net_pair *pair, void *request, int bytes)
{
	int sizes[NET_GROUP];
	int done = 0;

	sizes[0] = 0;
	for (int i = 0; i < TESTS_MAX && done == 0; i++)
		check("test", pair->table->test(request, &done, sizes));
	if (SXT_UNLIKELY(done == 0))
		net_die("completing a message", 0);
	if (SXT_UNLIKELY(bytes >= 0 && sizes[0] != bytes))
		net_die("telling a message's size", 0);
}
