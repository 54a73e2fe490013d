/*
 * listen.h - listeners: a random token each, on the process's one listening socket.
 */
#ifndef SXT_IB_LISTEN_H
#define SXT_IB_LISTEN_H

#include "core/list.h"
#include "ib/handshake.h"
#include "ib/ib.h"
#include "ib/nic.h"
#include "ib/side.h"

struct sxt_context;
struct sxt_watcher;

/* Offers that wait for accept(); a peer past that is refused. */
#define SXT_OFFERS_MAX 1024

/* A CONNECT that came. */
struct sxt_offer {
	struct sxt_list node;
	struct sxt_side *side; /* reference held */
	uint32_t peer_id;
	struct sxt_wire_memory ring;
	bool has_tuner;
	struct sxt_wire_tuner tuner;
	uint32_t candidates_cnt;
	struct sxt_wire_candidate candidates[SXT_CANDIDATES_MAX];
	struct sxt_eces eces;
	uint32_t paths_cnt;
	struct sxt_wire_path paths[];
};

struct sxt_listener {
	struct sxt_ib *ib;
	struct sxt_context *ctx; /* NULL: a context for each connection */
	struct sxt_nic *nic;
	uint8_t token[SXT_TOKEN_BYTES];
	struct sxt_list node;     /* in the watcher's list, under its lock */
	struct sxt_list ctx_node; /* in the context's list */
	struct sxt_list offers;   /* struct sxt_offer, under the watcher's lock */
	uint32_t offers_cnt;
	struct sxt_attempt *attempt; /* what accept() works on */
};

/**
 * sxt_listener_find() - the listener of a token.
 * @watcher: the watcher; the caller holds its lock. @token: from a peer.
 * Return: the listener or NULL.
 */
struct sxt_listener *sxt_listener_find(const struct sxt_watcher *watcher, const uint8_t *token);

/**
 * sxt_listener_offer() - let a CONNECT wait for accept().
 * @listener: the listener. @side: where it came from. @peer_id: the peer's number.
 * @facts: with paths and ring. Thread: holds the watcher's lock.
 * Return: 0, -ENOBUFS when too many wait, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_listener_offer(struct sxt_listener *listener, struct sxt_side *side,
				      uint32_t peer_id, const struct sxt_frame_facts *facts);

/**
 * sxt_listeners_forget() - drop offers that cannot be accepted any more.
 * @watcher: the watcher; the caller holds its lock. @side: their channel.
 * @peer_id: the peer's number, 0 for all of the channel. Return: how many.
 */
uint32_t sxt_listeners_forget(struct sxt_watcher *watcher, const struct sxt_side *side,
			      uint32_t peer_id);

/**
 * sxt_listeners_know() - does an offer wait already?
 * @watcher: the watcher; the caller holds its lock. @side: its channel. @peer_id: the peer's
 * number. Return: true if so.
 */
bool sxt_listeners_know(const struct sxt_watcher *watcher, const struct sxt_side *side,
			uint32_t peer_id);

#endif
