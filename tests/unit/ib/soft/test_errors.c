/*
 * test_errors.c - what a reliable connection says when something is wrong, and what it leaves.
 */
#include "tests/unit/ib/soft/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t state_of(const struct rig_end *end)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(sxt_soft_qp_query(end->qp, &attr, &init), 0);
	return attr.qp_state;
}

/* After an error both directions are flushed, in order, and what is posted later at once. */
static void expect_dead(const struct rig_end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct rig_address self;

	assert_int_equal(state_of(end), IBV_QPS_ERR);
	rig_address_of(end, &self);
	rig_wr(end, &self, IBV_WR_RDMA_WRITE, 8, &sge, &wr);
	wr.send_flags = 0; /* errors complete whether signaled or not */
	assert_int_equal(rig_post(end, &wr), 0);
	rig_expect(end->send_cq, 7, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_post_recv(end, 77, 0, 8), 0);
	rig_expect(end->recv_cq, 77, IBV_WC_WR_FLUSH_ERR);
}

static void a_bad_local_key_is_a_protection_error(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	pair.sge.lkey ^= 1;
	rig_pair_run(&pair, IBV_WC_LOC_PROT_ERR);
	expect_dead(&pair.a);
	assert_int_equal(state_of(&pair.b), IBV_QPS_RTS);
	rig_pair_close(&pair);
}

static void a_range_past_the_local_registration_is_a_protection_error(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	pair.sge.addr += RIG_BYTES - 7;
	rig_pair_run(&pair, IBV_WC_LOC_PROT_ERR);
	rig_pair_close(&pair);
}

static void remote_access(struct rig_pair *pair)
{
	assert_int_equal(rig_post_recv(&pair->b, 21, 0, 8), 0);
	assert_int_equal(rig_post_recv(&pair->b, 22, 0, 8), 0);
	rig_pair_run(pair, IBV_WC_REM_ACCESS_ERR);
	rig_event(&pair->b, IBV_EVENT_QP_ACCESS_ERR);
	rig_expect(pair->b.recv_cq, 21, IBV_WC_WR_FLUSH_ERR);
	rig_expect(pair->b.recv_cq, 22, IBV_WC_WR_FLUSH_ERR);
	expect_dead(&pair->a);
	expect_dead(&pair->b);
}

static void a_bad_remote_key_fails_both_ends(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	pair.wr.wr.rdma.rkey ^= 1;
	remote_access(&pair);
	rig_pair_close(&pair);
}

static void a_range_past_the_remote_registration_fails_both_ends(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_READ, 8);
	pair.wr.wr.rdma.remote_addr += RIG_BYTES - 7;
	remote_access(&pair);
	rig_pair_close(&pair);
}

static void a_key_is_dead_once_deregistered(void **state)
{
	struct sxt_soft_mr_request request = {.access = IBV_ACCESS_LOCAL_WRITE |
							IBV_ACCESS_REMOTE_WRITE,
					      .dmabuf_fd = -1,
					      .length = 64};
	struct rig_pair pair;
	struct ibv_mr *mr;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	request.addr = pair.b.memory;
	request.iova = 0x1000; /* peers call it something else */
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), 0);
	pair.a.memory[0] = 1;
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	pair.wr.wr.rdma.rkey = mr->rkey;
	pair.wr.wr.rdma.remote_addr = 0x1008;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_int_equal(pair.b.memory[8], 1);
	assert_int_equal(sxt_soft_mr_deregister(mr), 0);
	remote_access(&pair);
	rig_pair_close(&pair);
}

static void registrations_allow_what_they_say(void **state)
{
	struct sxt_soft_mr_request request = {.access = IBV_ACCESS_REMOTE_READ,
					      .dmabuf_fd = -1,
					      .length = 64};
	struct rig_pair pair;
	struct ibv_mr *mr;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	request.addr = pair.b.memory;
	request.iova = (uintptr_t)pair.b.memory;
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), 0);
	rig_pair_wr(&pair, IBV_WR_RDMA_READ, 8);
	pair.wr.wr.rdma.rkey = mr->rkey;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	pair.wr.opcode = IBV_WR_RDMA_WRITE;
	remote_access(&pair);
	assert_int_equal(sxt_soft_mr_deregister(mr), 0);
	request.access = IBV_ACCESS_REMOTE_WRITE; /* without LOCAL_WRITE */
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), -EINVAL);
	rig_pair_close(&pair);
}

