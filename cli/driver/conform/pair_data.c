/*
 * pair_data.c - messages on a pair: bytes that tell where they belong, requests and their ends.
 */
#include "cli/driver/conform/pair.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SPOIL 0xa5

/* Eight bytes of a message, by their place; little-endian, as every machine of NCCL's is. */
static uint64_t word_of(uint32_t seed, size_t index)
{
	return ((uint64_t)index + 1) * 0x9e3779b97f4a7c15u + (uint64_t)seed * 0xd1342543de82ef95u;
}

static void write_words(uint8_t *data, size_t bytes, uint32_t seed)
{
	size_t words = bytes / sizeof(uint64_t);
	uint64_t word;

	for (size_t i = 0; i < words; i++) {
		word = word_of(seed, i);
		memcpy(data + i * sizeof(word), &word, sizeof(word));
	}
	word = word_of(seed, words);
	memcpy(data + words * sizeof(word), &word, bytes % sizeof(word));
}

/* Return: index of the first byte that differs, or @bytes. */
static size_t compare_words(const uint8_t *data, size_t bytes, uint32_t seed)
{
	for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		uint64_t word = word_of(seed, at / sizeof(word));
		size_t part = bytes - at < sizeof(word) ? bytes - at : sizeof(word);
		size_t same = 0;

		if (SXT_LIKELY(memcmp(data + at, &word, part) == 0))
			continue;
		while (data[at + same] == ((const uint8_t *)&word)[same])
			same++;
		return at + same;
	}
	return bytes;
}

/* Return: first byte that is no spoil, or @end. */
static const uint8_t *find_touched(const uint8_t *from, const uint8_t *end)
{
	while (from < end && *from == SPOIL)
		from++;
	return from;
}

struct sxt_drv_msg sxt_pair_fill(struct sxt_pair *pair, size_t offset, size_t bytes, uint32_t seed)
{
	struct sxt_drv_msg msg = {.bytes = bytes,
				  .tag = SXT_PAIR_TAG,
				  .mhandle = pair->out.mhandle};

	if (!pair->trial->sends)
		return msg;
	msg.data = pair->out.data + offset;
	write_words(msg.data, bytes, seed);
	return msg;
}

struct sxt_drv_msg sxt_pair_clear(struct sxt_pair *pair, size_t offset, size_t bytes)
{
	struct sxt_drv_msg msg = {.bytes = bytes, .tag = SXT_PAIR_TAG, .mhandle = pair->in.mhandle};

	if (!pair->trial->receives)
		return msg;
	msg.data = pair->in.data + offset;
	memset((uint8_t *)msg.data - SXT_PAIR_GUARD, SPOIL, bytes + 2 * (size_t)SXT_PAIR_GUARD);
	return msg;
}

int sxt_pair_verify(struct sxt_pair *pair, const struct sxt_drv_msg *msg, size_t bytes,
		    uint32_t seed)
{
	const uint8_t *data = msg->data;
	const uint8_t *touched;
	size_t same;

	if (!pair->trial->receives)
		return 0;
	assert(data != NULL);
	same = compare_words(data, bytes, seed);
	if (same < bytes)
		return sxt_trial_fail(pair->trial,
				      "byte %zu of a message of %zu bytes is wrong (0x%02x)", same,
				      bytes, data[same]);
	touched = find_touched(data - SXT_PAIR_GUARD, data);
	if (touched < data)
		return sxt_trial_fail(pair->trial,
				      "a message of %zu bytes wrote %td bytes before its buffer",
				      bytes, data - touched);
	touched = find_touched(data + bytes, data + msg->bytes + SXT_PAIR_GUARD);
	if (touched < data + msg->bytes + SXT_PAIR_GUARD)
		return sxt_trial_fail(pair->trial,
				      "a message of %zu bytes into a buffer of %zu wrote at byte "
				      "%td",
				      bytes, msg->bytes, touched - data);
	return 0;
}

