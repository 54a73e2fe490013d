/*
 * pci.c - the PCI tree as /sys shows it (slow path).
 */
#include "core/pci.h"

#include "core/sysfs.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES     4096
#define HEADER_BYTES     256 /* extended capabilities begin here */
#define CAPABILITY_ACS   0x000d
#define ACS_CONTROL      6
#define CAPABILITIES_MAX ((CONFIG_BYTES - HEADER_BYTES) / 8)

/* "0000:1b:00.0"; domains of some hosts have more digits. */
static bool is_address(const char *name, size_t len)
{
	static const char form[] = ":hh:hh.h";
	size_t domain = len > 8 ? len - 8 : 0;

	if (domain < 4 || domain > 7)
		return false;
	for (size_t i = 0; i < len; i++) {
		char want = (char)(i < domain ? 'h' : form[i - domain]);

		if (want == 'h' ? !isxdigit((unsigned char)name[i]) : name[i] != want)
			return false;
	}
	return true;
}

static int add_step(struct sxt_pci_path *path, const char *name, size_t len, const char *real)
{
	size_t folder_len = (size_t)(name - real) + len;

	if (path->cnt == SXT_PCI_DEPTH_MAX || folder_len >= sizeof(path->steps[0].folder))
		return -ENAMETOOLONG;
	memcpy(path->steps[path->cnt].address, name, len);
	path->steps[path->cnt].address[len] = '\0';
	memcpy(path->steps[path->cnt].folder, real, folder_len);
	path->steps[path->cnt].folder[folder_len] = '\0';
	path->cnt++;
	return 0;
}

int sxt_pci_path_read(const char *root, const char *device, struct sxt_pci_path *out)
{
	struct sxt_pci_path path = {0};
	char real[PATH_MAX];
	const char *name = real;
	int rc = sxt_sysfs_real_path(root, device, real, sizeof(real));

	while (rc == 0 && *name != '\0') {
		size_t len = strcspn(name, "/");

		if (is_address(name, len))
			rc = add_step(&path, name, len, real);
		name += len + (name[len] == '/');
	}
	if (rc != 0)
		return rc;
	if (path.cnt == 0)
		return -ENODEV;
	*out = path;
	return 0;
}

static int read_number(const char *root, const char *folder, const char *name, double *out)
{
	char path[PATH_MAX];
	char text[64];
	char *end;
	double value;
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	rc = sxt_sysfs_read(root, path, text, sizeof(text));
	if (rc != 0)
		return rc;
	value = strtod(text, &end);
	/* "Unknown" stands where a bridge has no link; 255 lanes are the kernel's "none". */
	if (end == text || !(value > 0 && value < 1e6))
		return -ENODATA;
	*out = value;
	return 0;
}

int sxt_pci_link_read(const char *root, const char *folder, const char *which,
		      struct sxt_pci_link *out)
{
	char name[32];
	double speed_gts;
	double width;
	int rc;

	snprintf(name, sizeof(name), "%s_link_speed", which);
	rc = read_number(root, folder, name, &speed_gts);
	if (rc != 0)
		return rc;
	snprintf(name, sizeof(name), "%s_link_width", which);
	rc = read_number(root, folder, name, &width);
	if (rc != 0)
		return rc;
	if (width > 32 || speed_gts > 1024)
		return -ENODATA;
	out->speed_mts = (uint32_t)(speed_gts * 1000 + 0.5);
	out->width = (uint32_t)width;
	return 0;
}

uint64_t sxt_pci_link_mbps(const struct sxt_pci_link *link)
{
	uint64_t raw = (uint64_t)link->speed_mts * link->width;

	if (link->speed_mts <= 5000)
		return raw * 8 / 10;
	if (link->speed_mts <= 32000)
		return raw * 128 / 130;
	return raw * 242 / 256;
}

static uint32_t word(const unsigned char *config, size_t offset)
{
	return (uint32_t)config[offset] | (uint32_t)config[offset + 1] << 8 |
	       (uint32_t)config[offset + 2] << 16 | (uint32_t)config[offset + 3] << 24;
}

/* Walks the list of extended capabilities; a damaged one ends after as many as can be. */
static int find_acs(const unsigned char *config, size_t len, uint16_t *control_out)
{
	size_t offset = HEADER_BYTES;

	for (size_t i = 0; i < CAPABILITIES_MAX; i++) {
		uint32_t head;

		if (offset < HEADER_BYTES || offset + 8 > len)
			return -ENODATA;
		head = word(config, offset);
		if (head == 0 || head == UINT32_MAX)
			return -ENODATA;
		if ((head & 0xffff) == CAPABILITY_ACS) {
			*control_out = (uint16_t)(config[offset + ACS_CONTROL] |
						  config[offset + ACS_CONTROL + 1] << 8);
			return 0;
		}
		offset = (head >> 20) & ~3u;
	}
	return -ENODATA;
}

int sxt_pci_acs_read(const char *root, const char *folder, uint16_t *control_out)
{
	char config[CONFIG_BYTES + 1];
	char path[PATH_MAX];
	size_t len;
	int rc;

	if (snprintf(path, sizeof(path), "%s/config", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	rc = sxt_sysfs_read_all(root, path, config, sizeof(config), &len);
	if (rc != 0)
		return rc;
	if (len == 64)
		return -EACCES;
	return find_acs((const unsigned char *)config, len, control_out);
}
