/*
 * ports.c - the families of ports: what /sys counts, and which processes use them (slow path).
 */
#include "cli/export/export.h"

#include "cli/doctor/doctor.h"
#include "cli/doctor/facts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USES_MAX     256  /* ports of a process that are told of */
#define ROUTES_MAX   4096 /* ports of all processes with what they lead to */
#define PER_PORT_MAX 256  /* counters beyond are left out */
#define IB_WORDS     4    /* port_xmit_data and port_rcv_data count words of 4 bytes */

enum kind {
	SYMBOL,
	LINK,
	RETRANSMIT,
	RNR,
	CONGESTION,
	WAIT,
	PAUSE,
	DISCARD,
	OTHER,
	RECEIVED_BYTES,
	SENT_BYTES,
	RECEIVED_PACKETS,
	SENT_PACKETS,
	KINDS_CNT
};

static const struct sxt_family families[] = {
	[SYMBOL] = {SXT_METRIC_COUNTER, "sextant_port_symbol_errors", NULL,
		    "What was damaged on the way: cable, optics, connectors."},
	[LINK] = {SXT_METRIC_COUNTER, "sextant_port_link_failures", NULL,
		  "Times the link went down or had to recover."},
	[RETRANSMIT] = {SXT_METRIC_COUNTER, "sextant_port_retransmissions", NULL,
			"Packets lost or late, and what was sent again for them."},
	[RNR] = {SXT_METRIC_COUNTER, "sextant_port_receiver_not_ready", NULL,
		 "Messages that found no buffer at their receiver."},
	[CONGESTION] = {SXT_METRIC_COUNTER, "sextant_port_congestion_marks", NULL,
			"Congestion marks and notifications."},
	[WAIT] = {SXT_METRIC_COUNTER, "sextant_port_transmit_wait_ticks", NULL,
		  "Ticks of the port in which data had to wait for credits."},
	[PAUSE] = {SXT_METRIC_COUNTER, "sextant_port_pause_frames", NULL,
		   "PAUSE frames, of a priority or of the whole link."},
	[DISCARD] = {SXT_METRIC_COUNTER, "sextant_port_discards", NULL, "Packets discarded."},
	[OTHER] = {SXT_METRIC_COUNTER, "sextant_port_other", NULL,
		   "Counters of the driver whose meaning is not known here."},
	[RECEIVED_BYTES] = {SXT_METRIC_COUNTER, "sextant_port_received_bytes", "bytes",
			    "Bytes that the port received, of whatever program."},
	[SENT_BYTES] = {SXT_METRIC_COUNTER, "sextant_port_transmitted_bytes", "bytes",
			"Bytes that the port sent, of whatever program."},
	[RECEIVED_PACKETS] = {SXT_METRIC_COUNTER, "sextant_port_received_packets", NULL,
			      "Packets that the port received."},
	[SENT_PACKETS] = {SXT_METRIC_COUNTER, "sextant_port_transmitted_packets", NULL,
			  "Packets that the port sent."},
};

static const struct {
	const char *name;
	enum kind kind;
} known[] = {
#define SXT_COUNTER(name, meaning) {name, meaning},
#include "core/counters.def"
#undef SXT_COUNTER
	{"port_rcv_data", RECEIVED_BYTES},      {"port_xmit_data", SENT_BYTES},
	{"port_rcv_packets", RECEIVED_PACKETS}, {"port_xmit_packets", SENT_PACKETS},
	{"port_xmit_discards", DISCARD},        {"port_rcv_switch_relay_errors", DISCARD},
};

/* No counters, or the same ones in other words. */
static const char *const left_out[] = {"lifespan", "multicast_rcv_packets",
				       "multicast_xmit_packets", "unicast_rcv_packets",
				       "unicast_xmit_packets"};

struct row {
	size_t port;
	enum kind kind;
	char name[64];
	uint64_t value;
};

struct rows {
	struct row *list;
	size_t cnt;
	size_t room;
};

/* Names come from /sys, or from whatever stands for it. */
static bool is_plain(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)name[i]) && strchr("_-.", name[i]) == NULL)
			return false;
	}
	return len > 0 && len < sizeof(((struct row *)NULL)->name);
}

static enum kind kind_of(const char *name)
{
	for (size_t i = 0; i < SXT_ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, name) == 0)
			return known[i].kind;
	}
	for (size_t i = 0; i < SXT_ARRAY_LEN(left_out); i++) {
		if (strcmp(left_out[i], name) == 0)
			return KINDS_CNT;
	}
	return OTHER;
}

/* The driver's folder may have again what the standard one has. */
static bool has_row(const struct rows *rows, size_t port, const char *name)
{
	for (size_t i = rows->cnt; i > 0 && rows->list[i - 1].port == port; i--) {
		if (strcmp(rows->list[i - 1].name, name) == 0)
			return true;
	}
	return false;
}

