/*
 * verbs.c - the verbs library of verbs.h. One lock over everything: tests drive it from several
 * threads.
 */
#include "tests/fake/verbs.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 16
#define QPS_MAX     1024
#define MRS_MAX     4096
#define INLINE_MAX  256
#define QPN_FIRST   0x100u
#define GID_TABLE   2
#define SGE_MAX     1

struct fake_context {
	struct ibv_context context;
	struct fake_device *device;
};

struct fake_device {
	struct ibv_device device;
	int index;
};

struct fake_mr {
	struct ibv_mr mr;
	int access;
};

/* A completion and the work-queue room that polling it gives back. */
struct fake_cqe {
	struct ibv_wc wc;
	uint32_t qpn;
	uint32_t sends;
	uint32_t receives;
};

struct fake_cq {
	struct ibv_cq cq;
	struct fake_cqe *entries;
	uint32_t head;
	uint32_t cnt;
};

struct op {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm;
	uint64_t remote_addr;
	uint32_t rkey;
	struct ibv_sge sge;
	uint8_t payload[INLINE_MAX]; /* inline ones are read when posted */
	bool delivered;
	bool rnr_counted;
};

struct fake_qp {
	struct ibv_qp qp;
	struct ibv_qp_cap cap;
	uint32_t dest_qpn;
	struct op *ops; /* ring of cap.max_send_wr */
	uint32_t ops_head;
	uint32_t ops_cnt;
	uint32_t delivered_cnt; /* of them, from the head */
	uint32_t sq_used;       /* work requests whose room is not given back */
	uint32_t unsignaled;    /* completed silently, their room comes with the next completion */
	uint64_t *receives;     /* ring of cap.max_recv_wr */
	uint32_t receives_head;
	uint32_t receives_cnt;
	uint32_t rq_used;
	bool hold;
	bool hold_acks;
	bool fail_next;
	enum ibv_wc_status fail_status;
	uint32_t fail_vendor;
	int refuse;
};

static struct {
	pthread_mutex_t lock;
	struct sxt_fake_config config;
	struct sxt_fake_counts counts;
	struct fake_device devices[DEVICES_MAX];
	struct fake_qp *qps[QPS_MAX];
	struct fake_mr *mrs[MRS_MAX];
	uint32_t next_qpn;
	uint32_t next_key;
	int alive;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
	pthread_mutex_lock(&world.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&world.lock);
}

static struct fake_qp *to_qp(struct ibv_qp *qp)
{
	return SXT_CONTAINER_OF(qp, struct fake_qp, qp);
}

static struct fake_cq *to_cq(struct ibv_cq *cq)
{
	return SXT_CONTAINER_OF(cq, struct fake_cq, cq);
}

static struct fake_qp *find_qp(uint32_t qpn)
{
	int i;

	for (i = 0; i < QPS_MAX; i++) {
		if (world.qps[i] != NULL && world.qps[i]->qp.qp_num == qpn)
			return world.qps[i];
	}
	return NULL;
}

static bool covers(const struct fake_mr *mr, uint64_t addr, uint64_t bytes)
{
	uint64_t first = (uintptr_t)mr->mr.addr;

	return addr >= first && addr + bytes <= first + mr->mr.length;
}

static bool key_allows(uint32_t key, uint64_t addr, uint64_t bytes, int access)
{
	int i;

	for (i = 0; i < MRS_MAX; i++) {
		const struct fake_mr *mr = world.mrs[i];

		if (mr == NULL || (mr->mr.lkey != key && mr->mr.rkey != key))
			continue;
		return (mr->access & access) == access && covers(mr, addr, bytes);
	}
	return false;
}

static void push(struct fake_cq *cq, const struct fake_cqe *cqe)
{
	if (cq->cnt == (uint32_t)cq->cq.cqe) {
		world.counts.cq_overruns++;
		return;
	}
	cq->entries[(cq->head + cq->cnt) % (uint32_t)cq->cq.cqe] = *cqe;
	cq->cnt++;
	world.counts.completions++;
}

