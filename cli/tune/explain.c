/*
 * explain.c - `sextant tune explain`: what a rules file makes of a call.
 */
#include "cli/tune/explain.h"

#include "cli/tune/tune.h"

#include "core/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND        "sextant tune explain"
#define SIZE_MAX_BYTES (UINT64_C(1) << 50)

enum key {
	KEY_COLL = 0x100,
	KEY_BYTES,
	KEY_NODES,
	KEY_RANKS,
	KEY_RULES,
	KEY_PIPE_OPS,
	KEY_REG,
	KEY_NCCL,
	KEY_JSON
};

struct explain_args {
	struct sxt_explain_query query;
	uint64_t first; /* bytes */
	uint64_t last;
	bool json;
};

static const struct argp_option option_list[] = {
	{NULL, 0, NULL, 0, "The call:", 1},
	{"coll", KEY_COLL, "NAME", 0,
	 "broadcast, reduce, allgather, reducescatter or allreduce (allreduce)", 1},
	{"bytes", KEY_BYTES, "SIZE", 0, "8M, or 1K..8G for each power of two", 1},
	{"nodes", KEY_NODES, "N", 0, "Nodes of the communicator", 1},
	{"ranks", KEY_RANKS, "N", 0, "Ranks of the communicator", 1},
	{"pipe-ops", KEY_PIPE_OPS, "N", 0, "Operations aggregated (1)", 1},
	{"reg", KEY_REG, NULL, 0, "With registered buffers", 1},
	{NULL, 0, NULL, 0, "How it is answered:", 2},
	{"rules", KEY_RULES, "FILE", 0, "The rules file ($SEXTANT_TUNER_FILE)", 2},
	{"nccl", KEY_NCCL, "ALGO/PROTO", 0,
	 "What NCCL takes by itself (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING tells)", 2},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.tune-explain/1)", 2},
	{0},
};

static uint64_t parse_size(struct argp_state *state, const char *text)
{
	uint64_t bytes = 0;

	if (sxt_bytes_parse(text, &bytes) != 0 || bytes > SIZE_MAX_BYTES)
		argp_error(state, "--bytes: '%s' is no size, such as 8M, or 1K..8G for a range",
			   text);
	return bytes;
}

static void parse_sizes(struct argp_state *state, struct explain_args *args, char *text)
{
	char *dots = strstr(text, "..");

	if (dots != NULL)
		*dots = '\0';
	args->first = parse_size(state, text);
	args->last = dots != NULL ? parse_size(state, dots + 2) : args->first;
	if (args->first == 0 || args->first > args->last)
		argp_error(state, "--bytes: from a size above 0 to one that is not smaller");
}

static void parse_nccl(struct argp_state *state, struct sxt_explain_query *query, char *text)
{
	char *slash = strchr(text, '/');
	int algo = -1;
	int proto = -1;

	if (slash != NULL) {
		*slash = '\0';
		algo = sxt_algo_of(text);
		proto = sxt_proto_of(slash + 1);
	}
	if (algo < 0 || proto < 0)
		argp_error(state, "--nccl must be an algorithm and a protocol, such as ring/ll128");
	query->nccl = (struct sxt_pick){(enum sxt_algo)algo, (enum sxt_proto)proto};
	query->knows_nccl = true;
}

static void check(struct argp_state *state, struct explain_args *args)
{
	struct sxt_explain_query *q = &args->query;

	if (args->last == 0 || q->shape.nodes == 0 || q->shape.ranks == 0)
		argp_error(state, "--bytes, --nodes and --ranks are needed");
	if (q->shape.nodes > q->shape.ranks)
		argp_error(state, "--nodes: %u ranks are on no more than %u nodes", q->shape.ranks,
			   q->shape.ranks);
	if (q->file == NULL)
		q->file = sxt_env_get("SEXTANT_TUNER_FILE");
	if (q->file == NULL || q->file[0] == '\0')
		argp_error(state, "--rules FILE is needed where SEXTANT_TUNER_FILE is not set");
}

