/*
 * names.c - NCCL's lists of device and interface names (slow path, pure).
 */
#include "ib/names.h"

#include <stdlib.h>
#include <string.h>

/* A port is digits to the end of the token; anything else belongs to the name ("eth0:lan"). */
static size_t split_port(const char *token, size_t len, int *port_out)
{
	const char *colon = memrchr(token, ':', len);
	size_t digits;

	*port_out = -1;
	if (colon == NULL)
		return len;
	digits = strspn(colon + 1, "0123456789");
	if (digits == 0 || digits > 3 || colon + 1 + digits != token + len)
		return len;
	*port_out = (int)strtol(colon + 1, NULL, 10);
	return (size_t)(colon - token);
}

static bool token_matches(const char *token, size_t len, bool exact, const char *name, int port)
{
	int token_port;
	size_t name_len = split_port(token, len, &token_port);

	if (port < 0)
		name_len = len;
	if (strncmp(name, token, name_len) != 0 || (exact && name[name_len] != '\0'))
		return false;
	return port < 0 || token_port < 0 || token_port == port;
}

bool sxt_names_match(const char *list, const char *name, int port)
{
	bool exclude = false;
	bool exact = false;
	bool any = false;
	bool found = false;

	for (; *list == '^' || *list == '='; list++) {
		exclude = exclude || *list == '^';
		exact = exact || *list == '=';
	}
	while (*list != '\0') {
		size_t len = strcspn(list, ",");

		if (len > 0) {
			any = true;
			found = found || token_matches(list, len, exact, name, port);
		}
		list += len + (list[len] == ',' ? 1 : 0);
	}
	return any ? found != exclude : true;
}
