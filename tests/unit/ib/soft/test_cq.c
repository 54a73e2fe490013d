/*
 * test_cq.c - completion queues and channels: wrap-around, overrun, sleeping, modelled time.
 */
#include "tests/unit/ib/soft/rig.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOW_LATENCY_NS 20000000u

/* One way between ports 1 and 1 of this host; 0 is unlimited again. */
static void set_latency(uint64_t ns)
{
	rig_shared()->ports[0].latency_ns = ns;
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

static void a_full_queue_dies_and_tells(void **state)
{
	struct rig_options options = {.cqe = 2, .send_wr = 8};
	struct rig_pair pair;
	struct ibv_wc wc;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_event(&pair.a, IBV_EVENT_CQ_ERR);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(pair.a.send_cq, 1, &wc), -1);
	rig_pair_close(&pair);
}

static void a_queue_of_an_odd_size_wraps(void **state)
{
	struct rig_options options = {.cqe = 3};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	for (uint64_t i = 0; i < 100; i += 3) {
		for (uint64_t j = 0; j < 3; j++) {
			pair.wr.wr_id = i + j;
			assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
		}
		for (uint64_t j = 0; j < 3; j++)
			rig_expect(pair.a.send_cq, i + j, IBV_WC_SUCCESS);
	}
	rig_pair_close(&pair);
}