bool sxt_pair_arrived(const struct sxt_drv_msg *msg, size_t bytes, uint32_t seed)
{
	/* The network writes it behind the compiler's back. */
	atomic_thread_fence(memory_order_acquire);
	return compare_words(msg->data, bytes, seed) == bytes;
}

static struct sxt_op *next_op(struct sxt_flow *flow)
{
	return &flow->ops[flow->posted % SXT_PAIR_OPS];
}

int sxt_pair_try_recv(struct sxt_pair *pair, int n, const struct sxt_drv_msg *msgs, void *hint,
		      bool *posted)
{
	struct sxt_op *op = next_op(&pair->recvs);

	*posted = !pair->trial->receives;
	if (*posted)
		return 0;
	*op = (struct sxt_op){.request = hint, .n = n};
	if (SXT_CALL(pair->trial, "irecv",
		     sxt_drv_net_irecv(pair->trial->net, pair->recv_comm, n, msgs, &op->request)) !=
	    0)
		return -EIO;
	if (op->request == NULL)
		return 0;
	if (op->request == NCCL_NET_OPTIONAL_RECV)
		return sxt_trial_fail(pair->trial,
				      "irecv() left the hint 0x1 in *request: no request, not "
				      "NULL");
	pair->recvs.posted++;
	*posted = true;
	return 0;
}

int sxt_pair_try_send(struct sxt_pair *pair, const struct sxt_drv_msg *msg, bool *posted)
{
	struct sxt_op *op = next_op(&pair->sends);

	*posted = !pair->trial->sends;
	if (*posted)
		return 0;
	*op = (struct sxt_op){.n = 1};
	if (SXT_CALL(pair->trial, "isend",
		     sxt_drv_net_isend(pair->trial->net, pair->send_comm, msg, &op->request)) != 0)
		return -EIO;
	if (op->request == NULL)
		return 0;
	pair->sends.posted++;
	*posted = true;
	return 0;
}

/* Tests the oldest request. Return: 0, -EIO noted. */
static int test_oldest(struct sxt_pair *pair, struct sxt_flow *flow, int *done)
{
	struct sxt_trial *trial = pair->trial;
	struct sxt_op *op = &flow->ops[flow->done % SXT_PAIR_OPS];
	const struct sxt_drv_calls *calls = &trial->net->calls;

	*done = 0;
	if (SXT_CALL(trial, "test",
		     calls->test(op->request, done, op->sizeless ? NULL : op->sizes)) != 0)
		return -EIO;
	if (*done == 0)
		return 0;
	flow->done++;
	if (flow == &pair->recvs && calls->consumed != NULL && !pair->keeps_done)
		return SXT_CALL(trial, "irecvConsumed",
				calls->consumed(pair->recv_comm, op->n, op->request));
	return 0;
}

static int poll_flow(struct sxt_pair *pair, struct sxt_flow *flow, int *moved)
{
	int done = 1;

	while (done != 0 && flow->done < flow->posted) {
		if (test_oldest(pair, flow, &done) != 0)
			return -EIO;
		*moved += done != 0;
	}
	return 0;
}

int sxt_pair_poll_sends(struct sxt_pair *pair, int *moved)
{
	return poll_flow(pair, &pair->sends, moved);
}

int sxt_pair_poll_recvs(struct sxt_pair *pair, int *moved)
{
	return poll_flow(pair, &pair->recvs, moved);
}

int sxt_pair_poll(struct sxt_pair *pair, int *moved)
{
	return sxt_pair_poll_recvs(pair, moved) != 0 ? -EIO : sxt_pair_poll_sends(pair, moved);
}

