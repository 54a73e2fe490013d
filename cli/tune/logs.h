/*
 * logs.h - the output of nccl-tests (all_reduce_perf and its kin) and of `sextant bench` as
 * measured times. Columns are found by the table's header, so any version's layout is fine.
 */
#ifndef SXT_CLI_TUNE_LOGS_H
#define SXT_CLI_TUNE_LOGS_H

#include "tuner/words.h"

#include <stdbool.h>
#include <stdint.h>

#define SXT_LOGS_ANY (-1) /* not forced, or not told */

/* One time of one table. */
struct sxt_logs_time {
	enum sxt_coll coll;
	uint32_t nodes;
	uint32_t ranks;
	uint64_t bytes; /* the size column, which is what NCCL counts */
	double us;
	int8_t algo; /* what NCCL_ALGO forced, or SXT_LOGS_ANY */
	int8_t proto;
	bool in_place;
	uint32_t run; /* one number per table, and per cycle of a table that repeats a size */
	uint32_t file;
	uint32_t line;
};

/* Something to tell the user about a log. */
struct sxt_logs_note {
	bool is_error; /* the file's times cannot be used */
	uint32_t file;
	uint32_t line; /* 0: the file as a whole */
	char text[256];
};

/* Everything that was read. Zeroed is empty. */
struct sxt_logs {
	struct sxt_logs_time *times;
	size_t times_cnt;
	size_t times_room;
	struct sxt_logs_note *notes;
	size_t notes_cnt;
	size_t notes_room;
	char **files; /* names, by the number that times and notes have */
	uint32_t files_cnt;
	uint32_t runs_cnt;
	bool has_error; /* of any file */
};

/**
 * sxt_logs_read() - read one log.
 * @logs: what is found is added. @arg: FILE, or FILE=WORDS with what the log does not tell itself,
 * separated by '/': a collective, an algorithm, a protocol or "default" ("x.log=ring/ll",
 * "y.log=allgather/tree/simple"); words win over what the log says. "-" is standard input.
 * What was forced is otherwise told by the log (a comment of `sextant tune sweep`, or NCCL_DEBUG's
 * lines on the environment, or "NCCL_ALGO=" in a command line), else by words in the file's name
 * ("ring_ll.log"). Whatever is wrong becomes a note.
 * Return: 0 (also with notes), -EINVAL for wrong words (with a note), -ENOMEM, or the system's
 * error (with a note).
 */
SXT_MUST_CHECK int sxt_logs_read(struct sxt_logs *logs, const char *arg);

/**
 * sxt_logs_parse() - as sxt_logs_read(), of a text.
 * @logs: what is found is added. @arg: as of sxt_logs_read(); nothing is opened.
 * @text, @bytes: the log, need not be terminated. Return: 0, -EINVAL, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_logs_parse(struct sxt_logs *logs, const char *arg, const char *text,
				  size_t bytes);

/** sxt_logs_fini() - free what was read. @logs: empty afterwards; a zeroed one is fine. */
void sxt_logs_fini(struct sxt_logs *logs);

#endif
