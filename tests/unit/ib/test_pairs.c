/*
 * test_pairs.c - the order in which pairs of addresses are tried.
 */
#include "core/sys.h"
#include "ib/pairs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static struct sxt_wire_candidate roce(uint8_t place, const char *addr, uint8_t type, uint8_t prefix)
{
	struct sxt_wire_candidate made = {.place = place,
					  .gid_type = type,
					  .prefix_len = prefix,
					  .link_layer = SXT_LINK_ETHERNET};

	if (strchr(addr, ':') == NULL) {
		made.gid[10] = made.gid[11] = 0xff;
		assert_int_equal(inet_pton(AF_INET, addr, made.gid + 12), 1);
	} else {
		assert_int_equal(inet_pton(AF_INET6, addr, made.gid), 1);
	}
	return made;
}

static struct sxt_pair_ends ends(const struct sxt_wire_candidate *from, uint32_t from_cnt,
				 uint32_t from_ports, const struct sxt_wire_candidate *to,
				 uint32_t to_cnt, uint32_t to_ports)
{
	return (struct sxt_pair_ends){.from = from,
				      .to = to,
				      .from_cnt = from_cnt,
				      .to_cnt = to_cnt,
				      .from_ports_cnt = from_ports,
				      .to_ports_cnt = to_ports};
}

static void expect(const struct sxt_pair_ends *all, uint32_t path, uint32_t epoch, uint32_t from,
		   uint32_t to)
{
	struct sxt_pair pair;

	assert_int_equal(sxt_pair_of(all, path, epoch, &pair), 0);
	assert_int_equal(pair.from, from);
	assert_int_equal(pair.to, to);
}

static void the_best_addresses_come_first(void **state)
{
	const struct sxt_wire_candidate from[] = {roce(0, "10.0.0.1", 2, 24),
						  roce(0, "fe80::1", 2, 64),
						  roce(0, "10.0.0.1", 1, 24)};
	const struct sxt_wire_candidate to[] = {roce(0, "10.0.0.2", 2, 24),
						roce(0, "fe80::2", 2, 64),
						roce(0, "10.0.0.2", 0, 24)};
	const struct sxt_pair_ends all = ends(from, 3, 1, to, 3, 1);
	struct sxt_pair pair;

	(void)state;
	expect(&all, 0, 0, 0, 0);
	expect(&all, 0, 1, 0, 0);
	expect(&all, 0, 2, 2, 2); /* RoCE v1, but one subnet; a link-local one tells nothing */
	expect(&all, 0, 3, 1, 1);
	/* The second round, with more patience, and then nothing. */
	expect(&all, 0, 4, 0, 0);
	assert_int_equal(sxt_pair_of(&all, 0, 1, &pair), 0);
	assert_int_equal(pair.patience_ns, 200 * SXT_NS_PER_MS);
	assert_false(pair.is_again);
	assert_int_equal(sxt_pair_of(&all, 0, 6, &pair), 0);
	assert_int_equal(pair.patience_ns, 2 * SXT_NS_PER_SEC);
	assert_true(pair.is_again);
	assert_int_equal(sxt_pair_of(&all, 0, 7, &pair), -ENETUNREACH);
	assert_int_equal(sxt_pair_of(&all, 0, UINT32_MAX, &pair), -ENETUNREACH);
}

static void one_subnet_comes_before_the_preferred_port_of_the_peer(void **state)
{
	const struct sxt_wire_candidate from[] = {roce(0, "10.0.0.1", 2, 24),
						  roce(1, "10.0.1.1", 2, 24)};
	const struct sxt_wire_candidate to[] = {roce(0, "10.0.1.2", 2, 24),
						roce(1, "10.0.0.2", 2, 24)};
	const struct sxt_pair_ends all = ends(from, 2, 2, to, 2, 2);

	(void)state;
	expect(&all, 0, 1, 0, 1);
	expect(&all, 0, 2, 0, 0);
	expect(&all, 0, 3, 1, 0);
	expect(&all, 1, 1, 1, 0);
	expect(&all, 1, 2, 1, 1);
	expect(&all, 2, 1, 0, 1);
}

static void a_common_subnet_is_one_of_any_ports(void **state)
{
	const struct sxt_wire_candidate from[] = {roce(0, "10.0.0.1", 2, 24),
						  roce(1, "fe80::1", 2, 64)};
	struct sxt_wire_candidate to[] = {roce(0, "10.0.1.2", 2, 24), roce(1, "fe80::2", 2, 64)};
	const struct sxt_pair_ends all = ends(from, 2, 2, to, 2, 2);

	(void)state;
	assert_false(sxt_pairs_near(&all));
	to[1] = roce(1, "10.0.0.9", 1, 24);
	assert_false(sxt_pairs_near(&all));
	to[1] = roce(1, "10.0.0.9", 2, 24);
	assert_true(sxt_pairs_near(&all));
}

static void short_prefixes_count(void **state)
{
	/* Three cables in one /24: a /30 each. */
	const struct sxt_wire_candidate from[] = {roce(0, "10.9.0.1", 2, 30)};
	const struct sxt_wire_candidate to[] = {roce(0, "10.9.0.9", 2, 30),
						roce(1, "10.9.0.2", 2, 30)};
	const struct sxt_pair_ends all = ends(from, 1, 1, to, 2, 2);

	(void)state;
	expect(&all, 0, 0, 0, 1);
	expect(&all, 0, 2, 0, 0);
}

