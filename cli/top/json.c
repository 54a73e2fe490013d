/*
 * json.c - `sextant top --json`: all rows as one document.
 */
#include "cli/top/top.h"

#include "cli/cli.h"
#include "cli/top/choices.h"

#include "core/status.h"

#include <math.h>

static json_t *rate_json(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *count_json(uint64_t value)
{
	return value == SXT_TOP_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

static json_t *seconds_json(uint64_t ns)
{
	return ns == 0 ? json_null() : json_real((double)ns / 1e9);
}

static json_t *span_json(const struct sxt_top_span *span)
{
	if (span->p50_ns == SXT_TOP_UNKNOWN)
		return json_null();
	return json_pack("{s:f, s:f}", "p50_us", (double)span->p50_ns / 1e3, "p99_us",
			 (double)span->p99_ns / 1e3);
}

static json_t *waits_json(const struct sxt_top_row *row, enum sxt_top_window window)
{
	const struct sxt_top_span *waits = row->flow.waits[window];

	return json_pack("{s:o, s:o, s:o}", "peer", span_json(&waits[SXT_TELE_WAIT_PEER]), "wire",
			 span_json(&waits[SXT_TELE_WAIT_WIRE]), "caller",
			 span_json(&waits[SXT_TELE_WAIT_CALLER]));
}

static json_t *way_json(const struct sxt_top_row *row, int way)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "now_gb_per_s", rate_json(row->flow.now[way]),
			 "average_gb_per_s", rate_json(row->flow.avg[way]), "bytes",
			 count_json(row->flow.bytes[way]), "messages",
			 count_json(row->flow.messages[way]));
}

/* What rows of processes, links and connections share. */
static void set_flow(json_t *object, const struct sxt_top_row *row)
{
	json_object_set_new(object, "waits_now", waits_json(row, SXT_TOP_RECENT));
	json_object_set_new(object, "waits_whole", waits_json(row, SXT_TOP_WHOLE));
	json_object_set_new(object, "oldest_s", seconds_json(row->oldest_ns));
}

static json_t *comm_json(uint64_t id)
{
	char name[32];

	sxt_top_comm_name(id, name, sizeof(name));
	return name[0] != '\0' ? json_string(name) : json_null();
}

static json_t *comms_json(const struct sxt_top_sample *sample)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < sample->of[SXT_TELE_COMMS].cnt; i++) {
		const struct sxt_tele_comm *comm = sxt_top_nth(sample, SXT_TELE_COMMS, i);

		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o}", "id", comm_json(comm->id), "began_s",
					seconds_json(sxt_tele_wall_ns(sample->view, comm->made)),
					"ended_s",
					seconds_json(sxt_tele_wall_ns(sample->view, comm->ended))));
	}
	return list;
}

static json_t *process_json(const struct sxt_top_row *row)
{
	const struct sxt_tele_header *header = &row->of->header;
	json_t *object =
		json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:i, s:s, s:i, s:o, s:o}",
			  "segment", row->of->file, "pid", (json_int_t)header->pid, "uid",
			  (json_int_t)header->uid, "state", sxt_top_state_word(row->of), "host",
			  header->host, "command", header->command, "job", header->job, "rank",
			  count_json(row->rank), "ranks", (int)header->ranks, "release",
			  header->release, "abi", (int)header->abi, "began_s",
			  seconds_json(header->made_wall_ns), "last_sign_s",
			  seconds_json(row->wall_ns));

	json_object_set_new(object, "connections", count_json(row->conns));
	json_object_set_new(object, "connections_opened", count_json(header->conns_opened));
	json_object_set_new(object, "connections_shared", count_json(header->conns_shared));
	json_object_set_new(object, "connections_failed", count_json(row->errors));
	json_object_set_new(object, "warnings", count_json(row->warnings));
	json_object_set_new(object, "communicators", comms_json(row->of));
	json_object_set_new(object, "out", way_json(row, 0));
	json_object_set_new(object, "in", way_json(row, 1));
	set_flow(object, row);
	json_object_set_new(object, "choices", sxt_top_choices_json(row->of));
	return object;
}

static json_t *port_json(const struct sxt_top_row *row)
{
	static const char *const words[] = {"unused", "down", "up", "left_out", "dead"};

	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "port",
			 row->name, "state", words[row->state], "speed", row->speed, "address",
			 row->address, "users", count_json(row->conns), "flaps",
			 count_json(row->flaps), "reason", row->text, "changed_s",
			 seconds_json(row->wall_ns), "out",
			 json_pack("{s:o, s:o, s:o}", "now_gb_per_s", rate_json(row->flow.now[0]),
				   "bytes", count_json(row->flow.bytes[0]), "hardware_gb_per_s",
				   rate_json(row->hardware[0])),
			 "in",
			 json_pack("{s:o, s:o, s:o}", "now_gb_per_s", rate_json(row->flow.now[1]),
				   "bytes", count_json(row->flow.bytes[1]), "hardware_gb_per_s",
				   rate_json(row->hardware[1])),
			 "is_gone", json_boolean(row->gone));
}

