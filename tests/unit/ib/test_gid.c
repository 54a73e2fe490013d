/*
 * test_gid.c - which GID is taken: tables people met, settings, and what holds for any table.
 */
#include "ib/gid.h"

#include "core/log.h"
#include "tests/unit/ib/gid_vector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define R1 "0=fe80::1/v1 1=fe80::1/v2 2=200.0.209.6/v1 3=200.0.209.6/v2"

/* Settings as a user writes them; NULL and 0 do not set anything. */
struct wish {
	const char *family;
	const char *range;
	uint32_t version;
	int32_t index_plus_1;
	uint32_t flid_plus_1;
};

struct vector {
	const char *name;
	const char *table;
	struct wish wish;
	const char *order; /* of all candidates, by index */
	const char *note;  /* part of the one note, NULL for none */
	bool is_infiniband;
};

static const struct vector vectors[] = {
	{.name = "link-local first, then the address", .table = R1, .order = "3 1 2 0"},
	{.name = "holes before a pod's entries",
	 .table = "4=fe80::1/v1 5=fe80::1/v2 6=10.156.1.2/v1 7=10.156.1.2/v2",
	 .order = "7 5 6 4"},
	{.name = "more holes",
	 .table = "6=fe80::1/v1 7=fe80::1/v2 8=10.0.0.1/v1 9=10.0.0.1/v2",
	 .order = "9 7 8 6"},
	{.name = "a hole in the middle",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=10.1.1.1/v1 4=10.1.1.1/v2",
	 .order = "4 1 2 0"},
	{.name = "IPv6 only, unique local",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=fd93::5/v1 3=fd93::5/v2",
	 .order = "3 1 2 0"},
	{.name = "IPv6 only, global",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=2001:db8::5/v1 3=2001:db8::5/v2",
	 .order = "3 1 2 0"},
	{.name = "two unusable, then v1 and v2",
	 .table = "2=10.0.0.1/v1 3=10.0.0.1/v2",
	 .order = "3 2"},
	{.name = "all kinds",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=169.254.1.1/v1 3=169.254.1.1/v2 4=fd00::1/v1 "
		  "5=fd00::1/v2 6=10.0.0.1/v1 7=10.0.0.1/v2 8=10.0.0.2/?",
	 .order = "7 5 3 1 8 6 4 2 0"},
	{.name = "the range is not index 0's",
	 .table = "0=10.1.0.1/v2 1=10.2.0.1/v2",
	 .wish = {.range = "10.2.0.0/16"},
	 .order = "1"},
	{.name = "link-local only",
	 .table = "0=fe80::1/v1 1=fe80::1/v2",
	 .order = "1 0",
	 .note = "link-local only"},
	{.name = "nothing but zeroes", .table = "0=::/v1 1=::/v2", .order = ""},
	{.name = "no entry at all", .table = "", .order = ""},
	{.name = "an index past the table",
	 .table = "4=10.0.0.1/v1 5=10.0.0.1/v2",
	 .wish = {.index_plus_1 = 17},
	 .order = "5 4",
	 .note = "NCCL_IB_GID_INDEX=16 is out of range (the table has 16 entries"},
	{.name = "an index that is empty",
	 .table = "4=10.0.0.1/v1 5=10.0.0.1/v2",
	 .wish = {.index_plus_1 = 8},
	 .order = "5 4",
	 .note = "NCCL_IB_GID_INDEX=7 is empty (the table has 16 entries)"},
	{.name = "an index that is no address of a port",
	 .table = "0=127.0.0.1/v2 5=10.0.0.1/v2",
	 .wish = {.index_plus_1 = 1},
	 .order = "5",
	 .note = "NCCL_IB_GID_INDEX=0 is empty"},
	{.name = "an index that is there", .table = R1, .wish = {.index_plus_1 = 1}, .order = "0"},
	{.name = "an index outside the range",
	 .table = R1,
	 .wish = {.index_plus_1 = 1, .range = "200.0.0.0/8"},
	 .order = "3 2",
	 .note = "lies outside NCCL_IB_ADDR_RANGE=200.0.0.0/8, and the range counts"},
	{.name = "a range without any",
	 .table = R1,
	 .wish = {.range = "10.0.0.0/8"},
	 .order = "",
	 .note = "no GID in range: NCCL_IB_ADDR_RANGE=10.0.0.0/8 matches none of 0 fe80::1 "
		 "(RoCE v1, link-local IPv6), 1 fe80::1"},
	{.name = "a range of IPv6",
	 .table = "0=fe80::1/v2 1=10.0.0.1/v2 2=2001:db8:1::9/v2 3=2001:db8:2::9/v2",
	 .wish = {.range = "2001:db8:2::/48"},
	 .order = "3"},
	{.name = "IPv6 comes first",
	 .table = "0=fe80::1/v2 1=10.0.0.1/v2 2=fd00::1/v2",
	 .wish = {.family = "AF_INET6"},
	 .order = "2 1 0"},
	{.name = "a link-local one is no IPv6 worth a wish",
	 .table = "0=fe80::1/v1 1=10.0.0.1/v2",
	 .wish = {.family = "AF_INET6"},
	 .order = "1 0",
	 .note = "no GID of NCCL_IB_ADDR_FAMILY=AF_INET6, taking the next in rank"},
	{.name = "nothing that a router forwards",
	 .table = "0=fe80::1/v1 1=fe80::1/v2 2=10.0.0.1/v1",
	 .order = "1 2 0",
	 .note = "link-local only: none of its GIDs reaches further than this segment"},
	{.name = "no IPv6 there",
	 .table = "1=10.0.0.1/v2",
	 .wish = {.family = "AF_INET6"},
	 .order = "1",
	 .note = "no GID of NCCL_IB_ADDR_FAMILY=AF_INET6, taking the next in rank; the table: 1 "
		 "10.0.0.1 (RoCE v2, IPv4)"},
	{.name = "version 1 comes first", .table = R1, .wish = {.version = 1}, .order = "2 0 3 1"},
	{.name = "no version 1 there",
	 .table = "1=10.0.0.1/v2",
	 .wish = {.version = 1},
	 .order = "1",
	 .note = "no GID of NCCL_IB_ROCE_VERSION_NUM=1, taking the next in rank"},
	{.name = "version 1 only",
	 .table = "0=fe80::1/v1 2=10.0.0.1/v1",
	 .order = "2 0",
	 .note = "RoCE v1 only, which no router forwards"},
	{.name = "a table longer than verbs can name",
	 .table = "300=10.0.0.1/v2 255=fe80::1/v2 256=10.0.0.2/v2",
	 .order = "255",
	 .note = "link-local only"},
	{.name = "multicast, loopback and unspecified",
	 .table = "0=224.0.0.1/v2 1=ff0e::ffff:a00:1/v2 2=127.0.0.1/v2 3=::1/v2 4=0.0.0.0/v2 "
		  "5=fe80::/v2 6=10.0.0.1/v2",
	 .order = "6"},
	{.name = "an InfiniBand port with a routable address",
	 .is_infiniband = true,
	 .table = "0=fe80::c0:ffee/ib 1=fe80:0:0012::c0:ffee/ib",
	 .order = "1 0"},
	{.name = "an InfiniBand port without",
	 .is_infiniband = true,
	 .table = "0=fe80::c0:ffee/ib 1=fec0::1/ib",
	 .order = "0"},
	{.name = "an InfiniBand port's index",
	 .is_infiniband = true,
	 .table = "0=fe80::c0:ffee/ib 1=fe80:0:0012::c0:ffee/ib",
	 .wish = {.index_plus_1 = 4},
	 .order = "1 0",
	 .note = "NCCL_IB_GID_INDEX=3 has no effect on InfiniBand"},
	{.name = "a routable index past the table",
	 .is_infiniband = true,
	 .table = "0=fe80::c0:ffee/ib",
	 .wish = {.flid_plus_1 = 33},
	 .order = "0",
	 .note = "NCCL_IB_ROUTABLE_FLID_GID_INDEX=32 is past the table's 16 entries"},
};

