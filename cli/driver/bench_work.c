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

#define PART_ALIGN 128 /* channels' parts start at multiples, as NCCL's */

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
static int check_size(struct sxt_drv_bench *bench, const struct sxt_drv_channel *channel,
		      size_t bytes)
{
	const struct sxt_drv_lane *lane = channel->recv;
	size_t told = lane->sizes[lane->consumed % bench->shape.depth];
	char where[64];

	if (bench->shape.proto->line_bytes != 0 || SXT_LIKELY(told == bytes))
		return 0;
	sxt_drv_conn_where(channel->recv_conn, where, sizeof(where));
	return sxt_drv_run_fail(bench->run, SXT_EXIT_BROKEN,
				"test() told %zu bytes for receive step %llu %s, but the sender "
				"sent %zu",
				told, (unsigned long long)lane->consumed, where, bytes);
}

/* Where the reduction goes: straight into the outgoing slot if nobody else needs it. */
static void *reduce_target(struct sxt_drv_bench *bench, const struct sxt_drv_channel *channel,
			   const struct sxt_drv_move *move)
{
	if (move->store)
		return bench->output + channel->offset + move->offset;
	if (move->send && bench->shape.proto->line_bytes == 0)
		return slot_at(bench, channel->send, channel->send->filled);
	return bench->scratch;
}

/* What the move sends or keeps, wherever it lies. */
static const void *take_in(struct sxt_drv_bench *bench, struct sxt_drv_channel *channel,
			   const struct sxt_drv_move *move)
{
	const struct sxt_drv_type *type = bench->spec.type;
	const uint8_t *own = bench->input + channel->offset + move->offset;
	const void *data;
	void *target;

	if (!move->recv)
		return own;
	data = slot_at(bench, channel->recv, channel->recv->consumed);
	if (bench->shape.proto->line_bytes != 0) {
		sxt_drv_proto_read(bench->shape.proto, data, bench->scratch, move->bytes);
		data = bench->scratch;
	}
	if (!move->reduce)
		return data;
	target = reduce_target(bench, channel, move);
	type->reduce(target, data, own, move->bytes / type->bytes, bench->spec.op);
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
	uint8_t *out = bench->output + channel->offset + move->offset;
	const void *data;

	if (move->recv && check_size(bench, channel, move->bytes) != 0)
		return -EIO;
	data = take_in(bench, channel, move);
	if (move->store && data != out && move->bytes > 0)
		memcpy(out, data, move->bytes);
	if (move->send)
		pass_on(bench, channel->send, data, move->bytes);
	if (move->recv) {
		channel->recv->consumed++;
		channel->recv->checked = 0;
	}
	return 1;
}

/* Return: 1 moved, 0 must wait, -EIO. */
static int step_program(struct sxt_drv_bench *bench, struct sxt_drv_channel *channel, int index)
{
	struct sxt_drv_program *program = &channel->programs[index];
	const struct sxt_drv_move *move = &program->move;
	int rc;

	if (program->next == program->end)
		return 0;
	if (!program->loaded)
		bench->spec.pattern->move(&channel->plan, index, program->next, &program->move);
	program->loaded = true;
	if (move->send && !can_send(bench, channel->send))
		return 0;
	if (move->recv && !can_receive(bench, channel->recv, move->bytes))
		return 0;
	rc = do_move(bench, channel, move);
	program->next++;
	program->loaded = false;
	return rc;
}

static void start_operation(struct sxt_drv_bench *bench)
{
	const struct sxt_drv_bench_spec *spec = &bench->spec;
	size_t part = (bench->bytes + spec->channels - 1) / spec->channels;

	part = (part + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
	for (int i = 0; i < spec->channels; i++) {
		struct sxt_drv_channel *channel = &bench->channels[i];
		size_t start = part * i < bench->bytes ? part * i : bench->bytes;
		size_t left = bench->bytes - start;

		channel->offset = start;
		channel->plan = (struct sxt_drv_plan){
			.bytes = left < part ? left : part,
			.capacity = sxt_drv_proto_capacity(spec->proto, bench->shape.slot_bytes),
			.slices = spec->proto->line_bytes == 0 ? spec->pattern->simple_slices : 1,
			.rank = bench->run->rank,
			.ranks = bench->run->ranks,
		};
		/* An operation of 0 bytes is still an operation, on one channel. */
		channel->active = i == 0 || channel->plan.bytes > 0;
		if (!channel->active)
			continue;
		channel->recv->target += spec->pattern->receives(&channel->plan);
		for (int k = 0; k < spec->pattern->programs_cnt; k++)
			channel->programs[k] = (struct sxt_drv_program){
				.end = spec->pattern->moves(&channel->plan)};
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
		for (int k = 0; k < bench->spec.pattern->programs_cnt; k++) {
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
