/*
 * tell.c - the slow half of telemetry: ports, connections, failures (slow path).
 */
#include "ib/tell.h"

#include "core/sys.h"
#include "ib/data.h"
#include "ib/measure.h"
#include "ib/process.h"
#include "ib/watcher.h"
#include "telemetry/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum sxt_tele_port_state port_state(const struct sxt_port *port)
{
	if (atomic_load_explicit(&port->device->is_dead, memory_order_relaxed) != 0)
		return SXT_TELE_PORT_DEAD;
	return port->seen.is_usable && !port->is_lost ? SXT_TELE_PORT_UP : SXT_TELE_PORT_DOWN;
}

void sxt_tell_port(struct sxt_port *port)
{
	const struct sxt_wire_path *path = &port->seen.place.path;
	const char *slash = strrchr(port->device->pci_path, '/');
	struct sxt_tele_port record = {
		.num = port->num,
		.link_layer = port->link_layer,
		.flaps = port->lost_cnt,
	};

	if (port->device->ib->tele == NULL)
		return;
	pthread_mutex_lock(&port->seen_lock);
	record.state = port_state(port);
	record.speed_mbps = port->seen.speed_mbps;
	record.mtu = path->mtu != 0 ? 128u << path->mtu : 0;
	record.lid = path->lid;
	record.gid_index = port->seen.place.gid_index;
	memcpy(record.gid, path->gid, sizeof(record.gid));
	pthread_mutex_unlock(&port->seen_lock);
	snprintf(record.hca, sizeof(record.hca), "%.31s", port->device->name);
	snprintf(record.pci, sizeof(record.pci), "%.23s", slash != NULL ? slash + 1 : "");
	sxt_tele_port_set(port->device->ib->tele, port->index, &record);
}

void sxt_tell_ports(struct sxt_ib *ib)
{
	for (int i = 0; i < ib->ports_cnt; i++)
		sxt_tell_port(ib->ports[i]);
}

static void path_record(const struct sxt_path *path, struct sxt_tele_path *out)
{
	const struct sxt_wire_path *local = &path->local.path;
	uint8_t mtu = local->mtu < path->peer.mtu ? local->mtu : path->peer.mtu;

	*out = (struct sxt_tele_path){
		.port = path->port->index,
		.qpn = local->qpn,
		.peer_qpn = path->peer.qpn,
		.mtu = 128u << mtu,
		.lid = local->lid,
		.peer_lid = path->peer.lid,
	};
	memcpy(out->gid, local->gid, sizeof(out->gid));
	memcpy(out->peer_gid, path->peer.gid, sizeof(out->peer_gid));
	snprintf(out->peer_hca, sizeof(out->peer_hca), "%.*s", (int)sizeof(path->peer.hca),
		 path->peer.hca);
}

/* "host:pid hca" without the HCA, which the paths have. */
static void peer_process(const struct sxt_conn *conn, char *out, size_t out_bytes)
{
	snprintf(out, out_bytes, "%.*s", (int)strcspn(conn->peer_name, " "), conn->peer_name);
}

static void record_open(struct sxt_conn *conn, struct sxt_measure *measure)
{
	struct sxt_tele_path paths[SXT_PATHS_MAX];
	char peer[sizeof(conn->peer_name)];
	const struct sxt_tele_conn_facts facts = {
		.direction = conn->kind == SXT_CONN_SEND ? SXT_TELE_SENDS : SXT_TELE_RECEIVES,
		.id = conn->id,
		.peer_id = conn->peer_id,
		.comm = conn->ctx->comm_id,
		.nic = sxt_conn_label(conn),
		.peer = peer,
		.paths = paths,
		.paths_cnt = conn->paths_cnt,
	};
	struct sxt_tele_counters *counters;

	peer_process(conn, peer, sizeof(peer));
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		path_record(&conn->paths[i], &paths[i]);
	sxt_tele_conn_open(measure->tele, &facts, &measure->handle);
	counters = measure->handle.counters;
	measure->done_row = counters->latency[conn->kind == SXT_CONN_SEND ? SXT_TELE_WAIT_WIRE
									  : SXT_TELE_WAIT_PEER];
	sxt_tele_set64(&counters->last_done, sxt_tele_ticks());
	/* Pairs with the acquire of who looks for stalls. */
	__atomic_store_n(&measure->counters, counters, __ATOMIC_RELEASE);
	if (measure->handle.conn == UINT32_MAX)
		sxt_watcher_wake(conn->ctx->ib->watcher); /* which adds it to its link */
}

int sxt_tell_conn_making(struct sxt_conn *conn)
{
	size_t stamps = conn->kind == SXT_CONN_SEND ? SXT_SENDS_MAX : SXT_RECEIVES_MAX;
	struct sxt_measure *measure;

	if (conn->ctx->ib->tele == NULL)
		return 0;
	measure = malloc(sizeof(*measure) + stamps * sizeof(measure->stamps[0]));
	if (measure == NULL)
		return -ENOMEM;
	*measure = (struct sxt_measure){.tele = conn->ctx->ib->tele};
	conn->measure = measure;
	return 0;
}

void sxt_tell_conn_made(struct sxt_conn *conn)
{
	if (conn->measure != NULL)
		record_open(conn, conn->measure);
}

static bool has_record(const struct sxt_conn *conn)
{
	return conn->measure != NULL && conn->measure->counters != NULL;
}

void sxt_tell_conn_failed(struct sxt_conn *conn, int error, const char *text)
{
	if (!has_record(conn))
		return;
	__atomic_store_n(&conn->measure->has_failed, true, __ATOMIC_RELAXED);
	sxt_tele_conn_fail(conn->measure->tele, &conn->measure->handle, -error, text);
}

void sxt_tell_conn_gone(struct sxt_conn *conn)
{
	if (has_record(conn))
		sxt_tele_conn_end(conn->measure->tele, &conn->measure->handle);
	free(conn->measure);
	conn->measure = NULL;
}

/* The line that this thread logs is an event already. */
static _Thread_local bool line_is_told;

void sxt_tell_line(struct sxt_tele *tele, enum sxt_log_level level, const char *text)
{
	if (level <= SXT_LOG_WARN && !line_is_told)
		sxt_tele_event(tele, SXT_TELE_EVENT_LINE, UINT32_MAX, text);
}

void sxt_tell_stall(struct sxt_tele *tele, uint32_t record, const char *text)
{
	sxt_tele_event(tele, SXT_TELE_EVENT_STALL, record, text);
	line_is_told = true;
	SXT_LOG(SXT_LOG_WARN, "%s", text);
	line_is_told = false;
}
