/*
 * test_checks.c - the list of checks: names, versions and texts that reports rely on.
 */
#include "cli/driver/conform/conform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names_are_found_and_unique(void **state)
{
	(void)state;
	assert_in_range(sxt_conform_checks_cnt, 50, 128);
	for (size_t i = 0; i < sxt_conform_checks_cnt; i++)
		assert_ptr_equal(sxt_conform_find(sxt_conform_checks[i].name),
				 &sxt_conform_checks[i]);
	assert_null(sxt_conform_find("no.such"));
	assert_null(sxt_conform_find(""));
}

static void rows_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < sxt_conform_checks_cnt; i++) {
		const struct sxt_conform_check *check = &sxt_conform_checks[i];

		assert_in_range(check->abi_min, 6, 12);
		assert_non_null(check->run);
		/* "must: " and an indent stand before it, in 80 columns. */
		assert_in_range(strlen(check->demand), 10, 78);
		assert_in_range(strlen(check->why), 10, 90);
		assert_int_equal(strspn(check->name, "abcdefghijklmnopqrstuvwxyz0123456789._"),
				 strlen(check->name));
	}
}

static void old_versions_are_told(void **state)
{
	const struct sxt_conform_target target = {.plugin = "none", .abi = 6, .timeout_s = 1};
	struct sxt_conform_result result;

	(void)state;
	/* No process is needed to know it. */
	assert_int_equal(sxt_conform_run(&target, sxt_conform_find("init.again"), &result), 0);
	assert_int_equal(result.verdict, SXT_CONFORM_NA);
	assert_string_equal(result.seen, "needs v11");
}

static void a_plugin_that_is_not_there(void **state)
{
	const struct sxt_conform_target target = {.plugin = "/nowhere/libnone.so",
						  .abi = 12,
						  .ranks = 1,
						  .hosts = 1,
						  .timeout_s = 20};
	struct sxt_conform_plugin plugin = {0};
	struct sxt_conform_result result;

	(void)state;
	assert_int_not_equal(sxt_conform_probe(&target, &plugin), 0);
	assert_int_equal(plugin.abis, 0);
	assert_non_null(strstr(plugin.why, "/nowhere/libnone.so"));
	assert_int_equal(sxt_conform_run(&target, sxt_conform_find("table.members"), &result), 0);
	assert_int_equal(result.verdict, SXT_CONFORM_FAIL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found_and_unique),
		cmocka_unit_test(rows_are_whole),
		cmocka_unit_test(old_versions_are_told),
		cmocka_unit_test(a_plugin_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
