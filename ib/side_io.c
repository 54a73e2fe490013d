/*
 * side_io.c - the bytes of a side channel: buffers, HELLO, frames in and out. Slow path, under
 * the watcher's lock.
 */
#include "ib/side_io.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/agree.h"
#include "ib/attempt.h"
#include "ib/listen.h"
#include "ib/process.h"
#include "ib/watcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TX_BYTES_MAX   (1u << 20)
#define RX_BYTES_MAX   (sizeof(struct sxt_wire_frame) + SXT_FRAME_BYTES_MAX)
#define READS_MAX      16 /* per event, so that one peer does not hold up the rest */
#define READ_BYTES     8192
#define STRANGE_LOG_NS (10 * SXT_NS_PER_SEC)
#define HALF_FRAME_NS  (10 * SXT_NS_PER_SEC)

static const struct sxt_sys *sys_of(const struct sxt_side *side)
{
	return side->watcher->ib->sys;
}

/* Copy bytes behind a buffer's, up to a bound. */
static int append(struct sxt_side_bytes *bytes, const void *data, size_t cnt, size_t max)
{
	size_t cap = bytes->cap != 0 ? bytes->cap : 1024;
	uint8_t *grown;

	if (cnt > max || bytes->used > max - cnt)
		return -ENOBUFS;
	while (cap < bytes->used + cnt)
		cap *= 2;
	if (cap > bytes->cap) {
		grown = realloc(bytes->data, cap);
		if (grown == NULL)
			return -ENOMEM;
		bytes->data = grown;
		bytes->cap = cap;
	}
	memcpy(bytes->data + bytes->used, data, cnt);
	bytes->used += cnt;
	return 0;
}

static void drop_front(struct sxt_side_bytes *bytes, size_t cnt)
{
	bytes->used -= cnt;
	memmove(bytes->data, bytes->data + cnt, bytes->used);
}

static void free_bytes(struct sxt_side_bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct sxt_side_bytes){0};
}

void sxt_side_io_free(struct sxt_side *side)
{
	free_bytes(&side->hello);
	free_bytes(&side->tx);
	free_bytes(&side->rx);
}

void sxt_side_io_reset(struct sxt_side *side)
{
	side->hello.used = 0;
	side->hello_sent = 0;
	side->tx_sent = 0;
	side->rx.used = 0;
	side->rx_end_ns = 0;
}

int sxt_side_io_queue(struct sxt_side *side, const struct sxt_frame_out *frame)
{
	return append(&side->tx, frame->bytes, frame->used, TX_BYTES_MAX);
}

static void own_name(const struct sxt_ib *ib, char out[96])
{
	snprintf(out, 96, "%s:%d", ib->host, (int)ib->pid);
}

static const char *links_of(const struct sxt_ib *ib)
{
	bool has_roce = false;
	bool has_ib = false;

	for (int i = 0; i < ib->ports_cnt; i++) {
		has_roce = has_roce || ib->ports[i]->link_layer == SXT_LINK_ETHERNET;
		has_ib = has_ib || ib->ports[i]->link_layer == SXT_LINK_INFINIBAND;
	}
	if (has_roce && has_ib)
		return "RoCE and InfiniBand";
	return has_roce ? "RoCE" : "InfiniBand";
}

static void own_settings(const struct sxt_ib *ib, char out[SXT_SETTINGS_BYTES])
{
	const struct sxt_agree_own own = {
		.config = ib->config,
		.links = links_of(ib),
		/* Relaxed: it stands for nothing else. */
		.abi = atomic_load_explicit(&ib->abi, memory_order_relaxed),
	};

	sxt_agree_write(&own, out);
}

/* Once per peer process: not on a channel that is back, nor on a second one. */
static bool is_known(const struct sxt_side *side)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &side->watcher->sides) {
		const struct sxt_side *other = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (other->was_up &&
		    memcmp(other->process, side->process, sizeof(side->process)) == 0)
			return true;
	}
	return false;
}

