/*
 * test_log.c - what reaches the sink and the file, and how often a message may repeat.
 */
#include "core/log.h"

#include "core/sys.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char last_text[4096];
static enum sxt_log_level last_level;
static int lines_cnt;

static void remember(enum sxt_log_level level, const char *file, int line, const char *text)
{
	assert_non_null(strstr(file, "test_log.c"));
	assert_true(line > 0);
	last_level = level;
	snprintf(last_text, sizeof(last_text), "%s", text);
	lines_cnt++;
	errno = EBADF; /* a sink that is careless with errno */
}

static int listen_in(void **state)
{
	(void)state;
	lines_cnt = 0;
	sxt_log_set_sink(remember);
	return 0;
}

static void lines_above_the_level_are_dropped(void **state)
{
	(void)state;
	SXT_LOG(SXT_LOG_DEBUG, "not heard");
	assert_int_equal(lines_cnt, 0);
	SXT_LOG(SXT_LOG_INFO, "qp %#x: heard", 0x1a2b);
	assert_int_equal(lines_cnt, 1);
	assert_int_equal(last_level, SXT_LOG_INFO);
	assert_string_equal(last_text, "qp 0x1a2b: heard");
}

static void arguments_of_dropped_lines_are_not_evaluated(void **state)
{
	int evaluated_cnt = 0;

	(void)state;
	SXT_LOG(SXT_LOG_DEBUG, "%d", ++evaluated_cnt);
	assert_int_equal(evaluated_cnt, 0);
}

static void errno_is_told_and_kept(void **state)
{
	(void)state;
	errno = ECONNREFUSED;
	SXT_LOG(SXT_LOG_WARN, "peer: %m");
	assert_int_equal(errno, ECONNREFUSED);
	assert_string_equal(last_text, "peer: Connection refused");
}

static void a_long_line_is_cut_not_lost(void **state)
{
	char huge[5000];

	(void)state;
	memset(huge, 'x', sizeof(huge));
	huge[sizeof(huge) - 1] = '\0';
	SXT_LOG(SXT_LOG_ERROR, "%s", huge);
	assert_int_equal(lines_cnt, 1);
	assert_int_equal(strlen(last_text), 2047);
}

static void nobody_needs_to_listen(void **state)
{
	(void)state;
	sxt_log_set_sink(NULL);
	SXT_LOG(SXT_LOG_ERROR, "to nobody");
	assert_int_equal(lines_cnt, 0);
}

/* The last line of a file, without its newline. */
static void read_last_line(const char *path, char *out, int out_bytes)
{
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	while (fgets(out, out_bytes, file) != NULL)
		;
	fclose(file);
	out[strcspn(out, "\n")] = '\0';
}

static void the_file_gets_every_line_with_time_and_process(void **state)
{
	char dir[] = "/tmp/sxt_log_XXXXXX";
	char pattern[64];
	char path[64];
	char line[4096] = "";
	char wanted[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(pattern, sizeof(pattern), "%s/log.%%p", dir);
	snprintf(path, sizeof(path), "%s/log.%d", dir, (int)getpid());
	snprintf(wanted, sizeof(wanted), "Z [%d] WARN port down", (int)getpid());
	assert_int_equal(sxt_log_set_file(pattern), 0);
	sxt_log_set_sink(NULL);
	SXT_LOG(SXT_LOG_WARN, "port down");
	read_last_line(path, line, sizeof(line));
	assert_non_null(strstr(line, wanted));

	assert_int_equal(sxt_log_set_file("/nonexistent/folder/log"), -ENOENT);
	SXT_LOG(SXT_LOG_WARN, "still here");
	read_last_line(path, line, sizeof(line));
	assert_non_null(strstr(line, "still here"));

	assert_int_equal(sxt_log_set_file(NULL), 0);
	SXT_LOG(SXT_LOG_WARN, "closed");
	read_last_line(path, line, sizeof(line));
	assert_null(strstr(line, "closed"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void a_path_that_does_not_fit_is_refused(void **state)
{
	static char path[8192];

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	assert_int_equal(sxt_log_set_file(path), -ENAMETOOLONG);
}

static void repeats_are_held_back_and_counted(void **state)
{
	struct sxt_log_limit limit = {0};
	uint32_t held_cnt = 77;

	(void)state;
	assert_true(sxt_log_allow(&limit, 1000, SXT_NS_PER_SEC, &held_cnt));
	assert_int_equal(held_cnt, 0);
	held_cnt = 77;
	assert_false(sxt_log_allow(&limit, 1001, SXT_NS_PER_SEC, &held_cnt));
	assert_false(sxt_log_allow(&limit, 999 + SXT_NS_PER_SEC, SXT_NS_PER_SEC, &held_cnt));
	assert_int_equal(held_cnt, 77);
	assert_true(sxt_log_allow(&limit, 1000 + SXT_NS_PER_SEC, SXT_NS_PER_SEC, &held_cnt));
	assert_int_equal(held_cnt, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lines_above_the_level_are_dropped, listen_in),
		cmocka_unit_test_setup(arguments_of_dropped_lines_are_not_evaluated, listen_in),
		cmocka_unit_test_setup(errno_is_told_and_kept, listen_in),
		cmocka_unit_test_setup(a_long_line_is_cut_not_lost, listen_in),
		cmocka_unit_test_setup(nobody_needs_to_listen, listen_in),
		cmocka_unit_test_setup(the_file_gets_every_line_with_time_and_process, listen_in),
		cmocka_unit_test(a_path_that_does_not_fit_is_refused),
		cmocka_unit_test(repeats_are_held_back_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
