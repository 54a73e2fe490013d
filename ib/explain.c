/*
 * explain.c - refused verbs calls in words, with the numbers that prove it (slow path).
 */
#include "ib/explain.h"

#include "core/sys.h"
#include "ib/host.h"
#include "ib/place.h"
#include "ib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KIB 1024ull
#define MIB (1024ull * 1024)

static const char *root_of(const struct sxt_device *device)
{
	return device->ib->config->sysroot;
}

/* @bytes: wanted, 0 when that is not known. */
static void explain_pinned(const struct sxt_device *device, uint64_t bytes, char *out)
{
	struct sxt_host_pinned pinned;
	char wanted[64] = "";

	if (sxt_host_pinned_read(root_of(device), &pinned) != 0)
		return;
	if (bytes != 0)
		snprintf(wanted, sizeof(wanted), ", this takes %llu KiB more",
			 (unsigned long long)((bytes + KIB - 1) / KIB));
	if (pinned.limit_bytes == UINT64_MAX)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; this process may pin memory without limit%s (it has pinned %llu "
			 "KiB%s), so memory or a resource of the HCA is used up",
			 pinned.is_exempt ? " by CAP_IPC_LOCK" : "",
			 (unsigned long long)(pinned.used_bytes / KIB), wanted);
	else if (bytes != 0 && pinned.used_bytes + bytes <= pinned.limit_bytes)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; this process may pin %llu KiB and has pinned %llu%s, which fits, so "
			 "memory or a resource of the HCA is used up",
			 (unsigned long long)(pinned.limit_bytes / KIB),
			 (unsigned long long)(pinned.used_bytes / KIB), wanted);
	else
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; this process may pin %llu KiB (ulimit -l) and has pinned %llu%s: raise "
			 "the limit to unlimited in limits.conf, the systemd unit (LimitMEMLOCK) "
			 "or the container (--ulimit memlock=-1), or add CAP_IPC_LOCK",
			 (unsigned long long)(pinned.limit_bytes / KIB),
			 (unsigned long long)(pinned.used_bytes / KIB), wanted);
}

static bool explain_cgroup(const struct sxt_port *port, char *out)
{
	const char *name = port->device->name;
	struct sxt_host_cgroup group;

	if (sxt_host_cgroup_read(root_of(port->device), name, "hca_object", &group) != 0 ||
	    group.used < group.limit)
		return false;
	snprintf(out, SXT_EXPLAIN_BYTES,
		 "; the cgroup of this job allows %llu verbs objects on %s and %llu are in use: "
		 "raise hca_object in %s/rdma.max",
		 (unsigned long long)group.limit, name, (unsigned long long)group.used,
		 group.folder);
	return true;
}

static bool explain_count(const struct sxt_port *port, enum sxt_device_object kind, char *out)
{
	const struct sxt_device *device = port->device;
	const struct {
		const char *name;
		int most;
	} kinds[SXT_DEVICE_OBJECTS] = {
		[SXT_DEVICE_MRS] = {"registrations", device->attr.max_mr},
		[SXT_DEVICE_CQS] = {"completion queues", device->attr.max_cq},
		[SXT_DEVICE_QPS] = {"queue pairs", device->attr.max_qp},
	};
	uint32_t used = atomic_load_explicit(&device->objects[kind], memory_order_relaxed);

	if (kinds[kind].most <= 0 || used < (uint32_t)kinds[kind].most)
		return false;
	snprintf(out, SXT_EXPLAIN_BYTES,
		 "; this process has %u of the %d %s of %s: use fewer channels or more HCAs", used,
		 kinds[kind].most, kinds[kind].name, device->name);
	return true;
}

/* @bytes: to be pinned, 0 when that is not known. */
static void explain_no_room(const struct sxt_port *port, enum sxt_device_object kind,
			    uint64_t bytes, char *out)
{
	if (!explain_cgroup(port, out) && !explain_count(port, kind, out))
		explain_pinned(port->device, bytes, out);
}

/* A library that was refused looks elsewhere and then says "not there": ask the file itself. */
static int open_error(const char *file, int rc)
{
	if (rc == -ENOENT && faccessat(AT_FDCWD, file, R_OK | W_OK, AT_EACCESS) != 0 &&
	    (errno == EACCES || errno == EPERM))
		return -errno;
	return rc;
}

