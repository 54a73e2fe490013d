/*
 * rules.c - a rules file as a whole: its lines, its digest, its memory.
 */
#include "tuner/rules.h"

#include "tuner/model.h"
#include "tuner/rules_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORD_SHOWN 40 /* bytes of a word that a fault shows */
#define FNV_BASIS  0xcbf29ce484222325ull
#define FNV_PRIME  0x100000001b3ull

static const char heading[] = "sextant-rules";

int sxt_fault_set(struct sxt_rules_fault *fault, const struct sxt_piece *piece, const char *format,
		  ...)
{
	va_list args;

	fault->line = piece->line;
	fault->column = piece->column;
	va_start(args, format);
	vsnprintf(fault->text, sizeof(fault->text), format, args);
	va_end(args);
	return -EINVAL;
}

int sxt_fault_word(struct sxt_rules_fault *fault, const struct sxt_piece *piece, const char *why)
{
	char word[WORD_SHOWN + 1];
	size_t len = piece->len < WORD_SHOWN ? piece->len : WORD_SHOWN;

	for (size_t i = 0; i < len; i++) {
		char c = piece->text[i];

		if ((c >= 0 && c < ' ') || c == 0x7f)
			c = '?';
		word[i] = c;
	}
	word[len] = '\0';
	return sxt_fault_set(fault, piece, "\"%s%s\" %s", word, len < piece->len ? "..." : "", why);
}

bool sxt_piece_is(const struct sxt_piece *piece, const char *word)
{
	return strlen(word) == piece->len && memcmp(piece->text, word, piece->len) == 0;
}

int sxt_piece_value(const struct sxt_piece *piece, const struct sxt_field *field, void *record,
		    struct sxt_rules_fault *fault)
{
	char text[SXT_VALUE_BYTES];
	char why[160];

	if (piece->len == 0)
		return sxt_fault_set(fault, piece, "%s has no value", field->key);
	if (piece->len >= sizeof(text))
		return sxt_fault_word(fault, piece, "is too long for a value");
	memcpy(text, piece->text, piece->len);
	text[piece->len] = '\0';
	if (sxt_field_parse(field, text, record, why) != 0)
		return sxt_fault_word(fault, piece, why);
	return 0;
}

/* Room for one more of what is doubled whenever its number is a power of two. */
static int grow(void **list, uint32_t cnt, size_t each_bytes)
{
	void *larger;

	if ((cnt & (cnt - 1)) != 0)
		return 0;
	larger = reallocarray(*list, cnt == 0 ? 1 : (size_t)cnt * 2, each_bytes);
	if (larger == NULL)
		return -ENOMEM;
	*list = larger;
	return 0;
}

static int add(struct sxt_rules *rules, const struct sxt_parsed *parsed,
	       const struct sxt_piece *line, struct sxt_rules_fault *fault)
{
	struct sxt_piece whole = {.line = line->line};
	int rc;

	if ((parsed->is_rule && rules->rules_cnt == SXT_RULES_MAX) ||
	    (parsed->is_model && rules->models_cnt == SXT_MODELS_MAX)) {
		sxt_ignore(sxt_fault_set(fault, &whole, "more than %u %ss",
					 parsed->is_rule ? SXT_RULES_MAX : SXT_MODELS_MAX,
					 parsed->is_rule ? "rule" : "model"));
		return -E2BIG;
	}
	if (parsed->is_rule) {
		rc = grow((void **)&rules->rules, rules->rules_cnt, sizeof(*rules->rules));
		if (rc != 0)
			return rc;
		rules->rules[rules->rules_cnt] = parsed->rule;
		rules->rules[rules->rules_cnt++].line = line->line;
	} else if (parsed->is_model) {
		rc = grow((void **)&rules->models, rules->models_cnt, sizeof(*rules->models));
		if (rc != 0)
			return rc;
		rules->models[rules->models_cnt] = parsed->model;
		rules->models[rules->models_cnt++].line = line->line;
	}
	return 0;
}

/* Cuts the next line off the text, without its end. Return: false at the end. */
static bool next_line(struct sxt_piece *rest, struct sxt_piece *out)
{
	const char *end;

	if (rest->len == 0)
		return false;
	end = memchr(rest->text, '\n', rest->len);
	*out = *rest;
	out->len = end != NULL ? (size_t)(end - rest->text) : rest->len;
	rest->text += out->len + (end != NULL);
	rest->len -= out->len + (end != NULL);
	rest->line++;
	if (out->len > 0 && out->text[out->len - 1] == '\r')
		out->len--;
	return true;
}

/* Whether the first line is Sextant's; a wrong version is a fault. */
static int read_heading(struct sxt_piece *text, bool *is_ours_out, struct sxt_rules_fault *fault)
{
	struct sxt_piece rest = *text;
	struct sxt_piece line;
	size_t len = sizeof(heading) - 1;

	*is_ours_out = false;
	if (!next_line(&rest, &line) || line.len < len || memcmp(line.text, heading, len) != 0)
		return 0;
	while (line.len > 0 && (line.text[line.len - 1] == ' ' || line.text[line.len - 1] == '\t'))
		line.len--;
	if (!sxt_piece_is(&line, "sextant-rules 1"))
		return sxt_fault_word(
			fault, &line,
			"is a format this does not know; it reads \"sextant-rules 1\"");
	*is_ours_out = true;
	*text = rest;
	return 0;
}

