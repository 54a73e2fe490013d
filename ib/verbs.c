/*
 * verbs.c - opening the verbs library, and the one place that turns its results into -errno.
 */
#include "ib/verbs.h"

#include "core/dl.h"
#include "core/log.h"
#include "core/status.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define ROW(member, symbol, node)                                       \
	{                                                               \
		offsetof(struct sxt_verbs, member), symbol, node, false \
	}
#define OPT(member, symbol, node)                                      \
	{                                                              \
		offsetof(struct sxt_verbs, member), symbol, node, true \
	}

static const struct sxt_dl_symbol symbols[] = {
	OPT(fork_init, "ibv_fork_init", "IBVERBS_1.1"),
	ROW(get_device_list, "ibv_get_device_list", "IBVERBS_1.1"),
	ROW(free_device_list, "ibv_free_device_list", "IBVERBS_1.1"),
	ROW(get_device_name, "ibv_get_device_name", "IBVERBS_1.1"),
	ROW(get_device_guid, "ibv_get_device_guid", "IBVERBS_1.1"),
	ROW(open_device, "ibv_open_device", "IBVERBS_1.1"),
	ROW(close_device, "ibv_close_device", "IBVERBS_1.1"),
	ROW(query_device, "ibv_query_device", "IBVERBS_1.1"),
	ROW(query_port, "ibv_query_port", "IBVERBS_1.1"),
	OPT(query_port_speed, "ibv_query_port_speed", "IBVERBS_1.16"),
	ROW(query_gid, "ibv_query_gid", "IBVERBS_1.1"),
	OPT(query_gid_ex, "_ibv_query_gid_ex", "IBVERBS_1.11"),
	OPT(query_gid_table, "_ibv_query_gid_table", "IBVERBS_1.11"),
	OPT(query_pkey, "ibv_query_pkey", "IBVERBS_1.1"),
	ROW(alloc_pd, "ibv_alloc_pd", "IBVERBS_1.1"),
	ROW(dealloc_pd, "ibv_dealloc_pd", "IBVERBS_1.1"),
	ROW(reg_mr, "ibv_reg_mr", "IBVERBS_1.1"),
	OPT(reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8"),
	OPT(reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12"),
	ROW(dereg_mr, "ibv_dereg_mr", "IBVERBS_1.1"),
	ROW(create_cq, "ibv_create_cq", "IBVERBS_1.1"),
	ROW(destroy_cq, "ibv_destroy_cq", "IBVERBS_1.1"),
	ROW(create_qp, "ibv_create_qp", "IBVERBS_1.1"),
	ROW(modify_qp, "ibv_modify_qp", "IBVERBS_1.1"),
	OPT(query_ece, "ibv_query_ece", "IBVERBS_1.10"),
	OPT(set_ece, "ibv_set_ece", "IBVERBS_1.10"),
	ROW(destroy_qp, "ibv_destroy_qp", "IBVERBS_1.1"),
	ROW(get_async_event, "ibv_get_async_event", "IBVERBS_1.1"),
	ROW(ack_async_event, "ibv_ack_async_event", "IBVERBS_1.1"),
	ROW(wc_status_str, "ibv_wc_status_str", "IBVERBS_1.1"),
	ROW(event_type_str, "ibv_event_type_str", "IBVERBS_1.1"),
	{0, NULL, NULL, false},
};

/*
 * Jobs fork (data loaders do). Before Linux 5.12 a child's copy-on-write may then take a registered
 * page away from the HCA; the library marks such pages if it is told before the first registration.
 */
static void protect_from_fork(const struct sxt_verbs *verbs)
{
	int rc = verbs->fork_init != NULL ? verbs->fork_init() : 0;

	if (rc != 0)
		SXT_LOG(SXT_LOG_INFO,
			"fork protection is not on (ibv_fork_init: %s): memory was registered "
			"before this plugin was loaded; it matters before Linux 5.12 only",
			sxt_strerror(rc));
}

int sxt_verbs_open(const struct sxt_config *config, struct sxt_verbs *out)
{
	struct sxt_verbs verbs = {0};
	char why[512] = "";
	int rc;

	rc = sxt_dl_open(config->ibverbs_lib, symbols, &verbs, &verbs.library, why, sizeof(why));
	if (rc == -ENOENT)
		SXT_LOG(SXT_LOG_ERROR,
			"verbs library %s cannot be opened: %s; install it (Debian and Ubuntu: "
			"libibverbs1 and ibverbs-providers, RHEL and SUSE: libibverbs) or name "
			"another file in NCCL_IBVERBS_LIB",
			config->ibverbs_lib, why);
	else if (rc != 0)
		SXT_LOG(SXT_LOG_ERROR,
			"verbs library %s is no libibverbs that can be used: %s; rdma-core 17 or "
			"newer is needed",
			config->ibverbs_lib, why);
	if (rc != 0)
		return rc;
	protect_from_fork(&verbs);
	*out = verbs;
	return 0;
}

void sxt_verbs_close(struct sxt_verbs *verbs)
{
	sxt_dl_close(verbs->library);
	memset(verbs, 0, sizeof(*verbs));
}

/* A call that answers with a pointer, and leaves errno where it has none. */
static int error_of_null(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* A call that answers 0, an errno, or -1 with errno set. */
static int error_of_int(int result)
{
	if (result == 0)
		return 0;
	return result > 0 ? -result : error_of_null();
}

int sxt_verbs_device_list(const struct sxt_verbs *verbs, struct ibv_device ***list_out,
			  int *cnt_out)
{
	struct ibv_device **list;
	int cnt = 0;

	errno = 0;
	list = verbs->get_device_list(&cnt);
	if (list == NULL)
		return error_of_null();
	*list_out = list;
	*cnt_out = cnt;
	return 0;
}

int sxt_verbs_open_device(const struct sxt_verbs *verbs, struct ibv_device *device,
			  struct ibv_context **out)
{
	struct ibv_context *context;

	errno = 0;
	context = verbs->open_device(device);
	if (context == NULL)
		return error_of_null();
	*out = context;
	return 0;
}

int sxt_verbs_query_device(const struct sxt_verbs *verbs, struct ibv_context *context,
			   struct ibv_device_attr *out)
{
	struct ibv_device_attr attr = {0};
	int rc;

	errno = 0;
	rc = error_of_int(verbs->query_device(context, &attr));
	if (rc == 0)
		*out = attr;
	return rc;
}

int sxt_verbs_query_port(const struct sxt_verbs *verbs, struct ibv_context *context, uint8_t port,
			 struct ibv_port_attr *out)
{
	const struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);
	struct ibv_port_attr attr = {0};
	int result;
	int rc;

	/* The library's symbol is the old ABI, which ends before flags and port_cap_flags2. */
	errno = 0;
	if (vctx != NULL)
		result = vctx->query_port(context, port, &attr, sizeof(attr));
	else
		result = verbs->query_port(context, port, &attr);
	rc = error_of_int(result);
	if (rc == 0)
		*out = attr;
	return rc;
}

int sxt_verbs_query_port_speed(const struct sxt_verbs *verbs, struct ibv_context *context,
			       uint8_t port, uint32_t *mbps_out)
{
	uint64_t speed_100mbps = 0;
	int rc;

	if (verbs->query_port_speed == NULL)
		return -EOPNOTSUPP;
	errno = 0;
	rc = error_of_int(verbs->query_port_speed(context, port, &speed_100mbps));
	if (rc == 0 && speed_100mbps > UINT32_MAX / 100)
		rc = -ERANGE;
	if (rc == 0)
		*mbps_out = (uint32_t)speed_100mbps * 100;
	return rc;
}

int sxt_verbs_query_gid(const struct sxt_verbs *verbs, struct ibv_context *context, uint8_t port,
			int index, union ibv_gid *out)
{
	union ibv_gid gid = {{0}};
	int rc;

	errno = 0;
	rc = error_of_int(verbs->query_gid(context, port, index, &gid));
	if (rc == 0)
		*out = gid;
	return rc;
}

int sxt_verbs_query_gid_type(const struct sxt_verbs *verbs, struct ibv_context *context,
			     uint8_t port, int index, uint8_t *out)
{
	struct ibv_gid_entry entry;
	int rc;

	if (verbs->query_gid_ex == NULL)
		return -EOPNOTSUPP;
	memset(&entry, 0, sizeof(entry));
	errno = 0;
	rc = error_of_int(
		verbs->query_gid_ex(context, port, (uint32_t)index, &entry, 0, sizeof(entry)));
	if (rc == 0)
		*out = (uint8_t)entry.gid_type;
	return rc;
}

int sxt_verbs_query_gid_table(const struct sxt_verbs *verbs, struct ibv_context *context,
			      struct ibv_gid_entry *out, uint32_t most, uint32_t *cnt_out)
{
	ssize_t cnt;

	if (verbs->query_gid_table == NULL)
		return -EOPNOTSUPP;
	cnt = verbs->query_gid_table(context, out, most, 0, sizeof(*out));
	if (cnt < 0)
		return (int)cnt;
	*cnt_out = (size_t)cnt < most ? (uint32_t)cnt : most;
	return 0;
}

int sxt_verbs_query_pkey(const struct sxt_verbs *verbs, struct ibv_context *context, uint8_t port,
			 int index, uint16_t *out)
{
	__be16 pkey = 0;
	int rc;

	if (verbs->query_pkey == NULL)
		return -EOPNOTSUPP;
	errno = 0;
	rc = error_of_int(verbs->query_pkey(context, port, index, &pkey));
	if (rc == 0)
		*out = be16toh(pkey);
	return rc;
}

int sxt_verbs_alloc_pd(const struct sxt_verbs *verbs, struct ibv_context *context,
		       struct ibv_pd **out)
{
	struct ibv_pd *pd;

	errno = 0;
	pd = verbs->alloc_pd(context);
	if (pd == NULL)
		return error_of_null();
	*out = pd;
	return 0;
}

int sxt_verbs_reg_mr(const struct sxt_verbs *verbs, struct ibv_pd *pd,
		     const struct sxt_verbs_region *region, struct ibv_mr **out)
{
	unsigned int strict = region->access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	struct ibv_mr *mr;

	errno = 0;
	if (region->dmabuf_fd >= 0) {
		if (verbs->reg_dmabuf_mr == NULL)
			return -EOPNOTSUPP;
		mr = verbs->reg_dmabuf_mr(pd, region->dmabuf_offset, region->bytes,
					  (uintptr_t)region->addr, region->dmabuf_fd,
					  (int)region->access);
	} else if (region->access != strict && verbs->reg_mr_iova2 != NULL) {
		mr = verbs->reg_mr_iova2(pd, region->addr, region->bytes, (uintptr_t)region->addr,
					 region->access);
	} else {
		mr = verbs->reg_mr(pd, region->addr, region->bytes, (int)strict);
	}
	if (mr == NULL)
		return error_of_null();
	*out = mr;
	return 0;
}

int sxt_verbs_create_cq(const struct sxt_verbs *verbs, struct ibv_context *context, uint32_t cqe,
			void *user, struct ibv_cq **out)
{
	struct ibv_cq *cq;

	errno = 0;
	cq = verbs->create_cq(context, (int)cqe, user, NULL, 0);
	if (cq == NULL)
		return error_of_null();
	*out = cq;
	return 0;
}

int sxt_verbs_create_qp(const struct sxt_verbs *verbs, struct ibv_pd *pd,
			struct ibv_qp_init_attr *attr, struct ibv_qp **out)
{
	struct ibv_qp *qp;

	errno = 0;
	qp = verbs->create_qp(pd, attr);
	if (qp == NULL)
		return error_of_null();
	*out = qp;
	return 0;
}

int sxt_verbs_modify_qp(const struct sxt_verbs *verbs, struct ibv_qp *qp, struct ibv_qp_attr *attr,
			int mask)
{
	errno = 0;
	return error_of_int(verbs->modify_qp(qp, attr, mask));
}

int sxt_verbs_query_ece(const struct sxt_verbs *verbs, struct ibv_qp *qp, struct ibv_ece *out)
{
	struct ibv_ece ece = {0};
	int rc;

	if (verbs->query_ece == NULL)
		return -EOPNOTSUPP;
	errno = 0;
	rc = error_of_int(verbs->query_ece(qp, &ece));
	if (rc == 0)
		*out = ece;
	return rc;
}

int sxt_verbs_set_ece(const struct sxt_verbs *verbs, struct ibv_qp *qp, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;

	if (verbs->set_ece == NULL)
		return -EOPNOTSUPP;
	errno = 0;
	return error_of_int(verbs->set_ece(qp, &copy));
}

int sxt_verbs_get_event(const struct sxt_verbs *verbs, struct ibv_context *context,
			struct ibv_async_event *out)
{
	struct ibv_async_event event;
	int rc;

	errno = 0;
	rc = error_of_int(verbs->get_async_event(context, &event));
	if (rc == 0)
		*out = event;
	return rc;
}
