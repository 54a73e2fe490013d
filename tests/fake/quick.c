/*
 * quick.c - the verbs library of quick.h. Not locked: one thread moves data, and what connects and
 * closes is ordered by the caller. All memory comes from one mapping and is never given back, so
 * that the heap shows what others take.
 */
#include "tests/fake/quick.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#undef ibv_reg_mr
#undef ibv_query_port

#define ARENA_BYTES ((size_t)256 << 20)
#define QPS_MAX     4096
#define QPN_FIRST   0x100u
#define CQE_MAX     (1 << 20)
#define LINK_MTU    IBV_MTU_4096
#define LINE_BYTES  64

struct quick_cqe {
	uint64_t wr_id;
	uint32_t imm;
	uint32_t bytes;
	uint32_t qpn;
	uint8_t opcode;
	uint8_t status;
	uint16_t flags;
};

/* What polling touches is on the line before ibv_cq's first member, which every poll reads. */
struct quick_cq {
	_Alignas(LINE_BYTES) struct quick_cqe *entries;
	uint32_t head;
	uint32_t tail;
	uint32_t capacity;
	uint32_t padding[9];
	struct ibv_cq cq;
};
SXT_ASSERT_OFFSET(struct quick_cq, cq, 56);

struct quick_qp {
	_Alignas(LINE_BYTES) struct quick_qp *peer; /* NULL until RTR */
	struct quick_cq *send_cq;
	struct quick_cq *recv_cq;
	uint64_t *receives; /* ring */
	uint32_t receives_head;
	uint32_t receives_tail;
	uint32_t receives_cap;
	uint32_t is_broken;
	uint64_t padding;
	struct ibv_qp qp;
};
SXT_ASSERT_OFFSET(struct quick_qp, qp, 56);

static struct {
	char *arena;
	size_t arena_used;
	struct ibv_device devices[SXT_QUICK_DEVICES];
	struct quick_qp *qps[QPS_MAX];
	uint32_t qps_cnt;
	uint32_t next_key;
} world;

static struct sxt_quick_counts counts;
static bool held;

static void *arena_take(size_t bytes)
{
	void *memory;

	if (world.arena == NULL) {
		memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			return NULL;
		world.arena = memory;
	}
	bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	if (world.arena_used + bytes > ARENA_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	memory = world.arena + world.arena_used;
	world.arena_used += bytes;
	return memory;
}

static struct quick_qp *to_qp(struct ibv_qp *qp)
{
	return SXT_CONTAINER_OF(qp, struct quick_qp, qp);
}

static struct quick_cq *to_cq(struct ibv_cq *cq)
{
	return SXT_CONTAINER_OF(cq, struct quick_cq, cq);
}

static void push(struct quick_cq *cq, const struct quick_cqe *cqe)
{
	if (cq->tail == cq->capacity) {
		counts.cq_overruns++;
		return;
	}
	cq->entries[cq->tail++] = *cqe;
	counts.completions++;
}

/* By words, the last one last, and without the C library, whose cost is another's. */
static inline void copy_in(char *to, const char *from, size_t bytes)
{
	for (; bytes >= 32; bytes -= 32, to += 32, from += 32) {
		uint64_t words[4];

		__builtin_memcpy(words, from, sizeof(words));
		__builtin_memcpy(to, words, sizeof(words));
	}
	for (; bytes >= 8; bytes -= 8, to += 8, from += 8)
		__builtin_memcpy(to, from, 8);
	for (; bytes > 0; bytes--)
		*(volatile char *)to++ = *from++;
}

static void take_receive(struct quick_qp *qp, struct quick_cqe *cqe)
{
	if (qp->receives_head == qp->receives_tail) {
		counts.rnr_naks++;
		return;
	}
	cqe->wr_id = qp->receives[qp->receives_head++ & (qp->receives_cap - 1)];
	cqe->qpn = qp->qp.qp_num;
	push(qp->recv_cq, cqe);
}

static void deliver(struct quick_qp *qp, const struct ibv_send_wr *wr)
{
	struct quick_cqe cqe = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .flags = IBV_WC_WITH_IMM};

	if (wr->num_sge != 0) {
		cqe.bytes = wr->sg_list->length;
		copy_in((char *)(uintptr_t)wr->wr.rdma.remote_addr,
			(const char *)(uintptr_t)wr->sg_list->addr, cqe.bytes);
	}
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		cqe.imm = wr->imm_data;
		take_receive(qp->peer, &cqe);
	}
	if ((wr->send_flags & IBV_SEND_SIGNALED) == 0)
		return;
	cqe = (struct quick_cqe){.wr_id = wr->wr_id,
				 .opcode = IBV_WC_RDMA_WRITE,
				 .qpn = qp->qp.qp_num};
	push(qp->send_cq, &cqe);
}

