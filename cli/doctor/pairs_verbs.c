/*
 * pairs_verbs.c - opening the own ports, and what is done with one queue pair: made, joined,
 * probed, measured. Everything about ports, addresses and queue pairs is the transport's own code.
 */
#include "cli/doctor/pairs_verbs.h"

#include "cli/cli.h"
#include "core/config.h"
#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/explain.h"
#include "ib/process.h"
#include "ib/qp.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MARKS_BYTES   4096u
#define MESSAGE_BYTES (256u * 1024)
#define LANDING       MARKS_BYTES
#define SOURCE        (LANDING + MESSAGE_BYTES)
#define MEMORY_BYTES  (SOURCE + MESSAGE_BYTES)
#define DEPTH         8u /* large writes under way */
#define CQ_ENTRIES    (SXT_PAIRS_BATCH * (DEPTH + 1))
#define LARGE_NS      (2 * SXT_NS_PER_SEC) /* for a large write to be acknowledged */

/* What the transport logs as an error while a queue pair is made, for its why. */
static struct {
	pthread_mutex_t lock;
	char text[sizeof(((struct sxt_pairs_qp *)NULL)->why)];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hear(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	pthread_mutex_lock(&heard.lock);
	if (level == SXT_LOG_ERROR && heard.text[0] == '\0')
		snprintf(heard.text, sizeof(heard.text), "%s", text);
	pthread_mutex_unlock(&heard.lock);
}

static void hear_begin(void)
{
	pthread_mutex_lock(&heard.lock);
	heard.text[0] = '\0';
	pthread_mutex_unlock(&heard.lock);
	sxt_log_set_sink(hear);
}

static void hear_end(int rc, char *why, size_t why_bytes)
{
	sxt_cli_log_to_stderr("sextant doctor");
	pthread_mutex_lock(&heard.lock);
	if (rc != 0)
		snprintf(why, why_bytes, "%s",
			 heard.text[0] != '\0' ? heard.text : sxt_strerror(rc));
	pthread_mutex_unlock(&heard.lock);
	sxt_doctor_make_printable(why);
}

/* Room for trying on a port: its memory registered, a completion queue. */
static int port_prepare(struct sxt_pairs_verbs *verbs, struct sxt_pairs_open_port *open)
{
	const struct sxt_device *device = open->port->device;
	const struct sxt_verbs_region region = {
		.addr = verbs->memory,
		.bytes = MEMORY_BYTES,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.dmabuf_fd = -1,
	};
	char why[SXT_EXPLAIN_BYTES];
	int rc = sxt_verbs_reg_mr(device->verbs, device->pd, &region, &open->mr);

	if (rc != 0) {
		sxt_explain_register(open->port, &region, rc, why);
		fprintf(stderr, "sextant doctor pairs: %s: registering memory: %s%s\n",
			open->port->label, sxt_strerror(rc), why);
		return rc;
	}
	rc = sxt_verbs_create_cq(device->verbs, device->context, CQ_ENTRIES, NULL, &open->cq);
	if (rc != 0) {
		sxt_explain_create(open->port, SXT_DEVICE_CQS, rc, why);
		fprintf(stderr, "sextant doctor pairs: %s: making a completion queue: %s%s\n",
			open->port->label, sxt_strerror(rc), why);
	}
	return rc;
}

static void describe(const struct sxt_pairs_verbs *verbs, const struct sxt_pairs_open_port *open,
		     uint32_t cnt, struct sxt_pairs_port *out)
{
	const struct sxt_wire_path *path = &open->addresses[0].place.path;

	*out = (struct sxt_pairs_port){
		.speed_mbps = open->port->speed_mbps,
		.lid = path->lid,
		.mtu = path->mtu,
		.link_layer = path->link_layer,
		.addr = (uintptr_t)verbs->memory,
		.rkey = open->mr->rkey,
		.addresses_cnt = cnt,
	};
	snprintf(out->name, sizeof(out->name), "%.64s:%u", open->port->device->name,
		 open->port->num);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct sxt_port_address *address = &open->addresses[i];

		out->addresses[i] = (struct sxt_wire_candidate){
			.gid_type = address->place.path.gid_type,
			.prefix_len = address->gid.prefix_len,
			.link_layer = path->link_layer,
		};
		memcpy(out->addresses[i].gid, address->gid.raw, sizeof(address->gid.raw));
	}
}

