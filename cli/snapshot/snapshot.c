/*
 * snapshot.c - `sextant snapshot`: all segments of this host and the counters of its ports, in one
 * file.
 */
#include "cli/snapshot/snapshot.h"

#include "cli/cli.h"

#include "core/config.h"
#include "core/status.h"
#include "core/sys.h"
#include "telemetry/segment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEY_DIR 0x100

struct snapshot_args {
	const char *dir;
	const char *file;
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct snapshot_args *args = state->input;

	switch (key) {
	case KEY_DIR:
		args->dir = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (args->file != NULL)
			argp_error(state, "takes one file, got '%s' too", arg);
		args->file = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* sextant-snapshot-HOST-YYYYMMDD-HHMMSS.tar.gz, in the present folder. */
static void make_name(const struct sxt_snapshot *snapshot, char *out, size_t bytes)
{
	time_t taken = (time_t)(snapshot->taken_ns / SXT_NS_PER_SEC);
	char when[32] = "";
	struct tm parts;

	if (localtime_r(&taken, &parts) != NULL)
		sxt_ignore((long)strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &parts));
	snprintf(out, bytes, "sextant-snapshot-%s-%s.tar.gz",
		 snapshot->host[0] != '\0' ? snapshot->host : "host", when);
}

static int save(const struct sxt_snapshot *snapshot, const char *file)
{
	FILE *told = strcmp(file, "-") == 0 ? stderr : stdout;
	char why[256] = "";
	int rc = sxt_snapshot_write(snapshot, file, why, sizeof(why));

	if (rc != 0) {
		fprintf(stderr, "sextant snapshot: %s: %s%s\n", file, why,
			rc == -EEXIST ? "; name another file" : "");
		return SXT_EXIT_BROKEN;
	}
	fprintf(told, "%s: %zu segment%s, %zu counters\n", file, snapshot->segments_cnt,
		snapshot->segments_cnt == 1 ? "" : "s", snapshot->counters_cnt);
	for (size_t i = 0; i < snapshot->misses_cnt; i++)
		fprintf(told, "  not in it: %s: %s\n", snapshot->misses[i].file,
			sxt_strerror(snapshot->misses[i].rc));
	if (snapshot->segments_cnt > 0)
		return SXT_EXIT_OK;
	fprintf(told, "  no segment could be read; `sextant top` tells what may be the reason\n");
	return SXT_EXIT_FOUND;
}

int sxt_cmd_snapshot(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"dir", KEY_DIR, "DIR", 0, "Look for segments there instead of " SXT_TELE_DIR, 0},
		{0},
	};
	static const struct argp argp = {
		options,
		parse_arg,
		"[FILE]",
		"Save the telemetry of all Sextant processes of this user on this host, and the "
		"counters of its RDMA ports, in one file, for `sextant top --snapshot` and bug "
		"reports.\v"
		"FILE may be - for standard output; without it a name is made of host and time. "
		"It holds names of hosts, commands and jobs, addresses, and no data that was sent.",
		NULL,
		NULL,
		NULL,
	};
	const char *root = sxt_env_get("SEXTANT_SYSROOT");
	struct snapshot_args args = {.dir = SXT_TELE_DIR};
	struct sxt_snapshot snapshot;
	char name[256];
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	rc = sxt_snapshot_take(args.dir, root != NULL && root[0] != '\0' ? root : "/", &snapshot);
	if (rc != 0) {
		fprintf(stderr, "sextant snapshot: %s: %s\n", args.dir, sxt_strerror(rc));
		return rc == -ENOMEM ? SXT_EXIT_BROKEN : SXT_EXIT_MISSING;
	}
	make_name(&snapshot, name, sizeof(name));
	rc = save(&snapshot, args.file != NULL ? args.file : name);
	sxt_snapshot_fini(&snapshot);
	return rc;
}
