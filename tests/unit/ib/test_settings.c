/*
 * test_settings.c - a setting's value, what it comes to, and what is said about it.
 */
#include "ib/settings.h"

#include "core/log.h"

#include <errno.h>
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

/* Rows of people's reports: one setting, the value in force, a line. */
struct vector {
	const char *name;
	const char *value;
	const char *line;
	uint32_t timeout;
	uint32_t retry_cnt;
	int32_t tclass;
	bool is_bad; /* with SEXTANT_STRICT=1 nothing starts */
};

static const struct vector vectors[] = {
	{"NCCL_IB_RETRY_CNT", "15",
	 "1 setting NCCL_IB_RETRY_CNT=15: out of range; expected a whole number 0..7 (no unit). "
	 "Using the default, 7.",
	 20, 7, -1, true},
	{"NCCL_IB_TIMEOUT", "2",
	 "1 NCCL_IB_TIMEOUT=2, NCCL_IB_RETRY_CNT=7: a path without an answer fails after about 115 "
	 "us",
	 2, 7, -1, false},
	{"NCCL_IB_TIMEOUT", "32",
	 "1 setting NCCL_IB_TIMEOUT=32: out of range; expected a whole "
	 "number 0..31",
	 20, 7, -1, true},
	{"NCCL_IB_TIMEOUT", "0", "1 NCCL_IB_TIMEOUT=0: a path without an answer waits for ever", 0,
	 7, -1, false},
	{"NCCL_IB_TIMEOUT", "13", "1 NCCL_IB_TIMEOUT=13", 13, 7, -1, false},
	{"NCCL_IB_TIMEOUT", "14",
	 "2 NCCL_IB_TIMEOUT=14, NCCL_IB_RETRY_CNT=7: a path without an "
	 "answer fails after about 470 ms",
	 14, 7, -1, false},
	{"NCCL_IB_TIMEOUT", "17", "fails after about 3.8 s", 17, 7, -1, false},
	{"NCCL_IB_TIMEOUT", "18", "fails after about 7.5 s", 18, 7, -1, false},
	{"NCCL_IB_TIMEOUT", "20", "fails after about 30 s", 20, 7, -1, false},
	{"NCCL_IB_RETRY_CNT", "0", "fails after about 4.3 s", 20, 0, -1, false},
	{"NCCL_IB_TC", "106",
	 "2 NCCL_IB_TC=106: DSCP 26, ECN bits 2: the low 2 bits are ECN, which belongs to the "
	 "network; 104 has the same DSCP",
	 20, 7, 106, false},
	{"NCCL_IB_TC", "136", "2 NCCL_IB_TC=136: DSCP 34\n", 20, 7, 136, false},
	{"NCCL_IB_TC", "256", "1 setting NCCL_IB_TC=256: out of range", 20, 7, -1, true},
	{"NCCL_IB_TC", "300", "1 setting NCCL_IB_TC=300: out of range", 20, 7, -1, true},
	{"NCCL_IB_SL", "16",
	 "1 setting NCCL_IB_SL=16: out of range; expected a whole number -1..15", 20, 7, -1, true},
	{"NCCL_IB_QPS_PER_CONNECTION", "0",
	 "1 setting NCCL_IB_QPS_PER_CONNECTION=0: out of range; expected a whole number 1..16 (no "
	 "unit). Using the default, 1.",
	 20, 7, -1, true},
	{"NCCL_IB_GID_INDEX", "abc", "1 setting NCCL_IB_GID_INDEX=abc: not a number", 20, 7, -1,
	 true},
	{"NCCL_IB_GID_INDX", "3",
	 "1 setting NCCL_IB_GID_INDX is unknown and ignored (did you mean NCCL_IB_GID_INDEX?)", 20,
	 7, -1, false},
};

static void each_value_is_told_for_what_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(vectors); i++) {
		const struct vector *vector = &vectors[i];
		struct sxt_config config;

		lines[0] = '\0';
		assert_int_equal(setenv(vector->name, vector->value, 1), 0);
		assert_int_equal(sxt_config_load(&config), 0);
		sxt_settings_tell(&config);
		if (strstr(lines, vector->line) == NULL)
			fail_msg("%s=%s says \"%s\"", vector->name, vector->value, lines);
		assert_int_equal(config.ib_timeout, vector->timeout);
		assert_int_equal(config.ib_retry_cnt, vector->retry_cnt);
		assert_int_equal(config.ib_tc, vector->tclass);
		assert_int_equal(config.ib_qps_per_connection, 1);
		assert_int_equal(config.ib_gid_index, -1);
		assert_int_equal(config.ib_sl, -1);
		sxt_config_fini(&config);
		assert_int_equal(setenv("SEXTANT_STRICT", "1", 1), 0);
		assert_int_equal(sxt_config_load(&config), vector->is_bad ? -EINVAL : 0);
		if (!vector->is_bad)
			sxt_config_fini(&config);
		assert_int_equal(unsetenv("SEXTANT_STRICT"), 0);
		assert_int_equal(unsetenv(vector->name), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_is_told_for_what_it_is),
	};

	sxt_log_set_sink(keep);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
