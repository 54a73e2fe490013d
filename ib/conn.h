/*
 * conn.h - one connection: what both ends share, and how connecting, the data path and the
 * watcher meet in it. The ends themselves are in send.c and recv.c.
 */
#ifndef SXT_IB_CONN_H
#define SXT_IB_CONN_H

#include "core/list.h"
#include "ib/context.h"
#include "ib/ib.h"
#include "ib/nic.h"
#include "ib/path.h"
#include "ib/wire.h"

#include <stdatomic.h>
#include <stdbool.h>

struct sxt_attempt;
struct sxt_measure;
struct sxt_side;

/* Writes that one message may be cut into: each takes a bit of the receiver's count. */
#define SXT_CONN_CHUNKS_MAX 64u

/**
 * sxt_conn_stripe_bytes() - how much makes another path worth its work requests.
 * @chunk_log2: of the largest write. Return: 16 KiB, or less where writes are smaller.
 */
static inline uint32_t sxt_conn_stripe_bytes(uint32_t chunk_log2)
{
	return chunk_log2 < 14 ? 1u << chunk_log2 : 1u << 14;
}
/* A write's length is 32 bits, and HCAs stop at 2^30 or 2^31 bytes. */
#define SXT_CONN_CHUNK_LOG2_MAX 30u

/**
 * sxt_conn_message_max() - the largest message a port carries.
 * @max_message_log2: the port's largest write, as struct sxt_wire_path tells it.
 * Return: bytes.
 */
static inline uint64_t sxt_conn_message_max(uint32_t max_message_log2)
{
	if (max_message_log2 > SXT_CONN_CHUNK_LOG2_MAX)
		max_message_log2 = SXT_CONN_CHUNK_LOG2_MAX;
	return (uint64_t)SXT_CONN_CHUNKS_MAX << max_message_log2;
}

enum sxt_conn_kind {
	SXT_CONN_SEND,
	SXT_CONN_RECV
};

/* How the other side of the notes sees it: the first end counts, later ones are not noted. */
enum sxt_conn_end {
	SXT_CONN_LIVES,
	SXT_CONN_PEER_CLOSED,
	SXT_CONN_NOTED_FAILED
};

/* Notes left for the data path by other threads; taken under the owner word. */
#define SXT_NOTE_PEER_CLOSED 0x1u /* peer_progress is valid */
#define SXT_NOTE_FAILED      0x2u /* note_error is valid: peer said FAIL, peer dead, QP fatal */

/*
 * A completion error that the peer's own words may still explain. An error of which the peer is
 * the likely cause is not reported before its CLOSE or FAIL had time to come over the side
 * channel: a queue pair goes away faster than a frame travels.
 */
struct sxt_conn_fault {
	uint64_t report_ns; /* reported when no word came by then */
	uint64_t bytes;     /* of the request */
	uint32_t tag;
	uint32_t vendor;
	uint8_t status; /* enum ibv_wc_status */
	uint8_t wr_kind;
	uint8_t path;
	bool worked;        /* something was acknowledged or arrived before */
	uint32_t flush_cnt; /* flushed after it, or before any cause was seen */
};

/*
 * First member of both ends, so that NCCL's comm pointer is one of these whatever the end.
 *
 * error is sticky: the first one is logged with its cause and every later call returns it.
 */
struct sxt_conn {
	/* Hot, under the owner word (free_requests: by the one thread that drives this end). */
	struct sxt_context *ctx;
	struct sxt_path *paths; /* paths_cnt of them */
	struct sxt_cq **cqs;    /* of the paths, each once; cqs_cnt of them */
	uint64_t wr_tail;       /* slot, and which use of it, as every wr_id carries them */
	struct sxt_request *free_requests;
	int error;     /* 0 or negative errno */
	uint16_t slot; /* in ctx->conns */
	uint8_t paths_cnt;
	uint8_t poll_next; /* in cqs, where requests are not expected */
	uint8_t kind;      /* enum sxt_conn_kind; the data path compares several of these at once */
	uint8_t attention; /* error, peer_closed or suspect is set */
	uint8_t cqs_cnt;   /* as above */
	uint8_t is_gathering; /* members of the oldest group are told together */
	uint8_t peer_closed;  /* the peer's orderly end was taken from the notes */
	uint8_t suspect;      /* fault is valid and not reported yet */
	uint8_t is_making;    /* its paths are being tried: completions in error are no fault */
	struct sxt_measure *measure; /* telemetry; NULL without */

	/* Written by the watcher, read by the data path when ctx->mailbox says so. */
	_Alignas(SXT_CACHELINE) _Atomic uint32_t notes;
	int note_error;
	struct sxt_wire_progress peer_progress;

