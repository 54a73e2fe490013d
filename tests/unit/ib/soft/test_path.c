/*
 * test_path.c - which ports reach each other: networks, ports that drop, InfiniBand's routers.
 */
#include "tests/unit/ib/soft/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_TIMEOUT 31 /* 2.4 hours a try */

/* Port 1 and port 2 of one HCA, connected, with a receive posted at b. */
static void open_ports(struct rig_pair *pair, const struct rig_path *path)
{
	struct rig_options second = {.port_num = 2};

	memset(pair, 0, sizeof(*pair));
	rig_end_open(&pair->a, NULL);
	rig_end_open(&pair->b, &second);
	rig_connect(&pair->a, &pair->b, path);
	rig_address_of(&pair->b, &pair->to_b);
	assert_int_equal(rig_post_recv(&pair->b, 21, 512, 8), 0);
	pair->a.memory[0] = 5;
}

static uint32_t state_of(const struct rig_end *end)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(sxt_soft_qp_query(end->qp, &attr, &init), 0);
	return attr.qp_state;
}

static struct sxt_soft_port *port_of(const struct rig_end *end)
{
	return &rig_shared()->ports[end->port_num - 1];
}

static void another_network_is_never_reached(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_SEND, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct rig_path path = {.timeout = 9, .retry_cnt = 1}; /* 2 x 2.1 ms */
	struct rig_pair pair;
	uint64_t before;

	(void)state;
	rig_shared()->ports[1].network_id = 2;
	for (size_t i = 0; i < SXT_ARRAY_LEN(opcodes); i++) {
		open_ports(&pair, &path);
		rig_pair_wr(&pair, opcodes[i], 8);
		before = sxt_soft_now_ns();
		rig_pair_run(&pair, IBV_WC_RETRY_EXC_ERR);
		assert_true(sxt_soft_now_ns() - before >= 4194304);
		assert_int_equal(state_of(&pair.a), IBV_QPS_ERR);
		assert_int_equal(state_of(&pair.b), IBV_QPS_RTS);
		rig_nothing(pair.b.recv_cq);
		assert_int_equal(pair.a.memory[0], 5);
		assert_int_equal(pair.b.memory[0], 0);
		rig_pair_close(&pair);
	}
	rig_shared()->ports[1].network_id = 0;
}

static void what_is_behind_a_lost_request_is_flushed(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_shared()->ports[0].network_id = 1;
	open_ports(&pair, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	pair.wr.wr_id = 8;
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_RETRY_EXC_ERR);
	rig_expect(pair.a.send_cq, 8, IBV_WC_WR_FLUSH_ERR);
	rig_pair_close(&pair);
	rig_shared()->ports[0].network_id = 0;
}

static void a_port_reaches_itself_on_any_network(void **state)
{
	struct rig_pair pair;

	(void)state;
	rig_shared()->ports[0].network_id = 3;
	rig_pair_open(&pair, NULL, NULL);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_pair_close(&pair);
	rig_shared()->ports[0].network_id = 0;
}

static void a_port_that_drops_stays_active_and_loses_both_ways(void **state)
{
	struct ibv_port_attr attr;
	struct rig_pair pair;

	(void)state;
	for (int side = 0; side < 2; side++) {
		open_ports(&pair, NULL);
		atomic_store(&rig_shared()->ports[side].drop, 1);
		assert_int_equal(sxt_soft_port_query(pair.a.context, (uint8_t)(side + 1), &attr,
						     sizeof(attr)),
				 0);
		assert_int_equal(attr.state, IBV_PORT_ACTIVE);
		rig_pair_wr(&pair, IBV_WR_SEND, 8);
		rig_pair_run(&pair, IBV_WC_RETRY_EXC_ERR);
		rig_nothing(pair.b.recv_cq);
		atomic_store(&rig_shared()->ports[side].drop, 0);
		rig_pair_close(&pair);
	}
}

