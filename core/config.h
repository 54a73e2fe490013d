/*
 * config.h - the settings table: struct, parser and report, all made from config.def.
 *
 * Settings are read once into a struct and passed on as const. A bad value is told and replaced
 * by the default; with SEXTANT_STRICT=1 loading fails instead.
 */
#ifndef SXT_CORE_CONFIG_H
#define SXT_CORE_CONFIG_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stdio.h>

enum sxt_opt_kind {
	SXT_OPT_U32,
	SXT_OPT_I32,
	SXT_OPT_BOOL,
	SXT_OPT_STR
};

#define SXT_OPT_TYPE_u32  uint32_t
#define SXT_OPT_TYPE_i32  int32_t
#define SXT_OPT_TYPE_bool uint32_t
#define SXT_OPT_TYPE_str  const char *

struct sxt_config {
#define SXT_OPT(kind, field, env, def, min, max, unit, doc) SXT_OPT_TYPE_##kind field;
#define SXT_KNOWN(env)
#include "core/config.def"
#undef SXT_OPT
#undef SXT_KNOWN
	bool owns_strings; /* str fields were allocated by sxt_config_load() */
};

/* One row of the table, for reports and tests. */
struct sxt_opt {
	enum sxt_opt_kind kind;
	const char *field;
	const char *env;
	const char *default_text;
	const char *default_str; /* str rows: the default itself */
	int64_t default_num;
	int64_t min;
	int64_t max;
	const char *unit; /* "" where the value has none */
	const char *doc;
	size_t offset; /* of the field in struct sxt_config */
};

extern const struct sxt_opt sxt_opts[];
extern const size_t sxt_opts_cnt;

/**
 * sxt_env_get() - the only reader of the environment.
 * @name: variable. Thread: any that does not race with setenv().
 * Return: its value, or NULL when unset, or when the process is set-user-id.
 */
const char *sxt_env_get(const char *name);

/**
 * sxt_config_load() - read every setting from the environment.
 * @out: written on success; give back with sxt_config_fini().
 * Logs one WARN for each bad value (name, value, range, unit, what is used instead) and for each
 * SEXTANT_ or NCCL_IB_ name that is no setting (with the nearest one).
 * Path: slow, allocates. Return: 0, -EINVAL if strict is set and a value is bad, or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_config_load(struct sxt_config *out);

/**
 * sxt_config_fini() - free what sxt_config_load() allocated; a zeroed struct is fine.
 * @config: settings, unusable afterwards.
 */
void sxt_config_fini(struct sxt_config *config);

/**
 * sxt_opt_parse() - parse one value for one row; the whole text must fit.
 * @opt: the row. @text: the value as the user wrote it.
 * @config: its field is written on success only; a str field then points to @text itself.
 * @why, @why_bytes: on failure, why, as "must be 0..31 (got 20ms)"-like text.
 * Return: 0, -EINVAL if it is no value of the kind, -ERANGE if outside min..max.
 */
SXT_MUST_CHECK int sxt_opt_parse(const struct sxt_opt *opt, const char *text,
				 struct sxt_config *config, char *why, size_t why_bytes);

/**
 * sxt_opt_set_default() - give one row its default.
 * @opt: the row. @config: its field is written; a str field then points to a constant.
 */
void sxt_opt_set_default(const struct sxt_opt *opt, struct sxt_config *config);

/**
 * sxt_opt_format() - the value of one row as the user would write it.
 * @opt: the row. @config: where the value is. @out, @out_bytes: text, always terminated.
 */
void sxt_opt_format(const struct sxt_opt *opt, const struct sxt_config *config, char *out,
		    size_t out_bytes);

/**
 * sxt_config_write_markdown() - the settings as the table that stands in the README.
 * @file: open for writing.
 */
void sxt_config_write_markdown(FILE *file);

/**
 * sxt_nearest() - the candidate closest in spelling, for "did you mean".
 * @word: what was written. @names, @names_cnt: what would have been understood.
 * Return: a name at Levenshtein distance of at most a third of the word (and 3), or NULL.
 */
const char *sxt_nearest(const char *word, const char *const *names, size_t names_cnt);

#endif
