/*
 * test_rules.c - rules files of both formats: what is read, what is refused and how it is told, and
 * which files have the same digest.
 */
#include "tuner/rules.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD  "sextant-rules 1\n"
#define BASIC "coll=allreduce algo=ring proto=ll"
#define MODEL "model coll=allreduce algo=ring proto=ll gbs=10 "

static struct sxt_rules *parsed(const char *text)
{
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault = {0};
	int rc = sxt_rules_parse(text, strlen(text), &rules, &fault);

	if (rc != 0)
		fail_msg("%d: line %u, column %u: %s", rc, fault.line, fault.column, fault.text);
	return rules;
}

static uint64_t digest_of(const char *text)
{
	struct sxt_rules *rules = parsed(text);
	uint64_t digest = rules->digest;

	sxt_rules_free(rules);
	return digest;
}

/* A text that is refused, where, and what is told about it. */
static void refused(const char *text, uint32_t line, uint32_t column, const char *part)
{
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault = {0};

	assert_int_equal(sxt_rules_parse(text, strlen(text), &rules, &fault), -EINVAL);
	assert_null(rules);
	if (fault.line != line || fault.column != column || strstr(fault.text, part) == NULL)
		fail_msg("%s\nline %u, column %u: %s", text, fault.line, fault.column, fault.text);
}

static void csv_of_documentation_is_read(void **state)
{
	struct sxt_rules *rules = parsed(
		"collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n"
		"# small ones\n"
		"\n"
		"allreduce,0,65536,tree,simple,-1,-1,-1\n"
		"allreduce,65537,1048576,ring,simple,4,4,32,1,0\n"
		"broadcast,0,1M,tree,simple,2,1,-1,-1,1\n"
		"reducescatter, 1048577 ,-1,\"pat\",ll128,-1,-1,-1,-1,-1\n"
		"reduce,-1,inf,nvls_tree,ll,-1,-1,-1,4\n");
	const struct sxt_rule *rule = rules->rules;

	(void)state;
	assert_true(rules->is_csv);
	assert_int_equal(rules->rules_cnt, 5);
	assert_int_equal(rule[0].line, 4);
	assert_int_equal(rule[0].when.coll, SXT_COLL_ALL_REDUCE);
	assert_int_equal(rule[0].when.bytes.max, 65536);
	assert_int_equal(rule[0].algo, SXT_ALGO_TREE);
	assert_int_equal(rule[0].proto, SXT_PROTO_SIMPLE);
	assert_int_equal(rule[0].channels, 0);
	assert_int_equal(rule[0].when.nodes.max, UINT64_MAX);
	assert_int_equal(rule[0].when.reg, -1);
	assert_int_equal(rule[1].channels, 4);
	assert_int_equal(rule[1].when.nodes.min, 4);
	assert_int_equal(rule[1].when.nodes.max, 4);
	assert_int_equal(rule[1].when.ranks.min, 32);
	assert_int_equal(rule[1].when.pipe_ops.max, 1);
	assert_int_equal(rule[1].when.reg, 0);
	assert_int_equal(rule[2].when.bytes.max, 1 << 20);
	assert_int_equal(rule[2].when.reg, 1);
	assert_int_equal(rule[3].when.bytes.min, 1048577);
	assert_int_equal(rule[3].when.bytes.max, UINT64_MAX);
	assert_int_equal(rule[3].algo, SXT_ALGO_PAT);
	assert_int_equal(rule[4].when.bytes.min, 0);
	assert_int_equal(rule[4].when.pipe_ops.min, 4);
	sxt_rules_free(rules);
}