	/* Cold. */
	_Alignas(SXT_CACHELINE) struct sxt_nic *nic;
	struct sxt_side *side;     /* reference held; NULL before the channel exists */
	uint32_t id;               /* our number of it on the side channel, unique in the process */
	uint32_t peer_id;          /* the peer's, 0 until known */
	int tclass;                /* 0..255, set before sxt_conn_start() */
	struct sxt_list side_node; /* in the side channel's connections */
	struct sxt_attempt *attempt; /* connect.c's state while it is being made, else NULL */
	uint8_t ended;               /* enum sxt_conn_end, under the watcher's lock */
	bool has_slot;
	struct sxt_conn_fault fault;
	char peer_name[96]; /* "host:pid hca", for messages */
};
SXT_ASSERT_LINE(struct sxt_conn, notes);
SXT_ASSERT_LINE(struct sxt_conn, nic);

/**
 * sxt_conn_label() - the local NIC, for messages.
 * @conn: the connection. Return: "mlx5_0", "mlx5_0+mlx5_1".
 */
static inline const char *sxt_conn_label(const struct sxt_conn *conn)
{
	return conn->nic->label;
}

/**
 * sxt_conn_paths_cnt() - how many paths a connection gets: what the sending side's settings say.
 * @nic: the local NIC; told once when the settings ask for too many.
 * @peer_ports_cnt: ports of the peer's, 1..SXT_PORTS_MAX.
 * Return: 1..SXT_PATHS_MAX, at least one per port of either side.
 */
uint32_t sxt_conn_paths_cnt(struct sxt_nic *nic, uint32_t peer_ports_cnt);

/**
 * sxt_conn_create() - an end with its memory and its slot, without any queue pair.
 * @ctx: its context. @nic: the local NIC. @kind: which end. @paths_cnt: 1..SXT_PATHS_MAX.
 * @out: set on success; side_node is alone, is_making is set; sxt_conn_close() or
 * sxt_conn_destroy() frees it.
 * Path: slow, registers memory. Return: 0, -ENOMEM or the error of a verb (logged).
 */
SXT_MUST_CHECK int sxt_conn_create(struct sxt_context *ctx, struct sxt_nic *nic,
				   enum sxt_conn_kind kind, uint32_t paths_cnt,
				   struct sxt_conn **out);

/**
 * sxt_conn_move() - put an end that is being made on another NIC: its paths are given up, its
 * memory is made anew.
 * @conn: from sxt_conn_create(). @nic: the NIC; conn->nic also after a failure.
 * Path: slow. Return: as sxt_conn_create(), or as sxt_path_discard().
 */
SXT_MUST_CHECK int sxt_conn_move(struct sxt_conn *conn, struct sxt_nic *nic);

/**
 * sxt_conn_memory() - the memory of ours that the peer writes: a send end's clear-to-send ring, a
 * receive end's size records.
 * @conn: either end. @out: filled.
 */
void sxt_conn_memory(const struct sxt_conn *conn, struct sxt_wire_memory *out);

/**
 * sxt_conn_start() - join the queue pairs that are not yet: to RTR and RTS, receives posted.
 * @conn: every path is made. @peers: the peer's ends, one per path. @memory: the peer's ring or
 * size records.
 * Path: slow. Return: 0, -EPROTO if the peer's facts cannot be used, or the error of a verb
 * (logged).
 */
SXT_MUST_CHECK int sxt_conn_start(struct sxt_conn *conn, const struct sxt_wire_path *peers,
				  const struct sxt_wire_memory *memory);

/**
 * sxt_conn_made() - the end is whole: from here on completions in error are faults.
 * @conn: started. Waits for the owner word.
 */
void sxt_conn_made(struct sxt_conn *conn);

/**
 * sxt_conn_progress_get() - how far this end got, for the CLOSE frame.
 * @conn: either end; the caller holds the owner word. @out: filled.
 */
void sxt_conn_progress_get(const struct sxt_conn *conn, struct sxt_wire_progress *out);

/**
 * sxt_conn_destroy() - free an end: queue pair to ERROR, its completions drained within a bounded
 * time, all memory back. Tells the peer nothing: that is sxt_conn_close().
 * @conn: NULL and half-made ones are fine. Waits for the owner word.
 */
void sxt_conn_destroy(struct sxt_conn *conn);

/**
 * sxt_conn_note() - leave a note for the data path from another thread.
 * @conn: the connection; note_error or peer_progress were written before for the bits given.
 * @notes: SXT_NOTE_* bits.
 */
void sxt_conn_note(struct sxt_conn *conn, uint32_t notes);

/**
 * sxt_context_read_notes() - act on the notes of every connection of a context.
 * @ctx: its mailbox was seen set; the caller holds the owner word. Clears the mailbox.
 */
SXT_COLD void sxt_context_read_notes(struct sxt_context *ctx);

#endif
