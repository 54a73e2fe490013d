/*
 * tree.c - see tree.h.
 */
#include "tests/unit/ib/tree.h"

#include "core/compiler.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	(void)type;
	(void)walk;
	return remove(path);
}

const char *tree_open(void)
{
	tree_close();
	snprintf(root, sizeof(root), "/tmp/sxt_tree_XXXXXX");
	assert_non_null(mkdtemp(root));
	return root;
}

void tree_close(void)
{
	if (root[0] != '\0')
		assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	root[0] = '\0';
}

void tree_path(const char *path, char out[512])
{
	int len = snprintf(out, 512, "%s%s", root, path);

	assert_true(len < 512);
	for (char *at = out + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		sxt_ignore(mkdir(out, 0755));
		*at = '/';
	}
}

void tree_folder(const char *path)
{
	char full[512];

	tree_path(path, full);
	assert_int_equal(mkdir(full, 0755), 0);
}

void tree_put(const char *path, const void *bytes, size_t cnt)
{
	char full[512];
	FILE *file;

	tree_path(path, full);
	file = fopen(full, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, cnt, file), cnt);
	fclose(file);
}

void tree_text(const char *path, const char *text)
{
	tree_put(path, text, strlen(text));
}

void tree_link(const char *path, const char *target)
{
	char full[512];
	char to[512];

	tree_path(path, full);
	snprintf(to, sizeof(to), "%s%s", target[0] == '/' ? root : "", target);
	assert_int_equal(symlink(to, full), 0);
}
