/*
 * rig.c - a small fabric and connected queue pairs for the tests of the verbs engine.
 */
#include "tests/unit/ib/soft/rig.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static char base[64];
static pid_t parent;

static void fill_port(struct sxt_soft_port *port, uint32_t hca, uint8_t num, uint8_t last_byte)
{
	port->hca = hca;
	port->port_num = num;
	port->link_layer = SXT_SOFT_ETHERNET;
	port->max_mtu = IBV_MTU_4096;
	port->active_mtu = IBV_MTU_4096;
	port->active_width = 2;
	port->active_speed = 64;
	port->gid_cnt = 2;
	port->gids[0].raw[10] = 0xff;
	port->gids[0].raw[11] = 0xff;
	port->gids[0].raw[12] = 10;
	port->gids[0].raw[15] = last_byte;
	port->gids[0].type = SXT_SOFT_GID_ROCE_V2;
	port->pkey_cnt = 1;
	port->pkeys[0] = 0xffff;
	atomic_store(&port->state, SXT_SOFT_PORT_ACTIVE);
	atomic_store(&port->phys_state, SXT_SOFT_PHYS_UP);
}

static void fill_hca(struct sxt_soft_hca *hca, uint32_t host)
{
	snprintf(hca->name, sizeof(hca->name), "soft_%u", host);
	hca->host = host;
	hca->first_port = host * 2;
	hca->port_cnt = 2;
	hca->node_guid = 0x1000 + host;
	hca->max_mr_size = 1ull << 40;
	hca->max_qp = 1024;
	hca->max_qp_wr = 4096;
	hca->max_sge = 16;
	hca->max_cq = 1024;
	hca->max_cqe = 65536;
	hca->max_mr = 65536;
	hca->max_pd = 1024;
	hca->max_qp_rd_atom = 16;
	hca->max_srq = 64;
	hca->max_srq_wr = 4096;
	hca->max_srq_sge = 16;
	hca->max_inline = 512;
}

int rig_fabric(void **state)
{
	static struct sxt_soft_fabric fabric;
	char dir[96];

	(void)state;
	parent = getpid();
	memset(&fabric, 0, sizeof(fabric));
	fabric.host_cnt = 2;
	fabric.hca_cnt = 2;
	fabric.port_cnt = 4;
	for (uint32_t host = 0; host < 2; host++) {
		snprintf(fabric.hosts[host].name, SXT_SOFT_NAME_MAX, "%c", 'a' + (int)host);
		fabric.hosts[host].first_hca = host;
		fabric.hosts[host].hca_cnt = 1;
		fill_hca(&fabric.hcas[host], host);
		for (uint8_t num = 1; num <= 2; num++)
			fill_port(&fabric.ports[host * 2 + num - 1], host, num,
				  (uint8_t)(host * 2 + num));
	}
	snprintf(base, sizeof(base), "/dev/shm/sxt-engine-XXXXXX");
	if (mkdtemp(base) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/state", base);
	if (sxt_soft_state_create(dir, &fabric) != 0)
		return -1;
	setenv("SEXTANT_SOFT_STATE", dir, 1);
	setenv("SEXTANT_SOFT_HOST", "a", 1);
	return 0;
}

int rig_only_in_parent(void **state)
{
	(void)state;
	if (getpid() != parent)
		_exit(1);
	return 0;
}

int rig_fabric_gone(void **state)
{
	char command[96];

	sxt_ignore(rig_only_in_parent(state));
	sxt_soft_engine_detach();
	snprintf(command, sizeof(command), "rm -r %s", base);
	return system(command);
}

struct sxt_soft_fabric *rig_shared(void)
{
	struct sxt_soft_engine *engine;

	assert_int_equal(sxt_soft_engine_get(&engine), 0);
	return engine->state->fabric;
}

static void open_memory(struct rig_end *end, bool mapped)
{
	struct sxt_soft_mr_request request = {.length = RIG_BYTES,
					      .access = ALL_ACCESS,
					      .dmabuf_fd = -1};
	int flags = mapped ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	int fd = -1;

	if (mapped) {
		fd = memfd_create("rig", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, RIG_BYTES), 0);
	}
	end->bytes = RIG_BYTES;
	end->memory = mmap(NULL, RIG_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	assert_true(end->memory != MAP_FAILED);
	request.addr = end->memory;
	request.iova = (uintptr_t)end->memory;
	assert_int_equal(sxt_soft_mr_register(end->pd, &request, &end->mr), 0);
	if (fd >= 0)
		close(fd);
}

static void open_queues(struct rig_end *end, const struct rig_options *options)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = options->cqe != 0 ? options->cqe : 64,
					      .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 16, .max_sge = 4}};
	struct ibv_cq_ex *cq;

	if (options->with_channel) {
		assert_int_equal(sxt_soft_channel_create(end->context, &end->channel), 0);
		cq_attr.channel = end->channel;
	}
	if (!end->borrows) {
		assert_int_equal(sxt_soft_cq_create(end->context, &cq_attr, &cq), 0);
		end->send_cq = ibv_cq_ex_to_cq(cq);
	}
	assert_int_equal(sxt_soft_cq_create(end->context, &cq_attr, &cq), 0);
	end->recv_cq = ibv_cq_ex_to_cq(cq);
	if (options->with_srq)
		assert_int_equal(sxt_soft_srq_create(end->pd, &srq_attr, &end->srq), 0);
}

