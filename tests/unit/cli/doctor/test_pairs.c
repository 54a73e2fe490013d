/*
 * test_pairs.c - what follows from a matrix of pairs: which port or pair is named, and which ports
 * are left in use. Matrices are those that operators have told of.
 */
#include "cli/doctor/pairs.h"

#include "cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINE_GBPS 100

/* The readers of findings want it; nothing here logs. */
void sxt_cli_log_to_stderr(const char *name)
{
	(void)name;
}

struct matrix {
	struct sxt_pairs pairs;
	struct sxt_pairs_cell cells[64];
	struct sxt_doctor d;
};

static void port_make(struct sxt_pairs_port *port, int end, uint32_t number)
{
	struct sxt_wire_candidate address = {
		.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(1 + number)},
		.gid_type = 2,
		.prefix_len = 24,
		.link_layer = SXT_LINK_ETHERNET,
	};

	address.gid[15] = (uint8_t)(address.gid[15] + end * 100);
	*port = (struct sxt_pairs_port){
		.speed_mbps = LINE_GBPS * 1000,
		.mtu = 5,
		.link_layer = SXT_LINK_ETHERNET,
		.addresses_cnt = 1,
		.addresses = {address},
	};
	snprintf(port->name, sizeof(port->name), "mlx5_%u:1", number);
}

/* @gbps: rows of the caller's ports, of the listener's each what both directions make; 0 silent. */
static void matrix_make(struct matrix *m, uint32_t rows, uint32_t columns, const uint32_t *gbps)
{
	memset(m, 0, sizeof(*m));
	m->pairs.cells = m->cells;
	m->d.theme = SXT_THEME_PAIRS;
	for (int end = 0; end < 2; end++) {
		struct sxt_pairs_host *host = &m->pairs.hosts[end];

		host->ports_cnt = end == SXT_PAIRS_CALLER ? rows : columns;
		for (uint32_t i = 0; i < host->ports_cnt; i++)
			port_make(&host->ports[i], end, i);
	}
	for (uint32_t i = 0; i < rows * columns; i++) {
		struct sxt_pairs_cell *cell = &m->cells[i];

		cell->state = gbps[i] != 0 ? SXT_PAIRS_GOOD : SXT_PAIRS_SILENT;
		cell->tries_cnt = 1;
		for (int end = 0; end < 2; end++)
			cell->way[end] = (struct sxt_pairs_way){
				.acked = gbps[i] != 0,
				.arrived = gbps[i] != 0,
				.mbps = gbps[i] * 1000,
			};
	}
}

static const struct sxt_finding *find(const struct matrix *m, enum sxt_finding_id id,
				      const char *object)
{
	for (size_t i = 0; i < m->d.findings_cnt; i++) {
		if (m->d.findings[i].id == id && strcmp(m->d.findings[i].object, object) == 0)
			return &m->d.findings[i];
	}
	return NULL;
}

static uint32_t count(const struct matrix *m, enum sxt_finding_id id)
{
	uint32_t cnt = 0;

	for (size_t i = 0; i < m->d.findings_cnt; i++)
		cnt += m->d.findings[i].id == id;
	return cnt;
}

static void expect_set(const struct matrix *m, const char *caller, const char *listener)
{
	struct sxt_pairs_advice advice;

	sxt_pairs_advise(&m->pairs, &advice);
	assert_string_equal(advice.set[SXT_PAIRS_CALLER], caller);
	assert_string_equal(advice.set[SXT_PAIRS_LISTENER], listener);
}

static void all_alike_say_nothing(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 2, 3, (const uint32_t[]){90, 92, 88, 95, 70, 91});
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_int_equal(m.d.findings_cnt, 0);
	expect_set(&m, "", "");
}

static void the_only_pair_that_works_is_used(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){90, 0, 0, 0});
	expect_set(&m, "=mlx5_0:1", "=mlx5_0:1");
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_ALONE, "mlx5_1:1 here"));
	assert_non_null(find(&m, SXT_FINDING_PAIRS_ALONE, "mlx5_1:1 there"));
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SILENT), 0);
	sxt_doctor_fini(&m.d);
}

static void nothing_works_and_no_list_helps(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 1, 2, (const uint32_t[]){0, 0});
	expect_set(&m, "", "");
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_NONE, "all pairs"));
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SILENT), 2);
	sxt_doctor_fini(&m.d);
}

static void a_slow_path_is_not_its_ports_fault(void **state)
{
	struct matrix m;
	const struct sxt_finding *slow;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){25, 39, 39, 39});
	sxt_pairs_judge(&m.pairs, &m.d);
	slow = find(&m, SXT_FINDING_PAIRS_SLOW, "mlx5_0:1 -> mlx5_0:1");
	assert_non_null(slow);
	assert_string_equal(slow->seen, "25.00 Gb/s; as the other pairs it would be 39.00");
	assert_non_null(find(&m, SXT_FINDING_PAIRS_SLOW, "mlx5_0:1 <- mlx5_0:1"));
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SLOW_PORT), 0);
	expect_set(&m, "", "");
	sxt_doctor_fini(&m.d);
}

static void a_port_slow_with_everybody_is_named_once(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 3, 3, (const uint32_t[]){87, 49, 87, 86, 48, 88, 87, 49, 87});
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_SLOW_PORT, "mlx5_1:1 there"));
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SLOW_PORT), 2); /* sends, receives */
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SLOW), 0);
	sxt_doctor_fini(&m.d);
}

static void one_direction_is_judged_alone(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){90, 90, 90, 90});
	m.cells[2].way[SXT_PAIRS_LISTENER].mbps = 30000;
	m.pairs.own = SXT_PAIRS_LISTENER;
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_int_equal(m.d.findings_cnt, 1);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_SLOW, "mlx5_0:1 -> mlx5_1:1"));
	sxt_doctor_fini(&m.d);
}