static void csv_with_a_wrong_word_is_refused(void **state)
{
	(void)state;
	refused("allreduce,0,65536,tre,simple,-1,-1,-1", 1, 19,
		"\"tre\" is no algorithm; the nearest is \"tree\"");
	refused("alreduce,0,1,ring,simple,1,-1,-1", 1, 1, "the nearest is \"allreduce\"");
	refused("xyz,0,1,ring,simple,1,-1,-1", 1, 1,
		"is no collective; there are broadcast reduce allgather reducescatter allreduce");
	refused("allreduce,0,1,ring,simpel,1,-1,-1", 1, 20, "the nearest is \"simple\"");
	refused("\n\nallreduce,65536,0,ring,simple,-1,-1,-1", 3, 11,
		"65536 is above the largest, 0");
	refused("allreduce,,1,ring,simple,1,-1,-1", 1, 11, "is no size");
	refused("allreduce,0,9999999999999999999999,ring,simple,1,-1,-1", 1, 13, "out of range");
	refused("allreduce,0,1,ring,simple,0,-1,-1", 1, 27, "is no number of channels, 1 to 64");
	refused("allreduce,0,1,ring,simple,65,-1,-1", 1, 27, "is no number of channels");
	refused("allreduce,0,1,ring,simple,1,0,-1", 1, 29, "out of range");
	refused("allreduce,0,1,ring,simple,1,2..4,-1", 1, 29, "is a range");
	refused("allreduce,0,1,ring,simple,1,x,-1", 1, 29, "is no range of whole numbers");
	refused("allreduce,0,1,ring,simple,1,-1,-1,,", 1, 35, "has no value");
	refused("allreduce,0,1,ring,simple,1,-1,-1,1,2", 1, 37, "is none of 0");
	refused("allreduce,0,1,ring,simple,1,-1", 1, 0, "7 columns; expected 8 to 10");
	refused("allreduce,0,1,ring,simple,1,-1,-1,1,1,1,1", 1, 0, "at least 11 columns");
	refused("allreduce,0,1,collnet_chain,simple,1,-1,-1", 1, 0, "channels with collnet_chain");
	refused("rule " BASIC "\n", 1, 1, "first line has to be \"sextant-rules 1\"");
}

static void any_line_end_mark_and_comment_is_read(void **state)
{
	static const char plain[] = HEAD "rule " BASIC " bytes=1K\n";

	(void)state;
	assert_int_equal(digest_of(plain),
			 digest_of("\xef\xbb\xbf" HEAD "rule " BASIC " bytes=1K"));
	assert_int_equal(digest_of(plain), digest_of("sextant-rules 1\r\n\r\n# \xc3\xa4\r\n"
						     "\trule  " BASIC "\tbytes=1024 # small\r\n"));
	assert_int_equal(digest_of("allreduce,0,9,ring,ll,-1,-1,-1"),
			 digest_of("\xef\xbb\xbf#x\r\nallreduce,0,9,ring,ll,-1,-1,-1\r\n"));
	assert_int_equal(digest_of(""), digest_of(HEAD));
}

static void ranges_have_open_ends(void **state)
{
	struct sxt_rules *rules =
		parsed(HEAD "rule " BASIC " bytes=64K..1MiB nodes=4 ranks=8.. per_node=..4\n"
			    "rule " BASIC " bytes=1GB.. nodes=any ranks=1.. pipe_ops=2..inf reg=1\n"
			    "rule coll=All-Gather algo=CollNetDirect proto=LL128 bytes=0\n");
	const struct sxt_rule *rule = rules->rules;

	(void)state;
	assert_false(rules->is_csv);
	assert_int_equal(rule[0].when.bytes.min, 65536);
	assert_int_equal(rule[0].when.bytes.max, 1 << 20);
	assert_int_equal(rule[0].when.nodes.max, 4);
	assert_int_equal(rule[0].when.ranks.min, 8);
	assert_int_equal(rule[0].when.ranks.max, UINT64_MAX);
	assert_int_equal(rule[0].when.per_node.min, 0);
	assert_int_equal(rule[0].when.per_node.max, 4);
	assert_int_equal(rule[1].when.bytes.min, 1 << 30);
	assert_int_equal(rule[1].when.ranks.min, 0);
	assert_int_equal(rule[1].when.pipe_ops.min, 2);
	assert_int_equal(rule[1].when.pipe_ops.max, UINT64_MAX);
	assert_int_equal(rule[1].when.reg, 1);
	assert_int_equal(rule[2].when.coll, SXT_COLL_ALL_GATHER);
	assert_int_equal(rule[2].algo, SXT_ALGO_COLLNET_DIRECT);
	assert_int_equal(rule[2].when.bytes.max, 0);
	sxt_rules_free(rules);
}

