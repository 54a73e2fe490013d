/*
 * conns.c - the families of processes, connections and the exporter itself (slow path).
 */
#include "cli/export/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GROUP(node)   SXT_LIST_ENTRY(node, struct sxt_export_group, node)
#define PROCESS(node) SXT_LIST_ENTRY(node, struct sxt_export_process, node)

/* A number of every process that has labels of its own, then of the others together. */
static const struct {
	struct sxt_family family;
	size_t offset; /* in struct sxt_export_totals */
} totals_families[] = {
	{{SXT_METRIC_COUNTER, "sextant_process_connections_opened", NULL,
	  "Ends of connections that the process opened."},
	 offsetof(struct sxt_export_totals, opened)},
	{{SXT_METRIC_COUNTER, "sextant_process_connections_without_record", NULL,
	  "Of them, those without a record of their own: only what they move is known."},
	 offsetof(struct sxt_export_totals, shared)},
	{{SXT_METRIC_COUNTER, "sextant_process_warnings", NULL,
	  "Warnings that the process logged."},
	 offsetof(struct sxt_export_totals, warnings)},
};

static const struct {
	struct sxt_family family;
	size_t offset; /* in struct sxt_export_group */
} group_families[] = {
	{{SXT_METRIC_COUNTER, "sextant_connection_bytes", "bytes", "Bytes of messages done."},
	 offsetof(struct sxt_export_group, bytes)},
	{{SXT_METRIC_COUNTER, "sextant_connection_messages", NULL,
	  "Messages done; a grouped receive is several."},
	 offsetof(struct sxt_export_group, messages)},
	{{SXT_METRIC_COUNTER, "sextant_connection_requests", NULL,
	  "Sends and receives accepted from the caller."},
	 offsetof(struct sxt_export_group, requests)},
	{{SXT_METRIC_COUNTER, "sextant_connection_requests_done", NULL, "Of them, those done."},
	 offsetof(struct sxt_export_group, done)},
	{{SXT_METRIC_COUNTER, "sextant_connection_not_now", NULL,
	  "Answers to a caller that has to come again."},
	 offsetof(struct sxt_export_group, not_now)},
	{{SXT_METRIC_GAUGE, "sextant_connection_open", NULL, "Connections alive."},
	 offsetof(struct sxt_export_group, open)},
	{{SXT_METRIC_GAUGE, "sextant_connection_failed", NULL,
	  "Connections that failed and have not been replaced."},
	 offsetof(struct sxt_export_group, failed)},
	{{SXT_METRIC_GAUGE, "sextant_connection_in_flight", NULL,
	  "Requests accepted and not done."},
	 offsetof(struct sxt_export_group, in_flight)},
};

static const char *const wait_names[] = {"peer", "wire", "caller"};

static uint64_t number_at(const void *object, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)object + offset, sizeof(value));
	return value;
}

static bool is_told(const struct sxt_export_process *process)
{
	return !process->forgotten && process->totals == &process->own;
}

static void put_processes(struct sxt_export *e, struct sxt_page *page)
{
	static const struct sxt_family info = {SXT_METRIC_INFO, "sextant_process", NULL,
					       "Processes that use Sextant; peer is what their "
					       "peers' connections call them."};
	static const struct sxt_family alive = {SXT_METRIC_GAUGE, "sextant_process_alive", NULL,
						"1 while the process lives, 0 for a while after."};
	static const struct sxt_family comms = {
		SXT_METRIC_GAUGE, "sextant_process_communicators", NULL,
		"Communicators in use, where NCCL tells of them (v11 and up)."};
	static const struct sxt_family start = {SXT_METRIC_GAUGE,
						"sextant_process_telemetry_start_time_seconds",
						"seconds",
						"When the process made its segment, since 1970."};
	struct sxt_list *node;
	struct sxt_list *after;
	char text[24];

	sxt_page_family(page, &info);
	sxt_list_for_each (node, after, &e->processes) {
		if (is_told(PROCESS(node)))
			sxt_page_sample(page, PROCESS(node)->info, "1");
	}
	sxt_page_family(page, &alive);
	sxt_list_for_each (node, after, &e->processes) {
		if (is_told(PROCESS(node)))
			sxt_page_sample(page, PROCESS(node)->own.labels, "%d",
					PROCESS(node)->alive);
	}
	sxt_page_family(page, &comms);
	sxt_list_for_each (node, after, &e->processes) {
		if (is_told(PROCESS(node)))
			sxt_page_sample(page, PROCESS(node)->own.labels, "%" PRIu64,
					PROCESS(node)->comms_cnt);
	}
	sxt_page_family(page, &start);
	sxt_list_for_each (node, after, &e->processes) {
		if (!is_told(PROCESS(node)))
			continue;
		sxt_page_seconds(text, PROCESS(node)->header.made_wall_ns);
		sxt_page_sample(page, PROCESS(node)->own.labels, "%s", text);
	}
}

