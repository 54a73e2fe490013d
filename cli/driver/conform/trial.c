/*
 * trial.c - the child process of one check: verdict, calls that must succeed, waiting, and the
 * plugin's life from loading to finalize.
 */
#include "cli/driver/conform/trial.h"

#include "core/status.h"
#include "core/sys.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Rounds of polling between two looks at the other process. */
#define ROUNDS_PER_LOOK 64
#define PAUSE_NS        (20 * 1000)
/* An end that has failed stays so long for the other one to notice. */
#define AFTERMATH_NS (2 * SXT_NS_PER_SEC)

void sxt_trial_step(struct sxt_trial *trial, const char *step)
{
	atomic_store_explicit(&trial->board->step, step, memory_order_relaxed);
}

static void decide(struct sxt_trial *trial, enum sxt_conform_verdict verdict, const char *seen)
{
	struct sxt_board *board = trial->board;

	pthread_mutex_lock(&trial->lock);
	if (board->verdict == SXT_CONFORM_OK) {
		board->verdict = (int)verdict;
		snprintf(board->seen, sizeof(board->seen), "%s", seen);
	}
	pthread_mutex_unlock(&trial->lock);
}

int sxt_trial_fail(struct sxt_trial *trial, const char *fmt, ...)
{
	char seen[sizeof(trial->board->seen)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(seen, sizeof(seen), fmt, args);
	va_end(args);
	decide(trial, SXT_CONFORM_FAIL, seen);
	return -EIO;
}

int sxt_trial_skip(struct sxt_trial *trial, const char *fmt, ...)
{
	char seen[sizeof(trial->board->seen)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(seen, sizeof(seen), fmt, args);
	va_end(args);
	decide(trial, SXT_CONFORM_NA, seen);
	return -ENOTSUP;
}

static int fail_by_peer(struct sxt_trial *trial, const struct sxt_drv_abort *gone)
{
	int rc = sxt_trial_fail(trial, "the %s's process %.900s",
				trial->sends ? "receiver" : "sender", gone->text);

	pthread_mutex_lock(&trial->lock);
	trial->board->by_peer = true;
	pthread_mutex_unlock(&trial->lock);
	return rc;
}

static int fail_late(struct sxt_trial *trial, const char *what)
{
	int rc = sxt_trial_fail(trial, "still waiting after %u s: %s", trial->limit_s, what);

	pthread_mutex_lock(&trial->lock);
	trial->board->late = true;
	pthread_mutex_unlock(&trial->lock);
	return rc;
}

ncclResult_t sxt_trial_note(struct sxt_trial *trial, const char *call, ncclResult_t result)
{
	if (SXT_LIKELY(result != ncclInProgress))
		return result;
	atomic_store_explicit(&trial->in_progress, call, memory_order_relaxed);
	return ncclSuccess;
}

int sxt_trial_judge(struct sxt_trial *trial, const char *call, ncclResult_t result)
{
	char warn[512];

	if (SXT_LIKELY(sxt_trial_note(trial, call, result) == ncclSuccess))
		return 0;
	sxt_drv_log_last_warn(warn, sizeof(warn));
	if (warn[0] == '\0')
		return sxt_trial_fail(trial, "%s() gives %s and logs no warning", call,
				      sxt_drv_result_name(result));
	return sxt_trial_fail(trial, "%s() gives %s; its last warning: %s", call,
			      sxt_drv_result_name(result), warn);
}

void sxt_trial_extend(struct sxt_trial *trial, unsigned int factor)
{
	trial->deadline_ns += trial->limit_s * (uint64_t)(factor - 1) * SXT_NS_PER_SEC;
	trial->limit_s *= factor;
	atomic_store(&trial->board->limit_s, trial->limit_s);
}

bool sxt_trial_over(const struct sxt_trial *trial)
{
	return sxt_sys_host.now_ns() > trial->deadline_ns;
}

int sxt_trial_pause(struct sxt_trial *trial, const char *what)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct sxt_drv_abort gone;

	nanosleep(&pause, NULL);
	if (sxt_trial_over(trial))
		return fail_late(trial, what);
	if (trial->boot.ranks == 1 ||
	    atomic_fetch_add_explicit(&trial->pauses, 1, memory_order_relaxed) % ROUNDS_PER_LOOK !=
		    0)
		return 0;
	if (sxt_drv_boot_wait(&trial->boot, -1, 0, &gone) == -ECONNABORTED)
		return fail_by_peer(trial, &gone);
	return 0;
}

int sxt_trial_load(struct sxt_trial *trial)
{
	char why[512];

	sxt_trial_step(trial, "dlopen");
	if (sxt_drv_net_load(trial->target->plugin, trial->target->abi, &trial->net, why,
			     sizeof(why)) != 0)
		return sxt_trial_fail(trial, "cannot load it: %s", why);
	trial->net->config.trafficClass = NCCL_NET_UNDEFINED;
	return 0;
}

int sxt_trial_init(struct sxt_trial *trial)
{
	struct sxt_drv_net *net = trial->net;

	trial->dev = trial->target->dev;
	if (SXT_CALL(trial, "init", sxt_drv_net_init(net, 1, &trial->ctx)) != 0 ||
	    SXT_CALL(trial, "devices", net->calls.devices(&trial->devices_cnt)) != 0)
		return -EIO;
	if (trial->dev >= trial->devices_cnt)
		return sxt_trial_fail(trial, "there is no device %d: devices() gives %d",
				      trial->dev, trial->devices_cnt);
	return SXT_CALL(trial, "getProperties", sxt_drv_net_props(net, trial->dev, &trial->props));
}

int sxt_trial_open(struct sxt_trial *trial)
{
	return sxt_trial_load(trial) != 0 ? -EIO : sxt_trial_init(trial);
}

int sxt_trial_finalize(struct sxt_trial *trial)
{
	return SXT_CALL(trial, "finalize", sxt_drv_net_finalize(trial->net, trial->ctx));
}

int sxt_trial_swap(struct sxt_trial *trial, void *inout, size_t bytes)
{
	uint8_t all[2 * NCCL_NET_HANDLE_BYTES];
	struct sxt_drv_abort gone;
	int rc;

	if (trial->boot.ranks == 1)
		return 0;
	if (bytes > NCCL_NET_HANDLE_BYTES)
		return sxt_trial_fail(trial, "the check swaps %zu bytes", bytes);
	sxt_trial_step(trial, "waiting for the other process");
	rc = sxt_drv_boot_gather(&trial->boot, inout, bytes, all, trial->deadline_ns, &gone);
	if (rc == -ECONNABORTED)
		return fail_by_peer(trial, &gone);
	if (rc == -ETIMEDOUT)
		return fail_late(trial, trial->sends ? "for the receiver's process"
						     : "for the sender's process");
	if (rc != 0)
		return sxt_trial_fail(trial, "cannot reach the other process: %s",
				      sxt_strerror(rc));
	/* The receiver is rank 0. */
	memcpy(inout, all, bytes);
	return 0;
}

int sxt_trial_sync(struct sxt_trial *trial)
{
	uint32_t word = 0;

	return sxt_trial_swap(trial, &word, sizeof(word));
}

int sxt_trial_count(const char *folder)
{
	char path[64];
	DIR *dir;
	int cnt = 0;

	snprintf(path, sizeof(path), "/proc/self/%s", folder);
	dir = opendir(path);
	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		cnt++;
	closedir(dir);
	/* ".", ".." and, among descriptors, the one of reading. */
	return cnt - (strcmp(folder, "fd") == 0 ? 3 : 2);
}

int sxt_trial_await_count(const char *folder, int most)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	uint64_t end_ns = sxt_sys_host.now_ns() + 2 * SXT_NS_PER_SEC;
	int cnt = sxt_trial_count(folder);

	while (cnt > most && sxt_sys_host.now_ns() < end_ns) {
		nanosleep(&pause, NULL);
		cnt = sxt_trial_count(folder);
	}
	return cnt;
}

