/*
 * estimate.c - `sextant tune estimate`: what a data-parallel step's all-reduce of gradients needs
 * of the links, by arithmetic.
 */
#include "cli/tune/candidates.h"
#include "cli/tune/tune.h"

#include <math.h>
#include <stdio.h>

#define RANKS_MAX    (1 << 20)
#define PARAMS_MAX   1e15
#define GOOD_SHARE   0.2 /* of compute: communication hides behind the backward pass */
#define BEARABLE     0.3
#define DEFAULT_SIZE 4 /* bytes of an FP32 gradient */

enum key {
	KEY_PARAMS = 0x100,
	KEY_RANKS,
	KEY_PER_NODE,
	KEY_BANDWIDTH,
	KEY_EFFICIENCY,
	KEY_SIZE,
	KEY_COMPUTE,
	KEY_RULES,
	KEY_BUCKET,
	KEY_JSON
};

struct estimate {
	double params;
	int ranks;
	int per_node;
	double link; /* bytes a second and way, of one rank; 0: not given */
	int efficiency_percent;
	int gradient_bytes;
	double compute_s; /* 0: not given */
	const char *rules;
	uint64_t bucket_bytes; /* 0: one message for all */
	bool json;
	/* What follows: */
	double bytes;         /* of gradients */
	double factor;        /* bus bandwidth by algorithm bandwidth */
	double link_bytes;    /* each way through one rank's link */
	double seconds;       /* by the links; 0: not known */
	double model_s;       /* by the rules' model; 0: not known */
	struct sxt_pick pick; /* of the model */
};

static const struct argp_option option_list[] = {
	{NULL, 0, NULL, 0, "The job:", 1},
	{"params", KEY_PARAMS, "N", 0, "Parameters of the model: 13B, 350M, 7e9", 1},
	{"ranks", KEY_RANKS, "N", 0, "Ranks that share gradients", 1},
	{"ranks-per-node", KEY_PER_NODE, "N", 0, "Of these on one node (1)", 1},
	{"gradient-bytes", KEY_SIZE, "N", 0, "Bytes of a gradient: 4 FP32, 2 BF16 (4)", 1},
	{"compute", KEY_COMPUTE, "SECONDS", 0, "Computing time of a step, without communication",
	 1},
	{NULL, 0, NULL, 0, "The links:", 2},
	{"gpu-bandwidth", KEY_BANDWIDTH, "BW", 0,
	 "Network bandwidth of each rank and way: 100G or 100Gb/s are bits, 12.5GB/s bytes", 2},
	{"efficiency", KEY_EFFICIENCY, "PERCENT", 0, "How much of it is reached (100)", 2},
	{"rules", KEY_RULES, "FILE", 0, "Also by the models of this rules file", 2},
	{"bucket", KEY_BUCKET, "SIZE", 0,
	 "For these: the size of one all-reduce, as 25M (all gradients at once)", 2},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (sextant.tune-estimate/1)", 3},
	{0},
};

static double parse_positive(struct argp_state *state, const char *name, const char *text)
{
	double value = 0;

	if (sxt_tune_count(text, &value) != 0)
		argp_error(state, "%s: '%s' is no number above 0, such as 13B, 350M or 1.5", name,
			   text);
	return value;
}

static void check(struct argp_state *state, const struct estimate *e)
{
	if (e->params == 0 || e->ranks == 0)
		argp_error(state, "--params and --ranks are needed");
	else if (e->link == 0 && e->rules == NULL)
		argp_error(state, "--gpu-bandwidth is needed (or --rules, for its models)");
	else if (e->params > PARAMS_MAX)
		argp_error(state, "--params must be at most 1000T");
	else if (e->ranks == e->per_node)
		argp_error(state, "--ranks-per-node: all %d ranks on one node need no link",
			   e->ranks);
	else if (e->ranks % e->per_node != 0)
		argp_error(state, "--ranks-per-node: %d ranks do not fill nodes of %d", e->ranks,
			   e->per_node);
}

