/*
 * pattern.h - what the GPU's part does on a ring of ranks: send/recv and all-reduce, as numbered
 * moves of one slice each, cut as NCCL cuts them.
 */
#ifndef SXT_CLI_DRIVER_PATTERN_H
#define SXT_CLI_DRIVER_PATTERN_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_DRV_PROGRAMS_MAX 2

/* One slice: take it in, combine it, keep it, pass it on; in this order. */
struct sxt_drv_move {
	bool recv;
	bool reduce; /* with the own input at the same offset */
	bool store;  /* into the output */
	bool send;   /* what came in or was reduced; without recv, the own input */
	size_t offset;
	size_t bytes;
};

/* One channel's part of one operation. */
struct sxt_drv_plan {
	size_t bytes;        /* of the part */
	size_t capacity;     /* bytes of data in a slot, a multiple of 16 */
	unsigned int slices; /* slots per chunk */
	int rank;
	int ranks;
};

struct sxt_drv_pattern {
	const char *name;
	const char *summary;
	const char *proto;        /* if the user names none */
	size_t simple_slot_bytes; /* with the simple protocol */
	unsigned int simple_depth;
	unsigned int simple_slices;
	int programs_cnt; /* sequences of moves that run side by side */
	bool reduces;
	bool groups; /* grouped receives cannot block each other in a circle */
	/* Number of moves of a program. */
	uint64_t (*moves)(const struct sxt_drv_plan *plan);
	/* Move @index of a program. */
	void (*move)(const struct sxt_drv_plan *plan, int program, uint64_t index,
		     struct sxt_drv_move *out);
	/* Steps the receiving connection sees. */
	uint64_t (*receives)(const struct sxt_drv_plan *plan);
	/* Bytes on the busiest link by bytes of the operation, as nccl-tests counts. */
	double (*bus_factor)(int ranks);
};

extern const struct sxt_drv_pattern sxt_drv_patterns[];
extern const size_t sxt_drv_patterns_cnt;

/**
 * sxt_drv_pattern_find() - a pattern by name. Return: static, or NULL.
 */
const struct sxt_drv_pattern *sxt_drv_pattern_find(const char *name);

#endif
