/*
 * test_data.c - types find every wrong element, and lines are complete only when they are.
 */
#include "cli/driver/data.h"
#include "cli/driver/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CNT 500

static void a_flipped_bit_is_one_wrong_element_in_every_type(void **state)
{
	_Alignas(16) uint8_t data[CNT * 8];

	(void)state;
	for (size_t i = 0; i < sxt_drv_types_cnt; i++) {
		const struct sxt_drv_type *type = &sxt_drv_types[i];
		const struct sxt_drv_expect expect = {3, 1, 9, SXT_DRV_SUM, 0};
		size_t first = 0;

		type->fill(data, 0, CNT, 3, 9);
		assert_int_equal(type->check(data, CNT, &expect, &first), 0);
		for (size_t bit = 0; bit < type->bytes * 8; bit++) {
			data[41 * type->bytes + bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_equal(type->check(data, CNT, &expect, &first), 1);
			assert_int_equal(first, 41);
			data[41 * type->bytes + bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

static void a_buffer_may_begin_in_the_middle_of_the_data(void **state)
{
	const struct sxt_drv_type *type = sxt_drv_type_find("int32");
	const struct sxt_drv_expect expect = {.first_rank = 3,
					      .ranks_cnt = 1,
					      .iteration = 9,
					      .first_element = 70};
	_Alignas(16) uint8_t data[CNT * 8];
	size_t first = 0;

	(void)state;
	type->fill(data, 70, CNT, 3, 9);
	assert_int_equal(type->check(data, CNT, &expect, &first), 0);
	type->fill(data, 0, CNT, 3, 9);
	assert_true(type->check(data, CNT, &expect, &first) > CNT / 2);
}

/* Share of elements that two fills have in common by chance, in percent. */
static size_t alike(const struct sxt_drv_type *type, int rank, uint32_t iteration, size_t first)
{
	_Alignas(16) uint8_t a[CNT * 8];
	_Alignas(16) uint8_t b[CNT * 8];
	size_t same = 0;

	type->fill(a, 0, CNT, 0, 1);
	type->fill(b, first, CNT, rank, iteration);
	for (size_t i = 0; i < CNT; i++)
		same += memcmp(a + i * type->bytes, b + i * type->bytes, type->bytes) == 0;
	return same * 100 / CNT;
}

static void other_ranks_iterations_and_places_look_different(void **state)
{
	(void)state;
	for (size_t i = 0; i < sxt_drv_types_cnt; i++) {
		assert_true(alike(&sxt_drv_types[i], 1, 1, 0) < 3);
		assert_true(alike(&sxt_drv_types[i], 0, 2, 0) < 3);
		assert_true(alike(&sxt_drv_types[i], 0, 1, 1) < 3);
	}
}

static void reductions_give_what_check_expects(void **state)
{
	_Alignas(16) uint8_t sum[CNT * 8];
	_Alignas(16) uint8_t next[CNT * 8];

	(void)state;
	for (size_t i = 0; i < sxt_drv_types_cnt * SXT_DRV_OPS_CNT; i++) {
		const struct sxt_drv_type *type = &sxt_drv_types[i / SXT_DRV_OPS_CNT];
		const enum sxt_drv_op op = (enum sxt_drv_op)(i % SXT_DRV_OPS_CNT);
		const struct sxt_drv_expect expect = {0, 4, 5, op, 0};
		size_t first = 0;

		type->fill(sum, 0, CNT, 2, 5);
		for (int rank = 0; rank < 4; rank++) {
			if (rank == 2)
				continue;
			type->fill(next, 0, CNT, rank, 5);
			type->reduce(sum, sum, next, CNT, op);
		}
		assert_int_equal(type->check(sum, CNT, &expect, &first), 0);
	}
}

static void lines_carry_data_and_are_ready_with_the_last_flag(void **state)
{
	const size_t bytes[] = {1, 4, 5, 119, 120, 121, 1000};
	_Alignas(128) uint8_t slot[4096];
	uint8_t data[1000];
	uint8_t got[1000];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + 1);
	for (size_t i = 0; i < sxt_drv_protos_cnt * SXT_ARRAY_LEN(bytes); i++) {
		const struct sxt_drv_proto *proto = &sxt_drv_protos[i / SXT_ARRAY_LEN(bytes)];
		size_t len = bytes[i % SXT_ARRAY_LEN(bytes)];
		size_t wire = sxt_drv_proto_wire(proto, len);
		size_t checked = 0;
		uint8_t last;

		if (proto->line_bytes == 0)
			continue;
		memset(slot, 0, sizeof(slot));
		sxt_drv_proto_write(proto, slot, data, len, 0x01020304);
		last = slot[wire - proto->line_bytes + proto->line_data];
		slot[wire - proto->line_bytes + proto->line_data] = 0;
		assert_false(sxt_drv_proto_ready(proto, slot, len, 0x01020304, &checked));
		assert_int_equal(checked, wire / proto->line_bytes - 1);
		slot[wire - proto->line_bytes + proto->line_data] = last;
		assert_true(sxt_drv_proto_ready(proto, slot, len, 0x01020304, &checked));
		sxt_drv_proto_read(proto, slot, got, len);
		assert_memory_equal(got, data, len);
		for (size_t k = wire; k < sizeof(slot); k++)
			assert_int_equal(slot[k], 0);
	}
}

static void slots_hold_whole_lines(void **state)
{
	(void)state;
	assert_int_equal(sxt_drv_proto_capacity(sxt_drv_proto_find("simple"), 1000), 1000);
	assert_int_equal(sxt_drv_proto_capacity(sxt_drv_proto_find("ll"), 65536), 32768);
	assert_int_equal(sxt_drv_proto_capacity(sxt_drv_proto_find("ll128"), 600 << 10), 576000);
	assert_int_equal(sxt_drv_proto_wire(sxt_drv_proto_find("ll128"), 576000), 600 << 10);
	assert_null(sxt_drv_proto_find("tcp"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flipped_bit_is_one_wrong_element_in_every_type),
		cmocka_unit_test(a_buffer_may_begin_in_the_middle_of_the_data),
		cmocka_unit_test(other_ranks_iterations_and_places_look_different),
		cmocka_unit_test(reductions_give_what_check_expects),
		cmocka_unit_test(lines_carry_data_and_are_ready_with_the_last_flag),
		cmocka_unit_test(slots_hold_whole_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
