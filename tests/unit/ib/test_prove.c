/*
 * test_prove.c - connections whose queue pairs reach RTS while their packets are lost: another
 * pair of addresses is taken, or the failure says what was tried.
 */
#include "tests/unit/ib/rig.h"

#include "ib/conn.h"
#include "ib/context.h"
#include "tests/fake/verbs.h"

#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define TURNS 20000

/* Which queue pairs lose what they send. */
static struct {
	bool ipv4;    /* those aimed at an IPv4 address, else all */
	int sender;   /* on the device of the sending end: 0 no, 1 yes */
	int receiver; /* of the receiving one */
	int most;     /* queue pairs that are hit */
	int cnt;      /* that were */
} loss;

static bool is_hit(const struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	const uint8_t *gid = attr->ah_attr.grh.dgid.raw;
	bool is_sender = strcmp(qp->context->device->name, "fake_0") == 0;

	if (loss.cnt >= loss.most || (loss.ipv4 && gid[10] != 0xff))
		return false;
	return is_sender ? loss.sender != 0 : loss.receiver != 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if ((mask & IBV_QP_AV) != 0 && is_hit(qp, attr)) {
		sxt_fake_hold(qp, true);
		loss.cnt++;
	}
	return sxt_fake_verbs()->modify_qp(qp, attr, mask);
}

/* Calls until one fails; at 0 none does. */
static int calls_left;

static bool fails(void)
{
	return calls_left > 0 && --calls_left == 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	errno = ENOMEM;
	return fails() ? NULL : sxt_fake_verbs()->reg_mr(pd, addr, bytes, access);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	errno = ENOMEM;
	return fails() ? NULL : sxt_fake_verbs()->create_qp(pd, attr);
}

static const char *port_down; /* the beginning of its device's name; NULL: none is */

static int query_port(struct ibv_context *context, uint8_t num, struct ibv_port_attr *attr)
{
	int rc = sxt_fake_verbs()->query_port(context, num, attr);
	const char *name = context->device->name;

	if (port_down != NULL && strncmp(name, port_down, strlen(port_down)) == 0)
		attr->state = IBV_PORT_DOWN;
	return rc;
}

static int setup(void **state)
{
	port_down = NULL;
	calls_left = 0;
	memset(&loss, 0, sizeof(loss));
	loss.most = 1000;
	assert_int_equal(rig_setup(state), 0);
	rig.verbs.modify_qp = modify_qp;
	rig.verbs.query_port = query_port;
	return 0;
}

/* One port each. */
static int setup_alone(void **state)
{
	assert_int_equal(setup(state), 0);
	rig_set(&rig.config.ib_hca, "fake_0");
	assert_int_equal(rig_start(0, true), 0);
	rig_set(&rig.config.ib_hca, "fake_1");
	assert_int_equal(rig_start(1, true), 0);
	return 0;
}

/* Both have two; NCCL names the first of the sender and the second of the receiver. */
static int setup_two(void **state)
{
	assert_int_equal(setup(state), 0);
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(rig_start(1, true), 0);
	return 0;
}

/* Polls and lets time pass until both ends are made or one has failed. */
static void poll_through(struct rig_link *link)
{
	for (int i = 0; i < TURNS; i++) {
		if (link->connect_rc != -EAGAIN && link->accept_rc != -EAGAIN)
			return;
		rig_poll(link);
		rig_advance(SXT_NS_PER_MS);
	}
	fail_msg("neither made nor failed");
}

static void close_link(struct rig_link *link)
{
	sxt_conn_close(link->send);
	sxt_conn_close(link->recv);
	sxt_listener_close(link->listener);
}

static void joins_over_another_pair(void)
{
	struct rig_link link;

	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	assert_int_equal(link.connect_rc, 0);
	assert_int_equal(link.accept_rc, 0);
	assert_int_equal(link.send->paths[0].local.path.gid[0], 0xfe);
	assert_int_equal(link.send->paths[0].peer.gid[0], 0xfe);
	assert_int_equal(link.recv->paths[0].local.path.gid[0], 0xfe);
	assert_int_equal(rig_logged("no packet passes from fake_0 192.0.2.1 to fake_1 192.0.2.2"),
			 1);
	rig_move_message(&link);
	close_link(&link);
}

static void what_the_sender_loses_goes_another_way(void **state)
{
	(void)state;
	loss.ipv4 = true;
	loss.sender = 1;
	joins_over_another_pair();
}

