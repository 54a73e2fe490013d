/*
 * test_explain.c - refused verbs calls: what the line says, and that its numbers are those of the
 * machine.
 */
#include "ib/explain.h"

#include "ib/conn.h"
#include "ib/context.h"
#include "ib/mr.h"
#include "ib/place.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/rig.h"
#include "tests/unit/ib/tree.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum call {
	REG,
	REG_DMABUF,
	CREATE_CQ,
	CREATE_QP,
	TO_INIT,
	TO_RTR,
	OPEN,
};

/* How the machine differs from one without any limit. */
struct refusal {
	enum call call;
	int error;
	uint64_t mib;             /* to be registered */
	const char *limit;        /* of pinned memory, bytes; NULL: unlimited */
	const char *pinned;       /* KiB; NULL: 0 */
	const char *caps;         /* NULL: none */
	const char *group;        /* line of /proc/self/cgroup */
	const char *group_folder; /* with the files of the two below */
	const char *rdma_max;
	const char *rdma_current;
	const char *bar;     /* of a GPU: line of its "resource" */
	uint32_t used;       /* objects of ours on the HCA */
	int pkeys_cnt;       /* of the port's table; the first holds nothing */
	uint16_t pkey;       /* NCCL_IB_PKEY */
	const char *gid_now; /* instead of the one that was chosen */
	const char *peer;
	const char *prefix; /* netmask of the port's own address */
	uint8_t peer_type;
	const char *line;
};

static const struct refusal *machine;

#define NONE ": Cannot allocate memory\n"

