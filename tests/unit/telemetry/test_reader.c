/*
 * test_reader.c - what a reader makes of files and bytes that are no segment, damaged, half
 * written, or of another release.
 */
#include "telemetry/own.h"
#include "tests/unit/telemetry/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A copy of a small live segment's bytes, for a test to damage. */
static struct sxt_tele_header *copy_of_one(size_t *bytes_out)
{
	struct sxt_tele *tele = rig_create(2);
	struct sxt_tele_handle handle = rig_open(tele, 1, 2);
	struct sxt_tele_header *copy = malloc(tele->bytes);

	assert_non_null(copy);
	sxt_tele_add64(&handle.counters->bytes, 4711);
	memcpy(copy, tele->header, tele->bytes);
	*bytes_out = tele->bytes;
	sxt_tele_destroy(tele);
	return copy;
}

static struct sxt_tele_conn *first_conn(struct sxt_tele_header *header)
{
	return (void *)((char *)header + header->sections[SXT_TELE_CONNS].offset);
}

static void bytes_in_memory_are_read_like_a_file(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_view *view = NULL;
	struct sxt_tele_conn conn;

	(void)state;
	assert_int_equal(sxt_tele_map(copy, bytes, copy->made_ticks + 5, &view), 0);
	assert_true(sxt_tele_refresh(view)); /* no lock to ask for: the state decides */
	assert_int_equal(sxt_tele_now(view), copy->made_ticks + 5);
	assert_true(sxt_tele_conn_get(view, 0, &conn));
	assert_int_equal(conn.counters.bytes, 4711);
	assert_false(sxt_tele_conn_get(view, 1, &conn));
	assert_false(sxt_tele_conn_get(view, 2, &conn));
	assert_int_equal(sxt_tele_cap(view, SXT_TELE_CONNS), 2);
	assert_int_equal(sxt_tele_cap(view, SXT_TELE_PATHS), 4);
	assert_int_equal(sxt_tele_cap(view, (enum sxt_tele_section_kind)17), 0);
	sxt_tele_close(view);
	free(copy);
}

static void require_refused(struct sxt_tele_header *copy, size_t bytes, int rc)
{
	struct sxt_tele_view *view = NULL;

	assert_int_equal(sxt_tele_map(copy, bytes, 1, &view), rc);
	assert_null(view);
}

static void a_header_that_is_not_sound_is_refused(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_header good = *copy;

	(void)state;
#define REFUSED(member, value, rc)                  \
	do {                                        \
		copy->member = (value);             \
		require_refused(copy, bytes, (rc)); \
		*copy = good;                       \
	} while (0)
	REFUSED(magic, 7, -EPROTO);
	REFUSED(version, SXT_TELE_VERSION + 1, -EPROTONOSUPPORT);
	REFUSED(state, SXT_TELE_MAKING, -EAGAIN);
	REFUSED(state, 3, -EPROTO);
	REFUSED(bytes_of_header, 4088, -EPROTO);
	REFUSED(bytes, bytes + 8, -EPROTO);
	REFUSED(ticks_per_sec, 0, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].offset, 4100, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].offset, 0, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].offset, UINT64_MAX - 7, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].stride, 2044, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].stride, 1024, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].stride, 0, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS].cap, UINT32_MAX, -EPROTO);
	REFUSED(sections[SXT_TELE_EVENTS].cap, SXT_TELE_EVENTS_CAP + 1, -EPROTO);
	REFUSED(sections[SXT_TELE_LINKS].offset, good.sections[SXT_TELE_PORTS].offset, -EPROTO);
	REFUSED(sections[SXT_TELE_CONNS], (struct sxt_tele_section){0}, -EPROTO);
	REFUSED(sections[SXT_TELE_EVENTS], (struct sxt_tele_section){0}, -EPROTO);
#undef REFUSED
	require_refused(copy, 4095, -EPROTO);
	require_refused(copy, 0, -EPROTO);
	require_refused((void *)((char *)copy + 4), bytes - 4, -EINVAL);
	free(copy);
}

static void records_that_grew_are_read_by_their_stride(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_section *conns = &copy->sections[SXT_TELE_CONNS];
	struct sxt_tele_view *view = NULL;
	struct sxt_tele_conn conn;

	(void)state;
	/* Two records of 2,048 bytes become one of 4,096: the second one is the first's end. */
	conns->stride *= 2;
	conns->cap = 1;
	assert_int_equal(sxt_tele_map(copy, bytes, 1, &view), 0);
	assert_true(sxt_tele_conn_get(view, 0, &conn));
	assert_int_equal(conn.counters.bytes, 4711);
	assert_false(sxt_tele_conn_get(view, 1, &conn));
	sxt_tele_close(view);
	free(copy);
}

