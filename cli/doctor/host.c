/*
 * host.c - the machine's RDMA devices and ports, as /sys shows them.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS         "/sys/class/infiniband"
#define NDEVS_MAX     4096
#define HCAS_MAX      1024
#define PORTS_PER_HCA 256
#define IFF_UP_BIT    0x1

static int leading_int(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	return end != text && value >= 0 && value <= 99 ? (int)value : -1;
}

/* The last part of where a link leads. */
static void read_link_name(const struct sxt_doctor *d, const char *path, char *out,
			   size_t out_bytes)
{
	char real[PATH_MAX];
	const char *slash;

	out[0] = '\0';
	if (sxt_sysfs_real_path(d->root, path, real, sizeof(real)) != 0)
		return;
	slash = strrchr(real, '/');
	if (slash != NULL && strlen(slash + 1) < out_bytes)
		memcpy(out, slash + 1, strlen(slash + 1) + 1);
}

/* Software devices have no PCI device; only rxe tells what it sits on. */
static void read_driver(const struct sxt_doctor *d, struct sxt_doctor_hca *hca)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), CLASS "/%s/device/driver", hca->name);
	read_link_name(d, path, hca->driver, sizeof(hca->driver));
	if (hca->driver[0] != '\0')
		return;
	if (sxt_doctor_exists(d, CLASS "/%s/parent", hca->name))
		snprintf(hca->driver, sizeof(hca->driver), "rdma_rxe");
	else if (strncmp(hca->name, "siw", 3) == 0)
		snprintf(hca->driver, sizeof(hca->driver), "siw");
}

static void read_hca(const struct sxt_doctor *d, const char *name, struct sxt_doctor_hca *hca)
{
	char path[PATH_MAX];
	char text[64];
	char *end;
	long node;

	snprintf(hca->name, sizeof(hca->name), "%s", name);
	read_driver(d, hca);
	snprintf(path, sizeof(path), CLASS "/%s/device", name);
	hca->has_pci = sxt_pci_path_read(d->root, path, &hca->pci) == 0;
	if (sxt_doctor_read(d, hca->vendor, sizeof(hca->vendor), "%s/vendor", path) != 0)
		hca->vendor[0] = '\0';
	if (sxt_doctor_read(d, hca->device, sizeof(hca->device), "%s/device", path) != 0)
		hca->device[0] = '\0';
	hca->numa_node = -1;
	if (sxt_doctor_read(d, text, sizeof(text), "%s/numa_node", path) == 0) {
		node = strtol(text, &end, 10);
		if (end != text && *end == '\0' && node >= 0 && node < 4096)
			hca->numa_node = (int)node;
	}
}

/* Names of /sys/class/infiniband_verbs/uverbsN: which node belongs to which device. */
static void read_uverbs(const struct sxt_doctor *d)
{
	struct sxt_names names = {0};
	char ibdev[64];

	if (sxt_sysfs_list(d->root, "/sys/class/infiniband_verbs", &names) != 0)
		return;
	for (size_t i = 0; i < names.cnt; i++) {
		if (sxt_doctor_read(d, ibdev, sizeof(ibdev), "/sys/class/infiniband_verbs/%s/ibdev",
				    names.list[i]) != 0)
			continue;
		for (size_t k = 0; k < d->hcas_cnt; k++) {
			struct sxt_doctor_hca *hca = &d->hcas[k];

			if (strcmp(hca->name, ibdev) == 0)
				snprintf(hca->uverbs, sizeof(hca->uverbs), "%.31s", names.list[i]);
		}
	}
	sxt_names_fini(&names);
}

/* The interface of the first GID that has one; holes of the table answer EINVAL. */
static bool netdev_of_gids(const struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	struct sxt_names names = {0};
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/gid_attrs/ndevs", port->folder);
	if (sxt_sysfs_list(d->root, path, &names) != 0)
		return false;
	for (size_t i = 0; i < names.cnt && i < NDEVS_MAX && port->netdev[0] == '\0'; i++) {
		if (sxt_doctor_read(d, port->netdev, sizeof(port->netdev), "%s/%s", path,
				    names.list[i]) != 0)
			port->netdev[0] = '\0';
	}
	sxt_names_fini(&names);
	return port->netdev[0] != '\0';
}

/* Else an interface of the same PCI function with the port's number, or what rxe sits on. */
static void netdev_of_device(const struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	struct sxt_names names = {0};
	char path[PATH_MAX];
	uint64_t dev_port;

	if (sxt_doctor_read(d, port->netdev, sizeof(port->netdev), CLASS "/%s/parent",
			    port->hca->name) == 0 &&
	    port->netdev[0] != '\0')
		return;
	snprintf(path, sizeof(path), CLASS "/%s/device/net", port->hca->name);
	if (sxt_sysfs_list(d->root, path, &names) != 0)
		return;
	for (size_t i = 0; i < names.cnt && port->netdev[0] == '\0'; i++) {
		if (sxt_doctor_read_u64(d, &dev_port, "%s/%s/dev_port", path, names.list[i]) != 0)
			dev_port = 0;
		if (dev_port + 1 == port->num || names.cnt == 1)
			snprintf(port->netdev, sizeof(port->netdev), "%.31s", names.list[i]);
	}
	sxt_names_fini(&names);
}

