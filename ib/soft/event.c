/*
 * event.c - the FIFOs that carry asynchronous events (slow path).
 */
#include "ib/soft/event.h"

#include "core/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sxt_soft_event_open(struct sxt_soft_state *state, uint32_t hca, struct sxt_soft_event_box *out)
{
	static _Atomic uint32_t next_number;
	struct sxt_soft_event_box box;
	uint32_t number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
	int rc;
	int len = snprintf(box.path, sizeof(box.path),
			   "%s/proc/%" PRIu32 "/event-%" PRIu32 "-%" PRIu32, state->dir,
			   state->proc, hca, number);

	if (len >= (int)sizeof(box.path))
		return -ENAMETOOLONG;
	if (mkfifo(box.path, 0600) != 0) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "soft events %s: %m", box.path);
		return rc;
	}
	/* Read and write: with a writer of its own the reader never sees the end of the file. */
	box.fd = open(box.path, O_RDWR | O_CLOEXEC);
	if (box.fd < 0) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "soft events %s: %m", box.path);
		unlink(box.path);
		return rc;
	}
	*out = box;
	return 0;
}

void sxt_soft_event_close(struct sxt_soft_event_box *box)
{
	if (box->fd < 0)
		return;
	close(box->fd);
	unlink(box->path);
	box->fd = -1;
}

static int put_event(const char *path, int at_fd, const struct sxt_soft_event *event)
{
	int listener_fd = openat(at_fd, path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t put = -1;
	int fd;

	/* Opens where somebody reads. */
	if (listener_fd < 0)
		return -errno;
	/* Who reads may die before the write: with a reader of our own there is no SIGPIPE. */
	fd = openat(at_fd, path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		put = write(fd, event, sizeof(*event));
		close(fd);
	}
	close(listener_fd);
	return put == (ssize_t)sizeof(*event) ? 0 : -ENOBUFS;
}

int sxt_soft_event_send(const char *path, const struct sxt_soft_event *event)
{
	return put_event(path, AT_FDCWD, event);
}

static int post_to_proc(struct sxt_soft_state *state, uint32_t slot, const char *prefix,
			const struct sxt_soft_event *event)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int posted_cnt = 0;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/proc/%" PRIu32, state->dir, slot) >= (int)sizeof(path))
		return 0;
	dir = opendir(path);
	if (dir == NULL)
		return 0;
	while ((entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			posted_cnt += put_event(entry->d_name, dirfd(dir), event) == 0;
	}
	closedir(dir);
	return posted_cnt;
}

int sxt_soft_event_post(struct sxt_soft_state *state, uint32_t hca,
			const struct sxt_soft_event *event)
{
	char prefix[32];
	int posted_cnt = 0;

	snprintf(prefix, sizeof(prefix), "event-%" PRIu32 "-", hca);
	for (uint32_t slot = 0; slot < SXT_SOFT_PROCS_MAX; slot++) {
		uint64_t word = atomic_load_explicit(&state->fabric->procs[slot].word,
						     memory_order_acquire);

		if (sxt_soft_proc_word_state(word) == SXT_SOFT_PROC_ALIVE)
			posted_cnt += post_to_proc(state, slot, prefix, event);
	}
	return posted_cnt;
}