static void a_record_whose_writer_died_in_it_is_left_out(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_view *view = NULL;
	struct sxt_tele_conn conn;
	struct sxt_tele_path path;

	(void)state;
	first_conn(copy)->sequence |= 1;
	assert_int_equal(sxt_tele_map(copy, bytes, 1, &view), 0);
	assert_false(sxt_tele_conn_get(view, 0, &conn));
	assert_false(sxt_tele_path_get(view, 0, &path));
	sxt_tele_close(view);
	free(copy);
}

static void texts_come_out_clean(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_view *view = NULL;
	struct sxt_tele_conn conn;

	(void)state;
	memset(copy->host, 0xff, sizeof(copy->host));
	memcpy(copy->job, "a\x1b[31mb", 8);
	memset(first_conn(copy)->text, 'x', sizeof(first_conn(copy)->text));
	assert_int_equal(sxt_tele_map(copy, bytes, 1, &view), 0);
	assert_int_equal(strlen(sxt_tele_header(view)->host), sizeof(copy->host) - 1);
	assert_int_equal(sxt_tele_header(view)->host[0], '?');
	assert_string_equal(sxt_tele_header(view)->job, "a?[31mb");
	assert_true(sxt_tele_conn_get(view, 0, &conn));
	assert_int_equal(strlen(conn.text), sizeof(conn.text) - 1);
	sxt_tele_close(view);
	free(copy);
}

/* What decides where to read does not change after it was checked. */
static void a_header_that_changes_later_moves_nothing(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_view *view = NULL;
	struct sxt_tele_conn conn;

	(void)state;
	assert_int_equal(sxt_tele_map(copy, bytes, 1, &view), 0);
	copy->sections[SXT_TELE_CONNS].offset = 1ull << 40;
	copy->sections[SXT_TELE_CONNS].cap = UINT32_MAX;
	copy->ticks_per_sec = 0;
	sxt_tele_refresh(view);
	assert_int_equal(sxt_tele_cap(view, SXT_TELE_CONNS), 2);
	assert_int_equal(sxt_tele_header(view)->sections[SXT_TELE_CONNS].cap, 2);
	assert_true(sxt_tele_conn_get(view, 0, &conn));
	assert_true(sxt_tele_ns(view, 1000) > 0);
	sxt_tele_close(view);
	free(copy);
}

static void times_are_ns_and_time_of_day(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_view *view = NULL;

	(void)state;
	copy->ticks_per_sec = 3000000000u;
	copy->made_ticks = 9000000000u;
	copy->made_wall_ns = 1767323045 * SXT_NS_PER_SEC;
	assert_int_equal(sxt_tele_map(copy, bytes, 1, &view), 0);
	assert_int_equal(sxt_tele_ns(view, 3000), 1000);
	assert_int_equal(sxt_tele_ns(view, 3000000000ull * 86400 * 365),
			 86400 * 365 * SXT_NS_PER_SEC);
	assert_int_equal(sxt_tele_ns(view, (uint64_t)-3000), 0); /* later than now: not yet */
	assert_int_equal(sxt_tele_wall_ns(view, 0), 0);
	assert_int_equal(sxt_tele_wall_ns(view, 9000003000u), copy->made_wall_ns + 1000);
	assert_int_equal(sxt_tele_wall_ns(view, 8999997000u), copy->made_wall_ns - 1000);
	sxt_tele_close(view);
	free(copy);
}

static void put_file(const char *name, const void *bytes, size_t bytes_cnt)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", rig_dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	if (bytes_cnt > 0)
		assert_int_equal(fwrite(bytes, bytes_cnt, 1, file), 1);
	fclose(file);
}

static int try_open(const char *name)
{
	struct sxt_tele_view *view = NULL;
	char path[PATH_MAX];
	int rc;

	snprintf(path, sizeof(path), "%s/%s", rig_dir, name);
	rc = sxt_tele_open(path, &view);
	sxt_tele_close(view);
	return rc;
}

