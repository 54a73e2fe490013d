/*
 * path.h - one queue pair of a connection, from a local port to one of the peer's.
 *
 * A path is tried over one pair of addresses after the other until packets pass both ways.
 */
#ifndef SXT_IB_PATH_H
#define SXT_IB_PATH_H

#include "ib/context.h"
#include "ib/port.h"
#include "ib/wire.h"

#include <stdbool.h>

struct sxt_conn;

enum sxt_path_probe {
	SXT_PROBE_NONE,
	SXT_PROBE_SENT,
	SXT_PROBE_ACKED,
	SXT_PROBE_FAILED
};

struct sxt_path {
	/* Hot, under the owner word: one line. */
	_Alignas(SXT_CACHELINE) struct ibv_qp *qp;
	struct sxt_cq *cq;
	struct ibv_cq *poll; /* of cq */
	uint64_t wr_tail;    /* what every wr_id of it ends in */
	uint32_t lkey;       /* of our own memory on its port: the source of what is not data */
	uint32_t rkey;       /* of the peer's: clear-to-send ring, size records */
	uint32_t sq_used;    /* send end: send-queue entries not proven free */
	uint32_t rq_posted;
	uint16_t cts_posted;   /* receive end: work requests, modulo 2^16 */
	uint16_t cts_signaled; /* cts_posted after the last signaled one */
	uint16_t cts_acked;    /* of cts_posted, proven written */
	uint8_t local_place;   /* of its port in the NIC, so of its key in a registration */
	uint8_t peer_place;    /* of the peer's port in its NIC, so of its key in a clear-to-send */
	bool worked;           /* something was acknowledged or arrived */
	bool drain_seen;
	uint8_t probe; /* enum sxt_path_probe */

	/* Cold. */
	_Alignas(SXT_CACHELINE) struct sxt_port *port;
	uint32_t cq_completions; /* room taken in cq */
	uint32_t inline_bytes;   /* its work requests take as many */
	bool is_joined;
	uint64_t patience_ns;  /* for its probe */
	uint64_t probe_end_ns; /* when that counts as failed */
	struct sxt_port_place local;
	struct sxt_wire_path peer;
	struct ibv_ece ece; /* what our queue pair offers, joined what it has; no vendor: nothing */
	struct ibv_ece peer_ece; /* what the peer's says, the same way */
};
SXT_ASSERT_LINE(struct sxt_path, port);

/**
 * sxt_path_create() - a path's queue pair, in INIT, and its room in a CQ.
 * @conn: its nic, kind and memory are set. @index: which path; fills it but for what the peer says.
 * @place: of the port in the NIC. @local: where that port is reached.
 * Path: slow. Return: 0 or the error of a verb (logged); sxt_path_destroy() is due either way.
 */
SXT_MUST_CHECK int sxt_path_create(struct sxt_conn *conn, uint32_t index, uint32_t place,
				   const struct sxt_port_place *local);

/**
 * sxt_path_move() - take another address of the port, before joining.
 * @conn: its connection. @index: which path. @local: the address.
 */
void sxt_path_move(struct sxt_conn *conn, uint32_t index, const struct sxt_port_place *local);

/**
 * sxt_path_probe() - send a write of no bytes, whose acknowledgement says that packets pass.
 * @conn: its connection, the path joined. @index: which path.
 * Path: slow, waits for the owner word.
 */
void sxt_path_probe(struct sxt_conn *conn, uint32_t index);

/**
 * sxt_path_probed() - take note of what became of a probe.
 * @conn: its connection; the caller holds the owner word. @path: which. @is_acked: it got through.
 */
void sxt_path_probed(struct sxt_conn *conn, struct sxt_path *path, bool is_acked);

/**
 * sxt_path_is_flushed() - can nothing of this path complete any more?
 * @conn: its connection. @path: which. Return: true if so.
 */
bool sxt_path_is_flushed(const struct sxt_conn *conn, const struct sxt_path *path);

/**
 * sxt_path_to_error() - flush a path: everything posted completes, in error if need be.
 * @conn: its connection. @path: which; without a queue pair nothing happens.
 */
void sxt_path_to_error(struct sxt_conn *conn, struct sxt_path *path);

/**
 * sxt_path_discard() - give up a path's queue pair, so that the path can be made anew.
 * @conn: its connection. @index: which path; one without a queue pair is fine.
 * Path: slow, waits for the owner word and, within bounds, for completions.
 * Return: 0, or -EIO when completions are still missing (logged).
 */
SXT_MUST_CHECK int sxt_path_discard(struct sxt_conn *conn, uint32_t index);

/**
 * sxt_path_hear_ece() - keep what the peer's queue pair offers or accepts, for joining.
 * @conn: its connection. @ece: the peer's words; a path that is not there is none of ours.
 */
void sxt_path_hear_ece(struct sxt_conn *conn, const struct sxt_wire_ece *ece);

/**
 * sxt_path_join() - join a path's queue pair with the peer's: to RTR and RTS.
 * @conn: its connection. @index: which path. @peer: the peer's end, kept.
 * Path: slow. Return: 0, -EPROTO if the peer's facts cannot be used, or the error of a verb
 * (logged).
 */
SXT_MUST_CHECK int sxt_path_join(struct sxt_conn *conn, uint32_t index,
				 const struct sxt_wire_path *peer);

/**
 * sxt_path_destroy() - free the queue pair and, when nothing of it can come any more, its room in
 * the CQ.
 * @conn: its connection. @index: which path; half-made ones are fine.
 * @is_empty: no completion of it is left in the CQ.
 */
void sxt_path_destroy(struct sxt_conn *conn, uint32_t index, bool is_empty);

#endif
