/*
 * peer.c - other processes as this one reaches them: their arena, their memory, their FIFOs.
 *
 * Slow paths: a process is mapped when a QP first sends to it, a registration when it is first
 * used, a FIFO when its sleeper is first woken.
 */
#include "ib/soft/objects.h"

#include "core/log.h"
#include "core/status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Closes and unmaps all a peer holds. No one else may be using it. */
static void peer_destroy(struct sxt_soft_peer *peer)
{
	if (peer == NULL)
		return;
	for (size_t i = 0; i < SXT_SOFT_PEER_FIFOS; i++) {
		if (peer->fifos[i].fd >= 0)
			close(peer->fifos[i].fd);
	}
	for (uint32_t i = 0; peer->windows != NULL && i < SXT_SOFT_MRS_MAX; i++) {
		if (peer->windows[i].map != NULL)
			munmap(peer->windows[i].map, peer->windows[i].map_bytes);
	}
	free(peer->windows);
	if (peer->arena != NULL)
		munmap(peer->arena, sizeof(*peer->arena));
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

static int peer_create(struct sxt_soft_engine *engine, uint32_t slot, uint64_t word,
		       struct sxt_soft_peer **out)
{
	struct sxt_soft_peer *peer = calloc(1, sizeof(*peer));
	char name[64];
	void *map;
	int rc;

	if (peer == NULL)
		return -ENOMEM;
	pthread_mutex_init(&peer->lock, NULL);
	for (size_t i = 0; i < SXT_SOFT_PEER_FIFOS; i++)
		peer->fifos[i].fd = -1;
	peer->slot = slot;
	peer->word = word;
	peer->pid = engine->state->fabric->procs[slot].pid;
	rc = -ENOMEM;
	peer->windows = calloc(SXT_SOFT_MRS_MAX, sizeof(*peer->windows));
	if (peer->windows == NULL)
		goto fail;
	snprintf(name, sizeof(name), "proc/%u/arena", slot);
	rc = sxt_soft_state_map(engine->state, name, sizeof(struct sxt_soft_arena), &map);
	if (rc != 0)
		goto fail;
	peer->arena = map;
	rc = -ESRCH;
	if (peer->arena->magic != SXT_SOFT_ARENA_MAGIC || peer->arena->proc_word != word ||
	    !sxt_soft_proc_is_alive(engine->state->fabric, slot, word))
		goto fail;
	*out = peer;
	return 0;
fail:
	peer_destroy(peer);
	return rc;
}

/* Under engine->lock. */
static void peer_release(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer)
{
	if (--peer->refs > 0)
		return;
	if (engine->peers[peer->slot] == peer)
		engine->peers[peer->slot] = NULL;
	peer_destroy(peer);
}

int sxt_soft_peer_get(struct sxt_soft_engine *engine, uint32_t slot, uint64_t word,
		      struct sxt_soft_peer **out)
{
	struct sxt_soft_peer *peer;
	int rc = 0;

	if (slot >= SXT_SOFT_PROCS_MAX ||
	    !sxt_soft_proc_is_alive(engine->state->fabric, slot, word))
		return -ESRCH;
	pthread_mutex_lock(&engine->lock);
	peer = engine->peers[slot];
	if (peer == NULL || peer->word != word) {
		rc = peer_create(engine, slot, word, &peer);
		if (rc == 0) {
			/* The table's own reference keeps the mapping between connections. */
			if (engine->peers[slot] != NULL)
				peer_release(engine, engine->peers[slot]);
			peer->refs = 1;
			engine->peers[slot] = peer;
		}
	}
	if (rc == 0) {
		peer->refs++;
		*out = peer;
	}
	pthread_mutex_unlock(&engine->lock);
	return rc;
}

void sxt_soft_peer_put(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer)
{
	if (peer == NULL)
		return;
	pthread_mutex_lock(&engine->lock);
	peer_release(engine, peer);
	pthread_mutex_unlock(&engine->lock);
}

/*
 * Maps the file behind a registration. The owner keeps its descriptor open as long as the
 * registration lives, so /proc leads to the file even where it has no name.
 */
static void window_fill(struct sxt_soft_window *window, int32_t pid,
			const struct sxt_soft_mr_entry *mr)
{
	uint64_t start = mr->file_offset & ~4095ull;
	size_t bytes = (size_t)(mr->file_offset - start + mr->bytes);
	char path[64];
	struct stat st;
	void *map = MAP_FAILED;
	int fd;

	window->first_byte = NULL;
	window->map = NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, mr->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		SXT_LOG(SXT_LOG_DEBUG, "%s: open: %s; using process_vm_writev", path,
			sxt_strerror(errno));
		return;
	}
	if (fstat(fd, &st) == 0 && st.st_dev == mr->dev && st.st_ino == mr->ino &&
	    (uint64_t)st.st_size >= start + bytes)
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
	close(fd);
	if (map == MAP_FAILED)
		return;
	window->map = map;
	window->map_bytes = bytes;
	window->first_byte = (uint8_t *)map + (mr->file_offset - start);
}

uint8_t *sxt_soft_peer_window(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			      uint32_t key)
{
	struct sxt_soft_window *window = &peer->windows[key >> 8];

	/* Pairs with the release below: the address is there when the key is. */
	if (SXT_LIKELY(atomic_load_explicit(&window->key, memory_order_acquire) == key))
		return window->first_byte;
	pthread_mutex_lock(&peer->lock);
	if (atomic_load_explicit(&window->key, memory_order_relaxed) != key) {
		/*
		 * The old key is not in use any more: its owner deregistered it, which waited
		 * for everybody who moved data under it.
		 */
		atomic_store_explicit(&window->key, 0, memory_order_relaxed);
		if (window->map != NULL)
			munmap(window->map, window->map_bytes);
		window_fill(window, peer->pid, mr);
		atomic_store_explicit(&window->key, key, memory_order_release);
	}
	pthread_mutex_unlock(&peer->lock);
	return window->first_byte;
}

void sxt_soft_peer_wake(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			uint32_t channel)
{
	struct sxt_soft_fifo *fifo = &peer->fifos[channel % SXT_SOFT_PEER_FIFOS];
	char path[PATH_MAX];

	pthread_mutex_lock(&peer->lock);
	if (fifo->fd < 0 || fifo->channel != channel) {
		if (fifo->fd >= 0)
			close(fifo->fd);
		fifo->fd = -1;
		/* Open for reading too: with a reader there is no SIGPIPE if the owner dies. */
		if (snprintf(path, sizeof(path), "%s/proc/%u/channel-%u", engine->state->dir,
			     peer->slot, channel) < (int)sizeof(path))
			fifo->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		fifo->channel = channel;
	}
	/* Full is fine: it is readable then. Not there: the channel is gone, nobody sleeps. */
	if (fifo->fd >= 0)
		sxt_ignore(write(fifo->fd, "", 1));
	pthread_mutex_unlock(&peer->lock);
}

void sxt_soft_peer_event(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			 uint32_t context, uint32_t type, uint64_t object)
{
	const struct sxt_soft_context_shared *shared = &peer->arena->contexts[context];
	const struct sxt_soft_event event = {.type = type, .object = object};

	(void)engine;
	if (atomic_load_explicit(&shared->live, memory_order_acquire) != 0 &&
	    sxt_soft_event_send(shared->box, &event) == -ENOBUFS)
		SXT_LOG(SXT_LOG_WARN, "%s: async event %u lost: nobody reads them", shared->box,
			type);
}
