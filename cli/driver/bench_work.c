/*
 * bench_work.c - the progress thread: NCCL's proxy on all connections, and between its rounds what
 * the GPU would do: fill slots, empty them, reduce (hot path).
 */
#include "cli/driver/bench.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define SHARE_ALIGN 128 /* channels' shares start at multiples, as NCCL's */

/* The flag of a step is the same at both ends and not the one its slot held before. */
static uint32_t flag_of(uint64_t step)
{
	return (uint32_t)(step % UINT32_MAX) + 1;
}

static void *slot_at(const struct sxt_drv_bench *bench, const struct sxt_drv_lane *lane,
		     uint64_t step)
{
	return lane->slots + step % bench->shape.depth * bench->shape.slot_bytes;
}

static bool can_send(const struct sxt_drv_bench *bench, const struct sxt_drv_lane *lane)
{
	return lane->filled - lane->done < bench->shape.depth;
}

static bool can_receive(const struct sxt_drv_bench *bench, struct sxt_drv_lane *lane, size_t bytes)
{
	const struct sxt_drv_proto *proto = bench->shape.proto;

	/* Nothing to see in memory: only test can tell. */
	if (proto->line_bytes == 0 || bytes == 0)
		return lane->done > lane->consumed;
	return lane->posted > lane->consumed &&
	       sxt_drv_proto_ready(proto, slot_at(bench, lane, lane->consumed), bytes,
				   flag_of(lane->consumed), &lane->checked);
}

/* The sender cut the same slices, so the size is known; only test's answer can be wrong. */
static int check_size(struct sxt_drv_bench *bench, const struct sxt_drv_edge *edge, size_t bytes)
{
	const struct sxt_drv_lane *lane = edge->lane;
	size_t told = lane->sizes[lane->consumed % bench->shape.depth];
	char where[96];

	if (bench->shape.proto->line_bytes != 0 || SXT_LIKELY(told == bytes))
		return 0;
	sxt_drv_conn_where(edge->conn, where, sizeof(where));
	return sxt_drv_run_fail(bench->run, SXT_EXIT_BROKEN,
				"test() told %zu bytes for receive step %llu %s, but the sender "
				"sent %zu",
				told, (unsigned long long)lane->consumed, where, bytes);
}

/* Where the reduction goes: straight into an outgoing slot if nobody else needs it. */
static void *reduce_target(struct sxt_drv_bench *bench, const struct sxt_drv_channel *channel,
			   const struct sxt_drv_move *move)
{
	const struct sxt_drv_lane *lane;

	if (move->store)
		return bench->output + move->out_offset;
	if (move->sends_cnt == 0 || bench->shape.proto->line_bytes != 0)
		return bench->scratch;
	lane = channel->outs[move->sends[0]].lane;
	return slot_at(bench, lane, lane->filled);
}

/* What came in on one edge, without lines. */
static const void *received(struct sxt_drv_bench *bench, const struct sxt_drv_edge *edge,
			    size_t bytes)
{
	const void *data = slot_at(bench, edge->lane, edge->lane->consumed);

	if (bench->shape.proto->line_bytes == 0)
		return data;
	sxt_drv_proto_read(bench->shape.proto, data, bench->lines, bytes);
	return bench->lines;
}

/* What the move sends or keeps, wherever it lies. */
static const void *take_in(struct sxt_drv_bench *bench, struct sxt_drv_channel *channel,
			   const struct sxt_drv_move *move)
{
	const struct sxt_drv_type *type = bench->spec.type;
	const size_t cnt = move->bytes / type->bytes;
	const void *sum = bench->input + move->in_offset;
	void *target;

	if (move->recvs_cnt == 0)
		return sum;
	if (!move->reduce)
		return received(bench, &channel->ins[move->recvs[0]], move->bytes);
	target = reduce_target(bench, channel, move);
	for (int i = 0; i < move->recvs_cnt; i++) {
		type->reduce(target, sum,
			     received(bench, &channel->ins[move->recvs[i]], move->bytes), cnt,
			     bench->spec.op);
		sum = target;
	}
	return target;
}

