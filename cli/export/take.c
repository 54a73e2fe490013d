/*
 * take.c - finds segments and adds what is new in them to sums that only grow (slow path).
 */
#include "cli/export/export.h"

#include "core/sys.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files beyond are not looked at: anybody may write into /dev/shm. */
#define FILES_MAX 4096

static struct sxt_export_process *find(const struct sxt_export *e, const char *path)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &e->processes) {
		struct sxt_export_process *process =
			SXT_LIST_ENTRY(node, struct sxt_export_process, node);

		if (strcmp(process->path, path) == 0)
			return process;
	}
	return NULL;
}

static void process_destroy(struct sxt_export_process *process)
{
	if (process == NULL)
		return;
	sxt_tele_close(process->view);
	free(process->conns);
	free(process->links);
	free(process->path);
	free(process);
}

/* The same name in two folders: labels would not tell them apart. */
static bool labels_taken(const struct sxt_export *e, const char *labels)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &e->processes) {
		const struct sxt_export_process *process =
			SXT_LIST_ENTRY(node, struct sxt_export_process, node);

		if (!process->forgotten && process->totals == &process->own &&
		    strcmp(process->own.labels, labels) == 0)
			return true;
	}
	return false;
}

static void label_int(char *labels, const char *name, int64_t value)
{
	char text[24] = "";

	if (value >= 0)
		snprintf(text, sizeof(text), "%" PRId64, value);
	sxt_page_label(labels, SXT_EXPORT_LABELS_BYTES, name, text);
}

/* The last part of the file's name is unique in its folder. */
static void make_labels(struct sxt_export_process *process)
{
	const struct sxt_tele_header *header = &process->header;
	char *labels = process->own.labels;
	char name[128];

	snprintf(name, sizeof(name), "%s",
		 strrchr(process->path, '/') + 1 + strlen(SXT_TELE_NAME_PREFIX));
	labels[0] = '\0';
	sxt_page_label(labels, SXT_EXPORT_LABELS_BYTES, "process", name);
	sxt_page_label(labels, SXT_EXPORT_LABELS_BYTES, "job_id", header->job);
	label_int(labels, "rank", header->rank);
}

/* What has a moment of its own changes while a process starts: NCCL's interface, for one. */
static void make_info(struct sxt_export_process *process)
{
	const struct sxt_tele_header *header = &process->header;
	char *info = process->info;
	char peer[96];

	snprintf(info, SXT_EXPORT_LABELS_BYTES, "%s", process->own.labels);
	snprintf(peer, sizeof(peer), "%s:%" PRIu32, header->host, header->pid);
	label_int(info, "ranks", header->ranks);
	sxt_page_label(info, SXT_EXPORT_LABELS_BYTES, "host", header->host);
	label_int(info, "pid", header->pid);
	label_int(info, "uid", header->uid);
	sxt_page_label(info, SXT_EXPORT_LABELS_BYTES, "peer", peer);
	sxt_page_label(info, SXT_EXPORT_LABELS_BYTES, "command", header->command);
	sxt_page_label(info, SXT_EXPORT_LABELS_BYTES, "release", header->release);
	label_int(info, "abi", header->abi);
}

static int process_create(const char *path, struct sxt_export_process **out)
{
	struct sxt_export_process *process = calloc(1, sizeof(*process));
	int rc = -ENOMEM;

	if (process == NULL)
		return -ENOMEM;
	process->path = strdup(path);
	if (process->path == NULL)
		goto fail;
	rc = sxt_tele_open(path, &process->view);
	if (rc != 0)
		goto fail;
	process->conns_cap = sxt_tele_cap(process->view, SXT_TELE_CONNS);
	process->links_cap = sxt_tele_cap(process->view, SXT_TELE_LINKS);
	process->conns = calloc(process->conns_cap + 1, sizeof(*process->conns));
	process->links = calloc(process->links_cap + 1, sizeof(*process->links));
	if (process->conns == NULL || process->links == NULL) {
		rc = -ENOMEM;
		goto fail;
	}
	*out = process;
	return 0;
fail:
	process_destroy(process);
	return rc;
}

static enum sxt_export_segment_state state_of_error(int rc)
{
	return rc == -EPROTONOSUPPORT          ? SXT_EXPORT_OTHER_VERSION
	       : rc == -EACCES || rc == -EPERM ? SXT_EXPORT_DENIED
					       : SXT_EXPORT_DAMAGED;
}

