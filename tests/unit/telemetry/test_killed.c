/*
 * test_killed.c - a writer that is killed at any moment, watched all the while: what it leaves is
 * whole, readable, and told to be dead.
 */
#include "tests/unit/telemetry/churn.h"
#include "tests/unit/telemetry/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KILLS 40
#define CONNS 2

static void write_for_ever(void)
{
	struct sxt_tele *tele;

	/* Nor is it left behind by a check that fails. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	tele = rig_create(CONNS);

	for (uint32_t round = 0;; round++)
		churn_step(tele, round);
}

/* The only segment, as soon as it is made. */
static struct sxt_tele_view *wait_for_view(void)
{
	struct sxt_tele_file *files = NULL;
	struct sxt_tele_view *view = NULL;
	size_t cnt = 0;

	while (view == NULL) {
		int rc;

		assert_int_equal(sxt_tele_list(rig_dir, &files, &cnt), 0);
		assert_true(cnt <= 1);
		rc = cnt == 1 ? sxt_tele_open(files[0].path, &view) : -EAGAIN;
		assert_true(rc == 0 || rc == -EAGAIN);
		free(files);
	}
	return view;
}

static void kill_one(unsigned looks)
{
	struct churn_seen *seen = calloc(1, sizeof(*seen));
	struct sxt_tele_view *view;
	struct sxt_tele_view *again;
	int status;
	pid_t child = fork();

	if (child == 0) {
		write_for_ever();
		_exit(0);
	}
	assert_non_null(seen);
	view = wait_for_view();
	assert_true(sxt_tele_refresh(view));
	for (unsigned i = 0; i < looks; i++)
		churn_check(view, seen);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	churn_check(view, seen);
	assert_false(sxt_tele_refresh(view));
	assert_true(sxt_tele_now(view) >= sxt_tele_header(view)->made_ticks);

	again = wait_for_view(); /* still there for whoever comes later */
	churn_check(again, seen);
	assert_int_equal(sxt_tele_now(again), sxt_tele_now(view));
	sxt_tele_close(again);
	sxt_tele_close(view);
	free(seen);
}

static void what_a_killed_writer_leaves_is_whole(void **state)
{
	unsigned random_state = 12345;

	(void)state;
	for (int i = 0; i < KILLS; i++) {
		random_state = random_state * 1103515245 + 12345;
		kill_one(random_state >> 16 & 255);
		sxt_tele_reap(rig_dir, 0, 1);
		assert_int_equal(rig_files(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_a_killed_writer_leaves_is_whole, rig_set_up,
						rig_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
