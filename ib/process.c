/*
 * process.c - the process's transport: one for all communicators, made by the first and freed by
 * the last (slow path).
 */
#include "ib/process.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/attempt.h"
#include "ib/nic.h"
#include "ib/settings.h"
#include "ib/tell.h"
#include "ib/watcher.h"
#include "telemetry/clock.h"
#include "telemetry/write.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	struct sxt_ib *ib;
	uint32_t refs;
} singleton = {.lock = PTHREAD_MUTEX_INITIALIZER};

int sxt_ib_create(const struct sxt_ib_parts *parts, struct sxt_ib **out)
{
	struct sxt_ib *ib = calloc(1, sizeof(*ib));
	int rc;

	if (ib == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "making the transport: %s", sxt_strerror(-ENOMEM));
		return -ENOMEM;
	}
	ib->sys = parts->sys;
	ib->config = parts->config;
	ib->verbs = parts->verbs;
	ib->merges = parts->merges;
	ib->tele = parts->tele;
	ib->pid = getpid();
	sxt_list_init(&ib->devices);
	if (gethostname(ib->host, sizeof(ib->host) - 1) != 0)
		memcpy(ib->host, "?", 2);
	rc = sxt_sys_random(ib->sys, ib->process, sizeof(ib->process));
	if (rc == 0)
		rc = sxt_watcher_create(ib, parts->is_manual, &ib->watcher);
	if (rc != 0)
		SXT_LOG(SXT_LOG_ERROR, "making the transport: %s", sxt_strerror(rc));
	else
		rc = sxt_ports_open(ib);
	if (rc == 0)
		rc = sxt_nics_open(ib);
	if (rc != 0) {
		sxt_ib_destroy(ib);
		return rc;
	}
	sxt_tell_ports(ib);
	*out = ib;
	return 0;
}

void sxt_ib_destroy(struct sxt_ib *ib)
{
	if (ib == NULL)
		return;
	if (ib->watcher != NULL)
		sxt_attempts_drop_all(ib);
	sxt_watcher_destroy(ib->watcher);
	sxt_nics_close(ib);
	sxt_ports_close(ib);
	free(ib);
}

/* What the singleton owns besides the transport; the merges outlive it. */
struct own_parts {
	struct sxt_config config;
	struct sxt_verbs verbs;
	struct sxt_merges merges;
	struct sxt_tele *tele;
};

static struct own_parts own;

/* NCCL's log and the segment have the same warnings. */
static void tell_line(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	sxt_tell_line(own.tele, level, text);
}

/* Whatever keeps it from being made was told; the job goes on without. */
static void open_telemetry(void)
{
	const struct sxt_tele_options options = {
		.dir = SXT_TELE_DIR,
		.conns_cap = own.config.telemetry_conns,
		.keep_sec = own.config.telemetry_keep_s,
		.stall_sec = own.config.stall_s,
		.release = SXT_VERSION,
	};

	own.tele = NULL;
	if (own.config.telemetry == 0 || sxt_tele_create(&options, &own.tele) != 0)
		return;
	sxt_log_set_tap(tell_line);
}

static int load_own(void)
{
	/* Before the settings are loaded: what is wrong with them belongs into the file as well. */
	const char *log_file = sxt_env_get("SEXTANT_LOG_FILE");
	int rc = sxt_log_set_file(log_file);

	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN, "SEXTANT_LOG_FILE=%s cannot be opened: %s; continuing",
			log_file, sxt_strerror(rc));
	rc = sxt_config_load(&own.config);
	if (rc != 0)
		return rc;
	if (own.config.ib_disable != 0) {
		SXT_LOG(SXT_LOG_INFO, "NCCL_IB_DISABLE=1: Sextant stays away");
		rc = -ENODEV;
	}
	if (rc == 0) {
		sxt_settings_tell(&own.config);
		rc = sxt_verbs_open(&own.config, &own.verbs);
	}
	if (rc != 0)
		sxt_config_fini(&own.config);
	else
		open_telemetry();
	return rc;
}

static void unload_own(void)
{
	sxt_log_set_tap(NULL);
	sxt_tele_destroy(own.tele);
	own.tele = NULL;
	sxt_verbs_close(&own.verbs);
	sxt_config_fini(&own.config);
}

static int make_singleton(void)
{
	struct sxt_ib_parts parts = {
		.sys = &sxt_sys_host,
		.config = &own.config,
		.verbs = &own.verbs,
		.merges = &own.merges,
	};
	int rc = load_own();

	if (rc != 0)
		return rc;
	parts.tele = own.tele;
	rc = sxt_ib_create(&parts, &singleton.ib);
	if (rc != 0)
		unload_own();
	return rc;
}

int sxt_ib_get(struct sxt_ib **out)
{
	int rc = 0;

	pthread_mutex_lock(&singleton.lock);
	/*
	 * Descriptors, mappings and threads of the parent are not a child's: it starts anew, and
	 * what it inherited is left alone, since giving it back would touch the parent's objects.
	 */
	if (singleton.ib != NULL && singleton.ib->pid != getpid()) {
		singleton.ib = NULL;
		singleton.refs = 0;
	}
	if (singleton.ib == NULL)
		rc = make_singleton();
	if (rc == 0) {
		singleton.refs++;
		*out = singleton.ib;
	}
	pthread_mutex_unlock(&singleton.lock);
	return rc;
}

enum sxt_measuring sxt_ib_measuring(const struct sxt_ib *ib)
{
	if (ib->tele == NULL)
		return SXT_MEASURE_NOT;
	return sxt_tele_clock_kind == SXT_TELE_CLOCK_MONOTONIC ? SXT_MEASURE_BY_CLOCK
							       : SXT_MEASURE_BY_COUNTER;
}

struct sxt_tele *sxt_ib_tele(const struct sxt_ib *ib)
{
	return ib->tele;
}

void sxt_ib_note_abi(struct sxt_ib *ib, int abi)
{
	sxt_tele_note_abi(ib->tele, abi);
	/* Relaxed: it stands for nothing else. */
	atomic_store_explicit(&ib->abi, abi, memory_order_relaxed);
}

void sxt_ib_note_tuner(struct sxt_ib *ib, sxt_tuner_fn tuner)
{
	/* Relaxed: it stands for nothing else. */
	atomic_store_explicit(&ib->tuner, tuner, memory_order_relaxed);
}

void sxt_ib_put(struct sxt_ib *ib)
{
	if (ib == NULL)
		return;
	pthread_mutex_lock(&singleton.lock);
	if (ib == singleton.ib && ib->pid == getpid() && --singleton.refs == 0) {
		sxt_ib_destroy(ib);
		singleton.ib = NULL;
		unload_own();
	}
	pthread_mutex_unlock(&singleton.lock);
}

void sxt_ib_stop(struct sxt_ib *ib)
{
	if (ib->pid != getpid())
		return;
	sxt_watcher_stop(ib->watcher);
	sxt_tele_retire(ib->tele);
}