/* What the plugin writes must not mix with the report; output.silent looks at it. */
static void capture_output(struct sxt_trial *trial)
{
	trial->output_fd = memfd_create("sextant-conform-output", MFD_CLOEXEC);
	if (trial->output_fd < 0)
		return;
	dup2(trial->output_fd, STDOUT_FILENO);
	if (trial->target->logs == NULL)
		dup2(trial->output_fd, STDERR_FILENO);
}

static int meet(struct sxt_trial *trial)
{
	const struct sxt_drv_place *place = trial->target->place;
	uint64_t hash = 2166136261u;
	uint64_t same = 0;
	char why[512];

	if (place != NULL && trial->boot.ranks > 1 &&
	    sxt_drv_boot_connect(&trial->boot, place->addr, place->port, trial->target->timeout_s,
				 why, sizeof(why)) != 0)
		return sxt_trial_fail(trial, "%s", why);
	for (const char *c = trial->check->name; *c != '\0'; c++)
		hash = (hash ^ (uint64_t)*c) * 1099511628211u;
	hash = hash * 31 + (uint64_t)trial->target->abi;
	same = hash;
	if (sxt_trial_swap(trial, &same, sizeof(same)) != 0)
		return -EIO;
	if (same != hash)
		return sxt_trial_fail(trial, "the ranks are at different checks; were both started "
					     "with the same options?");
	return 0;
}

/* The other end hears of it before it sees this one's connections break. */
static void tell_peer(struct sxt_trial *trial)
{
	struct sxt_drv_abort why = {.rank = trial->boot.rank, .exit_status = SXT_EXIT_FOUND};
	uint64_t end_ns = sxt_sys_host.now_ns() + AFTERMATH_NS;
	struct sxt_drv_abort gone;

	snprintf(why.text, sizeof(why.text), "says: %.1000s", trial->board->seen);
	sxt_ignore(sxt_drv_boot_abort(&trial->boot, &why));
	while (sxt_sys_host.now_ns() < end_ns) {
		if (sxt_drv_boot_wait(&trial->boot, -1, 20, &gone) == -ECONNABORTED)
			break;
	}
}

/* Both ends' verdict counts: neither leaves before the other has come to one. */
static void part(struct sxt_trial *trial, int rc)
{
	if (trial->boot.ranks == 1)
		return;
	if (rc == 0)
		rc = sxt_trial_sync(trial);
	if (rc != 0 && !trial->board->by_peer)
		tell_peer(trial);
}

_Noreturn void sxt_trial_main(struct sxt_trial *trial)
{
	int rc;

	trial->limit_s = trial->target->timeout_s;
	trial->deadline_ns = sxt_sys_host.now_ns() + trial->limit_s * SXT_NS_PER_SEC;
	trial->receives = trial->boot.rank == 0;
	trial->sends = trial->boot.ranks == 1 || trial->boot.rank == 1;
	pthread_mutex_init(&trial->lock, NULL);
	capture_output(trial);
	sxt_ignore(sxt_drv_log_set(trial->target->logs != NULL ? trial->target->logs : "NONE",
				   trial->boot.rank));
	rc = meet(trial);
	if (rc == 0)
		rc = trial->check->run(trial);
	part(trial, rc);
	atomic_store_explicit(&trial->board->finished, 1, memory_order_release);
	/* No exit handlers: leaving with things open is a check of its own. */
	_exit(0);
}
