/*
 * test_tuner.c - what two ends say of their tuners when they connect, and what comes of it.
 */
#include "ib/agree.h"
#include "ib/conn.h"
#include "ib/ib.h"
#include "tests/unit/ib/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define RULES 0x0123456789abcdefull
#define OTHER 0xfedcba9876543210ull
#define TURNS 2000

static struct sxt_wire_tuner tuners[RIG_IBS];
static uint64_t asked_for[RIG_IBS]; /* communicators */

static void tuner_of_0(uint64_t comm, struct sxt_wire_tuner *out)
{
	asked_for[0] = comm;
	*out = tuners[0];
}

static void tuner_of_1(uint64_t comm, struct sxt_wire_tuner *out)
{
	asked_for[1] = comm;
	*out = tuners[1];
}

/* Two transports, and what their tuners say. */
static void start(uint64_t digest_0, uint8_t use_0, uint64_t digest_1, uint8_t use_1)
{
	tuners[0] = (struct sxt_wire_tuner){.digest = digest_0, .use = use_0};
	tuners[1] = (struct sxt_wire_tuner){.digest = digest_1, .use = use_1};
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(rig_start(1, true), 0);
	sxt_ib_note_tuner(rig.ibs[0], tuner_of_0);
	sxt_ib_note_tuner(rig.ibs[1], tuner_of_1);
}

static void connect_and_close(void)
{
	struct rig_link link;

	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	rig_join(&link);
	rig_move_message(&link);
	sxt_conn_close(link.send);
	sxt_conn_close(link.recv);
}

static void unlike_rules_in_use_at_both_ends_fail_the_connection(void **state)
{
	struct rig_link link;

	(void)state;
	start(RULES, SXT_TUNER_USED, OTHER, SXT_TUNER_USED);
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	for (int i = 0; i < TURNS && (link.connect_rc == -EAGAIN || link.accept_rc == -EAGAIN); i++)
		rig_poll(&link);
	sxt_listener_close(link.listener);
	assert_int_equal(link.accept_rc, -EPROTO);
	assert_int_equal(link.connect_rc, -EPROTO);
	/* Both ends hear of both digests, both hosts and the remedy. */
	assert_int_equal(rig_logged("digest 0123456789abcdef on "), 2);
	assert_int_equal(rig_logged("digest fedcba9876543210 on "), 2);
	assert_int_equal(rig_logged("set SEXTANT_TUNER_FILE alike on all hosts"), 2);
	/* The pair can connect once the rules are alike: nothing is left of the failure. */
	tuners[1].digest = RULES;
	connect_and_close();
}

static void other_differences_are_told_once(void **state)
{
	(void)state;
	start(RULES, SXT_TUNER_USED, OTHER, SXT_TUNER_UNKNOWN);
	connect_and_close();
	connect_and_close();
	assert_int_equal(rig_logged(
				 "1 tuner rules differ: digest fedcba9876543210 (not in use) on "),
			 1);
	assert_int_equal(rig_logged("tuner rules differ"), 1);
}

static void like_rules_are_no_difference(void **state)
{
	(void)state;
	start(RULES, SXT_TUNER_USED, RULES, SXT_TUNER_USED);
	connect_and_close();
	sxt_ib_note_tuner(rig.ibs[1], NULL);
	connect_and_close();
	assert_int_equal(rig_logged("tuner"), 0);
}

static void each_end_asks_for_the_tuner_of_its_communicator(void **state)
{
	struct sxt_context *contexts[RIG_IBS];
	struct rig_link link;

	(void)state;
	start(RULES, SXT_TUNER_USED, RULES, SXT_TUNER_USED);
	for (int i = 0; i < RIG_IBS; i++) {
		assert_int_equal(sxt_context_create(rig.ibs[i], SXT_TCLASS_DEFAULT, &contexts[i]),
				 0);
		sxt_context_note_comm(contexts[i], 77);
	}
	rig_listen(&link, rig.ibs[0], rig.ibs[1], contexts[1]);
	link.from_ctx = contexts[0];
	rig_join(&link);
	assert_int_equal(asked_for[0], 77);
	assert_int_equal(asked_for[1], 77);
	for (int i = 0; i < RIG_IBS; i++)
		sxt_context_destroy(contexts[i]);
	connect_and_close();
	assert_int_equal(asked_for[0], 0);
	assert_int_equal(asked_for[1], 0);
}

