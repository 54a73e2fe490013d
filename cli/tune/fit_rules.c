/*
 * fit_rules.c - which choice is surely better than NCCL's own at which sizes of one shape.
 *
 * A choice can have a size where it saves at least min_gain with min_confidence and a neighbouring
 * size agrees. Of what can be, the cheapest path over the sizes is taken, where a change of choice
 * costs something: so noise makes no rules, and a size in doubt between two of the same rule joins.
 */
#include "cli/tune/fit_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define CHANGE_COST 0.015 /* of a rule's end, as a share of the time */
#define DOUBT_COST  0.005 /* of a size that only its neighbours speak for */
#define SUPPORT     0.9   /* how sure of the same choice a neighbouring size has to be */
#define HARM        0.015 /* what a rule may cost at a size that its end has in it */
#define FLAT        0.1   /* a time that grows less than by this power of the size is latency */

/* One choice at one point, on the cheapest path that ends in it. */
struct step {
	double confidence;
	double cost; /* of the point alone */
	double sum;
	int from;
};

static double log_ratio(const struct sxt_fit_cell *cells, int choice)
{
	if (cells[choice].cnt == 0 || cells[SXT_FIT_DEFAULT].cnt == 0)
		return INFINITY;
	return cells[choice].log_us - cells[SXT_FIT_DEFAULT].log_us;
}

/* The mean of as many deviations as there are times. */
static double draw(gsl_rng *rng, const struct sxt_fit_noise *noise, uint32_t cnt)
{
	double sum = 0;

	for (uint32_t i = 0; i < cnt; i++)
		sum += noise->list[gsl_rng_uniform_int(rng, noise->cnt)];
	return sum / cnt;
}

/* Bootstrap over the runs: how often the choice is still the faster one. */
static double confidence(struct sxt_fit_work *work, const struct sxt_fit_group *group,
			 const struct sxt_fit_cell *cells, int choice)
{
	double ratio = log_ratio(cells, choice);
	uint32_t faster = 0;

	for (uint32_t i = 0; i < work->options->resamples; i++) {
		double ours = draw(work->rng, &group->noise[choice], cells[choice].cnt);
		double theirs =
			draw(work->rng, &group->noise[SXT_FIT_DEFAULT], cells[SXT_FIT_DEFAULT].cnt);

		faster += ratio + ours - theirs < 0;
	}
	return work->options->resamples > 0 ? (double)faster / work->options->resamples : 0;
}

/* The fastest that forced an algorithm. */
static void find_best(struct sxt_fit_work *work, const struct sxt_fit_group *group, size_t i)
{
	struct sxt_fit_point *point = &work->fit->points[i];
	const struct sxt_fit_cell *cells = work->cells[i];
	int best = -1;

	for (int k = 0; k < (int)SXT_ALGOS * (int)SXT_FIT_COLUMNS; k++) {
		if (cells[k].cnt > 0 && (best < 0 || cells[k].log_us < cells[best].log_us))
			best = k;
	}
	if (best < 0)
		return;
	point->best_algo = (int8_t)(best / (int)SXT_FIT_COLUMNS);
	point->best_proto = (int8_t)(best % (int)SXT_FIT_COLUMNS);
	if (cells[SXT_FIT_DEFAULT].cnt == 0)
		return;
	point->gain = 1 - exp(log_ratio(cells, best));
	point->confidence = confidence(work, group, cells, best);
}

/* A neighbouring size that speaks for the choice as well, if not as loud. */
static bool has_support(const struct sxt_fit_group *group,
			const struct step (*steps)[SXT_FIT_CHOICES], size_t i, int choice)
{
	bool before = i > 0 && steps[i - 1][choice].confidence >= SUPPORT;
	bool after = i + 1 < group->cnt && steps[i + 1][choice].confidence >= SUPPORT;

	return before || after || group->cnt == 1;
}

static double confidence_of(struct sxt_fit_work *work, const struct sxt_fit_group *group, size_t i,
			    int choice)
{
	const struct sxt_fit_cell *cells = work->cells[group->first + i];

	if (!sxt_fit_is_named(choice) || !(log_ratio(cells, choice) < 0))
		return 0;
	return confidence(work, group, cells, choice);
}

