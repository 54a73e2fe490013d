/*
 * test_choice.c - which ports of a whole machine are used, what is said about them, and what
 * becomes of that while the job runs.
 */
#include "ib/place.h"
#include "tests/unit/ib/machine.h"
#include "tests/unit/ib/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define R1 "0=fe80::1/v1 1=fe80::1/v2 2=200.0.209.6/v1 3=200.0.209.6/v2"

static void candidates_are_addresses_and_told_when_they_move(void **state)
{
	struct sxt_port_address out[8];
	uint32_t cnt = 0;

	(void)state;
	machine_add("mlx5_0")->gids = R1;
	assert_int_equal(machine_start(), 0);
	assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
	assert_int_equal(cnt, 4);
	assert_int_equal(out[0].gid.index, 3);
	assert_int_equal(out[0].place.gid_index, 3);
	assert_int_equal(out[3].gid.index, 0);
	assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 2, &cnt), 0);
	assert_int_equal(cnt, 2);
	machine_hcas[0].gids = "0=fe80::1/v1 1=fe80::1/v2 2=200.0.209.6/v1 7=200.0.209.6/v2";
	assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
	assert_int_equal(out[0].place.gid_index, 7);
	machine_logged("2 port mlx5_0: GID moved from index 3 to 7 (same address 200.0.209.6)");
	machine_hcas[0].gids = "0=fe80::1/v1 1=fe80::1/v2";
	assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
	assert_int_equal(cnt, 2);
	machine_logged("1 port mlx5_0: its address was 200.0.209.6 (RoCE v2), new connections use "
		       "GID index 1 fe80::1 (RoCE v2)");
}

static void a_port_is_looked_at_again_after_events(void **state)
{
	struct sxt_port_seen seen;

	(void)state;
	machine_add("mlx5_0")->gids = R1;
	assert_int_equal(machine_start(), 0);
	machine_hcas[0].state = IBV_PORT_DOWN;
	sxt_port_reread(rig.ibs[0]->ports[0]);
	sxt_port_seen_get(rig.ibs[0]->ports[0], &seen);
	assert_false(seen.is_usable);
	machine_logged("2 port mlx5_0 cannot be used now: it is DOWN (polling)");
	machine_hcas[0].state = IBV_PORT_ACTIVE;
	machine_hcas[0].speed = 64;
	sxt_port_reread(rig.ibs[0]->ports[0]);
	sxt_port_seen_get(rig.ibs[0]->ports[0], &seen);
	assert_true(seen.is_usable);
	assert_int_equal(seen.speed_mbps, 200000);
	machine_logged("1 port mlx5_0: it runs at 200 Gb/s now, after 400");
	machine_hcas[0].speed = 128;
	sxt_port_reread(rig.ibs[0]->ports[0]);
	machine_logged("its speed in Mb/s was 200000 and is 400000 now");
}

