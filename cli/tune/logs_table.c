/*
 * logs_table.c - nccl-tests' table: where its columns are, and what a row measured.
 */
#include "cli/tune/logs_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int column_of(const char *word, bool has_time)
{
	static const char *const names[] = {"count", "type", "redop", "root", "time"};

	if (strcmp(word, "#wrong") == 0 || strcmp(word, "error") == 0)
		return SXT_LOGS_WRONG;
	for (int i = 0; i < (int)SXT_ARRAY_LEN(names); i++) {
		if (strcmp(word, names[i]) == 0)
			return i == SXT_LOGS_TIME && has_time ? SXT_LOGS_TIME_IN : i;
	}
	return -1;
}

/* "#  size count type redop root time algbw busbw #wrong time ...": a row has its words too. */
static bool take_header(struct sxt_logs_reader *r, char **words, int cnt)
{
	struct sxt_logs_table table = {.words = cnt};
	bool is_bus = false;

	for (int i = 0; i < SXT_LOGS_COLUMNS; i++)
		table.column[i] = -1;
	for (int i = 1; i < cnt; i++) {
		int column = column_of(words[i], table.column[SXT_LOGS_TIME] >= 0);

		is_bus |= strcmp(words[i], "busbw") == 0;
		if (column == SXT_LOGS_WRONG && table.column[SXT_LOGS_TIME_IN] >= 0)
			column = SXT_LOGS_WRONG_IN;
		if (column >= 0)
			table.column[column] = i;
	}
	if (!is_bus || table.column[SXT_LOGS_TIME] < 0)
		return false;
	r->table = table;
	r->logs->runs_cnt++;
	return true;
}

static int type_bytes(const char *type)
{
	static const struct {
		const char *name;
		int bytes;
	} types[] = {{"int8", 1},   {"uint8", 1},   {"half", 2},  {"bfloat16", 2}, {"int32", 4},
		     {"uint32", 4}, {"float", 4},   {"int64", 8}, {"uint64", 8},   {"double", 8},
		     {"char", 1},   {"int", 4},     {"fp16", 2},  {"f8e4m3", 1},   {"fp8_e4m3", 1},
		     {"f8e5m2", 1}, {"fp8_e5m2", 1}};

	for (size_t i = 0; i < SXT_ARRAY_LEN(types); i++) {
		if (strcmp(type, types[i].name) == 0)
			return types[i].bytes;
	}
	return 0;
}

/* The word of a column, "" where the table has none. */
static const char *cell(const struct sxt_logs_reader *r, char **words, int column)
{
	return r->table.column[column] >= 0 ? words[r->table.column[column]] : "";
}

/*
 * Which collective's row it is, where nothing else says so: a root is broadcast's and reduce's, the
 * operation reduce's; gather and scatter count one rank's share.
 */
static int guess_coll(const struct sxt_logs_reader *r, char **words, uint64_t bytes)
{
	const char *redop = cell(r, words, SXT_LOGS_REDOP);
	const char *root = cell(r, words, SXT_LOGS_ROOT);
	bool reduces = *redop != '\0' && strcmp(redop, "none") != 0;
	uint64_t count = strtoull(cell(r, words, SXT_LOGS_COUNT), NULL, 10) *
			 (uint64_t)type_bytes(cell(r, words, SXT_LOGS_TYPE));

	if (*root != '\0' && *root != '-')
		return reduces ? SXT_COLL_REDUCE : SXT_COLL_BROADCAST;
	if (reduces && count == bytes)
		return SXT_COLL_ALL_REDUCE;
	if (reduces && count * r->ranks == bytes)
		return SXT_COLL_REDUCE_SCATTER;
	return SXT_LOGS_UNTOLD;
}

/* What makes every row of the table useless is told once. */
static bool refuse_table(struct sxt_logs_reader *r, const char *what)
{
	if (!r->table.told)
		sxt_logs_note(r, true, "%s", what);
	r->table.told = true;
	return false;
}

