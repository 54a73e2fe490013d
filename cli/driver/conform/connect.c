/*
 * connect.c - checks of how connections are made.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>
#include <string.h>

#define EARLY_POLLS 200
#define CANARY      0xc3
#define MARGIN      256

/* The handle's memory with something on either side. */
struct framed_handle {
	uint8_t before[MARGIN];
	_Alignas(16) uint8_t handle[NCCL_NET_HANDLE_BYTES];
	uint8_t after[MARGIN];
};

static int listen_framed(struct sxt_trial *trial, struct framed_handle *framed, void **comm)
{
	memset(framed, CANARY, sizeof(*framed));
	if (SXT_CALL(trial, "listen",
		     sxt_drv_net_listen(trial->net, trial->ctx, trial->dev, framed->handle,
					comm)) != 0)
		return -EIO;
	if (*comm == NULL)
		return sxt_trial_fail(trial, "listen() gives success and no listen comm");
	for (size_t i = 0; i < MARGIN; i++) {
		if (framed->before[i] != CANARY)
			return sxt_trial_fail(trial, "listen() wrote %zu bytes before its handle",
					      MARGIN - i);
		if (framed->after[i] != CANARY)
			return sxt_trial_fail(trial, "listen() wrote at byte %zu of its handle",
					      NCCL_NET_HANDLE_BYTES + i);
	}
	return 0;
}

int sxt_check_listen_handle(struct sxt_trial *trial)
{
	static struct framed_handle handles[2];
	void *comms[2] = {NULL};

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	for (int i = 0; i < 2; i++) {
		if (listen_framed(trial, &handles[i], &comms[i]) != 0)
			return -EIO;
	}
	if (memcmp(handles[0].handle, handles[1].handle, NCCL_NET_HANDLE_BYTES) == 0)
		return sxt_trial_fail(trial, "two open listen comms have the same handle");
	for (int i = 0; i < 2; i++) {
		if (SXT_CALL(trial, "closeListen", trial->net->calls.close_listen(comms[i])) != 0)
			return -EIO;
	}
	return sxt_trial_finalize(trial);
}

