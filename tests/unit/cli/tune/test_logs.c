/*
 * test_logs.c - logs of several versions of nccl-tests, launchers and shells, whole and damaged.
 */
#include "cli/tune/logs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS                                                                            \
	"#  Rank  0 Group  0 Pid   6899 on   gpu59 device  0 [0000:16:00] NVIDIA H100\n" \
	"#  Rank  1 Group  0 Pid   6900 on   gpu59 device  1 [0000:3f:00] NVIDIA H100\n" \
	"#  Rank  2 Group  0 Pid   7001 on   gpu60 device  0 [0000:16:00] NVIDIA H100\n" \
	"#  Rank  3 Group  0 Pid   7002 on   gpu60 device  1 [0000:3f:00] NVIDIA H100\n"
#define HEADER                                                                                     \
	"#       size         count      type   redop    root     time   algbw   busbw #wrong    " \
	" "                                                                                        \
	"time   algbw   busbw #wrong\n"                                                            \
	"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)           " \
	" "                                                                                        \
	"(us)  (GB/s)  (GB/s)\n"
#define ROWS                                                                                       \
	"     1048576        262144     float     sum      -1    354.9    2.95    4.43      0    " \
	"345.7    3.03    4.55      0\n"                                                           \
	"     2097152        524288     float     sum      -1    401.5    5.22    7.83      0    " \
	"399.1    5.25    7.88      0\n"

static int set_up(void **state)
{
	*state = calloc(1, sizeof(struct sxt_logs));
	return *state != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
	sxt_logs_fini(*state);
	free(*state);
	return 0;
}

static void parse(struct sxt_logs *logs, const char *arg, const char *text)
{
	assert_int_equal(sxt_logs_parse(logs, arg, text, strlen(text)), 0);
}

/* Times and what they are of; no note is left unsaid. */
static void expect_all(const struct sxt_logs *logs, size_t cnt, enum sxt_coll coll, int algo,
		       int proto)
{
	for (size_t i = 0; i < logs->notes_cnt; i++)
		print_message("%u: %s\n", logs->notes[i].line, logs->notes[i].text);
	assert_int_equal(logs->notes_cnt, 0);
	assert_int_equal(logs->times_cnt, cnt);
	for (size_t i = 0; i < cnt; i++) {
		assert_int_equal(logs->times[i].coll, coll);
		assert_int_equal(logs->times[i].algo, algo);
		assert_int_equal(logs->times[i].proto, proto);
	}
}

static void expect_note(const struct sxt_logs *logs, uint32_t line, bool is_error, const char *text)
{
	for (size_t i = 0; i < logs->notes_cnt; i++) {
		if (strstr(logs->notes[i].text, text) == NULL)
			continue;
		assert_int_equal(logs->notes[i].line, line);
		assert_int_equal(logs->notes[i].is_error, is_error);
		return;
	}
	fail_msg("no note says \"%s\"", text);
}

static void test_plain(void **state)
{
	struct sxt_logs *logs = *state;
	const struct sxt_logs_time *time = NULL;

	parse(logs, "out.log",
	      "$ NCCL_ALGO=Ring NCCL_PROTO=LL128 mpirun -np 4 ./build/all_reduce_perf -b 1M -f 2\n"
	      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor)\n"
	      "#\n# Using devices\n" RANKS "#\n" HEADER ROWS
	      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.17\n#\n");
	expect_all(logs, 4, SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, SXT_PROTO_LL128);
	time = &logs->times[1];
	assert_int_equal(time->nodes, 2);
	assert_int_equal(time->ranks, 4);
	assert_int_equal(time->bytes, 1048576);
	assert_true(time->in_place);
	assert_true(fabs(time->us - 345.7) < 1e-9);
	assert_int_equal(time->line, 12);
	assert_int_equal(logs->times[0].run, logs->times[3].run);
}

/* Of before 2.13: no "Group", no root, the error of rounding in place of a count. */
static void test_old_layout(void **state)
{
	struct sxt_logs *logs = *state;

	parse(logs, "tree_ll.txt",
	      "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"
	      "#   Rank  0 Pid 2304899 on a100-01 device  0 [0x54] NVIDIA A100-SXM4-80GB\n"
	      "#   Rank  1 Pid  161129 on a100-02 device  0 [0x54] NVIDIA A100-SXM4-80GB\n"
	      "#       size         count      type   redop     time   algbw   busbw  error     "
	      "time   algbw   busbw  error\n"
	      "           8             2     float     sum    19.90    0.00    0.00  1e-07    "
	      "18.96    0.00    0.00  1e-07\n");
	expect_all(logs, 2, SXT_COLL_ALL_REDUCE, SXT_ALGO_TREE, SXT_PROTO_LL);
	assert_true(fabs(logs->times[0].us - 19.90) < 1e-9);
}