static void rule_with_a_wrong_word_is_refused(void **state)
{
	(void)state;
	refused("sextant-rules 2\n", 1, 1, "is a format this does not know");
	refused(HEAD "rules " BASIC, 2, 1, "begins no line");
	refused(HEAD "rule " BASIC " byte=4", 2, 40,
		"is no key of a rule; the nearest is \"bytes\"");
	refused(HEAD "rule " BASIC " gbs=4", 2, 40, "docs/tuner.md lists them");
	refused(HEAD MODEL "pipe_ops=4", 2, 48, "is no key of a model");
	refused(HEAD "rule " BASIC " bytes", 2, 40, "is no key=value");
	refused(HEAD "rule " BASIC " bytes=", 2, 46, "bytes has no value");
	refused(HEAD "rule " BASIC " algo=tree", 2, 40, "\"algo\" is there twice");
	refused(HEAD "rule coll=allreduce algo=ring", 2, 0, "the rule has no proto=");
	refused(HEAD "model coll=allreduce algo=ring proto=ll", 2, 0, "the model has no gbs=");
	refused(HEAD "rule " BASIC " bytes=1M..64K", 2, 46, "begins after its end");
	refused(HEAD "rule " BASIC " bytes=1.5M", 2, 46, "is no range of sizes");
	refused(HEAD "rule " BASIC " bytes=inf", 2, 46, "is no range of sizes");
	refused(HEAD "rule " BASIC " bytes=-1", 2, 46, "is no range of sizes");
	refused(HEAD "rule " BASIC " bytes=16E..", 2, 46, "at most 64 bits");
	refused(HEAD "rule " BASIC " nodes=0..4", 2, 46, "1 to 4294967295");
	refused(HEAD "rule " BASIC " nodes=4294967296", 2, 46, "1 to 4294967295");
	refused(HEAD "rule " BASIC " nodes=99999999999999999999", 2, 46, "1 to 4294967295");
	refused(HEAD "rule " BASIC " nodes=4K", 2, 46, "is no range of whole numbers");
	refused(HEAD "rule " BASIC " nodes=..", 2, 46, "is no range");
	refused(HEAD "rule " BASIC " reg=2", 2, 44, "is none of 0");
	refused(HEAD "rule " BASIC " channels=-1", 2, 49, "is no number of channels");
	refused(HEAD "rule " BASIC " chunk=100", 2, 46, "a multiple of 512, 4K to 16M");
	refused(HEAD "rule " BASIC " chunk=2K", 2, 46, "4K to 16M");
	refused(HEAD "rule " BASIC " chunk=32M", 2, 46, "4K to 16M");
	refused(HEAD "rule " BASIC " chunk=64K reg=1", 2, 0, "chunk with pipe_ops or reg");
	refused(HEAD "rule " BASIC " chunk=64K pipe_ops=2", 2, 0, "chunk with pipe_ops or reg");
	refused(HEAD "rule " BASIC " gain=1.5", 2, 45, "out of range");
	refused(HEAD "rule " BASIC " gain=nan", 2, 45, "is no plain decimal number");
	refused(HEAD MODEL "base_us=-1", 2, 56, "is no plain decimal number, 0 to 1000000000");
	refused(HEAD MODEL "base_us=1e3", 2, 56, "is no plain decimal number");
	refused(HEAD MODEL "base_us=inf", 2, 56, "is no plain decimal number");
	refused(HEAD MODEL "base_us=1,5", 2, 56, "is no plain decimal number");
	refused(HEAD MODEL "base_us=.5", 2, 56, "is no plain decimal number");
	refused(HEAD MODEL "base_us=5.", 2, 56, "is no plain decimal number");
	refused(HEAD MODEL "base_us=1.2.3", 2, 56, "is no plain decimal number");
	refused(HEAD MODEL "base_us=9999999999999999", 2, 56, "out of range");
	refused(HEAD MODEL "margin=1", 2, 55, "0 to 0.99");
	refused(HEAD "rule \x01\x7f", 2, 6, "\"??\" is no key=value");
}

