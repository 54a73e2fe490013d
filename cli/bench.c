/*
 * bench.c - `sextant bench`: the life of one rank, from the plugin's init to its finalize.
 */
#include "cli/bench.h"
#include "cli/cli.h"

#include "core/config.h"
#include "core/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After the run's own time-out, before the process is ended from a signal handler. */
#define LAST_RESORT_S 30
/* Wait that long for other ranks' words about a failure that rank 0 has seen as well. */
#define AFTERMATH_NS (300 * SXT_NS_PER_MS)

struct bench_rank {
	const struct bench_options *options;
	const struct sxt_drv_place *place;
	struct sxt_drv_boot boot;
	struct sxt_drv_session session;
	struct bench_rank_info info;
	struct bench_rank_info *infos; /* of all ranks */
	struct bench_report report;
	uint64_t wrong;   /* elements so far, over all ranks */
	bool reporting;   /* rank 0, once the head is out */
	bool progressing; /* a progress line stands on the terminal */
	uint64_t shown_ns;
};

/* What a rank knows about one size. */
struct outcome {
	uint64_t elapsed_ns;
	uint64_t wrong;
	uint64_t first_wrong;
};

static void clear_progress(struct bench_rank *rank)
{
	if (rank->progressing)
		fputs("\r\033[K", stderr);
	rank->progressing = false;
}

static void show_progress(void *arg)
{
	struct bench_rank *rank = arg;
	struct sxt_drv_bench *bench = rank->session.comms[0].bench;
	uint64_t now_ns = sxt_sys_host.now_ns();

	if (rank->place->rank != 0 || isatty(STDERR_FILENO) == 0 ||
	    now_ns - rank->shown_ns < 2 * SXT_NS_PER_SEC)
		return;
	rank->progressing = true;
	fprintf(stderr, "\r%zu bytes: iteration %d of %d", bench->bytes,
		atomic_load_explicit(&bench->iteration, memory_order_relaxed) + 1,
		bench->iterations);
}

static int meet(struct bench_rank *rank)
{
	const struct sxt_drv_place *place = rank->place;
	char why[512];

	if (place->forked) {
		memcpy(rank->boot.fds, place->fds, sizeof(rank->boot.fds));
	} else if (sxt_drv_boot_connect(&rank->boot, place->addr, place->port,
					rank->options->stall_s, why, sizeof(why)) != 0) {
		return sxt_drv_run_fail(&rank->session.run, SXT_EXIT_BROKEN, "%s", why);
	}
	return 0;
}

static uint64_t pattern_number(const struct sxt_drv_pattern *pattern)
{
	uint64_t number = 0;

	while (sxt_drv_patterns[number] != pattern)
		number++;
	return number;
}

/* FNV-1a by words over what the ranks must agree on, or they would wait for each other's data for
 * ever. */
static uint32_t hash_options(const struct bench_options *o)
{
	const uint64_t fields[] = {
		pattern_number(o->spec.pattern),
		(uint64_t)(o->spec.proto - sxt_drv_protos),
		(uint64_t)(o->spec.type - sxt_drv_types),
		(uint64_t)o->spec.op,
		(uint64_t)o->spec.channels,
		(uint64_t)o->spec.group,
		(uint64_t)o->spec.depth,
		o->min_bytes,
		o->max_bytes,
		o->step_bytes,
		o->factor,
		(uint64_t)o->iterations,
		(uint64_t)o->warmups,
		(uint64_t)o->checks,
		(uint64_t)o->use.comms,
		(uint64_t)o->use.oob,
		(uint64_t)(o->reconnect != NULL),
	};
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < SXT_ARRAY_LEN(fields); i++) {
		hash = (hash ^ (uint32_t)fields[i]) * 16777619u;
		hash = (hash ^ (uint32_t)(fields[i] >> 32)) * 16777619u;
	}
	return hash;
}

/* Return: 0, or -EIO when a rank was started otherwise than this one. */
static int compare_ranks(struct bench_rank *rank)
{
	for (int i = 0; i < rank->place->ranks; i++) {
		const struct bench_rank_info *other = &rank->infos[i];

		if (other->abi != rank->info.abi)
			return sxt_drv_run_fail(&rank->session.run, SXT_EXIT_USAGE,
						"rank %d uses net v%d but this one v%d; give --abi",
						i, other->abi, rank->info.abi);
		if (other->options_hash != rank->info.options_hash)
			return sxt_drv_run_fail(&rank->session.run, SXT_EXIT_USAGE,
						"rank %d was started with other sizes, counts or "
						"patterns than this one",
						i);
	}
	return 0;
}