static void add(struct sxt_export *e, const char *path)
{
	struct sxt_export_process *process;
	int rc = process_create(path, &process);

	if (rc == -EAGAIN || rc == -ENOMEM || rc == -ENOENT)
		return; /* not yet, or no more */
	if (rc != 0) {
		e->segments[state_of_error(rc)]++;
		return;
	}
	process->header = *sxt_tele_header(process->view);
	make_labels(process);
	process->totals = &e->other;
	if (e->processes_cnt < SXT_EXPORT_PROCESSES_MAX && !labels_taken(e, process->own.labels)) {
		process->totals = &process->own;
		e->processes_cnt++;
	}
	process->listed = true;
	sxt_list_append(&e->processes, &process->node);
}

static void scan_dir(struct sxt_export *e, const char *dir)
{
	struct sxt_tele_file *files;
	size_t cnt;

	if (sxt_tele_list(dir, &files, &cnt) != 0)
		return;
	for (size_t i = 0; i < cnt && i < FILES_MAX; i++) {
		struct sxt_export_process *process = find(e, files[i].path);

		if (process != NULL)
			process->listed = true;
		else
			add(e, files[i].path);
	}
	free(files);
}

static void scan(struct sxt_export *e)
{
	glob_t found;

	for (size_t i = 0; i < e->dirs_cnt; i++) {
		if (glob(e->dirs[i], 0, NULL, &found) != 0)
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++)
			scan_dir(e, found.gl_pathv[k]);
		globfree(&found);
	}
}

static uint64_t grown(uint64_t now, uint64_t *before)
{
	uint64_t more = now > *before ? now - *before : 0;

	*before += more;
	return more;
}

static void take_events(struct sxt_export_process *process)
{
	uint64_t *events = process->totals->events;
	uint64_t cap = sxt_tele_cap(process->view, SXT_TELE_EVENTS);
	uint64_t from = process->counted.events;
	struct sxt_tele_event event;

	if (process->header.events <= from)
		return;
	if (process->header.events - from > cap) {
		events[0] += process->header.events - from - cap;
		from = process->header.events - cap;
	}
	for (; from < process->header.events; from++) {
		bool known = sxt_tele_event_get(process->view, from, &event) &&
			     event.kind <= SXT_TELE_EVENT_STALL;

		events[known ? event.kind : 0]++;
	}
	process->counted.events = process->header.events;
}

static void take_header(struct sxt_export_process *process)
{
	struct sxt_export_totals *totals = process->totals;
	const struct sxt_tele_header *header = &process->header;

	process->header = *sxt_tele_header(process->view);
	make_info(process);
	totals->opened += grown(header->conns_opened, &process->counted.conns_opened);
	totals->shared += grown(header->conns_shared, &process->counted.conns_shared);
	totals->warnings += grown(header->warnings, &process->counted.warnings);
	take_events(process);
}

static void look_at_link(struct sxt_export_process *process, uint32_t i)
{
	struct sxt_export_link *last = &process->links[i];
	struct sxt_tele_link link;

	if (!sxt_tele_link_get(process->view, i, &link))
		return;
	if (strcmp(link.nic, last->now.nic) != 0 || strcmp(link.peer, last->now.peer) != 0)
		*last = (struct sxt_export_link){0};
	last->now = link;
}

/*
 * Of what a record had when it was given to another connection, the part that was told before is
 * claimed; the rest is new. The link is read before its connections and summed after them: what it
 * holds of a record is then claimed, and what is claimed it may lack for a while. So the sum may
 * be late, but never goes back.
 */
static uint64_t unclaimed(uint64_t now, uint64_t claimed, uint64_t *told)
{
	return now > claimed ? grown(now - claimed, told) : 0;
}

static void take_flow(struct sxt_export *e, struct sxt_export_process *process, uint32_t i,
		      unsigned int way)
{
	struct sxt_export_link *last = &process->links[i];
	const struct sxt_tele_flow *now = &last->now.flows[way];
	const struct sxt_tele_flow *claimed = &last->claimed[way];
	struct sxt_tele_flow *told = &last->told[way];
	struct sxt_export_group *group;

	if (last->now.shared[way] == 0 && (now->messages | now->bytes | now->not_now) == 0)
		return;
	group = sxt_export_link_group(e, process, i, way);
	if (group == NULL)
		return;
	group->messages += unclaimed(now->messages, claimed->messages, &told->messages);
	group->bytes += unclaimed(now->bytes, claimed->bytes, &told->bytes);
	group->not_now += unclaimed(now->not_now, claimed->not_now, &told->not_now);
	if (process->alive)
		group->open += last->now.shared[way];
}