/* Aligned writes appear line by line, the last 8 bytes of each last, as HCAs do it. */
static void copy_in(uint8_t *to, const uint8_t *from, size_t bytes)
{
	while (bytes > 0) {
		size_t line = bytes < 64 ? bytes : 64;

		if (line >= 8 && ((uintptr_t)to + line) % 8 == 0) {
			uint64_t last;

			memcpy(to, from, line - 8);
			memcpy(&last, from + line - 8, sizeof(last));
			atomic_store_explicit((_Atomic uint64_t *)(void *)(to + line - 8), last,
					      memory_order_release);
		} else {
			memcpy(to, from, line);
		}
		to += line;
		from += line;
		bytes -= line;
	}
}

static enum ibv_wc_opcode wc_opcode(const struct op *op)
{
	(void)op;
	return IBV_WC_RDMA_WRITE;
}

/* The head operation completes: silently, or with an entry. */
static void complete_head(struct fake_qp *qp, enum ibv_wc_status status, uint32_t vendor)
{
	struct op *op = &qp->ops[qp->ops_head];
	struct fake_cqe cqe = {.qpn = qp->qp.qp_num};

	qp->ops_head = (qp->ops_head + 1) % qp->cap.max_send_wr;
	qp->ops_cnt--;
	if (qp->delivered_cnt > 0)
		qp->delivered_cnt--;
	qp->unsignaled++;
	if (status == IBV_WC_SUCCESS && (op->flags & IBV_SEND_SIGNALED) == 0)
		return;
	cqe.sends = qp->unsignaled;
	qp->unsignaled = 0;
	cqe.wc.wr_id = op->wr_id;
	cqe.wc.status = status;
	cqe.wc.vendor_err = vendor;
	cqe.wc.qp_num = qp->qp.qp_num;
	/* In error only wr_id, status, vendor and number are valid: the rest is garbage. */
	cqe.wc.opcode = status == IBV_WC_SUCCESS ? wc_opcode(op) : (enum ibv_wc_opcode)0x7fe0;
	push(to_cq(qp->qp.send_cq), &cqe);
}

static void take_receive(struct fake_qp *qp, struct ibv_wc *wc)
{
	struct fake_cqe cqe = {.wc = *wc, .qpn = qp->qp.qp_num, .receives = 1};

	cqe.wc.wr_id = qp->receives[qp->receives_head];
	cqe.wc.qp_num = qp->qp.qp_num;
	qp->receives_head = (qp->receives_head + 1) % qp->cap.max_recv_wr;
	qp->receives_cnt--;
	push(to_cq(qp->qp.recv_cq), &cqe);
}

static void to_error(struct fake_qp *qp)
{
	struct ibv_wc flush = {.status = IBV_WC_WR_FLUSH_ERR, .vendor_err = 249};

	qp->qp.state = IBV_QPS_ERR;
	while (qp->ops_cnt > 0)
		complete_head(qp, IBV_WC_WR_FLUSH_ERR, 249);
	while (qp->receives_cnt > 0)
		take_receive(qp, &flush);
}

static void fail_head(struct fake_qp *qp, enum ibv_wc_status status, uint32_t vendor)
{
	complete_head(qp, status, vendor);
	to_error(qp);
}

static const uint8_t *payload(const struct op *op)
{
	return (op->flags & IBV_SEND_INLINE) != 0 ? op->payload
						  : (const uint8_t *)(uintptr_t)op->sge.addr;
}

/* What stands against delivering: 0 nothing, 1 wait, else a status. */
static int obstacle(struct fake_qp *qp, struct op *op, struct fake_qp *peer)
{
	if (qp->fail_next)
		return (int)qp->fail_status;
	if (op->sge.length > world.config.max_msg_bytes)
		return IBV_WC_LOC_LEN_ERR;
	if ((op->flags & IBV_SEND_INLINE) == 0 && op->sge.length > 0 &&
	    !key_allows(op->sge.lkey, op->sge.addr, op->sge.length, 0))
		return IBV_WC_LOC_PROT_ERR;
	if (peer == NULL || peer->dest_qpn != qp->qp.qp_num ||
	    (peer->qp.state != IBV_QPS_RTR && peer->qp.state != IBV_QPS_RTS))
		return IBV_WC_RETRY_EXC_ERR;
	if (op->sge.length > 0 &&
	    !key_allows(op->rkey, op->remote_addr, op->sge.length, IBV_ACCESS_REMOTE_WRITE))
		return IBV_WC_REM_ACCESS_ERR;
	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->receives_cnt == 0) {
		world.counts.rnr_naks += !op->rnr_counted;
		op->rnr_counted = true;
		return -1;
	}
	return 0;
}