/* Of the group's point @i; all confidences are known. */
static double step_cost(const struct sxt_fit_work *work, const struct sxt_fit_group *group,
			const struct step (*steps)[SXT_FIT_CHOICES], size_t i, int choice)
{
	double ratio = log_ratio(work->cells[group->first + i], choice);

	if (choice == (int)SXT_FIT_DEFAULT)
		return 0;
	if (!sxt_fit_is_named(choice) || !(ratio < 0))
		return INFINITY;
	if (1 - exp(ratio) >= work->options->min_gain &&
	    steps[i][choice].confidence >= work->options->min_confidence &&
	    has_support(group, steps, i, choice))
		return ratio;
	return DOUBT_COST;
}

/* The cheapest path to each choice at each point. */
static void walk(struct sxt_fit_work *work, const struct sxt_fit_group *group,
		 struct step (*steps)[SXT_FIT_CHOICES])
{
	for (size_t i = 0; i < group->cnt; i++) {
		for (int k = 0; k < (int)SXT_FIT_CHOICES; k++)
			steps[i][k].confidence = confidence_of(work, group, i, k);
	}
	for (size_t i = 0; i < group->cnt; i++) {
		for (int k = 0; k < (int)SXT_FIT_CHOICES; k++) {
			struct step *step = &steps[i][k];

			step->cost = step_cost(work, group,
					       (const struct step(*)[SXT_FIT_CHOICES])steps, i, k);
			step->from = k;
			step->sum = i > 0 ? steps[i - 1][k].sum : 0;
			for (int j = 0; i > 0 && j < (int)SXT_FIT_CHOICES; j++) {
				if (!(steps[i - 1][j].sum + CHANGE_COST < step->sum))
					continue;
				step->sum = steps[i - 1][j].sum + CHANGE_COST;
				step->from = j;
			}
			step->sum += step->cost;
		}
	}
}

/* Where one choice gives way to the other between two measured sizes. */
static uint64_t crossover(const struct sxt_fit_work *work, size_t i, int left, int right)
{
	const struct sxt_fit_cell *a = work->cells[i];
	const struct sxt_fit_cell *b = work->cells[i + 1];
	double from = log((double)work->fit->points[i].bytes);
	double to = log((double)work->fit->points[i + 1].bytes);
	double part = 0.5;

	if (a[left].cnt > 0 && a[right].cnt > 0 && b[left].cnt > 0 && b[right].cnt > 0) {
		double before = a[left].log_us - a[right].log_us;
		double behind = b[left].log_us - b[right].log_us;

		if (before < 0 && behind > 0)
			part = before / (before - behind);
		/* NCCL's own changes at once, anywhere between the two. */
		if (right == (int)SXT_FIT_DEFAULT && behind > HARM)
			return work->fit->points[i].bytes;
		if (left == (int)SXT_FIT_DEFAULT && -before > HARM)
			return work->fit->points[i + 1].bytes - 1;
	}
	return (uint64_t)exp(from + (to - from) * part);
}

/* The power of the size by which a choice's time grows between two points. */
static double power(const struct sxt_fit_work *work, size_t i, int choice)
{
	const struct sxt_fit_point *points = work->fit->points;

	return (work->cells[i + 1][choice].log_us - work->cells[i][choice].log_us) /
	       (log((double)points[i + 1].bytes) - log((double)points[i].bytes));
}

/* Sizes below the smallest are taken in where both it and the next are latency alone. */
static uint64_t lower_end(const struct sxt_fit_work *work, const struct sxt_fit_group *group,
			  int choice)
{
	size_t i = group->first;

	if (group->cnt > 1 && fabs(power(work, i, choice)) < FLAT &&
	    fabs(power(work, i, SXT_FIT_DEFAULT)) < FLAT)
		return 0;
	return work->fit->points[i].bytes;
}

static struct sxt_rule *add_rule(struct sxt_fit *fit, const struct sxt_fit_point *point)
{
	struct sxt_rule *larger = reallocarray(fit->rules, fit->rules_cnt + 1, sizeof(*larger));
	struct sxt_range any = {0, UINT64_MAX};

	if (larger == NULL)
		return NULL;
	fit->rules = larger;
	larger[fit->rules_cnt] =
		(struct sxt_rule){.when = {.coll = point->coll,
					   .bytes = any,
					   .nodes = {point->shape.nodes, point->shape.nodes},
					   .ranks = {point->shape.ranks, point->shape.ranks},
					   .per_node = any,
					   .pipe_ops = any,
					   .reg = -1}};
	return &larger[fit->rules_cnt++];
}

