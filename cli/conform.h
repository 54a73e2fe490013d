/*
 * conform.h - what the parts of `sextant conform` share: its options and its report.
 */
#ifndef SXT_CLI_CONFORM_H
#define SXT_CLI_CONFORM_H

#include "cli/driver/conform/conform.h"

#include <jansson.h>
#include <stdbool.h>

#define CONFORM_CHECKS_MAX 128

struct conform_options {
	struct sxt_conform_target target; /* abi 0: the newest */
	bool all_versions;
	bool list;
	bool json;
	/* What --check named, in its order, else all that --skip did not name. */
	const struct sxt_conform_check *checks[CONFORM_CHECKS_MAX];
	size_t checks_cnt;
	const struct sxt_conform_check *skipped[CONFORM_CHECKS_MAX];
	size_t skipped_cnt;
	bool named; /* by --check */
};

struct conform_report {
	const struct conform_options *options;
	const struct sxt_conform_plugin *plugin;
	bool quiet; /* rank 1 of a launcher: rank 0 tells what both saw */
	json_t *versions;
	json_t *checks; /* of the version at hand */
	unsigned int checks_cnt;
	unsigned int failed_cnt;
};

/**
 * sxt_conform_report_begin() - start the report of a plugin.
 * @report: overwritten; give back with sxt_conform_report_end(). @options, @plugin: stay the
 * caller's.
 */
void sxt_conform_report_begin(struct conform_report *report, const struct conform_options *options,
			      const struct sxt_conform_plugin *plugin);

/**
 * sxt_conform_report_version() - the checks that follow are of this version of the table.
 */
void sxt_conform_report_version(struct conform_report *report, int abi);

/**
 * sxt_conform_report_check() - one check's line, out at once; a failure with what was seen, what
 * is demanded and why.
 */
void sxt_conform_report_check(struct conform_report *report, const struct sxt_conform_check *check,
			      const struct sxt_conform_result *result);

/**
 * sxt_conform_report_end() - the last line, or the JSON document. Frees what the report holds.
 * Return: enum sxt_exit: OK, FOUND when a check failed, BROKEN when it cannot be written.
 */
int sxt_conform_report_end(struct conform_report *report);

#endif
