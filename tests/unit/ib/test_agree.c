/*
 * test_agree.c - what two ends tell each other, and what is said where they differ.
 */
#include "ib/agree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct sxt_config config;
static char lines[SXT_SETTINGS_BYTES];

static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < sxt_opts_cnt; i++)
		sxt_opt_set_default(&sxt_opts[i], &config);
	return 0;
}

/* @name: a setting, "links" or "abi"; the rest has its defaults. */
static void write_with(const char *name, const char *value)
{
	struct sxt_agree_own own = {.config = &config, .links = "RoCE", .abi = 12};
	char why[256];

	setup(NULL);
	if (strcmp(name, "links") == 0)
		own.links = value;
	else if (strcmp(name, "abi") == 0)
		own.abi = value[0] == '\0' ? 0 : value[0] - '0';
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (strcmp(sxt_opts[i].env, name) == 0)
			assert_int_equal(sxt_opt_parse(&sxt_opts[i], value, &config, why,
						       sizeof(why)),
					 0);
	}
	sxt_agree_write(&own, lines);
}

static void what_is_in_force_is_told(void **state)
{
	(void)state;
	write_with("NCCL_IB_SL", "3");
	assert_string_equal(lines, "release=" SXT_VERSION "\n"
				   "abi=v12\n"
				   "links=RoCE\n"
				   "NCCL_IB_HCA=all\n"
				   "NCCL_IB_SL=3\n"
				   "NCCL_IB_TC=the communicator's\n"
				   "NCCL_IB_FIFO_TC=the data's\n"
				   "NCCL_IB_PKEY=0\n"
				   "NCCL_IB_ADDR_FAMILY=any\n"
				   "NCCL_IB_ADDR_RANGE=any\n"
				   "NCCL_IB_ROCE_VERSION_NUM=any\n"
				   "NCCL_IB_ADAPTIVE_ROUTING=by the kind of port\n"
				   "NCCL_IB_AR_THRESHOLD=8192\n"
				   "NCCL_IB_TIMEOUT=20\n"
				   "NCCL_IB_RETRY_CNT=7\n");
	write_with("abi", "");
	assert_null(strstr(lines, "abi="));
}

static void values_are_cut_and_fit_for_a_log(void **state)
{
	char value[1000];

	(void)state;
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	memcpy(value, "a\nNCCL_IB_SL=9\x1b\xff", 16);
	write_with("NCCL_IB_HCA", value);
	assert_non_null(strstr(lines, "\nNCCL_IB_HCA=a?NCCL_IB_SL=9??xxx"));
	assert_non_null(strstr(lines, "\nNCCL_IB_RETRY_CNT=7\n"));
	assert_true(strlen(lines) < 700);
}

