/*
 * hot.c - a hot object that allocates.
 */
#include <stdlib.h>
#include <string.h>

void *sxt_planted_hot(const void *from, size_t bytes);

void *sxt_planted_hot(const void *from, size_t bytes)
{
	void *copy = malloc(bytes);

	if (copy != NULL)
		memcpy(copy, from, bytes);
	return copy;
}
