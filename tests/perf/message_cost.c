/*
 * message_cost.c - what a message costs in the built plugin, for message_cost.py to count.
 *
 * usage: message_cost PLUGIN counted | timed
 *
 * "counted" runs under callgrind: each scenario warms up, then its messages go between two client
 * requests, whose second one dumps what was counted under the scenario's name. Outside valgrind it
 * only tells what the verbs were asked for. "timed" is round_robin.c's.
 */
#include "tests/fake/quick.h"
#include "tests/perf/net.h"
#include "tests/perf/round_robin.h"

#include <stdio.h>
#include <string.h>
#include <valgrind/callgrind.h>

#define WARM_UP       1000
#define SMALL_BYTES   8
#define GROUPED_BYTES 4096
#define BUSY_MAX      31
#define WINDOW        8
#define CONNECTIONS   64

static void one_message(struct net_pair *pair, size_t bytes)
{
	void *recv = net_irecv(pair, 1, bytes, false);
	void *send = net_isend(pair, bytes, 0);

	net_wait(pair, send, (int)bytes);
	net_wait(pair, recv, (int)bytes);
}

static void run_small(struct net_pair *pair, int cnt)
{
	for (int i = 0; i < cnt; i++)
		one_message(pair, SMALL_BYTES);
}

static void run_large(struct net_pair *pair, int cnt)
{
	for (int i = 0; i < cnt; i++)
		one_message(pair, NET_LARGE_BYTES);
}

/* Older requests stay in flight, done and not asked about, while newer messages come and go. */
static void run_busy(struct net_pair *pair, int cnt)
{
	static void *sends[BUSY_MAX];
	static void *recvs[BUSY_MAX];
	static bool busy;

	for (int i = 0; i < BUSY_MAX && !busy; i++) {
		recvs[i] = net_irecv(pair, 1, SMALL_BYTES, false);
		sends[i] = net_isend(pair, SMALL_BYTES, 0);
	}
	busy = cnt != 0;
	run_small(pair, cnt);
	for (int i = 0; i < BUSY_MAX && !busy; i++) {
		net_wait(pair, sends[i], SMALL_BYTES);
		net_wait(pair, recvs[i], SMALL_BYTES);
	}
}

static void run_window(struct net_pair *pair, int cnt)
{
	void *sends[WINDOW];
	void *recvs[WINDOW];

	for (int i = 0; i < cnt + WINDOW; i++) {
		if (i >= WINDOW) {
			net_wait(pair, sends[i % WINDOW], SMALL_BYTES);
			net_wait(pair, recvs[i % WINDOW], SMALL_BYTES);
		}
		if (i < cnt) {
			recvs[i % WINDOW] = net_irecv(pair, 1, SMALL_BYTES, false);
			sends[i % WINDOW] = net_isend(pair, SMALL_BYTES, 0);
		}
	}
}

static void run_grouped(struct net_pair *pair, int cnt)
{
	void *sends[NET_GROUP];

	for (int i = 0; i < cnt; i += NET_GROUP) {
		void *recv = net_irecv(pair, NET_GROUP, GROUPED_BYTES, false);

		for (int k = 0; k < NET_GROUP; k++)
			sends[k] = net_isend(pair, GROUPED_BYTES, k);
		for (int k = 0; k < NET_GROUP; k++)
			net_wait(pair, sends[k], GROUPED_BYTES);
		net_wait(pair, recv, GROUPED_BYTES);
	}
}

static void run_optional(struct net_pair *pair, int cnt)
{
	for (int i = 0; i < cnt; i++) {
		void *recv = net_irecv(pair, 1, SMALL_BYTES, true);
		void *send = net_isend(pair, SMALL_BYTES, 0);

		net_wait(pair, send, SMALL_BYTES);
		net_wait(pair, recv, -1);
	}
}

static void test_unfinished(const struct net_pair *pair, void *request)
{
	int done = 1;
	int result = (int)pair->table->test(request, &done, NULL);

	if (SXT_UNLIKELY(result != 0 || done != 0))
		net_die("testing what is not done", result);
}

/* The message of the scenarios below that wait for it. */
static void *open_recv;
static void *open_send;

static void run_recv_not_done(struct net_pair *pair, int cnt)
{
	if (open_recv == NULL)
		open_recv = net_irecv(pair, 1, SMALL_BYTES, false);
	for (int i = 0; i < cnt; i++)
		test_unfinished(pair, open_recv);
}

static void run_send_not_done(struct net_pair *pair, int cnt)
{
	sxt_quick_hold(true);
	if (open_send == NULL)
		open_send = net_isend(pair, SMALL_BYTES, 0);
	for (int i = 0; i < cnt; i++)
		test_unfinished(pair, open_send);
	sxt_quick_hold(false);
}

static void finish_open(struct net_pair *pair)
{
	net_wait(pair, open_send, SMALL_BYTES);
	net_wait(pair, open_recv, SMALL_BYTES);
}

static void run_no_credit(struct net_pair *pair, int cnt)
{
	for (int i = 0; i < cnt; i++) {
		void *request = pair;
		int result = (int)pair->table->isend(pair->send, pair->from, SMALL_BYTES, 0,
						     pair->send_mr, NULL, &request);

		if (SXT_UNLIKELY(result != 0 || request != NULL))
			net_die("isend without a receive", result);
	}
}