static int introduce(struct bench_rank *rank)
{
	const struct sxt_drv_place *place = rank->place;
	char host[64] = "?";

	gethostname(host, sizeof(host) - 1);
	if (place->forked && rank->options->hosts > 1)
		snprintf(rank->info.host, sizeof(rank->info.host), "%s/%d", host, place->host);
	else
		snprintf(rank->info.host, sizeof(rank->info.host), "%s", host);
	rank->info.pid = (int32_t)getpid();
	rank->info.abi = rank->session.run.net->abi;
	rank->info.max_recvs = rank->session.props.max_recvs;
	rank->info.options_hash = hash_options(rank->options);
	rank->info.speed_mbps = rank->session.props.speed_mbps;
	snprintf(rank->info.device, sizeof(rank->info.device), "%s", rank->session.props.name);
	sxt_drv_session_doing(&rank->session, "meeting the other ranks");
	rank->infos = calloc((size_t)place->ranks, sizeof(*rank->infos));
	if (rank->infos == NULL)
		return sxt_drv_run_fail(&rank->session.run, SXT_EXIT_BROKEN, "out of memory");
	if (sxt_drv_run_gather(&rank->session.run, &rank->info, sizeof(rank->info), rank->infos) !=
	    0)
		return -EIO;
	return compare_ranks(rank);
}

/* Where the user says nothing: as many channels per connection as every device can group. */
static struct sxt_drv_bench_spec complete_spec(const struct bench_rank *rank)
{
	struct sxt_drv_bench_spec spec = rank->options->spec;

	if (spec.group > 0)
		return spec;
	spec.group = 1;
	if (!spec.pattern->shares_comms)
		return spec;
	spec.group = spec.channels < SXT_DRV_LANES_MAX ? spec.channels : SXT_DRV_LANES_MAX;
	for (int i = 0; i < rank->place->ranks; i++) {
		if (rank->infos[i].max_recvs < spec.group)
			spec.group = rank->infos[i].max_recvs;
	}
	spec.group = spec.group > 0 ? spec.group : 1;
	return spec;
}

static int work(struct bench_rank *rank, size_t bytes, int iterations)
{
	rank->shown_ns = sxt_sys_host.now_ns();
	return sxt_drv_session_work(&rank->session, bytes, iterations, show_progress, rank);
}

/* Data that no other communicator and no other iteration has. */
static uint32_t data_number(const struct bench_rank *rank, uint32_t iteration, int comm)
{
	return iteration * (uint32_t)rank->options->use.comms + (uint32_t)comm;
}

static void fill(struct bench_rank *rank, size_t bytes, uint32_t iteration)
{
	for (int i = 0; i < rank->options->use.comms; i++)
		sxt_drv_bench_fill(rank->session.comms[i].bench, bytes,
				   data_number(rank, iteration, i));
}

/* One operation in every communicator, with data of its own. */
static int check_once(struct bench_rank *rank, size_t bytes, uint32_t iteration,
		      struct outcome *outcome)
{
	fill(rank, bytes, iteration);
	if (work(rank, bytes, 1) != 0)
		return -EIO;
	for (int i = 0; i < rank->options->use.comms; i++) {
		size_t first = 0;
		size_t wrong = sxt_drv_bench_check(rank->session.comms[i].bench, bytes,
						   data_number(rank, iteration, i), &first);

		if (wrong > 0 && outcome->wrong == 0)
			outcome->first_wrong = first;
		outcome->wrong += wrong;
	}
	return 0;
}

static int check_size(struct bench_rank *rank, size_t bytes, uint32_t *pattern,
		      struct outcome *outcome)
{
	int rc = 0;

	sxt_drv_session_doing(&rank->session, "running checked iterations");
	for (int i = 0; i < rank->options->checks && rc == 0; i++)
		rc = check_once(rank, bytes, ++*pattern, outcome);
	return rc;
}

static void sum_up(const struct bench_rank *rank, const struct outcome *outcomes,
		   struct bench_row *row)
{
	for (int i = 0; i < rank->place->ranks; i++) {
		double time_us =
			(double)outcomes[i].elapsed_ns / 1000.0 / rank->options->iterations;

		row->wrong += outcomes[i].wrong;
		row->time_us = time_us > row->time_us ? time_us : row->time_us;
		if (rank->place->rank == 0 && outcomes[i].wrong > 0)
			fprintf(stderr,
				"sextant bench: %zu bytes: rank %d got %llu wrong elements, the "
				"first is number %llu\n",
				row->bytes, i, (unsigned long long)outcomes[i].wrong,
				(unsigned long long)outcomes[i].first_wrong);
	}
}

static int measure_size(struct bench_rank *rank, size_t bytes, uint32_t *pattern,
			struct outcome *outcomes)
{
	struct outcome own = {0};
	struct bench_row row = {.bytes = bytes};

