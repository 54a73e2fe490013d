/*
 * test_hca.c - NCCL_IB_HCA means what it means in NCCL, and says where that surprises.
 */
#include "ib/hca.h"

#include "core/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char lines[8192];

static void keep(enum sxt_log_level level, const char *file, int line, const char *text)
{
	size_t used = strlen(lines);

	(void)file;
	(void)line;
	snprintf(lines + used, sizeof(lines) - used, "%d %s\n", (int)level, text);
}

static int setup(void **state)
{
	(void)state;
	sxt_log_set_sink(keep);
	return 0;
}

static const struct sxt_hca_port machine[] = {{"mlx5_0", 1},
					      {"mlx5_1", 1},
					      {"mlx5_10", 1},
					      {"mlx5_11", 1}};

struct vector {
	const char *text;
	const char *picked; /* by their last digits */
	const char *line;   /* NULL: none */
	int bad_cnt;
};

static const struct vector vectors[] = {
	{"mlx5_1", "1 10 11",
	 "1 NCCL_IB_HCA: mlx5_1 also picks mlx5_10, mlx5_11, since it is the beginning of a name; "
	 "write =mlx5_1 for that one alone",
	 0},
	{"=mlx5_1", "1", NULL, 0},
	{"^=mlx5_1", "0 10 11", NULL, 0},
	{"^mlx5_1", "0", "1 NCCL_IB_HCA: ^mlx5_1 also excludes mlx5_10, mlx5_11", 0},
	{"mlx5_0, mlx5_10", "0 10", "2 NCCL_IB_HCA=mlx5_0, mlx5_10: space removed", 0},
	{" mlx5_0\t,mlx5_10 ", "0 10", "space removed", 0},
	{"=^mlx5_1", "0 1 10 11", "1 NCCL_IB_HCA==^mlx5_1: write ^= to exclude", 1},
	{"", "0 1 10 11", NULL, 0},
	{"=", "0 1 10 11", "1 NCCL_IB_HCA== names no HCA, so every one is used", 0},
	{":1", "0 1 10 11", "1 NCCL_IB_HCA=:1 names no HCA, so every one is used", 0},
	{",", "0 1 10 11", "names no HCA", 0},
	{"^", "", "1 NCCL_IB_HCA=^ excludes every HCA, as in NCCL", 0},
	{"^=", "", "1 NCCL_IB_HCA=^= excludes every HCA, as in NCCL", 0},
	{"=mlx5_1:2", "",
	 "1 NCCL_IB_HCA: mlx5_1:2 matches nothing: there is no port 2 at mlx5_1; ports count from "
	 "1",
	 1},
	{"=mlx5_1:1", "1", NULL, 0},
	{"=mlx5_0:18446744073709551615", "0 1 10 11",
	 "1 NCCL_IB_HCA==mlx5_0:18446744073709551615: column 9: \"18446744073709551615\" is no "
	 "port, expected a number 1..255",
	 1},
	{"=mlx5_0:18446744073709551615,mlx5_1", "1", "column 9", 1},
	{"=mlx5_0,mlx5_1:0", "0", "column 16: \"0\" is no port, expected a number 1..255", 1},
	{"=mlx5_0:256,mlx5_1", "1", "\"256\" is no port", 1},
	{"=mlx5_0:,mlx5_1", "1", "column 9: \"\" is no port", 1},
	{"=mlx5_0:-1,mlx5_1", "1", "\"-1\" is no port", 1},
	{"=mlx5_0:1x,mlx5_1", "1", "\"1x\" is no port", 1},
	{"=mlx5_0:1:a,mlx5_1", "1", "column 11: \"a\" is no rail, expected a number 0..32767", 1},
	{"=mlx5_0:1:0:70000,mlx5_1", "1", "\"70000\" is no plane", 1},
	{"=mlx5_0:1:0:0:0,mlx5_1", "1", "column 2: more than name:port:rail:plane", 1},
	{"=mlxl5_10", "", "1 NCCL_IB_HCA: mlxl5_10 matches nothing; nearest is mlx5_10", 1},
	{"=bnxt_re0", "",
	 "1 NCCL_IB_HCA: bnxt_re0 matches nothing; there are mlx5_0, mlx5_1, mlx5_10, mlx5_11", 1},
	{"mlx5_1,mlx5_10,mlx5_11", "1 10 11", NULL, 0},
	{"mlx5", "0 1 10 11", NULL, 0},
	{"mlx5_", "0 1 10 11", NULL, 0},
	{"^mlx4", "0 1 10 11", "1 NCCL_IB_HCA: mlx4 matches nothing", 1},
};