static const struct refusal refusals[] = {
	/* Pinned memory. */
	{.call = REG,
	 .error = ENOMEM,
	 .mib = 64,
	 .limit = "8388608",
	 .pinned = "1024",
	 .line = "register 67108864 bytes at 0x10000000 on fake_0: Cannot allocate memory; this "
		 "process may pin 8192 KiB (ulimit -l) and has pinned 1024, this takes 65536 KiB "
		 "more: raise the limit to unlimited in limits.conf, the systemd unit "
		 "(LimitMEMLOCK) or the container (--ulimit memlock=-1), or add CAP_IPC_LOCK\n"},
	{.call = REG,
	 .error = ENOMEM,
	 .mib = 1,
	 .limit = "8388608",
	 .pinned = "1024",
	 .line = "may pin 8192 KiB and has pinned 1024, this takes 1024 KiB more, which fits, so "
		 "memory or a resource of the HCA is used up\n"},
	{.call = REG,
	 .error = ENOMEM,
	 .mib = 64,
	 .limit = "8388608",
	 .caps = "0000000000004000",
	 .line = "may pin memory without limit by CAP_IPC_LOCK (it has pinned 0 KiB, this takes "
		 "65536 KiB more), so memory or a resource of the HCA is used up\n"},
	{.call = REG,
	 .error = ENOMEM,
	 .mib = 64,
	 .pinned = "77",
	 .line = "may pin memory without limit (it has pinned 77 KiB, this takes 65536 KiB more)"},
	{.call = CREATE_QP,
	 .error = ENOMEM,
	 .limit = "65536",
	 .line = "the device allows 8192): Cannot allocate memory; this process may pin 64 KiB "
		 "(ulimit -l) and has pinned 0: raise the limit"},
	/* What the HCA has. */
	{.call = REG,
	 .error = ENOMEM,
	 .mib = 1,
	 .used = 1 << 20,
	 .line = "this process has 1048576 of the 4096 registrations of fake_0"},
	{.call = CREATE_CQ,
	 .error = ENOMEM,
	 .used = 1024,
	 .line = "this process has 1024 of the 1024 completion queues of fake_0: use fewer "
		 "channels or more HCAs\n"},
	{.call = CREATE_QP,
	 .error = ENOMEM,
	 .used = 1 << 20,
	 .line = "queue pairs of fake_0: use fewer channels or more HCAs\n"},
	/* A GPU's window. */
	{.call = REG_DMABUF,
	 .error = ENOMEM,
	 .mib = 300,
	 .limit = "8388608",
	 .bar = "0x0000000010000000 0x0000000010ffffff 0x40200\n"
		"0x00000000a0000000 0x00000000afffffff 0x14220c\n",
	 .line = "(DMA-BUF) on fake_0: Cannot allocate memory; an HCA reaches a GPU's memory "
		 "through its BAR1, which has 256 MiB on the smallest GPU here, and this takes 300 "
		 "MiB: it is too small\n"},
	{.call = REG_DMABUF,
	 .error = ENOMEM,
	 .mib = 200,
	 .bar = "0x00000000a0000000 0x00000000afffffff 0x14220c\n",
	 .line = "256 MiB on the smallest GPU here, and this takes 200 MiB; `nvidia-smi -q -d "
		 "MEMORY` shows how much of it is free\n"},
	{.call = REG_DMABUF, .error = ENOMEM, .mib = 1, .line = "may pin memory without limit"},
	{.call = REG_DMABUF,
	 .error = EOPNOTSUPP,
	 .mib = 1,
	 .line = "cannot register DMA-BUFs (needs libibverbs of rdma-core 34"},
	{.call = REG_DMABUF, .error = EFAULT, .mib = 1, .line = "offset or size do not fit"},
	{.call = REG, .error = EFAULT, .mib = 1, .line = "the range is not mapped"},
	{.call = REG, .error = EINVAL, .mib = 1, .line = "NCCL_IB_PCI_RELAXED_ORDERING=0 drops"},
	{.call = REG, .error = EPERM, .mib = 1, .line = "not writable by this process"},
	/* A cgroup. */
	{.call = CREATE_QP,
	 .error = EAGAIN,
	 .group = "0::/jobs/7\n",
	 .group_folder = "/sys/fs/cgroup/jobs",
	 .rdma_max = "fake_1 hca_handle=1 hca_object=2\nfake_0 hca_handle=max hca_object=100\n",
	 .rdma_current = "fake_1 hca_handle=1 hca_object=1\nfake_0 hca_handle=1 hca_object=100\n",
	 .line = "the cgroup of this job allows 100 verbs objects on fake_0 and 100 are in use: "
		 "raise hca_object in /sys/fs/cgroup/jobs/rdma.max\n"},
	{.call = CREATE_CQ,
	 .error = EAGAIN,
	 .group = "3:cpu:/\n12:rdma:/job\n0::/other\n",
	 .group_folder = "/sys/fs/cgroup/rdma/job",
	 .rdma_max = "fake_0 hca_handle=2 hca_object=9",
	 .rdma_current = "fake_0 hca_handle=1 hca_object=9",
	 .line = "allows 9 verbs objects on fake_0 and 9 are in use: raise hca_object in "
		 "/sys/fs/cgroup/rdma/job/rdma.max\n"},
	{.call = REG,
	 .error = ENOMEM,
	 .mib = 64,
	 .limit = "8388608",
	 .group = "0::/job\n",
	 .group_folder = "/sys/fs/cgroup/job",
	 .rdma_max = "fake_0 hca_handle=max hca_object=max\n",
	 .rdma_current = "fake_0 hca_handle=1 hca_object=100\n",
	 .line = "this process may pin 8192 KiB"},
	{.call = OPEN,
	 .error = EAGAIN,
	 .group = "0::/job\n",
	 .group_folder = "/sys/fs/cgroup/job",
	 .rdma_max = "fake_0 hca_handle=2 hca_object=max\n",
	 .rdma_current = "fake_0 hca_handle=2 hca_object=0\n",
	 .line = "1 HCA fake_0 is left out: opening it: Resource temporarily unavailable; the "
		 "cgroup of this job allows it to be open 2 times and it is 2 times: raise "
		 "hca_handle in /sys/fs/cgroup/job/rdma.max\n"},
	{.call = OPEN,
	 .error = ENOMEM,
	 .limit = "65536",
	 .line = "1 HCA fake_0 is left out: opening it: Cannot allocate memory; this process may "
		 "pin 64 KiB (ulimit -l) and has pinned 0: raise the limit"},
	{.call = OPEN, .error = EAGAIN, .line = "opening it: Resource temporarily unavailable\n"},
	/* P_Keys. */
	{.call = TO_INIT,
	 .error = EINVAL,
	 .pkeys_cnt = 1,
	 .pkey = 7,
	 .line = "modify to INIT: Invalid argument; P_Key index 7 is past the port's table of 1: "
		 "NCCL_IB_PKEY is an index, not a key\n"},
	{.call = TO_INIT,
	 .error = EINVAL,
	 .pkeys_cnt = 1,
	 .line = "index 0 of the port's P_Key table of 1 holds 0x0000, no key: is the port a "
		 "member of a partition (NCCL_IB_PKEY)?\n"},
	{.call = TO_INIT,
	 .error = EINVAL,
	 .pkeys_cnt = 2,
	 .pkey = 1,
	 .line = "index 1 of the port's P_Key table of 2 holds 0x8001\n"},
	/* GIDs. */
	{.call = TO_RTR,
	 .error = ENODATA,
	 .gid_now = "::",
	 .peer = "192.0.2.9",
	 .line = "GID index 1 held 192.0.2.1 when it was chosen and holds :: now: addresses moved, "
		 "and the next connection looks again\n"},
	{.call = TO_RTR,
	 .error = EINVAL,
	 .gid_now = "::ffff:10.9.9.9",
	 .peer = "192.0.2.9",
	 .line = "held 192.0.2.1 when it was chosen and holds 10.9.9.9 now"},
	{.call = TO_RTR,
	 .error = ENODEV,
	 .peer = "192.0.2.9",
	 .line = "GID index 1 (192.0.2.1) is not valid on this port now: is its interface up?\n"},
	{.call = TO_RTR,
	 .error = ENODATA,
	 .peer = "192.0.2.9",
	 .line = "GID index 1 (192.0.2.1) is not valid on this port now"},
	{.call = TO_RTR,
	 .error = EINVAL,
	 .peer = "192.0.2.9",
	 .peer_type = 1,
	 .line = "the two ends use different RoCE versions"},
	{.call = TO_RTR,
	 .error = EINVAL,
	 .peer = "192.0.2.9",
	 .line = "the GIDs may not fit each other"},
	/* Rails. */
	{.call = TO_RTR,
	 .error = ETIMEDOUT,
	 .peer = "192.0.3.9",
	 .prefix = "255.255.255.0",
	 .line = "LID 0)"
		 "; the peer's 192.0.3.9 is not in the subnet 192.0.2.1/24 of eth7: is there a "
		 "route, or is it another rail (NCCL_CROSS_NIC=0 keeps rails apart)?\n"},
	{.call = TO_RTR,
	 .error = ENETUNREACH,
	 .peer = "192.0.3.9",
	 .prefix = "255.255.255.0",
	 .line = "Network is unreachable (fake_0 GID index 1 192.0.2.1 LID 0 to somebody qp 0x5 "
		 "GID 192.0.3.9 LID 0); the peer's 192.0.3.9 is not in the subnet 192.0.2.1/24"},
	{.call = TO_RTR,
	 .error = ETIMEDOUT,
	 .peer = "192.0.3.9",
	 .prefix = "255.255.0.0",
	 .line = "nobody answered for the peer's address 192.0.3.9 (ARP, neighbour discovery): is "
		 "it reachable from eth7, same VLAN, and is this GID the one meant"},
	{.call = TO_RTR,
	 .error = EHOSTUNREACH,
	 .peer = "192.0.3.9",
	 .line = "nobody answered for the peer's address 192.0.3.9"},
};

