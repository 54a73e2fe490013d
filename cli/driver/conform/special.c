/*
 * special.c - checks of optional receives, of arguments that may be NULL, and of the calls beside
 * the data path.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>
#include <string.h>

#define OPTIONAL_STEPS 1000
#define NULLS_IN_A_ROW 500

static int open_pair(struct sxt_trial *trial, struct sxt_pair *pair)
{
	return sxt_trial_open(trial) != 0 ? -EIO : sxt_pair_open(pair, trial);
}

/* irecv with the hint until it is taken; sends are tested meanwhile. */
static int recv_optional(struct sxt_pair *pair, const struct sxt_drv_msg *room)
{
	bool posted = false;
	int moved = 0;

	for (;;) {
		if (sxt_pair_try_recv(pair, 1, room, NCCL_NET_OPTIONAL_RECV, &posted) != 0)
			return -EIO;
		if (posted)
			return 0;
		if (sxt_pair_poll(pair, &moved) != 0 ||
		    sxt_trial_pause(pair->trial, "irecv() with the hint gives no request") != 0)
			return -EIO;
	}
}

int sxt_check_optional_done(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	for (uint32_t i = 0; i < 100; i++) {
		struct sxt_drv_msg in = sxt_pair_clear(&pair, SXT_PAIR_HOME, 4096);
		struct sxt_drv_msg out = sxt_pair_fill(&pair, SXT_PAIR_HOME, 4096, i);

		if (recv_optional(&pair, &in) != 0 || sxt_trial_sync(trial) != 0 ||
		    sxt_pair_send(&pair, &out) != 0 || sxt_pair_wait(&pair) != 0)
			return -EIO;
		/* The GPU finds the end of the data by itself, maybe after test said done. */
		while (trial->receives && !sxt_pair_arrived(&in, 4096, i)) {
			if (sxt_trial_pause(trial, "the data of an optional receive") != 0)
				return -EIO;
		}
		if (sxt_pair_verify(&pair, &in, 4096, i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

/* The receiver's part of a round. */
static int step_receiver(struct sxt_pair *pair, const struct sxt_drv_msg *room, int *moved)
{
	bool posted = false;

	if (pair->recvs.posted < OPTIONAL_STEPS &&
	    sxt_pair_try_recv(pair, 1, room, NCCL_NET_OPTIONAL_RECV, &posted) != 0)
		return -EIO;
	*moved += posted;
	return sxt_pair_poll_recvs(pair, moved);
}

static int step_sender(struct sxt_pair *pair, const struct sxt_drv_msg *msg, int *moved)
{
	bool posted = false;

	if (pair->sends.posted < OPTIONAL_STEPS && pair->sends.posted < pair->sends.done + 32 &&
	    sxt_pair_try_send(pair, msg, &posted) != 0)
		return -EIO;
	*moved += posted;
	return sxt_pair_poll_sends(pair, moved);
}

/* Both ends, until each has had all its steps done; then it makes no call any more. */
static int step_both(struct sxt_pair *pair, const struct sxt_drv_msg *room,
		     const struct sxt_drv_msg *msg)
{
	struct sxt_trial *trial = pair->trial;

	for (;;) {
		bool received = !trial->receives || pair->recvs.done == OPTIONAL_STEPS;
		bool sent = !trial->sends || pair->sends.done == OPTIONAL_STEPS;
		int moved = 0;

		if (received && sent)
			return 0;
		if ((!received && step_receiver(pair, room, &moved) != 0) ||
		    (!sent && step_sender(pair, msg, &moved) != 0))
			return -EIO;
		if (moved == 0 &&
		    sxt_trial_pause(trial, received ? "sends of 0 bytes, their optional receives "
						      "are all done"
						    : "optional receives of 0 bytes stand still") !=
			    0)
			return -EIO;
	}
}

int sxt_check_optional_idle_sender(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg room;
	struct sxt_drv_msg msg;
	int idle = 0;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	room = sxt_pair_clear(&pair, SXT_PAIR_HOME, 4096);
	msg = sxt_pair_fill(&pair, SXT_PAIR_HOME, 0, 1);
	/* As far as it gets alone: it may run all steps, or say "not now" at some point. */
	while (trial->receives && pair.recvs.done < OPTIONAL_STEPS && idle < NULLS_IN_A_ROW) {
		int moved = 0;

		if (step_receiver(&pair, &room, &moved) != 0)
			return -EIO;
		idle = moved > 0 ? 0 : idle + 1;
	}
	if (sxt_trial_sync(trial) != 0 || step_both(&pair, &room, &msg) != 0 ||
	    sxt_trial_sync(trial) != 0 || sxt_pair_exchange(&pair, 4096, 2) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

/* As the bootstrap calls: no profiler handles, no sizes. */
static int move_bare(struct sxt_pair *pair, uint32_t seed)
{
	struct sxt_trial *trial = pair->trial;
	struct sxt_drv_msg in = sxt_pair_clear(pair, SXT_PAIR_HOME, 4096);
	struct sxt_drv_msg out = sxt_pair_fill(pair, SXT_PAIR_HOME, 4096, seed);
	struct sxt_op *op = &pair->recvs.ops[pair->recvs.posted % SXT_PAIR_OPS];

	*op = (struct sxt_op){.n = 1, .sizeless = true};
	while (trial->receives && op->request == NULL) {
		if (SXT_CALL(trial, "irecv",
			     sxt_drv_net_irecv_bare(trial->net, pair->recv_comm, &in,
						    &op->request)) != 0 ||
		    (op->request == NULL &&
		     sxt_trial_pause(trial, "irecv() gives no request") != 0))
			return -EIO;
	}
	pair->recvs.posted += trial->receives;
	if (sxt_trial_sync(trial) != 0 || sxt_pair_send(pair, &out) != 0)
		return -EIO;
	if (trial->sends)
		pair->sends.ops[(pair->sends.posted - 1) % SXT_PAIR_OPS].sizeless = true;
	if (sxt_pair_wait(pair) != 0)
		return -EIO;
	return sxt_pair_verify(pair, &in, 4096, seed);
}

int sxt_check_oob_null_args(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	for (uint32_t i = 0; i < 40; i++) {
		if (move_bare(&pair, i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

/* What the profiler callback saw; the plugin may call it from any thread. */
static struct {
	atomic_int open; /* started and not stopped */
	atomic_int null_starts;
	atomic_int strange_stops;
	atomic_int strange_types;
} events;

static ncclResult_t count_events(void **ehandle, int type, void *phandle, int64_t plugin,
				 void *data)
{
	static int event; /* its address is what a started event gets */
	bool stops = type == NCCL_PROFILER_STOP || type == NCCL_PROFILER_UPDATE_AND_STOP;

	(void)plugin;
	(void)data;
	if (type == NCCL_PROFILER_START) {
		atomic_fetch_add(&events.null_starts, phandle == NULL);
		atomic_fetch_add(&events.open, 1);
		if (ehandle != NULL)
			*ehandle = &event;
	} else if (!stops && type != NCCL_PROFILER_UPDATE) {
		atomic_fetch_add(&events.strange_types, 1);
	} else if (ehandle == NULL || *ehandle != &event) {
		atomic_fetch_add(&events.strange_stops, 1);
	}
	atomic_fetch_sub(&events.open, stops);
	return ncclSuccess;
}

static int move_profiled(struct sxt_pair *pair, uint32_t seed, void *phandle)
{
	struct sxt_drv_msg in = sxt_pair_clear(pair, SXT_PAIR_HOME, 4096);
	struct sxt_drv_msg out = sxt_pair_fill(pair, SXT_PAIR_HOME, 4096, seed);

	in.phandle = phandle;
	out.phandle = phandle;
	if (sxt_pair_recv(pair, 1, &in) != 0 || sxt_trial_sync(pair->trial) != 0 ||
	    sxt_pair_send(pair, &out) != 0 || sxt_pair_wait(pair) != 0)
		return -EIO;
	return sxt_pair_verify(pair, &in, 4096, seed);
}

int sxt_check_profiler_handles(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static int profiler;

	if (sxt_trial_load(trial) != 0)
		return -EIO;
	trial->net->profiler = count_events;
	if (sxt_trial_init(trial) != 0 || sxt_pair_open(&pair, trial) != 0)
		return -EIO;
	for (uint32_t i = 0; i < 20; i++) {
		if (move_profiled(&pair, i, i % 2 == 0 ? NULL : &profiler) != 0)
			return -EIO;
	}
	if (sxt_pair_close(&pair) != 0)
		return -EIO;
	if (atomic_load(&events.null_starts) > 0)
		return sxt_trial_fail(trial, "%d profiler events were started for a NULL phandle",
				      atomic_load(&events.null_starts));
	if (atomic_load(&events.strange_types) > 0 || atomic_load(&events.strange_stops) > 0)
		return sxt_trial_fail(trial,
				      "%d calls of the profiler with an unknown type, %d for an "
				      "event that was not started",
				      atomic_load(&events.strange_types),
				      atomic_load(&events.strange_stops));
	if (atomic_load(&events.open) != 0)
		return sxt_trial_fail(trial,
				      "%d profiler events are open after all requests are "
				      "done",
				      atomic_load(&events.open));
	return sxt_trial_finalize(trial);
}

/* One flush of what was received, to its end. */
static int flush(struct sxt_pair *pair, void *data, int size)
{
	struct sxt_trial *trial = pair->trial;
	void *request = NULL;
	int done = 0;

	if (SXT_CALL(trial, "iflush",
		     trial->net->calls.iflush(pair->recv_comm, 1, &data, &size, &pair->in.mhandle,
					      &request)) != 0)
		return -EIO;
	while (request != NULL && done == 0) {
		if (SXT_CALL(trial, "test", trial->net->calls.test(request, &done, NULL)) != 0 ||
		    (done == 0 && sxt_trial_pause(trial, "the request of iflush()") != 0))
			return -EIO;
	}
	return 0;
}

int sxt_check_flush_nothing(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	if (trial->net->calls.iflush == NULL)
		return sxt_trial_skip(trial, "iflush is NULL; see table.members");
	for (uint32_t i = 0; i < 40; i++) {
		if (sxt_pair_exchange(&pair, 4096, i) != 0 ||
		    (trial->receives &&
		     flush(&pair, pair.in.data + SXT_PAIR_HOME, i % 2 == 0 ? 4096 : 0) != 0))
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

int sxt_check_consumed_after_done(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	const struct sxt_drv_calls *calls;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	calls = &trial->net->calls;
	if (calls->consumed == NULL)
		return sxt_trial_skip(trial, "irecvConsumed is NULL");
	pair.keeps_done = true;
	/* Each request is given back when the next four are done. */
	for (uint32_t i = 0; i < 100; i++) {
		const struct sxt_op *op;

		if (sxt_pair_exchange(&pair, 4096, i) != 0)
			return -EIO;
		if (!trial->receives || i < 4)
			continue;
		op = &pair.recvs.ops[(i - 4) % SXT_PAIR_OPS];
		if (SXT_CALL(trial, "irecvConsumed",
			     calls->consumed(pair.recv_comm, op->n, op->request)) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

/* Every call that has a way to say "not yet". */
static int say_not_yet(struct sxt_pair *pair)
{
	struct sxt_drv_msg in;
	struct sxt_drv_msg out;
	bool posted = false;
	int moved = 0;

	for (int i = 0; i < 20; i++) {
		if (sxt_pair_poll_accept(pair) != 0)
			return -EIO;
	}
	if (sxt_pair_meet(pair) != 0 || sxt_pair_buffers(pair, SXT_PAIR_BYTES) != 0)
		return -EIO;
	in = sxt_pair_clear(pair, SXT_PAIR_HOME, 4096);
	out = sxt_pair_fill(pair, SXT_PAIR_HOME, 4096, 1);
	for (int i = 0; i < 20 && !posted; i++) {
		if (sxt_pair_try_send(pair, &out, &posted) != 0)
			return -EIO;
	}
	if (sxt_pair_recv(pair, 1, &in) != 0)
		return -EIO;
	for (int i = 0; i < 20 && !posted; i++) {
		if (sxt_pair_poll_recvs(pair, &moved) != 0)
			return -EIO;
	}
	if ((!posted && sxt_pair_send(pair, &out) != 0) || sxt_pair_wait(pair) != 0)
		return -EIO;
	return sxt_pair_exchange(pair, 4096, 2);
}

int sxt_check_result_codes(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	const char *call;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0 || say_not_yet(&pair) != 0 || sxt_pair_end(&pair) != 0)
		return -EIO;
	call = atomic_load(&trial->in_progress);
	return call != NULL ? sxt_trial_fail(trial, "%s() gives ncclInProgress", call) : 0;
}
