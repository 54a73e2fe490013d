/*
 * order.c - checks of many messages on one connection: their order, and how many may be under way.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>

#define STRIDE 4096 /* between messages in the buffers */

static int open_pair(struct sxt_trial *trial, struct sxt_pair *pair)
{
	return sxt_trial_open(trial) != 0 ? -EIO : sxt_pair_open(pair, trial);
}

/* A stream of messages through a ring of slots, as a channel of NCCL's is. */
struct stream {
	struct sxt_pair *pair;
	unsigned int total;
	unsigned int depth; /* slots of each end */
	size_t bytes;
	unsigned int verified;
	struct sxt_drv_msg rooms[32];
};

static size_t slot_of(const struct stream *stream, unsigned int index)
{
	return SXT_PAIR_HOME + (size_t)(index % stream->depth) * STRIDE;
}

static int stream_receive(struct stream *stream, int *moved)
{
	struct sxt_pair *pair = stream->pair;
	struct sxt_flow *flow = &pair->recvs;

	while (flow->posted < stream->total && flow->posted < stream->verified + stream->depth) {
		struct sxt_drv_msg *room = &stream->rooms[flow->posted % stream->depth];
		bool posted = false;

		*room = sxt_pair_clear(pair, slot_of(stream, flow->posted), stream->bytes);
		if (sxt_pair_try_recv(pair, 1, room, NULL, &posted) != 0)
			return -EIO;
		if (!posted)
			break;
		(*moved)++;
	}
	if (sxt_pair_poll_recvs(pair, moved) != 0)
		return -EIO;
	while (stream->verified < flow->done) {
		unsigned int index = stream->verified++;

		if (sxt_pair_verify(pair, &stream->rooms[index % stream->depth], stream->bytes,
				    index) != 0)
			return -EIO;
	}
	return 0;
}

static int stream_send(struct stream *stream, int *moved)
{
	struct sxt_pair *pair = stream->pair;
	struct sxt_flow *flow = &pair->sends;

	while (flow->posted < stream->total && flow->posted < flow->done + stream->depth) {
		struct sxt_drv_msg msg = sxt_pair_fill(pair, slot_of(stream, flow->posted),
						       stream->bytes, flow->posted);
		bool posted = false;

		if (sxt_pair_try_send(pair, &msg, &posted) != 0)
			return -EIO;
		if (!posted)
			break;
		(*moved)++;
	}
	return sxt_pair_poll_sends(pair, moved);
}

static int run_stream(struct stream *stream)
{
	struct sxt_trial *trial = stream->pair->trial;

	for (;;) {
		bool received = !trial->receives || stream->verified == stream->total;
		bool sent = !trial->sends || stream->pair->sends.done == stream->total;
		int moved = 0;

		if (received && sent)
			return 0;
		if ((!received && stream_receive(stream, &moved) != 0) ||
		    (!sent && stream_send(stream, &moved) != 0))
			return -EIO;
		if (moved == 0 && sxt_trial_pause(trial, "a stream of messages stands still") != 0)
			return -EIO;
	}
}

int sxt_check_order_fifo(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct stream stream;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	stream = (struct stream){.pair = &pair, .total = 2000, .depth = 8, .bytes = 1024};
	if (run_stream(&stream) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_order_send_first(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg in;
	struct sxt_drv_msg out;
	bool posted = false;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	in = sxt_pair_clear(&pair, SXT_PAIR_HOME, 16384);
	out = sxt_pair_fill(&pair, SXT_PAIR_HOME, 16384, 1);
	for (int i = 0; i < 50 && !posted; i++) {
		if (sxt_pair_try_send(&pair, &out, &posted) != 0)
			return -EIO;
	}
	if (sxt_trial_sync(trial) != 0 || sxt_pair_recv(&pair, 1, &in) != 0 ||
	    (!posted && sxt_pair_send(&pair, &out) != 0) || sxt_pair_wait(&pair) != 0 ||
	    sxt_pair_verify(&pair, &in, 16384, 1) != 0 || sxt_pair_exchange(&pair, 4096, 2) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_order_one_by_one(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct stream stream;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	stream = (struct stream){.pair = &pair, .total = 1000, .depth = 1, .bytes = 1024};
	if (run_stream(&stream) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

/* What is posted before the first test that could free a request. */
static int post_all(struct sxt_pair *pair, unsigned int cnt, struct sxt_drv_msg *rooms)
{
	int moved = 0;

	for (unsigned int i = 0; i < cnt; i++) {
		bool posted = false;

		rooms[i] = sxt_pair_clear(pair, SXT_PAIR_HOME + i * (size_t)STRIDE, 2048);
		if (sxt_pair_try_recv(pair, 1, &rooms[i], NULL, &posted) != 0)
			return -EIO;
		if (!posted)
			return sxt_trial_fail(pair->trial,
					      "irecv() gives no request with %u of "
					      "%u outstanding",
					      i, cnt);
	}
	if (sxt_trial_sync(pair->trial) != 0)
		return -EIO;
	for (unsigned int i = 0; i < cnt; i++) {
		struct sxt_drv_msg msg =
			sxt_pair_fill(pair, SXT_PAIR_HOME + i * (size_t)STRIDE, 2048, i);
		bool posted = false;

		/* No send is tested; receives may have to be, for their side to move. */
		while (!posted) {
			if (sxt_pair_try_send(pair, &msg, &posted) != 0 ||
			    (!posted &&
			     (sxt_pair_poll_recvs(pair, &moved) != 0 ||
			      sxt_trial_pause(pair->trial, "isend() gives no request with fewer "
							   "outstanding than receives") != 0)))
				return -EIO;
		}
	}
	return 0;
}

int sxt_check_inflight_32(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg rooms[NCCL_NET_MAX_REQUESTS];
	/* The header of v6 promised fewer. */
	unsigned int cnt =
		trial->target->abi == 6 ? NCCL_NET_MAX_REQUESTS_V6 : NCCL_NET_MAX_REQUESTS;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	for (int round = 0; round < 3; round++) {
		if (post_all(&pair, cnt, rooms) != 0 || sxt_pair_wait(&pair) != 0)
			return -EIO;
		for (uint32_t i = 0; i < cnt; i++) {
			if (sxt_pair_verify(&pair, &rooms[i], 2048, i) != 0)
				return -EIO;
		}
		if (sxt_trial_sync(trial) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}