static bool is_first(const struct ibv_context *context)
{
	return strcmp(rig.verbs.get_device_name(context->device), "fake_0") == 0;
}

/* Does the machine refuse this call? */
static bool refuses(enum call call)
{
	if (machine == NULL || machine->call != call)
		return false;
	errno = machine->error;
	return true;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	return refuses(REG) ? NULL : sxt_fake_verbs()->reg_mr(pd, addr, bytes, access);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
				    int fd, int access)
{
	(void)pd;
	(void)offset;
	(void)bytes;
	(void)iova;
	(void)fd;
	(void)access;
	assert_true(refuses(REG_DMABUF));
	return NULL;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *user,
				struct ibv_comp_channel *channel, int vector)
{
	if (refuses(CREATE_CQ))
		return NULL;
	return sxt_fake_verbs()->create_cq(context, cqe, user, channel, vector);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return refuses(CREATE_QP) ? NULL : sxt_fake_verbs()->create_qp(pd, attr);
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if ((attr->qp_state == IBV_QPS_INIT && refuses(TO_INIT)) ||
	    (attr->qp_state == IBV_QPS_RTR && refuses(TO_RTR)))
		return machine->error;
	return sxt_fake_verbs()->modify_qp(qp, attr, mask);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	if (strcmp(rig.verbs.get_device_name(device), "fake_0") == 0 && refuses(OPEN))
		return NULL;
	return sxt_fake_verbs()->open_device(device);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	int rc = sxt_fake_verbs()->query_port(context, port, attr);

	if (machine != NULL && is_first(context))
		attr->pkey_tbl_len = (uint16_t)machine->pkeys_cnt;
	return rc;
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	(void)port;
	*pkey = htons(index == 0 ? 0 : 0x8001);
	return 0;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (machine == NULL || machine->gid_now == NULL)
		return sxt_fake_verbs()->query_gid(context, port, index, gid);
	assert_int_equal(inet_pton(AF_INET6, machine->gid_now, gid->raw), 1);
	return 0;
}

