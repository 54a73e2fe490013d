/*
 * reader.c - one segment, in a file or in memory. Nothing in it is trusted: where its sections are
 * is checked once and kept, records are copied before they are looked at. Files are read, not
 * mapped: who owns one may cut it short, which under a mapping would end us by SIGBUS.
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
#include <sys/stat.h>
#include <unistd.h>

/* A writer is done within a microsecond, or at its next turn on the processor; a dead one never. */
#define COPIES_TRIED 256

/* What the largest segment of sxt_tele_bytes() is below; a sparse file may pretend to be more. */
#define BYTES_MAX (4ull << 30)

/* Records that are read at once. */
#define RUN_BYTES 16384
#define RUN_MAX   (RUN_BYTES / 64) /* of the smallest record */

struct sxt_tele_view {
	const char *base; /* in memory; NULL of a file */
	size_t bytes;
	int fd; /* of a file, else -1 */
	uint32_t uid;
	bool is_alive;
	bool is_still; /* nothing is written any more: last_ticks was found */
	uint64_t last_ticks;
	struct sxt_tele_header header;
	struct sxt_tele_section sections[SXT_TELE_SECTIONS];
};

/*
 * A copy of bytes, multiples of 8 at multiples of 8. Between two reads of a file the kernel takes
 * hold of its page, which is a full barrier; aligned words it copies whole. Return: false if the
 * file is shorter by now.
 */
static bool bytes_get(const struct sxt_tele_view *view, uint64_t at, void *out, size_t bytes)
{
	size_t have = 0;

	if (view->base != NULL) {
		sxt_tele_words_get(out, view->base + at, bytes);
		return true;
	}
	while (have < bytes) {
		ssize_t got = pread(view->fd, (char *)out + have, bytes - have, (off_t)(at + have));

		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		have += got > 0 ? (size_t)got : 0;
	}
	return true;
}

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

static const size_t record_bytes[SXT_TELE_SECTIONS] = {
	[SXT_TELE_PORTS] = sizeof(struct sxt_tele_port),
	[SXT_TELE_LINKS] = sizeof(struct sxt_tele_link),
	[SXT_TELE_CONNS] = sizeof(struct sxt_tele_conn),
	[SXT_TELE_PATHS] = sizeof(struct sxt_tele_path),
	[SXT_TELE_COMMS] = sizeof(struct sxt_tele_comm),
	[SXT_TELE_EVENTS] = sizeof(struct sxt_tele_event),
	[SXT_TELE_CHOICES] = sizeof(struct sxt_tele_choice),
};