static void add_row(struct rows *rows, size_t port, enum kind kind, const char *name,
		    uint64_t value)
{
	size_t room = rows->room > 0 ? rows->room * 2 : PER_PORT_MAX;
	struct row *list = rows->list;

	if (kind == KINDS_CNT || !is_plain(name) || has_row(rows, port, name))
		return;
	if (rows->cnt == rows->room) {
		list = realloc(list, room * sizeof(*list));
		if (list == NULL)
			return;
		rows->list = list;
		rows->room = room;
	}
	list[rows->cnt] = (struct row){.port = port, .kind = kind, .value = value};
	snprintf(list[rows->cnt].name, sizeof(list->name), "%s", name);
	rows->cnt++;
}

static void read_folder(const struct sxt_doctor *d, size_t port, const char *folder,
			struct rows *rows)
{
	struct sxt_names names = {0};
	char path[PATH_MAX];
	uint64_t value;

	snprintf(path, sizeof(path), "%s/%s", d->ports[port].folder, folder);
	if (sxt_sysfs_list(d->root, path, &names) != 0)
		return;
	for (size_t i = 0; i < names.cnt && i < PER_PORT_MAX; i++) {
		enum kind kind = kind_of(names.list[i]);

		if (sxt_doctor_read_u64(d, &value, "%s/%s", path, names.list[i]) != 0)
			continue;
		if (kind == RECEIVED_BYTES || kind == SENT_BYTES)
			value *= IB_WORDS;
		add_row(rows, port, kind, names.list[i], value);
	}
	sxt_names_fini(&names);
}

static void read_stats(const struct sxt_doctor *d, size_t port, struct rows *rows)
{
	struct sxt_doctor_stats stats;

	if (!d->ports[port].ethernet || d->ports[port].netdev[0] == '\0')
		return;
	sxt_doctor_stats_read(d, d->ports[port].netdev, &stats);
	for (size_t i = 0; i < stats.cnt; i++) {
		const char *name = stats.list[i].name;

		if (sxt_doctor_counts_pauses(name))
			add_row(rows, port, PAUSE, name, stats.list[i].value);
		else if (strstr(name, "discard") != NULL)
			add_row(rows, port, DISCARD, name, stats.list[i].value);
	}
}

static void port_labels(char labels[SXT_EXPORT_LABELS_BYTES], const char *hca, unsigned int port)
{
	char num[16];

	labels[0] = '\0';
	snprintf(num, sizeof(num), "%u", port);
	sxt_page_label(labels, SXT_EXPORT_LABELS_BYTES, "hca", hca);
	sxt_page_label(labels, SXT_EXPORT_LABELS_BYTES, "port", num);
}

static void put_rows(const struct sxt_doctor *d, const struct rows *rows, struct sxt_page *page)
{
	char labels[SXT_EXPORT_LABELS_BYTES];

	for (size_t kind = 0; kind < KINDS_CNT; kind++) {
		sxt_page_family(page, &families[kind]);
		for (size_t i = 0; i < rows->cnt; i++) {
			const struct row *row = &rows->list[i];

			if (row->kind != kind)
				continue;
			port_labels(labels, d->ports[row->port].hca->name, d->ports[row->port].num);
			if (kind <= OTHER)
				sxt_page_label(labels, sizeof(labels), "counter", row->name);
			sxt_page_sample(page, labels, "%" PRIu64, row->value);
		}
	}
}

static void put_ports(const struct sxt_doctor *d, struct sxt_page *page)
{
	static const struct sxt_family info = {SXT_METRIC_INFO, "sextant_port", NULL,
					       "RDMA ports of this host."};
	static const struct sxt_family up = {SXT_METRIC_GAUGE, "sextant_port_up", NULL,
					     "1 while the port is ACTIVE."};
	static const struct sxt_family speed = {SXT_METRIC_GAUGE,
						"sextant_port_speed_bytes_per_second", NULL,
						"Its speed, each way."};
	char labels[SXT_EXPORT_LABELS_BYTES];

	sxt_page_family(page, &info);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		const struct sxt_doctor_port *port = &d->ports[i];

		port_labels(labels, port->hca->name, port->num);
		sxt_page_label(labels, sizeof(labels), "link_layer",
			       port->ethernet ? "ethernet" : "infiniband");
		sxt_page_label(labels, sizeof(labels), "driver",
			       is_plain(port->hca->driver) ? port->hca->driver : "");
		sxt_page_label(labels, sizeof(labels), "netdev",
			       is_plain(port->netdev) ? port->netdev : "");
		sxt_page_sample(page, labels, "1");
	}
	sxt_page_family(page, &up);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		port_labels(labels, d->ports[i].hca->name, d->ports[i].num);
		sxt_page_sample(page, labels, "%d", d->ports[i].state == 4);
	}
	sxt_page_family(page, &speed);
	for (size_t i = 0; i < d->ports_cnt; i++) {
		port_labels(labels, d->ports[i].hca->name, d->ports[i].num);
		sxt_page_sample(page, labels, "%" PRIu64, d->ports[i].rate_mbps * 125000);
	}
}

