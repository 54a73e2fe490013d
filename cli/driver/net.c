/*
 * net.c - loads a net plugin and sorts the functions of its table by their type (slow path).
 */
#include "cli/driver/net.h"

#include "core/dl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data symbols of one library, by version. */
struct tables {
	const void *of[SXT_DRV_ABI_MAX + 1];
};

#define TABLE_SYMBOL(n)                                                          \
	{                                                                        \
		offsetof(struct tables, of[n]), "ncclNetPlugin_v" #n, NULL, true \
	}

static const struct sxt_dl_symbol table_symbols[] = {
	TABLE_SYMBOL(6),  TABLE_SYMBOL(7),  TABLE_SYMBOL(8),  TABLE_SYMBOL(9),
	TABLE_SYMBOL(10), TABLE_SYMBOL(11), TABLE_SYMBOL(12), {0},
};

/* Members of one type in every version. */
#define BIND_COMMON(c, t)                             \
	do {                                          \
		(c)->devices = (t)->devices;          \
		(c)->dereg = (t)->deregMr;            \
		(c)->iflush = (t)->iflush;            \
		(c)->test = (t)->test;                \
		(c)->close_send = (t)->closeSend;     \
		(c)->close_recv = (t)->closeRecv;     \
		(c)->close_listen = (t)->closeListen; \
	} while (0)

/* Versions before v9 count in int. */
#define BIND_INT_SIZES(c, t)                 \
	do {                                 \
		(c)->isend_int = (t)->isend; \
		(c)->irecv_int = (t)->irecv; \
	} while (0)
/* v7 and later have device handles. */
#define BIND_DEVICE_HANDLES(c, t)                   \
	do {                                        \
		(c)->accept_dev = (t)->accept;      \
		(c)->consumed = (t)->irecvConsumed; \
	} while (0)
#define BIND_CONTEXT(c, t)                       \
	do {                                     \
		(c)->init_ctx = (t)->init;       \
		(c)->listen_ctx = (t)->listen;   \
		(c)->connect_ctx = (t)->connect; \
		(c)->reg_size = (t)->regMr;      \
		(c)->isend_prof = (t)->isend;    \
		(c)->irecv_prof = (t)->irecv;    \
		(c)->finalize = (t)->finalize;   \
		(c)->set_attr = (t)->setNetAttr; \
	} while (0)

static void bind_v6(struct sxt_drv_calls *c, const struct nccl_net_v6 *t)
{
	BIND_COMMON(c, t);
	BIND_INT_SIZES(c, t);
	c->listen_dev = t->listen;
	c->init_log = t->init;
	c->connect_plain = t->connect;
	c->accept_plain = t->accept;
	c->reg_int = t->regMr;
}

static void bind_v7(struct sxt_drv_calls *c, const struct nccl_net_v7 *t)
{
	BIND_COMMON(c, t);
	BIND_INT_SIZES(c, t);
	c->listen_dev = t->listen;
	BIND_DEVICE_HANDLES(c, t);
	c->init_log = t->init;
	c->connect_dev = t->connect;
	c->reg_int = t->regMr;
}

static void bind_v8(struct sxt_drv_calls *c, const struct nccl_net_v8 *t)
{
	BIND_COMMON(c, t);
	BIND_INT_SIZES(c, t);
	c->listen_dev = t->listen;
	BIND_DEVICE_HANDLES(c, t);
	c->init_log = t->init;
	c->connect_dev = t->connect;
	c->reg_size = t->regMr;
}

static void bind_v9(struct sxt_drv_calls *c, const struct nccl_net_v9 *t)
{
	BIND_COMMON(c, t);
	c->make_vdev_v9 = t->makeVDevice;
	c->listen_dev = t->listen;
	BIND_DEVICE_HANDLES(c, t);
	c->init_log = t->init;
	c->connect_dev = t->connect;
	c->reg_size = t->regMr;
	c->isend_size = t->isend;
	c->irecv_size = t->irecv;
}

