/*
 * conform_report.c - one line per check in 80 columns, or one JSON document (main thread).
 */
#include "cli/conform.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 80
#define INDENT  6

static const char *const verdict_names[] = {
	[SXT_CONFORM_OK] = "ok",
	[SXT_CONFORM_FAIL] = "fail",
	[SXT_CONFORM_NA] = "n/a",
};

/* Prints the words of @text from column @column on, further lines indented; ends the last line. */
static void print_wrapped(const char *text, int column)
{
	const char *blank = "";

	for (;;) {
		int len = (int)strcspn(text, " \n");

		if (*blank != '\0' && column + 1 + len > COLUMNS) {
			printf("\n%*s", INDENT, "");
			column = INDENT;
			blank = "";
		}
		printf("%s%.*s", blank, len, text);
		column += (int)strlen(blank) + len;
		text += len;
		if (*text == '\0')
			break;
		text++;
		blank = " ";
	}
	putchar('\n');
}

void sxt_conform_report_begin(struct conform_report *report, const struct conform_options *options,
			      const struct sxt_conform_plugin *plugin)
{
	const struct sxt_drv_place *place = options->target.place;

	*report = (struct conform_report){.options = options, .plugin = plugin};
	report->quiet = place != NULL && place->rank != 0;
	report->versions = json_array();
}

void sxt_conform_report_version(struct conform_report *report, int abi)
{
	json_t *version;

	report->checks = json_array();
	version = json_pack("{s:i, s:o}", "abi", abi, "checks", report->checks);
	json_array_append_new(report->versions, version);
	if (!report->options->json && !report->quiet)
		printf("# %s, net v%d, %s\n", report->plugin->name, abi,
		       report->options->target.plugin);
}

static void print_check(const struct sxt_conform_check *check,
			const struct sxt_conform_result *result)
{
	char line[sizeof(result->seen) + 128];

	switch (result->verdict) {
	case SXT_CONFORM_OK:
		printf("ok    %s\n", check->name);
		break;
	case SXT_CONFORM_NA:
		printf("n/a   ");
		snprintf(line, sizeof(line), "%s: %s", check->name, result->seen);
		print_wrapped(line, INDENT);
		break;
	default:
		printf("FAIL  ");
		snprintf(line, sizeof(line), "%s: %s", check->name, result->seen);
		print_wrapped(line, INDENT);
		snprintf(line, sizeof(line), "must: %s", check->demand);
		printf("%*s", INDENT, "");
		print_wrapped(line, INDENT);
		snprintf(line, sizeof(line), "why: %s", check->why);
		printf("%*s", INDENT, "");
		print_wrapped(line, INDENT);
		break;
	}
}

void sxt_conform_report_check(struct conform_report *report, const struct sxt_conform_check *check,
			      const struct sxt_conform_result *result)
{
	json_t *seen = result->verdict == SXT_CONFORM_OK ? json_null() : json_string(result->seen);

	report->checks_cnt++;
	report->failed_cnt += result->verdict == SXT_CONFORM_FAIL;
	/* What a plugin logs need not be UTF-8. */
	if (seen == NULL)
		seen = json_string("(text that is no UTF-8)");
	json_array_append_new(report->checks,
			      json_pack("{s:s, s:s, s:o, s:s, s:s, s:i}", "name", check->name,
					"verdict", verdict_names[result->verdict], "seen", seen,
					"demand", check->demand, "why", check->why, "elapsed_ms",
					(int)result->elapsed_ms));
	if (report->options->json || report->quiet)
		return;
	print_check(check, result);
	fflush(stdout);
}

int sxt_conform_report_end(struct conform_report *report)
{
	const struct sxt_conform_target *target = &report->options->target;
	int rc = SXT_EXIT_OK;
	json_t *root;

	if (report->quiet) {
		rc = SXT_EXIT_OK;
	} else if (report->options->json) {
		root = json_pack("{s:s, s:s, s:{s:s, s:s}, s:i, s:O, s:i, s:i}", "schema",
				 "sextant.conform/1", "verdict",
				 report->failed_cnt == 0 ? "ok" : "failed", "plugin", "name",
				 report->plugin->name, "file", target->plugin, "ranks_cnt",
				 target->ranks, "versions", report->versions, "checks_cnt",
				 (int)report->checks_cnt, "failed_cnt", (int)report->failed_cnt);
		rc = sxt_cli_print_json(root);
	} else {
		printf("%u check%s, %u failed\n", report->checks_cnt,
		       report->checks_cnt == 1 ? "" : "s", report->failed_cnt);
		if (fflush(stdout) != 0)
			rc = SXT_EXIT_BROKEN;
	}
	json_decref(report->versions);
	if (rc == SXT_EXIT_OK && report->failed_cnt > 0)
		rc = SXT_EXIT_FOUND;
	return rc;
}
