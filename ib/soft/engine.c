/*
 * engine.c - a process's hold on the software fabric: attach, fork, slots, and the arena's heap.
 *
 * Slow paths only. One engine per process, made by the first device list; a forked child makes its
 * own and never touches the parent's, whose locks may have been held by a thread it lacks.
 */
#include "ib/soft/engine.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/soft/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define SLOT_BYTES 512u /* no slot with a lock is larger */

_Static_assert(sizeof(struct sxt_soft_qp_shared) <= SLOT_BYTES, "a QP's slot outgrew SLOT_BYTES");
_Static_assert(sizeof(struct sxt_soft_cq_shared) <= SLOT_BYTES, "a CQ's slot outgrew SLOT_BYTES");
_Static_assert(sizeof(struct sxt_soft_srq_shared) <= SLOT_BYTES,
	       "an SRQ's slot outgrew SLOT_BYTES");

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sxt_soft_engine *engine;

/* In the child of a fork(): nothing of the parent's is used, it is only kept reachable. */
static void forget_parent(void)
{
	pthread_mutex_init(&engine_lock, NULL);
	/* A ptracer declaration is not inherited. */
	sxt_ignore(prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY));
}

__attribute__((constructor)) static void library_load(void)
{
	/* Yama's scope 1 lets only ancestors in otherwise; kernels without Yama say EINVAL. */
	sxt_ignore(prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY));
	pthread_atfork(NULL, NULL, forget_parent);
}

/*
 * At exit other threads may still be inside: the memory stays, only the slot is given up, so that
 * peers see at once that this process is gone.
 */
__attribute__((destructor)) static void library_unload(void)
{
	struct sxt_soft_state *state = engine == NULL ? NULL : engine->state;

	if (state != NULL && state->pid == getpid())
		sxt_soft_proc_bury(state, state->proc, state->proc_word);
}

uint64_t sxt_soft_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int sxt_soft_shared_lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;
	int rc;

	rc = pthread_mutexattr_init(&attr);
	if (rc != 0)
		return -rc;
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	rc = pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return -rc;
}

int sxt_soft_back(const void *addr, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
	uintptr_t start = (uintptr_t)addr & ~(uintptr_t)(PAGE_BYTES - 1);

	/* Kernels before 5.14 do not know it (EINVAL) and take the risk. */
	if (madvise((void *)start, (uintptr_t)addr + bytes - start, MADV_POPULATE_WRITE) != 0 &&
	    errno != EINVAL)
		return -ENOMEM;
#else
	(void)addr;
	(void)bytes;
#endif
	return 0;
}

int sxt_soft_lock_ready(pthread_mutex_t *lock, uint32_t *ready)
{
	int rc = sxt_soft_back(lock, SLOT_BYTES);

	if (rc == 0 && *ready == 0)
		rc = sxt_soft_shared_lock_init(lock);
	if (rc == 0)
		*ready = 1;
	return rc;
}

static int table_init(struct sxt_soft_table *table, uint32_t cap)
{
	table->items = calloc(cap, sizeof(*table->items));
	table->cap = cap;
	table->cursor = 1; /* slot 0 is taken last, keys of 0 look like bugs */
	return table->items == NULL ? -ENOMEM : 0;
}

uint32_t sxt_soft_table_take(struct sxt_soft_table *table, void *item)
{
	for (uint32_t i = 0; i < table->cap; i++) {
		uint32_t slot = (table->cursor + i) % table->cap;

		if (slot == 0 || table->items[slot] != NULL)
			continue;
		table->items[slot] = item;
		table->cursor = slot + 1;
		if (table->high < slot + 1)
			table->high = slot + 1;
		return slot;
	}
	return SXT_SOFT_NONE;
}