int sxt_pair_recv(struct sxt_pair *pair, int n, const struct sxt_drv_msg *msgs)
{
	bool posted = false;
	int moved = 0;

	for (;;) {
		if (sxt_pair_try_recv(pair, n, msgs, NULL, &posted) != 0)
			return -EIO;
		if (posted)
			return 0;
		if (sxt_pair_poll(pair, &moved) != 0 ||
		    sxt_trial_pause(pair->trial, "irecv() gives no request") != 0)
			return -EIO;
	}
}

int sxt_pair_send(struct sxt_pair *pair, const struct sxt_drv_msg *msg)
{
	bool posted = false;
	int moved = 0;

	for (;;) {
		if (sxt_pair_try_send(pair, msg, &posted) != 0)
			return -EIO;
		if (posted)
			return 0;
		if (sxt_pair_poll(pair, &moved) != 0 ||
		    sxt_trial_pause(pair->trial, "isend() gives no request, its receive is "
						 "posted") != 0)
			return -EIO;
	}
}

int sxt_pair_wait(struct sxt_pair *pair)
{
	char what[128];

	while (pair->sends.done < pair->sends.posted || pair->recvs.done < pair->recvs.posted) {
		int moved = 0;

		if (sxt_pair_poll(pair, &moved) != 0)
			return -EIO;
		if (moved > 0)
			continue;
		snprintf(what, sizeof(what), "%u of %u receives and %u of %u sends are done",
			 pair->recvs.done, pair->recvs.posted, pair->sends.done,
			 pair->sends.posted);
		if (sxt_trial_pause(pair->trial, what) != 0)
			return -EIO;
	}
	return 0;
}

int sxt_pair_told(struct sxt_pair *pair, unsigned int index, int member, size_t bytes)
{
	int told;

	if (!pair->trial->receives)
		return 0;
	told = pair->recvs.ops[index % SXT_PAIR_OPS].sizes[member];
	if (told == (int)bytes)
		return 0;
	return sxt_trial_fail(pair->trial, "test() tells %d bytes of a message of %zu bytes", told,
			      bytes);
}

int sxt_pair_move(struct sxt_pair *pair, size_t offset, size_t room, size_t bytes, uint32_t seed)
{
	struct sxt_drv_msg in = sxt_pair_clear(pair, offset, room);
	struct sxt_drv_msg out = sxt_pair_fill(pair, offset, bytes, seed);
	unsigned int index = pair->recvs.posted;

	if (sxt_pair_recv(pair, 1, &in) != 0 || sxt_trial_sync(pair->trial) != 0 ||
	    sxt_pair_send(pair, &out) != 0 || sxt_pair_wait(pair) != 0 ||
	    sxt_pair_told(pair, index, 0, bytes) != 0)
		return -EIO;
	return sxt_pair_verify(pair, &in, bytes, seed);
}

int sxt_pair_exchange(struct sxt_pair *pair, size_t bytes, uint32_t seed)
{
	return sxt_pair_move(pair, SXT_PAIR_HOME, bytes, bytes, seed);
}

int sxt_pair_live(struct sxt_pair *pair, struct sxt_trial *trial, void *ctx)
{
	sxt_pair_init(pair, trial);
	pair->ctx = ctx;
	if (sxt_pair_listen(pair) != 0 || sxt_pair_meet(pair) != 0 ||
	    sxt_pair_buffers(pair, SXT_PAIR_BYTES) != 0 || sxt_pair_exchange(pair, 4096, 1) != 0)
		return -EIO;
	return sxt_pair_close(pair);
}

int sxt_pair_live_context(struct sxt_pair *pair, struct sxt_trial *trial, uint64_t commid)
{
	void *ctx = NULL;

	if (SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, commid, &ctx)) != 0 ||
	    sxt_pair_live(pair, trial, ctx) != 0)
		return -EIO;
	return SXT_CALL(trial, "finalize", sxt_drv_net_finalize(trial->net, ctx));
}

int sxt_pair_end(struct sxt_pair *pair)
{
	return sxt_pair_close(pair) != 0 ? -EIO : sxt_trial_finalize(pair->trial);
}
