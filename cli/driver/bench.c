/*
 * bench.c - plans the connections of a benchmark, and fills and checks its data (slow path).
 */
#include "cli/driver/bench.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES    64 /* behind the output; nobody may write them */
#define GUARD          0xa5
#define SHARED_DEPTH   16 /* slots that NCCL gives to all members of a group together */
#define SHARED_AT_MOST 8  /* and to each of them */

static void plan_shape(struct sxt_drv_bench *bench, const struct sxt_drv_user *user)
{
	const struct sxt_drv_bench_spec *spec = &bench->spec;
	bool simple = spec->proto->line_bytes == 0;

	bench->shape.proto = spec->proto;
	bench->shape.slot_bytes =
		simple ? spec->pattern->simple_slot_bytes : spec->proto->step_bytes;
	bench->shape.depth = simple ? spec->pattern->simple_depth : SXT_DRV_STEPS;
	if (spec->pattern->shares_comms && SHARED_DEPTH / spec->group < SHARED_AT_MOST)
		bench->shape.depth = SHARED_DEPTH / (unsigned int)spec->group;
	if (spec->depth > 0)
		bench->shape.depth = (unsigned int)spec->depth;
	bench->shape.private_memory = spec->private_memory;
	bench->shape.user = *user;
}

/* Neighbours of any rank on a channel. */
static int peers_of(const struct sxt_drv_bench *bench, int rank, int channel, bool sending,
		    int *peers)
{
	struct sxt_drv_plan plan = {.rank = rank, .ranks = bench->run->ranks};

	sxt_drv_tree_of(rank, plan.ranks, channel % 2, &plan.tree);
	return bench->spec.pattern->peers(&plan, sending, peers);
}

/* Connections of one direction of any rank, on channels before @channels. */
static int count_conns(const struct sxt_drv_bench *bench, int rank, int channels, bool sending)
{
	int peers[SXT_DRV_MAX_RANKS];
	int cnt = 0;

	for (int first = 0; first < channels; first += bench->spec.group)
		cnt += peers_of(bench, rank, first, sending, peers);
	return cnt;
}

/* Tags are the sender's rank; members of one group must differ, so each lane pretends a rank. */
static int tag_of(const struct sxt_drv_bench *bench, int sender, int lane)
{
	return sender + lane * bench->run->ranks;
}

/* The lanes of one connection become an edge of each of its channels. */
static void plan_conn(struct sxt_drv_bench *bench, struct sxt_drv_conn *conn, int edge)
{
	const int left = bench->spec.channels - conn->channel;

	conn->run = bench->run;
	conn->shape = &bench->shape;
	conn->state = conn->sender ? SXT_DRV_CONN_CONNECT : SXT_DRV_CONN_LISTEN;
	conn->lanes_cnt = left < bench->spec.group ? left : bench->spec.group;
	for (int i = 0; i < conn->lanes_cnt; i++) {
		struct sxt_drv_channel *channel = &bench->channels[conn->channel + i];
		struct sxt_drv_edge *edges = conn->sender ? channel->outs : channel->ins;

		/* plan_channel() has been there, for every channel. */
		assert(edges != NULL);
		conn->lanes[i].tag = tag_of(bench, conn->sender ? bench->run->rank : conn->peer, i);
		edges[edge] = (struct sxt_drv_edge){conn, &conn->lanes[i]};
	}
}

static void plan_conns(struct sxt_drv_bench *bench, struct sxt_drv_conn *conn, bool sender)
{
	int peers[SXT_DRV_MAX_RANKS];

	for (int first = 0; first < bench->spec.channels; first += bench->spec.group) {
		int cnt = peers_of(bench, bench->run->rank, first, sender, peers);

		for (int edge = 0; edge < cnt; edge++, conn++) {
			conn->sender = sender;
			conn->peer = peers[edge];
			conn->channel = first;
			plan_conn(bench, conn, edge);
		}
	}
}

static int plan_channel(struct sxt_drv_bench *bench, int index)
{
	struct sxt_drv_channel *channel = &bench->channels[index];
	struct sxt_drv_plan *plan = &channel->plan;
	int peers[SXT_DRV_MAX_RANKS];

	plan->rank = bench->run->rank;
	plan->ranks = bench->run->ranks;
	sxt_drv_tree_of(plan->rank, plan->ranks, index % 2, &plan->tree);
	channel->outs_cnt = peers_of(bench, plan->rank, index, true, peers);
	channel->ins_cnt = peers_of(bench, plan->rank, index, false, peers);
	channel->programs_cnt = bench->spec.pattern->programs(plan);
	channel->outs = calloc((size_t)channel->outs_cnt, sizeof(*channel->outs));
	channel->ins = calloc((size_t)channel->ins_cnt, sizeof(*channel->ins));
	channel->programs = calloc((size_t)channel->programs_cnt, sizeof(*channel->programs));
	return channel->outs != NULL && channel->ins != NULL && channel->programs != NULL ? 0
											  : -ENOMEM;
}

static int allocate(struct sxt_drv_bench *bench)
{
	size_t buffer_bytes = bench->spec.max_bytes + GUARD_BYTES;
	int cnt = count_conns(bench, bench->run->rank, bench->spec.channels, false);

	bench->sends_cnt = count_conns(bench, bench->run->rank, bench->spec.channels, true);
	cnt += bench->sends_cnt;
	bench->conns.run = bench->run;
	bench->conns.list = calloc((size_t)cnt, sizeof(*bench->conns.list));
	bench->input = calloc(1, buffer_bytes);
	bench->output = calloc(1, buffer_bytes);
	bench->scratch = calloc(1, bench->shape.slot_bytes);
	bench->lines = calloc(1, bench->shape.slot_bytes);
	if (bench->conns.list == NULL || bench->input == NULL || bench->output == NULL ||
	    bench->scratch == NULL || bench->lines == NULL)
		return -ENOMEM;
	bench->conns.cnt = cnt;
	return 0;
}

