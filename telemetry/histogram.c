/*
 * histogram.c - where buckets begin, and quantiles of what was counted in them.
 */
#include "telemetry/clock.h"
#include "telemetry/reader.h"

uint64_t sxt_tele_latency_floor_ns(uint32_t i)
{
	static const uint64_t sixteenths[] = {16, 20, 25};

	if (i == 0)
		return 0;
	if (i >= SXT_TELE_LATENCY_BUCKETS)
		i = SXT_TELE_LATENCY_BUCKETS - 1;
	return sixteenths[i % 3] << (10 + i / 3 - 4);
}

uint64_t sxt_tele_size_floor(uint32_t i)
{
	if (i < 2)
		return i;
	return 1ull << (2 * (i < SXT_TELE_SIZE_BUCKETS ? i : SXT_TELE_SIZE_BUCKETS - 1));
}

uint64_t sxt_tele_quantile_ns(const uint32_t *buckets, double q)
{
	uint64_t total = 0;
	uint64_t below = 0;
	double wanted;

	for (uint32_t i = 0; i < SXT_TELE_LATENCY_BUCKETS; i++)
		total += buckets[i];
	if (total == 0)
		return 0;
	wanted = (q > 0 ? q < 1 ? q : 1 : 0) * (double)total;
	for (uint32_t i = 0; i < SXT_TELE_LATENCY_BUCKETS - 1; i++) {
		uint64_t floor = sxt_tele_latency_floor_ns(i);
		uint64_t width = sxt_tele_latency_floor_ns(i + 1) - floor;

		if (buckets[i] > 0 && wanted <= (double)(below + buckets[i]))
			return floor + (uint64_t)((double)width * (wanted - (double)below) /
						  (double)buckets[i]);
		below += buckets[i];
	}
	return sxt_tele_latency_floor_ns(SXT_TELE_LATENCY_BUCKETS - 1);
}
