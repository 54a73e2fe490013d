/*
 * variants.c - prints the broken variants of the fake net plugin: name, version to see it in, deed.
 */
#include <stdio.h>

int main(void)
{
#define SXT_BROKEN(id, name, abi, deed) printf("%s\t%d\t%s\n", name, abi, deed);
#include "tests/fake/net/broken.def"
#undef SXT_BROKEN
	return 0;
}
