/*
 * net_measured.c - isend, irecv and test as they stand in the function tables while telemetry is
 * on: the same calls, and what they did written into the connection's counters.
 */
#include "plugin/net.h"

#include "ib/ib.h"
#include "plugin/result.h"

#include <errno.h>

static ncclResult_t not_now(struct sxt_conn *conn, void **request)
{
	sxt_measure_not_now(conn);
	*request = NULL;
	return ncclSuccess;
}

static ncclResult_t refused(int rc, struct sxt_conn *conn, void **request)
{
	if (rc == -EAGAIN)
		return not_now(conn, request);
	*request = NULL;
	return sxt_result(rc);
}

SXT_FLATTEN ncclResult_t sxt_net_isend_measured(void *send_comm, void *data, size_t bytes, int tag,
						void *mhandle, void *phandle, void **request)
{
	enum sxt_send_look look = sxt_send_look(send_comm);
	struct sxt_request *made = NULL;
	int rc = SXT_SEND_OTHERWISE;

	(void)phandle;
	if (look == SXT_SEND_WAIT)
		return not_now(send_comm, request);
	if (SXT_LIKELY(look == SXT_SEND_SINGLE))
		rc = sxt_send_plain(send_comm, data, bytes, (uint32_t)tag, mhandle, &made);
	if (rc == SXT_SEND_OTHERWISE)
		rc = sxt_send_otherwise(send_comm, data, bytes, (uint32_t)tag, mhandle, &made);
	if (SXT_UNLIKELY(rc != 0))
		return refused(rc, send_comm, request);
	sxt_measure_sent(send_comm, made, (uint32_t)tag, bytes);
	*request = made;
	return ncclSuccess;
}

ncclResult_t sxt_net_isend_v9_measured(void *send_comm, void *data, size_t bytes, int tag,
				       void *mhandle, void **request)
{
	return sxt_net_isend_measured(send_comm, data, bytes, tag, mhandle, NULL, request);
}

ncclResult_t sxt_net_isend_int_measured(void *send_comm, void *data, int bytes, int tag,
					void *mhandle, void **request)
{
	if (bytes < 0)
		return sxt_result(-EINVAL);
	return sxt_net_isend_measured(send_comm, data, (size_t)bytes, tag, mhandle, NULL, request);
}

SXT_FLATTEN ncclResult_t sxt_net_irecv_measured(void *recv_comm, int n, void **data, size_t *sizes,
						int *tags, void **mhandles, void **phandles,
						void **request)
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
	if (SXT_UNLIKELY(rc != 0))
		return refused(rc, recv_comm, request);
	sxt_measure_posted(recv_comm, made, (uint32_t)tags[0]);
	*request = made;
	return ncclSuccess;
}

ncclResult_t sxt_net_irecv_v9_measured(void *recv_comm, int n, void **data, size_t *sizes,
				       int *tags, void **mhandles, void **request)
{
	return sxt_net_irecv_measured(recv_comm, n, data, sizes, tags, mhandles, NULL, request);
}

ncclResult_t sxt_net_irecv_int_measured(void *recv_comm, int n, void **data, int *sizes, int *tags,
					void **mhandles, void **request)
{
	size_t bytes[SXT_RECVS_MAX];

	if (!sxt_net_sizes_of(n, sizes, bytes))
		return sxt_result(-EINVAL);
	*request = NULL; /* as sxt_net_irecv_int() */
	return sxt_net_irecv_measured(recv_comm, n, data, bytes, tags, mhandles, NULL, request);
}

SXT_FLATTEN ncclResult_t sxt_net_test_measured(void *request, int *done, int *sizes)
{
	bool is_done = sxt_test_done(request, sizes, true);
	int rc = 0;

	if (!is_done)
		rc = sxt_test_waiting(request, &is_done, sizes, true);
	*done = is_done;
	return SXT_LIKELY(rc == 0) ? ncclSuccess : sxt_result(rc);
}