static bool sections_are_sound(const struct sxt_tele_section *sections, uint64_t bytes)
{
	for (size_t i = 0; i < SXT_TELE_SECTIONS; i++) {
		bool may_lack = i == SXT_TELE_CHOICES; /* nobody counts them */

		if (!(may_lack && sections[i].cap == 0) &&
		    !section_is_sound(&sections[i], record_bytes[i], bytes))
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
	struct sxt_tele_header header;
	uint32_t state;

	/* The state is written last; so it is read first. */
	if (!bytes_get(view, 0, &header, sizeof(header)))
		return -EPROTO;
	state = header.state;
	if (!bytes_get(view, 0, &header, sizeof(header)))
		return -EPROTO;
	if (state == SXT_TELE_MAKING && (header.magic == 0 || header.magic == SXT_TELE_MAGIC))
		return -EAGAIN;
	if (header.magic != SXT_TELE_MAGIC)
		return -EPROTO;
	if (header.version != SXT_TELE_VERSION)
		return -EPROTONOSUPPORT;
	if (header.bytes_of_header < sizeof(header) || header.bytes > view->bytes ||
	    header.bytes > BYTES_MAX || header.ticks_per_sec == 0 || state > SXT_TELE_CLOSED ||
	    !sections_are_sound(header.sections, header.bytes))
		return -EPROTO;
	memcpy(view->sections, header.sections, sizeof(view->sections));
	return 0;
}

/* Return: false, and the header stays as it was, when the file is shorter by now. */
static bool read_header(struct sxt_tele_view *view)
{
	struct sxt_tele_header *header = &view->header;
	struct sxt_tele_header now;

	if (!bytes_get(view, 0, &now, sizeof(now)))
		return false;
	*header = now;
	memcpy(header->sections, view->sections, sizeof(view->sections));
	if (header->ticks_per_sec == 0)
		header->ticks_per_sec = SXT_NS_PER_SEC;
	header->uid = view->fd >= 0 ? view->uid : header->uid;
	sxt_tele_text_clean(header->release, sizeof(header->release));
	sxt_tele_text_clean(header->host, sizeof(header->host));
	sxt_tele_text_clean(header->command, sizeof(header->command));
	sxt_tele_text_clean(header->job, sizeof(header->job));
	return true;
}

/* The last moment that anything was stamped with: what is known of the end of a crash. */
static uint64_t find_last(const struct sxt_tele_view *view)
{
	uint64_t last = view->header.made_ticks;
	struct sxt_tele_event event;
	struct sxt_tele_conn conn;
	struct sxt_tele_port port;

#define TAKE_LATER(ticks) (last = (ticks) > last ? (ticks) : last)
	for (uint32_t i = 0; i < sxt_tele_used(view, SXT_TELE_CONNS); i++) {
		if (!sxt_tele_conn_get(view, i, &conn))
			continue;
		TAKE_LATER(conn.opened);
		TAKE_LATER(conn.ended);
		TAKE_LATER(conn.counters.waiting);
		TAKE_LATER(conn.counters.last_start);
		TAKE_LATER(conn.counters.last_done);
	}
	for (uint32_t i = 0; i < sxt_tele_used(view, SXT_TELE_PORTS); i++) {
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
	view->is_alive = read_header(view) && writer_lives(view);
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

/* @base: NULL of a file, @fd: -1 of bytes in memory. */
static int view_new(const void *base, size_t bytes, int fd, struct sxt_tele_view **out)
{
	struct sxt_tele_view *view = calloc(1, sizeof(*view));
	int rc;

	if (view == NULL)
		return -ENOMEM;
	view->base = base;
	view->bytes = bytes;
	view->fd = fd;
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
	rc = view_new(bytes, bytes_cnt, -1, &view);
	if (rc != 0)
		return rc;
	view->last_ticks = now_ticks;
	sxt_tele_refresh(view);
	*out = view;
	return 0;
}

static int open_fd(int fd, struct sxt_tele_view **out)
{
	struct sxt_tele_view *view = NULL;
	struct stat info;
	int rc;

	if (fstat(fd, &info) != 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -EPROTO;
	if ((size_t)info.st_size < sizeof(struct sxt_tele_header))
		return info.st_size == 0 ? -EAGAIN : -EPROTO;
	rc = view_new(NULL, (size_t)info.st_size, fd, &view);
	if (rc != 0)
		return rc;
	view->uid = info.st_uid;
	sxt_tele_refresh(view);
	*out = view;
	return 0;
}

int sxt_tele_open(const char *path, struct sxt_tele_view **out)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return errno == EPERM ? -EACCES : -errno;
	rc = open_fd(fd, out);
	if (rc != 0)
		close(fd);
	return rc;
}

void sxt_tele_close(struct sxt_tele_view *view)
{
	if (view == NULL)
		return;
	if (view->fd >= 0)
		close(view->fd);
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

uint32_t sxt_tele_used(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind)
{
	uint32_t cap = sxt_tele_cap(view, kind);

	if ((uint32_t)kind >= SXT_TELE_EVENTS || view->header.used[kind] > cap)
		return cap;
	return view->header.used[kind];
}

static uint64_t place_of(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			 uint64_t i)
{
	const struct sxt_tele_section *section = &view->sections[kind];

	return section->offset + section->stride * i;
}

/* The bytes from the first of some records to the end of the last one. */
static size_t span_of(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
		      uint32_t cnt)
{
	return (size_t)view->sections[kind].stride * (cnt - 1) + record_bytes[kind];
}

/* The sequences of some records, by one read. */
static bool sequences_get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			  uint32_t first, uint32_t cnt, uint32_t *out)
{
	_Alignas(8) char data[RUN_BYTES];

	if (!bytes_get(view, place_of(view, kind, first), data,
		       cnt == 1 ? sizeof(uint64_t) : span_of(view, kind, cnt)))
		return false;
	for (uint32_t i = 0; i < cnt; i++)
		memcpy(&out[i], data + (size_t)view->sections[kind].stride * i, sizeof(out[i]));
	return true;
}

/*
 * Records that are read together; of more than one the span is at most RUN_BYTES. @sequences: of
 * each, odd if it is not whole: it changed meanwhile, or its writer is in it. Return: false if the
 * file is shorter by now.
 */
static bool run_get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
		    uint32_t first, uint32_t cnt, char *data, uint32_t *sequences)
{
	uint32_t after[RUN_MAX];

	if (!sequences_get(view, kind, first, cnt, sequences) ||
	    !bytes_get(view, place_of(view, kind, first), data, span_of(view, kind, cnt)) ||
	    !sequences_get(view, kind, first, cnt, after))
		return false;
	for (uint32_t i = 0; i < cnt; i++) {
		if (sequences[i] != after[i])
			sequences[i] = 1;
	}
	return true;
}

/* A copy of a whole record, or false where it stays odd or changes all the time. */
static bool record_get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
		       uint32_t i, void *out)
{
	uint32_t sequence;

	if (i >= sxt_tele_cap(view, kind))
		return false;
	for (int tried = 0; tried < COPIES_TRIED; tried++) {
		if (!run_get(view, kind, i, 1, out, &sequence))
			return false;
		if (sequence % 2 == 0)
			return sequence != 0; /* 0: never written */
		if (!view->is_still)
			sched_yield();
	}
	return false;
}

static bool port_is_used(struct sxt_tele_port *port)
{
	sxt_tele_text_clean(port->hca, sizeof(port->hca));
	sxt_tele_text_clean(port->reason, sizeof(port->reason));
	sxt_tele_text_clean(port->pci, sizeof(port->pci));
	return port->state != SXT_TELE_PORT_UNUSED;
}

static bool link_is_used(struct sxt_tele_link *link)
{
	sxt_tele_text_clean(link->nic, sizeof(link->nic));
	sxt_tele_text_clean(link->peer, sizeof(link->peer));
	return link->is_used != 0;
}

static bool conn_is_used(struct sxt_tele_conn *conn)
{
	sxt_tele_text_clean(conn->text, sizeof(conn->text));
	return conn->state != SXT_TELE_CONN_FREE;
}

/*
 * A path's record is in use while the connection that it names also names it. What moves over it
 * is not counted by itself: parts of a message and whole ones go round over all paths.
 */
static bool path_is_used(struct sxt_tele_path *path, uint32_t i, const struct sxt_tele_conn *conn)
{
	if (conn == NULL || i < conn->path_first || i - conn->path_first >= conn->paths)
		return false;
	sxt_tele_text_clean(path->peer_hca, sizeof(path->peer_hca));
	path->messages = conn->counters.messages / conn->paths;
	path->bytes = conn->counters.bytes / conn->paths;
	return true;
}

bool sxt_tele_port_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_port *out)
{
	return record_get(view, SXT_TELE_PORTS, i, out) && port_is_used(out);
}

