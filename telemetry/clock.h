/*
 * clock.h - what the data path measures with: ticks of the segment's clock, histogram buckets,
 * and counters that one thread writes while others read. All of it inline and without branches
 * that depend on the measured value.
 */
#ifndef SXT_TELEMETRY_CLOCK_H
#define SXT_TELEMETRY_CLOCK_H

#include "core/compiler.h"
#include "core/sys.h"
#include "telemetry/segment.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#define SXT_TELE_CLOCK_HERE SXT_TELE_CLOCK_TSC
#elif defined(__aarch64__)
#define SXT_TELE_CLOCK_HERE SXT_TELE_CLOCK_CNTVCT
#else
#define SXT_TELE_CLOCK_HERE SXT_TELE_CLOCK_MONOTONIC
#endif

/* What an uninstrumented build does in one instruction, ThreadSanitizer has to be told. */
#if defined(__SANITIZE_THREAD__)
#define SXT_TELE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SXT_TELE_WATCHED 1
#endif
#endif

/* enum sxt_tele_clock; changes once, when the first segment is made. */
extern uint32_t sxt_tele_clock_kind;

/*
 * Of the same clock. Sign, exponent and the first four bits of the fraction of a number of ns as a
 * float select its bucket: they are all that the buckets' boundaries differ in.
 */
#define SXT_TELE_FLOAT_SHIFT 19
extern float sxt_tele_ns_per_tick;
extern uint8_t sxt_tele_latency_buckets[1u << (32 - SXT_TELE_FLOAT_SHIFT)];

/* The bucket of each number of binary digits that bytes + bytes + 1 can have. */
extern const uint8_t sxt_tele_size_buckets[64];

/* The processor's counter, on a machine that has the one of SXT_TELE_CLOCK_HERE. */
static SXT_INLINE uint64_t sxt_tele_clock_counter(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return sxt_sys_host.now_ns();
#endif
}

/* Now, on the clock of this process's segments; any thread. */
static SXT_INLINE uint64_t sxt_tele_ticks(void)
{
	if (SXT_LIKELY(sxt_tele_clock_kind != SXT_TELE_CLOCK_MONOTONIC))
		return sxt_tele_clock_counter();
	return sxt_sys_host.now_ns();
}

/* The bucket of a latency. One below 0, of two processors' counters, is in the first. */
static SXT_INLINE uint32_t sxt_tele_latency_bucket(float ns)
{
	uint32_t bits;

	memcpy(&bits, &ns, sizeof(bits));
	return sxt_tele_latency_buckets[bits >> SXT_TELE_FLOAT_SHIFT];
}

/* The same of a difference of ticks, to the 24 bits of a float. */
static SXT_INLINE uint32_t sxt_tele_ticks_bucket(uint64_t ticks)
{
	return sxt_tele_latency_bucket((float)(int64_t)ticks * sxt_tele_ns_per_tick);
}

/* Of a message's size, below 2^63. */
static SXT_INLINE uint32_t sxt_tele_size_bucket(uint64_t bytes)
{
	uint32_t digits = 63u ^ (uint32_t)__builtin_clzll(bytes + bytes + 1);

	return sxt_tele_size_buckets[digits];
}

/*
 * Single-writer counters: the writer adds with one instruction that leaves the word whole, which
 * C can only promise as a load and a store.
 */
static SXT_INLINE void sxt_tele_add64(uint64_t *counter, uint64_t more)
{
#if defined(__x86_64__) && !defined(SXT_TELE_WATCHED)
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(more) : "cc");
#else
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more,
			 __ATOMIC_RELAXED);
#endif
}

static SXT_INLINE void sxt_tele_add32(uint32_t *counter, uint32_t more)
{
#if defined(__x86_64__) && !defined(SXT_TELE_WATCHED)
	__asm__("addl %1, %0" : "+m"(*counter) : "er"(more) : "cc");
#else
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more,
			 __ATOMIC_RELAXED);
#endif
}

static SXT_INLINE void sxt_tele_set64(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static SXT_INLINE void sxt_tele_set32(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* The same moment on the clocks of a header, and how fast the first of them ticks. */
struct sxt_tele_moment {
	uint64_t ticks;
	uint64_t mono_ns;
	uint64_t wall_ns;
	uint64_t ticks_per_sec;
};

/**
 * sxt_tele_clock_start() - choose the clock of this process, once, and read it.
 * @out: the present; the rate as measured the first time, for at most 1 ms.
 * Thread: any. Path: slow, system calls.
 */
void sxt_tele_clock_start(struct sxt_tele_moment *out);

/**
 * sxt_tele_clock_rate() - the clock's rate, the better the longer ago a moment is.
 * @since: from sxt_tele_clock_start(). Thread: any.
 * Return: ticks per second; that of @since within its first second.
 */
uint64_t sxt_tele_clock_rate(const struct sxt_tele_moment *since);

#endif
