/*
 * test_stall.c - what a connection waits for, by snapshots of its counters; when it is said.
 */
#include "ib/stall.h"

#include "tests/unit/ib/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEC    SXT_NS_PER_SEC
#define NOW    1000000u
#define LEAST  (60 * SEC)
#define FIGURE 91316u

static struct sxt_stall stall;

static void judge(enum sxt_tele_direction direction, const struct sxt_tele_counters *counters)
{
	memset(&stall, 0xee, sizeof(stall));
	sxt_stall_judge(direction, counters, &stall);
}

static void data_without_a_receive_are_a_late_peer(void **state)
{
	const struct sxt_tele_counters c = {
		.started = 9, .done = 9, .waiting = NOW - 12, .last_start = 5, .last_done = 7};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.word, SXT_STALL_PEER_LATE);
	assert_int_equal(stall.since, NOW - 12);
	assert_int_equal(stall.in_flight, 0);
	assert_int_equal(stall.done, 9);
}

/* A caller that was told "not now" while writes were under way: it waits since the last is done. */
static void a_late_peer_is_late_since_the_last_completion(void **state)
{
	const struct sxt_tele_counters c = {.started = 9,
					    .done = 9,
					    .waiting = NOW - 12,
					    .last_start = 5,
					    .last_done = NOW - 3};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.word, SXT_STALL_PEER_LATE);
	assert_int_equal(stall.since, NOW - 3);
}

static void the_first_message_may_be_what_waits(void **state)
{
	const struct sxt_tele_counters c = {.waiting = NOW - 12};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.word, SXT_STALL_PEER_LATE);
}

static void a_write_under_way_is_the_wire(void **state)
{
	const struct sxt_tele_counters c = {.started = 10,
					    .done = 9,
					    .last_start = NOW - 12,
					    .last_done = NOW - 40};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.word, SXT_STALL_WIRE);
	assert_int_equal(stall.since, NOW - 12);
	assert_int_equal(stall.in_flight, 1);
}

/* The queue is full, and the caller has more: still what is under way is to blame. */
static void a_write_under_way_is_the_wire_though_more_waits(void **state)
{
	const struct sxt_tele_counters c = {.started = 10,
					    .done = 9,
					    .waiting = NOW - 11,
					    .last_start = NOW - 12};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.word, SXT_STALL_WIRE);
}

static void a_receive_without_data_is_a_late_sender(void **state)
{
	const struct sxt_tele_counters c = {.started = 16,
					    .done = 8,
					    .last_start = NOW - 12,
					    .last_done = NOW - 12};

	(void)state;
	judge(SXT_TELE_RECEIVES, &c);
	assert_int_equal(stall.word, SXT_STALL_SENDER_LATE);
	assert_int_equal(stall.since, NOW - 12);
	assert_int_equal(stall.in_flight, 8);
}

static void nothing_to_do_is_an_idle_application(void **state)
{
	const struct sxt_tele_counters c = {.started = 10,
					    .done = 10,
					    .last_start = NOW - 15,
					    .last_done = NOW - 12};

	(void)state;
	for (int way = SXT_TELE_SENDS; way <= SXT_TELE_RECEIVES; way++) {
		judge((enum sxt_tele_direction)way, &c);
		assert_int_equal(stall.word, SXT_STALL_APP_IDLE);
		assert_int_equal(stall.since, NOW - 12);
	}
}

static void an_unused_connection_waits_for_nothing(void **state)
{
	const struct sxt_tele_counters c = {0};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.word, SXT_STALL_NONE);
	judge(SXT_TELE_RECEIVES, &c);
	assert_int_equal(stall.word, SXT_STALL_NONE);
}

/* Read while the data path writes: done may look larger than started. */
static void counters_amid_a_change_are_no_stall_of_many(void **state)
{
	const struct sxt_tele_counters c = {.started = 9, .done = 10, .last_start = NOW};

	(void)state;
	judge(SXT_TELE_SENDS, &c);
	assert_int_equal(stall.in_flight, 0);
	assert_int_equal(stall.word, SXT_STALL_APP_IDLE);
}

static void a_stall_is_told_once_and_again_when_doubled(void **state)
{
	struct sxt_stall_memory memory = {0};
	int told = 0;

	(void)state;
	for (uint64_t age = 0; age <= 600; age += 15)
		told += sxt_stall_is_due(&memory, NOW, age * SEC, LEAST) ? 1 : 0;
	assert_int_equal(told, 2); /* at 60 and 360 s */
	for (uint64_t age = 615; age <= 3600; age += 15)
		told += sxt_stall_is_due(&memory, NOW, age * SEC, LEAST) ? 1 : 0;
	assert_int_equal(told, 5); /* and at 720, 1440, 2880 s */
}