/* The parts of a time that all rows of a table share. */
static bool take_shape(struct sxt_logs_reader *r, char **words, struct sxt_logs_time *out)
{
	int coll = sxt_logs_said_coll(r);
	int algo = sxt_logs_said_algo(r);
	int proto = sxt_logs_said_proto(r);

	if (r->ranks == 0 || r->nodes == 0)
		return refuse_table(
			r, "ranks and nodes are not known: expected lines \"# Rank 0 ... "
			   "on HOST device ...\" before the table, or a comment \"# sextant "
			   "sweep: NODES=2 RANKS=16\"");
	if (r->ranks == 1)
		return refuse_table(r,
				    "one rank alone moves nothing (nccl-tests built without MPI?)");
	if (coll == SXT_LOGS_SEVERAL)
		return refuse_table(r, "a collective that NCCL does not tune: only all_reduce, "
				       "all_gather, reduce_scatter, broadcast and reduce");
	if (coll == SXT_LOGS_UNTOLD)
		coll = guess_coll(r, words, out->bytes);
	if (coll == SXT_LOGS_UNTOLD)
		return refuse_table(r, "which collective it is cannot be told: name it, as in "
				       "FILE=allgather/ring/simple");
	if (algo == SXT_LOGS_SEVERAL || proto == SXT_LOGS_SEVERAL)
		return refuse_table(r,
				    "NCCL_ALGO or NCCL_PROTO named several or none that is known: "
				    "one log each, please");
	out->coll = (enum sxt_coll)coll;
	out->algo = (int8_t)algo;
	out->proto = (int8_t)proto;
	out->nodes = r->nodes;
	out->ranks = r->ranks;
	return true;
}

static void add_time(struct sxt_logs_reader *r, const struct sxt_logs_time *time)
{
	struct sxt_logs *logs = r->logs;

	if (logs->times_cnt == logs->times_room) {
		size_t room = logs->times_room == 0 ? 256 : 2 * logs->times_room;
		struct sxt_logs_time *larger = reallocarray(logs->times, room, sizeof(*larger));

		if (larger == NULL) {
			r->error = -ENOMEM;
			return;
		}
		logs->times = larger;
		logs->times_room = room;
	}
	logs->times[logs->times_cnt++] = *time;
}

/* One of a row's two times. */
static void take_time(struct sxt_logs_reader *r, char **words, struct sxt_logs_time time,
		      bool in_place)
{
	const char *text = cell(r, words, in_place ? SXT_LOGS_TIME_IN : SXT_LOGS_TIME);
	const char *wrong = cell(r, words, in_place ? SXT_LOGS_WRONG_IN : SXT_LOGS_WRONG);
	const char *side = in_place ? "in place" : "out of place";
	char *end = NULL;

	if (*text == '\0')
		return;
	time.us = strtod(text, &end);
	time.in_place = in_place;
	if (*end != '\0' || !isfinite(time.us) || time.us <= 0) {
		if (strcmp(text, "N/A") != 0)
			sxt_logs_note(r, false, "time %s is \"%s\", expected us above 0: left out",
				      side, text);
	} else if (strtod(wrong, NULL) > 0.01) {
		/* Old versions print the largest error of rounding there. */
		sxt_logs_note(r, false, "%s values were wrong %s: the time is left out", wrong,
			      side);
	} else {
		add_time(r, &time);
	}
}

static bool take_bytes(struct sxt_logs_reader *r, const char *word, uint64_t *out)
{
	uint64_t bytes = 0;

	errno = 0;
	bytes = strtoull(word, NULL, 10);
	if (errno != 0)
		sxt_logs_note(r, false, "size \"%s\" is too large: left out", word);
	if (errno != 0 || bytes == 0) /* size 0 moves nothing; NCCL does not ask for it */
		return false;
	*out = bytes;
	return true;
}

static void take_row(struct sxt_logs_reader *r, char **words, int cnt)
{
	struct sxt_logs_time time = {.file = r->file, .line = r->line};

	if (cnt != r->table.words) {
		sxt_logs_note(r, false, "a row of %d words below a header of %d: left out", cnt,
			      r->table.words);
		return;
	}
	if (!take_bytes(r, words[0], &time.bytes) || !take_shape(r, words, &time))
		return;
	if (time.bytes <= r->table.last_bytes) /* the next cycle */
		r->logs->runs_cnt++;
	r->table.last_bytes = time.bytes;
	time.run = r->logs->runs_cnt;
	take_time(r, words, time, false);
	take_time(r, words, time, true);
}

bool sxt_logs_table_line(struct sxt_logs_reader *r, char *line)
{
	char *all[SXT_LOGS_WORDS];
	char **words = all;
	int cnt = sxt_logs_words(line, all);

	while (cnt > 0 && words[0][0] == '#') {
		words[0]++;
		if (words[0][0] != '\0')
			continue;
		words++;
		cnt--;
	}
	if (cnt == 0)
		return false;
	if (strcmp(words[0], "size") == 0)
		return take_header(r, words, cnt);
	if (words != all || strspn(words[0], "0123456789") != strlen(words[0]))
		return false;
	if (r->table.words > 0)
		take_row(r, words, cnt);
	else if (cnt >= 7)
		sxt_logs_note(r, false, "a row without a header \"# size count ...\": left out");
	return r->table.words > 0;
}