	fill(rank, bytes, ++*pattern);
	sxt_drv_session_doing(&rank->session, "warming up");
	if (work(rank, bytes, rank->options->warmups) != 0 ||
	    sxt_drv_run_barrier(&rank->session.run) != 0)
		return -EIO;
	sxt_drv_session_doing(&rank->session, "running timed iterations");
	if (work(rank, bytes, rank->options->iterations) != 0)
		return -EIO;
	for (int i = 0; i < rank->options->use.comms; i++) {
		uint64_t elapsed_ns = rank->session.comms[i].bench->elapsed_ns;

		own.elapsed_ns = elapsed_ns > own.elapsed_ns ? elapsed_ns : own.elapsed_ns;
	}
	if (check_size(rank, bytes, pattern, &own) != 0)
		return -EIO;
	sxt_drv_session_doing(&rank->session, "gathering results");
	if (sxt_drv_run_gather(&rank->session.run, &own, sizeof(own), outcomes) != 0)
		return -EIO;
	clear_progress(rank);
	sum_up(rank, outcomes, &row);
	rank->wrong += row.wrong;
	if (rank->place->rank == 0)
		sxt_bench_report_row(&rank->report, &row);
	return 0;
}

/* Return: false when @bytes was the last size. */
static bool next_size(const struct bench_options *o, size_t *bytes)
{
	size_t next = o->step_bytes > 0 ? *bytes + o->step_bytes : *bytes * o->factor;

	if (*bytes == 0 && o->step_bytes == 0)
		next = 8;
	if (next > o->max_bytes)
		return false;
	*bytes = next;
	return true;
}

/* The command is over before anybody connects. */
static int reconnect(struct bench_rank *rank)
{
	const char *command = rank->options->reconnect;
	int status;

	if (sxt_drv_session_disconnect(&rank->session) != 0)
		return -EIO;
	if (rank->place->rank == 0 && command[0] != '\0') {
		sxt_drv_session_doing(&rank->session, "running the command of --reconnect");
		status = system(command);
		if (status != 0)
			return sxt_drv_run_fail(&rank->session.run, SXT_EXIT_BROKEN,
						"--reconnect: `%s` failed (wait status 0x%x)",
						command, status);
	}
	if (sxt_drv_run_barrier(&rank->session.run) != 0)
		return -EIO;
	return sxt_drv_session_reconnect(&rank->session);
}

static int measure_all(struct bench_rank *rank)
{
	const struct bench_options *o = rank->options;
	struct outcome *outcomes = calloc((size_t)rank->place->ranks, sizeof(*outcomes));
	size_t bytes = o->min_bytes;
	uint32_t pattern = 0;
	bool more;
	int rc;

	if (outcomes == NULL)
		return sxt_drv_run_fail(&rank->session.run, SXT_EXIT_BROKEN, "out of memory");
	if (rank->place->rank == 0) {
		sxt_bench_report_begin(&rank->report, o, rank->infos, rank->place->ranks,
				       rank->session.run.net);
		rank->reporting = true;
	}
	do {
		/* Whole elements in every part; nccl-tests rounds parts to 16 bytes besides. */
		size_t parts = (size_t)rank->place->ranks;
		size_t unit = o->spec.type->bytes;
		size_t whole;

		if (o->spec.pattern->parts_in || o->spec.pattern->parts_out)
			unit *= parts;
		whole = bytes / unit * unit;
		rc = measure_size(rank, whole, &pattern, outcomes);
		more = rc == 0 && next_size(o, &bytes);
		if (more && o->reconnect != NULL)
			rc = reconnect(rank);
	} while (rc == 0 && more);
	clear_progress(rank);
	free(outcomes);
	return rc;
}

static int live(struct bench_rank *rank)
{
	struct sxt_drv_bench_spec spec;
	struct sxt_drv_use use = rank->options->use;

	use.local_rank = rank->place->local_rank;
	if (meet(rank) != 0 || sxt_drv_session_open(&rank->session, &use) != 0 ||
	    introduce(rank) != 0)
		return -EIO;
	spec = complete_spec(rank);
	if (sxt_drv_session_connect(&rank->session, &spec) != 0 || measure_all(rank) != 0 ||
	    sxt_drv_session_close(&rank->session) != 0)
		return -EIO;
	/* Nobody leaves before all are through: a closed bootstrap means a dead rank. */
	sxt_drv_session_doing(&rank->session, "waiting for all ranks to close");
	return sxt_drv_run_barrier(&rank->session.run);
}

