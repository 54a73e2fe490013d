/*
 * complete.c - what a fabric file may leave out, and what must hold over the whole of it.
 *
 * Made-up addresses come from places: host h, HCA i of it and port p give the EUI-64
 * 00:53:58:ff:fe:hh:ii:pp, the IPv4 address 10.i.p.h+1 and the PCI bus 0x18 + 8 i.
 */
#include "ib/soft/fabric.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EUI64_BASE     0x005358fffe000000ull
#define FIRST_PCI_BUS  0x18u
#define PCI_BUS_STEP   8u
#define PCI_PER_DOMAIN 28u

/* Where a completion stands, for the made-up values and for messages. */
struct place {
	struct sxt_soft_fabric *fabric;
	struct sxt_soft_host *host;
	struct sxt_soft_hca *hca;
	struct sxt_soft_port *port;
	uint32_t host_index;
	uint32_t hca_index;  /* within the host */
	uint32_t netdev_cnt; /* of the host so far */
	char *why;
	size_t why_bytes;
};

static int SXT_PRINTF(2, 3) fail(const struct place *at, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* %.0u of 0 is nothing. */
	snprintf(at->why, at->why_bytes, "%s%s%s%s%.0u: %s", at->host->name,
		 at->hca != NULL ? "/" : "", at->hca != NULL ? at->hca->name : "",
		 at->port != NULL ? ":" : "", at->port != NULL ? at->port->port_num : 0, text);
	return -EINVAL;
}

/* A name becomes a folder's name and a part of HOST/HCA:PORT; a number would be an index. */
static bool name_is_good(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";

	return name[0] != '.' && name[0] != '-' && strspn(name, allowed) == strlen(name) &&
	       strspn(name, "0123456789") < strlen(name);
}

static uint64_t eui64(const struct place *at, uint32_t port_num)
{
	return EUI64_BASE | (uint64_t)at->host_index << 16 | (uint64_t)at->hca_index << 8 |
	       port_num;
}

static void put_be64(uint8_t out[8], uint64_t value)
{
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(value >> (56 - 8 * i));
}

static void add_gid(struct place *at, bool mapped_ipv4, uint32_t type)
{
	struct sxt_soft_gid *gid = &at->port->gids[at->port->gid_cnt++];
	uint8_t *raw = gid->raw;

	gid->type = type;
	if (mapped_ipv4) {
		raw[10] = raw[11] = 0xff;
		raw[12] = 10;
		raw[13] = (uint8_t)at->hca_index;
		raw[14] = at->port->port_num;
		raw[15] = (uint8_t)(at->host_index + 1);
		return;
	}
	raw[0] = 0xfe;
	raw[1] = 0x80;
	put_be64(raw + 8, at->hca->node_guid + at->port->port_num);
}

/* The table a driver makes: link-local, then the IPv4 address, each for both RoCE versions. */
static void add_gids(struct place *at)
{
	if (at->port->link_layer == SXT_SOFT_INFINIBAND) {
		add_gid(at, false, SXT_SOFT_GID_IB);
		return;
	}
	add_gid(at, false, SXT_SOFT_GID_ROCE_V1);
	add_gid(at, false, SXT_SOFT_GID_ROCE_V2);
	add_gid(at, true, SXT_SOFT_GID_ROCE_V1);
	add_gid(at, true, SXT_SOFT_GID_ROCE_V2);
}

