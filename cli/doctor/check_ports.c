/*
 * check_ports.c - each port: would Sextant use it, and if not, why.
 */
#include "cli/doctor/doctor.h"

#include "ib/hca.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_INIT    2
#define STATE_ACTIVE  4
#define PHYS_DISABLED 3

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

static void leave_out(struct sxt_doctor *d, const struct sxt_hca_list *list)
{
	for (size_t i = 0; i < d->ports_cnt; i++) {
		struct sxt_doctor_port *port = &d->ports[i];

		port->left_out = !sxt_hca_picks(list, port->hca->name, port->num);
		if (port->left_out)
			sxt_doctor_add(d, SXT_FINDING_PORT_LEFT_OUT, port->label, NULL,
				       "NCCL_IB_HCA=%s", sxt_doctor_value(d, "NCCL_IB_HCA"));
	}
}

/* What the plugin itself would say about the list, with all ports there are. */
static void check_list(struct sxt_doctor *d)
{
	const char *text = sxt_doctor_value(d, "NCCL_IB_HCA");
	struct sxt_hca_port *ports = calloc(d->ports_cnt + 1, sizeof(*ports));
	struct sxt_hca_list list = {0};
	int bad_cnt;

	if (text == NULL || ports == NULL)
		goto out;
	for (size_t i = 0; i < d->ports_cnt; i++)
		ports[i] = (struct sxt_hca_port){d->ports[i].hca->name, d->ports[i].num};
	sxt_doctor_listen(d, SXT_FINDING_HCA_LIST, "NCCL_IB_HCA");
	if (sxt_hca_parse(text, &list, &bad_cnt) != 0)
		d->out_of_memory = true;
	else
		sxt_ignore(sxt_hca_check(&list, ports, (uint32_t)d->ports_cnt));
	sxt_doctor_listen(NULL, SXT_FINDING_HCA_LIST, NULL);
	leave_out(d, &list);
out:
	d->out_of_memory = d->out_of_memory || ports == NULL;
	sxt_hca_fini(&list);
	free(ports);
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

	check_list(d);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (!d->ports[i].left_out)
			check_state(d, &d->ports[i]);
	}
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
