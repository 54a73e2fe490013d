/*
 * test_claims.c - each block has the writers that segment.h names, and no other: every call is
 * made between two looks at the whole segment, and what changed must be what it may write.
 */
#include "telemetry/own.h"
#include "tests/unit/telemetry/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sxt_tele *tele;
static char *before;

static int set_up(void **state)
{
	rig_set_up(state);
	tele = rig_create(2);
	before = malloc(tele->bytes);
	assert_non_null(before);
	return 0;
}

static int tear_down(void **state)
{
	free(before);
	sxt_tele_destroy(tele);
	return rig_tear_down(state);
}

static void look(void)
{
	memcpy(before, tele->header, tele->bytes);
}

/* What a call was allowed to write is made as it was; the rest has to be already. */
static void allow(const void *block, size_t bytes)
{
	size_t at = (size_t)((const char *)block - (const char *)tele->header);

	memcpy(before + at, block, bytes);
}

#define ALLOW(lvalue)              allow(&(lvalue), sizeof(lvalue))
#define ALLOW_HEAD(record, member) allow((record), offsetof(__typeof__(*(record)), member))

static void require_nothing_else(void)
{
	assert_memory_equal(before, tele->header, tele->bytes);
}

static void allow_event(void)
{
	ALLOW(tele->header->events);
	ALLOW(tele->header->warnings);
	ALLOW(tele->events[(tele->header->events - 1) % SXT_TELE_EVENTS_CAP]);
}

/* A block that a thread of its own writes shares no cache line with another's. */
static void blocks_of_different_writers_share_no_cache_line(void **state)
{
	const uint64_t ends[] = {sizeof(struct sxt_tele_header),
				 offsetof(struct sxt_tele_conn, counters),
				 offsetof(struct sxt_tele_conn, reserved2),
				 offsetof(struct sxt_tele_path, messages),
				 sizeof(struct sxt_tele_port),
				 sizeof(struct sxt_tele_link),
				 sizeof(struct sxt_tele_conn),
				 sizeof(struct sxt_tele_path),
				 sizeof(struct sxt_tele_comm),
				 sizeof(struct sxt_tele_event)};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(ends); i++)
		assert_int_equal(ends[i] % SXT_CACHELINE, 0);
	for (size_t i = 0; i < SXT_TELE_SECTIONS; i++)
		assert_int_equal(tele->header->sections[i].offset % SXT_CACHELINE, 0);
	assert_int_equal((uintptr_t)tele->header % SXT_CACHELINE, 0);
}

static void the_watcher_writes_ports_and_an_event(void **state)
{
	const struct sxt_tele_port port = {.state = SXT_TELE_PORT_UP, .hca = "mlx5_0", .num = 1};

	(void)state;
	look();
	sxt_tele_port_set(tele, 3, &port);
	ALLOW(tele->ports[3]);
	ALLOW(tele->header->used);
	allow_event();
	require_nothing_else();
}

static void an_event_is_its_slot_and_its_count(void **state)
{
	(void)state;
	look();
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, "line");
	allow_event();
	require_nothing_else();
}

static struct sxt_tele_path *paths_of(const struct sxt_tele_handle *handle)
{
	return &tele->paths[tele->conns[handle->conn].path_first];
}

static void opening_writes_the_record_its_paths_and_its_link(void **state)
{
	struct sxt_tele_handle handle;

	(void)state;
	look();
	handle = rig_open(tele, 1, 2);
	ALLOW(tele->conns[handle.conn]);
	allow(paths_of(&handle), 2 * sizeof(struct sxt_tele_path));
	ALLOW(tele->links[handle.link]);
	ALLOW(tele->header->conns_opened);
	ALLOW(tele->header->used);
	allow_event();
	require_nothing_else();
}

/* The data path may still count when the watcher finds out that the connection failed. */
static void failing_and_ending_leave_the_counters_to_the_data_path(void **state)
{
	struct sxt_tele_handle handle = rig_open(tele, 1, 2);

	(void)state;
	look();
	sxt_tele_conn_fail(tele, &handle, EIO, "gone");
	ALLOW_HEAD(&tele->conns[handle.conn], counters);
	allow_event();
	require_nothing_else();
	sxt_tele_conn_end(tele, &handle);
	ALLOW(tele->links[handle.link].conns);
	require_nothing_else();
}

static void the_data_path_writes_its_counters(void **state)
{
	struct sxt_tele_handle handle = rig_open(tele, 1, 2);

	(void)state;
	look();
	memset(handle.counters, 1, sizeof(*handle.counters));
	ALLOW(tele->conns[handle.conn].counters);
	require_nothing_else();
}

static void giving_a_record_away_folds_it_and_leaves_the_neighbour(void **state)
{
	struct sxt_tele_handle first = rig_open(tele, 1, 1);
	struct sxt_tele_handle second = rig_open(tele, 1, 1);
	struct sxt_tele_handle third;

	(void)state;
	sxt_tele_add64(&first.counters->bytes, 5);
	sxt_tele_add64(&second.counters->bytes, 7);
	sxt_tele_conn_end(tele, &first);
	look();
	third = rig_open(tele, 1, 1);
	assert_int_equal(third.conn, first.conn);
	ALLOW(tele->conns[third.conn]);
	ALLOW(*paths_of(&third));
	ALLOW(tele->links[third.link]);
	ALLOW(tele->header->conns_opened);
	allow_event();
	require_nothing_else();
	assert_int_equal(tele->links[third.link].flows[0].bytes, 5);
}

static void a_connection_without_a_record_writes_outside_of_the_segment(void **state)
{
	struct sxt_tele_handle handles[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		handles[i] = rig_open(tele, 1, 0);
	assert_int_equal(handles[2].conn, UINT32_MAX);
	look();
	memset(handles[2].counters, 1, sizeof(*handles[2].counters));
	require_nothing_else();
	sxt_tele_add_shared(tele, UINT64_MAX);
	ALLOW(tele->links[handles[2].link].flows);
	require_nothing_else();
	sxt_tele_conn_end(tele, &handles[2]);
	ALLOW(tele->links[handles[2].link]);
	allow_event();
	require_nothing_else();
}

static void a_communicator_is_its_record(void **state)
{
	uint32_t i;

	(void)state;
	look();
	i = sxt_tele_comm_open(tele, 7);
	ALLOW(tele->comms[i]);
	ALLOW(tele->header->used);
	require_nothing_else();
	sxt_tele_comm_end(tele, i);
	ALLOW(tele->comms[i]);
	require_nothing_else();
}

static void closing_writes_the_header(void **state)
{
	(void)state;
	look();
	sxt_tele_note_abi(tele, 11);
	ALLOW(tele->header->abi);
	require_nothing_else();
	sxt_tele_retire(tele);
	ALLOW(tele->header->state);
	ALLOW(tele->header->closed_wall_ns);
	ALLOW(tele->header->ticks_per_sec);
	require_nothing_else();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_of_different_writers_share_no_cache_line),
		TEST(the_watcher_writes_ports_and_an_event),
		TEST(an_event_is_its_slot_and_its_count),
		TEST(opening_writes_the_record_its_paths_and_its_link),
		TEST(failing_and_ending_leave_the_counters_to_the_data_path),
		TEST(the_data_path_writes_its_counters),
		TEST(giving_a_record_away_folds_it_and_leaves_the_neighbour),
		TEST(a_connection_without_a_record_writes_outside_of_the_segment),
		TEST(a_communicator_is_its_record),
		TEST(closing_writes_the_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
