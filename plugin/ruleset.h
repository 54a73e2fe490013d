/*
 * ruleset.h - the rules of this process: the file that the settings name, read once, whoever needs
 * it first, so that all communicators choose by the same.
 */
#ifndef SXT_PLUGIN_RULESET_H
#define SXT_PLUGIN_RULESET_H

#include "plugin/forced.h"
#include "tuner/rules.h"

/* Never changes, and stays as long as the process. */
struct sxt_ruleset {
	const struct sxt_rules *rules; /* without a rule where there is no file, or none of use */
	char *path;                    /* of the file; NULL where no setting names one */
	struct sxt_forced forced;
};

/**
 * sxt_ruleset_get() - the rules; the first caller reads the file.
 * A file that cannot be read, or has a wrong line, is told and counts as one without rules.
 * @out: set on success.
 * Thread: any, takes a lock. Path: slow. Return: 0, -ENOMEM (logged).
 */
SXT_MUST_CHECK int sxt_ruleset_get(const struct sxt_ruleset **out);

/**
 * sxt_ruleset_is_empty() - do the rules leave everything to NCCL?
 * @set: the rules. Return: true if there is neither a rule nor a model.
 */
bool sxt_ruleset_is_empty(const struct sxt_ruleset *set);

#endif
