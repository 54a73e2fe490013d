/*
 * port.c - opening the HCAs and choosing among their ports (slow path).
 */
#include "ib/port.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sysfs.h"
#include "ib/names.h"
#include "ib/process.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHY_BYTES 320

bool sxt_port_gid_is_ipv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

void sxt_port_gid_text(const uint8_t *gid, char *out, size_t out_bytes)
{
	const char *text;

	if (sxt_port_gid_is_ipv4(gid))
		text = inet_ntop(AF_INET, gid + 12, out, (socklen_t)out_bytes);
	else
		text = inet_ntop(AF_INET6, gid, out, (socklen_t)out_bytes);
	if (text == NULL)
		snprintf(out, out_bytes, "?");
}

static bool gid_is_empty(const union ibv_gid *gid)
{
	return gid->global.subnet_prefix == 0 && gid->global.interface_id == 0;
}

static int read_gid(const struct sxt_port *port, int index, union ibv_gid *out)
{
	int rc = sxt_verbs_query_gid(port->device->verbs, port->device->context, port->num, index,
				     out);

	return rc == 0 && gid_is_empty(out) ? -ENOENT : rc;
}

/* The type of a GID; what neither the library nor sysfs knows counts as RoCE v2. */
static uint8_t read_gid_type(const struct sxt_port *port, int index)
{
	const struct sxt_device *device = port->device;
	uint8_t type;
	char path[192];
	char text[32];

	if (sxt_verbs_query_gid_type(device->verbs, device->context, port->num, index, &type) == 0)
		return type;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d",
		 device->name, port->num, index);
	if (sxt_sysfs_read(device->ib->config->sysroot, path, text, sizeof(text)) == 0 &&
	    strstr(text, "v1") != NULL)
		return IBV_GID_TYPE_ROCE_V1;
	return IBV_GID_TYPE_ROCE_V2;
}

static bool set_gid(const struct sxt_port *port, int index, struct sxt_port_place *place)
{
	union ibv_gid gid;

	if (read_gid(port, index, &gid) != 0)
		return false;
	memcpy(place->path.gid, gid.raw, sizeof(place->path.gid));
	place->gid_index = (uint16_t)index;
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET)
		place->path.gid_type = read_gid_type(port, index);
	return true;
}

static bool set_first_roce_v2_ipv4(const struct sxt_port *port, int cnt,
				   struct sxt_port_place *place)
{
	union ibv_gid gid;

	for (int i = 0; i < cnt; i++) {
		if (read_gid(port, i, &gid) == 0 && sxt_port_gid_is_ipv4(gid.raw) &&
		    read_gid_type(port, i) == IBV_GID_TYPE_ROCE_V2)
			return set_gid(port, i, place);
	}
	return false;
}

/* @note: something the user should know about the choice, or "". */
static int choose_gid(const struct sxt_port *port, int cnt, struct sxt_port_place *place,
		      char *note)
{
	int wanted = port->device->ib->config->ib_gid_index;

	note[0] = '\0';
	if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return set_gid(port, 0, place) ? 0 : -EADDRNOTAVAIL;
	if (wanted >= 0 && wanted < cnt && set_gid(port, wanted, place))
		return 0;
	if (wanted >= 0)
		snprintf(note, WHY_BYTES,
			 "NCCL_IB_GID_INDEX=%d is %s (the table has %d entries); choosing by kind",
			 wanted, wanted < cnt ? "empty" : "out of range", cnt);
	if (set_first_roce_v2_ipv4(port, cnt, place))
		return 0;
	if (set_gid(port, 0, place)) {
		snprintf(note, WHY_BYTES,
			 "no RoCE v2 GID with an IPv4 address, taking GID index 0: give the "
			 "port's interface an address, or set NCCL_IB_GID_INDEX");
		return 0;
	}
	return -EADDRNOTAVAIL;
}

static const char *state_name(enum ibv_port_state state)
{
	static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER"};

	return (unsigned int)state < SXT_ARRAY_LEN(names) ? names[state] : "unknown";
}

