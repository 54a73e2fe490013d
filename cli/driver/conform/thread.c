/*
 * thread.c - checks of NCCL's threads: who may call what at the same time.
 */
#include "cli/driver/conform/pair.h"

#include "core/status.h"

#include <errno.h>
#include <string.h>

#define EXCHANGES 300
#define THREADS   4

/* One thread that uses one pair. */
struct user {
	struct sxt_trial *trial;
	struct sxt_pair pair;
	void *ctx;
	atomic_bool stop;
	int exchanges; /* 0: until stopped */
	atomic_int done_cnt;
	atomic_int rc;
};

/* Runs @body in @cnt threads and joins them. Return: 0, or -EIO noted. */
static int run_threads(struct sxt_trial *trial, void *(*body)(void *), struct user *users, int cnt)
{
	pthread_t threads[THREADS];
	int started = 0;
	int rc = 0;

	for (int i = 0; i < cnt && rc == 0; i++) {
		rc = pthread_create(&threads[i], NULL, body, &users[i]);
		started += rc == 0;
	}
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (rc != 0)
		return sxt_trial_fail(trial, "cannot start a thread: %s", sxt_strerror(rc));
	for (int i = 0; i < cnt; i++) {
		if (users[i].rc != 0)
			return users[i].rc;
	}
	return 0;
}

static int exchange_many(struct user *user)
{
	for (int i = 0; user->exchanges == 0 || i < user->exchanges; i++) {
		if (atomic_load(&user->stop))
			break;
		if (sxt_pair_exchange(&user->pair, 1024 + (size_t)(i % 7) * 4096, (uint32_t)i) != 0)
			return -EIO;
		atomic_fetch_add(&user->done_cnt, 1);
	}
	return 0;
}

static void *use_pair(void *arg)
{
	struct user *user = arg;

	user->rc = exchange_many(user);
	return NULL;
}

/* All of a rank's life after init. */
static void *live_alone(void *arg)
{
	struct user *user = arg;

	sxt_pair_init(&user->pair, user->trial);
	user->pair.ctx = user->ctx;
	user->rc = -EIO;
	if (sxt_pair_listen(&user->pair) == 0 && sxt_pair_meet(&user->pair) == 0 &&
	    sxt_pair_buffers(&user->pair, SXT_PAIR_BYTES) == 0 && exchange_many(user) == 0)
		user->rc = sxt_pair_close(&user->pair);
	return NULL;
}

int sxt_check_threads_handover(struct sxt_trial *trial)
{
	static struct user user;

	user.trial = trial;
	user.exchanges = EXCHANGES;
	if (sxt_trial_open(trial) != 0 || sxt_pair_open(&user.pair, trial) != 0 ||
	    run_threads(trial, use_pair, &user, 1) != 0)
		return -EIO;
	return sxt_pair_end(&user.pair);
}

int sxt_check_threads_two_comms(struct sxt_trial *trial)
{
	static struct user users[2];

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	for (int i = 0; i < 2; i++) {
		users[i].trial = trial;
		users[i].exchanges = EXCHANGES;
		users[i].ctx = trial->ctx;
	}
	if (SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, 2, &users[1].ctx)) != 0 ||
	    run_threads(trial, live_alone, users, 2) != 0 ||
	    SXT_CALL(trial, "finalize", sxt_drv_net_finalize(trial->net, users[1].ctx)) != 0)
		return -EIO;
	return sxt_trial_finalize(trial);
}

int sxt_check_threads_one_context(struct sxt_trial *trial)
{
	static struct user users[2];

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	for (int i = 0; i < 2; i++) {
		users[i].trial = trial;
		users[i].exchanges = EXCHANGES;
		users[i].ctx = trial->ctx;
	}
	if (run_threads(trial, live_alone, users, 2) != 0)
		return -EIO;
	return sxt_trial_finalize(trial);
}

static int compare_props(struct sxt_trial *trial)
{
	struct sxt_drv_props props;

	if (SXT_CALL(trial, "getProperties", sxt_drv_net_props(trial->net, trial->dev, &props)) !=
	    0)
		return -EIO;
	if (strcmp(props.name, trial->props.name) != 0 || props.guid != trial->props.guid ||
	    props.speed_mbps != trial->props.speed_mbps ||
	    props.max_comms != trial->props.max_comms || props.port != trial->props.port)
		return sxt_trial_fail(trial,
				      "getProperties() of device %d changes while other "
				      "threads call it",
				      trial->dev);
	return 0;
}

static void *read_props(void *arg)
{
	struct user *user = arg;

	for (int i = 0; i < 200 && user->rc == 0; i++)
		user->rc = compare_props(user->trial);
	return NULL;
}

int sxt_check_threads_props(struct sxt_trial *trial)
{
	static struct user users[THREADS];

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	for (int i = 0; i < THREADS; i++)
		users[i].trial = trial;
	return run_threads(trial, read_props, users, THREADS) != 0 ? -EIO
								   : sxt_trial_finalize(trial);
}

/* Traffic on a pair of its own while @act runs on this thread. */
static int beside_traffic(struct sxt_trial *trial, struct user *user,
			  int (*act)(struct sxt_trial *, struct user *))
{
	pthread_t thread;
	int rc;

	user->trial = trial;
	if (sxt_trial_open(trial) != 0 || sxt_pair_open(&user->pair, trial) != 0)
		return -EIO;
	rc = pthread_create(&thread, NULL, use_pair, user);
	if (rc != 0)
		return sxt_trial_fail(trial, "cannot start a thread: %s", sxt_strerror(rc));
	rc = act(trial, user);
	atomic_store(&user->stop, true);
	pthread_join(thread, NULL);
	if (rc != 0 || user->rc != 0)
		return -EIO;
	return sxt_pair_end(&user->pair);
}

static int connect_beside(struct sxt_trial *trial, struct user *user)
{
	static struct sxt_pair pair;
	int done_cnt;
	int i = 0;

	/* The last one begins when the other thread is known to move data. */
	do {
		done_cnt = atomic_load(&user->done_cnt);
		if (sxt_pair_live(&pair, trial, trial->ctx) != 0 || user->rc != 0)
			return -EIO;
	} while (++i < 10 || done_cnt < 50);
	return 0;
}

int sxt_check_connect_during_traffic(struct sxt_trial *trial)
{
	static struct user user;

	return beside_traffic(trial, &user, connect_beside);
}

static int register_beside(struct sxt_trial *trial, struct user *user)
{
	void *comms[2] = {user->pair.send_comm, user->pair.recv_comm};
	struct sxt_memory memory = {0};
	int done_cnt;
	int i = 0;

	if (sxt_memory_map(trial, 64 * 1024, &memory) != 0)
		return -EIO;
	/* The last one begins when the other thread is known to move data. */
	do {
		done_cnt = atomic_load(&user->done_cnt);
		if (sxt_pair_reg(&user->pair, comms[i % 2], &memory) != 0 ||
		    SXT_CALL(trial, "deregMr",
			     trial->net->calls.dereg(comms[i % 2], memory.mhandle)) != 0)
			return -EIO;
		if (i > 200 && sxt_trial_pause(trial, "the traffic beside regMr()") != 0)
			return -EIO;
		if (user->rc != 0)
			return -EIO;
	} while (++i < 200 || done_cnt < 50);
	return 0;
}

int sxt_check_reg_during_traffic(struct sxt_trial *trial)
{
	static struct user user;

	return beside_traffic(trial, &user, register_beside);
}