bool sxt_tele_link_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_link *out)
{
	return record_get(view, SXT_TELE_LINKS, i, out) && link_is_used(out);
}

bool sxt_tele_conn_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_conn *out)
{
	return record_get(view, SXT_TELE_CONNS, i, out) && conn_is_used(out);
}

bool sxt_tele_path_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_path *out)
{
	struct sxt_tele_conn conn;

	return record_get(view, SXT_TELE_PATHS, i, out) &&
	       sxt_tele_conn_get(view, out->conn, &conn) && path_is_used(out, i, &conn);
}

bool sxt_tele_comm_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_comm *out)
{
	return record_get(view, SXT_TELE_COMMS, i, out) && out->is_used != 0;
}

static bool is_used(void *record, enum sxt_tele_section_kind kind, uint32_t i,
		    const struct sxt_tele_records *conns)
{
	struct sxt_tele_path *path = record;

	switch (kind) {
	case SXT_TELE_PORTS:
		return port_is_used(record);
	case SXT_TELE_LINKS:
		return link_is_used(record);
	case SXT_TELE_CONNS:
		return conn_is_used(record);
	case SXT_TELE_COMMS:
		/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it was read */
		return ((const struct sxt_tele_comm *)record)->is_used != 0;
	default:
		return path_is_used(path, i, sxt_tele_record(conns, path->conn));
	}
}

