/*
 * logger.c - see logger.h.
 */
#include "tests/fake/logger.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct {
	pthread_mutex_t lock;
	char text[65536];
	size_t used;
	bool is_full;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

void heard_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	char text[4096];
	va_list args;
	size_t room;
	int len;

	(void)flags;
	(void)file;
	(void)line;
	if (level != NCCL_LOG_WARN && level != NCCL_LOG_INFO)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&heard.lock);
	room = sizeof(heard.text) - heard.used;
	len = snprintf(heard.text + heard.used, room, "%s %s\n",
		       level == NCCL_LOG_WARN ? "WARN" : "INFO", text);
	if ((size_t)len < room)
		heard.used += (size_t)len;
	else
		heard.is_full = true; /* told by the test's thread */
	pthread_mutex_unlock(&heard.lock);
}

void heard_forget(void)
{
	pthread_mutex_lock(&heard.lock);
	heard.used = 0;
	heard.text[0] = '\0';
	pthread_mutex_unlock(&heard.lock);
}

const char *heard_text(void)
{
	return heard.text;
}

int heard_cnt(const char *words)
{
	bool is_full;
	int cnt = 0;

	pthread_mutex_lock(&heard.lock);
	is_full = heard.is_full;
	for (const char *at = strstr(heard.text, words); at != NULL; at = strstr(at + 1, words))
		cnt++;
	pthread_mutex_unlock(&heard.lock);
	assert_false(is_full);
	return cnt;
}

void assert_heard(const char *words)
{
	if (heard_cnt(words) == 0)
		fail_msg("no line says \"%s\"; the lines:\n%s", words, heard.text);
}

void assert_heard_times(int cnt, const char *words)
{
	int told_cnt = heard_cnt(words);

	if (told_cnt != cnt)
		fail_msg("\"%s\" is said %d times, not %d; the lines:\n%s", words, told_cnt, cnt,
			 heard.text);
}
