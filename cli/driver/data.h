/*
 * data.h - element types, reductions, and data whose every element tells where it belongs.
 */
#ifndef SXT_CLI_DRIVER_DATA_H
#define SXT_CLI_DRIVER_DATA_H

#include "core/compiler.h"

enum sxt_drv_op {
	SXT_DRV_SUM,
	SXT_DRV_MIN,
	SXT_DRV_MAX,
	SXT_DRV_OPS_CNT
};

/* What a buffer should hold: the reduction over consecutive ranks' elements. */
struct sxt_drv_expect {
	int first_rank;
	int ranks_cnt; /* 1: that rank's data as they are */
	uint32_t iteration;
	enum sxt_drv_op op;
	size_t first_element; /* number of the buffer's element 0 in those ranks' data */
};

struct sxt_drv_type {
	const char *name; /* as nccl-tests names it */
	size_t bytes;
	/* Writes element @first and on of @rank's data. */
	void (*fill)(void *out, size_t first, size_t cnt, int rank, uint32_t iteration);
	/* out[i] = a[i] op b[i]; out may be a. */
	void (*reduce)(void *out, const void *a, const void *b, size_t cnt, enum sxt_drv_op op);
	/* Number of elements that are not what they should be; the first one goes to *first_wrong.
	 */
	size_t (*check)(const void *data, size_t cnt, const struct sxt_drv_expect *expect,
			size_t *first_wrong);
};

extern const struct sxt_drv_type sxt_drv_types[];
extern const size_t sxt_drv_types_cnt;
extern const char *const sxt_drv_op_names[SXT_DRV_OPS_CNT];

/**
 * sxt_drv_type_find() - a type by its nccl-tests name ("float", "int8", ...).
 * Return: static, or NULL.
 */
const struct sxt_drv_type *sxt_drv_type_find(const char *name);

#endif