static error_t parse_call(int key, char *arg, struct argp_state *state)
{
	struct explain_args *args = state->input;
	struct sxt_explain_query *q = &args->query;
	int coll;

	switch (key) {
	case KEY_COLL:
		coll = sxt_coll_of(arg);
		if (coll < 0)
			argp_error(state, "--coll: NCCL has no collective '%s'", arg);
		q->coll = (enum sxt_coll)coll;
		return 0;
	case KEY_BYTES:
		parse_sizes(state, args, arg);
		return 0;
	case KEY_NODES:
		q->shape.nodes = (uint32_t)sxt_cli_parse_int(state, "--nodes", arg, 1, 1 << 20);
		return 0;
	case KEY_RANKS:
		q->shape.ranks = (uint32_t)sxt_cli_parse_int(state, "--ranks", arg, 2, 1 << 20);
		return 0;
	case KEY_PIPE_OPS:
		q->pipe_ops = (uint32_t)sxt_cli_parse_int(state, "--pipe-ops", arg, 1, 1 << 20);
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct explain_args *args = state->input;

	switch (key) {
	case KEY_REG:
		args->query.reg = 1;
		return 0;
	case KEY_RULES:
		args->query.file = arg;
		return 0;
	case KEY_NCCL:
		parse_nccl(state, &args->query, arg);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_END:
		check(state, args);
		return 0;
	default:
		return parse_call(key, arg, state);
	}
}

static int print_json(const struct explain_args *args)
{
	const struct sxt_explain_query *q = &args->query;
	json_t *sizes = json_array();
	struct sxt_explain e;
	char digest[17];

	for (uint64_t bytes = args->first; bytes <= args->last; bytes *= 2) {
		sxt_explain_make(q, bytes, &e);
		json_array_append_new(sizes, sxt_explain_json(q, &e));
	}
	snprintf(digest, sizeof(digest), "%016llx", (unsigned long long)q->rules->digest);
	return sxt_cli_print_json(json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:o}", "schema",
					    "sextant.tune-explain/1", "rules", q->file, "digest",
					    digest, "coll", sxt_coll_names[q->coll], "nodes",
					    (int)q->shape.nodes, "ranks", (int)q->shape.ranks,
					    "bus_factor", sxt_bus_factor(q->coll, q->shape.ranks),
					    "sizes", sizes));
}

static int print_text(const struct explain_args *args)
{
	const struct sxt_explain_query *q = &args->query;
	struct sxt_explain e;

	sxt_explain_print_head(q);
	if (args->first == args->last) {
		sxt_explain_make(q, args->first, &e);
		sxt_explain_print(q, &e);
	} else {
		sxt_explain_print_line(q, NULL);
		for (uint64_t bytes = args->first; bytes <= args->last; bytes *= 2) {
			sxt_explain_make(q, bytes, &e);
			sxt_explain_print_line(q, &e);
		}
		if (!q->knows_nccl)
			puts("\n\"model N, from 5 %\": where NCCL's own choice is that much "
			     "slower; --nccl tells\nwhat that is.");
	}
	sxt_explain_print_formula(q);
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}

static int answer(struct explain_args *args)
{
	struct sxt_explain_query *q = &args->query;
	struct sxt_rules *rules;
	struct sxt_chooser *chooser;
	int status = sxt_tune_read_rules(COMMAND, q->file, &rules);
	int rc;

	if (status != SXT_EXIT_OK)
		return status;
	rc = sxt_chooser_make(rules, q->shape, NULL, &chooser);
	if (rc != 0) {
		fprintf(stderr, COMMAND ": %s\n", sxt_strerror(rc));
		sxt_rules_free(rules);
		return SXT_EXIT_BROKEN;
	}
	q->rules = rules;
	q->chooser = chooser;
	status = args->json ? print_json(args) : print_text(args);
	sxt_chooser_free(chooser);
	sxt_rules_free(rules);
	return status;
}

int sxt_cmd_tune_explain(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		NULL,
		"Tell what a rules file chooses for a call, which rule or model does, and what "
		"every other choice would take by the file's models.\v"
		"A model only replaces a choice of NCCL's own that it knows to be slower: give "
		"that by --nccl, or read the last column. All are taken to be available.",
		NULL,
		NULL,
		NULL,
	};
	struct explain_args args = {.query = {.coll = SXT_COLL_ALL_REDUCE, .pipe_ops = 1}};

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	return answer(&args);
}