static void read_netdev(const struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	uint64_t value;

	if (!netdev_of_gids(d, port))
		netdev_of_device(d, port);
	if (port->netdev[0] == '\0' || strchr(port->netdev, '/') != NULL)
		return;
	port->netdev_here = sxt_doctor_exists(d, "/sys/class/net/%s", port->netdev);
	if (sxt_doctor_read_u64(d, &value, "/sys/class/net/%s/mtu", port->netdev) == 0 &&
	    value < UINT32_MAX)
		port->netdev_mtu = (uint32_t)value;
	port->netdev_up =
		sxt_doctor_read_u64(d, &value, "/sys/class/net/%s/flags", port->netdev) != 0 ||
		(value & IFF_UP_BIT) != 0;
}

/* "400 Gb/sec (4X NDR)" */
static void parse_rate(struct sxt_doctor_port *port)
{
	const char *paren = strchr(port->rate_text, '(');
	char *end;
	double gbps = strtod(port->rate_text, &end);

	if (end != port->rate_text && gbps > 0 && gbps < 1e6)
		port->rate_mbps = (uint64_t)(gbps * 1000);
	if (paren != NULL) {
		long lanes = strtol(paren + 1, &end, 10);

		if (*end == 'X' && lanes > 0 && lanes <= 64)
			port->lanes = (uint32_t)lanes;
	}
}

static void read_port(const struct sxt_doctor *d, const struct sxt_doctor_hca *hca, const char *num,
		      struct sxt_doctor_port *port)
{
	char text[64];
	uint64_t value;

	port->hca = hca;
	port->num = (unsigned int)strtoul(num, NULL, 10);
	snprintf(port->label, sizeof(port->label), "%s:%.8s", hca->name, num);
	snprintf(port->folder, sizeof(port->folder), CLASS "/%s/ports/%.8s", hca->name, num);
	port->readable = sxt_doctor_read(d, port->state_text, sizeof(port->state_text), "%s/state",
					 port->folder) == 0;
	port->state = leading_int(port->state_text);
	port->readable = port->readable && port->state > 0 &&
			 sxt_doctor_read(d, text, sizeof(text), "%s/link_layer", port->folder) == 0;
	port->ethernet = port->readable && strcmp(text, "Ethernet") == 0;
	port->phys = sxt_doctor_read(d, text, sizeof(text), "%s/phys_state", port->folder) == 0
			     ? leading_int(text)
			     : -1;
	if (text[0] != '\0' && port->phys >= 0)
		snprintf(port->state_text + strlen(port->state_text),
			 sizeof(port->state_text) - strlen(port->state_text), ", phys %.30s", text);
	if (sxt_doctor_read(d, port->rate_text, sizeof(port->rate_text), "%s/rate", port->folder) ==
	    0)
		parse_rate(port);
	if (sxt_doctor_read_u64(d, &value, "%s/lid", port->folder) == 0 && value <= UINT32_MAX)
		port->lid = (uint32_t)value;
	if (sxt_doctor_read_u64(d, &value, "%s/sm_lid", port->folder) == 0 && value <= UINT32_MAX)
		port->sm_lid = (uint32_t)value;
	if (port->ethernet)
		read_netdev(d, port);
}

static void read_ports_of(struct sxt_doctor *d, const struct sxt_doctor_hca *hca)
{
	struct sxt_names names = {0};
	struct sxt_doctor_port *ports;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), CLASS "/%s/ports", hca->name);
	if (sxt_sysfs_list(d->root, path, &names) != 0 || names.cnt == 0 ||
	    names.cnt > PORTS_PER_HCA) {
		sxt_doctor_add(d, SXT_FINDING_PORT_UNREADABLE, hca->name, "ports/1 and so on",
			       "%s lists %zu ports", path, names.cnt);
		sxt_names_fini(&names);
		return;
	}
	ports = realloc(d->ports, (d->ports_cnt + names.cnt) * sizeof(*ports));
	if (ports == NULL) {
		d->out_of_memory = true;
	} else {
		d->ports = ports;
		memset(ports + d->ports_cnt, 0, names.cnt * sizeof(*ports));
		for (size_t i = 0; i < names.cnt; i++)
			read_port(d, hca, names.list[i], &ports[d->ports_cnt++]);
	}
	sxt_names_fini(&names);
}

void sxt_doctor_load_ports(struct sxt_doctor *d)
{
	struct sxt_names names = {0};
	size_t cnt;

	d->theme = SXT_THEME_PORTS;
	if (sxt_sysfs_list(d->root, CLASS, &names) != 0)
		return;
	cnt = names.cnt < HCAS_MAX ? names.cnt : HCAS_MAX;
	d->hcas = calloc(cnt > 0 ? cnt : 1, sizeof(*d->hcas));
	if (d->hcas == NULL) {
		d->out_of_memory = true;
		goto out;
	}
	for (size_t i = 0; i < cnt; i++)
		read_hca(d, names.list[i], &d->hcas[d->hcas_cnt++]);
	read_uverbs(d);
	for (size_t i = 0; i < d->hcas_cnt; i++)
		read_ports_of(d, &d->hcas[i]);
out:
	sxt_names_fini(&names);
}
