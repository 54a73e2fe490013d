/*
 * bench_options.c - the command line of `sextant bench`: nccl-tests' flags, and ours.
 */
#include "cli/bench.h"
#include "cli/cli.h"

#include "tuner/words.h"

#include "core/config.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum key {
	KEY_PATTERN = 0x100,
	KEY_ALGO,
	KEY_PROTO,
	KEY_CHANNELS,
	KEY_GROUP,
	KEY_DEPTH,
	KEY_PLUGIN,
	KEY_ABI,
	KEY_PORTS,
	KEY_COMMS,
	KEY_OOB,
	KEY_RECONNECT,
	KEY_RANKS,
	KEY_HOSTS,
	KEY_DEV,
	KEY_PRIVATE,
	KEY_JSON,
	KEY_DEBUG,
	KEY_TIMEOUT,
	KEY_STALL,
};

static const struct argp_option option_list[] = {
	{NULL, 0, NULL, 0, "As in nccl-tests:", 1},
	{"minbytes", 'b', "SIZE", 0, "Smallest size (8); sizes take K, M and G", 1},
	{"maxbytes", 'e', "SIZE", 0, "Largest size (16M)", 1},
	{"stepbytes", 'i', "SIZE", 0, "Add this from size to size instead of multiplying", 1},
	{"stepfactor", 'f', "N", 0, "Multiply by this from size to size (2); 8 follows 0", 1},
	{"iters", 'n', "N", 0, "Timed iterations (20)", 1},
	{"warmup_iters", 'w', "N", 0, "Iterations before them (1)", 1},
	{"check", 'c', "N", 0, "Further iterations whose data is checked (1)", 1},
	{"datatype", 'd', "TYPE", 0, "int8 uint8 int32 uint32 int64 uint64 float double (float)",
	 1},
	{"type", 0, NULL, OPTION_ALIAS, NULL, 1},
	{"op", 'o', "OP", 0, "Of reductions: sum min max (sum)", 1},
	{NULL, 0, NULL, 0, "What is run:", 2},
	{"pattern", KEY_PATTERN, "NAME", 0,
	 "all_reduce, all_gather, reduce_scatter, alltoall, sendrecv or ll (all_reduce)", 2},
	{"algo", KEY_ALGO, "NAME", 0, "ring or tree, of all_reduce ($NCCL_ALGO, ring)", 2},
	{"proto", KEY_PROTO, "NAME", 0,
	 "simple, ll or ll128 ($NCCL_PROTO, simple); ll128 needs a device that writes 128-byte "
	 "lines in order",
	 2},
	{"channels", KEY_CHANNELS, "N", 0, "Rings or trees side by side (2; alltoall 8)", 2},
	{"group", KEY_GROUP, "N", 0,
	 "Channels that share a connection, in grouped receives (1; alltoall as many as it can)",
	 2},
	{"depth", KEY_DEPTH, "N", 0, "Slots per connection, 1 to 32 (as NCCL: 8, or 4 slices)", 2},
	{"private", KEY_PRIVATE, NULL, 0, "Buffers in private memory instead of a shared mapping",
	 2},
	{NULL, 0, NULL, 0, "On what:", 3},
	{"plugin", KEY_PLUGIN, "FILE", 0, "Any NCCL net plugin; a name as NCCL_NET_PLUGIN takes it",
	 3},
	{"abi", KEY_ABI, "N", 0, "Version of its table, 6 to 12 (the newest it has)", 3},
	{"ports", KEY_PORTS, "N", 0,
	 "Merge its first N devices, or all of fewer, and use that one (1)", 3},
	{"comms", KEY_COMMS, "N", 0, "Communicators in each rank, all at once (1)", 3},
	{"oob", KEY_OOB, NULL, 0,
	 "A further thread talks beside the data, as with NCCL_OOB_NET_ENABLE", 3},
	{"reconnect", KEY_RECONNECT, "COMMAND", OPTION_ARG_OPTIONAL,
	 "Between sizes close all connections, run COMMAND once, connect anew", 3},
	{"dev", KEY_DEV, "DEV", 0, "Its device, by index or name (local rank, round robin)", 3},
	{"ranks", KEY_RANKS, "N", 0, "Start N ranks on this machine (else a launcher's variables)",
	 3},
	{"hosts", KEY_HOSTS, "N", 0, "Spread them over N hosts of the software fabric (1)", 3},
	{NULL, 0, NULL, 0, "How it is told:", 4},
	{"json", KEY_JSON, NULL, 0, "Machine-readable output (schema sextant.bench/1)", 4},
	{"debug", KEY_DEBUG, "LEVEL", 0,
	 "The plugin's lines: NONE WARN INFO TRACE ($NCCL_DEBUG, WARN)", 4},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0, "Give the whole run up after this (600)", 4},
	{"stall", KEY_STALL, "SECONDS", 0, "Give up when nothing has moved for this long (60)", 4},
	{0},
};

