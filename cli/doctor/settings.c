/*
 * settings.c - every setting and where it was written: the environment, then NCCL's two files.
 *
 * NCCL puts the lines of ~/.nccl.conf (or of the file NCCL_CONF_FILE names), then those of
 * /etc/nccl.conf into the environment, without ever replacing what is there.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_MAX 4096

static bool is_interesting(const char *name, size_t len)
{
	static const char *const prefixes[] = {"NCC",  "CCL_", "NCL",    "NNC",
					       "nccl", "SEX",  "sextant"};

	if ((len == 15 && memcmp(name, "LD_LIBRARY_PATH", len) == 0) ||
	    (len == 4 && memcmp(name, "HOME", len) == 0))
		return true;
	for (size_t i = 0; i < SXT_ARRAY_LEN(prefixes); i++) {
		if (len > strlen(prefixes[i]) &&
		    strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	}
	return false;
}

static void add(struct sxt_doctor *d, const char *name, size_t name_len, const char *value,
		const char *origin)
{
	struct sxt_doctor_settings *all = &d->settings;
	struct sxt_doctor_setting *list;
	struct sxt_doctor_setting *one;

	if (all->cnt == SETTINGS_MAX)
		return;
	list = realloc(all->list, (all->cnt + 1) * sizeof(*list));
	if (list == NULL) {
		d->out_of_memory = true;
		return;
	}
	all->list = list;
	one = &list[all->cnt];
	one->name = strndup(name, name_len);
	one->value = strdup(value);
	one->origin = strdup(origin);
	one->counts = one->name != NULL && sxt_doctor_value(d, one->name) == NULL;
	if (one->name == NULL || one->value == NULL || one->origin == NULL) {
		free(one->name);
		free(one->value);
		free(one->origin);
		d->out_of_memory = true;
		return;
	}
	all->cnt++;
}

static void load_environment(struct sxt_doctor *d)
{
	size_t len = 0;
	char *text = sxt_doctor_slurp(d, "/proc/self/environ", &len);

	if (text == NULL) {
		sxt_doctor_not_read(d, "/proc/self/environ", -errno);
		return;
	}
	for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
		size_t name_len = strcspn(text + at, "=");

		if (text[at + name_len] == '=' && is_interesting(text + at, name_len))
			add(d, text + at, name_len, text + at + name_len + 1, "environment");
	}
	free(text);
}

static void load_line(struct sxt_doctor *d, const char *line, const char *origin)
{
	size_t name_len = strcspn(line, "=");

	if (line[0] == '\0' || line[0] == '#')
		return;
	if (line[name_len] != '=' || name_len == 0) {
		sxt_doctor_add(d, SXT_FINDING_SET_NO_VALUE, origin, "NAME=VALUE", "%s", line);
		return;
	}
	add(d, line, name_len, line + name_len + 1, origin);
}

static void load_file(struct sxt_doctor *d, const char *path)
{
	char *text = sxt_doctor_slurp(d, path, NULL);
	char *line = text;
	unsigned int number = 1;

	if (text == NULL) {
		if (errno != ENOENT)
			sxt_doctor_not_read(d, path, -errno);
		return;
	}
	while (*line != '\0' && number <= SETTINGS_MAX) {
		size_t len = strcspn(line, "\n");
		bool more = line[len] == '\n';
		char origin[PATH_MAX + 16];

		line[len] = '\0';
		snprintf(origin, sizeof(origin), "%s:%u", path, number++);
		load_line(d, line, origin);
		line += len + more;
	}
	free(text);
}

const char *sxt_doctor_value(const struct sxt_doctor *d, const char *name)
{
	for (size_t i = 0; i < d->settings.cnt; i++) {
		const struct sxt_doctor_setting *one = &d->settings.list[i];

		if (one->counts && strcmp(one->name, name) == 0)
			return one->value;
	}
	return NULL;
}

void sxt_doctor_load_settings(struct sxt_doctor *d)
{
	const char *file;
	const char *home;
	char path[PATH_MAX];

	d->theme = SXT_THEME_SETTINGS;
	load_environment(d);
	file = sxt_doctor_value(d, "NCCL_CONF_FILE");
	home = sxt_doctor_value(d, "HOME");
	if (file != NULL && file[0] == '/' && strlen(file) < sizeof(path)) {
		snprintf(path, sizeof(path), "%.*s", (int)sizeof(path) - 1, file);
		load_file(d, path);
	} else if (home != NULL && home[0] == '/' && strlen(home) < sizeof(path) - 16) {
		snprintf(path, sizeof(path), "%.*s/.nccl.conf", (int)sizeof(path) - 16, home);
		load_file(d, path);
	}
	load_file(d, "/etc/nccl.conf");
}
