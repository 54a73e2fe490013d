/*
 * round_robin.c - 8-byte messages, one at a time, going round N connections: the plugin in turns
 * with a bare loop over the same verbs, which posts a receive, writes a line back, writes the
 * message with an immediate and polls twice. Its queues are as many and shared as the plugin's.
 */
#include "tests/perf/round_robin.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECTIONS_MAX 256
#define ROUNDS          31
#define TURNS           8192 /* messages of one side of one round */
#define MESSAGE_BYTES   8
#define LINE_BYTES      64
#define RING_LINES      256
#define DEPTH           256

/* One end of a bare connection; the sending one owns the ring that the line is written to. */
struct bare_end {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	char *ring;
	uint32_t place;
};

struct bare_pair {
	struct bare_end send;
	struct bare_end recv;
};

struct bare {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_mr *mr;
	char *memory;            /* a line, a message and where it goes */
	struct ibv_sge line_sge; /* work requests are made once */
	struct ibv_sge message_sge;
	struct ibv_send_wr line;
	struct ibv_send_wr message;
	struct bare_pair pairs[CONNECTIONS_MAX];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void bare_end_open(struct bare *bare, struct bare_end *end, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_inline_data = LINE_BYTES},
		.qp_type = IBV_QPT_RC,
	};

	end->cq = cq;
	end->qp = ibv_create_qp(bare->pd, &init);
	end->ring = aligned_alloc(LINE_BYTES, (size_t)RING_LINES * LINE_BYTES);
	if (end->qp == NULL || end->ring == NULL)
		net_die("making a bare connection", 0);
	memset(end->ring, 0, (size_t)RING_LINES * LINE_BYTES);
}

static void join(struct ibv_qp *from, const struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .dest_qp_num = to->qp_num};

	if (ibv_modify_qp(from, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN) != 0)
		net_die("joining a bare connection", 0);
}

static void bare_requests(struct bare *bare)
{
	bare->line_sge = (struct ibv_sge){.addr = (uintptr_t)bare->memory,
					  .length = LINE_BYTES,
					  .lkey = bare->mr->lkey};
	bare->line = (struct ibv_send_wr){.sg_list = &bare->line_sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_INLINE};
	bare->message_sge = (struct ibv_sge){.addr = (uintptr_t)bare->memory + LINE_BYTES,
					     .length = MESSAGE_BYTES,
					     .lkey = bare->mr->lkey};
	bare->message = (struct ibv_send_wr){
		.sg_list = &bare->message_sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = (uintptr_t)bare->memory + 2 * LINE_BYTES,
	};
}

static void bare_open(struct bare *bare)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	bare->context = ibv_open_device(list[0]);
	bare->pd = ibv_alloc_pd(bare->context);
	bare->send_cq = ibv_create_cq(bare->context, 16384, NULL, NULL, 0);
	bare->recv_cq = ibv_create_cq(bare->context, 16384, NULL, NULL, 0);
	bare->memory = aligned_alloc(LINE_BYTES, 4096);
	if (bare->send_cq == NULL || bare->recv_cq == NULL || bare->memory == NULL)
		net_die("opening the bare device", 0);
	memset(bare->memory, 0, 4096);
	bare->mr = ibv_reg_mr(bare->pd, bare->memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	bare_requests(bare);
	for (int i = 0; i < CONNECTIONS_MAX; i++) {
		struct bare_pair *pair = &bare->pairs[i];

		bare_end_open(bare, &pair->send, bare->send_cq);
		bare_end_open(bare, &pair->recv, bare->recv_cq);
		join(pair->send.qp, pair->recv.qp);
		join(pair->recv.qp, pair->send.qp);
	}
}

static void post_line(struct bare *bare, struct bare_pair *pair)
{
	struct ibv_send_wr *bad;

	bare->line.wr.rdma.remote_addr = (uintptr_t)pair->send.ring +
					 (uint64_t)(pair->recv.place++ % RING_LINES) * LINE_BYTES;
	if (ibv_post_send(pair->recv.qp, &bare->line, &bad) != 0)
		net_die("posting a bare line", 0);
}

static void post_message(struct bare *bare, struct bare_pair *pair)
{
	struct ibv_send_wr *bad;

	if (ibv_post_send(pair->send.qp, &bare->message, &bad) != 0)
		net_die("posting a bare message", 0);
}

static void bare_message(struct bare *bare, struct bare_pair *pair)
{
	struct ibv_recv_wr recv = {.wr_id = 1};
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;

	if (ibv_post_recv(pair->recv.qp, &recv, &bad) != 0)
		net_die("posting a bare receive", 0);
	post_line(bare, pair);
	post_message(bare, pair);
	if (ibv_poll_cq(pair->send.cq, 1, &wc) != 1 || ibv_poll_cq(pair->recv.cq, 1, &wc) != 1)
		net_die("polling bare completions", 0);
}

static double bare_ns(struct bare *bare, int connections_cnt)
{
	uint64_t start = now_ns();

	for (int i = 0; i < TURNS; i++)
		bare_message(bare, &bare->pairs[i % connections_cnt]);
	return (double)(now_ns() - start) / TURNS;
}

static double plugin_ns(struct net_pair *pairs, int connections_cnt)
{
	uint64_t start = now_ns();

	for (int i = 0; i < TURNS; i++) {
		struct net_pair *pair = &pairs[i % connections_cnt];
		void *recv = net_irecv(pair, 1, MESSAGE_BYTES, false);
		void *send = net_isend(pair, MESSAGE_BYTES, 0);

		net_wait(pair, send, MESSAGE_BYTES);
		net_wait(pair, recv, MESSAGE_BYTES);
	}
	return (double)(now_ns() - start) / TURNS;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare_doubles);
	return values[ROUNDS / 2];
}

/* Both sides of a round meet the same neighbours and the same clock rate: the ratio is theirs. */
static void compare(struct bare *bare, struct net_pair *pairs, int connections_cnt)
{
	double bare_times[ROUNDS];
	double plugin_times[ROUNDS];
	double ratios[ROUNDS];

	bare_ns(bare, connections_cnt);
	plugin_ns(pairs, connections_cnt);
	for (int i = 0; i < ROUNDS; i++) {
		bare_times[i] = bare_ns(bare, connections_cnt);
		plugin_times[i] = plugin_ns(pairs, connections_cnt);
		ratios[i] = plugin_times[i] / bare_times[i];
	}
	printf("round_robin cnt=%d bare_ns=%.1f plugin_ns=%.1f ratio=%.3f\n", connections_cnt,
	       median(bare_times), median(plugin_times), median(ratios));
	fflush(stdout);
}

void round_robin_measure(const struct net *net)
{
	static const int cnts[] = {1, 64, CONNECTIONS_MAX};
	static struct net_pair pairs[CONNECTIONS_MAX];
	static struct bare bare;

	bare_open(&bare);
	for (int i = 0; i < CONNECTIONS_MAX; i++) {
		net_connect(net, 0, &pairs[i], NULL);
		net_register(&pairs[i]);
	}
	for (size_t i = 0; i < SXT_ARRAY_LEN(cnts); i++)
		compare(&bare, pairs, cnts[i]);
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		net_close(&pairs[i]);
}
