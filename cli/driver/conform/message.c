/*
 * message.c - checks of single messages.
 */
#include "cli/driver/conform/pair.h"

#include "core/sys.h"

#include <errno.h>
#include <string.h>

#define IDLE_CALLS 1000

static int open_pair(struct sxt_trial *trial, struct sxt_pair *pair)
{
	return sxt_trial_open(trial) != 0 ? -EIO : sxt_pair_open(pair, trial);
}

int sxt_check_isend_not_now(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg in;
	struct sxt_drv_msg out;
	bool posted = false;

	/* One message before: no receive is posted, but one was. */
	if (open_pair(trial, &pair) != 0 || sxt_pair_exchange(&pair, 4096, 1) != 0)
		return -EIO;
	in = sxt_pair_clear(&pair, SXT_PAIR_HOME, 4096);
	out = sxt_pair_fill(&pair, SXT_PAIR_HOME, 4096, 2);
	/* Transports that send at once may take it. */
	for (int i = 0; i < IDLE_CALLS && !posted; i++) {
		if (sxt_pair_try_send(&pair, &out, &posted) != 0)
			return -EIO;
	}
	if (sxt_trial_sync(trial) != 0 || sxt_pair_recv(&pair, 1, &in) != 0 ||
	    (!posted && sxt_pair_send(&pair, &out) != 0) || sxt_pair_wait(&pair) != 0 ||
	    sxt_pair_verify(&pair, &in, 4096, 2) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_test_not_done(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg in;
	struct sxt_drv_msg out;
	int moved = 0;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	in = sxt_pair_clear(&pair, SXT_PAIR_HOME, 4096);
	out = sxt_pair_fill(&pair, SXT_PAIR_HOME, 4096, 1);
	if (sxt_pair_recv(&pair, 1, &in) != 0)
		return -EIO;
	for (int i = 0; i < IDLE_CALLS; i++) {
		if (sxt_pair_poll_recvs(&pair, &moved) != 0)
			return -EIO;
	}
	if (moved > 0)
		return sxt_trial_fail(trial, "test() says done for a receive nothing was sent to");
	if (sxt_trial_sync(trial) != 0 || sxt_pair_send(&pair, &out) != 0 ||
	    sxt_pair_wait(&pair) != 0 || sxt_pair_verify(&pair, &in, 4096, 1) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_message_zero(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	for (uint32_t i = 0; i < 20; i++) {
		if (sxt_pair_move(&pair, SXT_PAIR_HOME, i % 2 == 0 ? 0 : 4096, 0, i) != 0 ||
		    sxt_pair_exchange(&pair, 4096, i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

int sxt_check_message_shorter(struct sxt_trial *trial)
{
	static const size_t sizes[] = {1, 100, 2048, 4095};
	static struct sxt_pair pair;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	for (size_t i = 0; i < SXT_ARRAY_LEN(sizes); i++) {
		if (sxt_pair_move(&pair, SXT_PAIR_HOME, 4096, sizes[i], (uint32_t)i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

/* One direction's oldest request, which may end with an error. */
static bool has_ended(struct sxt_trial *trial, struct sxt_flow *flow)
{
	int done = 0;

	if (flow->done == flow->posted)
		return true;
	if (SXT_TRY(trial, "test",
		    trial->net->calls.test(flow->ops[0].request, &done, flow->ops[0].sizes)) !=
		    ncclSuccess ||
	    done != 0)
		flow->done++;
	return flow->done == flow->posted;
}

/* Offers a message until it is taken or refused. */
static int offer(struct sxt_pair *pair, const struct sxt_drv_msg *msg, bool *refused)
{
	struct sxt_trial *trial = pair->trial;
	struct sxt_op *op = &pair->sends.ops[0];

	*refused = false;
	do {
		ncclResult_t result =
			SXT_TRY(trial, "isend",
				sxt_drv_net_isend(trial->net, pair->send_comm, msg, &op->request));

		*refused = result != ncclSuccess;
		if (*refused || op->request != NULL)
			break;
		has_ended(trial, &pair->recvs);
	} while (sxt_trial_pause(trial, "isend() of a message that is too large gives no request "
					"and no error") == 0);
	if (!*refused && op->request == NULL)
		return -EIO;
	pair->sends.posted += !*refused;
	return 0;
}

int sxt_check_message_too_large(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	const size_t room = 1000;
	struct sxt_drv_msg in;
	struct sxt_drv_msg out;
	bool refused;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	in = sxt_pair_clear(&pair, SXT_PAIR_HOME, 64 * 1024);
	in.bytes = room;
	out = sxt_pair_fill(&pair, SXT_PAIR_HOME, 5000, 1);
	if (sxt_pair_recv(&pair, 1, &in) != 0 || offer(&pair, &out, &refused) != 0)
		return -EIO;
	/* Once one end has failed the other one may wait for ever: NCCL aborts it. */
	while (!refused && !has_ended(trial, &pair.sends)) {
		has_ended(trial, &pair.recvs);
		if (sxt_trial_pause(trial, "the send of a message that is too large does not "
					   "end") != 0)
			return -EIO;
	}
	for (int i = 0; i < IDLE_CALLS; i++)
		has_ended(trial, &pair.recvs);
	for (size_t i = room; i < 64 * 1024; i++) {
		if (((const uint8_t *)in.data)[i] != ((const uint8_t *)in.data)[64 * 1024])
			return sxt_trial_fail(trial,
					      "5000 bytes into a buffer of %zu wrote its "
					      "byte %zu",
					      room, i);
	}
	return sxt_pair_end(&pair);
}

int sxt_check_message_unaligned(struct sxt_trial *trial)
{
	static const struct {
		size_t from;
		size_t to;
		size_t bytes;
	} moves[] = {{1, 1, 4096}, {3, 0, 4095}, {0, 7, 1}, {63, 65, 70001}, {4097, 129, 255}};
	static struct sxt_pair pair;

	if (open_pair(trial, &pair) != 0)
		return -EIO;
	for (size_t i = 0; i < SXT_ARRAY_LEN(moves); i++) {
		uint32_t seed = (uint32_t)i;
		struct sxt_drv_msg in =
			sxt_pair_clear(&pair, SXT_PAIR_HOME + moves[i].to, moves[i].bytes);
		struct sxt_drv_msg out =
			sxt_pair_fill(&pair, SXT_PAIR_HOME + moves[i].from, moves[i].bytes, seed);

		if (sxt_pair_recv(&pair, 1, &in) != 0 || sxt_trial_sync(trial) != 0 ||
		    sxt_pair_send(&pair, &out) != 0 || sxt_pair_wait(&pair) != 0 ||
		    sxt_pair_verify(&pair, &in, moves[i].bytes, seed) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

int sxt_check_message_sizes(struct sxt_trial *trial)
{
	static const size_t sizes[] = {
		1,
		2,
		7,
		8,
		9,
		63,
		64,
		65,
		127,
		128,
		255,
		256,
		257,
		1023,
		1025,
		4095,
		4096,
		4097,
		65535,
		65536,
		65537,
		99999,
		1 << 20,
		(1 << 20) - 1,
		(4 << 20) + 1,
		16 << 20,
	};
	static struct sxt_pair pair;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0 || sxt_pair_meet(&pair) != 0 ||
	    sxt_pair_buffers(&pair, (16 << 20) + 2 * SXT_PAIR_HOME) != 0)
		return -EIO;
	for (size_t i = 0; i < SXT_ARRAY_LEN(sizes); i++) {
		if (sxt_pair_exchange(&pair, sizes[i], (uint32_t)i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}