static void a_port_that_comes_up_late_is_told_once(void **state)
{
	static const char late[] =
		"1 port mlx5_1:1 can be used now, but not by this job: it could not when the job "
		"began, and NCCL asks for devices once; start the job again to use it\n";
	(void)state;
	machine_add("mlx5_0");
	machine_add("mlx5_1")->state = IBV_PORT_DOWN;
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0");
	machine_event(1, IBV_EVENT_PORT_ACTIVE, 1); /* and down again when it is looked at */
	assert_int_equal(rig_logged("mlx5_1:1 can be used now"), 0);
	/* Up, but its address comes later. */
	machine_hcas[1].state = IBV_PORT_ACTIVE;
	machine_hcas[1].gids = "0=::/v2";
	machine_event(1, IBV_EVENT_PORT_ACTIVE, 1);
	assert_int_equal(rig_logged("mlx5_1:1 can be used now"), 0);
	machine_hcas[1].gids = NULL;
	machine_event(1, IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(rig_logged(late), 1);
	machine_event(1, IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(rig_logged(late), 1);
	machine_ports("mlx5_0");
	for (int num = -1; num < 300; num += 43)
		machine_event(1, IBV_EVENT_PORT_ACTIVE, num);
	machine_stop();
	/* One that the user excludes may do what it likes. */
	rig_forget();
	rig_set(&rig.config.ib_hca, "=mlx5_0");
	machine_hcas[1].state = IBV_PORT_DOWN;
	assert_int_equal(machine_start(), 0);
	machine_hcas[1].state = IBV_PORT_ACTIVE;
	machine_event(1, IBV_EVENT_PORT_ACTIVE, 1);
	assert_int_equal(rig_logged("can be used now"), 0);
}

/* What NCCL was told stays; what a connection needs is read when it is made. */
static void a_new_connection_gets_the_port_as_it_is_now(void **state)
{
	struct sxt_port_place place;

	(void)state;
	machine_add("mlx5_0")->gids = R1;
	assert_int_equal(machine_start(), 0);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
	assert_int_equal(place.path.mtu, IBV_MTU_4096);
	assert_int_equal(place.path.max_message_log2, 30);
	machine_hcas[0].mtu = IBV_MTU_1024;
	machine_hcas[0].max_message = 1u << 20;
	machine_hcas[0].lid = 9;
	machine_hcas[0].speed = 64;
	machine_hcas[0].gids = "0=fe80::1/v1 1=fe80::1/v2 6=200.0.209.6/v2";
	machine_event(0, IBV_EVENT_GID_CHANGE, 1);
	machine_logged("2 port mlx5_0: its MTU was 4096 and is 1024 now");
	machine_logged("2 port mlx5_0: its LID was 3 and is 9 now");
	machine_logged("2 port mlx5_0: GID moved from index 3 to 6 (same address 200.0.209.6)");
	machine_logged("1 port mlx5_0: it runs at 200 Gb/s now, after 400");
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
	assert_int_equal(place.path.mtu, IBV_MTU_1024);
	assert_int_equal(place.path.max_message_log2, 20);
	assert_int_equal(place.path.lid, 9);
	assert_int_equal(place.gid_index, 6);
	assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 400000);
}

static void a_named_port_that_is_down_is_a_warning(void **state)
{
	(void)state;
	machine_add("mlx5_0");
	machine_add("mlx5_1")->state = IBV_PORT_DOWN;
	assert_int_equal(machine_start(), 0);
	machine_logged("2 port mlx5_1:1 is left out: it is DOWN (polling)");
	machine_stop();
	rig_set(&rig.config.ib_hca, "=mlx5_0,mlx5_1");
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0");
	machine_logged("1 port mlx5_1:1 is left out: it is DOWN (polling); no signal");
	machine_stop();
	rig_set(&rig.config.ib_hca, "=mlx5_1");
	assert_int_equal(machine_start(), -ENODEV);
	machine_logged("none of 2 HCAs has a port that can be used");
}

static void lists_give_rails_and_count_as_wrong_when_strict(void **state)
{
	struct sxt_nic_props props;

	(void)state;
	machine_add("mlx5_0");
	machine_add("mlx5_1");
	rig_set(&rig.config.ib_hca, "=mlx5_0:1:7:1,mlx5_1");
	assert_int_equal(machine_start(), 0);
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 0, &props), 0);
	assert_int_equal(props.rail, 7);
	assert_int_equal(props.plane, 1);
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 1, &props), 0);
	assert_int_equal(props.rail, -1);
	machine_stop();
	rig.config.strict = 1;
	assert_int_equal(machine_start(), 0);
	machine_stop();
	rig_set(&rig.config.ib_hca, "=mlx5_0,mlx5_2");
	assert_int_equal(machine_start(), -EINVAL);
	machine_logged("1 NCCL_IB_HCA: mlx5_2 matches nothing; nearest is mlx5_0");
	machine_logged("0 1 bad setting(s) and SEXTANT_STRICT=1: not starting");
	rig_set(&rig.config.ib_hca, "=^mlx5_0");
	assert_int_equal(machine_start(), -EINVAL);
	rig_set(&rig.config.ib_hca, "");
	rig.config.ib_gid_index = 9;
	assert_int_equal(machine_start(), -EINVAL);
	rig.config.ib_gid_index = -1;
	rig_set(&rig.config.ib_addr_range, "10.0.0.1");
	assert_int_equal(machine_start(), -EINVAL);
}