static void open_device(struct rig_end *end, struct rig_end *shared)
{
	struct ibv_device **list;
	struct verbs_context *verbs;
	int cnt;

	if (shared != NULL) {
		end->borrows = true;
		end->context = shared->context;
		end->pd = shared->pd;
		end->send_cq = shared->send_cq;
		return;
	}
	assert_int_equal(sxt_soft_device_list(&list, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(sxt_soft_context_open(list[0], &verbs), 0);
	free(list);
	end->context = &verbs->context;
	assert_int_equal(sxt_soft_pd_alloc(end->context, &end->pd), 0);
}

void rig_end_open(struct rig_end *end, const struct rig_options *given)
{
	static const struct rig_options usual;
	const struct rig_options *options = given != NULL ? given : &usual;
	struct ibv_qp_init_attr_ex attr = {0};

	memset(end, 0, sizeof(*end));
	open_device(end, options->shared);
	end->port_num = options->port_num != 0 ? options->port_num : 1;
	open_memory(end, options->mapped);
	open_queues(end, options);
	attr.qp_type = options->type != 0 ? options->type : IBV_QPT_RC;
	attr.send_cq = end->send_cq;
	attr.recv_cq = end->recv_cq;
	attr.srq = end->srq;
	attr.pd = end->pd;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.sq_sig_all = options->sig_all;
	attr.cap.max_send_wr = options->send_wr != 0 ? options->send_wr : 16;
	attr.cap.max_recv_wr = options->recv_wr != 0 ? options->recv_wr : 16;
	attr.cap.max_send_sge = 4;
	attr.cap.max_recv_sge = 4;
	attr.cap.max_inline_data = options->inl != 0 ? options->inl : 64;
	if (options->extended) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM;
	}
	assert_int_equal(sxt_soft_qp_create(end->context, &attr, &end->qp), 0);
}

void rig_end_close(struct rig_end *end)
{
	assert_int_equal(sxt_soft_qp_destroy(end->qp), 0);
	if (end->srq != NULL)
		assert_int_equal(sxt_soft_srq_destroy(end->srq), 0);
	assert_int_equal(sxt_soft_cq_destroy(end->recv_cq), 0);
	if (!end->borrows)
		assert_int_equal(sxt_soft_cq_destroy(end->send_cq), 0);
	if (end->channel != NULL)
		assert_int_equal(sxt_soft_channel_destroy(end->channel), 0);
	assert_int_equal(sxt_soft_mr_deregister(end->mr), 0);
	munmap(end->memory, end->bytes);
	if (end->borrows)
		return;
	assert_int_equal(sxt_soft_pd_dealloc(end->pd), 0);
	sxt_soft_context_close(end->context);
}

void rig_address_of(const struct rig_end *end, struct rig_address *out)
{
	memset(out, 0, sizeof(*out));
	out->qpn = end->qp->qp_num;
	out->port_num = end->port_num;
	out->addr = (uintptr_t)end->memory;
	out->rkey = end->mr->rkey;
	assert_int_equal(sxt_soft_gid_query(end->context, end->port_num, 0, &out->gid), 0);
}

void rig_to_init(struct rig_end *end, const struct rig_path *path)
{
	bool is_ud = end->qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = end->port_num,
				   .qkey = 0x11111111};

	attr.qp_access_flags = path != NULL && path->access != 0 ? path->access : ALL_ACCESS;
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr,
					    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						    (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
}

void rig_to_rtr(struct rig_end *end, const struct rig_address *peer, const struct rig_path *path)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = peer->qpn,
				   .max_dest_rd_atomic = 4};

	attr.min_rnr_timer = path != NULL && path->rnr_timer != 0 ? path->rnr_timer : 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = end->port_num;
	attr.ah_attr.grh.dgid = peer->gid;
	attr.ah_attr.grh.hop_limit = 64;
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr,
					    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC |
						    IBV_QP_MIN_RNR_TIMER),
			 0);
}