static void a_registration_keeps_the_offset_in_the_page(void **state)
{
	struct sxt_soft_mr_request request = {.dmabuf_fd = -1, .length = 64, .iova = 0x1004};
	struct rig_pair pair;
	struct ibv_mr *mr;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	request.addr = pair.b.memory;
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), -EINVAL);
	request.addr = pair.b.memory + 4;
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), 0);
	assert_int_equal(sxt_soft_mr_deregister(mr), 0);
	rig_pair_close(&pair);
}

static void an_empty_piece_needs_no_key(void **state)
{
	struct rig_pair pair;
	struct ibv_sge sges[2] = {{0}, {.length = 8}};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 2};
	struct ibv_recv_wr *bad;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	sges[1].addr = (uintptr_t)pair.b.memory;
	sges[1].lkey = pair.b.mr->lkey;
	assert_int_equal(ibv_post_recv(pair.b.qp, &wr, &bad), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_expect(pair.b.recv_cq, 1, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void a_qp_allows_what_it_says(void **state)
{
	struct rig_path path = {.access = IBV_ACCESS_REMOTE_WRITE};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, &path);
	rig_pair_wr(&pair, IBV_WR_RDMA_READ, 8);
	rig_pair_run(&pair, IBV_WC_REM_INV_REQ_ERR);
	rig_event(&pair.b, IBV_EVENT_QP_REQ_ERR);
	expect_dead(&pair.a);
	rig_pair_close(&pair);
}

static void a_message_longer_than_its_receive_fails_both_ends(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	assert_int_equal(rig_post_recv(&pair.b, 21, 0, 63), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 64);
	rig_pair_run(&pair, IBV_WC_REM_INV_REQ_ERR);
	rig_expect(pair.b.recv_cq, 21, IBV_WC_LOC_LEN_ERR);
	expect_dead(&pair.b);
	rig_pair_close(&pair);
}

static void a_receive_with_a_bad_key_fails_both_ends(void **state)
{
	struct rig_pair pair;
	struct ibv_sge sge;
	struct ibv_recv_wr recv = {.wr_id = 21, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	sge.addr = (uintptr_t)pair.b.memory;
	sge.length = 64;
	sge.lkey = pair.b.mr->lkey + 1;
	assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 64);
	rig_pair_run(&pair, IBV_WC_REM_OP_ERR);
	rig_expect(pair.b.recv_cq, 21, IBV_WC_LOC_PROT_ERR);
	expect_dead(&pair.b);
	rig_pair_close(&pair);
}

static void atomics_want_eight_aligned_bytes(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	pair.wr.wr.atomic.remote_addr += 4;
	rig_pair_run(&pair, IBV_WC_REM_INV_REQ_ERR);
	rig_pair_close(&pair);
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
	rig_pair_run(&pair, IBV_WC_LOC_LEN_ERR);
	rig_pair_close(&pair);
}

static void no_receive_and_no_retries_fail_at_once(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	rig_pair_run(&pair, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_dead(&pair.a);
	rig_pair_close(&pair);
}

static void no_receive_fails_when_the_retries_are_used_up(void **state)
{
	struct rig_path path = {.rnr_retry = 3, .rnr_timer = 12};
	struct rig_pair pair;
	uint64_t before;

	(void)state;
	rig_pair_open(&pair, NULL, &path);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, 8);
	before = sxt_soft_now_ns();
	rig_pair_run(&pair, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_true(sxt_soft_now_ns() - before >= 3 * 640000u);
	rig_pair_close(&pair);
}

static void a_sender_waits_for_ever_for_a_receive_if_told_so(void **state)
{
	struct rig_path path = {.rnr_retry = 7};
	struct rig_pair pair;
	uint64_t naks;

	(void)state;
	naks = atomic_load(&rig_shared()->ports[0].counters.out_of_buffer);
	rig_pair_open(&pair, NULL, &path);
	memset(pair.a.memory, 1, 64);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	pair.wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	memset(pair.a.memory, 2, 64); /* inline: may be reused already */
	pair.wr.wr_id = 8;
	pair.wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_nothing(pair.a.send_cq);
	assert_true(atomic_load(&rig_shared()->ports[0].counters.out_of_buffer) > naks);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 64), 0);
	assert_int_equal(rig_post_recv(&pair.b, 2, 64, 64), 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_expect(pair.a.send_cq, 8, IBV_WC_SUCCESS);
	rig_expect(pair.b.recv_cq, 1, IBV_WC_SUCCESS);
	rig_expect(pair.b.recv_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(pair.b.memory[0], 1);
	assert_int_equal(pair.b.memory[64], 2);
	rig_pair_close(&pair);
}

static void work_that_waits_is_flushed_in_order(void **state)
{
	struct rig_path path = {.rnr_retry = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, &path);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	for (uint64_t id = 1; id <= 3; id++) {
		pair.wr.wr_id = id;
		pair.wr.send_flags = 0;
		assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
		assert_int_equal(rig_post_recv(&pair.a, id, 0, 8), 0);
	}
	assert_int_equal(sxt_soft_qp_modify(pair.a.qp, &attr, IBV_QP_STATE), 0);
	for (uint64_t id = 1; id <= 3; id++) {
		rig_expect(pair.a.send_cq, id, IBV_WC_WR_FLUSH_ERR);
		rig_expect(pair.a.recv_cq, id, IBV_WC_WR_FLUSH_ERR);
	}
	expect_dead(&pair.a);
	rig_pair_close(&pair);
}

static void a_down_port_fails_after_the_retry_time(void **state)
{
	struct rig_path path = {.timeout = 9, .retry_cnt = 1}; /* 2 x 2.1 ms */
	struct rig_pair pair;
	uint64_t before;

	(void)state;
	rig_pair_open(&pair, NULL, &path);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_DOWN);
	before = sxt_soft_now_ns();
	rig_pair_run(&pair, IBV_WC_RETRY_EXC_ERR);
	assert_true(sxt_soft_now_ns() - before >= 4194304);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_ACTIVE);
	expect_dead(&pair.a);
	assert_int_equal(state_of(&pair.b), IBV_QPS_RTS);
	rig_pair_close(&pair);
}

