/*
 * check_speed.c - link speed against the card's, PCI Express against the link, NUMA, MTU.
 */
#include "cli/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VENDOR_MELLANOX "0x15b3"
#define ROCE_HEADERS    96 /* what the kernel keeps free: GRH, UDP, BTH, XRC, atomic, ICRC */

/* The fastest card of a family, by PCI device id. */
static const struct {
	const char *device;
	const char *family;
	uint32_t gbps;
} families[] = {
	{"0x1013", "ConnectX-4", 100},    {"0x1017", "ConnectX-5", 100},
	{"0x1019", "ConnectX-5 Ex", 100}, {"0x101b", "ConnectX-6", 200},
	{"0x101d", "ConnectX-6 Dx", 200}, {"0x101f", "ConnectX-6 Lx", 50},
	{"0x1021", "ConnectX-7", 400},    {"0x1023", "ConnectX-8", 800},
	{"0xa2d6", "BlueField-2", 200},   {"0xa2dc", "BlueField-3", 400},
};

static void check_family(struct sxt_doctor *d, const struct sxt_doctor_port *port)
{
	if (strcmp(port->hca->vendor, VENDOR_MELLANOX) != 0)
		return;
	for (size_t i = 0; i < SXT_ARRAY_LEN(families); i++) {
		char expected[32];

		if (strcmp(families[i].device, port->hca->device) != 0 ||
		    port->rate_mbps >= families[i].gbps * 1000ull)
			continue;
		snprintf(expected, sizeof(expected), "up to %u Gb/s", families[i].gbps);
		sxt_doctor_add(d, SXT_FINDING_LINK_BELOW_MODEL, port->label, expected, "%s, %s",
			       families[i].family, port->rate_text);
	}
}

static const struct sxt_doctor_port *faster_sibling(const struct sxt_doctor *d,
						    const struct sxt_doctor_port *port)
{
	const struct sxt_doctor_port *best = NULL;

	if (port->hca->device[0] == '\0')
		return NULL;
	for (size_t i = 0; i < d->ports_cnt; i++) {
		const struct sxt_doctor_port *other = &d->ports[i];

		if (other->state == 4 && strcmp(other->hca->vendor, port->hca->vendor) == 0 &&
		    strcmp(other->hca->device, port->hca->device) == 0 &&
		    other->rate_mbps > (best != NULL ? best : port)->rate_mbps)
			best = other;
	}
	return best;
}

static void check_link(struct sxt_doctor *d, const struct sxt_doctor_port *port)
{
	const struct sxt_doctor_port *sibling = faster_sibling(d, port);

	if (sibling != NULL)
		sxt_doctor_add(d, SXT_FINDING_LINK_BELOW_SIBLING, port->label, sibling->rate_text,
			       "%s; %s of the same model has %s", port->rate_text, sibling->label,
			       sibling->rate_text);
	else
		check_family(d, port);
	if (!port->ethernet && port->lanes > 0 && port->lanes < 4)
		sxt_doctor_add(d, SXT_FINDING_LINK_NARROW, port->label, "4 lanes", "%s",
			       port->rate_text);
}

/* All active ports of the function share its PCI Express link. */
static uint64_t wire_mbps(const struct sxt_doctor *d, const struct sxt_doctor_hca *hca)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (d->ports[i].hca == hca && d->ports[i].state == 4)
			sum += d->ports[i].rate_mbps;
	}
	return sum;
}

/* The slowest link on the way to the root. Return: 0 if the kernel tells none. */
static uint64_t narrowest(const struct sxt_doctor *d, const struct sxt_pci_path *path,
			  size_t *step_out, struct sxt_pci_link *link_out)
{
	uint64_t least = 0;

	for (size_t i = path->cnt; i-- > 0;) {
		struct sxt_pci_link link;
		uint64_t mbps;

		if (sxt_pci_link_read(d->root, path->steps[i].folder, "current", &link) != 0)
			continue;
		mbps = sxt_pci_link_mbps(&link);
		if (mbps > 0 && (least == 0 || mbps < least)) {
			least = mbps;
			*step_out = i;
			*link_out = link;
		}
	}
	return least;
}

