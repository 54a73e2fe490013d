/*
 * group.c - checks of grouped receives: members match by tag, the senders behind them run on their
 * own.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 32
#define STRIDE     1024

/* A run of groups with the same members in each. */
struct grouped {
	struct sxt_pair *pair;
	int members;
	unsigned int rounds;
	bool shrinks;                          /* messages are shorter than their buffers */
	unsigned int sent[SXT_PAIR_GROUP_MAX]; /* per member */
	struct sxt_drv_msg rooms[ROUNDS_MAX][SXT_PAIR_GROUP_MAX];
};

/* Senders' ranks: small, large, in no order. */
static const int tags[SXT_PAIR_GROUP_MAX] = {5, 70000, 0, 1, 2147483647, 6, 4095, 3};

static int open_grouped(struct sxt_trial *trial, struct sxt_pair *pair)
{
	if (sxt_trial_open(trial) != 0)
		return -EIO;
	if (trial->props.max_recvs < 2)
		return sxt_trial_skip(trial, "maxRecvs is %d", trial->props.max_recvs);
	if (trial->props.max_recvs > SXT_PAIR_GROUP_MAX)
		return sxt_trial_skip(trial, "maxRecvs is %d; see props.limits",
				      trial->props.max_recvs);
	return sxt_pair_open(pair, trial);
}

static size_t room_of(const struct grouped *g, int member)
{
	return g->shrinks ? (size_t)(member + 1) * 100 : 512;
}

static size_t bytes_of(const struct grouped *g, int member, unsigned int round)
{
	if (!g->shrinks)
		return 512;
	/* 0 for one member of each group, another one each time. */
	return (member + (int)round) % g->members == 0 ? 0 : room_of(g, member) - round % 100;
}

static uint32_t seed_of(int member, unsigned int round)
{
	return (uint32_t)member + round * SXT_PAIR_GROUP_MAX;
}

static size_t offset_of(int member, unsigned int round)
{
	return SXT_PAIR_HOME + (size_t)seed_of(member, round) * STRIDE;
}

/* Return: 0, or -EIO noted; a group that is not taken although it should be is one. */
static int post_group(struct grouped *g, unsigned int round)
{
	bool posted = false;

	for (int i = 0; i < g->members; i++) {
		g->rooms[round][i] = sxt_pair_clear(g->pair, offset_of(i, round), room_of(g, i));
		g->rooms[round][i].tag = tags[i];
	}
	if (sxt_pair_try_recv(g->pair, g->members, g->rooms[round], NULL, &posted) != 0)
		return -EIO;
	if (!posted)
		return sxt_trial_fail(g->pair->trial,
				      "irecv() of %d gives no request with %u outstanding",
				      g->members, round);
	return 0;
}

/* Offers each member's next message, the last member first. Return: 0, -EIO noted. */
static int offer_all(struct grouped *g, unsigned int *left)
{
	*left = 0;
	for (int i = g->members - 1; i >= 0; i--) {
		bool posted = true;

		while (posted && g->sent[i] < g->rounds) {
			struct sxt_drv_msg msg =
				sxt_pair_fill(g->pair, offset_of(i, g->sent[i]),
					      bytes_of(g, i, g->sent[i]), seed_of(i, g->sent[i]));

			msg.tag = tags[i];
			if (sxt_pair_try_send(g->pair, &msg, &posted) != 0)
				return -EIO;
			g->sent[i] += posted;
		}
		*left += g->rounds - g->sent[i];
	}
	return 0;
}

/* No send is tested before all are outstanding; receives are, for their side to move. */
static int send_all(struct grouped *g)
{
	unsigned int left = 1;
	int moved = 0;

	while (left > 0) {
		if (offer_all(g, &left) != 0 || sxt_pair_poll_recvs(g->pair, &moved) != 0)
			return -EIO;
		if (left > 0 &&
		    sxt_trial_pause(g->pair->trial, "isend() gives no request; all receives are "
						    "posted") != 0)
			return -EIO;
	}
	return 0;
}

static int verify_all(struct grouped *g, unsigned int first)
{
	for (unsigned int round = 0; round < g->rounds; round++) {
		for (int i = 0; i < g->members; i++) {
			size_t bytes = bytes_of(g, i, round);

			if (sxt_pair_told(g->pair, first + round, i, bytes) != 0 ||
			    sxt_pair_verify(g->pair, &g->rooms[round][i], bytes,
					    seed_of(i, round)) != 0)
				return -EIO;
		}
	}
	return 0;
}

static int run_grouped(struct grouped *g)
{
	unsigned int first = g->pair->recvs.posted;

	memset(g->sent, 0, sizeof(g->sent));
	for (unsigned int round = 0; round < g->rounds; round++) {
		if (post_group(g, round) != 0)
			return -EIO;
	}
	if (sxt_trial_sync(g->pair->trial) != 0 || send_all(g) != 0 ||
	    sxt_pair_wait(g->pair) != 0 || verify_all(g, first) != 0)
		return -EIO;
	return sxt_trial_sync(g->pair->trial);
}

int sxt_check_group_tags(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct grouped g;
	int rc = open_grouped(trial, &pair);

	if (rc != 0)
		return rc;
	for (int members = 2; members <= trial->props.max_recvs; members++) {
		g = (struct grouped){.pair = &pair, .members = members, .rounds = 4};
		if (run_grouped(&g) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

int sxt_check_group_sizes(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct grouped g;
	int rc = open_grouped(trial, &pair);

	if (rc != 0)
		return rc;
	for (unsigned int rounds = 1; rounds <= 8; rounds += 7) {
		g = (struct grouped){.pair = &pair,
				     .members = trial->props.max_recvs,
				     .rounds = rounds,
				     .shrinks = true};
		if (run_grouped(&g) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}

int sxt_check_group_256_isends(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	static struct grouped g;
	int rc = open_grouped(trial, &pair);

	if (rc != 0)
		return rc;
	g = (struct grouped){.pair = &pair,
			     .members = trial->props.max_recvs,
			     .rounds = trial->net->abi == 6 ? NCCL_NET_MAX_REQUESTS_V6
							    : NCCL_NET_MAX_REQUESTS};
	for (int i = 0; i < 2; i++) {
		if (run_grouped(&g) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}
