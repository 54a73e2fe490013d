/*
 * config.c - settings from the environment (slow path, at init).
 */
#include "core/config.h"

#include "core/log.h"
#include "core/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* A default outside its own range does not build. Lengths of str defaults are checked in tests. */
#define RANGE_CHECK_u32(field, def, min, max) \
	_Static_assert((def) >= (min) && (def) <= (max), #field ": default outside range");
#define RANGE_CHECK_i32(field, def, min, max)  RANGE_CHECK_u32(field, def, min, max)
#define RANGE_CHECK_bool(field, def, min, max) RANGE_CHECK_u32(field, def, min, max)
#define RANGE_CHECK_str(field, def, min, max)
#define SXT_OPT(kind, field, env, def, min, max, unit, doc) RANGE_CHECK_##kind(field, def, min, max)
#define SXT_KNOWN(env)
#include "core/config.def"
#undef SXT_OPT
#undef SXT_KNOWN

#define KIND_u32          SXT_OPT_U32
#define KIND_i32          SXT_OPT_I32
#define KIND_bool         SXT_OPT_BOOL
#define KIND_str          SXT_OPT_STR
#define DEF_NUM_u32(def)  (def)
#define DEF_NUM_i32(def)  (def)
#define DEF_NUM_bool(def) (def)
#define DEF_NUM_str(def)  0
#define DEF_STR_u32(def)  NULL
#define DEF_STR_i32(def)  NULL
#define DEF_STR_bool(def) NULL
#define DEF_STR_str(def)  (def)

const struct sxt_opt sxt_opts[] = {
#define SXT_OPT(kind_, field_, env_, def_, min_, max_, unit_, doc_) \
	{                                                           \
		.kind = KIND_##kind_,                               \
		.field = #field_,                                   \
		.env = env_,                                        \
		.default_text = #def_,                              \
		.default_str = DEF_STR_##kind_(def_),               \
		.default_num = DEF_NUM_##kind_(def_),               \
		.min = min_,                                        \
		.max = max_,                                        \
		.unit = unit_,                                      \
		.doc = doc_,                                        \
		.offset = offsetof(struct sxt_config, field_),      \
	},
#define SXT_KNOWN(env)
#include "core/config.def"
#undef SXT_OPT
#undef SXT_KNOWN
};
const size_t sxt_opts_cnt = SXT_ARRAY_LEN(sxt_opts);

static const char *const known_names[] = {
#define SXT_OPT(kind, field, env, def, min, max, unit, doc)
#define SXT_KNOWN(env) env,
#include "core/config.def"
#undef SXT_OPT
#undef SXT_KNOWN
};

const char *sxt_env_get(const char *name)
{
	return secure_getenv(name);
}

static int parse_number(const struct sxt_opt *opt, const char *text, int64_t *out)
{
	char *end;
	int64_t value;

	/* strtoll() would skip leading space; a value is the whole text or nothing. */
	if (strchr("0123456789-", text[0]) == NULL || text[0] == '\0')
		return -EINVAL;
	errno = 0;
	value = strtoll(text, &end, 0);
	if (*end != '\0' || end == text)
		return -EINVAL;
	if (errno == ERANGE || value < opt->min || value > opt->max)
		return -ERANGE;
	*out = value;
	return 0;
}

static void explain_number(const struct sxt_opt *opt, int rc, char *why, size_t why_bytes)
{
	const char *unit = opt->unit[0] != '\0' ? opt->unit : "no unit";

	snprintf(why, why_bytes, "%s; expected a whole number %" PRId64 "..%" PRId64 " (%s)",
		 rc == -ERANGE ? "out of range" : "not a number", opt->min, opt->max, unit);
}

int sxt_opt_parse(const struct sxt_opt *opt, const char *text, struct sxt_config *config, char *why,
		  size_t why_bytes)
{
	void *field = (char *)config + opt->offset;
	int64_t value;
	int rc;

	if (opt->kind == SXT_OPT_STR) {
		size_t len = strlen(text);

		if (len < (size_t)opt->min || len > (size_t)opt->max) {
			snprintf(why, why_bytes,
				 "%zu bytes long; expected %" PRId64 "..%" PRId64 " bytes", len,
				 opt->min, opt->max);
			return -ERANGE;
		}
		*(const char **)field = text;
		return 0;
	}
	rc = parse_number(opt, text, &value);
	if (rc != 0) {
		explain_number(opt, rc, why, why_bytes);
		return rc;
	}
	if (opt->kind == SXT_OPT_I32)
		*(int32_t *)field = (int32_t)value;
	else
		*(uint32_t *)field = (uint32_t)value;
	return 0;
}

void sxt_opt_format(const struct sxt_opt *opt, const struct sxt_config *config, char *out,
		    size_t out_bytes)
{
	const void *field = (const char *)config + opt->offset;

	switch (opt->kind) {
	case SXT_OPT_STR:
		snprintf(out, out_bytes, "%s", *(const char *const *)field);
		break;
	case SXT_OPT_I32:
		snprintf(out, out_bytes, "%" PRId32, *(const int32_t *)field);
		break;
	case SXT_OPT_U32:
	case SXT_OPT_BOOL:
		snprintf(out, out_bytes, "%" PRIu32, *(const uint32_t *)field);
		break;
	}
}

void sxt_opt_set_default(const struct sxt_opt *opt, struct sxt_config *config)
{
	void *field = (char *)config + opt->offset;

	if (opt->kind == SXT_OPT_STR)
		*(const char **)field = opt->default_str;
	else if (opt->kind == SXT_OPT_I32)
		*(int32_t *)field = (int32_t)opt->default_num;
	else
		*(uint32_t *)field = (uint32_t)opt->default_num;
}

static int load_row(const struct sxt_opt *opt, struct sxt_config *config)
{
	const char *text = sxt_env_get(opt->env);
	char why[160];
	int rc;

	sxt_opt_set_default(opt, config);
	if (text == NULL || (text[0] == '\0' && opt->min > 0))
		return 0;
	rc = sxt_opt_parse(opt, text, config, why, sizeof(why));
	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN, "setting %s=%s: %s. Using the default, %s.", opt->env, text,
			why, opt->kind == SXT_OPT_STR ? opt->default_str : opt->default_text);
	return rc;
}

