/*
 * reader.c - one segment, mapped for reading or lying in memory. Nothing in it is trusted: where
 * its sections are is checked once and kept, records are copied before they are looked at.
 */
#include "telemetry/reader.h"

#include "telemetry/clock.h"
#include "telemetry/record.h"
#include "telemetry/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A writer is done within a microsecond, or at its next turn on the processor; a dead one never. */
#define COPIES_TRIED 256

struct sxt_tele_view {
	const char *base;
	size_t bytes;
	int fd; /* of a file that is mapped, else -1 */
	uint32_t uid;
	bool is_alive;
	bool is_still; /* nothing is written any more: last_ticks was found */
	uint64_t last_ticks;
	struct sxt_tele_header header;
	struct sxt_tele_section sections[SXT_TELE_SECTIONS];
};

/* Records begin and stay on words, behind the header, inside of the segment. */
static bool section_is_sound(const struct sxt_tele_section *section, size_t record_bytes,
			     uint64_t bytes)
{
	if (section->offset % 8 != 0 || section->stride % 8 != 0 ||
	    section->stride < record_bytes || section->offset < sizeof(struct sxt_tele_header) ||
	    section->offset > bytes)
		return false;
	return (uint64_t)section->stride * section->cap <= bytes - section->offset;
}

static bool sections_overlap(const struct sxt_tele_section *a, const struct sxt_tele_section *b)
{
	return a->offset < b->offset + (uint64_t)b->stride * b->cap &&
	       b->offset < a->offset + (uint64_t)a->stride * a->cap;
}

static bool sections_are_sound(const struct sxt_tele_section *sections, uint64_t bytes)
{
	static const size_t record_bytes[SXT_TELE_SECTIONS] = {sizeof(struct sxt_tele_port),
							       sizeof(struct sxt_tele_link),
							       sizeof(struct sxt_tele_conn),
							       sizeof(struct sxt_tele_path),
							       sizeof(struct sxt_tele_event)};

	for (size_t i = 0; i < SXT_TELE_SECTIONS; i++) {
		if (!section_is_sound(&sections[i], record_bytes[i], bytes))
			return false;
		for (size_t before = 0; before < i; before++) {
			if (sections_overlap(&sections[before], &sections[i]))
				return false;
		}
	}
	return true;
}

/* Is this a segment that we can read? What decides where to read is kept from here on. */
static int check(struct sxt_tele_view *view)
{
	const struct sxt_tele_header *raw = (const void *)view->base;
	uint32_t state = __atomic_load_n(&raw->state, __ATOMIC_ACQUIRE);
	struct sxt_tele_header header;

	sxt_tele_words_get(&header, raw, sizeof(header));
	if (state == SXT_TELE_MAKING && (header.magic == 0 || header.magic == SXT_TELE_MAGIC))
		return -EAGAIN;
	if (header.magic != SXT_TELE_MAGIC)
		return -EPROTO;
	if (header.version != SXT_TELE_VERSION)
		return -EPROTONOSUPPORT;
	if (header.bytes_of_header < sizeof(header) || header.bytes > view->bytes ||
	    header.ticks_per_sec == 0 || state > SXT_TELE_CLOSED ||
	    !sections_are_sound(header.sections, header.bytes))
		return -EPROTO;
	memcpy(view->sections, header.sections, sizeof(view->sections));
	return 0;
}

static void read_header(struct sxt_tele_view *view)
{
	struct sxt_tele_header *header = &view->header;

	sxt_tele_words_get(header, view->base, sizeof(*header));
	memcpy(header->sections, view->sections, sizeof(view->sections));
	if (header->ticks_per_sec == 0)
		header->ticks_per_sec = SXT_NS_PER_SEC;
	header->uid = view->fd >= 0 ? view->uid : header->uid;
	sxt_tele_text_clean(header->release, sizeof(header->release));
	sxt_tele_text_clean(header->host, sizeof(header->host));
	sxt_tele_text_clean(header->command, sizeof(header->command));
	sxt_tele_text_clean(header->job, sizeof(header->job));
}

/* The last moment that anything was stamped with: what is known of the end of a crash. */
static uint64_t find_last(const struct sxt_tele_view *view)
{
	uint64_t last = view->header.made_ticks;
	struct sxt_tele_event event;
	struct sxt_tele_conn conn;
	struct sxt_tele_port port;

#define TAKE_LATER(ticks) (last = (ticks) > last ? (ticks) : last)
	for (uint32_t i = 0; i < sxt_tele_cap(view, SXT_TELE_CONNS); i++) {
		if (!sxt_tele_conn_get(view, i, &conn))
			continue;
		TAKE_LATER(conn.opened);
		TAKE_LATER(conn.ended);
		TAKE_LATER(conn.counters.waiting);
		TAKE_LATER(conn.counters.last_start);
		TAKE_LATER(conn.counters.last_done);
	}
	for (uint32_t i = 0; i < sxt_tele_cap(view, SXT_TELE_PORTS); i++) {
		if (sxt_tele_port_get(view, i, &port))
			TAKE_LATER(port.changed);
	}
	if (view->header.events > 0 && sxt_tele_event_get(view, view->header.events - 1, &event))
		TAKE_LATER(event.ticks);
#undef TAKE_LATER
	return last;
}