static void what_the_receiver_loses_goes_another_way(void **state)
{
	(void)state;
	loss.ipv4 = true;
	loss.receiver = 1;
	joins_over_another_pair();
}

static void a_pair_that_loses_both_ways_is_left(void **state)
{
	(void)state;
	loss.ipv4 = true;
	loss.sender = 1;
	loss.receiver = 1;
	joins_over_another_pair();
}

/* Nothing passes at first: the second, more patient round finds that it does now. */
static void a_slow_network_gets_a_second_chance(void **state)
{
	struct rig_link link;

	(void)state;
	loss.sender = 1;
	loss.most = 2; /* both pairs of the first round */
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	assert_int_equal(link.connect_rc, 0);
	assert_int_equal(link.send->paths[0].local.path.epoch, 3);
	assert_int_equal(link.send->paths[0].local.path.gid[10], 0xff);
	rig_move_message(&link);
	close_link(&link);
}

static void where_nothing_passes_both_ends_are_told(void **state)
{
	struct rig_link link;

	(void)state;
	loss.sender = 1;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	assert_int_equal(link.connect_rc, -ENETUNREACH);
	assert_int_equal(link.accept_rc, -ENETUNREACH);
	assert_true(rig_logged("no pair of addresses carries packets (192.0.2.1 -> 192.0.2.2, "
			       "fe80::1 -> fe80::2)") >= 2);
	close_link(&link);
}

/* The receiver has nothing to answer with but its addresses. */
static void addresses_that_do_not_fit_are_told_to_both(void **state)
{
	struct rig_link link;

	(void)state;
	rig_set(&rig.config.ib_hca, "fake_0");
	rig_set(&rig.config.ib_addr_range, "192.0.2.0/24");
	assert_int_equal(rig_start(0, true), 0);
	rig_set(&rig.config.ib_hca, "fake_1");
	rig_set(&rig.config.ib_addr_range, "fe80::/10");
	assert_int_equal(rig_start(1, true), 0);
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	assert_int_equal(link.connect_rc, -ENETUNREACH);
	assert_int_equal(link.accept_rc, -ENETUNREACH);
	assert_true(rig_logged("no address of one side fits one of the other") >= 2);
	close_link(&link);
}

/* Only the path that fails is made anew. */
static void other_paths_stay_as_they_are(void **state)
{
	struct rig_link link;

	(void)state;
	rig.config.ib_qps_per_connection = 4;
	loss.ipv4 = true;
	loss.sender = 1;
	loss.most = 1;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	assert_int_equal(link.connect_rc, 0);
	assert_int_equal(link.accept_rc, 0);
	assert_int_equal(link.send->paths[0].local.path.epoch, 2);
	assert_int_equal(link.send->paths[0].local.path.gid[0], 0xfe);
	for (uint32_t i = 1; i < 4; i++) {
		assert_int_equal(link.send->paths[i].local.path.epoch, 0);
		assert_int_equal(link.send->paths[i].local.path.gid[10], 0xff);
	}
	for (int i = 0; i < 8; i++)
		rig_move_message(&link);
	close_link(&link);
}

static void no_call_waits_for_a_probe(void **state)
{
	struct rig_link link;

	(void)state;
	loss.sender = 1;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	/* The clock stands still: whoever waited for it would never come back. */
	for (int i = 0; i < 500; i++)
		rig_poll(&link);
	assert_int_equal(link.connect_rc, -EAGAIN);
	assert_int_equal(link.accept_rc, -EAGAIN);
	sxt_listener_close(link.listener);
	link.listener = NULL;
	for (int i = 0; i < TURNS && link.connect_rc == -EAGAIN; i++)
		rig_poll(&link);
	assert_int_equal(link.connect_rc, -ECONNRESET);
}

static void expect_ports(const struct rig_link *link, const char *from, const char *to)
{
	assert_int_equal(link->connect_rc, 0);
	assert_int_equal(link->accept_rc, 0);
	assert_string_equal(link->send->paths[0].port->label, from);
	assert_string_equal(link->recv->paths[0].port->label, to);
	assert_string_equal(sxt_conn_label(link->send), from);
	assert_string_equal(sxt_conn_label(link->recv), to);
}

