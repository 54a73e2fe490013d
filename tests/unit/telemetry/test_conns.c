/*
 * test_conns.c - records of connections: given out, ended, given out again, and more connections
 * than there are records.
 */
#include "telemetry/own.h"
#include "tests/unit/telemetry/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void add(const struct sxt_tele_handle *handle, uint64_t bytes)
{
	sxt_tele_add64(&handle->counters->messages, 1);
	sxt_tele_add64(&handle->counters->bytes, bytes);
}

/* Everything that connections of a segment ever moved, as a reader adds it up. */
static uint64_t bytes_of_all(const struct sxt_tele_view *view)
{
	struct sxt_tele_conn conn;
	struct sxt_tele_link link;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sxt_tele_cap(view, SXT_TELE_CONNS); i++)
		sum += sxt_tele_conn_get(view, i, &conn) ? conn.counters.bytes : 0;
	for (uint32_t i = 0; i < sxt_tele_cap(view, SXT_TELE_LINKS); i++)
		sum += sxt_tele_link_get(view, i, &link) ? link.flows[0].bytes : 0;
	return sum;
}

static void a_connection_is_seen_with_its_link_and_paths(void **state)
{
	struct sxt_tele *tele = rig_create(4);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handle = rig_open(tele, 3, 2);
	struct sxt_tele_conn conn;
	struct sxt_tele_link link;
	struct sxt_tele_path path;

	(void)state;
	add(&handle, 4096);
	assert_true(sxt_tele_conn_get(view, handle.conn, &conn));
	assert_int_equal(conn.state, SXT_TELE_CONN_LIVE);
	assert_int_equal(conn.direction, SXT_TELE_SENDS);
	assert_int_equal(conn.id, 7);
	assert_int_equal(conn.peer_id, 8);
	assert_int_equal(conn.link, handle.link);
	assert_int_equal(conn.paths, 2);
	assert_int_equal(conn.generation, 0);
	assert_int_equal(conn.counters.bytes, 4096);
	assert_in_range(conn.opened, 1, sxt_tele_now(view));
	assert_true(sxt_tele_link_get(view, conn.link, &link));
	assert_string_equal(link.nic, "mlx5_0");
	assert_string_equal(link.peer, "node2:3");
	assert_int_equal(link.conns, 1);
	assert_true(sxt_tele_path_get(view, conn.path_first + 1, &path));
	assert_int_equal(path.qpn, 401);
	assert_int_equal(path.conn, handle.conn);
	assert_int_equal(path.bytes, 2048); /* half of it */
	assert_false(sxt_tele_path_get(view, conn.path_first + 2, &path));
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void communicators_are_told_until_their_records_are_needed(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	const struct sxt_tele_conn_facts facts = {.direction = SXT_TELE_SENDS,
						  .nic = "mlx5_0",
						  .peer = "b:1",
						  .comm = 0xfedcba9876543210};
	struct sxt_tele_handle handle;
	struct sxt_tele_comm comm;
	struct sxt_tele_conn conn;

	(void)state;
	for (uint32_t i = 0; i < SXT_TELE_COMMS_CAP; i++)
		assert_int_equal(sxt_tele_comm_open(tele, 1000 + i), i);
	assert_int_equal(sxt_tele_comm_open(tele, 1), UINT32_MAX);
	sxt_tele_comm_end(tele, UINT32_MAX);
	sxt_tele_comm_end(tele, 9);
	sxt_tele_comm_end(tele, 3);
	assert_true(sxt_tele_comm_get(view, 9, &comm));
	assert_int_equal(comm.id, 1009);
	assert_true(comm.made != 0 && comm.ended >= comm.made);
	assert_int_equal(sxt_tele_comm_open(tele, 2), 9); /* the one that ended first */
	assert_true(sxt_tele_comm_get(view, 9, &comm));
	assert_int_equal(comm.id, 2);
	assert_int_equal(comm.ended, 0);
	sxt_tele_conn_open(tele, &facts, &handle);
	assert_true(sxt_tele_conn_get(view, handle.conn, &conn));
	assert_true(conn.comm == facts.comm);
	sxt_tele_conn_fail(tele, &handle, EIO, "gone");
	assert_true(sxt_tele_conn_get(view, handle.conn, &conn));
	assert_true(conn.comm == facts.comm);
	assert_int_equal(sxt_tele_comm_open(NULL, 1), UINT32_MAX);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void a_lone_paths_counters_are_its_connections(void **state)
{
	struct sxt_tele *tele = rig_create(4);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handle = rig_open(tele, 1, 1);
	struct sxt_tele_path path;

	(void)state;
	add(&handle, 123);
	assert_true(sxt_tele_path_get(view, 0, &path));
	assert_int_equal(path.bytes, 123);
	assert_int_equal(path.messages, 1);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void connections_with_one_peer_share_a_link(void **state)
{
	struct sxt_tele *tele = rig_create(4);
	struct sxt_tele_handle first = rig_open(tele, 1, 0);
	struct sxt_tele_handle second = rig_open(tele, 2, 0);
	struct sxt_tele_handle third = rig_open(tele, 1, 0);

	(void)state;
	assert_int_equal(first.link, third.link);
	assert_int_not_equal(first.link, second.link);
	assert_int_equal(tele->links[first.link].conns, 2);
	sxt_tele_conn_end(tele, &first);
	assert_int_equal(tele->links[first.link].conns, 1);
	sxt_tele_destroy(tele);
}

static void ended_records_stay_until_needed_and_go_oldest_first(void **state)
{
	struct sxt_tele *tele = rig_create(3);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handles[3];
	struct sxt_tele_handle again;
	struct sxt_tele_conn conn;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		handles[i] = rig_open(tele, i, 1);
		add(&handles[i], 100 + i);
	}
	sxt_tele_conn_end(tele, &handles[1]);
	sxt_tele_conn_end(tele, &handles[0]);
	assert_true(sxt_tele_conn_get(view, handles[1].conn, &conn));
	assert_int_equal(conn.state, SXT_TELE_CONN_CLOSED);
	assert_int_equal(conn.counters.bytes, 101);
	assert_true(conn.ended >= conn.opened);

	again = rig_open(tele, 9, 1);
	assert_int_equal(again.conn, handles[1].conn);
	assert_true(sxt_tele_conn_get(view, again.conn, &conn));
	assert_int_equal(conn.state, SXT_TELE_CONN_LIVE);
	assert_int_equal(conn.generation, 1);
	assert_int_equal(conn.counters.bytes, 0);
	assert_int_equal(conn.ended, 0);
	again = rig_open(tele, 9, 1);
	assert_int_equal(again.conn, handles[0].conn);
	again = rig_open(tele, 9, 1);
	assert_int_equal(again.conn, UINT32_MAX);
	assert_int_equal(bytes_of_all(view), 100 + 101 + 102);
	sxt_tele_conn_end(tele, &again);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void a_failed_record_keeps_its_error_and_counts_on(void **state)
{
	struct sxt_tele *tele = rig_create(2);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handle = rig_open(tele, 1, 1);
	struct sxt_tele_conn conn;

	(void)state;
	sxt_tele_conn_fail(tele, &handle, ETIMEDOUT, "mlx5_0:1: retries exceeded\n");
	add(&handle, 5);
	sxt_tele_conn_end(tele, &handle);
	assert_true(sxt_tele_conn_get(view, handle.conn, &conn));
	assert_int_equal(conn.state, SXT_TELE_CONN_FAILED);
	assert_int_equal(conn.error, ETIMEDOUT);
	assert_string_equal(conn.text, "mlx5_0:1: retries exceeded?");
	assert_int_equal(conn.counters.bytes, 5);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void a_connection_without_a_record_is_counted_in_its_link(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle own = rig_open(tele, 1, 1);
	struct sxt_tele_handle lone = rig_open(tele, 1, 1);
	struct sxt_tele_link link;

	(void)state;
	assert_int_equal(lone.conn, UINT32_MAX);
	add(&own, 1000);
	add(&lone, 234);
	sxt_tele_conn_fail(tele, &lone, EIO, "gone");
	sxt_tele_conn_end(tele, &lone);
	assert_true(sxt_tele_link_get(view, lone.link, &link));
	assert_int_equal(link.flows[0].bytes, 234);
	assert_int_equal(link.flows[0].messages, 1);
	assert_int_equal(link.flows[1].bytes, 0);
	assert_int_equal(link.conns, 1);
	assert_int_equal(link.shared[0], 0);
	sxt_tele_refresh(view);
	assert_int_equal(sxt_tele_header(view)->conns_opened, 2);
	assert_int_equal(sxt_tele_header(view)->conns_shared, 1);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static struct sxt_tele_handle open_receiver(struct sxt_tele *tele)
{
	const struct sxt_tele_conn_facts facts = {.direction = SXT_TELE_RECEIVES,
						  .nic = "mlx5_0",
						  .peer = "node2:1"};
	struct sxt_tele_handle handle;

	sxt_tele_conn_open(tele, &facts, &handle);
	return handle;
}

static void those_without_a_record_are_seen_while_they_live(void **state)
{
	struct sxt_tele *tele = rig_create(0);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle out = {0};
	struct sxt_tele_handle in;
	struct sxt_tele_link link;
	uint64_t due_ns;

	(void)state;
	assert_true(sxt_tele_shared_due_ns(tele) == UINT64_MAX);
	out = rig_open(tele, 1, 0);
	in = open_receiver(tele);
	due_ns = sxt_tele_shared_due_ns(tele);
	assert_true(due_ns != UINT64_MAX);
	for (uint64_t i = 1; i <= 2; i++) {
		add(&out, 1000);
		add(&in, 5);
		sxt_tele_add64(&in.counters->not_now, 7);
		sxt_tele_add_shared(tele, due_ns - 1); /* not yet */
		assert_true(sxt_tele_link_get(view, out.link, &link));
		assert_int_equal(link.flows[0].bytes, 1000 * (i - 1));
		sxt_tele_add_shared(tele, due_ns);
		assert_true(sxt_tele_link_get(view, out.link, &link));
		assert_int_equal(link.shared[0], 1);
		assert_int_equal(link.shared[1], 1);
		assert_int_equal(link.flows[0].bytes, 1000 * i);
		assert_int_equal(link.flows[0].messages, i);
		assert_int_equal(link.flows[1].bytes, 5 * i);
		assert_int_equal(link.flows[1].not_now, 7 * i);
		assert_true(sxt_tele_shared_due_ns(tele) > due_ns);
		due_ns = sxt_tele_shared_due_ns(tele);
	}
	add(&in, 100);
	sxt_tele_conn_end(tele, &in);
	sxt_tele_conn_end(tele, &out);
	assert_true(sxt_tele_link_get(view, out.link, &link));
	assert_int_equal(link.flows[0].bytes, 2000);
	assert_int_equal(link.flows[1].bytes, 110);
	assert_int_equal(link.shared[0] + link.shared[1], 0);
	assert_true(sxt_tele_shared_due_ns(tele) == UINT64_MAX);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void no_records_at_all_is_a_segment_too(void **state)
{
	struct sxt_tele *tele = rig_create(0);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handle = rig_open(tele, 1, 1);

	(void)state;
	add(&handle, 9);
	sxt_tele_conn_end(tele, &handle);
	assert_int_equal(bytes_of_all(view), 9);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void a_live_connection_takes_paths_from_ended_ones(void **state)
{
	struct sxt_tele *tele = rig_create(4); /* 8 paths */
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle first = rig_open(tele, 1, 6);
	struct sxt_tele_handle second = rig_open(tele, 2, 4);
	struct sxt_tele_handle third;
	struct sxt_tele_conn conn;
	struct sxt_tele_path path;

	(void)state;
	assert_true(sxt_tele_conn_get(view, second.conn, &conn));
	assert_int_equal(conn.paths, 0); /* the first one lives and keeps them */
	sxt_tele_conn_end(tele, &first);
	third = rig_open(tele, 3, 4);
	assert_true(sxt_tele_conn_get(view, first.conn, &conn));
	assert_int_equal(conn.paths, 0);
	assert_int_equal(conn.state, SXT_TELE_CONN_CLOSED);
	assert_true(sxt_tele_conn_get(view, third.conn, &conn));
	assert_int_equal(conn.paths, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(sxt_tele_path_get(view, conn.path_first + i, &path));
		assert_int_equal(path.qpn, 400 + i);
	}
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void peers_beyond_the_links_share_the_last_one(void **state)
{
	struct sxt_tele *tele = rig_create(2);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handle = {0};
	struct sxt_tele_link link;

	(void)state;
	for (uint32_t i = 0; i < SXT_TELE_LINKS_CAP + 5; i++) {
		handle = rig_open(tele, i, 0);
		add(&handle, 1);
		sxt_tele_conn_end(tele, &handle);
	}
	assert_int_equal(handle.link, SXT_TELE_LINKS_CAP - 1);
	assert_true(sxt_tele_link_get(view, handle.link, &link));
	assert_string_equal(link.peer, "others");
	assert_true(sxt_tele_link_get(view, handle.link - 1, &link));
	assert_string_equal(link.peer, "node2:1022");
	assert_int_equal(bytes_of_all(view), SXT_TELE_LINKS_CAP + 5);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

/* Where a connection may write: its record in the segment, else memory outside of it. */
static void require_own_place(const struct sxt_tele *tele, const struct sxt_tele_handle *handle)
{
	const char *at = (const char *)handle->counters;
	const char *base = (const char *)tele->header;

	if (handle->conn != UINT32_MAX) {
		assert_true(handle->conn < tele->conns_cap);
		assert_ptr_equal(at, &tele->conns[handle->conn].counters);
	} else {
		assert_true(at + sizeof(*handle->counters) <= base || at >= base + tele->bytes);
	}
}

static void ten_thousand_connections_stay_within_the_segment(void **state)
{
	enum {
		CONNS = 10000,
		RECORDS = 4096
	};
	struct sxt_tele *tele = rig_create(RECORDS);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle *handles = calloc(CONNS, sizeof(*handles));
	uint64_t bytes = 0;

	(void)state;
	assert_non_null(handles);
	for (uint32_t i = 0; i < CONNS; i++) {
		handles[i] = rig_open(tele, i % 64, i % 4);
		require_own_place(tele, &handles[i]);
		add(&handles[i], i);
		bytes += i;
	}
	sxt_tele_refresh(view);
	assert_int_equal(sxt_tele_header(view)->conns_opened, CONNS);
	assert_int_equal(sxt_tele_header(view)->conns_shared, CONNS - RECORDS);
	for (uint32_t i = 0; i < CONNS; i++) {
		memset(handles[i].counters, 0xff, sizeof(*handles[i].counters));
		handles[i].counters->bytes = i;
		sxt_tele_conn_end(tele, &handles[i]);
	}
	assert_int_equal(bytes_of_all(view), bytes);
	for (size_t i = 0; i < sizeof(tele->header->reserved); i++)
		assert_int_equal(tele->header->reserved[i], 0);
	free(handles);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_connection_is_seen_with_its_link_and_paths),
		TEST(communicators_are_told_until_their_records_are_needed),
		TEST(a_lone_paths_counters_are_its_connections),
		TEST(connections_with_one_peer_share_a_link),
		TEST(ended_records_stay_until_needed_and_go_oldest_first),
		TEST(a_failed_record_keeps_its_error_and_counts_on),
		TEST(a_connection_without_a_record_is_counted_in_its_link),
		TEST(those_without_a_record_are_seen_while_they_live),
		TEST(no_records_at_all_is_a_segment_too),
		TEST(a_live_connection_takes_paths_from_ended_ones),
		TEST(peers_beyond_the_links_share_the_last_one),
		TEST(ten_thousand_connections_stay_within_the_segment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