static void put_events_of(struct sxt_page *page, const struct sxt_export_totals *totals)
{
	static const char *const kinds[] = {
		[0] = "missed",
		[SXT_TELE_EVENT_LINE] = "warning",
		[SXT_TELE_EVENT_PORT] = "port",
		[SXT_TELE_EVENT_OPENED] = "opened",
		[SXT_TELE_EVENT_CLOSED] = "closed",
		[SXT_TELE_EVENT_FAILED] = "failed",
		[SXT_TELE_EVENT_STALL] = "stall",
	};
	char labels[SXT_EXPORT_LABELS_BYTES];

	for (size_t i = 0; i < SXT_ARRAY_LEN(kinds); i++) {
		snprintf(labels, sizeof(labels), "%s", totals->labels);
		sxt_page_label(labels, sizeof(labels), "kind", kinds[i]);
		sxt_page_sample(page, labels, "%" PRIu64, totals->events[i]);
	}
}

static void put_totals(struct sxt_export *e, struct sxt_page *page)
{
	static const struct sxt_family events = {
		SXT_METRIC_COUNTER, "sextant_process_events", NULL,
		"Events the process told; missed ones were overwritten before they were read."};
	struct sxt_list *node;
	struct sxt_list *after;

	for (size_t i = 0; i < SXT_ARRAY_LEN(totals_families); i++) {
		size_t offset = totals_families[i].offset;

		sxt_page_family(page, &totals_families[i].family);
		sxt_list_for_each (node, after, &e->processes) {
			if (is_told(PROCESS(node)))
				sxt_page_sample(page, PROCESS(node)->own.labels, "%" PRIu64,
						number_at(&PROCESS(node)->own, offset));
		}
		sxt_page_sample(page, e->other.labels, "%" PRIu64, number_at(&e->other, offset));
	}
	sxt_page_family(page, &events);
	sxt_list_for_each (node, after, &e->processes) {
		if (is_told(PROCESS(node)))
			put_events_of(page, &PROCESS(node)->own);
	}
	put_events_of(page, &e->other);
}

static void put_stalls(struct sxt_page *page, const struct sxt_export_group *group)
{
	char labels[SXT_EXPORT_LABELS_BYTES];
	char text[24];

	for (size_t i = 0; i < SXT_ARRAY_LEN(group->stalled_ns); i++) {
		snprintf(labels, sizeof(labels), "%s", group->labels);
		sxt_page_label(labels, sizeof(labels), "waits_for", wait_names[i]);
		sxt_page_seconds(text, group->stalled_ns[i]);
		sxt_page_sample(page, labels, "%s", text);
	}
}

static void put_waits(struct sxt_page *page, const struct sxt_export_group *group)
{
	char les[SXT_EXPORT_LATENCIES][24];
	char labels[SXT_EXPORT_LABELS_BYTES];
	char sum[24];

	for (uint32_t i = 0; i + 1 < SXT_EXPORT_LATENCIES; i++)
		sxt_page_seconds(les[i],
				 sxt_tele_latency_floor_ns((i + 1) * SXT_EXPORT_FINE_OF_COARSE));
	for (size_t i = 0; i < SXT_TELE_WAITS; i++) {
		snprintf(labels, sizeof(labels), "%s", group->labels);
		sxt_page_label(labels, sizeof(labels), "waits_for", wait_names[i]);
		sxt_page_seconds(sum, group->latency_ns[i]);
		sxt_page_histogram(page, labels, group->latency[i], (const char(*)[24])les,
				   SXT_EXPORT_LATENCIES, sum);
	}
}