static void files_that_are_no_segment_are_refused(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	char path[PATH_MAX];

	(void)state;
	assert_int_equal(try_open("none"), -ENOENT);
	put_file("empty", "", 0);
	assert_int_equal(try_open("empty"), -EAGAIN);
	put_file("text", "hello", 5);
	assert_int_equal(try_open("text"), -EPROTO);
	put_file("whole", copy, bytes);
	assert_int_equal(try_open("whole"), 0);
	put_file("cut", copy, bytes - 8);
	assert_int_equal(try_open("cut"), -EPROTO);
	memset(copy, 0, bytes);
	put_file("making", copy, bytes);
	assert_int_equal(try_open("making"), -EAGAIN);
	snprintf(path, sizeof(path), "%s/link", rig_dir);
	assert_int_equal(symlink("whole", path), 0);
	assert_int_equal(try_open("link"), -ELOOP);
	snprintf(path, sizeof(path), "%s/pipe", rig_dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(try_open("pipe"), -EPROTO); /* and does not wait for a writer */
	free(copy);
}

static void a_list_is_by_process_and_of_segments_only(void **state)
{
	static const char *const names[] = {"sextant-0-30-1", "sextant-0-4-2", "sextant-0-4-1",
					    "sextant-0-4",    "other-0-4-1",   "sextant-0-4-1.tmp"};
	struct sxt_tele_file *files = NULL;
	size_t cnt = 0;

	(void)state;
	assert_int_equal(sxt_tele_list("/dev/shm/sxt_tele_none", &files, &cnt), -ENOENT);
	assert_int_equal(sxt_tele_list(rig_dir, &files, &cnt), 0);
	assert_int_equal(cnt, 0);
	free(files);
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++)
		put_file(names[i], "", 0);
	assert_int_equal(sxt_tele_list(rig_dir, &files, &cnt), 0);
	assert_int_equal(cnt, 3);
	assert_int_equal(files[0].pid, 4);
	assert_int_equal(files[0].start_time, 1);
	assert_int_equal(files[0].uid, geteuid()); /* the owner, whatever the name says */
	assert_int_equal(files[1].start_time, 2);
	assert_int_equal(files[2].pid, 30);
	assert_non_null(strstr(files[2].path, "/sextant-0-30-1"));
	free(files);
}

/* What the reader says of the first connection, both ways: alone and with all of them. */
static uint64_t bytes_of_first(const struct sxt_tele_view *view)
{
	struct sxt_tele_records conns;
	struct sxt_tele_records paths;
	const struct sxt_tele_path *path;
	struct sxt_tele_conn conn;
	uint64_t bytes = 0;

	assert_int_equal(sxt_tele_records_get(view, SXT_TELE_CONNS, NULL, &conns), 0);
	assert_int_equal(sxt_tele_records_get(view, SXT_TELE_PATHS, &conns, &paths), 0);
	path = sxt_tele_record(&paths, 0);
	if (sxt_tele_conn_get(view, 0, &conn))
		bytes = conn.counters.bytes;
	if (path != NULL)
		assert_true(path->conn == 0);
	sxt_tele_records_fini(&conns);
	sxt_tele_records_fini(&paths);
	return bytes;
}

static void a_file_cut_short_after_it_was_opened_has_no_records(void **state)
{
	size_t bytes;
	struct sxt_tele_header *copy = copy_of_one(&bytes);
	struct sxt_tele_view *view = NULL;
	struct sxt_tele_event event;
	char path[PATH_MAX];

	(void)state;
	snprintf(path, sizeof(path), "%s/whole", rig_dir);
	put_file("whole", copy, bytes);
	assert_int_equal(sxt_tele_open(path, &view), 0);
	assert_int_equal(bytes_of_first(view), 4711);
	assert_true(sxt_tele_event_get(view, 0, &event));

	assert_int_equal(truncate(path, 4096), 0);
	assert_int_equal(bytes_of_first(view), 0);
	assert_false(sxt_tele_event_get(view, 0, &event));
	assert_false(sxt_tele_refresh(view));
	assert_int_equal(truncate(path, 0), 0);
	assert_false(sxt_tele_refresh(view));
	assert_int_equal(bytes_of_first(view), 0);
	assert_string_equal(sxt_tele_header(view)->host, copy->host);
	sxt_tele_close(view);
	free(copy);
}

static _Atomic bool is_read; /* enough, by cuts_are_survived_at_any_moment */
static struct sxt_tele_header *whole;
static size_t whole_bytes;

static void *cut_and_mend(void *path)
{
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	while (!atomic_load(&is_read)) {
		assert_int_equal(ftruncate(fd, (off_t)sizeof(*whole)), 0);
		assert_int_equal(pwrite(fd, whole, whole_bytes, 0), whole_bytes);
	}
	close(fd);
	return NULL;
}

