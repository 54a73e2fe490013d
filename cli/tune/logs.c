/*
 * logs.c - a log as lines: what mpirun and its like put before each is taken off, the rest is a
 * table's or says something about the tables.
 */
#include "cli/tune/logs.h"

#include "cli/tune/logs_parts.h"

#include "core/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX   20u /* of one file */
#define BYTES_MAX   (1u << 30)
#define PREFIX_MAX  96 /* where "<stdout>:" may be */
#define STDOUT_MARK "<stdout>:"

/* Room for one more element; NULL when there is none. */
static void *grow(void *list, size_t cnt, size_t *room, size_t bytes)
{
	size_t wanted = *room == 0 ? 64 : 2 * *room;
	void *larger = NULL;

	if (cnt < *room)
		return list;
	larger = reallocarray(list, wanted, bytes);
	if (larger != NULL)
		*room = wanted;
	return larger;
}

static struct sxt_logs_note *note_add(struct sxt_logs *logs)
{
	struct sxt_logs_note *larger =
		grow(logs->notes, logs->notes_cnt, &logs->notes_room, sizeof(*larger));

	if (larger == NULL)
		return NULL;
	logs->notes = larger;
	memset(&larger[logs->notes_cnt], 0, sizeof(*larger));
	return &larger[logs->notes_cnt++];
}

void sxt_logs_note(struct sxt_logs_reader *r, bool is_error, const char *fmt, ...)
{
	struct sxt_logs_note *note = NULL;
	va_list args;

	r->logs->has_error |= is_error;
	if (++r->notes_cnt > NOTES_MAX + 1)
		return;
	note = note_add(r->logs);
	if (note == NULL) {
		r->error = -ENOMEM;
		return;
	}
	note->is_error = is_error;
	note->file = r->file;
	note->line = r->line;
	va_start(args, fmt);
	vsnprintf(note->text, sizeof(note->text), fmt, args);
	va_end(args);
	if (r->notes_cnt > NOTES_MAX)
		snprintf(note->text, sizeof(note->text),
			 "there is more to say about this file from here on; this is left out");
}

int sxt_logs_words(char *line, char *out[SXT_LOGS_WORDS])
{
	static const char blanks[] = " \t\r";
	int cnt = 0;

	for (char *at = line + strspn(line, blanks); *at != '\0' && cnt < SXT_LOGS_WORDS;) {
		size_t len = strcspn(at, blanks);
		bool is_last = at[len] == '\0';

		out[cnt++] = at;
		at[len] = '\0';
		at += is_last ? len : len + 1;
		at += strspn(at, blanks);
	}
	return cnt;
}

/* "[1,0]<stdout>:", "Thu Jul 18 15:41:05 2024<stdout>:", "[default0]:", srun's "3: ", "> ". */
static char *without_prefix(char *line)
{
	char *mark = strstr(line, STDOUT_MARK);

	if (mark != NULL && mark - line <= PREFIX_MAX)
		line = mark + sizeof(STDOUT_MARK) - 1;
	for (;;) {
		char *at = line + strspn(line, " \t");
		size_t len = strspn(at, "0123456789");

		if (*at == '[' && strchr(at, ']') != NULL)
			line = strchr(at, ']') + 1;
		else if (*at == ':' || *at == '>')
			line = at + 1;
		else if (len > 0 && at[len] == ':' && at[len + 1] == ' ')
			line = at + len + 1;
		else
			return line;
	}
}

static int take_line(struct sxt_logs_reader *r, const char *text, size_t bytes)
{
	char *whole = strndup(text, bytes);
	char *copy = NULL;

	if (whole == NULL)
		return -ENOMEM;
	r->line++;
	copy = strdup(without_prefix(whole));
	if (copy == NULL)
		r->error = -ENOMEM;
	else if (!sxt_logs_table_line(r, copy))
		sxt_logs_said_line(r, without_prefix(whole));
	free(copy);
	free(whole);
	return r->error;
}

