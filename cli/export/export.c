/*
 * export.c - `sextant export`: the segments of this host as metrics for Prometheus.
 */
#include "cli/export/export.h"

#include "cli/cli.h"

#include "core/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LISTEN_DEFAULT   "127.0.0.1:9847"
#define LIMIT_DEFAULT    256
#define INTERVAL_DEFAULT 15

enum key {
	KEY_LISTEN = 0x100,
	KEY_TEXTFILE,
	KEY_ONCE,
	KEY_INTERVAL,
	KEY_DIR,
	KEY_LIMIT
};

struct options {
	const char *listen;   /* NULL: not given */
	const char *textfile; /* NULL: not given */
	bool once;
	int interval_sec;
	struct sxt_export e;
};

static void add_dir(struct sxt_export *e, const char *dir)
{
	const char **dirs = realloc(e->dirs, (e->dirs_cnt + 1) * sizeof(*dirs));

	if (dirs == NULL) {
		fputs("sextant export: out of memory\n", stderr);
		exit(SXT_EXIT_BROKEN);
	}
	dirs[e->dirs_cnt++] = dir;
	e->dirs = dirs;
}

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_LISTEN:
		o->listen = arg;
		return 0;
	case KEY_TEXTFILE:
		o->textfile = arg;
		return 0;
	case KEY_ONCE:
		o->once = true;
		return 0;
	case KEY_INTERVAL:
		o->interval_sec = sxt_cli_parse_int(state, "--interval", arg, 1, 3600);
		return 0;
	case KEY_DIR:
		add_dir(&o->e, arg);
		return 0;
	case KEY_LIMIT:
		o->e.limit = (unsigned int)sxt_cli_parse_int(state, "--limit", arg, 0, 100000);
		return 0;
	case ARGP_KEY_END:
		if (o->listen != NULL && (o->textfile != NULL || o->once))
			argp_error(state, "--listen serves HTTP; --textfile and --once do not");
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

char *sxt_export_page(struct sxt_export *e, bool open_metrics, size_t *len_out)
{
	struct sxt_page page = {.open_metrics = open_metrics};

	sxt_export_take(e);
	sxt_export_conns(e, &page);
	sxt_export_ports(e, &page);
	sxt_page_end(&page);
	if (page.out_of_memory) {
		free(page.text);
		return NULL;
	}
	*len_out = page.len;
	return page.text;
}

static bool write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t bytes = write(fd, text, len);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return false;
		text += bytes;
		len -= (size_t)bytes;
	}
	return true;
}

/* A reader of the file sees the old page or the new one, whole. */
static int replace_file(const char *path, const char *text, size_t len)
{
	char temporary[PATH_MAX];
	int rc = -ENAMETOOLONG;
	int fd;

	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, len) && fchmod(fd, 0644) == 0 ? 0 : -errno;
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(temporary, path) != 0)
		rc = -errno;
	if (rc != 0)
		unlink(temporary);
	return rc;
}

static int write_page(struct options *o)
{
	size_t len;
	char *page = sxt_export_page(&o->e, false, &len);
	const char *path = o->textfile != NULL ? o->textfile : "standard output";
	int rc = -ENOMEM;

	if (page != NULL && o->textfile != NULL)
		rc = replace_file(o->textfile, page, len);
	else if (page != NULL)
		rc = write_all(STDOUT_FILENO, page, len) ? 0 : -errno;
	free(page);
	if (rc == 0)
		return SXT_EXIT_OK;
	fprintf(stderr, "sextant export: cannot write %s: %s\n", path, sxt_strerror(rc));
	return SXT_EXIT_BROKEN;
}

/* What cannot be written now may be written next time. */
static int write_pages(struct options *o)
{
	const struct timespec interval = {.tv_sec = o->interval_sec};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	do
		sxt_ignore(write_page(o));
	while (sigtimedwait(&signals, NULL, &interval) < 0);
	return SXT_EXIT_OK;
}

static void init(struct sxt_export *e, const char *root)
{
	e->root = root;
	sxt_list_init(&e->processes);
	sxt_list_init(&e->groups);
	sxt_page_label(e->other.labels, sizeof(e->other.labels), "process", "others");
	sxt_page_label(e->other.labels, sizeof(e->other.labels), "job_id", "");
	sxt_page_label(e->other.labels, sizeof(e->other.labels), "rank", "");
	if (e->dirs_cnt == 0)
		add_dir(e, SXT_TELE_DIR);
}

static int run(struct options *o)
{
	struct sxt_config config;
	int status;

	if (sxt_config_load(&config) != 0)
		return SXT_EXIT_USAGE;
	init(&o->e, config.sysroot);
	if (o->once)
		status = write_page(o);
	else if (o->textfile != NULL)
		status = write_pages(o);
	else
		status = sxt_export_serve(&o->e, o->listen != NULL ? o->listen : LISTEN_DEFAULT);
	sxt_export_fini(&o->e);
	sxt_config_fini(&config);
	return status;
}

int sxt_cmd_export(int argc, char **argv)
{
	static const struct argp_option list[] = {
		{"listen", KEY_LISTEN, "ADDR:PORT", 0,
		 "Serve HTTP there (" LISTEN_DEFAULT "); port 0 takes a free one, told on standard "
		 "output",
		 0},
		{"textfile", KEY_TEXTFILE, "FILE", 0,
		 "Write FILE instead, for node_exporter: NAME.prom in its folder", 0},
		{"interval", KEY_INTERVAL, "SECONDS", 0, "How often FILE is written (15)", 0},
		{"once", KEY_ONCE, NULL, 0, "Write one page, to FILE or standard output, and end",
		 0},
		{"dir", KEY_DIR, "PATTERN", 0,
		 "Folders of segments (" SXT_TELE_DIR "); may be given again", 0},
		{"limit", KEY_LIMIT, "N", 0,
		 "Combinations of process, NIC, peer and direction with series of their own (256); "
		 "those beyond are told together as peer \"others\"",
		 0},
		{0},
	};
	static const struct argp argp = {
		list,
		parse_arg,
		NULL,
		"Export the telemetry of all processes that use Sextant, and the counters of the "
		"ports, to Prometheus: docs/export.md.",
		NULL,
		NULL,
		NULL,
	};
	struct options o = {.interval_sec = INTERVAL_DEFAULT, .e = {.limit = LIMIT_DEFAULT}};
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	status = run(&o);
	free(o.e.dirs);
	return status;
}
