/*
 * routes.c - columns of /proc/net/route.
 */
#include "cli/doctor/routes.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS 8

const char *sxt_route_column(const char *line, unsigned int column, uint32_t *out)
{
	char text[DIGITS + 1];
	size_t len;

	for (unsigned int i = 0; i < column; i++) {
		line += strcspn(line, " \t\n");
		line += strspn(line, " \t");
	}
	len = strcspn(line, " \t\n");
	if (len != DIGITS)
		return NULL;
	memcpy(text, line, DIGITS);
	text[DIGITS] = '\0';
	if (strspn(text, "0123456789abcdefABCDEF") != DIGITS)
		return NULL;
	*out = (uint32_t)strtoul(text, NULL, 16);
	return line;
}
