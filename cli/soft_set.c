/*
 * soft_set.c - `sextant soft set`: one change to a running fabric, in the fabric file's words.
 */
#include "cli/cli.h"
#include "cli/soft.h"
#include "cli/soft_dir.h"

#include "ib/soft/action.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct set_args {
	const char *dir;
	json_t *action; /* as in a fabric file's timeline */
};

/* "wc-error=RETRY_EXC_ERR" becomes "wc_error": "RETRY_EXC_ERR"; "kill" alone is kill=0. */
static int add_pair(json_t *action, const char *pair)
{
	char key[64];
	size_t len = strcspn(pair, "=");
	const char *value = pair[len] == '=' ? pair + len + 1 : "0";
	char *end;
	long number = strtol(value, &end, 10);
	bool is_number = value[0] != '\0' && *end == '\0';

	if (pair[len] == '\0' && strcmp(pair, "kill") != 0)
		return -EINVAL;
	if (len >= sizeof(key))
		return -EINVAL;
	memcpy(key, pair, len);
	key[len] = '\0';
	for (char *at = strchr(key, '-'); at != NULL; at = strchr(at, '-'))
		*at = '_';
	/* Twice is a slip; a time belongs to a timeline, here everything is now. */
	if (json_object_get(action, key) != NULL || strcmp(key, "at_ms") == 0)
		return -EEXIST;
	return json_object_set_new(action, key,
				   is_number ? json_integer(number) : json_string(value));
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct set_args *args = state->input;
	int rc;

	switch (key) {
	case 's':
		args->dir = arg;
		return 0;
	case ARGP_KEY_ARG:
		rc = state->arg_num == 0
			     ? json_object_set_new(args->action, "target", json_string(arg))
			     : add_pair(args->action, arg);
		if (rc == -EEXIST)
			argp_error(state, "'%s' is given already, or not for `soft set`", arg);
		else if (rc != 0)
			argp_error(state, "'%s' is no %s", arg,
				   state->arg_num == 0 ? "target; expected HOST/HCA:PORT"
						       : "KEY=VALUE");
		return 0;
	case ARGP_KEY_END:
		if (state->arg_num < 2)
			argp_error(state, "expected a target and what to set, such as "
					  "`a/mlx5_0:1 state=down`");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int apply(struct sxt_soft_state *state, const struct sxt_soft_action *action)
{
	char text[256];
	int done_cnt;
	int rc = sxt_soft_action_apply(state, action, &done_cnt);

	sxt_soft_action_format(state->fabric, action, text, sizeof(text));
	if (rc == -ESRCH) {
		fprintf(stderr, "sextant soft set: %s: no such process is running there\n", text);
		return SXT_EXIT_BROKEN;
	}
	if (rc == -EADDRINUSE) {
		fprintf(stderr, "sextant soft set: %s: another port has this address\n", text);
		return SXT_EXIT_BROKEN;
	}
	if (rc != 0) {
		fprintf(stderr, "sextant soft set: %s: %s\n", text, sxt_strerror(rc));
		return SXT_EXIT_BROKEN;
	}
	switch (action->kind) {
	case SXT_SOFT_ACT_KILL:
		printf("%s: %d killed\n", text, done_cnt);
		break;
	case SXT_SOFT_ACT_STATE:
	case SXT_SOFT_ACT_EVENT:
	case SXT_SOFT_ACT_GID_SWAP:
	case SXT_SOFT_ACT_GID_SET:
		printf("%s: %d contexts told\n", text, done_cnt);
		break;
	case SXT_SOFT_ACT_DROP:
		printf("%s: done\n", text);
		break;
	default:
		printf("%s: armed\n", text);
		break;
	}
	return SXT_EXIT_OK;
}

int sxt_cmd_soft_set(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"state", 's', "DIR", 0,
		 "The fabric's state folder, where more than one is running", 0},
		{0},
	};
	static const struct argp argp = {
		options,
		parse_arg,
		"TARGET KEY=VALUE...",
		"Change a running fabric.\v"
		"  HOST/HCA:PORT state=down|active\n"
		"  HOST/HCA:PORT wc-error=STATUS [count=N]   next N sends fail, STATUS as\n"
		"                                            RETRY_EXC_ERR, REM_ACCESS_ERR ...\n"
		"  HOST/HCA:PORT event=EVENT                 PORT_ERR, GID_CHANGE ...\n"
		"  HOST/HCA:PORT drop=on|off                 lose all its packets, both ways\n"
		"  HOST/HCA:PORT gid=I to=J                  its GIDs I and J change places\n"
		"  HOST/HCA:PORT gid=I to=ADDRESS            GID I is another, :: for none\n"
		"  HOST/HCA reg-error=ERRNO [count=N]        next N registrations fail\n"
		"  HOST kill[=N|=all]                        SIGKILL the N-th process, from 0",
		NULL,
		NULL,
		NULL,
	};
	struct set_args args = {.action = json_object()};
	char why[512];
	struct sxt_soft_doc doc = {.file = "sextant soft set",
				   .why = why,
				   .why_bytes = sizeof(why)};
	struct sxt_soft_action action;
	struct sxt_soft_state *state;
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	rc = sxt_soft_dir_open(args.dir, &state);
	if (rc != 0)
		goto out;
	rc = sxt_soft_action_parse(&doc, args.action, state->fabric, &action);
	if (rc != 0) {
		fprintf(stderr, "%s\n", why);
		rc = SXT_EXIT_USAGE;
	} else {
		rc = apply(state, &action);
	}
	sxt_soft_state_close(state);
out:
	json_decref(args.action);
	return rc;
}