static uint64_t middle_ns(uint32_t bucket)
{
	uint64_t floor = sxt_tele_latency_floor_ns(bucket);

	if (bucket + 1 == SXT_TELE_LATENCY_BUCKETS)
		return floor + floor / 8; /* as if it were as wide as the others */
	return (floor + sxt_tele_latency_floor_ns(bucket + 1)) / 2;
}

/* Buckets are 32 bits wide and may wrap; their differences do not. */
static void add_counters(struct sxt_export_group *group, const struct sxt_tele_counters *now,
			 struct sxt_tele_counters *last)
{
	uint64_t bytes;

	group->requests += grown(now->started, &last->started);
	group->done += grown(now->done, &last->done);
	group->messages += grown(now->messages, &last->messages);
	bytes = grown(now->bytes, &last->bytes);
	group->bytes += bytes;
	group->sized_bytes += bytes;
	group->not_now += grown(now->not_now, &last->not_now);
	for (uint32_t wait = 0; wait < SXT_TELE_WAITS; wait++) {
		for (uint32_t i = 0; i < SXT_TELE_LATENCY_BUCKETS; i++) {
			uint32_t more = now->latency[wait][i] - last->latency[wait][i];

			group->latency[wait][i / SXT_EXPORT_FINE_OF_COARSE] += more;
			group->latency_ns[wait] += more * middle_ns(i);
		}
	}
	for (uint32_t i = 0; i < SXT_TELE_SIZE_BUCKETS; i++)
		group->sizes[i] += now->sizes[i] - last->sizes[i];
	memcpy(last->latency, now->latency, sizeof(last->latency));
	memcpy(last->sizes, now->sizes, sizeof(last->sizes));
}

static void raise_stall(struct sxt_export_group *group, enum sxt_tele_wait wait,
			const struct sxt_tele_view *view, uint64_t since)
{
	uint64_t now = sxt_tele_now(view);
	uint64_t ns = since != 0 && now > since ? sxt_tele_ns(view, now - since) : 0;

	if (ns > group->stalled_ns[wait])
		group->stalled_ns[wait] = ns;
}

/* The oldest request's own age is not kept: time without any progress is what is known. */
static void add_present(struct sxt_export_group *group, const struct sxt_tele_view *view,
			const struct sxt_tele_conn *conn)
{
	const struct sxt_tele_counters *c = &conn->counters;

	if (conn->state == SXT_TELE_CONN_FAILED)
		group->failed++;
	if (conn->state != SXT_TELE_CONN_LIVE)
		return;
	group->open++;
	if (conn->direction == SXT_TELE_SENDS)
		raise_stall(group, SXT_TELE_WAIT_PEER, view, c->waiting);
	if (c->started <= c->done)
		return;
	group->in_flight += c->started - c->done;
	raise_stall(group,
		    conn->direction == SXT_TELE_SENDS ? SXT_TELE_WAIT_WIRE : SXT_TELE_WAIT_PEER,
		    view, c->last_start > c->last_done ? c->last_start : c->last_done);
}

static void forget_conn(struct sxt_export_process *process, struct sxt_export_conn *last)
{
	struct sxt_tele_flow *claimed = &process->links[last->link].claimed[last->way];

	claimed->messages += last->counters.messages;
	claimed->bytes += last->counters.bytes;
	claimed->not_now += last->counters.not_now;
	*last = (struct sxt_export_conn){.seen = false};
}

static void take_conn(struct sxt_export *e, struct sxt_export_process *process,
		      const struct sxt_tele_conn *conn, struct sxt_export_conn *last)
{
	struct sxt_export_group *group;

	if (conn->link >= process->links_cap ||
	    (conn->direction != SXT_TELE_SENDS && conn->direction != SXT_TELE_RECEIVES))
		return;
	group = sxt_export_link_group(e, process, conn->link, sxt_export_way(conn));
	if (group == NULL)
		return;
	if (last->seen && last->generation != conn->generation)
		forget_conn(process, last);
	last->seen = true;
	last->generation = conn->generation;
	last->link = conn->link;
	last->way = sxt_export_way(conn);
	add_counters(group, &conn->counters, &last->counters);
	if (process->alive)
		add_present(group, process->view, conn);
}

