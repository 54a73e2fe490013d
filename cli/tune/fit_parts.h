/*
 * fit_parts.h - the fit, between its parts: measured points and their noise (fit_points.c), rules
 * (fit_rules.c), models (fit_models.c).
 */
#ifndef SXT_CLI_TUNE_FIT_PARTS_H
#define SXT_CLI_TUNE_FIT_PARTS_H

#include "cli/tune/fit.h"

#include <gsl/gsl_rng.h>

#define SXT_FIT_ROWS    (SXT_ALGOS + 1)
#define SXT_FIT_COLUMNS (SXT_PROTOS + 1)
#define SXT_FIT_CHOICES (SXT_FIT_ROWS * SXT_FIT_COLUMNS)
#define SXT_FIT_DEFAULT (SXT_FIT_CHOICES - 1) /* NCCL's own, as a choice */

/* The times of one choice at one point; a choice is algo * SXT_FIT_COLUMNS + proto. */
struct sxt_fit_cell {
	size_t first; /* in sxt_fit_work's times */
	uint32_t cnt;
	double log_us; /* mean of the logarithms */
};

/* How far times lie from their means, as logarithms: of one choice on one shape. */
struct sxt_fit_noise {
	double *list;
	size_t cnt;
	double sigma;
};

/* Points of one collective on one shape, by size. */
struct sxt_fit_group {
	size_t first;
	size_t cnt;
	struct sxt_fit_noise noise[SXT_FIT_CHOICES];
	size_t first_rule; /* of the fit's */
	size_t rules_cnt;
};

struct sxt_fit_work {
	const struct sxt_fit_options *options;
	struct sxt_fit *fit;
	struct sxt_logs_time *times; /* sorted by point, choice, side */
	size_t times_cnt;
	struct sxt_fit_cell (*cells)[SXT_FIT_CHOICES]; /* by point */
	struct sxt_fit_group *groups;
	size_t groups_cnt;
	gsl_rng *rng;
};

/**
 * sxt_fit_is_named() - whether a choice forces both, so that a rule can name it.
 * @choice: any. Return: whether.
 */
static inline bool sxt_fit_is_named(int choice)
{
	return choice / (int)SXT_FIT_COLUMNS < (int)SXT_ALGOS &&
	       choice % (int)SXT_FIT_COLUMNS < (int)SXT_PROTOS;
}

/**
 * sxt_fit_points() - sort times into points and groups, and tell their noise.
 * @work: options, fit and rng are set. @logs: not used afterwards.
 * Return: 0, -ENOENT without times, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_fit_points(struct sxt_fit_work *work, const struct sxt_logs *logs);

/**
 * sxt_fit_rules() - rules of one group, and what its points say of them.
 * @work: the fit gets the rules. @group: with or without a default. Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_fit_rules(struct sxt_fit_work *work, struct sxt_fit_group *group);

/**
 * sxt_fit_join() - rules for the scales between two: what holds at both ends holds between.
 * @work: the fit gets the rules. @near, @far: the smaller and the larger scale, with their rules.
 * Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_fit_join(struct sxt_fit_work *work, const struct sxt_fit_group *near,
				const struct sxt_fit_group *far);

/**
 * sxt_fit_models() - models of all groups, for scales between those that were measured and for
 * those without a default.
 * @work: the fit gets the models. Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_fit_models(struct sxt_fit_work *work);

/**
 * sxt_fit_note() - tell the user something.
 * @fit: gets it. @fmt: printf format. Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_fit_note(struct sxt_fit *fit, const char *fmt, ...) SXT_PRINTF(2, 3);

#endif
