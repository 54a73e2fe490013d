/*
 * test_objects.c - verbs objects of the control side: registrations, queue pairs, completion
 * queues, the library itself, and what their failures are said to mean.
 */
#include "core/log.h"
#include "ib/conn.h"
#include "ib/context.h"
#include "ib/mr.h"
#include "ib/qp.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
	int reg_errno;
	int reg_cnt;
	int dereg_cnt;
	unsigned int last_access;
	int dmabuf_fd;
	int create_cq_errno;
	int last_cqe;
	int modify_rc;
	uint32_t inline_max;
	struct ibv_qp_attr rtr;
	struct ibv_qp_attr rts;
	struct ibv_qp_attr init;
	struct ibv_async_event event;
	bool has_event;
	int acked_cnt;
} seen;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	seen.last_access = (unsigned int)access;
	if (seen.reg_errno != 0) {
		errno = seen.reg_errno;
		return NULL;
	}
	seen.reg_cnt++;
	return sxt_fake_verbs()->reg_mr(pd, addr, bytes, access);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				   unsigned int access)
{
	struct ibv_mr *mr =
		reg_mr(pd, addr, bytes, (int)(access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE));

	assert_true(iova == (uintptr_t)addr);
	seen.last_access = access;
	return mr;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
				    int fd, int access)
{
	(void)offset;
	seen.dmabuf_fd = fd;
	return reg_mr(pd, (void *)(uintptr_t)iova, bytes, access & ~(int)IBV_ACCESS_OPTIONAL_RANGE);
}

static int dereg_mr(struct ibv_mr *mr)
{
	seen.dereg_cnt++;
	return sxt_fake_verbs()->dereg_mr(mr);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *user,
				struct ibv_comp_channel *channel, int vector)
{
	seen.last_cqe = cqe;
	if (seen.create_cq_errno != 0) {
		errno = seen.create_cq_errno;
		return NULL;
	}
	return sxt_fake_verbs()->create_cq(context, cqe, user, channel, vector);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (attr->cap.max_inline_data > seen.inline_max) {
		errno = EINVAL;
		return NULL;
	}
	return sxt_fake_verbs()->create_qp(pd, attr);
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (attr->qp_state == IBV_QPS_INIT)
		seen.init = *attr;
	if (attr->qp_state == IBV_QPS_RTR && seen.modify_rc != 0)
		return seen.modify_rc;
	if (attr->qp_state == IBV_QPS_RTR)
		seen.rtr = *attr;
	if (attr->qp_state == IBV_QPS_RTS)
		seen.rts = *attr;
	return sxt_fake_verbs()->modify_qp(qp, attr, mask);
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t cnt;

	if (!seen.has_event) {
		errno = EAGAIN;
		return -1;
	}
	sxt_ignore(read(context->async_fd, &cnt, sizeof(cnt)));
	*event = seen.event;
	seen.has_event = false;
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	seen.acked_cnt++;
}

static struct sxt_port *port;
static struct sxt_nic *nic;

static int setup(void **state)
{
	rig_setup(state);
	memset(&seen, 0, sizeof(seen));
	seen.inline_max = 64;
	rig.verbs.reg_mr = reg_mr;
	rig.verbs.reg_mr_iova2 = reg_mr_iova2;
	rig.verbs.reg_dmabuf_mr = reg_dmabuf_mr;
	rig.verbs.dereg_mr = dereg_mr;
	rig.verbs.create_cq = create_cq;
	rig.verbs.create_qp = create_qp;
	rig.verbs.modify_qp = modify_qp;
	rig.verbs.get_async_event = get_async_event;
	rig.verbs.ack_async_event = ack_async_event;
	assert_int_equal(rig_start(0, true), 0);
	nic = rig.ibs[0]->nics[0];
	port = nic->ports[0];
	return 0;
}

static _Alignas(4096) char memory[16 * 4096];

static struct sxt_mr *get(size_t from, size_t bytes)
{
	const struct sxt_mr_spec spec = {.addr = memory + from, .bytes = bytes, .dmabuf_fd = -1};
	struct sxt_mr *mr = NULL;

	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), 0);
	return mr;
}

