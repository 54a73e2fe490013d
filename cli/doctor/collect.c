/*
 * collect.c - `sextant doctor collect`: what doctor reads, as an archive for a bug report.
 */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/doctor/facts.h"
#include "cli/doctor/pack.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

enum key {
	KEY_ROOT = 0x100,
	KEY_OUT,
	KEY_BLANK,
};

struct collect_args {
	const char *root;
	const char *out;
	bool blank;
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct collect_args *args = state->input;

	switch (key) {
	case KEY_ROOT:
		args->root = arg;
		return 0;
	case KEY_OUT:
		args->out = arg;
		return 0;
	case KEY_BLANK:
		args->blank = true;
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static void parse(int argc, char **argv, struct collect_args *out)
{
	static const struct argp_option options[] = {
		{"out", KEY_OUT, "FILE", 0,
		 "The archive (sextant-doctor.tar.gz); - is standard output", 1},
		{"blank", KEY_BLANK, NULL, 0,
		 "Replace addresses, GUIDs, host name and home folder, alike everywhere", 1},
		{"root", KEY_ROOT, "DIR", 0, "Collect from a saved tree below DIR", 1},
		{0},
	};
	static const struct argp argp = {
		options,
		parse_arg,
		NULL,
		"Write what `sextant doctor` reads as an archive to attach to a bug report.\v"
		"Of the environment only NCCL_ and SEXTANT_ settings, LD_LIBRARY_PATH and HOME are "
		"kept. Unpack it and look: nearly all of it is text. `sextant doctor --root "
		"sextant-doctor` "
		"then says what it would have said here.",
		NULL,
		NULL,
		NULL,
	};

	argp_parse(&argp, argc, argv, 0, NULL, out);
}

/* What a link leads to, so that it leads somewhere in the archive too. */
static bool real_path(const struct sxt_doctor *d, const char *path, char *out)
{
	return sxt_sysfs_real_path(d->root, path, out, PATH_MAX) == 0;
}

static void pack_files(struct sxt_pack *pack, const char *folder, const char *const *names,
		       size_t cnt)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < cnt; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) < (int)sizeof(path))
			sxt_pack_copy(pack, path);
	}
}

static void pack_pci(const struct sxt_doctor *d, struct sxt_pack *pack,
		     const struct sxt_pci_path *pci)
{
	static const char *const files[] = {"vendor",
					    "device",
					    "class",
					    "numa_node",
					    "current_link_speed",
					    "current_link_width",
					    "max_link_speed",
					    "max_link_width",
					    "config",
					    "driver",
					    "iommu_group",
					    "physfn"};
	char path[PATH_MAX];
	char real[PATH_MAX];

	for (size_t i = 0; i < pci->cnt; i++) {
		const char *folder = pci->steps[i].folder;

		pack_files(pack, folder, files, SXT_ARRAY_LEN(files));
		snprintf(path, sizeof(path), "%s/driver", folder);
		if (real_path(d, path, real))
			sxt_pack_copy(pack, real);
		snprintf(path, sizeof(path), "%s/iommu_group", folder);
		if (real_path(d, path, real)) {
			sxt_pack_copy(pack, real);
			snprintf(path, sizeof(path), "%.4000s/type", real);
			sxt_pack_copy(pack, path);
		}
	}
}

