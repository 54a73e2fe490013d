/*
 * plot.c - `sextant tune plot`: logs as a picture, drawn by gnuplot.
 */
#include "cli/tune/plot.h"

#include "cli/tune/points.h"
#include "cli/tune/tune.h"

#include "tuner/choose.h"

#include "core/config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND          "sextant tune plot"
#define HYSTERESIS       0.97 /* what is faster by less does not change the choice */
#define SHELL_NO_COMMAND 127

enum key {
	KEY_RULES = 0x100,
	KEY_COLL,
	KEY_NODES,
	KEY_RANKS,
	KEY_SCRIPT
};

struct plot_args {
	const char *output;
	const char *rules;
	int coll;  /* -1: the only one */
	int nodes; /* 0: the only one */
	int ranks;
	bool script;
	struct sxt_tune_logs logs;
};

static const struct argp_option option_list[] = {
	{"output", 'o', "FILE", 0, "The SVG file", 1},
	{"rules", KEY_RULES, "FILE", 0, "Show what these rules choose, instead of the fastest", 1},
	{"coll", KEY_COLL, "NAME", 0, "Of several in the logs: this collective", 2},
	{"nodes", KEY_NODES, "N", 0, "this number of nodes", 2},
	{"ranks", KEY_RANKS, "N", 0, "this number of ranks", 2},
	{"script", KEY_SCRIPT, NULL, 0, "Print gnuplot's script instead of running it", 3},
	{0},
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct plot_args *args = state->input;

	switch (key) {
	case 'o':
		args->output = arg;
		return 0;
	case KEY_RULES:
		args->rules = arg;
		return 0;
	case KEY_COLL:
		args->coll = sxt_coll_of(arg);
		if (args->coll < 0)
			argp_error(state, "--coll: NCCL has no collective '%s'", arg);
		return 0;
	case KEY_NODES:
		args->nodes = sxt_cli_parse_int(state, "--nodes", arg, 1, 1 << 20);
		return 0;
	case KEY_RANKS:
		args->ranks = sxt_cli_parse_int(state, "--ranks", arg, 1, 1 << 20);
		return 0;
	case KEY_SCRIPT:
		args->script = true;
		return 0;
	case ARGP_KEY_END:
		if (args->output == NULL)
			argp_error(state, "-o FILE is needed");
		else if (strpbrk(args->output, "\n\r") != NULL)
			argp_error(state, "--output: no line breaks in a name");
		return 0;
	default:
		return sxt_tune_parse_logs(key, state, &args->logs);
	}
}

static bool wanted(const struct plot_args *args, const struct sxt_fit_point *point)
{
	return point->bytes > 0 && (args->coll < 0 || (int)point->coll == args->coll) &&
	       (args->nodes == 0 || point->shape.nodes == (uint32_t)args->nodes) &&
	       (args->ranks == 0 || point->shape.ranks == (uint32_t)args->ranks);
}

static void tell_kind(const struct sxt_fit_point *point)
{
	fprintf(stderr, "  --coll %s --nodes %u --ranks %u\n", sxt_coll_names[point->coll],
		point->shape.nodes, point->shape.ranks);
}

/* Return: exit status; a picture has one collective on one shape. */
static int select_points(const struct plot_args *args, const struct sxt_fit *fit,
			 struct sxt_plot *out)
{
	const struct sxt_fit_point *last = NULL;
	int kinds = 0;

	for (size_t i = 0; i < fit->points_cnt; i++) {
		const struct sxt_fit_point *point = &fit->points[i];

		if (!wanted(args, point))
			continue;
		if (last == NULL || !sxt_tune_same_shape(point, last))
			kinds++;
		if (kinds == 1 && last == NULL)
			out->points = point;
		if (kinds == 1)
			out->cnt++;
		last = point;
	}
	if (kinds == 1)
		return SXT_EXIT_OK;
	fprintf(stderr, COMMAND ": %s; choose one of:\n",
		kinds == 0 ? "the logs have nothing of what is asked for"
			   : "the logs have more than one picture can show");
	for (size_t i = 0; i < fit->points_cnt; i++) {
		if (i == 0 || !sxt_tune_same_shape(&fit->points[i], &fit->points[i - 1]))
			tell_kind(&fit->points[i]);
	}
	return SXT_EXIT_USAGE;
}

/* The fastest of those that forced an algorithm or a protocol; all -1 where there is none. */
static struct sxt_plot_choice fastest(const struct sxt_fit_point *point)
{
	struct sxt_plot_choice best = {-1, -1};
	double best_us = INFINITY;

	for (int algo = 0; algo <= SXT_ALGOS; algo++) {
		for (int proto = 0; proto <= SXT_PROTOS; proto++) {
			const struct sxt_fit_time *time = &point->times[algo][proto];

			if (time->cnt == 0 || time->us >= best_us ||
			    (algo == SXT_FIT_ANY_ALGO && proto == SXT_FIT_ANY_PROTO))
				continue;
			best_us = time->us;
			best = (struct sxt_plot_choice){(int8_t)algo, (int8_t)proto};
		}
	}
	return best;
}