static struct sockaddr_in own_addr = {.sin_family = AF_INET};
static struct sockaddr_in own_mask = {.sin_family = AF_INET};
static struct ifaddrs own = {.ifa_name = (char *)(uintptr_t) "eth7",
			     .ifa_addr = (struct sockaddr *)&own_addr,
			     .ifa_netmask = (struct sockaddr *)&own_mask};

static int getifaddrs_of_machine(struct ifaddrs **out)
{
	if (machine == NULL)
		return sxt_sys_host.getifaddrs(out);
	if (machine->prefix == NULL)
		return -1;
	assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &own_addr.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET, machine->prefix, &own_mask.sin_addr), 1);
	*out = &own;
	return 0;
}

static void freeifaddrs_of_machine(struct ifaddrs *addrs)
{
	if (addrs != &own)
		sxt_sys_host.freeifaddrs(addrs);
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (text != NULL)
		tree_text(path, text);
}

static void make_tree(const struct refusal *refusal)
{
	char text[256];

	rig_set(&rig.config.sysroot, tree_open());
	snprintf(text, sizeof(text),
		 "Max processes             7                    7                    processes\n"
		 "Max locked memory         %-20s unlimited            bytes\n",
		 refusal->limit != NULL ? refusal->limit : "unlimited");
	tree_text("/proc/self/limits", text);
	snprintf(text, sizeof(text), "Name:\tx\nVmPin:\t%8s kB\nCapEff:\t%s\n",
		 refusal->pinned != NULL ? refusal->pinned : "0",
		 refusal->caps != NULL ? refusal->caps : "0000000000000000");
	tree_text("/proc/self/status", text);
	put("/proc/self", "cgroup", refusal->group);
	put(refusal->group_folder, "rdma.max", refusal->rdma_max);
	put(refusal->group_folder, "rdma.current", refusal->rdma_current);
	tree_text("/sys/class/infiniband/fake_0/ports/1/gid_attrs/ndevs/1", "eth7\n");
	/* A server's own display, which is no GPU. */
	put("/sys/bus/pci/devices/0000:03:00.0", "vendor", "0x1a03\n");
	put("/sys/bus/pci/devices/0000:03:00.0", "class", "0x030000\n");
	put("/sys/bus/pci/devices/0000:03:00.0", "resource", "0x1000 0x1fff 0x40200\n");
	if (refusal->bar == NULL)
		return;
	put("/sys/bus/pci/devices/0000:17:00.0", "vendor", "0x10de\n");
	put("/sys/bus/pci/devices/0000:17:00.0", "class", "0x030200\n");
	put("/sys/bus/pci/devices/0000:17:00.0", "resource", refusal->bar);
}

static int setup(void **state)
{
	rig_setup(state);
	machine = NULL;
	rig.verbs.reg_mr = reg_mr;
	rig.verbs.reg_mr_iova2 = NULL;
	rig.verbs.reg_dmabuf_mr = reg_dmabuf_mr;
	rig.verbs.create_cq = create_cq;
	rig.verbs.create_qp = create_qp;
	rig.verbs.modify_qp = modify_qp;
	rig.verbs.open_device = open_device;
	rig.verbs.query_port = query_port;
	rig.verbs.query_pkey = query_pkey;
	rig.verbs.query_gid = query_gid;
	rig.sys.getifaddrs = getifaddrs_of_machine;
	rig.sys.freeifaddrs = freeifaddrs_of_machine;
	return 0;
}

static int teardown(void **state)
{
	tree_close();
	return rig_teardown(state);
}

static void try_register(struct sxt_nic *nic)
{
	const struct sxt_mr_spec spec = {
		.addr = (void *)0x10000000,
		.bytes = machine->mib << 20,
		.dmabuf_fd = machine->call == REG_DMABUF ? 3 : -1,
	};
	struct sxt_mr *mr;

	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), -machine->error);
}

static void try_cq(struct sxt_port *port)
{
	struct sxt_context *ctx;
	struct sxt_cq *cq;

	assert_int_equal(sxt_context_create(rig.ibs[0], -1, &ctx), 0);
	assert_int_equal(sxt_context_cq_get(ctx, port, 64, 0, &cq), -machine->error);
	sxt_context_destroy(ctx);
}

