/*
 * test_builtin.c - where our choice of address and HCA differs from that of NCCL's built-in
 * transport: each situation with both answers, as docs/choice.md shows them.
 *
 * test_builtin PAGE also wants each row in that page; it prints those that are missing.
 */
#include "tests/unit/ib/builtin.h"

#include "core/log.h"
#include "ib/hca.h"
#include "tests/unit/ib/gid_vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIDS_MAX   16
#define PAGE_BYTES (1 << 16)

static char page[PAGE_BYTES]; /* "" when none was given */

struct gid_row {
	const char *situation;
	const char *table;
	const char *name;  /* of a setting, NULL for none */
	const char *value; /* of it */
	uint32_t builtin;
	int ours; /* -1: the port is left out */
	uint32_t notes;
	const char *why;
	bool is_infiniband;
};

#define USUAL "0=fe80::1/v1 1=fe80::1/v2 2=10.1.1.1/v1 3=10.1.1.1/v2"

static const struct gid_row gid_rows[] = {
	{.situation = "IPv4 and RoCE v2 where they mostly are",
	 .table = USUAL,
	 .builtin = 3,
	 .ours = 3,
	 .why = "the same"},
	{.situation = "holes before and between (containers)",
	 .table = "4=fe80::1/v1 5=fe80::1/v2 6=10.1.1.1/v1 9=10.1.1.1/v2",
	 .builtin = 9,
	 .ours = 9,
	 .why = "the same"},
	{.situation = "IPv6 only",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=fd93::5/v1 3=fd93::5/v2",
	 .builtin = 0,
	 .ours = 3,
	 .why = "its family is IPv4 unless told, and without one it stays at index 0"},
	{.situation = "link-local only",
	 .table = "0=fe80::1/v1 1=fe80::1/v2",
	 .builtin = 0,
	 .ours = 1,
	 .notes = SXT_GID_NOTE_LINK_LOCAL,
	 .why = "RoCE v2 of the two, with a WARN: it reaches no further than the segment"},
	{.situation = "169.254 before the real address",
	 .table = "0=fe80::1/v2 1=169.254.7.7/v2 2=10.1.1.1/v2",
	 .builtin = 1,
	 .ours = 2,
	 .why = "it takes the first of IPv4; ours ranks last what a failed DHCP leaves"},
	{.situation = "IPv4 with RoCE v1 only, global IPv6 with v2",
	 .table = "0=fe80::1/v1 1=10.1.1.1/v1 2=2001:db8::5/v2",
	 .builtin = 1,
	 .ours = 2,
	 .why = "it takes the first of IPv4 whatever its version; no router forwards v1"},
	{.situation = "IPv4 with RoCE v1 only, link-local with v2",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=10.1.1.1/v1",
	 .builtin = 2,
	 .ours = 1,
	 .notes = SXT_GID_NOTE_LINK_LOCAL,
	 .why = "neither leaves the segment; ours says so, and tries the other where it fails"},
	{.situation = "IPv4 with RoCE v1 only",
	 .table = "0=fe80::1/v1 1=10.1.1.1/v1",
	 .builtin = 1,
	 .ours = 1,
	 .notes = SXT_GID_NOTE_V1_ONLY,
	 .why = "the same, with a WARN: no router forwards RoCE v1"},
	{.situation = "index 0 is outside the range",
	 .table = "0=10.1.0.1/v2 1=10.2.0.1/v2",
	 .name = "NCCL_IB_ADDR_RANGE",
	 .value = "10.2.0.0/16",
	 .builtin = 0,
	 .ours = 1,
	 .why = "it leaves an index 0 of the wanted kind for none of the same kind"},
	{.situation = "nothing is in the range",
	 .table = USUAL,
	 .name = "NCCL_IB_ADDR_RANGE",
	 .value = "10.9.0.0/16",
	 .builtin = 0,
	 .ours = -1,
	 .notes = SXT_GID_NOTE_NO_RANGE,
	 .why = "index 0 in silence; ours leaves the port out, with a WARN and the table"},
	{.situation = "only a link-local one is of the family",
	 .table = "0=fe80::1/v1 1=10.1.1.1/v2",
	 .name = "NCCL_IB_ADDR_FAMILY",
	 .value = "AF_INET6",
	 .builtin = 0,
	 .ours = 1,
	 .notes = SXT_GID_NOTE_NO_FAMILY,
	 .why = "index 0 in silence; ours takes the next in rank, with a WARN"},
	{.situation = "nothing is of the version",
	 .table = "0=fe80::1/v2 1=10.1.1.1/v2",
	 .name = "NCCL_IB_ROCE_VERSION_NUM",
	 .value = "1",
	 .builtin = 1,
	 .ours = 1,
	 .notes = SXT_GID_NOTE_NO_VERSION,
	 .why = "the same, with a WARN"},
	{.situation = "the index is empty",
	 .table = "4=10.1.1.1/v1 5=10.1.1.1/v2",
	 .name = "NCCL_IB_GID_INDEX",
	 .value = "7",
	 .builtin = 7,
	 .ours = 5,
	 .notes = SXT_GID_NOTE_INDEX_EMPTY,
	 .why = "it is taken unchecked, and connecting fails; ours chooses by rank, with a WARN"},
	{.situation = "the index is no number",
	 .table = USUAL,
	 .name = "NCCL_IB_GID_INDEX",
	 .value = "abc",
	 .builtin = 0,
	 .ours = 3,
	 .why = "it reads 0; ours chooses by rank, with a WARN"},
	{.situation = "InfiniBand with a routable address",
	 .table = "0=fe80::1/ib 1=fe80:0:7::1/ib",
	 .is_infiniband = true,
	 .builtin = 1,
	 .ours = 1,
	 .why = "the same"},
};

