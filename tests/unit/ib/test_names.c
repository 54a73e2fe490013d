/*
 * test_names.c - lists of HCA and interface names pick what NCCL's documentation says.
 */
#include "ib/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void an_empty_list_picks_everything(void **state)
{
	(void)state;
	assert_true(sxt_names_match("", "mlx5_0", 1));
	assert_true(sxt_names_match("^", "mlx5_0", 1));
	assert_true(sxt_names_match("=", "eth0", -1));
	assert_true(sxt_names_match(",,", "eth0", -1));
}

static void names_are_prefixes(void **state)
{
	(void)state;
	assert_true(sxt_names_match("mlx5", "mlx5_0", 1));
	assert_true(sxt_names_match("mlx4,mlx5_1", "mlx5_10", 1));
	assert_false(sxt_names_match("mlx5_1", "mlx5_0", 1));
	assert_false(sxt_names_match("mlx5_10", "mlx5_1", 1));
}

static void equals_asks_for_whole_names(void **state)
{
	(void)state;
	assert_true(sxt_names_match("=mlx5_1", "mlx5_1", 1));
	assert_false(sxt_names_match("=mlx5_1", "mlx5_10", 1));
	assert_true(sxt_names_match("=mlx5_0,mlx5_10", "mlx5_10", 2));
}

static void a_caret_turns_the_choice_around(void **state)
{
	(void)state;
	assert_false(sxt_names_match("^mlx5_1", "mlx5_10", 1));
	assert_true(sxt_names_match("^=mlx5_1", "mlx5_10", 1));
	assert_true(sxt_names_match("=^mlx5_1", "mlx5_10", 1));
	assert_false(sxt_names_match("^=mlx5_1", "mlx5_1", 1));
	assert_true(sxt_names_match("^docker,lo", "eth0", -1));
	assert_false(sxt_names_match("^docker,lo", "docker0", -1));
}

static void a_port_narrows_a_name(void **state)
{
	(void)state;
	assert_true(sxt_names_match("mlx5_0:1", "mlx5_0", 1));
	assert_false(sxt_names_match("mlx5_0:1", "mlx5_0", 2));
	assert_true(sxt_names_match("=mlx5_0:2,mlx5_1", "mlx5_0", 2));
	assert_false(sxt_names_match("^mlx5_0:2", "mlx5_0", 2));
	assert_true(sxt_names_match("^mlx5_0:2", "mlx5_0", 1));
}

static void a_colon_without_a_number_belongs_to_the_name(void **state)
{
	(void)state;
	assert_true(sxt_names_match("=eth0:lan", "eth0:lan", -1));
	assert_true(sxt_names_match("=eth0:1", "eth0:1", -1));
	assert_false(sxt_names_match("=eth0:1", "eth0", -1));
	assert_false(sxt_names_match("mlx5_0:", "mlx5_0", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_list_picks_everything),
		cmocka_unit_test(names_are_prefixes),
		cmocka_unit_test(equals_asks_for_whole_names),
		cmocka_unit_test(a_caret_turns_the_choice_around),
		cmocka_unit_test(a_port_narrows_a_name),
		cmocka_unit_test(a_colon_without_a_number_belongs_to_the_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