/* Ports with counters and GID tables lie five folders below the device's own. */
static void pack_hca(const struct sxt_doctor *d, struct sxt_pack *pack,
		     const struct sxt_doctor_hca *hca)
{
	char path[PATH_MAX];
	char real[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", hca->name);
	sxt_pack_copy(pack, path);
	if (real_path(d, path, real))
		sxt_pack_folder(pack, real, 5);
	if (hca->has_pci)
		pack_pci(d, pack, &hca->pci);
	if (hca->uverbs[0] == '\0')
		return;
	snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%s", hca->uverbs);
	sxt_pack_copy(pack, path);
	if (real_path(d, path, real)) {
		snprintf(path, sizeof(path), "%.4000s/ibdev", real);
		sxt_pack_copy(pack, path);
	}
}

static void pack_netdev(const struct sxt_doctor *d, struct sxt_pack *pack, const char *netdev)
{
	static const char *const files[] = {"mtu", "flags", "speed", "dev_port", "device"};
	static const char *const sysctls[] = {"arp_ignore", "arp_announce", "rp_filter"};
	char path[PATH_MAX];
	char real[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	sxt_pack_copy(pack, path);
	if (real_path(d, path, real))
		pack_files(pack, real, files, SXT_ARRAY_LEN(files));
	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s", netdev);
	pack_files(pack, path, sysctls, SXT_ARRAY_LEN(sysctls));
}

static void pack_system(const struct sxt_doctor *d, struct sxt_pack *pack)
{
	static const char *const paths[] = {"/proc/self/limits",
					    "/proc/self/status",
					    "/proc/uptime",
					    "/proc/version",
					    "/proc/sys/kernel/arch",
					    "/proc/sys/kernel/osrelease",
					    "/proc/cpuinfo",
					    "/proc/driver/nvidia/version",
					    "/sys/module/nvidia_peermem",
					    "/sys/module/nv_peer_mem",
					    "/etc/ld.so.cache",
					    "/etc/nccl.conf"};
	const char *file = sxt_doctor_value(d, "NCCL_CONF_FILE");

	for (size_t i = 0; i < SXT_ARRAY_LEN(paths); i++)
		sxt_pack_copy(pack, paths[i]);
	sxt_pack_folder(pack, "/sys/kernel/mm/memory_peers", 1);
	sxt_pack_folder(pack, "/etc/libibverbs.d", 0);
	sxt_pack_folder(pack, "/dev/infiniband", 0);
	sxt_pack_copy(pack, "/sys/devices/system/node/node0");
	sxt_pack_copy(pack, "/sys/devices/system/node/node1");
	if (file != NULL && file[0] == '/')
		sxt_pack_copy(pack, file);
}

static void pack_environment(const struct sxt_doctor *d, struct sxt_pack *pack)
{
	char *text = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&text, &len);

	if (file == NULL)
		return;
	for (size_t i = 0; i < d->settings.cnt; i++) {
		const struct sxt_doctor_setting *one = &d->settings.list[i];

		if (strcmp(one->origin, "environment") == 0)
			fprintf(file, "%s=%s%c", one->name, one->value, '\0');
	}
	if (fclose(file) == 0)
		sxt_pack_text(pack, "/proc/self/environ", text, len);
	free(text);
}

static void pack_routes(const struct sxt_doctor *d, struct sxt_pack *pack,
			const struct sxt_blank *blank)
{
	char *text = sxt_doctor_slurp(d, "/proc/net/route", NULL);

	if (text == NULL)
		return;
	if (blank != NULL)
		sxt_blank_routes(blank, text);
	sxt_pack_text(pack, "/proc/net/route", text, strlen(text));
	free(text);
}

/* NCCL's file of settings in the user's home, whose name may be a person's. */
static void pack_home(const struct sxt_doctor *d, struct sxt_pack *pack,
		      const struct sxt_blank *blank)
{
	const char *home = sxt_doctor_value(d, "HOME");
	char path[PATH_MAX];
	char *text;

	if (home == NULL || home[0] != '/' ||
	    snprintf(path, sizeof(path), "%s/.nccl.conf", home) >= (int)sizeof(path))
		return;
	text = sxt_doctor_slurp(d, path, NULL);
	if (text != NULL && blank != NULL && blank->home[0] != '\0')
		snprintf(path, sizeof(path), "/user-home/.nccl.conf");
	if (text != NULL)
		sxt_pack_text(pack, path, text, strlen(text));
	free(text);
}

/* The plugin itself, for its symbols; of the verbs library only that it is there. */
static void pack_libraries(const struct sxt_doctor *d, struct sxt_pack *pack)
{
	const char *verbs = sxt_doctor_value(d, "NCCL_IBVERBS_LIB");
	char path[PATH_MAX];
	const char *how;
	size_t len;
	char *data;

	if (verbs == NULL || verbs[0] == '\0')
		verbs = "libibverbs.so.1";
	if (sxt_doctor_find_library(d, verbs, path, sizeof(path), &how) == 0)
		sxt_pack_text(pack, path, "", 0);
	if (sxt_doctor_net_file(d, path, sizeof(path)) != 0)
		return;
	data = sxt_doctor_slurp(d, path, &len);
	if (data != NULL)
		sxt_pack_text(pack, path, data, len);
	free(data);
}

static void put_fact(const struct sxt_doctor *d, FILE *file, const char *key)
{
	char value[64];

	if (sxt_doctor_fact(d, key, value, sizeof(value)) == 0)
		fprintf(file, "%s=%s\n", key, value);
}

static void pack_facts(const struct sxt_doctor *d, struct sxt_pack *pack)
{
	struct sxt_doctor_stats stats;
	char *text = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&text, &len);
	char key[64];

	if (file == NULL)
		return;
	put_fact(d, file, "shm_bytes");
	put_fact(d, file, "shm_free_bytes");
	for (size_t i = 0; i < d->hcas_cnt; i++) {
		snprintf(key, sizeof(key), "open/%s", d->hcas[i].uverbs);
		if (d->hcas[i].uverbs[0] != '\0')
			put_fact(d, file, key);
	}
	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (d->ports[i].netdev[0] == '\0')
			continue;
		sxt_doctor_stats_read(d, d->ports[i].netdev, &stats);
		for (size_t k = 0; k < stats.cnt; k++)
			fprintf(file, "ethtool/%s/%s=%llu\n", d->ports[i].netdev,
				stats.list[k].name, (unsigned long long)stats.list[k].value);
	}
	if (fclose(file) == 0)
		sxt_pack_text(pack, SXT_FACTS_FILE, text, len);
	free(text);
}

