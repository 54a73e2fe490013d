/*
 * rig.h - a small fabric and connected queue pairs for the tests of the verbs engine.
 */
#ifndef SXT_TESTS_SOFT_RIG_H
#define SXT_TESTS_SOFT_RIG_H

#include "ib/soft/engine.h"
#include "ib/soft/objects.h"

#define RIG_BYTES (1u << 20)

/* A failed assertion in a forked child must end the child, not go on with the next test there. */
#define RIG_TEST(test) cmocka_unit_test_setup((test), rig_only_in_parent)

/* One end: a QP with a CQ for each direction, and memory of its own. */
struct rig_end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* of both CQs, NULL without */
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
	uint8_t port_num;
	bool borrows; /* context, PD and send_cq belong to another end */
	size_t bytes;
};

/* What an end is made with; zero means the usual. */
struct rig_options {
	uint32_t send_wr; /* 16 */
	uint32_t recv_wr; /* 16 */
	uint32_t cqe;     /* 64 */
	uint32_t inl;     /* 64 */
	uint8_t port_num; /* 1 */
	bool sig_all;
	bool mapped; /* memory is a memfd */
	bool with_channel;
	bool with_srq;
	bool extended;          /* ibv_wr_* */
	enum ibv_qp_type type;  /* RC */
	struct rig_end *shared; /* whose context, PD and send_cq are used */
};

/* Values of the connection; zero means the usual. */
struct rig_path {
	uint8_t timeout;     /* 1: 8 us a try */
	uint8_t retry_cnt;   /* 1 */
	uint8_t rnr_retry;   /* 0 */
	uint8_t rnr_timer;   /* 1: 10 us */
	unsigned int access; /* all */
};

/* What another process needs to know of an end. */
struct rig_address {
	uint32_t qpn;
	uint8_t port_num;
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
};

/* Two connected ends of this process, and a work request of a's to fill. */
struct rig_pair {
	struct rig_end a;
	struct rig_end b;
	struct rig_address to_b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

/**
 * rig_fabric() - make the state folder: hosts a and b, one HCA each, two RoCE ports each.
 * @state: cmocka's, unused. Return: 0, or -1.
 */
int rig_fabric(void **state);

/**
 * rig_fabric_gone() - leave the fabric and remove the folder.
 * @state: cmocka's, unused. Return: 0.
 */
int rig_fabric_gone(void **state);

/**
 * rig_only_in_parent() - per-test setup: ends a process that is not the one of rig_fabric().
 * @state: cmocka's, unused. Return: 0.
 */
int rig_only_in_parent(void **state);

/**
 * rig_shared() - the fabric as the process sees it; attached first if need be.
 * Return: the fabric.
 */
struct sxt_soft_fabric *rig_shared(void);

/**
 * rig_end_open() - a device, a QP in RESET, and memory of RIG_BYTES registered with all access.
 * @end: filled. @options: NULL for the usual ones.
 */
void rig_end_open(struct rig_end *end, const struct rig_options *options);

/**
 * rig_end_close() - give everything back.
 * @end: from rig_end_open().
 */
void rig_end_close(struct rig_end *end);

/**
 * rig_address_of() - what the other end must know.
 * @end: open. @out: filled.
 */
void rig_address_of(const struct rig_end *end, struct rig_address *out);

/**
 * rig_to_init() - RESET to INIT, asserted to succeed.
 * @end: open. @path: NULL for the usual values.
 */
void rig_to_init(struct rig_end *end, const struct rig_path *path);

/**
 * rig_to_rtr() - INIT to RTR, asserted to succeed.
 * @end: open. @peer: whom to talk to. @path: NULL for the usual values.
 */
void rig_to_rtr(struct rig_end *end, const struct rig_address *peer, const struct rig_path *path);

/**
 * rig_to_rts() - RTR to RTS, asserted to succeed.
 * @end: open. @path: NULL for the usual values.
 */
void rig_to_rts(struct rig_end *end, const struct rig_path *path);

/**
 * rig_connect() - two ends of this process, both in RTS.
 * @a, @b: open. @path: NULL for the usual values.
 */
void rig_connect(struct rig_end *a, struct rig_end *b, const struct rig_path *path);

/**
 * rig_pair_open() - two ends, connected.
 * @pair: filled. @options, @path: NULL for the usual ones.
 */
void rig_pair_open(struct rig_pair *pair, const struct rig_options *options,
		   const struct rig_path *path);

/**
 * rig_pair_close() - give everything back.
 * @pair: from rig_pair_open().
 */
void rig_pair_close(struct rig_pair *pair);

/**
 * rig_pair_wr() - rig_wr() from a to b, into pair->wr.
 * @pair: open. @opcode: which. @bytes: length.
 */
void rig_pair_wr(struct rig_pair *pair, enum ibv_wr_opcode opcode, uint32_t bytes);

/**
 * rig_pair_run() - post pair->wr and wait for its completion.
 * @pair: open. @status: expected.
 */
void rig_pair_run(struct rig_pair *pair, enum ibv_wc_status status);

/**
 * rig_wr() - a work request over the first @bytes of both ends' memory, signaled.
 * @from: poster. @to: target of one-sided operations. @opcode: which. @bytes: length.
 * @sge: storage. @out: filled; wr_id is 7.
 */
void rig_wr(const struct rig_end *from, const struct rig_address *to, enum ibv_wr_opcode opcode,
	    uint32_t bytes, struct ibv_sge *sge, struct ibv_send_wr *out);

/**
 * rig_post() - post one work request.
 * @end: poster. @wr: it. Return: what post_send says.
 */
int rig_post(const struct rig_end *end, struct ibv_send_wr *wr);

/**
 * rig_post_recv() - post one receive over [offset, offset + bytes) of the memory.
 * @end: poster. @wr_id: of the receive. @offset, @bytes: where. Return: what post_recv says.
 */
int rig_post_recv(const struct rig_end *end, uint64_t wr_id, uint64_t offset, uint32_t bytes);

/**
 * rig_poll() - wait for one completion, at most five seconds.
 * @cq: CQ. @out: filled. Fails the test when none comes.
 */
void rig_poll(struct ibv_cq *cq, struct ibv_wc *out);

/**
 * rig_expect() - wait for one completion of a status.
 * @cq: CQ. @wr_id, @status: expected.
 */
void rig_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

/**
 * rig_nothing() - there is no completion now.
 * @cq: CQ.
 */
void rig_nothing(struct ibv_cq *cq);

/**
 * rig_event() - wait for an async event and acknowledge it.
 * @end: whose context. @type: expected.
 */
void rig_event(const struct rig_end *end, enum ibv_event_type type);

#endif
