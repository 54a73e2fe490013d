/*
 * check_settings.c - NCCL_ and SEXTANT_ settings: misspelt, bad, empty, hidden by another.
 */
#include "cli/doctor/doctor.h"

#include "core/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const used_names[] = {
#define SXT_OPT(kind, field, env, def, min, max, unit, doc) env,
#define SXT_KNOWN(env)
#include "core/config.def"
#undef SXT_OPT
#undef SXT_KNOWN
};

/* NCCL's own transport reads these, Sextant does not. */
static const char *const unused_names[] = {
#define SXT_OPT(kind, field, env, def, min, max, unit, doc)
#define SXT_KNOWN(env) env,
#include "core/config.def"
#undef SXT_OPT
#undef SXT_KNOWN
};

static const char *const nccl_names[] = {
#define SXT_NCCL_NAME(env) env,
#include "cli/doctor/nccl_names.def"
#undef SXT_NCCL_NAME
};

static bool is_in(const char *name, const char *const *names, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static const char *nearest(const char *name)
{
	const char *all[SXT_ARRAY_LEN(used_names) + SXT_ARRAY_LEN(unused_names) +
			SXT_ARRAY_LEN(nccl_names)];
	size_t cnt = 0;

	for (size_t i = 0; i < SXT_ARRAY_LEN(used_names); i++)
		all[cnt++] = used_names[i];
	for (size_t i = 0; i < SXT_ARRAY_LEN(unused_names); i++)
		all[cnt++] = unused_names[i];
	for (size_t i = 0; i < SXT_ARRAY_LEN(nccl_names); i++)
		all[cnt++] = nccl_names[i];
	return sxt_nearest(name, all, cnt);
}

static void check_unknown(struct sxt_doctor *d, const struct sxt_doctor_setting *one)
{
	const char *known = nearest(one->name);

	if (known != NULL)
		sxt_doctor_add(d, SXT_FINDING_SET_MISSPELT, one->name, known, "'%s' (%s)",
			       one->value, one->origin);
	else if (strncmp(one->name, "NCCL_", 5) == 0 || strncmp(one->name, "SEXTANT_", 8) == 0)
		sxt_doctor_add(d, SXT_FINDING_SET_UNKNOWN, one->name, NULL, "'%s' (%s)", one->value,
			       one->origin);
}

static void check_value(struct sxt_doctor *d, const struct sxt_doctor_setting *one)
{
	struct sxt_config config = {0};
	char why[160];

	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (strcmp(sxt_opts[i].env, one->name) == 0 &&
		    sxt_opt_parse(&sxt_opts[i], one->value, &config, why, sizeof(why)) != 0)
			sxt_doctor_add(d, SXT_FINDING_SET_BAD_VALUE, one->name, NULL,
				       "'%s' (%s): %s", one->value, one->origin, why);
	}
}

static bool has_space_around(const char *text)
{
	size_t len = strlen(text);

	return len > 0 &&
	       (isspace((unsigned char)text[0]) || isspace((unsigned char)text[len - 1]));
}

/* A name with the space around it taken off, for looking it up. */
static void check_one(struct sxt_doctor *d, const struct sxt_doctor_setting *one)
{
	if (has_space_around(one->name) || has_space_around(one->value)) {
		sxt_doctor_add(d, SXT_FINDING_SET_SPACE, one->name, NULL, "'%s=%s' (%s)", one->name,
			       one->value, one->origin);
		return;
	}
	if (is_in(one->name, unused_names, SXT_ARRAY_LEN(unused_names))) {
		sxt_doctor_add(d, SXT_FINDING_SET_IGNORED, one->name, NULL, "'%s' (%s)", one->value,
			       one->origin);
	} else if (!is_in(one->name, used_names, SXT_ARRAY_LEN(used_names)) &&
		   !is_in(one->name, nccl_names, SXT_ARRAY_LEN(nccl_names))) {
		check_unknown(d, one);
		return;
	}
	if (one->value[0] == '\0')
		sxt_doctor_add(d, SXT_FINDING_SET_EMPTY, one->name, NULL, "'' (%s)", one->origin);
	else
		check_value(d, one);
}

/* Where a value in a file stands behind another one. */
static void check_origin(struct sxt_doctor *d, const struct sxt_doctor_setting *one)
{
	if (strcmp(one->origin, "environment") == 0)
		return;
	if (one->counts) {
		sxt_doctor_add(d, SXT_FINDING_SET_FROM_FILE, one->name, NULL, "'%s' (%s)",
			       one->value, one->origin);
		return;
	}
	for (size_t i = 0; i < d->settings.cnt; i++) {
		const struct sxt_doctor_setting *first = &d->settings.list[i];

		if (first->counts && strcmp(first->name, one->name) == 0 &&
		    strcmp(first->value, one->value) != 0)
			sxt_doctor_add(d, SXT_FINDING_SET_SHADOWED, one->name, first->value,
				       "'%s' (%s) does not count, '%s' (%s) does", one->value,
				       one->origin, first->value, first->origin);
	}
}

void sxt_check_settings(struct sxt_doctor *d)
{
	for (size_t i = 0; i < d->settings.cnt; i++) {
		const struct sxt_doctor_setting *one = &d->settings.list[i];

		if (strcmp(one->name, "LD_LIBRARY_PATH") == 0 || strcmp(one->name, "HOME") == 0)
			continue;
		check_one(d, one);
		check_origin(d, one);
	}
}