/* mpirun's tags and times of day, and NCCL's own lines on what is forced. */
static void test_prefixes(void **state)
{
	static const char *const prefixes[] = {"[1,0]<stdout>:",
					       "Thu Jul 18 15:41:05 2024<stdout>:", "[default0]:",
					       "0: ", "[1,0]<stdout>: "};
	static const char *const lines[] = {
		"gpu59:6899:6911 [0] NCCL INFO NCCL_ALGO set by environment to Tree",
		"gpu59:6899:6911 [0] NCCL INFO NCCL_PROTO set by environment to Simple.",
		"# Collective test starting: all_gather_perf",
		"#  Rank  0 Group  0 Pid   6899 on   gpu59 device  0 [0x16] NVIDIA H100",
		"#  Rank  1 Group  0 Pid   6900 on   gpu60 device  0 [0x16] NVIDIA H100",
		"#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
		"  1048576 131072 float none -1 54.9 19.1 9.5 0 55.7 18.8 9.4 N/A"};

	for (size_t p = 0; p < SXT_ARRAY_LEN(prefixes); p++) {
		char text[2048] = "";

		for (size_t i = 0; i < SXT_ARRAY_LEN(lines); i++) {
			size_t len = strlen(text);

			snprintf(text + len, sizeof(text) - len, "%s%s\r\n", prefixes[p], lines[i]);
		}
		parse(*state, "x", text);
	}
	expect_all(*state, 2 * SXT_ARRAY_LEN(prefixes), SXT_COLL_ALL_GATHER, SXT_ALGO_TREE,
		   SXT_PROTO_SIMPLE);
}

/* The words win over the log, the log over the file's name. */
static void test_who_says(void **state)
{
	struct sxt_logs *logs = *state;
	static const char text[] = "# sextant sweep: NCCL_ALGO=Ring NCCL_PROTO=LL COLL=all_reduce "
				   "NODES=128 RANKS=1024\n" HEADER ROWS;

	parse(logs, "reduce_scatter_tree_simple.log", text);
	expect_all(logs, 4, SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, SXT_PROTO_LL);
	assert_int_equal(logs->times[0].nodes, 128);
	assert_int_equal(logs->times[0].ranks, 1024);
	sxt_logs_fini(logs);
	parse(logs, "x.log=reducescatter/nvls_tree", text);
	expect_all(logs, 4, SXT_COLL_REDUCE_SCATTER, SXT_ALGO_NVLS_TREE, SXT_LOGS_ANY);
	sxt_logs_fini(logs);
	parse(logs, "ring_ll.log=default", text);
	expect_all(logs, 4, SXT_COLL_ALL_REDUCE, SXT_LOGS_ANY, SXT_LOGS_ANY);
	sxt_logs_fini(logs);
	parse(logs, "runs/tree/reduce_scatter-nvls_tree.simple.log", RANKS HEADER ROWS);
	expect_all(logs, 4, SXT_COLL_REDUCE_SCATTER, SXT_ALGO_NVLS_TREE, SXT_PROTO_SIMPLE);
}

/* A command's variables are its own, exported ones are those of all that follow. */
static void test_several_commands(void **state)
{
	struct sxt_logs *logs = *state;
	static const int algos[] = {SXT_ALGO_TREE, SXT_ALGO_RING, SXT_ALGO_TREE};

	parse(logs, "session.txt",
	      "export NCCL_ALGO=Tree\nexport NCCL_PROTO=Simple\n"
	      "mpirun all_reduce_perf -b 1M\n# nThread 1\n" RANKS HEADER ROWS
	      "mpirun -x NCCL_ALGO=Ring all_reduce_perf -b 1M\n# nThread 1\n" RANKS HEADER ROWS
	      "mpirun all_reduce_perf -b 1M\n# nThread 1\n" RANKS HEADER ROWS);
	assert_int_equal(logs->times_cnt, 12);
	for (size_t i = 0; i < logs->times_cnt; i++) {
		assert_int_equal(logs->times[i].algo, algos[i / 4]);
		assert_int_equal(logs->times[i].proto, SXT_PROTO_SIMPLE);
		assert_int_equal(logs->times[i].run, 1 + i / 4);
	}
}

/* A size that comes again begins a run of its own (nccl-tests -N 2). */
static void test_cycles(void **state)
{
	struct sxt_logs *logs = *state;

	parse(logs, "x", RANKS HEADER ROWS ROWS);
	assert_int_equal(logs->times_cnt, 8);
	assert_int_equal(logs->times[3].run + 1, logs->times[4].run);
}