static void put_hardware(const char *root, struct sxt_page *page)
{
	struct sxt_doctor d = {.root = root};
	struct rows rows = {.list = NULL};
	size_t kept = 0;

	if (strcmp(root, "/") != 0)
		d.facts = sxt_doctor_slurp(&d, SXT_FACTS_FILE, NULL);
	sxt_doctor_load_ports(&d);
	for (size_t i = 0; i < d.ports_cnt; i++) {
		if (is_plain(d.ports[i].hca->name))
			d.ports[kept++] = d.ports[i];
	}
	d.ports_cnt = kept;
	for (size_t i = 0; i < d.ports_cnt; i++) {
		read_folder(&d, i, "counters", &rows);
		read_folder(&d, i, "hw_counters", &rows);
		read_stats(&d, i, &rows);
	}
	put_ports(&d, page);
	put_rows(&d, &rows, page);
	free(rows.list);
	sxt_doctor_fini(&d);
}

/* More labels behind others, whole or not at all. */
static void labels_join(char labels[SXT_EXPORT_LABELS_BYTES], const char *more)
{
	size_t len = strlen(labels);
	size_t more_len = strlen(more);

	if (len + 1 + more_len >= SXT_EXPORT_LABELS_BYTES)
		return;
	labels[len] = ',';
	memcpy(labels + len + 1, more, more_len + 1);
}

/* Labels of a port, then of a process. */
static void use_labels(char labels[SXT_EXPORT_LABELS_BYTES], const struct sxt_tele_port *port,
		       const struct sxt_export_process *process)
{
	port_labels(labels, port->hca, port->num);
	labels_join(labels, process->own.labels);
}

static void put_use(struct sxt_page *page, const struct sxt_export_process *process,
		    const struct sxt_tele_port *port)
{
	static const char *const states[] = {"unused", "down", "up", "left_out", "dead"};
	char labels[SXT_EXPORT_LABELS_BYTES];
	char text[INET6_ADDRSTRLEN] = "";

	use_labels(labels, port, process);
	sxt_page_label(labels, sizeof(labels), "state",
		       port->state < SXT_ARRAY_LEN(states) ? states[port->state] : "");
	sxt_ignore((long)inet_ntop(AF_INET6, port->gid, text, sizeof(text)));
	sxt_page_label(labels, sizeof(labels), "gid", text);
	snprintf(text, sizeof(text), "%" PRIu32, port->gid_index);
	sxt_page_label(labels, sizeof(labels), "gid_index", text);
	sxt_page_sample(page, labels, "1");
}

static void put_flaps(struct sxt_page *page, const struct sxt_export_process *process,
		      const struct sxt_tele_port *port)
{
	char labels[SXT_EXPORT_LABELS_BYTES];

	use_labels(labels, port, process);
	sxt_page_sample(page, labels, "%" PRIu64, port->flaps);
}

/* Two records of a damaged segment may name one port. */
static bool is_again(const struct sxt_tele_port *ports, size_t cnt,
		     const struct sxt_tele_port *port)
{
	for (size_t i = 0; i < cnt; i++) {
		if (ports[i].num == port->num && strcmp(ports[i].hca, port->hca) == 0)
			return true;
	}
	return false;
}

static void put_uses_of(struct sxt_page *page, const struct sxt_export_process *process,
			void (*put)(struct sxt_page *page, const struct sxt_export_process *process,
				    const struct sxt_tele_port *port))
{
	uint32_t used = sxt_tele_used(process->view, SXT_TELE_PORTS);
	struct sxt_tele_port *ports = calloc(USES_MAX, sizeof(*ports));
	size_t cnt = 0;

	if (ports == NULL) {
		page->out_of_memory = true;
		return;
	}
	for (uint32_t i = 0; i < used && cnt < USES_MAX; i++) {
		if (!sxt_tele_port_get(process->view, i, &ports[cnt]) ||
		    is_again(ports, cnt, &ports[cnt]))
			continue;
		put(page, process, &ports[cnt]);
		cnt++;
	}
	free(ports);
}

/* Processes that live and have labels of their own. */
static const struct sxt_export_process *shown(struct sxt_list *node)
{
	const struct sxt_export_process *process =
		SXT_LIST_ENTRY(node, struct sxt_export_process, node);

	return process->view != NULL && process->totals == &process->own ? process : NULL;
}

