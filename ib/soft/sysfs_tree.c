/*
 * sysfs_tree.c - writes /sys of every host of the fabric (slow path).
 *
 * The shape is the kernel's: the HCA's folder lies below its PCI device, class/ and bus/ have
 * links to it. What is the machine's own (system, module, kernel) is a link to the real one.
 */
#include "ib/soft/sysfs_tree.h"

#include "ib/soft/names.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MELLANOX_OUI 0x02c9u
#define MELLANOX_PCI 0x15b3u
#define OTHER_PCI    0x5358u

/* Writes one folder after the other; the first error stays and the rest does nothing. */
struct writer {
	char dir[PATH_MAX];
	int rc;
	const struct sxt_soft_fabric *fabric;
	const struct sxt_soft_host *host;
	const struct sxt_soft_hca *hca;
	char root[PATH_MAX]; /* .../hosts/HOST */
};

static int make_dirs(char *path)
{
	for (char *at = path + 1;; at++) {
		char kept = *at;

		if (kept != '/' && kept != '\0')
			continue;
		*at = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return -errno;
		*at = kept;
		if (kept == '\0')
			return 0;
	}
}

/* Goes into a folder below the root, making it. */
static void SXT_PRINTF(2, 3) enter(struct writer *writer, const char *fmt, ...)
{
	char below[PATH_MAX];
	va_list args;

	if (writer->rc != 0)
		return;
	va_start(args, fmt);
	vsnprintf(below, sizeof(below), fmt, args);
	va_end(args);
	if (snprintf(writer->dir, sizeof(writer->dir), "%s/%s", writer->root, below) >=
	    (int)sizeof(writer->dir))
		writer->rc = -ENAMETOOLONG;
	else
		writer->rc = make_dirs(writer->dir);
}

static int write_file(int dir_fd, const char *name, const char *text, size_t bytes)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t put;
	int rc = 0;

	if (fd < 0)
		return -errno;
	put = write(fd, text, bytes);
	if (put != (ssize_t)bytes)
		rc = put < 0 ? -errno : -EIO;
	close(fd);
	return rc;
}

/* Under another name first: readers see the old line or the new one, never half of it. */
static void SXT_PRINTF(3, 4) put(struct writer *writer, const char *name, const char *fmt, ...)
{
	char text[512];
	char new_name[80];
	va_list args;
	int dir_fd;

	if (writer->rc != 0)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text) - 1, fmt, args);
	va_end(args);
	memcpy(text + strlen(text), "\n", 2);
	snprintf(new_name, sizeof(new_name), ".%s.%d", name, (int)getpid());
	dir_fd = open(writer->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0) {
		writer->rc = -errno;
		return;
	}
	writer->rc = write_file(dir_fd, new_name, text, strlen(text));
	if (writer->rc == 0 && renameat(dir_fd, new_name, dir_fd, name) != 0)
		writer->rc = -errno;
	close(dir_fd);
}

/* A file that is not there is fine. */
static void take_away(struct writer *writer, const char *name)
{
	char path[PATH_MAX];

	if (writer->rc != 0)
		return;
	if (snprintf(path, sizeof(path), "%s/%s", writer->dir, name) >= (int)sizeof(path))
		writer->rc = -ENAMETOOLONG;
	else if (unlink(path) != 0 && errno != ENOENT)
		writer->rc = -errno;
}

static void SXT_PRINTF(3, 4) put_link(struct writer *writer, const char *name, const char *fmt, ...)
{
	char path[PATH_MAX];
	char target[PATH_MAX];
	va_list args;

	if (writer->rc != 0)
		return;
	va_start(args, fmt);
	vsnprintf(target, sizeof(target), fmt, args);
	va_end(args);
	if (snprintf(path, sizeof(path), "%s/%s", writer->dir, name) >= (int)sizeof(path))
		writer->rc = -ENAMETOOLONG;
	else if (symlink(target, path) != 0 && errno != EEXIST)
		writer->rc = -errno;
}