/* Deliver the first operation that is not. Return: whether something happened. */
static bool deliver_one(struct fake_qp *qp)
{
	struct op *op = &qp->ops[(qp->ops_head + qp->delivered_cnt) % qp->cap.max_send_wr];
	struct fake_qp *peer = find_qp(qp->dest_qpn);
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV_RDMA_WITH_IMM};
	int why = obstacle(qp, op, peer);

	if (why < 0)
		return false;
	if (why > 0) {
		uint32_t vendor = qp->fail_next ? qp->fail_vendor : 129;

		qp->fail_next = false;
		while (qp->delivered_cnt > 0)
			complete_head(qp, IBV_WC_SUCCESS, 0);
		fail_head(qp, (enum ibv_wc_status)why, vendor);
		if (why == IBV_WC_REM_ACCESS_ERR)
			to_error(peer);
		return true;
	}
	copy_in((uint8_t *)(uintptr_t)op->remote_addr, payload(op), op->sge.length);
	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		wc.imm_data = op->imm;
		wc.byte_len = op->sge.length;
		wc.wc_flags = IBV_WC_WITH_IMM;
		take_receive(peer, &wc);
	}
	qp->delivered_cnt++;
	return true;
}

static int pump(struct fake_qp *qp, int most)
{
	int cnt = 0;

	while (cnt < most && qp->delivered_cnt < qp->ops_cnt && deliver_one(qp))
		cnt++;
	while (!qp->hold_acks && qp->delivered_cnt > 0)
		complete_head(qp, IBV_WC_SUCCESS, 0);
	return cnt;
}

static int take_op(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct op *op = &qp->ops[(qp->ops_head + qp->ops_cnt) % qp->cap.max_send_wr];

	if (qp->refuse != 0)
		return qp->refuse;
	if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_ERR)
		return EINVAL;
	if (wr->num_sge > SGE_MAX ||
	    (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM))
		return EINVAL;
	if (qp->sq_used == qp->cap.max_send_wr) {
		world.counts.sq_overflows++;
		return ENOMEM;
	}
	memset(op, 0, sizeof(*op));
	op->wr_id = wr->wr_id;
	op->opcode = wr->opcode;
	op->flags = wr->send_flags;
	op->imm = wr->imm_data;
	op->remote_addr = wr->wr.rdma.remote_addr;
	op->rkey = wr->wr.rdma.rkey;
	if (wr->num_sge == 1)
		op->sge = wr->sg_list[0];
	if ((op->flags & IBV_SEND_INLINE) != 0) {
		if (op->sge.length > qp->cap.max_inline_data)
			return EINVAL;
		memcpy(op->payload, (const void *)(uintptr_t)op->sge.addr, op->sge.length);
	}
	qp->sq_used++;
	qp->ops_cnt++;
	world.counts.send_wrs++;
	world.counts.send_wrs_signaled += (op->flags & IBV_SEND_SIGNALED) != 0;
	world.counts.send_wrs_inline += (op->flags & IBV_SEND_INLINE) != 0;
	return 0;
}

static int post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = to_qp(ibv_qp);
	int rc = 0;

	lock();
	world.counts.send_calls++;
	for (; wr != NULL && rc == 0; wr = wr->next) {
		rc = take_op(qp, wr);
		if (rc != 0)
			*bad = wr;
	}
	if (qp->qp.state == IBV_QPS_ERR)
		to_error(qp);
	else if (!qp->hold)
		pump(qp, INT32_MAX);
	unlock();
	return rc;
}