static void put_sizes(struct sxt_page *page, const struct sxt_export_group *group)
{
	char les[SXT_TELE_SIZE_BUCKETS][24];
	char sum[24];

	for (uint32_t i = 0; i + 1 < SXT_TELE_SIZE_BUCKETS; i++)
		snprintf(les[i], sizeof(les[i]), "%" PRIu64 ".0", sxt_tele_size_floor(i + 1) - 1);
	snprintf(sum, sizeof(sum), "%" PRIu64, group->sized_bytes);
	sxt_page_histogram(page, group->labels, group->sizes, (const char(*)[24])les,
			   SXT_TELE_SIZE_BUCKETS, sum);
}

static void put_groups(struct sxt_export *e, struct sxt_page *page)
{
	static const struct {
		struct sxt_family family;
		void (*put)(struct sxt_page *page, const struct sxt_export_group *group);
	} families[] = {
		{{SXT_METRIC_GAUGE, "sextant_connection_stalled_seconds", "seconds",
		  "The longest time that a connection has waited without any progress."},
		 put_stalls},
		{{SXT_METRIC_HISTOGRAM, "sextant_connection_wait_seconds", "seconds",
		  "What messages waited for: the peer, the wire, or this side's caller."},
		 put_waits},
		{{SXT_METRIC_HISTOGRAM, "sextant_connection_message_size_bytes", "bytes",
		  "Sizes of sent messages and done receives."},
		 put_sizes},
	};
	struct sxt_list *node;
	struct sxt_list *after;

	for (size_t i = 0; i < SXT_ARRAY_LEN(group_families); i++) {
		sxt_page_family(page, &group_families[i].family);
		sxt_list_for_each (node, after, &e->groups)
			sxt_page_sample(page, GROUP(node)->labels, "%" PRIu64,
					number_at(GROUP(node), group_families[i].offset));
	}
	for (size_t i = 0; i < SXT_ARRAY_LEN(families); i++) {
		sxt_page_family(page, &families[i].family);
		sxt_list_for_each (node, after, &e->groups)
			families[i].put(page, GROUP(node));
	}
}

static void put_self(struct sxt_export *e, struct sxt_page *page)
{
	static const struct sxt_family families[] = {
		{SXT_METRIC_INFO, "sextant_export", NULL, "This exporter."},
		{SXT_METRIC_GAUGE, "sextant_export_segments", NULL,
		 "Segments found, by what came of them."},
		{SXT_METRIC_GAUGE, "sextant_export_peers", NULL,
		 "Combinations of process, NIC, peer and direction with series of their own."},
		{SXT_METRIC_GAUGE, "sextant_export_peers_limit", NULL,
		 "How many of them there may be."},
		{SXT_METRIC_COUNTER, "sextant_export_peers_merged", NULL,
		 "Combinations beyond the limit, told under peer or process others."},
		{SXT_METRIC_GAUGE, "sextant_export_read_seconds", "seconds",
		 "How long reading the segments took."},
	};
	static const char *const states[] = {"live", "ended", "denied", "damaged", "version"};
	char text[SXT_EXPORT_LABELS_BYTES] = "";

	sxt_page_family(page, &families[0]);
	sxt_page_label(text, sizeof(text), "version", SXT_VERSION);
	sxt_page_sample(page, text, "1");
	sxt_page_family(page, &families[1]);
	for (size_t i = 0; i < SXT_EXPORT_SEGMENT_STATES; i++) {
		text[0] = '\0';
		sxt_page_label(text, sizeof(text), "state", states[i]);
		sxt_page_sample(page, text, "%" PRIu64, e->segments[i]);
	}
	sxt_page_family(page, &families[2]);
	sxt_page_sample(page, "", "%u", e->named_cnt);
	sxt_page_family(page, &families[3]);
	sxt_page_sample(page, "", "%u", e->limit);
	sxt_page_family(page, &families[4]);
	sxt_page_sample(page, "", "%" PRIu64, e->merged);
	sxt_page_family(page, &families[5]);
	sxt_page_seconds(text, e->take_ns);
	sxt_page_sample(page, "", "%s", text);
}

void sxt_export_conns(struct sxt_export *e, struct sxt_page *page)
{
	put_self(e, page);
	put_processes(e, page);
	put_totals(e, page);
	put_groups(e, page);
}