/* The links. */
static error_t parse_links(int key, char *arg, struct argp_state *state)
{
	struct estimate *e = state->input;

	switch (key) {
	case KEY_BANDWIDTH:
		if (sxt_tune_bandwidth(arg, &e->link) != 0)
			argp_error(state,
				   "--gpu-bandwidth: '%s' is no bandwidth, such as 100G, 100Gb/s "
				   "(bits) or 12.5GB/s (bytes)",
				   arg);
		return 0;
	case KEY_EFFICIENCY:
		e->efficiency_percent = sxt_cli_parse_int(state, "--efficiency", arg, 1, 100);
		return 0;
	case KEY_RULES:
		e->rules = arg;
		return 0;
	case KEY_BUCKET:
		if (sxt_bytes_parse(arg, &e->bucket_bytes) != 0 || e->bucket_bytes == 0 ||
		    e->bucket_bytes == UINT64_MAX)
			argp_error(state, "--bucket: '%s' is no size, such as 25M", arg);
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct estimate *e = state->input;

	switch (key) {
	case KEY_PARAMS:
		e->params = parse_positive(state, "--params", arg);
		return 0;
	case KEY_RANKS:
		e->ranks = sxt_cli_parse_int(state, "--ranks", arg, 2, RANKS_MAX);
		return 0;
	case KEY_PER_NODE:
		e->per_node = sxt_cli_parse_int(state, "--ranks-per-node", arg, 1, RANKS_MAX);
		return 0;
	case KEY_SIZE:
		e->gradient_bytes = sxt_cli_parse_int(state, "--gradient-bytes", arg, 1, 8);
		return 0;
	case KEY_COMPUTE:
		e->compute_s = parse_positive(state, "--compute", arg);
		return 0;
	case KEY_JSON:
		e->json = true;
		return 0;
	case ARGP_KEY_END:
		check(state, e);
		return 0;
	default:
		return parse_links(key, arg, state);
	}
}

/* The fastest model that applies; bucket after bucket, the last one perhaps not full. */
static void ask_models(struct estimate *e, const struct sxt_rules *rules)
{
	const struct sxt_shape shape = {.nodes = (uint32_t)(e->ranks / e->per_node),
					.ranks = (uint32_t)e->ranks};
	uint64_t whole = (uint64_t)e->bytes;
	uint64_t bucket = e->bucket_bytes != 0 && e->bucket_bytes < whole ? e->bucket_bytes : whole;
	uint64_t full = whole / bucket;

	for (int algo = 0; algo < SXT_ALGOS; algo++) {
		for (int proto = 0; proto < SXT_PROTOS; proto++) {
			const struct sxt_pick pick = {(enum sxt_algo)algo, (enum sxt_proto)proto};
			const struct sxt_model *model =
				sxt_tune_model(rules, pick, SXT_COLL_ALL_REDUCE, shape, bucket);
			double s;

			if (model == NULL)
				continue;
			s = (double)full * sxt_model_us(model, shape, bucket) / 1e6;
			if (whole % bucket != 0)
				s += sxt_model_us(model, shape, whole % bucket) / 1e6;
			if (e->model_s != 0 && s >= e->model_s)
				continue;
			e->model_s = s;
			e->pick = pick;
		}
	}
}

static int compute(struct estimate *e)
{
	struct sxt_rules *rules;
	int status;

	e->bytes = e->params * e->gradient_bytes;
	e->factor = sxt_bus_factor(SXT_COLL_ALL_REDUCE, (uint32_t)e->ranks);
	e->link_bytes = e->bytes * e->factor / e->per_node;
	if (e->link > 0)
		e->seconds = e->link_bytes / (e->link * e->efficiency_percent / 100);
	if (e->rules == NULL)
		return SXT_EXIT_OK;
	status = sxt_tune_read_rules("sextant tune estimate", e->rules, &rules);
	if (status != SXT_EXIT_OK)
		return status;
	ask_models(e, rules);
	sxt_rules_free(rules);
	return SXT_EXIT_OK;
}

static const char *const byte_units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
static const char *const count_units[] = {"", "thousand ", "million ", "billion ", "trillion "};

/* In three digits, with the unit that fits. */
static void print_scaled(double value, const char *const *units, size_t units_cnt)
{
	size_t unit = 0;

	while (value >= 999.5 && unit + 1 < units_cnt) {
		value /= 1000;
		unit++;
	}
	printf("%.3g %s", value, units[unit]);
}

static double share_of(const struct estimate *e, double seconds)
{
	return seconds / e->compute_s;
}

static const char *judge(double share)
{
	if (share <= GOOD_SHARE)
		return "fine";
	return share <= BEARABLE ? "bearable" : "too much: the links are the limit";
}

/* Return: bytes a second that each rank's link needs for communication to be this share. */
static double link_for(const struct estimate *e, double share)
{
	return e->link_bytes / (share * e->compute_s) / e->efficiency_percent * 100;
}

static void print_share(const struct estimate *e, double seconds)
{
	if (e->compute_s > 0)
		printf("  share of compute       %.1f %% of %g s: %s\n", 100 * share_of(e, seconds),
		       e->compute_s, judge(share_of(e, seconds)));
	else
		printf("  needs a compute time   of %.3g s for 20 %%, %.3g s for 30 %%\n",
		       seconds / GOOD_SHARE, seconds / BEARABLE);
}

static void print_links(const struct estimate *e)
{
	printf("\nBy the links: %g Gb/s (%.3g GB/s) each way for each rank, %d %% of it reached\n",
	       e->link * 8 / 1e9, e->link / 1e9, e->efficiency_percent);
	printf("  through each link      ");
	print_scaled(e->link_bytes, byte_units, SXT_ARRAY_LEN(byte_units));
	printf(" = gradients x %.4g / %d rank%s of a node\n", e->factor, e->per_node,
	       e->per_node == 1 ? "" : "s");
	printf("  time                   %.3g s\n", e->seconds);
	printf("  where switches reduce  %.3g s at best (gradients cross each link once)\n",
	       e->seconds / e->factor);
	print_share(e, e->seconds);
}

static void print_model(const struct estimate *e)
{
	printf("\nBy the models of %s", e->rules);
	if (e->bucket_bytes != 0) {
		char size[24];

		sxt_bytes_write(e->bucket_bytes, size);
		printf(", buckets of %s", size);
	}
	putchar('\n');
	if (e->model_s == 0) {
		printf("  none for an all-reduce of this size on this shape\n");
		return;
	}
	printf("  time                   %.3g s by %s/%s\n", e->model_s,
	       sxt_algo_names[e->pick.algo], sxt_proto_names[e->pick.proto]);
	print_share(e, e->model_s);
}

static void print_text(const struct estimate *e)
{
	print_scaled(e->params, count_units, SXT_ARRAY_LEN(count_units));
	printf("parameters x %d bytes = ", e->gradient_bytes);
	print_scaled(e->bytes, byte_units, SXT_ARRAY_LEN(byte_units));
	printf(" of gradients, all-reduced each step\n%d ranks, %d a node, %d nodes; "
	       "busbw = algbw x 2(n-1)/n = algbw x %.4g\n",
	       e->ranks, e->per_node, e->ranks / e->per_node, e->factor);
	if (e->link > 0)
		print_links(e);
	if (e->rules != NULL)
		print_model(e);
	if (e->compute_s > 0)
		printf("\nLink for each rank        %.3g Gb/s for 20 %% of compute, %.3g Gb/s for "
		       "30 %%\n",
		       link_for(e, GOOD_SHARE) * 8 / 1e9, link_for(e, BEARABLE) * 8 / 1e9);
	puts("\nNothing overlaps here: frameworks hide part of it behind the backward pass.\n"
	     "Links within a node are taken to be no limit. Formulas: docs/tune.md.");
}

static json_t *number_or_null(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static int print_json(const struct estimate *e)
{
	bool times = e->compute_s > 0;
	bool modelled = e->model_s > 0;
	json_t *root =
		json_pack("{s:s, s:f, s:i, s:i, s:i, s:f, s:f, s:f}", "schema",
			  "sextant.tune-estimate/1", "params", e->params, "gradient_bytes",
			  e->gradient_bytes, "ranks", e->ranks, "ranks_per_node", e->per_node,
			  "bytes", e->bytes, "bus_factor", e->factor, "link_bytes", e->link_bytes);

	json_object_set_new(root, "link_gb_per_s", number_or_null(e->link / 1e9));
	json_object_set_new(root, "efficiency", json_real(e->efficiency_percent / 100.0));
	json_object_set_new(root, "seconds", number_or_null(e->seconds));
	json_object_set_new(root, "compute_s", number_or_null(e->compute_s));
	json_object_set_new(root, "share", number_or_null(times ? share_of(e, e->seconds) : 0));
	json_object_set_new(root, "link_gb_per_s_for_20_percent",
			    number_or_null(times ? link_for(e, GOOD_SHARE) / 1e9 : 0));
	json_object_set_new(root, "link_gb_per_s_for_30_percent",
			    number_or_null(times ? link_for(e, BEARABLE) / 1e9 : 0));
	json_object_set_new(root, "model_seconds", number_or_null(e->model_s));
	json_object_set_new(root, "model_algo",
			    modelled ? json_string(sxt_algo_names[e->pick.algo]) : json_null());
	json_object_set_new(root, "model_proto",
			    modelled ? json_string(sxt_proto_names[e->pick.proto]) : json_null());
	return sxt_cli_print_json(root);
}

int sxt_cmd_tune_estimate(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		NULL,
		"Estimate how long a data-parallel training step communicates, what share of its "
		"computing that is, and which links would do.\v"
		"A share of 20 % is fine, 30 % bearable. Measure before you buy: `sextant tune "
		"sweep` and `fit`, then --rules. Formulas: docs/tune.md.",
		NULL,
		NULL,
		NULL,
	};
	struct estimate e = {.per_node = 1,
			     .gradient_bytes = DEFAULT_SIZE,
			     .efficiency_percent = 100};
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &e);
	status = compute(&e);
	if (status != SXT_EXIT_OK)
		return status;
	if (e.json)
		return print_json(&e);
	print_text(&e);
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}
