/*
 * test_forced.c - what NCCL_ALGO and NCCL_PROTO leave to the tuner, in every form NCCL takes.
 */
#include "plugin/forced.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALL "T R D C N Q P"

/* Algorithms of one collective that are left with SIMPLE, by a letter each; "-": it is named. */
static void text_of(const struct sxt_forced *forced, int coll, char out[32])
{
	static const char letters[] = "TRDCNQP";
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < SXT_ALGOS; i++) {
		if (forced->allowed[coll][i][SXT_PROTO_SIMPLE])
			used += (size_t)snprintf(out + used, 32 - used, "%s%c",
						 used != 0 ? " " : "", letters[i]);
	}
	if (forced->is_named[coll]) {
		assert_int_equal(used, 0);
		memcpy(out, "-", 2);
	}
}

static const struct {
	const char *algo;
	const char *all_reduce;
	const char *broadcast;
} vectors[] = {
	{NULL, ALL, ALL},
	{"", ALL, ALL},
	{"ring", "-", "-"},
	{"Ring,Tree", "-", "-"},
	{"^tree", "R D C N Q P", "R D C N Q P"},
	{"^tree,nvls", "R D C Q P", "R D C Q P"},
	{"^Tree,,CollNetDirect,", "R C N Q P", "R C N Q P"},
	{"allreduce:tree", "-", ALL},
	{"AllReduce:^tree", "R D C N Q P", ALL},
	{"ring;allreduce:^tree", "R D C N Q P", "-"},
	{"^tree;allreduce:tree", "-", "R D C N Q P"},
	{"allreduce:tree;allreduce:^ring", "T D C N Q P", ALL},
	{"allreduce:^nvls;broadcast:ring;", "T R D C Q P", "-"},
	{"^", ALL, ALL},
	/* What NCCL refuses, or a later one knows. */
	{"^tre", "-", "-"},
	{"allreduce:", "-", ALL},
	{"alltoall:ring", ALL, ALL},
	{"averyveryveryveryveryveryveryverylongword", "-", "-"},
};

static void every_form_is_read(void **state)
{
	struct sxt_forced forced;
	char text[32];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(vectors); i++) {
		memset(&forced, 0x5a, sizeof(forced));
		sxt_forced_read(vectors[i].algo, NULL, &forced);
		text_of(&forced, SXT_COLL_ALL_REDUCE, text);
		assert_string_equal(text, vectors[i].all_reduce);
		text_of(&forced, SXT_COLL_BROADCAST, text);
		assert_string_equal(text, vectors[i].broadcast);
	}
}

static void both_settings_count(void **state)
{
	struct sxt_forced forced;

	(void)state;
	sxt_forced_read("^ring", "^LL128", &forced);
	for (int proto = 0; proto < SXT_PROTOS; proto++) {
		assert_false(forced.allowed[SXT_COLL_REDUCE][SXT_ALGO_RING][proto]);
		assert_int_equal(forced.allowed[SXT_COLL_REDUCE][SXT_ALGO_TREE][proto],
				 proto != SXT_PROTO_LL128);
	}
	sxt_forced_read("^ring", "reduce:Simple", &forced);
	assert_true(forced.is_named[SXT_COLL_REDUCE]);
	assert_false(forced.allowed[SXT_COLL_REDUCE][SXT_ALGO_TREE][SXT_PROTO_SIMPLE]);
	assert_true(forced.allowed[SXT_COLL_ALL_REDUCE][SXT_ALGO_TREE][SXT_PROTO_SIMPLE]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_is_read),
		cmocka_unit_test(both_settings_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