static struct sxt_gid_wishes wishes_of(const struct wish *wish)
{
	struct sxt_gid_wishes wishes;
	struct sxt_config config = {
		.ib_gid_index = wish->index_plus_1 - 1,
		.ib_addr_family = wish->family != NULL ? wish->family : "",
		.ib_addr_range = wish->range != NULL ? wish->range : "",
		.ib_roce_version = wish->version,
		.ib_flid_gid_index = wish->flid_plus_1 != 0 ? wish->flid_plus_1 - 1 : 1,
	};

	assert_int_equal(sxt_gid_wishes_parse(&config, &wishes), 0);
	return wishes;
}

static void order_text(const struct sxt_gid_table *table, const struct sxt_gid_rank *ranks,
		       uint32_t cnt, char out[128])
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < cnt; i++)
		used += (size_t)snprintf(out + used, 128 - used, "%s%u", i > 0 ? " " : "",
					 table->gids[ranks[i].at].index);
}

static void check_note(const struct vector *vector, const struct sxt_gid_table *table,
		       const struct sxt_gid_wishes *wishes, uint32_t notes)
{
	char text[512];

	if (vector->note == NULL) {
		if (notes != 0)
			fail_msg("%s: notes 0x%x", vector->name, notes);
		return;
	}
	if (notes == 0 || (notes & (notes - 1)) != 0)
		fail_msg("%s: notes 0x%x, expected one", vector->name, notes);
	sxt_gid_note_text(notes, table, wishes, text, sizeof(text));
	if (strstr(text, vector->note) == NULL)
		fail_msg("%s: \"%s\"", vector->name, text);
}