static void a_drop_that_ends_in_time_loses_nothing(void **state)
{
	struct rig_path path = {.timeout = LONG_TIMEOUT};
	struct rig_pair pair;
	uint64_t timeouts;

	(void)state;
	open_ports(&pair, &path);
	timeouts = atomic_load(&port_of(&pair.a)->counters.ack_timeout);
	atomic_store(&port_of(&pair.b)->drop, 1);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	rig_nothing(pair.a.send_cq);
	rig_nothing(pair.b.recv_cq);
	assert_true(atomic_load(&port_of(&pair.a)->counters.ack_timeout) > timeouts);
	atomic_store(&port_of(&pair.b)->drop, 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_expect(pair.b.recv_cq, 21, IBV_WC_SUCCESS);
	assert_int_equal(pair.b.memory[512], 5);
	rig_pair_close(&pair);
}

static void to_rts_without_a_timeout(struct rig_end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .retry_cnt = 7};

	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr,
					    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						    IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void a_timeout_of_zero_waits_for_ever(void **state)
{
	struct rig_pair pair;

	(void)state;
	memset(&pair, 0, sizeof(pair));
	rig_end_open(&pair.a, NULL);
	rig_address_of(&pair.a, &pair.to_b);
	rig_to_init(&pair.a, NULL);
	rig_to_rtr(&pair.a, &pair.to_b, NULL); /* to itself */
	to_rts_without_a_timeout(&pair.a);
	atomic_store(&port_of(&pair.a)->drop, 1);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(rig_post(&pair.a, &pair.wr), 0);
	for (int i = 0; i < 1000; i++)
		rig_nothing(pair.a.send_cq);
	assert_int_equal(state_of(&pair.a), IBV_QPS_RTS);
	atomic_store(&port_of(&pair.a)->drop, 0);
	rig_expect(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_end_close(&pair.a);
}

/* Ports 1 and 2 become InfiniBand ports of subnets 1 and 2, with FLIDs 0x901 and 0x902. */
static void make_subnets(uint8_t second)
{
	for (uint8_t i = 0; i < 2; i++) {
		struct sxt_soft_port *port = &rig_shared()->ports[i];

		port->link_layer = SXT_SOFT_INFINIBAND;
		port->lid = (uint16_t)(5 + i);
		memset(port->gids, 0, sizeof(port->gids));
		for (int k = 0; k < 2; k++) {
			port->gids[k].raw[0] = 0xfe;
			port->gids[k].raw[1] = 0x80;
			port->gids[k].raw[7] = i == 0 ? 1 : second;
			port->gids[k].raw[15] = (uint8_t)(1 + i);
		}
		port->gids[1].raw[4] = 9;
		port->gids[1].raw[5] = (uint8_t)(1 + i);
	}
}

static const struct sxt_soft_port *find(const struct ibv_ah_attr *attr)
{
	struct sxt_soft_engine *engine;

	assert_int_equal(sxt_soft_engine_get(&engine), 0);
	return sxt_soft_port_by_address(engine, &rig_shared()->ports[0], attr);
}

static void a_lid_leads_nowhere_in_another_subnet(void **state)
{
	const struct sxt_soft_port *second = &rig_shared()->ports[1];
	struct ibv_ah_attr attr = {.dlid = 6};

	(void)state;
	make_subnets(1);
	assert_ptr_equal(find(&attr), second);
	make_subnets(2);
	assert_null(find(&attr));
	attr.is_global = 1;
	memcpy(attr.grh.dgid.raw, second->gids[1].raw, 16);
	assert_null(find(&attr));
}

static void a_router_takes_what_goes_to_the_flid_of_a_gid(void **state)
{
	const struct sxt_soft_port *second = &rig_shared()->ports[1];
	struct ibv_ah_attr attr = {.dlid = 0x902, .is_global = 1};

	(void)state;
	make_subnets(2);
	memcpy(attr.grh.dgid.raw, second->gids[1].raw, 16);
	assert_ptr_equal(find(&attr), second);
	attr.grh.dgid.raw[15] = 9; /* nobody's */
	assert_null(find(&attr));
	memcpy(attr.grh.dgid.raw, second->gids[0].raw, 16); /* without FLID */
	assert_null(find(&attr));
	attr.is_global = 0;
	assert_null(find(&attr));
}

/* As rig_to_rtr(), with an address of its own. */
static void to_rtr_through_router(struct rig_end *end, const struct rig_end *peer, uint16_t flid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = peer->qp->qp_num,
				   .min_rnr_timer = 1,
				   .ah_attr = {.dlid = flid,
					       .is_global = 1,
					       .port_num = end->port_num,
					       .grh = {.sgid_index = 1, .hop_limit = 64}}};

	memcpy(attr.ah_attr.grh.dgid.raw, port_of(peer)->gids[1].raw, 16);
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr,
					    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC |
						    IBV_QP_MIN_RNR_TIMER),
			 0);
}

/* A WRITE from a to b, whose answers come back over @flid_back. */
static void write_across(uint16_t flid_back, enum ibv_wc_status status)
{
	struct rig_options second = {.port_num = 2};
	struct rig_pair pair;

	memset(&pair, 0, sizeof(pair));
	rig_end_open(&pair.a, NULL);
	rig_end_open(&pair.b, &second);
	rig_address_of(&pair.b, &pair.to_b);
	rig_to_init(&pair.a, NULL);
	rig_to_init(&pair.b, NULL);
	to_rtr_through_router(&pair.a, &pair.b, 0x902);
	to_rtr_through_router(&pair.b, &pair.a, flid_back);
	rig_to_rts(&pair.a, NULL);
	rig_to_rts(&pair.b, NULL);
	pair.a.memory[0] = 5;
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 8);
	rig_pair_run(&pair, status);
	assert_int_equal(pair.b.memory[0], status == IBV_WC_SUCCESS ? 5 : 0);
	rig_pair_close(&pair);
}

static void a_connection_crosses_subnets_by_flid_in_both_directions(void **state)
{
	(void)state;
	make_subnets(2);
	write_across(0x901, IBV_WC_SUCCESS);
	write_across(0x5, IBV_WC_RETRY_EXC_ERR); /* the LID of a, which b's subnet lacks */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(another_network_is_never_reached),
		RIG_TEST(what_is_behind_a_lost_request_is_flushed),
		RIG_TEST(a_port_reaches_itself_on_any_network),
		RIG_TEST(a_port_that_drops_stays_active_and_loses_both_ways),
		RIG_TEST(a_drop_that_ends_in_time_loses_nothing),
		RIG_TEST(a_timeout_of_zero_waits_for_ever),
		RIG_TEST(a_lid_leads_nowhere_in_another_subnet),
		RIG_TEST(a_router_takes_what_goes_to_the_flid_of_a_gid),
		RIG_TEST(a_connection_crosses_subnets_by_flid_in_both_directions),
	};

	return cmocka_run_group_tests_name("soft_path", tests, rig_fabric, rig_fabric_gone);
}