static void pick(const struct sxt_hca_list *list, char out[64])
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < SXT_ARRAY_LEN(machine); i++) {
		if (sxt_hca_picks(list, machine[i].device, machine[i].num))
			used += (size_t)snprintf(out + used, 64 - used, "%s%s", used > 0 ? " " : "",
						 machine[i].device + 5);
	}
}

static void each_list_picks_and_says_what_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(vectors); i++) {
		const struct vector *vector = &vectors[i];
		struct sxt_hca_list list;
		char picked[64];
		int bad_cnt;

		lines[0] = '\0';
		assert_int_equal(sxt_hca_parse(vector->text, &list, &bad_cnt), 0);
		bad_cnt += sxt_hca_check(&list, machine, SXT_ARRAY_LEN(machine));
		pick(&list, picked);
		if (strcmp(picked, vector->picked) != 0)
			fail_msg("\"%s\" picks \"%s\"", vector->text, picked);
		if (bad_cnt != vector->bad_cnt)
			fail_msg("\"%s\": %d wrong", vector->text, bad_cnt);
		if (vector->line == NULL ? lines[0] != '\0' : strstr(lines, vector->line) == NULL)
			fail_msg("\"%s\" says \"%s\"", vector->text, lines);
		sxt_hca_fini(&list);
	}
}

static void the_first_entry_gives_rail_and_plane(void **state)
{
	const struct sxt_hca_entry *entry;
	struct sxt_hca_list list;
	int bad_cnt;

	(void)state;
	assert_int_equal(sxt_hca_parse("mlx5_0:1:3:1,mlx5_0:2:4,mlx5_1,mlx5_1:1:9", &list,
				       &bad_cnt),
			 0);
	assert_int_equal(bad_cnt, 0);
	entry = sxt_hca_find(&list, "mlx5_0", 1);
	assert_int_equal(entry->rail, 3);
	assert_int_equal(entry->plane, 1);
	entry = sxt_hca_find(&list, "mlx5_0", 2);
	assert_int_equal(entry->rail, 4);
	assert_int_equal(entry->plane, -1);
	assert_int_equal(sxt_hca_find(&list, "mlx5_1", 1)->rail, -1);
	assert_null(sxt_hca_find(&list, "mlx5_0", 3));
	sxt_hca_fini(&list);
}

static void a_port_is_named_only_by_its_whole_name(void **state)
{
	static const struct {
		const char *text;
		bool is_named;
	} cases[] = {{"mlx5", false},     {"mlx5_1", true},   {"=mlx5_1", true}, {"^mlx5_1", false},
		     {"mlx5_1:2", false}, {"mlx5_1:1", true}, {"", false}};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		struct sxt_hca_list list;
		int bad_cnt;

		assert_int_equal(sxt_hca_parse(cases[i].text, &list, &bad_cnt), 0);
		assert_int_equal(sxt_hca_names(&list, "mlx5_1", 1), cases[i].is_named);
		sxt_hca_fini(&list);
	}
}

static void more_than_32_entries_count(void **state)
{
	struct sxt_hca_list list;
	char text[1024] = "=";
	size_t used = 1;
	int bad_cnt;

	(void)state;
	for (int i = 0; i < 60; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "mlx5_%d,", i);
	assert_int_equal(sxt_hca_parse(text, &list, &bad_cnt), 0);
	assert_int_equal(list.cnt, 60);
	assert_true(sxt_hca_picks(&list, "mlx5_59", 1));
	sxt_hca_fini(&list);
}

static void names_of_any_length_are_told_apart(void **state)
{
	struct sxt_hca_list list;
	char text[128];
	int bad_cnt;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[63] = '\0';
	assert_int_equal(sxt_hca_parse(text, &list, &bad_cnt), 0);
	assert_int_equal(bad_cnt, 0);
	sxt_hca_fini(&list);
	text[63] = 'x';
	text[64] = '\0';
	lines[0] = '\0';
	assert_int_equal(sxt_hca_parse(text, &list, &bad_cnt), 0);
	assert_int_equal(bad_cnt, 1);
	assert_non_null(strstr(lines, "column 1: a name of 64 bytes, HCAs have at most 63"));
	sxt_hca_fini(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_list_picks_and_says_what_it_should),
		cmocka_unit_test(the_first_entry_gives_rail_and_plane),
		cmocka_unit_test(a_port_is_named_only_by_its_whole_name),
		cmocka_unit_test(more_than_32_entries_count),
		cmocka_unit_test(names_of_any_length_are_told_apart),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
