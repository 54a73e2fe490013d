/*
 * test_clock.c - buckets at their boundaries, the clock against the system's.
 */
#include "telemetry/clock.h"

#include "telemetry/reader.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void a_latency_lies_in_its_bucket_at_every_boundary(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SXT_TELE_LATENCY_BUCKETS; i++) {
		float floor = (float)sxt_tele_latency_floor_ns(i);

		assert_true((uint64_t)floor == sxt_tele_latency_floor_ns(i));
		assert_int_equal(sxt_tele_latency_bucket(floor), i);
		if (i != 0)
			assert_int_equal(sxt_tele_latency_bucket(floor * (1 - 0x1p-23f)), i - 1);
	}
}

static void latencies_beyond_the_range_fall_into_the_outer_buckets(void **state)
{
	(void)state;
	assert_int_equal(sxt_tele_latency_bucket(0), 0);
	assert_int_equal(sxt_tele_latency_bucket(1), 0);
	assert_int_equal(sxt_tele_latency_bucket(0x1p34f), SXT_TELE_LATENCY_BUCKETS - 1);
	assert_int_equal(sxt_tele_latency_bucket(FLT_MAX), SXT_TELE_LATENCY_BUCKETS - 1);
	assert_int_equal(sxt_tele_latency_bucket(INFINITY), SXT_TELE_LATENCY_BUCKETS - 1);
	assert_int_equal(sxt_tele_latency_bucket(-1), 0);
	assert_int_equal(sxt_tele_latency_bucket(-0x1p40f), 0);
	assert_int_equal(sxt_tele_ticks_bucket((uint64_t)-5), 0);
	assert_int_equal(sxt_tele_latency_floor_ns(UINT32_MAX),
			 sxt_tele_latency_floor_ns(SXT_TELE_LATENCY_BUCKETS - 1));
}

static void buckets_are_a_third_of_a_power_of_two_from_1_us_to_14_s(void **state)
{
	(void)state;
	assert_int_equal(sxt_tele_latency_floor_ns(0), 0);
	assert_int_equal(sxt_tele_latency_floor_ns(1), 1280);
	assert_int_equal(sxt_tele_latency_floor_ns(2), 1600);
	assert_int_equal(sxt_tele_latency_floor_ns(3), 2048);
	assert_int_equal(sxt_tele_latency_floor_ns(71), 13421772800ull);
}

static void a_size_lies_in_its_bucket_at_every_boundary(void **state)
{
	(void)state;
	assert_int_equal(sxt_tele_size_bucket(0), 0);
	for (uint32_t i = 1; i < SXT_TELE_SIZE_BUCKETS; i++) {
		uint64_t floor = i == 1 ? 1 : 1ull << (2 * i);

		assert_int_equal(sxt_tele_size_floor(i), floor);
		assert_int_equal(sxt_tele_size_bucket(floor), i);
		assert_int_equal(sxt_tele_size_bucket(floor - 1), i - 1);
	}
	assert_int_equal(sxt_tele_size_bucket(INT64_MAX), SXT_TELE_SIZE_BUCKETS - 1);
	assert_int_equal(sxt_tele_size_floor(99), 1ull << 30);
}

