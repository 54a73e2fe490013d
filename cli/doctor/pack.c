/*
 * pack.c - the archive of `sextant doctor collect`.
 */
#include "cli/doctor/pack.h"

#include "core/status.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TOP         "sextant-doctor"
#define FILE_BYTES  (4 * 1024 * 1024)
#define ENTRIES_MAX 200000

struct sxt_pack {
	struct archive *archive;
	const struct sxt_blank *blank;
	const char *root;
	void *paths; /* tsearch() tree of those added */
	size_t cnt;
	int rc;
	char *buffer; /* FILE_BYTES */
	time_t now;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void fail(struct sxt_pack *pack, const char *what)
{
	if (pack->rc == 0)
		fprintf(stderr, "sextant doctor: cannot write the archive: %s\n", what);
	pack->rc = pack->rc != 0 ? pack->rc : -EIO;
}

int sxt_pack_open(const char *file, const char *root, const struct sxt_blank *blank,
		  struct sxt_pack **out)
{
	struct sxt_pack *pack = calloc(1, sizeof(*pack));
	bool to_stdout = strcmp(file, "-") == 0;
	int rc;

	if (pack == NULL)
		return -ENOMEM;
	*pack = (struct sxt_pack){.root = root, .blank = blank, .now = time(NULL)};
	pack->buffer = malloc(FILE_BYTES);
	pack->archive = archive_write_new();
	if (pack->buffer == NULL || pack->archive == NULL)
		goto fail;
	if (!to_stdout && access(file, F_OK) == 0) {
		fprintf(stderr, "sextant doctor: %s exists; name another file with --out\n", file);
		pack->rc = -EEXIST;
		goto fail;
	}
	rc = archive_write_add_filter_gzip(pack->archive);
	if (rc == ARCHIVE_OK)
		rc = archive_write_set_format_pax_restricted(pack->archive);
	if (rc == ARCHIVE_OK)
		rc = to_stdout ? archive_write_open_fd(pack->archive, STDOUT_FILENO)
			       : archive_write_open_filename(pack->archive, file);
	if (rc == ARCHIVE_OK) {
		*out = pack;
		return 0;
	}
	fprintf(stderr, "sextant doctor: %s: %s\n", file, archive_error_string(pack->archive));
	pack->rc = -EIO;
fail:
	rc = pack->rc != 0 ? pack->rc : -ENOMEM;
	sxt_ignore(sxt_pack_close(pack, NULL));
	return rc;
}

int sxt_pack_close(struct sxt_pack *pack, size_t *cnt_out)
{
	int rc;

	if (pack == NULL)
		return 0;
	if (pack->archive != NULL && pack->rc == 0 &&
	    archive_write_close(pack->archive) != ARCHIVE_OK)
		fail(pack, archive_error_string(pack->archive));
	archive_write_free(pack->archive);
	while (pack->paths != NULL) {
		char *path = *(char **)pack->paths;

		tdelete(path, &pack->paths, by_name);
		free(path);
	}
	rc = pack->rc;
	if (rc == 0 && cnt_out != NULL)
		*cnt_out = pack->cnt;
	free(pack->buffer);
	free(pack);
	return rc;
}

/* Return: false if the path is already in, or the archive failed. */
static bool claim(struct sxt_pack *pack, const char *path)
{
	char *copy;
	char **node;

	if (pack->rc != 0 || pack->cnt >= ENTRIES_MAX)
		return false;
	copy = strdup(path);
	node = copy != NULL ? tsearch(copy, &pack->paths, by_name) : NULL;
	if (node == NULL) {
		fail(pack, sxt_strerror(ENOMEM));
		free(copy);
		return false;
	}
	if (*node != copy) {
		free(copy);
		return false;
	}
	return true;
}

/* A link's target instead of a size; a folder has neither. */
static void write_entry(struct sxt_pack *pack, const char *path, mode_t type, const char *data,
			size_t len)
{
	struct archive_entry *entry = archive_entry_new();
	char name[PATH_MAX + 64];

	snprintf(name, sizeof(name), TOP "%s", path);
	if (entry == NULL) {
		fail(pack, sxt_strerror(ENOMEM));
		return;
	}
	archive_entry_set_pathname(entry, name);
	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, type == AE_IFDIR ? 0755 : 0644);
	archive_entry_set_mtime(entry, pack->now, 0);
	if (type == AE_IFLNK)
		archive_entry_set_symlink(entry, data);
	archive_entry_set_size(entry, type == AE_IFREG ? (la_int64_t)len : 0);
	if (archive_write_header(pack->archive, entry) != ARCHIVE_OK ||
	    (type == AE_IFREG && archive_write_data(pack->archive, data, len) != (la_ssize_t)len))
		fail(pack, archive_error_string(pack->archive));
	pack->cnt++;
	archive_entry_free(entry);
}

