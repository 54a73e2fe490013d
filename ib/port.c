/*
 * port.c - opening the HCAs and choosing among their ports (slow path).
 */
#include "ib/port.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sysfs.h"
#include "ib/names.h"
#include "ib/place.h"
#include "ib/process.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t log2_floor(uint32_t value)
{
	return value == 0 ? 0 : 31u - (uint32_t)__builtin_clz(value);
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

static void left_out(struct sxt_ib *ib, enum sxt_log_level level, const char *label,
		     unsigned int num, const char *why)
{
	size_t used = strlen(ib->left_out);

	SXT_LOG(level, "port %s:%u is left out: %s", label, num, why);
	snprintf(ib->left_out + used, sizeof(ib->left_out) - used, "%s%s:%u: %s",
		 used != 0 ? "; " : "", label, num, why);
}

static const char *kind_text(const struct sxt_port_place *place)
{
	if (place->path.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return "InfiniBand";
	return sxt_gid_type_text(place->path.gid_type);
}

/* One line for the port, one for each thing about its addresses that the user should know. */
static void announce(const struct sxt_port *port, const struct sxt_place_survey *found)
{
	const struct sxt_gid_wishes *wishes = &port->device->ib->gid_wishes;
	const struct sxt_port_place *place = &found->place;
	char text[SXT_PLACE_WHY_BYTES];

	sxt_gid_choice_text(&found->gids.table, found->gids.ranks, found->gids.candidates_cnt, text,
			    sizeof(text));
	SXT_LOG(SXT_LOG_INFO, "port %s: %s, %u Gb/s, MTU %u, %s%s, LID %u, PCI %s", port->name,
		kind_text(place), port->speed_mbps / 1000, 128u << place->path.mtu, text,
		place->grh_required ? " (GRH required)" : "", place->path.lid,
		port->device->pci_path[0] != '\0' ? port->device->pci_path : "unknown");
	for (uint32_t left = found->gids.notes; left != 0; left &= left - 1) {
		uint32_t note = left & -left;

		sxt_gid_note_text(note, &found->gids.table, wishes, text, sizeof(text));
		SXT_LOG((note & SXT_GID_NOTES_INFO) != 0 ? SXT_LOG_INFO : SXT_LOG_WARN,
			"port %s: %s", port->label, text);
	}
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

/* Into the list where it can be used, else it is left out, which is no error. */
static int survey_port(struct sxt_ib *ib, struct sxt_port *port, bool *taken_out)
{
	struct sxt_place_survey found = {0};
	char why[SXT_PLACE_WHY_BYTES] = "";
	int rc = sxt_place_survey(port, &found, why);

	if (rc == -ENOMEM)
		return rc;
	if (rc != 0) {
		left_out(ib, rc == -EADDRNOTAVAIL ? SXT_LOG_WARN : SXT_LOG_INFO, port->device->name,
			 port->num, why);
		return 0;
	}
	rc = append_port(ib, port);
	*taken_out = rc == 0;
	if (rc == 0)
		announce(port, &found);
	sxt_port_gids_fini(&found.gids);
	return rc;
}

static int make_port(struct sxt_ib *ib, struct sxt_device *device, uint8_t num,
		     const struct ibv_port_attr *attr)
{
	struct sxt_port *port = calloc(1, sizeof(*port));
	bool is_taken = false;
	int rc;

	if (port == NULL)
		return -ENOMEM;
	fill_port(port, device, num, attr);
	rc = survey_port(ib, port, &is_taken);
	if (!is_taken)
		free(port);
	return rc;
}

static int add_port(struct sxt_ib *ib, struct sxt_device *device, uint8_t num)
{
	struct ibv_port_attr attr;
	char why[SXT_PLACE_WHY_BYTES];
	int rc;

	if (!sxt_names_match(ib->config->ib_hca, device->name, num)) {
		snprintf(why, sizeof(why), "NCCL_IB_HCA=%.200s excludes it", ib->config->ib_hca);
		left_out(ib, SXT_LOG_INFO, device->name, num, why);
		return 0;
	}
	rc = sxt_verbs_query_port(device->verbs, device->context, num, &attr);
	if (rc != 0) {
		snprintf(why, sizeof(why), "it cannot be queried: %s", sxt_strerror(rc));
		left_out(ib, SXT_LOG_INFO, device->name, num, why);
		return 0;
	}
	return make_port(ib, device, num, &attr);
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
	int bad_cnt = sxt_gid_wishes_parse(ib->config, &ib->gid_wishes);
	int rc;

	if (bad_cnt > 0 && ib->config->strict != 0) {
		SXT_LOG(SXT_LOG_ERROR, "%d bad setting(s) and SEXTANT_STRICT=1: not starting",
			bad_cnt);
		return -EINVAL;
	}
	rc = sxt_verbs_device_list(ib->verbs, &list, &cnt);

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