static void bind_v10(struct sxt_drv_calls *c, const struct nccl_net_v10 *t)
{
	BIND_COMMON(c, t);
	c->make_vdev_v9 = t->makeVDevice;
	c->listen_dev = t->listen;
	BIND_DEVICE_HANDLES(c, t);
	c->init_prof = t->init;
	c->connect_config = t->connect;
	c->reg_size = t->regMr;
	c->isend_prof = t->isend;
	c->irecv_prof = t->irecv;
}

static void bind_v11(struct sxt_drv_calls *c, const struct nccl_net_v11 *t)
{
	BIND_COMMON(c, t);
	BIND_DEVICE_HANDLES(c, t);
	BIND_CONTEXT(c, t);
	c->make_vdev_v9 = t->makeVDevice;
}

static void bind_v12(struct sxt_drv_calls *c, const struct nccl_net_v12 *t)
{
	BIND_COMMON(c, t);
	BIND_DEVICE_HANDLES(c, t);
	BIND_CONTEXT(c, t);
	c->make_vdev_v12 = t->makeVDevice;
}

static void bind_table(const struct sxt_drv_net *net, struct sxt_drv_calls *calls)
{
	switch (net->abi) {
	case 6:
		bind_v6(calls, net->table);
		break;
	case 7:
		bind_v7(calls, net->table);
		break;
	case 8:
		bind_v8(calls, net->table);
		break;
	case 9:
		bind_v9(calls, net->table);
		break;
	case 10:
		bind_v10(calls, net->table);
		break;
	case 11:
		bind_v11(calls, net->table);
		break;
	default:
		bind_v12(calls, net->table);
		break;
	}
}

void sxt_drv_net_bind_anew(struct sxt_drv_net *net)
{
	struct sxt_drv_calls fresh = {0};

	pthread_mutex_lock(&net->bind_lock);
	if (!net->is_bound_anew) {
		bind_table(net, &fresh);
		net->calls.isend_int = fresh.isend_int;
		net->calls.isend_size = fresh.isend_size;
		net->calls.isend_prof = fresh.isend_prof;
		net->calls.irecv_int = fresh.irecv_int;
		net->calls.irecv_size = fresh.irecv_size;
		net->calls.irecv_prof = fresh.irecv_prof;
		net->calls.test = fresh.test;
		net->is_bound_anew = true;
	}
	pthread_mutex_unlock(&net->bind_lock);
}

const char *sxt_drv_net_missing(const struct sxt_drv_net *net)
{
	const struct sxt_drv_calls *c = &net->calls;
	const struct {
		const char *name;
		bool there;
	} members[] = {
		{"name", net->name != NULL},
		{"init", c->init_log != NULL || c->init_prof != NULL || c->init_ctx != NULL},
		{"devices", c->devices != NULL},
		{"getProperties", ((const struct nccl_net_v12 *)net->table)->getProperties != NULL},
		{"listen", c->listen_dev != NULL || c->listen_ctx != NULL},
		{"connect", c->connect_plain != NULL || c->connect_dev != NULL ||
				    c->connect_config != NULL || c->connect_ctx != NULL},
		{"accept", c->accept_plain != NULL || c->accept_dev != NULL},
		{"regMr", c->reg_int != NULL || c->reg_size != NULL},
		{"deregMr", c->dereg != NULL},
		{"isend", c->isend_int != NULL || c->isend_size != NULL || c->isend_prof != NULL},
		{"irecv", c->irecv_int != NULL || c->irecv_size != NULL || c->irecv_prof != NULL},
		{"iflush", c->iflush != NULL},
		{"test", c->test != NULL},
		{"closeSend", c->close_send != NULL},
		{"closeRecv", c->close_recv != NULL},
		{"closeListen", c->close_listen != NULL},
		{"finalize", net->abi < 11 || c->finalize != NULL},
	};

	for (size_t i = 0; i < SXT_ARRAY_LEN(members); i++) {
		if (!members[i].there)
			return members[i].name;
	}
	return NULL;
}