static void words_too_long_are_cut_where_told(void **state)
{
	char text[400];

	(void)state;
	snprintf(text, sizeof(text), HEAD "rule bytes=%0200d", 9);
	refused(text, 2, 12, "0...\" is too long for a value");
	snprintf(text, sizeof(text), HEAD "rule %0200d", 9);
	refused(text, 2, 6, "0...\" is no key=value");
	refused("allreduce,0,"
		"99999999999999999999999999999999999999999999999999999999999999999999999999999999"
		",ring,ll,-1,-1,-1",
		1, 13, "9...\" is no size");
}

static void zero_bytes_are_no_text(void **state)
{
	static const char text[] = HEAD "rule\0 " BASIC;
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault;

	(void)state;
	assert_int_equal(sxt_rules_parse(text, sizeof(text) - 1, &rules, &fault), -EINVAL);
	assert_int_equal(fault.line, 2);
	assert_non_null(strstr(fault.text, "zero byte"));
}

static void digest_follows_what_decides_and_nothing_else(void **state)
{
	uint64_t digest = digest_of(HEAD "rule " BASIC " bytes=64K..\n" MODEL "margin=0.05");
	static const char *const others[] = {
		HEAD "rule " BASIC " bytes=64K..\n",
		HEAD "rule " BASIC " bytes=65537..\n" MODEL "margin=0.05",
		HEAD "rule " BASIC " bytes=64K.. channels=1\n" MODEL "margin=0.05",
		HEAD "rule " BASIC " bytes=64K.. chunk=64K\n" MODEL "margin=0.05",
		HEAD "rule " BASIC " bytes=64K.. nodes=2\n" MODEL "margin=0.05",
		HEAD "rule " BASIC " bytes=64K.. reg=0\n" MODEL "margin=0.05",
		HEAD "rule " BASIC " bytes=64K..\n" MODEL "margin=0.0500001",
		HEAD "rule " BASIC " bytes=64K..\n" MODEL "margin=0.05 inter_us=0.001",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_not_equal(digest, digest_of(others[i]));
	assert_int_equal(digest, digest_of(HEAD MODEL "margin=0.0500 confidence=0.9\n# and\n"
						      "rule gain=0.2 proto=LL bytes=65536..inf "
						      "algo=Ring confidence=1 coll=AllReduce"));
	assert_int_not_equal(digest_of(HEAD "rule " BASIC "\nrule " BASIC " bytes=1"),
			     digest_of(HEAD "rule " BASIC " bytes=1\nrule " BASIC));
	assert_int_equal(digest_of("allreduce,64K,-1,ring,ll,8,2,-1,-1,1\n"),
			 digest_of(HEAD "rule " BASIC " bytes=64K.. channels=8 nodes=2 reg=1"));
	/* Pinned: digests of one release are compared with those of another. */
	assert_int_equal(digest_of(HEAD), 0x3a12f355fd237492);
}

static void sizes_are_read_and_written(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t bytes;
	} rows[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"64k", 0, 65536},
		{"1MB", 0, 1 << 20},
		{"8GiB", 0, 8ull << 30},
		{"2T", 0, 2ull << 40},
		{"1P", 0, 1ull << 50},
		{"15E", 0, 15ull << 60},
		{"5B", 0, 5},
		{"inf", 0, UINT64_MAX},
		{"-1", 0, UINT64_MAX},
		{"16E", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"K", -EINVAL, 0},
		{"1.5M", -EINVAL, 0},
		{"1Ki", -EINVAL, 0},
		{"1KiBx", -EINVAL, 0},
		{"-2", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1@", -EINVAL, 0},
		{"18446744073709551616", -ERANGE, 0},
	};
	char text[24];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes = 0;

		if (sxt_bytes_parse(rows[i].text, &bytes) != rows[i].rc || bytes != rows[i].bytes)
			fail_msg("%s", rows[i].text);
		sxt_bytes_write(bytes, text);
		assert_int_equal(sxt_bytes_parse(text, &bytes), 0);
		assert_int_equal(bytes, rows[i].bytes);
	}
	sxt_bytes_write(65536, text);
	assert_string_equal(text, "64K");
	sxt_bytes_write(1000, text);
	assert_string_equal(text, "1000");
}