/* A port that was lost meanwhile is left out; its log line says why. */
static int port_open(struct sxt_pairs_verbs *verbs, struct sxt_port *port,
		     struct sxt_pairs_host *host)
{
	struct sxt_pairs_open_port *open = &verbs->ports[verbs->ports_cnt];
	uint32_t cnt = 0;
	int rc;

	open->port = port;
	if (sxt_port_candidates(port, open->addresses, SXT_CANDIDATES_PER_PORT, &cnt) != 0)
		return 0;
	verbs->ports_cnt++;
	rc = port_prepare(verbs, open);
	if (rc == 0)
		describe(verbs, open, cnt, &host->ports[host->ports_cnt++]);
	return rc;
}

/* On the software HCA all hosts are one machine. */
static void name_host(struct sxt_pairs_host *host)
{
	const char *soft = sxt_env_get("SEXTANT_SOFT_HOST");

	if (sxt_env_get("SEXTANT_SOFT_STATE") != NULL && soft != NULL)
		snprintf(host->name, sizeof(host->name), "%s", soft);
	else if (gethostname(host->name, sizeof(host->name) - 1) != 0)
		snprintf(host->name, sizeof(host->name), "unknown");
	host->name[strcspn(host->name, ".")] = '\0';
	snprintf(host->version, sizeof(host->version), "%s", SXT_VERSION);
	sxt_doctor_make_printable(host->name);
	sxt_doctor_make_printable(host->left_out);
}

int sxt_pairs_open(struct sxt_pairs_host *host, struct sxt_pairs_verbs **out)
{
	struct sxt_pairs_verbs *verbs = calloc(1, sizeof(*verbs));
	int rc = verbs != NULL ? sxt_ib_get(&verbs->ib) : -ENOMEM;

	if (rc == 0) {
		verbs->memory = aligned_alloc(MARKS_BYTES, MEMORY_BYTES);
		rc = verbs->memory != NULL ? 0 : -ENOMEM;
	}
	if (rc == 0) {
		memset(verbs->memory, 0, MEMORY_BYTES);
		snprintf(host->left_out, sizeof(host->left_out), "%s", verbs->ib->left_out);
	}
	for (int i = 0; rc == 0 && i < verbs->ib->ports_cnt && i < SXT_PAIRS_PORTS_MAX; i++)
		rc = port_open(verbs, verbs->ib->ports[i], host);
	if (rc == 0 && host->ports_cnt == 0)
		rc = -ENODEV;
	if (rc != 0) {
		fprintf(stderr,
			"sextant doctor pairs: no port here can be tried (%s); run `sextant "
			"doctor` first\n",
			sxt_strerror(rc));
		sxt_pairs_close(verbs);
		return rc == -ENOENT || rc == -ENOSYS ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
	}
	name_host(host);
	*out = verbs;
	return SXT_EXIT_OK;
}

void sxt_pairs_close(struct sxt_pairs_verbs *verbs)
{
	if (verbs == NULL)
		return;
	for (uint32_t i = 0; i < verbs->ports_cnt; i++) {
		const struct sxt_pairs_open_port *open = &verbs->ports[i];
		const struct sxt_verbs *table = open->port->device->verbs;

		/* The process ends; what a driver does not give back goes with it. */
		if (open->cq != NULL)
			sxt_ignore(table->destroy_cq(open->cq));
		if (open->mr != NULL)
			sxt_ignore(table->dereg_mr(open->mr));
	}
	sxt_ib_put(verbs->ib);
	free(verbs->memory);
	free(verbs);
}