struct scenario {
	const char *name;
	void (*run)(struct net_pair *pair, int cnt);
	int cnt;
};

/* Bytes of the last small message: what was counted has also arrived. */
static void check_data(struct net_pair *pair)
{
	for (size_t i = 0; i < NET_LARGE_BYTES; i++)
		pair->from[i] = (char)(i * 7 + i / 251);
	one_message(pair, NET_LARGE_BYTES);
	if (memcmp(pair->from, pair->to, NET_LARGE_BYTES) != 0)
		net_die("comparing what arrived", 0);
	memset(pair->to, 0, NET_LARGE_BYTES);
	one_message(pair, SMALL_BYTES);
	if (memcmp(pair->from, pair->to, SMALL_BYTES) != 0)
		net_die("comparing what arrived", 0);
}

static void tell(const char *name, int cnt, const struct sxt_quick_counts *before)
{
	struct sxt_quick_counts after;

	sxt_quick_counts(&after);
	if (after.rnr_naks != 0 || after.cq_overruns != 0)
		net_die("keeping every queue within its bounds", 0);
	printf("%s cnt=%d send_wrs=%llu send_calls=%llu recv_calls=%llu completions=%llu "
	       "polls=%llu\n",
	       name, cnt, (unsigned long long)(after.send_wrs - before->send_wrs),
	       (unsigned long long)(after.send_calls - before->send_calls),
	       (unsigned long long)(after.recv_calls - before->recv_calls),
	       (unsigned long long)(after.completions - before->completions),
	       (unsigned long long)(after.polls - before->polls));
}

static void measure(struct net_pair *pair, const struct scenario *scenario)
{
	struct sxt_quick_counts before;

	scenario->run(pair, WARM_UP);
	sxt_quick_counts(&before);
	CALLGRIND_ZERO_STATS;
	scenario->run(pair, scenario->cnt);
	CALLGRIND_DUMP_STATS_AT(scenario->name);
	tell(scenario->name, scenario->cnt, &before);
}

static void measure_one_port(struct net_pair *pair)
{
	static const struct scenario plain[] = {
		{"small", run_small, 3200},         {"window8", run_window, 3200},
		{"grouped8", run_grouped, 3200},    {"optional", run_optional, 3200},
		{"no_credit", run_no_credit, 1000}, {"busy31", run_busy, 3200},
	};
	static const struct scenario open[] = {
		{"recv_not_done", run_recv_not_done, 1000},
		{"send_not_done", run_send_not_done, 1000},
	};
	static const struct scenario large = {"large", run_large, 160};

	for (size_t i = 0; i < SXT_ARRAY_LEN(plain); i++)
		measure(pair, &plain[i]);
	run_busy(pair, 0);
	for (size_t i = 0; i < SXT_ARRAY_LEN(open); i++)
		measure(pair, &open[i]);
	finish_open(pair);
	measure(pair, &large);
}

static void measure_merged(const struct net *net, int ports_cnt, const char *name)
{
	const struct scenario scenario = {name, run_small, 3200};
	struct net_pair pair;
	int dev = net_merge(net, ports_cnt);

	if (dev < 0)
		return;
	net_connect(net, dev, &pair, NULL);
	net_register(&pair);
	check_data(&pair);
	measure(&pair, &scenario);
	net_close(&pair);
}

/* The first connection was made before: what belongs to the process is there. */
static void measure_connecting(const struct net *net)
{
	static struct net_pair pairs[CONNECTIONS];

	CALLGRIND_ZERO_STATS;
	for (int i = 0; i < CONNECTIONS; i++)
		net_connect(net, 0, &pairs[i], NULL);
	CALLGRIND_DUMP_STATS_AT("connect");
	printf("connect cnt=%d\n", CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++)
		net_close(&pairs[i]);
}

static void measure_memory(const struct net *net)
{
	static struct net_pair pairs[CONNECTIONS];
	struct net_growth growth = {0};
	struct sxt_quick_counts counts;

	for (int i = 0; i < CONNECTIONS; i++)
		net_connect(net, 0, &pairs[i], &growth);
	sxt_quick_counts(&counts);
	printf("memory cnt=%d send_heap=%lld send_registered=%lld recv_heap=%lld "
	       "recv_registered=%lld cqs=%llu\n",
	       CONNECTIONS, (long long)growth.send_heap, (long long)growth.send_registered,
	       (long long)growth.recv_heap, (long long)growth.recv_registered,
	       (unsigned long long)counts.cqs_alive);
	for (int i = 0; i < CONNECTIONS; i++)
		net_close(&pairs[i]);
}

static void count_all(const struct net *net)
{
	struct net_pair pair;

	net_connect(net, 0, &pair, NULL);
	net_register(&pair);
	check_data(&pair);
	measure_one_port(&pair);
	net_close(&pair);
	measure_connecting(net);
	measure_memory(net);
	measure_merged(net, 2, "ports2");
	measure_merged(net, 4, "ports4");
}

int main(int argc, char **argv)
{
	struct net net = {0};

	if (argc != 3) {
		fprintf(stderr, "usage: message_cost PLUGIN counted | timed\n");
		return 64;
	}
	net_open(&net, argv[1]);
	if (strcmp(argv[2], "timed") == 0)
		round_robin_measure(&net);
	else
		count_all(&net);
	net.table->finalize(net.send_ctx);
	net.table->finalize(net.recv_ctx);
	return 0;
}
