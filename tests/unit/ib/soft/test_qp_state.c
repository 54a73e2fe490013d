/*
 * test_qp_state.c - the state machine of queue pairs: every mask bit, every transition, values.
 */
#include "tests/unit/ib/soft/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Written down from the specification, apart from the table under test. */
#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR                                                                          \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS                                                                                 \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define ALL_BITS 21

struct stage {
	enum ibv_qp_state state;
	int need;
	int may;
};

static const struct stage stages[] = {
	{IBV_QPS_INIT, TO_INIT, 0},
	{IBV_QPS_RTR, TO_RTR, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTS, TO_RTS,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

/* Values that fit every transition, towards the QP itself. */
static void fill(const struct rig_end *end, enum ibv_qp_state from, enum ibv_qp_state to,
		 struct ibv_qp_attr *attr)
{
	struct rig_address self;

	rig_address_of(end, &self);
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = to;
	attr->cur_qp_state = from;
	attr->port_num = 1;
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = self.qpn;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.dgid = self.gid;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->timeout = 14;
}

static void each_bit_counts(void **state)
{
	enum ibv_qp_state from = IBV_QPS_RESET;
	struct rig_end end;
	struct ibv_qp_attr attr;

	(void)state;
	rig_end_open(&end, NULL);
	for (size_t i = 0; i < SXT_ARRAY_LEN(stages); i++) {
		const struct stage *stage = &stages[i];

		fill(&end, from, stage->state, &attr);
		for (int bit = 1; bit < ALL_BITS; bit++) {
			int one = 1 << bit;

			if ((stage->need & one) != 0)
				assert_int_equal(sxt_soft_qp_modify(end.qp, &attr,
								    stage->need & ~one),
						 -EINVAL);
			else if ((stage->may & one) == 0)
				assert_int_equal(sxt_soft_qp_modify(end.qp, &attr,
								    stage->need | one),
						 -EINVAL);
			assert_int_equal(end.qp->state, from);
		}
		assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, stage->need | stage->may), 0);
		assert_int_equal(end.qp->state, stage->state);
		from = stage->state;
	}
	rig_end_close(&end);
}

static void states_are_not_skipped(void **state)
{
	static const enum ibv_qp_state all[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_SQE,
						IBV_QPS_ERR};
	struct rig_end end;
	struct ibv_qp_attr attr;

	(void)state;
	rig_end_open(&end, NULL);
	for (size_t i = 0; i < SXT_ARRAY_LEN(all); i++) {
		if (all[i] == IBV_QPS_INIT || all[i] == IBV_QPS_RESET)
			continue;
		fill(&end, IBV_QPS_RESET, all[i], &attr);
		assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, IBV_QP_STATE), -EINVAL);
		assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, TO_RTR), -EINVAL);
		assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, TO_RTS), -EINVAL);
	}
	assert_int_equal(end.qp->state, IBV_QPS_RESET);
	rig_to_init(&end, NULL);
	fill(&end, IBV_QPS_INIT, IBV_QPS_RTS, &attr);
	assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, TO_RTS), -EINVAL);
	/* INIT to INIT may change what INIT sets. */
	fill(&end, IBV_QPS_INIT, IBV_QPS_INIT, &attr);
	attr.port_num = 2;
	assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, IBV_QP_PORT), 0);
	rig_end_close(&end);
}

/* One value is wrong; the right one is put back by fill(). */
static void refused(const struct rig_end *end, struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = end->qp->state;

	assert_int_equal(sxt_soft_qp_modify(end->qp, attr, mask), -EINVAL);
	assert_int_equal(end->qp->state, from);
	fill(end, from, attr->qp_state, attr);
}

