/*
 * fuzz.h - a harness is one file with one function, driven by libFuzzer or by replay.c.
 */
#ifndef SXT_TESTS_FUZZ_FUZZ_H
#define SXT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/**
 * LLVMFuzzerTestOneInput() - feed one input to what is tested; aborts when it misbehaves.
 * @data, @bytes: the input, any bytes, not terminated.
 * Return: 0.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Ends the process, and with it the test, where an invariant does not hold. */
#define FUZZ_REQUIRE(condition)           \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

#endif