static void tell_differences(const struct sxt_side *side, const struct sxt_frame_facts *facts)
{
	const struct sxt_ib *ib = side->watcher->ib;
	char lines[SXT_SETTINGS_BYTES];
	char name[96];
	const struct sxt_agree_end own = {.name = name, .lines = lines};
	const struct sxt_agree_end peer = {.name = side->peer, .lines = facts->settings};
	struct sxt_agree_line line;
	uint32_t at = 0;

	if (is_known(side))
		return;
	own_name(ib, name);
	own_settings(ib, lines);
	while (sxt_agree_next(&own, &peer, &at, &line))
		SXT_LOG(line.level, "%s", line.text);
}

void sxt_side_io_say_hello(struct sxt_side *side)
{
	const struct sxt_ib *ib = side->watcher->ib;
	char settings[SXT_SETTINGS_BYTES];
	struct sxt_frame_out frame;
	char host[96];

	own_name(ib, host);
	own_settings(ib, settings);
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add(&frame, SXT_TLV_PROCESS, ib->process, sizeof(ib->process));
	if (side->is_dialled)
		sxt_frame_add(&frame, SXT_TLV_TOKEN, side->token, sizeof(side->token));
	sxt_frame_add_text(&frame, SXT_TLV_HOST, host);
	sxt_frame_add_text(&frame, SXT_TLV_RELEASE, SXT_VERSION);
	sxt_frame_add(&frame, SXT_TLV_SETTINGS, settings, strlen(settings));
	side->hello.used = 0;
	side->hello_sent = 0;
	if (append(&side->hello, frame.bytes, frame.used, TX_BYTES_MAX) != 0)
		sxt_side_lost(side, -ENOMEM, "out of memory");
}

