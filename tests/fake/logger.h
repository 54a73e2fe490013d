/*
 * logger.h - NCCL's logger for tests that play NCCL to a plugin: it keeps every WARN and INFO line.
 */
#ifndef SXT_TESTS_FAKE_LOGGER_H
#define SXT_TESTS_FAKE_LOGGER_H

#include "plugin/nccl/common.h"

/**
 * heard_logger() - what init gets: an ncclDebugLogger_t. Thread: any.
 */
void heard_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	SXT_PRINTF(5, 6);

/** heard_forget() - forget what was heard. Thread: any. */
void heard_forget(void);

/**
 * heard_text() - the lines, each as "WARN TEXT" or "INFO TEXT".
 * Return: valid until the next line; for when the plugin is silent.
 */
const char *heard_text(void);

/**
 * heard_cnt() - how often was something said?
 * @words: part of a line. Thread: any. Return: how often.
 */
int heard_cnt(const char *words);

/**
 * assert_heard() - fail the test unless something was said. @words: part of a line.
 */
void assert_heard(const char *words);

/**
 * assert_heard_times() - fail the test unless something was said as often as it should.
 * @cnt: how often. @words: part of a line.
 */
void assert_heard_times(int cnt, const char *words);

#endif