static void ranges_are_registered_by_pages_and_shared(void **state)
{
	struct sxt_mr *whole = get(4096 + 100, 3 * 4096);
	struct sxt_mr *inside = get(2 * 4096, 10);
	struct sxt_mr *apart = get(10 * 4096, 1);
	struct sxt_mr *across = get(4 * 4096, 2 * 4096);

	(void)state;
	assert_true(whole->first == (uintptr_t)memory + 4096);
	assert_true(whole->bytes == 4 * 4096);
	assert_ptr_equal(whole, inside);
	assert_ptr_not_equal(whole, apart);
	assert_ptr_not_equal(whole, across);
	assert_int_equal(seen.reg_cnt, 3);
	assert_int_equal(whole->rkeys[0], whole->verbs_mrs[0]->rkey);
	assert_int_equal(whole->lkeys[0], whole->verbs_mrs[0]->lkey);
	assert_int_equal(whole->rkeys[1], 0);
	sxt_mr_cache_put(nic, whole);
	assert_int_equal(seen.dereg_cnt, 0);
	sxt_mr_cache_put(nic, inside);
	assert_int_equal(seen.dereg_cnt, 1);
	sxt_mr_cache_put(nic, across);
	sxt_mr_cache_put(nic, apart);
	assert_int_equal(seen.dereg_cnt, 3);
	assert_int_equal(nic->mrs_cnt, 0);
	sxt_mr_cache_put(nic, NULL);
}

static void many_ranges_stay_sorted_and_are_found(void **state)
{
	struct sxt_mr *mrs[16];

	(void)state;
	for (size_t i = 0; i < 16; i++)
		mrs[i] = get((i * 7 % 16) * 4096, 4096);
	for (size_t i = 1; i < nic->mrs_cnt; i++)
		assert_true(nic->mrs[i - 1]->first < nic->mrs[i]->first);
	for (size_t i = 0; i < 16; i++)
		assert_ptr_equal(get((i * 7 % 16) * 4096 + 9, 100), mrs[i]);
	assert_int_equal(seen.reg_cnt, 16);
	for (size_t i = 0; i < 32; i++)
		sxt_mr_cache_put(nic, mrs[i % 16]);
	assert_int_equal(nic->mrs_cnt, 0);
}

static void only_data_is_relaxed(void **state)
{
	struct ibv_mr *ring = NULL;

	(void)state;
	sxt_mr_cache_put(nic, get(0, 1));
	assert_true((seen.last_access & IBV_ACCESS_RELAXED_ORDERING) != 0);
	assert_int_equal(sxt_mr_register_ring(port, memory, 4096, IBV_ACCESS_LOCAL_WRITE, "ring",
					      &ring),
			 0);
	assert_int_equal(seen.last_access, IBV_ACCESS_LOCAL_WRITE);
	sxt_mr_deregister_ring(port, ring);
	rig.config.ib_relaxed = 0;
	sxt_mr_cache_put(nic, get(0, 1));
	assert_true((seen.last_access & IBV_ACCESS_RELAXED_ORDERING) == 0);
	rig.config.ib_relaxed = 1;
	rig.verbs.reg_mr_iova2 = NULL;
	sxt_mr_cache_put(nic, get(0, 1));
	assert_true((seen.last_access & IBV_ACCESS_RELAXED_ORDERING) == 0);
}

static void a_failed_registration_leaves_nothing(void **state)
{
	struct sxt_mr_spec spec = {.addr = memory, .bytes = 4096, .dmabuf_fd = -1};
	struct sxt_mr *mr = (struct sxt_mr *)8;

	(void)state;
	seen.reg_errno = ENOMEM;
	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), -ENOMEM);
	assert_ptr_equal(mr, (struct sxt_mr *)8);
	assert_int_equal(nic->mrs_cnt, 0);
	seen.reg_errno = 0;
	spec.bytes = 0;
	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), -EINVAL);
	assert_int_equal(rig_logged("register 0 bytes"), 1);
	assert_int_equal(rig_logged("; the size must be at least 1\n"), 1);
	spec.bytes = UINT64_MAX;
	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), -EINVAL);
}