static void each_table_has_its_order_and_its_note(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(vectors); i++) {
		const struct vector *vector = &vectors[i];
		struct sxt_gid gids[16];
		struct sxt_gid_rank ranks[16];
		struct sxt_gid_wishes wishes = wishes_of(&vector->wish);
		struct sxt_gid_table table = {
			.gids = gids,
			.len = 16,
			.is_infiniband = vector->is_infiniband,
		};
		uint32_t notes;
		uint32_t cnt;
		char order[128];

		table.cnt = gid_vector_parse(vector->table, gids, SXT_ARRAY_LEN(gids));
		cnt = sxt_gid_rank_table(&table, &wishes, ranks, &notes);
		order_text(&table, ranks, cnt, order);
		if (strcmp(order, vector->order) != 0)
			fail_msg("%s: order \"%s\", expected \"%s\"", vector->name, order,
				 vector->order);
		check_note(vector, &table, &wishes, notes);
	}
}

static void every_entry_has_its_reason(void **state)
{
	static const char *const expected[] = {
		"by rank",
		"no address",
		"its interface is in another network namespace",
		"outside NCCL_IB_ADDR_RANGE",
		"verbs cannot name an index above 255",
	};
	struct wish wish = {.range = "10.0.0.0/8"};
	struct sxt_gid_wishes wishes = wishes_of(&wish);
	struct sxt_gid gids[5];
	struct sxt_gid_rank ranks[5];
	struct sxt_gid_table table = {.gids = gids, .cnt = 5, .len = 400};
	uint32_t notes;

	(void)state;
	gid_vector_parse("7=10.0.0.1/v2 1=127.0.0.1/v2 2=10.0.0.3/v2 3=11.0.0.1/v2 300=10.0.0.9/v2",
			 gids, 5);
	gids[2].is_foreign = true;
	assert_int_equal(sxt_gid_rank_table(&table, &wishes, ranks, &notes), 1);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(ranks[i].at, i);
		assert_string_equal(sxt_gid_reason_text(ranks[i].reason), expected[i]);
	}
}

static void addresses_of_other_namespaces_are_told(void **state)
{
	struct wish wish = {0};
	struct sxt_gid_wishes wishes = wishes_of(&wish);
	struct sxt_gid gids[2];
	struct sxt_gid_rank ranks[2];
	struct sxt_gid_table table = {.gids = gids, .cnt = 2, .len = 2};
	char text[512];
	uint32_t notes;

	(void)state;
	gid_vector_parse("0=10.0.0.1/v2 1=10.0.0.2/v2", gids, 2);
	gids[0].is_foreign = true;
	assert_int_equal(sxt_gid_rank_table(&table, &wishes, ranks, &notes), 1);
	assert_int_equal(gids[ranks[0].at].index, 1);
	assert_int_equal(notes, 0);
	gids[1].is_foreign = true;
	assert_int_equal(sxt_gid_rank_table(&table, &wishes, ranks, &notes), 0);
	assert_int_equal(notes, SXT_GID_NOTE_ALL_FOREIGN);
	sxt_gid_note_text(notes, &table, &wishes, text, sizeof(text));
	assert_non_null(strstr(text, "in other network namespaces: give this container"));
	/* Who names one gets it. */
	wishes.index = 1;
	assert_int_equal(sxt_gid_rank_table(&table, &wishes, ranks, &notes), 1);
	assert_int_equal(gids[ranks[0].at].index, 1);
	assert_int_equal(notes, SXT_GID_NOTE_INDEX_FOREIGN);
}

