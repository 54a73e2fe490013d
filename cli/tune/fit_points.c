/*
 * fit_points.c - times sorted into points: one size of one collective on one shape, each choice
 * with its mean, and each choice's noise over all sizes of the shape.
 */
#include "cli/tune/fit_parts.h"

#include <errno.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE_FLOOR 0.005 /* no cluster repeats itself better than that */
#define NOISE_FEW   8     /* fewer repetitions say too little of the noise */

static int choice_of(const struct sxt_logs_time *time)
{
	int algo = time->algo < 0 ? (int)SXT_FIT_ANY_ALGO : time->algo;
	int proto = time->proto < 0 ? (int)SXT_FIT_ANY_PROTO : time->proto;

	return algo * (int)SXT_FIT_COLUMNS + proto;
}

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* By collective, nodes, ranks. */
static int compare_group(const struct sxt_logs_time *a, const struct sxt_logs_time *b)
{
	int by = order(a->coll, b->coll);

	by = by != 0 ? by : order(a->nodes, b->nodes);
	return by != 0 ? by : order(a->ranks, b->ranks);
}

static int compare_time(const void *left, const void *right)
{
	const struct sxt_logs_time *a = left;
	const struct sxt_logs_time *b = right;
	int by = compare_group(a, b);

	by = by != 0 ? by : order(a->bytes, b->bytes);
	by = by != 0 ? by : choice_of(a) - choice_of(b);
	by = by != 0 ? by : (int)a->in_place - (int)b->in_place;
	by = by != 0 ? by : order(a->file, b->file);
	return by != 0 ? by : order(a->line, b->line);
}

static double mean_log(const struct sxt_logs_time *times, size_t cnt)
{
	double sum = 0;

	for (size_t i = 0; i < cnt; i++)
		sum += log(times[i].us);
	return sum / (double)cnt;
}

/* Out of place comes first, so the other side is left out by a smaller count. */
static uint32_t count_out(const struct sxt_fit_work *work, const struct sxt_fit_cell *cell)
{
	uint32_t out = 0;

	while (out < cell->cnt && !work->times[cell->first + out].in_place)
		out++;
	return out;
}

/* In place is compared only where each choice was measured so; likewise out of place. */
static void even_sides(struct sxt_fit_work *work, struct sxt_fit_cell *cells)
{
	bool all_out = true;
	bool all_in = true;

	for (int k = 0; k < (int)SXT_FIT_CHOICES; k++) {
		uint32_t out = count_out(work, &cells[k]);

		all_out &= cells[k].cnt == 0 || out > 0;
		all_in &= cells[k].cnt == 0 || out < cells[k].cnt;
	}
	for (int k = 0; k < (int)SXT_FIT_CHOICES; k++) {
		uint32_t out = count_out(work, &cells[k]);

		if (all_in && !all_out) {
			cells[k].first += out;
			cells[k].cnt -= out;
		} else if (all_out && !all_in) {
			cells[k].cnt = out;
		}
	}
}

/* The mean of both sides' means, so that runs without one side do not weigh. */
static double cell_mean(const struct sxt_fit_work *work, const struct sxt_fit_cell *cell)
{
	const struct sxt_logs_time *times = &work->times[cell->first];
	uint32_t out = count_out(work, cell);

	if (out == 0 || out == cell->cnt)
		return mean_log(times, cell->cnt);
	return (mean_log(times, out) + mean_log(times + out, cell->cnt - out)) / 2;
}

static void finish_point(struct sxt_fit_work *work, size_t i)
{
	struct sxt_fit_point *point = &work->fit->points[i];
	struct sxt_fit_cell *cells = work->cells[i];

	point->best_algo = -1;
	point->best_proto = -1;
	point->rule_algo = -1;
	point->rule_proto = -1;
	point->gain = NAN;
	point->confidence = NAN;
	even_sides(work, cells);
	for (int k = 0; k < (int)SXT_FIT_CHOICES; k++) {
		struct sxt_fit_time *time = &point->times[k / SXT_FIT_COLUMNS][k % SXT_FIT_COLUMNS];

		if (cells[k].cnt == 0)
			continue;
		cells[k].log_us = cell_mean(work, &cells[k]);
		time->us = exp(cells[k].log_us);
		time->cnt = cells[k].cnt;
	}
}

static void add_point(struct sxt_fit_work *work, const struct sxt_logs_time *time)
{
	struct sxt_fit *fit = work->fit;
	struct sxt_fit_point *point = &fit->points[fit->points_cnt++];

	point->coll = time->coll;
	point->shape.nodes = time->nodes;
	point->shape.ranks = time->ranks;
	point->bytes = time->bytes;
	work->groups[work->groups_cnt - 1].cnt++;
}

