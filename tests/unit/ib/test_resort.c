/*
 * test_resort.c - to which other ports a connection moves, in what order.
 */
#include "ib/resort.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define NAMED SXT_RESORT_NAMED

static struct sxt_wire_candidate roce(uint8_t place, const char *addr, uint8_t prefix)
{
	struct sxt_wire_candidate made = {.place = place,
					  .gid_type = 2,
					  .prefix_len = prefix,
					  .link_layer = SXT_LINK_ETHERNET};

	made.gid[10] = made.gid[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, addr, made.gid + 12), 1);
	return made;
}

static struct sxt_resort_end end_of(const struct sxt_wire_candidate *named,
				    const struct sxt_wire_candidate *others, uint32_t others_cnt)
{
	return (struct sxt_resort_end){.named = named,
				       .named_cnt = 1,
				       .others = others,
				       .others_cnt = others_cnt};
}

static void expect(const struct sxt_resort_plan *plan, uint32_t at, uint8_t from, uint8_t to)
{
	assert_true(at < plan->moves_cnt);
	assert_int_equal(plan->moves[at].from, from);
	assert_int_equal(plan->moves[at].to, to);
	assert_int_equal(plan->moves[at].is_whole, from == NAMED && to == NAMED);
}

/* Host b connects to host c, both by the cable to a: the cable between them is the first choice. */
static void in_a_triangle_the_right_cable_comes_first(void **state)
{
	const struct sxt_wire_candidate b_to_a = roce(0, "192.168.0.2", 30);
	const struct sxt_wire_candidate b_to_c = roce(1, "192.168.0.9", 30);
	const struct sxt_wire_candidate c_to_a = roce(0, "192.168.0.6", 30);
	const struct sxt_wire_candidate c_to_b = roce(1, "192.168.0.10", 30);
	const struct sxt_resort_end from = end_of(&b_to_a, &b_to_c, 1);
	const struct sxt_resort_end to = end_of(&c_to_a, &c_to_b, 1);
	struct sxt_resort_plan plan;

	(void)state;
	sxt_resort_plan_make(&from, &to, &plan);
	assert_int_equal(plan.near_cnt, 1);
	assert_int_equal(plan.moves_cnt, 4);
	expect(&plan, 0, 1, 1);
	expect(&plan, 1, NAMED, NAMED);
	expect(&plan, 2, NAMED, 1);
	expect(&plan, 3, 1, NAMED);
}

/* All in one subnet: each end's named NIC is kept before both are given up. */
static void as_few_named_ports_as_possible_are_left(void **state)
{
	const struct sxt_wire_candidate from_named = roce(0, "10.0.0.1", 24);
	const struct sxt_wire_candidate from_others[] = {roce(4, "10.0.0.2", 24),
							 roce(5, "10.0.0.3", 24)};
	const struct sxt_wire_candidate to_named = roce(0, "10.0.0.4", 24);
	const struct sxt_wire_candidate to_others[] = {roce(7, "10.0.0.5", 24)};
	const struct sxt_resort_end from = end_of(&from_named, from_others, 2);
	const struct sxt_resort_end to = end_of(&to_named, to_others, 1);
	struct sxt_resort_plan plan;

	(void)state;
	sxt_resort_plan_make(&from, &to, &plan);
	assert_int_equal(plan.near_cnt, 5);
	assert_int_equal(plan.moves_cnt, 6);
	expect(&plan, 0, NAMED, 7);
	expect(&plan, 1, 4, NAMED);
	expect(&plan, 2, 5, NAMED);
	expect(&plan, 3, 4, 7);
	expect(&plan, 4, 5, 7);
	expect(&plan, 5, NAMED, NAMED);
}

/* The named NICs had all their turns before: they do not come again. */
static void without_a_common_subnet_routers_are_tried(void **state)
{
	const struct sxt_wire_candidate from_named = roce(0, "10.0.0.1", 24);
	const struct sxt_wire_candidate from_other = roce(1, "10.0.1.1", 24);
	const struct sxt_wire_candidate to_named = roce(0, "10.0.2.1", 24);
	const struct sxt_resort_end from = end_of(&from_named, &from_other, 1);
	const struct sxt_resort_end to = end_of(&to_named, NULL, 0);
	struct sxt_resort_plan plan;

	(void)state;
	sxt_resort_plan_make(&from, &to, &plan);
	assert_int_equal(plan.near_cnt, 0);
	assert_int_equal(plan.moves_cnt, 1);
	expect(&plan, 0, 1, NAMED);
}

static void one_port_each_has_no_resort(void **state)
{
	const struct sxt_wire_candidate from_named = roce(0, "10.0.0.1", 24);
	const struct sxt_wire_candidate to_named = roce(0, "10.0.0.2", 24);
	const struct sxt_resort_end from = end_of(&from_named, NULL, 0);
	const struct sxt_resort_end to = end_of(&to_named, NULL, 0);
	struct sxt_resort_plan plan;

	(void)state;
	sxt_resort_plan_make(&from, &to, &plan);
	assert_int_equal(plan.moves_cnt, 0);
}

static void infiniband_and_roce_are_never_joined(void **state)
{
	const struct sxt_wire_candidate from_named = roce(0, "10.0.0.1", 24);
	const struct sxt_wire_candidate to_named = roce(0, "10.0.0.2", 24);
	struct sxt_wire_candidate other = roce(1, "10.0.0.3", 24);
	const struct sxt_resort_end from = end_of(&from_named, NULL, 0);
	const struct sxt_resort_end to = end_of(&to_named, &other, 1);
	struct sxt_resort_plan plan;

	(void)state;
	other.link_layer = SXT_LINK_INFINIBAND;
	sxt_resort_plan_make(&from, &to, &plan);
	assert_int_equal(plan.moves_cnt, 0);
}

/* As many as a frame carries: the plan stays within its bounds and no move comes twice. */
static void many_ports_are_no_trouble(void **state)
{
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];
	const struct sxt_wire_candidate named = roce(0, "10.0.0.1", 16);
	const struct sxt_resort_end both = end_of(&named, others, SXT_OTHERS_MAX);
	struct sxt_resort_plan plan;

	(void)state;
	for (uint32_t i = 0; i < SXT_OTHERS_MAX; i++)
		others[i] = roce((uint8_t)(i + 1), i % 2 == 0 ? "10.0.0.2" : "10.1.0.2", 16);
	sxt_resort_plan_make(&both, &both, &plan);
	assert_int_equal(plan.near_cnt, SXT_RESORT_NEAR_MAX);
	assert_int_equal(plan.moves_cnt, SXT_RESORT_MOVES_MAX);
	expect(&plan, SXT_RESORT_NEAR_MAX / 2, 1, 1);
	for (uint32_t i = 0; i < plan.moves_cnt; i++) {
		for (uint32_t k = 0; k < i; k++)
			assert_true(plan.moves[i].from != plan.moves[k].from ||
				    plan.moves[i].to != plan.moves[k].to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_triangle_the_right_cable_comes_first),
		cmocka_unit_test(as_few_named_ports_as_possible_are_left),
		cmocka_unit_test(without_a_common_subnet_routers_are_tried),
		cmocka_unit_test(one_port_each_has_no_resort),
		cmocka_unit_test(infiniband_and_roce_are_never_joined),
		cmocka_unit_test(many_ports_are_no_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
