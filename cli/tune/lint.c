/*
 * lint.c - `sextant tune lint`: what is wrong or odd in a rules file, and its digest.
 */
#include "cli/tune/odd.h"
#include "cli/tune/tune.h"

#include "core/status.h"
#include "tuner/words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "sextant tune lint"

enum key {
	KEY_JSON = 0x100
};

struct lint_args {
	const char *file;
	bool json;
	json_t *found;
	bool has_unused; /* rules or models */
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct lint_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (args->file != NULL)
			argp_error(state, "one file at a time, got '%s' too", arg);
		args->file = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which file?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The line as it stands in the file, and a mark below the column. */
static void print_caret(const char *file, uint32_t line, uint32_t column)
{
	FILE *from = fopen(file, "re");
	char *text = NULL;
	size_t room = 0;
	ssize_t len = 0;

	if (from == NULL)
		return;
	for (uint32_t i = 0; i < line && len >= 0; i++)
		len = getline(&text, &room, from);
	if (len > 0) {
		text[strcspn(text, "\r\n")] = '\0';
		fprintf(stderr, "  %s\n", text);
		/* Tabs stay tabs, so that the mark stands below whatever they are wide. */
		for (uint32_t i = 1; i < column && text[i - 1] != '\0'; i++)
			text[i - 1] = text[i - 1] == '\t' ? '\t' : ' ';
		if (column > 0 && column <= (size_t)len)
			fprintf(stderr, "  %.*s^\n", (int)column - 1, text);
	}
	free(text);
	fclose(from);
}

static json_t *fault_json(const struct sxt_rules_fault *fault)
{
	return json_pack("{s:s, s:i, s:i, s:s}", "kind", "error", "line", (int)fault->line,
			 "column", (int)fault->column, "text", fault->text);
}

/* "Ring, NVLS": what has a collective. */
static void list_algos(enum sxt_coll coll, char *out, size_t room)
{
	size_t len = 0;

	for (int i = 0; i < SXT_ALGOS && len < room; i++) {
		if (sxt_is_possible(coll, (enum sxt_algo)i, SXT_PROTO_SIMPLE))
			len += (size_t)snprintf(out + len, room - len, "%s%s", len > 0 ? ", " : "",
						sxt_algo_names[i]);
	}
}

static void describe_impossible(const struct sxt_odd *odd, char out[256])
{
	const char *algo = sxt_algo_names[odd->algo];
	char has[128] = "";

	if (sxt_is_possible(odd->coll, odd->algo, SXT_PROTO_SIMPLE)) {
		snprintf(out, 256, "no NCCL has %s with %s, so this is never used; name %s", algo,
			 sxt_proto_names[odd->proto], sxt_proto_names[SXT_PROTO_SIMPLE]);
		return;
	}
	list_algos(odd->coll, has, sizeof(has));
	snprintf(out, 256, "no NCCL has %s for %s, so this is never used; it has %s", algo,
		 sxt_coll_names[odd->coll], has);
}

static void describe(const struct sxt_odd *odd, char out[256])
{
	char from[24];
	char to[24];
	char more[32] = "";

	sxt_bytes_write(odd->bytes.min, from);
	sxt_bytes_write(odd->bytes.max, to);
	if (odd->more > 0)
		snprintf(more, sizeof(more), " and %u more", odd->more);
	switch (odd->kind) {
	case SXT_ODD_IMPOSSIBLE:
		describe_impossible(odd, out);
		return;
	case SXT_ODD_HIDDEN:
		snprintf(out, 256, "never answers: line %u%s %s all its calls", odd->other, more,
			 odd->more > 0 ? "have" : "has");
		return;
	case SXT_ODD_OVERLAP:
		snprintf(out, 256, "meets line %u, which answers for %s..%s%s%s", odd->other, from,
			 to, odd->more > 0 ? "," : "", more);
		return;
	case SXT_ODD_HOLE:
		snprintf(out, 256, "no rule for %s..%s, up to line %u: NCCL chooses", from, to,
			 odd->other);
		return;
	}
}

static void take_odd(const struct sxt_odd *odd, void *arg)
{
	static const char *const kinds[] = {"impossible", "hidden", "overlap", "hole"};
	struct lint_args *args = arg;
	char text[256] = "";

	describe(odd, text);
	args->has_unused |= odd->kind == SXT_ODD_HIDDEN || odd->kind == SXT_ODD_IMPOSSIBLE;
	json_array_append_new(args->found,
			      json_pack("{s:s, s:i, s:i, s:s}", "kind", kinds[odd->kind], "line",
					(int)odd->line, "column", 0, "text", text));
	if (!args->json)
		printf("%s:%u: %s\n", args->file, odd->line, text);
}

static int print_json(const struct lint_args *args, const struct sxt_rules *rules)
{
	char digest[17] = "";
	json_t *root = json_pack("{s:s, s:s}", "schema", "sextant.tune-lint/1", "file", args->file);

	if (rules != NULL)
		snprintf(digest, sizeof(digest), "%016" PRIx64, rules->digest);
	json_object_set_new(root, "digest", rules != NULL ? json_string(digest) : json_null());
	json_object_set_new(root, "is_csv", json_boolean(rules != NULL && rules->is_csv));
	json_object_set_new(root, "rules", json_integer(rules != NULL ? rules->rules_cnt : 0));
	json_object_set_new(root, "models", json_integer(rules != NULL ? rules->models_cnt : 0));
	json_object_set(root, "found", args->found);
	return sxt_cli_print_json(root);
}

static void print_text(const struct lint_args *args, const struct sxt_rules *rules)
{
	printf("%s: %u rule%s, %u model%s%s, digest %016" PRIx64 ".\n"
	       "Ranks whose files differ refuse each other. To tell that at start:\n"
	       "export SEXTANT_TUNER_DIGEST=%016" PRIx64 "\n",
	       args->file, rules->rules_cnt, rules->rules_cnt == 1 ? "" : "s", rules->models_cnt,
	       rules->models_cnt == 1 ? "" : "s", rules->is_csv ? ", as NVIDIA's CSV" : "",
	       rules->digest, rules->digest);
}

static int lint(struct lint_args *args)
{
	struct sxt_rules_fault fault = {0};
	struct sxt_rules *rules = NULL;
	int rc = sxt_rules_read(args->file, &rules, &fault);
	int status = SXT_EXIT_BROKEN;
	int printed = SXT_EXIT_OK;

	if (rc == 0) {
		rc = sxt_odd_find(rules, take_odd, args);
		if (rc != 0)
			fprintf(stderr, COMMAND ": %s: %s\n", args->file, sxt_strerror(rc));
		else
			status = args->has_unused ? SXT_EXIT_FOUND : SXT_EXIT_OK;
	} else {
		json_array_append_new(args->found, fault_json(&fault));
		sxt_tune_print_fault(COMMAND, args->file, &fault);
	}
	if (rc == -EINVAL || rc == -E2BIG)
		status = SXT_EXIT_FOUND;
	else if (rc == -ENOENT)
		status = SXT_EXIT_MISSING;
	if (fault.line > 0)
		print_caret(args->file, fault.line, fault.column);
	if (args->json)
		printed = print_json(args, rules);
	else if (rc == 0)
		print_text(args, rules);
	sxt_rules_free(rules);
	return printed != SXT_EXIT_OK ? printed : status;
}

int sxt_cmd_tune_lint(int argc, char **argv)
{
	static const struct argp_option list[] = {
		{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.tune-lint/1)",
		 0},
		{0},
	};
	static const struct argp argp = {
		list,
		parse_arg,
		"FILE",
		"Check a rules file, and tell its digest.\v"
		"Sizes that no rule has, and rules that meet, are told and are no error. Exit "
		"status: 0 fine, 1 an error or a line that is never used, 2 it cannot be read, 64 "
		"usage, 69 no such file.",
		NULL,
		NULL,
		NULL,
	};
	struct lint_args args = {0};
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	args.found = json_array();
	status = lint(&args);
	json_decref(args.found);
	return status;
}