static void format_guid(uint64_t guid, char out[20])
{
	snprintf(out, 20, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
}

static void format_gid(const uint8_t raw[16], char out[40])
{
	int len = 0;

	for (int i = 0; i < 16; i += 2)
		len += snprintf(out + len, 40 - (size_t)len, "%s%02x%02x", i > 0 ? ":" : "", raw[i],
				raw[i + 1]);
}

static void put_gids(struct writer *writer, const struct sxt_soft_port *port, const char *folder)
{
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];
	char gid[40];
	char name[12];

	sxt_soft_gids_read(port, gids);
	enter(writer, "%s/gids", folder);
	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		snprintf(name, sizeof(name), "%" PRIu32, i);
		format_gid(gids[i].raw, gid);
		put(writer, name, "%s", gid);
	}
	/* The kernel answers EINVAL for the attributes of an empty entry: there is no file here. */
	enter(writer, "%s/gid_attrs/types", folder);
	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		snprintf(name, sizeof(name), "%" PRIu32, i);
		if (sxt_soft_gid_is_empty(&gids[i]))
			take_away(writer, name);
		else
			put(writer, name, "%s",
			    gids[i].type == SXT_SOFT_GID_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
	}
	enter(writer, "%s/gid_attrs/ndevs", folder);
	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		snprintf(name, sizeof(name), "%" PRIu32, i);
		if (gids[i].ndev[0] == '\0' || sxt_soft_gid_is_empty(&gids[i]))
			take_away(writer, name);
		else
			put(writer, name, "%s", gids[i].ndev);
	}
}

static void put_pkeys(struct writer *writer, const struct sxt_soft_port *port, const char *folder)
{
	char name[12];

	enter(writer, "%s/pkeys", folder);
	for (uint32_t i = 0; i < port->pkey_cnt; i++) {
		snprintf(name, sizeof(name), "%" PRIu32, i);
		put(writer, name, "0x%04x", port->pkeys[i]);
	}
}

static void put_state(struct writer *writer, const struct sxt_soft_port *port)
{
	uint32_t state = atomic_load_explicit(&port->state, memory_order_relaxed);
	uint32_t phys_state = atomic_load_explicit(&port->phys_state, memory_order_relaxed);

	put(writer, "state", "%" PRIu32 ": %s", state,
	    state == SXT_SOFT_PORT_ACTIVE ? "ACTIVE"
	    : state == SXT_SOFT_PORT_INIT ? "INIT"
					  : "DOWN");
	put(writer, "phys_state", "%" PRIu32 ": %s", phys_state,
	    phys_state == SXT_SOFT_PHYS_UP        ? "LinkUp"
	    : phys_state == SXT_SOFT_PHYS_POLLING ? "Polling"
						  : "Disabled");
}

/* Data counters are in units of four bytes, as in sysfs. */
static void put_counters(struct writer *writer, const struct sxt_soft_port *port,
			 const char *folder, const char *group)
{
	enter(writer, "%s/%s", folder, group);
#define PUT_COUNTER(name, file_group, file)                                                        \
	if (strcmp(group, file_group) == 0) {                                                      \
		uint64_t value = atomic_load_explicit(&port->counters.name, memory_order_relaxed); \
		put(writer, file, "%" PRIu64, strstr(file, "_data") != NULL ? value / 4 : value);  \
	}
	SXT_SOFT_COUNTERS(PUT_COUNTER)
#undef PUT_COUNTER
}

static void port_folder(const struct sxt_soft_hca *hca, const struct sxt_soft_port *port,
			char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "sys/devices/%s/infiniband/%s/ports/%d", hca->pci_path, hca->name,
		 port->port_num);
}

static void put_port(struct writer *writer, const struct sxt_soft_port *port)
{
	char folder[PATH_MAX];
	char speed[16];
	uint64_t tenths = port->rate_mbps / 100;

	port_folder(writer->hca, port, folder);
	enter(writer, "%s", folder);
	put_state(writer, port);
	snprintf(speed, sizeof(speed), "%s",
		 sxt_soft_name_of(sxt_soft_width_names, port->active_width));
	speed[strcspn(speed, "x")] = 'X';
	if (tenths % 10 == 0)
		put(writer, "rate", "%" PRIu64 " Gb/sec (%s %s)", tenths / 10, speed,
		    sxt_soft_name_of(sxt_soft_speed_names, port->active_speed));
	else
		put(writer, "rate", "%" PRIu64 ".%" PRIu64 " Gb/sec (%s %s)", tenths / 10,
		    tenths % 10, speed, sxt_soft_name_of(sxt_soft_speed_names, port->active_speed));
	put(writer, "lid", "0x%x", port->lid);
	put(writer, "lid_mask_count", "%d", port->lmc);
	put(writer, "sm_lid", "0x%x", port->sm_lid);
	put(writer, "sm_sl", "0");
	put(writer, "link_layer", "%s",
	    port->link_layer == SXT_SOFT_ETHERNET ? "Ethernet" : "InfiniBand");
	put_gids(writer, port, folder);
	put_pkeys(writer, port, folder);
	put_counters(writer, port, folder, "counters");
	put_counters(writer, port, folder, "hw_counters");
}