static void a_host_that_sends_slowly_is_named(void **state)
{
	struct matrix m;
	uint8_t slow[4];

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){90, 90, 90, 90});
	snprintf(m.pairs.hosts[SXT_PAIRS_CALLER].name, 64, "weak");
	for (int i = 0; i < 4; i++)
		m.cells[i].way[SXT_PAIRS_CALLER].mbps = 60000;
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_int_equal(m.d.findings_cnt, 1);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_SLOW_HOST, "weak"));
	sxt_pairs_slow(&m.pairs, slow);
	for (int i = 0; i < 4; i++)
		assert_int_equal(slow[i], 1u << SXT_PAIRS_CALLER);
	sxt_doctor_fini(&m.d);
}

static void a_slower_port_is_no_fault(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){90, 45, 90, 45});
	m.pairs.hosts[SXT_PAIRS_LISTENER].ports[1].speed_mbps = LINE_GBPS * 500;
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SLOW), 0);
	assert_int_equal(count(&m, SXT_FINDING_PAIRS_SLOW_PORT), 0);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_SPEED, "mlx5_0:1 -> mlx5_1:1"));
	sxt_doctor_fini(&m.d);
}

static void most_pairs_below_line_rate_are_told_once(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){30, 31, 30, 32});
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_int_equal(m.d.findings_cnt, 1);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_BELOW_LINE, "most pairs"));
	sxt_doctor_fini(&m.d);
}

/* One dead pair of a full mesh: one of its ports goes, not both. */
static void one_dead_pair_costs_one_port(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 3, 3, (const uint32_t[]){90, 90, 90, 90, 90, 0, 90, 90, 90});
	expect_set(&m, "=mlx5_0:1,mlx5_2:1", "");
	sxt_pairs_judge(&m.pairs, &m.d);
	assert_non_null(find(&m, SXT_FINDING_PAIRS_SILENT, "mlx5_1:1 -> mlx5_2:1"));
	sxt_doctor_fini(&m.d);
}

static void rails_in_order_need_no_list(void **state)
{
	struct matrix m;
	struct sxt_pairs_advice advice;

	(void)state;
	matrix_make(&m, 3, 3, (const uint32_t[]){90, 0, 0, 0, 90, 0, 0, 0, 90});
	expect_set(&m, "", "");
	sxt_pairs_advise(&m.pairs, &advice);
	assert_int_equal(advice.rails_cnt, 3);
}

static void a_dead_rail_goes_on_both_hosts(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 3, 3, (const uint32_t[]){90, 0, 0, 0, 0, 0, 0, 0, 90});
	expect_set(&m, "=mlx5_0:1,mlx5_2:1", "=mlx5_0:1,mlx5_2:1");
}

static void crossed_rails_are_numbered(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){0, 90, 90, 0});
	expect_set(&m, "=mlx5_0:1:0,mlx5_1:1:1", "=mlx5_0:1:1,mlx5_1:1:0");
}

/* Where only small packets pass, the pair is no use. */
static void a_pair_without_large_packets_is_left_out(void **state)
{
	struct matrix m;

	(void)state;
	matrix_make(&m, 1, 2, (const uint32_t[]){90, 90});
	m.cells[1].way[SXT_PAIRS_CALLER].broke = true;
	m.cells[1].way[SXT_PAIRS_CALLER].mbps = 0;
	expect_set(&m, "", "=mlx5_0:1");
}

/* Which subnet explains most: what is known of prefixes counts. */
static void subnets_are_told_by_their_prefixes(void **state)
{
	struct matrix m;
	const struct sxt_finding *apart;

	(void)state;
	matrix_make(&m, 2, 2, (const uint32_t[]){90, 0, 0, 90});
	for (int end = 0; end < 2; end++) {
		struct sxt_wire_candidate *one = &m.pairs.hosts[end].ports[1].addresses[0];

		one->gid[15] = (uint8_t)(0x80 + end);
		one->prefix_len = 25;
		m.pairs.hosts[end].ports[0].addresses[0].prefix_len = 25;
	}
	sxt_pairs_judge(&m.pairs, &m.d);
	apart = find(&m, SXT_FINDING_PAIRS_APART, "mlx5_0:1 -> mlx5_1:1");
	assert_true(apart != NULL &&
		    strstr(apart->seen, "different subnets 10.0.0.0/25 and 10.0.0.128/25") != NULL);
	assert_true(sxt_pairs_is_apart(&m.pairs, 1));
	assert_false(sxt_pairs_is_apart(&m.pairs, 0));
	sxt_doctor_fini(&m.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_alike_say_nothing),
		cmocka_unit_test(the_only_pair_that_works_is_used),
		cmocka_unit_test(nothing_works_and_no_list_helps),
		cmocka_unit_test(a_slow_path_is_not_its_ports_fault),
		cmocka_unit_test(a_port_slow_with_everybody_is_named_once),
		cmocka_unit_test(one_direction_is_judged_alone),
		cmocka_unit_test(a_host_that_sends_slowly_is_named),
		cmocka_unit_test(a_slower_port_is_no_fault),
		cmocka_unit_test(most_pairs_below_line_rate_are_told_once),
		cmocka_unit_test(one_dead_pair_costs_one_port),
		cmocka_unit_test(rails_in_order_need_no_list),
		cmocka_unit_test(a_dead_rail_goes_on_both_hosts),
		cmocka_unit_test(crossed_rails_are_numbered),
		cmocka_unit_test(a_pair_without_large_packets_is_left_out),
		cmocka_unit_test(subnets_are_told_by_their_prefixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
