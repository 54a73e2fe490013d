/*
 * test_sys.c - the real machine keeps its contracts, and random numbers are whole or refused.
 */
#include "core/sys.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int calls_cnt;

static void time_never_goes_back(void **state)
{
	uint64_t before = sxt_sys_host.now_ns();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now = sxt_sys_host.now_ns();

		assert_true(now >= before);
		before = now;
	}
}

static void every_member_is_filled(void **state)
{
	void (*members[sizeof(struct sxt_sys) / sizeof(void (*)(void))])(void);

	(void)state;
	memcpy(members, &sxt_sys_host, sizeof(members));
	for (size_t i = 0; i < SXT_ARRAY_LEN(members); i++)
		assert_non_null(members[i]);
}

static ssize_t interrupted_twice(void *buf, size_t bytes, unsigned int flags)
{
	assert_int_equal(flags, 0);
	if (calls_cnt++ < 2) {
		errno = EINTR;
		return -1;
	}
	memset(buf, 0x5a, bytes);
	return (ssize_t)bytes;
}

static void a_signal_only_means_again(void **state)
{
	struct sxt_sys sys = {.getrandom = interrupted_twice};
	uint8_t got[16] = {0};

	(void)state;
	calls_cnt = 0;
	assert_int_equal(sxt_sys_random(&sys, got, sizeof(got)), 0);
	assert_int_equal(calls_cnt, 3);
	assert_int_equal(got[0], 0x5a);
	assert_int_equal(got[15], 0x5a);
}

static ssize_t short_answer(void *buf, size_t bytes, unsigned int flags)
{
	(void)buf;
	(void)flags;
	return (ssize_t)bytes - 1;
}

static ssize_t no_answer(void *buf, size_t bytes, unsigned int flags)
{
	(void)buf;
	(void)bytes;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

static void half_a_number_is_none(void **state)
{
	struct sxt_sys sys = {.getrandom = short_answer};
	uint8_t got[16];

	(void)state;
	assert_int_equal(sxt_sys_random(&sys, got, sizeof(got)), -EIO);
	sys.getrandom = no_answer;
	assert_int_equal(sxt_sys_random(&sys, got, sizeof(got)), -EIO);
}

static void two_draws_differ(void **state)
{
	uint8_t first[16];
	uint8_t second[16];

	(void)state;
	assert_int_equal(sxt_sys_random(&sxt_sys_host, first, sizeof(first)), 0);
	assert_int_equal(sxt_sys_random(&sxt_sys_host, second, sizeof(second)), 0);
	assert_memory_not_equal(first, second, sizeof(first));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_never_goes_back),
		cmocka_unit_test(every_member_is_filled),
		cmocka_unit_test(a_signal_only_means_again),
		cmocka_unit_test(half_a_number_is_none),
		cmocka_unit_test(two_draws_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
