/*
 * fields.c - the two tables of fields, and a value of each kind as text and back.
 */
#include "tuner/fields.h"

#include "core/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ANY                   \
	{                     \
		0, UINT64_MAX \
	}
#define ANY_WHEN \
	.bytes = ANY, .nodes = ANY, .ranks = ANY, .per_node = ANY, .pipe_ops = ANY, .reg = -1

const struct sxt_rule sxt_rule_default = {.when = {ANY_WHEN}};
const struct sxt_model sxt_model_default = {.when = {ANY_WHEN}, .margin = 0.03f};

#define ROW(type, name, what, member, ...)                                                        \
	{                                                                                         \
		.key = (name), .kind = SXT_FIELD_##what, .offset = offsetof(struct type, member), \
		__VA_ARGS__                                                                       \
	}
#define NEED(type, name, what, member)     ROW(type, name, what, member, .is_required = true)
#define MAY(type, name, what, member)      ROW(type, name, what, member, .is_required = false)
#define REAL(type, name, member, from, to) ROW(type, name, REAL, member, .min = (from), .max = (to))
#define TOLD(type, name, member)           ROW(type, name, REAL, member, .is_told = true, .max = 1)

static const struct sxt_field rule_fields[] = {
	NEED(sxt_rule, "coll", COLL, when.coll),
	MAY(sxt_rule, "bytes", SIZES, when.bytes),
	MAY(sxt_rule, "nodes", COUNTS, when.nodes),
	MAY(sxt_rule, "ranks", COUNTS, when.ranks),
	MAY(sxt_rule, "per_node", COUNTS, when.per_node),
	ROW(sxt_rule, "pipe_ops", COUNTS, when.pipe_ops, .max = SXT_PIPE_OPS_MAX),
	MAY(sxt_rule, "reg", REG, when.reg),
	NEED(sxt_rule, "algo", ALGO, algo),
	NEED(sxt_rule, "proto", PROTO, proto),
	MAY(sxt_rule, "channels", CHANNELS, channels),
	MAY(sxt_rule, "chunk", CHUNK, chunk),
	TOLD(sxt_rule, "gain", gain),
	TOLD(sxt_rule, "confidence", confidence),
};

static const struct sxt_field model_fields[] = {
	NEED(sxt_model, "coll", COLL, when.coll),
	MAY(sxt_model, "bytes", SIZES, when.bytes),
	MAY(sxt_model, "nodes", COUNTS, when.nodes),
	MAY(sxt_model, "ranks", COUNTS, when.ranks),
	MAY(sxt_model, "per_node", COUNTS, when.per_node),
	NEED(sxt_model, "algo", ALGO, algo),
	NEED(sxt_model, "proto", PROTO, proto),
	REAL(sxt_model, "base_us", base_us, 0, 1e9),
	REAL(sxt_model, "intra_us", intra_us, 0, 1e9),
	REAL(sxt_model, "inter_us", inter_us, 0, 1e9),
	ROW(sxt_model, "gbs", REAL, gbs, .is_required = true, .min = 1e-6, .max = 1e6),
	REAL(sxt_model, "margin", margin, 0, 0.99),
	TOLD(sxt_model, "confidence", confidence),
};

const struct sxt_record sxt_rule_record = {"rule", rule_fields, SXT_ARRAY_LEN(rule_fields)};
const struct sxt_record sxt_model_record = {"model", model_fields, SXT_ARRAY_LEN(model_fields)};

/* The kinds of field that are names. */
struct names {
	const char *what;
	const char *const *list;
	size_t cnt;
	int (*number_of)(const char *word);
};

static const struct names names[] = {
	[SXT_FIELD_COLL] = {"collective", sxt_coll_names, SXT_COLLS, sxt_coll_of},
	[SXT_FIELD_ALGO] = {"algorithm", sxt_algo_names, SXT_ALGOS, sxt_algo_of},
	[SXT_FIELD_PROTO] = {"protocol", sxt_proto_names, SXT_PROTOS, sxt_proto_of},
};