/* `sextant bench` has one side and says what it ran. */
static void test_bench(void **state)
{
	struct sxt_logs *logs = *state;

	parse(logs, "x",
	      "# sextant bench 0.1.0: all_reduce, ring, protocol simple, out-of-place buffers\n"
	      "# 4 ranks on 2 hosts, 1 channel\n"
	      "# size count type redop root time algbw busbw #wrong\n"
	      "  1024 256 float sum -1 91.2 0.01 0.02 0\n");
	expect_all(logs, 1, SXT_COLL_ALL_REDUCE, SXT_ALGO_RING, SXT_PROTO_SIMPLE);
	assert_int_equal(logs->times[0].nodes, 2);
}

static void test_wrong_rows(void **state)
{
	struct sxt_logs *logs = *state;

	parse(logs, "x",
	      RANKS HEADER "1024 256 float sum -1 54.9 0.1 0.1 3 55.7 0.1 0.1 0\n"
			   "2048 512 float sum -1 nan 0.1 0.1 0 55.7 0.1 0.1 0\n"
			   "4096 1024 float sum -1 54.9 0.1\n"
			   "8192 2048 float sum -1 -4 0.1 0.1 0 N/A N/A N/A N/A\n"
			   "99999999999999999999 2048 float sum -1 4 0.1 0.1 0 4 0.1 0.1 0\n"
			   "0 0 float sum -1 4 0.1 0.1 0 4 0.1 0.1 0\n");
	assert_int_equal(logs->times_cnt, 2);
	expect_note(logs, 7, false, "3 values were wrong out of place");
	expect_note(logs, 8, false, "\"nan\"");
	expect_note(logs, 9, false, "7 words below a header of 13");
	expect_note(logs, 10, false, "\"-4\"");
	expect_note(logs, 11, false, "too large");
	assert_int_equal(logs->notes_cnt, 5);
	assert_false(logs->has_error);
}

static void test_useless(void **state)
{
	struct sxt_logs *logs = *state;

	parse(logs, "a", HEADER ROWS);
	expect_note(logs, 3, true, "ranks and nodes are not known");
	parse(logs, "b", "Segmentation fault\n");
	expect_note(logs, 0, true, "no times");
	sxt_logs_fini(logs);
	parse(logs, "c", "mpirun -x NCCL_ALGO=Ring,Tree x\n" RANKS HEADER ROWS);
	expect_note(logs, 8, true, "named several");
	sxt_logs_fini(logs);
	parse(logs, "d", "# Collective test starting: alltoall_perf\n" RANKS HEADER ROWS);
	expect_note(logs, 8, true, "does not tune");
	sxt_logs_fini(logs);
	parse(logs, "e",
	      RANKS HEADER "1048576 65536 float none -1 54.9 0.1 0.1 0 55.7 0.1 0.1 0\n");
	expect_note(logs, 7, true, "name it");
	sxt_logs_fini(logs);
	parse(logs, "f", "#  Rank  0 Group  0 Pid 1 on a device 0 [0] X\n" HEADER ROWS);
	expect_note(logs, 4, true, "one rank alone");
	assert_int_equal(logs->times_cnt, 0);
	assert_true(logs->has_error);
}

static void test_arguments(void **state)
{
	struct sxt_logs *logs = *state;

	assert_int_equal(sxt_logs_parse(logs, "x=ring/fast", "", 0), -EINVAL);
	expect_note(logs, 0, true, "\"fast\"");
	assert_int_equal(sxt_logs_read(logs, "/nonexistent/log"), -ENOENT);
	expect_note(logs, 0, true, "cannot be read");
}

/* Any cut and any changed byte: never more than notes. */
static void test_damaged(void **state)
{
	struct sxt_logs *logs = *state;
	static const char text[] =
		"# sextant sweep: NCCL_ALGO=Ring\n# nThread 1\n" RANKS HEADER ROWS
		"x NCCL_PROTO=LL all_reduce_perf\n";
	char copy[sizeof(text)];

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		assert_int_equal(sxt_logs_parse(logs, "x", text, i), 0);
		memcpy(copy, text, sizeof(text));
		copy[i] = "#=\n [:9-"[i % 8];
		parse(logs, "x", copy);
		sxt_logs_fini(logs);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_plain),     TEST(test_old_layout),       TEST(test_prefixes),
		TEST(test_who_says),  TEST(test_several_commands), TEST(test_cycles),
		TEST(test_bench),     TEST(test_wrong_rows),       TEST(test_useless),
		TEST(test_arguments), TEST(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
