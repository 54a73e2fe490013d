/*
 * test_rows.c - rows made of two moments of one segment that lies in memory.
 */
#include "cli/top/format.h"
#include "cli/top/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONNS 4
#define SEC   1000000000ull
#define MADE  (1000 * SEC)

struct image {
	struct sxt_tele_header header;
	struct sxt_tele_port ports[2];
	struct sxt_tele_link links[2];
	struct sxt_tele_conn conns[CONNS];
	struct sxt_tele_path paths[CONNS];
	struct sxt_tele_comm comms[2];
	struct sxt_tele_event events[4];
};

/* One process, 100 s and 110 s after it began. */
struct rig {
	struct image images[2];
	struct sxt_tele_view *views[2];
	struct sxt_top_shot shots[2];
	struct sxt_top_rows rows;
	bool alive[2];
};

static void set_section(struct image *image, enum sxt_tele_section_kind kind, const void *records,
			size_t stride, uint32_t cap)
{
	image->header.sections[kind] = (struct sxt_tele_section){
		.offset = (size_t)((const char *)records - (const char *)image),
		.stride = (uint32_t)stride,
		.cap = cap,
	};
	image->header.used[kind] = cap;
}

static void init_image(struct image *image)
{
	image->header = (struct sxt_tele_header){
		.magic = SXT_TELE_MAGIC,
		.version = SXT_TELE_VERSION,
		.bytes_of_header = sizeof(image->header),
		.bytes = sizeof(*image),
		.state = SXT_TELE_LIVE,
		.ticks_per_sec = SEC,
		.made_ticks = MADE,
		.stall_sec = 60,
		.made_wall_ns = MADE,
		.pid = 7,
		.rank = 3,
	};
	set_section(image, SXT_TELE_PORTS, image->ports, sizeof(image->ports[0]), 2);
	set_section(image, SXT_TELE_LINKS, image->links, sizeof(image->links[0]), 2);
	set_section(image, SXT_TELE_CONNS, image->conns, sizeof(image->conns[0]), CONNS);
	set_section(image, SXT_TELE_PATHS, image->paths, sizeof(image->paths[0]), CONNS);
	set_section(image, SXT_TELE_COMMS, image->comms, sizeof(image->comms[0]), 2);
	set_section(image, SXT_TELE_EVENTS, image->events, sizeof(image->events[0]), 4);
	image->ports[0] = (struct sxt_tele_port){.sequence = 2,
						 .state = SXT_TELE_PORT_UP,
						 .hca = "mlx5_0",
						 .num = 1};
	image->links[0] = (struct sxt_tele_link){
		.sequence = 2, .is_used = 1, .nic = "mlx5_0", .peer = "b:9", .conns = 1};
}

static struct sxt_tele_conn *add_conn(struct image *image, uint32_t i, uint64_t bytes)
{
	struct sxt_tele_conn *conn = &image->conns[i];

	*conn = (struct sxt_tele_conn){
		.sequence = 2,
		.state = SXT_TELE_CONN_LIVE,
		.direction = SXT_TELE_SENDS,
		.id = i + 1,
		.path_first = i,
		.paths = 1,
		.opened = MADE,
	};
	conn->counters.bytes = bytes;
	image->paths[i] = (struct sxt_tele_path){.sequence = 2, .conn = i};
	return conn;
}

static void *begin(void)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	for (int i = 0; i < 2; i++) {
		init_image(&rig->images[i]);
		rig->alive[i] = true;
	}
	return rig;
}

static void drop_rows(struct rig *rig)
{
	sxt_top_rows_fini(&rig->rows);
	for (int i = 0; i < 2; i++) {
		sxt_top_shot_fini(&rig->shots[i]);
		sxt_tele_close(rig->views[i]);
		rig->views[i] = NULL;
	}
}

/* Anew of what the images hold now. */
static void make_rows(struct rig *rig)
{
	drop_rows(rig);
	for (int i = 0; i < 2; i++) {
		struct sxt_top_shot *shot = &rig->shots[i];

		assert_int_equal(sxt_tele_map(&rig->images[i], sizeof(rig->images[i]),
					      MADE + (100 + 10 * (uint64_t)i) * SEC,
					      &rig->views[i]),
				 0);
		shot->samples = calloc(1, sizeof(*shot->samples));
		assert_non_null(shot->samples);
		assert_int_equal(sxt_top_sample_take(rig->views[i], "s", rig->alive[i],
						     shot->samples),
				 0);
		shot->samples_cnt = 1;
		shot->ns = (100 + 10 * (uint64_t)i) * SEC;
	}
	assert_int_equal(sxt_top_rows_make(&rig->shots[0], &rig->shots[1], &rig->rows), 0);
}

