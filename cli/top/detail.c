/*
 * detail.c - one row in words: what a line of a table has no room for.
 */
#include "cli/top/table.h"

#include "cli/top/choices.h"
#include "cli/top/format.h"

#include "core/compiler.h"
#include "core/sys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void SXT_PRINTF(2, 3) say(char *out, const char *format, ...)
{
	size_t len = strlen(out);
	va_list args;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, a line above */
	vsnprintf(out + len, SXT_TOP_LINE_BYTES - len, format, args);
	va_end(args);
}

static void say_time(char *out, const char *words, uint64_t wall_ns)
{
	char text[SXT_TOP_CELL_BYTES];

	if (wall_ns == 0)
		return;
	sxt_top_print_time(wall_ns, text);
	say(out, "%s %s", words, text);
}

static void say_wait(char *out, const char *name, const struct sxt_top_span *span)
{
	char text[SXT_TOP_CELL_BYTES];

	sxt_top_print_span(span, text);
	say(out, "; %s %s", name, text);
}

static void say_moved(char *out, const struct sxt_top_row *row)
{
	static const char *const ways[2] = {"sent", "received"};
	char bytes[SXT_TOP_CELL_BYTES];
	char messages[SXT_TOP_CELL_BYTES];

	for (int way = 0; way < 2; way++) {
		if (row->flow.messages[way] == 0)
			continue;
		sxt_top_print_count(row->flow.bytes[way], bytes);
		sxt_top_print_count(row->flow.messages[way], messages);
		say(out, "; %s %sB in %s messages", ways[way], bytes, messages);
	}
}

static void say_flow(char *out, const struct sxt_top_row *row)
{
	say_moved(out, row);
	say_wait(out, "whole life: peer", &row->flow.waits[SXT_TOP_WHOLE][SXT_TELE_WAIT_PEER]);
	say_wait(out, "wire", &row->flow.waits[SXT_TOP_WHOLE][SXT_TELE_WAIT_WIRE]);
	say_wait(out, "app", &row->flow.waits[SXT_TOP_WHOLE][SXT_TELE_WAIT_CALLER]);
}

static void say_process(char *out, const struct sxt_top_row *row)
{
	char choices[SXT_TOP_LINE_BYTES];
	const struct sxt_tele_header *header = &row->of->header;
	const char *state = sxt_top_state_word(row->of);

	say(out, "pid %" PRIu32 " %s", header->pid, header->command);
	if (header->uid != (uint32_t)geteuid())
		say(out, " of user %" PRIu32, header->uid);
	say(out, " on %s is %s", header->host, state);
	if (row->gone)
		say_time(out, strcmp(state, "dead") == 0 ? ", last sign of life" : ", since",
			 row->wall_ns);
	if (header->rank >= 0)
		say(out, "; rank %" PRId32 " of %" PRId32, header->rank, header->ranks);
	if (row->errors > 0)
		say(out, "; %" PRIu64 " connections failed", row->errors);
	if (row->warnings > 0)
		say(out, "; %" PRIu64 " warnings", row->warnings);
	if (header->job[0] != '\0')
		say(out, "; job %s", header->job);
	say_time(out, "; began", header->made_wall_ns);
	say(out, "; %" PRIu64 " connections opened", header->conns_opened);
	if (header->conns_shared > 0)
		say(out, ", %" PRIu64 " of them without a record of their own",
		    header->conns_shared);
	say(out, "; Sextant %s", header->release);
	if (header->abi != 0)
		say(out, ", NCCL's v%" PRIu32, header->abi);
	say_flow(out, row);
	sxt_top_choices_say(row->of, choices, sizeof(choices));
	if (choices[0] != '\0')
		say(out, "; tuner: %s", choices);
}

static void say_connection(char *out, const struct sxt_top_row *row)
{
	char text[SXT_TOP_CELL_BYTES];

	say(out, "pid %" PRIu64 " %s %s over %s: ", row->pid,
	    strcmp(row->speed, "out") == 0 ? "sends to" : "receives from",
	    row->with[0] != '\0' ? row->with : "?", row->name[0] != '\0' ? row->name : "?");
	if (row->shared > 0) {
		say(out, "%" PRIu64 " connections that found no record of their own", row->shared);
		say_moved(out, row);
		return;
	}
	say(out, "%s", row->status);
	if (row->text[0] != '\0')
		say(out, ": %s", row->text);
	if (row->address[0] != '\0')
		say(out, "; communicator %s", row->address);
	say(out, "; %" PRIu64 " in flight", row->in_flight);
	if (row->oldest_ns >= SXT_NS_PER_SEC) {
		sxt_top_print_ns(row->oldest_ns, text);
		say(out, ", nothing done for %s", text);
	}
	sxt_top_print_rate(row->average, text);
	say(out, "; on average %s GB/s", text);
	say_flow(out, row);
}

void sxt_top_detail(enum sxt_top_kind kind, const struct sxt_top_row *row,
		    char out[SXT_TOP_LINE_BYTES])
{
	out[0] = '\0';
	switch (kind) {
	case SXT_TOP_PROCESSES:
		say_process(out, row);
		break;
	case SXT_TOP_PORTS:
		say(out, "%s %s %s %s", row->name, row->speed, row->address, row->status);
		say_time(out, " since", row->wall_ns);
		say(out, "%s%s; %" PRIu64 " flaps; used by %" PRIu64 " live process%s",
		    row->text[0] != '\0' ? ": " : "", row->text, row->flaps, row->conns,
		    row->conns == 1 ? "" : "es");
		break;
	case SXT_TOP_LINKS:
		say(out, "pid %" PRIu64 " over %s with %s: %" PRIu64 " connections", row->pid,
		    row->name, row->with, row->conns);
		say_flow(out, row);
		break;
	case SXT_TOP_CONNECTIONS:
		say_connection(out, row);
		break;
	default:
		say(out, "%s", row->text);
		break;
	}
}
