/*
 * clock.c - which clock stamps the telemetry, and how fast it ticks (slow path).
 */
#include "telemetry/clock.h"

#include "core/sysfs.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Reading two clocks takes some 50 ns, so this is good for 100 ppm; buckets are 25 % wide. */
#define CALIBRATION_NS (SXT_NS_PER_MS / 2)
/* Looks at a clock that may stand still; each takes 100 ns and more. */
#define CALIBRATION_LOOKS 200000

uint32_t sxt_tele_clock_kind = SXT_TELE_CLOCK_MONOTONIC;

float sxt_tele_ns_per_tick = 1;
uint8_t sxt_tele_latency_buckets[1u << (32 - SXT_TELE_FLOAT_SHIFT)];

/* Digits 1 for no byte, 2 for one, 2 + 2 i for the first size of bucket i. */
const uint8_t sxt_tele_size_buckets[64] = {
	0,  1,  1,  1,  1,  2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,  7,  8,  8,  9,  9,  10,
	10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
	15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
};

static uint64_t first_rate = SXT_NS_PER_SEC;

#if defined(__x86_64__)
/* Of CPUID 80000007h EDX: Linux derives constant_tsc and nonstop_tsc from this bit. */
#define INVARIANT_TSC (1u << 8)

/* The kernel keeps time by one of these only where it found the TSC to be unreliable. */
static bool kernel_distrusts_tsc(void)
{
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
	char name[64];
	int rc = sxt_sysfs_read("/",
				"/sys/devices/system/clocksource/clocksource0/current_clocksource",
				name, sizeof(name));

	for (size_t i = 0; rc == 0 && i < SXT_ARRAY_LEN(slow); i++) {
		if (strcmp(name, slow[i]) == 0)
			return true;
	}
	return false;
}

static bool counter_is_steady(void)
{
	uint32_t eax, ebx, ecx;
	uint32_t edx = 0;

	if (__get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) == 0)
		return false;
	return (edx & INVARIANT_TSC) != 0 && !kernel_distrusts_tsc();
}
#else
/* Of arm64 it is by its architecture; elsewhere it is the system's clock itself. */
static bool counter_is_steady(void)
{
	return true;
}
#endif

/* The counter and the system's clock at one moment: of three tries, that which took least. */
static void read_pair(uint64_t *ticks, uint64_t *mono_ns)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = sxt_tele_ticks();
		uint64_t now_ns = sxt_sys_host.now_ns();
		uint64_t took = sxt_tele_ticks() - before;

		if (took > least)
			continue;
		least = took;
		*ticks = before + took / 2;
		*mono_ns = now_ns;
	}
}

static uint64_t rate_between(uint64_t ticks, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ticks * SXT_NS_PER_SEC / ns);
}

/* Return: 0 where the system's clock does not move. */
static uint64_t measure_rate(void)
{
	uint64_t begin_ticks, begin_ns, ticks, now_ns;

	read_pair(&begin_ticks, &begin_ns);
	for (int i = 0; i < CALIBRATION_LOOKS; i++) {
		read_pair(&ticks, &now_ns);
		if (now_ns - begin_ns >= CALIBRATION_NS)
			return rate_between(ticks - begin_ticks, now_ns - begin_ns);
	}
	return 0;
}

/* Entry i is for floats from 2^(i / 16 - 127) (1 + i % 16 / 16) on; of the upper half, below 0. */
static void fill_latency_buckets(void)
{
	const uint32_t first = (127 + 10) * 16; /* 1,024 ns */

	for (uint32_t i = first; i < SXT_ARRAY_LEN(sxt_tele_latency_buckets) / 2; i++) {
		uint32_t sixteenths = (i - first) % 16;
		uint32_t bucket = (i - first) / 16 * 3 + (sixteenths >= 4) + (sixteenths >= 9);

		sxt_tele_latency_buckets[i] =
			(uint8_t)(bucket < SXT_TELE_LATENCY_BUCKETS ? bucket
								    : SXT_TELE_LATENCY_BUCKETS - 1);
	}
}

static void choose(void)
{
	fill_latency_buckets();
	if (!counter_is_steady())
		return;
	sxt_tele_clock_kind = SXT_TELE_CLOCK_HERE;
#if defined(__aarch64__)
	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(first_rate));
#endif
	if (sxt_tele_clock_kind == SXT_TELE_CLOCK_TSC || first_rate == 0)
		first_rate = measure_rate();
	if (first_rate == 0) {
		sxt_tele_clock_kind = SXT_TELE_CLOCK_MONOTONIC;
		first_rate = SXT_NS_PER_SEC;
	}
	sxt_tele_ns_per_tick = (float)((double)SXT_NS_PER_SEC / (double)first_rate);
}

void sxt_tele_clock_start(struct sxt_tele_moment *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
	read_pair(&out->ticks, &out->mono_ns);
	out->wall_ns = sxt_sys_host.wall_ns();
	out->ticks_per_sec = first_rate;
}

uint64_t sxt_tele_clock_rate(const struct sxt_tele_moment *since)
{
	uint64_t ticks, now_ns;

	if (sxt_tele_clock_kind != SXT_TELE_CLOCK_TSC)
		return since->ticks_per_sec;
	read_pair(&ticks, &now_ns);
	if (now_ns < since->mono_ns + SXT_NS_PER_SEC)
		return since->ticks_per_sec;
	return rate_between(ticks - since->ticks, now_ns - since->mono_ns);
}