/* Adds those that are in use of some records in a row. Return: false if the file is shorter. */
static bool add_run(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
		    uint32_t first, uint32_t cnt, const struct sxt_tele_records *conns,
		    struct sxt_tele_records *out)
{
	_Alignas(8) char data[RUN_BYTES];
	uint32_t sequences[RUN_MAX];

	if (!run_get(view, kind, first, cnt, data, sequences))
		return false;
	for (uint32_t i = 0; i < cnt; i++) {
		char *record = out->list + out->cnt * out->bytes;
		bool is_whole = sequences[i] % 2 == 0;

		if (is_whole)
			memcpy(record, data + (size_t)view->sections[kind].stride * i, out->bytes);
		else
			is_whole = record_get(view, kind, first + i, record);
		if (is_whole && sequences[i] != 0 && is_used(record, kind, first + i, conns))
			out->at[out->cnt++] = first + i;
	}
	return true;
}

int sxt_tele_records_get(const struct sxt_tele_view *view, enum sxt_tele_section_kind kind,
			 const struct sxt_tele_records *conns, struct sxt_tele_records *out)
{
	struct sxt_tele_records records = {0};
	uint32_t used = sxt_tele_used(view, kind);
	uint32_t each;
	char *fewer;

	if ((uint32_t)kind >= SXT_TELE_EVENTS || (kind == SXT_TELE_PATHS) != (conns != NULL))
		return -EINVAL;
	records.bytes = record_bytes[kind];
	records.list = malloc(used * records.bytes + 1);
	records.at = malloc(used * sizeof(*records.at) + 1);
	if (records.list == NULL || records.at == NULL) {
		sxt_tele_records_fini(&records);
		return -ENOMEM;
	}
	each = view->sections[kind].stride < RUN_BYTES ? RUN_BYTES / view->sections[kind].stride
						       : 1;
	for (uint32_t first = 0; first < used; first += each) {
		if (!add_run(view, kind, first, used - first < each ? used - first : each, conns,
			     &records))
			break;
	}
	/* Room was for all; what was not touched cost nothing, and the rest is given back. */
	fewer = realloc(records.list, records.cnt * records.bytes + 1);
	if (fewer != NULL)
		records.list = fewer;
	*out = records;
	return 0;
}

void sxt_tele_records_fini(struct sxt_tele_records *records)
{
	free(records->list);
	free(records->at);
	*records = (struct sxt_tele_records){0};
}

static int by_index(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a;
	uint32_t right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

const void *sxt_tele_record(const struct sxt_tele_records *records, uint32_t at)
{
	const uint32_t *found = NULL;

	if (at < records->cnt && records->at[at] == at) /* all before it are in use, too */
		return records->list + at * records->bytes;
	if (records->cnt > 0)
		found = bsearch(&at, records->at, records->cnt, sizeof(at), by_index);
	return found != NULL ? records->list + (size_t)(found - records->at) * records->bytes
			     : NULL;
}

bool sxt_tele_event_get(const struct sxt_tele_view *view, uint64_t number,
			struct sxt_tele_event *out)
{
	uint32_t cap = sxt_tele_cap(view, SXT_TELE_EVENTS);
	uint64_t whole = 2 * number + 2;
	uint64_t sequence;
	uint64_t place;

	if (cap == 0 || number > UINT64_MAX / 2 - 1)
		return false;
	place = place_of(view, SXT_TELE_EVENTS, number % cap);
	if (!bytes_get(view, place, &sequence, sizeof(sequence)) || sequence != whole ||
	    !bytes_get(view, place, out, sizeof(*out)) ||
	    !bytes_get(view, place, &sequence, sizeof(sequence)) || sequence != whole)
		return false;
	sxt_tele_text_clean(out->text, sizeof(out->text));
	return true;
}

bool sxt_tele_choice_get(const struct sxt_tele_view *view, uint32_t i, struct sxt_tele_choice *out)
{
	uint64_t calls = 0;

	if (i >= sxt_tele_cap(view, SXT_TELE_CHOICES) ||
	    !bytes_get(view, place_of(view, SXT_TELE_CHOICES, i), out, sizeof(*out)))
		return false;
	for (size_t bucket = 0; bucket < SXT_TELE_SIZE_BUCKETS; bucket++)
		calls |= out->calls[bucket];
	return calls != 0;
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