static void who_waits_long_says_its_digest(void **state)
{
	struct rig_link link;

	(void)state;
	start(0, SXT_TUNER_USED, OTHER, SXT_TUNER_USED);
	rig_listen(&link, rig.ibs[0], rig.ibs[1], NULL);
	assert_int_equal(sxt_accept(link.listener, &link.recv), -EAGAIN);
	rig_advance((rig.config.connect_timeout_s / 2 + 1) * SXT_NS_PER_SEC);
	assert_int_equal(sxt_accept(link.listener, &link.recv), -EAGAIN);
	assert_int_equal(rig_logged("the tuner here has digest fedcba9876543210: compare with "),
			 1);
	rig_advance(rig.config.connect_timeout_s * SXT_NS_PER_SEC);
	assert_int_equal(sxt_accept(link.listener, &link.recv), -ETIMEDOUT);
	assert_int_equal(rig_logged("the tuner here has digest fedcba9876543210: compare with "),
			 2);
	assert_int_equal(rig_logged("`sextant tune lint FILE` there"), 2);
	sxt_listener_close(link.listener);
}

/* What two say, and the beginning of what is told, after the level; NULL: nothing. */
static const struct {
	struct sxt_wire_tuner own;
	struct sxt_wire_tuner peer;
	enum sxt_log_level level;
	const char *told;
} vectors[] = {
	{{0, 0, {0}}, {0, SXT_TUNER_USED, {0}}, 0, NULL},
	{{0, SXT_TUNER_UNUSED, {0}}, {0, SXT_TUNER_USED, {0}}, 0, NULL},
	{{RULES, 0, {0}}, {RULES, SXT_TUNER_USED, {0}}, 0, NULL},
	{{RULES, SXT_TUNER_UNUSED, {0}}, {RULES, SXT_TUNER_UNUSED, {0}}, 0, NULL},
	{{RULES, SXT_TUNER_UNUSED, {0}},
	 {RULES, SXT_TUNER_USED, {0}},
	 SXT_LOG_WARN,
	 "tuner rules differ: digest 0123456789abcdef (not in use) on a:1, digest 0123456789abcdef "
	 "on b:2: continuing, but "},
	{{0, SXT_TUNER_USED, {0}},
	 {RULES, SXT_TUNER_USED, {0}},
	 SXT_LOG_ERROR,
	 "tuner rules differ: no rules on a:1, digest 0123456789abcdef on b:2: ranks would wait"},
	{{0, 0, {0}},
	 {RULES, 0, {0}},
	 SXT_LOG_WARN,
	 "tuner rules differ: no rules on a:1, digest 0123456789abcdef (not in use) on b:2: "},
	{{OTHER, 9, {0}},
	 {RULES, SXT_TUNER_USED, {0}},
	 SXT_LOG_WARN,
	 "tuner rules differ: digest fedcba9876543210 (not in use) on a:1, "},
};

static void what_may_differ_is_weighed(void **state)
{
	struct sxt_agree_line line;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(vectors); i++) {
		bool tells =
			sxt_agree_tuner("a:1", &vectors[i].own, "b:2", &vectors[i].peer, &line);

		assert_int_equal(tells, vectors[i].told != NULL);
		if (!tells || vectors[i].told == NULL)
			continue;
		assert_int_equal(line.level, vectors[i].level);
		if (strncmp(line.text, vectors[i].told, strlen(vectors[i].told)) != 0)
			assert_string_equal(line.text, vectors[i].told);
	}
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_differ_is_weighed),
		RIG_TEST(unlike_rules_in_use_at_both_ends_fail_the_connection),
		RIG_TEST(other_differences_are_told_once),
		RIG_TEST(like_rules_are_no_difference),
		RIG_TEST(each_end_asks_for_the_tuner_of_its_communicator),
		RIG_TEST(who_waits_long_says_its_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