static int post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = to_qp(ibv_qp);
	struct fake_qp *peer;
	int rc = 0;

	lock();
	world.counts.recv_calls++;
	for (; wr != NULL && rc == 0; wr = wr->next) {
		if (qp->rq_used == qp->cap.max_recv_wr) {
			world.counts.rq_overflows++;
			*bad = wr;
			rc = ENOMEM;
			continue;
		}
		qp->receives[(qp->receives_head + qp->receives_cnt) % qp->cap.max_recv_wr] =
			wr->wr_id;
		qp->receives_cnt++;
		qp->rq_used++;
		world.counts.recv_wrs++;
	}
	if (qp->qp.state == IBV_QPS_ERR)
		to_error(qp);
	peer = find_qp(qp->dest_qpn);
	if (peer != NULL && !peer->hold)
		pump(peer, INT32_MAX);
	unlock();
	return rc;
}

static int poll_cq(struct ibv_cq *ibv_cq, int most, struct ibv_wc *wcs)
{
	struct fake_cq *cq = to_cq(ibv_cq);
	int cnt;

	lock();
	world.counts.polls++;
	for (cnt = 0; cnt < most && cq->cnt > 0; cnt++) {
		const struct fake_cqe *cqe = &cq->entries[cq->head];
		struct fake_qp *qp = find_qp(cqe->qpn);

		wcs[cnt] = cqe->wc;
		if (qp != NULL) {
			qp->sq_used -= cqe->sends;
			qp->rq_used -= cqe->receives;
		}
		cq->head = (cq->head + 1) % (uint32_t)cq->cq.cqe;
		cq->cnt--;
	}
	unlock();
	return cnt;
}

static struct ibv_device **get_device_list(int *cnt)
{
	struct ibv_device **list = calloc(DEVICES_MAX + 1, sizeof(*list));
	int i;

	for (i = 0; list != NULL && i < world.config.devices_cnt; i++) {
		struct fake_device *device = &world.devices[i];

		device->index = i;
		device->device.node_type = IBV_NODE_CA;
		device->device.transport_type = IBV_TRANSPORT_IB;
		memcpy(device->device.name, "fake_0", sizeof("fake_0"));
		device->device.name[5] = (char)('0' + i);
		list[i] = &device->device;
	}
	if (cnt != NULL)
		*cnt = world.config.devices_cnt;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static __be64 get_device_guid(struct ibv_device *device)
{
	return htobe64(0x5358540000000000ull + (uint64_t)((struct fake_device *)device)->index);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct fake_context *context = calloc(1, sizeof(*context));

	if (context == NULL)
		return NULL;
	lock();
	world.alive++;
	unlock();
	context->device = (struct fake_device *)device;
	context->context.device = device;
	context->context.ops.post_send = post_send;
	context->context.ops.post_recv = post_recv;
	context->context.ops.poll_cq = poll_cq;
	context->context.async_fd = -1;
	context->context.cmd_fd = -1;
	return &context->context;
}

static int close_device(struct ibv_context *context)
{
	lock();
	world.alive--;
	unlock();
	free(SXT_CONTAINER_OF(context, struct fake_context, context));
	return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	attr->max_qp = QPS_MAX;
	attr->max_qp_wr = 8192;
	attr->max_sge = SGE_MAX;
	attr->max_cq = 1024;
	attr->max_cqe = world.config.max_cqe;
	attr->max_mr = MRS_MAX;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
	attr->phys_state = 5;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = GID_TABLE;
	attr->max_msg_sz = world.config.max_msg_bytes;
	attr->pkey_tbl_len = 1;
	attr->active_width = 2;
	attr->active_speed = 64;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

/* Entry 0 is link-local, entry 1 maps 192.0.2.(index + 1). */
static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	int number = SXT_CONTAINER_OF(context, struct fake_context, context)->device->index;

	if (port != 1 || index < 0 || index >= GID_TABLE) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0, sizeof(*gid));
	if (index == 0) {
		gid->raw[0] = 0xfe;
		gid->raw[1] = 0x80;
		gid->raw[15] = (uint8_t)(number + 1);
		return 0;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 192;
	gid->raw[14] = 2;
	gid->raw[15] = (uint8_t)(number + 1);
	return 0;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	(void)flags;
	if (entry_bytes < sizeof(*entry))
		return EINVAL;
	memset(entry, 0, sizeof(*entry));
	if (query_gid(context, (uint8_t)port, (int)index, &entry->gid) != 0)
		return errno;
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return NULL;
	lock();
	world.alive++;
	unlock();
	pd->context = context;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	lock();
	world.alive--;
	unlock();
	free(pd);
	return 0;
}

static struct ibv_mr *register_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct fake_mr *mr = calloc(1, sizeof(*mr));
	int i = 0;