static size_t page_round(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

int sxt_soft_heap_take(struct sxt_soft_engine *eng, size_t bytes, uint64_t *offset_out)
{
	struct sxt_soft_extent **link = &eng->free_extents;
	struct sxt_soft_extent *found;
	uint64_t offset;

	bytes = page_round(bytes);
	pthread_mutex_lock(&eng->lock);
	while (*link != NULL && (*link)->bytes < bytes)
		link = &(*link)->next;
	found = *link;
	if (found == NULL) {
		pthread_mutex_unlock(&eng->lock);
		return -ENOMEM;
	}
	offset = found->offset;
	found->offset += bytes;
	found->bytes -= bytes;
	if (found->bytes == 0) {
		*link = found->next;
		free(found);
	}
	pthread_mutex_unlock(&eng->lock);
	if (sxt_soft_back((uint8_t *)eng->self->arena + offset, bytes) != 0) {
		sxt_soft_heap_give(eng, offset, bytes);
		return -ENOMEM;
	}
	*offset_out = offset;
	return 0;
}

/* Joins an extent with the one behind it where they touch. */
static void extent_join(struct sxt_soft_extent *extent)
{
	struct sxt_soft_extent *next = extent->next;

	if (next == NULL || extent->offset + extent->bytes != next->offset)
		return;
	extent->bytes += next->bytes;
	extent->next = next->next;
	free(next);
}

void sxt_soft_heap_give(struct sxt_soft_engine *eng, uint64_t offset, size_t bytes)
{
	struct sxt_soft_extent **link = &eng->free_extents;
	struct sxt_soft_extent *prev = NULL;
	struct sxt_soft_extent *fresh;

	if (bytes == 0)
		return;
	bytes = page_round(bytes);
	/* Gives the pages back; a taken range starts as zeros again. */
	if (madvise((uint8_t *)eng->self->arena + offset, bytes, MADV_REMOVE) != 0)
		memset((uint8_t *)eng->self->arena + offset, 0, bytes);
	fresh = calloc(1, sizeof(*fresh));
	if (fresh == NULL)
		return; /* the range is lost, nothing else */
	fresh->offset = offset;
	fresh->bytes = bytes;
	pthread_mutex_lock(&eng->lock);
	while (*link != NULL && (*link)->offset < offset) {
		prev = *link;
		link = &prev->next;
	}
	fresh->next = *link;
	*link = fresh;
	extent_join(fresh);
	if (prev != NULL)
		extent_join(prev);
	pthread_mutex_unlock(&eng->lock);
}

/* Reads one number from a file of /proc/sys; @missing if it is not there. */
static int read_sysctl(const char *path, int missing)
{
	FILE *file = fopen(path, "re");
	char line[32];
	int value = missing;

	if (file == NULL)
		return missing;
	if (fgets(line, sizeof(line), file) != NULL)
		value = (int)strtol(line, NULL, 10);
	fclose(file);
	return value;
}

/* CapEff of /proc/self/status, bit 19: CAP_SYS_PTRACE. */
static bool may_trace_anybody(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t caps = 0;
	char line[128];

	if (file == NULL)
		return false;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "CapEff:", 7) == 0)
			caps = strtoull(line + 7, NULL, 16);
	}
	fclose(file);
	return (caps >> 19 & 1) != 0;
}

/* Finds out once whether peers will be let at private memory, and if not, what to say. */
static void probe_private_access(struct sxt_soft_engine *eng)
{
	uint64_t value = 0;
	uint64_t copy = 1;
	struct iovec to = {&copy, sizeof(copy)};
	struct iovec from = {&value, sizeof(value)};
	int scope = read_sysctl("/proc/sys/kernel/yama/ptrace_scope", 0);

	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof(copy)) {
		eng->private_access = -EPERM;
		snprintf(eng->private_why, sizeof(eng->private_why),
			 "process_vm_readv: %s; allow it in the container's seccomp profile, or "
			 "use shared memory (memfd, /dev/shm) for buffers",
			 sxt_strerror(errno));
	} else if (scope >= 3 || (scope == 2 && !may_trace_anybody())) {
		eng->private_access = -EPERM;
		snprintf(eng->private_why, sizeof(eng->private_why),
			 "kernel.yama.ptrace_scope is %d; set it to 1 or 0%s, or use shared memory "
			 "(memfd, /dev/shm) for buffers",
			 scope, scope == 2 ? " or grant CAP_SYS_PTRACE" : "");
	}
}

static int make_tables(struct sxt_soft_engine *eng)
{
	if (table_init(&eng->qps, SXT_SOFT_QPS_MAX) != 0 ||
	    table_init(&eng->cqs, SXT_SOFT_CQS_MAX) != 0 ||
	    table_init(&eng->srqs, SXT_SOFT_SRQS_MAX) != 0 ||
	    table_init(&eng->mrs, SXT_SOFT_MRS_MAX) != 0)
		return -ENOMEM;
	eng->free_extents = calloc(1, sizeof(*eng->free_extents));
	if (eng->free_extents == NULL)
		return -ENOMEM;
	eng->free_extents->offset = offsetof(struct sxt_soft_arena, heap);
	eng->free_extents->bytes = SXT_SOFT_ARENA_HEAP;
	return 0;
}

