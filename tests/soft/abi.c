/*
 * abi.c - the libibverbs ABI of the software HCA, as a linked program sees it.
 *
 * Run by `sextant soft run`: return conventions, sizes that differ between caller and library,
 * verbs that are refused, and the old and private symbols.
 */
#include "core/compiler.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES 4096

static struct ibv_device **devices;
static struct ibv_context *context;
static struct ibv_pd *pd;
static char memory[BYTES];

static int set_up(void **state)
{
	(void)state;
	devices = ibv_get_device_list(NULL);
	if (devices == NULL || devices[0] == NULL)
		return -1;
	context = ibv_open_device(devices[0]);
	if (context == NULL)
		return -1;
	pd = ibv_alloc_pd(context);
	return pd == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0)
		return -1;
	ibv_free_device_list(devices);
	return 0;
}

static void *exported(const char *name, const char *version)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *symbol;

	assert_non_null(library);
	symbol = dlvsym(library, name, version);
	dlclose(library);
	return symbol;
}

static void list_is_counted_and_terminated(void **state)
{
	struct ibv_device **list;
	int cnt = -1;

	(void)state;
	list = ibv_get_device_list(&cnt);
	assert_non_null(list);
	assert_true(cnt > 0);
	assert_null(list[cnt]);
	for (int i = 0; i < cnt; i++) {
		assert_non_null(ibv_get_device_name(list[i]));
		assert_true(ibv_get_device_guid(list[i]) != 0);
		assert_true(ibv_get_device_index(list[i]) >= 0);
	}
	ibv_free_device_list(list);
}

static void context_is_extended(void **state)
{
	struct verbs_context *verbs = verbs_get_ctx(context);

	(void)state;
	assert_non_null(verbs);
	assert_int_equal(verbs->sz, sizeof(*verbs));
	assert_ptr_equal(&verbs->context, context);
	assert_true(context->num_comp_vectors > 0);
}

static void port_attributes_fit_callers_of_any_age(void **state)
{
	int (*old_query)(struct ibv_context *, uint8_t, void *) =
		(int (*)(struct ibv_context *, uint8_t, void *))exported("ibv_query_port",
									 "IBVERBS_1.1");
	struct ibv_port_attr now;
	unsigned char then[sizeof(struct ibv_port_attr)];
	size_t then_bytes = offsetof(struct ibv_port_attr, port_cap_flags2);

	(void)state;
	assert_int_equal(ibv_query_port(context, 1, &now), 0);
	assert_int_equal(now.state, IBV_PORT_ACTIVE);
	memset(then, 0xa5, sizeof(then));
	assert_int_equal(old_query(context, 1, then), 0);
	assert_memory_equal(then, &now, then_bytes);
	for (size_t i = then_bytes; i < sizeof(then); i++)
		assert_int_equal(then[i], 0xa5);
	assert_int_equal(ibv_query_port(context, 0, &now), EINVAL);
	assert_int_equal(ibv_query_port(context, 99, &now), EINVAL);
}