static uint64_t fnv(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * FNV_PRIME;
	return (hash ^ '\n') * FNV_PRIME;
}

static uint64_t digest_of(const struct sxt_rules *rules)
{
	char line[SXT_RULE_LINE_BYTES];
	uint64_t hash = FNV_BASIS;

	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		sxt_record_write(&sxt_rule_record, &rules->rules[i], false, line);
		hash = fnv(hash, line);
	}
	for (uint32_t i = 0; i < rules->models_cnt; i++) {
		sxt_record_write(&sxt_model_record, &rules->models[i], false, line);
		hash = fnv(hash, line);
	}
	snprintf(line, sizeof(line), "version %u", SXT_MODEL_VERSION);
	return fnv(hash, line);
}

static int parse_lines(struct sxt_piece *rest, struct sxt_rules *rules,
		       struct sxt_rules_fault *fault)
{
	struct sxt_parsed parsed;
	struct sxt_piece line;
	int rc;

	while (next_line(rest, &line)) {
		if (memchr(line.text, '\0', line.len) != NULL)
			return sxt_fault_set(fault, &line, "has a zero byte: this is no text");
		rc = rules->is_csv ? sxt_csv_parse(&line, &parsed, fault)
				   : sxt_line_parse(&line, &parsed, fault);
		if (rc == 0)
			rc = add(rules, &parsed, &line, fault);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int sxt_rules_parse(const char *text, size_t bytes, struct sxt_rules **out,
		    struct sxt_rules_fault *fault)
{
	struct sxt_piece rest = {.text = text, .len = bytes, .line = 1, .column = 1};
	struct sxt_rules *rules = calloc(1, sizeof(*rules));
	bool is_ours;
	int rc;

	if (rules == NULL)
		return -ENOMEM;
	if (bytes > SXT_RULES_BYTES) {
		rest.line = 0;
		rest.column = 0;
		sxt_ignore(sxt_fault_set(fault, &rest, "%zu bytes; a rules file has at most %u",
					 bytes, SXT_RULES_BYTES));
		rc = -E2BIG;
		goto fail;
	}
	if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		rest.text += 3;
		rest.len -= 3;
	}
	rc = read_heading(&rest, &is_ours, fault);
	if (rc != 0)
		goto fail;
	rules->is_csv = !is_ours;
	rc = parse_lines(&rest, rules, fault);
	if (rc != 0)
		goto fail;
	rules->digest = digest_of(rules);
	*out = rules;
	return 0;
fail:
	sxt_rules_free(rules);
	return rc;
}

void sxt_rules_free(struct sxt_rules *rules)
{
	if (rules == NULL)
		return;
	free(rules->rules);
	free(rules->models);
	free(rules);
}

static int cannot_read(struct sxt_rules_fault *fault, int error)
{
	static const struct sxt_piece file;

	errno = error;
	sxt_ignore(sxt_fault_set(fault, &file, "cannot be read: %m"));
	return -error;
}

/* Return: how many bytes were read, at most @room, or the negative errno. */
static ssize_t read_all(int fd, char *text, size_t room)
{
	size_t bytes = 0;
	ssize_t got;

	do {
		got = read(fd, text + bytes, room - bytes);
		if (got > 0)
			bytes += (size_t)got;
	} while ((got > 0 && bytes < room) || (got < 0 && errno == EINTR));
	return got < 0 ? -errno : (ssize_t)bytes;
}

static int read_file(int fd, struct sxt_rules **out, struct sxt_rules_fault *fault)
{
	static const struct sxt_piece file;
	struct stat stat;
	char *text;
	ssize_t got;
	int rc;

	if (fstat(fd, &stat) != 0)
		return cannot_read(fault, errno);
	if (!S_ISREG(stat.st_mode))
		return sxt_fault_set(fault, &file, "is no regular file");
	/* One byte more than is allowed tells a file that is too large. */
	text = malloc(SXT_RULES_BYTES + 1);
	if (text == NULL)
		return cannot_read(fault, ENOMEM);
	got = read_all(fd, text, SXT_RULES_BYTES + 1);
	rc = got < 0 ? cannot_read(fault, (int)-got)
		     : sxt_rules_parse(text, (size_t)got, out, fault);
	if (rc == -ENOMEM)
		rc = cannot_read(fault, ENOMEM);
	free(text);
	return rc;
}

int sxt_rules_read(const char *path, struct sxt_rules **out, struct sxt_rules_fault *fault)
{
	/* A pipe without a writer would keep a plain open() waiting. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int rc;

	if (fd < 0)
		return cannot_read(fault, errno);
	rc = read_file(fd, out, fault);
	close(fd);
	return rc;
}