static void flush_send(struct quick_qp *qp, const struct ibv_send_wr *wr)
{
	const struct quick_cqe cqe = {.wr_id = wr->wr_id,
				      .qpn = qp->qp.qp_num,
				      .status = IBV_WC_WR_FLUSH_ERR};

	push(qp->send_cq, &cqe);
}

static int post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct quick_qp *qp = to_qp(ibv_qp);

	(void)bad;
	counts.send_calls++;
	for (; wr != NULL; wr = wr->next) {
		counts.send_wrs++;
		if (SXT_LIKELY(!qp->is_broken))
			deliver(qp, wr);
		else
			flush_send(qp, wr);
	}
	return 0;
}

static void flush_receives(struct quick_qp *qp)
{
	struct quick_cqe cqe = {.status = IBV_WC_WR_FLUSH_ERR};

	while (qp->receives_head != qp->receives_tail)
		take_receive(qp, &cqe);
}

static int post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct quick_qp *qp = to_qp(ibv_qp);

	(void)bad;
	counts.recv_calls++;
	for (; wr != NULL; wr = wr->next) {
		counts.recv_wrs++;
		qp->receives[qp->receives_tail++ & (qp->receives_cap - 1)] = wr->wr_id;
	}
	if (SXT_UNLIKELY(qp->is_broken))
		flush_receives(qp);
	return 0;
}

/* An emptied queue starts again at its first entry: its length costs no cache lines. */
static int poll_cq(struct ibv_cq *ibv_cq, int most, struct ibv_wc *wcs)
{
	struct quick_cq *cq = to_cq(ibv_cq);
	int cnt;

	counts.polls++;
	if (cq->head == cq->tail || held)
		return 0;
	for (cnt = 0; cnt < most && cq->head != cq->tail; cnt++) {
		const struct quick_cqe *cqe = &cq->entries[cq->head++];
		struct ibv_wc *wc = &wcs[cnt];

		wc->wr_id = cqe->wr_id;
		wc->status = (enum ibv_wc_status)cqe->status;
		wc->opcode = (enum ibv_wc_opcode)cqe->opcode;
		wc->vendor_err = 0;
		wc->byte_len = cqe->bytes;
		wc->imm_data = cqe->imm;
		wc->qp_num = cqe->qpn;
		wc->wc_flags = cqe->flags;
	}
	if (cq->head == cq->tail) {
		cq->head = 0;
		cq->tail = 0;
	}
	return cnt;
}

struct ibv_device **ibv_get_device_list(int *cnt)
{
	struct ibv_device **list = arena_take((SXT_QUICK_DEVICES + 1) * sizeof(*list));
	int i;