static void gid_queries_keep_their_conventions(void **state)
{
	struct {
		struct ibv_gid_entry entry;
		uint64_t later;
	} wide[64];
	struct ibv_gid_entry table[64];
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	ssize_t cnt;

	(void)state;
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	errno = 0;
	assert_int_equal(ibv_query_gid(context, 1, 100000, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	assert_memory_equal(&entry.gid, &gid, sizeof(gid));
	assert_int_equal(ibv_query_gid_ex(context, 1, 100000, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 1), EOPNOTSUPP);

	cnt = ibv_query_gid_table(context, table, SXT_ARRAY_LEN(table), 0);
	assert_true(cnt > 1);
	assert_int_equal(ibv_query_gid_table(context, table, 1, 0), -EINVAL);
	memset(wide, 0xa5, sizeof(wide));
	assert_int_equal(_ibv_query_gid_table(context, &wide[0].entry, SXT_ARRAY_LEN(wide), 0,
					      sizeof(wide[0])),
			 cnt);
	for (ssize_t i = 0; i < cnt; i++) {
		assert_memory_equal(&wide[i].entry, &table[i], sizeof(table[i]));
		assert_int_equal(wide[i].later, 0);
	}
	assert_int_equal(_ibv_query_gid_table(context, table, 1, 0, sizeof(table[0]) - 1), -EINVAL);
}

static void pkeys_are_found_by_value(void **state)
{
	__be16 pkey;

	(void)state;
	assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(ibv_get_pkey_index(context, 1, pkey), 0);
	assert_int_equal(ibv_get_pkey_index(context, 1, 0x1234), -1);
	errno = 0;
	assert_int_equal(ibv_query_pkey(context, 1, 100000, &pkey), -1);
	assert_int_equal(errno, EINVAL);
}

static void failing_creators_set_errno(void **state)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};

	(void)state;
	errno = 0;
	assert_null(ibv_create_cq(context, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_create_qp(pd, &init));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_dmabuf_mr(pd, 0, BYTES, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EBADF);
}

static void busy_objects_answer_ebusy(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	assert_non_null(mr);
	assert_int_equal(mr->length, BYTES);
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	errno = 0;
	assert_true(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void refused_verbs_say_so(void **state)
{
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_td_init_attr td = {0};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};

	(void)state;
	errno = 0;
	assert_null(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_alloc_dm(context, &dm));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_alloc_td(context, &td));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_open_xrcd(context, &xrcd));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_import_pd(context, 0));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EOPNOTSUPP);
}

static void ece_and_multicast_are_refused(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	union ibv_gid group = {.raw = {0xff, 0x0e}};
	struct ibv_ece ece = {0};
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(cq);
	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_query_ece(qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), EOPNOTSUPP);
	assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void basic_srqs_come_by_the_extended_verb_too(void **state)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);
	uint32_t number = 0;

	(void)state;
	assert_non_null(srq);
	assert_true(init.attr.max_wr >= 4);
	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.srq_type = IBV_SRQT_XRC;
	errno = 0;
	assert_null(ibv_create_srq_ex(context, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void old_symbols_refuse_and_private_ones_are_harmless(void **state)
{
	int (*old_query)(void) = (int (*)(void))exported("ibv_query_device", "IBVERBS_1.0");
	void *(*old_open)(void) = (void *(*)(void))exported("ibv_open_device", "IBVERBS_1.0");
	void (*enlist)(const void *) =
		(void (*)(const void *))exported("verbs_register_driver_34", "IBVERBS_PRIVATE_34");
	int (*command)(void) = (int (*)(void))exported("ibv_cmd_alloc_pd", "IBVERBS_PRIVATE_34");
	int (*gid_type)(struct ibv_context *, uint8_t, unsigned int, int *) =
		(int (*)(struct ibv_context *, uint8_t, unsigned int,
			 int *))exported("ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	struct ibv_gid_entry entry;
	int type = -1;

	(void)state;
	assert_int_equal(old_query(), ENOSYS);
	errno = 0;
	assert_null(old_open());
	assert_int_equal(errno, ENOSYS);
	enlist(NULL);
	assert_int_equal(command(), EOPNOTSUPP);
	for (uint32_t i = 0; ibv_query_gid_ex(context, 1, i, &entry, 0) == 0; i++) {
		assert_int_equal(gid_type(context, 1, i, &type), 0);
		assert_int_equal(type, entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0);
	}
	assert_true(type >= 0);
}

static void forks_need_nothing(void **state)
{
	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_is_counted_and_terminated),
		cmocka_unit_test(context_is_extended),
		cmocka_unit_test(port_attributes_fit_callers_of_any_age),
		cmocka_unit_test(gid_queries_keep_their_conventions),
		cmocka_unit_test(pkeys_are_found_by_value),
		cmocka_unit_test(failing_creators_set_errno),
		cmocka_unit_test(busy_objects_answer_ebusy),
		cmocka_unit_test(refused_verbs_say_so),
		cmocka_unit_test(ece_and_multicast_are_refused),
		cmocka_unit_test(basic_srqs_come_by_the_extended_verb_too),
		cmocka_unit_test(old_symbols_refuse_and_private_ones_are_harmless),
		cmocka_unit_test(forks_need_nothing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