static int parse_name(const struct names *of, const char *text, uint32_t *member, char why[160])
{
	int number = of->number_of(text);
	const char *nearest;
	size_t len;

	if (number >= 0) {
		*member = (uint32_t)number;
		return 0;
	}
	nearest = sxt_nearest(text, of->list, of->cnt);
	if (nearest != NULL) {
		snprintf(why, 160, "is no %s; the nearest is \"%s\"", of->what, nearest);
		return -EINVAL;
	}
	len = (size_t)snprintf(why, 160, "is no %s; there are", of->what);
	for (size_t i = 0; i < of->cnt; i++)
		len += (size_t)snprintf(why + len, 160 - len, " %s", of->list[i]);
	return -EINVAL;
}

static int parse_range(const struct sxt_field *field, const char *text, void *member, char why[160])
{
	bool is_bytes = field->kind == SXT_FIELD_SIZES;
	uint32_t most = field->max > 0 ? (uint32_t)field->max : UINT32_MAX;
	struct sxt_range range;
	int rc = sxt_range_parse(text, is_bytes, &range);

	if (rc == 0 && !is_bytes &&
	    (range.min > most || (range.max > most && range.max != UINT64_MAX)))
		rc = -ERANGE;
	if (rc == 0)
		*(struct sxt_range *)member = range;
	if (rc == -EDOM)
		snprintf(why, 160, "begins after its end");
	else if (rc == -ERANGE && !is_bytes)
		snprintf(why, 160, "is out of range; there are 1 to %" PRIu32, most);
	else if (rc == -ERANGE)
		snprintf(why, 160, "is out of range; at most 64 bits of bytes, or inf");
	else if (rc != 0)
		snprintf(why, 160, "is no range of %s; write %s",
			 is_bytes ? "sizes" : "whole numbers",
			 is_bytes ? "64K, 64K..1M, 1M.., ..64K or any"
				  : "4, 4..8, 4.., ..8 or any");
	return rc != 0 ? -EINVAL : 0;
}

static int parse_reg(const char *text, int8_t *member, char why[160])
{
	if (strcmp(text, "any") == 0)
		*member = -1;
	else if (strcmp(text, "0") == 0 || strcmp(text, "1") == 0)
		*member = (int8_t)(text[0] - '0');
	else
		goto fail;
	return 0;
fail:
	snprintf(why, 160, "is none of 0 (buffers not registered), 1 (registered) and any");
	return -EINVAL;
}

static int parse_channels(const char *text, uint32_t *member, char why[160])
{
	uint64_t value;

	if (sxt_count_parse(text, &value) != 0 || value > SXT_CHANNELS_MAX) {
		snprintf(why, 160, "is no number of channels, 1 to %u", SXT_CHANNELS_MAX);
		return -EINVAL;
	}
	*member = (uint32_t)value;
	return 0;
}

static int parse_chunk(const char *text, uint64_t *member, char why[160])
{
	uint64_t value;

	if (sxt_bytes_parse(text, &value) != 0 || value < SXT_CHUNK_MIN || value > SXT_CHUNK_MAX ||
	    value % SXT_CHUNK_STEP != 0) {
		snprintf(why, 160, "is no size of a chunk: a multiple of %u, 4K to 16M",
			 SXT_CHUNK_STEP);
		return -EINVAL;
	}
	*member = value;
	return 0;
}

static int parse_real(const struct sxt_field *field, const char *text, float *member, char why[160])
{
	char min[SXT_VALUE_BYTES];
	char max[SXT_VALUE_BYTES];
	int rc = sxt_real_parse(text, field->min, field->max, member);

	if (rc == 0)
		return 0;
	sxt_real_write((float)field->min, min);
	sxt_real_write((float)field->max, max);
	snprintf(why, 160, "is %s, %.24s to %.24s",
		 rc == -ERANGE ? "out of range for a decimal number" : "no plain decimal number",
		 min, max);
	return -EINVAL;
}