static const char *phys_state_name(uint8_t state)
{
	static const char *const names[] = {"none",     "sleeping", "polling",        "disabled",
					    "training", "link up",  "error recovery", "phy test"};

	return state < SXT_ARRAY_LEN(names) ? names[state] : "unknown";
}

static const char *state_hint(const struct ibv_port_attr *attr)
{
	if (attr->phys_state == 3)
		return "; it is disabled, see `ip link` or `ibportstate`";
	if (attr->phys_state == 2)
		return "; no signal: check cable, module and the switch's port";
	if (attr->state == IBV_PORT_INIT || attr->state == IBV_PORT_ARMED)
		return "; is a subnet manager running?";
	return "";
}

/* May this port carry a connection? Writes why not. */
static int check_port(const struct ibv_port_attr *attr, char *why)
{
	if (attr->state != IBV_PORT_ACTIVE) {
		snprintf(why, WHY_BYTES, "it is %s (%s)%s", state_name(attr->state),
			 phys_state_name(attr->phys_state), state_hint(attr));
		return -ENETDOWN;
	}
	if (attr->link_layer == IBV_LINK_LAYER_ETHERNET)
		return 0;
	if (attr->lid == 0 || attr->sm_lid == 0) {
		snprintf(why, WHY_BYTES,
			 "it has %s (LID %u, SM LID %u): is a subnet manager running?",
			 attr->lid == 0 ? "no LID" : "no subnet manager", attr->lid, attr->sm_lid);
		return -ENETDOWN;
	}
	return 0;
}

static uint32_t log2_floor(uint32_t value)
{
	return value == 0 ? 0 : 31u - (uint32_t)__builtin_clz(value);
}

/* @why: on failure the reason, else a note about the GID or "". */
static int locate(const struct sxt_port *port, struct sxt_port_place *out, char *why)
{
	const struct sxt_device *device = port->device;
	struct sxt_port_place place = {0};
	struct ibv_port_attr attr;
	int rc = sxt_verbs_query_port(device->verbs, device->context, port->num, &attr);

	if (rc != 0) {
		snprintf(why, WHY_BYTES, "it cannot be queried: %s", sxt_strerror(rc));
		return rc;
	}
	rc = check_port(&attr, why);
	if (rc != 0)
		return rc;
	place.path.lid = attr.lid;
	place.path.link_layer = port->link_layer;
	place.path.mtu = (uint8_t)attr.active_mtu;
	place.path.port_num = port->num;
	place.path.max_message_log2 = log2_floor(attr.max_msg_sz);
	place.grh_required = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
	snprintf(place.path.hca, sizeof(place.path.hca), "%.23s", port->label);
	rc = choose_gid(port, attr.gid_tbl_len, &place, why);
	if (rc != 0)
		snprintf(why, WHY_BYTES,
			 "no entry of its GID table (%d entries) can be used: give its interface "
			 "an address",
			 attr.gid_tbl_len);
	else
		*out = place;
	return rc;
}

int sxt_port_locate(const struct sxt_port *port, struct sxt_port_place *out)
{
	char why[WHY_BYTES] = "";
	int rc = locate(port, out, why);

	if (rc != 0)
		SXT_LOG(SXT_LOG_ERROR, "port %s (port %u) cannot be used: %s", port->label,
			port->num, why);
	else if (why[0] != '\0')
		SXT_LOG(SXT_LOG_DEBUG, "port %s: %s", port->label, why);
	return rc;
}

/* Speeds of one lane in Mb/s by bit of active_speed: SDR to XDR. */
static uint32_t lane_mbps(uint32_t active_speed)
{
	static const uint32_t speeds[] = {2500,  5000,  10000,  10000, 14062,
					  25781, 50000, 100000, 200000};

	if (active_speed == 0 || log2_floor(active_speed) >= SXT_ARRAY_LEN(speeds))
		return 0;
	return speeds[log2_floor(active_speed)];
}

