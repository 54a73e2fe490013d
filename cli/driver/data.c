/*
 * data.c - patterns, reductions and checks per element type (reduce is on the data path).
 *
 * Values are small whole numbers, so that a sum of floats is exact in any order and every bit of
 * it counts: 7 bits in bytes, 14 bits elsewhere (256 ranks x 2^14 < 2^24, a float's mantissa).
 */
#include "cli/driver/data.h"

#include <stdbool.h>
#include <string.h>

const char *const sxt_drv_op_names[SXT_DRV_OPS_CNT] = {"sum", "min", "max"};

static uint32_t pattern(size_t index, int rank, uint32_t iteration)
{
	uint64_t x = index * 0x9e3779b97f4a7c15ull +
		     (uint64_t)(unsigned int)rank * 0xd6e8feb86659fd93ull +
		     iteration * 0xa0761d6478bd642full;

	x ^= x >> 32;
	x *= 0xe7037ed1a0b428dbull;
	return (uint32_t)(x >> 50);
}

/* Bit for bit: a zero whose sign is wrong is wrong. */
static bool same(const void *a, const void *b, size_t bytes)
{
	return memcmp(a, b, bytes) == 0;
}

/* clang-format off */
#define DEFINE_TYPE(name, type, mask)                                                           \
	static void fill_##name(void *out, size_t first, size_t cnt, int rank, uint32_t iter)   \
	{                                                                                       \
		type *o = out;                                                                  \
												\
		for (size_t i = 0; i < cnt; i++)                                                \
			o[i] = (type)(pattern(first + i, rank, iter) & (mask));                 \
	}                                                                                       \
	static void sum_##name(type *o, const type *a, const type *b, size_t cnt)               \
	{                                                                                       \
		for (size_t i = 0; i < cnt; i++)                                                \
			o[i] = (type)(a[i] + b[i]);                                             \
	}                                                                                       \
	static void min_##name(type *o, const type *a, const type *b, size_t cnt)               \
	{                                                                                       \
		for (size_t i = 0; i < cnt; i++)                                                \
			o[i] = a[i] < b[i] ? a[i] : b[i];                                       \
	}                                                                                       \
	static void max_##name(type *o, const type *a, const type *b, size_t cnt)               \
	{                                                                                       \
		for (size_t i = 0; i < cnt; i++)                                                \
			o[i] = a[i] > b[i] ? a[i] : b[i];                                       \
	}                                                                                       \
	static void reduce_##name(void *o, const void *a, const void *b, size_t cnt,            \
				  enum sxt_drv_op op)                                           \
	{                                                                                       \
		if (op == SXT_DRV_SUM)                                                          \
			sum_##name(o, a, b, cnt);                                               \
		else if (op == SXT_DRV_MIN)                                                     \
			min_##name(o, a, b, cnt);                                               \
		else                                                                            \
			max_##name(o, a, b, cnt);                                               \
	}                                                                                       \
	static type expected_##name(size_t index, const struct sxt_drv_expect *e)               \
	{                                                                                       \
		type value = (type)(pattern(index, e->first_rank, e->iteration) & (mask));      \
												\
		for (int r = 1; r < e->ranks_cnt; r++) {                                        \
			type next = (type)(pattern(index, e->first_rank + r, e->iteration) &    \
					   (mask));                                             \
												\
			reduce_##name(&value, &value, &next, 1, e->op);                         \
		}                                                                               \
		return value;                                                                   \
	}                                                                                       \
	static size_t check_##name(const void *data, size_t cnt,                                \
				   const struct sxt_drv_expect *e, size_t *first_wrong)         \
	{                                                                                       \
		const type *d = data;                                                           \
		size_t wrong = 0;                                                               \
												\
		for (size_t i = 0; i < cnt; i++) {                                              \
			type want = expected_##name(e->first_element + i, e);                                 \
												\
			if (same(&d[i], &want, sizeof(want)))                              \
				continue;                                                       \
			if (wrong++ == 0)                                                       \
				*first_wrong = i;                                               \
		}                                                                               \
		return wrong;                                                                   \
	}

DEFINE_TYPE(int8, int8_t, 0x7f)
DEFINE_TYPE(uint8, uint8_t, 0xff)
DEFINE_TYPE(int32, int32_t, 0x3fff)
DEFINE_TYPE(uint32, uint32_t, 0x3fff)
DEFINE_TYPE(int64, int64_t, 0x3fff)
DEFINE_TYPE(uint64, uint64_t, 0x3fff)
DEFINE_TYPE(float, float, 0x3fff)
DEFINE_TYPE(double, double, 0x3fff)

#define TYPE_ROW(name, type) {#name, sizeof(type), fill_##name, reduce_##name, check_##name}

const struct sxt_drv_type sxt_drv_types[] = {
	TYPE_ROW(int8, int8_t),
	TYPE_ROW(uint8, uint8_t),
	TYPE_ROW(int32, int32_t),
	TYPE_ROW(uint32, uint32_t),
	TYPE_ROW(int64, int64_t),
	TYPE_ROW(uint64, uint64_t),
	TYPE_ROW(float, float),
	TYPE_ROW(double, double),
};
/* clang-format on */
const size_t sxt_drv_types_cnt = SXT_ARRAY_LEN(sxt_drv_types);

const struct sxt_drv_type *sxt_drv_type_find(const char *name)
{
	for (size_t i = 0; i < sxt_drv_types_cnt; i++) {
		if (strcmp(sxt_drv_types[i].name, name) == 0)
			return &sxt_drv_types[i];
	}
	return NULL;
}
