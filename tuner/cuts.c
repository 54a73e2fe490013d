/*
 * cuts.c - making cuts; finding an interval is in cuts.h.
 */
#include "tuner/cuts.h"

#include <errno.h>
#include <stdlib.h>

static int cut(struct sxt_cuts *cuts, uint64_t at)
{
	uint64_t *larger;

	if (at == UINT64_MAX)
		return 0;
	if (cuts->touched == cuts->room) {
		uint32_t room = cuts->room == 0 ? 16 : cuts->room * 2;

		larger = reallocarray(cuts->from, room, sizeof(*larger));
		if (larger == NULL)
			return -ENOMEM;
		cuts->from = larger;
		cuts->room = room;
	}
	cuts->from[cuts->touched++] = at;
	return 0;
}

int sxt_cuts_add(struct sxt_cuts *cuts, const struct sxt_range *range)
{
	int rc = cut(cuts, range->min);

	if (rc == 0 && range->max != UINT64_MAX)
		rc = cut(cuts, range->max + 1);
	return rc;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int sxt_cuts_ready(struct sxt_cuts *cuts)
{
	int rc = cut(cuts, 0);
	uint64_t *whole;
	uint32_t room = 16;

	if (rc != 0)
		return rc;
	qsort(cuts->from, cuts->touched, sizeof(*cuts->from), by_value);
	cuts->cnt = 1;
	for (uint32_t i = 1; i < cuts->touched; i++) {
		if (cuts->from[i] != cuts->from[cuts->cnt - 1])
			cuts->from[cuts->cnt++] = cuts->from[i];
	}
	while (room < cuts->cnt)
		room *= 16;
	whole = reallocarray(cuts->from, room, sizeof(*whole));
	if (whole == NULL)
		return -ENOMEM;
	for (uint32_t i = cuts->cnt; i < room; i++)
		whole[i] = UINT64_MAX;
	cuts->from = whole;
	cuts->room = room;
	cuts->step = room / 16 * (uint32_t)sizeof(*whole);
	cuts->touched = cuts->cnt;
	return 0;
}

void sxt_cuts_fini(struct sxt_cuts *cuts)
{
	free(cuts->from);
	*cuts = (struct sxt_cuts){0};
}
