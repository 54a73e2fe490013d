/*
 * test_names.c - lists of interface names pick what NCCL's documentation says.
 */
#include "ib/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
	const char *list;
	const char *name;
	bool is_picked;
} cases[] = {
	{"", "eth0", true},
	{"^", "eth0", true},
	{"=", "eth0", true},
	{",,", "eth0", true},
	/* Beginnings of names. */
	{"eth", "eth0", true},
	{"ib,eth1", "eth10", true},
	{"eth1", "eth0", false},
	{"eth10", "eth1", false},
	/* Whole names. */
	{"=eth1", "eth1", true},
	{"=eth1", "eth10", false},
	{"=eth0,eth10", "eth10", true},
	{"=eth0:1", "eth0:1", true},
	{"=eth0:1", "eth0", false},
	/* The others. */
	{"^eth1", "eth10", false},
	{"^=eth1", "eth10", true},
	{"=^eth1", "eth10", true},
	{"^=eth1", "eth1", false},
	{"^docker,lo", "eth0", true},
	{"^docker,lo", "docker0", false},
};

static void each_list_picks_what_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		if (sxt_names_match(cases[i].list, cases[i].name) != cases[i].is_picked)
			fail_msg("\"%s\" and %s", cases[i].list, cases[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_list_picks_what_it_should),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
