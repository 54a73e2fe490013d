/*
 * test_ece.c - what the drivers of two HCAs agree on while a connection is made (enhanced
 * connection establishment), where they offer it and where they do not.
 */
#include "tests/unit/ib/rig.h"

#include "ib/conn.h"
#include "tests/fake/verbs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define VENDOR 0x15b3u
#define OFFER  0x7u /* of every queue pair */
#define CAN    0x5u /* of the receiving end's device */
#define SEEN   8

/* What was set, in order. */
static struct {
	const struct ibv_qp *qp;
	struct ibv_ece ece;
} set[SEEN];
static int set_cnt;
static const char *unable;   /* the device whose provider has none */
static const char *stubborn; /* the device that agrees to nothing */

static bool is_on(const struct ibv_qp *qp, const char *device)
{
	return device != NULL && strcmp(qp->context->device->name, device) == 0;
}

static int query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (is_on(qp, unable))
		return EOPNOTSUPP;
	*ece = (struct ibv_ece){.vendor_id = VENDOR, .options = OFFER, .comp_mask = 1};
	for (int i = 0; i < set_cnt && qp->state == IBV_QPS_RTS; i++) {
		if (set[i].qp == qp)
			ece->options = set[i].ece.options & (is_on(qp, "fake_1") ? CAN : OFFER);
	}
	return 0;
}

static int set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	assert_int_equal(qp->state, IBV_QPS_INIT);
	if (is_on(qp, stubborn))
		return EINVAL;
	assert_true(set_cnt < SEEN);
	set[set_cnt].qp = qp;
	set[set_cnt++].ece = *ece;
	return 0;
}

static int setup(void **state)
{
	set_cnt = 0;
	unable = NULL;
	stubborn = NULL;
	assert_int_equal(rig_setup(state), 0);
	rig.config.ib_ece_enable = 1;
	rig.verbs.query_ece = query_ece;
	rig.verbs.set_ece = set_ece;
	return 0;
}

/* The sending end is on fake_0, the receiving one on fake_1. */
static void link_up(struct rig_link *link)
{
	assert_int_equal(rig_start(0, true), 0);
	rig_listen(link, rig.ibs[0], rig.ibs[0], NULL);
	rig_join(link);
	rig_move_message(link);
}

static void close_link(struct rig_link *link)
{
	sxt_conn_close(link->send);
	sxt_conn_close(link->recv);
}

static void expect_set(int at, const struct sxt_conn *conn, uint32_t path, uint32_t options)
{
	assert_true(at < set_cnt);
	assert_ptr_equal(set[at].qp, conn->paths[path].qp);
	assert_int_equal(set[at].ece.vendor_id, VENDOR);
	assert_int_equal(set[at].ece.options, options);
	assert_int_equal(set[at].ece.comp_mask, 1);
}

/* The receiving end takes the offer, the sending end what is left of it. */
static void both_ends_have_what_both_can(void **state)
{
	struct rig_link link;

	(void)state;
	rig.config.ib_qps_per_connection = 2;
	link_up(&link);
	assert_int_equal(set_cnt, 4);
	for (uint32_t path = 0; path < 2; path++) {
		expect_set((int)path, link.recv, path, OFFER);
		expect_set((int)path + 2, link.send, path, CAN);
		assert_int_equal(link.send->paths[path].ece.options, CAN);
		assert_int_equal(link.recv->paths[path].ece.options, CAN);
	}
	close_link(&link);
}

static void one_end_without_leaves_both_without(void **state)
{
	const char *const ends[] = {"fake_0", "fake_1"};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(ends); i++) {
		struct rig_link link;

		unable = ends[i];
		link_up(&link);
		assert_int_equal(set_cnt, 0);
		assert_int_equal(link.send->paths[0].ece.vendor_id, 0);
		assert_int_equal(link.recv->paths[0].ece.vendor_id, 0);
		close_link(&link);
		sxt_ib_destroy(rig.ibs[0]);
		rig.ibs[0] = NULL;
	}
	assert_int_equal(rig_logged("does not agree"), 0);
}

static void the_setting_and_an_old_library_leave_it_out(void **state)
{
	struct rig_link link;

	(void)state;
	rig.config.ib_ece_enable = 0;
	link_up(&link);
	close_link(&link);
	sxt_ib_destroy(rig.ibs[0]);
	rig.ibs[0] = NULL;
	rig.config.ib_ece_enable = 1;
	rig.verbs.query_ece = NULL;
	rig.verbs.set_ece = NULL;
	link_up(&link);
	close_link(&link);
	assert_int_equal(set_cnt, 0);
}

/* Two vendors: told, and the connection is one without. */
static void who_does_not_agree_goes_on_without(void **state)
{
	struct rig_link link;

	(void)state;
	stubborn = "fake_1";
	link_up(&link);
	assert_int_equal(set_cnt, 0);
	assert_int_equal(link.send->paths[0].ece.vendor_id, 0);
	assert_int_equal(link.recv->paths[0].ece.vendor_id, 0);
	assert_int_equal(rig_logged("does not agree to what "), 1);
	assert_int_equal(rig_logged("offers (vendor 0x15b3, options 0x7): Invalid argument; going "
				    "on without"),
			 1);
	close_link(&link);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(both_ends_have_what_both_can),
		TEST(one_end_without_leaves_both_without),
		TEST(the_setting_and_an_old_library_leave_it_out),
		TEST(who_does_not_agree_goes_on_without),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
