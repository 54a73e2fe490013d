/*
 * test_srq_ud.c - shared receive queues, datagrams, and memory that is registered.
 */
#include "tests/unit/ib/soft/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define GRH_BYTES 40u

static void two_senders_share_the_receives(void **state)
{
	struct rig_options options = {.with_srq = true};
	struct rig_pair pair;
	struct rig_pair other;
	struct ibv_wc wc;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	rig_pair_open(&other, NULL, NULL);
	assert_int_equal(sxt_soft_srq_destroy(pair.b.srq), -EBUSY);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(rig_post_recv(&pair.b, i, 64 * i, 64), 0);
	assert_int_equal(rig_post_recv(&pair.b, 16, 0, 64), ENOMEM);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	for (uint64_t i = 0; i < 16; i++) {
		pair.a.memory[0] = (uint8_t)(i + 1);
		rig_pair_run(&pair, IBV_WC_SUCCESS);
		rig_poll(pair.b.recv_cq, &wc);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, pair.b.qp->qp_num);
		assert_int_equal(pair.b.memory[64 * i], i + 1);
	}
	rig_pair_close(&other);
	rig_pair_close(&pair);
}

static void a_low_srq_tells_once(void **state)
{
	struct rig_options options = {.with_srq = true};
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(rig_post_recv(&pair.b, i, 0, 64), 0);
	assert_int_equal(sxt_soft_srq_modify(pair.b.srq, &attr, IBV_SRQ_MAX_WR), -EOPNOTSUPP);
	assert_int_equal(sxt_soft_srq_modify(pair.b.srq, &attr, IBV_SRQ_LIMIT), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	for (int i = 0; i < 3; i++)
		rig_pair_run(&pair, IBV_WC_SUCCESS);
	rig_event(&pair.b, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(sxt_soft_srq_query(pair.b.srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	rig_pair_close(&pair);
}

static void a_failed_qp_leaves_the_srq_alone(void **state)
{
	struct rig_options options = {.with_srq = true};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rig_pair pair;

	(void)state;
	rig_pair_open(&pair, &options, NULL);
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 64), 0);
	assert_int_equal(sxt_soft_qp_modify(pair.b.qp, &attr, IBV_QP_STATE), 0);
	rig_event(&pair.b, IBV_EVENT_QP_LAST_WQE_REACHED);
	rig_nothing(pair.b.recv_cq);
	rig_pair_close(&pair);
}

struct ud {
	struct rig_end a;
	struct rig_end b;
	struct rig_address to_b;
	struct ibv_ah *ah;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

static void ud_ready(struct rig_end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

	rig_to_init(end, NULL);
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr, IBV_QP_STATE), -EINVAL);
	assert_int_equal(sxt_soft_qp_modify(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void ud_open(struct ud *ud)
{
	struct rig_options options = {.type = IBV_QPT_UD};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	memset(ud, 0, sizeof(*ud));
	rig_end_open(&ud->a, &options);
	options.port_num = 2;
	rig_end_open(&ud->b, &options);
	ud_ready(&ud->a);
	ud_ready(&ud->b);
	rig_address_of(&ud->b, &ud->to_b);
	attr.grh.dgid = ud->to_b.gid;
	assert_int_equal(sxt_soft_ah_create(ud->a.pd, &attr, &ud->ah), 0);
	rig_wr(&ud->a, &ud->to_b, IBV_WR_SEND, 100, &ud->sge, &ud->wr);
	ud->wr.wr.ud.ah = ud->ah;
	ud->wr.wr.ud.remote_qpn = ud->to_b.qpn;
	ud->wr.wr.ud.remote_qkey = 0x11111111;
}

static void ud_close(struct ud *ud)
{
	assert_int_equal(sxt_soft_ah_destroy(ud->ah), 0);
	rig_end_close(&ud->a);
	rig_end_close(&ud->b);
}

static void a_datagram_comes_with_its_header(void **state)
{
	struct ibv_ah_attr back;
	struct rig_address to_a;
	struct ibv_wc wc;
	struct ud ud;

	(void)state;
	ud_open(&ud);
	memset(ud.a.memory, 0x66, 100);
	assert_int_equal(rig_post_recv(&ud.b, 1, 0, GRH_BYTES + 100), 0);
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0);
	rig_expect(ud.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_poll(ud.b.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH_BYTES + 100);
	assert_int_equal(wc.src_qp, ud.a.qp->qp_num);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	assert_int_equal(ud.b.memory[GRH_BYTES], 0x66);
	assert_int_equal(ud.b.memory[GRH_BYTES + 99], 0x66);
	rig_address_of(&ud.a, &to_a);
	assert_int_equal(sxt_soft_ah_attr_from_wc(ud.b.context, 2, &wc,
						  (struct ibv_grh *)(void *)ud.b.memory, &back),
			 0);
	assert_memory_equal(back.grh.dgid.raw, to_a.gid.raw, 16);
	ud_close(&ud);
}

static void datagrams_nobody_takes_are_dropped(void **state)
{
	struct ud ud;

	(void)state;
	ud_open(&ud);
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0); /* no receive */
	rig_expect(ud.a.send_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(rig_post_recv(&ud.b, 1, 0, 4096), 0);
	ud.wr.wr.ud.remote_qkey = 0x22222222;
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0);
	rig_expect(ud.a.send_cq, 7, IBV_WC_SUCCESS);
	ud.wr.wr.ud.remote_qkey = 0x11111111;
	ud.wr.wr.ud.remote_qpn ^= 1;
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0);
	rig_expect(ud.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_nothing(ud.b.recv_cq);
	ud.wr.wr.ud.remote_qpn ^= 1;
	atomic_store(&rig_shared()->ports[0].drop, 1);
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0);
	atomic_store(&rig_shared()->ports[0].drop, 0);
	rig_expect(ud.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_shared()->ports[0].network_id = 1;
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0);
	rig_shared()->ports[0].network_id = 0;
	rig_expect(ud.a.send_cq, 7, IBV_WC_SUCCESS);
	rig_nothing(ud.b.recv_cq);
	ud.sge.length = 4097; /* above the MTU */
	assert_int_equal(rig_post(&ud.a, &ud.wr), 0);
	rig_expect(ud.a.send_cq, 7, IBV_WC_LOC_LEN_ERR);
	ud_close(&ud);
}

static void memory_that_is_not_there_is_refused(void **state)
{
	struct sxt_soft_mr_request request = {.access = IBV_ACCESS_LOCAL_WRITE,
					      .dmabuf_fd = -1,
					      .length = 8192};
	struct rig_end end;
	struct ibv_mr *mr = NULL;

	(void)state;
	rig_end_open(&end, NULL);
	request.addr = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(request.addr != MAP_FAILED);
	assert_int_equal(munmap((uint8_t *)request.addr + 4096, 4096), 0);
	assert_int_equal(sxt_soft_mr_register(end.pd, &request, &mr), -EFAULT);
	request.length = 4096;
	assert_int_equal(mprotect(request.addr, 4096, PROT_READ), 0);
	assert_int_equal(sxt_soft_mr_register(end.pd, &request, &mr), -EFAULT);
	request.access = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(sxt_soft_mr_register(end.pd, &request, &mr), 0);
	assert_int_equal(sxt_soft_mr_deregister(mr), 0);
	request.access = 1u << 15;
	assert_int_equal(sxt_soft_mr_register(end.pd, &request, &mr), -EINVAL);
	request.access = 0;
	request.length = SIZE_MAX;
	assert_int_equal(sxt_soft_mr_register(end.pd, &request, &mr), -EINVAL);
	munmap(request.addr, 4096);
	rig_end_close(&end);
}

static void a_descriptor_that_maps_can_be_registered(void **state)
{
	struct sxt_soft_mr_request request = {.access = IBV_ACCESS_LOCAL_WRITE |
							IBV_ACCESS_REMOTE_WRITE,
					      .dmabuf_offset = 100,
					      .iova = 100,
					      .length = 1000};
	struct rig_pair pair;
	struct ibv_mr *mr;
	uint8_t byte;
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	rig_pair_open(&pair, NULL, NULL);
	request.dmabuf_fd = fd;
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), 0);
	pair.a.memory[0] = 0x3c;
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 1);
	pair.wr.wr.rdma.remote_addr = 105;
	pair.wr.wr.rdma.rkey = mr->rkey;
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_int_equal(pread(fd, &byte, 1, 105), 1);
	assert_int_equal(byte, 0x3c);
	assert_int_equal(sxt_soft_mr_deregister(mr), 0);
	request.dmabuf_offset = 8000;
	request.iova = 8000;
	assert_int_equal(sxt_soft_mr_register(pair.b.pd, &request, &mr), -EINVAL);
	rig_pair_close(&pair);
	close(fd);
}

static void what_a_program_leaves_goes_with_its_context(void **state)
{
	struct rig_options options = {.with_srq = true};
	struct rig_end end;

	(void)state;
	rig_end_open(&end, &options);
	sxt_soft_context_close(end.context);
	assert_int_equal(sxt_soft_pd_dealloc(end.pd), 0);
	munmap(end.memory, end.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(two_senders_share_the_receives),
		RIG_TEST(a_low_srq_tells_once),
		RIG_TEST(a_failed_qp_leaves_the_srq_alone),
		RIG_TEST(a_datagram_comes_with_its_header),
		RIG_TEST(datagrams_nobody_takes_are_dropped),
		RIG_TEST(memory_that_is_not_there_is_refused),
		RIG_TEST(a_descriptor_that_maps_can_be_registered),
		RIG_TEST(what_a_program_leaves_goes_with_its_context),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