static void another_port_of_the_sender_stands_in(void **state)
{
	struct rig_link link;

	(void)state;
	rig.config.ib_qps_per_connection = 2;
	loss.sender = 1;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	expect_ports(&link, "fake_1", "fake_1");
	assert_int_equal(rig_logged("NIC fake_0, peer "), 1);
	assert_int_equal(rig_logged("between the two NICs that NCCL chose (192.0.2.1 -> 192.0.2.2, "
				    "fe80::1 -> fe80::2), so port fake_1 here and fake_1 there "
				    "carry the connection"),
			 1);
	for (int i = 0; i < 4; i++)
		rig_move_message(&link);
	close_link(&link);
}

static void another_port_of_the_receiver_stands_in(void **state)
{
	struct rig_link links[2];

	(void)state;
	loss.receiver = 1;
	for (int i = 0; i < 2; i++) {
		rig_listen(&links[i], rig.ibs[0], rig.ibs[1], NULL);
		poll_through(&links[i]);
		expect_ports(&links[i], "fake_0", "fake_0");
		rig_move_message(&links[i]);
	}
	/* Each end warns once, and then only informs. */
	assert_int_equal(rig_logged("1 NIC fake_0, peer "), 1);
	assert_int_equal(rig_logged("1 NIC fake_1, peer "), 1);
	assert_int_equal(rig_logged("2 NIC fake_0, peer "), 1);
	assert_int_equal(rig_logged("2 NIC fake_1, peer "), 1);
	close_link(&links[0]);
	close_link(&links[1]);
}

/* Nothing passes anywhere at first: two pairs of each move, then the named NICs once more. */
/* The two named ones are in different subnets of 2 addresses, and packets pass. */
static void subnets_are_kept_where_that_is_asked_for(void **state)
{
	struct rig_link link;

	(void)state;
	rig.config.ib_subnet_prefix_len = 31;
	for (uint32_t i = 0; i < 2; i++) {
		rig.config.ib_subnet_aware = i;
		rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
		poll_through(&link);
		expect_ports(&link, "fake_0", i == 0 ? "fake_1" : "fake_0");
		assert_int_equal(rig_logged("carry the connection"), i * 2);
		rig_move_message(&link);
		close_link(&link);
	}
	assert_int_equal(rig_logged("\n2 NIC fake_0, peer "), 1);
	assert_int_equal(rig_logged("no subnet in common (NCCL_IB_SUBNET_AWARE_ROUTING=1)"), 2);
	assert_int_equal(rig_logged("no packet passes"), 0);
}

static void the_named_ports_have_the_last_word(void **state)
{
	struct rig_link link;

	(void)state;
	loss.sender = 1;
	loss.receiver = 1;
	loss.most = 16;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	expect_ports(&link, "fake_0", "fake_1");
	assert_int_equal(link.send->paths[0].local.path.epoch, 4u << SXT_EPOCH_MOVE_SHIFT);
	assert_int_equal(rig_logged("carry the connection"), 0);
	rig_move_message(&link);
	close_link(&link);
}

static void where_no_port_is_of_use_all_is_told(void **state)
{
	struct rig_link link;

	(void)state;
	loss.sender = 1;
	loss.receiver = 1;
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	assert_int_equal(link.connect_rc, -ENETUNREACH);
	assert_int_equal(link.accept_rc, -ENETUNREACH);
	assert_true(rig_logged("no pair of addresses carries packets (192.0.2.1 -> 192.0.2.2, "
			       "fe80::1 -> fe80::2), nor does any of 3 other pairs of ports") >= 2);
	close_link(&link);
}

/* A receiver that nobody has reached waits on; its listener's end makes a sender hear. */
static void poll_to_an_end(struct rig_link *link)
{
	while ((link->connect_rc == -EAGAIN || link->accept_rc == -EAGAIN) &&
	       (link->connect_rc == -EAGAIN || link->connect_rc == 0) &&
	       (link->accept_rc == -EAGAIN || link->accept_rc == 0)) {
		rig_poll(link);
		rig_advance(SXT_NS_PER_MS);
	}
	sxt_listener_close(link->listener);
	link->listener = NULL;
	for (int i = 0; i < TURNS && link->connect_rc == -EAGAIN; i++)
		rig_poll(link);
	assert_int_not_equal(link->connect_rc, -EAGAIN);
}

/* The named port of the sender went down after the start. */
static void a_sender_whose_port_is_down_begins_elsewhere(void **state)
{
	struct rig_link link;

	(void)state;
	port_down = "fake_0";
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	expect_ports(&link, "fake_1", "fake_1");
	assert_int_equal(rig_logged("NIC fake_0, peer "), 1);
	assert_int_equal(rig_logged("(fake_0: Network is down), so port fake_1 here and fake_1 "
				    "there carry the connection"),
			 1);
	rig_move_message(&link);
	close_link(&link);
}

