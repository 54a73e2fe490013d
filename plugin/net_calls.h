/*
 * net_calls.h - isend, irecv and test once for each way of measuring: net_data.c includes this
 * three times, so that no call asks how it is measured. It defines before
 *   SXT_CALL(name)   a function's name here
 *   SXT_CALL_STATIC  static, or nothing where net.h shows the functions
 *   SXT_CALL_HOW     an enum sxt_measuring
 * which end with this file. The parts of isend are apart, so that finding nothing to do saves no
 * registers.
 */

static SXT_NOINLINE SXT_FLATTEN ncclResult_t SXT_CALL(isend_any)(void *send_comm, void *data,
								 size_t bytes, int tag,
								 void *mhandle, void **request)
{
	struct sxt_request *made = NULL;
	int rc = sxt_send_any(send_comm, data, bytes, (uint32_t)tag, mhandle, &made);

	return isend_ends(rc, send_comm, made, tag, request, SXT_CALL_HOW);
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t SXT_CALL(isend_member)(void *send_comm, void *data,
								    size_t bytes, int tag,
								    void *mhandle, void **request)
{
	struct sxt_request *made = sxt_send_member(send_comm, data, bytes, (uint32_t)tag, mhandle);
	int rc = 0;

	if (SXT_UNLIKELY(made == NULL))
		return SXT_CALL(isend_any)(send_comm, data, bytes, tag, mhandle, request);
	if (!sxt_send_may_wait(send_comm, bytes))
		rc = members_send(send_comm);
	return isend_ends(rc, send_comm, made, tag, request, SXT_CALL_HOW);
}

static SXT_NOINLINE ncclResult_t SXT_CALL(isend_first)(void *send_comm, void *data, size_t bytes,
						       int tag, void *mhandle, void **request)
{
	if (sxt_send_open(send_comm))
		return SXT_CALL(isend_member)(send_comm, data, bytes, tag, mhandle, request);
	return SXT_CALL(isend_any)(send_comm, data, bytes, tag, mhandle, request);
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t SXT_CALL(isend_plain)(void *send_comm, void *data,
								   size_t bytes, int tag,
								   void *mhandle, void **request)
{
	struct sxt_request *made = NULL;
	int rc = sxt_send_plain(send_comm, data, bytes, (uint32_t)tag, mhandle, &made);

	if (SXT_UNLIKELY(rc == SXT_SEND_OTHERWISE))
		return SXT_CALL(isend_any)(send_comm, data, bytes, tag, mhandle, request);
	return isend_ends(rc, send_comm, made, tag, request, SXT_CALL_HOW);
}

static SXT_NOINLINE ncclResult_t SXT_CALL(isend_not_now)(void *send_comm, void **request)
{
	return isend_ends(-EAGAIN, send_comm, NULL, 0, request, SXT_CALL_HOW);
}

SXT_CALL_STATIC SXT_FLATTEN ncclResult_t SXT_CALL(isend)(void *send_comm, void *data, size_t bytes,
							 int tag, void *mhandle, void *phandle,
							 void **request)
{
	enum sxt_send_look look = sxt_send_look(send_comm);

	(void)phandle;
	if (look == SXT_SEND_SINGLE)
		return SXT_CALL(isend_plain)(send_comm, data, bytes, tag, mhandle, request);
	if (look == SXT_SEND_FIRST)
		return SXT_CALL(isend_first)(send_comm, data, bytes, tag, mhandle, request);
	if (look == SXT_SEND_MEMBER)
		return SXT_CALL(isend_member)(send_comm, data, bytes, tag, mhandle, request);
	if (look == SXT_SEND_ANY)
		return SXT_CALL(isend_any)(send_comm, data, bytes, tag, mhandle, request);
	if (SXT_CALL_HOW != SXT_MEASURE_NOT)
		return SXT_CALL(isend_not_now)(send_comm, request);
	*request = NULL;
	return ncclSuccess;
}

SXT_CALL_STATIC ncclResult_t SXT_CALL(isend_v9)(void *send_comm, void *data, size_t bytes, int tag,
						void *mhandle, void **request)
{
	return SXT_CALL(isend)(send_comm, data, bytes, tag, mhandle, NULL, request);
}

SXT_CALL_STATIC ncclResult_t SXT_CALL(isend_int)(void *send_comm, void *data, int bytes, int tag,
						 void *mhandle, void **request)
{
	if (bytes < 0)
		return sxt_result(-EINVAL);
	return SXT_CALL(isend_v9)(send_comm, data, (size_t)bytes, tag, mhandle, request);
}

SXT_CALL_STATIC SXT_FLATTEN ncclResult_t SXT_CALL(irecv)(void *recv_comm, int n, void **data,
							 size_t *sizes, int *tags, void **mhandles,
							 void **phandles, void **request)
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
	return irecv_ends(rc, recv_comm, made, tags[0], request, SXT_CALL_HOW);
}

SXT_CALL_STATIC ncclResult_t SXT_CALL(irecv_v9)(void *recv_comm, int n, void **data, size_t *sizes,
						int *tags, void **mhandles, void **request)
{
	return SXT_CALL(irecv)(recv_comm, n, data, sizes, tags, mhandles, NULL, request);
}

/* These versions know no optional receives: what comes in means nothing. */
SXT_CALL_STATIC ncclResult_t SXT_CALL(irecv_int)(void *recv_comm, int n, void **data, int *sizes,
						 int *tags, void **mhandles, void **request)
{
	size_t bytes[SXT_RECVS_MAX];

	if (!sxt_net_sizes_of(n, sizes, bytes))
		return sxt_result(-EINVAL);
	*request = NULL;
	return SXT_CALL(irecv_v9)(recv_comm, n, data, bytes, tags, mhandles, request);
}

static SXT_NOINLINE SXT_FLATTEN ncclResult_t SXT_CALL(test_waiting)(void *request, int *done,
								    int *sizes)
{
	bool is_done = false;
	int rc = sxt_test_waiting(request, &is_done, sizes, SXT_CALL_HOW);

	*done = is_done;
	return SXT_LIKELY(rc == 0) ? ncclSuccess : sxt_result(rc);
}

SXT_CALL_STATIC SXT_FLATTEN ncclResult_t SXT_CALL(test)(void *request, int *done, int *sizes)
{
	if (!sxt_test_done(request, sizes, SXT_CALL_HOW))
		return SXT_CALL(test_waiting)(request, done, sizes);
	*done = 1;
	return ncclSuccess;
}

#undef SXT_CALL
#undef SXT_CALL_STATIC
#undef SXT_CALL_HOW
