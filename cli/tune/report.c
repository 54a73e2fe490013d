/*
 * report.c - `sextant tune fit`: what logs say about NCCL's choices, and rules made of it.
 */
#include "cli/tune/points.h"
#include "cli/tune/tune.h"

#include "core/status.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "sextant tune fit"

enum key {
	KEY_GAIN = 0x100,
	KEY_CONFIDENCE,
	KEY_SEED,
	KEY_JSON
};

struct fit_args {
	const char *output;
	struct sxt_fit_options options;
	bool json;
	struct sxt_tune_logs logs;
};

static const struct argp_option option_list[] = {
	{"output", 'o', "FILE", 0, "Write the rules there", 1},
	{"gain", KEY_GAIN, "PERCENT", 0, "Time a rule has to save against NCCL's choice (3)", 1},
	{"confidence", KEY_CONFIDENCE, "PERCENT", 0, "How sure it has to be that it saves any (95)",
	 1},
	{"seed", KEY_SEED, "N", 0, "Of the bootstrap (1); the same gives the same rules", 1},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.tune-fit/1)", 2},
	{0},
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct fit_args *args = state->input;

	switch (key) {
	case 'o':
		args->output = arg;
		return 0;
	case KEY_GAIN:
		args->options.min_gain = sxt_cli_parse_int(state, "--gain", arg, 0, 99) / 100.0;
		return 0;
	case KEY_CONFIDENCE:
		args->options.min_confidence =
			sxt_cli_parse_int(state, "--confidence", arg, 50, 100) / 100.0;
		return 0;
	case KEY_SEED:
		args->options.seed = (uint64_t)sxt_cli_parse_int(state, "--seed", arg, 0, INT_MAX);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	default:
		return sxt_tune_parse_logs(key, state, &args->logs);
	}
}

static const struct sxt_fit_time *default_of(const struct sxt_fit_point *point)
{
	return &point->times[SXT_FIT_ANY_ALGO][SXT_FIT_ANY_PROTO];
}

static void print_percent(double value, int width)
{
	if (isnan(value))
		printf("%*s", width + 1, "-");
	else
		printf("%*.1f%%", width, 100 * value);
}

static void print_us(double us)
{
	if (us > 0)
		printf(" %11.1f", us);
	else
		printf(" %11s", "-");
}

static void print_point(const struct sxt_fit_point *point)
{
	char size[24];
	char name[32] = "-";
	char rule[32] = "-";

	sxt_bytes_write(point->bytes, size);
	printf("%8s", size);
	print_us(default_of(point)->cnt > 0 ? default_of(point)->us : 0);
	if (point->best_algo >= 0)
		sxt_tune_choice_name(point->best_algo, point->best_proto, name);
	if (point->rule_algo >= 0)
		sxt_tune_choice_name(point->rule_algo, point->rule_proto, rule);
	print_us(point->best_algo >= 0 ? point->times[point->best_algo][point->best_proto].us : 0);
	print_percent(point->gain, 7);
	print_percent(point->confidence, 6);
	printf(" %-12s ", name);
	if (point->rule_algo < 0) {
		puts("NCCL's choice");
		return;
	}
	printf("%-11s", rule);
	printf(" %.1f%%\n", 100 * point->rule_gain);
}

static void print_shape(const struct sxt_fit_point *point)
{
	printf("\n%s on %u node%s, %u ranks (saved: time of NCCL's choice)\n",
	       sxt_coll_names[point->coll], point->shape.nodes, point->shape.nodes == 1 ? "" : "s",
	       point->shape.ranks);
	printf("%8s %11s %11s %8s %7s %-12s %s\n", "size", "NCCL us", "best us", "saved", "sure",
	       "best", "rules take, save");
}

static void print_text(const struct sxt_fit *fit, const char *output)
{
	char line[SXT_RULE_LINE_BYTES];

	for (size_t i = 0; i < fit->points_cnt; i++) {
		if (i == 0 || !sxt_tune_same_shape(&fit->points[i], &fit->points[i - 1]))
			print_shape(&fit->points[i]);
		print_point(&fit->points[i]);
	}
	putchar('\n');
	for (size_t i = 0; i < fit->rules_cnt; i++) {
		sxt_rule_write(&fit->rules[i], line);
		puts(line);
	}
	for (size_t i = 0; i < fit->models_cnt; i++) {
		sxt_model_write(&fit->models[i], line);
		puts(line);
	}
	if (fit->rules_cnt == 0)
		puts("No rule: nothing is surely faster than NCCL's own choice, or there is no "
		     "log of that.");
	for (size_t i = 0; i < fit->notes_cnt; i++)
		printf("Note: %s\n", fit->notes[i]);
	if (output != NULL)
		printf("Written to %s; `sextant tune lint %s` tells the digest.\n", output, output);
	else if (fit->rules_cnt + fit->models_cnt > 0)
		puts("-o FILE writes them.");
}