int sxt_field_parse(const struct sxt_field *field, const char *text, void *record, char why[160])
{
	void *member = (char *)record + field->offset;

	switch (field->kind) {
	case SXT_FIELD_SIZES:
	case SXT_FIELD_COUNTS:
		return parse_range(field, text, member, why);
	case SXT_FIELD_REG:
		return parse_reg(text, member, why);
	case SXT_FIELD_CHANNELS:
		return parse_channels(text, member, why);
	case SXT_FIELD_CHUNK:
		return parse_chunk(text, member, why);
	case SXT_FIELD_REAL:
		return parse_real(field, text, member, why);
	default:
		return parse_name(&names[field->kind], text, member, why);
	}
}

/* The value, or "" where it is what a line without it means. */
static void write_value(const struct sxt_field *field, const void *member,
			char out[SXT_VALUE_BYTES])
{
	out[0] = '\0';
	switch (field->kind) {
	case SXT_FIELD_SIZES:
	case SXT_FIELD_COUNTS:
		if (!sxt_range_is_any(member))
			sxt_range_write(member, field->kind == SXT_FIELD_SIZES, out);
		break;
	case SXT_FIELD_REG:
		if (*(const int8_t *)member >= 0)
			snprintf(out, SXT_VALUE_BYTES, "%d", *(const int8_t *)member);
		break;
	case SXT_FIELD_CHANNELS:
		if (*(const uint32_t *)member != 0)
			snprintf(out, SXT_VALUE_BYTES, "%" PRIu32, *(const uint32_t *)member);
		break;
	case SXT_FIELD_CHUNK:
		if (*(const uint64_t *)member != 0)
			sxt_bytes_write(*(const uint64_t *)member, out);
		break;
	case SXT_FIELD_REAL:
		if (!field->is_told || *(const float *)member > 0)
			sxt_real_write(*(const float *)member, out);
		break;
	default:
		snprintf(out, SXT_VALUE_BYTES, "%s",
			 names[field->kind].list[*(const uint32_t *)member]);
	}
}

void sxt_record_write(const struct sxt_record *kind, const void *record, bool has_told,
		      char out[SXT_RULE_LINE_BYTES])
{
	size_t len = (size_t)snprintf(out, SXT_RULE_LINE_BYTES, "%s", kind->name);

	for (size_t i = 0; i < kind->fields_cnt; i++) {
		const struct sxt_field *field = &kind->fields[i];
		char value[SXT_VALUE_BYTES];

		if (field->is_told && !has_told)
			continue;
		write_value(field, (const char *)record + field->offset, value);
		if (value[0] != '\0')
			len += (size_t)snprintf(out + len, SXT_RULE_LINE_BYTES - len, " %s=%s",
						field->key, value);
	}
}

void sxt_rule_write(const struct sxt_rule *rule, char out[SXT_RULE_LINE_BYTES])
{
	sxt_record_write(&sxt_rule_record, rule, true, out);
}

void sxt_model_write(const struct sxt_model *model, char out[SXT_RULE_LINE_BYTES])
{
	sxt_record_write(&sxt_model_record, model, true, out);
}

int sxt_rule_check(const struct sxt_rule *rule, char why[160])
{
	bool is_collnet =
		rule->algo == SXT_ALGO_COLLNET_DIRECT || rule->algo == SXT_ALGO_COLLNET_CHAIN;

	if (rule->channels != 0 && is_collnet) {
		snprintf(why, 160,
			 "channels with %s: NCCL takes them unchecked there, beyond what the "
			 "communicator has; leave them out",
			 sxt_algo_names[rule->algo]);
		return -EINVAL;
	}
	if (rule->chunk != 0 && (!sxt_range_is_any(&rule->when.pipe_ops) || rule->when.reg >= 0)) {
		snprintf(why, 160,
			 "chunk with pipe_ops or reg: NCCL tells neither when it asks for a chunk; "
			 "leave one out");
		return -EINVAL;
	}
	return 0;
}
