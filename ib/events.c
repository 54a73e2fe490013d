/*
 * events.c - acting on the HCAs' asynchronous events (watcher thread, slow path).
 *
 * An event is told by what it is about, a queue pair, a completion queue, a port or the HCA, and
 * never by who happened to read it: all ports of an HCA share one descriptor.
 */
#include "ib/events.h"

#include "core/log.h"
#include "core/sys.h"
#include "ib/conn.h"
#include "ib/process.h"
#include "ib/side.h"
#include "ib/tell.h"

#include <errno.h>

/* At one go; epoll says so again while there are more. */
#define DRAIN_MAX 64

/* Newer than the headers this is built with: the speed of an HCA's ports changed. */
#define EVENT_DEVICE_SPEED_CHANGE 20

/* What an event is about, apart from one queue pair. */
struct event_scope {
	const struct sxt_device *device;
	const struct ibv_cq *cq; /* NULL: all of the device */
};

/* Does a fatal event end the connections it is about? */
static bool is_returned(const struct sxt_device *device)
{
	return device->ib->config->ib_return_async_events != 0;
}

/* The end of a line that tells of such an event. */
static const char *if_only_logged(const struct sxt_device *device)
{
	return is_returned(device) ? "" : "; its connections go on (NCCL_IB_RETURN_ASYNC_EVENTS=0)";
}

static bool is_touched(const struct sxt_conn *conn, const struct event_scope *scope)
{
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		const struct sxt_path *path = &conn->paths[i];

		if (path->port->device == scope->device &&
		    (scope->cq == NULL || path->cq->cq == scope->cq))
			return true;
	}
	return false;
}

static void fail_conns(struct sxt_watcher *watcher, const struct event_scope *scope, int error)
{
	struct sxt_list *side_node;
	struct sxt_list *side_after;
	struct sxt_list *node;
	struct sxt_list *after;

	if (!is_returned(scope->device))
		return;
	sxt_list_for_each (side_node, side_after, &watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(side_node, struct sxt_side, node);

		sxt_list_for_each (node, after, &side->conns) {
			struct sxt_conn *conn = SXT_LIST_ENTRY(node, struct sxt_conn, side_node);

			if (is_touched(conn, scope))
				sxt_side_note_failed(conn, error);
		}
	}
}

/* The queue pair lives until its event is acknowledged, and its connection longer than it. */
static void on_qp_event(const struct sxt_device *device, const struct ibv_async_event *event)
{
	struct sxt_conn *conn = event->element.qp->qp_context;

	SXT_LOG(SXT_LOG_ERROR, "qp 0x%x on %s: %s%s", event->element.qp->qp_num, device->name,
		device->verbs->event_type_str(event->event_type), if_only_logged(device));
	if (conn != NULL && is_returned(device))
		sxt_side_note_failed(conn, -EREMOTEIO);
}

static struct sxt_port *find_port(const struct sxt_device *device, int num)
{
	for (int i = 0; i < device->ib->ports_cnt; i++) {
		if (device->ib->ports[i]->device == device && device->ib->ports[i]->num == num)
			return device->ib->ports[i];
	}
	return NULL;
}

static void reread(struct sxt_port *port)
{
	sxt_port_reread(port);
	sxt_tell_port(port);
}

static void on_port_lost(const struct sxt_device *device, struct sxt_port *port)
{
	atomic_store_explicit(&port->lost_ns, device->ib->sys->now_ns(), memory_order_relaxed);
	port->lost_cnt++;
	port->is_lost = true;
	sxt_tell_port(port);
	SXT_LOG(SXT_LOG_WARN,
		"port %s:%u: %s; its connections wait for it as long as their retries last "
		"(NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT)",
		device->name, port->num, device->verbs->event_type_str(IBV_EVENT_PORT_ERR));
}

/* Whatever else it was: look what it is now. */
static void on_port_event(struct sxt_device *device, const struct ibv_async_event *event)
{
	struct sxt_port *port = find_port(device, event->element.port_num);

	if (port == NULL) {
		sxt_port_look_late(device, (unsigned int)event->element.port_num);
		return;
	}
	if (event->event_type == IBV_EVENT_PORT_ERR) {
		on_port_lost(device, port);
		return;
	}
	SXT_LOG(SXT_LOG_INFO, "port %s:%d: %s", device->name, event->element.port_num,
		device->verbs->event_type_str(event->event_type));
	port->is_lost = false;
	reread(port);
}

static void on_speed_change(const struct sxt_device *device)
{
	for (int i = 0; i < device->ib->ports_cnt; i++) {
		if (device->ib->ports[i]->device == device)
			reread(device->ib->ports[i]);
	}
}

static void on_device_fatal(struct sxt_watcher *watcher, struct sxt_device *device)
{
	const struct event_scope scope = {.device = device};

	SXT_LOG(SXT_LOG_ERROR, "HCA %s failed (device fatal event); see the kernel's log%s",
		device->name, if_only_logged(device));
	if (is_returned(device))
		atomic_store_explicit(&device->is_dead, 1, memory_order_relaxed);
	sxt_tell_ports(watcher->ib);
	fail_conns(watcher, &scope, -ENODEV);
}

static void on_cq_error(struct sxt_watcher *watcher, const struct sxt_device *device,
			const struct ibv_async_event *event)
{
	const struct event_scope scope = {.device = device, .cq = event->element.cq};

	SXT_LOG(SXT_LOG_ERROR, "a completion queue of %s overran or failed%s", device->name,
		if_only_logged(device));
	fail_conns(watcher, &scope, -EIO);
}

/* A kind that this was not written for is told once per HCA. */
static void on_unknown(struct sxt_device *device, int type)
{
	uint32_t bit = 1u << (type >= 0 && type < 31 ? type : 31);

	if ((device->unknown_events & bit) != 0)
		return;
	device->unknown_events |= bit;
	SXT_LOG(SXT_LOG_INFO, "HCA %s: async event %d (%s) means nothing to Sextant", device->name,
		type, device->verbs->event_type_str((enum ibv_event_type)type));
}

static void on_async_event(struct sxt_watcher *watcher, struct sxt_device *device,
			   const struct ibv_async_event *event)
{
	switch ((int)event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		on_qp_event(device, event);
		break;
	case IBV_EVENT_CQ_ERR:
		on_cq_error(watcher, device, event);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		on_device_fatal(watcher, device);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		on_port_event(device, event);
		break;
	case EVENT_DEVICE_SPEED_CHANGE:
		on_speed_change(device);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		SXT_LOG(SXT_LOG_WARN,
			"HCA %s: %s, though Sextant has no shared receive queue: a bug of Sextant, "
			"please report it",
			device->name, device->verbs->event_type_str(event->event_type));
		break;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_PATH_MIG: /* in the ordinary course, like the others */
		break;
	default:
		on_unknown(device, (int)event->event_type);
		break;
	}
}

int sxt_events_drain(struct sxt_watcher *watcher, struct sxt_device *device)
{
	for (int i = 0; i < DRAIN_MAX; i++) {
		struct ibv_async_event event;
		int rc = sxt_verbs_get_event(device->verbs, device->context, &event);

		if (rc == -EAGAIN || rc == -EINTR)
			return 0;
		if (rc != 0)
			return rc;
		on_async_event(watcher, device, &event);
		device->verbs->ack_async_event(&event);
	}
	return 0;
}
