/*
 * log.c - NCCL's logger as plugins see it: filtered lines to standard error, and the last WARN
 * kept for error messages. Any thread, several at once.
 */
#include "cli/driver/net.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_warn[1024];
static int shown_level = NCCL_LOG_WARN;
static int own_rank;

static const char *const level_names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};

int sxt_drv_log_set(const char *level, int rank)
{
	for (size_t i = 0; i < SXT_ARRAY_LEN(level_names); i++) {
		if (strcasecmp(level, level_names[i]) == 0) {
			shown_level = (int)i;
			own_rank = rank;
			return 0;
		}
	}
	return -EINVAL;
}

void sxt_drv_log_last_warn(char *out, size_t out_bytes)
{
	pthread_mutex_lock(&lock);
	snprintf(out, out_bytes, "%s", last_warn);
	pthread_mutex_unlock(&lock);
}

void sxt_drv_logger(int level, unsigned long flags, const char *file, int line, const char *fmt,
		    ...)
{
	int saved_errno = errno;
	char text[1024];
	const char *slash;
	va_list args;

	(void)flags;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (level == NCCL_LOG_WARN) {
		pthread_mutex_lock(&lock);
		snprintf(last_warn, sizeof(last_warn), "%s", text);
		pthread_mutex_unlock(&lock);
	}
	if (level > NCCL_LOG_NONE && level <= shown_level &&
	    (size_t)level < SXT_ARRAY_LEN(level_names)) {
		slash = file != NULL ? strrchr(file, '/') : NULL;
		fprintf(stderr, "[%d] NCCL %s %s:%d %s\n", own_rank, level_names[level],
			slash != NULL ? slash + 1 : (file != NULL ? file : "?"), line, text);
	}
	errno = saved_errno;
}