static void dmabufs_have_registrations_of_their_own(void **state)
{
	struct sxt_mr_spec spec = {.addr = memory, .bytes = 4096, .dmabuf_fd = 77};
	struct sxt_mr *plain = get(0, 4096);
	struct sxt_mr *mr = NULL;

	(void)state;
	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), 0);
	assert_int_equal(seen.dmabuf_fd, 77);
	assert_ptr_not_equal(mr, plain);
	sxt_mr_cache_put(nic, mr);
	sxt_mr_cache_put(nic, plain);
	rig.verbs.reg_dmabuf_mr = NULL;
	assert_int_equal(sxt_mr_cache_get(nic, &spec, &mr), -EOPNOTSUPP);
	assert_int_equal(rig_logged("cannot register DMA-BUFs"), 1);
}

static void leftovers_are_given_back_with_the_nic(void **state)
{
	(void)state;
	sxt_ignore(get(0, 4096)->refs);
	sxt_ib_destroy(rig.ibs[0]);
	rig.ibs[0] = NULL;
	assert_int_equal(seen.dereg_cnt, 1);
	assert_int_equal(rig_logged("1 registrations were never given back"), 1);
}

static struct ibv_cq *make_cq(void)
{
	struct ibv_cq *cq = NULL;

	assert_int_equal(sxt_verbs_create_cq(&rig.verbs, port->device->context, 64, NULL, &cq), 0);
	return cq;
}

static void settings_reach_the_queue_pair(void **state)
{
	struct sxt_qp_spec spec = {.cq = make_cq(),
				   .send_depth = 8,
				   .recv_depth = 8,
				   .inline_bytes = 256};
	struct sxt_port_place place;
	struct sxt_wire_path peer = {.qpn = 5, .psn = 6, .link_layer = 2, .mtu = 3};
	struct sxt_qp_route route = {.local = &place,
				     .peer = &peer,
				     .tclass = 106,
				     .peer_name = "somebody"};
	struct ibv_qp *qp = NULL;

	(void)state;
	rig.config.ib_timeout = 18;
	rig.config.ib_retry_cnt = 3;
	rig.config.ib_sl = 5;
	assert_int_equal(rig_locate(port, &place), 0);
	place.path.psn = 99;
	assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
	assert_int_equal(spec.inline_bytes, 64); /* refused, so less was asked for */
	assert_int_equal(seen.init.port_num, 1);
	assert_int_equal(seen.init.pkey_index, 0);
	assert_int_equal(sxt_qp_join(port, qp, &route), 0);
	assert_int_equal(seen.rtr.path_mtu, 3);
	assert_int_equal(seen.rtr.dest_qp_num, 5);
	assert_int_equal(seen.rtr.rq_psn, 6);
	assert_int_equal(seen.rtr.min_rnr_timer, 12);
	assert_int_equal(seen.rtr.ah_attr.sl, 5);
	assert_int_equal(seen.rtr.ah_attr.is_global, 1);
	assert_int_equal(seen.rtr.ah_attr.grh.hop_limit, 255);
	assert_int_equal(seen.rtr.ah_attr.grh.traffic_class, 106);
	assert_int_equal(seen.rtr.ah_attr.grh.sgid_index, place.gid_index);
	assert_int_equal(seen.rts.timeout, 18);
	assert_int_equal(seen.rts.retry_cnt, 3);
	assert_int_equal(seen.rts.rnr_retry, 7);
	assert_int_equal(seen.rts.sq_psn, 99);
	sxt_qp_destroy(port, qp);
	sxt_qp_destroy(port, NULL);
	assert_int_equal(rig.verbs.destroy_cq(spec.cq), 0);
}

/* The table of the fake one, its two entries having changed places. */
static int query_gid_moved(struct ibv_context *context, uint8_t num, int index, union ibv_gid *gid)
{
	return sxt_fake_verbs()->query_gid(context, num, index < 2 ? 1 - index : index, gid);
}

static void an_address_that_moves_while_connecting_is_found_again(void **state)
{
	struct sxt_qp_spec spec = {.cq = make_cq(), .send_depth = 8, .recv_depth = 8};
	struct sxt_wire_path peer = {.qpn = 5, .link_layer = 2, .mtu = 3};
	struct sxt_port_place place;
	struct sxt_qp_route route = {.local = &place, .peer = &peer, .peer_name = "somebody"};
	struct ibv_qp *qp = NULL;

	(void)state;
	assert_int_equal(rig_locate(port, &place), 0);
	assert_int_equal(place.gid_index, 1);
	assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
	rig.verbs.query_gid = query_gid_moved;
	assert_int_equal(sxt_qp_join(port, qp, &route), 0);
	assert_int_equal(seen.rtr.ah_attr.grh.sgid_index, 0);
	assert_int_equal(rig_logged("port fake_0: GID moved from index 1 to 0 while connecting, "
				    "which goes on with it"),
			 1);
	sxt_qp_destroy(port, qp);
	/* An address that is gone keeps its index, and the kernel has the last word. */
	assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
	place.path.gid[15] = 99;
	assert_int_equal(sxt_qp_join(port, qp, &route), 0);
	assert_int_equal(seen.rtr.ah_attr.grh.sgid_index, 1);
	sxt_qp_destroy(port, qp);
	assert_int_equal(rig.verbs.destroy_cq(spec.cq), 0);
}

