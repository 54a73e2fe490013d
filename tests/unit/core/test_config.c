/*
 * test_config.c - every row of the settings table round-trips and refuses what is outside it.
 */
#include "core/config.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why[256];

static int parse(const struct sxt_opt *opt, const char *text, struct sxt_config *config)
{
	return sxt_opt_parse(opt, text, config, why, sizeof(why));
}

static int parse_number(const struct sxt_opt *opt, int64_t value, struct sxt_config *config)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return parse(opt, text, config);
}

static void numbers_round_trip_at_both_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		const struct sxt_opt *opt = &sxt_opts[i];
		const int64_t values[] = {opt->min, opt->max, opt->default_num};
		struct sxt_config config = {0};
		char got[64];
		char want[64];

		for (size_t k = 0; k < SXT_ARRAY_LEN(values) && opt->kind != SXT_OPT_STR; k++) {
			assert_int_equal(parse_number(opt, values[k], &config), 0);
			sxt_opt_format(opt, &config, got, sizeof(got));
			snprintf(want, sizeof(want), "%" PRId64, values[k]);
			assert_string_equal(got, want);
		}
	}
}

static void numbers_outside_the_range_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		const struct sxt_opt *opt = &sxt_opts[i];
		struct sxt_config config = {0};
		struct sxt_config before = config;

		if (opt->kind == SXT_OPT_STR)
			continue;
		assert_int_equal(parse_number(opt, opt->min - 1, &config), -ERANGE);
		assert_int_equal(parse_number(opt, opt->max + 1, &config), -ERANGE);
		assert_memory_equal(&config, &before, sizeof(config));
	}
}

static void what_is_no_number_is_refused(void **state)
{
	const char *const bad[] = {"",  "abc", "12x", "20ms", " 1",  "1 ",
				   "-", "+1",  "0x",  "1.5",  "nan", "99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		struct sxt_config config = {0};

		if (sxt_opts[i].kind == SXT_OPT_STR)
			continue;
		for (size_t k = 0; k < SXT_ARRAY_LEN(bad); k++)
			assert_int_not_equal(parse(&sxt_opts[i], bad[k], &config), 0);
	}
}

static void hex_and_octal_mean_what_nccl_takes_them_for(void **state)
{
	struct sxt_config config = {0};

	(void)state;
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (strcmp(sxt_opts[i].env, "NCCL_IB_TC") != 0)
			continue;
		assert_int_equal(parse(&sxt_opts[i], "0x6a", &config), 0);
		assert_int_equal(config.ib_tc, 106);
		assert_int_equal(parse(&sxt_opts[i], "0152", &config), 0);
		assert_int_equal(config.ib_tc, 106);
	}
}

static void text_is_kept_within_its_length(void **state)
{
	(void)state;
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		const struct sxt_opt *opt = &sxt_opts[i];
		struct sxt_config config = {0};
		char text[8192];

		if (opt->kind != SXT_OPT_STR)
			continue;
		assert_in_range(strlen(opt->default_str), (size_t)opt->min, (size_t)opt->max);
		memset(text, 'a', sizeof(text));
		text[opt->max] = '\0';
		assert_int_equal(parse(opt, text, &config), 0);
		text[opt->max] = 'a';
		text[opt->max + 1] = '\0';
		assert_int_equal(parse(opt, text, &config), -ERANGE);
	}
}

static void a_bad_value_leaves_the_default_or_fails_when_strict(void **state)
{
	struct sxt_config config;

	(void)state;
	setenv("NCCL_IB_TIMEOUT", "20ms", 1);
	assert_int_equal(sxt_config_load(&config), 0);
	assert_int_equal(config.ib_timeout, 20);
	sxt_config_fini(&config);
	setenv("SEXTANT_STRICT", "1", 1);
	assert_int_equal(sxt_config_load(&config), -EINVAL);
	unsetenv("SEXTANT_STRICT");
	unsetenv("NCCL_IB_TIMEOUT");
}

static void strings_outlive_the_environment(void **state)
{
	struct sxt_config config;

	(void)state;
	setenv("NCCL_IB_HCA", "=mlx5_1", 1);
	assert_int_equal(sxt_config_load(&config), 0);
	setenv("NCCL_IB_HCA", "changed", 1);
	assert_string_equal(config.ib_hca, "=mlx5_1");
	unsetenv("NCCL_IB_HCA");
	sxt_config_fini(&config);
}

static void a_misspelt_name_finds_its_nearest(void **state)
{
	const char *const names[] = {"NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_TC"};

	(void)state;
	assert_string_equal(sxt_nearest("NCCL_IB_GID_INDX", names, 3), "NCCL_IB_GID_INDEX");
	assert_string_equal(sxt_nearest("NCCL_IB_HCAS", names, 3), "NCCL_IB_HCA");
	assert_null(sxt_nearest("SOMETHING_ELSE", names, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_round_trip_at_both_ends),
		cmocka_unit_test(numbers_outside_the_range_are_refused),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(hex_and_octal_mean_what_nccl_takes_them_for),
		cmocka_unit_test(text_is_kept_within_its_length),
		cmocka_unit_test(a_bad_value_leaves_the_default_or_fails_when_strict),
		cmocka_unit_test(strings_outlive_the_environment),
		cmocka_unit_test(a_misspelt_name_finds_its_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
