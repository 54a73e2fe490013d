/*
 * bench.h - one rank of a benchmark: ring connections per channel, the work on them, its check.
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

struct sxt_drv_channel {
	struct sxt_drv_conn *send_conn;
	struct sxt_drv_conn *recv_conn;
	struct sxt_drv_lane *send;
	struct sxt_drv_lane *recv;
	size_t offset; /* of its part in the buffers */
	struct sxt_drv_plan plan;
	struct sxt_drv_program programs[SXT_DRV_PROGRAMS_MAX];
	bool active; /* has a part of this operation */
};

struct sxt_drv_bench {
	struct sxt_drv_run *run;
	struct sxt_drv_bench_spec spec;
	struct sxt_drv_shape shape;
	struct sxt_drv_conns conns;
	struct sxt_drv_channel channels[SXT_DRV_CHANNELS_MAX];
	uint8_t *input;
	uint8_t *output;
	uint8_t *scratch; /* one slot of data */
	/* The job at hand. */
	size_t bytes;
	int iterations;
	_Atomic int iteration; /* progress thread writes, main thread shows */
	uint64_t elapsed_ns;   /* of the whole job, once it has ended */
};

/**
 * sxt_drv_bench_create() - plan connections and allocate buffers; nothing is connected yet.
 * @run: with a net that is initialised. @dev: of the plugin. @out: set on success only.
 * Return: 0, or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_drv_bench_create(struct sxt_drv_run *run,
					const struct sxt_drv_bench_spec *spec, int dev,
					struct sxt_drv_bench **out);

/**
 * sxt_drv_bench_destroy() - free what is closed already. @bench: NULL is fine.
 */
void sxt_drv_bench_destroy(struct sxt_drv_bench *bench);

/**
 * sxt_drv_bench_take_handles() - give every sender the handle its peer listens on.
 * @all: each rank's handles, connections_per_rank() of NCCL_NET_HANDLE_BYTES each, by rank.
 */
void sxt_drv_bench_take_handles(struct sxt_drv_bench *bench, const char *all);

/**
 * sxt_drv_bench_conns_per_rank() - connections of one direction of each rank.
 * @spec: how many channels and groups. Return: their number.
 */
int sxt_drv_bench_conns_per_rank(const struct sxt_drv_bench_spec *spec);

/**
 * sxt_drv_bench_copy_handles() - the handles this rank listens on, in the order of channels.
 * @out: conns_per_rank() x NCCL_NET_HANDLE_BYTES.
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
