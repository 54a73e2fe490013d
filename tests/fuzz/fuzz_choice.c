/*
 * fuzz_choice.c - what users write to choose ports and addresses: the first byte says whether the
 * rest is a NCCL_IB_HCA list ('h') or a NCCL_IB_ADDR_RANGE.
 */
#include "tests/fuzz/fuzz.h"

#include "core/compiler.h"
#include "ib/gid.h"
#include "ib/hca.h"

#include <string.h>

static const struct sxt_hca_port machine[] = {{"mlx5_0", 1},  {"mlx5_0", 2}, {"mlx5_1", 1},
					      {"mlx5_10", 1}, {"", 1},       {"rxe 0", 0}};

static void try_list(const char *text)
{
	struct sxt_hca_list list;
	int bad_cnt = -1;

	FUZZ_REQUIRE(sxt_hca_parse(text, &list, &bad_cnt) == 0);
	FUZZ_REQUIRE(bad_cnt >= 0);
	for (uint32_t i = 0; i < list.cnt; i++) {
		const struct sxt_hca_entry *entry = &list.entries[i];

		FUZZ_REQUIRE(entry->name[0] != '\0' && strlen(entry->name) < SXT_HCA_NAME_BYTES);
		FUZZ_REQUIRE(entry->port == -1 || (entry->port >= 1 && entry->port <= 255));
		FUZZ_REQUIRE(entry->rail >= -1 && entry->plane >= -1);
	}
	for (size_t i = 0; i < SXT_ARRAY_LEN(machine); i++) {
		bool fits = sxt_hca_find(&list, machine[i].device, machine[i].num) != NULL;

		FUZZ_REQUIRE(list.cnt == 0 ||
			     sxt_hca_picks(&list, machine[i].device, machine[i].num) ==
				     (fits != list.excludes));
	}
	FUZZ_REQUIRE(sxt_hca_check(&list, machine, SXT_ARRAY_LEN(machine)) <= (int)list.cnt);
	sxt_hca_fini(&list);
}

static void try_range(const char *text)
{
	struct sxt_gid_range range = {0};
	char why[160] = "";

	if (sxt_gid_range_parse(text, &range, why, sizeof(why)) == 0) {
		FUZZ_REQUIRE(range.family == 4 || range.family == 6);
		FUZZ_REQUIRE(range.prefix_len <= (range.family == 4 ? 32 : 128));
		FUZZ_REQUIRE(sxt_gid_in_range(&range, range.addr) ||
			     (range.family == 6 && sxt_gid_is_ipv4(range.addr)));
	} else {
		FUZZ_REQUIRE(range.family == 0 && why[0] != '\0');
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char text[4200];

	if (bytes < 1 || bytes > sizeof(text))
		return 0;
	memcpy(text, data + 1, bytes - 1);
	text[bytes - 1] = '\0';
	if (data[0] == 'h')
		try_list(text);
	else
		try_range(text);
	return 0;
}