static void put_netdev(struct writer *writer, const struct sxt_soft_port *port, uint32_t ifindex)
{
	const struct sxt_soft_hca *hca = writer->hca;

	if (port->netdev[0] == '\0')
		return;
	enter(writer, "sys/devices/%s/net/%s", hca->pci_path, port->netdev);
	put(writer, "ifindex", "%" PRIu32, ifindex);
	put(writer, "mtu", "%d", (128 << port->active_mtu) + 404); /* room for RoCE's headers */
	put(writer, "speed", "%" PRIu64, port->rate_mbps);
	put(writer, "dev_port", "%d", port->port_num - 1);
	put_link(writer, "device", "../../../%s", hca->pci);
	enter(writer, "sys/class/net");
	put_link(writer, port->netdev, "../../devices/%s/net/%s", hca->pci_path, port->netdev);
}

/* Processors near the node, as this machine has them; all of them where it has no such node. */
static void near_cpus(int node, char *out, size_t out_bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
	if (sxt_sysfs_read("/", path, out, out_bytes) == 0 ||
	    sxt_sysfs_read("/", "/sys/devices/system/cpu/online", out, out_bytes) == 0)
		return;
	snprintf(out, out_bytes, "0");
}

static void put_pci_attributes(struct writer *writer, const char *class, uint32_t device)
{
	const struct sxt_soft_hca *hca = writer->hca;
	char cpus[256];

	near_cpus(hca->numa_node, cpus, sizeof(cpus));
	put(writer, "class", "%s", class);
	put(writer, "vendor", "0x%04x", hca->vendor_id == MELLANOX_OUI ? MELLANOX_PCI : OTHER_PCI);
	put(writer, "device", "0x%04x", device);
	put(writer, "numa_node", "%" PRId32, hca->numa_node);
	put(writer, "local_cpulist", "%s", cpus);
	put(writer, "current_link_speed", "%s", hca->pci_speed);
	put(writer, "max_link_speed", "%s", hca->pci_speed);
	put(writer, "current_link_width", "%" PRIu32, hca->pci_width);
	put(writer, "max_link_width", "%" PRIu32, hca->pci_width);
}

static void put_pci(struct writer *writer)
{
	const struct sxt_soft_hca *hca = writer->hca;
	const struct sxt_soft_port *port = &writer->fabric->ports[hca->first_port];
	bool on_ib = port->link_layer == SXT_SOFT_INFINIBAND;
	char path[sizeof(hca->pci_path)];
	char *end;

	/* The bridges on the way down, then the device. */
	memcpy(path, hca->pci_path, sizeof(path));
	for (end = strchr(path, '/'); end != NULL; end = strchr(end + 1, '/')) {
		size_t next = strcspn(end + 1, "/");
		bool last = end[1 + next] == '\0';

		enter(writer, "sys/devices/%.*s", (int)(end + 1 + next - path), path);
		put_pci_attributes(writer, last ? (on_ib ? "0x020700" : "0x020000") : "0x060400",
				   last ? hca->vendor_part_id : 0);
		enter(writer, "sys/bus/pci/devices");
		if (writer->rc == 0) {
			char name[16];

			snprintf(name, sizeof(name), "%.*s", (int)next, end + 1);
			put_link(writer, name, "../../../devices/%.*s",
				 (int)(end + 1 + next - path), path);
		}
	}
	enter(writer, "sys/bus/pci/drivers/%s", hca->driver);
	put_link(writer, hca->pci, "../../../../devices/%s", hca->pci_path);
	enter(writer, "sys/devices/%s", hca->pci_path);
	put_link(writer, "driver", "%s/sys/bus/pci/drivers/%s", writer->root, hca->driver);
}