void sxt_pairs_qp_make(struct sxt_pairs_verbs *verbs, uint32_t port, uint32_t address,
		       uint32_t slot, struct sxt_pairs_qp *out)
{
	const struct sxt_pairs_open_port *open = &verbs->ports[port];
	struct sxt_qp_spec spec = {.cq = open->cq, .send_depth = DEPTH, .recv_depth = 1};
	uint32_t psn = 0;
	int rc;

	*out = (struct sxt_pairs_qp){.port = open, .place = open->addresses[address].place};
	verbs->memory[slot] = 0;
	hear_begin();
	rc = sxt_sys_random(&sxt_sys_host, &psn, sizeof(psn));
	if (rc == 0)
		rc = sxt_qp_create(open->port, &spec, &out->qp);
	hear_end(rc, out->why, sizeof(out->why));
	if (rc != 0)
		return;
	out->place.path.qpn = out->qp->qp_num;
	out->place.path.psn = psn & 0xffffffu;
}

void sxt_pairs_qp_join(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qp,
		       const struct sxt_wire_path *peer, const struct sxt_pairs_port *port)
{
	const struct sxt_config *config = verbs->ib->config;
	const struct sxt_qp_route route = {
		.local = &qp->place,
		.peer = peer,
		.tclass = config->ib_tc >= 0 ? config->ib_tc : 0,
		.peer_name = port->name,
	};
	int rc;

	hear_begin();
	rc = sxt_qp_join(qp->port->port, qp->qp, &route);
	hear_end(rc, qp->why, sizeof(qp->why));
	qp->joined = rc == 0;
	qp->peer_addr = port->addr;
	qp->peer_rkey = port->rkey;
}

void sxt_pairs_qp_drop(struct sxt_pairs_qp *qp)
{
	if (qp->qp != NULL)
		sxt_qp_destroy(qp->port->port, qp->qp);
	*qp = (struct sxt_pairs_qp){0};
}

static uint64_t wr_id(const struct sxt_pairs_verbs *verbs, uint32_t slot)
{
	return (uint64_t)verbs->serial << 8 | slot;
}

static void take(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps, const struct ibv_wc *wc)
{
	struct sxt_pairs_qp *qp = &qps[wc->wr_id & 0xffu];

	if (wc->wr_id >> 8 != verbs->serial)
		return;
	qp->ended = true;
	if (wc->status == IBV_WC_SUCCESS) {
		qp->acked = true;
		qp->done_cnt++;
		return;
	}
	qp->acked = false;
	/* That nothing comes back is said by the state of the pair. */
	if (wc->status != IBV_WC_WR_FLUSH_ERR && wc->status != IBV_WC_RETRY_EXC_ERR &&
	    qp->why[0] == '\0')
		snprintf(qp->why, sizeof(qp->why), "a write ended in error: %s",
			 qp->port->port->device->verbs->wc_status_str(wc->status));
}

/* Takes what has completed. Return: false if nothing has. */
static bool poll_all(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps)
{
	struct ibv_wc wcs[16];
	bool idle = true;

	for (uint32_t i = 0; i < verbs->ports_cnt; i++) {
		int cnt = ibv_poll_cq(verbs->ports[i].cq, SXT_ARRAY_LEN(wcs), wcs);

		for (int j = 0; j < cnt; j++)
			take(verbs, qps, &wcs[j]);
		idle = idle && cnt <= 0;
	}
	return !idle;
}