/* Under a mapping nearly every run of this ended by SIGBUS. */
static void cuts_are_survived_at_any_moment(void **state)
{
	struct sxt_tele_view *view = NULL;
	char path[PATH_MAX];
	pthread_t cutter;

	(void)state;
	whole = copy_of_one(&whole_bytes);
	snprintf(path, sizeof(path), "%s/whole", rig_dir);
	put_file("whole", whole, whole_bytes);
	assert_int_equal(sxt_tele_open(path, &view), 0);
	atomic_store(&is_read, false);
	assert_int_equal(pthread_create(&cutter, NULL, cut_and_mend, path), 0);
	for (int i = 0; i < 2000; i++) {
		uint64_t bytes = bytes_of_first(view);

		sxt_tele_refresh(view);
		assert_true(bytes == 0 || bytes == 4711);
	}
	atomic_store(&is_read, true);
	pthread_join(cutter, NULL);
	sxt_tele_close(view);
	free(whole);
}

static void records_come_together_as_one_by_one(void **state)
{
	enum {
		CONNS = 100 /* more than are read at once, and fewer than there is room for */
	};
	struct sxt_tele *tele = rig_create(CONNS + 5);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_records conns;
	struct sxt_tele_records paths;

	(void)state;
	for (uint32_t i = 0; i < CONNS; i++) {
		struct sxt_tele_handle handle = rig_open(tele, i, 1);

		sxt_tele_add64(&handle.counters->bytes, 1000 + i);
	}
	tele->conns[7].sequence |= 1; /* its writer died in it */
	tele->conns[40].state = SXT_TELE_CONN_FREE;
	assert_int_equal(sxt_tele_used(view, SXT_TELE_CONNS), 0);
	sxt_tele_refresh(view);
	assert_int_equal(sxt_tele_used(view, SXT_TELE_CONNS), CONNS);
	assert_int_equal(sxt_tele_used(view, SXT_TELE_LINKS), CONNS);
	assert_int_equal(sxt_tele_used(view, SXT_TELE_PATHS), CONNS);
	assert_int_equal(sxt_tele_records_get(view, SXT_TELE_CONNS, NULL, &conns), 0);
	assert_int_equal(sxt_tele_records_get(view, SXT_TELE_PATHS, &conns, &paths), 0);
	assert_int_equal(conns.cnt, CONNS - 2);
	assert_int_equal(paths.cnt, CONNS - 2);
	for (uint32_t i = 0; i < CONNS + 5; i++) {
		const struct sxt_tele_conn *conn = sxt_tele_record(&conns, i);
		const struct sxt_tele_path *path = sxt_tele_record(&paths, i);

		assert_true((conn != NULL) == (i < CONNS && i != 7 && i != 40));
		assert_true((path != NULL) == (conn != NULL));
		if (conn != NULL) {
			assert_int_equal(conn->counters.bytes, 1000 + i);
			assert_int_equal(path->bytes, 1000 + i);
		}
	}
	assert_int_equal(sxt_tele_records_get(view, SXT_TELE_PATHS, NULL, &paths), -EINVAL);
	assert_int_equal(sxt_tele_records_get(view, SXT_TELE_EVENTS, NULL, &paths), -EINVAL);
	sxt_tele_records_fini(&conns);
	sxt_tele_records_fini(&paths);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void a_crashed_ones_last_moment_is_its_last_time_stamp(void **state)
{
	struct sxt_tele *tele = rig_create(2);
	struct sxt_tele_handle handle = rig_open(tele, 1, 0);
	struct sxt_tele_view *view = rig_view(tele);
	uint64_t last = sxt_tele_ticks() + 1000 * tele->made.ticks_per_sec;

	(void)state;
	sxt_tele_set64(&handle.counters->last_done, last);
	assert_true(sxt_tele_refresh(view));
	assert_true(sxt_tele_now(view) < last);
	rig_leave(tele, NULL);
	assert_false(sxt_tele_refresh(view));
	assert_int_equal(sxt_tele_now(view), last);
	assert_int_equal(sxt_tele_header(view)->state, SXT_TELE_LIVE); /* it could not say so */
	sxt_tele_close(view);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_in_memory_are_read_like_a_file),
		TEST(a_header_that_is_not_sound_is_refused),
		TEST(records_that_grew_are_read_by_their_stride),
		TEST(a_record_whose_writer_died_in_it_is_left_out),
		TEST(texts_come_out_clean),
		TEST(a_header_that_changes_later_moves_nothing),
		TEST(times_are_ns_and_time_of_day),
		TEST(files_that_are_no_segment_are_refused),
		TEST(a_list_is_by_process_and_of_segments_only),
		TEST(a_file_cut_short_after_it_was_opened_has_no_records),
		TEST(cuts_are_survived_at_any_moment),
		TEST(records_come_together_as_one_by_one),
		TEST(a_crashed_ones_last_moment_is_its_last_time_stamp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