static size_t parse_size(struct argp_state *state, const char *name, const char *text)
{
	char *end = NULL;
	unsigned int shift = 0;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end == 'k' || *end == 'K')
		shift = 10;
	else if (*end == 'm' || *end == 'M')
		shift = 20;
	else if (*end == 'g' || *end == 'G')
		shift = 30;
	end += shift != 0;
	if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' ||
	    value > (1ull << 40) >> shift)
		argp_error(state, "%s: '%s' is no size from 0 to 1024G, such as 8, 64K or 16M",
			   name, text);
	return (size_t)(value << shift);
}

static enum sxt_drv_op parse_op(struct argp_state *state, const char *text)
{
	for (int i = 0; i < SXT_DRV_OPS_CNT; i++) {
		if (strcmp(text, sxt_drv_op_names[i]) == 0)
			return (enum sxt_drv_op)i;
	}
	argp_error(state, "--op: '%s' is none of sum, min, max", text);
	return SXT_DRV_SUM;
}

/* nccl-tests' flags. */
static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case 'b':
		o->min_bytes = parse_size(state, "--minbytes", arg);
		return 0;
	case 'e':
		o->max_bytes = parse_size(state, "--maxbytes", arg);
		return 0;
	case 'i':
		o->step_bytes = parse_size(state, "--stepbytes", arg);
		return 0;
	case 'f':
		o->factor = (unsigned int)sxt_cli_parse_int(state, "--stepfactor", arg, 2, 1 << 20);
		return 0;
	case 'n':
		o->iterations = sxt_cli_parse_int(state, "--iters", arg, 1, INT_MAX);
		return 0;
	case 'w':
		o->warmups = sxt_cli_parse_int(state, "--warmup_iters", arg, 0, INT_MAX);
		return 0;
	case 'c':
		o->checks = sxt_cli_parse_int(state, "--check", arg, 0, INT_MAX);
		return 0;
	case 'd':
		o->spec.type = sxt_drv_type_find(arg);
		if (o->spec.type == NULL)
			argp_error(state, "--datatype: no type '%s'; see --help", arg);
		return 0;
	case 'o':
		o->spec.op = parse_op(state, arg);
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

/* What is run. */
static error_t parse_work(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case KEY_PATTERN:
		o->spec.pattern = sxt_drv_pattern_find(arg, NULL);
		if (o->spec.pattern == NULL)
			argp_error(state,
				   "--pattern: '%s' is none of all_reduce, all_gather, "
				   "reduce_scatter, alltoall, sendrecv, ll",
				   arg);
		return 0;
	case KEY_ALGO:
		o->algo = arg;
		return 0;
	case KEY_PROTO:
		o->spec.proto = sxt_drv_proto_find(arg);
		if (o->spec.proto == NULL)
			argp_error(state, "--proto: '%s' is none of simple, ll, ll128", arg);
		return 0;
	case KEY_CHANNELS:
		o->spec.channels =
			sxt_cli_parse_int(state, "--channels", arg, 1, SXT_DRV_CHANNELS_MAX);
		return 0;
	case KEY_GROUP:
		o->spec.group = sxt_cli_parse_int(state, "--group", arg, 1, SXT_DRV_LANES_MAX);
		return 0;
	case KEY_DEPTH:
		o->spec.depth = sxt_cli_parse_int(state, "--depth", arg, 1, SXT_DRV_DEPTH_MAX);
		return 0;
	case KEY_PRIVATE:
		o->spec.private_memory = true;
		return 0;
	default:
		return parse_common(key, arg, state);
	}
}

/* As NCCL does; lists, exclusions and unknown words leave all as it is. Pairs have no algorithm. */
static void take_environment(struct bench_options *o)
{
	const char *algo = sxt_env_get("NCCL_ALGO");
	const char *proto = sxt_env_get("NCCL_PROTO");

	if (strcmp(o->spec.pattern->algo, "p2p") == 0)
		return;
	if (o->algo == NULL && algo != NULL && sxt_algo_of(algo) >= 0)
		o->algo = sxt_algo_names[sxt_algo_of(algo)];
	if (o->spec.proto == NULL && proto != NULL && sxt_proto_of(proto) >= 0)
		o->spec.proto = sxt_drv_proto_find(sxt_proto_names[sxt_proto_of(proto)]);
}

static void check_algo(struct bench_options *o, struct argp_state *state)
{
	const struct sxt_drv_pattern *pattern =
		sxt_drv_pattern_find(o->spec.pattern->name, o->algo);

	if (pattern == NULL)
		argp_error(state, "--algo: %s has %s, not '%s'", o->spec.pattern->name,
			   strcmp(o->spec.pattern->name, "all_reduce") == 0 ? "ring and tree"
									    : o->spec.pattern->algo,
			   o->algo);
	else
		o->spec.pattern = pattern;
}