static void sort_in(struct sxt_fit_work *work)
{
	const struct sxt_logs_time *last = NULL;

	for (size_t i = 0; i < work->times_cnt; i++) {
		const struct sxt_logs_time *time = &work->times[i];
		struct sxt_fit_cell *cell = NULL;

		if (last == NULL || compare_group(last, time) != 0)
			work->groups[work->groups_cnt++].first = work->fit->points_cnt;
		if (last == NULL || compare_group(last, time) != 0 || last->bytes != time->bytes)
			add_point(work, time);
		cell = &work->cells[work->fit->points_cnt - 1][choice_of(time)];
		if (cell->cnt++ == 0)
			cell->first = i;
		last = time;
	}
}

/* Deviations from the mean of a cell's side; scaled so that few times deviate as much as many. */
static void noise_of_runs(const struct sxt_fit_work *work, const struct sxt_fit_cell *cell,
			  struct sxt_fit_noise *noise)
{
	uint32_t out = count_out(work, cell);
	uint32_t sides[2][2] = {{0, out}, {out, cell->cnt}};

	for (int side = 0; side < 2; side++) {
		uint32_t cnt = sides[side][1] - sides[side][0];
		const struct sxt_logs_time *times = &work->times[cell->first + sides[side][0]];
		double mean = 0;

		if (cnt < 2)
			continue;
		mean = mean_log(times, cnt);
		for (uint32_t i = 0; i < cnt; i++)
			noise->list[noise->cnt++] =
				(log(times[i].us) - mean) * sqrt((double)cnt / (double)(cnt - 1));
	}
}

/*
 * Without repetitions: how far a size lies from the line through its neighbours. What the curve
 * really bends counts as noise, which errs on the safe side.
 */
static void noise_of_curve(const struct sxt_fit_work *work, const struct sxt_fit_group *group,
			   int choice, struct sxt_fit_noise *noise)
{
	for (size_t i = group->first + 1; i + 1 < group->first + group->cnt; i++) {
		const struct sxt_fit_cell *cell = &work->cells[i][choice];
		const struct sxt_fit_cell *before = &work->cells[i - 1][choice];
		const struct sxt_fit_cell *after = &work->cells[i + 1][choice];

		if (cell->cnt == 0 || before->cnt == 0 || after->cnt == 0)
			continue;
		noise->list[noise->cnt++] = (cell->log_us - (before->log_us + after->log_us) / 2) *
					    sqrt(2.0 / 3.0) * sqrt((double)cell->cnt);
	}
}

static int find_noise(struct sxt_fit_work *work, struct sxt_fit_group *group, int choice)
{
	struct sxt_fit_noise *noise = &group->noise[choice];
	size_t room = 2;

	for (size_t i = group->first; i < group->first + group->cnt; i++)
		room += work->cells[i][choice].cnt + 1;
	noise->list = calloc(room, sizeof(*noise->list));
	if (noise->list == NULL)
		return -ENOMEM;
	for (size_t i = group->first; i < group->first + group->cnt; i++)
		noise_of_runs(work, &work->cells[i][choice], noise);
	if (noise->cnt < NOISE_FEW) {
		noise->cnt = 0;
		noise_of_curve(work, group, choice, noise);
	}
	/* Both ways, so that the mean is 0, and never none at all. */
	noise->list[noise->cnt++] = NOISE_FLOOR;
	noise->list[noise->cnt++] = -NOISE_FLOOR;
	noise->sigma = gsl_stats_sd_m(noise->list, 1, noise->cnt, 0.0);
	return 0;
}

int sxt_fit_points(struct sxt_fit_work *work, const struct sxt_logs *logs)
{
	size_t cnt = logs->times_cnt;
	int rc = 0;

	if (cnt == 0)
		return -ENOENT;
	work->times = reallocarray(NULL, cnt, sizeof(*work->times));
	work->cells = calloc(cnt, sizeof(*work->cells));
	work->groups = calloc(cnt, sizeof(*work->groups));
	work->fit->points = calloc(cnt, sizeof(*work->fit->points));
	if (work->times == NULL || work->cells == NULL || work->groups == NULL ||
	    work->fit->points == NULL)
		return -ENOMEM;
	memcpy(work->times, logs->times, cnt * sizeof(*work->times));
	work->times_cnt = cnt;
	qsort(work->times, cnt, sizeof(*work->times), compare_time);
	sort_in(work);
	for (size_t i = 0; i < work->fit->points_cnt; i++)
		finish_point(work, i);
	for (size_t i = 0; i < work->groups_cnt; i++) {
		for (int k = 0; k < (int)SXT_FIT_CHOICES && rc == 0; k++)
			rc = find_noise(work, &work->groups[i], k);
	}
	return rc;
}
