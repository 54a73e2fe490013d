/*
 * test_blank.c - blanked addresses: others, with the relations and kinds of the first ones.
 */
#include "cli/doctor/blank.h"
#include "cli/doctor/routes.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sxt_blank blank = {.key = {0x1234, 0x5678},
				       .host = "gpu-node-17",
				       .home = "/export/alice"};

static unsigned int common_bits(uint32_t a, uint32_t b)
{
	return a == b ? 32 : (unsigned int)__builtin_clz(a ^ b);
}

static void prefixes_stay_as_long_as_they_were(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint32_t a = 0x0a000000 | (seed = seed * 1664525 + 1013904223) >> 8;
		uint32_t b = a ^ (uint32_t)1 << (seed >> 27) % 24;

		assert_int_equal(common_bits(sxt_blank_ipv4(&blank, a), sxt_blank_ipv4(&blank, b)),
				 common_bits(a, b));
	}
}

static void kinds_of_addresses_stay(void **state)
{
	static const uint32_t kept[] = {0, 0x7f000001, 0xffffffff};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(kept); i++)
		assert_int_equal(sxt_blank_ipv4(&blank, kept[i]), kept[i]);
	assert_int_equal(sxt_blank_ipv4(&blank, 0x0a010105) >> 24, 0x0a);
	assert_int_equal(sxt_blank_ipv4(&blank, 0xa9fe1234) >> 16, 0xa9fe);
}

static void check_gid(const char *text, size_t kept_bytes)
{
	uint8_t before[16];
	uint8_t after[16];

	assert_int_equal(inet_pton(AF_INET6, text, before), 1);
	memcpy(after, before, sizeof(after));
	sxt_blank_gid(&blank, after);
	assert_memory_equal(after, before, kept_bytes);
	assert_int_equal(memcmp(after, before, sizeof(after)) == 0, kept_bytes == 16);
}

static void kinds_of_gids_stay(void **state)
{
	(void)state;
	check_gid("::", 16);
	check_gid("::1", 16);
	check_gid("fe80::202:c9ff:fe00:1", 8);
	check_gid("fd93:1:2::5", 2);
	check_gid("::ffff:10.1.1.5", 13);
}

static void expect_text(const char *text, const char *gone, const char *kept)
{
	size_t len;
	size_t again_len;
	char *out = sxt_blank_text(&blank, text, strlen(text), &len);
	char *again = sxt_blank_text(&blank, text, strlen(text), &again_len);

	assert_non_null(out);
	assert_non_null(again);
	assert_int_equal(len, strlen(out));
	assert_string_equal(out, again);
	if (gone != NULL)
		assert_null(strstr(out, gone));
	if (kept != NULL)
		assert_non_null(strstr(out, kept));
	free(out);
	free(again);
}

static void texts_lose_addresses_and_names(void **state)
{
	(void)state;
	expect_text("NCCL_COMM_ID=10.1.1.5:4321", "10.1.1.5", ":4321");
	expect_text("range 10.2.0.0/16.", "10.2.", "/16.");
	expect_text("fe80:0000:0000:0000:0202:c9ff:fe00:0001\n", "0202:c9ff",
		    "fe80:0000:0000:0000:");
	expect_text("b8ce:f603:00a4:0002\n", "b8ce", ":");
	expect_text("02:02:c9:00:00:01", "c9", ":");
	expect_text("gpu-node-17 mlx5_0", "node-17", "host mlx5_0");
	expect_text("HOME=/export/alice", "alice", "HOME=/user-home");
}

static void texts_keep_what_is_no_address(void **state)
{
	static const char *const texts[] = {
		"400 Gb/sec (4X NDR)",
		"22.36.1010",
		"0000:1b:00.0",
		"4: ACTIVE",
		"Global tclass=236",
		"CapEff:\t000001ffffffffff",
		"0x15b3",
		"8.0 GT/s PCIe",
		"",
		"::",
		"...:::...",
		"0.0.0.0",
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(texts); i++) {
		size_t len;
		char *out = sxt_blank_text(&blank, texts[i], strlen(texts[i]), &len);

		assert_non_null(out);
		if (strcmp(texts[i], "::") != 0)
			assert_string_equal(out, texts[i]);
		free(out);
	}
}

static void zeros_in_a_text_are_kept(void **state)
{
	static const char text[] = "A=10.1.1.5\0B=2";
	size_t len;
	char *out = sxt_blank_text(&blank, text, sizeof(text), &len);

	(void)state;
	assert_non_null(out);
	assert_memory_equal(out + len - 4, "B=2", 4);
	assert_int_equal(out[len - 5], '\0');
	free(out);
}

static void routes_keep_subnets_and_columns(void **state)
{
	char text[] = "Iface\tDestination\tGateway\n"
		      "eth2\t0001010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
		      "eth3\t0001010A\t0101010A\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
		      "x 1 1 1 1 1 1 1\n";
	uint32_t first;
	uint32_t second;
	size_t len = strlen(text);

	(void)state;
	sxt_blank_routes(&blank, text);
	assert_int_equal(strlen(text), len);
	assert_non_null(sxt_route_column(strstr(text, "eth2"), SXT_ROUTE_SUBNET, &first));
	assert_non_null(sxt_route_column(strstr(text, "eth3"), SXT_ROUTE_SUBNET, &second));
	assert_int_equal(first, second);
	assert_int_not_equal(first, 0x0001010a);
	assert_int_equal(first & 0xff0000ff, 0x0000000a);
	assert_non_null(strstr(text, "x 1 1 1 1 1 1 1\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefixes_stay_as_long_as_they_were),
		cmocka_unit_test(kinds_of_addresses_stay),
		cmocka_unit_test(kinds_of_gids_stay),
		cmocka_unit_test(texts_lose_addresses_and_names),
		cmocka_unit_test(texts_keep_what_is_no_address),
		cmocka_unit_test(zeros_in_a_text_are_kept),
		cmocka_unit_test(routes_keep_subnets_and_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