static uint32_t lanes(uint8_t active_width)
{
	static const uint32_t widths[] = {1, 4, 8, 12, 2};

	if (active_width == 0 || log2_floor(active_width) >= SXT_ARRAY_LEN(widths))
		return 0;
	return widths[log2_floor(active_width)];
}

/*
 * The kernel tells programs of the old call at most NDR, so an XDR port is known only by sysfs:
 * "800 Gb/sec (4X XDR)".
 */
static uint32_t speed_mbps(const struct sxt_port *port, const struct ibv_port_attr *attr)
{
	uint32_t table = lane_mbps(attr->active_speed) * lanes(attr->active_width);
	double gbps = 0;
	char path[128];
	char text[64];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/rate", port->device->name,
		 port->num);
	if (sxt_sysfs_read(port->device->ib->config->sysroot, path, text, sizeof(text)) == 0)
		gbps = strtod(text, NULL);
	if (gbps > 0 && gbps < 100000 && gbps * 1000 > table)
		return (uint32_t)(gbps * 1000);
	return table;
}

static void left_out(struct sxt_ib *ib, const char *label, unsigned int num, const char *why)
{
	size_t used = strlen(ib->left_out);

	SXT_LOG(SXT_LOG_INFO, "port %s:%u is left out: %s", label, num, why);
	snprintf(ib->left_out + used, sizeof(ib->left_out) - used, "%s%s:%u: %s",
		 used != 0 ? "; " : "", label, num, why);
}

static void announce(const struct sxt_port *port, const struct sxt_port_place *place,
		     const char *note)
{
	char gid[64];
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;

	sxt_port_gid_text(place->path.gid, gid, sizeof(gid));
	SXT_LOG(SXT_LOG_INFO, "port %s: %s, %u Gb/s, MTU %u, GID index %u %s%s, LID %u, PCI %s",
		port->name,
		!ethernet                                      ? "InfiniBand"
		: place->path.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2"
							       : "RoCE v1",
		port->speed_mbps / 1000, 128u << place->path.mtu, place->gid_index, gid,
		place->grh_required ? " (GRH required)" : "", place->path.lid,
		port->device->pci_path[0] != '\0' ? port->device->pci_path : "unknown");
	if (note[0] != '\0')
		SXT_LOG(SXT_LOG_WARN, "port %s: %s", port->label, note);
}

static int append_port(struct sxt_ib *ib, struct sxt_port *port)
{
	struct sxt_port **grown =
		realloc(ib->ports, ((size_t)ib->ports_cnt + 1) * sizeof(*ib->ports));

	if (grown == NULL)
		return -ENOMEM;
	ib->ports = grown;
	ib->ports[ib->ports_cnt++] = port;
	return 0;
}

static void fill_port(struct sxt_port *port, struct sxt_device *device, uint8_t num,
		      const struct ibv_port_attr *attr)
{
	port->device = device;
	port->num = num;
	/* Libraries older than RoCE leave the link layer at 0. */
	port->link_layer = attr->link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_LINK_LAYER_ETHERNET
								       : IBV_LINK_LAYER_INFINIBAND;
	port->max_message_bytes = attr->max_msg_sz;
	port->max_message_log2 = log2_floor(attr->max_msg_sz);
	if (num == 1)
		snprintf(port->label, sizeof(port->label), "%s", device->name);
	else
		snprintf(port->label, sizeof(port->label), "%s:%u", device->name, num);
	snprintf(port->name, sizeof(port->name), "sxt_%s", port->label);
	port->speed_mbps = speed_mbps(port, attr);
}