static void a_short_flap_is_survived(void **state)
{
	struct rig_path path = {.timeout = 20, .retry_cnt = 7};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, &path);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_DOWN);
	pair.a.memory[0] = 5;
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_nothing(pair.a.send_cq);
	assert_int_equal(pair.b.memory[0], 0);
	atomic_store(&rig_shared()->ports[0].state, SXT_SOFT_PORT_ACTIVE);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(pair.b.memory[0], 5);
	rig_pair_close(&pair);
}

static void a_peer_that_is_gone_or_another_is_not_reached(void **state)
{
	struct rig_pair pair;
	struct rig_end third;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_end_open(&third, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_end_close(&pair.b);
	rig_pair_run(&pair, IBV_WC_RETRY_EXC_ERR);
	rig_end_close(&pair.a);
	/* A QP that is connected, but not to the one that sends. */
	rig_pair_open(&pair, NULL, NULL);
	rig_to_init(&third, NULL);
	rig_to_rtr(&third, &pair.to_b, NULL);
	rig_to_rts(&third, NULL);
	rig_wr(&third, &pair.to_b, IBV_WR_RDMA_WRITE, 8, &pair.sge, &pair.wr);
	assert_int_equal(rig_post(&third, &pair.wr), 0);
	rig_expect(third.send_cq, 7, IBV_WC_RETRY_EXC_ERR);
	rig_end_close(&third);
	rig_pair_close(&pair);
}

/* b is told something wrong of a; a's WRITE then gets no answer. */
static void mistaken(uint8_t port_num, uint32_t rq_psn, uint8_t dgid_last)
{
	struct rig_pair pair = {0};
	struct rig_address of_a;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};

	rig_end_open(&pair.a, NULL);
	rig_end_open(&pair.b, NULL);
	rig_address_of(&pair.a, &of_a);
	rig_address_of(&pair.b, &pair.to_b);
	of_a.gid.raw[15] = dgid_last;
	pair.b.port_num = port_num;
	rig_to_init(&pair.a, NULL);
	rig_to_init(&pair.b, NULL);
	rig_to_rtr(&pair.a, &pair.to_b, NULL);
	attr.dest_qp_num = of_a.qpn;
	attr.rq_psn = rq_psn;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = of_a.gid;
	assert_int_equal(sxt_soft_qp_modify(pair.b.qp, &attr,
					    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC |
						    IBV_QP_MIN_RNR_TIMER),
			 0);
	rig_to_rts(&pair.a, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_pair_run(&pair, rq_psn == 0 && port_num == 1 && dgid_last == 1 ? IBV_WC_SUCCESS
									   : IBV_WC_RETRY_EXC_ERR);
	rig_pair_close(&pair);
}

static void both_ends_must_mean_each_other(void **state)
{
	(void)state;
	mistaken(1, 0, 1);
	mistaken(1, 5, 1); /* starts at another packet */
	mistaken(2, 0, 1); /* sits on another port than a thinks */
	mistaken(1, 0, 2); /* answers to another port than a's */
}

static void an_armed_fault_is_used_up(void **state)
{
	struct sxt_soft_mr_request request = {.dmabuf_fd = -1, .length = 64};
	struct rig_pair pair;
	struct ibv_mr *mr;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	atomic_store(&rig_shared()->ports[0].fault_wc, sxt_soft_fault_word(IBV_WC_GENERAL_ERR, 1));
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_pair_run(&pair, IBV_WC_GENERAL_ERR);
	rig_pair_close(&pair);
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	atomic_store(&rig_shared()->hcas[0].fault_reg, sxt_soft_fault_word(ENOSPC, 1));
	request.addr = pair.a.memory;
	assert_int_equal(sxt_soft_mr_register(pair.a.pd, &request, &mr), -ENOSPC);
	assert_int_equal(sxt_soft_mr_register(pair.a.pd, &request, &mr), 0);
	assert_int_equal(sxt_soft_mr_deregister(mr), 0);
	rig_pair_close(&pair);
}

static void posting_before_rts_is_refused(void **state)
{
	struct rig_end end;
	struct rig_address self;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	rig_end_open(&end, NULL);
	rig_address_of(&end, &self);
	rig_wr(&end, &self, IBV_WR_RDMA_WRITE, 8, &sge, &wr);
	assert_int_equal(rig_post(&end, &wr), EINVAL);
	assert_int_equal(rig_post_recv(&end, 1, 0, 8), EINVAL);
	rig_to_init(&end, NULL);
	assert_int_equal(rig_post(&end, &wr), EINVAL);
	assert_int_equal(rig_post_recv(&end, 1, 0, 8), 0);
	wr.num_sge = 5;
	rig_to_rtr(&end, &self, NULL);
	rig_to_rts(&end, NULL);
	assert_int_equal(rig_post(&end, &wr), EINVAL);
	wr.num_sge = 1;
	wr.opcode = IBV_WR_BIND_MW;
	assert_int_equal(rig_post(&end, &wr), EINVAL);
	rig_end_close(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(a_bad_local_key_is_a_protection_error),
		RIG_TEST(a_range_past_the_local_registration_is_a_protection_error),
		RIG_TEST(a_bad_remote_key_fails_both_ends),
		RIG_TEST(a_range_past_the_remote_registration_fails_both_ends),
		RIG_TEST(a_key_is_dead_once_deregistered),
		RIG_TEST(registrations_allow_what_they_say),
		RIG_TEST(a_registration_keeps_the_offset_in_the_page),
		RIG_TEST(an_empty_piece_needs_no_key),
		RIG_TEST(a_qp_allows_what_it_says),
		RIG_TEST(a_message_longer_than_its_receive_fails_both_ends),
		RIG_TEST(a_receive_with_a_bad_key_fails_both_ends),
		RIG_TEST(atomics_want_eight_aligned_bytes),
		RIG_TEST(no_receive_and_no_retries_fail_at_once),
		RIG_TEST(no_receive_fails_when_the_retries_are_used_up),
		RIG_TEST(a_sender_waits_for_ever_for_a_receive_if_told_so),
		RIG_TEST(work_that_waits_is_flushed_in_order),
		RIG_TEST(a_down_port_fails_after_the_retry_time),
		RIG_TEST(a_short_flap_is_survived),
		RIG_TEST(a_peer_that_is_gone_or_another_is_not_reached),
		RIG_TEST(both_ends_must_mean_each_other),
		RIG_TEST(an_armed_fault_is_used_up),
		RIG_TEST(posting_before_rts_is_refused),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