static void try_qp(struct sxt_port *port)
{
	struct sxt_qp_spec spec = {.send_depth = 8, .recv_depth = 8};
	struct sxt_wire_path peer = {.qpn = 5, .link_layer = 2, .mtu = 3};
	struct sxt_port_place place;
	struct sxt_qp_route route = {.local = &place, .peer = &peer, .peer_name = "somebody"};
	struct ibv_qp *qp = NULL;
	const struct refusal *after = machine;

	assert_int_equal(sxt_verbs_create_cq(&rig.verbs, port->device->context, 64, NULL, &spec.cq),
			 0);
	if (machine->call != TO_RTR) {
		assert_int_equal(sxt_qp_create(port, &spec, &qp), -machine->error);
	} else {
		machine = NULL;
		assert_int_equal(rig_locate(port, &place), 0);
		assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
		machine = after;
		peer.gid_type = machine->peer_type != 0 ? machine->peer_type : place.path.gid_type;
		peer.gid[10] = peer.gid[11] = 0xff;
		assert_int_equal(inet_pton(AF_INET, machine->peer, peer.gid + 12), 1);
		assert_int_equal(sxt_qp_join(port, qp, &route), -machine->error);
		sxt_qp_destroy(port, qp);
	}
	assert_int_equal(rig.verbs.destroy_cq(spec.cq), 0);
}

static void each_refusal_names_its_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(refusals); i++) {
		struct sxt_port *port;

		rig_forget();
		make_tree(&refusals[i]);
		rig.config.ib_pkey = refusals[i].pkey;
		machine = refusals[i].call == OPEN ? &refusals[i] : NULL;
		assert_int_equal(rig_start(0, true), 0);
		port = rig.ibs[0]->ports[0];
		machine = &refusals[i];
		for (int kind = 0; kind < SXT_DEVICE_OBJECTS && machine->used != 0; kind++)
			port->device->objects[kind] = machine->used;
		if (machine->call == REG || machine->call == REG_DMABUF)
			try_register(rig.ibs[0]->nics[0]);
		else if (machine->call == CREATE_CQ)
			try_cq(port);
		else if (machine->call != OPEN)
			try_qp(port);
		machine = NULL;
		if (rig_logged(refusals[i].line) != 1) {

			fail_msg("row %zu: nothing logged with \"%s\"", i, refusals[i].line);
		}
		sxt_ib_destroy(rig.ibs[0]);
		rig.ibs[0] = NULL;
	}
}

static void what_is_made_is_counted(void **state)
{
	const struct sxt_mr_spec spec = {.addr = own_addr.sin_zero, .bytes = 8, .dmabuf_fd = -1};
	struct rig_link link;
	struct sxt_mr *mr;
	const struct sxt_device *device;

	(void)state;
	assert_int_equal(rig_start(0, true), 0);
	device = rig.ibs[0]->ports[0]->device;
	rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
	rig_join(&link);
	assert_int_equal(device->objects[SXT_DEVICE_QPS], 1);
	assert_int_equal(device->objects[SXT_DEVICE_CQS], 1);
	assert_int_not_equal(device->objects[SXT_DEVICE_MRS], 0);
	assert_int_equal(sxt_mr_get(link.send, &spec, &mr), 0);
	sxt_mr_put(link.send, mr);
	sxt_conn_close(link.send);
	sxt_conn_close(link.recv);
	for (int kind = 0; kind < SXT_DEVICE_OBJECTS; kind++)
		assert_int_equal(device->objects[kind], 0);
}

/* A half-readable /proc costs the numbers and nothing else. */
static void what_cannot_be_read_is_left_out(void **state)
{
	static const struct refusal refusal = {.call = REG, .error = ENOMEM, .mib = 1};
	static const char *const damaged[] = {"", "Max locked memory", "Max locked memory \n\xff"};

	(void)state;
	rig_set(&rig.config.sysroot, tree_open());
	assert_int_equal(rig_start(0, true), 0);
	machine = &refusal;
	try_register(rig.ibs[0]->nics[0]);
	for (size_t i = 0; i < SXT_ARRAY_LEN(damaged); i++) {
		tree_text("/proc/self/limits", damaged[i]);
		tree_text("/proc/self/status", damaged[i]);
		tree_text("/proc/self/cgroup", i == 0 ? "0::" : "0::/../..");
		try_register(rig.ibs[0]->nics[0]);
	}
	assert_int_equal(rig_logged("on fake_0" NONE), 4);
}

#define EXPLAIN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EXPLAIN_TEST(each_refusal_names_its_limit),
		EXPLAIN_TEST(what_is_made_is_counted),
		EXPLAIN_TEST(what_cannot_be_read_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
