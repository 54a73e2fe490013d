/*
 * verbs.h - a verbs library in one process for tests: RC queue pairs joined by their numbers,
 * posting and polling through ibv_context.ops, needs no libibverbs. Both ends live in one process
 * and writes are delivered when posted, or when the test says so.
 *
 * It is strict where real HCAs are: work queues and completion queues that overflow, keys, bounds,
 * access, states. Non-inline payload is read when delivered, so reuse before that shows.
 */
#ifndef SXT_TESTS_FAKE_VERBS_H
#define SXT_TESTS_FAKE_VERBS_H

#include "ib/verbs.h"

#include <stdbool.h>

/* What the fake machine is like; read when a device is opened or a queue pair made. */
struct sxt_fake_config {
	int devices_cnt;
	uint32_t inline_bytes; /* granted at most */
	uint32_t max_msg_bytes;
	int max_cqe;
};

/* What was done to it since sxt_fake_reset(). */
struct sxt_fake_counts {
	uint64_t send_wrs;
	uint64_t send_wrs_signaled;
	uint64_t send_wrs_inline;
	uint64_t send_calls; /* doorbells */
	uint64_t recv_wrs;
	uint64_t recv_calls;
	uint64_t completions; /* put into a CQ */
	uint64_t polls;
	uint64_t rnr_naks;     /* an immediate met an empty receive queue */
	uint64_t sq_overflows; /* posts refused for want of room */
	uint64_t rq_overflows;
	uint64_t cq_overruns; /* completions lost */
};

/**
 * sxt_fake_reset() - a new machine: nothing may be alive of the old one.
 * @config: copied. Return: how many objects (queue pairs, CQs, registrations, domains, contexts)
 * of the old one were still alive.
 */
int sxt_fake_reset(const struct sxt_fake_config *config);

/**
 * sxt_fake_alive() - how many objects are alive; the old machine's goes on.
 * Return: the count of sxt_fake_reset().
 */
int sxt_fake_alive(void);

/**
 * sxt_fake_verbs() - the library.
 * Return: its table, valid for the life of the process.
 */
const struct sxt_verbs *sxt_fake_verbs(void);

/**
 * sxt_fake_counts() - what was done so far.
 * Return: a copy of the counters.
 */
struct sxt_fake_counts sxt_fake_counts(void);

/**
 * sxt_fake_hold() - keep what a queue pair posts from being delivered, or let all of it go.
 * @qp: whose sends. @hold: which.
 */
void sxt_fake_hold(struct ibv_qp *qp, bool hold);

/**
 * sxt_fake_hold_acks() - deliver, but keep the sender's completions back, or let them go.
 * @qp: whose sends. @hold: which.
 */
void sxt_fake_hold_acks(struct ibv_qp *qp, bool hold);

/**
 * sxt_fake_deliver() - let some of what is held go.
 * @qp: whose sends. @cnt: work requests at most. Return: how many were delivered.
 */
int sxt_fake_deliver(struct ibv_qp *qp, int cnt);

/**
 * sxt_fake_fail_next() - the next work request to be delivered ends in error, and with it the
 * queue pair.
 * @qp: whose sends. @status, @vendor: what its completion says.
 */
void sxt_fake_fail_next(struct ibv_qp *qp, enum ibv_wc_status status, uint32_t vendor);

/**
 * sxt_fake_refuse_post() - ibv_post_send() answers an error from now on.
 * @qp: whose sends. @rc: errno, 0 to take them again.
 */
void sxt_fake_refuse_post(struct ibv_qp *qp, int rc);

/**
 * sxt_fake_break_qp() - the queue pair goes to ERROR by itself and flushes.
 * @qp: which.
 */
void sxt_fake_break_qp(struct ibv_qp *qp);

/**
 * sxt_fake_push() - put a completion of the test's making into a CQ.
 * @cq: where. @wc: copied.
 */
void sxt_fake_push(struct ibv_cq *cq, const struct ibv_wc *wc);

#endif