int sxt_check_listen_closed(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0 || sxt_pair_meet(&pair) != 0)
		return -EIO;
	if (trial->receives &&
	    SXT_CALL(trial, "closeListen", trial->net->calls.close_listen(pair.listen_comm)) != 0)
		return -EIO;
	pair.listen_comm = NULL;
	if (sxt_trial_sync(trial) != 0 || sxt_pair_buffers(&pair, SXT_PAIR_BYTES) != 0)
		return -EIO;
	for (uint32_t i = 0; i < 3; i++) {
		if (sxt_pair_exchange(&pair, 4096, i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

int sxt_check_connect_first(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0)
		return -EIO;
	for (int i = 0; i < EARLY_POLLS; i++) {
		if (sxt_pair_poll_connect(&pair) != 0)
			return -EIO;
	}
	if (sxt_trial_sync(trial) != 0 || sxt_pair_meet(&pair) != 0 ||
	    sxt_pair_buffers(&pair, SXT_PAIR_BYTES) != 0 || sxt_pair_exchange(&pair, 4096, 1) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_accept_first(struct sxt_trial *trial)
{
	static struct sxt_pair pair;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0)
		return -EIO;
	for (int i = 0; i < EARLY_POLLS; i++) {
		if (sxt_pair_poll_accept(&pair) != 0)
			return -EIO;
		if (pair.recv_comm != NULL)
			return sxt_trial_fail(trial, "accept() gives a comm before any connect()");
	}
	if (sxt_trial_sync(trial) != 0 || sxt_pair_meet(&pair) != 0 ||
	    sxt_pair_buffers(&pair, SXT_PAIR_BYTES) != 0 || sxt_pair_exchange(&pair, 4096, 1) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}

int sxt_check_connect_handle_kept(struct sxt_trial *trial)
{
	static struct sxt_pair original;
	static struct sxt_pair copy;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	sxt_pair_init(&original, trial);
	if (sxt_pair_listen(&original) != 0)
		return -EIO;
	sxt_pair_init(&copy, trial);
	copy.listen_comm = original.listen_comm;
	memcpy(copy.handle, original.handle, sizeof(copy.handle));
	memset(original.handle, CANARY, sizeof(original.handle));
	if (sxt_pair_meet(&copy) != 0 || sxt_pair_buffers(&copy, SXT_PAIR_BYTES) != 0 ||
	    sxt_pair_exchange(&copy, 4096, 1) != 0)
		return -EIO;
	for (size_t i = 0; i < sizeof(original.handle); i++) {
		if ((uint8_t)original.handle[i] != CANARY)
			return sxt_trial_fail(trial,
					      "byte %zu of the handle that listen() got "
					      "was written later",
					      i);
	}
	return sxt_pair_end(&copy);
}

/* Attempts that nobody will ever finish or close: how far each end gets. */
static int leave_half_made(struct sxt_trial *trial, void *ctx)
{
	static const int polls[][2] = {{0, 0}, {1, 0}, {0, 1}, {5, 0}, {0, 5}, {1, 1}, {3, 3}};
	static struct sxt_pair dropped;

	for (size_t k = 0; k < SXT_ARRAY_LEN(polls); k++) {
		sxt_pair_init(&dropped, trial);
		dropped.ctx = ctx;
		if (sxt_pair_listen(&dropped) != 0)
			return -EIO;
		for (int i = 0; i < polls[k][0] || i < polls[k][1]; i++) {
			if ((i < polls[k][0] && sxt_pair_poll_connect(&dropped) != 0) ||
			    (i < polls[k][1] && sxt_pair_poll_accept(&dropped) != 0))
				return -EIO;
		}
		/* NCCL's memory for the handle goes as well. */
		memset(&dropped, CANARY, sizeof(dropped));
	}
	return 0;
}

/* A context with dropped attempts; finalize frees them. */
static int drop_in_context(struct sxt_trial *trial, struct sxt_pair *pair)
{
	void *ctx = NULL;

	if (SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, 4, &ctx)) != 0 ||
	    leave_half_made(trial, ctx) != 0 || sxt_pair_live(pair, trial, ctx) != 0)
		return -EIO;
	return SXT_CALL(trial, "finalize", sxt_drv_net_finalize(trial->net, ctx));
}

int sxt_check_connect_half_made(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	int fds[3] = {0};
	int usual;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	if (trial->net->abi < 11)
		return leave_half_made(trial, trial->ctx) != 0
			       ? -EIO
			       : sxt_pair_live(&pair, trial, trial->ctx);
	/* What a context leaves behind anyway is another check's matter. */
	for (int i = 0; i < 2; i++) {
		if (sxt_pair_live_context(&pair, trial, 2 + (uint64_t)i) != 0)
			return -EIO;
		fds[i] = sxt_trial_count("fd");
	}
	usual = fds[1] > fds[0] ? fds[1] - fds[0] : 0;
	if (drop_in_context(trial, &pair) != 0)
		return -EIO;
	fds[2] = sxt_trial_await_count("fd", fds[1] + usual);
	if (fds[2] > fds[1] + usual)
		return sxt_trial_fail(trial,
				      "%d descriptors are open after finalize(), %d were "
				      "before the dropped attempts",
				      fds[2], fds[1]);
	return sxt_trial_finalize(trial);
}

/* Hints that differ from poll to poll. */
static int poll_with_attr(struct sxt_trial *trial, struct sxt_pair *pair, int round)
{
	struct nccl_net_attr attr;

	memset(&attr, 0xff, sizeof(attr)); /* all undefined */
	attr.sendCommAttr.maxConcurrentPeers = 1 + round % 8;
	attr.recvCommAttr.maxFlowsPerPeer = round % 3 - 1;
	attr.op = 1u << (round % 5);
	attr.algo = 2;
	attr.proto = 4;
	/* NCCL looks at no result of setNetAttr. */
	if (trial->sends && pair->send_comm == NULL)
		sxt_ignore(
			SXT_TRY(trial, "setNetAttr", trial->net->calls.set_attr(pair->ctx, &attr)));
	if (sxt_pair_poll_connect(pair) != 0)
		return -EIO;
	if (trial->receives && pair->recv_comm == NULL)
		sxt_ignore(
			SXT_TRY(trial, "setNetAttr", trial->net->calls.set_attr(pair->ctx, &attr)));
	return sxt_pair_poll_accept(pair);
}

int sxt_check_attr_every_poll(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	int round = 0;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	if (trial->net->calls.set_attr == NULL)
		return sxt_trial_skip(trial, "setNetAttr is NULL");
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0)
		return -EIO;
	while ((trial->sends && pair.send_comm == NULL) ||
	       (trial->receives && pair.recv_comm == NULL)) {
		if (poll_with_attr(trial, &pair, round++) != 0 ||
		    sxt_trial_pause(trial, "connect() or accept() gives no comm") != 0)
			return -EIO;
	}
	if (sxt_pair_buffers(&pair, SXT_PAIR_BYTES) != 0 || sxt_pair_exchange(&pair, 4096, 1) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}
