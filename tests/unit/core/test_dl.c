/*
 * test_dl.c - a table is filled whole or not at all, and the loader's reason gets through.
 */
#include "core/dl.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define C_LIBRARY "libc.so.6"

struct table {
	size_t (*length)(const char *text);
	int (*absolute)(int value);
	void (*newer)(void);
};

static char why[512];

static void a_table_is_filled_and_callable(void **state)
{
	const struct sxt_dl_symbol symbols[] = {
		{.offset = offsetof(struct table, length), .name = "strlen"},
		{.offset = offsetof(struct table, absolute), .name = "abs"},
		{.offset = offsetof(struct table, newer), .name = "sxt_not_yet", .optional = true},
		{.name = NULL},
	};
	struct table table = {0};
	void *handle = NULL;

	(void)state;
	assert_int_equal(sxt_dl_open(C_LIBRARY, symbols, &table, &handle, why, sizeof(why)), 0);
	assert_non_null(handle);
	assert_int_equal(table.length("four"), 4);
	assert_int_equal(table.absolute(-3), 3);
	assert_null(table.newer);
	sxt_dl_close(handle);
}

static void a_missing_symbol_leaves_the_table_alone(void **state)
{
	const struct sxt_dl_symbol symbols[] = {
		{.offset = offsetof(struct table, length), .name = "strlen"},
		{.offset = offsetof(struct table, newer), .name = "sxt_never_was"},
		{.name = NULL},
	};
	struct table table = {0};
	void *handle = &table;

	(void)state;
	assert_int_equal(sxt_dl_open(C_LIBRARY, symbols, &table, &handle, why, sizeof(why)),
			 -ENOSYS);
	assert_null(table.length);
	assert_ptr_equal(handle, &table);
	assert_non_null(strstr(why, "sxt_never_was"));
	assert_non_null(strstr(why, C_LIBRARY));
}

static void a_version_that_is_not_there_is_missing(void **state)
{
	const struct sxt_dl_symbol symbols[] = {
		{.offset = 0, .name = "strlen", .version = "SEXTANT_9.9"},
		{.name = NULL},
	};
	struct table table = {0};
	void *handle = NULL;

	(void)state;
	assert_int_equal(sxt_dl_open(C_LIBRARY, symbols, &table, &handle, why, sizeof(why)),
			 -ENOSYS);
	assert_null(handle);
}

static void a_missing_file_is_told_by_name(void **state)
{
	const struct sxt_dl_symbol none[] = {{.name = NULL}};
	void *handle = NULL;

	(void)state;
	assert_int_equal(sxt_dl_open("libsextant-none.so.1", none, NULL, &handle, why, sizeof(why)),
			 -ENOENT);
	assert_non_null(strstr(why, "libsextant-none.so.1"));
	assert_null(handle);
	sxt_dl_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_filled_and_callable),
		cmocka_unit_test(a_missing_symbol_leaves_the_table_alone),
		cmocka_unit_test(a_version_that_is_not_there_is_missing),
		cmocka_unit_test(a_missing_file_is_told_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