/* A port that cannot be used is no error: it is left out. */
static int add_port(struct sxt_ib *ib, struct sxt_device *device, uint8_t num)
{
	struct sxt_port_place place;
	struct ibv_port_attr attr;
	char why[WHY_BYTES] = "";
	struct sxt_port *port;
	int rc;

	if (!sxt_names_match(ib->config->ib_hca, device->name, num)) {
		snprintf(why, sizeof(why), "NCCL_IB_HCA=%.200s excludes it", ib->config->ib_hca);
		left_out(ib, device->name, num, why);
		return 0;
	}
	rc = sxt_verbs_query_port(device->verbs, device->context, num, &attr);
	if (rc != 0) {
		snprintf(why, sizeof(why), "it cannot be queried: %s", sxt_strerror(rc));
		left_out(ib, device->name, num, why);
		return 0;
	}
	port = calloc(1, sizeof(*port));
	if (port == NULL)
		return -ENOMEM;
	fill_port(port, device, num, &attr);
	if (locate(port, &place, why) != 0) {
		left_out(ib, device->name, num, why);
		free(port);
		return 0;
	}
	rc = append_port(ib, port);
	if (rc != 0)
		free(port);
	else
		announce(port, &place, why);
	return rc;
}

static void close_device(struct sxt_device *device)
{
	if (device->pd != NULL && device->verbs->dealloc_pd(device->pd) != 0)
		SXT_LOG(SXT_LOG_WARN, "%s: the protection domain is still in use", device->name);
	if (device->context != NULL && device->verbs->close_device(device->context) != 0)
		SXT_LOG(SXT_LOG_WARN, "%s: closing the device failed", device->name);
	free(device);
}

/* A library that was refused looks elsewhere and then says "not there": ask the file itself. */
static int open_error(const struct ibv_device *from, int rc)
{
	char path[sizeof("/dev/infiniband/") + sizeof(from->dev_name)];

	snprintf(path, sizeof(path), "/dev/infiniband/%.*s", (int)sizeof(from->dev_name) - 1,
		 from->dev_name);
	if (rc == -ENOENT && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0 &&
	    errno == EACCES)
		return -EACCES;
	return rc;
}

static void explain_open(const char *name, int rc)
{
	const char *hint = "";

	if (rc == -EACCES || rc == -EPERM)
		hint = "; this user may not open /dev/infiniband/uverbs*: allow it (udev rule, "
		       "group, or in a container --device=/dev/infiniband and the device cgroup)";
	else if (rc == -ENOENT || rc == -ENODEV || rc == -ENXIO)
		hint = "; /dev/infiniband/uverbs* is not there: pass it into the container, load "
		       "ib_uverbs";
	else if (rc == -ENOMEM)
		hint = "; raise the limit of pinned memory (ulimit -l unlimited)";
	SXT_LOG(SXT_LOG_WARN, "HCA %s is left out: opening it: %s%s", name, sxt_strerror(rc), hint);
}

/* @below: of the HCA's folder. @out: "" when it is not there. */
static void read_place(const struct sxt_device *device, const char *below, char out[256])
{
	char path[128];
	char real[256];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", device->name, below);
	if (sxt_sysfs_real_path(device->ib->config->sysroot, path, real, sizeof(real)) == 0)
		memcpy(out, real, sizeof(real));
}

