/*
 * net_data.c - isend, irecv, iflush, test of every version: the hot half of the network plugin.
 * NCCL's progress thread; nothing here allocates, locks, logs or calls the system.
 */
#include "plugin/net.h"

#include "ib/ib.h"
#include "plugin/result.h"

#include <errno.h>

SXT_ASSERT_SIZE(size_t, sizeof(uint64_t)); /* size arrays are passed on as they are */

/* "Not now" is success with a NULL request. */
static inline ncclResult_t started(int rc, struct sxt_request *made, void **request)
{
	if (SXT_LIKELY(rc == 0)) {
		*request = made;
		return ncclSuccess;
	}
	*request = NULL;
	return rc == -EAGAIN ? ncclSuccess : sxt_result(rc);
}

/* The parts of isend are apart, so that finding nothing to do saves no registers. */
static SXT_NOINLINE ncclResult_t isend_any(void *send_comm, void *data, size_t bytes, int tag,
					   void *mhandle, void **request)
{
	struct sxt_request *made = NULL;
	int rc = sxt_send_any(send_comm, data, bytes, (uint32_t)tag, mhandle, &made);

	return started(rc, made, request);
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t isend_members(void *send_comm, void **request)
{
	int rc = sxt_send_members(send_comm);

	return SXT_LIKELY(rc == 0) ? ncclSuccess : started(rc, NULL, request);
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t isend_member(void *send_comm, void *data, size_t bytes,
							  int tag, void *mhandle, void **request)
{
	struct sxt_request *made = sxt_send_member(send_comm, data, bytes, (uint32_t)tag, mhandle);

	if (SXT_UNLIKELY(made == NULL))
		return isend_any(send_comm, data, bytes, tag, mhandle, request);
	*request = made;
	return sxt_send_may_wait(send_comm, bytes) ? ncclSuccess
						   : isend_members(send_comm, request);
}

static SXT_NOINLINE ncclResult_t isend_first(void *send_comm, void *data, size_t bytes, int tag,
					     void *mhandle, void **request)
{
	if (sxt_send_open(send_comm))
		return isend_member(send_comm, data, bytes, tag, mhandle, request);
	return isend_any(send_comm, data, bytes, tag, mhandle, request);
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t isend_plain(void *send_comm, void *data, size_t bytes,
							 int tag, void *mhandle, void **request)
{
	struct sxt_request *made = NULL;
	int rc = sxt_send_plain(send_comm, data, bytes, (uint32_t)tag, mhandle, &made);

	if (SXT_UNLIKELY(rc == SXT_SEND_OTHERWISE))
		return isend_any(send_comm, data, bytes, tag, mhandle, request);
	return started(rc, made, request);
}

SXT_FLATTEN ncclResult_t sxt_net_isend(void *send_comm, void *data, size_t bytes, int tag,
				       void *mhandle, void *phandle, void **request)
{
	enum sxt_send_look look = sxt_send_look(send_comm);

	(void)phandle;
	if (look == SXT_SEND_SINGLE)
		return isend_plain(send_comm, data, bytes, tag, mhandle, request);
	if (look == SXT_SEND_FIRST)
		return isend_first(send_comm, data, bytes, tag, mhandle, request);
	if (look == SXT_SEND_MEMBER)
		return isend_member(send_comm, data, bytes, tag, mhandle, request);
	if (look == SXT_SEND_ANY)
		return isend_any(send_comm, data, bytes, tag, mhandle, request);
	*request = NULL;
	return ncclSuccess;
}

ncclResult_t sxt_net_isend_v9(void *send_comm, void *data, size_t bytes, int tag, void *mhandle,
			      void **request)
{
	return sxt_net_isend(send_comm, data, bytes, tag, mhandle, NULL, request);
}

ncclResult_t sxt_net_isend_int(void *send_comm, void *data, int bytes, int tag, void *mhandle,
			       void **request)
{
	if (bytes < 0)
		return sxt_result(-EINVAL);
	return sxt_net_isend_v9(send_comm, data, (size_t)bytes, tag, mhandle, request);
}

SXT_FLATTEN ncclResult_t sxt_net_irecv(void *recv_comm, int n, void **data, size_t *sizes,
				       int *tags, void **mhandles, void **phandles, void **request)
{
	const struct sxt_recv_spec spec = {
		.cnt = n,
		.data = data,
		.bytes = sizes,
		.tags = tags,
		.mrs = (struct sxt_mr *const *)mhandles,
		.optional = *request == NCCL_NET_OPTIONAL_RECV && n == 1,
	};
	struct sxt_request *made = NULL;
	int rc = sxt_recv(recv_comm, &spec, &made);

	(void)phandles;
	return started(rc, made, request);
}

ncclResult_t sxt_net_irecv_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
			      void **mhandles, void **request)
{
	return sxt_net_irecv(recv_comm, n, data, sizes, tags, mhandles, NULL, request);
}

bool sxt_net_sizes_of(int n, const int *sizes, size_t *out)
{
	if (n < 1 || n > SXT_RECVS_MAX)
		return false;
	for (int i = 0; i < n; i++) {
		if (sizes[i] < 0)
			return false;
		out[i] = (size_t)sizes[i];
	}
	return true;
}

ncclResult_t sxt_net_irecv_int(void *recv_comm, int n, void **data, int *sizes, int *tags,
			       void **mhandles, void **request)
{
	size_t bytes[SXT_RECVS_MAX];

	if (!sxt_net_sizes_of(n, sizes, bytes))
		return sxt_result(-EINVAL);
	*request = NULL; /* these versions know no optional receives: what comes in means nothing */
	return sxt_net_irecv_v9(recv_comm, n, data, bytes, tags, mhandles, request);
}

ncclResult_t sxt_net_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
			    void **request)
{
	(void)recv_comm;
	(void)n;
	(void)data;
	(void)sizes;
	(void)mhandles;
	*request = NULL;
	return ncclSuccess;
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t test_waiting(void *request, int *done, int *sizes)
{
	bool is_done = false;
	int rc = sxt_test_waiting(request, &is_done, sizes, false);

	*done = is_done;
	return SXT_LIKELY(rc == 0) ? ncclSuccess : sxt_result(rc);
}

SXT_FLATTEN ncclResult_t sxt_net_test(void *request, int *done, int *sizes)
{
	if (!sxt_test_done(request, sizes, false))
		return test_waiting(request, done, sizes);
	*done = 1;
	return ncclSuccess;
}