static void pass_on(struct sxt_drv_bench *bench, struct sxt_drv_lane *lane, const void *data,
		    size_t bytes)
{
	void *slot = slot_at(bench, lane, lane->filled);

	if (bench->shape.proto->line_bytes != 0)
		sxt_drv_proto_write(bench->shape.proto, slot, data, bytes, flag_of(lane->filled));
	else if (data != slot && bytes > 0)
		memcpy(slot, data, bytes);
	lane->sizes[lane->filled % bench->shape.depth] =
		sxt_drv_proto_wire(bench->shape.proto, bytes);
	lane->filled++;
}

static int do_move(struct sxt_drv_bench *bench, struct sxt_drv_channel *channel,
		   const struct sxt_drv_move *move)
{
	uint8_t *out = bench->output + move->out_offset;
	const void *data;

	for (int i = 0; i < move->recvs_cnt; i++) {
		if (check_size(bench, &channel->ins[move->recvs[i]], move->bytes) != 0)
			return -EIO;
	}
	data = take_in(bench, channel, move);
	if (move->store && data != out && move->bytes > 0)
		memcpy(out, data, move->bytes);
	for (int i = 0; i < move->sends_cnt; i++)
		pass_on(bench, channel->outs[move->sends[i]].lane, data, move->bytes);
	for (int i = 0; i < move->recvs_cnt; i++) {
		struct sxt_drv_lane *lane = channel->ins[move->recvs[i]].lane;

		lane->consumed++;
		lane->checked = 0;
	}
	return 1;
}

static bool can_move(const struct sxt_drv_bench *bench, const struct sxt_drv_channel *channel,
		     const struct sxt_drv_move *move)
{
	for (int i = 0; i < move->sends_cnt; i++) {
		if (!can_send(bench, channel->outs[move->sends[i]].lane))
			return false;
	}
	for (int i = 0; i < move->recvs_cnt; i++) {
		if (!can_receive(bench, channel->ins[move->recvs[i]].lane, move->bytes))
			return false;
	}
	return true;
}

/* Return: 1 moved, 0 must wait, -EIO. */
static int step_program(struct sxt_drv_bench *bench, struct sxt_drv_channel *channel, int index)
{
	struct sxt_drv_program *program = &channel->programs[index];
	int rc;

	if (program->next == program->end)
		return 0;
	if (!program->loaded)
		bench->spec.pattern->move(&channel->plan, index, program->next, &program->move);
	program->loaded = true;
	if (!can_move(bench, channel, &program->move))
		return 0;
	rc = do_move(bench, channel, &program->move);
	program->next++;
	program->loaded = false;
	return rc;
}

static void start_channel(struct sxt_drv_bench *bench, struct sxt_drv_channel *channel)
{
	const struct sxt_drv_pattern *pattern = bench->spec.pattern;
	const uint64_t receives = pattern->receives(&channel->plan);

	for (int i = 0; i < channel->ins_cnt; i++)
		channel->ins[i].lane->target += receives;
	for (int i = 0; i < channel->programs_cnt; i++)
		channel->programs[i] =
			(struct sxt_drv_program){.end = pattern->moves(&channel->plan, i)};
}

static void start_operation(struct sxt_drv_bench *bench)
{
	const struct sxt_drv_bench_spec *spec = &bench->spec;
	const size_t part = sxt_drv_pattern_part(spec->pattern, bench->bytes, bench->run->ranks);
	size_t share = (part + (size_t)spec->channels - 1) / (size_t)spec->channels;

	share = (share + SHARE_ALIGN - 1) / SHARE_ALIGN * SHARE_ALIGN;
	for (int i = 0; i < spec->channels; i++) {
		struct sxt_drv_channel *channel = &bench->channels[i];
		struct sxt_drv_plan *plan = &channel->plan;
		size_t start = share * (size_t)i;

		plan->start = start < part ? start : part;
		plan->bytes = part - plan->start < share ? part - plan->start : share;
		plan->part_bytes = part;
		plan->capacity = sxt_drv_proto_capacity(spec->proto, bench->shape.slot_bytes);
		plan->slices = spec->proto->line_bytes == 0 ? spec->pattern->simple_slices : 1;
		/* An operation of 0 bytes is still an operation, on one channel. */
		channel->active = i == 0 || plan->bytes > 0;
		if (channel->active)
			start_channel(bench, channel);
	}
}