static void resizing_keeps_what_is_there(void **state)
{
	struct rig_options options = {.cqe = 4, .send_wr = 64};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	for (pair.wr.wr_id = 0; pair.wr.wr_id < 3; pair.wr.wr_id++)
		assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	assert_int_equal(sxt_soft_cq_resize(pair.a.send_cq, 2), -EINVAL);
	assert_int_equal(sxt_soft_cq_resize(pair.a.send_cq, 64), 0);
	assert_int_equal(pair.a.send_cq->cqe, 64);
	for (; pair.wr.wr_id < 40; pair.wr.wr_id++)
		assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	for (uint64_t i = 0; i < 40; i++)
		rig_expect(pair.a.send_cq, i, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void destroying_a_qp_takes_its_completions_only(void **state)
{
	struct rig_options options = {0};
	struct rig_pair pair;
	struct rig_end other;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rig_address self;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	options.shared = &pair.a;
	rig_end_open(&other, &options);
	rig_address_of(&other, &self);
	rig_to_init(&other, NULL);
	rig_to_rtr(&other, &self, NULL);
	rig_to_rts(&other, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_wr(&other, &self, IBV_WR_RDMA_WRITE, 8, &sge, &wr);
	wr.wr_id = 1000;
	assert_int_equal(rig_post(&other, &wr), 0);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	assert_int_equal(rig_post(&other, &wr), 0);
	assert_int_equal(sxt_soft_cq_destroy(pair.a.send_cq), -EBUSY);
	assert_int_equal(sxt_soft_pd_dealloc(pair.a.pd), -EBUSY);
	rig_end_close(&other);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_nothing(pair.a.send_cq);
	rig_pair_close(&pair);
}

static void a_destroyed_qp_leaves_its_room(void **state)
{
	struct rig_options options = {.cqe = 8, .recv_wr = 4};
	struct rig_pair pair;
	struct rig_end other;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	for (int round = 0; round < 4; round++) {
		struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC,
						   .comp_mask = IBV_QP_INIT_ATTR_PD,
						   .pd = pair.a.pd,
						   .send_cq = pair.a.send_cq,
						   .recv_cq = pair.a.recv_cq,
						   .cap = {.max_recv_wr = 4, .max_recv_sge = 1}};

		other = pair.a;
		assert_int_equal(sxt_soft_qp_create(pair.a.context, &init, &other.qp), 0);
		rig_to_init(&other, NULL);
		for (uint64_t i = 0; i < 4; i++)
			assert_int_equal(rig_post_recv(&other, i, 0, 8), 0);
		assert_int_equal(sxt_soft_qp_modify(other.qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(sxt_soft_qp_destroy(other.qp), 0);
	}
	rig_nothing(pair.a.recv_cq);
	rig_pair_close(&pair);
}

static void an_armed_queue_wakes_its_channel_once(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_pair pair;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	assert_int_equal(fcntl(pair.b.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(sxt_soft_cq_event_get(pair.b.channel, &cq, &context), -EAGAIN);
	assert_int_equal(ibv_req_notify_cq(pair.b.recv_cq, 0), 0);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 8), 0);
	assert_int_equal(rig_post_recv(&pair.b, 2, 0, 8), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	assert_false(readable(pair.b.channel->fd, 0));
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_true(readable(pair.b.channel->fd, 1000));
	assert_int_equal(sxt_soft_cq_event_get(pair.b.channel, &cq, &context), 0);
	assert_ptr_equal(cq, pair.b.recv_cq);
	assert_int_equal(sxt_soft_cq_event_get(pair.b.channel, &cq, &context), -EAGAIN);
	assert_false(readable(pair.b.channel->fd, 0));
	sxt_soft_cq_event_ack(cq, 1);
	rig_pair_close(&pair);
}

static void solicited_means_asked_for(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	assert_int_equal(ibv_req_notify_cq(pair.b.recv_cq, 1), 0);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 8), 0);
	assert_int_equal(rig_post_recv(&pair.b, 2, 0, 8), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_false(readable(pair.b.channel->fd, 0));
	pair.wr.send_flags |= IBV_SEND_SOLICITED;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_true(readable(pair.b.channel->fd, 1000));
	rig_pair_close(&pair);
}

static void a_completion_is_seen_when_its_time_has_come(void **state)
{
	struct rig_pair pair;
	uint64_t before;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	set_latency(SLOW_LATENCY_NS);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	before = sxt_soft_now_ns();
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	set_latency(0);
	/* A later one of the same QP does not overtake it. */
	pair.wr.wr_id = 8;
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	assert_true(sxt_soft_now_ns() - before >= 2 * SLOW_LATENCY_NS);
	rig_expect(pair.a.send_cq, 8, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void bandwidth_is_shared_by_what_is_sent(void **state)
{
	struct rig_pair pair;
	uint64_t before;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_shared()->ports[0].bandwidth_bps = 1000000000; /* 64 KiB take 524 us */
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 65536);
	before = sxt_soft_now_ns();
	for (int i = 0; i < 4; i++)
		assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	for (int i = 0; i < 4; i++)
		rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	assert_true(sxt_soft_now_ns() - before >= 4 * 524288);
	rig_shared()->ports[0].bandwidth_bps = 0;
	rig_pair_close(&pair);
}

static void a_sleeper_wakes_when_the_time_has_come(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_pair pair;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	uint64_t before;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 8), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	set_latency(SLOW_LATENCY_NS);
	before = sxt_soft_now_ns();
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	set_latency(0);
	/* Pushed already, visible later: asking now must not miss it. */
	assert_int_equal(ibv_poll_cq(pair.b.recv_cq, 1, &wc), 0);
	assert_int_equal(ibv_req_notify_cq(pair.b.recv_cq, 0), 0);
	assert_int_equal(sxt_soft_cq_event_get(pair.b.channel, &cq, &context), 0);
	assert_true(sxt_soft_now_ns() - before >= SLOW_LATENCY_NS);
	assert_int_equal(ibv_poll_cq(pair.b.recv_cq, 1, &wc), 1);
	sxt_soft_cq_event_ack(cq, 1);
	rig_pair_close(&pair);
}

static void asking_looks_past_what_is_there_already(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_pair pair;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	assert_int_equal(fcntl(pair.b.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 8), 0);
	assert_int_equal(rig_post_recv(&pair.b, 2, 0, 8), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	/* One that is due but not polled, and one on its way behind it. */
	set_latency(1);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	set_latency(SLOW_LATENCY_NS);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	set_latency(0);
	assert_int_equal(ibv_req_notify_cq(pair.b.recv_cq, 0), 0);
	rig_expect(pair.b.recv_cq, 1, IBV_WC_SUCCESS);
	while (sxt_soft_cq_event_get(pair.b.channel, &cq, &context) == -EAGAIN)
		assert_true(readable(pair.b.channel->fd, 5000));
	assert_int_equal(ibv_poll_cq(pair.b.recv_cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	sxt_soft_cq_event_ack(cq, 1);
	rig_pair_close(&pair);
}

static void a_sleeper_wakes_for_the_first_not_for_the_last(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_address self;
	struct rig_pair pair;
	struct rig_end other;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	assert_int_equal(fcntl(pair.a.channel->fd, F_SETFL, O_NONBLOCK), 0);
	options.with_channel = false;
	options.shared = &pair.a;
	rig_end_open(&other, &options);
	rig_address_of(&other, &self);
	rig_to_init(&other, NULL);
	rig_to_rtr(&other, &self, NULL);
	rig_to_rts(&other, NULL);
	assert_int_equal(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
	/* One that takes the event and is due in an hour, then one of another QP that is due now.
	 */
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	set_latency(3600000000000u);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	set_latency(0);
	rig_wr(&other, &self, IBV_WR_RDMA_WRITE, 8, &sge, &wr);
	wr.wr_id = 8;
	assert_int_equal(rig_post(&other, &wr), 0);
	while (sxt_soft_cq_event_get(pair.a.channel, &cq, &context) == -EAGAIN)
		assert_true(readable(pair.a.channel->fd, 5000));
	sxt_soft_cq_event_ack(cq, 1);
	rig_expect(pair.a.send_cq, 8, IBV_WC_SUCCESS);
	rig_end_close(&other);
	rig_pair_close(&pair);
}

static void a_sleeper_carries_work_that_waits(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_path path = {.timeout = 8, .retry_cnt = 1}; /* 2.1 ms in all */
	struct rig_pair pair;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	rig_pair_open(&pair, &options, &path);
	/* The flushed receive of the failed QP is what wakes it. */
	assert_int_equal(rig_post_recv(&pair.a, 1, 0, 8), 0);
	assert_int_equal(ibv_req_notify_cq(pair.a.recv_cq, 0), 0);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_DOWN);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	assert_int_equal(sxt_soft_cq_event_get(pair.a.channel, &cq, &context), 0);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_ACTIVE);
	rig_expect(pair.a.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	rig_expect(pair.a.send_cq, 7, IBV_WC_RETRY_EXC_ERR);
	sxt_soft_cq_event_ack(cq, 1);
	rig_pair_close(&pair);
}

struct sleeper {
	struct ibv_comp_channel *channel;
	_Atomic int tid;
	int rc;
};

static void *sleep_for_an_event(void *arg)
{
	struct sleeper *sleeper = arg;
	struct ibv_cq *cq;
	void *context;

	atomic_store(&sleeper->tid, (int)syscall(SYS_gettid));
	sleeper->rc = sxt_soft_cq_event_get(sleeper->channel, &cq, &context);
	if (sleeper->rc == 0)
		sxt_soft_cq_event_ack(cq, 1);
	return NULL;
}

/* Until the kernel says that the thread sleeps. */
static void wait_asleep(struct sleeper *sleeper)
{
	char path[64];
	char text[512] = "";

	while (atomic_load(&sleeper->tid) == 0)
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&sleeper->tid));
	while (strstr(text, ") S ") == NULL) {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		assert_non_null(fgets(text, sizeof(text), file));
		fclose(file);
	}
}

static void work_that_comes_to_wait_wakes_a_sleeper(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_path path = {.timeout = 8, .retry_cnt = 1}; /* 2.1 ms in all */
	struct sleeper sleeper = {0};
	struct timespec limit;
	struct rig_pair pair;
	pthread_t thread;

	(void)state;
	rig_pair_open(&pair, &options, &path);
	sleeper.channel = pair.a.channel;
	assert_int_equal(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, sleep_for_an_event, &sleeper), 0);
	wait_asleep(&sleeper);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_DOWN);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 10;
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &limit), 0);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_ACTIVE);
	assert_int_equal(sleeper.rc, 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_RETRY_EXC_ERR);
	rig_pair_close(&pair);
}