/* Three digits are enough to tell a person. */
static float rounded(double x)
{
	return (float)(round(x * 1000) / 1000);
}

/* One rule for points first..last of the fit, all with this choice. */
static int write_rule(struct sxt_fit_work *work, const struct sxt_fit_group *group, size_t first,
		      size_t last, const int *choices, const struct step (*steps)[SXT_FIT_CHOICES])
{
	size_t end = group->first + group->cnt - 1;
	int choice = choices[first - group->first];
	struct sxt_rule *rule = add_rule(work->fit, &work->fit->points[first]);
	double sum = 0;
	double sure = 1;

	if (rule == NULL)
		return -ENOMEM;
	rule->algo = (enum sxt_algo)(choice / (int)SXT_FIT_COLUMNS);
	rule->proto = (enum sxt_proto)(choice % (int)SXT_FIT_COLUMNS);
	rule->when.bytes.min =
		first == group->first
			? lower_end(work, group, choice)
			: crossover(work, first - 1, choices[first - 1 - group->first], choice) + 1;
	/* Above the largest size NCCL's own may be another one; latency alone stays what it is. */
	rule->when.bytes.max =
		last == end ? work->fit->points[end].bytes
			    : crossover(work, last, choice, choices[last + 1 - group->first]);
	for (size_t i = first; i <= last; i++) {
		struct sxt_fit_point *point = &work->fit->points[i];
		double ratio = log_ratio(work->cells[i], choice);
		const struct step *step = &steps[i - group->first][choice];

		point->rule_algo = (int8_t)rule->algo;
		point->rule_proto = (int8_t)rule->proto;
		point->rule_gain = 1 - exp(ratio);
		sum += ratio;
		if (step->cost < 0) /* not of sizes in doubt */
			sure = fmin(sure, step->confidence);
	}
	rule->gain = rounded(1 - exp(sum / (double)(last - first + 1)));
	rule->confidence = rounded(sure);
	return 0;
}

static int write_rules(struct sxt_fit_work *work, const struct sxt_fit_group *group,
		       const int *choices, const struct step (*steps)[SXT_FIT_CHOICES])
{
	int rc = 0;

	for (size_t i = 0; i < group->cnt && rc == 0;) {
		size_t next = i + 1;

		while (next < group->cnt && choices[next] == choices[i])
			next++;
		if (choices[i] != (int)SXT_FIT_DEFAULT)
			rc = write_rule(work, group, group->first + i, group->first + next - 1,
					choices, steps);
		i = next;
	}
	return rc;
}

/* A rule begins and ends with sizes that it is sure of. */
static void trim(const struct sxt_fit_group *group, const struct step (*steps)[SXT_FIT_CHOICES],
		 int *choices)
{
	for (size_t i = 0; i < group->cnt; i++) {
		if (steps[i][choices[i]].cost > 0 && (i == 0 || choices[i - 1] != choices[i]))
			choices[i] = SXT_FIT_DEFAULT;
	}
	for (size_t i = group->cnt; i-- > 0;) {
		if (steps[i][choices[i]].cost > 0 &&
		    (i + 1 == group->cnt || choices[i + 1] != choices[i]))
			choices[i] = SXT_FIT_DEFAULT;
	}
}

/* The cheapest path, read from its end. */
static void read_back(const struct sxt_fit_group *group,
		      const struct step (*steps)[SXT_FIT_CHOICES], int *choices)
{
	size_t last = group->cnt - 1;
	int at = SXT_FIT_DEFAULT;

	for (int k = 0; k < (int)SXT_FIT_CHOICES; k++) {
		if (steps[last][k].sum < steps[last][at].sum)
			at = k;
	}
	for (size_t i = group->cnt; i-- > 0;) {
		choices[i] = at;
		at = steps[i][at].from;
	}
	trim(group, steps, choices);
}