static bool is_binary(const char *path)
{
	return strstr(path, ".so") != NULL ||
	       (strlen(path) > 7 && strcmp(path + strlen(path) - 7, "/config") == 0);
}

static void add_text(struct sxt_pack *pack, const char *path, const char *text, size_t len)
{
	char *blanked;

	if (pack->blank == NULL || is_binary(path)) {
		write_entry(pack, path, AE_IFREG, text, len);
		return;
	}
	blanked = sxt_blank_text(pack->blank, text, len, &len);
	if (blanked == NULL)
		fail(pack, sxt_strerror(ENOMEM));
	else
		write_entry(pack, path, AE_IFREG, blanked, len);
	free(blanked);
}

void sxt_pack_text(struct sxt_pack *pack, const char *path, const char *text, size_t len)
{
	if (claim(pack, path))
		add_text(pack, path, text, len);
}

static void copy_link(struct sxt_pack *pack, const char *path, const char *name)
{
	ssize_t len = readlink(name, pack->buffer, PATH_MAX - 1);

	if (len <= 0)
		return;
	pack->buffer[len] = '\0';
	write_entry(pack, path, AE_IFLNK, pack->buffer, 0);
}

void sxt_pack_copy(struct sxt_pack *pack, const char *path)
{
	char name[PATH_MAX];
	struct stat info;
	size_t len;

	if (snprintf(name, sizeof(name), "%s%s", strcmp(pack->root, "/") == 0 ? "" : pack->root,
		     path) >= (int)sizeof(name) ||
	    lstat(name, &info) != 0)
		return;
	if (S_ISREG(info.st_mode)) {
		/* Files of /sys claim to hold a page and may refuse to be read. */
		if (sxt_sysfs_read_all(pack->root, path, pack->buffer, FILE_BYTES, &len) == 0 &&
		    claim(pack, path))
			add_text(pack, path, pack->buffer, len);
	} else if (claim(pack, path)) {
		if (S_ISLNK(info.st_mode))
			copy_link(pack, path, name);
		else if (S_ISDIR(info.st_mode))
			write_entry(pack, path, AE_IFDIR, NULL, 0);
		else /* a device node: that it is there is all that can be kept */
			write_entry(pack, path, AE_IFREG, "", 0);
	}
}

static bool is_folder(const struct sxt_pack *pack, const char *path)
{
	char name[PATH_MAX];
	struct stat info;

	return snprintf(name, sizeof(name), "%s%s", strcmp(pack->root, "/") == 0 ? "" : pack->root,
			path) < (int)sizeof(name) &&
	       lstat(name, &info) == 0 && S_ISDIR(info.st_mode);
}

void sxt_pack_folder(struct sxt_pack *pack, const char *path, unsigned int depth)
{
	struct sxt_names names = {0};
	char below[PATH_MAX];

	if (sxt_sysfs_list(pack->root, path, &names) != 0)
		return;
	sxt_pack_copy(pack, path);
	for (size_t i = 0; i < names.cnt; i++) {
		if (snprintf(below, sizeof(below), "%s/%s", path, names.list[i]) >=
		    (int)sizeof(below))
			continue;
		if (!is_folder(pack, below))
			sxt_pack_copy(pack, below);
		else if (depth > 0)
			sxt_pack_folder(pack, below, depth - 1);
	}
	sxt_names_fini(&names);
}
