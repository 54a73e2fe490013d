/*
 * doc.c - JSON into structs by tables, with the place of every mistake (slow path).
 */
#include "ib/soft/doc.h"

#include "core/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 64 /* keys of one object, words of one list */

static int line_of(const struct sxt_soft_doc *doc)
{
	int line = 1;

	for (size_t i = 0; i < doc->at; i++)
		line += doc->text[i] == '\n';
	return line;
}

int sxt_soft_doc_fail(struct sxt_soft_doc *doc, const char *fmt, ...)
{
	char text[512];
	char place[16];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(place, sizeof(place), ":%d", line_of(doc));
	snprintf(doc->why, doc->why_bytes, "%s%s: %s%s%s", doc->file,
		 doc->text != NULL ? place : "",
		 doc->path[0] != '\0' || doc->text == NULL ? doc->path : "the document",
		 doc->path[0] != '\0' || doc->text != NULL ? ": " : "", text);
	return -EINVAL;
}

static const char *kind_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "text";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_REAL:
		return "a number with a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	default:
		return "null";
	}
}

void sxt_soft_doc_show(const json_t *value, char *out, size_t out_bytes)
{
	if (json_is_number(value))
		snprintf(out, out_bytes, "%.15g", json_number_value(value));
	else if (json_is_string(value))
		snprintf(out, out_bytes, "'%s'", json_string_value(value));
	else
		snprintf(out, out_bytes, "%s", kind_name(value));
}

/*
 * Moves the cursor to the next `"key" :`. Inside a text value a quote has a backslash before it,
 * so the pattern is found in keys only; a key written with \u escapes leaves the cursor alone.
 */
static void move_to_key(struct sxt_soft_doc *doc, const char *key)
{
	size_t len = strlen(key);
	const char *found = doc->text != NULL ? doc->text + doc->at : "";

	while ((found = strchr(found, '"')) != NULL) {
		const char *end = found + 1 + len;

		if (strncmp(found + 1, key, len) == 0 && *end == '"') {
			end++;
			while (isspace((unsigned char)*end))
				end++;
			if (*end == ':') {
				doc->at = (size_t)(end - doc->text);
				return;
			}
		}
		found++;
	}
}

/* Both return the length to cut the path back to. */
static size_t enter_key(struct sxt_soft_doc *doc, const char *key)
{
	size_t len = strlen(doc->path);

	snprintf(doc->path + len, sizeof(doc->path) - len, "%s%s", len > 0 ? "." : "", key);
	return len;
}

static size_t enter_element(struct sxt_soft_doc *doc, size_t index)
{
	size_t len = strlen(doc->path);

	snprintf(doc->path + len, sizeof(doc->path) - len, "[%zu]", index);
	return len;
}

static void store(void *member, size_t bytes, uint64_t value)
{
	switch (bytes) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(uint64_t *)member = value;
		break;
	}
}

static int read_int(struct sxt_soft_doc *doc, const json_t *value,
		    const struct sxt_soft_field *field, void *member)
{
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value))
		return sxt_soft_doc_fail(doc,
					 "is %s; expected a whole number %" PRId64 "..%" PRId64,
					 kind_name(value), field->min, field->max);
	if (number < field->min || number > field->max)
		return sxt_soft_doc_fail(doc,
					 "is %" JSON_INTEGER_FORMAT "; expected %" PRId64
					 "..%" PRId64,
					 number, field->min, field->max);
	store(member, field->bytes, (uint64_t)number);
	return 0;
}

static int read_text(struct sxt_soft_doc *doc, const json_t *value,
		     const struct sxt_soft_field *field, char *member)
{
	size_t len = json_string_length(value);

	if (!json_is_string(value))
		return sxt_soft_doc_fail(doc, "is %s; expected text", kind_name(value));
	if (len < (size_t)field->min || len > (size_t)field->max)
		return sxt_soft_doc_fail(doc,
					 "is %zu bytes long; expected %" PRId64 "..%" PRId64
					 " bytes",
					 len, field->min, field->max);
	memcpy(member, json_string_value(value), len + 1);
	return 0;
}

/* "0x1f", or groups of four digits as sysfs prints GUIDs. */
static int parse_hex(const char *text, uint64_t *out)
{
	uint64_t number = 0;
	size_t digits_cnt = 0;

	if (strncmp(text, "0x", 2) == 0)
		text += 2;
	else if (strlen(text) != strlen("0002:c903:0001:0002") || text[4] != ':')
		return -EINVAL;
	for (; *text != '\0'; text++) {
		if (*text == ':')
			continue;
		if (!isxdigit((unsigned char)*text) || ++digits_cnt > 16)
			return -EINVAL;
		number = number << 4 |
			 (uint64_t)(isdigit((unsigned char)*text) ? *text - '0'
								  : (*text | 0x20) - 'a' + 10);
	}
	*out = number;
	return digits_cnt > 0 ? 0 : -EINVAL;
}

