/*
 * top.c - `sextant top`: options, and which of the views.
 */
#include "cli/top/top.h"

#include "cli/cli.h"

#include "core/config.h"
#include "core/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MAX_S 60.0
#define INTERVAL_MIN_S 0.1
#define ROWS_MAX       10 /* of connections and events where all kinds are printed */

enum key {
	KEY_ONCE = 0x100,
	KEY_JSON,
	KEY_DIR,
	KEY_SNAPSHOT,
	KEY_SINCE,
	KEY_WIDTH,
	KEY_WHOLE,
	KEY_LIVE,
};

struct top_args {
	const char *dir;
	const char *snapshot;
	const char *since;
	const char *sort;
	double interval_s;
	int width; /* -1: the terminal's */
	bool once;
	bool json;
	bool has_view;
	struct sxt_top_look look;
};

static const struct argp_option option_list[] = {
	{"interval", 'i', "SECONDS", 0, "Time between two looks, 0.1..60 (default 1)", 1},
	{"view", 'v', "VIEW", 0, "processes, ports, links, connections or events", 1},
	{"sort", 's', "COLUMN", 0, "Sort the view by this column's title", 1},
	{"reverse", 'r', NULL, 0, "The other way round", 1},
	{"filter", 'f', "TEXT", 0, "Only rows with this text in some column", 1},
	{"whole", KEY_WHOLE, NULL, 0, "Waits of the whole life, not of the interval", 1},
	{"live", KEY_LIVE, NULL, 0, "Leave out processes that are no more", 1},
	{"once", KEY_ONCE, NULL, 0, "Print text and end; the default where output is no terminal",
	 2},
	{"json", KEY_JSON, NULL, 0, "Print one document (schema sextant.top/1) and end", 2},
	{"width", KEY_WIDTH, "COLUMNS", 0, "Of printed lines, 0 is as it takes", 2},
	{"snapshot", KEY_SNAPSHOT, "FILE", 0, "Show a file made by `sextant snapshot`", 3},
	{"since", KEY_SINCE, "FILE", 0, "Rates since this earlier snapshot", 3},
	{"dir", KEY_DIR, "DIR", 0, "Look for segments there instead of " SXT_TELE_DIR, 3},
	{0},
};

static void parse_view(struct argp_state *state, struct top_args *args, const char *text)
{
	for (int kind = 0; kind < SXT_TOP_KINDS; kind++) {
		if (strncmp(sxt_top_kind_names[kind], text, strlen(text)) == 0 && *text != '\0') {
			args->look.kind = (enum sxt_top_kind)kind;
			args->has_view = true;
			return;
		}
	}
	argp_error(state,
		   "--view must be processes, ports, links, connections or events (got '%s')",
		   text);
}

static void parse_interval(struct argp_state *state, struct top_args *args, const char *text)
{
	char *end;

	args->interval_s = strtod(text, &end);
	if (end == text || *end != '\0' || !(args->interval_s >= INTERVAL_MIN_S) ||
	    !(args->interval_s <= INTERVAL_MAX_S))
		argp_error(state, "--interval must be 0.1..60 seconds (got '%s')", text);
}