static void the_choice_is_one_line_with_the_runner_up(void **state)
{
	struct wish wish = {0};
	struct sxt_gid_wishes wishes = wishes_of(&wish);
	struct sxt_gid gids[4];
	struct sxt_gid_rank ranks[4];
	struct sxt_gid_table table = {.gids = gids, .cnt = 4, .len = 4};
	uint32_t notes;
	char text[512];

	(void)state;
	gid_vector_parse(R1, gids, 4);
	sxt_gid_choice_text(&table, ranks, sxt_gid_rank_table(&table, &wishes, ranks, &notes), text,
			    sizeof(text));
	assert_string_equal(text, "GID index 3 200.0.209.6 (RoCE v2, IPv4) by rank, first of 4, "
				  "then index 1 fe80::1 (RoCE v2, link-local IPv6)");
	table.cnt = 1;
	sxt_gid_choice_text(&table, ranks, sxt_gid_rank_table(&table, &wishes, ranks, &notes), text,
			    sizeof(text));
	assert_string_equal(text, "GID index 0 fe80::1 (RoCE v1, link-local IPv6) by rank, no "
				  "other can be used");
}

static char last_line[512];

static void keep_line(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	snprintf(last_line, sizeof(last_line), "%d %s", (int)level, text);
}

static void settings_that_are_no_use_are_told_and_not_used(void **state)
{
	static const struct {
		const char *range;
		const char *family;
		const char *line;
	} bad[] = {
		{"200.0.209.0", "", "1 NCCL_IB_ADDR_RANGE=200.0.209.0 is ignored: it has no /mask"},
		{"10.0.0.0/33", "", "the length after the / must be 0..32 for IPv4"},
		{"fd00::/129", "", "the length after the / must be 0..128 for IPv6"},
		{"10.0.0.0/", "", "the length after the /"},
		{"10.0.0.0/8 ", "", "the length after the /"},
		{"10.0.0.0/-1", "", "the length after the /"},
		{" 10.0.0.0/8", "", "\" 10.0.0.0\" is no IPv4 and no IPv6 address"},
		{"10.0.0/8", "", "\"10.0.0\" is no IPv4"},
		{"/8", "", "\"\" is no IPv4"},
		{"", "inet", "1 NCCL_IB_ADDR_FAMILY=inet is ignored: expected AF_INET or AF_INET6"},
	};

	(void)state;
	sxt_log_set_sink(keep_line);
	for (size_t i = 0; i < SXT_ARRAY_LEN(bad); i++) {
		struct sxt_gid_wishes wishes;
		struct sxt_config config = {
			.ib_gid_index = -1,
			.ib_addr_range = bad[i].range,
			.ib_addr_family = bad[i].family,
		};

		last_line[0] = '\0';
		assert_int_equal(sxt_gid_wishes_parse(&config, &wishes), 1);
		if (strstr(last_line, bad[i].line) == NULL)
			fail_msg("\"%s\", expected \"%s\"", last_line, bad[i].line);
		assert_int_equal(wishes.range.family, 0);
		assert_int_equal(wishes.family, 0);
	}
	sxt_log_set_sink(NULL);
}

static void subnets_follow_the_prefix(void **state)
{
	struct sxt_gid gids[4];

	(void)state;
	gid_vector_parse("0=10.1.2.3/v2 1=10.1.3.3/v2 2=fd00:0:0:1::1/v2 3=fd00:0:0:1:8000::1/v2",
			 gids, 4);
	assert_false(sxt_gid_same_subnet(gids[0].raw, gids[1].raw, 0)); /* taken as a /24 */
	assert_true(sxt_gid_same_subnet(gids[0].raw, gids[1].raw, 23));
	assert_false(sxt_gid_same_subnet(gids[0].raw, gids[2].raw, 0));
	assert_true(sxt_gid_same_subnet(gids[2].raw, gids[3].raw, 0));
	assert_false(sxt_gid_same_subnet(gids[2].raw, gids[3].raw, 65));
	/* A prefix longer than the address: the bytes behind it differ, and do not count. */
	gids[1] = gids[0];
	gids[1].index++;
	assert_true(sxt_gid_same_subnet(gids[0].raw, gids[1].raw, 128));
}

/* Tables of any content, seeded. */
#define RANDOM_MAX 1000

static uint64_t random_state;

static uint32_t random_u32(uint32_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % below;
}

static void random_gid(struct sxt_gid *gid, uint32_t index)
{
	static const uint8_t types[] = {SXT_GID_TYPE_IB, SXT_GID_TYPE_ROCE_V1, SXT_GID_TYPE_ROCE_V2,
					SXT_GID_TYPE_UNKNOWN, 77};

	*gid = (struct sxt_gid){.index = index, .type = types[random_u32(5)]};
	gid->is_foreign = random_u32(8) == 0;
	for (int i = 0; i < SXT_GID_BYTES; i++)
		gid->raw[i] = (uint8_t)random_u32(256);
	if (random_u32(8) == 0)
		memset(gid->raw, 0, 16);
	else if (random_u32(2) == 0)
		memcpy(gid->raw, (uint8_t[13]){[10] = 0xff, [11] = 0xff, [12] = 10}, 13);
	else if (random_u32(3) == 0)
		memcpy(gid->raw, (uint8_t[8]){0xfe, 0x80}, 8);
}

