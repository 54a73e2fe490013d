/*
 * fit_models.c - models for scales between two that were measured, each fitted to both, and for
 * scales without NCCL's default, where a rule would not know what it gains.
 *
 * Over all sizes no cluster has one latency and one bandwidth, so the sizes are cut into as many
 * ranges as the measured times ask for, each with a model of its own.
 */
#include "cli/tune/fit_parts.h"

#include <errno.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum term {
	TERM_BASE,
	TERM_INTER,
	TERM_INTRA,
	TERM_BYTES,
	TERMS
};

#define SPAN_MIN  3    /* sizes that a model is fitted to at least */
#define MARGIN    1.5  /* of errors seen: what a model may be wrong where nobody measured */
#define TOLERANCE 0.02 /* relative: closer than this a model need not be */
#define GBS_MAX   1e6  /* for a range of sizes in which bandwidth does not show */

/* One measured time as an equation, divided by itself, so that errors are relative. */
struct row {
	double x[TERMS];
	double us;
	double sigma; /* of its logarithm */
};

/* Times of one choice on one or two scales; rows of a size stand together. */
struct table {
	struct row *rows;
	uint64_t *bytes; /* by size */
	size_t sizes;
	size_t scales;
};

struct solution {
	double c[TERMS]; /* none below 0 */
	double squares;  /* of relative errors */
	double score;    /* squares by degree of freedom */
};

/* Where and for which choice. */
struct target {
	const struct sxt_fit_point *point; /* the first of the first scale */
	struct sxt_range nodes;
	int choice;
};

/* Least squares with the terms of the mask alone; false when it cannot be or one is negative. */
static bool solve_with(const struct row *rows, size_t cnt, unsigned mask, struct solution *out)
{
	size_t terms = (size_t)__builtin_popcount(mask);
	gsl_multifit_linear_workspace *space = NULL;
	gsl_matrix *x = NULL;
	gsl_matrix *cov = NULL;
	gsl_vector *y = NULL;
	gsl_vector *c = NULL;
	bool good = false;

	if (cnt <= terms)
		return false;
	space = gsl_multifit_linear_alloc(cnt, terms);
	x = gsl_matrix_alloc(cnt, terms);
	cov = gsl_matrix_alloc(terms, terms);
	y = gsl_vector_alloc(cnt);
	c = gsl_vector_alloc(terms);
	if (space == NULL || x == NULL || cov == NULL || y == NULL || c == NULL)
		goto out;
	gsl_vector_set_all(y, 1.0);
	for (size_t i = 0; i < cnt; i++) {
		for (size_t t = 0, j = 0; t < TERMS; t++) {
			if ((mask >> t & 1) != 0)
				gsl_matrix_set(x, i, j++, rows[i].x[t]);
		}
	}
	good = gsl_multifit_linear(x, y, c, cov, &out->squares, space) == GSL_SUCCESS;
	memset(out->c, 0, sizeof(out->c));
	for (size_t t = 0, j = 0; t < TERMS && good; t++) {
		if ((mask >> t & 1) == 0)
			continue;
		out->c[t] = gsl_vector_get(c, j++);
		good = isfinite(out->c[t]) && out->c[t] >= 0;
	}
	out->score = out->squares / (double)(cnt - terms);
out:
	gsl_multifit_linear_free(space);
	gsl_matrix_free(x);
	gsl_matrix_free(cov);
	gsl_vector_free(y);
	gsl_vector_free(c);
	return good;
}

/* The best of all sets of terms: least squares that knows no negative cost. */
static bool solve(const struct table *table, size_t first, size_t last, struct solution *out)
{
	const struct row *rows = &table->rows[first * table->scales];
	size_t cnt = (last - first + 1) * table->scales;
	bool found = false;

	for (unsigned mask = 1; mask < 1u << TERMS; mask++) {
		struct solution tried;
		bool hops = (mask & (1u << TERM_INTER | 1u << TERM_INTRA)) != 0;

		/* One scale does not tell hops from the rest. */
		if (hops && table->scales == 1)
			continue;
		if (solve_with(rows, cnt, mask, &tried) && (!found || tried.score < out->score)) {
			*out = tried;
			found = true;
		}
	}
	return found;
}

static double error_of(const struct row *row, const struct solution *s)
{
	double sum = 0;

	for (int t = 0; t < TERMS; t++)
		sum += row->x[t] * s->c[t];
	return sum - 1;
}

/* Whether more sizes lie off the model than noise puts there. */
static bool is_off(const struct table *table, size_t first, size_t last, const struct solution *s)
{
	size_t off = 0;

	for (size_t i = first * table->scales; i < (last + 1) * table->scales; i++) {
		const struct row *row = &table->rows[i];
		double error = fabs(error_of(row, s));

		off += error > fmax(2 * row->sigma, TOLERANCE);
		off += error > fmax(4 * row->sigma, 2 * TOLERANCE);
	}
	return off > 1;
}

