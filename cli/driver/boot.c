/*
 * boot.c - frames over a star of stream sockets (slow path, main thread only).
 */
#include "cli/driver/boot.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_MAGIC     0x53786242u /* "BbxS" */
#define FRAME_MAX_BYTES (16u << 20)
#define FRAME_TIMEOUT_S 10 /* for the rest of a frame that has begun */

enum frame_type {
	FRAME_DATA = 1,
	FRAME_ABORT = 2
};

struct frame {
	uint32_t magic;
	uint32_t type;
	uint32_t bytes;
	uint32_t rank;
};

void sxt_drv_boot_init(struct sxt_drv_boot *boot, int rank, int ranks)
{
	memset(boot, 0, sizeof(*boot));
	boot->rank = rank;
	boot->ranks = ranks;
	for (int i = 0; i < SXT_DRV_MAX_RANKS; i++)
		boot->fds[i] = -1;
}

static int read_all(int fd, void *buf, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		ssize_t n;
		int rc = poll(&pfd, 1, FRAME_TIMEOUT_S * 1000);

		if (rc < 0 && errno != EINTR)
			return -errno;
		if (rc == 0)
			return -ETIMEDOUT;
		n = recv(fd, (char *)buf + got, bytes - got, MSG_DONTWAIT);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		got += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int write_all(int fd, const void *buf, size_t bytes)
{
	size_t sent = 0;

	while (sent < bytes) {
		ssize_t n = send(fd, (const char *)buf + sent, bytes - sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		sent += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int write_frame(int fd, const struct frame *frame, const void *payload)
{
	int rc = write_all(fd, frame, sizeof(*frame));

	if (rc == 0 && frame->bytes > 0)
		rc = write_all(fd, payload, frame->bytes);
	return rc;
}

static int peer_of(const struct sxt_drv_boot *boot, int slot)
{
	return boot->rank == 0 ? slot : 0;
}

static int slots_end(const struct sxt_drv_boot *boot)
{
	return boot->rank == 0 ? boot->ranks : 1;
}

static void set_gone(struct sxt_drv_abort *gone, int rank, const char *text)
{
	gone->rank = rank;
	gone->exit_status = SXT_EXIT_BROKEN;
	gone->silent = true;
	snprintf(gone->text, sizeof(gone->text), "%s", text);
}

/* One frame into @buf, which holds @bytes; an abort frame is -ECONNABORTED and goes to @gone. */
static int read_frame(struct sxt_drv_boot *boot, int slot, void *buf, size_t bytes,
		      struct sxt_drv_abort *gone)
{
	struct frame frame = {0};
	int rc = read_all(boot->fds[slot], &frame, sizeof(frame));

	if (rc == 0 && frame.magic == FRAME_MAGIC && frame.type == FRAME_ABORT &&
	    frame.bytes == sizeof(*gone)) {
		rc = read_all(boot->fds[slot], gone, sizeof(*gone));
		gone->text[sizeof(gone->text) - 1] = '\0';
		if (rc == 0)
			return -ECONNABORTED;
	}
	if (rc == 0 && (frame.magic != FRAME_MAGIC || frame.type != FRAME_DATA)) {
		set_gone(gone, peer_of(boot, slot), "sent something that is no frame of ours");
		return -ECONNABORTED;
	}
	if (rc == 0 && frame.bytes != bytes) {
		set_gone(gone, peer_of(boot, slot),
			 "is at another step of the run; do all ranks have the same options?");
		return -ECONNABORTED;
	}
	if (rc == 0 && bytes > 0)
		rc = read_all(boot->fds[slot], buf, bytes);
	if (rc != 0) {
		set_gone(gone, peer_of(boot, slot),
			 rc == -ETIMEDOUT ? "stopped in the middle of a message"
					  : "closed its connection without a word: it has died");
		return -ECONNABORTED;
	}
	return 0;
}

/* The other end has shut down: what was its last word? */
static int last_word(struct sxt_drv_boot *boot, int slot, struct sxt_drv_abort *gone)
{
	struct frame frame = {0};
	char skipped[512];

	while (read_all(boot->fds[slot], &frame, sizeof(frame)) == 0 &&
	       frame.magic == FRAME_MAGIC && frame.bytes <= FRAME_MAX_BYTES) {
		if (frame.type == FRAME_ABORT && frame.bytes == sizeof(*gone) &&
		    read_all(boot->fds[slot], gone, sizeof(*gone)) == 0) {
			gone->text[sizeof(gone->text) - 1] = '\0';
			return -ECONNABORTED;
		}
		for (size_t left = frame.bytes; left > 0;) {
			size_t part = left < sizeof(skipped) ? left : sizeof(skipped);

			if (read_all(boot->fds[slot], skipped, part) != 0)
				break;
			left -= part;
		}
	}
	set_gone(gone, peer_of(boot, slot), "closed its connection without a word: it has died");
	return -ECONNABORTED;
}

/* Slot that must become readable, or -1: any of them may only say goodbye. */
static int poll_once(struct sxt_drv_boot *boot, int slot_in, int fd_in, int timeout_ms,
		     struct sxt_drv_abort *gone)
{
	struct pollfd pfds[SXT_DRV_MAX_RANKS + 1];
	int end = slots_end(boot);
	int rc;

	for (int i = 0; i < end; i++) {
		pfds[i].fd = boot->fds[i];
		pfds[i].events = (short)(POLLRDHUP | (i == slot_in ? POLLIN : 0));
		pfds[i].revents = 0;
	}
	pfds[end] = (struct pollfd){.fd = fd_in, .events = POLLIN};
	rc = poll(pfds, (nfds_t)end + 1, timeout_ms);
	if (rc <= 0)
		return rc < 0 && errno != EINTR ? -errno : 0;
	if ((pfds[end].revents & POLLIN) != 0)
		return 1;
	/* Its frame may stand before its goodbye. */
	if (slot_in >= 0 && (pfds[slot_in].revents & POLLIN) != 0)
		return 1;
	for (int i = 0; i < end; i++) {
		if ((pfds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
			return last_word(boot, i, gone);
	}
	return 0;
}

int sxt_drv_boot_wait(struct sxt_drv_boot *boot, int fd, int timeout_ms, struct sxt_drv_abort *gone)
{
	return poll_once(boot, -1, fd, timeout_ms, gone);
}

static int receive(struct sxt_drv_boot *boot, int slot, void *buf, size_t bytes,
		   uint64_t deadline_ns, struct sxt_drv_abort *gone)
{
	for (;;) {
		int rc = poll_once(boot, slot, -1, 200, gone);

		if (rc > 0)
			return read_frame(boot, slot, buf, bytes, gone);
		if (rc < 0)
			return rc;
		if (sxt_sys_host.now_ns() > deadline_ns) {
			gone->rank = peer_of(boot, slot);
			return -ETIMEDOUT;
		}
	}
}

static int transmit(struct sxt_drv_boot *boot, int slot, const void *payload, size_t bytes,
		    struct sxt_drv_abort *gone)
{
	const struct frame frame = {FRAME_MAGIC, FRAME_DATA, (uint32_t)bytes, (uint32_t)boot->rank};
	int rc = write_frame(boot->fds[slot], &frame, payload);

	return rc == 0 ? 0 : last_word(boot, slot, gone);
}

int sxt_drv_boot_gather(struct sxt_drv_boot *boot, const void *in, size_t bytes, void *out,
			uint64_t deadline_ns, struct sxt_drv_abort *gone)
{
	size_t all = bytes * (size_t)boot->ranks;
	int rc = 0;

	if (boot->rank != 0) {
		rc = transmit(boot, 0, in, bytes, gone);
		return rc == 0 ? receive(boot, 0, out, all, deadline_ns, gone) : rc;
	}
	if (bytes > 0)
		memcpy(out, in, bytes);
	for (int i = 1; i < boot->ranks && rc == 0; i++)
		rc = receive(boot, i, (char *)out + (size_t)i * bytes, bytes, deadline_ns, gone);
	for (int i = 1; i < boot->ranks && rc == 0; i++)
		rc = transmit(boot, i, out, all, gone);
	return rc;
}

bool sxt_drv_boot_abort(struct sxt_drv_boot *boot, const struct sxt_drv_abort *why)
{
	const struct frame frame = {FRAME_MAGIC, FRAME_ABORT, sizeof(*why), (uint32_t)boot->rank};
	bool told = true;

	for (int i = 0; i < slots_end(boot); i++) {
		if (boot->fds[i] < 0)
			continue;
		told = write_frame(boot->fds[i], &frame, why) == 0 && told;
		shutdown(boot->fds[i], SHUT_WR);
	}
	return told;
}

void sxt_drv_boot_drop(struct sxt_drv_boot *boot, int rank)
{
	int slot = boot->rank == 0 ? rank : 0;

	if (slot < 0 || slot >= slots_end(boot) || boot->fds[slot] < 0)
		return;
	close(boot->fds[slot]);
	boot->fds[slot] = -1;
}

void sxt_drv_boot_close(struct sxt_drv_boot *boot)
{
	for (int i = 0; i < SXT_DRV_MAX_RANKS; i++) {
		if (boot->fds[i] >= 0)
			close(boot->fds[i]);
		boot->fds[i] = -1;
	}
}