static struct sxt_gid_wishes random_wishes(uint32_t len)
{
	struct sxt_gid_wishes wishes = {.index = -1, .flid_index = random_u32(4)};

	if (random_u32(3) == 0)
		wishes.index = (int32_t)random_u32(len * 2 + 1);
	if (random_u32(2) == 0) {
		wishes.range = (struct sxt_gid_range){
			.addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 7},
			.family = 4,
			.prefix_len = (uint8_t)random_u32(17),
		};
	}
	wishes.family = (uint8_t)(random_u32(3) == 0 ? 4 + 2 * random_u32(2) : 0);
	wishes.version = (uint8_t)random_u32(3);
	return wishes;
}

static void shuffle(const struct sxt_gid *from, struct sxt_gid *to, uint32_t cnt)
{
	memcpy(to, from, cnt * sizeof(*to));
	for (uint32_t i = cnt; i > 1; i--) {
		uint32_t k = random_u32(i);
		struct sxt_gid kept = to[i - 1];

		to[i - 1] = to[k];
		to[k] = kept;
	}
}

static struct sxt_gid any_table[RANDOM_MAX];
static struct sxt_gid any_other[RANDOM_MAX];
static struct sxt_gid_rank any_ranks[RANDOM_MAX];
static struct sxt_gid_rank other_ranks[RANDOM_MAX];

static void check_candidates(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
			     uint32_t cnt)
{
	bool seen[RANDOM_MAX] = {false};

	for (uint32_t i = 0; i < table->cnt; i++) {
		const struct sxt_gid *gid = &table->gids[any_ranks[i].at];

		assert_false(seen[any_ranks[i].at]);
		seen[any_ranks[i].at] = true;
		if (i >= cnt)
			continue;
		assert_true(any_ranks[i].reason < SXT_GID_NOT_AN_ADDRESS);
		assert_true(gid->index <= SXT_GID_INDEX_MAX);
		if (!table->is_infiniband) {
			assert_true(sxt_gid_in_range(&wishes->range, gid->raw));
			assert_int_not_equal(sxt_gid_class_of(gid->raw), SXT_GID_UNUSABLE);
			assert_true(!gid->is_foreign || any_ranks[i].reason == SXT_GID_BY_INDEX);
		}
	}
}

static void any_table_is_ranked_alike_in_any_order(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		struct sxt_gid_table table = {.gids = any_table};
		struct sxt_gid_table other = {.gids = any_other};
		struct sxt_gid_wishes wishes;
		char text[512];
		uint32_t notes;
		uint32_t other_notes;
		uint32_t cnt;

		random_state = round;
		table.cnt = random_u32(round % 10 == 0 ? RANDOM_MAX + 1 : 20);
		table.len = table.cnt;
		table.is_infiniband = random_u32(4) == 0;
		for (uint32_t i = 0; i < table.cnt; i++)
			random_gid(&any_table[i], i);
		wishes = random_wishes(table.len);
		cnt = sxt_gid_rank_table(&table, &wishes, any_ranks, &notes);
		check_candidates(&table, &wishes, cnt);
		other = table;
		other.gids = any_other;
		shuffle(any_table, any_other, table.cnt);
		assert_int_equal(sxt_gid_rank_table(&other, &wishes, other_ranks, &other_notes),
				 cnt);
		assert_int_equal(notes, other_notes);
		for (uint32_t i = 0; i < cnt; i++)
			assert_int_equal(any_table[any_ranks[i].at].index,
					 any_other[other_ranks[i].at].index);
		if (cnt > 0)
			sxt_gid_choice_text(&table, any_ranks, cnt, text, sizeof(text));
		for (uint32_t left = notes; left != 0; left &= left - 1)
			sxt_gid_note_text(left & -left, &table, &wishes, text, sizeof(text));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_table_has_its_order_and_its_note),
		cmocka_unit_test(every_entry_has_its_reason),
		cmocka_unit_test(addresses_of_other_namespaces_are_told),
		cmocka_unit_test(the_choice_is_one_line_with_the_runner_up),
		cmocka_unit_test(settings_that_are_no_use_are_told_and_not_used),
		cmocka_unit_test(subnets_follow_the_prefix),
		cmocka_unit_test(any_table_is_ranked_alike_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