static void values_must_fit_the_port(void **state)
{
	struct rig_end end;
	struct ibv_qp_attr attr;

	(void)state;
	rig_end_open(&end, NULL);
	fill(&end, IBV_QPS_RESET, IBV_QPS_INIT, &attr);
	attr.port_num = 3;
	refused(&end, &attr, TO_INIT);
	attr.pkey_index = 1;
	refused(&end, &attr, TO_INIT);
	rig_to_init(&end, NULL);
	fill(&end, IBV_QPS_INIT, IBV_QPS_RTR, &attr);
	attr.path_mtu = 6;
	refused(&end, &attr, TO_RTR);
	attr.dest_qp_num = 1u << 24;
	refused(&end, &attr, TO_RTR);
	attr.ah_attr.is_global = 0; /* RoCE has no other addresses */
	refused(&end, &attr, TO_RTR);
	attr.ah_attr.grh.sgid_index = 1; /* empty */
	refused(&end, &attr, TO_RTR);
	attr.ah_attr.grh.sgid_index = 9; /* past the table */
	refused(&end, &attr, TO_RTR);
	attr.ah_attr.port_num = 2;
	refused(&end, &attr, TO_RTR);
	attr.min_rnr_timer = 32;
	refused(&end, &attr, TO_RTR);
	attr.max_dest_rd_atomic = 17;
	refused(&end, &attr, TO_RTR);
	assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, TO_RTR), 0);
	fill(&end, IBV_QPS_RTR, IBV_QPS_RTS, &attr);
	attr.retry_cnt = 8;
	refused(&end, &attr, TO_RTS);
	attr.rnr_retry = 8;
	refused(&end, &attr, TO_RTS);
	attr.timeout = 32;
	refused(&end, &attr, TO_RTS);
	attr.cur_qp_state = IBV_QPS_INIT;
	refused(&end, &attr, TO_RTS | IBV_QP_CUR_STATE);
	rig_end_close(&end);
}

static void query_tells_what_was_set(void **state)
{
	struct ibv_qp_init_attr init;
	struct rig_pair pair;
	struct ibv_qp_attr attr;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	assert_int_equal(sxt_soft_qp_query(pair.a.qp, &attr, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, pair.to_b.qpn);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_memory_equal(attr.ah_attr.grh.dgid.raw, pair.to_b.gid.raw, 16);
	assert_int_equal(init.cap.max_send_wr, 16);
	assert_ptr_equal(init.send_cq, pair.a.send_cq);
	rig_pair_close(&pair);
}

static void reset_forgets_and_the_qp_lives_again(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	assert_int_equal(rig_post_recv(&pair.a, 1, 0, 8), 0);
	assert_int_equal(sxt_soft_qp_modify(pair.a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(sxt_soft_qp_modify(pair.b.qp, &attr, IBV_QP_STATE), 0);
	rig_nothing(pair.a.send_cq); /* unpolled completions went with it */
	rig_nothing(pair.a.recv_cq);
	rig_connect(&pair.a, &pair.b, NULL);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void a_drained_queue_waits_and_goes_on(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	assert_int_equal(sxt_soft_qp_modify(pair.a.qp, &attr,
					    IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	rig_event(&pair.a, IBV_EVENT_SQ_DRAINED);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_nothing(pair.a.send_cq);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(sxt_soft_qp_modify(pair.a.qp, &attr, IBV_QP_STATE), 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
}

static void numbers_are_not_given_out_again_soon(void **state)
{
	uint32_t seen[200];
	struct rig_end end;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(seen); i++) {
		rig_end_open(&end, NULL);
		seen[i] = end.qp->qp_num;
		assert_true(seen[i] > 1 && seen[i] < 1u << 24);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(seen[i], seen[j]);
		rig_end_close(&end);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(each_bit_counts),
		RIG_TEST(states_are_not_skipped),
		RIG_TEST(values_must_fit_the_port),
		RIG_TEST(query_tells_what_was_set),
		RIG_TEST(reset_forgets_and_the_qp_lives_again),
		RIG_TEST(a_drained_queue_waits_and_goes_on),
		RIG_TEST(numbers_are_not_given_out_again_soon),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