/* Return: 0 when all is written or the socket is full, else the negative errno. */
static int write_some(const struct sxt_side *side, const struct sxt_side_bytes *bytes, size_t *sent)
{
	while (*sent < bytes->used) {
		ssize_t put = sys_of(side)->send(side->fd, bytes->data + *sent, bytes->used - *sent,
						 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (put >= 0)
			*sent += (size_t)put;
		else if (errno == EAGAIN)
			return 0;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Drop whole frames that are written, so that tx begins with one when the channel resumes. */
static void drop_written(struct sxt_side *side)
{
	size_t whole = 0;

	while (whole < side->tx_sent) {
		struct sxt_wire_frame header;
		size_t bytes;

		memcpy(&header, side->tx.data + whole, sizeof(header));
		bytes = sizeof(header) + header.length;
		if (whole + bytes > side->tx_sent)
			break;
		whole += bytes;
	}
	if (whole > 0) {
		drop_front(&side->tx, whole);
		side->tx_sent -= whole;
	}
}

void sxt_side_io_flush(struct sxt_side *side)
{
	int rc = write_some(side, &side->hello, &side->hello_sent);
	bool hello_is_out = side->hello_sent == side->hello.used;

	if (rc == 0 && hello_is_out && side->state == SXT_SIDE_UP)
		rc = write_some(side, &side->tx, &side->tx_sent);
	if (rc != 0) {
		sxt_side_lost(side, rc, "writing to it failed");
		return;
	}
	drop_written(side);
	sxt_side_watch(side, !hello_is_out || (side->state == SXT_SIDE_UP && side->tx.used > 0));
}

void sxt_side_io_warn(struct sxt_watcher *watcher, const char *what, const char *why)
{
	uint32_t suppressed = 0;

	if (sxt_log_allow(&watcher->strange_log, watcher->ib->sys->now_ns(), STRANGE_LOG_NS,
			  &suppressed))
		SXT_LOG(SXT_LOG_WARN, "side channel: %s %s; continuing (%u more not shown)", what,
			why, suppressed);
}

/*
 * What came is not what a peer sends. A stranger's socket is closed, nobody else is hurt; on a
 * channel that was up it is the end of the peer, since nothing it says can be trusted.
 */
static void refuse(struct sxt_side *side, const char *why)
{
	char what[128];

	if (!side->was_up && !side->is_dialled) {
		snprintf(what, sizeof(what), "%s connected and is refused:", side->addr_text);
		sxt_side_io_warn(side->watcher, what, why);
	}
	sxt_side_kill(side, -EPROTO, why);
}

/* Tell a stranger why before closing; best effort, one write. */
static void refuse_politely(struct sxt_side *side, int rc, const char *why)
{
	struct sxt_frame_out frame;

	sxt_frame_begin(&frame, SXT_FRAME_REJECT, 0, 0);
	sxt_frame_add_error(&frame, rc, why);
	sxt_ignore(sys_of(side)->send(side->fd, frame.bytes, frame.used,
				      MSG_NOSIGNAL | MSG_DONTWAIT)); /* it is closed anyway */
	refuse(side, why);
}

static void name_peer(struct sxt_side *side, const struct sxt_frame_facts *facts)
{
	if (facts->host[0] != '\0')
		snprintf(side->peer, sizeof(side->peer), "%s", facts->host);
}

/* The answer to our own HELLO. */
static void hello_from_dialled(struct sxt_side *side, const struct sxt_frame_facts *facts)
{
	char why[256];

	if (memcmp(facts->process, side->process, sizeof(side->process)) != 0) {
		snprintf(why, sizeof(why),
			 "another process (%s) answers at %s: the one meant is gone", facts->host,
			 side->addr_text);
		sxt_side_kill(side, -ECONNREFUSED, why);
		return;
	}
	name_peer(side, facts);
	tell_differences(side, facts);
	sxt_side_come_up(side);
}

/* A known peer that dials again names its channel by its process and the token of then. */
static struct sxt_side *find_resumed(const struct sxt_side *fresh,
				     const struct sxt_frame_facts *facts)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &fresh->watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (side != fresh && !side->is_dialled && side->was_up &&
		    side->state != SXT_SIDE_DEAD &&
		    memcmp(side->process, facts->process, sizeof(side->process)) == 0 &&
		    memcmp(side->token, facts->token, sizeof(side->token)) == 0)
			return side;
	}
	return NULL;
}

static void take_all(struct sxt_side *side);

static void hello_from_stranger(struct sxt_side *side, const struct sxt_frame_facts *facts)
{
	struct sxt_side *known = find_resumed(side, facts);
	char why[256];

	if (known == NULL &&
	    (!facts->has_token || sxt_listener_find(side->watcher, facts->token) == NULL)) {
		snprintf(
			why, sizeof(why),
			"%s of Sextant %s came with a token of no listener here: it was closed, or "
			"the handle is another job's",
			facts->host, facts->release);
		refuse_politely(side, -ECONNREFUSED, why);
		return;
	}
	if (known != NULL) {
		sxt_side_adopt(known, side);
		take_all(known);
		return;
	}
	memcpy(side->process, facts->process, sizeof(side->process));
	memcpy(side->token, facts->token, sizeof(side->token));
	name_peer(side, facts);
	tell_differences(side, facts);
	sxt_side_io_say_hello(side);
	if (side->fd >= 0)
		sxt_side_come_up(side);
}

static void take_greeting(struct sxt_side *side, const struct sxt_wire_frame *header,
			  const struct sxt_frame_facts *facts)
{
	char why[400];

	if (side->is_dialled && header->type == SXT_FRAME_REJECT) {
		snprintf(why, sizeof(why), "%s refuses the channel: %s", side->addr_text,
			 facts->text);
		sxt_side_kill(side, -ECONNREFUSED, why);
	} else if (header->type != SXT_FRAME_HELLO || !facts->has_process) {
		snprintf(why, sizeof(why), "its first frame is %s, not HELLO",
			 sxt_frame_type_name(header->type));
		refuse(side, why);
	} else if (side->is_dialled) {
		hello_from_dialled(side, facts);
	} else {
		hello_from_stranger(side, facts);
	}
}

/* Frames about the channel itself carry no connection's number. */
static void take_channel_frame(struct sxt_side *side, const struct sxt_wire_frame *header,
			       const struct sxt_frame_facts *facts)
{
	char why[320];

	if (header->type == SXT_FRAME_CLOSE) {
		sxt_side_kill(side, -ECONNRESET, "the peer process ended its channel");
		return;
	}
	snprintf(why, sizeof(why), "it sent %s for the channel: %s",
		 sxt_frame_type_name(header->type), facts->text);
	refuse(side, why);
}

static void take_frame(struct sxt_side *side, const struct sxt_wire_frame *header,
		       const struct sxt_frame_facts *facts)
{
	if (side->state == SXT_SIDE_GREETING)
		take_greeting(side, header, facts);
	else if (header->conn_to == 0 && header->conn_from == 0)
		take_channel_frame(side, header, facts);
	else
		sxt_frames_take(side, header, facts);
}

/*
 * The first frame in rx, acted on. Return: true if there may be another one; false when more
 * bytes are needed or the channel is no longer what it was.
 */
static bool take_first(struct sxt_side *side)
{
	struct sxt_wire_frame header;
	struct sxt_frame_facts facts;
	char why[256];
	size_t bytes;
	int rc;

	if (side->rx.used < sizeof(header))
		return false;
	rc = sxt_frame_read_header(side->rx.data, &header, why, sizeof(why));
	if (rc == -EPROTO && !side->is_dialled) {
		refuse_politely(side, rc, why);
		return false;
	}
	if (rc != 0) {
		refuse(side, why);
		return false;
	}
	bytes = sizeof(header) + header.length;
	if (side->rx.used < bytes)
		return false;
	rc = sxt_frame_read_records(side->rx.data + sizeof(header), header.length, &facts, why,
				    sizeof(why));
	if (rc != 0) {
		refuse(side, why);
		return false;
	}
	drop_front(&side->rx, bytes);
	side->rx_end_ns = 0;
	take_frame(side, &header, &facts);
	return side->fd >= 0;
}

static void take_all(struct sxt_side *side)
{
	while (take_first(side))
		;
	if (side->fd >= 0 && side->rx.used > 0 && side->rx_end_ns == 0)
		side->rx_end_ns = sys_of(side)->now_ns() + HALF_FRAME_NS;
}

/* Garbage shorter than a header still shows its colours when the stranger hangs up. */
static void ended(struct sxt_side *side, int rc)
{
	char seen[96];
	char why[256];

	if (side->was_up || side->is_dialled || side->rx.used == 0) {
		sxt_side_lost(side, rc == 0 ? -ECONNRESET : rc,
			      rc == 0 ? "the peer closed it" : sxt_strerror(rc));
		return;
	}
	sxt_bytes_text(side->rx.data, side->rx.used, seen, sizeof(seen));
	snprintf(why, sizeof(why), "it hung up after %zu bytes that are no HELLO (%s)",
		 side->rx.used, seen);
	refuse(side, why);
}

void sxt_side_io_read(struct sxt_side *side)
{
	uint8_t buf[READ_BYTES];
	ssize_t got;

	for (int i = 0; i < READS_MAX && side->fd >= 0; i++) {
		size_t room = RX_BYTES_MAX - side->rx.used;

		got = sys_of(side)->recv(side->fd, buf, room < sizeof(buf) ? room : sizeof(buf),
					 MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			ended(side, got == 0 ? 0 : -errno);
			return;
		}
		if (append(&side->rx, buf, (size_t)got, RX_BYTES_MAX) != 0) {
			sxt_side_lost(side, -ENOMEM, "out of memory");
			return;
		}
		take_all(side);
	}
}