static void check_pcie(struct sxt_doctor *d, const struct sxt_doctor_hca *hca)
{
	const struct sxt_pci_path *path = &hca->pci;
	uint64_t wire = wire_mbps(d, hca);
	struct sxt_pci_link link = {0};
	struct sxt_pci_link most = {0};
	size_t step = 0;
	uint64_t mbps = narrowest(d, path, &step, &link);
	char expected[96];

	if (mbps == 0)
		return;
	if (sxt_pci_link_read(d->root, path->steps[path->cnt - 1].folder, "max", &most) != 0)
		most = link;
	if (mbps < wire) {
		snprintf(expected, sizeof(expected),
			 "%.1f GB/s for %.0f Gb/s; the card can %g GT/s x%u", (double)wire / 8000,
			 (double)wire / 1000, most.speed_mts / 1000.0, most.width);
		sxt_doctor_add(d, SXT_FINDING_PCIE_BELOW_LINK, hca->name, expected,
			       "%g GT/s x%u = %.1f GB/s at %s", link.speed_mts / 1000.0, link.width,
			       (double)mbps / 8000, path->steps[step].address);
	} else if (mbps < sxt_pci_link_mbps(&most)) {
		snprintf(expected, sizeof(expected), "%g GT/s x%u", most.speed_mts / 1000.0,
			 most.width);
		sxt_doctor_add(d, SXT_FINDING_PCIE_DEGRADED, hca->name, expected,
			       "%g GT/s x%u at %s", link.speed_mts / 1000.0, link.width,
			       path->steps[step].address);
	}
}

void sxt_check_speed(struct sxt_doctor *d)
{
	bool nodes = sxt_doctor_exists(d, "/sys/devices/system/node/node1");

	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (d->ports[i].state == 4 && d->ports[i].rate_mbps > 0)
			check_link(d, &d->ports[i]);
	}
	for (size_t i = 0; i < d->hcas_cnt; i++) {
		if (d->hcas[i].has_pci)
			check_pcie(d, &d->hcas[i]);
		if (nodes && d->hcas[i].has_pci && d->hcas[i].numa_node < 0)
			sxt_doctor_add(d, SXT_FINDING_NUMA_UNKNOWN, d->hcas[i].name,
				       "a node number", "numa_node is -1");
	}
}

static uint32_t roce_mtu(uint32_t netdev_mtu)
{
	uint32_t mtu = 4096;

	while (mtu > 256 && mtu + ROCE_HEADERS > netdev_mtu)
		mtu /= 2;
	return mtu;
}

void sxt_check_mtu(struct sxt_doctor *d)
{
	const struct sxt_doctor_port *first = NULL;
	bool told = false;

	for (size_t i = 0; i < d->ports_cnt; i++) {
		const struct sxt_doctor_port *port = &d->ports[i];

		if (!port->usable || !port->ethernet || port->netdev_mtu == 0)
			continue;
		if (roce_mtu(port->netdev_mtu) < 4096)
			sxt_doctor_add(d, SXT_FINDING_MTU_SMALL, port->label,
				       "MTU 4200 or more (9000 is usual)",
				       "%s has MTU %u, so RoCE packets carry %u bytes",
				       port->netdev, port->netdev_mtu, roce_mtu(port->netdev_mtu));
		if (first == NULL)
			first = port;
		if (first->netdev_mtu == port->netdev_mtu || told)
			continue;
		sxt_doctor_add(d, SXT_FINDING_MTU_MIXED, port->label, "one MTU",
			       "%s has MTU %u, %s has %u", port->netdev, port->netdev_mtu,
			       first->netdev, first->netdev_mtu);
		told = true;
	}
}