static int complete_gids(struct place *at, uint32_t ifindex)
{
	struct sxt_soft_port *port = at->port;
	bool on_ib = port->link_layer == SXT_SOFT_INFINIBAND;

	if (port->gid_cnt == 0)
		add_gids(at);
	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		struct sxt_soft_gid *gid = &port->gids[i];

		if (gid->type == SXT_SOFT_GID_UNSET)
			gid->type = on_ib ? SXT_SOFT_GID_IB : SXT_SOFT_GID_ROCE_V2;
		if (on_ib != (gid->type == SXT_SOFT_GID_IB))
			return fail(at,
				    "gids[%" PRIu32 "].type is of the other link layer; "
				    "expected %s",
				    i, on_ib ? "ib" : "roce_v1 or roce_v2");
		if (on_ib && gid->ndev[0] != '\0')
			return fail(at, "gids[%" PRIu32 "].netdev is '%s'; InfiniBand has none", i,
				    gid->ndev);
		if (on_ib)
			continue;
		if (gid->ndev[0] == '\0')
			memcpy(gid->ndev, port->netdev, sizeof(gid->ndev));
		gid->ndev_ifindex = ifindex;
	}
	return 0;
}

/* Ports of one name get the number of the first of them; 0 is for those without. */
static int complete_network(struct place *at)
{
	struct sxt_soft_port *port = at->port;
	const struct sxt_soft_port *first = at->fabric->ports;

	if (port->network[0] == '\0')
		return 0;
	if (!name_is_good(port->network))
		return fail(at, "network is '%s'; expected letters, digits, _ . -, not only digits",
			    port->network);
	while (strcmp(first->network, port->network) != 0)
		first++;
	port->network_id = (uint32_t)(first - at->fabric->ports) + 1;
	return 0;
}

static int complete_link(struct place *at)
{
	struct sxt_soft_port *port = at->port;

	if (port->link_layer == 0)
		port->link_layer = SXT_SOFT_ETHERNET;
	if (port->active_width == 0)
		port->active_width = 2;
	if (port->active_speed == 0)
		port->active_speed = 128;
	port->rate_mbps = sxt_soft_rate_mbps(port->active_width, port->active_speed);
	if (port->bandwidth_bps == SXT_SOFT_UNSET)
		port->bandwidth_bps = port->rate_mbps * 1000000;
	if (port->max_mtu == 0)
		port->max_mtu = 5;
	if (port->active_mtu == 0)
		port->active_mtu = port->max_mtu;
	if (port->active_mtu > port->max_mtu)
		return fail(at, "mtu is %d; expected at most max_mtu, %d", 128 << port->active_mtu,
			    128 << port->max_mtu);
	if (atomic_load(&port->state) == 0) {
		atomic_init(&port->state, SXT_SOFT_PORT_ACTIVE);
		atomic_init(&port->phys_state, SXT_SOFT_PHYS_UP);
	}
	if (port->pkey_cnt == 0)
		port->pkeys[port->pkey_cnt++] = 0xffff;
	return complete_network(at);
}

static int complete_ethernet(struct place *at)
{
	struct sxt_soft_port *port = at->port;
	uint32_t number = at->netdev_cnt++;

	if (port->lid != 0 || port->sm_lid != 0 || port->lmc != 0)
		return fail(at, "has a lid, sm_lid or lmc; an Ethernet port has none");
	if (port->netdev[0] == '\0')
		snprintf(port->netdev, sizeof(port->netdev), "eth%" PRIu32, number);
	return complete_gids(at, number + 2); /* 1 is the loopback device */
}

static const struct sxt_soft_port *lid_owner(const struct place *at, uint32_t lid, uint32_t cnt)
{
	for (uint32_t i = 0; i < at->fabric->port_cnt; i++) {
		const struct sxt_soft_port *other = &at->fabric->ports[i];

		if (other != at->port && other->lid != 0 && other->lid < lid + cnt &&
		    lid < other->lid + (1u << other->lmc))
			return other;
	}
	return NULL;
}

/* LID 1 is the subnet manager's; a range begins at a multiple of its length. */
static uint32_t choose_lid(const struct place *at, uint32_t cnt)
{
	uint32_t lid = cnt > 2 ? cnt : 2;

	while (lid_owner(at, lid, cnt) != NULL)
		lid += cnt;
	return lid;
}

