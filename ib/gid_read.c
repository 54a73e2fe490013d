/*
 * gid_read.c - GIDs as sysfs and the machine's interfaces know them (slow path).
 */
#include "ib/gid_read.h"

#include "core/sysfs.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file of an entry below the port's folder, its first line. */
static int read_file(const struct sxt_gid_source *source, const char *folder, uint32_t index,
		     char *out, size_t out_bytes)
{
	char path[256];
	int len = snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/%s/%u",
			   source->device, source->port, folder, index);

	if ((size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	return sxt_sysfs_read(source->sysroot, path, out, out_bytes);
}

static uint8_t read_type(const struct sxt_gid_source *source, uint32_t index)
{
	char text[32];

	if (read_file(source, "gid_attrs/types", index, text, sizeof(text)) != 0)
		return SXT_GID_TYPE_UNKNOWN;
	if (strcmp(text, "RoCE v2") == 0)
		return SXT_GID_TYPE_ROCE_V2;
	if (strcmp(text, "IB/RoCE v1") == 0 || strcmp(text, "RoCE v1") == 0)
		return SXT_GID_TYPE_ROCE_V1;
	return strcmp(text, "IB") == 0 ? SXT_GID_TYPE_IB : SXT_GID_TYPE_UNKNOWN;
}

/* Something that can stand in a path. */
static bool is_name(const char *name)
{
	return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

static bool is_there(const struct sxt_gid_source *source, const char *path)
{
	char real[PATH_MAX];

	return sxt_sysfs_real_path(source->sysroot, path, real, sizeof(real)) == 0;
}

/*
 * Another namespace may have an interface of the same name. A virtual function's own interface
 * hangs on the same PCI device, or on none where it is one of software (VLAN, macvlan, bond); of
 * other functions no such thing is known, a bond spans two.
 */
static bool is_of_another_function(const struct sxt_gid_source *source, const char *netdev)
{
	char path[256];
	char own[PATH_MAX];
	char its[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/physfn", source->device);
	if (!is_there(source, path))
		return false;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", source->device);
	if (sxt_sysfs_real_path(source->sysroot, path, own, sizeof(own)) != 0)
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", netdev);
	if (sxt_sysfs_real_path(source->sysroot, path, its, sizeof(its)) != 0)
		return false;
	return strcmp(own, its) != 0;
}

/* /sys/class/net lists the interfaces of the namespace it was mounted in. */
static bool is_foreign(const struct sxt_gid_source *source, const char *netdev)
{
	char path[64];

	if (!is_there(source, "/sys/class/net"))
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%.15s", netdev);
	return !is_there(source, path) || is_of_another_function(source, netdev);
}

static void read_netdev(const struct sxt_gid_source *source, struct sxt_gid *gid)
{
	char name[sizeof(gid->netdev)];

	if (read_file(source, "gid_attrs/ndevs", gid->index, name, sizeof(name)) != 0 ||
	    !is_name(name))
		return;
	memcpy(gid->netdev, name, sizeof(name));
	gid->is_foreign = is_foreign(source, name);
}

/* The bytes of an address and of its mask, or NULL when it is another one. */
static const uint8_t *mask_of(const struct ifaddrs *entry, const uint8_t *raw, size_t *len_out)
{
	bool is_ipv4 = sxt_gid_is_ipv4(raw);
	int family = is_ipv4 ? AF_INET : AF_INET6;
	const struct sockaddr_in *v4 = (const void *)entry->ifa_addr;
	const struct sockaddr_in6 *v6 = (const void *)entry->ifa_addr;
	const void *mask = entry->ifa_netmask;

	if (entry->ifa_addr == NULL || mask == NULL || entry->ifa_addr->sa_family != family)
		return NULL;
	if (is_ipv4) {
		*len_out = sizeof(v4->sin_addr);
		return memcmp(&v4->sin_addr, raw + 12, *len_out) == 0
			       ? (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr
			       : NULL;
	}
	*len_out = sizeof(v6->sin6_addr);
	return memcmp(&v6->sin6_addr, raw, *len_out) == 0
		       ? (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr
		       : NULL;
}

static uint8_t prefix_len(const struct ifaddrs *addrs, const struct sxt_gid *gid)
{
	for (const struct ifaddrs *entry = addrs; entry != NULL; entry = entry->ifa_next) {
		size_t len = 0;
		const uint8_t *mask = mask_of(entry, gid->raw, &len);
		unsigned int bits = 0;

		if (mask == NULL || (gid->netdev[0] != '\0' && entry->ifa_name != NULL &&
				     strcmp(entry->ifa_name, gid->netdev) != 0))
			continue;
		for (size_t i = 0; i < len; i++)
			bits += (unsigned int)__builtin_popcount(mask[i]);
		return (uint8_t)bits;
	}
	return 0;
}

void sxt_gid_read_facts(const struct sxt_gid_source *source, struct sxt_gid *gids, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		struct sxt_gid *gid = &gids[i];

		if (gid->type == SXT_GID_TYPE_UNKNOWN)
			gid->type = read_type(source, gid->index);
		read_netdev(source, gid);
		gid->prefix_len = prefix_len(source->addrs, gid);
	}
}

/* Only a file whose name is a number that a table can have. */
static bool parse_index(const char *name, uint32_t *out)
{
	size_t digits = strspn(name, "0123456789");

	if (digits == 0 || digits > 5 || name[digits] != '\0')
		return false;
	*out = (uint32_t)strtoul(name, NULL, 10);
	return *out < SXT_GIDS_MAX;
}

static bool read_gid(const struct sxt_gid_source *source, uint32_t index, struct sxt_gid *out)
{
	static const uint8_t empty[SXT_GID_BYTES];
	struct sxt_gid gid = {.index = index, .type = SXT_GID_TYPE_UNKNOWN};
	char text[64];

	if (read_file(source, "gids", index, text, sizeof(text)) != 0 ||
	    inet_pton(AF_INET6, text, gid.raw) != 1 || memcmp(gid.raw, empty, sizeof(empty)) == 0)
		return false;
	*out = gid;
	return true;
}

static int append(struct sxt_gid_list *list, uint32_t *cap, const struct sxt_gid *gid)
{
	struct sxt_gid *grown;

	if (list->cnt == *cap) {
		*cap = *cap != 0 ? *cap * 2 : 16;
		grown = realloc(list->gids, *cap * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		list->gids = grown;
	}
	list->gids[list->cnt++] = *gid;
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct sxt_gid *a = left;
	const struct sxt_gid *b = right;

	return a->index < b->index ? -1 : a->index > b->index;
}

static DIR *open_table(const struct sxt_gid_source *source)
{
	char path[PATH_MAX];
	bool is_root = strcmp(source->sysroot, "/") == 0;
	int len = snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/ports/%u/gids",
			   is_root ? "" : source->sysroot, source->device, source->port);

	if ((size_t)len >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return opendir(path);
}

int sxt_gid_read_table(const struct sxt_gid_source *source, struct sxt_gid_list *out)
{
	struct sxt_gid_list list = {0};
	const struct dirent *entry;
	DIR *folder = open_table(source);
	uint32_t cap = 0;
	int rc = 0;

	if (folder == NULL)
		return -errno;
	while (rc == 0 && (entry = readdir(folder)) != NULL) {
		struct sxt_gid gid;
		uint32_t index;

		if (!parse_index(entry->d_name, &index))
			continue;
		list.len = index >= list.len ? index + 1 : list.len;
		if (read_gid(source, index, &gid))
			rc = append(&list, &cap, &gid);
	}
	closedir(folder);
	if (rc != 0) {
		sxt_gid_list_fini(&list);
		return rc;
	}
	if (list.cnt > 0)
		qsort(list.gids, list.cnt, sizeof(*list.gids), compare);
	sxt_gid_read_facts(source, list.gids, list.cnt);
	*out = list;
	return 0;
}

void sxt_gid_list_fini(struct sxt_gid_list *list)
{
	free(list->gids);
	*list = (struct sxt_gid_list){0};
}
