/*
 * attempt.h - a connection while it is being made: a table of steps, one deadline, one destructor.
 * connect.c and listen.c hold the steps of the two ends, frames.c fills the inbox.
 */
#ifndef SXT_IB_ATTEMPT_H
#define SXT_IB_ATTEMPT_H

#include "core/list.h"
#include "ib/handshake.h"
#include "ib/ib.h"
#include "ib/nic.h"
#include "ib/resort.h"
#include "ib/side.h"
#include "ib/wire.h"

struct sxt_attempt;
struct sxt_context;
struct sxt_watcher;

/* One state. The last row of a table has no run. */
struct sxt_step {
	const char *waits_for; /* for the WARN at half the time and for the error at its end */
	/*
	 * Never blocks. 0 goes on to the next step, -EAGAIN stays; anything else ends the attempt
	 * and was logged.
	 */
	int (*run)(struct sxt_attempt *attempt);
};

struct sxt_attempt {
	struct sxt_ib *ib;
	struct sxt_context *ctx; /* NULL until there is one */
	bool owns_ctx;
	struct sxt_listener *listener; /* the accepting end only */
	struct sxt_nic *nic;           /* the one NCCL named, or another as a last resort */
	struct sxt_side *side;         /* reference held */
	struct sxt_conn *conn;
	const struct sxt_step *steps;
	uint32_t step;
	int tclass;
	uint64_t begin_ns;
	bool was_warned;
	struct sxt_list ctx_node; /* in ctx->attempts; the connecting end only */

	/* The connecting end. */
	uint64_t cookie;
	struct sxt_wire_handle handle;
	bool dialled; /* with its own handle: no other channel is left to try */

	/* Inbox, under the watcher's lock. */
	uint32_t incarnation; /* of the channel when our last frame went out */
	bool is_answered;     /* paths and memory are the peer's */
	bool is_ready;        /* the other end has all it waits for */
	bool is_retried;      /* the accepting end: paths are those of a further try */
	uint64_t unproven;    /* paths that fail at the accepting end, a bit each */
	uint32_t tries;       /* the connecting end: all paths' epochs in its last CONNECT */
	int refused;          /* negative errno, 0 while not */
	char refused_text[256];
	uint32_t peer_id;
	struct sxt_wire_memory memory;
	bool has_tuner; /* the accepting end */
	struct sxt_wire_tuner tuner;
	uint32_t paths_cnt;
	uint32_t theirs_cnt;
	uint32_t own_cnt; /* not of the inbox, as own and own_places */
	/* Last, since they are large, and only as many as are counted are ever written. */
	struct sxt_wire_path paths[SXT_PATHS_MAX];
	struct sxt_eces eces; /* of the inbox */
	struct sxt_wire_candidate theirs[SXT_CANDIDATES_MAX];
	struct sxt_wire_candidate own[SXT_CANDIDATES_MAX];
	struct sxt_port_place own_places[SXT_CANDIDATES_MAX];
	struct sxt_resort resort; /* up to its plan cleared at the start */
};

/**
 * sxt_attempt_create() - an attempt that has done nothing yet.
 * @ib: its process. @steps: the table. @nic: the local NIC.
 * @out: set on success; ends by sxt_attempt_poll() or sxt_attempt_destroy().
 * Return: 0, -ENOMEM, or the error of starting the watcher (logged).
 */
SXT_MUST_CHECK int sxt_attempt_create(struct sxt_ib *ib, const struct sxt_step *steps,
				      struct sxt_nic *nic, struct sxt_attempt **out);

/**
 * sxt_attempt_poll() - run steps as far as they go.
 * @attempt: freed unless -EAGAIN comes back. @out: the connection, set on success.
 * Return: 0 when made, -EAGAIN, or why it failed (logged).
 */
SXT_MUST_CHECK int sxt_attempt_poll(struct sxt_attempt *attempt, struct sxt_conn **out);

/**
 * sxt_attempt_destroy() - give up at any point; a peer that knows of it is told.
 * @attempt: NULL is fine. @why: for the peer.
 */
void sxt_attempt_destroy(struct sxt_attempt *attempt, const char *why);

/**
 * sxt_attempt_fail() - log why an attempt fails and tell the peer.
 * @attempt: stays; its poll ends it. @rc: negative errno. @fmt: what happened and what to do.
 * Return: rc.
 */
SXT_COLD int sxt_attempt_fail(struct sxt_attempt *attempt, int rc, const char *fmt, ...)
	SXT_PRINTF(3, 4);

/**
 * sxt_attempt_need_context() - have a context, of the connection's own where the caller has none.
 * @attempt: the attempt. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_attempt_need_context(struct sxt_attempt *attempt);

/**
 * sxt_attempt_make_conn() - make the end, in INIT, unless it is there already.
 * @attempt: has a context. @kind: enum sxt_conn_kind. @paths_cnt: of the connection.
 * Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_attempt_make_conn(struct sxt_attempt *attempt, int kind, uint32_t paths_cnt);

/**
 * sxt_attempt_check_links() - InfiniBand and RoCE cannot be connected.
 * @attempt: with the peer's paths. Return: 0 or -EOPNOTSUPP (logged).
 */
SXT_MUST_CHECK int sxt_attempt_check_links(struct sxt_attempt *attempt);

/**
 * sxt_attempt_check_tuner() - ranks that choose by unlike rules would wait for each other for ever.
 * @attempt: the accepting end, with what the peer said of its tuner.
 * Return: 0, also where the difference is only told, or -EPROTO (logged).
 */
SXT_MUST_CHECK int sxt_attempt_check_tuner(struct sxt_attempt *attempt);

/**
 * sxt_attempt_start_conn() - join the end with the peer's from the inbox.
 * @attempt: answered. Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_attempt_start_conn(struct sxt_attempt *attempt);

/**
 * sxt_attempt_send() - send a frame of the handshake about the end.
 * @attempt: attached to its channel. @type: CONNECT, ACCEPT, READY, PROVEN or
 * UNPROVEN.
 * Thread: holds the watcher's lock.
 */
void sxt_attempt_send(struct sxt_attempt *attempt, uint16_t type);

/**
 * sxt_attempts_drop() - give up what is being connected in a context, close its listeners.
 * @ctx: the context.
 */
void sxt_attempts_drop(struct sxt_context *ctx);

/**
 * sxt_attempts_drop_all() - give up everything that is being connected in a process, close every
 * listener.
 * @ib: the process.
 */
void sxt_attempts_drop_all(struct sxt_ib *ib);

/**
 * sxt_frames_take() - act on a frame about a connection.
 * @side: where it came from. @header, @facts: the frame, its bounds checked.
 * Thread: the watcher's, holds its lock.
 */
void sxt_frames_take(struct sxt_side *side, const struct sxt_wire_frame *header,
		     const struct sxt_frame_facts *facts);

#endif