static void an_hca_that_cannot_be_opened_is_told_and_is_no_misspelling(void **state)
{
	(void)state;
	machine_add("erdma_0");
	machine_add("erdma_1")->open_errno = EPERM;
	rig_set(&rig.config.ib_hca, "=erdma_0,erdma_1:1");
	assert_int_equal(machine_start(), 0);
	machine_ports("erdma_0");
	machine_logged("1 HCA erdma_1 is left out: opening it: Operation not permitted; the device "
		       "cgroup of this container keeps /dev/infiniband/");
	assert_int_equal(rig_logged("matches nothing"), 0);
}

static void the_smaller_kind_of_link_is_left_out(void **state)
{
	(void)state;
	machine_add("mlx5_0")->link_layer = MACHINE_IB;
	machine_add("mlx5_1")->link_layer = MACHINE_IB;
	machine_add("mlx5_2");
	machine_add("mlx5_3")->link_layer = MACHINE_IB;
	for (int i = 0; i < machine_cnt; i++)
		machine_hcas[i].gids =
			machine_hcas[i].link_layer == MACHINE_IB ? "0=fe80::1/ib" : NULL;
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0 mlx5_1 mlx5_3");
	machine_logged("1 port mlx5_2:1 is left out: it is RoCE, and most ports here (3 of 4, 1200 "
		       "Gb/s) are InfiniBand, which it cannot talk to; name ports in NCCL_IB_HCA");
	machine_stop();
	/* Who names them gets them, but excluding others is no naming. */
	rig_set(&rig.config.ib_hca, "mlx5");
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0 mlx5_1 mlx5_2 mlx5_3");
	machine_stop();
	rig_set(&rig.config.ib_hca, "^mlx5_0,mlx5_1");
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_3"); /* as many and as fast: InfiniBand */
	machine_stop();
	machine_hcas[3].speed = 32;
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_2"); /* as many, but faster */
}

static void slow_ports_are_told_and_left_out_when_asked(void **state)
{
	(void)state;
	machine_add("mlx5_0");
	machine_add("mlx5_1");
	machine_add("mlx5_2")->speed = 32; /* 4 lanes of EDR */
	machine_add("mlx5_3")->speed = 64; /* half is not less than half */
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0 mlx5_1 mlx5_2 mlx5_3");
	machine_logged("2 port mlx5_2:1: its 103 Gb/s are less than half of the fastest's 400; "
		       "SEXTANT_SKIP_SLOW_PORTS=1 would leave it out");
	machine_stop();
	rig.config.skip_slow_ports = 1;
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0 mlx5_1 mlx5_3");
	machine_logged("2 port mlx5_2:1 is left out: its 103 Gb/s are less than half of the "
		       "fastest's 400");
}

static void ports_are_what_their_link_layer_says(void **state)
{
	(void)state;
	machine_add("rxe0");   /* no PCI device behind it */
	machine_add("irdma0"); /* Ethernet with a LID */
	machine_add("mlx5_0")->link_layer = MACHINE_IB;
	machine_hcas[2].has_no_lid = true;
	assert_int_equal(machine_start(), 0);
	machine_ports("irdma0 rxe0");
	machine_logged("2 port sxt_rxe0: RoCE v2, ");
	machine_logged("LID 3, PCI unknown");
	machine_logged("2 port sxt_irdma0: RoCE v2, ");
	machine_logged("2 port mlx5_0:1 is left out: it has no LID (LID 0, SM LID 1): is a subnet "
		       "manager running?");
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	const struct machine_hca *hca = &machine_hcas[0];

	(void)context;
	(void)port;
	if (index >= hca->pkeys_cnt)
		return EINVAL;
	*pkey = htons(hca->pkeys[index]);
	return 0;
}