static void a_look_amid_a_change_tells_nothing(void **state)
{
	struct sxt_stall_memory memory = {0};

	(void)state;
	assert_false(sxt_stall_is_due(&memory, NOW, 100 * SEC, LEAST));
	assert_false(sxt_stall_is_due(&memory, NOW + 1, 100 * SEC, LEAST));
	assert_true(sxt_stall_is_due(&memory, NOW + 1, 100 * SEC, LEAST));
	/* Another stall begins anew. */
	assert_false(sxt_stall_is_due(&memory, NOW + 2, 100 * SEC, LEAST));
	assert_true(sxt_stall_is_due(&memory, NOW + 2, 100 * SEC, LEAST));
}

static void a_process_says_so_many_lines_a_minute_and_counts_the_rest(void **state)
{
	struct sxt_stall_budget budget = {0};
	uint32_t told = 0;

	(void)state;
	assert_int_equal(sxt_stall_budget_begin(&budget, 1000 * SEC), 0);
	for (int i = 0; i < 25; i++)
		told += sxt_stall_budget_take(&budget) ? 1 : 0;
	assert_int_equal(told, SXT_STALL_LINES);
	assert_int_equal(sxt_stall_budget_begin(&budget, 1059 * SEC), 0);
	assert_false(sxt_stall_budget_take(&budget));
	assert_int_equal(sxt_stall_budget_begin(&budget, 1060 * SEC), 26 - SXT_STALL_LINES);
	assert_true(sxt_stall_budget_take(&budget));
	assert_int_equal(sxt_stall_budget_begin(&budget, 1200 * SEC), 0);
}

static const char *root;

static void counter_write(const char *folder, const char *name, unsigned long long value)
{
	char path[256];
	char text[32];

	snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_0/ports/1/%s/%s", folder, name);
	snprintf(text, sizeof(text), "%llu\n", value);
	tree_text(path, text);
}

static int root_make(void **state)
{
	(void)state;
	root = tree_open();
	return 0;
}

static int root_remove(void **state)
{
	(void)state;
	tree_close();
	return 0;
}

static uint32_t growth_within(uint64_t sec, const struct sxt_stall_sample *before, char *out,
			      size_t out_bytes)
{
	struct sxt_stall_sample after;

	sxt_stall_sample_read(root, "mlx5_0", 1, before->at_ns + sec * SEC, &after);
	return sxt_stall_growth(before, &after, out, out_bytes);
}

static void what_grew_much_is_heavy(void **state)
{
	struct sxt_stall_sample before;
	char text[600];

	(void)state;
	counter_write("hw_counters", "local_ack_timeout_err", 7);
	counter_write("hw_counters", "out_of_sequence", 0);
	counter_write("hw_counters", "np_cnp_sent", 1000);
	counter_write("counters", "symbol_error", 5);
	sxt_stall_sample_read(root, "mlx5_0", 1, SEC, &before);
	assert_int_equal(growth_within(30, &before, text, sizeof(text)), 0);
	assert_string_equal(text, "");

	counter_write("hw_counters", "local_ack_timeout_err", 7 + FIGURE);
	counter_write("hw_counters", "out_of_sequence", 6140236);
	counter_write("hw_counters", "np_cnp_sent", 1000 + 17300000);
	assert_int_equal(growth_within(30, &before, text, sizeof(text)),
			 1u << SXT_STALL_RETRANSMIT | 1u << SXT_STALL_CONGESTION);
	assert_string_equal(text, "RETRANSMIT heavy (local_ack_timeout_err +91316, "
				  "out_of_sequence +6140236), CONGESTION heavy (np_cnp_sent "
				  "+17300000)");
}

static void what_grew_a_little_is_told_without_a_word(void **state)
{
	struct sxt_stall_sample before;
	char text[600];

	(void)state;
	counter_write("hw_counters", "local_ack_timeout_err", 7);
	counter_write("counters", "symbol_error", 5);
	sxt_stall_sample_read(root, "mlx5_0", 1, SEC, &before);
	counter_write("hw_counters", "local_ack_timeout_err", 8);
	counter_write("counters", "symbol_error", 6);
	assert_int_equal(growth_within(30, &before, text, sizeof(text)),
			 1u << SXT_STALL_RETRANSMIT | 1u << SXT_STALL_SYMBOL);
	assert_string_equal(text, "SYMBOL (symbol_error +1), RETRANSMIT (local_ack_timeout_err "
				  "+1)");
}