static void put_hca(struct writer *writer, const struct sxt_soft_hca *hca)
{
	char guid[20];

	writer->hca = hca;
	put_pci(writer);
	enter(writer, "sys/devices/%s/infiniband/%s", hca->pci_path, hca->name);
	format_guid(hca->node_guid, guid);
	put(writer, "node_guid", "%s", guid);
	format_guid(hca->sys_image_guid, guid);
	put(writer, "sys_image_guid", "%s", guid);
	put(writer, "node_type", "1: CA");
	put(writer, "node_desc", "%s %s", writer->host->name, hca->name);
	put(writer, "fw_ver", "%s", hca->fw_ver);
	put(writer, "hw_rev", "%" PRIx32, hca->hw_ver);
	put(writer, "board_id", "%s", hca->board_id);
	put(writer, "hca_type", "%s", hca->hca_type);
	put_link(writer, "device", "../../../%s", hca->pci);
	enter(writer, "sys/class/infiniband");
	put_link(writer, hca->name, "../../devices/%s/infiniband/%s", hca->pci_path, hca->name);
	for (uint32_t i = 0; i < hca->port_cnt; i++) {
		const struct sxt_soft_port *port = &writer->fabric->ports[hca->first_port + i];

		put_port(writer, port);
		put_netdev(writer, port, port->gids[0].ndev_ifindex);
	}
}

static int start(struct writer *writer, const struct sxt_soft_state *state, uint32_t host)
{
	memset(writer, 0, sizeof(*writer));
	writer->fabric = state->fabric;
	writer->host = &state->fabric->hosts[host];
	return sxt_soft_tree_root(state, host, writer->root);
}

static int put_host(const struct sxt_soft_state *state, uint32_t host)
{
	struct writer writer;
	char number[12];
	int rc = start(&writer, state, host);

	if (rc != 0)
		return rc;
	enter(&writer, "sys/devices");
	put_link(&writer, "system", "/sys/devices/system");
	enter(&writer, "sys");
	put_link(&writer, "module", "/sys/module");
	put_link(&writer, "kernel", "/sys/kernel");
	/* For launchers that count hosts; a name is never a number. */
	enter(&writer, "..");
	snprintf(number, sizeof(number), "%" PRIu32, host);
	put_link(&writer, number, "%s", writer.host->name);
	enter(&writer, ".");
	put_link(&writer, "proc", "/proc");
	put_link(&writer, "etc", "/etc");
	for (uint32_t i = 0; i < writer.host->hca_cnt; i++)
		put_hca(&writer, &state->fabric->hcas[writer.host->first_hca + i]);
	if (writer.rc != 0)
		SXT_LOG(SXT_LOG_ERROR, "soft sysfs %s: cannot write it: %s", writer.dir,
			sxt_strerror(writer.rc));
	return writer.rc;
}

int sxt_soft_tree_root(const struct sxt_soft_state *state, uint32_t host, char out[PATH_MAX])
{
	int len =
		snprintf(out, PATH_MAX, "%s/hosts/%s", state->dir, state->fabric->hosts[host].name);

	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int sxt_soft_tree_create(const struct sxt_soft_state *state)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < state->fabric->host_cnt; i++)
		rc = put_host(state, i);
	return rc;
}

static int start_port(struct writer *writer, const struct sxt_soft_state *state, uint32_t port,
		      char folder[PATH_MAX])
{
	const struct sxt_soft_hca *hca = &state->fabric->hcas[state->fabric->ports[port].hca];
	int rc = start(writer, state, hca->host);

	port_folder(hca, &state->fabric->ports[port], folder);
	return rc;
}

int sxt_soft_tree_update_state(const struct sxt_soft_state *state, uint32_t port)
{
	struct writer writer;
	char folder[PATH_MAX];
	int rc = start_port(&writer, state, port, folder);

	if (rc != 0)
		return rc;
	enter(&writer, "%s", folder);
	put_state(&writer, &state->fabric->ports[port]);
	return writer.rc;
}

int sxt_soft_tree_update_gids(const struct sxt_soft_state *state, uint32_t port)
{
	struct writer writer;
	char folder[PATH_MAX];
	int rc = start_port(&writer, state, port, folder);

	if (rc != 0)
		return rc;
	put_gids(&writer, &state->fabric->ports[port], folder);
	return writer.rc;
}

int sxt_soft_tree_update_counters(const struct sxt_soft_state *state, uint32_t port)
{
	struct writer writer;
	char folder[PATH_MAX];
	int rc = start_port(&writer, state, port, folder);

	if (rc != 0)
		return rc;
	put_counters(&writer, &state->fabric->ports[port], folder, "counters");
	put_counters(&writer, &state->fabric->ports[port], folder, "hw_counters");
	return writer.rc;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	/* A file that another process removes meanwhile is as good as removed. */
	return remove(path) == 0 || errno == ENOENT ? 0 : -errno;
}

int sxt_soft_tree_remove(const char *path)
{
	int rc = nftw(path, remove_entry, 16, FTW_PHYS | FTW_DEPTH);

	if (rc == -1)
		return errno == ENOENT ? 0 : -errno;
	return rc;
}