/* Make a queue pair, join it, and expect where it sends. */
static void expect_destination(const struct sxt_qp_route *route, int dlid, bool is_global)
{
	struct sxt_qp_spec spec = {.cq = make_cq(), .send_depth = 8, .recv_depth = 8};
	struct ibv_qp *qp = NULL;

	assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
	assert_int_equal(sxt_qp_join(port, qp, route), 0);
	assert_int_equal(seen.rtr.ah_attr.dlid, dlid);
	assert_int_equal(seen.rtr.ah_attr.is_global, is_global);
	sxt_qp_destroy(port, qp);
	assert_int_equal(rig.verbs.destroy_cq(spec.cq), 0);
}

static void infiniband_is_addressed_by_lid_and_through_routers_by_gid(void **state)
{
	struct sxt_port_place place = {
		.path = {.link_layer = 1, .mtu = 5, .lid = 3, .gid = {0xfe, 0x80}}};
	struct sxt_wire_path peer = {
		.qpn = 5, .link_layer = 1, .mtu = 5, .lid = 9, .gid = {0xfe, 0x80}};
	const struct sxt_qp_route route = {.local = &place, .peer = &peer, .peer_name = "somebody"};

	(void)state;
	expect_destination(&route, 9, false);
	/* Another subnet, and nothing routable there: the peer's LID, with a word about it. */
	peer.gid[0] = 0xfd;
	expect_destination(&route, 9, true);
	assert_int_equal(rig_logged("1 fake_0: somebody is in another InfiniBand subnet and its "
				    "GID has no routable LID; trying its LID 9"),
			 1);
	/* A routable LID (bytes 4 and 5) says nothing about the subnet. */
	peer.gid[0] = 0xfe;
	peer.gid[4] = 0x09;
	peer.gid[5] = 0x02;
	expect_destination(&route, 9, false);
	peer.gid[7] = 2;
	expect_destination(&route, 0x902, true);
}

/* The smaller one, for this connection and no other; told once. */
static void an_mtu_is_agreed_for_each_connection(void **state)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_1024, IBV_MTU_4096, IBV_MTU_1024, IBV_MTU_512};
	struct sxt_qp_spec spec = {.cq = make_cq(), .send_depth = 8, .recv_depth = 8};
	struct sxt_wire_path peer = {.qpn = 5, .link_layer = 2, .gid_type = 2};
	struct sxt_port_place place;
	struct sxt_qp_route route = {.local = &place, .peer = &peer, .peer_name = "somebody"};

	(void)state;
	assert_int_equal(rig_locate(port, &place), 0);
	assert_int_equal(place.path.mtu, IBV_MTU_4096);
	for (size_t i = 0; i < SXT_ARRAY_LEN(mtus); i++) {
		struct ibv_qp *qp = NULL;

		peer.mtu = (uint8_t)mtus[i];
		assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
		assert_int_equal(sxt_qp_join(port, qp, &route), 0);
		assert_int_equal(seen.rtr.path_mtu, mtus[i]);
		sxt_qp_destroy(port, qp);
	}
	assert_int_equal(rig_logged("1 port fake_0 has MTU 4096 and somebody 1024: connections "
				    "between them use 1024; give both ends' interfaces the same "
				    "MTU\n"),
			 1);
	assert_int_equal(rig_logged("1 port fake_0 has MTU 4096 and somebody 512:"), 1);
	assert_int_equal(rig.verbs.destroy_cq(spec.cq), 0);
}