	if (mr == NULL)
		return NULL;
	lock();
	while (i < MRS_MAX && world.mrs[i] != NULL)
		i++;
	if (i == MRS_MAX) {
		unlock();
		free(mr);
		errno = ENOMEM;
		return NULL;
	}
	world.mrs[i] = mr;
	world.alive++;
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = addr;
	mr->mr.length = bytes;
	mr->mr.handle = (uint32_t)i;
	/* Different, so that one taken for the other shows. */
	mr->mr.lkey = world.next_key++;
	mr->mr.rkey = world.next_key++;
	mr->access = access;
	unlock();
	return &mr->mr;
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				   unsigned int access)
{
	if (iova != (uintptr_t)addr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return register_mr(pd, addr, bytes, (int)access);
}

static int dereg_mr(struct ibv_mr *mr)
{
	lock();
	world.mrs[mr->handle] = NULL;
	world.alive--;
	unlock();
	free(SXT_CONTAINER_OF(mr, struct fake_mr, mr));
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
				struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = calloc(1, sizeof(*cq));

	(void)vector;
	if (cq == NULL || cqe < 1 || cqe > world.config.max_cqe || channel != NULL) {
		free(cq);
		errno = EINVAL;
		return NULL;
	}
	cq->entries = calloc((size_t)cqe, sizeof(*cq->entries));
	if (cq->entries == NULL) {
		free(cq);
		return NULL;
	}
	cq->cq.context = context;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = cqe;
	lock();
	world.alive++;
	unlock();
	return &cq->cq;
}

static int destroy_cq(struct ibv_cq *ibv_cq)
{
	struct fake_cq *cq = to_cq(ibv_cq);
	int rc = 0;
	int i;

	lock();
	for (i = 0; i < QPS_MAX; i++) {
		if (world.qps[i] != NULL &&
		    (world.qps[i]->qp.send_cq == ibv_cq || world.qps[i]->qp.recv_cq == ibv_cq))
			rc = EBUSY;
	}
	if (rc == 0)
		world.alive--;
	unlock();
	if (rc != 0)
		return rc;
	free(cq->entries);
	free(cq);
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp;
	int i = 0;

	if (attr->qp_type != IBV_QPT_RC || attr->cap.max_inline_data > world.config.inline_bytes) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (qp == NULL)
		return NULL;
	qp->cap = attr->cap;
	qp->ops = calloc(qp->cap.max_send_wr, sizeof(*qp->ops));
	qp->receives = calloc(qp->cap.max_recv_wr, sizeof(*qp->receives));
	lock();
	while (i < QPS_MAX && world.qps[i] != NULL)
		i++;
	assert(i < QPS_MAX && qp->ops != NULL && qp->receives != NULL);
	world.qps[i] = qp;
	world.alive++;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.handle = (uint32_t)i;
	qp->qp.qp_num = world.next_qpn++;
	qp->qp.state = IBV_QPS_RESET;
	qp->qp.qp_type = IBV_QPT_RC;
	unlock();
	return &qp->qp;
}

static bool may_follow(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR;
	default:
		return to == IBV_QPS_ERR;
	}
}

static int modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = to_qp(ibv_qp);
	int rc = 0;

	lock();
	if ((mask & IBV_QP_STATE) == 0 || !may_follow(qp->qp.state, attr->qp_state))
		rc = EINVAL;
	if (rc == 0) {
		qp->qp.state = attr->qp_state;
		if ((mask & IBV_QP_DEST_QPN) != 0)
			qp->dest_qpn = attr->dest_qp_num;
		if (attr->qp_state == IBV_QPS_ERR)
			to_error(qp);
	}
	unlock();
	return rc;
}