/* Every channel's moves that can be made now. Return: their number, or -EIO. */
static int step_channels(struct sxt_drv_bench *bench, bool *finished)
{
	int moved = 0;

	*finished = true;
	for (int i = 0; i < bench->spec.channels; i++) {
		struct sxt_drv_channel *channel = &bench->channels[i];

		if (!channel->active)
			continue;
		for (int k = 0; k < channel->programs_cnt; k++) {
			int rc = step_program(bench, channel, k);

			if (rc < 0)
				return rc;
			moved += rc;
			if (channel->programs[k].next != channel->programs[k].end)
				*finished = false;
		}
	}
	return moved;
}

static int poll_conns(struct sxt_drv_bench *bench, bool *idle)
{
	int moved = 0;

	*idle = true;
	for (int i = 0; i < bench->conns.cnt; i++) {
		int rc = sxt_drv_conn_poll(&bench->conns.list[i]);

		if (rc < 0)
			return rc;
		moved += rc;
		*idle = *idle && sxt_drv_conn_idle(&bench->conns.list[i]);
	}
	return moved;
}

static SXT_COLD int fail_stuck(struct sxt_drv_bench *bench, const char *why)
{
	char text[1024] = "";
	size_t used = 0;

	for (int i = 0; i < bench->conns.cnt && used < sizeof(text) - 256; i++) {
		if (sxt_drv_conn_idle(&bench->conns.list[i]))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "; ");
		sxt_drv_conn_describe(&bench->conns.list[i], text + used, sizeof(text) - used);
		used += strlen(text + used);
	}
	return sxt_drv_run_fail(bench->run, SXT_EXIT_BROKEN, "%s at %zu bytes, iteration %d%s", why,
				bench->bytes,
				atomic_load_explicit(&bench->iteration, memory_order_relaxed),
				text);
}

/* The main thread wants the progress thread back. */
static SXT_COLD int leave(struct sxt_drv_bench *bench, int stop)
{
	return stop == SXT_DRV_STOP_TIMEOUT ? fail_stuck(bench, "--timeout is over") : -EIO;
}

/* Nothing moved: give the processor away; see whether that is so for too long. */
static int when_idle(struct sxt_drv_bench *bench, uint64_t *idle_since_ns)
{
	uint64_t now_ns = sxt_sys_host.now_ns();

	if (*idle_since_ns == 0)
		*idle_since_ns = now_ns;
	if (now_ns - *idle_since_ns > bench->run->stall_ns)
		return fail_stuck(bench, "nothing moved for the time of --stall");
	sched_yield();
	return 0;
}

/* Until the GPU's part is done with one operation; with @drain, until the proxy is as well. */
static int run_until(struct sxt_drv_bench *bench, bool drain)
{
	uint64_t idle_since_ns = 0;
	bool finished = false;
	bool idle = false;

	while (!finished || (drain && !idle)) {
		int polled = poll_conns(bench, &idle);
		int moved = polled >= 0 ? step_channels(bench, &finished) : polled;
		int stop = atomic_load_explicit(&bench->run->stop, memory_order_relaxed);

		if (moved < 0)
			return moved;
		if (SXT_UNLIKELY(stop != SXT_DRV_GO))
			return leave(bench, stop);
		/* A slot filled just now is not handed over yet. */
		idle = idle && moved == 0;
		if (moved + polled > 0)
			idle_since_ns = 0;
		else if ((!finished || (drain && !idle)) && when_idle(bench, &idle_since_ns) != 0)
			return -EIO;
	}
	return 0;
}

int sxt_drv_bench_work(void *arg)
{
	struct sxt_drv_bench *bench = arg;
	uint64_t start_ns = sxt_sys_host.now_ns();

	for (int i = 0; i < bench->iterations; i++) {
		int rc;

		atomic_store_explicit(&bench->iteration, i, memory_order_relaxed);
		start_operation(bench);
		rc = run_until(bench, i == bench->iterations - 1);
		if (rc != 0)
			return rc;
	}
	bench->elapsed_ns = sxt_sys_host.now_ns() - start_ns;
	return 0;
}