static void a_quantile_is_interpolated_in_its_bucket(void **state)
{
	uint32_t buckets[SXT_TELE_LATENCY_BUCKETS] = {0};

	(void)state;
	assert_int_equal(sxt_tele_quantile_ns(buckets, 0.5), 0);
	buckets[3] = 50; /* 2,048 to 2,560 ns */
	buckets[6] = 50; /* 4,096 to 5,120 ns */
	assert_int_equal(sxt_tele_quantile_ns(buckets, 0), 2048);
	assert_int_equal(sxt_tele_quantile_ns(buckets, 0.25), 2048 + (2560 - 2048) / 2);
	assert_int_equal(sxt_tele_quantile_ns(buckets, 0.5), 2560);
	assert_int_equal(sxt_tele_quantile_ns(buckets, 0.75), 4096 + (5120 - 4096) / 2);
	assert_int_equal(sxt_tele_quantile_ns(buckets, 1), 5120);
	assert_int_equal(sxt_tele_quantile_ns(buckets, 7), 5120);
	assert_int_equal(sxt_tele_quantile_ns(buckets, -7), 2048);
	buckets[SXT_TELE_LATENCY_BUCKETS - 1] = 1000; /* open: all that is known is its beginning */
	assert_int_equal(sxt_tele_quantile_ns(buckets, 0.9), 13421772800ull);
	for (uint32_t i = 0; i < SXT_TELE_LATENCY_BUCKETS; i++)
		buckets[i] = UINT32_MAX;
	assert_true(sxt_tele_quantile_ns(buckets, 0.999) > sxt_tele_quantile_ns(buckets, 0.5));
}

/* The rate is known to 100 ppm, so a moment within a bucket by more is in it. */
static void ticks_fall_where_their_ns_do(void **state)
{
	struct sxt_tele_moment moment;

	(void)state;
	sxt_tele_clock_start(&moment);
	for (uint32_t i = 1; i < SXT_TELE_LATENCY_BUCKETS; i++) {
		double ticks =
			(double)sxt_tele_latency_floor_ns(i) * 1e-9 * (double)moment.ticks_per_sec;

		assert_int_equal(sxt_tele_ticks_bucket((uint64_t)(ticks * 1.01)), i);
		assert_int_equal(sxt_tele_ticks_bucket((uint64_t)(ticks * 0.99)), i - 1);
	}
}

/* Both clocks stand still together when a machine does, so their ratio is safe to ask for. */
static void the_clock_ticks_at_the_rate_that_was_measured(void **state)
{
	struct sxt_tele_moment first, then;
	uint64_t took_ns;

	(void)state;
	sxt_tele_clock_start(&first);
	do {
		sxt_tele_clock_start(&then);
		took_ns = then.mono_ns - first.mono_ns;
	} while (took_ns < 20 * SXT_NS_PER_MS);
	assert_int_equal(then.ticks_per_sec, first.ticks_per_sec);
	assert_in_range((uint64_t)((unsigned __int128)(then.ticks - first.ticks) * SXT_NS_PER_SEC /
				   first.ticks_per_sec),
			took_ns - took_ns / 50, took_ns + took_ns / 50);
	assert_true(then.wall_ns > 1600000000 * SXT_NS_PER_SEC);
	assert_int_equal(sxt_tele_clock_rate(&first), first.ticks_per_sec); /* too soon for more */
}

static void a_counter_grows_by_what_is_added(void **state)
{
	uint64_t wide = UINT32_MAX;
	uint32_t narrow = 5;

	(void)state;
	sxt_tele_add64(&wide, 1ull << 40);
	sxt_tele_add64(&wide, 1);
	sxt_tele_add32(&narrow, 37);
	assert_int_equal(wide, (1ull << 40) + (1ull << 32));
	assert_int_equal(narrow, 42);
}

/* The table of buckets is filled when the clock starts. */
static int start_clock(void **state)
{
	struct sxt_tele_moment moment;

	(void)state;
	sxt_tele_clock_start(&moment);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_latency_lies_in_its_bucket_at_every_boundary),
		cmocka_unit_test(latencies_beyond_the_range_fall_into_the_outer_buckets),
		cmocka_unit_test(buckets_are_a_third_of_a_power_of_two_from_1_us_to_14_s),
		cmocka_unit_test(a_size_lies_in_its_bucket_at_every_boundary),
		cmocka_unit_test(a_quantile_is_interpolated_in_its_bucket),
		cmocka_unit_test(ticks_fall_where_their_ns_do),
		cmocka_unit_test(the_clock_ticks_at_the_rate_that_was_measured),
		cmocka_unit_test(a_counter_grows_by_what_is_added),
	};

	return cmocka_run_group_tests(tests, start_clock, NULL);
}