static int destroy_qp(struct ibv_qp *ibv_qp)
{
	struct fake_qp *qp = to_qp(ibv_qp);

	lock();
	world.qps[ibv_qp->handle] = NULL;
	world.alive--;
	unlock();
	free(qp->ops);
	free(qp->receives);
	free(qp);
	return 0;
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	(void)event;
	errno = EAGAIN;
	return -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return "transport retry counter exceeded";
	case IBV_WC_REM_ACCESS_ERR:
		return "remote access error";
	case IBV_WC_WR_FLUSH_ERR:
		return "Work Request Flushed Error";
	default:
		return "some other error";
	}
}

static const char *event_type_str(enum ibv_event_type type)
{
	(void)type;
	return "some event";
}

const struct sxt_verbs *sxt_fake_verbs(void)
{
	static const struct sxt_verbs table = {
		.get_device_list = get_device_list,
		.free_device_list = free_device_list,
		.get_device_name = get_device_name,
		.get_device_guid = get_device_guid,
		.open_device = open_device,
		.close_device = close_device,
		.query_device = query_device,
		.query_port = query_port,
		.query_gid = query_gid,
		.query_gid_ex = query_gid_ex,
		.alloc_pd = alloc_pd,
		.dealloc_pd = dealloc_pd,
		.reg_mr = register_mr,
		.reg_mr_iova2 = reg_mr_iova2,
		.dereg_mr = dereg_mr,
		.create_cq = create_cq,
		.destroy_cq = destroy_cq,
		.create_qp = create_qp,
		.modify_qp = modify_qp,
		.destroy_qp = destroy_qp,
		.get_async_event = get_async_event,
		.ack_async_event = ack_async_event,
		.wc_status_str = wc_status_str,
		.event_type_str = event_type_str,
	};

	return &table;
}

int sxt_fake_reset(const struct sxt_fake_config *config)
{
	int alive;

	assert(config->devices_cnt <= DEVICES_MAX && config->inline_bytes <= INLINE_MAX);
	lock();
	alive = world.alive;
	world.config = *config;
	memset(&world.counts, 0, sizeof(world.counts));
	world.next_qpn = QPN_FIRST;
	world.next_key = 1;
	unlock();
	return alive;
}

int sxt_fake_alive(void)
{
	int alive;

	lock();
	alive = world.alive;
	unlock();
	return alive;
}

struct sxt_fake_counts sxt_fake_counts(void)
{
	struct sxt_fake_counts counts;

	lock();
	counts = world.counts;
	unlock();
	return counts;
}

void sxt_fake_hold(struct ibv_qp *qp, bool hold)
{
	lock();
	to_qp(qp)->hold = hold;
	if (!hold)
		pump(to_qp(qp), INT32_MAX);
	unlock();
}

void sxt_fake_hold_acks(struct ibv_qp *qp, bool hold)
{
	lock();
	to_qp(qp)->hold_acks = hold;
	pump(to_qp(qp), 0);
	unlock();
}

int sxt_fake_deliver(struct ibv_qp *qp, int cnt)
{
	int done;

	lock();
	done = pump(to_qp(qp), cnt);
	unlock();
	return done;
}

void sxt_fake_fail_next(struct ibv_qp *qp, enum ibv_wc_status status, uint32_t vendor)
{
	lock();
	to_qp(qp)->fail_next = true;
	to_qp(qp)->fail_status = status;
	to_qp(qp)->fail_vendor = vendor;
	unlock();
}

void sxt_fake_refuse_post(struct ibv_qp *qp, int rc)
{
	lock();
	to_qp(qp)->refuse = rc;
	unlock();
}

void sxt_fake_break_qp(struct ibv_qp *qp)
{
	lock();
	to_error(to_qp(qp));
	unlock();
}

void sxt_fake_push(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct fake_cqe cqe = {.wc = *wc};

	lock();
	push(to_cq(cq), &cqe);
	unlock();
}