static void finish(struct argp_state *state, struct top_args *args)
{
	struct sxt_top_look *look = &args->look;

	if (args->since != NULL && args->snapshot == NULL)
		argp_error(state, "--since goes with --snapshot");
	if (args->snapshot != NULL && args->dir != NULL)
		argp_error(state, "--snapshot and --dir exclude each other");
	if (args->sort != NULL && !sxt_top_sort_by(look, args->sort))
		argp_error(state, "%s have no column '%s'", sxt_top_kind_names[look->kind],
			   args->sort);
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct top_args *args = state->input;

	switch (key) {
	case 'i':
		parse_interval(state, args, arg);
		return 0;
	case 'v':
		parse_view(state, args, arg);
		return 0;
	case 's':
		args->sort = arg;
		return 0;
	case 'r':
		for (int kind = 0; kind < SXT_TOP_KINDS; kind++)
			args->look.reverse[kind] = true;
		return 0;
	case 'f':
		snprintf(args->look.filter, sizeof(args->look.filter), "%s", arg);
		return 0;
	case KEY_WHOLE:
		args->look.window = SXT_TOP_WHOLE;
		return 0;
	case KEY_LIVE:
		args->look.hides_gone = true;
		return 0;
	case KEY_ONCE:
		args->once = true;
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_WIDTH:
		args->width = sxt_cli_parse_int(state, "--width", arg, 0, 1000);
		return 0;
	case KEY_SNAPSHOT:
		args->snapshot = arg;
		return 0;
	case KEY_SINCE:
		args->since = arg;
		return 0;
	case KEY_DIR:
		args->dir = arg;
		return 0;
	case ARGP_KEY_END:
		finish(state, args);
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static int out_width(const struct top_args *args)
{
	struct winsize size;

	if (args->width >= 0)
		return args->width;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return 0;
}

static int finish_output(void)
{
	if (fflush(stdout) == 0)
		return SXT_EXIT_OK;
	fprintf(stderr, "sextant top: cannot write to standard output: %m\n");
	return SXT_EXIT_BROKEN;
}

static int fail(int rc)
{
	fprintf(stderr, "sextant top: %s\n", sxt_strerror(rc));
	return SXT_EXIT_BROKEN;
}

/* The scene has been stepped as often as there are moments to compare. */
static int show(struct sxt_top_scene *scene, struct top_args *args)
{
	bool blind = sxt_top_source_troubles(scene->source)->dir_rc != 0;
	int rc;

	if (args->json) {
		rc = sxt_top_print_json(scene);
		return rc == SXT_EXIT_OK && blind ? SXT_EXIT_MISSING : rc;
	}
	if (!args->once)
		return sxt_top_screen(scene, &args->look,
				      args->snapshot != NULL
					      ? 0
					      : (unsigned int)(args->interval_s * 1000));
	rc = sxt_top_print(scene, &args->look, args->has_view, out_width(args), ROWS_MAX);
	if (rc != 0)
		return fail(rc);
	rc = finish_output();
	return rc == SXT_EXIT_OK && blind ? SXT_EXIT_MISSING : rc;
}

static void wait_seconds(double seconds)
{
	struct timespec left = {.tv_sec = (time_t)seconds};

	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		continue;
}

static int run_live(struct top_args *args)
{
	const char *root = sxt_env_get("SEXTANT_SYSROOT");
	struct sxt_top_scene scene = {0};
	int rc = sxt_top_source_open(args->dir, root != NULL && root[0] != '\0' ? root : "/",
				     &scene.source);

	if (rc != 0)
		return fail(rc);
	if (gethostname(scene.host, sizeof(scene.host) - 1) != 0)
		scene.host[0] = '\0';
	rc = sxt_top_scene_step(&scene);
	if (rc == 0 && (args->once || args->json) && scene.after.samples_cnt > 0) {
		wait_seconds(args->interval_s);
		rc = sxt_top_scene_step(&scene);
	}
	rc = rc == 0 ? show(&scene, args) : fail(rc);
	sxt_top_scene_fini(&scene);
	sxt_top_source_close(scene.source);
	return rc;
}

static int read_snapshot(const char *file, struct sxt_snapshot *out)
{
	char why[256];
	int rc = sxt_snapshot_read(file, out, why, sizeof(why));

	if (rc == 0)
		return SXT_EXIT_OK;
	fprintf(stderr, "sextant top: %s: %s\n", file, why);
	return rc == -ENOENT ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
}

static int run_snapshots(struct top_args *args)
{
	struct sxt_snapshot before = {0};
	struct sxt_snapshot after = {0};
	struct sxt_top_source *old = NULL;
	struct sxt_top_scene scene = {0};
	int rc = read_snapshot(args->snapshot, &after);

	if (rc == 0 && args->since != NULL)
		rc = read_snapshot(args->since, &before);
	if (rc != 0)
		goto end;
	snprintf(scene.host, sizeof(scene.host), "%s", after.host);
	rc = args->since != NULL ? sxt_top_source_load(&before, &old) : 0;
	if (rc == 0 && old != NULL)
		rc = sxt_top_source_shot(old, &scene.after);
	if (rc == 0)
		rc = sxt_top_source_load(&after, &scene.source);
	if (rc == 0)
		rc = sxt_top_scene_step(&scene);
	rc = rc == 0 ? show(&scene, args) : fail(rc);
end:
	sxt_top_scene_fini(&scene);
	sxt_top_source_close(scene.source);
	sxt_top_source_close(old);
	sxt_snapshot_fini(&before);
	sxt_snapshot_fini(&after);
	return rc;
}

int sxt_cmd_top(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_arg,
		NULL,
		"Show all processes of this user that use Sextant on this host: GB/s, what "
		"messages wait for, ports, links, connections, errors.\v"
		"Changes nothing and costs the job nothing. Processes that died are shown until "
		"their segment is reaped. In the live view ? tells the keys.",
		NULL,
		NULL,
		NULL,
	};
	struct top_args args = {.interval_s = 1, .width = -1};

	sxt_top_look_init(&args.look);
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		args.once = true;
	return args.snapshot != NULL ? run_snapshots(&args) : run_live(&args);
}