/* One difference each: what the peer tells, and the whole line. */
static const struct vector {
	const char *name;
	const char *own;
	const char *peers; /* its line */
	const char *told;  /* level and text; NULL: nothing */
} vectors[] = {
	{"NCCL_IB_SL", "3", "NCCL_IB_SL=0\n",
	 "1 NCCL_IB_SL differs: 3 here (a:1), 0 there (b:2): the two directions go by different "
	 "virtual lanes; set it alike on all hosts"},
	{"NCCL_IB_SL", "0", "NCCL_IB_SL=0\n", NULL},
	{"NCCL_IB_SL", "-1", "NCCL_IB_SL=0\n", NULL},
	{"NCCL_IB_TC", "106", "NCCL_IB_TC=the communicator's\n",
	 "1 NCCL_IB_TC differs: 106 here (a:1), the communicator's there (b:2): the two directions "
	 "have different priority in the network; set it alike on all hosts"},
	{"NCCL_IB_TC", "0", "NCCL_IB_TC=the communicator's\n", "1 NCCL_IB_TC differs: 0 here"},
	{"NCCL_IB_FIFO_TC", "4", "NCCL_IB_FIFO_TC=8\n", "1 NCCL_IB_FIFO_TC differs: 4 here"},
	{"NCCL_IB_PKEY", "1", "NCCL_IB_PKEY=0\n",
	 "1 NCCL_IB_PKEY differs: 1 here (a:1), 0 there (b:2): where the two entries name "
	 "different "
	 "partitions, nothing arrives; make sure that they name the same one"},
	{"NCCL_IB_ADDR_FAMILY", "AF_INET6", "NCCL_IB_ADDR_FAMILY=any\n",
	 "1 NCCL_IB_ADDR_FAMILY differs: AF_INET6 here (a:1), any there (b:2): the ends prefer "
	 "addresses that do not fit each other; set it alike on all hosts"},
	{"NCCL_IB_ADDR_RANGE", "10.0.0.0/8", "NCCL_IB_ADDR_RANGE=10.0.0.0/16\n",
	 "2 NCCL_IB_ADDR_RANGE differs: 10.0.0.0/8 here (a:1), 10.0.0.0/16 there (b:2)"},
	{"NCCL_IB_ROCE_VERSION_NUM", "1", "NCCL_IB_ROCE_VERSION_NUM=2\n",
	 "1 NCCL_IB_ROCE_VERSION_NUM differs: 1 here"},
	{"NCCL_IB_HCA", "mlx5_1", "NCCL_IB_HCA=all\n",
	 "2 NCCL_IB_HCA differs: mlx5_1 here (a:1), all there (b:2): devices are paired by their "
	 "order; where hosts have the same HCAs, set it alike on them"},
	{"NCCL_IB_ADAPTIVE_ROUTING", "1", "NCCL_IB_ADAPTIVE_ROUTING=by the kind of port\n",
	 "2 NCCL_IB_ADAPTIVE_ROUTING differs: 1 here"},
	{"NCCL_IB_AR_THRESHOLD", "8192", "NCCL_IB_AR_THRESHOLD=8192\n", NULL},
	{"NCCL_IB_AR_THRESHOLD", "0", "NCCL_IB_AR_THRESHOLD=8192\n",
	 "2 NCCL_IB_AR_THRESHOLD differs: 0 here"},
	{"NCCL_IB_TIMEOUT", "14", "NCCL_IB_TIMEOUT=20\n",
	 "2 NCCL_IB_TIMEOUT differs: 14 here (a:1), 20 there (b:2): one end gives a path up while "
	 "the other still tries; set it alike on all hosts"},
	{"NCCL_IB_RETRY_CNT", "3", "NCCL_IB_RETRY_CNT=7\n", "2 NCCL_IB_RETRY_CNT differs: 3 here"},
	{"abi", "8", "abi=v12\n",
	 "1 the version of NCCL's network interface differs: v8 here (a:1), v12 there (b:2): the "
	 "processes run different versions of NCCL"},
	{"abi", "", "abi=v12\n", NULL},
	{"links", "InfiniBand", "links=RoCE\n",
	 "1 the kind of port differs: InfiniBand here (a:1), RoCE there (b:2): RoCE and InfiniBand "
	 "cannot be connected; choose ports of one kind with NCCL_IB_HCA"},
	{"links", "RoCE", "release=9.9\n",
	 "1 Sextant's release differs: " SXT_VERSION
	 " here (a:1), 9.9 there (b:2): connections are "
	 "made as the older one can; install the same release on all hosts"},
	/* Settings of another kind, cut lines and nonsense are no difference. */
	{"NCCL_IB_SL", "3", "NCCL_IB_SLX=0\nXNCCL_IB_SL=0\nNCCL_IB_SL 0\n\n=\nNCCL_IB_SL=0", NULL},
	{"NCCL_IB_QPS_PER_CONNECTION", "2", "NCCL_IB_QPS_PER_CONNECTION=1\n", NULL},
	{"NCCL_IB_SL", "3", "", NULL},
	/* The first of two counts, and a value may be empty or hold what stands between. */
	{"NCCL_IB_SL", "3", "NCCL_IB_SL=3\nNCCL_IB_SL=0\n", NULL},
	{"NCCL_IB_SL", "3", "NCCL_IB_SL=\n", "1 NCCL_IB_SL differs: 3 here (a:1),  there (b:2)"},
	{"NCCL_IB_SL", "3", "NCCL_IB_SL=3=3\n",
	 "1 NCCL_IB_SL differs: 3 here (a:1), 3=3 there (b:2)"},
};

static void differences_are_named_with_both_ends_and_what_to_do(void **state)
{
	const struct sxt_agree_end here = {.name = "a:1", .lines = lines};
	struct sxt_agree_line line;
	char told[sizeof(line.text) + 16];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(vectors); i++) {
		const struct sxt_agree_end there = {.name = "b:2", .lines = vectors[i].peers};
		uint32_t at = 0;

		write_with(vectors[i].name, vectors[i].own);
		told[0] = '\0';
		if (sxt_agree_next(&here, &there, &at, &line))
			snprintf(told, sizeof(told), "%d %s", (int)line.level, line.text);
		if (vectors[i].told == NULL)
			assert_string_equal(told, "");
		else if (strncmp(told, vectors[i].told, strlen(vectors[i].told)) != 0)
			assert_string_equal(told, vectors[i].told);
		assert_false(sxt_agree_next(&here, &there, &at, &line));
	}
}

static void like_ends_differ_in_nothing_and_unlike_ones_in_each(void **state)
{
	static char theirs[SXT_SETTINGS_BYTES];
	const struct sxt_agree_end here = {.name = "a:1", .lines = lines};
	const struct sxt_agree_end there = {.name = "b:2", .lines = theirs};
	struct sxt_agree_line line;
	uint32_t at = 0;
	int cnt = 0;

	(void)state;
	write_with("NCCL_IB_SL", "3");
	memcpy(theirs, lines, sizeof(theirs));
	assert_false(sxt_agree_next(&here, &there, &at, &line));
	write_with("NCCL_IB_TC", "3");
	at = 0;
	while (sxt_agree_next(&here, &there, &at, &line))
		cnt++;
	assert_int_equal(cnt, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_in_force_is_told, setup),
		cmocka_unit_test_setup(values_are_cut_and_fit_for_a_log, setup),
		cmocka_unit_test_setup(differences_are_named_with_both_ends_and_what_to_do, setup),
		cmocka_unit_test_setup(like_ends_differ_in_nothing_and_unlike_ones_in_each, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