/* The last size of the left part of the best cut, `last` for none. */
static size_t best_cut(const struct table *table, size_t first, size_t last,
		       const struct solution *whole)
{
	double least = 0.75 * whole->squares;
	size_t cut = last;

	for (size_t k = first + SPAN_MIN - 1; k + SPAN_MIN <= last; k++) {
		struct solution left;
		struct solution right;

		if (solve(table, first, k, &left) && solve(table, k + 1, last, &right) &&
		    left.squares + right.squares < least) {
			least = left.squares + right.squares;
			cut = k;
		}
	}
	return cut;
}

static uint64_t middle(uint64_t a, uint64_t b)
{
	return (uint64_t)sqrt((double)a * (double)b);
}

/* The largest relative error beyond what noise explains. */
static double largest_error(const struct table *table, size_t first, size_t last,
			    const struct solution *s)
{
	double largest = 0;

	for (size_t i = first * table->scales; i < (last + 1) * table->scales; i++)
		largest = fmax(largest, fabs(error_of(&table->rows[i], s)));
	return largest;
}

/*
 * One model for sizes first..last, fitted to one more on either side, so that it needs not be right
 * about sizes that lie outside of what it knows.
 */
static int add_model(struct sxt_fit *fit, const struct target *target, const struct table *table,
		     size_t first, size_t last)
{
	struct sxt_model *larger = reallocarray(fit->models, fit->models_cnt + 1, sizeof(*larger));
	const struct sxt_fit_point *point = target->point;
	uint32_t per_node = (point->shape.ranks + point->shape.nodes - 1) / point->shape.nodes;
	size_t from = first > 0 ? first - 1 : 0;
	size_t to = last + 1 < table->sizes ? last + 1 : last;
	struct sxt_model *model = NULL;
	struct solution s;

	if (larger == NULL)
		return -ENOMEM;
	fit->models = larger;
	if (!solve(table, from, to, &s))
		return 0;
	model = &larger[fit->models_cnt++];
	*model = (struct sxt_model){
		.when = {.coll = point->coll,
			 .bytes = {0, UINT64_MAX},
			 .nodes = target->nodes,
			 .ranks = {0, UINT64_MAX},
			 .per_node = {per_node, per_node},
			 .pipe_ops = {0, UINT64_MAX},
			 .reg = -1},
		.algo = (enum sxt_algo)(target->choice / (int)SXT_FIT_COLUMNS),
		.proto = (enum sxt_proto)(target->choice % (int)SXT_FIT_COLUMNS),
		.base_us = (float)s.c[TERM_BASE],
		.inter_us = (float)s.c[TERM_INTER],
		.intra_us = (float)s.c[TERM_INTRA],
		.gbs = (float)(s.c[TERM_BYTES] > 1 / GBS_MAX ? 1 / s.c[TERM_BYTES] : GBS_MAX),
	};
	if (first > 0)
		model->when.bytes.min = middle(table->bytes[first - 1], table->bytes[first]) + 1;
	if (last + 1 < table->sizes)
		model->when.bytes.max = middle(table->bytes[last], table->bytes[last + 1]);
	model->margin =
		(float)(ceil(100 * fmin(0.03 + MARGIN * largest_error(table, from, to, &s), 0.9)) /
			100);
	return 0;
}

/* Cuts a range of sizes until each part has its model. */
static int fit_span(struct sxt_fit *fit, const struct target *target, const struct table *table,
		    size_t first, size_t last)
{
	struct solution whole;
	size_t cut = last;
	int rc = 0;

	if (!solve(table, first, last, &whole))
		return 0;
	if (last - first + 1 >= 2 * SPAN_MIN && is_off(table, first, last, &whole))
		cut = best_cut(table, first, last, &whole);
	if (cut == last)
		return add_model(fit, target, table, first, last);
	rc = fit_span(fit, target, table, first, cut);
	return rc == 0 ? fit_span(fit, target, table, cut + 1, last) : rc;
}

static struct row row_of(const struct sxt_fit_point *point, int choice, double log_us, double sigma)
{
	struct sxt_hops hops =
		sxt_hops_of(point->coll, (enum sxt_algo)(choice / (int)SXT_FIT_COLUMNS),
			    point->shape);
	double us = exp(log_us);

	return (struct row){.x = {[TERM_BASE] = 1 / us,
				  [TERM_INTER] = hops.inter / us,
				  [TERM_INTRA] = hops.intra / us,
				  [TERM_BYTES] = hops.traffic * (double)point->bytes / 1e3 / us},
			    .us = us,
			    .sigma = sigma};
}