int sxt_soft_doc_hex(struct sxt_soft_doc *doc, const json_t *value, uint64_t max, uint64_t *out)
{
	uint64_t number = 0;
	char seen[64];
	int rc = 0;

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		number = (uint64_t)json_integer_value(value);
	else if (json_is_string(value))
		rc = parse_hex(json_string_value(value), &number);
	else
		rc = -EINVAL;
	if (rc != 0) {
		sxt_soft_doc_show(value, seen, sizeof(seen));
		return sxt_soft_doc_fail(doc, "is %s; expected a number such as \"0x%" PRIx64 "\"",
					 seen, max);
	}
	if (number > max)
		return sxt_soft_doc_fail(doc, "is 0x%" PRIx64 "; expected at most 0x%" PRIx64,
					 number, max);
	*out = number;
	return 0;
}

static int read_hex(struct sxt_soft_doc *doc, const json_t *value,
		    const struct sxt_soft_field *field, void *member)
{
	uint64_t number = 0;
	int rc = sxt_soft_doc_hex(doc, value, (uint64_t)field->max, &number);

	if (rc != 0)
		return rc;
	if (number < (uint64_t)field->min)
		return sxt_soft_doc_fail(doc, "is 0x%" PRIx64 "; expected at least 0x%" PRIx64,
					 number, (uint64_t)field->min);
	store(member, field->bytes, number);
	return 0;
}

int sxt_soft_doc_choice(struct sxt_soft_doc *doc, const json_t *value,
			const struct sxt_soft_name *choices, uint32_t *out)
{
	const char *words[WORDS_MAX];
	const char *word = json_string_value(value);
	const char *nearest;
	char list[256] = "";
	size_t cnt = 0;

	for (const struct sxt_soft_name *at = choices; at->word != NULL; at++) {
		size_t len = strlen(list);

		if (word != NULL && strcmp(word, at->word) == 0) {
			*out = at->value;
			return 0;
		}
		words[cnt++] = at->word;
		snprintf(list + len, sizeof(list) - len, "%s%s", len > 0 ? ", " : "", at->word);
	}
	if (word == NULL)
		return sxt_soft_doc_fail(doc, "is %s; expected one of %s", kind_name(value), list);
	nearest = sxt_nearest(word, words, cnt);
	return sxt_soft_doc_fail(doc, "is '%s'%s%s; expected one of %s", word,
				 nearest != NULL ? "; did you mean " : "",
				 nearest != NULL ? nearest : "", list);
}

static int unknown_key(struct sxt_soft_doc *doc, const char *key,
		       const struct sxt_soft_field *fields)
{
	const char *names[WORDS_MAX];
	const char *nearest;
	size_t cnt = 0;

	for (const struct sxt_soft_field *at = fields; at->key != NULL; at++)
		names[cnt++] = at->key;
	nearest = sxt_nearest(key, names, cnt);
	return sxt_soft_doc_fail(doc, "unknown key '%s'%s%s%s; docs/fabric.md lists all", key,
				 nearest != NULL ? "; did you mean '" : "",
				 nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static int read_member(struct sxt_soft_doc *doc, const json_t *value,
		       const struct sxt_soft_field *field, void *into)
{
	void *member = (char *)into + field->offset;
	uint32_t number = 0;
	int rc;

	switch (field->kind) {
	case SXT_SOFT_DOC_INT:
		return read_int(doc, value, field, member);
	case SXT_SOFT_DOC_TEXT:
		return read_text(doc, value, field, member);
	case SXT_SOFT_DOC_HEX:
		return read_hex(doc, value, field, member);
	case SXT_SOFT_DOC_CHOICE:
		rc = sxt_soft_doc_choice(doc, value, field->choices, &number);
		if (rc == 0)
			store(member, field->bytes, number);
		return rc;
	default:
		return field->call(doc, value, into);
	}
}

int sxt_soft_doc_object(struct sxt_soft_doc *doc, const json_t *value,
			const struct sxt_soft_field *fields, void *into)
{
	const char *key;
	json_t *member;

	if (!json_is_object(value))
		return sxt_soft_doc_fail(doc, "is %s; expected an object", kind_name(value));
	json_object_foreach((json_t *)value, key, member)
	{
		const struct sxt_soft_field *field = fields;
		size_t path_len;
		int rc;

		move_to_key(doc, key);
		while (field->key != NULL && strcmp(field->key, key) != 0)
			field++;
		if (field->key == NULL)
			return unknown_key(doc, key, fields);
		path_len = enter_key(doc, key);
		rc = read_member(doc, member, field, into);
		if (rc != 0)
			return rc;
		doc->path[path_len] = '\0';
	}
	return 0;
}

int sxt_soft_doc_array(struct sxt_soft_doc *doc, const json_t *value, size_t min, size_t max,
		       int (*each)(struct sxt_soft_doc *doc, const json_t *element, void *into),
		       void *into)
{
	size_t cnt = json_array_size(value);

	if (!json_is_array(value))
		return sxt_soft_doc_fail(doc, "is %s; expected an array", kind_name(value));
	if (cnt < min || cnt > max)
		return sxt_soft_doc_fail(doc, "has %zu elements; expected %zu..%zu", cnt, min, max);
	for (size_t i = 0; i < cnt; i++) {
		size_t path_len = enter_element(doc, i);
		int rc = each(doc, json_array_get(value, i), into);

		if (rc != 0)
			return rc;
		doc->path[path_len] = '\0';
	}
	return 0;
}