static void an_empty_pkey_is_replaced_by_one_that_is_there(void **state)
{
	static const uint16_t sparse[] = {0x0000, 0x7fff, 0x8001};
	static const uint16_t limited[] = {0x0000, 0x8000, 0x7fff};
	static const uint16_t usual[] = {0xffff, 0x8001};
	const struct sxt_port *port;

	(void)state;
	machine_add("mlx5_0")->pkeys = sparse;
	machine_hcas[0].pkeys_cnt = 3;
	assert_int_equal(machine_start(), 0);
	port = rig.ibs[0]->ports[0];
	assert_int_equal(sxt_place_pkey(port), 0); /* a library that cannot tell */
	rig.verbs.query_pkey = query_pkey;
	assert_int_equal(sxt_place_pkey(port), 2);
	machine_logged("1 port mlx5_0: NCCL_IB_PKEY=0 is an empty place in its P_Key table of 3; "
		       "using index 2, key 0x8001");
	machine_hcas[0].pkeys = limited;
	assert_int_equal(sxt_place_pkey(port), 2);
	machine_hcas[0].pkeys = usual;
	machine_hcas[0].pkeys_cnt = 2;
	assert_int_equal(sxt_place_pkey(port), 0);
	rig.config.ib_pkey = 1;
	assert_int_equal(sxt_place_pkey(port), 1);
	rig.config.ib_pkey = 7;
	assert_int_equal(sxt_place_pkey(port), 0);
	machine_hcas[0].pkeys_cnt = 0;
	assert_int_equal(sxt_place_pkey(port), 7);
}

static int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	(void)port;
	if (strcmp(rig.verbs.get_device_name(context->device), "mlx5_1") == 0)
		return EOPNOTSUPP;
	*speed = 8000; /* two bundled ports */
	return 0;
}

static void the_newest_query_gives_the_speed(void **state)
{
	(void)state;
	machine_add("mlx5_0");
	machine_add("mlx5_1");
	rig.verbs.query_port_speed = query_port_speed;
	assert_int_equal(machine_start(), 0);
	assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 800000);
	assert_int_equal(rig.ibs[0]->ports[1]->speed_mbps, 400000);
	machine_stop();
	rig.config.ib_query_port_speed = 0;
	assert_int_equal(machine_start(), 0);
	assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 400000);
}

static void hundreds_of_ports_and_long_tables_are_listed(void **state)
{
	static char table[32768];
	size_t used = 0;

	(void)state;
	for (int i = 0; i < 900; i++)
		used += (size_t)snprintf(table + used, sizeof(table) - used, "%d=10.1.%d.%d/v2 ", i,
					 i / 250, i % 250 + 1);
	machine_add("mlx5_0")->ports_cnt = 200;
	machine_add("mlx5_1")->gids = table; /* more than the port says it has */
	assert_int_equal(machine_start(), 0);
	assert_int_equal(rig.ibs[0]->ports_cnt, 201);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 128);
	assert_int_equal(rig_logged("2 port sxt_mlx5_0:"), 200);
	machine_logged("201 ports can be used, NCCL numbers 128");
}

#define CHOICE_TEST(name) cmocka_unit_test_setup_teardown(name, machine_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHOICE_TEST(candidates_are_addresses_and_told_when_they_move),
		CHOICE_TEST(a_port_is_looked_at_again_after_events),
		CHOICE_TEST(a_port_that_comes_up_late_is_told_once),
		CHOICE_TEST(a_new_connection_gets_the_port_as_it_is_now),
		CHOICE_TEST(a_named_port_that_is_down_is_a_warning),
		CHOICE_TEST(lists_give_rails_and_count_as_wrong_when_strict),
		CHOICE_TEST(an_hca_that_cannot_be_opened_is_told_and_is_no_misspelling),
		CHOICE_TEST(the_smaller_kind_of_link_is_left_out),
		CHOICE_TEST(slow_ports_are_told_and_left_out_when_asked),
		CHOICE_TEST(ports_are_what_their_link_layer_says),
		CHOICE_TEST(an_empty_pkey_is_replaced_by_one_that_is_there),
		CHOICE_TEST(the_newest_query_gives_the_speed),
		CHOICE_TEST(hundreds_of_ports_and_long_tables_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