/* The one before stays while it is nearly as fast. */
static void choose_fastest(struct sxt_plot *plot)
{
	struct sxt_plot_choice now = {-1, -1};

	for (size_t i = 0; i < plot->cnt; i++) {
		const struct sxt_fit_point *point = &plot->points[i];
		struct sxt_plot_choice best = fastest(point);

		if (now.algo < 0 || best.algo < 0 || point->times[now.algo][now.proto].cnt == 0 ||
		    point->times[best.algo][best.proto].us <
			    point->times[now.algo][now.proto].us * HYSTERESIS)
			now = best;
		plot->choices[i] = now;
	}
}

/* Where no rule applies NCCL's own choice stays. */
static int choose_by_rules(struct sxt_plot *plot, const struct sxt_rules *rules)
{
	struct sxt_chooser *chooser;
	int rc = sxt_chooser_make(rules, plot->points[0].shape, NULL, &chooser);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < plot->cnt; i++) {
		const struct sxt_call call = {.coll = plot->points[i].coll,
					      .bytes = plot->points[i].bytes,
					      .pipe_ops = 1,
					      .algos = SXT_ALGOS,
					      .protos = SXT_PROTOS};
		struct sxt_choice choice = sxt_choose(chooser, &call);

		plot->choices[i] = (struct sxt_plot_choice){SXT_FIT_ANY_ALGO, SXT_FIT_ANY_PROTO};
		if (choice.source == SXT_CHOICE_RULE)
			plot->choices[i] =
				(struct sxt_plot_choice){(int8_t)choice.algo, (int8_t)choice.proto};
	}
	sxt_chooser_free(chooser);
	return 0;
}

static int choose(struct sxt_plot *plot, const char *file)
{
	struct sxt_rules *rules = NULL;
	int status = SXT_EXIT_OK;
	int rc = 0;

	if (file != NULL)
		status = sxt_tune_read_rules(COMMAND, file, &rules);
	if (status != SXT_EXIT_OK)
		return status;
	plot->choices = calloc(plot->cnt, sizeof(*plot->choices));
	if (plot->choices == NULL)
		rc = -ENOMEM;
	else if (rules != NULL)
		rc = choose_by_rules(plot, rules);
	else
		choose_fastest(plot);
	sxt_rules_free(rules);
	if (rc == 0)
		return SXT_EXIT_OK;
	fprintf(stderr, COMMAND ": %s\n", sxt_strerror(rc));
	return SXT_EXIT_BROKEN;
}

/* The picture appears whole or not at all. */
static int draw(const struct sxt_plot *plot, const char *output)
{
	char part[PATH_MAX];
	FILE *to;
	int status;

	if (snprintf(part, sizeof(part), "%s.part", output) >= (int)sizeof(part)) {
		fprintf(stderr, COMMAND ": %s: the name is too long\n", output);
		return SXT_EXIT_BROKEN;
	}
	signal(SIGPIPE, SIG_IGN);
	to = popen("exec gnuplot", "w");
	if (to == NULL) {
		fprintf(stderr, COMMAND ": cannot start gnuplot: %m\n");
		return SXT_EXIT_BROKEN;
	}
	sxt_plot_script(plot, part, to);
	status = pclose(to);
	if (status == 0 && rename(part, output) == 0) {
		printf("%s: %zu sizes\n", output, plot->cnt);
		return SXT_EXIT_OK;
	}
	if (status == 0)
		fprintf(stderr, COMMAND ": cannot write %s: %m\n", output);
	unlink(part);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SHELL_NO_COMMAND) {
		fprintf(stderr,
			COMMAND ": gnuplot draws the picture, and is not installed "
				"(Debian: gnuplot-nox); --script prints what it would be given\n");
		return SXT_EXIT_MISSING;
	}
	if (status != 0)
		fprintf(stderr, COMMAND ": gnuplot did not draw %s (its words are above)\n",
			output);
	return SXT_EXIT_BROKEN;
}

static int show(const void *input, const struct sxt_fit *fit)
{
	const struct plot_args *args = input;
	struct sxt_plot plot = {.rules = args->rules};
	int status = select_points(args, fit, &plot);

	if (status == SXT_EXIT_OK)
		status = choose(&plot, args->rules);
	if (status == SXT_EXIT_OK && args->script)
		sxt_plot_script(&plot, args->output, stdout);
	else if (status == SXT_EXIT_OK)
		status = draw(&plot, args->output);
	free(plot.choices);
	return status;
}

int sxt_cmd_tune_plot(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		"LOG...",
		"Draw time and bus bandwidth by size from logs of nccl-tests, one curve for each "
		"algorithm and protocol, and where another one becomes the fastest.\v"
		"LOG is as for `sextant tune fit`. gnuplot draws; exit status 69 where there is "
		"none.",
		NULL,
		NULL,
		NULL,
	};
	struct plot_args args = {.coll = -1};

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	return sxt_tune_show_fit(COMMAND, &args.logs, &sxt_fit_defaults, show, &args);
}