static int complete_infiniband(struct place *at)
{
	struct sxt_soft_port *port = at->port;
	uint32_t lid_cnt = 1u << port->lmc;
	uint32_t lid = port->lid;
	const struct sxt_soft_port *owner;

	if (port->netdev[0] != '\0')
		return fail(at, "netdev is '%s'; an InfiniBand port has none", port->netdev);
	if (port->sm_lid == 0)
		port->sm_lid = 1;
	if (lid == 0)
		lid = choose_lid(at, lid_cnt);
	/* 1024 ports of 128 LIDs each are more than there are. */
	if (lid > 0xbfff)
		return fail(at, "no LIDs are left; lower lmc");
	port->lid = (uint16_t)lid;
	if (port->lid % lid_cnt != 0)
		return fail(at, "lid is %d; expected a multiple of %" PRIu32 ", for lmc %d",
			    port->lid, lid_cnt, port->lmc);
	owner = lid_owner(at, port->lid, lid_cnt);
	if (owner != NULL)
		return fail(at, "lid %d belongs to %s/%s:%d already", port->lid,
			    at->fabric->hosts[at->fabric->hcas[owner->hca].host].name,
			    at->fabric->hcas[owner->hca].name, owner->port_num);
	return complete_gids(at, 0);
}

static int check_gids_unique(struct place *at)
{
	struct sxt_soft_fabric *fabric = at->fabric;
	struct sxt_soft_port *port = at->port;
	static const uint8_t empty[16];

	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		int owner = sxt_soft_port_by_gid(fabric, port->gids[i].raw);

		if (memcmp(port->gids[i].raw, empty, 16) != 0 && owner >= 0 &&
		    &fabric->ports[owner] < port)
			return fail(at, "gids[%" PRIu32 "] belongs to %s/%s:%d already", i,
				    fabric->hosts[fabric->hcas[fabric->ports[owner].hca].host].name,
				    fabric->hcas[fabric->ports[owner].hca].name,
				    fabric->ports[owner].port_num);
	}
	return 0;
}

static int complete_port(struct place *at, uint32_t number)
{
	int rc;

	at->port = &at->fabric->ports[at->hca->first_port + number];
	rc = complete_link(at);
	if (rc == 0)
		rc = at->port->link_layer == SXT_SOFT_ETHERNET ? complete_ethernet(at)
							       : complete_infiniband(at);
	if (rc == 0)
		rc = check_gids_unique(at);
	at->port = NULL;
	return rc;
}

/* How many bytes of the text fit the pattern, in which # is a hexadecimal digit; 0 if not whole. */
static size_t match(const char *text, const char *pattern)
{
	size_t i;

	for (i = 0; pattern[i] != '\0'; i++) {
		bool fits = pattern[i] == '#' ? isxdigit((unsigned char)text[i]) != 0
					      : text[i] == pattern[i];

		if (!fits)
			return 0;
	}
	return i;
}

static bool pci_path_is_good(const char *path)
{
	size_t len = match(path, "pci####:##");
	int parts_cnt = 0;

	while (len > 0 && path[len] != '\0') {
		path += len;
		len = match(path, "/####:##:##.#");
		parts_cnt++;
	}
	return len > 0 && parts_cnt > 0;
}

static int complete_pci(struct place *at)
{
	struct sxt_soft_hca *hca = at->hca;
	uint32_t domain = at->hca_index / PCI_PER_DOMAIN;
	uint32_t bus = FIRST_PCI_BUS + at->hca_index % PCI_PER_DOMAIN * PCI_BUS_STEP;

	if (hca->pci_path[0] == '\0')
		snprintf(hca->pci_path, sizeof(hca->pci_path),
			 "pci%04x:%02x/%04x:%02x:00.0/%04x:%02x:00.0", domain, bus - 1, domain,
			 bus - 1, domain, bus);
	if (!pci_path_is_good(hca->pci_path))
		return fail(at,
			    "pci_path is '%s'; expected the folder below /sys/devices, such as "
			    "\"pci0000:17/0000:17:00.0/0000:18:00.0\"",
			    hca->pci_path);
	memcpy(hca->pci, strrchr(hca->pci_path, '/') + 1, 13);
	return 0;
}