static void a_port_without_counters_is_not_called_clean(void **state)
{
	struct sxt_stall_sample before;
	char text[600];

	(void)state;
	sxt_stall_sample_read("/nonexistent", "mlx5_0", 1, SEC, &before);
	assert_int_equal(sxt_stall_growth(&before, &before, text, sizeof(text)), SXT_STALL_UNREAD);
	assert_string_equal(text, "");
}

static char line[1600];

static void line_of(enum sxt_stall_word word, const char *growth, uint32_t signs)
{
	const struct sxt_stall_facts facts = {
		.stall = {.word = word, .in_flight = 2, .done = 17},
		.waited_ns = 61 * SEC,
		.since_wall_ns = (2 * 3600 + 12 * 60 + 25) * SEC,
		.here = "node1:4711",
		.peer = "node2:4712",
		.rank = 0,
		.peer_rank = word == SXT_STALL_WIRE ? -1 : 5,
		.ports = "mlx5_0:2",
		.growth = growth,
		.signs = signs,
	};

	sxt_stall_line(&facts, line, sizeof(line));
}

static void a_line_says_who_waits_for_whom_since_when_and_where(void **state)
{
	static const char *const begins[] = {
		[SXT_STALL_PEER_LATE] = "PEER-LATE: rank 0 (node1:4711) waits for rank 5 "
					"(node2:4712) for 61 s, since 02:12:25 UTC, on mlx5_0:2: ",
		[SXT_STALL_SENDER_LATE] = "SENDER-LATE: rank 0 (node1:4711) waits for rank 5 "
					  "(node2:4712) for 61 s, since 02:12:25 UTC, on "
					  "mlx5_0:2: 2 receives are posted (17 done)",
		[SXT_STALL_WIRE] = "WIRE: rank 0 (node1:4711) waits for node2:4712 for 61 s, since "
				   "02:12:25 UTC, on mlx5_0:2: 2 messages are posted and not "
				   "acknowledged (17 done). No error counter of the port grew",
	};

	(void)state;
	for (int word = SXT_STALL_PEER_LATE; word <= SXT_STALL_WIRE; word++) {
		line_of((enum sxt_stall_word)word, "", 0);
		assert_memory_equal(line, begins[word], strlen(begins[word]));
	}
}

static void a_line_about_the_wire_says_what_its_counters_mean(void **state)
{
	static const struct {
		uint32_t signs;
		const char *advice;
	} rows[] = {
		{1u << SXT_STALL_RETRANSMIT | 1u << SXT_STALL_CONGESTION, "Packets are lost"},
		{1u << SXT_STALL_RETRANSMIT | 1u << SXT_STALL_SYMBOL, "The link has errors"},
		{1u << SXT_STALL_CONGESTION, "The fabric holds traffic back"},
		{1u << SXT_STALL_RNR, "no receive for what arrives"},
		{SXT_STALL_UNREAD, "cannot be compared"},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(rows); i++) {
		line_of(SXT_STALL_WIRE, "mlx5_0:2 within 30 s: some", rows[i].signs);
		assert_non_null(strstr(line, "17 done). mlx5_0:2 within 30 s: some. "));
		assert_non_null(strstr(line, rows[i].advice));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_without_a_receive_are_a_late_peer),
		cmocka_unit_test(a_late_peer_is_late_since_the_last_completion),
		cmocka_unit_test(the_first_message_may_be_what_waits),
		cmocka_unit_test(a_write_under_way_is_the_wire),
		cmocka_unit_test(a_write_under_way_is_the_wire_though_more_waits),
		cmocka_unit_test(a_receive_without_data_is_a_late_sender),
		cmocka_unit_test(nothing_to_do_is_an_idle_application),
		cmocka_unit_test(an_unused_connection_waits_for_nothing),
		cmocka_unit_test(counters_amid_a_change_are_no_stall_of_many),
		cmocka_unit_test(a_stall_is_told_once_and_again_when_doubled),
		cmocka_unit_test(a_look_amid_a_change_tells_nothing),
		cmocka_unit_test(a_process_says_so_many_lines_a_minute_and_counts_the_rest),
		cmocka_unit_test_setup_teardown(what_grew_much_is_heavy, root_make, root_remove),
		cmocka_unit_test_setup_teardown(what_grew_a_little_is_told_without_a_word,
						root_make, root_remove),
		cmocka_unit_test(a_port_without_counters_is_not_called_clean),
		cmocka_unit_test(a_line_says_who_waits_for_whom_since_when_and_where),
		cmocka_unit_test(a_line_about_the_wire_says_what_its_counters_mean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