/* The environment may change under us later: keep copies of its strings. */
static int own_strings(struct sxt_config *config)
{
	const char *copies[SXT_ARRAY_LEN(sxt_opts)] = {NULL};

	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (sxt_opts[i].kind != SXT_OPT_STR)
			continue;
		copies[i] = strdup(*(const char **)((char *)config + sxt_opts[i].offset));
		if (copies[i] == NULL)
			goto fail;
	}
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (copies[i] != NULL)
			*(const char **)((char *)config + sxt_opts[i].offset) = copies[i];
	}
	config->owns_strings = true;
	return 0;
fail:
	for (size_t i = 0; i < sxt_opts_cnt; i++)
		free((void *)copies[i]);
	SXT_LOG(SXT_LOG_ERROR, "copying the settings: %s", sxt_strerror(-ENOMEM));
	return -ENOMEM;
}

static bool is_setting(const char *name)
{
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (strcmp(sxt_opts[i].env, name) == 0)
			return true;
	}
	return false;
}

static bool is_known(const char *name)
{
	for (size_t i = 0; i < SXT_ARRAY_LEN(known_names); i++) {
		if (strcmp(known_names[i], name) == 0)
			return true;
	}
	return false;
}

static const char *nearest_name(const char *name)
{
	const char *all[SXT_ARRAY_LEN(sxt_opts) + SXT_ARRAY_LEN(known_names)];
	size_t all_cnt = 0;

	for (size_t i = 0; i < sxt_opts_cnt; i++)
		all[all_cnt++] = sxt_opts[i].env;
	for (size_t i = 0; i < SXT_ARRAY_LEN(known_names); i++)
		all[all_cnt++] = known_names[i];
	return sxt_nearest(name, all, all_cnt);
}