static void pack_all(const struct sxt_doctor *d, struct sxt_pack *pack,
		     const struct sxt_blank *blank)
{
	for (size_t i = 0; i < d->hcas_cnt; i++)
		pack_hca(d, pack, &d->hcas[i]);
	pack_netdev(d, pack, "all");
	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (d->ports[i].netdev[0] != '\0')
			pack_netdev(d, pack, d->ports[i].netdev);
	}
	pack_system(d, pack);
	pack_environment(d, pack);
	pack_routes(d, pack, blank);
	pack_home(d, pack, blank);
	pack_libraries(d, pack);
	pack_facts(d, pack);
}

/* Return: 0, or -EIO without random numbers. */
static int make_blank(const struct sxt_doctor *d, struct sxt_blank *out)
{
	const char *home = sxt_doctor_value(d, "HOME");
	struct utsname name;

	*out = (struct sxt_blank){.host = ""};
	if (getrandom(out->key, sizeof(out->key), 0) != (ssize_t)sizeof(out->key))
		return -EIO;
	if (uname(&name) == 0)
		snprintf(out->host, sizeof(out->host), "%s", name.nodename);
	if (home != NULL && home[0] == '/' && home[1] != '\0' && strcmp(home, "/root") != 0)
		snprintf(out->home, sizeof(out->home), "%s", home);
	return 0;
}

static int collect(struct sxt_doctor *d, const struct collect_args *args)
{
	struct sxt_blank blank;
	struct sxt_pack *pack;
	size_t cnt = 0;
	int rc;

	if (args->blank && make_blank(d, &blank) != 0) {
		fprintf(stderr, "sextant doctor: the kernel has no random numbers to blank with\n");
		return SXT_EXIT_BROKEN;
	}
	rc = sxt_pack_open(args->out, d->root, args->blank ? &blank : NULL, &pack);
	if (rc != 0)
		return SXT_EXIT_BROKEN;
	pack_all(d, pack, args->blank ? &blank : NULL);
	if (sxt_pack_close(pack, &cnt) != 0)
		return SXT_EXIT_BROKEN;
	if (strcmp(args->out, "-") != 0)
		printf("%s: %zu entries%s. Look through it before you pass it on.\n", args->out,
		       cnt, args->blank ? ", addresses and names replaced" : "");
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}

int sxt_doctor_collect(int argc, char **argv, const char *root)
{
	struct collect_args args = {.root = root, .out = "sextant-doctor.tar.gz"};
	struct sxt_doctor d = {0};
	int status;

	parse(argc, argv, &args);
	d.root = args.root;
	if (strcmp(d.root, "/") != 0)
		d.facts = sxt_doctor_slurp(&d, SXT_FACTS_FILE, NULL);
	sxt_doctor_load_settings(&d);
	sxt_doctor_load_ports(&d);
	status = d.out_of_memory ? (int)SXT_EXIT_BROKEN : collect(&d, &args);
	sxt_doctor_fini(&d);
	return status;
}