static void a_refused_join_says_what_it_may_mean(void **state)
{
	struct sxt_qp_spec spec = {.cq = make_cq(), .send_depth = 8, .recv_depth = 8};
	struct sxt_wire_path peer = {
		.qpn = 5, .link_layer = 2, .mtu = 3, .gid_type = 1, .gid = {[0] = 0x20, [15] = 7}};
	struct sxt_port_place place;
	struct sxt_qp_route route = {.local = &place, .peer = &peer, .peer_name = "somebody"};
	struct ibv_qp *qp = NULL;

	(void)state;
	assert_int_equal(rig_locate(port, &place), 0);
	assert_int_equal(sxt_qp_create(port, &spec, &qp), 0);
	seen.modify_rc = ETIMEDOUT;
	assert_int_equal(sxt_qp_join(port, qp, &route), -ETIMEDOUT);
	assert_int_equal(rig_logged("modify to RTR: Connection timed out"), 1);
	assert_int_equal(rig_logged("to somebody qp 0x5 GID 2000::7"), 1);
	assert_int_equal(rig_logged("nobody answered for the peer's address"), 1);
	seen.modify_rc = EINVAL;
	assert_int_equal(sxt_qp_join(port, qp, &route), -EINVAL);
	assert_int_equal(rig_logged("different RoCE versions"), 1);
	sxt_qp_destroy(port, qp);
	assert_int_equal(rig.verbs.destroy_cq(spec.cq), 0);
}

static void a_cq_admits_until_it_is_full(void **state)
{
	struct sxt_context *ctx;
	struct sxt_cq *first = NULL;
	struct sxt_cq *second = NULL;
	struct sxt_cq *third = NULL;

	(void)state;
	assert_int_equal(sxt_context_create(rig.ibs[0], -1, &ctx), 0);
	assert_int_equal(sxt_context_cq_get(ctx, port, 20000, 0, &first), 0);
	assert_int_equal(seen.last_cqe, 26624);
	assert_int_equal(sxt_context_cq_get(ctx, port, 6624, 0, &second), 0);
	assert_ptr_equal(first, second);
	assert_int_equal(sxt_context_cq_get(ctx, port, 1, 0, &third), 0);
	assert_ptr_not_equal(first, third);
	sxt_context_cq_put(ctx, second, 6624);
	assert_int_equal(sxt_context_cq_get(ctx, port, 6000, 0, &second), 0);
	assert_ptr_equal(first, second);
	/* Another port's queue pairs go elsewhere. */
	assert_int_equal(sxt_context_cq_get(ctx, rig.ibs[0]->ports[1], 1, 0, &second), 0);
	assert_ptr_not_equal(second, first);
	sxt_context_cq_put(ctx, NULL, 5);
	sxt_context_destroy(ctx);
}

static void a_private_cq_is_just_large_enough(void **state)
{
	struct sxt_context *ctx;
	struct sxt_cq *cq = NULL;

	(void)state;
	assert_int_equal(sxt_context_create(rig.ibs[0], -1, &ctx), 0);
	ctx->is_private = true;
	assert_int_equal(sxt_context_cq_get(ctx, port, 300, 0, &cq), 0);
	assert_int_equal(seen.last_cqe, 300);
	sxt_context_cq_put(ctx, cq, 300);
	/* Of four queue pairs on one port, one by one. */
	for (uint32_t more = 4; more-- > 0;) {
		struct sxt_cq *same = NULL;

		assert_int_equal(sxt_context_cq_get(ctx, port, 400, more, &same), 0);
		assert_int_equal(seen.last_cqe, 1600);
		assert_true(more == 3 || same == cq);
		cq = same;
	}
	sxt_context_cq_put(ctx, cq, 1600);
	seen.create_cq_errno = ENOMEM;
	assert_int_equal(sxt_context_cq_get(ctx, port, 1601, 0, &cq), -ENOMEM);
	assert_int_equal(rig_logged("create a completion queue of 1601 entries on fake_0"), 1);
	sxt_context_destroy(ctx);
}

static void slots_are_given_and_taken_back(void **state)
{
	struct sxt_conn conns[40];
	struct sxt_context *ctx;
	uint32_t slot = 0;

	(void)state;
	assert_int_equal(sxt_context_create(rig.ibs[0], -1, &ctx), 0);
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(sxt_context_add_conn(ctx, &conns[i], &slot), 0);
		assert_int_equal(slot, i);
	}
	sxt_context_own(ctx);
	assert_false(sxt_context_try_own(ctx));
	sxt_context_remove_conn(ctx, 7);
	sxt_context_disown(ctx);
	assert_int_equal(sxt_context_add_conn(ctx, &conns[7], &slot), 0);
	assert_int_equal(slot, 7);
	for (uint32_t i = 0; i < 40; i++)
		sxt_context_remove_conn(ctx, i);
	sxt_context_destroy(ctx);
}