static void check_ports(const struct sxt_drv_use *use, struct argp_state *state)
{
	if (use->ports > 1 && use->dev != NULL)
		argp_error(state, "--ports merges devices 0 to %d; --dev cannot choose others",
			   use->ports - 1);
	if (use->ports > 1 && use->abi != 0 && use->abi < 9)
		argp_error(state,
			   "--ports %d: net v%d cannot merge devices (makeVDevice came "
			   "with v9)",
			   use->ports, use->abi);
	if (use->ports > 4 && use->abi != 0 && use->abi < 12)
		argp_error(state, "--ports %d: net v%d merges 4 devices at most; more need v12",
			   use->ports, use->abi);
}

static void check_all(struct bench_options *o, struct argp_state *state)
{
	take_environment(o);
	check_algo(o, state);
	check_ports(&o->use, state);
	if (o->spec.proto == NULL)
		o->spec.proto = sxt_drv_proto_find(o->spec.pattern->proto);
	if (o->spec.channels == 0)
		o->spec.channels = o->spec.pattern->channels;
	if (o->min_bytes > o->max_bytes)
		argp_error(state, "--minbytes is larger than --maxbytes (%zu > %zu)", o->min_bytes,
			   o->max_bytes);
	if (o->spec.group > 1 && !o->spec.pattern->groups)
		argp_error(state, "--group is for sendrecv, alltoall and ll: NCCL groups "
				  "point-to-point receives only");
	if (o->hosts > 1 && o->ranks == 0)
		argp_error(state, "--hosts needs --ranks");
	if (o->hosts > o->ranks && o->ranks != 0)
		argp_error(state, "--hosts must be 1..%d, the number of ranks (got %d)", o->ranks,
			   o->hosts);
	o->spec.max_bytes = o->max_bytes;
}

/* Whose devices. */
static error_t parse_use(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case KEY_PLUGIN:
		o->use.plugin = arg;
		return 0;
	case KEY_ABI:
		o->use.abi =
			sxt_cli_parse_int(state, "--abi", arg, SXT_DRV_ABI_MIN, SXT_DRV_ABI_MAX);
		return 0;
	case KEY_DEV:
		o->use.dev = arg;
		return 0;
	case KEY_PORTS:
		o->use.ports =
			sxt_cli_parse_int(state, "--ports", arg, 1, NCCL_NET_MAX_DEVS_PER_NIC);
		return 0;
	case KEY_COMMS:
		o->use.comms = sxt_cli_parse_int(state, "--comms", arg, 1, SXT_DRV_COMMS_MAX);
		return 0;
	case KEY_OOB:
		o->use.oob = true;
		return 0;
	case KEY_RECONNECT:
		o->reconnect = arg != NULL ? arg : "";
		return 0;
	default:
		return parse_work(key, arg, state);
	}
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case KEY_RANKS:
		o->ranks = sxt_cli_parse_int(state, "--ranks", arg, 2, SXT_DRV_MAX_RANKS);
		return 0;
	case KEY_HOSTS:
		o->hosts = sxt_cli_parse_int(state, "--hosts", arg, 1, SXT_DRV_MAX_RANKS);
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_DEBUG:
		o->debug = arg;
		if (sxt_drv_log_set(arg, 0) != 0)
			argp_error(state, "--debug: '%s' is none of NONE, WARN, INFO, TRACE", arg);
		return 0;
	case KEY_TIMEOUT:
		o->timeout_s = (unsigned int)sxt_cli_parse_int(state, "--timeout", arg, 1, 1000000);
		return 0;
	case KEY_STALL:
		o->stall_s = (unsigned int)sxt_cli_parse_int(state, "--stall", arg, 1, 1000000);
		return 0;
	case ARGP_KEY_END:
		check_all(o, state);
		return 0;
	default:
		return parse_use(key, arg, state);
	}
}

void sxt_bench_parse(int argc, char **argv, struct bench_options *out)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		NULL,
		"Drive a net plugin as NCCL would, with the data checked, and print nccl-tests' "
		"table: listen, connect and accept polled by a service thread, registered buffers "
		"of 8 steps, isend, irecv and test on a progress thread.\v"
		"Exit status: 0 all data right, 1 wrong data, 2 the run failed, 64 usage, 69 the "
		"plugin or its device is missing.",
		NULL,
		NULL,
		NULL,
	};

	*out = (struct bench_options){
		.spec = {.pattern = sxt_drv_pattern_find("all_reduce", NULL),
			 .type = sxt_drv_type_find("float"),
			 .op = SXT_DRV_SUM},
		.use = {.ports = 1, .comms = 1},
		.min_bytes = 8,
		.max_bytes = 16 << 20,
		.factor = 2,
		.iterations = 20,
		.warmups = 1,
		.checks = 1,
		.hosts = 1,
		.timeout_s = 600,
		.stall_s = 60,
	};
	argp_parse(&argp, argc, argv, 0, NULL, out);
	if (out->debug == NULL)
		out->debug = sxt_env_get("NCCL_DEBUG");
}
