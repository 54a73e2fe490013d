/*
 * check_devices.c - the way from a program to the device: library, provider, node, permission.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Kernel driver and the file that makes libibverbs load its provider. */
static const struct {
	const char *driver;
	const char *provider;
} providers[] = {
	{"mlx5_core", "mlx5"}, {"mlx4_core", "mlx4"}, {"bnxt_en", "bnxt_re"}, {"irdma", "irdma"},
	{"ice", "irdma"},      {"efa", "efa"},        {"rdma_rxe", "rxe"},    {"siw", "siw"},
	{"hns3", "hns"},       {"erdma", "erdma"},    {"mana", "mana"},
};

static void check_library(struct sxt_doctor *d)
{
	const char *file = sxt_doctor_value(d, "NCCL_IBVERBS_LIB");
	char path[PATH_MAX];
	const char *how;

	if (file == NULL || file[0] == '\0')
		file = "libibverbs.so.1";
	if (sxt_doctor_find_library(d, file, path, sizeof(path), &how) != 0)
		sxt_doctor_add(d, SXT_FINDING_DEV_NO_LIBRARY, file,
			       "in LD_LIBRARY_PATH or ld.so.cache", "not found");
}

/* Only where the folder of a packaged libibverbs is: other builds keep their lists elsewhere. */
static void check_provider(struct sxt_doctor *d, const struct sxt_doctor_hca *hca)
{
	if (!sxt_doctor_exists(d, "/etc/libibverbs.d"))
		return;
	for (size_t i = 0; i < SXT_ARRAY_LEN(providers); i++) {
		const char *provider = providers[i].provider;

		if (strcmp(providers[i].driver, hca->driver) == 0 &&
		    !sxt_doctor_exists(d, "/etc/libibverbs.d/%s.driver", provider))
			sxt_doctor_add(d, SXT_FINDING_DEV_NO_PROVIDER, hca->name, NULL,
				       "driver %s, and no /etc/libibverbs.d/%s.driver", hca->driver,
				       provider);
	}
}

static void check_node(struct sxt_doctor *d, const struct sxt_doctor_hca *hca)
{
	char key[48];
	char error[48];
	char node[64];

	snprintf(node, sizeof(node), "/dev/infiniband/%s", hca->uverbs);
	if (!sxt_doctor_exists(d, "%s", node)) {
		sxt_doctor_add(d, SXT_FINDING_DEV_NODE_MISSING, hca->name, NULL,
			       "/sys has %s, %s does not exist", hca->uverbs, node);
		return;
	}
	snprintf(key, sizeof(key), "open/%s", hca->uverbs);
	if (sxt_doctor_fact(d, key, error, sizeof(error)) != 0 || strcmp(error, "OK") == 0)
		return;
	if (strcmp(error, "EPERM") == 0)
		sxt_doctor_add(d, SXT_FINDING_DEV_CGROUP, hca->name, "it opens", "open(%s): EPERM",
			       node);
	else if (strcmp(error, "EACCES") == 0)
		sxt_doctor_add(d, SXT_FINDING_DEV_PERMISSION, hca->name, "mode crw-rw-rw-",
			       "open(%s): EACCES", node);
	else
		sxt_doctor_add(d, SXT_FINDING_DEV_OPEN, hca->name, "it opens", "open(%s): %s", node,
			       error);
}

void sxt_check_devices(struct sxt_doctor *d)
{
	if (d->software) {
		sxt_doctor_add(d, SXT_FINDING_DEV_SOFTWARE, "software HCA", NULL, "%s", d->root);
		return;
	}
	check_library(d);
	if (d->hcas_cnt == 0) {
		sxt_doctor_add(d, SXT_FINDING_DEV_NONE, "/sys/class/infiniband",
			       "one entry per device", "%s",
			       sxt_doctor_exists(d, "/sys/class/infiniband") ? "empty"
									     : "does not exist");
		return;
	}
	if (!sxt_doctor_exists(d, "/sys/class/infiniband_verbs")) {
		sxt_doctor_add(d, SXT_FINDING_DEV_NO_VERBS, "/sys/class/infiniband_verbs",
			       "one uverbs entry per device", "does not exist");
		return;
	}
	for (size_t i = 0; i < d->hcas_cnt; i++) {
		const struct sxt_doctor_hca *hca = &d->hcas[i];

		check_provider(d, hca);
		if (hca->uverbs[0] == '\0')
			sxt_doctor_add(d, SXT_FINDING_DEV_NO_VERBS, hca->name,
				       "an entry in /sys/class/infiniband_verbs", "none");
		else
			check_node(d, hca);
	}
}
