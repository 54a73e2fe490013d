/*
 * check_system.c - what the machine and its administrator set: traffic class, ACS, IOMMU, GPU.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ECN_BITS 3

/* "Global tclass=236" */
static int global_tclass(const struct sxt_doctor *d, const struct sxt_doctor_port *port)
{
	char text[256];
	const char *value;
	char *end;
	long tclass;

	if (sxt_doctor_read(d, text, sizeof(text), "/sys/class/infiniband/%s/tc/%u/traffic_class",
			    port->hca->name, port->num) != 0)
		return -1;
	value = strstr(text, "Global tclass=");
	if (value == NULL)
		return -1;
	tclass = strtol(value + strlen("Global tclass="), &end, 10);
	return end != value + strlen("Global tclass=") && tclass >= 0 && tclass <= 255 ? (int)tclass
										       : -1;
}

static int wanted_tclass(const struct sxt_doctor *d)
{
	const char *text = sxt_doctor_value(d, "NCCL_IB_TC");
	char *end;
	long tclass;

	if (text == NULL || text[0] == '\0')
		return -1;
	tclass = strtol(text, &end, 0);
	return *end == '\0' && tclass >= 0 && tclass <= 255 ? (int)tclass : -1;
}

void sxt_check_qos(struct sxt_doctor *d)
{
	int wanted = wanted_tclass(d);

	if (wanted >= 0 && (wanted & ECN_BITS) != 0)
		sxt_doctor_add(d, SXT_FINDING_TCLASS_ECN_BITS, "NCCL_IB_TC", NULL,
			       "%d: DSCP %d, ECN bits %d", wanted, wanted >> 2, wanted & ECN_BITS);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		const struct sxt_doctor_port *port = &d->ports[i];
		int tclass = global_tclass(d, port);

		if (tclass < 0)
			continue;
		if (wanted >= 0 && wanted >> 2 != tclass >> 2)
			sxt_doctor_add(d, SXT_FINDING_TCLASS_CONFLICT, port->label, NULL,
				       "effective %d (DSCP %d); NCCL_IB_TC=%d (DSCP %d) is ignored",
				       tclass, tclass >> 2, wanted, wanted >> 2);
		else
			sxt_doctor_add(d, SXT_FINDING_TCLASS_GLOBAL, port->label, NULL,
				       "effective %d (DSCP %d)", tclass, tclass >> 2);
	}
}

static bool is_virtual_machine(const struct sxt_doctor *d)
{
	char *text = sxt_doctor_slurp(d, "/proc/cpuinfo", NULL);
	bool found = text != NULL && strstr(text, " hypervisor") != NULL;

	free(text);
	return found;
}

/* Bridges only: the last step is the card. Return: true if one could not be read. */
static bool check_acs(struct sxt_doctor *d, const struct sxt_doctor_hca *hca, bool virtual)
{
	uint16_t redirects = SXT_PCI_ACS_REQUEST_REDIRECT | SXT_PCI_ACS_COMPLETION_REDIRECT;
	bool unknown = false;

	for (size_t i = 0; i + 1 < hca->pci.cnt; i++) {
		uint16_t control;
		int rc = sxt_pci_acs_read(d->root, hca->pci.steps[i].folder, &control);

		unknown = unknown || rc == -EACCES;
		if (rc != 0 || (control & redirects) == 0)
			continue;
		sxt_doctor_add(d, virtual ? SXT_FINDING_PCI_ACS_VM : SXT_FINDING_PCI_ACS, hca->name,
			       virtual ? NULL : "0x0000", "bridge %s, ACS control 0x%04x",
			       hca->pci.steps[i].address, control);
	}
	return unknown;
}

static void check_iommu(struct sxt_doctor *d, const struct sxt_doctor_hca *hca)
{
	const char *folder = hca->pci.steps[hca->pci.cnt - 1].folder;
	char link[PATH_MAX];
	char real[PATH_MAX];
	char type[32];
	const char *group;

	snprintf(link, sizeof(link), "%s/iommu_group", folder);
	if (sxt_sysfs_real_path(d->root, link, real, sizeof(real)) != 0)
		return;
	group = strrchr(real, '/');
	if (group == NULL || sxt_doctor_read(d, type, sizeof(type),
					     "/sys/kernel/iommu_groups/%s/type", group + 1) != 0)
		return;
	if (strncmp(type, "DMA", 3) == 0)
		sxt_doctor_add(d, SXT_FINDING_PCI_IOMMU, hca->name, "identity",
			       "IOMMU group %s has type %s", group + 1, type);
}

void sxt_check_pci(struct sxt_doctor *d)
{
	bool virtual = is_virtual_machine(d);
	bool unknown = false;

	for (size_t i = 0; i < d->hcas_cnt; i++) {
		if (!d->hcas[i].has_pci)
			continue;
		unknown = check_acs(d, &d->hcas[i], virtual) || unknown;
		check_iommu(d, &d->hcas[i]);
	}
	if (unknown && !virtual)
		sxt_doctor_add(d, SXT_FINDING_PCI_ACS_UNKNOWN, "bridges above the cards", NULL,
			       "only the first 64 bytes of their config can be read");
}

void sxt_check_gpu(struct sxt_doctor *d)
{
	if (!sxt_doctor_exists(d, "/proc/driver/nvidia/version"))
		return;
	if (!sxt_doctor_exists(d, "/sys/module/nvidia_peermem") &&
	    !sxt_doctor_exists(d, "/sys/module/nv_peer_mem"))
		sxt_doctor_add(d, SXT_FINDING_GPU_NO_PEERMEM, "nvidia_peermem", NULL, "not loaded");
	else if (!sxt_doctor_exists(d, "/sys/kernel/mm/memory_peers/nv_mem") &&
		 !sxt_doctor_exists(d, "/sys/kernel/mm/memory_peers/nv_mem_nc"))
		sxt_doctor_add(d, SXT_FINDING_GPU_PEERMEM_UNREGISTERED, "nvidia_peermem",
			       "/sys/kernel/mm/memory_peers/nv_mem", "loaded, not registered");
	else
		sxt_doctor_add(d, SXT_FINDING_GPU_PEERMEM, "nvidia_peermem", NULL,
			       "loaded and registered");
}
