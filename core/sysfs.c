/*
 * sysfs.c - small files below SEXTANT_SYSROOT (slow path).
 */
#include "core/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 65536

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
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

/* Opens a regular file without waiting. Return: a descriptor, or a negative errno. */
static int open_regular(const char *name)
{
	struct stat info;
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

int sxt_sysfs_read_all(const char *root, const char *path, char *out, size_t out_bytes,
		       size_t *len_out)
{
	char name[PATH_MAX];
	size_t len = 0;
	ssize_t got;
	int fd;
	int rc = full_path(root, path, name);

	if (rc != 0)
		return rc;
	fd = open_regular(name);
	if (fd < 0)
		return fd;
	do {
		got = read(fd, out + len, out_bytes - 1 - len);
		if (got > 0)
			len += (size_t)got;
	} while (got > 0 && len < out_bytes - 1);
	rc = got < 0 ? -errno : 0;
	close(fd);
	if (rc != 0)
		return rc;
	out[len] = '\0';
	*len_out = len;
	return 0;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int names_add(struct sxt_names *names, size_t *room, const char *name)
{
	char *copy;

	if (names->cnt == *room) {
		size_t more = *room == 0 ? 16 : *room * 2;
		char **list = realloc(names->list, more * sizeof(*list));

		if (list == NULL)
			return -ENOMEM;
		names->list = list;
		*room = more;
	}
	copy = strdup(name);
	if (copy == NULL)
		return -ENOMEM;
	names->list[names->cnt++] = copy;
	return 0;
}

int sxt_sysfs_list(const char *root, const char *path, struct sxt_names *out)
{
	struct sxt_names names = {0};
	char name[PATH_MAX];
	struct dirent *entry;
	size_t room = 0;
	DIR *dir;
	int rc = full_path(root, path, name);

	if (rc != 0)
		return rc;
	dir = opendir(name);
	if (dir == NULL)
		return -errno;
	while (rc == 0 && names.cnt < NAMES_MAX && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = names_add(&names, &room, entry->d_name);
	}
	closedir(dir);
	if (rc != 0) {
		sxt_names_fini(&names);
		return rc;
	}
	if (names.cnt > 0)
		qsort(names.list, names.cnt, sizeof(*names.list), by_version);
	*out = names;
	return 0;
}

void sxt_names_fini(struct sxt_names *names)
{
	for (size_t i = 0; i < names->cnt; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct sxt_names){0};
}