static void a_missing_library_names_the_package(void **state)
{
	const struct sxt_config missing = {.ibverbs_lib = "libibverbs-not-there.so.1"};
	const struct sxt_config other = {.ibverbs_lib = "libm.so.6"};
	struct sxt_verbs verbs = {0};

	(void)state;
	assert_int_equal(sxt_verbs_open(&missing, &verbs), -ENOENT);
	assert_int_equal(rig_logged("libibverbs-not-there.so.1 cannot be opened"), 1);
	assert_true(rig_logged("libibverbs1") >= 1);
	assert_int_equal(sxt_verbs_open(&other, &verbs), -ENOSYS);
	assert_true(rig_logged("ibv_get_device_list") >= 1);
	assert_null(verbs.library);
}

/* Let the watcher meet an event of the fake's first device. */
static void raise_event(enum ibv_event_type type)
{
	uint64_t one = 1;

	seen.event.event_type = type;
	seen.has_event = true;
	assert_int_equal(write(port->device->context->async_fd, &one, sizeof(one)), sizeof(one));
	for (int i = 0; i < 10; i++)
		rig_turn();
	assert_false(seen.has_event);
}

static void async_events_leave_notes_and_are_acknowledged(void **state)
{
	struct rig_link link;

	(void)state;
	port->device->context->async_fd = eventfd(0, EFD_NONBLOCK);
	rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
	rig_join(&link);
	raise_event(IBV_EVENT_COMM_EST);
	raise_event(IBV_EVENT_SQ_DRAINED);
	raise_event(IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(rig_logged("async event"), 0);
	raise_event(IBV_EVENT_SRQ_ERR);
	assert_int_equal(rig_logged("\n1 HCA fake_0: "), 1);
	assert_int_equal(rig_logged("no shared receive queue: a bug of Sextant"), 1);
	raise_event(IBV_EVENT_WQ_FATAL);
	raise_event(IBV_EVENT_WQ_FATAL);
	raise_event((enum ibv_event_type)77);
	assert_int_equal(rig_logged("\n2 HCA fake_0: async event 19 "), 1);
	assert_int_equal(rig_logged("\n2 HCA fake_0: async event 77 "), 1);
	seen.event.element.port_num = 1;
	raise_event(IBV_EVENT_PORT_ERR);
	assert_int_equal(rig_logged("\n1 port fake_0:1: "), 1);
	assert_int_not_equal(port->lost_ns, 0);
	raise_event(IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(rig_logged("\n2 port fake_0:1: "), 1);
	seen.event.element.port_num = 2;
	raise_event(IBV_EVENT_PORT_ERR); /* of a port that is left out */
	assert_int_equal(rig_logged(" port fake_0:2"), 0);
	assert_int_equal(link.send->notes | link.recv->notes, 0);
	seen.event.element.qp = link.send->paths[0].qp;
	raise_event(IBV_EVENT_QP_FATAL);
	assert_int_equal(link.send->notes, SXT_NOTE_FAILED);
	assert_int_equal(link.send->note_error, -EREMOTEIO);
	assert_int_equal(link.recv->notes, 0);
	assert_int_equal(seen.acked_cnt, 11);
	sxt_conn_close(link.send);
	sxt_conn_close(link.recv);
	close(port->device->context->async_fd);
	port->device->context->async_fd = -1;
}

static int broken_events(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	(void)event;
	errno = EIO;
	return -1;
}

static void a_broken_event_descriptor_is_told_once(void **state)
{
	struct sxt_wire_handle handle;
	struct sxt_listener *listener;

	(void)state;
	rig.verbs.get_async_event = broken_events;
	port->device->context->async_fd = eventfd(1, EFD_NONBLOCK);
	assert_int_equal(sxt_listen(rig.ibs[0], NULL, 0, &handle, &listener), 0);
	for (int i = 0; i < 10; i++)
		rig_turn();
	assert_int_equal(rig_logged("reading its async events: Input/output error"), 1);
	sxt_listener_close(listener);
	close(port->device->context->async_fd);
	port->device->context->async_fd = -1;
}

/* The first device is dead, and so is the second now; NCCL still finds both. */
static void expect_refused_at_once(void)
{
	struct sxt_nic_props props;
	struct sxt_wire_handle handle;
	struct sxt_listener *listener;
	struct sxt_conn *conn = NULL;

	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 2);
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 0, &props), 0);
	assert_int_equal(sxt_listen(rig.ibs[0], NULL, 0, &handle, &listener), 0);
	rig.ibs[0]->ports[1]->device->is_dead = 1;
	assert_int_equal(sxt_connect(rig.ibs[0], NULL, 0, -1, &handle, &conn), -ENODEV);
	assert_null(conn);
	assert_int_equal(rig_logged("0 connect: an HCA of fake_0 failed for good (device fatal"),
			 1);
	sxt_listener_close(listener);
	assert_int_equal(sxt_listen(rig.ibs[0], NULL, 0, &handle, &listener), -ENODEV);
	assert_int_equal(rig_logged("0 listen: an HCA of fake_0 failed for good"), 1);
}