/* The file's part of FILE=WORDS, and what the words say. */
static int take_arg(struct sxt_logs_reader *r, const char *arg)
{
	struct sxt_logs *logs = r->logs;
	const char *equals = strrchr(arg, '=');
	const char *wrong = NULL;
	char **larger = reallocarray(logs->files, logs->files_cnt + 1, sizeof(*larger));
	char *name = equals != NULL ? strndup(arg, (size_t)(equals - arg)) : strdup(arg);

	if (larger != NULL)
		logs->files = larger;
	if (larger == NULL || name == NULL) {
		free(name);
		return -ENOMEM;
	}
	r->file = logs->files_cnt;
	larger[logs->files_cnt++] = name;
	for (int i = 0; i < SXT_LOGS_SOURCES; i++)
		sxt_logs_said_reset(&r->said[i]);
	sxt_logs_said_reset(&r->exported);
	sxt_logs_said_name(&r->said[SXT_LOGS_BY_NAME], name);
	if (equals != NULL)
		wrong = sxt_logs_said_words(&r->said[SXT_LOGS_BY_ARG], equals + 1);
	if (wrong == NULL)
		return 0;
	sxt_logs_note(r, true,
		      "\"%.*s\" after '=' is no collective, algorithm or protocol; expected words "
		      "such as ring/ll, allgather/ring/simple or default",
		      (int)strcspn(wrong, "/"), wrong);
	return -EINVAL;
}

static int take_text(struct sxt_logs_reader *r, const char *text, size_t bytes)
{
	size_t before = r->logs->times_cnt;
	const char *end = text + bytes;
	int rc = 0;

	while (text < end && rc == 0) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline != NULL ? newline : end;

		rc = take_line(r, text, (size_t)(stop - text));
		text = stop + 1;
	}
	r->line = 0;
	if (rc == 0 && r->logs->times_cnt == before)
		sxt_logs_note(r, true,
			      "no times: expected nccl-tests' table, rows below a line \"# size "
			      "count type ... time algbw busbw\"");
	return r->error;
}

static void reader_fini(struct sxt_logs_reader *r)
{
	for (size_t i = 0; i < r->hosts_cnt; i++)
		free(r->hosts[i]);
	free(r->hosts);
}

int sxt_logs_parse(struct sxt_logs *logs, const char *arg, const char *text, size_t bytes)
{
	struct sxt_logs_reader r = {.logs = logs};
	int rc = take_arg(&r, arg);

	if (rc == 0)
		rc = take_text(&r, text, bytes);
	reader_fini(&r);
	return rc;
}

static int slurp(FILE *from, char **out, size_t *bytes_out)
{
	size_t room = 1 << 16;
	size_t cnt = 0;
	char *text = malloc(room);
	int rc = text != NULL ? 0 : -ENOMEM;

	while (rc == 0) {
		size_t got = fread(text + cnt, 1, room - cnt, from);
		char *larger = NULL;

		cnt += got;
		if (got == 0)
			break;
		if (cnt < room)
			continue;
		larger = room < BYTES_MAX ? realloc(text, 2 * room) : NULL;
		rc = larger != NULL ? 0 : -ENOMEM;
		text = larger != NULL ? larger : text;
		room *= 2;
	}
	if (rc == 0 && ferror(from) != 0)
		rc = -EIO;
	if (rc != 0) {
		free(text);
		return rc;
	}
	*out = text;
	*bytes_out = cnt;
	return 0;
}

int sxt_logs_read(struct sxt_logs *logs, const char *arg)
{
	struct sxt_logs_reader r = {.logs = logs};
	const char *name = NULL;
	char *text = NULL;
	size_t bytes = 0;
	FILE *from = NULL;
	int rc = take_arg(&r, arg);

	if (rc != 0)
		goto out;
	name = logs->files[r.file];
	from = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
	rc = from != NULL ? slurp(from, &text, &bytes) : -errno;
	if (rc != 0) {
		sxt_logs_note(&r, true, "cannot be read: %s", sxt_strerror(rc));
		goto out;
	}
	rc = take_text(&r, text, bytes);
out:
	if (from != NULL && from != stdin)
		fclose(from);
	free(text);
	reader_fini(&r);
	return rc;
}

void sxt_logs_fini(struct sxt_logs *logs)
{
	for (uint32_t i = 0; i < logs->files_cnt; i++)
		free(logs->files[i]);
	free(logs->files);
	free(logs->times);
	free(logs->notes);
	memset(logs, 0, sizeof(*logs));
}