/* The writer holds a lock as long as it lives, in whatever pid namespace. */
static bool writer_lives(const struct sxt_tele_view *view)
{
	if (view->header.state != SXT_TELE_LIVE || view->fd < 0)
		return view->header.state == SXT_TELE_LIVE;
	if (flock(view->fd, LOCK_SH | LOCK_NB) != 0)
		return true;
	flock(view->fd, LOCK_UN);
	return false;
}

static bool clock_is_here(const struct sxt_tele_view *view)
{
	return view->header.clock == SXT_TELE_CLOCK_MONOTONIC ||
	       view->header.clock == SXT_TELE_CLOCK_HERE;
}

static uint64_t clock_now(const struct sxt_tele_view *view)
{
	return view->header.clock == SXT_TELE_CLOCK_MONOTONIC ? sxt_sys_host.now_ns()
							      : sxt_tele_clock_counter();
}

/* The longer the writer lives the better its clock is known; it had a millisecond only. */
static void refine_rate(struct sxt_tele_view *view)
{
	struct sxt_tele_header *header = &view->header;
	uint64_t ns = sxt_sys_host.now_ns() - header->made_mono_ns;
	uint64_t ticks = clock_now(view) - header->made_ticks;
	unsigned __int128 rate;

	if (ns < SXT_NS_PER_SEC || ns > INT64_MAX || ticks > INT64_MAX)
		return;
	rate = (unsigned __int128)ticks * SXT_NS_PER_SEC / ns;
	/* Only a namespace that shifts one of the clocks makes more of a difference. */
	if (rate > header->ticks_per_sec - header->ticks_per_sec / 100 &&
	    rate < header->ticks_per_sec + header->ticks_per_sec / 100)
		header->ticks_per_sec = (uint64_t)rate;
}

bool sxt_tele_refresh(struct sxt_tele_view *view)
{
	read_header(view);
	view->is_alive = writer_lives(view);
	if (view->fd < 0)
		return view->is_alive;
	if (view->is_alive && clock_is_here(view)) {
		refine_rate(view);
	} else if (!view->is_still) {
		view->last_ticks = find_last(view);
		view->is_still = !view->is_alive;
	}
	return view->is_alive;
}

static int view_new(const void *base, size_t bytes, struct sxt_tele_view **out)
{
	struct sxt_tele_view *view = calloc(1, sizeof(*view));
	int rc;

	if (view == NULL)
		return -ENOMEM;
	view->base = base;
	view->bytes = bytes;
	view->fd = -1;
	rc = check(view);
	if (rc != 0) {
		free(view);
		return rc;
	}
	*out = view;
	return 0;
}

int sxt_tele_map(const void *bytes, size_t bytes_cnt, uint64_t now_ticks,
		 struct sxt_tele_view **out)
{
	struct sxt_tele_view *view = NULL;
	int rc;

	if ((uintptr_t)bytes % 8 != 0)
		return -EINVAL;
	if (bytes_cnt < sizeof(struct sxt_tele_header))
		return -EPROTO;
	rc = view_new(bytes, bytes_cnt, &view);
	if (rc != 0)
		return rc;
	view->last_ticks = now_ticks;
	sxt_tele_refresh(view);
	*out = view;
	return 0;
}