static int note_group(struct sxt_fit_work *work, const struct sxt_fit_group *group)
{
	const struct sxt_fit_point *points = &work->fit->points[group->first];
	const struct sxt_fit_point *top = NULL;
	size_t lost = 0;
	size_t with_default = 0;
	int rc = 0;

	for (size_t i = 0; i < group->cnt; i++) {
		bool is_lost = points[i].best_proto == (int8_t)SXT_FIT_ANY_PROTO &&
			       points[i].gain >= work->options->min_gain &&
			       points[i].confidence >= work->options->min_confidence;

		with_default += work->cells[group->first + i][SXT_FIT_DEFAULT].cnt > 0;
		lost += is_lost;
		if (is_lost && (top == NULL || points[i].gain > top->gain))
			top = &points[i];
	}
	if (with_default < group->cnt)
		rc = sxt_fit_note(work->fit,
				  "%s on %u node%s, %u ranks: %zu of %zu sizes have no log of "
				  "NCCL's default, so no gain can be told and no rule is made",
				  sxt_coll_names[points->coll], points->shape.nodes,
				  points->shape.nodes == 1 ? "" : "s", points->shape.ranks,
				  group->cnt - with_default, group->cnt);
	if (rc == 0 && top != NULL)
		rc = sxt_fit_note(
			work->fit,
			"%s on %u node%s, %u ranks: %s is faster at %zu sizes (%.0f %% at "
			"%llu), but its log forced no NCCL_PROTO, which a rule has to name",
			sxt_coll_names[points->coll], points->shape.nodes,
			points->shape.nodes == 1 ? "" : "s", points->shape.ranks,
			sxt_algo_names[top->best_algo], lost, 100 * top->gain,
			(unsigned long long)top->bytes);
	return rc;
}

int sxt_fit_rules(struct sxt_fit_work *work, struct sxt_fit_group *group)
{
	struct step(*steps)[SXT_FIT_CHOICES] = calloc(group->cnt, sizeof(*steps));
	int *choices = calloc(group->cnt, sizeof(*choices));
	int rc = -ENOMEM;

	if (steps == NULL || choices == NULL)
		goto out;
	for (size_t i = group->first; i < group->first + group->cnt; i++)
		find_best(work, group, i);
	walk(work, group, steps);
	read_back(group, (const struct step(*)[SXT_FIT_CHOICES])steps, choices);
	group->first_rule = work->fit->rules_cnt;
	rc = write_rules(work, group, choices, (const struct step(*)[SXT_FIT_CHOICES])steps);
	group->rules_cnt = work->fit->rules_cnt - group->first_rule;
	if (rc == 0)
		rc = note_group(work, group);
out:
	free(choices);
	free(steps);
	return rc;
}

/* What two rules have in common, for the scales between theirs. */
static int join(struct sxt_fit *fit, size_t near, size_t far, uint64_t per_node)
{
	struct sxt_rule *rule = add_rule(fit, fit->points);
	const struct sxt_rule *a = &fit->rules[near];
	const struct sxt_rule *b = &fit->rules[far];

	if (rule == NULL)
		return -ENOMEM;
	*rule = *a;
	rule->when.bytes.min =
		a->when.bytes.min > b->when.bytes.min ? a->when.bytes.min : b->when.bytes.min;
	rule->when.bytes.max =
		a->when.bytes.max < b->when.bytes.max ? a->when.bytes.max : b->when.bytes.max;
	rule->when.nodes = (struct sxt_range){a->when.nodes.max + 1, b->when.nodes.min - 1};
	rule->when.ranks = (struct sxt_range){0, UINT64_MAX};
	rule->when.per_node = (struct sxt_range){per_node, per_node};
	rule->gain = fminf(a->gain, b->gain);
	rule->confidence = fminf(a->confidence, b->confidence);
	return 0;
}

int sxt_fit_join(struct sxt_fit_work *work, const struct sxt_fit_group *near,
		 const struct sxt_fit_group *far)
{
	const struct sxt_shape *shape = &work->fit->points[near->first].shape;
	int rc = 0;

	for (size_t i = near->first_rule; i < near->first_rule + near->rules_cnt; i++) {
		for (size_t k = far->first_rule; k < far->first_rule + far->rules_cnt; k++) {
			const struct sxt_rule *a = &work->fit->rules[i];
			const struct sxt_rule *b = &work->fit->rules[k];

			if (a->algo == b->algo && a->proto == b->proto &&
			    a->when.bytes.min <= b->when.bytes.max &&
			    b->when.bytes.min <= a->when.bytes.max && rc == 0)
				rc = join(work->fit, i, k,
					  (shape->ranks + shape->nodes - 1) / shape->nodes);
		}
	}
	return rc;
}