static void end(struct rig *rig)
{
	drop_rows(rig);
	free(rig);
}

static const struct sxt_top_row *row(const struct rig *rig, enum sxt_top_kind kind, size_t i)
{
	assert_true(i < rig->rows.cnt[kind]);
	return &rig->rows.list[kind][i];
}

static void assert_rate(double value, double wanted)
{
	if (!(fabs(value - wanted) < 1e-9))
		fail_msg("%g GB/s, not %g", value, wanted);
}

static void rates_are_differences_over_time(void **state)
{
	struct rig *rig = begin();

	(void)state;
	add_conn(&rig->images[0], 0, 300 * SEC);
	add_conn(&rig->images[1], 0, 330 * SEC);
	make_rows(rig);
	assert_rate(row(rig, SXT_TOP_CONNECTIONS, 0)->rate, 3);
	assert_rate(row(rig, SXT_TOP_CONNECTIONS, 0)->average, 3);
	assert_rate(row(rig, SXT_TOP_PROCESSES, 0)->flow.now[0], 3);
	assert_rate(row(rig, SXT_TOP_PROCESSES, 0)->flow.now[1], 0);
	assert_rate(row(rig, SXT_TOP_LINKS, 0)->flow.now[0], 3);
	assert_rate(row(rig, SXT_TOP_PORTS, 0)->flow.now[0], 3);
	end(rig);
}

static void a_record_given_away_is_not_subtracted(void **state)
{
	struct rig *rig = begin();
	struct sxt_tele_conn *conn;

	(void)state;
	add_conn(&rig->images[0], 0, 500 * SEC);
	conn = add_conn(&rig->images[1], 0, 20 * SEC);
	conn->generation = 1;
	conn->id = 2;
	conn->opened = MADE + 105 * SEC;
	conn->comm = 0xabc;
	make_rows(rig);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 0)->address, "0000000000000abc");
	assert_rate(row(rig, SXT_TOP_CONNECTIONS, 0)->rate, 2);
	assert_rate(row(rig, SXT_TOP_CONNECTIONS, 0)->average, 4);
	assert_rate(row(rig, SXT_TOP_PORTS, 0)->flow.now[0], 2);
	end(rig);
}

/* What a record held before it was given away is in its link's flow by then. */
static void what_gave_up_its_record_counts_once(void **state)
{
	struct rig *rig = begin();
	struct sxt_tele_conn *conn;

	(void)state;
	rig->images[0].links[0].flows[0].bytes = 100 * SEC;
	rig->images[1].links[0].flows[0].bytes = 640 * SEC; /* 500 known, 40 moved since */
	add_conn(&rig->images[0], 0, 500 * SEC);
	conn = add_conn(&rig->images[1], 0, 20 * SEC);
	conn->generation = 1;
	conn->direction = SXT_TELE_RECEIVES;
	make_rows(rig);
	assert_rate(row(rig, SXT_TOP_LINKS, 0)->flow.now[0], 4);
	assert_rate(row(rig, SXT_TOP_LINKS, 0)->flow.now[1], 2);
	assert_rate(row(rig, SXT_TOP_PROCESSES, 0)->flow.now[0], 4);
	assert_true(row(rig, SXT_TOP_PROCESSES, 0)->flow.bytes[0] == 640 * SEC);
	assert_int_equal(rig->rows.cnt[SXT_TOP_CONNECTIONS], 1);
	end(rig);
}

static void those_without_a_record_are_a_row_each_way(void **state)
{
	struct rig *rig = begin();
	const struct sxt_top_row *shared;
	char text[SXT_TOP_LINE_BYTES];

	(void)state;
	rig->images[0].links[0].flows[1].bytes = 100 * SEC;
	rig->images[1].links[0].flows[1] =
		(struct sxt_tele_flow){.bytes = 170 * SEC, .messages = 4};
	rig->images[1].links[0].shared[1] = 37;
	add_conn(&rig->images[1], 0, 0);
	make_rows(rig);
	assert_int_equal(rig->rows.cnt[SXT_TOP_CONNECTIONS], 2);
	shared = row(rig, SXT_TOP_CONNECTIONS, 1);
	assert_rate(shared->rate, 7);
	assert_string_equal(shared->status, "x37");
	assert_string_equal(shared->speed, "in");
	assert_string_equal(shared->with, "b:9");
	assert_true(isnan(shared->average));
	assert_int_equal(shared->in_flight, SXT_TOP_UNKNOWN);
	assert_rate(row(rig, SXT_TOP_LINKS, 0)->flow.now[1], 7);
	assert_rate(row(rig, SXT_TOP_LINKS, 0)->shared_now[1], 7);
	assert_true(isnan(row(rig, SXT_TOP_LINKS, 0)->shared_now[0]));
	assert_int_equal(row(rig, SXT_TOP_PROCESSES, 0)->conns, 38);
	sxt_top_detail(SXT_TOP_CONNECTIONS, shared, text);
	assert_non_null(strstr(text, "receives from b:9 over mlx5_0: 37 connections"));
	assert_non_null(strstr(text, "170GB in 4 messages"));
	end(rig);
}