static void post_probe(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qp, uint32_t slot)
{
	struct ibv_sge mark = {
		.addr = (uintptr_t)verbs->memory + SOURCE,
		.length = 1,
		.lkey = qp->port->mr->lkey,
	};
	struct ibv_send_wr empty = {
		.wr_id = wr_id(verbs, slot),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = qp->peer_addr + LANDING, .rkey = qp->peer_rkey},
	};
	struct ibv_send_wr first = {
		.wr_id = wr_id(verbs, slot),
		.next = &empty,
		.sg_list = &mark,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = qp->peer_addr + slot, .rkey = qp->peer_rkey},
	};
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(qp->qp, &first, &bad);

	if (rc == 0)
		return;
	qp->ended = true;
	snprintf(qp->why, sizeof(qp->why), "posting a write: %s", sxt_strerror(rc));
}

static bool all_ended(const struct sxt_pairs_qp *qps, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (qps[i].joined && !qps[i].ended)
			return false;
	}
	return true;
}

void sxt_pairs_probe(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps, uint32_t cnt,
		     uint64_t patience_ns)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000};
	uint64_t end_ns = sxt_sys_host.now_ns() + patience_ns;

	verbs->serial++;
	verbs->memory[SOURCE] = 1;
	for (uint32_t i = 0; i < cnt; i++) {
		if (qps[i].joined && !qps[i].ended)
			post_probe(verbs, &qps[i], i);
	}
	while (!all_ended(qps, cnt) && sxt_sys_host.now_ns() < end_ns) {
		if (!poll_all(verbs, qps))
			nanosleep(&pause, NULL);
	}
}

bool sxt_pairs_marked(const struct sxt_pairs_verbs *verbs, uint32_t slot)
{
	return *(const volatile uint8_t *)&verbs->memory[slot] != 0;
}

static bool post_large(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qp, uint32_t slot)
{
	struct ibv_sge all = {
		.addr = (uintptr_t)verbs->memory + SOURCE,
		.length = MESSAGE_BYTES,
		.lkey = qp->port->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = wr_id(verbs, slot),
		.sg_list = &all,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = qp->peer_addr + LANDING, .rkey = qp->peer_rkey},
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp->qp, &wr, &bad) == 0;
}

/* Large writes, up to so many at a time, until a time; all acknowledged? */
static bool write_until(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps, uint32_t slot,
			uint32_t depth, uint64_t end_ns)
{
	struct sxt_pairs_qp *qp = &qps[slot];
	uint64_t now_ns = sxt_sys_host.now_ns();
	uint64_t late_ns = now_ns + LARGE_NS;
	uint32_t posted = 0;

	qp->acked = true;
	qp->done_cnt = 0;
	do {
		uint32_t done = qp->done_cnt;

		while ((posted == 0 || now_ns < end_ns) && posted - qp->done_cnt < depth) {
			if (!post_large(verbs, qp, slot))
				return false;
			posted++;
		}
		sxt_ignore(poll_all(verbs, qps));
		now_ns = sxt_sys_host.now_ns();
		if (qp->done_cnt != done)
			late_ns = now_ns + LARGE_NS;
	} while (qp->acked && now_ns < late_ns && (qp->done_cnt < posted || now_ns < end_ns));
	return qp->acked && qp->done_cnt == posted;
}

void sxt_pairs_measure(struct sxt_pairs_verbs *verbs, struct sxt_pairs_qp *qps, uint32_t slot,
		       uint64_t window_ns, uint32_t *mbps_out)
{
	uint64_t begin_ns;
	uint64_t ns;
	bool passed;

	*mbps_out = 0;
	verbs->serial++;
	/* The first one alone: it may be the first packet of full size on the way. */
	if (!write_until(verbs, qps, slot, 1, 0))
		return;
	begin_ns = sxt_sys_host.now_ns();
	passed = write_until(verbs, qps, slot, DEPTH, begin_ns + window_ns);
	ns = sxt_sys_host.now_ns() - begin_ns;
	if (!passed || ns == 0)
		return;
	*mbps_out = (uint32_t)((uint64_t)qps[slot].done_cnt * MESSAGE_BYTES * 8000 / ns);
	if (*mbps_out == 0)
		*mbps_out = 1;
}
