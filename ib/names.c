/*
 * names.c - NCCL's lists of interface names (slow path, pure).
 */
#include "ib/names.h"

#include <string.h>

bool sxt_names_match(const char *list, const char *name)
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
			found = found ||
				(strncmp(name, list, len) == 0 && (!exact || name[len] == '\0'));
		}
		list += len + (list[len] == ',' ? 1 : 0);
	}
	return any ? found != exclude : true;
}