static json_t *real_or_null(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *choice_json(int algo, int proto)
{
	char name[32];

	if (algo < 0)
		return json_null();
	sxt_tune_choice_name(algo, proto, name);
	return json_string(name);
}

static json_t *times_json(const struct sxt_fit_point *point)
{
	json_t *out = json_array();

	for (int algo = 0; algo <= SXT_ALGOS; algo++) {
		for (int proto = 0; proto <= SXT_PROTOS; proto++) {
			const struct sxt_fit_time *time = &point->times[algo][proto];
			bool own = algo == SXT_FIT_ANY_ALGO && proto == SXT_FIT_ANY_PROTO;

			if (time->cnt == 0)
				continue;
			json_array_append_new(out, json_pack("{s:o, s:f, s:i}", "choice",
							     own ? json_string("default")
								 : choice_json(algo, proto),
							     "time_us", time->us, "times",
							     (int)time->cnt));
		}
	}
	return out;
}

static json_t *point_json(const struct sxt_fit_point *point)
{
	json_t *out = json_pack("{s:s, s:i, s:i, s:I, s:o}", "coll", sxt_coll_names[point->coll],
				"nodes", (int)point->shape.nodes, "ranks", (int)point->shape.ranks,
				"bytes", (json_int_t)point->bytes, "times", times_json(point));

	json_object_set_new(out, "best", choice_json(point->best_algo, point->best_proto));
	json_object_set_new(out, "gain", real_or_null(point->gain));
	json_object_set_new(out, "confidence", real_or_null(point->confidence));
	json_object_set_new(out, "rule", choice_json(point->rule_algo, point->rule_proto));
	json_object_set_new(out, "rule_gain", real_or_null(point->rule_gain));
	return out;
}

static int print_json(const struct sxt_fit *fit)
{
	json_t *points = json_array();
	json_t *lines = json_array();
	json_t *notes = json_array();
	char line[SXT_RULE_LINE_BYTES];

	for (size_t i = 0; i < fit->points_cnt; i++)
		json_array_append_new(points, point_json(&fit->points[i]));
	for (size_t i = 0; i < fit->rules_cnt; i++) {
		sxt_rule_write(&fit->rules[i], line);
		json_array_append_new(lines, json_string(line));
	}
	for (size_t i = 0; i < fit->models_cnt; i++) {
		sxt_model_write(&fit->models[i], line);
		json_array_append_new(lines, json_string(line));
	}
	for (size_t i = 0; i < fit->notes_cnt; i++)
		json_array_append_new(notes, json_string(fit->notes[i]));
	return sxt_cli_print_json(json_pack("{s:s, s:o, s:o, s:o}", "schema", "sextant.tune-fit/1",
					    "points", points, "lines", lines, "notes", notes));
}

/* The file appears whole or not at all. */
static int write_rules(const struct sxt_fit *fit, const char *path)
{
	char part[PATH_MAX];
	FILE *to;
	int rc;

	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	to = fopen(part, "we");
	if (to == NULL)
		return -errno;
	rc = sxt_fit_write(fit, to);
	if (fclose(to) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(part, path) != 0)
		rc = -errno;
	if (rc != 0)
		unlink(part);
	return rc;
}

static int report(const void *input, const struct sxt_fit *fit)
{
	const struct fit_args *args = input;
	int rc = args->output != NULL ? write_rules(fit, args->output) : 0;

	if (rc != 0) {
		fprintf(stderr, COMMAND ": cannot write %s: %s\n", args->output, sxt_strerror(rc));
		return SXT_EXIT_BROKEN;
	}
	if (args->json)
		return print_json(fit);
	print_text(fit, args->output);
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}

int sxt_cmd_tune_fit(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		"LOG...",
		"Read logs of nccl-tests (any version's table) or of `sextant bench`, one for each "
		"forced algorithm and protocol and one of NCCL's own choice, and make rules where "
		"another choice is surely faster.\v"
		"LOG is a file, or FILE=WORDS where the log does not tell what was forced: "
		"x.log=ring/ll, y.log=default, z.log=allgather/tree/simple. Exit status: 0 done, 1 "
		"some log could not be used, 2 none could, 64 usage, 69 no such file.",
		NULL,
		NULL,
		NULL,
	};
	struct fit_args args = {.options = sxt_fit_defaults};

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	return sxt_tune_show_fit(COMMAND, &args.logs, &args.options, report, &args);
}
