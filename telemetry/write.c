/*
 * write.c - making and ending this process's segment, ports and events. What the data path
 * writes it writes itself, through the pointers it was given.
 */
#include "telemetry/write.h"

#include "core/log.h"
#include "core/status.h"
#include "telemetry/own.h"
#include "telemetry/record.h"
#include "telemetry/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

_Static_assert((int)SXT_TELE_SECTIONS <=
		       (int)SXT_ARRAY_LEN(((struct sxt_tele_header *)0)->sections),
	       "the header has room for them");

/* How many processes of one user may have the same number and birth in different namespaces. */
#define NAMES_TRIED 16

static uint32_t paths_cap_of(uint32_t conns_cap)
{
	return conns_cap * SXT_TELE_PATHS_PER_CONN;
}

/* Where each section begins and, behind the last one, where the segment ends. */
static uint64_t lay_out(uint32_t conns_cap, struct sxt_tele_section *sections)
{
	const struct sxt_tele_section wanted[SXT_TELE_SECTIONS] = {
		[SXT_TELE_PORTS] = {0, sizeof(struct sxt_tele_port), SXT_TELE_PORTS_CAP},
		[SXT_TELE_LINKS] = {0, sizeof(struct sxt_tele_link), SXT_TELE_LINKS_CAP},
		[SXT_TELE_CONNS] = {0, sizeof(struct sxt_tele_conn), conns_cap},
		[SXT_TELE_PATHS] = {0, sizeof(struct sxt_tele_path), paths_cap_of(conns_cap)},
		[SXT_TELE_COMMS] = {0, sizeof(struct sxt_tele_comm), SXT_TELE_COMMS_CAP},
		[SXT_TELE_EVENTS] = {0, sizeof(struct sxt_tele_event), SXT_TELE_EVENTS_CAP},
		[SXT_TELE_CHOICES] = {0, sizeof(struct sxt_tele_choice), SXT_TELE_CHOICES_CAP},
	};
	uint64_t end = sizeof(struct sxt_tele_header);

	for (size_t i = 0; i < SXT_TELE_SECTIONS; i++) {
		sections[i] = wanted[i];
		sections[i].offset = end;
		end += (uint64_t)wanted[i].stride * wanted[i].cap;
	}
	return end;
}

uint64_t sxt_tele_bytes(uint32_t conns_cap)
{
	struct sxt_tele_section sections[SXT_TELE_SECTIONS];

	return lay_out(conns_cap, sections);
}

bool sxt_tele_has_room(const char *dir, uint64_t bytes, uint64_t *free_out)
{
	struct statvfs room;

	*free_out = UINT64_MAX;
	if (statvfs(dir, &room) != 0 || room.f_blocks == 0)
		return true; /* creating the file says why; a tmpfs may be without limit */
	*free_out = (uint64_t)room.f_bavail * room.f_frsize;
	return bytes <= *free_out / 2;
}

