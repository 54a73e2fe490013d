/*
 * builtin.c - see builtin.h.
 */
#include "tests/unit/ib/builtin.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 32
#define NAME_BYTES  64

static struct sxt_gid at(const struct sxt_gid_table *table, uint32_t index)
{
	for (uint32_t i = 0; i < table->cnt; i++) {
		if (table->gids[i].index == index)
			return table->gids[i];
	}
	return (struct sxt_gid){.index = index, .type = SXT_GID_TYPE_UNKNOWN};
}

static uint8_t family(const struct sxt_gid *gid)
{
	return sxt_gid_is_ipv4(gid->raw) ? 4 : 6;
}

/* Not all zero, and not fe80:: in its first eight bytes. */
static bool is_valid(const struct sxt_gid *gid)
{
	static const uint8_t zero[SXT_GID_BYTES];
	static const uint8_t local[8] = {0xfe, 0x80};

	return memcmp(gid->raw, zero, sizeof(zero)) != 0 &&
	       memcmp(gid->raw, local, sizeof(local)) != 0;
}

/* A candidate of another family than the best one's is not asked for its version. */
static bool is_better(const struct sxt_gid *gid, const struct sxt_gid *best,
		      const struct sxt_gid_wishes *wishes)
{
	uint8_t wanted_family = wishes->family != 0 ? wishes->family : 4;
	uint8_t wanted_type = wishes->version == 1 ? SXT_GID_TYPE_ROCE_V1 : SXT_GID_TYPE_ROCE_V2;
	bool fits = family(gid) == wanted_family && sxt_gid_in_range(&wishes->range, gid->raw);

	if (family(gid) != family(best) && fits)
		return true;
	return fits && is_valid(gid) && (gid->type != best->type || !is_valid(best)) &&
	       gid->type == wanted_type;
}

uint32_t builtin_gid(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes)
{
	struct sxt_gid best = at(table, 0);

	if (table->is_infiniband) {
		struct sxt_gid routable = at(table, wishes->flid_index);

		return wishes->flid_index < table->len && sxt_gid_flid(routable.raw) != 0
			       ? wishes->flid_index
			       : 0;
	}
	if (wishes->index >= 0)
		return (uint32_t)wishes->index;
	for (uint32_t i = 1; i < table->len; i++) {
		struct sxt_gid gid = at(table, i);

		if (is_better(&gid, &best, wishes))
			best = gid;
	}
	return best.index;
}

/* atoi() as the C library has it: out of range, the low half of a long. */
static int number(const char *text)
{
	return (int)strtol(text, NULL, 10);
}

/* A name without a port fits all of them, and so does port -1. */
static bool fits(const char *entry, size_t len, bool is_exact, const char *device, int port)
{
	char copy[NAME_BYTES] = "";
	char *colon;
	int wanted = -1;

	memcpy(copy, entry, len < sizeof(copy) ? len : sizeof(copy) - 1);
	colon = strchr(copy, ':');
	if (colon != NULL) {
		*colon = '\0';
		wanted = number(colon + 1);
	}
	if (wanted != -1 && wanted != port)
		return false;
	return is_exact ? strcmp(device, copy) == 0 : strncmp(device, copy, strlen(copy)) == 0;
}

bool builtin_picks(const char *list, const char *device, int port)
{
	bool excludes = *list == '^';
	bool is_exact;
	bool is_found = false;
	int cnt = 0;

	list += excludes;
	is_exact = *list == '=';
	list += is_exact;
	while (*list != '\0' && cnt < ENTRIES_MAX) {
		size_t len = strcspn(list, ",");

		if (len > 0 && *list != ':') {
			is_found = is_found || fits(list, len, is_exact, device, port);
			cnt++;
		}
		list += len + (list[len] == ',');
	}
	return (is_found || cnt == 0) != excludes;
}
