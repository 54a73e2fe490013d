/*
 * fit.h - measured times turned into rules where one choice is surely better than NCCL's own, and
 * into models for sizes and scales in between. Offline: no part of the plugin.
 */
#ifndef SXT_CLI_TUNE_FIT_H
#define SXT_CLI_TUNE_FIT_H

#include "cli/tune/logs.h"
#include "tuner/model.h"

#include <stdio.h>

struct sxt_fit_options {
	double min_gain;       /* time saved against the default that a rule needs: 0.03 */
	double min_confidence; /* how sure it must be that any is saved: 0.95 */
	uint32_t resamples;    /* of the bootstrap: 1000 */
	uint64_t seed;         /* of the bootstrap; the same logs and seed give the same rules */
};

/* The values above. */
extern const struct sxt_fit_options sxt_fit_defaults;

/* One choice, as measured. */
struct sxt_fit_time {
	double us; /* geometric mean over runs and buffers; 0: not measured */
	uint32_t cnt;
};

/* The row of sxt_fit_point for logs that forced an algorithm or a protocol alone. */
#define SXT_FIT_ANY_ALGO  SXT_ALGOS
#define SXT_FIT_ANY_PROTO SXT_PROTOS

/* One size on one shape. */
struct sxt_fit_point {
	enum sxt_coll coll;
	struct sxt_shape shape;
	uint64_t bytes;
	/* What was measured; [SXT_FIT_ANY_ALGO][SXT_FIT_ANY_PROTO] is NCCL's default. */
	struct sxt_fit_time times[SXT_ALGOS + 1][SXT_PROTOS + 1];
	/* The fastest that forced an algorithm, as indices of `times`; -1 none was measured. */
	int8_t best_algo;
	int8_t best_proto;
	double gain;       /* of the best: time saved against the default, below 0 if slower;
			    * NAN without a default */
	double confidence; /* of the best: how sure it is faster than the default; NAN likewise */
	/* What the rules say: indices, -1 where NCCL's own choice stays. */
	int8_t rule_algo;
	int8_t rule_proto;
	double rule_gain; /* expected with the rules: 0 where NCCL's choice stays */
};

struct sxt_fit {
	struct sxt_fit_point *points; /* by collective, nodes, ranks, bytes */
	size_t points_cnt;
	struct sxt_rule *rules; /* line numbers are 0 */
	size_t rules_cnt;
	struct sxt_model *models;
	size_t models_cnt;
	char **notes; /* what the user should know: what is missing and what follows from it */
	size_t notes_cnt;
};

/**
 * sxt_fit_make() - fit rules and models.
 * @logs: what was measured. @options: not NULL.
 * @out: set on success; give back with sxt_fit_free().
 * Return: 0, -ENOENT when there is no time at all, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_fit_make(const struct sxt_logs *logs, const struct sxt_fit_options *options,
				struct sxt_fit **out);

/** sxt_fit_free() - free it. @fit: NULL is fine. */
void sxt_fit_free(struct sxt_fit *fit);

/**
 * sxt_fit_write() - the rules file: its first line, the notes as comments, rules, models.
 * @fit: what was found. @to: the file. Return: 0, -EIO when writing failed.
 */
SXT_MUST_CHECK int sxt_fit_write(const struct sxt_fit *fit, FILE *to);

#endif
