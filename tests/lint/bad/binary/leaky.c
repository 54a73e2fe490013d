/*
 * leaky.c - a library that exports one symbol too many and needs one library too many.
 */
#include <math.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT double planted_declared(double value);
EXPORT int planted_undeclared(void);

double planted_declared(double value)
{
	return lgamma(value);
}

int planted_undeclared(void)
{
	return 1;
}
