/*
 * pattern.h - what the GPU's part does on each rank: numbered moves of one slice each along the
 * edges to its neighbours, cut as NCCL cuts them.
 */
#ifndef SXT_CLI_DRIVER_PATTERN_H
#define SXT_CLI_DRIVER_PATTERN_H

#include "cli/driver/data.h"
#include "cli/driver/tree.h"

#include <stdbool.h>

#define SXT_DRV_FAN_MAX 3 /* edges that one move takes from, or passes to */

/* One slice: take it in, combine it, keep it, pass it on; in this order. */
struct sxt_drv_move {
	int recvs[SXT_DRV_FAN_MAX]; /* in-edges; more than one only to be reduced */
	int recvs_cnt;
	int sends[SXT_DRV_FAN_MAX]; /* out-edges; what came in or was reduced, else the own input */
	int sends_cnt;
	bool reduce; /* all that came in, with the own input */
	bool store;  /* into the output */
	size_t in_offset;
	size_t out_offset;
	size_t bytes;
};

/*
 * One channel's share of one operation. Where input or output consist of a part for each rank,
 * the share is [start, start + bytes) of every part.
 */
struct sxt_drv_plan {
	size_t start;
	size_t bytes;
	size_t part_bytes;   /* from part to part */
	size_t capacity;     /* bytes of data in a slot, a multiple of 4 */
	unsigned int slices; /* slots per chunk */
	int rank;
	int ranks;
	struct sxt_drv_tree tree; /* of the channel */
};

struct sxt_drv_pattern {
	const char *name;
	const char *algo;         /* ring, tree or p2p */
	const char *proto;        /* if the user names none */
	size_t simple_slot_bytes; /* with the simple protocol */
	unsigned int simple_depth;
	unsigned int simple_slices;
	int channels; /* if the user says nothing */
	bool reduces;
	bool groups;       /* grouped receives cannot block each other in a circle */
	bool shares_comms; /* NCCL puts the channels to a peer on one connection, in groups */
	bool parts_in;     /* the input has a part for each rank */
	bool parts_out;
	/* Ranks this one sends to, or receives from, by edge; @peers has room for all. Return:
	 * their number. */
	int (*peers)(const struct sxt_drv_plan *plan, bool sending, int *peers);
	/* Sequences of moves that run side by side. */
	int (*programs)(const struct sxt_drv_plan *plan);
	/* Number of moves of a program. */
	uint64_t (*moves)(const struct sxt_drv_plan *plan, int program);
	/* Move @index of a program. */
	void (*move)(const struct sxt_drv_plan *plan, int program, uint64_t index,
		     struct sxt_drv_move *out);
	/* Steps every in-edge sees. */
	uint64_t (*receives)(const struct sxt_drv_plan *plan);
	/* Whose data the output's @part holds, of a part that begins at element 0; iteration and
	 * op are left alone. @cnt: elements of a part. */
	void (*expect)(int rank, int ranks, int part, size_t cnt, struct sxt_drv_expect *out);
	/* Bytes on the busiest link by bytes of the operation, as nccl-tests counts. */
	double (*bus_factor)(int ranks);
};

extern const struct sxt_drv_pattern *const sxt_drv_patterns[];
extern const size_t sxt_drv_patterns_cnt;

/**
 * sxt_drv_pattern_find() - a pattern by name and algorithm.
 * @algo: NULL for the first one of that name. Return: static, or NULL.
 */
const struct sxt_drv_pattern *sxt_drv_pattern_find(const char *name, const char *algo);

/**
 * sxt_drv_pattern_part() - bytes of one part of an operation.
 * @bytes: of the whole. Return: @bytes by ranks where there are parts, else @bytes.
 */
size_t sxt_drv_pattern_part(const struct sxt_drv_pattern *pattern, size_t bytes, int ranks);

#endif
