/*
 * doc.h - reads a JSON document into structs by tables, telling file, line and path of what is
 * wrong. Slow path, one thread.
 *
 * jansson keeps the order of members but not their places. The walk follows the document's order
 * and moves a cursor in the text to each key it meets, which gives the exact line.
 */
#ifndef SXT_IB_SOFT_DOC_H
#define SXT_IB_SOFT_DOC_H

#include "ib/soft/names.h"

#include <jansson.h>

struct sxt_soft_doc {
	const char *file; /* for messages */
	const char *text; /* NULL where the values come from elsewhere: messages have no line */
	size_t at;        /* cursor in text */
	char path[256];   /* "hosts[0].hcas[1]"; "" at the top */
	char *why;        /* the message of the first failure */
	size_t why_bytes;
};

enum sxt_soft_doc_kind {
	SXT_SOFT_DOC_INT,    /* whole number min..max into an unsigned or signed member */
	SXT_SOFT_DOC_TEXT,   /* text of min..max bytes into a char array */
	SXT_SOFT_DOC_HEX,    /* "0x1f" or a whole number into an unsigned member */
	SXT_SOFT_DOC_CHOICE, /* one of a list of words */
	SXT_SOFT_DOC_CALL,   /* a function of its own */
};

/* One key an object may have. */
struct sxt_soft_field {
	const char *key; /* NULL ends the table */
	enum sxt_soft_doc_kind kind;
	size_t offset; /* of the member in the struct */
	size_t bytes;  /* its size */
	int64_t min;
	int64_t max; /* hex: -1 is all 64 bits */
	const struct sxt_soft_name *choices;
	int (*call)(struct sxt_soft_doc *doc, const json_t *value, void *into);
};

/* Rows of such a table: {SXT_SOFT_FIELD_INT(lid, struct sxt_soft_port, lid, 1, 0xbfff)}. */
#define SXT_SOFT_FIELD_MEMBER(type, member) \
	.offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define SXT_SOFT_FIELD_INT(name, type, member, low, high)                                        \
	.key = #name, .kind = SXT_SOFT_DOC_INT, SXT_SOFT_FIELD_MEMBER(type, member), .min = low, \
	.max = high
#define SXT_SOFT_FIELD_HEX(name, type, member, low, high)                                        \
	.key = #name, .kind = SXT_SOFT_DOC_HEX, SXT_SOFT_FIELD_MEMBER(type, member), .min = low, \
	.max = high
#define SXT_SOFT_FIELD_TEXT(name, type, member)                                                 \
	.key = #name, .kind = SXT_SOFT_DOC_TEXT, SXT_SOFT_FIELD_MEMBER(type, member), .min = 1, \
	.max = sizeof(((type *)0)->member) - 1
#define SXT_SOFT_FIELD_CHOICE(name, type, member, list)                                 \
	.key = #name, .kind = SXT_SOFT_DOC_CHOICE, SXT_SOFT_FIELD_MEMBER(type, member), \
	.choices = list
#define SXT_SOFT_FIELD_CALL(name, function) \
	.key = #name, .kind = SXT_SOFT_DOC_CALL, .call = function

/**
 * sxt_soft_doc_fail() - write the message "file:line: path: text" once.
 * @doc: where the walk is. @fmt: what was seen, what is expected.
 * Return: -EINVAL, to be passed on.
 */
int sxt_soft_doc_fail(struct sxt_soft_doc *doc, const char *fmt, ...) SXT_PRINTF(2, 3);

/**
 * sxt_soft_doc_show() - a value for messages: numbers and texts as they are, else the kind of
 * value.
 * @value: any. @out, @out_bytes: text, terminated.
 */
void sxt_soft_doc_show(const json_t *value, char *out, size_t out_bytes);

/**
 * sxt_soft_doc_object() - read every member of an object by a table.
 * @doc: the walk. @value: must be an object. @fields: keys it may have.
 * @into: struct the offsets are of, given to the functions as well; half-written on failure.
 * Return: 0, or -EINVAL with the message written.
 */
SXT_MUST_CHECK int sxt_soft_doc_object(struct sxt_soft_doc *doc, const json_t *value,
				       const struct sxt_soft_field *fields, void *into);

/**
 * sxt_soft_doc_array() - call a function for every element of an array.
 * @doc: the walk. @value: must be an array of @min..@max elements.
 * @each: gets the element and @into; a failure of it ends the walk.
 * Return: 0, or -EINVAL with the message written.
 */
SXT_MUST_CHECK int sxt_soft_doc_array(
	struct sxt_soft_doc *doc, const json_t *value, size_t min, size_t max,
	int (*each)(struct sxt_soft_doc *doc, const json_t *element, void *into), void *into);

/**
 * sxt_soft_doc_hex() - a number given as "0x1f", "0002:c903:0001:0002" or 31.
 * @doc: the walk. @value: the number. @max: greatest allowed. @out: written on success only.
 * Return: 0, or -EINVAL with the message written.
 */
SXT_MUST_CHECK int sxt_soft_doc_hex(struct sxt_soft_doc *doc, const json_t *value, uint64_t max,
				    uint64_t *out);

/**
 * sxt_soft_doc_choice() - a word of a list.
 * @doc: the walk. @value: the word. @choices: the list. @out: written on success only.
 * Return: 0, or -EINVAL with the message (and the nearest word) written.
 */
SXT_MUST_CHECK int sxt_soft_doc_choice(struct sxt_soft_doc *doc, const json_t *value,
				       const struct sxt_soft_name *choices, uint32_t *out);

#endif
