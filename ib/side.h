/*
 * side.h - side channels: one TCP connection per pair of processes, on which connections are
 * made, closed in order and reported as failed. Only the watcher reads them; any thread writes.
 *
 * A channel that breaks without a word is suspicious, not dead: the end that dialled dials again,
 * the other waits, and only after SEXTANT_PEER_DEAD_SECONDS do its connections fail.
 */
#ifndef SXT_IB_SIDE_H
#define SXT_IB_SIDE_H

#include "core/list.h"
#include "ib/handshake.h"
#include "ib/wire.h"

#include <stdbool.h>
#include <sys/socket.h>

struct sxt_conn;
struct sxt_watcher;

enum sxt_side_state {
	SXT_SIDE_DIALLING, /* connecting, or to be dialled again at redial_ns */
	SXT_SIDE_GREETING, /* connected, the peer's HELLO has not come */
	SXT_SIDE_UP,
	SXT_SIDE_LOST, /* broken, the peer may dial again */
	SXT_SIDE_DEAD  /* error and why say it; freed with its last reference */
};

/* Bytes that grow to a bound. */
struct sxt_side_bytes {
	uint8_t *data;
	size_t used;
	size_t cap;
};

/* Everything is under the watcher's lock. */
struct sxt_side {
	struct sxt_watcher *watcher;
	struct sxt_list node;
	struct sxt_list conns; /* struct sxt_conn.side_node */
	uint64_t serial;       /* names it in epoll: the memory may be another's by then */
	int fd;                /* -1 while there is none */
	uint8_t state;         /* enum sxt_side_state */
	bool is_dialled;       /* by us */
	bool was_up;
	bool wants_out;       /* EPOLLOUT is armed */
	uint32_t refs;        /* attempts, offers and connections */
	uint32_t incarnation; /* how often it came up */
	int error;
	char why[320];

	uint8_t process[SXT_UUID_BYTES]; /* the peer */
	uint8_t token[SXT_TOKEN_BYTES];  /* of the HELLO that dialled it, names it when resumed */
	struct sockaddr_storage addr;
	socklen_t addr_len;
	char addr_text[72];
	char peer[96]; /* "host:pid", or the address before HELLO */

	uint64_t state_end_ns; /* of dialling or greeting; 0 none */
	uint64_t redial_ns;
	uint64_t dead_ns;            /* given up then; 0 while it is not suspicious */
	uint64_t rx_end_ns;          /* a begun frame must be whole by then; 0 none */
	struct sxt_side_bytes hello; /* goes before tx */
	size_t hello_sent;
	struct sxt_side_bytes tx; /* begins with a whole frame */
	size_t tx_sent;
	struct sxt_side_bytes rx;
};

/**
 * sxt_sides_listen() - have the process's listening socket.
 * @watcher: has a user; listen_addr is filled. Thread: holds the watcher's lock.
 * Return: 0, or the error of a socket call (logged).
 */
SXT_MUST_CHECK int sxt_sides_listen(struct sxt_watcher *watcher);

/**
 * sxt_side_get() - the channel to the process that wrote a handle, dialled if there is none.
 * @watcher: has a user. @handle: the handle. @always_dial: do not share one that exists.
 * @out: set on success with a reference for sxt_side_put(); may not be up yet.
 * Thread: holds the watcher's lock. Return: 0, -ENOMEM, -EBADMSG or the error of a socket call.
 */
SXT_MUST_CHECK int sxt_side_get(struct sxt_watcher *watcher, const struct sxt_wire_handle *handle,
				bool always_dial, struct sxt_side **out);

/**
 * sxt_side_put() - give a reference back.
 * @side: NULL is fine. Thread: holds the watcher's lock.
 */
void sxt_side_put(struct sxt_side *side);

/**
 * sxt_side_attach() - carry a connection's frames; takes a reference and gives it a number.
 * @side: the channel. @conn: on no channel. Thread: holds the watcher's lock.
 */
void sxt_side_attach(struct sxt_side *side, struct sxt_conn *conn);

/**
 * sxt_side_detach() - undo sxt_side_attach().
 * @conn: on no channel is fine. Thread: holds the watcher's lock.
 */
void sxt_side_detach(struct sxt_conn *conn);

/**
 * sxt_side_send() - write a frame, now or as soon as the channel can.
 * @side: not dead, else it is dropped. @frame: copied.
 * Thread: any, holds the watcher's lock. Never waits for the network. A peer that takes nothing
 * until the buffer is full loses its channel.
 */
void sxt_side_send(struct sxt_side *side, const struct sxt_frame_out *frame);

/**
 * sxt_side_note_failed() - note once on a connection that it failed, unless the peer closed it.
 * @conn: whole. @error: negative errno. Thread: holds the watcher's lock.
 */
void sxt_side_note_failed(struct sxt_conn *conn, int error);

/**
 * sxt_side_lost() - the network took the channel: suspicion, or the end of one never up.
 * @side: the channel. @rc: negative errno. @why: what happened.
 * Thread: holds the watcher's lock.
 */
void sxt_side_lost(struct sxt_side *side, int rc, const char *why);

/**
 * sxt_side_kill() - the channel ends for good; its connections are told.
 * @side: the channel. @rc: negative errno. @why: what happened.
 * Thread: holds the watcher's lock.
 */
void sxt_side_kill(struct sxt_side *side, int rc, const char *why);

/**
 * sxt_sides_accept() - take what waits on the listening socket.
 * @watcher: the watcher. Thread: the watcher's, holds its lock.
 */
void sxt_sides_accept(struct sxt_watcher *watcher);

/**
 * sxt_sides_event() - something happened on a channel's socket.
 * @watcher: the watcher. @serial: of the channel; one that is gone is fine. @events: EPOLL*.
 * Thread: the watcher's, holds its lock.
 */
void sxt_sides_event(struct sxt_watcher *watcher, uint64_t serial, uint32_t events);

/**
 * sxt_sides_run_timers() - dial again, give up, free what nobody holds.
 * @watcher: the watcher. @now_ns: now. Thread: the watcher's, holds its lock.
 */
void sxt_sides_run_timers(struct sxt_watcher *watcher, uint64_t now_ns);

/**
 * sxt_sides_next_ns() - when sxt_sides_run_timers() has something to do.
 * @watcher: the watcher. Thread: holds its lock. Return: a time, UINT64_MAX for never.
 */
uint64_t sxt_sides_next_ns(const struct sxt_watcher *watcher);

/**
 * sxt_sides_close_all() - tell every peer that this process ends, close every socket.
 * @watcher: without users and without a thread. Thread: holds its lock.
 */
void sxt_sides_close_all(struct sxt_watcher *watcher);

/**
 * sxt_side_tell_failed() - tell the peer that a connection failed here.
 * @conn: the connection; without a channel nothing happens. @error: negative errno.
 * @text: why, for the peer's log.
 * Thread: any; takes the watcher's lock, never waits for the network. Path: cold.
 */
SXT_COLD void sxt_side_tell_failed(struct sxt_conn *conn, int error, const char *text);

#endif
