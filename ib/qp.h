/*
 * qp.h - the life of one RC queue pair: made in INIT, joined with its peer, moved to ERROR,
 * destroyed.
 */
#ifndef SXT_IB_QP_H
#define SXT_IB_QP_H

#include "ib/port.h"
#include "ib/verbs.h"

/* What a queue pair is made of; the depths and inline bytes granted are written back. */
struct sxt_qp_spec {
	struct ibv_cq *cq; /* of both queues */
	void *user;        /* comes back as qp_context; struct sxt_conn * for async events */
	uint32_t send_depth;
	uint32_t recv_depth;
	uint32_t inline_bytes; /* wished for; less, down to 0, is tried where refused */
};

/**
 * sxt_qp_create() - make a queue pair and move it to INIT.
 * @port: its port. @spec: in and out. @out: set on success; sxt_qp_destroy() frees it.
 * Path: slow. Return: 0, or the error of a verb (logged with what it means).
 */
SXT_MUST_CHECK int sxt_qp_create(const struct sxt_port *port, struct sxt_qp_spec *spec,
				 struct ibv_qp **out);

/* How to reach the peer. */
struct sxt_qp_route {
	const struct sxt_port_place *local; /* from sxt_port_candidates(), with QP number and PSN */
	const struct sxt_wire_path *peer;
	int tclass;            /* 0..255 */
	const char *peer_name; /* for messages */
	/* In: what the peer's provider says. Out: what is agreed on. NULL, no vendor: nothing. */
	struct ibv_ece *ece;
};

/**
 * sxt_qp_query_ece() - what a queue pair's provider offers the peer's.
 * @port: its port. @qp: in INIT. @out: vendor 0 where there is nothing, or the settings
 * want nothing.
 * Path: slow.
 */
void sxt_qp_query_ece(const struct sxt_port *port, struct ibv_qp *qp, struct ibv_ece *out);

/**
 * sxt_qp_join() - from INIT to RTR and RTS, aimed at the peer.
 * @port: its port. @qp: in INIT. @route: the way.
 * Path: slow, may resolve a neighbour. Return: 0, or the error of a verb (logged with what it
 * means and both addresses).
 */
SXT_MUST_CHECK int sxt_qp_join(const struct sxt_port *port, struct ibv_qp *qp,
			       const struct sxt_qp_route *route);

/**
 * sxt_qp_to_error() - flush a queue pair: everything posted completes, in error if need be.
 * @port: its port. @qp: in any state.
 * Return: 0, or the error of the verb (not logged: the caller is giving up anyway).
 */
int sxt_qp_to_error(const struct sxt_port *port, struct ibv_qp *qp);

/**
 * sxt_qp_destroy() - free a queue pair; completions not polled are lost.
 * @port: its port. @qp: NULL is fine. Waits until its async events are acknowledged.
 */
void sxt_qp_destroy(const struct sxt_port *port, struct ibv_qp *qp);

#endif