/* Makes the file under the first free name. Return: a descriptor, or a negative errno. */
static int make_file(struct sxt_tele *tele, const char *dir)
{
	uint64_t start_time = sxt_tele_start_time();
	int fd = -1;

	for (uint64_t i = 0; i < NAMES_TRIED; i++) {
		int len = snprintf(tele->path, sizeof(tele->path),
				   "%s/" SXT_TELE_NAME_PREFIX "%u-%u-%" PRIu64, dir,
				   (unsigned)geteuid(), (unsigned)getpid(), start_time + i);

		if (len >= (int)sizeof(tele->path))
			return -ENAMETOOLONG;
		fd = open(tele->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	return fd >= 0 ? fd : -errno;
}

/* The lock is how others know that we live; the blocks are ours before anything is written. */
static int reserve(int fd, uint64_t bytes)
{
	int rc;

	if (fchmod(fd, 0600) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -errno;
	do {
		rc = posix_fallocate(fd, 0, (off_t)bytes);
	} while (rc == EINTR);
	return -rc;
}

static int map_new(struct sxt_tele *tele, const char *dir)
{
	uint64_t free_bytes;
	void *base;
	int rc;

	if (!sxt_tele_has_room(dir, tele->bytes, &free_bytes))
		return -ENOSPC;
	tele->fd = make_file(tele, dir);
	if (tele->fd < 0)
		return tele->fd;
	rc = reserve(tele->fd, tele->bytes);
	if (rc != 0)
		return rc;
	base = mmap(NULL, tele->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, tele->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	tele->header = base;
	return 0;
}

static void *section(const struct sxt_tele *tele, enum sxt_tele_section_kind kind)
{
	return (char *)tele->header + tele->header->sections[kind].offset;
}

static void fill_header(struct sxt_tele *tele, const struct sxt_tele_options *options)
{
	struct sxt_tele_header *header = tele->header;

	sxt_tele_clock_start(&tele->made);
	header->version = SXT_TELE_VERSION;
	header->bytes_of_header = sizeof(*header);
	header->bytes = lay_out(tele->conns_cap, header->sections);
	header->clock = sxt_tele_clock_kind;
	header->ticks_per_sec = tele->made.ticks_per_sec;
	header->made_ticks = tele->made.ticks;
	header->made_mono_ns = tele->made.mono_ns;
	header->made_wall_ns = tele->made.wall_ns;
	sxt_tele_identify(header, options->release);
	header->stall_sec = options->stall_sec;
	header->magic = SXT_TELE_MAGIC;
	tele->ports = section(tele, SXT_TELE_PORTS);
	tele->links = section(tele, SXT_TELE_LINKS);
	tele->conns = section(tele, SXT_TELE_CONNS);
	tele->paths = section(tele, SXT_TELE_PATHS);
	tele->comms = section(tele, SXT_TELE_COMMS);
	tele->events = section(tele, SXT_TELE_EVENTS);
	__atomic_store_n(&header->state, SXT_TELE_LIVE, __ATOMIC_RELEASE);
}

static void warn_off(const struct sxt_tele_options *options, uint64_t bytes, int rc)
{
	uint64_t free_bytes;
	char room[64] = "";

	sxt_tele_has_room(options->dir, bytes, &free_bytes);
	if (free_bytes != UINT64_MAX)
		snprintf(room, sizeof(room), ", %llu bytes are free there",
			 (unsigned long long)free_bytes);
	SXT_LOG(SXT_LOG_WARN,
		"telemetry: a segment of %llu bytes for %u connections cannot be made in %s: "
		"%s%s. Continuing without telemetry; it takes at most half of what is free: make "
		"room or have a writable %s mounted with more, lower "
		"SEXTANT_TELEMETRY_CONNECTIONS, or set SEXTANT_TELEMETRY=0.",
		(unsigned long long)bytes, options->conns_cap, options->dir, sxt_strerror(rc), room,
		options->dir);
}

static void free_parts(struct sxt_tele *tele)
{
	if (tele->header != NULL)
		munmap(tele->header, tele->bytes);
	if (tele->fd >= 0)
		close(tele->fd);
	pthread_mutex_destroy(&tele->lock);
	free(tele->ended_next);
	free(tele->path_is_used);
	free(tele);
}

static struct sxt_tele *new_parts(uint32_t conns_cap)
{
	struct sxt_tele *tele = NULL;

	if (posix_memalign((void **)&tele, SXT_CACHELINE, sizeof(*tele)) != 0)
		return NULL;
	memset(tele, 0, sizeof(*tele));
	tele->fd = -1;
	tele->conns_cap = conns_cap;
	tele->paths_cap = paths_cap_of(conns_cap);
	tele->bytes = sxt_tele_bytes(conns_cap);
	tele->ended_first = SXT_TELE_NONE;
	tele->ended_last = SXT_TELE_NONE;
	sxt_list_init(&tele->node);
	sxt_list_init(&tele->lones);
	pthread_mutex_init(&tele->lock, NULL);
	tele->ended_next = calloc((size_t)conns_cap + 1, sizeof(*tele->ended_next));
	tele->path_is_used = calloc((size_t)tele->paths_cap + 1, 1);
	if (tele->ended_next != NULL && tele->path_is_used != NULL)
		return tele;
	free_parts(tele);
	return NULL;
}

int sxt_tele_create(const struct sxt_tele_options *options, struct sxt_tele **out)
{
	uint32_t conns_cap =
		options->conns_cap < SXT_TELE_CONNS_MAX ? options->conns_cap : SXT_TELE_CONNS_MAX;
	struct sxt_tele *tele = new_parts(conns_cap);
	int rc = -ENOMEM;

	sxt_tele_reap(options->dir, options->keep_sec, sxt_tele_bytes(conns_cap));
	if (tele == NULL)
		goto fail;
	/* A child forked in between would keep the descriptor, and with it the lock. */
	sxt_tele_fork_lock();
	rc = map_new(tele, options->dir);
	if (rc == 0)
		sxt_tele_fork_guard(tele);
	sxt_tele_fork_unlock();
	if (rc != 0)
		goto fail;
	fill_header(tele, options);
	*out = tele;
	return 0;
fail:
	if (tele != NULL && tele->fd >= 0)
		unlink(tele->path);
	if (tele != NULL)
		free_parts(tele);
	warn_off(options, sxt_tele_bytes(conns_cap), rc);
	return rc;
}

void sxt_tele_retire(struct sxt_tele *tele)
{
	struct sxt_tele_header *header;

	if (tele == NULL || tele->is_child)
		return;
	header = tele->header;
	if (__atomic_load_n(&header->state, __ATOMIC_RELAXED) == SXT_TELE_CLOSED)
		return;
	sxt_tele_set64(&header->ticks_per_sec, sxt_tele_clock_rate(&tele->made));
	sxt_tele_set64(&header->closed_wall_ns, sxt_sys_host.wall_ns());
	__atomic_store_n(&header->state, SXT_TELE_CLOSED, __ATOMIC_RELEASE);
	unlink(tele->path);
}

void sxt_tele_destroy(struct sxt_tele *tele)
{
	if (tele == NULL)
		return;
	sxt_tele_retire(tele);
	sxt_tele_fork_lock();
	sxt_tele_fork_forget(tele);
	sxt_tele_fork_unlock();
	free_parts(tele);
}

struct sxt_tele_choice *sxt_tele_choices(struct sxt_tele *tele)
{
	return tele != NULL ? section(tele, SXT_TELE_CHOICES) : NULL;
}

void sxt_tele_note_abi(struct sxt_tele *tele, int abi)
{
	if (tele != NULL)
		sxt_tele_set32(&tele->header->abi, (uint32_t)abi);
}

/* A record that was never used, else the one that ended first, else none. */
static uint32_t find_comm(const struct sxt_tele *tele)
{
	uint32_t found = UINT32_MAX;

	for (uint32_t i = 0; i < SXT_TELE_COMMS_CAP; i++) {
		if (tele->comms[i].is_used == 0)
			return i;
		if (tele->comms[i].ended != 0 &&
		    (found == UINT32_MAX || tele->comms[i].ended < tele->comms[found].ended))
			found = i;
	}
	return found;
}

uint32_t sxt_tele_comm_open(struct sxt_tele *tele, uint64_t id)
{
	struct sxt_tele_comm comm = {.is_used = 1, .id = id};
	uint32_t i;

	if (tele == NULL)
		return UINT32_MAX;
	pthread_mutex_lock(&tele->lock);
	comm.made = sxt_tele_ticks();
	i = find_comm(tele);
	if (i != UINT32_MAX) {
		sxt_tele_record_put(&tele->comms[i], &comm, sizeof(comm));
		sxt_tele_note_used(tele, SXT_TELE_COMMS, i + 1);
	}
	pthread_mutex_unlock(&tele->lock);
	return i;
}

void sxt_tele_comm_end(struct sxt_tele *tele, uint32_t i)
{
	struct sxt_tele_comm comm;

	if (tele == NULL || i >= SXT_TELE_COMMS_CAP)
		return;
	pthread_mutex_lock(&tele->lock);
	comm = tele->comms[i];
	comm.ended = sxt_tele_ticks();
	sxt_tele_record_put(&tele->comms[i], &comm, sizeof(comm));
	pthread_mutex_unlock(&tele->lock);
}

static void tell_port(struct sxt_tele *tele, uint32_t i, const struct sxt_tele_port *port)
{
	static const char *const states[] = {"unused", "down", "up", "left out", "dead"};
	char text[sizeof(((struct sxt_tele_event *)0)->text)];

	snprintf(text, sizeof(text), "%s:%u is %s%s%s", port->hca, port->num,
		 port->state < SXT_ARRAY_LEN(states) ? states[port->state] : "unknown",
		 port->reason[0] != '\0' ? ": " : "", port->reason);
	sxt_tele_event(tele, SXT_TELE_EVENT_PORT, i, text);
}

void sxt_tele_port_set(struct sxt_tele *tele, uint32_t i, const struct sxt_tele_port *port)
{
	struct sxt_tele_port clean;
	uint32_t before;

	if (tele == NULL || i >= SXT_TELE_PORTS_CAP)
		return;
	before = tele->ports[i].state;
	clean = *port;
	sxt_tele_text_clean(clean.hca, sizeof(clean.hca));
	sxt_tele_text_clean(clean.reason, sizeof(clean.reason));
	sxt_tele_text_clean(clean.pci, sizeof(clean.pci));
	memset(clean.reserved, 0, sizeof(clean.reserved));
	sxt_tele_record_put(&tele->ports[i], &clean, sizeof(clean));
	sxt_tele_note_used(tele, SXT_TELE_PORTS, i + 1);
	if (before != port->state)
		tell_port(tele, i, &clean);
}

/*
 * A slot is taken by making its sequence odd. One that is odd already, or newer than the number,
 * belongs to a thread that was overtaken by a whole ring of events, or overtook us: then this
 * event is lost, since waiting is what an event must not do.
 */
void sxt_tele_event(struct sxt_tele *tele, enum sxt_tele_event_kind kind, uint32_t subject,
		    const char *text)
{
	struct sxt_tele_event event;
	struct sxt_tele_event *slot;
	uint64_t number, sequence;

	if (tele == NULL)
		return;
	if (kind == SXT_TELE_EVENT_LINE || kind == SXT_TELE_EVENT_STALL)
		__atomic_fetch_add(&tele->header->warnings, 1, __ATOMIC_RELAXED);
	event.ticks = sxt_tele_ticks();
	event.kind = kind;
	event.subject = subject;
	sxt_tele_text_put(event.text, sizeof(event.text), text);
	number = __atomic_fetch_add(&tele->header->events, 1, __ATOMIC_RELAXED);
	slot = &tele->events[number % SXT_TELE_EVENTS_CAP];
	sequence = __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED);
	if (sequence % 2 != 0 || sequence > 2 * number ||
	    !__atomic_compare_exchange_n(&slot->sequence, &sequence, 2 * number + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	sxt_tele_words_put(slot, &event, offsetof(struct sxt_tele_event, ticks), sizeof(event));
	__atomic_store_n(&slot->sequence, 2 * number + 2, __ATOMIC_RELEASE);
}
