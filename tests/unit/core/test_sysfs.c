/*
 * test_sysfs.c - files and links below a root that stands for "/".
 */
#include "core/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Made by set_up(): sys/rate, sys/two_lines, sys/empty, and a link sys/device -> ../pci/0000. */
static char root[] = "/tmp/sxt_sysfs_XXXXXX";

static void put_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int set_up(void **state)
{
	const char *const folders[] = {"sys", "pci", "pci/0000"};
	char path[PATH_MAX];

	(void)state;
	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < SXT_ARRAY_LEN(folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	put_file("sys/rate", "400 Gb/sec (4X NDR)\n");
	put_file("sys/two_lines", "first\nsecond\n");
	put_file("sys/empty", "");
	snprintf(path, sizeof(path), "%s/sys/device", root);
	assert_int_equal(symlink("../pci/0000", path), 0);
	return 0;
}

static int tear_down(void **state)
{
	const char *const names[] = {
		"sys/rate",         "sys/two_lines",   "sys/empty", "sys/device", "sys",
		"pci/0000/mlx5_10", "pci/0000/mlx5_2", "pci/0000",  "pci",        ""};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, names[i]);
		assert_int_equal(remove(path), 0);
	}
	return 0;
}

static void the_first_line_is_read(void **state)
{
	char text[64];

	(void)state;
	assert_int_equal(sxt_sysfs_read(root, "/sys/rate", text, sizeof(text)), 0);
	assert_string_equal(text, "400 Gb/sec (4X NDR)");
	assert_int_equal(sxt_sysfs_read(root, "/sys/two_lines", text, sizeof(text)), 0);
	assert_string_equal(text, "first");
	assert_int_equal(sxt_sysfs_read(root, "/sys/empty", text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void the_machine_itself_is_a_root(void **state)
{
	char text[64];

	(void)state;
	assert_int_equal(sxt_sysfs_read("/", "/proc/sys/kernel/ostype", text, sizeof(text)), 0);
	assert_string_equal(text, "Linux");
}

static void errors_leave_the_output_alone(void **state)
{
	char text[64] = "before";
	char small[4] = "old";
	char deep[PATH_MAX + 1];

	(void)state;
	memset(deep, 'd', sizeof(deep));
	deep[0] = '/';
	deep[PATH_MAX] = '\0';
	assert_int_equal(sxt_sysfs_read(root, "/sys/none", text, sizeof(text)), -ENOENT);
	assert_int_equal(sxt_sysfs_read(root, "/sys", text, sizeof(text)), -EISDIR);
	assert_int_equal(sxt_sysfs_read(root, deep, text, sizeof(text)), -ENAMETOOLONG);
	assert_int_equal(sxt_sysfs_real_path(root, "/sys/none", text, sizeof(text)), -ENOENT);
	assert_int_equal(sxt_sysfs_real_path(root, deep, text, sizeof(text)), -ENAMETOOLONG);
	assert_string_equal(text, "before");
	assert_int_equal(sxt_sysfs_read(root, "/sys/rate", small, sizeof(small)), -ENAMETOOLONG);
	assert_int_equal(sxt_sysfs_real_path(root, "/sys/device", small, sizeof(small)),
			 -ENAMETOOLONG);
	assert_string_equal(small, "old");
}

static void a_link_is_followed_below_the_root(void **state)
{
	char path[PATH_MAX];

	(void)state;
	assert_int_equal(sxt_sysfs_real_path(root, "/sys/device", path, sizeof(path)), 0);
	assert_string_equal(path, "/pci/0000");
	assert_int_equal(sxt_sysfs_real_path("/", "/proc/self/../1", path, sizeof(path)), 0);
	assert_string_equal(path, "/proc/1");
}

static void a_whole_file_is_read_up_to_the_room(void **state)
{
	char text[64] = "before";
	char small[4] = "old";
	size_t len = 9;

	(void)state;
	assert_int_equal(sxt_sysfs_read_all(root, "/sys", text, sizeof(text), &len), -EINVAL);
	assert_int_equal(sxt_sysfs_read_all(root, "/sys/none", text, sizeof(text), &len), -ENOENT);
	assert_int_equal(sxt_sysfs_read_all("/", "/dev/null", text, sizeof(text), &len), -EINVAL);
	assert_string_equal(text, "before");
	assert_int_equal(len, 9);
	assert_int_equal(sxt_sysfs_read_all(root, "/sys/two_lines", text, sizeof(text), &len), 0);
	assert_string_equal(text, "first\nsecond\n");
	assert_int_equal(len, 13);
	assert_int_equal(sxt_sysfs_read_all(root, "/sys/two_lines", small, sizeof(small), &len), 0);
	assert_string_equal(small, "fir");
	assert_int_equal(len, 3);
	assert_int_equal(sxt_sysfs_read_all(root, "/sys/empty", text, sizeof(text), &len), 0);
	assert_int_equal(len, 0);
}

static void names_are_listed_as_people_count(void **state)
{
	struct sxt_names names = {0};

	(void)state;
	assert_int_equal(sxt_sysfs_list(root, "/pci/none", &names), -ENOENT);
	assert_null(names.list);
	assert_int_equal(sxt_sysfs_list(root, "/pci/0000", &names), 0);
	assert_int_equal(names.cnt, 0);
	sxt_names_fini(&names);
	put_file("pci/0000/mlx5_10", "");
	put_file("pci/0000/mlx5_2", "");
	assert_int_equal(sxt_sysfs_list(root, "/pci/0000", &names), 0);
	assert_int_equal(names.cnt, 2);
	assert_string_equal(names.list[0], "mlx5_2");
	assert_string_equal(names.list[1], "mlx5_10");
	sxt_names_fini(&names);
	sxt_names_fini(&names);
	assert_int_equal(names.cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_line_is_read),
		cmocka_unit_test(the_machine_itself_is_a_root),
		cmocka_unit_test(errors_leave_the_output_alone),
		cmocka_unit_test(a_link_is_followed_below_the_root),
		cmocka_unit_test(a_whole_file_is_read_up_to_the_room),
		cmocka_unit_test(names_are_listed_as_people_count),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
