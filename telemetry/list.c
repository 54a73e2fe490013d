/*
 * list.c - which segments there are, by the names of their files.
 */
#include "telemetry/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More would be a folder full of something else. */
#define FILES_MAX 65536

/* A decimal number that ends at a character. Return: what follows it, NULL without one. */
static const char *read_number(const char *text, char end, uint64_t *out)
{
	uint64_t value = 0;
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || digits > 19 || text[digits] != end)
		return NULL;
	for (size_t i = 0; i < digits; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	*out = value;
	return text + digits + (end != '\0');
}

static bool read_name(const char *name, struct sxt_tele_file *out)
{
	uint64_t uid = 0;
	uint64_t pid = 0;

	if (strncmp(name, SXT_TELE_NAME_PREFIX, strlen(SXT_TELE_NAME_PREFIX)) != 0)
		return false;
	name = read_number(name + strlen(SXT_TELE_NAME_PREFIX), '-', &uid);
	if (name != NULL)
		name = read_number(name, '-', &pid);
	if (name != NULL)
		name = read_number(name, '\0', &out->start_time);
	if (name == NULL || uid > UINT32_MAX || pid > UINT32_MAX)
		return false;
	out->uid = (uint32_t)uid;
	out->pid = (uint32_t)pid;
	return true;
}

/* Whose a file is the file system knows better than its name. */
static bool read_file(int dir_fd, const char *dir, const char *name, struct sxt_tele_file *out)
{
	struct stat info;
	int len;

	if (!read_name(name, out) || fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(info.st_mode))
		return false;
	out->uid = info.st_uid;
	len = snprintf(out->path, sizeof(out->path), "%s/%s", dir, name);
	return len < (int)sizeof(out->path);
}

static int by_process(const void *a, const void *b)
{
	const struct sxt_tele_file *left = a;
	const struct sxt_tele_file *right = b;
	uint32_t own = (uint32_t)geteuid();

	if ((left->uid == own) != (right->uid == own))
		return left->uid == own ? -1 : 1;
	if (left->uid != right->uid)
		return left->uid < right->uid ? -1 : 1;
	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return (left->start_time > right->start_time) - (left->start_time < right->start_time);
}

static int append(struct sxt_tele_file **files, size_t *cnt, const struct sxt_tele_file *file)
{
	struct sxt_tele_file *more = *files;

	/* Room is doubled: whenever the count is a power of two. */
	if ((*cnt & (*cnt - 1)) == 0)
		more = realloc(*files, (*cnt > 0 ? *cnt * 2 : 1) * sizeof(**files));
	if (more == NULL)
		return -ENOMEM;
	*files = more;
	more[(*cnt)++] = *file;
	return 0;
}

int sxt_tele_list(const char *dir, struct sxt_tele_file **out, size_t *cnt_out)
{
	const char *where = dir != NULL ? dir : SXT_TELE_DIR;
	struct sxt_tele_file *files = NULL;
	struct sxt_tele_file file;
	struct dirent *entry;
	size_t cnt = 0;
	int rc = 0;
	DIR *folder = opendir(where);

	if (folder == NULL)
		return -errno;
	while (rc == 0 && cnt < FILES_MAX && (entry = readdir(folder)) != NULL) {
		if (read_file(dirfd(folder), where, entry->d_name, &file))
			rc = append(&files, &cnt, &file);
	}
	closedir(folder);
	if (rc != 0) {
		free(files);
		return rc;
	}
	if (cnt > 0)
		qsort(files, cnt, sizeof(*files), by_process);
	*out = files;
	*cnt_out = cnt;
	return 0;
}