/* The cell of a choice at a size of a group, NULL when it was not measured. */
static const struct sxt_fit_cell *cell_at(const struct sxt_fit_work *work,
					  const struct sxt_fit_group *group, uint64_t bytes,
					  int choice, const struct sxt_fit_point **point_out)
{
	for (size_t i = group->first; i < group->first + group->cnt; i++) {
		if (work->fit->points[i].bytes != bytes)
			continue;
		*point_out = &work->fit->points[i];
		return work->cells[i][choice].cnt > 0 ? &work->cells[i][choice] : NULL;
	}
	return NULL;
}

/* Sizes that all groups measured with the choice. */
static void fill_table(const struct sxt_fit_work *work, const struct sxt_fit_group *const *groups,
		       int choice, struct table *table)
{
	for (size_t i = groups[0]->first; i < groups[0]->first + groups[0]->cnt; i++) {
		uint64_t bytes = work->fit->points[i].bytes;
		size_t found = 0;

		while (found < table->scales) {
			const struct sxt_fit_group *group = groups[found];
			const struct sxt_fit_point *point = NULL;
			const struct sxt_fit_cell *cell =
				cell_at(work, group, bytes, choice, &point);

			if (cell == NULL)
				break;
			table->rows[table->sizes * table->scales + found++] =
				row_of(point, choice, cell->log_us,
				       group->noise[choice].sigma / sqrt((double)cell->cnt));
		}
		if (found == table->scales)
			table->bytes[table->sizes++] = bytes;
	}
}

/* Models of one choice on one or two scales. */
static int fit_choice(struct sxt_fit_work *work, const struct sxt_fit_group *const *groups,
		      size_t scales, struct target *target)
{
	struct table table = {.scales = scales};
	int rc = -ENOMEM;

	table.rows = calloc(groups[0]->cnt * scales, sizeof(*table.rows));
	table.bytes = calloc(groups[0]->cnt, sizeof(*table.bytes));
	if (table.rows == NULL || table.bytes == NULL)
		goto out;
	fill_table(work, groups, target->choice, &table);
	rc = table.sizes < SPAN_MIN ? 0 : fit_span(work->fit, target, &table, 0, table.sizes - 1);
out:
	free(table.bytes);
	free(table.rows);
	return rc;
}

static int fit_scales(struct sxt_fit_work *work, const struct sxt_fit_group *const *groups,
		      size_t scales, struct sxt_range nodes)
{
	struct target target = {.point = &work->fit->points[groups[0]->first], .nodes = nodes};
	int rc = 0;

	for (int k = 0; k < (int)SXT_FIT_CHOICES && rc == 0; k++) {
		target.choice = k;
		if (sxt_fit_is_named(k))
			rc = fit_choice(work, groups, scales, &target);
	}
	return rc;
}

static bool has_default(const struct sxt_fit_work *work, const struct sxt_fit_group *group)
{
	for (size_t i = group->first; i < group->first + group->cnt; i++) {
		if (work->cells[i][SXT_FIT_DEFAULT].cnt > 0)
			return true;
	}
	return false;
}

/* The next larger scale of the same collective with as many ranks on each node. */
static const struct sxt_fit_group *next_scale(const struct sxt_fit_work *work, size_t i)
{
	const struct sxt_fit_point *points = work->fit->points;
	const struct sxt_fit_point *here = &points[work->groups[i].first];

	for (size_t k = i + 1; k < work->groups_cnt; k++) {
		const struct sxt_fit_point *there = &points[work->groups[k].first];

		if (there->coll == here->coll && there->shape.nodes > here->shape.nodes &&
		    (uint64_t)there->shape.ranks * here->shape.nodes ==
			    (uint64_t)here->shape.ranks * there->shape.nodes)
			return &work->groups[k];
	}
	return NULL;
}

int sxt_fit_models(struct sxt_fit_work *work)
{
	int rc = 0;

	for (size_t i = 0; i < work->groups_cnt && rc == 0; i++) {
		const struct sxt_fit_group *groups[2] = {&work->groups[i], next_scale(work, i)};
		uint32_t nodes = work->fit->points[groups[0]->first].shape.nodes;
		uint32_t next = 0;

		if (!has_default(work, groups[0]))
			rc = fit_scales(work, groups, 1, (struct sxt_range){nodes, nodes});
		if (groups[1] != NULL)
			next = work->fit->points[groups[1]->first].shape.nodes;
		if (rc == 0 && next > nodes + 1)
			rc = sxt_fit_join(work, groups[0], groups[1]);
		if (rc == 0 && next > nodes + 1)
			rc = fit_scales(work, groups, 2, (struct sxt_range){nodes + 1, next - 1});
	}
	return rc;
}