static void an_event_leaves_the_retry_timer_running(void **state)
{
	struct rig_options options = {.with_channel = true};
	struct rig_path path = {.timeout = 24}; /* more than a minute */
	struct rig_pair pair;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	rig_pair_open(&pair, &options, &path);
	assert_int_equal(fcntl(pair.a.channel->fd, F_SETFL, O_NONBLOCK), 0);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_DOWN);
	pair.wr.wr_id = 8;
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	assert_int_equal(sxt_soft_cq_event_get(pair.a.channel, &cq, &context), 0);
	sxt_soft_cq_event_ack(cq, 1);
	assert_true(readable(pair.a.channel->fd, 5000));
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_ACTIVE);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_expect(pair.a.send_cq, 8, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void the_extended_queue_reads_field_by_field(void **state)
{
	struct ibv_poll_cq_attr attr = {0};
	struct rig_pair pair;
	struct ibv_cq_ex *ex;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	ex = &SXT_CONTAINER_OF(pair.b.recv_cq, struct sxt_soft_cq, base)->ex;
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 64), 0);
	assert_int_equal(rig_post_recv(&pair.b, 2, 0, 64), 0);
	rig_pair_wr(&pair, IBV_WR_SEND_WITH_IMM, 48);
	pair.wr.imm_data = 77;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_int_equal(ex->wr_id, 1);
	assert_int_equal(ex->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_byte_len(ex), 48);
	assert_int_equal(ibv_wc_read_imm_data(ex), 77);
	assert_int_equal(ibv_wc_read_qp_num(ex), pair.b.qp->qp_num);
	assert_int_equal(ibv_wc_read_wc_flags(ex), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 2);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	rig_pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(a_full_queue_dies_and_tells),
		RIG_TEST(a_queue_of_an_odd_size_wraps),
		RIG_TEST(resizing_keeps_what_is_there),
		RIG_TEST(destroying_a_qp_takes_its_completions_only),
		RIG_TEST(a_destroyed_qp_leaves_its_room),
		RIG_TEST(an_armed_queue_wakes_its_channel_once),
		RIG_TEST(solicited_means_asked_for),
		RIG_TEST(a_completion_is_seen_when_its_time_has_come),
		RIG_TEST(bandwidth_is_shared_by_what_is_sent),
		RIG_TEST(a_sleeper_wakes_when_the_time_has_come),
		RIG_TEST(asking_looks_past_what_is_there_already),
		RIG_TEST(a_sleeper_wakes_for_the_first_not_for_the_last),
		RIG_TEST(a_sleeper_carries_work_that_waits),
		RIG_TEST(work_that_comes_to_wait_wakes_a_sleeper),
		RIG_TEST(an_event_leaves_the_retry_timer_running),
		RIG_TEST(the_extended_queue_reads_field_by_field),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
