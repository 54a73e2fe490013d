/*
 * leak.c - what clang-tidy has to find: a leak, and a number read without checking.
 */
#include <stdlib.h>

int sxt_leak(const char *text);

int sxt_leak(const char *text)
{
	char *copy = malloc(16);

	if (copy == NULL)
		return -1;
	copy[0] = text[0];
	return atoi(text) + copy[0];
}