void rig_to_rts(struct rig_end *end, const struct rig_path *path)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = 1,
				   .retry_cnt = 1,
				   .max_rd_atomic = 4};

	if (path != NULL && path->timeout != 0)
		attr.timeout = path->timeout;
	if (path != NULL && path->retry_cnt != 0)
		attr.retry_cnt = path->retry_cnt;
	if (path != NULL)
		attr.rnr_retry = path->rnr_retry;
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr,
					    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						    IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void rig_connect(struct rig_end *a, struct rig_end *b, const struct rig_path *path)
{
	struct rig_address of_a;
	struct rig_address of_b;

	rig_address_of(a, &of_a);
	rig_address_of(b, &of_b);
	rig_to_init(a, path);
	rig_to_init(b, path);
	rig_to_rtr(a, &of_b, path);
	rig_to_rtr(b, &of_a, path);
	rig_to_rts(a, path);
	rig_to_rts(b, path);
}

void rig_pair_open(struct rig_pair *pair, const struct rig_options *options,
		   const struct rig_path *path)
{
	memset(pair, 0, sizeof(*pair));
	rig_end_open(&pair->a, options);
	rig_end_open(&pair->b, options);
	rig_connect(&pair->a, &pair->b, path);
	rig_address_of(&pair->b, &pair->to_b);
}

void rig_pair_close(struct rig_pair *pair)
{
	rig_end_close(&pair->a);
	rig_end_close(&pair->b);
}

void rig_pair_wr(struct rig_pair *pair, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	rig_wr(&pair->a, &pair->to_b, opcode, bytes, &pair->sge, &pair->wr);
}

void rig_pair_run(struct rig_pair *pair, enum ibv_wc_status status)
{
	assert_int_equal(rig_post(&pair->a, &pair->wr), 0);
	rig_expect(pair->a.send_cq, pair->wr.wr_id, status);
}

void rig_wr(const struct rig_end *from, const struct rig_address *to, enum ibv_wr_opcode opcode,
	    uint32_t bytes, struct ibv_sge *sge, struct ibv_send_wr *out)
{
	memset(out, 0, sizeof(*out));
	sge->addr = (uintptr_t)from->memory;
	sge->length = bytes;
	sge->lkey = from->mr->lkey;
	out->wr_id = 7;
	out->sg_list = sge;
	out->num_sge = 1;
	out->opcode = opcode;
	out->send_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		out->wr.atomic.remote_addr = to->addr;
		out->wr.atomic.rkey = to->rkey;
	} else {
		out->wr.rdma.remote_addr = to->addr;
		out->wr.rdma.rkey = to->rkey;
	}
}

int rig_post(const struct rig_end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(end->qp, wr, &bad);
}

int rig_post_recv(const struct rig_end *end, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)end->memory + offset,
			      .length = bytes,
			      .lkey = end->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad = NULL;

	if (end->srq != NULL)
		return ibv_post_srq_recv(end->srq, &wr, &bad);
	return ibv_post_recv(end->qp, &wr, &bad);
}

void rig_poll(struct ibv_cq *cq, struct ibv_wc *out)
{
	uint64_t until = sxt_soft_now_ns() + 5000000000u;
	int got;

	do {
		got = ibv_poll_cq(cq, 1, out);
	} while (got == 0 && sched_yield() == 0 && sxt_soft_now_ns() < until);
	assert_int_equal(got, 1);
}

void rig_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	rig_poll(cq, &wc);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, wr_id);
}

void rig_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

void rig_event(const struct rig_end *end, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_int_equal(sxt_soft_async_get(end->context, &event), 0);
	assert_int_equal(event.event_type, type);
	sxt_soft_async_ack(&event);
}
