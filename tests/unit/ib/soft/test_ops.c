/*
 * test_ops.c - what each operation of a reliable connection does when all is well.
 */
#include "tests/unit/ib/soft/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_write_lands_and_completes(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	memset(pair.a.memory, 0x5a, 1000);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 1000);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.memory, pair.b.memory, 1000);
	assert_int_equal(pair.b.memory[1000], 0);
	rig_nothing(pair.b.recv_cq);
	rig_pair_close(&pair);
}

static void a_write_of_every_length_lands_exactly(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	for (uint32_t i = 0; i < 4096; i++)
		pair.a.memory[i] = (uint8_t)(i * 7 + 1);
	for (uint32_t bytes = 0; bytes < 300; bytes++) {
		memset(pair.b.memory, 0, 512);
		rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, bytes);
		pair.wr.wr.rdma.remote_addr += 3; /* no alignment helps */
		rig_pair_run(&pair, IBV_WC_SUCCESS);
		assert_memory_equal(pair.b.memory + 3, pair.a.memory, bytes);
		assert_int_equal(pair.b.memory[2], 0);
		assert_int_equal(pair.b.memory[3 + bytes], 0);
	}
	rig_pair_close(&pair);
}

static void write_with_immediate_takes_a_receive(void **state)
{
	struct rig_pair pair;
	struct ibv_wc wc;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	assert_int_equal(rig_post_recv(&pair.b, 3, 0, 0), 0);
	pair.a.memory[9] = 0x42;
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, 10);
	pair.wr.imm_data = 0xcafe;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_poll(pair.b.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0xcafe);
	assert_int_equal(wc.byte_len, 10);
	assert_int_equal(wc.wr_id, 3);
	assert_int_equal(pair.b.memory[9], 0x42);
	rig_pair_close(&pair);
}

static void a_send_gathers_and_scatters(void **state)
{
	struct rig_pair pair;
	struct ibv_sge from[3];
	struct ibv_sge to[2];
	struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = to, .num_sge = 2};
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	for (uint32_t i = 0; i < 3; i++) {
		memset(pair.a.memory + i * 100, (int)i + 1, 10);
		from[i].addr = (uintptr_t)pair.a.memory + i * 100;
		from[i].length = i == 1 ? 0 : 10; /* an empty piece in the middle */
		from[i].lkey = pair.a.mr->lkey;
	}
	for (uint32_t i = 0; i < 2; i++) {
		to[i].addr = (uintptr_t)pair.b.memory + i * 1000;
		to[i].length = 15;
		to[i].lkey = pair.b.mr->lkey;
	}
	assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 0);
	pair.wr.sg_list = from;
	pair.wr.num_sge = 3;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_poll(pair.b.recv_cq, &wc);
	assert_int_equal(wc.byte_len, 20);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(pair.b.memory[9], 1);
	assert_int_equal(pair.b.memory[14], 3);
	assert_int_equal(pair.b.memory[15], 0);
	assert_int_equal(pair.b.memory[1004], 3);
	assert_int_equal(pair.b.memory[1005], 0);
	rig_pair_close(&pair);
}

static void a_read_brings_and_tells_its_length(void **state)
{
	struct rig_pair pair;
	struct ibv_wc wc;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	memset(pair.b.memory, 0x33, 100);
	rig_pair_wr(&pair, IBV_WR_RDMA_READ, 100);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_poll(pair.a.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, 100);
	assert_memory_equal(pair.a.memory, pair.b.memory, 100);
	rig_pair_close(&pair);
}

static void atomics_return_what_was_there(void **state)
{
	struct rig_pair pair;
	uint64_t *mine;
	uint64_t *theirs;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	mine = (uint64_t *)(void *)pair.a.memory;
	theirs = (uint64_t *)(void *)pair.b.memory;
	*theirs = 40;
	rig_pair_wr(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	pair.wr.wr.atomic.compare_add = 2;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_int_equal(*mine, 40);
	assert_int_equal(*theirs, 42);
	rig_pair_wr(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	pair.wr.wr.atomic.compare_add = 41;
	pair.wr.wr.atomic.swap = 1;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_int_equal(*mine, 42);
	assert_int_equal(*theirs, 42);
	pair.wr.wr.atomic.compare_add = 42;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_int_equal(*theirs, 1);
	rig_pair_close(&pair);
}

static void inline_data_needs_no_key(void **state)
{
	struct rig_pair pair;
	uint8_t local[64];

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	memset(local, 0x11, sizeof(local));
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, sizeof(local));
	pair.sge.addr = (uintptr_t)local;
	pair.sge.lkey = 0;
	pair.wr.send_flags |= IBV_SEND_INLINE;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.memory, local, sizeof(local));
	pair.sge.length = 65;
	assert_int_equal(rig_post(&pair.a, &pair.wr), EINVAL);
	rig_pair_close(&pair);
}

