/*
 * sysfs.c - small files below SEXTANT_SYSROOT (slow path).
 */
#include "core/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int full_path(const char *root, const char *path, char out[PATH_MAX])
{
	int len = snprintf(out, PATH_MAX, "%s%s", strcmp(root, "/") == 0 ? "" : root, path);

	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int sxt_sysfs_read(const char *root, const char *path, char *out, size_t out_bytes)
{
	char name[PATH_MAX];
	char buf[4096];
	ssize_t got;
	size_t len;
	int fd;
	int rc = full_path(root, path, name);

	if (rc != 0)
		return rc;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, buf, sizeof(buf) - 1);
	rc = got < 0 ? -errno : 0;
	close(fd);
	if (rc != 0)
		return rc;
	buf[got] = '\0';
	len = strcspn(buf, "\n");
	if (len >= out_bytes)
		return -ENAMETOOLONG;
	memcpy(out, buf, len);
	out[len] = '\0';
	return 0;
}

int sxt_sysfs_real_path(const char *root, const char *path, char *out, size_t out_bytes)
{
	char name[PATH_MAX];
	char real_root[PATH_MAX] = "";
	char real[PATH_MAX];
	const char *below = real;
	int rc = full_path(root, path, name);

	if (rc != 0)
		return rc;
	if (strcmp(root, "/") != 0 && realpath(root, real_root) == NULL)
		return -errno;
	if (realpath(name, real) == NULL)
		return -errno;
	if (strncmp(real, real_root, strlen(real_root)) == 0)
		below = real + strlen(real_root);
	if (strlen(below) >= out_bytes)
		return -ENAMETOOLONG;
	memcpy(out, below, strlen(below) + 1);
	return 0;
}
