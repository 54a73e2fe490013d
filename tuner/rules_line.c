/*
 * rules_line.c - a line of Sextant's format: `rule` or `model`, then key=value words.
 */
#include "tuner/rules_parts.h"

#include "core/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Cuts the next word off a line. Return: false when there is none, or a comment begins. */
static bool next_word(struct sxt_piece *rest, struct sxt_piece *out)
{
	struct sxt_piece word = {.line = rest->line};

	while (rest->len > 0 && is_space(rest->text[0])) {
		rest->text++;
		rest->len--;
		rest->column++;
	}
	if (rest->len == 0 || rest->text[0] == '#')
		return false;
	word.text = rest->text;
	word.column = rest->column;
	while (rest->len > 0 && !is_space(rest->text[0])) {
		rest->text++;
		rest->len--;
		rest->column++;
		word.len++;
	}
	*out = word;
	return true;
}

static const struct sxt_field *field_of(const struct sxt_record *kind, const struct sxt_piece *key)
{
	for (size_t i = 0; i < kind->fields_cnt; i++) {
		if (sxt_piece_is(key, kind->fields[i].key))
			return &kind->fields[i];
	}
	return NULL;
}

static int unknown_key(const struct sxt_record *kind, const struct sxt_piece *key,
		       struct sxt_rules_fault *fault)
{
	const char *keys[16];
	char word[SXT_VALUE_BYTES];
	char why[160];
	const char *nearest;

	for (size_t i = 0; i < kind->fields_cnt; i++)
		keys[i] = kind->fields[i].key;
	snprintf(word, sizeof(word), "%.*s", (int)(key->len < 63 ? key->len : 63), key->text);
	nearest = sxt_nearest(word, keys, kind->fields_cnt);
	if (nearest != NULL)
		snprintf(why, sizeof(why), "is no key of a %s; the nearest is \"%s\"", kind->name,
			 nearest);
	else
		snprintf(why, sizeof(why), "is no key of a %s; docs/tuner.md lists them",
			 kind->name);
	return sxt_fault_word(fault, key, why);
}

/* One key=value word; @seen has a bit for each field that there was. */
static int parse_word(const struct sxt_record *kind, const struct sxt_piece *word, void *record,
		      uint32_t *seen, struct sxt_rules_fault *fault)
{
	const char *equals = memchr(word->text, '=', word->len);
	struct sxt_piece key = *word;
	struct sxt_piece value = *word;
	const struct sxt_field *field;

	if (equals == NULL)
		return sxt_fault_word(fault, word, "is no key=value");
	key.len = (size_t)(equals - word->text);
	value.text = equals + 1;
	value.len = word->len - key.len - 1;
	value.column += (uint32_t)key.len + 1;
	field = field_of(kind, &key);
	if (field == NULL)
		return unknown_key(kind, &key, fault);
	if ((*seen & 1u << (field - kind->fields)) != 0)
		return sxt_fault_word(fault, &key, "is there twice");
	*seen |= 1u << (field - kind->fields);
	return sxt_piece_value(&value, field, record, fault);
}

static int parse_words(const struct sxt_record *kind, struct sxt_piece *rest, void *record,
		       struct sxt_rules_fault *fault)
{
	struct sxt_piece whole = *rest;
	struct sxt_piece word;
	uint32_t seen = 0;
	int rc;

	while (next_word(rest, &word)) {
		rc = parse_word(kind, &word, record, &seen, fault);
		if (rc != 0)
			return rc;
	}
	whole.column = 0;
	for (size_t i = 0; i < kind->fields_cnt; i++) {
		if (kind->fields[i].is_required && (seen & 1u << i) == 0)
			return sxt_fault_set(fault, &whole, "the %s has no %s=", kind->name,
					     kind->fields[i].key);
	}
	return 0;
}

int sxt_line_parse(const struct sxt_piece *line, struct sxt_parsed *out,
		   struct sxt_rules_fault *fault)
{
	struct sxt_parsed parsed = {.rule = sxt_rule_default, .model = sxt_model_default};
	struct sxt_piece rest = *line;
	struct sxt_piece word;
	char why[160];
	int rc = 0;

	if (next_word(&rest, &word)) {
		parsed.is_rule = sxt_piece_is(&word, "rule");
		parsed.is_model = sxt_piece_is(&word, "model");
		if (!parsed.is_rule && !parsed.is_model)
			return sxt_fault_word(
				fault, &word,
				"begins no line; a line begins with rule, model or #");
	}
	if (parsed.is_rule) {
		rc = parse_words(&sxt_rule_record, &rest, &parsed.rule, fault);
		if (rc == 0 && sxt_rule_check(&parsed.rule, why) != 0) {
			word.column = 0;
			rc = sxt_fault_set(fault, &word, "%s", why);
		}
	} else if (parsed.is_model) {
		rc = parse_words(&sxt_model_record, &rest, &parsed.model, fault);
	}
	if (rc == 0)
		*out = parsed;
	return rc;
}