static void files_are_read_whole_or_told_why_not(void **state)
{
	char folder[] = "/tmp/sextant-rules-XXXXXX";
	char path[64];
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault = {0};
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/rules", folder);
	assert_int_equal(sxt_rules_read(path, &rules, &fault), -ENOENT);
	assert_string_equal(fault.text, "cannot be read: No such file or directory");
	assert_int_equal(sxt_rules_read(folder, &rules, &fault), -EINVAL);
	assert_string_equal(fault.text, "is no regular file");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(sxt_rules_read(path, &rules, &fault), -EINVAL);
	assert_int_equal(unlink(path), 0);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(HEAD "rule " BASIC "\n", file);
	fclose(file);
	assert_int_equal(sxt_rules_read(path, &rules, &fault), 0);
	assert_int_equal(rules->rules_cnt, 1);
	sxt_rules_free(rules);
	rules = NULL;
	assert_int_equal(truncate(path, SXT_RULES_BYTES + 1), 0);
	assert_int_equal(sxt_rules_read(path, &rules, &fault), -E2BIG);
	assert_int_equal(fault.line, 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	sxt_rules_free(NULL);
}

/* A file of one line, over and over. */
static void too_many(const char *line, uint32_t limit)
{
	size_t len = strlen(line);
	char *text = malloc(sizeof(HEAD) + len * (limit + 1));
	size_t bytes = sizeof(HEAD) - 1;
	struct sxt_rules *rules = NULL;
	struct sxt_rules_fault fault = {0};

	assert_non_null(text);
	memcpy(text, HEAD, sizeof(HEAD));
	for (uint32_t i = 0; i <= limit; i++, bytes += len)
		memcpy(text + bytes, line, len + 1);
	assert_int_equal(sxt_rules_parse(text, bytes, &rules, &fault), -E2BIG);
	assert_int_equal(fault.line, limit + 2);
	assert_int_equal(sxt_rules_parse(text, bytes - len, &rules, &fault), 0);
	sxt_rules_free(rules);
	free(text);
}

static void lines_beyond_the_limit_are_refused(void **state)
{
	(void)state;
	too_many("rule " BASIC "\n", SXT_RULES_MAX);
	too_many(MODEL "\n", SXT_MODELS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_of_documentation_is_read),
		cmocka_unit_test(csv_with_a_wrong_word_is_refused),
		cmocka_unit_test(any_line_end_mark_and_comment_is_read),
		cmocka_unit_test(ranges_have_open_ends),
		cmocka_unit_test(rule_with_a_wrong_word_is_refused),
		cmocka_unit_test(words_too_long_are_cut_where_told),
		cmocka_unit_test(zero_bytes_are_no_text),
		cmocka_unit_test(digest_follows_what_decides_and_nothing_else),
		cmocka_unit_test(sizes_are_read_and_written),
		cmocka_unit_test(files_are_read_whole_or_told_why_not),
		cmocka_unit_test(lines_beyond_the_limit_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