	for (i = 0; list != NULL && i < SXT_QUICK_DEVICES; i++) {
		struct ibv_device *device = &world.devices[i];

		device->node_type = IBV_NODE_CA;
		device->transport_type = IBV_TRANSPORT_IB;
		memcpy(device->name, "quick_0", sizeof("quick_0"));
		device->name[6] = (char)('0' + i);
		list[i] = device;
	}
	if (cnt != NULL)
		*cnt = SXT_QUICK_DEVICES;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static uint64_t device_index(const struct ibv_device *device)
{
	return (uint64_t)(device - world.devices);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(0x5358510000000000ull + device_index(device));
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = arena_take(sizeof(*context));

	if (context == NULL)
		return NULL;
	context->device = device;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.poll_cq = poll_cq;
	context->async_fd = -1;
	context->cmd_fd = -1;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	(void)context;
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	attr->max_qp = QPS_MAX;
	attr->max_qp_wr = 8192;
	attr->max_sge = 1;
	attr->max_cq = QPS_MAX;
	attr->max_cqe = CQE_MAX;
	attr->max_mr = CQE_MAX;
	return 0;
}

/* The compat struct is the beginning of the whole one. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	if (port != 1)
		return EINVAL;
	attr->state = IBV_PORT_ACTIVE;
	attr->phys_state = 5;
	attr->max_mtu = LINK_MTU;
	attr->active_mtu = LINK_MTU;
	attr->gid_tbl_len = 1;
	attr->max_msg_sz = 1u << 30;
	attr->pkey_tbl_len = 1;
	attr->lid = (uint16_t)(device_index(context->device) + 1);
	attr->sm_lid = SXT_QUICK_DEVICES + 1;
	attr->active_width = 2;
	attr->active_speed = 64;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	gid->global.subnet_prefix = htobe64(0xfe80000000000000ull);
	gid->global.interface_id = ibv_get_device_guid(context->device);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = arena_take(sizeof(*pd));

	if (pd != NULL)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

static struct ibv_mr *register_mr(struct ibv_pd *pd, void *addr, size_t bytes)
{
	struct ibv_mr *mr = arena_take(sizeof(*mr));

	if (mr == NULL)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = bytes;
	mr->lkey = ++world.next_key;
	mr->rkey = ++world.next_key;
	counts.registered_bytes += bytes;
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	(void)access;
	return register_mr(pd, addr, bytes);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	(void)access;
	return register_mr(pd, addr, bytes);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	counts.registered_bytes -= mr->length;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct quick_cq *cq = arena_take(sizeof(*cq));

	(void)channel;
	(void)vector;
	if (cq == NULL)
		return NULL;
	cq->entries = arena_take((size_t)cqe * sizeof(*cq->entries));
	if (cq->entries == NULL)
		return NULL;
	cq->capacity = (uint32_t)cqe;
	cq->cq.context = context;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = cqe;
	counts.cqs_alive++;
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	counts.cqs_alive--;
	return 0;
}

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t value = 1;

	while (value < at_least)
		value *= 2;
	return value;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct quick_qp *qp = world.qps_cnt < QPS_MAX ? arena_take(sizeof(*qp)) : NULL;

	if (qp == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	qp->receives_cap = power_of_two(attr->cap.max_recv_wr);
	qp->receives = arena_take(qp->receives_cap * sizeof(*qp->receives));
	if (qp->receives == NULL)
		return NULL;
	qp->send_cq = to_cq(attr->send_cq);
	qp->recv_cq = to_cq(attr->recv_cq);
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.qp_num = QPN_FIRST + world.qps_cnt;
	qp->qp.state = IBV_QPS_RESET;
	qp->qp.qp_type = attr->qp_type;
	world.qps[world.qps_cnt++] = qp;
	counts.qps_alive++;
	return &qp->qp;
}

int ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
	struct quick_qp *qp = to_qp(ibv_qp);

	if ((mask & IBV_QP_DEST_QPN) != 0 && attr->dest_qp_num - QPN_FIRST < world.qps_cnt)
		qp->peer = world.qps[attr->dest_qp_num - QPN_FIRST];
	if ((mask & IBV_QP_STATE) != 0) {
		qp->qp.state = attr->qp_state;
		qp->is_broken = attr->qp_state == IBV_QPS_ERR;
	}
	if (qp->is_broken)
		flush_receives(qp);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	(void)qp;
	counts.qps_alive--;
	return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	(void)event;
	errno = EAGAIN;
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "some error";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	(void)type;
	return "some event";
}

void sxt_quick_counts(struct sxt_quick_counts *out)
{
	*out = counts;
}

void sxt_quick_hold(bool hold)
{
	held = hold;
}