static void explain_handles(const struct sxt_device *device, char *out)
{
	struct sxt_host_cgroup group;

	if (sxt_host_cgroup_read(root_of(device), device->name, "hca_handle", &group) == 0)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; the cgroup of this job allows it to be open %llu times and it is %llu "
			 "times: raise hca_handle in %s/rdma.max",
			 (unsigned long long)group.limit, (unsigned long long)group.used,
			 group.folder);
}

int sxt_explain_open(const struct sxt_device *device, const struct ibv_device *from, int rc,
		     char *out)
{
	char file[sizeof("/dev/infiniband/") + sizeof(from->dev_name)];

	snprintf(file, sizeof(file), "/dev/infiniband/%.*s", (int)sizeof(from->dev_name) - 1,
		 from->dev_name[0] != '\0' ? from->dev_name : "uverbs*");
	rc = open_error(file, rc);
	out[0] = '\0';
	if (rc == -EACCES)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; this user may not open %s: allow it (udev rule, group, or in a "
			 "container --device=/dev/infiniband and the device cgroup)",
			 file);
	else if (rc == -EPERM)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; the device cgroup of this container keeps %s away: pass "
			 "--device=/dev/infiniband, or let the device plugin allot it",
			 file);
	else if (rc == -ENOENT || rc == -ENODEV || rc == -ENXIO)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; %s is not there, or the HCA belongs to another network namespace "
			 "(`rdma system`): pass it into the container, load ib_uverbs",
			 file);
	else if (rc == -ENOMEM)
		explain_pinned(device, 0, out);
	else if (rc == -EAGAIN)
		explain_handles(device, out);
	return rc;
}

static bool is_no_room(int rc)
{
	return rc == -ENOMEM || rc == -EAGAIN || rc == -ENOSPC;
}

/* A DMA-BUF is memory of a GPU, as a rule, whatever the limit of pinned memory. */
static bool explain_gpu(const struct sxt_port *port, uint64_t bytes, char *out)
{
	uint64_t bar;

	if (sxt_host_gpu_bar_read(root_of(port->device), &bar) != 0)
		return false;
	snprintf(out, SXT_EXPLAIN_BYTES,
		 "; an HCA reaches a GPU's memory through its BAR1, which has %llu MiB on the "
		 "smallest GPU here, and this takes %llu MiB%s",
		 (unsigned long long)(bar / MIB), (unsigned long long)((bytes + MIB - 1) / MIB),
		 bytes > bar ? ": it is too small"
			     : "; `nvidia-smi -q -d MEMORY` shows how much of it is free");
	return true;
}

void sxt_explain_register(const struct sxt_port *port, const struct sxt_verbs_region *region,
			  int rc, char *out)
{
	bool is_dmabuf = region->dmabuf_fd >= 0;

	out[0] = '\0';
	if (is_no_room(rc)) {
		if (!is_dmabuf || !explain_gpu(port, region->bytes, out))
			explain_no_room(port, SXT_DEVICE_MRS, region->bytes, out);
	} else if (rc == -EFAULT && is_dmabuf) {
		snprintf(out, SXT_EXPLAIN_BYTES, "; offset or size do not fit the DMA-BUF");
	} else if (rc == -EFAULT) {
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; the range is not mapped, or not memory that can be pinned (device "
			 "memory and files on some file systems are not)");
	} else if (rc == -EOPNOTSUPP && is_dmabuf) {
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; this library, driver or HCA cannot register DMA-BUFs (needs libibverbs "
			 "of rdma-core 34 and Linux 5.12 or newer)");
	} else if (rc == -EINVAL) {
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; the driver refuses the range or the access flags "
			 "(NCCL_IB_PCI_RELAXED_ORDERING=0 drops an optional one)");
	} else if (rc == -EPERM || rc == -EACCES) {
		snprintf(out, SXT_EXPLAIN_BYTES, "; the memory is not writable by this process");
	}
}

void sxt_explain_create(const struct sxt_port *port, enum sxt_device_object kind, int rc, char *out)
{
	out[0] = '\0';
	if (is_no_room(rc))
		explain_no_room(port, kind, 0, out);
}

