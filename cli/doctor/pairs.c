/*
 * pairs.c - `sextant doctor pairs`: two doctors meet and try every port of one host against every
 * port of the other.
 */
#include "cli/doctor/pairs.h"

#include "cli/cli.h"
#include "core/status.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_S     300
#define TIMEOUT_MAX_S 86400
#define AGAIN_MAX     2 /* measurements more of what looks slow */

enum key {
	KEY_LISTEN = 0x100,
	KEY_TIMEOUT,
	KEY_JSON,
};

struct pairs_args {
	const char *address;
	int timeout_s;
	bool listens;
	bool json;
};

static const struct argp_option option_list[] = {
	{"listen", KEY_LISTEN, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	 "Wait for the other host's doctor; without an address one that NCCL would choose and any "
	 "free port",
	 1},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0, "Wait this long for the other host (300)", 1},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.doctor-pairs/1)", 2},
	{0},
};

static void take_address(struct pairs_args *args, const char *text, struct argp_state *state)
{
	if (args->address != NULL)
		argp_error(state, "takes one address, got '%s' and '%s'", args->address, text);
	args->address = text;
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct pairs_args *args = state->input;

	switch (key) {
	case KEY_LISTEN:
		args->listens = true;
		if (arg != NULL)
			take_address(args, arg, state);
		return 0;
	case KEY_TIMEOUT:
		args->timeout_s = sxt_cli_parse_int(state, "--timeout", arg, 1, TIMEOUT_MAX_S);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		take_address(args, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (args->address == NULL && !args->listens)
			argp_error(state, "--listen on one host, then HOST:PORT on the other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse(int argc, char **argv, struct pairs_args *out)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		"--listen [ADDR:PORT]\nHOST:PORT",
		"Try every port of this host against every port of another, both ways: which "
		"reach each other, how fast, what is at fault, and which NCCL_IB_HCA to set.\v"
		"Start it with --listen on one host; it prints what to type on the other. Ports "
		"and addresses are those that the plugin would use. Nothing may use the ports "
		"meanwhile, or it measures that as well. Exit status: 0 fine, 1 warnings, 2 "
		"something cannot work, 64 usage, 69 the two did not meet, or one went away.",
		NULL,
		NULL,
		NULL,
	};

	argp_parse(&argp, argc, argv, 0, NULL, out);
}

/* The pairs that look slow, as numbers of cells. Return: how many. */
static uint32_t find_slow(const struct sxt_pairs *pairs, uint32_t *out)
{
	uint8_t slow[SXT_PAIRS_PORTS_MAX * SXT_PAIRS_PORTS_MAX];
	uint32_t cells_cnt = pairs->hosts[0].ports_cnt * pairs->hosts[1].ports_cnt;
	uint32_t cnt = 0;

	sxt_pairs_slow(pairs, slow);
	for (uint32_t i = 0; i < cells_cnt; i++) {
		if (slow[i] != 0)
			out[cnt++] = i;
	}
	return cnt;
}

/* All pairs, then once more what looks slow: it may have been somebody else's load. */
static int try_all(struct sxt_pairs *pairs, struct sxt_pairs_verbs *verbs,
		   struct sxt_pairs_link *link)
{
	uint32_t cnt = pairs->hosts[0].ports_cnt * pairs->hosts[1].ports_cnt;
	uint32_t *which = calloc(cnt, sizeof(*which));
	int rc = -ENOMEM;

	pairs->cells = calloc(cnt, sizeof(*pairs->cells));
	for (uint32_t i = 0; which != NULL && i < cnt; i++)
		which[i] = i;
	if (which != NULL && pairs->cells != NULL)
		rc = sxt_pairs_try(pairs, verbs, link, which, cnt, false);
	for (int i = 0; rc == 0 && i < AGAIN_MAX; i++) {
		cnt = find_slow(pairs, which);
		rc = sxt_pairs_try(pairs, verbs, link, which, cnt, true);
	}
	free(which);
	return rc;
}

static int meet_and_try(const struct pairs_args *args, struct sxt_pairs *pairs,
			struct sxt_pairs_verbs *verbs, struct sxt_doctor *d)
{
	struct sxt_pairs_link *link = NULL;
	int status = args->listens ? sxt_pairs_listen(args->address, args->timeout_s, pairs, &link)
				   : sxt_pairs_call(args->address, args->timeout_s, pairs, &link);

	if (status != SXT_EXIT_OK)
		return status;
	fprintf(stderr, "sextant doctor pairs: %s is there; trying %u x %u pairs of ports ...\n",
		pairs->hosts[!pairs->own].name, pairs->hosts[pairs->own].ports_cnt,
		pairs->hosts[!pairs->own].ports_cnt);
	if (try_all(pairs, verbs, link) != 0)
		status = SXT_EXIT_MISSING;
	sxt_pairs_hang_up(link);
	if (status != SXT_EXIT_OK)
		return status;
	sxt_pairs_judge(pairs, d);
	if (!d->out_of_memory)
		return sxt_pairs_print(pairs, d, args->json);
	fprintf(stderr, "sextant doctor pairs: %s; the report would not be whole\n",
		sxt_strerror(ENOMEM));
	return SXT_EXIT_BROKEN;
}

int sxt_doctor_pairs(int argc, char **argv)
{
	struct pairs_args args = {.timeout_s = TIMEOUT_S};
	struct sxt_pairs pairs = {0};
	struct sxt_pairs_verbs *verbs = NULL;
	struct sxt_doctor d = {.theme = SXT_THEME_PAIRS};
	int status;

	parse(argc, argv, &args);
	pairs.own = args.listens ? SXT_PAIRS_LISTENER : SXT_PAIRS_CALLER;
	status = sxt_pairs_open(&pairs.hosts[pairs.own], &verbs);
	if (status == SXT_EXIT_OK)
		status = meet_and_try(&args, &pairs, verbs, &d);
	sxt_pairs_close(verbs);
	free(pairs.cells);
	sxt_doctor_fini(&d);
	return status;
}
