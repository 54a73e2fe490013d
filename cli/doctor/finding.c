/*
 * finding.c - the list of findings and the readers that all checks use.
 */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "core/log.h"
#include "core/status.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLURP_BYTES  (1024 * 1024 + 1)
#define FINDINGS_MAX 20000

const struct sxt_finding_kind sxt_finding_kinds[] = {
#define SXT_FINDING(name, id_, theme_, severity_, meaning_, remedy_) \
	{id_, SXT_THEME_##theme_, SXT_SEVERITY_##severity_, meaning_, remedy_},
#include "cli/doctor/findings.def"
#undef SXT_FINDING
};
_Static_assert(SXT_ARRAY_LEN(sxt_finding_kinds) == SXT_FINDINGS_CNT, "one row per finding");

const char *const sxt_theme_names[] = {
	[SXT_THEME_ANY] = "any",         [SXT_THEME_LOAD] = "load",
	[SXT_THEME_DEVICES] = "devices", [SXT_THEME_PORTS] = "ports",
	[SXT_THEME_GID] = "gid",         [SXT_THEME_SPEED] = "speed",
	[SXT_THEME_MTU] = "mtu",         [SXT_THEME_COUNTERS] = "counters",
	[SXT_THEME_QOS] = "qos",         [SXT_THEME_NETWORK] = "network",
	[SXT_THEME_PCI] = "pci",         [SXT_THEME_LIMITS] = "limits",
	[SXT_THEME_GPU] = "gpu",         [SXT_THEME_SETTINGS] = "settings",
	[SXT_THEME_PAIRS] = "pairs",
};
_Static_assert(SXT_ARRAY_LEN(sxt_theme_names) == SXT_THEMES_CNT, "one name per theme");

const char *const sxt_severity_names[] = {
	[SXT_SEVERITY_OK] = "ok",
	[SXT_SEVERITY_INFO] = "info",
	[SXT_SEVERITY_WARNING] = "warning",
	[SXT_SEVERITY_BROKEN] = "broken",
};

void sxt_doctor_make_printable(char *text)
{
	for (; *text != '\0'; text++) {
		if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			*text = '?';
	}
}

void sxt_doctor_add(struct sxt_doctor *d, enum sxt_finding_id id, const char *object,
		    const char *expected, const char *fmt, ...)
{
	struct sxt_finding *f;
	va_list args;

	if (d->findings_cnt == d->findings_room) {
		size_t room = d->findings_room == 0 ? 64 : d->findings_room * 2;

		f = room <= FINDINGS_MAX ? realloc(d->findings, room * sizeof(*f)) : NULL;
		if (f == NULL) {
			d->out_of_memory = true;
			return;
		}
		d->findings = f;
		d->findings_room = room;
	}
	f = &d->findings[d->findings_cnt++];
	f->id = id;
	f->theme = sxt_finding_kinds[id].theme;
	if (f->theme == SXT_THEME_ANY)
		f->theme = d->theme;
	snprintf(f->object, sizeof(f->object), "%s", object);
	snprintf(f->expected, sizeof(f->expected), "%s", expected != NULL ? expected : "");
	va_start(args, fmt);
	vsnprintf(f->seen, sizeof(f->seen), fmt, args);
	va_end(args);
	sxt_doctor_make_printable(f->object);
	sxt_doctor_make_printable(f->expected);
	sxt_doctor_make_printable(f->seen);
}

void sxt_doctor_not_read(struct sxt_doctor *d, const char *path, int rc)
{
	sxt_doctor_add(d, SXT_FINDING_NOT_READ, path, NULL, "%s", sxt_strerror(rc));
}

/* Who listens to the log, and what its warnings are findings of; a sink is a plain function. */
static struct {
	struct sxt_doctor *doctor;
	enum sxt_finding_id id;
	const char *object;
} listener;

static void sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	const struct sxt_doctor *d = listener.doctor;

	(void)file;
	(void)line;
	for (size_t i = 0; i < d->findings_cnt; i++) {
		const struct sxt_finding *f = &d->findings[i];

		/* Once, not for each port. */
		if (f->id == listener.id && strncmp(f->seen, text, 64) == 0)
			return;
	}
	if (level <= SXT_LOG_WARN)
		sxt_doctor_add(listener.doctor, listener.id, listener.object, NULL, "%s", text);
}

void sxt_doctor_listen(struct sxt_doctor *d, enum sxt_finding_id id, const char *object)
{
	listener.doctor = d;
	listener.id = id;
	listener.object = object;
	if (d != NULL)
		sxt_log_set_sink(sink);
	else
		sxt_cli_log_to_stderr("sextant doctor");
}

static SXT_PRINTF(2, 0) int format_path(char out[PATH_MAX], const char *fmt, va_list args)
{
	int len = vsnprintf(out, PATH_MAX, fmt, args);

	return len >= 0 && len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int read_line(const struct sxt_doctor *d, char *out, size_t out_bytes, const char *path)
{
	char text[4096];
	size_t len;
	int rc = sxt_sysfs_read_all(d->root, path, text, sizeof(text), &len);

	if (rc != 0)
		return rc;
	len = strcspn(text, "\n");
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	if (len >= out_bytes)
		return -ENAMETOOLONG;
	memcpy(out, text, len);
	out[len] = '\0';
	return 0;
}

int sxt_doctor_read(const struct sxt_doctor *d, char *out, size_t out_bytes, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	int rc;

	out[0] = '\0';
	va_start(args, fmt);
	rc = format_path(path, fmt, args);
	va_end(args);
	return rc == 0 ? read_line(d, out, out_bytes, path) : rc;
}

int sxt_doctor_read_u64(const struct sxt_doctor *d, uint64_t *out, const char *fmt, ...)
{
	char path[PATH_MAX];
	char text[64] = "";
	unsigned long long value;
	va_list args;
	char *end;
	int rc;

	va_start(args, fmt);
	rc = format_path(path, fmt, args);
	va_end(args);
	if (rc == 0)
		rc = read_line(d, text, sizeof(text), path);
	if (rc != 0)
		return rc;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0)
		return -EINVAL;
	*out = value;
	return 0;
}

char *sxt_doctor_slurp(const struct sxt_doctor *d, const char *path, size_t *len_out)
{
	char *text = malloc(SLURP_BYTES);
	size_t len;
	int rc;

	if (text == NULL)
		return NULL;
	rc = sxt_sysfs_read_all(d->root, path, text, SLURP_BYTES, &len);
	if (rc != 0) {
		free(text);
		errno = -rc;
		return NULL;
	}
	if (len_out != NULL)
		*len_out = len;
	return text;
}

bool sxt_doctor_exists(const struct sxt_doctor *d, const char *fmt, ...)
{
	char path[PATH_MAX];
	char name[PATH_MAX];
	va_list args;
	int rc;

	va_start(args, fmt);
	rc = format_path(path, fmt, args);
	va_end(args);
	if (rc != 0 ||
	    snprintf(name, sizeof(name), "%s%s", strcmp(d->root, "/") == 0 ? "" : d->root, path) >=
		    (int)sizeof(name))
		return false;
	return access(name, F_OK) == 0;
}

void sxt_doctor_fini(struct sxt_doctor *d)
{
	for (size_t i = 0; i < d->settings.cnt; i++) {
		free(d->settings.list[i].name);
		free(d->settings.list[i].value);
		free(d->settings.list[i].origin);
	}
	free(d->settings.list);
	free(d->findings);
	free(d->hcas);
	free(d->ports);
	free(d->facts);
	*d = (struct sxt_doctor){0};
}
