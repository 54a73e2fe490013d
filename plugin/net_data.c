/*
 * net_data.c - isend, irecv, iflush, test of every version: the hot half of the network plugin.
 * NCCL's progress thread; nothing here allocates, locks, logs or calls the system.
 *
 * What can be measured is in net_calls.h, and here three times: not measured, and by either clock
 * while telemetry is on.
 */
#include "plugin/net.h"

#include "ib/ib.h"
#include "plugin/result.h"

#include <errno.h>

SXT_ASSERT_SIZE(size_t, sizeof(uint64_t)); /* size arrays are passed on as they are */

/* "Not now" is success with a NULL request. */
static SXT_INLINE ncclResult_t isend_ends(int rc, void *send_comm, struct sxt_request *made,
					  int tag, void **request, enum sxt_measuring how)
{
	if (SXT_LIKELY(rc == 0)) {
		if (how != SXT_MEASURE_NOT)
			sxt_measure_sent(send_comm, made, (uint32_t)tag, how);
		*request = made;
		return ncclSuccess;
	}
	*request = NULL;
	if (rc != -EAGAIN)
		return sxt_result(rc);
	if (how != SXT_MEASURE_NOT)
		sxt_measure_not_now(send_comm, how);
	return ncclSuccess;
}

static SXT_INLINE ncclResult_t irecv_ends(int rc, void *recv_comm, struct sxt_request *made,
					  int tag, void **request, enum sxt_measuring how)
{
	if (SXT_LIKELY(rc == 0)) {
		if (how != SXT_MEASURE_NOT)
			sxt_measure_posted(recv_comm, made, (uint32_t)tag, how);
		*request = made;
		return ncclSuccess;
	}
	*request = NULL;
	if (rc != -EAGAIN)
		return sxt_result(rc);
	if (how != SXT_MEASURE_NOT)
		sxt_measure_not_now(recv_comm, how);
	return ncclSuccess;
}

static SXT_NOINLINE SXT_FLATTEN int members_send(struct sxt_conn *conn)
{
	return sxt_send_members(conn);
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

#define SXT_CALL(name) sxt_net_##name
#define SXT_CALL_STATIC
#define SXT_CALL_HOW SXT_MEASURE_NOT
#include "plugin/net_calls.h"

#define SXT_CALL(name)  name##_by_counter
#define SXT_CALL_STATIC static
#define SXT_CALL_HOW    SXT_MEASURE_BY_COUNTER
#include "plugin/net_calls.h"

#define SXT_CALL(name)  name##_by_clock
#define SXT_CALL_STATIC static
#define SXT_CALL_HOW    SXT_MEASURE_BY_CLOCK
#include "plugin/net_calls.h"

#define CALLS(prefix, suffix)                                                               \
	{                                                                                   \
		prefix##isend##suffix, prefix##isend_v9##suffix, prefix##isend_int##suffix, \
			prefix##irecv##suffix, prefix##irecv_v9##suffix,                    \
			prefix##irecv_int##suffix, prefix##test##suffix,                    \
	}

const struct sxt_net_hot *sxt_net_hot(enum sxt_measuring how)
{
	static const struct sxt_net_hot calls[] = {
		[SXT_MEASURE_NOT] = CALLS(sxt_net_, ),
		[SXT_MEASURE_BY_COUNTER] = CALLS(, _by_counter),
		[SXT_MEASURE_BY_CLOCK] = CALLS(, _by_clock),
	};

	return &calls[how];
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