static int check_hca_unique(struct place *at, uint32_t index)
{
	for (uint32_t i = at->host->first_hca; i < index; i++) {
		if (strcmp(at->fabric->hcas[i].name, at->hca->name) == 0)
			return fail(at, "the host has another HCA of this name");
		if (strcmp(at->fabric->hcas[i].pci, at->hca->pci) == 0)
			return fail(at, "the host has another HCA at %s, %s", at->hca->pci,
				    at->fabric->hcas[i].name);
	}
	for (uint32_t i = 0; i < index; i++) {
		if (at->fabric->hcas[i].node_guid == at->hca->node_guid)
			return fail(at, "node_guid 0x%016" PRIx64 " belongs to %s/%s already",
				    at->hca->node_guid,
				    at->fabric->hosts[at->fabric->hcas[i].host].name,
				    at->fabric->hcas[i].name);
	}
	return 0;
}

static int complete_hca(struct place *at, uint32_t index)
{
	struct sxt_soft_hca *hca = &at->fabric->hcas[index];
	int rc;

	at->hca = hca;
	at->hca_index = index - at->host->first_hca;
	if (hca->name[0] == '\0')
		snprintf(hca->name, sizeof(hca->name), "mlx5_%" PRIu32, at->hca_index);
	if (!name_is_good(hca->name))
		return fail(at, "bad HCA name; expected letters, digits, _ . -, not only digits");
	if (hca->node_guid == 0)
		hca->node_guid = eui64(at, 0);
	if (hca->sys_image_guid == 0)
		hca->sys_image_guid = hca->node_guid;
	rc = complete_pci(at);
	if (rc == 0)
		rc = check_hca_unique(at, index);
	for (uint32_t i = 0; rc == 0 && i < hca->port_cnt; i++)
		rc = complete_port(at, i);
	at->hca = NULL;
	return rc;
}

static int complete_host(struct place *at, uint32_t index)
{
	int rc = 0;

	at->host = &at->fabric->hosts[index];
	at->host_index = index;
	at->netdev_cnt = 0;
	if (at->host->name[0] == '\0')
		snprintf(at->host->name, sizeof(at->host->name), "host%" PRIu32, index);
	if (!name_is_good(at->host->name))
		return fail(at, "bad host name; expected letters, digits, _ . -, not only digits");
	for (uint32_t i = 0; i < index; i++) {
		if (strcmp(at->fabric->hosts[i].name, at->host->name) == 0)
			return fail(at, "two hosts have this name");
	}
	for (uint32_t i = 0; rc == 0 && i < at->host->hca_cnt; i++)
		rc = complete_hca(at, at->host->first_hca + i);
	return rc;
}

static void number_ports(struct sxt_soft_fabric *fabric)
{
	for (uint32_t h = 0; h < fabric->host_cnt; h++) {
		for (uint32_t i = 0; i < fabric->hosts[h].hca_cnt; i++)
			fabric->hcas[fabric->hosts[h].first_hca + i].host = h;
	}
	for (uint32_t h = 0; h < fabric->hca_cnt; h++) {
		struct sxt_soft_hca *hca = &fabric->hcas[h];

		for (uint32_t i = 0; i < hca->port_cnt; i++) {
			fabric->ports[hca->first_port + i].hca = h;
			fabric->ports[hca->first_port + i].port_num = (uint8_t)(i + 1);
		}
	}
}

int sxt_soft_fabric_complete(struct sxt_soft_fabric *fabric, char *why, size_t why_bytes)
{
	struct place at = {.fabric = fabric, .why = why, .why_bytes = why_bytes};
	int rc = 0;

	number_ports(fabric);
	for (uint32_t i = 0; rc == 0 && i < fabric->host_cnt; i++)
		rc = complete_host(&at, i);
	return rc;
}
