/*
 * test_reap.c - which segments of dead processes a new one removes.
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
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES (1 << 20)

/* Leaves a dead segment under a name of its own, last written so many seconds ago. */
static void leave_one(unsigned number, uint64_t age_sec)
{
	struct sxt_tele *tele = rig_create(1);
	char path[PATH_MAX];
	char name[PATH_MAX];

	/* Time stamps go back with the moment it was made; nothing in it is later. */
	tele->header->made_wall_ns -= age_sec * SXT_NS_PER_SEC;
	rig_leave(tele, path);
	snprintf(name, sizeof(name), "%s/sextant-%u-1-%u", rig_dir, geteuid(), number);
	assert_int_equal(rename(path, name), 0);
}

static bool is_there(unsigned number)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/sextant-%u-1-%u", rig_dir, geteuid(), number);
	return access(name, F_OK) == 0;
}

static void the_dead_stay_as_long_as_they_may(void **state)
{
	(void)state;
	leave_one(1, 10);
	leave_one(2, 500);
	leave_one(3, 700);
	sxt_tele_reap(rig_dir, 600, BYTES);
	assert_true(is_there(1));
	assert_true(is_there(2));
	assert_false(is_there(3));
	sxt_tele_reap(rig_dir, 0, BYTES);
	assert_false(is_there(1));
	assert_false(is_there(2));
}

static void the_age_counts_from_the_last_sign_of_life(void **state)
{
	struct sxt_tele *tele = rig_create(1);

	(void)state;
	/* Made an hour ago, and written to just now. */
	tele->header->made_wall_ns -= 3600 * SXT_NS_PER_SEC;
	tele->header->made_ticks -= 3600 * tele->header->ticks_per_sec;
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, "alive");
	rig_leave(tele, NULL);
	sxt_tele_reap(rig_dir, 600, BYTES);
	assert_int_equal(rig_files(), 1);
}

static void the_living_are_not_touched(void **state)
{
	struct sxt_tele *tele = rig_create(1);

	(void)state;
	tele->header->made_wall_ns -= 3600 * SXT_NS_PER_SEC;
	sxt_tele_reap(rig_dir, 0, BYTES);
	assert_int_equal(rig_files(), 1);
	sxt_tele_destroy(tele);
}

static void only_the_newest_of_very_many_stay(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SXT_TELE_DEAD_MAX + 3; i++)
		leave_one(i, 100 + i);
	sxt_tele_reap(rig_dir, 3600, BYTES);
	assert_int_equal(rig_files(), SXT_TELE_DEAD_MAX);
	assert_true(is_there(0));
	assert_false(is_there(SXT_TELE_DEAD_MAX));
}

static void the_dead_make_room_for_the_living(void **state)
{
	(void)state;
	leave_one(1, 10);
	leave_one(2, 20);
	sxt_tele_reap(rig_dir, 3600, UINT64_MAX / 2); /* more than there ever is */
	assert_int_equal(rig_files(), 0);
}

static void what_is_no_segment_stays_until_it_cannot_become_one(void **state)
{
	const struct timespec old[2] = {{1000, 0}, {1000, 0}};
	char name[PATH_MAX];
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "%s/sextant-%u-1-5", rig_dir, geteuid());
	fd = open(name, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	sxt_tele_reap(rig_dir, 0, BYTES); /* a process may be about to write into it */
	assert_true(is_there(5));
	assert_int_equal(futimens(fd, old), 0);
	close(fd);
	sxt_tele_reap(rig_dir, 0, BYTES);
	assert_false(is_there(5));
}

static _Atomic bool is_made;

static void *reap_all_the_time(void *arg)
{
	while (!atomic_load(&is_made))
		sxt_tele_reap(rig_dir, 3600, BYTES);
	return arg;
}

/* Whether a process lives is asked by taking its lock; a new one must never find it taken. */
static void the_lock_of_one_that_is_being_made_is_free(void **state)
{
	char name[PATH_MAX];
	pthread_t reaper;
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "%s/sextant-%u-1-5", rig_dir, geteuid());
	fd = open(name, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	atomic_store(&is_made, false);
	assert_int_equal(pthread_create(&reaper, NULL, reap_all_the_time, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
		assert_int_equal(flock(fd, LOCK_UN), 0);
	}
	atomic_store(&is_made, true);
	pthread_join(reaper, NULL);
	close(fd);
}

static void names_that_are_not_ours_stay(void **state)
{
	static const char *const names[] = {"sextant-1-2",
					    "sextant-1-2-3-4",
					    "sextant--1-2",
					    "sextant-1-2-3x",
					    "sextant-1-2-99999999999999999999",
					    "sextant-99999999999-2-3",
					    "sextant-soft-0"};
	const struct timespec old[2] = {{1000, 0}, {1000, 0}};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", rig_dir, names[i]);
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		assert_true(fd >= 0);
		futimens(fd, old);
		close(fd);
	}
	assert_int_equal(rig_files(), 0);
	sxt_tele_reap(rig_dir, 0, BYTES);
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", rig_dir, names[i]);
		assert_int_equal(access(path, F_OK), 0);
	}
}

/* As another user: may it read, does it reap? Return: the child's exit status. */
static int visit_as(uid_t uid, const char *path)
{
	struct sxt_tele_view *view;
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (setgid(uid) != 0 || setuid(uid) != 0)
			_exit(1);
		if (sxt_tele_open(path, &view) != -EACCES)
			_exit(2);
		sxt_tele_reap(rig_dir, 0, BYTES);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void another_users_segments_are_neither_read_nor_reaped(void **state)
{
	char name[PATH_MAX];

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(rig_dir, 0777), 0); /* one that anybody may remove files from */
	leave_one(1, 700);
	snprintf(name, sizeof(name), "%s/sextant-0-1-1", rig_dir);
	assert_int_equal(visit_as(65534, name), 0);
	assert_true(is_there(1));
	/* Nor does the name alone make it ours. */
	assert_int_equal(chown(name, 65534, 65534), 0);
	sxt_tele_reap(rig_dir, 0, BYTES);
	assert_true(is_there(1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_dead_stay_as_long_as_they_may),
		TEST(the_age_counts_from_the_last_sign_of_life),
		TEST(the_living_are_not_touched),
		TEST(only_the_newest_of_very_many_stay),
		TEST(the_dead_make_room_for_the_living),
		TEST(what_is_no_segment_stays_until_it_cannot_become_one),
		TEST(the_lock_of_one_that_is_being_made_is_free),
		TEST(names_that_are_not_ours_stay),
		TEST(another_users_segments_are_neither_read_nor_reaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
