/*
 * pattern_cut.h - how every pattern cuts a channel's share into chunks and slices.
 */
#ifndef SXT_CLI_DRIVER_PATTERN_CUT_H
#define SXT_CLI_DRIVER_PATTERN_CUT_H

#include "cli/driver/pattern.h"

#define SXT_DRV_CUT_ALIGN 16 /* slices and chunks start at multiples, as NCCL's */

extern const struct sxt_drv_pattern sxt_drv_ring_all_reduce;
extern const struct sxt_drv_pattern sxt_drv_ring_all_gather;
extern const struct sxt_drv_pattern sxt_drv_ring_reduce_scatter;
extern const struct sxt_drv_pattern sxt_drv_tree_all_reduce;

static inline size_t cut_div_up(size_t a, size_t b)
{
	return (a + b - 1) / b;
}

static inline size_t cut_align_up(size_t a)
{
	return cut_div_up(a, SXT_DRV_CUT_ALIGN) * SXT_DRV_CUT_ALIGN;
}

/* Bytes of [offset, offset + bytes) that lie before @end. */
static inline size_t cut_clamp(size_t offset, size_t bytes, size_t end)
{
	if (offset >= end)
		return 0;
	return end - offset < bytes ? end - offset : bytes;
}

/* A message of 0 bytes is a message: every operation has one piece at least. */
static inline uint64_t cut_pieces(size_t bytes, size_t piece)
{
	return bytes == 0 ? 1 : cut_div_up(bytes, piece);
}

#endif
