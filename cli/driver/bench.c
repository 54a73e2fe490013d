/*
 * bench.c - plans the connections of a benchmark, and fills and checks its data (slow path).
 */
#include "cli/driver/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sxt_drv_bench_conns_per_rank(const struct sxt_drv_bench_spec *spec)
{
	return (spec->channels + spec->group - 1) / spec->group;
}

static void plan_shape(struct sxt_drv_bench *bench, int dev)
{
	const struct sxt_drv_bench_spec *spec = &bench->spec;
	bool simple = spec->proto->line_bytes == 0;

	bench->shape.proto = spec->proto;
	bench->shape.slot_bytes =
		simple ? spec->pattern->simple_slot_bytes : spec->proto->step_bytes;
	bench->shape.depth = simple ? spec->pattern->simple_depth : SXT_DRV_STEPS;
	if (spec->depth > 0)
		bench->shape.depth = (unsigned int)spec->depth;
	bench->shape.private_memory = spec->private_memory;
	bench->shape.dev = dev;
}

/* Tags are the sender's rank; members of one group must differ, so each lane pretends a rank. */
static int tag_of(const struct sxt_drv_bench *bench, int sender, int lane)
{
	return sender + lane * bench->run->ranks;
}

static void plan_conn(struct sxt_drv_bench *bench, struct sxt_drv_conn *conn, int index,
		      bool sender)
{
	struct sxt_drv_run *run = bench->run;
	int first = index * bench->spec.group;
	int left = bench->spec.channels - first;

	conn->run = run;
	conn->shape = &bench->shape;
	conn->sender = sender;
	conn->channel = first;
	conn->state = sender ? SXT_DRV_CONN_CONNECT : SXT_DRV_CONN_LISTEN;
	conn->peer = (run->rank + (sender ? 1 : run->ranks - 1)) % run->ranks;
	conn->lanes_cnt = left < bench->spec.group ? left : bench->spec.group;
	for (int i = 0; i < conn->lanes_cnt; i++) {
		struct sxt_drv_channel *channel = &bench->channels[first + i];

		conn->lanes[i].tag = tag_of(bench, sender ? run->rank : conn->peer, i);
		if (sender) {
			channel->send_conn = conn;
			channel->send = &conn->lanes[i];
		} else {
			channel->recv_conn = conn;
			channel->recv = &conn->lanes[i];
		}
	}
}

int sxt_drv_bench_create(struct sxt_drv_run *run, const struct sxt_drv_bench_spec *spec, int dev,
			 struct sxt_drv_bench **out)
{
	int per_rank = sxt_drv_bench_conns_per_rank(spec);
	size_t buffer_bytes = spec->max_bytes + 64;
	struct sxt_drv_bench *bench = calloc(1, sizeof(*bench));

	if (bench == NULL)
		return -ENOMEM;
	bench->run = run;
	bench->spec = *spec;
	plan_shape(bench, dev);
	bench->conns.run = run;
	bench->conns.list = calloc((size_t)per_rank * 2, sizeof(*bench->conns.list));
	bench->input = calloc(1, buffer_bytes);
	bench->output = calloc(1, buffer_bytes);
	bench->scratch = calloc(1, bench->shape.slot_bytes);
	if (bench->conns.list == NULL || bench->input == NULL || bench->output == NULL ||
	    bench->scratch == NULL)
		goto fail;
	bench->conns.cnt = per_rank * 2;
	for (int i = 0; i < per_rank; i++) {
		plan_conn(bench, &bench->conns.list[i], i, true);
		plan_conn(bench, &bench->conns.list[per_rank + i], i, false);
	}
	*out = bench;
	return 0;
fail:
	sxt_drv_bench_destroy(bench);
	return -ENOMEM;
}

void sxt_drv_bench_destroy(struct sxt_drv_bench *bench)
{
	if (bench == NULL)
		return;
	free(bench->conns.list);
	free(bench->input);
	free(bench->output);
	free(bench->scratch);
	free(bench);
}

void sxt_drv_bench_copy_handles(const struct sxt_drv_bench *bench, char *out)
{
	int per_rank = bench->conns.cnt / 2;

	for (int i = 0; i < per_rank; i++)
		memcpy(out + (size_t)i * NCCL_NET_HANDLE_BYTES,
		       bench->conns.list[per_rank + i].handle, NCCL_NET_HANDLE_BYTES);
}

void sxt_drv_bench_take_handles(struct sxt_drv_bench *bench, const char *all)
{
	int per_rank = bench->conns.cnt / 2;

	for (int i = 0; i < per_rank; i++) {
		struct sxt_drv_conn *conn = &bench->conns.list[i];
		size_t index = (size_t)conn->peer * (size_t)per_rank + (size_t)i;

		memcpy(conn->handle, all + index * NCCL_NET_HANDLE_BYTES, NCCL_NET_HANDLE_BYTES);
	}
}

void sxt_drv_bench_fill(struct sxt_drv_bench *bench, size_t bytes, uint32_t iteration)
{
	const struct sxt_drv_type *type = bench->spec.type;

	type->fill(bench->input, 0, bytes / type->bytes, bench->run->rank, iteration);
	/* 0xa5a5... is no value that any pattern or sum of patterns has. */
	memset(bench->output, 0xa5, bytes + 64);
}

/* Bytes behind the buffer's end that are no longer what fill() left there. */
static size_t overrun(const struct sxt_drv_bench *bench, size_t bytes)
{
	size_t wrong = 0;

	for (size_t i = bytes; i < bytes + 64; i++)
		wrong += bench->output[i] != 0xa5;
	return wrong;
}

size_t sxt_drv_bench_check(const struct sxt_drv_bench *bench, size_t bytes, uint32_t iteration,
			   size_t *first_wrong)
{
	const struct sxt_drv_run *run = bench->run;
	const struct sxt_drv_type *type = bench->spec.type;
	const bool reduces = bench->spec.pattern->reduces;
	const struct sxt_drv_expect expect = {
		.first_rank = reduces ? 0 : (run->rank + run->ranks - 1) % run->ranks,
		.ranks_cnt = reduces ? run->ranks : 1,
		.iteration = iteration,
		.op = bench->spec.op,
	};

	return type->check(bench->output, bytes / type->bytes, &expect, first_wrong) +
	       overrun(bench, bytes);
}