/* Maps a file as large as it is now: it never becomes smaller, but by its own user's hand. */
static int map_file(int fd, const void **base_out, size_t *bytes_out, uint32_t *uid_out)
{
	struct stat info;
	void *base;

	if (fstat(fd, &info) != 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -EPROTO;
	if ((size_t)info.st_size < sizeof(struct sxt_tele_header))
		return info.st_size == 0 ? -EAGAIN : -EPROTO;
	base = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	*base_out = base;
	*bytes_out = (size_t)info.st_size;
	*uid_out = info.st_uid;
	return 0;
}

int sxt_tele_open(const char *path, struct sxt_tele_view **out)
{
	struct sxt_tele_view *view = NULL;
	const void *base = NULL;
	size_t bytes = 0;
	uint32_t uid = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return errno == EPERM ? -EACCES : -errno;
	rc = map_file(fd, &base, &bytes, &uid);
	if (rc == 0)
		rc = view_new(base, bytes, &view);
	if (rc != 0)
		goto fail;
	view->fd = fd;
	view->uid = uid;
	sxt_tele_refresh(view);
	*out = view;
	return 0;
fail:
	if (base != NULL)
		munmap((void *)base, bytes);
	close(fd);
	return rc;
}

void sxt_tele_close(struct sxt_tele_view *view)
{
	if (view == NULL)
		return;
	if (view->fd >= 0) {
		munmap((void *)view->base, view->bytes);
		close(view->fd);
	}
	free(view);
}

const struct sxt_tele_header *sxt_tele_header(const struct sxt_tele_view *view)
{
	return &view->header;
}

uint32_t sxt_tele_cap(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind)
{
	return (uint32_t)kind < SXT_TELE_SECTIONS ? view->sections[kind].cap : 0;
}

static const void *record_at(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			     uint64_t i)
{
	const struct sxt_tele_section *section = &view->sections[kind];

	return view->base + section->offset + section->stride * i;
}

/* A copy of a whole record, or false where it stays odd or changes all the time. */
static bool record_get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
		       uint32_t i, void *out, size_t bytes)
{
	const uint32_t *sequence;

	if (i >= sxt_tele_cap(view, kind))
		return false;
	sequence = record_at(view, kind, i);
	for (int tried = 0; tried < COPIES_TRIED; tried++) {
		uint32_t before = __atomic_load_n(sequence, __ATOMIC_ACQUIRE);

		sxt_tele_words_get(out, sequence, bytes);
		if (before % 2 == 0 && __atomic_load_n(sequence, __ATOMIC_ACQUIRE) == before)
			return before != 0; /* 0: never written */
		if (!view->is_still)
			sched_yield();
	}
	return false;
}

bool sxt_tele_port_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_port *out)
{
	if (!record_get(view, SXT_TELE_PORTS, i, out, sizeof(*out)))
		return false;
	sxt_tele_text_clean(out->hca, sizeof(out->hca));
	sxt_tele_text_clean(out->reason, sizeof(out->reason));
	sxt_tele_text_clean(out->pci, sizeof(out->pci));
	return out->state != SXT_TELE_PORT_UNUSED;
}

bool sxt_tele_link_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_link *out)
{
	if (!record_get(view, SXT_TELE_LINKS, i, out, sizeof(*out)))
		return false;
	sxt_tele_text_clean(out->nic, sizeof(out->nic));
	sxt_tele_text_clean(out->peer, sizeof(out->peer));
	return out->is_used != 0;
}

bool sxt_tele_conn_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_conn *out)
{
	if (!record_get(view, SXT_TELE_CONNS, i, out, sizeof(*out)))
		return false;
	sxt_tele_text_clean(out->text, sizeof(out->text));
	return out->state != SXT_TELE_CONN_FREE;
}

/* A path's record is in use while the connection that it names also names it. */
bool sxt_tele_path_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_path *out)
{
	struct sxt_tele_conn conn;

	if (!record_get(view, SXT_TELE_PATHS, i, out, sizeof(*out)) ||
	    !sxt_tele_conn_get(view, out->conn, &conn) || i < conn.path_first ||
	    i - conn.path_first >= conn.paths)
		return false;
	sxt_tele_text_clean(out->peer_hca, sizeof(out->peer_hca));
	if (conn.paths == 1) {
		out->messages = conn.counters.messages;
		out->bytes = conn.counters.bytes;
	}
	return true;
}

bool sxt_tele_event_get(const struct sxt_tele_view *view, uint64_t number,
			struct sxt_tele_event *out)
{
	uint32_t cap = sxt_tele_cap(view, SXT_TELE_EVENTS);
	const struct sxt_tele_event *event;
	uint64_t whole = 2 * number + 2;

	if (cap == 0 || number > UINT64_MAX / 2 - 1)
		return false;
	event = record_at(view, SXT_TELE_EVENTS, number % cap);
	if (__atomic_load_n(&event->sequence, __ATOMIC_ACQUIRE) != whole)
		return false;
	sxt_tele_words_get(out, event, sizeof(*out));
	if (__atomic_load_n(&event->sequence, __ATOMIC_ACQUIRE) != whole)
		return false;
	sxt_tele_text_clean(out->text, sizeof(out->text));
	return true;
}

uint64_t sxt_tele_now(const struct sxt_tele_view *view)
{
	if (view->fd >= 0 && view->is_alive && clock_is_here(view))
		return clock_now(view);
	return view->last_ticks;
}

uint64_t sxt_tele_ns(const struct sxt_tele_view *view, uint64_t ticks)
{
	if (ticks > INT64_MAX)
		return 0; /* two processors' clocks differ by some ns */
	return (uint64_t)((unsigned __int128)ticks * SXT_NS_PER_SEC / view->header.ticks_per_sec);
}

uint64_t sxt_tele_wall_ns(const struct sxt_tele_view *view, uint64_t ticks)
{
	const struct sxt_tele_header *header = &view->header;

	if (ticks == 0)
		return 0;
	if (ticks >= header->made_ticks)
		return header->made_wall_ns + sxt_tele_ns(view, ticks - header->made_ticks);
	return header->made_wall_ns - sxt_tele_ns(view, header->made_ticks - ticks);
}
