/*
 * device.c - one HCA: opening, closing, speed of its ports (slow path).
 */
#include "ib/device.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sysfs.h"
#include "ib/explain.h"
#include "ib/process.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

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
static uint32_t sysfs_mbps(const struct sxt_device *device, uint8_t num)
{
	double gbps = 0;
	char path[128];
	char text[64];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/rate", device->name, num);
	if (sxt_sysfs_read(device->ib->config->sysroot, path, text, sizeof(text)) == 0)
		gbps = strtod(text, NULL);
	return gbps > 0 && gbps < 100000 ? (uint32_t)(gbps * 1000) : 0;
}

uint32_t sxt_device_speed(const struct sxt_device *device, uint8_t num,
			  const struct ibv_port_attr *attr)
{
	uint32_t table = lane_mbps(attr->active_speed) * lanes(attr->active_width);
	uint32_t mbps = 0;

	/* Knows what a virtual function of several bundled ports has. */
	if (device->ib->config->ib_query_port_speed != 0 &&
	    sxt_verbs_query_port_speed(device->verbs, device->context, num, &mbps) == 0 && mbps > 0)
		return mbps;
	mbps = sysfs_mbps(device, num);
	return mbps > table ? mbps : table;
}

void sxt_device_count(struct sxt_device *device, enum sxt_device_object kind, int more)
{
	atomic_fetch_add_explicit(&device->objects[kind], (uint32_t)more, memory_order_relaxed);
}

void sxt_device_close(struct sxt_device *device)
{
	if (device->pd != NULL && device->verbs->dealloc_pd(device->pd) != 0)
		SXT_LOG(SXT_LOG_WARN, "%s: the protection domain is still in use", device->name);
	if (device->context != NULL && device->verbs->close_device(device->context) != 0)
		SXT_LOG(SXT_LOG_WARN, "%s: closing the device failed", device->name);
	free(device);
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

int sxt_device_open(struct sxt_ib *ib, struct ibv_device *from, struct sxt_device **out)
{
	struct sxt_device *device = calloc(1, sizeof(*device));
	char why[SXT_EXPLAIN_BYTES];
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
		rc = sxt_explain_open(device, from, rc, why);
		SXT_LOG(SXT_LOG_WARN, "HCA %s is left out: opening it: %s%s", device->name,
			sxt_strerror(rc), why);
		sxt_device_close(device);
		*out = NULL;
		return 0;
	}
	unblock_events(device->context);
	read_place(device, "device", device->pci_path);
	read_place(device, "device/physfn", device->pf_path);
	*out = device;
	return 0;
}

const char *sxt_device_unusable(const struct ibv_device *from)
{
	if (from->transport_type == IBV_TRANSPORT_IB)
		return NULL;
	if (from->transport_type == IBV_TRANSPORT_IWARP)
		return "it speaks iWARP, which has no immediate data";
	return "it is no InfiniBand or RoCE device and has no reliable connections (EFA, usNIC): "
	       "it needs the network plugin made for it (EFA: aws-ofi-nccl)";
}