struct hca_row {
	const char *list;
	const char *builtin; /* by the names' ends; "" for none */
	const char *ours;
	const char *why;
};

static const struct sxt_hca_port machine[] = {{"mlx5_0", 1},
					      {"mlx5_1", 1},
					      {"mlx5_10", 1},
					      {"mlx5_11", 1}};

static const struct hca_row hca_rows[] = {
	{"mlx5_1", "1 10 11", "1 10 11", "the same, with a WARN and `=mlx5_1` to try"},
	{"=mlx5_1", "1", "1", "the same"},
	{"^=mlx5_1", "0 10 11", "0 10 11", "the same"},
	{"^mlx5_1", "0", "0", "the same, with a WARN and `^=mlx5_1` to try"},
	{"mlx5_0, mlx5_10", "0", "0 10", "to it the space is a part of the name"},
	{"=^mlx5_1", "", "0 1 10 11",
	 "it looks for an HCA called ^mlx5_1, finds none and leaves the job to TCP; ours says to "
	 "write ^="},
	{"", "0 1 10 11", "0 1 10 11", "the same"},
	{"=", "0 1 10 11", "0 1 10 11", "the same, with a WARN that nothing is named"},
	{":1", "0 1 10 11", "0 1 10 11", "the same, with a WARN that nothing is named"},
	{"^", "", "", "the same, with a WARN that nothing is left"},
	{"=mlx5_1:2", "", "", "the same, with a WARN that there is no port 2"},
	{"=mlx5_0:18446744073709551615,mlx5_1", "0 1", "1",
	 "the number wraps to -1, any port; ours ignores the entry, with a WARN and the column"},
	{"=mlx5_0,mlx5_1:0", "0", "0", "the same, with a WARN: ports count from 1"},
	{"=mlxl5_10", "", "", "the same, with a WARN and the nearest name"},
};

static struct sxt_gid_wishes wishes_of(const struct gid_row *row)
{
	struct sxt_config config = {.ib_gid_index = -1,
				    .ib_flid_gid_index = 1,
				    .ib_addr_range = "",
				    .ib_addr_family = ""};
	struct sxt_gid_wishes wishes;
	char why[160];

	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		/* What cannot be parsed leaves the default. */
		if (row->name != NULL && strcmp(sxt_opts[i].env, row->name) == 0)
			sxt_ignore(
				sxt_opt_parse(&sxt_opts[i], row->value, &config, why, sizeof(why)));
	}
	assert_int_equal(sxt_gid_wishes_parse(&config, &wishes), 0);
	return wishes;
}

/* It takes numbers as strtoll() does, and what is none for 0. */
static struct sxt_gid_wishes builtin_wishes_of(const struct gid_row *row)
{
	struct sxt_gid_wishes wishes = wishes_of(row);

	if (row->name != NULL && strcmp(row->name, "NCCL_IB_GID_INDEX") == 0)
		wishes.index = (int32_t)strtoll(row->value, NULL, 0);
	return wishes;
}

