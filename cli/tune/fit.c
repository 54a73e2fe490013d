/*
 * fit.c - the fit as a whole, and the rules file it makes.
 */
#include "cli/tune/fit.h"

#include "cli/tune/fit_parts.h"

#include <errno.h>
#include <gsl/gsl_errno.h>
#include <stdarg.h>
#include <stdlib.h>

const struct sxt_fit_options sxt_fit_defaults = {.min_gain = 0.03,
						 .min_confidence = 0.95,
						 .resamples = 1000,
						 .seed = 1};

int sxt_fit_note(struct sxt_fit *fit, const char *fmt, ...)
{
	char **larger = reallocarray(fit->notes, fit->notes_cnt + 1, sizeof(*larger));
	va_list args;
	int len = 0;

	if (larger == NULL)
		return -ENOMEM;
	fit->notes = larger;
	va_start(args, fmt);
	len = vasprintf(&larger[fit->notes_cnt], fmt, args);
	va_end(args);
	if (len < 0)
		return -ENOMEM;
	fit->notes_cnt++;
	return 0;
}

static void work_fini(struct sxt_fit_work *work)
{
	for (size_t i = 0; i < work->groups_cnt; i++) {
		for (int k = 0; k < (int)SXT_FIT_CHOICES; k++)
			free(work->groups[i].noise[k].list);
	}
	free(work->groups);
	free(work->cells);
	free(work->times);
	if (work->rng != NULL)
		gsl_rng_free(work->rng);
}

int sxt_fit_make(const struct sxt_logs *logs, const struct sxt_fit_options *options,
		 struct sxt_fit **out)
{
	struct sxt_fit_work work = {.options = options};
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	int rc = -ENOMEM;

	work.fit = calloc(1, sizeof(*work.fit));
	work.rng = gsl_rng_alloc(gsl_rng_mt19937);
	if (work.fit == NULL || work.rng == NULL)
		goto out;
	gsl_rng_set(work.rng, options->seed);
	rc = sxt_fit_points(&work, logs);
	for (size_t i = 0; i < work.groups_cnt && rc == 0; i++)
		rc = sxt_fit_rules(&work, &work.groups[i]);
	if (rc == 0)
		rc = sxt_fit_models(&work);
	if (rc != 0)
		goto out;
	*out = work.fit;
	work.fit = NULL;
out:
	sxt_fit_free(work.fit);
	work_fini(&work);
	gsl_set_error_handler(handler);
	return rc;
}

void sxt_fit_free(struct sxt_fit *fit)
{
	if (fit == NULL)
		return;
	for (size_t i = 0; i < fit->notes_cnt; i++)
		free(fit->notes[i]);
	free(fit->notes);
	free(fit->points);
	free(fit->rules);
	free(fit->models);
	free(fit);
}

int sxt_fit_write(const struct sxt_fit *fit, FILE *to)
{
	char line[SXT_RULE_LINE_BYTES];

	fprintf(to, "sextant-rules 1\n");
	for (size_t i = 0; i < fit->notes_cnt; i++)
		fprintf(to, "# %s\n", fit->notes[i]);
	for (size_t i = 0; i < fit->rules_cnt; i++) {
		sxt_rule_write(&fit->rules[i], line);
		fprintf(to, "%s\n", line);
	}
	for (size_t i = 0; i < fit->models_cnt; i++) {
		sxt_model_write(&fit->models[i], line);
		fprintf(to, "%s\n", line);
	}
	return fflush(to) == 0 && ferror(to) == 0 ? 0 : -EIO;
}