static void counters_that_went_back_are_no_traffic(void **state)
{
	struct rig *rig = begin();

	(void)state;
	add_conn(&rig->images[0], 0, 500);
	add_conn(&rig->images[1], 0, 400);
	make_rows(rig);
	assert_rate(row(rig, SXT_TOP_CONNECTIONS, 0)->rate, 0);
	assert_rate(row(rig, SXT_TOP_PORTS, 0)->flow.now[0], 0);
	end(rig);
}

static void waits_of_the_interval_leave_out_what_was_before(void **state)
{
	struct rig *rig = begin();
	struct sxt_tele_counters *before = &add_conn(&rig->images[0], 0, 0)->counters;
	struct sxt_tele_counters *after = &add_conn(&rig->images[1], 0, 0)->counters;
	const struct sxt_top_span *now;
	const struct sxt_top_span *whole;

	(void)state;
	before->latency[SXT_TELE_WAIT_WIRE][40] = UINT32_MAX;
	after->latency[SXT_TELE_WAIT_WIRE][40] = 4; /* wrapped: 5 more */
	before->latency[SXT_TELE_WAIT_PEER][60] = 1000;
	after->latency[SXT_TELE_WAIT_PEER][60] = 1000;
	after->latency[SXT_TELE_WAIT_PEER][3] = 100;
	make_rows(rig);
	now = row(rig, SXT_TOP_PROCESSES, 0)->flow.waits[SXT_TOP_RECENT];
	whole = row(rig, SXT_TOP_PROCESSES, 0)->flow.waits[SXT_TOP_WHOLE];
	assert_true(now[SXT_TELE_WAIT_PEER].p99_ns < sxt_tele_latency_floor_ns(4));
	assert_true(whole[SXT_TELE_WAIT_PEER].p99_ns >= sxt_tele_latency_floor_ns(60));
	assert_true(now[SXT_TELE_WAIT_WIRE].p50_ns >= sxt_tele_latency_floor_ns(40));
	assert_true(now[SXT_TELE_WAIT_CALLER].p50_ns == SXT_TOP_UNKNOWN);
	end(rig);
}

static void what_is_dead_has_an_average_and_no_rate(void **state)
{
	struct rig *rig = begin();
	const struct sxt_top_row *process;

	(void)state;
	add_conn(&rig->images[0], 0, 300 * SEC);
	add_conn(&rig->images[1], 0, 330 * SEC);
	rig->alive[1] = false;
	make_rows(rig);
	process = row(rig, SXT_TOP_PROCESSES, 0);
	assert_true(process->gone && isnan(process->flow.now[0]));
	assert_rate(process->flow.avg[0], 3);
	assert_string_equal(process->status, "dead");
	assert_int_equal(process->wall_ns, MADE + 110 * SEC);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 0)->status, "dead");
	assert_int_equal(row(rig, SXT_TOP_PORTS, 0)->conns, 0);
	end(rig);
}

static void nothing_done_for_as_long_as_its_setting_says_is_a_stall(void **state)
{
	struct rig *rig = begin();
	struct sxt_tele_conn *conn = add_conn(&rig->images[1], 1, 0);

	(void)state;
	conn->counters.started = 5;
	conn->counters.done = 2;
	conn->counters.last_start = MADE + 109 * SEC;
	conn->counters.last_done = MADE + 45 * SEC;
	conn = add_conn(&rig->images[1], 2, 0);
	conn->counters.waiting = MADE + 108 * SEC;
	make_rows(rig);
	assert_int_equal(row(rig, SXT_TOP_CONNECTIONS, 0)->oldest_ns, 65 * SEC);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 0)->status, "STALL");
	assert_int_equal(row(rig, SXT_TOP_CONNECTIONS, 1)->oldest_ns, 2 * SEC);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 1)->status, "live");
	assert_string_equal(row(rig, SXT_TOP_PROCESSES, 0)->status, "STALL");
	rig->images[1].header.stall_sec = 2;
	make_rows(rig);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 1)->status, "STALL");
	rig->images[1].header.stall_sec = 66;
	make_rows(rig);
	assert_string_equal(row(rig, SXT_TOP_PROCESSES, 0)->status, "live");
	rig->images[1].header.stall_sec = 0; /* it wants to hear of none */
	make_rows(rig);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 0)->status, "live");
	end(rig);
}

