/*
 * check_ports.c - each port: would Sextant use it, and if not, why.
 */
#include "cli/doctor/doctor.h"

#include "core/config.h"
#include "ib/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_INIT    2
#define STATE_ACTIVE  4
#define PHYS_DISABLED 3
#define ENTRY_BYTES   128

static void check_down(struct sxt_doctor *d, const struct sxt_doctor_port *port)
{
	if (!port->ethernet && port->phys == 5 && port->state >= STATE_INIT)
		sxt_doctor_add(d, SXT_FINDING_PORT_NO_SM, port->label, "4: ACTIVE, an SM LID",
			       "%s, LID %u, SM LID %u", port->state_text, port->lid, port->sm_lid);
	else if (port->phys == PHYS_DISABLED)
		sxt_doctor_add(d, SXT_FINDING_PORT_DISABLED, port->label, "4: ACTIVE", "%s%s%s",
			       port->state_text, port->netdev[0] != '\0' ? ", " : "", port->netdev);
	else
		sxt_doctor_add(d, SXT_FINDING_PORT_DOWN, port->label, "4: ACTIVE, phys 5: LinkUp",
			       "%s", port->state_text);
}

static void check_roce(struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	if (port->netdev[0] == '\0' || !port->netdev_here) {
		port->usable = false;
		sxt_doctor_add(d, SXT_FINDING_PORT_NO_NETDEV, port->label,
			       "an interface in this network namespace", "%s%s",
			       port->netdev[0] == '\0' ? "no GID names an interface" : port->netdev,
			       port->netdev[0] == '\0' ? "" : " is not here");
	} else if (!port->netdev_up) {
		port->usable = false;
		sxt_doctor_add(d, SXT_FINDING_PORT_NETDEV_DOWN, port->label, "UP", "%s is down",
			       port->netdev);
	}
}

static void check_state(struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	if (!port->readable) {
		sxt_doctor_add(d, SXT_FINDING_PORT_UNREADABLE, port->label, "state and link_layer",
			       "state '%s' in %s", port->state_text, port->folder);
		return;
	}
	port->usable = port->state == STATE_ACTIVE;
	if (!port->usable)
		check_down(d, port);
	else if (port->ethernet)
		check_roce(d, port);
	else if (port->lid == 0 || port->sm_lid == 0) {
		port->usable = false;
		sxt_doctor_add(d, SXT_FINDING_PORT_NO_SM, port->label, "a LID and an SM LID",
			       "%s, LID %u, SM LID %u", port->state_text, port->lid, port->sm_lid);
	}
	if (port->usable)
		sxt_doctor_choose_gid(d, port);
}

static void check_list(struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	const char *list = sxt_doctor_value(d, "NCCL_IB_HCA");

	if (list == NULL || sxt_names_match(list, port->hca->name, (int)port->num))
		return;
	sxt_doctor_add(d, SXT_FINDING_PORT_LEFT_OUT, port->label, NULL, "NCCL_IB_HCA=%s", list);
	port->left_out = true;
}

/* An entry that names no device: the nearest name helps. */
static void check_entry(struct sxt_doctor *d, const char *entry, bool exact)
{
	const char *names[64];
	size_t names_cnt = 0;
	char list[ENTRY_BYTES + 2];
	const char *nearest;
	char word[ENTRY_BYTES];

	snprintf(list, sizeof(list), "%s%s", exact ? "=" : "", entry);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (sxt_names_match(list, d->ports[i].hca->name, (int)d->ports[i].num))
			return;
	}
	for (size_t i = 0; i < d->hcas_cnt && names_cnt < SXT_ARRAY_LEN(names); i++)
		names[names_cnt++] = d->hcas[i].name;
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(entry, ":"), entry);
	nearest = sxt_nearest(word, names, names_cnt);
	sxt_doctor_add(d, SXT_FINDING_HCA_NO_MATCH, "NCCL_IB_HCA",
		       nearest != NULL ? nearest : "the name of a device here", "'%s'", entry);
}

static void check_entries(struct sxt_doctor *d)
{
	const char *list = sxt_doctor_value(d, "NCCL_IB_HCA");
	size_t marks;
	bool exact;

	if (list == NULL)
		return;
	marks = strspn(list, "^=");
	exact = memchr(list, '=', marks) != NULL;
	list += marks;
	while (*list != '\0') {
		size_t len = strcspn(list, ",");
		char entry[ENTRY_BYTES];

		snprintf(entry, sizeof(entry), "%.*s", (int)(len < ENTRY_BYTES ? len : ENTRY_BYTES),
			 list);
		if (len > 0)
			check_entry(d, entry, exact);
		list += len + (list[len] == ',');
	}
}

static void tell_port(struct sxt_doctor *d, const struct sxt_doctor_port *port)
{
	char place[32] = "NUMA node unknown";

	if (port->hca->numa_node >= 0)
		snprintf(place, sizeof(place), "NUMA node %d", port->hca->numa_node);
	sxt_doctor_add(d, SXT_FINDING_PORT_OK, port->label, NULL, "%s, %s, %s%s%s, %s",
		       port->ethernet ? "RoCE" : "InfiniBand",
		       port->rate_text[0] != '\0' ? port->rate_text : "speed unknown", port->netdev,
		       port->netdev[0] != '\0' ? ", " : "",
		       port->hca->has_pci ? port->hca->pci.steps[port->hca->pci.cnt - 1].address
					  : "no PCI device",
		       place);
}

static void compare_ports(struct sxt_doctor *d)
{
	uint64_t fastest = 0;
	const struct sxt_doctor_port *layers[2] = {NULL, NULL};

	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (!d->ports[i].usable)
			continue;
		layers[d->ports[i].ethernet] = &d->ports[i];
		if (d->ports[i].rate_mbps > fastest)
			fastest = d->ports[i].rate_mbps;
	}
	if (layers[0] != NULL && layers[1] != NULL)
		sxt_doctor_add(d, SXT_FINDING_PORT_MIXED, layers[1]->label, "one kind",
			       "RoCE; %s is InfiniBand", layers[0]->label);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		const struct sxt_doctor_port *port = &d->ports[i];

		if (port->usable && port->rate_mbps * 2 < fastest)
			sxt_doctor_add(d, SXT_FINDING_PORT_SLOW, port->label, NULL,
				       "%s; the fastest port has %llu Gb/s", port->rate_text,
				       (unsigned long long)(fastest / 1000));
	}
}

void sxt_check_ports(struct sxt_doctor *d)
{
	bool any = false;

	for (size_t i = 0; i < d->ports_cnt; i++) {
		check_list(d, &d->ports[i]);
		if (!d->ports[i].left_out)
			check_state(d, &d->ports[i]);
	}
	check_entries(d);
	compare_ports(d);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (!d->ports[i].usable)
			continue;
		tell_port(d, &d->ports[i]);
		any = true;
	}
	if (!any && d->hcas_cnt > 0)
		sxt_doctor_add(d, SXT_FINDING_PORT_NONE, "all ports", "one that can be used",
			       "%zu ports, none usable", d->ports_cnt);
}