static int make_arena(struct sxt_soft_engine *eng)
{
	struct sxt_soft_peer *self = calloc(1, sizeof(*self));
	char name[64];
	void *map;
	int rc;

	if (self == NULL)
		return -ENOMEM;
	eng->self = self;
	pthread_mutex_init(&self->lock, NULL);
	for (size_t i = 0; i < SXT_SOFT_PEER_FIFOS; i++)
		self->fifos[i].fd = -1;
	self->slot = eng->state->proc;
	self->word = eng->state->proc_word;
	self->pid = eng->state->pid;
	self->is_self = true;
	self->refs = 1;
	eng->peers[self->slot] = self;
	snprintf(name, sizeof(name), "proc/%u/arena", self->slot);
	rc = sxt_soft_state_map(eng->state, name, sizeof(struct sxt_soft_arena), &map);
	if (rc != 0)
		return rc;
	self->arena = map;
	rc = sxt_soft_shared_lock_init(&self->arena->atomics_lock);
	self->arena->proc_word = self->word;
	self->arena->magic = SXT_SOFT_ARENA_MAGIC;
	return rc;
}

static void peer_free(struct sxt_soft_peer *peer)
{
	peer->refs = 1;
	peer->is_self = false;
}

static void engine_destroy(struct sxt_soft_engine *eng)
{
	struct sxt_soft_extent *extent;

	if (eng == NULL)
		return;
	for (uint32_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		struct sxt_soft_peer *peer = eng->peers[i];

		if (peer == NULL)
			continue;
		peer_free(peer);
		eng->peers[i] = NULL;
		sxt_soft_peer_put(eng, peer);
	}
	while ((extent = eng->free_extents) != NULL) {
		eng->free_extents = extent->next;
		free(extent);
	}
	if (eng->registry != NULL)
		munmap(eng->registry, sizeof(*eng->registry));
	sxt_soft_state_close(eng->state);
	free(eng->qps.items);
	free(eng->cqs.items);
	free(eng->srqs.items);
	free(eng->mrs.items);
	free(eng->devices);
	pthread_mutex_destroy(&eng->lock);
	pthread_mutex_destroy(&eng->stalled_lock);
	free(eng);
}

/* What an attached engine needs besides. */
static int engine_fill(struct sxt_soft_engine *eng)
{
	void *map;
	int rc = make_tables(eng);

	if (rc == 0)
		rc = make_arena(eng);
	if (rc == 0)
		rc = sxt_soft_state_map(eng->state, "engine", sizeof(struct sxt_soft_registry),
					&map);
	if (rc != 0)
		return rc;
	eng->registry = map;
	return sxt_soft_engine_devices(eng);
}

static int engine_create(struct sxt_soft_engine **out)
{
	struct sxt_soft_engine *eng = calloc(1, sizeof(*eng));
	int rc;

	if (eng == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "software HCA: %s", sxt_strerror(-ENOMEM));
		return -ENOMEM;
	}
	pthread_mutex_init(&eng->lock, NULL);
	pthread_mutex_init(&eng->stalled_lock, NULL);
	sxt_list_init(&eng->stalled);
	rc = sxt_soft_state_attach(NULL, NULL, &eng->state);
	if (rc != 0)
		goto fail;
	rc = engine_fill(eng);
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "software HCA: attaching to %s: %s", eng->state->dir,
			sxt_strerror(rc));
		goto fail;
	}
	probe_private_access(eng);
	*out = eng;
	return 0;
fail:
	engine_destroy(eng);
	return rc;
}

int sxt_soft_engine_get(struct sxt_soft_engine **out)
{
	struct sxt_soft_engine *made = NULL;
	int rc = 0;

	pthread_mutex_lock(&engine_lock);
	if (engine == NULL || engine->state->pid != getpid()) {
		rc = engine_create(&made);
		if (rc == 0) {
			made->inherited = engine;
			engine = made;
		}
	}
	if (rc == 0)
		*out = engine;
	pthread_mutex_unlock(&engine_lock);
	return rc;
}

void sxt_soft_engine_detach(void)
{
	struct sxt_soft_engine *gone;

	pthread_mutex_lock(&engine_lock);
	gone = engine;
	if (gone != NULL && gone->state->pid == getpid()) {
		engine = gone->inherited;
		engine_destroy(gone);
	}
	pthread_mutex_unlock(&engine_lock);
}