static void failed_connections_are_counted(void **state)
{
	struct rig *rig = begin();

	(void)state;
	add_conn(&rig->images[1], 0, 0)->state = SXT_TELE_CONN_FAILED;
	add_conn(&rig->images[1], 3, 0)->state = SXT_TELE_CONN_FAILED;
	add_conn(&rig->images[1], 1, 0)->link = 77; /* no such link */
	make_rows(rig);
	assert_string_equal(row(rig, SXT_TOP_PROCESSES, 0)->status, "2 err");
	assert_int_equal(row(rig, SXT_TOP_PROCESSES, 0)->tone, SXT_TOP_BAD);
	assert_int_equal(row(rig, SXT_TOP_PROCESSES, 0)->conns, 1);
	assert_string_equal(row(rig, SXT_TOP_CONNECTIONS, 1)->with, "");
	end(rig);
}

static void a_line_is_never_wider_than_asked(void **state)
{
	struct rig *rig = begin();
	struct sxt_top_look look;
	char line[SXT_TOP_LINE_BYTES];

	(void)state;
	for (uint32_t i = 0; i < CONNS; i++) {
		struct sxt_tele_conn *conn = add_conn(&rig->images[1], i, UINT64_MAX / 8);

		memset(conn->text, 'x', sizeof(conn->text));
		conn->counters.tag = UINT32_MAX;
	}
	memset(rig->images[1].links[0].peer, 'y', sizeof(rig->images[1].links[0].peer));
	memcpy(rig->images[1].header.job, "\xc3\xa4\xc3\xa4", 5);
	make_rows(rig);
	sxt_top_look_init(&look);
	for (int kind = 0; kind < SXT_TOP_KINDS; kind++) {
		const struct sxt_top_row **list;
		size_t cnt;

		look.kind = (enum sxt_top_kind)kind;
		assert_int_equal(sxt_top_select(&rig->rows, &look, &list, &cnt), 0);
		for (int width = 80; width < 240; width++) {
			struct sxt_top_layout layout = sxt_top_layout_make(&look, list, cnt, width);

			sxt_top_head_line(&layout, &look, line);
			assert_in_range(sxt_top_columns_of(line), 1, width + 1);
			for (size_t i = 0; i < cnt; i++) {
				sxt_top_row_line(&layout, &look, list[i], line);
				assert_in_range(sxt_top_columns_of(line), 1, width);
			}
		}
		free(list);
	}
	end(rig);
}

static void numbers_take_five_characters(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} durations[] = {
		{0, "<1us"},           {1000, "1.0us"},      {9949, "9.9us"},
		{9950, "10us"},        {999499, "999us"},    {999500, "1.0ms"},
		{999499999, "999ms"},  {999500000, "1.0s"},  {13700000000, "14s"},
		{3600 * SEC, "3600s"}, {36000 * SEC, "10h"}, {SXT_TOP_UNKNOWN, "-"},
	};
	static const struct {
		double rate;
		const char *text;
	} rates[] = {{0, "0.00"},       {0.001, "<0.01"}, {0.005, "0.01"}, {99.99, "99.99"},
		     {99.996, "100.0"}, {999.96, "1000"}, {NAN, "-"}};
	char text[SXT_TOP_CELL_BYTES];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(durations); i++) {
		sxt_top_print_ns(durations[i].ns, text);
		assert_string_equal(text, durations[i].text);
	}
	for (size_t i = 0; i < SXT_ARRAY_LEN(rates); i++) {
		sxt_top_print_rate(rates[i].rate, text);
		assert_string_equal(text, rates[i].text);
	}
	sxt_top_print_count(99999, text);
	assert_string_equal(text, "99999");
	sxt_top_print_count(100000, text);
	assert_string_equal(text, "100k");
	sxt_top_print_count(1234567, text);
	assert_string_equal(text, "1.2M");
	sxt_top_print_count(UINT64_MAX - 1, text);
	assert_string_equal(text, "18E");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_differences_over_time),
		cmocka_unit_test(a_record_given_away_is_not_subtracted),
		cmocka_unit_test(what_gave_up_its_record_counts_once),
		cmocka_unit_test(those_without_a_record_are_a_row_each_way),
		cmocka_unit_test(counters_that_went_back_are_no_traffic),
		cmocka_unit_test(waits_of_the_interval_leave_out_what_was_before),
		cmocka_unit_test(what_is_dead_has_an_average_and_no_rate),
		cmocka_unit_test(nothing_done_for_as_long_as_its_setting_says_is_a_stall),
		cmocka_unit_test(failed_connections_are_counted),
		cmocka_unit_test(a_line_is_never_wider_than_asked),
		cmocka_unit_test(numbers_take_five_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
