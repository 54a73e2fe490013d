/*
 * facts.c - what no file below the root tells: sizes, refusals, statistics of interfaces.
 *
 * On the live machine they are asked for; a saved tree has them as lines KEY=VALUE in a file.
 */
#include "cli/doctor/facts.h"

#include "core/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define STRINGS_MAX 16384

static int live_shm(const char *key, char *out, size_t out_bytes)
{
	struct statvfs info;
	unsigned long long blocks;

	if (statvfs("/dev/shm", &info) != 0)
		return -ENODATA;
	blocks = strcmp(key, "shm_bytes") == 0 ? info.f_blocks : info.f_bavail;
	snprintf(out, out_bytes, "%llu", blocks * info.f_frsize);
	return 0;
}

static int live_open(const char *node, char *out, size_t out_bytes)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/%.32s", node);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	snprintf(out, out_bytes, "%s", fd < 0 ? sxt_errname(errno) : "OK");
	if (fd >= 0)
		close(fd);
	return 0;
}

static int saved_fact(const char *facts, const char *key, char *out, size_t out_bytes)
{
	size_t len = strlen(key);

	while (facts != NULL && *facts != '\0') {
		size_t line_len = strcspn(facts, "\n");

		if (line_len > len && facts[len] == '=' && strncmp(facts, key, len) == 0) {
			snprintf(out, out_bytes, "%.*s", (int)(line_len - len - 1),
				 facts + len + 1);
			return 0;
		}
		facts += line_len + (facts[line_len] == '\n');
	}
	return -ENODATA;
}

int sxt_doctor_fact(const struct sxt_doctor *d, const char *key, char *out, size_t out_bytes)
{
	out[0] = '\0';
	if (strcmp(d->root, "/") != 0)
		return saved_fact(d->facts, key, out, out_bytes);
	if (strncmp(key, "shm_", 4) == 0)
		return live_shm(key, out, out_bytes);
	if (strncmp(key, "open/", 5) == 0)
		return live_open(key + 5, out, out_bytes);
	return -ENODATA;
}

static bool is_wanted(const char *name)
{
	return strstr(name, "pause") != NULL || strstr(name, "pfc") != NULL ||
	       strstr(name, "discard") != NULL;
}

static void add_stat(struct sxt_doctor_stats *stats, const char *name, size_t name_len,
		     uint64_t value)
{
	struct sxt_doctor_stat *one;

	if (stats->cnt == SXT_DOCTOR_STATS_MAX || name_len >= sizeof(one->name))
		return;
	one = &stats->list[stats->cnt];
	memcpy(one->name, name, name_len);
	one->name[name_len] = '\0';
	if (!is_wanted(one->name))
		return;
	one->value = value;
	stats->cnt++;
}

static int ethtool(int fd, const char *netdev, void *request)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.15s", netdev);
	ifr.ifr_data = request;
	return ioctl(fd, SIOCETHTOOL, &ifr) == 0 ? 0 : -errno;
}

static uint32_t stats_cnt(int fd, const char *netdev)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	if (ethtool(fd, netdev, &info) != 0 || info.n_stats > STRINGS_MAX)
		return 0;
	return info.n_stats;
}

static void live_stats(const char *netdev, struct sxt_doctor_stats *out)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t cnt = fd >= 0 ? stats_cnt(fd, netdev) : 0;
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + cnt * ETH_GSTRING_LEN + 1);
	struct ethtool_stats *values = calloc(1, sizeof(*values) + cnt * sizeof(uint64_t));

	if (cnt == 0 || names == NULL || values == NULL)
		goto out;
	*names = (struct ethtool_gstrings){ETHTOOL_GSTRINGS, ETH_SS_STATS, cnt};
	*values = (struct ethtool_stats){ETHTOOL_GSTATS, cnt};
	if (ethtool(fd, netdev, names) != 0 || ethtool(fd, netdev, values) != 0)
		goto out;
	for (uint32_t i = 0; i < cnt; i++) {
		const char *name = (const char *)names->data + (size_t)i * ETH_GSTRING_LEN;

		add_stat(out, name, strnlen(name, ETH_GSTRING_LEN), values->data[i]);
	}
out:
	free(names);
	free(values);
	if (fd >= 0)
		close(fd);
}

static void saved_stats(const char *facts, const char *netdev, struct sxt_doctor_stats *out)
{
	char prefix[64];
	size_t len;

	len = (size_t)snprintf(prefix, sizeof(prefix), "ethtool/%.31s/", netdev);
	while (facts != NULL && *facts != '\0') {
		size_t line_len = strcspn(facts, "\n");

		if (strncmp(facts, prefix, len) == 0 && memchr(facts, '=', line_len) != NULL)
			add_stat(out, facts + len, strcspn(facts + len, "="),
				 strtoull(facts + strcspn(facts, "=") + 1, NULL, 10));
		facts += line_len + (facts[line_len] == '\n');
	}
}

void sxt_doctor_stats_read(const struct sxt_doctor *d, const char *netdev,
			   struct sxt_doctor_stats *out)
{
	out->cnt = 0;
	if (strcmp(d->root, "/") != 0)
		saved_stats(d->facts, netdev, out);
	else
		live_stats(netdev, out);
}

bool sxt_doctor_counts_pauses(const char *name)
{
	size_t len = strlen(name);

	return (len > 6 && strcmp(name + len - 6, "_pause") == 0) ||
	       strstr(name, "pfc_ena_frames") != NULL;
}
