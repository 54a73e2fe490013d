/*
 * log.h - one line of text to whoever listens: NCCL's logger through the sink, a file of our own.
 *
 * The first function that knows what went wrong logs it, callers that propagate stay silent. A
 * line names the object, the act, the value seen and what to do. errno is preserved.
 */
#ifndef SXT_CORE_LOG_H
#define SXT_CORE_LOG_H

#include "core/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>

enum sxt_log_level {
	SXT_LOG_ERROR, /* a communicator or connection fails; NCCL sees a WARN */
	SXT_LOG_WARN,  /* degraded, going on */
	SXT_LOG_INFO,  /* once per device or communicator */
	SXT_LOG_DEBUG, /* once per object */
};

/**
 * sxt_log_sink_fn - receives one finished line, without a newline.
 * Thread: any, several at once. May not call back into the logger.
 */
typedef void (*sxt_log_sink_fn)(enum sxt_log_level level, const char *file, int line,
				const char *text);

/* Lines above this level are dropped before they are formatted. */
extern _Atomic int sxt_log_max_level;

#define SXT_LOG(level, ...)                                                         \
	do {                                                                        \
		if ((int)(level) <=                                                 \
		    atomic_load_explicit(&sxt_log_max_level, memory_order_relaxed)) \
			sxt_log_emit((level), __FILE__, __LINE__, __VA_ARGS__);     \
	} while (0)

/**
 * sxt_log_emit() - format one line and hand it to the sink and the file; use SXT_LOG.
 * @level: how bad it is. @file, @line: where it was said.
 * @fmt: printf format; a newline is neither needed nor kept.
 * Thread: any. Path: slow, formats and may write a file.
 */
SXT_COLD void sxt_log_emit(enum sxt_log_level level, const char *file, int line, const char *fmt,
			   ...) SXT_PRINTF(4, 5);

/**
 * sxt_log_set_sink() - replace the receiver of lines; NULL silences it.
 * @sink: called for every line at or below the level; stays until replaced.
 * Thread: any.
 */
void sxt_log_set_sink(sxt_log_sink_fn sink);

/**
 * sxt_log_set_tap() - a second receiver of the same lines; NULL ends it.
 * @tap: as sxt_log_set_sink(). Thread: any.
 */
void sxt_log_set_tap(sxt_log_sink_fn tap);

/**
 * sxt_log_set_file() - append every line to a file as well, whatever the sink filters.
 * @path: file name; %h becomes the host name, %p the process id. NULL or "" closes the file.
 * Thread: any, takes a lock. Return: 0, or the negative errno of opening it (the old file stays).
 */
SXT_MUST_CHECK int sxt_log_set_file(const char *path);

/* State of one repeatable message: lets the first few through, then at most one per interval. */
struct sxt_log_limit {
	_Atomic uint64_t next_ns;
	_Atomic uint32_t suppressed_cnt;
};

/**
 * sxt_log_allow() - may a repeatable message be said now?
 * @limit: zero-initialised, one per place and object.
 * @now_ns: a monotonic time. @interval_ns: the shortest distance of two messages.
 * @suppressed_out: how many were held back since the last one; set on true only.
 * Thread: any. Return: true if the caller should log.
 */
bool sxt_log_allow(struct sxt_log_limit *limit, uint64_t now_ns, uint64_t interval_ns,
		   uint32_t *suppressed_out);

#endif
