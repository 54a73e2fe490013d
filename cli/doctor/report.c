/*
 * report.c - the findings for a tired reader: by theme, in 80 columns; or one JSON document.
 */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "core/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS      80
#define INDENT       10
#define LABEL_INDENT 20 /* of what was seen, expected, what to do */

struct counts {
	unsigned int by[SXT_SEVERITY_BROKEN + 1];
};

static enum sxt_severity severity_of(const struct sxt_finding *f)
{
	return sxt_finding_kinds[f->id].severity;
}

static struct counts count(const struct sxt_doctor *d)
{
	struct counts counts = {0};

	for (size_t i = 0; i < d->findings_cnt; i++)
		counts.by[severity_of(&d->findings[i])]++;
	return counts;
}

static enum sxt_severity worst(const struct counts *counts)
{
	if (counts->by[SXT_SEVERITY_BROKEN] > 0)
		return SXT_SEVERITY_BROKEN;
	return counts->by[SXT_SEVERITY_WARNING] > 0 ? SXT_SEVERITY_WARNING : SXT_SEVERITY_OK;
}

/* Prints words from column @column on, further lines from @indent on; ends the last line. */
static void print_wrapped(const char *text, int column, int indent)
{
	bool first = true;

	while (*text != '\0') {
		int len = (int)strcspn(text, " ");

		if (!first && column + 1 + len > COLUMNS) {
			printf("\n%*s", indent, "");
			column = indent;
			first = true;
		}
		printf("%s%.*s", first ? "" : " ", len, text);
		column += len + (first ? 0 : 1);
		first = false;
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

const char *sxt_doctor_colour(enum sxt_severity severity)
{
	static const char *const codes[] = {"\033[32m", "\033[36m", "\033[33m", "\033[1;31m"};

	return isatty(STDOUT_FILENO) ? codes[severity] : "";
}

static void print_detail(const char *label, const char *text)
{
	if (text[0] == '\0')
		return;
	printf("%*s%-*s", INDENT, "", LABEL_INDENT - INDENT, label);
	print_wrapped(text, LABEL_INDENT, LABEL_INDENT);
}

static void print_head(const struct sxt_finding *f, const char *text)
{
	static const char *const marks[] = {"ok", "info", "warning", "BROKEN"};
	enum sxt_severity severity = severity_of(f);
	const char *begin = sxt_doctor_colour(severity);

	printf("%s%-*s%s", begin, INDENT, marks[severity], begin[0] != '\0' ? "\033[0m" : "");
	print_wrapped(text, INDENT, INDENT);
}

static void print_finding(const struct sxt_finding *f)
{
	const struct sxt_finding_kind *kind = &sxt_finding_kinds[f->id];
	char line[1024];

	if (kind->severity == SXT_SEVERITY_OK)
		snprintf(line, sizeof(line), "%s: %s", f->object, f->seen);
	else if (f->id == SXT_FINDING_NOT_READ)
		snprintf(line, sizeof(line), "%s: cannot be read (%s) [%s]", f->object, f->seen,
			 kind->id);
	else
		snprintf(line, sizeof(line), "%s: %s [%s]", f->object, kind->meaning, kind->id);
	print_head(f, line);
	if (kind->severity == SXT_SEVERITY_OK || f->id == SXT_FINDING_NOT_READ)
		return;
	print_detail("seen", f->seen);
	print_detail("expected", f->expected);
	print_detail("do", kind->remedy);
}

/* The next finding of the same kind at or after @at, or findings_cnt. */
static size_t next_alike(const struct sxt_doctor *d, const struct sxt_finding *f, size_t at)
{
	while (at < d->findings_cnt &&
	       (d->findings[at].id != f->id || d->findings[at].theme != f->theme))
		at++;
	return at;
}

static bool expect_the_same(const struct sxt_doctor *d, const struct sxt_finding *f)
{
	for (size_t i = next_alike(d, f, 0); i < d->findings_cnt; i = next_alike(d, f, i + 1)) {
		if (strcmp(d->findings[i].expected, f->expected) != 0)
			return false;
	}
	return true;
}

/* Several objects with one and the same trouble: what it means and what to do stand once. */
static void print_alike(const struct sxt_doctor *d, const struct sxt_finding *f)
{
	const struct sxt_finding_kind *kind = &sxt_finding_kinds[f->id];
	bool same = expect_the_same(d, f);
	const char *label = "seen";
	char line[1024];

	snprintf(line, sizeof(line), "%s [%s]", kind->meaning, kind->id);
	print_head(f, line);
	for (size_t i = next_alike(d, f, 0); i < d->findings_cnt; i = next_alike(d, f, i + 1)) {
		const struct sxt_finding *one = &d->findings[i];

		snprintf(line, sizeof(line), "%s: %s%s%s%s", one->object, one->seen,
			 same ? "" : " (expected ", same ? "" : one->expected, same ? "" : ")");
		print_detail(label, line);
		label = "";
	}
	print_detail("expected", same ? f->expected : "");
	print_detail("do", kind->remedy);
}

static bool folds(const struct sxt_finding *f)
{
	return severity_of(f) != SXT_SEVERITY_OK && f->id != SXT_FINDING_NOT_READ;
}

/* At its first finding, a kind that several objects share is printed for all of them. */
static void print_at(const struct sxt_doctor *d, size_t at)
{
	const struct sxt_finding *f = &d->findings[at];

	if (!folds(f) || (next_alike(d, f, 0) == at && next_alike(d, f, at + 1) == d->findings_cnt))
		print_finding(f);
	else if (next_alike(d, f, 0) == at)
		print_alike(d, f);
}

static bool has_theme(const struct sxt_doctor *d, enum sxt_theme theme)
{
	for (size_t i = 0; i < d->findings_cnt; i++) {
		if (d->findings[i].theme == theme)
			return true;
	}
	return false;
}

void sxt_doctor_print_theme(const struct sxt_doctor *d, enum sxt_theme theme)
{
	printf("\n%s\n", sxt_theme_names[theme]);
	for (int severity = SXT_SEVERITY_BROKEN; severity >= SXT_SEVERITY_OK; severity--) {
		for (size_t i = 0; i < d->findings_cnt; i++) {
			const struct sxt_finding *f = &d->findings[i];

			if (f->theme == theme && (int)severity_of(f) == severity)
				print_at(d, i);
		}
	}
}

static void print_themes(const struct sxt_doctor *d)
{
	char quiet[256] = "Nothing to say about:";

	for (int theme = SXT_THEME_LOAD; theme < SXT_THEME_PAIRS; theme++) {
		size_t len = strlen(quiet);

		if (has_theme(d, (enum sxt_theme)theme))
			sxt_doctor_print_theme(d, (enum sxt_theme)theme);
		else
			snprintf(quiet + len, sizeof(quiet) - len, "%s %s",
				 quiet[len - 1] == ':' ? "" : ",", sxt_theme_names[theme]);
	}
	putchar('\n');
	if (strchr(quiet, ':')[1] != '\0')
		print_wrapped(quiet, 0, 0);
}

static int status_of(const struct counts *counts)
{
	if (worst(counts) == SXT_SEVERITY_BROKEN)
		return SXT_EXIT_BROKEN;
	return worst(counts) == SXT_SEVERITY_WARNING ? SXT_EXIT_FOUND : SXT_EXIT_OK;
}

int sxt_doctor_end_text(const struct sxt_doctor *d)
{
	struct counts counts = count(d);

	printf("%u broken, %u warning%s, %u for information\n", counts.by[SXT_SEVERITY_BROKEN],
	       counts.by[SXT_SEVERITY_WARNING], counts.by[SXT_SEVERITY_WARNING] == 1 ? "" : "s",
	       counts.by[SXT_SEVERITY_INFO]);
	if (fflush(stdout) == 0)
		return status_of(&counts);
	fprintf(stderr, "sextant doctor: cannot write to standard output: %m\n");
	return SXT_EXIT_BROKEN;
}

static int print_text(const struct sxt_doctor *d)
{
	size_t usable = 0;

	for (size_t i = 0; i < d->ports_cnt; i++)
		usable += d->ports[i].usable;
	printf("sextant doctor: %zu RDMA device%s, %zu port%s, %zu usable", d->hcas_cnt,
	       d->hcas_cnt == 1 ? "" : "s", d->ports_cnt, d->ports_cnt == 1 ? "" : "s", usable);
	if (strcmp(d->root, "/") != 0)
		printf("; read from %s", d->root);
	putchar('\n');
	print_themes(d);
	return sxt_doctor_end_text(d);
}

static json_t *findings_json(const struct sxt_doctor *d)
{
	json_t *findings = json_array();

	for (size_t i = 0; i < d->findings_cnt; i++) {
		const struct sxt_finding *f = &d->findings[i];
		const struct sxt_finding_kind *kind = &sxt_finding_kinds[f->id];

		json_array_append_new(findings,
				      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "id",
						kind->id, "theme", sxt_theme_names[f->theme],
						"severity", sxt_severity_names[kind->severity],
						"object", f->object, "seen", f->seen, "expected",
						f->expected, "meaning", kind->meaning, "remedy",
						kind->remedy));
	}
	return findings;
}

int sxt_doctor_end_json(const struct sxt_doctor *d, json_t *document)
{
	struct counts counts = count(d);
	json_t *end = json_pack("{s:s, s:{s:i, s:i, s:i, s:i}, s:o}", "verdict",
				sxt_severity_names[worst(&counts)], "counts", "ok",
				(int)counts.by[SXT_SEVERITY_OK], "info",
				(int)counts.by[SXT_SEVERITY_INFO], "warning",
				(int)counts.by[SXT_SEVERITY_WARNING], "broken",
				(int)counts.by[SXT_SEVERITY_BROKEN], "findings", findings_json(d));
	int rc = json_object_update(document, end);

	json_decref(end);
	if (rc != 0) {
		json_decref(document);
		fprintf(stderr, "sextant doctor: %s\n", sxt_strerror(ENOMEM));
		return SXT_EXIT_BROKEN;
	}
	rc = sxt_cli_print_json(document);
	return rc == SXT_EXIT_OK ? status_of(&counts) : rc;
}

int sxt_doctor_report(const struct sxt_doctor *d, bool json)
{
	if (!json)
		return print_text(d);
	return sxt_doctor_end_json(d,
				   json_pack("{s:s, s:s, s:i, s:i}", "schema", "sextant.doctor/1",
					     "version", SXT_VERSION, "hcas_cnt", (int)d->hcas_cnt,
					     "ports_cnt", (int)d->ports_cnt));
}

int sxt_doctor_list(bool markdown)
{
	if (markdown)
		puts("| finding | theme | severity | what it means | what to do |\n"
		     "|---|---|---|---|---|");
	for (size_t i = 0; i < SXT_FINDINGS_CNT; i++) {
		const struct sxt_finding_kind *kind = &sxt_finding_kinds[i];

		if (markdown) {
			printf("| `%s` | %s | %s | %s | %s |\n", kind->id,
			       sxt_theme_names[kind->theme], sxt_severity_names[kind->severity],
			       kind->meaning, kind->remedy);
			continue;
		}
		printf("%s (%s, %s)\n%*s", kind->id, sxt_theme_names[kind->theme],
		       sxt_severity_names[kind->severity], 4, "");
		print_wrapped(kind->meaning, 4, 4);
		if (kind->remedy[0] == '\0')
			continue;
		printf("%*s", 4, "");
		print_wrapped(kind->remedy, 4, 4);
	}
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}