void sxt_explain_init(const struct sxt_port *port, uint16_t pkey, int rc, char *out)
{
	const struct sxt_device *device = port->device;
	struct ibv_port_attr attr;
	uint16_t key = 0;

	out[0] = '\0';
	if (rc != -EINVAL ||
	    sxt_verbs_query_port(device->verbs, device->context, port->num, &attr) != 0)
		return;
	if (pkey >= attr.pkey_tbl_len)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; P_Key index %u is past the port's table of %u: NCCL_IB_PKEY is an "
			 "index, not a key",
			 pkey, attr.pkey_tbl_len);
	else if (sxt_verbs_query_pkey(device->verbs, device->context, port->num, pkey, &key) == 0)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; index %u of the port's P_Key table of %u holds 0x%04x%s", pkey,
			 attr.pkey_tbl_len, key,
			 (key & 0x7fff) == 0
				 ? ", no key: is the port a member of a partition (NCCL_IB_PKEY)?"
				 : "");
}

/* The table may have changed between the look at it and the call. */
static bool explain_gid(const struct sxt_port *port, const struct sxt_qp_route *route, int rc,
			char *out)
{
	const struct sxt_device *device = port->device;
	const struct sxt_port_place *local = route->local;
	union ibv_gid now = {{0}};
	char was_text[64];
	char now_text[64];
	bool is_same;

	sxt_ignore(sxt_verbs_query_gid(device->verbs, device->context, port->num, local->gid_index,
				       &now));
	is_same = memcmp(now.raw, local->path.gid, sizeof(now.raw)) == 0;
	if (is_same && rc != -ENODEV && rc != -ENODATA)
		return false;
	sxt_gid_text(local->path.gid, was_text, sizeof(was_text));
	sxt_gid_text(now.raw, now_text, sizeof(now_text));
	if (is_same)
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; GID index %u (%s) is not valid on this port now: is its interface up?",
			 local->gid_index, was_text);
	else
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; GID index %u held %s when it was chosen and holds %s now: addresses "
			 "moved, and the next connection looks again",
			 local->gid_index, was_text, now_text);
	return true;
}

/* Is the peer behind a router, as far as the interface's own prefix tells? */
static void explain_unreached(const struct sxt_port *port, const struct sxt_qp_route *route,
			      char *out)
{
	const char *often = "same VLAN, and is this GID the one meant (NCCL_IB_GID_INDEX)?";
	struct sxt_gid gid = {.index = route->local->gid_index};
	char own[64];
	char peer[64];

	memcpy(gid.raw, route->local->path.gid, sizeof(gid.raw));
	sxt_place_read_facts(port, &gid, 1);
	sxt_gid_text(gid.raw, own, sizeof(own));
	sxt_gid_text(route->peer->gid, peer, sizeof(peer));
	if (gid.prefix_len != 0 && !sxt_gid_same_subnet(gid.raw, route->peer->gid, gid.prefix_len))
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; the peer's %s is not in the subnet %s/%u of %s: is there a route, or "
			 "is it another rail (NCCL_CROSS_NIC=0 keeps rails apart)?",
			 peer, own, gid.prefix_len,
			 gid.netdev[0] != '\0' ? gid.netdev : "this port");
	else
		snprintf(out, SXT_EXPLAIN_BYTES,
			 "; nobody answered for the peer's address %s (ARP, neighbour discovery): "
			 "is it reachable from %s, %s",
			 peer, gid.netdev[0] != '\0' ? gid.netdev : "this port's interface", often);
}

void sxt_explain_join(const struct sxt_port *port, const struct sxt_qp_route *route, int rc,
		      char *out)
{
	bool is_ethernet = route->local->path.link_layer == IBV_LINK_LAYER_ETHERNET;
	const char *text = "";

	out[0] = '\0';
	if (is_ethernet && explain_gid(port, route, rc, out))
		return;
	if (is_ethernet && (rc == -ETIMEDOUT || rc == -ENETUNREACH || rc == -EHOSTUNREACH)) {
		explain_unreached(port, route, out);
		return;
	}
	if (rc == -EINVAL && is_ethernet && route->local->path.gid_type != route->peer->gid_type)
		text = "; the two ends use different RoCE versions: set NCCL_IB_GID_INDEX so that "
		       "both take the same kind of GID";
	else if (rc == -EINVAL && is_ethernet)
		text = "; the GIDs may not fit each other (address family, RoCE version): compare "
		       "both ends with `show_gids`";
	else if (rc == -EINVAL)
		text = "; check LID and service level (NCCL_IB_SL) of this port";
	snprintf(out, SXT_EXPLAIN_BYTES, "%s", text);
}
