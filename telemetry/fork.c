/*
 * fork.c - a forked child must not write into its parent's segment, nor hold the lock that tells
 * that the parent lives (any thread, slow path).
 */
#include "telemetry/own.h"

#include <sys/mman.h>
#include <unistd.h>

static struct sxt_list guarded = {&guarded, &guarded};
static pthread_mutex_t guarded_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The child may still hold connections: their counters go on into memory of its own at the same
 * address. Where even that is refused it must not write at all, and would be ended if it did.
 */
static void in_child(void)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &guarded) {
		struct sxt_tele *tele = SXT_LIST_ENTRY(node, struct sxt_tele, node);
		void *own = mmap(tele->header, tele->bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		if (own == MAP_FAILED)
			munmap(tele->header, tele->bytes);
		close(tele->fd);
		tele->fd = -1;
		tele->is_child = true;
		/* Another thread may have held it, and is not here to let go. */
		pthread_mutex_init(&tele->lock, NULL);
	}
	sxt_tele_fork_unlock();
}

static void register_handlers(void)
{
	sxt_ignore(pthread_atfork(sxt_tele_fork_lock, sxt_tele_fork_unlock, in_child));
}

void sxt_tele_fork_lock(void)
{
	pthread_mutex_lock(&guarded_lock);
}

void sxt_tele_fork_unlock(void)
{
	pthread_mutex_unlock(&guarded_lock);
}

void sxt_tele_fork_guard(struct sxt_tele *tele)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_handlers);
	sxt_list_append(&guarded, &tele->node);
}

void sxt_tele_fork_forget(struct sxt_tele *tele)
{
	sxt_list_remove(&tele->node);
}
