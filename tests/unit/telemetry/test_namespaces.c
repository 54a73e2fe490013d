/*
 * test_namespaces.c - two pid namespaces that share one folder: the same process number in both,
 * and readers and reapers outside of either.
 */
#include "tests/unit/telemetry/rig.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Process 1 of a namespace of its own, which lives until a pipe is closed. */
struct inside {
	pid_t outer; /* its parent, which ends after it */
	int lives;   /* the pipe */
};

static struct inside insides[2] = {{0, -1}, {0, -1}};

static void write_until_closed(int told, int lives)
{
	struct sxt_tele *tele = rig_create(2);
	char pid = (char)getpid();

	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, "inside");
	sxt_ignore(write(told, &pid, 1));
	sxt_ignore(read(lives, &pid, 1));
	_exit(0); /* the segment stays as after a crash */
}

static void be_outer(int told, int lives)
{
	pid_t first;

	for (size_t i = 0; i < SXT_ARRAY_LEN(insides); i++)
		close(insides[i].lives);
	if (unshare(CLONE_NEWPID | (geteuid() != 0 ? CLONE_NEWUSER : 0)) != 0)
		_exit(77);
	first = fork();
	if (first == 0)
		write_until_closed(told, lives);
	close(told);
	waitpid(first, NULL, 0);
	_exit(0);
}

/* Return: false where namespaces cannot be made. */
static bool start(struct inside *out)
{
	int told[2];
	int lives[2];
	char pid = 0;

	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(lives), 0);
	out->outer = fork();
	if (out->outer == 0) {
		close(lives[1]);
		be_outer(told[1], lives[0]);
	}
	close(told[1]);
	close(lives[0]);
	out->lives = lives[1];
	sxt_ignore(read(told[0], &pid, 1));
	close(told[0]);
	return pid == 1;
}

static void end(struct inside *inside)
{
	close(inside->lives);
	inside->lives = -1;
	assert_int_equal(waitpid(inside->outer, NULL, 0), inside->outer);
}

static void require_lives(const char *path, bool wanted)
{
	struct sxt_tele_view *view = NULL;

	assert_int_equal(sxt_tele_open(path, &view), 0);
	assert_int_equal(sxt_tele_header(view)->pid, 1);
	assert_true(sxt_tele_refresh(view) == wanted);
	sxt_tele_close(view);
}

/* Process 1 out here lives all the time, and so does nobody's segment for it. */
static void who_lives_is_known_across_namespaces(void **state)
{
	struct sxt_tele_file *files = NULL;
	size_t cnt = 0;

	(void)state;
	if (!start(&insides[0])) {
		end(&insides[0]);
		skip();
	}
	assert_true(start(&insides[1]));
	assert_int_equal(sxt_tele_list(rig_dir, &files, &cnt), 0);
	assert_int_equal(cnt, 2); /* both number 1, and each with a file of its own */
	require_lives(files[0].path, true);
	require_lives(files[1].path, true);
	sxt_tele_reap(rig_dir, 0, 1);
	assert_int_equal(rig_files(), 2);

	end(&insides[0]);
	assert_int_equal(rig_files(), 2); /* readable as long as it may stay */
	sxt_tele_reap(rig_dir, 3600, 1);
	assert_int_equal(rig_files(), 2);
	sxt_tele_reap(rig_dir, 0, 1);
	assert_int_equal(rig_files(), 1);
	end(&insides[1]);
	sxt_tele_reap(rig_dir, 0, 1);
	assert_int_equal(rig_files(), 0);
	free(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_lives_is_known_across_namespaces, rig_set_up,
						rig_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
