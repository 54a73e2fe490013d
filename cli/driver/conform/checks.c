/*
 * checks.c - the table of checks, from its one list.
 */
#include "cli/driver/conform/conform.h"
#include "cli/driver/conform/trial.h"

#include <string.h>

#define ONE   SXT_CONFORM_ONE
#define BOTH  SXT_CONFORM_BOTH
#define LARGE SXT_CONFORM_LARGE

const struct sxt_conform_check sxt_conform_checks[] = {
#define SXT_CHECK(id, name, abi_min, demand, why, ends) \
	{name, abi_min, demand, why, ends, sxt_check_##id},
#include "cli/driver/conform/checks.def"
#undef SXT_CHECK
};

const size_t sxt_conform_checks_cnt = SXT_ARRAY_LEN(sxt_conform_checks);

const struct sxt_conform_check *sxt_conform_find(const char *name)
{
	for (size_t i = 0; i < sxt_conform_checks_cnt; i++) {
		if (strcmp(sxt_conform_checks[i].name, name) == 0)
			return &sxt_conform_checks[i];
	}
	return NULL;
}
