/*
 * logs_parts.h - the reader of logs, between its parts: lines around tables (logs_said.c) and
 * tables (logs_table.c).
 */
#ifndef SXT_CLI_TUNE_LOGS_PARTS_H
#define SXT_CLI_TUNE_LOGS_PARTS_H

#include "cli/tune/logs.h"

#define SXT_LOGS_UNTOLD  (-2) /* nothing says what it is */
#define SXT_LOGS_SEVERAL (-3) /* more than one, or one this does not know */
#define SXT_LOGS_WORDS   48

/* What one source says of the tables that follow. Zeroed is no valid state: logs_said.c's reset. */
struct sxt_logs_said {
	int coll;
	int algo;
	int proto;
};

/* Who can say it, the strongest first. */
enum sxt_logs_source {
	SXT_LOGS_BY_ARG,     /* FILE=ring/ll */
	SXT_LOGS_BY_SWEEP,   /* "# sextant sweep:" and "# sextant bench" */
	SXT_LOGS_BY_INFO,    /* NCCL_DEBUG's lines, nccl-tests' own of the test that starts */
	SXT_LOGS_BY_COMMAND, /* a command line that was logged too */
	SXT_LOGS_BY_NAME,    /* of the file */
	SXT_LOGS_SOURCES
};

enum sxt_logs_column {
	SXT_LOGS_COUNT,
	SXT_LOGS_TYPE,
	SXT_LOGS_REDOP,
	SXT_LOGS_ROOT,
	SXT_LOGS_TIME, /* and its like in place */
	SXT_LOGS_WRONG,
	SXT_LOGS_TIME_IN,
	SXT_LOGS_WRONG_IN,
	SXT_LOGS_COLUMNS
};

struct sxt_logs_table {
	int words;                    /* of a row; 0: no table yet */
	int column[SXT_LOGS_COLUMNS]; /* the word of a row, -1 none */
	uint64_t last_bytes;
	uint32_t last_line;
	bool told; /* a fault of the whole table was told */
};

/* One file while it is read. */
struct sxt_logs_reader {
	struct sxt_logs *logs;
	uint32_t file;
	uint32_t line;
	uint32_t notes_cnt; /* of this file */
	struct sxt_logs_said said[SXT_LOGS_SOURCES];
	struct sxt_logs_said exported; /* holds for every command of the log */
	bool is_command_over;          /* a program was named since */
	uint32_t ranks;                /* 0: not told */
	uint32_t nodes;
	uint32_t sweep_ranks; /* told for the whole log */
	uint32_t sweep_nodes;
	bool is_swept; /* a sweep told what it forced, NCCL's own choice too */
	char **hosts;  /* of the run */
	size_t hosts_cnt;
	struct sxt_logs_table table;
	int error; /* -ENOMEM */
};

/**
 * sxt_logs_note() - tell the user something about the line that is read.
 * @r: the file. @is_error: its times cannot be used. @fmt: printf format. After 20 of a file it
 * says once that there are more.
 */
void sxt_logs_note(struct sxt_logs_reader *r, bool is_error, const char *fmt, ...) SXT_PRINTF(3, 4);

/**
 * sxt_logs_words() - cut a line in place.
 * @line: changed. @out: the words, in @line. Return: how many, at most SXT_LOGS_WORDS.
 */
int sxt_logs_words(char *line, char *out[SXT_LOGS_WORDS]);

/** sxt_logs_said_reset() - nothing is said. @said: by one source. */
void sxt_logs_said_reset(struct sxt_logs_said *said);

/**
 * sxt_logs_said_name() - what a file's name says.
 * @said: written. @path: the name, with folders that do not count.
 */
void sxt_logs_said_name(struct sxt_logs_said *said, const char *path);

/**
 * sxt_logs_said_words() - what words of the user say.
 * @said: written on success. @words: "ring/ll" and the like.
 * Return: NULL, or the first word that means nothing, up to the next '/'.
 */
const char *sxt_logs_said_words(struct sxt_logs_said *said, const char *words);

/**
 * sxt_logs_said_line() - a line that is no row of a table.
 * @r: what it says is kept. @line: without what mpirun put before it; not changed.
 */
void sxt_logs_said_line(struct sxt_logs_reader *r, const char *line);

/**
 * sxt_logs_said_coll() - the collective that holds now.
 * @r: the file. Return: the number, SXT_LOGS_SEVERAL or SXT_LOGS_UNTOLD.
 */
int sxt_logs_said_coll(const struct sxt_logs_reader *r);

/** sxt_logs_said_algo() - the algorithm forced. @r: the file. Return: it, _ANY, _SEVERAL. */
int sxt_logs_said_algo(const struct sxt_logs_reader *r);

/** sxt_logs_said_proto() - the protocol forced. @r: the file. Return: it, _ANY, _SEVERAL. */
int sxt_logs_said_proto(const struct sxt_logs_reader *r);

/**
 * sxt_logs_table_line() - a line that may be of a table.
 * @r: times and notes are added. @line: changed. Return: whether it was of a table.
 */
bool sxt_logs_table_line(struct sxt_logs_reader *r, char *line);

#endif