static void a_receiver_whose_port_is_down_is_met_elsewhere(void **state)
{
	struct rig_link link;

	(void)state;
	port_down = "fake_1";
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	poll_through(&link);
	expect_ports(&link, "fake_0", "fake_0");
	assert_int_equal(rig_logged("(fake_1: Network is down), so port fake_0 here"), 1);
	rig_move_message(&link);
	close_link(&link);
}

/* An HCA that failed for good refuses whatever is asked of it. */
static struct ibv_mr *reg_mr_alive(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	const struct sxt_ib *ib = rig.ibs[0];

	for (int i = 0; i < ib->ports_cnt * 2; i++) {
		const struct sxt_device *device = rig.ibs[i / 2]->ports[i % 2]->device;

		assert_false(device->pd == pd && device->is_dead != 0);
	}
	return sxt_fake_verbs()->reg_mr(pd, addr, bytes, access);
}

static void ends_whose_hcas_failed_are_made_elsewhere(void **state)
{
	(void)state;
	rig.verbs.reg_mr = reg_mr_alive;
	/* The named one of the sender, of the receiver, of both. */
	for (int i = 0; i < 3; i++) {
		struct rig_link link;

		rig.ibs[0]->ports[0]->device->is_dead = i != 1;
		rig.ibs[1]->ports[1]->device->is_dead = i != 0;
		rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
		poll_through(&link);
		expect_ports(&link, i != 1 ? "fake_1" : "fake_0", i != 0 ? "fake_0" : "fake_1");
		rig_move_message(&link);
		close_link(&link);
	}
	assert_int_equal(rig_logged("\n0 "), 0);
	assert_true(rig_logged("(fake_0: its HCA failed), so port fake_1 here") >= 2);
	assert_true(rig_logged("(fake_1: its HCA failed), so port fake_0 here") >= 2);
}

static void without_any_port_up_there_is_no_connection(void **state)
{
	struct rig_link link;

	(void)state;
	port_down = "fake_";
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_poll(&link);
	while (link.connect_rc == -EAGAIN)
		rig_poll(&link);
	assert_int_equal(link.connect_rc, -ENETDOWN);
	close_link(&link);
}

/* The failure of a call that a move makes ends both ends, and leaves nothing behind. */
static void a_call_that_fails_ends_the_attempt(void **state)
{
	bool is_through = false;

	(void)state;
	rig.verbs.reg_mr = reg_mr;
	rig.verbs.create_qp = create_qp;
	loss.receiver = 1;
	for (int k = 1; !is_through; k++) {
		struct rig_link link;

		loss.cnt = 0;
		calls_left = k;
		rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
		poll_to_an_end(&link);
		is_through = calls_left > 0;
		assert_int_equal(link.connect_rc == 0 && link.accept_rc == 0, is_through);
		close_link(&link);
	}
	assert_true(rig_logged("moving to another port") >= 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alone, rig_teardown)
#define TWO(name)  cmocka_unit_test_setup_teardown(name, setup_two, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_the_sender_loses_goes_another_way),
		TEST(what_the_receiver_loses_goes_another_way),
		TEST(a_pair_that_loses_both_ways_is_left),
		TEST(a_slow_network_gets_a_second_chance),
		TEST(where_nothing_passes_both_ends_are_told),
		cmocka_unit_test_setup_teardown(addresses_that_do_not_fit_are_told_to_both, setup,
						rig_teardown),
		TEST(other_paths_stay_as_they_are),
		TEST(no_call_waits_for_a_probe),
		TWO(another_port_of_the_sender_stands_in),
		TWO(another_port_of_the_receiver_stands_in),
		TWO(subnets_are_kept_where_that_is_asked_for),
		TWO(the_named_ports_have_the_last_word),
		TWO(where_no_port_is_of_use_all_is_told),
		TWO(a_sender_whose_port_is_down_begins_elsewhere),
		TWO(a_receiver_whose_port_is_down_is_met_elsewhere),
		TWO(ends_whose_hcas_failed_are_made_elsewhere),
		TWO(without_any_port_up_there_is_no_connection),
		TWO(a_call_that_fails_ends_the_attempt),
	};
#undef TEST
#undef TWO

	return cmocka_run_group_tests(tests, NULL, NULL);
}