/* Where memory is short the next look finds all of it. */
static void take_conns(struct sxt_export *e, struct sxt_export_process *process)
{
	struct sxt_tele_records conns;

	if (sxt_tele_records_get(process->view, SXT_TELE_CONNS, NULL, &conns) != 0)
		return;
	for (uint32_t i = 0; i < conns.cnt; i++)
		take_conn(e, process, (const struct sxt_tele_conn *)(conns.list + i * conns.bytes),
			  &process->conns[conns.at[i]]);
	sxt_tele_records_fini(&conns);
}

static uint64_t count_comms(const struct sxt_tele_view *view)
{
	struct sxt_tele_comm comm;
	uint64_t cnt = 0;

	for (uint32_t i = 0; i < sxt_tele_used(view, SXT_TELE_COMMS); i++)
		cnt += sxt_tele_comm_get(view, i, &comm) && comm.ended == 0;
	return cnt;
}

static void take_process(struct sxt_export *e, struct sxt_export_process *process)
{
	process->alive = sxt_tele_refresh(process->view) && process->listed;
	process->comms_cnt = process->alive ? count_comms(process->view) : 0;
	take_header(process);
	for (uint32_t i = 0; i < sxt_tele_used(process->view, SXT_TELE_LINKS); i++)
		look_at_link(process, i);
	take_conns(e, process);
	for (uint32_t i = 0; i < process->links_cap; i++) {
		for (unsigned int way = 0; way < 2; way++)
			take_flow(e, process, i, way);
	}
	e->segments[process->alive ? SXT_EXPORT_LIVE : SXT_EXPORT_ENDED]++;
}

static void forget(struct sxt_export *e, struct sxt_export_process *process)
{
	process->forgotten = true;
	if (process->totals == &process->own)
		e->processes_cnt--;
	sxt_export_drop_groups(e, process);
}

/* Whether it is alive or not; the sums of one that ended stay for a while. */
static void visit(struct sxt_export *e, struct sxt_export_process *process, uint64_t now_ns)
{
	if (process->view != NULL) {
		take_process(e, process);
		if (process->alive)
			return;
		process->ended_ns = now_ns;
		sxt_tele_close(process->view);
		process->view = NULL;
		free(process->conns);
		free(process->links);
		process->conns = NULL;
		process->links = NULL;
		return;
	}
	if (process->listed)
		e->segments[SXT_EXPORT_ENDED]++;
	if (!process->forgotten &&
	    now_ns - process->ended_ns > SXT_EXPORT_LINGER_SEC * SXT_NS_PER_SEC)
		forget(e, process);
	if (!process->forgotten || process->listed)
		return;
	sxt_list_remove(&process->node);
	process_destroy(process);
}

static void clear_present(struct sxt_export *e)
{
	struct sxt_list *node;
	struct sxt_list *after;

	memset(e->segments, 0, sizeof(e->segments));
	sxt_list_for_each (node, after, &e->processes)
		SXT_LIST_ENTRY(node, struct sxt_export_process, node)->listed = false;
	sxt_list_for_each (node, after, &e->groups) {
		struct sxt_export_group *group =
			SXT_LIST_ENTRY(node, struct sxt_export_group, node);

		group->open = 0;
		group->failed = 0;
		group->in_flight = 0;
		memset(group->stalled_ns, 0, sizeof(group->stalled_ns));
	}
}

void sxt_export_take(struct sxt_export *e)
{
	uint64_t start_ns = sxt_sys_host.now_ns();
	struct sxt_list *node;
	struct sxt_list *after;

	clear_present(e);
	scan(e);
	sxt_list_for_each (node, after, &e->processes)
		visit(e, SXT_LIST_ENTRY(node, struct sxt_export_process, node), start_ns);
	e->take_ns = sxt_sys_host.now_ns() - start_ns;
}

void sxt_export_fini(struct sxt_export *e)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &e->groups)
		free(SXT_LIST_ENTRY(node, struct sxt_export_group, node));
	sxt_list_init(&e->groups);
	sxt_list_for_each (node, after, &e->processes)
		process_destroy(SXT_LIST_ENTRY(node, struct sxt_export_process, node));
	sxt_list_init(&e->processes);
}
