/*
 * env.c - `sextant env`: the settings table with the values this environment gives it.
 */
#include "cli/cli.h"

#include "core/config.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct env_args {
	bool json;
	bool markdown;
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct env_args *args = state->input;

	switch (key) {
	case 'j':
		args->json = true;
		return 0;
	case 'm':
		args->markdown = true;
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static json_t *row_json(const struct sxt_opt *opt, const char *value)
{
	json_t *row =
		json_pack("{s:s, s:s, s:s, s:b, s:s, s:s}", "name", opt->env, "value", value,
			  "default",
			  opt->kind == SXT_OPT_STR ? opt->default_str : opt->default_text, "set",
			  sxt_env_get(opt->env) != NULL, "unit", opt->unit, "doc", opt->doc);

	if (row != NULL && opt->kind != SXT_OPT_STR) {
		json_object_set_new(row, "min", json_integer(opt->min));
		json_object_set_new(row, "max", json_integer(opt->max));
	}
	return row;
}

static int print_json(const struct sxt_config *config)
{
	json_t *settings = json_array();
	char value[4096];

	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		sxt_opt_format(&sxt_opts[i], config, value, sizeof(value));
		json_array_append_new(settings, row_json(&sxt_opts[i], value));
	}
	return sxt_cli_print_json(
		json_pack("{s:s, s:o}", "schema", "sextant.env/1", "settings", settings));
}

/* Breaks a sentence into lines that leave the page 80 columns wide. */
static void print_wrapped(const char *text)
{
	int column = 0;

	while (*text != '\0') {
		int len = (int)strcspn(text, " ");

		if (column > 0 && column + 1 + len > 74) {
			fputs("\n      ", stdout);
			column = 0;
		} else {
			fputs(column > 0 ? " " : "      ", stdout);
		}
		printf("%.*s", len, text);
		column += len + 1;
		text += len + (text[len] == ' ');
	}
	putchar('\n');
}

static void print_text(const struct sxt_config *config)
{
	char value[4096];

	puts("Settings as this environment gives them; * marks those that are set.\n");
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		const struct sxt_opt *opt = &sxt_opts[i];

		sxt_opt_format(opt, config, value, sizeof(value));
		printf("%c %s=%s%s%s", sxt_env_get(opt->env) != NULL ? '*' : ' ', opt->env, value,
		       opt->unit[0] != '\0' ? " " : "", opt->unit);
		if (opt->kind != SXT_OPT_STR)
			printf("  (default %ld, %ld..%ld)", (long)opt->default_num, (long)opt->min,
			       (long)opt->max);
		putchar('\n');
		print_wrapped(opt->doc);
	}
}

int sxt_cmd_env(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", 'j', NULL, 0, "Machine-readable output (schema sextant.env/1)", 0},
		{"markdown", 'm', NULL, 0, "The table as it stands in the README", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse_arg,
		.doc = "List every setting: name, value in this environment, range and meaning.",
	};
	struct env_args args = {0};
	struct sxt_config config;
	int rc = SXT_EXIT_OK;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (args.markdown) {
		sxt_config_write_markdown(stdout);
		return SXT_EXIT_OK;
	}
	if (sxt_config_load(&config) != 0)
		return SXT_EXIT_FOUND;
	if (args.json)
		rc = print_json(&config);
	else
		print_text(&config);
	sxt_config_fini(&config);
	return rc;
}