static void a_lost_device_or_cq_fails_what_hangs_on_it(void **state)
{
	struct rig_link link;

	(void)state;
	port->device->context->async_fd = eventfd(0, EFD_NONBLOCK);
	for (int i = 0; i < 2; i++) {
		rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
		rig_join(&link); /* the sending end is on the first device */
		seen.event.element.cq = link.send->paths[0].cq->cq;
		raise_event(i == 0 ? IBV_EVENT_CQ_ERR : IBV_EVENT_DEVICE_FATAL);
		assert_int_equal(link.send->notes, SXT_NOTE_FAILED);
		assert_int_equal(link.send->note_error, i == 0 ? -EIO : -ENODEV);
		assert_int_equal(link.recv->notes, 0);
		sxt_conn_close(link.send);
		sxt_conn_close(link.recv);
	}
	expect_refused_at_once();
	close(port->device->context->async_fd);
	port->device->context->async_fd = -1;
}

static void fatal_events_can_be_only_logged(void **state)
{
	struct rig_link link;

	(void)state;
	rig.config.ib_return_async_events = 0;
	port->device->context->async_fd = eventfd(0, EFD_NONBLOCK);
	rig_listen(&link, rig.ibs[0], rig.ibs[0], NULL);
	rig_join(&link);
	seen.event.element.qp = link.send->paths[0].qp;
	raise_event(IBV_EVENT_QP_FATAL);
	raise_event(IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(rig_logged("go on (NCCL_IB_RETURN_ASYNC_EVENTS=0)"), 2);
	assert_int_equal(link.send->notes | link.recv->notes, 0);
	sxt_conn_close(link.send);
	sxt_conn_close(link.recv);
	close(port->device->context->async_fd);
	port->device->context->async_fd = -1;
}

#define OBJECT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OBJECT_TEST(ranges_are_registered_by_pages_and_shared),
		OBJECT_TEST(many_ranges_stay_sorted_and_are_found),
		OBJECT_TEST(only_data_is_relaxed),
		OBJECT_TEST(a_failed_registration_leaves_nothing),
		OBJECT_TEST(dmabufs_have_registrations_of_their_own),
		OBJECT_TEST(leftovers_are_given_back_with_the_nic),
		OBJECT_TEST(settings_reach_the_queue_pair),
		OBJECT_TEST(an_address_that_moves_while_connecting_is_found_again),
		OBJECT_TEST(infiniband_is_addressed_by_lid_and_through_routers_by_gid),
		OBJECT_TEST(an_mtu_is_agreed_for_each_connection),
		OBJECT_TEST(a_refused_join_says_what_it_may_mean),
		OBJECT_TEST(a_cq_admits_until_it_is_full),
		OBJECT_TEST(a_private_cq_is_just_large_enough),
		OBJECT_TEST(slots_are_given_and_taken_back),
		OBJECT_TEST(a_missing_library_names_the_package),
		OBJECT_TEST(async_events_leave_notes_and_are_acknowledged),
		OBJECT_TEST(a_broken_event_descriptor_is_told_once),
		OBJECT_TEST(a_lost_device_or_cq_fails_what_hangs_on_it),
		OBJECT_TEST(fatal_events_can_be_only_logged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
