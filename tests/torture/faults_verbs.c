/*
 * faults_verbs.c - the verbs fake with calls that fail when their turn comes.
 */
#include "tests/torture/faults.h"

#include "tests/fake/verbs.h"

#include <errno.h>

#define FAKE (sxt_fake_verbs())

/* Fails with an errno and an answer, else the fake's; what the fake itself calls does not count. */
#define FAILING(result, name, error, answer, params, args) \
	static result name params                          \
	{                                                  \
		result done;                               \
                                                           \
		if (faults_hit(#name, error))              \
			return answer;                     \
		faults_pause(true);                        \
		done = FAKE->name args;                    \
		faults_pause(false);                       \
		return done;                               \
	}

static int (*fake_post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!faults_hit("post_recv", ENOMEM))
		return fake_post_recv(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *context;

	if (faults_hit("open_device", EACCES))
		return NULL;
	faults_pause(true);
	context = FAKE->open_device(device);
	faults_pause(false);
	if (context != NULL) {
		fake_post_recv = context->ops.post_recv;
		context->ops.post_recv = post_recv;
	}
	return context;
}

static int fork_init(void)
{
	return faults_hit("fork_init", EINVAL) ? EINVAL : 0;
}

FAILING(struct ibv_device **, get_device_list, ENOSYS, NULL, (int *cnt), (cnt))
FAILING(int, query_device, EIO, EIO, (struct ibv_context * context, struct ibv_device_attr *attr),
	(context, attr))
FAILING(int, query_port, EIO, EIO,
	(struct ibv_context * context, uint8_t port, struct ibv_port_attr *attr),
	(context, port, attr))
FAILING(int, query_gid, EIO, -1,
	(struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid),
	(context, port, index, gid))
FAILING(int, query_gid_ex, EIO, EIO,
	(struct ibv_context * context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
	 uint32_t flags, size_t bytes),
	(context, port, index, entry, flags, bytes))
FAILING(struct ibv_pd *, alloc_pd, ENOMEM, NULL, (struct ibv_context * context), (context))
FAILING(struct ibv_mr *, reg_mr, ENOMEM, NULL,
	(struct ibv_pd * pd, void *addr, size_t bytes, int access), (pd, addr, bytes, access))
FAILING(struct ibv_mr *, reg_mr_iova2, EFAULT, NULL,
	(struct ibv_pd * pd, void *addr, size_t bytes, uint64_t iova, unsigned int access),
	(pd, addr, bytes, iova, access))
FAILING(struct ibv_cq *, create_cq, ENOMEM, NULL,
	(struct ibv_context * context, int cqe, void *user, struct ibv_comp_channel *channel,
	 int vector),
	(context, cqe, user, channel, vector))
FAILING(struct ibv_qp *, create_qp, ENOMEM, NULL,
	(struct ibv_pd * pd, struct ibv_qp_init_attr *attr), (pd, attr))
FAILING(int, modify_qp, EINVAL, EINVAL, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask),
	(qp, attr, mask))

const struct sxt_verbs *faults_verbs(void)
{
	static struct sxt_verbs table;

	table = *FAKE;
	table.fork_init = fork_init;
	table.get_device_list = get_device_list;
	table.open_device = open_device;
	table.query_device = query_device;
	table.query_port = query_port;
	table.query_gid = query_gid;
	table.query_gid_ex = query_gid_ex;
	table.alloc_pd = alloc_pd;
	table.reg_mr = reg_mr;
	table.reg_mr_iova2 = reg_mr_iova2;
	table.create_cq = create_cq;
	table.create_qp = create_qp;
	table.modify_qp = modify_qp;
	return &table;
}
