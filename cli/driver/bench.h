/*
 * bench.h - one rank of a benchmark: its connections by channel and neighbour, the work on them,
 * its check. One per communicator.
 */
#ifndef SXT_CLI_DRIVER_BENCH_H
#define SXT_CLI_DRIVER_BENCH_H

#include "cli/driver/conn.h"
#include "cli/driver/data.h"
#include "cli/driver/pattern.h"

#define SXT_DRV_CHANNELS_MAX 32

/* What the user asked for; the same on every rank. */
struct sxt_drv_bench_spec {
	const struct sxt_drv_pattern *pattern;
	const struct sxt_drv_proto *proto;
	const struct sxt_drv_type *type;
	enum sxt_drv_op op;
	int channels;
	int group; /* channels per connection, received in groups */
	int depth; /* slots per lane, 0: as NCCL */
	bool private_memory;
	size_t max_bytes;
};

/* A running sequence of moves. */
struct sxt_drv_program {
	uint64_t next;
	uint64_t end;
	struct sxt_drv_move move; /* the one at next, once loaded */
	bool loaded;
};

/* One direction of a channel between two ranks. */
struct sxt_drv_edge {
	struct sxt_drv_conn *conn;
	struct sxt_drv_lane *lane;
};

struct sxt_drv_channel {
	struct sxt_drv_edge *outs;
	struct sxt_drv_edge *ins;
	int outs_cnt;
	int ins_cnt;
	struct sxt_drv_plan plan;
	struct sxt_drv_program *programs;
	int programs_cnt;
	bool active; /* has a share of this operation */
};

struct sxt_drv_bench {
	struct sxt_drv_run *run;
	struct sxt_drv_bench_spec spec;
	struct sxt_drv_shape shape;
	struct sxt_drv_conns conns; /* those that send first */
	int sends_cnt;              /* of them */
	struct sxt_drv_channel channels[SXT_DRV_CHANNELS_MAX];
	uint8_t *input;
	uint8_t *output;
	uint8_t *scratch; /* one slot of data: a sum nobody else keeps */
	uint8_t *lines;   /* one slot of data, taken out of its lines */
	/* The job at hand. */
	size_t bytes;
	int iterations;
	_Atomic int iteration; /* progress thread writes, main thread shows */
	uint64_t elapsed_ns;   /* of the whole job, once it has ended */
};

/**
 * sxt_drv_bench_create() - plan connections and allocate buffers; nothing is connected yet.
 * @run: with a net that is initialised. @spec: complete: channels and group are 1 at least.
 * @user: whose connections they are: ctx, dev, comm. @out: set on success only.
 * Return: 0, or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_drv_bench_create(struct sxt_drv_run *run,
					const struct sxt_drv_bench_spec *spec,
					const struct sxt_drv_user *user,
					struct sxt_drv_bench **out);

/**
 * sxt_drv_bench_destroy() - free what is closed already. @bench: NULL is fine.
 */
void sxt_drv_bench_destroy(struct sxt_drv_bench *bench);

/**
 * sxt_drv_bench_handles_cnt() - handles that each rank puts up, some of them unused.
 * Return: the largest number of receiving connections of any rank, so the same on all.
 */
int sxt_drv_bench_handles_cnt(const struct sxt_drv_bench *bench);

/**
 * sxt_drv_bench_take_handles() - give every sender the handle its peer listens on.
 * @all: each rank's handles, handles_cnt() of NCCL_NET_HANDLE_BYTES each, by rank.
 */
void sxt_drv_bench_take_handles(struct sxt_drv_bench *bench, const char *all);

/**
 * sxt_drv_bench_copy_handles() - the handles this rank listens on.
 * @out: handles_cnt() x NCCL_NET_HANDLE_BYTES.
 */
void sxt_drv_bench_copy_handles(const struct sxt_drv_bench *bench, char *out);

/**
 * sxt_drv_bench_work() - job: run bench->iterations operations of bench->bytes each.
 * @arg: struct sxt_drv_bench. Thread: progress. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_bench_work(void *arg);

/**
 * sxt_drv_bench_fill() - write the input of one checked iteration and spoil the output.
 */
void sxt_drv_bench_fill(struct sxt_drv_bench *bench, size_t bytes, uint32_t iteration);

/**
 * sxt_drv_bench_check() - count the output's wrong elements.
 * @first_wrong: index of the first; written only if there is one. Return: their number.
 */
size_t sxt_drv_bench_check(const struct sxt_drv_bench *bench, size_t bytes, uint32_t iteration,
			   size_t *first_wrong);

#endif