static void unequal_port_counts_spread(void **state)
{
	struct sxt_wire_candidate from[4] = {0};
	struct sxt_wire_candidate to[3] = {0};
	struct sxt_pair_ends all = ends(from, 4, 4, to, 3, 3);

	(void)state;
	for (uint8_t i = 0; i < 4; i++)
		from[i] = roce(i, "10.0.0.1", 2, 16);
	for (uint8_t i = 0; i < 3; i++)
		to[i] = roce(i, "10.0.0.2", 2, 16);
	for (uint32_t path = 0; path < 8; path++)
		expect(&all, path, 0, path % 4, path % 3);
}

/* A path whose port has no address that fits begins on the next one. */
static void a_port_without_a_fitting_address_is_skipped(void **state)
{
	const struct sxt_wire_candidate from[] = {roce(0, "fd00::1", 2, 64),
						  roce(1, "10.0.1.1", 2, 24)};
	const struct sxt_wire_candidate to[] = {roce(0, "10.0.1.2", 2, 24)};
	const struct sxt_pair_ends all = ends(from, 2, 2, to, 1, 1);
	struct sxt_pair pair;

	(void)state;
	expect(&all, 0, 0, 1, 0);
	expect(&all, 0, 1, 1, 0);
	expect(&all, 0, 2, 1, 0);
	assert_int_equal(sxt_pair_of(&all, 0, 3, &pair), -ENETUNREACH);
}

static void what_does_not_fit_is_never_tried(void **state)
{
	struct sxt_wire_candidate from[] = {roce(0, "10.0.0.1", 2, 24)};
	const struct sxt_wire_candidate v1[] = {roce(0, "10.0.0.2", 1, 24)};
	const struct sxt_wire_candidate v6[] = {roce(0, "fd00::2", 2, 64)};
	struct sxt_wire_candidate ib[] = {roce(0, "fe80::2", 0, 64)};
	struct sxt_pair_ends all = ends(from, 1, 1, v1, 1, 1);
	struct sxt_pair pair;
	char text[64];

	(void)state;
	assert_int_equal(sxt_pair_of(&all, 0, 0, &pair), -ENETUNREACH);
	sxt_pairs_text(&all, 0, text, sizeof(text));
	assert_string_equal(text, "");
	all.to = v6;
	assert_int_equal(sxt_pair_of(&all, 0, 0, &pair), -ENETUNREACH);
	ib[0].link_layer = SXT_LINK_INFINIBAND;
	all.to = ib;
	assert_int_equal(sxt_pair_of(&all, 0, 0, &pair), -ENETUNREACH);
	all.to_cnt = 0;
	assert_int_equal(sxt_pair_of(&all, 0, 0, &pair), -ENETUNREACH);
}

static void what_was_tried_is_told(void **state)
{
	const struct sxt_wire_candidate from[] = {roce(0, "10.0.0.1", 2, 24),
						  roce(0, "fe80::1", 2, 64),
						  roce(0, "10.0.0.1", 1, 24)};
	const struct sxt_wire_candidate to[] = {roce(0, "10.0.7.2", 2, 24),
						roce(0, "fe80::2", 2, 64),
						roce(0, "10.0.7.2", 1, 24)};
	const struct sxt_pair_ends all = ends(from, 3, 1, to, 3, 1);
	char text[64];

	(void)state;
	sxt_pairs_text(&all, 0, text, sizeof(text));
	assert_string_equal(text, "10.0.0.1 -> 10.0.7.2, fe80::1 -> fe80::2");
	sxt_pairs_text(&all, 0, text, 40);
	assert_string_equal(text, "10.0.0.1 -> 10.0.7.2, ...");
	sxt_pairs_text(&all, 0, text, 20);
	assert_string_equal(text, "...");
}

/* As many as a frame carries: every pair has its turn once, in bounds. */
static void many_addresses_are_no_trouble(void **state)
{
	struct sxt_wire_candidate from[SXT_CANDIDATES_MAX] = {0};
	struct sxt_wire_candidate to[SXT_CANDIDATES_MAX] = {0};
	const struct sxt_pair_ends all =
		ends(from, SXT_CANDIDATES_MAX, 8, to, SXT_CANDIDATES_MAX, 8);
	uint32_t seen[24] = {0};
	struct sxt_pair pair;
	uint32_t cnt = 0;

	(void)state;
	for (uint32_t i = 0; i < SXT_CANDIDATES_MAX; i++) {
		from[i] = roce((uint8_t)(i % 8), "10.0.0.1", 2, 24);
		to[i] = roce((uint8_t)(i % 8), "10.0.0.2", 2, 24);
	}
	for (uint32_t epoch = 1; sxt_pair_of(&all, 63, epoch, &pair) == 0; epoch++) {
		uint32_t both = (uint32_t)pair.from << 8 | pair.to;

		assert_true(pair.from < SXT_CANDIDATES_MAX && pair.to < SXT_CANDIDATES_MAX);
		for (uint32_t i = 0; i < cnt && cnt < 24; i++)
			assert_int_not_equal(seen[i], both);
		if (cnt < 24)
			seen[cnt] = both;
		cnt++;
	}
	assert_int_equal(cnt, 28);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_addresses_come_first),
		cmocka_unit_test(one_subnet_comes_before_the_preferred_port_of_the_peer),
		cmocka_unit_test(a_common_subnet_is_one_of_any_ports),
		cmocka_unit_test(short_prefixes_count),
		cmocka_unit_test(unequal_port_counts_spread),
		cmocka_unit_test(a_port_without_a_fitting_address_is_skipped),
		cmocka_unit_test(what_does_not_fit_is_never_tried),
		cmocka_unit_test(what_was_tried_is_told),
		cmocka_unit_test(many_addresses_are_no_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