static void unsignaled_work_frees_its_slots_with_the_next_completion(void **state)
{
	struct rig_options options = {.send_wr = 4};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	for (int round = 0; round < 10; round++) {
		pair.wr.send_flags = 0;
		for (int i = 0; i < 3; i++)
			assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
		pair.wr.send_flags = IBV_SEND_SIGNALED;
		assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
		/* Done, but nobody polled: the queue is full, as on hardware. */
		assert_int_equal(rig_post(&pair.a, &pair.wr), ENOMEM);
		rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
		rig_nothing(pair.a.send_cq);
	}
	rig_pair_close(&pair);
}

static void a_list_stops_at_the_first_that_is_not_taken(void **state)
{
	struct rig_options options = {.send_wr = 2};
	struct rig_pair pair;
	struct ibv_send_wr wrs[3];
	struct ibv_send_wr *bad = NULL;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	for (int i = 0; i < 3; i++) {
		wrs[i] = pair.wr;
		wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(pair.a.qp, wrs, &bad), ENOMEM);
	assert_ptr_equal(bad, &wrs[2]);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_nothing(pair.a.send_cq);
	rig_pair_close(&pair);
}

static void everything_completes_when_the_qp_signals_all(void **state)
{
	struct rig_options options = {.sig_all = true};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	pair.wr.send_flags = 0;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void receive_queues_wrap_and_count_what_was_polled(void **state)
{
	struct rig_options options = {.recv_wr = 3};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_wr(&pair, IBV_WR_SEND, 16);
	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 3; i++)
			assert_int_equal(rig_post_recv(&pair.b, round * 3 + i, 64 * i, 64), 0);
		assert_int_equal(rig_post_recv(&pair.b, 0, 0, 64), ENOMEM);
		for (uint64_t i = 0; i < 3; i++)
			rig_pair_run(&pair, IBV_WC_SUCCESS);
		/* Consumed, but not polled. */
		assert_int_equal(rig_post_recv(&pair.b, 0, 0, 64), ENOMEM);
		for (uint64_t i = 0; i < 3; i++)
			rig_expect(pair.b.recv_cq, round * 3 + i, IBV_WC_SUCCESS);
	}
	rig_pair_close(&pair);
}

static void the_extended_interface_posts_all_or_none(void **state)
{
	struct rig_options options = {.extended = true, .send_wr = 2};
	struct rig_pair pair;
	struct ibv_qp_ex *ex;
	uint64_t value = 99;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	ex = sxt_soft_qp_to_ex(pair.a.qp);
	assert_non_null(ex);
	assert_int_equal(rig_post_recv(&pair.b, 3, 64, 64), 0);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, pair.to_b.rkey, pair.to_b.addr);
	ibv_wr_set_inline_data(ex, &value, sizeof(value));
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, 5);
	ibv_wr_set_sge(ex, pair.a.mr->lkey, (uintptr_t)pair.a.memory, 8);
	value = 0; /* inline data was taken when it was set */
	assert_int_equal(ibv_wr_complete(ex), 0);
	rig_expect(pair.a.send_cq, 2, IBV_WC_SUCCESS);
	rig_expect(pair.b.recv_cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(pair.b.memory[0], 99);
	ibv_wr_start(ex);
	for (int i = 0; i < 3; i++) {
		ibv_wr_rdma_write(ex, pair.to_b.rkey, pair.to_b.addr);
		ibv_wr_set_sge(ex, pair.a.mr->lkey, (uintptr_t)pair.a.memory, 8);
	}
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	rig_nothing(pair.a.send_cq);
	ibv_wr_start(ex);
	ibv_wr_abort(ex);
	rig_pair_close(&pair);
}

static void a_qp_may_talk_to_itself(void **state)
{
	struct rig_end end;
	struct rig_address self;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	rig_end_open(&end, NULL);
	rig_address_of(&end, &self);
	rig_to_init(&end, NULL);
	rig_to_rtr(&end, &self, NULL);
	rig_to_rts(&end, NULL);
	rig_wr(&end, &self, IBV_WR_RDMA_WRITE, 8, &sge, &wr);
	wr.wr.rdma.remote_addr += 64;
	end.memory[0] = 9;
	assert_int_equal(rig_post(&end, &wr), 0);
	rig_expect(end.send_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(end.memory[64], 9);
	rig_end_close(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(a_write_lands_and_completes),
		RIG_TEST(a_write_of_every_length_lands_exactly),
		RIG_TEST(write_with_immediate_takes_a_receive),
		RIG_TEST(a_send_gathers_and_scatters),
		RIG_TEST(a_read_brings_and_tells_its_length),
		RIG_TEST(atomics_return_what_was_there),
		RIG_TEST(inline_data_needs_no_key),
		RIG_TEST(unsignaled_work_frees_its_slots_with_the_next_completion),
		RIG_TEST(a_list_stops_at_the_first_that_is_not_taken),
		RIG_TEST(everything_completes_when_the_qp_signals_all),
		RIG_TEST(receive_queues_wrap_and_count_what_was_polled),
		RIG_TEST(the_extended_interface_posts_all_or_none),
		RIG_TEST(a_qp_may_talk_to_itself),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