static json_t *shared_json(const struct sxt_top_row *row, int way)
{
	const struct sxt_tele_link *link =
		sxt_top_record(row->of, SXT_TELE_LINKS, (uint32_t)row->at);
	const struct sxt_tele_flow *flow = &link->flows[way];

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "connections", count_json(link->shared[way]),
			 "now_gb_per_s", rate_json(row->shared_now[way]), "bytes",
			 count_json(flow->bytes), "messages", count_json(flow->messages), "not_now",
			 count_json(flow->not_now));
}

static json_t *link_json(const struct sxt_top_row *row)
{
	json_t *object = json_pack("{s:s, s:I, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "segment",
				   row->of->file, "pid", (json_int_t)row->pid, "rank",
				   count_json(row->rank), "nic", row->name, "peer", row->with,
				   "connections", count_json(row->conns), "out", way_json(row, 0),
				   "in", way_json(row, 1), "without_record_out",
				   shared_json(row, 0), "without_record_in", shared_json(row, 1));

	set_flow(object, row);
	return object;
}

static json_t *connection_json(const struct sxt_top_row *row)
{
	const struct sxt_tele_conn *conn =
		sxt_top_record(row->of, SXT_TELE_CONNS, (uint32_t)row->at);
	static const char *const states[] = {"free", "live", "closed", "failed"};
	int way = conn->direction == SXT_TELE_RECEIVES ? 1 : 0;
	json_t *object =
		json_pack("{s:s, s:I, s:o, s:I, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}",
			  "segment", row->of->file, "pid", (json_int_t)row->pid, "rank",
			  count_json(row->rank), "id", (json_int_t)conn->id, "direction",
			  way == 0 ? "send" : "receive", "state",
			  states[conn->state < SXT_ARRAY_LEN(states) ? conn->state : 0], "nic",
			  row->name, "peer", row->with, "tag", count_json(row->tag), "in_flight",
			  count_json(row->in_flight), "not_now", count_json(conn->counters.not_now),
			  "traffic", way_json(row, way), "error",
			  conn->text[0] != '\0' ? json_string(conn->text) : json_null());

	json_object_set_new(object, "communicator", comm_json(conn->comm));
	set_flow(object, row);
	return object;
}

static json_t *event_json(const struct sxt_top_row *row)
{
	return json_pack("{s:s, s:I, s:o, s:o, s:s, s:s}", "segment", row->of->file, "pid",
			 (json_int_t)row->pid, "rank", count_json(row->rank), "time_s",
			 seconds_json(row->wall_ns), "kind", row->name, "text", row->text);
}

static json_t *list_json(const struct sxt_top_rows *rows, enum sxt_top_kind kind)
{
	static json_t *(*const makers[SXT_TOP_KINDS])(
		const struct sxt_top_row *row) = {process_json, port_json, link_json,
						  connection_json, event_json};
	json_t *list = json_array();

	for (size_t i = 0; i < rows->cnt[kind]; i++) {
		if (rows->list[kind][i].shared == 0) /* its link tells of the others */
			json_array_append_new(list, makers[kind](&rows->list[kind][i]));
	}
	return list;
}

static json_t *troubles_json(const struct sxt_top_troubles *troubles)
{
	json_t *list = json_array();

	for (size_t i = 0; i < troubles->cnt; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:s}", "segment", troubles->list[i].file,
						"error", sxt_errname(troubles->list[i].rc)));
	return list;
}

int sxt_top_print_json(const struct sxt_top_scene *scene)
{
	const struct sxt_top_troubles *troubles = sxt_top_source_troubles(scene->source);
	json_t *root;

	root = json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", "sextant.top/1", "version",
			 SXT_VERSION, "host", scene->host, "time_s",
			 seconds_json(scene->after.wall_ns), "interval_s",
			 seconds_json(scene->before.samples != NULL &&
						      scene->after.ns > scene->before.ns
					      ? scene->after.ns - scene->before.ns
					      : 0));
	for (int kind = 0; kind < SXT_TOP_KINDS; kind++)
		json_object_set_new(root, sxt_top_kind_names[kind],
				    list_json(&scene->rows, (enum sxt_top_kind)kind));
	json_object_set_new(root, "unreadable", troubles_json(troubles));
	json_object_set_new(root, "foreign_segments", count_json(troubles->foreign_cnt));
	return sxt_cli_print_json(root);
}