static void each_use(struct sxt_export *e, struct sxt_page *page,
		     void (*put)(struct sxt_page *page, const struct sxt_export_process *process,
				 const struct sxt_tele_port *port))
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &e->processes) {
		if (shown(node) != NULL)
			put_uses_of(page, shown(node), put);
	}
}

/* A port, what it leads to, and the HCA there. */
struct route {
	uint32_t port;
	const struct sxt_export_group *group;
	char peer_hca[sizeof(((struct sxt_tele_path *)NULL)->peer_hca)];
};

static int compare_routes(const void *a, const void *b)
{
	const struct route *x = a;
	const struct route *y = b;

	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return strcmp(x->peer_hca, y->peer_hca);
}

static bool route_of(const struct sxt_export_process *process, const struct sxt_tele_path *path,
		     const struct sxt_tele_conn *conn, struct route *out)
{
	const struct sxt_export_link *link;

	if (conn->state != SXT_TELE_CONN_LIVE || conn->link >= process->links_cap)
		return false;
	link = &process->links[conn->link];
	out->port = path->port;
	out->group = link->groups[sxt_export_way(conn)];
	snprintf(out->peer_hca, sizeof(out->peer_hca), "%s", path->peer_hca);
	return out->group != NULL;
}

static int find_routes(const struct sxt_export_process *process, struct route **out,
		       size_t *cnt_out)
{
	struct sxt_tele_records conns = {0};
	struct sxt_tele_records paths = {0};
	struct route *routes = NULL;
	size_t cnt = 0;
	int rc = sxt_tele_records_get(process->view, SXT_TELE_CONNS, NULL, &conns);

	if (rc == 0)
		rc = sxt_tele_records_get(process->view, SXT_TELE_PATHS, &conns, &paths);
	if (rc == 0) {
		routes = calloc((size_t)paths.cnt + 1, sizeof(*routes));
		rc = routes != NULL ? 0 : -ENOMEM;
	}
	for (uint32_t i = 0; rc == 0 && i < paths.cnt; i++) {
		const struct sxt_tele_path *path = (const void *)(paths.list + i * paths.bytes);

		cnt += route_of(process, path, sxt_tele_record(&conns, path->conn), &routes[cnt]);
	}
	sxt_tele_records_fini(&paths);
	sxt_tele_records_fini(&conns);
	if (rc != 0)
		return rc;
	if (cnt > 0)
		qsort(routes, cnt, sizeof(*routes), compare_routes);
	*out = routes;
	*cnt_out = cnt;
	return 0;
}

static void put_route(struct sxt_page *page, const struct sxt_export_process *process,
		      const struct route *route)
{
	char labels[SXT_EXPORT_LABELS_BYTES];
	struct sxt_tele_port port;

	if (!sxt_tele_port_get(process->view, route->port, &port))
		return;
	port_labels(labels, port.hca, port.num);
	labels_join(labels, route->group->labels);
	sxt_page_label(labels, sizeof(labels), "peer_hca", route->peer_hca);
	sxt_page_sample(page, labels, "1");
}

/* Return: how many there were to tell. */
static size_t put_routes_of(struct sxt_page *page, const struct sxt_export_process *process,
			    size_t room)
{
	struct route *routes = NULL;
	size_t told = 0;
	size_t cnt = 0;

	if (find_routes(process, &routes, &cnt) != 0) {
		page->out_of_memory = true;
		return 0;
	}
	for (size_t i = 0; i < cnt && told < room; i++) {
		if (i > 0 && compare_routes(&routes[i - 1], &routes[i]) == 0)
			continue;
		put_route(page, process, &routes[i]);
		told++;
	}
	free(routes);
	return told;
}

static void put_uses(struct sxt_export *e, struct sxt_page *page)
{
	static const struct sxt_family use = {SXT_METRIC_INFO, "sextant_port_process", NULL,
					      "Which process uses a port, or left it out."};
	static const struct sxt_family flaps = {
		SXT_METRIC_COUNTER, "sextant_port_process_flaps", NULL,
		"Times the port went down since the process began."};
	static const struct sxt_family peers = {SXT_METRIC_INFO, "sextant_port_peer", NULL,
						"Which peers a process reaches over a port."};
	size_t room = ROUTES_MAX;
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_page_family(page, &use);
	each_use(e, page, put_use);
	sxt_page_family(page, &flaps);
	each_use(e, page, put_flaps);
	sxt_page_family(page, &peers);
	sxt_list_for_each (node, after, &e->processes) {
		if (shown(node) != NULL)
			room -= put_routes_of(page, shown(node), room);
	}
}

void sxt_export_ports(struct sxt_export *e, struct sxt_page *page)
{
	put_hardware(e->root, page);
	put_uses(e, page);
}
