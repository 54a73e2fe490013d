/*
 * library.c - where the loader would find a shared object: its search order, without loading.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_MAGIC "glibc-ld.so.cache1.1"

/* The loader's cache, as ldconfig writes it; offsets of texts count from the header. */
struct cache_header {
	char magic[20];
	uint32_t entries_cnt;
	uint32_t texts_bytes;
	uint32_t unused[5];
};

struct cache_entry {
	uint32_t flags;
	uint32_t key;
	uint32_t value;
	uint32_t os_version;
	uint64_t hwcap;
};
SXT_ASSERT_SIZE(struct cache_header, 48);
SXT_ASSERT_SIZE(struct cache_entry, 24);

/* Flags: 3 in the low byte is an ELF library of glibc; 32-bit x86 and x32 have 0 and 8 above. */
static bool is_native(uint32_t flags)
{
	return (flags & 0xff) == 3 && (flags >> 8 & 0xff) != 0 && (flags >> 8 & 0xff) != 8;
}

static const char *text_at(const char *cache, size_t len, uint32_t offset)
{
	return offset < len && memchr(cache + offset, '\0', len - offset) != NULL ? cache + offset
										  : NULL;
}

static const char *search_cache(const char *cache, size_t len, const char *file)
{
	struct cache_header header;
	struct cache_entry entry;

	if (len < sizeof(header))
		return NULL;
	memcpy(&header, cache, sizeof(header));
	for (size_t i = 0; i < header.entries_cnt; i++) {
		size_t at = sizeof(header) + i * sizeof(entry);
		const char *key;

		if (at + sizeof(entry) > len)
			return NULL;
		memcpy(&entry, cache + at, sizeof(entry));
		key = text_at(cache, len, entry.key);
		if (key != NULL && is_native(entry.flags) && strcmp(key, file) == 0)
			return text_at(cache, len, entry.value);
	}
	return NULL;
}

static int find_in_cache(const struct sxt_doctor *d, const char *file, char *out, size_t out_bytes)
{
	size_t len;
	char *text = sxt_doctor_slurp(d, "/etc/ld.so.cache", &len);
	const char *cache =
		text != NULL ? memmem(text, len, CACHE_MAGIC, strlen(CACHE_MAGIC)) : NULL;
	const char *path;
	int rc = -ENOENT;

	if (cache != NULL) {
		path = search_cache(cache, len - (size_t)(cache - text), file);
		if (path != NULL && strlen(path) < out_bytes && sxt_doctor_exists(d, "%s", path)) {
			snprintf(out, out_bytes, "%s", path);
			rc = 0;
		}
	}
	free(text);
	return rc;
}

static int find_in_folders(const struct sxt_doctor *d, const char *folders, const char *file,
			   char *out, size_t out_bytes)
{
	while (*folders != '\0') {
		int len = (int)strcspn(folders, ":;");

		if (len > 0 && len < PATH_MAX && folders[0] == '/' &&
		    sxt_doctor_exists(d, "%.*s/%s", len, folders, file) &&
		    snprintf(out, out_bytes, "%.*s/%s", len, folders, file) < (int)out_bytes)
			return 0;
		folders += len;
		folders += *folders != '\0';
	}
	return -ENOENT;
}

/* A name with a slash is a path; a relative one counts from the folder doctor runs in. */
static int find_path(const struct sxt_doctor *d, const char *file, char *out, size_t out_bytes)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s", file[0] == '/' ? "" : "/proc/self/cwd/", file) >=
		    (int)sizeof(path) ||
	    strlen(path) >= out_bytes || !sxt_doctor_exists(d, "%s", path))
		return -ENOENT;
	memcpy(out, path, strlen(path) + 1);
	return 0;
}

int sxt_doctor_find_library(const struct sxt_doctor *d, const char *file, char *out,
			    size_t out_bytes, const char **how_out)
{
	const char *paths = sxt_doctor_value(d, "LD_LIBRARY_PATH");

	if (strchr(file, '/') != NULL) {
		*how_out = "its path";
		return find_path(d, file, out, out_bytes);
	}
	*how_out = "LD_LIBRARY_PATH";
	if (paths != NULL && find_in_folders(d, paths, file, out, out_bytes) == 0)
		return 0;
	*how_out = "ld.so.cache";
	if (find_in_cache(d, file, out, out_bytes) == 0)
		return 0;
	*how_out = "the system's folders";
	return find_in_folders(d,
			       "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:"
			       "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:"
			       "/lib64:/usr/lib64:/lib:/usr/lib",
			       file, out, out_bytes);
}