int sxt_drv_bench_create(struct sxt_drv_run *run, const struct sxt_drv_bench_spec *spec,
			 const struct sxt_drv_user *user, struct sxt_drv_bench **out)
{
	struct sxt_drv_bench *bench = calloc(1, sizeof(*bench));
	int rc;

	if (bench == NULL)
		return -ENOMEM;
	bench->run = run;
	bench->spec = *spec;
	plan_shape(bench, user);
	rc = allocate(bench);
	for (int i = 0; i < spec->channels && rc == 0; i++)
		rc = plan_channel(bench, i);
	if (rc != 0)
		goto fail;
	plan_conns(bench, bench->conns.list, true);
	plan_conns(bench, bench->conns.list + bench->sends_cnt, false);
	*out = bench;
	return 0;
fail:
	sxt_drv_bench_destroy(bench);
	return rc;
}

void sxt_drv_bench_destroy(struct sxt_drv_bench *bench)
{
	if (bench == NULL)
		return;
	for (int i = 0; i < SXT_DRV_CHANNELS_MAX; i++) {
		free(bench->channels[i].outs);
		free(bench->channels[i].ins);
		free(bench->channels[i].programs);
	}
	free(bench->conns.list);
	free(bench->input);
	free(bench->output);
	free(bench->scratch);
	free(bench->lines);
	free(bench);
}

int sxt_drv_bench_handles_cnt(const struct sxt_drv_bench *bench)
{
	int most = 0;

	for (int rank = 0; rank < bench->run->ranks; rank++) {
		int cnt = count_conns(bench, rank, bench->spec.channels, false);

		most = cnt > most ? cnt : most;
	}
	return most;
}

void sxt_drv_bench_copy_handles(const struct sxt_drv_bench *bench, char *out)
{
	const struct sxt_drv_conn *receivers = bench->conns.list + bench->sends_cnt;

	for (int i = 0; i < bench->conns.cnt - bench->sends_cnt; i++)
		memcpy(out + (size_t)i * NCCL_NET_HANDLE_BYTES, receivers[i].handle,
		       NCCL_NET_HANDLE_BYTES);
}

/* Number of the connection from this rank among those its peer receives on. */
static int number_at_peer(const struct sxt_drv_bench *bench, const struct sxt_drv_conn *conn)
{
	int number = count_conns(bench, conn->peer, conn->channel, false);
	int peers[SXT_DRV_MAX_RANKS];
	int cnt = peers_of(bench, conn->peer, conn->channel, false, peers);

	for (int edge = 0; edge < cnt && peers[edge] != bench->run->rank; edge++)
		number++;
	return number;
}

void sxt_drv_bench_take_handles(struct sxt_drv_bench *bench, const char *all)
{
	size_t per_rank = (size_t)sxt_drv_bench_handles_cnt(bench);

	for (int i = 0; i < bench->sends_cnt; i++) {
		struct sxt_drv_conn *conn = &bench->conns.list[i];
		size_t index = (size_t)conn->peer * per_rank + (size_t)number_at_peer(bench, conn);

		memcpy(conn->handle, all + index * NCCL_NET_HANDLE_BYTES, NCCL_NET_HANDLE_BYTES);
	}
}

static size_t part_of(const struct sxt_drv_bench *bench, size_t bytes)
{
	return sxt_drv_pattern_part(bench->spec.pattern, bytes, bench->run->ranks);
}

static int output_parts(const struct sxt_drv_bench *bench)
{
	return bench->spec.pattern->parts_out ? bench->run->ranks : 1;
}

void sxt_drv_bench_fill(struct sxt_drv_bench *bench, size_t bytes, uint32_t iteration)
{
	const struct sxt_drv_type *type = bench->spec.type;
	size_t parts = bench->spec.pattern->parts_in ? (size_t)bench->run->ranks : 1;
	size_t in_bytes = part_of(bench, bytes) * parts;

	type->fill(bench->input, 0, in_bytes / type->bytes, bench->run->rank, iteration);
	/* 0xa5a5... is no value that any pattern or sum of patterns has. */
	memset(bench->output, GUARD, bytes + GUARD_BYTES);
}

/* Bytes behind the output's end that are no longer what fill() left there. */
static size_t overrun(const struct sxt_drv_bench *bench, size_t bytes)
{
	size_t wrong = 0;

	for (size_t i = bytes; i < bytes + GUARD_BYTES; i++)
		wrong += bench->output[i] != GUARD;
	return wrong;
}

size_t sxt_drv_bench_check(const struct sxt_drv_bench *bench, size_t bytes, uint32_t iteration,
			   size_t *first_wrong)
{
	const struct sxt_drv_run *run = bench->run;
	const struct sxt_drv_type *type = bench->spec.type;
	const size_t part_bytes = part_of(bench, bytes);
	const size_t cnt = part_bytes / type->bytes;
	size_t wrong = 0;

	for (int part = 0; part < output_parts(bench); part++) {
		struct sxt_drv_expect expect = {.iteration = iteration, .op = bench->spec.op};
		size_t first = 0;
		size_t bad;

		bench->spec.pattern->expect(run->rank, run->ranks, part, cnt, &expect);
		bad = type->check(bench->output + (size_t)part * part_bytes, cnt, &expect, &first);
		if (bad > 0 && wrong == 0)
			*first_wrong = (size_t)part * cnt + first;
		wrong += bad;
	}
	return wrong + overrun(bench, part_bytes * (size_t)output_parts(bench));
}