/* Other ranks may have seen the same failure from nearer by; what they say goes out as well. */
static void tell_aftermath(struct bench_rank *rank, const char *said)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + AFTERMATH_NS;
	struct sxt_drv_abort gone;

	while (sxt_sys_host.now_ns() < end_ns) {
		if (sxt_drv_boot_wait(&rank->boot, -1, 50, &gone) != -ECONNABORTED)
			continue;
		if (!gone.silent && strcmp(gone.text, said) != 0)
			fprintf(stderr, "sextant bench: rank %d %s\n", gone.rank, gone.text);
		sxt_drv_boot_drop(&rank->boot, gone.rank);
	}
}

static void tell_failure(struct bench_rank *rank)
{
	struct sxt_drv_run *run = &rank->session.run;
	struct sxt_drv_abort why = {.rank = run->rank, .exit_status = run->exit_status};
	bool told = false;

	clear_progress(rank);
	if (run->by_peer)
		why = run->gone;
	else
		snprintf(why.text, sizeof(why.text), "failed: %.1000s", run->error);
	/* Rank 0 passes another rank's word on as it came. */
	if (!run->by_peer || run->rank == 0)
		told = sxt_drv_boot_abort(&rank->boot, &why);
	/* Children of one parent share a screen: rank 0 speaks for those that could tell it. */
	if (run->rank != 0 && rank->place->forked && (told || run->by_peer))
		return;
	if (run->by_peer)
		fprintf(stderr, "sextant bench: rank %d ends because rank %d %s\n", run->rank,
			why.rank, why.text);
	else
		fprintf(stderr, "sextant bench: rank %d %s\n", run->rank, why.text);
	if (run->rank == 0)
		tell_aftermath(rank, why.text);
}

static struct bench_rank *create_rank(const struct sxt_drv_place *place,
				      const struct bench_options *options)
{
	struct bench_rank *rank = calloc(1, sizeof(*rank));

	if (rank == NULL)
		return NULL;
	rank->options = options;
	rank->place = place;
	sxt_drv_boot_init(&rank->boot, place->rank, place->ranks);
	sxt_drv_run_init(&rank->session.run, &rank->boot, options->timeout_s, options->stall_s);
	return rank;
}

static void destroy_rank(struct bench_rank *rank)
{
	sxt_bench_report_fini(&rank->report);
	sxt_drv_session_fini(&rank->session);
	sxt_drv_boot_close(&rank->boot);
	free(rank->infos);
	free(rank);
}

static int rank_main(const struct sxt_drv_place *place, void *arg)
{
	const struct bench_options *options = arg;
	const char *level = options->debug != NULL ? options->debug : "WARN";
	struct bench_rank *rank = create_rank(place, options);
	const char *error = NULL;
	int status = SXT_EXIT_OK;
	int rc;

	if (rank == NULL)
		return SXT_EXIT_BROKEN;
	sxt_drv_session_watch(options->timeout_s + LAST_RESORT_S);
	if (sxt_drv_log_set(level, place->rank) != 0)
		fprintf(stderr, "sextant bench: NCCL_DEBUG=%s is no level of NCCL's; using WARN\n",
			level);
	if (live(rank) != 0) {
		tell_failure(rank);
		error = rank->session.run.error;
		status = rank->session.run.exit_status;
		/* The first failure is the one that counts. */
		sxt_ignore(sxt_drv_session_close(&rank->session));
	}
	rc = rank->wrong > 0 ? SXT_EXIT_FOUND : SXT_EXIT_OK;
	if (error != NULL && place->rank == 0 && options->json && !rank->reporting) {
		/* Whoever reads the document learns of a run that failed before its first row. */
		sxt_bench_report_begin(&rank->report, options, NULL, place->ranks,
				       rank->session.run.net);
		rank->reporting = true;
	}
	rank->report.oob_rounds = sxt_drv_session_oob_rounds(&rank->session);
	if (rank->reporting)
		rc = sxt_bench_report_end(&rank->report, error);
	destroy_rank(rank);
	return status != SXT_EXIT_OK ? status : rc;
}

int sxt_cmd_bench(int argc, char **argv)
{
	struct bench_options options;
	struct sxt_drv_place place;
	char why[512];

	sxt_bench_parse(argc, argv, &options);
	if (options.ranks > 0) {
		const struct sxt_drv_fork spec = {
			.ranks = options.ranks,
			.hosts = options.hosts,
			.timeout_s = options.timeout_s + LAST_RESORT_S,
			.progname = "sextant bench",
		};

		return sxt_drv_launch_fork(&spec, rank_main, &options);
	}
	if (sxt_drv_launch_env(&place, why, sizeof(why)) != 0) {
		fprintf(stderr, "sextant bench: %s\n", why);
		return SXT_EXIT_USAGE;
	}
	if (place.ranks < 2) {
		fprintf(stderr, "sextant bench: it takes 2 ranks at least (got %d)\n", place.ranks);
		return SXT_EXIT_USAGE;
	}
	return rank_main(&place, &options);
}
