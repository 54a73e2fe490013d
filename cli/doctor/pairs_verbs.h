/*
 * pairs_verbs.h - the own end's ports, opened for trying, and one queue pair on one of them.
 */
#ifndef SXT_CLI_DOCTOR_PAIRS_VERBS_H
#define SXT_CLI_DOCTOR_PAIRS_VERBS_H

#include "cli/doctor/pairs.h"

#include "ib/port.h"

struct sxt_pairs_open_port {
	struct sxt_port *port;
	struct sxt_port_address addresses[SXT_CANDIDATES_PER_PORT]; /* as in its sxt_pairs_port */
	struct ibv_mr *mr;                                          /* of memory */
	struct ibv_cq *cq;
};

struct sxt_pairs_verbs {
	struct sxt_ib *ib;
	uint8_t *memory; /* a mark per queue pair, where large writes land, what they are made of */
	uint32_t ports_cnt;
	struct sxt_pairs_open_port ports[SXT_PAIRS_PORTS_MAX];
	uint32_t serial; /* of what is under way; completions of anything earlier are ignored */
};

/* One queue pair, for one pair of ports at one try; zeroed where there is none. */
struct sxt_pairs_qp {
	const struct sxt_pairs_open_port *port;
	struct ibv_qp *qp;
	struct sxt_port_place place;
	uint64_t peer_addr;
	uint32_t peer_rkey;
	bool joined;
	bool ended; /* the probe, one way or the other */
	bool acked;
	uint32_t done_cnt; /* large writes acknowledged */
	char why[192];     /* the first thing that went wrong */
};

/**
 * sxt_pairs_qp_make() - a queue pair on a port's address, to be joined.
 * @verbs: the own end's. @port, @address: numbers. @slot: below SXT_PAIRS_BATCH; its mark is wiped.
 * @out: written; where it has no queue pair, why says so. sxt_pairs_qp_drop() frees it.
 */
void sxt_pairs_qp_make(struct sxt_pairs_verbs *verbs, uint32_t port, uint32_t address,
		       uint32_t slot, struct sxt_pairs_qp *out);

/**
 * sxt_pairs_qp_join() - aim it at the other end's.
 * @verbs: the own end's. @qp: made; joined is set, or why.
 * @peer: queue pair number, PSN and address there. @port: the facts of its port.
 */
void sxt_pairs_qp_join(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qp,
		       const struct sxt_wire_path *peer, const struct sxt_pairs_port *port);

/**
 * sxt_pairs_qp_drop() - free a queue pair.
 * @qp: zeroed afterwards; without one nothing happens.
 */
void sxt_pairs_qp_drop(struct sxt_pairs_qp *qp);

/**
 * sxt_pairs_probe() - a write of a mark, then one of no bytes, on each joined queue pair at once.
 * @verbs: the own end's. @qps, @cnt: by slot. @patience_ns: for all of them; acked is set where the
 * second is acknowledged by then.
 */
void sxt_pairs_probe(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps, uint32_t cnt,
		     uint64_t patience_ns);

/**
 * sxt_pairs_marked() - did the other end's mark arrive?
 * @verbs: the own end's. @slot: which. Return: true if so.
 */
bool sxt_pairs_marked(const struct sxt_pairs_verbs *verbs, uint32_t slot);

/**
 * sxt_pairs_measure() - large writes for a while.
 * @verbs: the own end's. @qps: by slot. @slot: one that was acknowledged. @window_ns: how long.
 * @mbps_out: written, 0 where they do not get through; then the queue pair's why may say more.
 */
void sxt_pairs_measure(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps, uint32_t slot,
		       uint64_t window_ns, uint32_t *mbps_out);

#endif
