/*
 * status.c - error texts that are safe in any thread (slow path).
 */
#include "core/status.h"

#include <stdlib.h>
#include <string.h>

const char *sxt_strerror(int rc)
{
	const char *text = strerrordesc_np(abs(rc));

	return text != NULL ? text : "Unknown error";
}

const char *sxt_errname(int rc)
{
	const char *name = strerrorname_np(abs(rc));

	return name != NULL ? name : "E?";
}