/* "3: 10.1.1.1, RoCE v2" */
static void choice_text(const struct sxt_gid_table *table, int index, char out[128])
{
	char address[64];

	snprintf(out, 128, index < 0 ? "left out" : "%d: empty", index);
	for (uint32_t i = 0; i < table->cnt; i++) {
		const struct sxt_gid *gid = &table->gids[i];

		if ((int)gid->index != index)
			continue;
		sxt_gid_text(gid->raw, address, sizeof(address));
		snprintf(out, 128, "%d: %s%s%s", index, address, table->is_infiniband ? "" : ", ",
			 table->is_infiniband ? "" : sxt_gid_type_text(gid->type));
	}
}

static int missing_cnt; /* rows that are not in the page as they are tested */

static void expect_in_page(const char *row)
{
	if (page[0] == '\0' || strstr(page, row) != NULL)
		return;
	print_error("%s", row);
	missing_cnt++;
}

static void check_gid_row(const struct gid_row *row)
{
	struct sxt_gid gids[GIDS_MAX];
	struct sxt_gid_rank ranks[GIDS_MAX];
	struct sxt_gid_table table = {.gids = gids,
				      .len = GIDS_MAX,
				      .is_infiniband = row->is_infiniband};
	struct sxt_gid_wishes wishes = wishes_of(row);
	struct sxt_gid_wishes builtin_wishes = builtin_wishes_of(row);
	char builtin[128];
	char ours[128];
	char setting[64] = "";
	char text[1024];
	uint32_t notes;

	table.cnt = gid_vector_parse(row->table, gids, GIDS_MAX);
	assert_int_equal(builtin_gid(&table, &builtin_wishes), row->builtin);
	if (sxt_gid_rank_table(&table, &wishes, ranks, &notes) > 0)
		assert_int_equal(gids[ranks[0].at].index, row->ours);
	else
		assert_int_equal(row->ours, -1);
	assert_int_equal(notes, row->notes);
	choice_text(&table, (int)row->builtin, builtin);
	choice_text(&table, row->ours, ours);
	if (row->name != NULL)
		snprintf(setting, sizeof(setting), " (`%s=%s`)", row->name, row->value);
	snprintf(text, sizeof(text), "| %s%s | %s | %s | %s |\n", row->situation, setting, builtin,
		 ours, row->why);
	expect_in_page(text);
}

static void addresses_are_chosen_as_the_page_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(gid_rows); i++)
		check_gid_row(&gid_rows[i]);
	assert_int_equal(missing_cnt, 0);
}

static void add(char out[64], const char *device)
{
	size_t used = strlen(out);

	snprintf(out + used, 64 - used, "%s%s", used > 0 ? " " : "", device + strlen("mlx5_"));
}

static void lists_pick_what_the_page_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(hca_rows); i++) {
		const struct hca_row *row = &hca_rows[i];
		struct sxt_hca_list list;
		char builtin[64] = "";
		char ours[64] = "";
		char text[512];
		int bad_cnt;

		assert_int_equal(sxt_hca_parse(row->list, &list, &bad_cnt), 0);
		for (size_t k = 0; k < SXT_ARRAY_LEN(machine); k++) {
			const char *device = machine[k].device;

			if (builtin_picks(row->list, device, (int)machine[k].num))
				add(builtin, device);
			if (sxt_hca_picks(&list, device, machine[k].num))
				add(ours, device);
		}
		sxt_hca_fini(&list);
		assert_string_equal(builtin, row->builtin);
		assert_string_equal(ours, row->ours);
		snprintf(text, sizeof(text), "| `%s` | %s | %s | %s |\n",
			 row->list[0] != '\0' ? row->list : " ",
			 builtin[0] != '\0' ? builtin : "none", ours[0] != '\0' ? ours : "none",
			 row->why);
		expect_in_page(text);
	}
	assert_int_equal(missing_cnt, 0);
}

static void read_page(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t got = 0;

	if (file != NULL) {
		got = fread(page, 1, sizeof(page) - 1, file);
		fclose(file);
	}
	page[got] = '\0';
	if (got == 0) {
		print_error("%s cannot be read\n", path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_chosen_as_the_page_says),
		cmocka_unit_test(lists_pick_what_the_page_says),
	};

	if (argc > 1)
		read_page(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