/* NCCL tries no other name for these. */
static bool is_file_name(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') != NULL ||
	       (strncmp(name, "lib", 3) == 0 && len > 6 && strcmp(name + len - 3, ".so") == 0);
}

static int open_library(struct sxt_drv_net *net, const char *name, struct tables *tables, char *why,
			size_t why_bytes)
{
	int rc;

	snprintf(net->file, sizeof(net->file), "%s", name);
	rc = sxt_dl_open(net->file, table_symbols, tables, &net->library, why, why_bytes);
	if (rc == 0 || is_file_name(name))
		return rc;
	snprintf(net->file, sizeof(net->file), "libnccl-net-%s.so", name);
	if (sxt_dl_open(net->file, table_symbols, tables, &net->library, why, why_bytes) == 0)
		return 0;
	snprintf(why, why_bytes, "neither '%s' nor 'libnccl-net-%s.so' is found by the loader",
		 name, name);
	return rc;
}

static int pick_table(struct sxt_drv_net *net, int abi, const struct tables *tables, char *why,
		      size_t why_bytes)
{
	int newest = 0;
	int used = snprintf(why, why_bytes, "%s has no ncclNetPlugin_v%d; it has", net->file, abi);

	for (int n = SXT_DRV_ABI_MIN; n <= SXT_DRV_ABI_MAX; n++) {
		if (tables->of[n] == NULL)
			continue;
		newest = n;
		net->abis |= 1u << n;
		if (used > 0 && (size_t)used < why_bytes)
			used += snprintf(why + used, why_bytes - (size_t)used, " v%d", n);
	}
	if (newest == 0) {
		snprintf(why, why_bytes,
			 "%s has no symbol ncclNetPlugin_v6 to _v12: it is no NCCL net plugin",
			 net->file);
		return -ENOSYS;
	}
	net->abi = abi != 0 ? abi : newest;
	net->table = tables->of[net->abi];
	return net->table != NULL ? 0 : -ENOSYS;
}

int sxt_drv_net_load(const char *name, int abi, struct sxt_drv_net **out, char *why,
		     size_t why_bytes)
{
	struct tables tables = {0};
	struct sxt_drv_net *net = calloc(1, sizeof(*net));
	int rc;

	if (net == NULL) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	rc = open_library(net, name, &tables, why, why_bytes);
	if (rc == 0)
		rc = pick_table(net, abi, &tables, why, why_bytes);
	if (rc != 0) {
		sxt_drv_net_close(net);
		return rc;
	}
	net->config.trafficClass = NCCL_NET_UNDEFINED;
	/* The name is the first member of every version. */
	net->name = *(const char *const *)net->table;
	bind_table(net, &net->calls);
	pthread_mutex_init(&net->bind_lock, NULL);
	*out = net;
	return 0;
}

int sxt_drv_net_open(const char *name, int abi, struct sxt_drv_net **out, char *why,
		     size_t why_bytes)
{
	struct sxt_drv_net *net = NULL;
	const char *missing;
	int rc = sxt_drv_net_load(name, abi, &net, why, why_bytes);

	if (rc != 0)
		return rc;
	missing = sxt_drv_net_missing(net);
	if (missing != NULL) {
		snprintf(why, why_bytes, "%s: ncclNetPlugin_v%d.%s is NULL, and NCCL would use it",
			 net->file, net->abi, missing);
		sxt_drv_net_close(net);
		return -EINVAL;
	}
	*out = net;
	return 0;
}

void sxt_drv_net_close(struct sxt_drv_net *net)
{
	if (net == NULL)
		return;
	sxt_dl_close(net->library);
	pthread_mutex_destroy(&net->bind_lock);
	free(net);
}

const char *sxt_drv_result_name(ncclResult_t result)
{
	static const char *const names[] = {
		"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
		"ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
		"ncclRemoteError",   "ncclInProgress",         "ncclTimeout",
	};

	if ((unsigned int)result < SXT_ARRAY_LEN(names))
		return names[result];
	return "ncclResult_t out of range";
}
