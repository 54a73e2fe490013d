/*
 * log.c - formatting and delivery of log lines (slow path, any thread).
 */
#include "core/log.h"

#include "core/status.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 2048

_Atomic int sxt_log_max_level = SXT_LOG_INFO;

static _Atomic(sxt_log_sink_fn) log_sink;
static _Atomic(sxt_log_sink_fn) log_tap;
static _Atomic int log_fd = -1;
static pthread_mutex_t log_file_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *level_name(enum sxt_log_level level)
{
	static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};

	return names[level];
}

/* One write(2) per line, so that lines of several threads and processes do not mix. */
static void file_write(int fd, enum sxt_log_level level, const char *text)
{
	char line[LINE_BYTES + 128];
	struct timespec now;
	struct tm tm;
	char when[32];
	int len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	len = snprintf(line, sizeof(line), "%s.%06ldZ [%d] %s %s\n", when, now.tv_nsec / 1000,
		       (int)getpid(), level_name(level), text);
	if (len > 0 && (size_t)len < sizeof(line))
		sxt_ignore(write(fd, line, (size_t)len)); /* a full disk must not stop the job */
}

void sxt_log_emit(enum sxt_log_level level, const char *file, int line, const char *fmt, ...)
{
	int saved_errno = errno;
	char text[LINE_BYTES];
	sxt_log_sink_fn sink;
	va_list args;
	int fd;

	va_start(args, fmt);
	errno = saved_errno; /* for %m */
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);

	sink = atomic_load_explicit(&log_sink, memory_order_acquire);
	if (sink != NULL)
		sink(level, file, line, text);
	sink = atomic_load_explicit(&log_tap, memory_order_acquire);
	if (sink != NULL)
		sink(level, file, line, text);
	fd = atomic_load_explicit(&log_fd, memory_order_acquire);
	if (fd >= 0)
		file_write(fd, level, text);
	errno = saved_errno;
}

void sxt_log_set_tap(sxt_log_sink_fn tap)
{
	atomic_store_explicit(&log_tap, tap, memory_order_release);
}

void sxt_log_set_sink(sxt_log_sink_fn sink)
{
	atomic_store_explicit(&log_sink, sink, memory_order_release);
}

static int expand_path(const char *path, char *out, size_t out_bytes)
{
	size_t used = 0;
	int len;

	for (; *path != '\0'; path++) {
		if (path[0] == '%' && path[1] == 'h') {
			char host[256] = "";

			gethostname(host, sizeof(host) - 1);
			len = snprintf(out + used, out_bytes - used, "%s", host);
			path++;
		} else if (path[0] == '%' && path[1] == 'p') {
			len = snprintf(out + used, out_bytes - used, "%d", (int)getpid());
			path++;
		} else {
			len = snprintf(out + used, out_bytes - used, "%c", *path);
		}
		used += (size_t)len;
		if (used >= out_bytes)
			return -ENAMETOOLONG;
	}
	out[used] = '\0';
	return 0;
}

/*
 * The descriptor, once open, is replaced with dup3 and never closed while lines may be on their
 * way in other threads: a number that stays the log file cannot become somebody's socket.
 */
int sxt_log_set_file(const char *path)
{
	char name[4096] = "/dev/null";
	int rc = 0;
	int fd;

	if (path != NULL && path[0] != '\0')
		rc = expand_path(path, name, sizeof(name));
	if (rc != 0)
		return rc;

	pthread_mutex_lock(&log_file_lock);
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0) {
		rc = -errno;
	} else if (atomic_load_explicit(&log_fd, memory_order_relaxed) < 0) {
		atomic_store_explicit(&log_fd, fd, memory_order_release);
	} else {
		if (dup3(fd, atomic_load_explicit(&log_fd, memory_order_relaxed), O_CLOEXEC) < 0)
			rc = -errno;
		close(fd);
	}
	pthread_mutex_unlock(&log_file_lock);
	return rc;
}

bool sxt_log_allow(struct sxt_log_limit *limit, uint64_t now_ns, uint64_t interval_ns,
		   uint32_t *suppressed_out)
{
	uint64_t next = atomic_load_explicit(&limit->next_ns, memory_order_relaxed);

	/* Relaxed: only the winner of the exchange speaks, and nothing else hangs on the order. */
	if (now_ns < next ||
	    !atomic_compare_exchange_strong_explicit(&limit->next_ns, &next, now_ns + interval_ns,
						     memory_order_relaxed, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&limit->suppressed_cnt, 1, memory_order_relaxed);
		return false;
	}
	*suppressed_out = atomic_exchange_explicit(&limit->suppressed_cnt, 0, memory_order_relaxed);
	return true;
}