/* Events are read by the watcher until there are none, so reading must not block. */
static void unblock_events(const struct ibv_context *context)
{
	int flags = context->async_fd >= 0 ? fcntl(context->async_fd, F_GETFL) : -1;

	if (flags >= 0 && fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
		SXT_LOG(SXT_LOG_WARN, "async events of an HCA stay blocking: %m");
}

/* A device that cannot be opened is no error either: *out is then NULL. */
static int open_device(struct sxt_ib *ib, struct ibv_device *from, struct sxt_device **out)
{
	struct sxt_device *device = calloc(1, sizeof(*device));
	int rc;

	if (device == NULL)
		return -ENOMEM;
	device->ib = ib;
	device->verbs = ib->verbs;
	device->guid = be64toh(ib->verbs->get_device_guid(from));
	snprintf(device->name, sizeof(device->name), "%s", ib->verbs->get_device_name(from));
	rc = sxt_verbs_open_device(ib->verbs, from, &device->context);
	if (rc == 0)
		rc = sxt_verbs_query_device(ib->verbs, device->context, &device->attr);
	if (rc == 0)
		rc = sxt_verbs_alloc_pd(ib->verbs, device->context, &device->pd);
	if (rc != 0) {
		explain_open(device->name, open_error(from, rc));
		close_device(device);
		*out = NULL;
		return 0;
	}
	unblock_events(device->context);
	read_place(device, "device", device->pci_path);
	read_place(device, "device/physfn", device->pf_path);
	*out = device;
	return 0;
}

/* Only what runs reliable connections over IB verbs; says so otherwise. */
static bool is_usable_transport(const struct sxt_ib *ib, struct ibv_device *from)
{
	const char *name = ib->verbs->get_device_name(from);

	if (from->transport_type == IBV_TRANSPORT_IB)
		return true;
	SXT_LOG(SXT_LOG_INFO,
		"HCA %s is left out: %s, which has no reliable connections with "
		"immediate data",
		name,
		from->transport_type == IBV_TRANSPORT_IWARP ? "it speaks iWARP"
							    : "it is no InfiniBand or RoCE device "
							      "(EFA, usNIC)");
	return false;
}

static int add_device(struct sxt_ib *ib, struct ibv_device *from)
{
	struct sxt_device *device = NULL;
	int rc;

	if (!is_usable_transport(ib, from))
		return 0;
	rc = open_device(ib, from, &device);
	if (rc != 0 || device == NULL)
		return rc;
	sxt_list_append(&ib->devices, &device->node);
	for (unsigned int num = 1; num <= device->attr.phys_port_cnt && rc == 0; num++)
		rc = add_port(ib, device, (uint8_t)num);
	return rc;
}

static int compare_ports(const void *left, const void *right)
{
	const struct sxt_port *a = *(struct sxt_port *const *)left;
	const struct sxt_port *b = *(struct sxt_port *const *)right;
	int order = strcmp(a->device->pci_path, b->device->pci_path);

	if (order == 0)
		order = strcmp(a->device->name, b->device->name);
	return order != 0 ? order : (int)a->num - (int)b->num;
}

static int open_all(struct sxt_ib *ib, struct ibv_device **list, int cnt)
{
	int rc = 0;

	for (int i = 0; i < cnt && rc == 0; i++)
		rc = add_device(ib, list[i]);
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "opening the HCAs: %s", sxt_strerror(rc));
		return rc;
	}
	if (ib->ports_cnt == 0) {
		SXT_LOG(SXT_LOG_ERROR, "none of %d HCAs has a port that can be used%s%s", cnt,
			ib->left_out[0] != '\0' ? ": " : "; the warnings before this one say why",
			ib->left_out);
		return -ENODEV;
	}
	if (ib->config->ib_device_pci_order != 0)
		qsort(ib->ports, (size_t)ib->ports_cnt, sizeof(struct sxt_port *), compare_ports);
	return 0;
}

int sxt_ports_open(struct sxt_ib *ib)
{
	struct ibv_device **list;
	int cnt = 0;
	int rc = sxt_verbs_device_list(ib->verbs, &list, &cnt);

	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR,
			"listing HCAs: %s; is the kernel module ib_uverbs loaded (modprobe "
			"ib_uverbs)?",
			sxt_strerror(rc));
		return -ENODEV;
	}
	if (cnt == 0) {
		SXT_LOG(SXT_LOG_ERROR,
			"there is no HCA: libibverbs lists none; check `ibv_devinfo`, that the "
			"driver is loaded and that ibverbs-providers is installed");
		rc = -ENODEV;
	} else {
		rc = open_all(ib, list, cnt);
	}
	ib->verbs->free_device_list(list);
	return rc;
}

void sxt_ports_close(struct sxt_ib *ib)
{
	struct sxt_list *node;
	struct sxt_list *after;

	for (int i = 0; i < ib->ports_cnt; i++)
		free(ib->ports[i]);
	free(ib->ports);
	ib->ports = NULL;
	ib->ports_cnt = 0;
	sxt_list_for_each (node, after, &ib->devices) {
		sxt_list_remove(node);
		close_device(SXT_LIST_ENTRY(node, struct sxt_device, node));
	}
}
