/*
 * host.c - limits of machine and process, out of /proc and /sys (slow path).
 */
#include "ib/host.h"

#include "core/sysfs.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES       8192
#define CAP_IPC_LOCK_BIT 14
#define PCI_NVIDIA       0x10de
#define PCI_DISPLAY      0x03 /* class, in its top byte */
#define UNLIMITED        UINT64_MAX

/* The number behind a word at the beginning of a line; "unlimited" and "max" are UNLIMITED. */
static int read_number(const char *text, const char *word, int base, uint64_t *out)
{
	const char *at = text;
	size_t len = strlen(word);
	char *end;

	while (at != NULL && strncmp(at, word, len) != 0) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	if (at == NULL)
		return -ENODATA;
	at += len;
	at += strspn(at, " \t");
	if (strncmp(at, "unlimited", 9) == 0) {
		*out = UNLIMITED;
		return 0;
	}
	*out = strtoull(at, &end, base);
	return end != at ? 0 : -ENODATA;
}

int sxt_host_pinned_read(const char *root, struct sxt_host_pinned *out)
{
	char text[FILE_BYTES];
	uint64_t limit_bytes;
	uint64_t used_kib = 0;
	uint64_t caps = 0;
	size_t len;
	int rc = sxt_sysfs_read_all(root, "/proc/self/limits", text, sizeof(text), &len);

	if (rc == 0)
		rc = read_number(text, "Max locked memory", 10, &limit_bytes);
	if (rc == 0)
		rc = sxt_sysfs_read_all(root, "/proc/self/status", text, sizeof(text), &len);
	if (rc != 0)
		return rc;
	sxt_ignore(read_number(text, "VmPin:", 10, &used_kib));
	sxt_ignore(read_number(text, "CapEff:", 16, &caps));
	*out = (struct sxt_host_pinned){
		.limit_bytes = limit_bytes,
		.used_bytes = used_kib * 1024,
		.is_exempt = (caps >> CAP_IPC_LOCK_BIT & 1) != 0,
	};
	if (out->is_exempt)
		out->limit_bytes = UNLIMITED;
	return 0;
}

/* "mlx5_0 hca_handle=2 hca_object=2000": a number of the HCA's line. */
static int read_count(const char *root, const char *path, const char *device, const char *what,
		      uint64_t *out)
{
	char text[FILE_BYTES];
	char word[80];
	const char *at;
	size_t len;
	int rc = sxt_sysfs_read_all(root, path, text, sizeof(text), &len);

	if (rc != 0)
		return rc;
	snprintf(word, sizeof(word), "%s ", device);
	at = text;
	while (at != NULL && strncmp(at, word, strlen(word)) != 0) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	if (at == NULL)
		return -ENODATA;
	text[at - text + (ptrdiff_t)strcspn(at, "\n")] = '\0';
	at = strstr(at, what);
	if (at == NULL)
		return -ENODATA;
	at += strlen(what);
	if (at[0] != '=' || at[1] < '0' || at[1] > '9')
		return -ENODATA; /* "max" */
	*out = strtoull(at + 1, NULL, 10);
	return 0;
}

static int read_cgroup(const char *root, const char *device, const char *what,
		       struct sxt_host_cgroup *group)
{
	char path[sizeof(group->folder) + 16];
	int rc;

	snprintf(path, sizeof(path), "%s/rdma.max", group->folder);
	rc = read_count(root, path, device, what, &group->limit);
	if (rc != 0)
		return rc;
	snprintf(path, sizeof(path), "%s/rdma.current", group->folder);
	return read_count(root, path, device, what, &group->used);
}

/* Where this process's group lies: "0::/job" is in the one tree, "5:rdma:/job" in one of its own.
 */
static int find_cgroup(const char *root, char *out, size_t out_bytes)
{
	char text[FILE_BYTES];
	const char *tree = "/sys/fs/cgroup";
	const char *at;
	size_t len;
	int rc = sxt_sysfs_read_all(root, "/proc/self/cgroup", text, sizeof(text), &len);

	if (rc != 0)
		return rc;
	at = strstr(text, ":rdma:");
	if (at != NULL) {
		tree = "/sys/fs/cgroup/rdma";
		at += strlen(":rdma:");
	} else {
		at = strstr(text, "0::");
		at += at != NULL ? strlen("0::") : 0;
	}
	if (at == NULL)
		return -ENODATA;
	len = strcspn(at, "\n");
	len = (size_t)snprintf(out, out_bytes, "%s%.*s", tree, (int)len, at);
	if (len >= out_bytes)
		return -ENAMETOOLONG;
	if (out[len - 1] == '/')
		out[len - 1] = '\0';
	return 0;
}

int sxt_host_cgroup_read(const char *root, const char *device, const char *what,
			 struct sxt_host_cgroup *out)
{
	struct sxt_host_cgroup group = {0};
	int rc = find_cgroup(root, group.folder, sizeof(group.folder));

	while (rc == 0) {
		char *slash;

		if (read_cgroup(root, device, what, &group) == 0) {
			*out = group;
			return 0;
		}
		slash = strrchr(group.folder, '/');
		if (strcmp(slash, "/cgroup") == 0)
			rc = -ENODATA;
		*slash = '\0';
	}
	return rc;
}

/* The largest region in a PCI device's "resource": a line each, begin and end in hex. */
static uint64_t largest_region(const char *text)
{
	uint64_t most = 0;

	while (*text != '\0') {
		char *end;
		uint64_t first = strtoull(text, &end, 16);
		uint64_t last = strtoull(end, &end, 16);

		if (last > first && last - first + 1 > most)
			most = last - first + 1;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return most;
}

static unsigned long read_id(const char *root, const char *address, const char *what)
{
	char path[320];
	char text[32];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, what);
	return sxt_sysfs_read(root, path, text, sizeof(text)) == 0 ? strtoul(text, NULL, 16) : 0;
}

/* A board's own display has a small one too, hence the vendor. */
static uint64_t gpu_bar(const char *root, const char *address)
{
	char path[320];
	char text[FILE_BYTES];
	size_t len;

	if (read_id(root, address, "vendor") != PCI_NVIDIA ||
	    read_id(root, address, "class") >> 16 != PCI_DISPLAY)
		return 0;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource", address);
	if (sxt_sysfs_read_all(root, path, text, sizeof(text), &len) != 0)
		return 0;
	return largest_region(text);
}

int sxt_host_gpu_bar_read(const char *root, uint64_t *bytes_out)
{
	struct sxt_names names = {0};
	uint64_t least = UINT64_MAX;
	int rc = sxt_sysfs_list(root, "/sys/bus/pci/devices", &names);

	for (size_t i = 0; rc == 0 && i < names.cnt; i++) {
		uint64_t bytes = gpu_bar(root, names.list[i]);

		if (bytes != 0 && bytes < least)
			least = bytes;
	}
	sxt_names_fini(&names);
	if (rc == 0 && least == UINT64_MAX)
		rc = -ENODATA;
	if (rc == 0)
		*bytes_out = least;
	return rc;
}