static void report_unknown_name(const char *name)
{
	const char *nearest;

	if (is_setting(name))
		return;
	if (is_known(name)) {
		SXT_LOG(SXT_LOG_INFO, "setting %s is NCCL's and has no effect in Sextant", name);
		return;
	}
	nearest = nearest_name(name);
	SXT_LOG(SXT_LOG_WARN, "setting %s is unknown and ignored%s%s%s; `sextant env` lists all",
		name, nearest != NULL ? " (did you mean " : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "?)" : "");
}

static void report_unknown(void)
{
	for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
		char name[128];
		size_t len = strcspn(*entry, "=");

		if (strncmp(*entry, "SEXTANT_", 8) != 0 && strncmp(*entry, "NCCL_IB_", 8) != 0)
			continue;
		if (len >= sizeof(name))
			continue;
		memcpy(name, *entry, len);
		name[len] = '\0';
		report_unknown_name(name);
	}
}

int sxt_config_load(struct sxt_config *out)
{
	struct sxt_config config = {0};
	int bad_cnt = 0;
	int rc;

	for (size_t i = 0; i < sxt_opts_cnt; i++)
		bad_cnt += load_row(&sxt_opts[i], &config) != 0;
	report_unknown();
	if (bad_cnt > 0 && config.strict != 0) {
		SXT_LOG(SXT_LOG_ERROR,
			"%d bad setting(s) and SEXTANT_STRICT=1: not starting. Correct the values "
			"named above or unset SEXTANT_STRICT.",
			bad_cnt);
		return -EINVAL;
	}
	rc = own_strings(&config);
	if (rc == 0)
		*out = config;
	return rc;
}

void sxt_config_fini(struct sxt_config *config)
{
	if (!config->owns_strings)
		return;
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (sxt_opts[i].kind == SXT_OPT_STR)
			free(*(char **)((char *)config + sxt_opts[i].offset));
	}
	memset(config, 0, sizeof(*config));
}

void sxt_config_write_markdown(FILE *file)
{
	fputs("| setting | default | range | unit | what it does |\n|---|---|---|---|---|\n", file);
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		const struct sxt_opt *opt = &sxt_opts[i];

		fprintf(file, "| `%s` | ", opt->env);
		if (opt->kind == SXT_OPT_STR)
			fprintf(file, "%s%s%s | text", opt->default_str[0] != '\0' ? "`" : "",
				opt->default_str, opt->default_str[0] != '\0' ? "`" : "");
		else
			fprintf(file, "%" PRId64 " | %" PRId64 "..%" PRId64, opt->default_num,
				opt->min, opt->max);
		fprintf(file, " | %s | %s |\n", opt->unit, opt->doc);
	}
}

/* Levenshtein distance over one row; names are short, words longer than the row never match. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[128];
	size_t b_len = strlen(b);

	if (b_len >= SXT_ARRAY_LEN(row))
		return SIZE_MAX;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 0; a[i] != '\0'; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_len; j++) {
			size_t best = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j + 1] + 1 < best)
				best = row[j + 1] + 1;
			row[j + 1] = best;
		}
	}
	return row[b_len];
}

const char *sxt_nearest(const char *word, const char *const *names, size_t names_cnt)
{
	size_t limit = strlen(word) / 3 < 3 ? strlen(word) / 3 : 3;
	const char *best = NULL;

	for (size_t i = 0; i < names_cnt; i++) {
		size_t distance = edit_distance(word, names[i]);

		if (distance <= limit && (best == NULL || distance < edit_distance(word, best)))
			best = names[i];
	}
	return best;
}
