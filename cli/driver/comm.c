/*
 * comm.c - a communicator's threads and its life in the plugin (slow path).
 */
#include "cli/driver/comm.h"

#include "core/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void where_is(const struct sxt_drv_comm *comm, char *out, size_t out_bytes)
{
	if (comm->user.comm < 0)
		out[0] = '\0';
	else
		snprintf(out, out_bytes, "of communicator %d", comm->user.comm);
}

int sxt_drv_comm_init(struct sxt_drv_comm *comm, uint64_t id)
{
	ncclResult_t result = sxt_drv_net_init(comm->run->net, id, &comm->user.ctx);
	char where[32];

	where_is(comm, where, sizeof(where));
	if (result != ncclSuccess)
		return sxt_drv_run_fail_call(comm->run, "init", where, result);
	comm->initialised = true;
	return 0;
}

static int start_threads(struct sxt_drv_comm *comm, bool with_guest)
{
	int rc = sxt_drv_worker_start(&comm->service, "service");

	if (rc == 0)
		rc = sxt_drv_worker_start(&comm->progress, "progress");
	if (rc == 0 && with_guest)
		rc = sxt_drv_worker_start(&comm->guest, "guest");
	return rc == 0 ? 0
		       : sxt_drv_run_fail(comm->run, SXT_EXIT_BROKEN, "cannot start a thread: %s",
					  sxt_strerror(rc));
}

int sxt_drv_comm_start(struct sxt_drv_comm *comm, const struct sxt_drv_bench_spec *spec,
		       int oob_dev)
{
	const struct sxt_drv_calls *calls = &comm->run->net->calls;
	struct sxt_drv_user guest = comm->user;
	struct nccl_net_attr attr;

	if (start_threads(comm, oob_dev >= 0) != 0)
		return -EIO;
	guest.dev = oob_dev;
	if (sxt_drv_bench_create(comm->run, spec, &comm->user, &comm->bench) != 0 ||
	    (oob_dev >= 0 && sxt_drv_oob_create(comm->run, &guest, &comm->oob) != 0))
		return sxt_drv_run_fail(comm->run, SXT_EXIT_BROKEN,
					"no memory for buffers of %zu bytes", spec->max_bytes);
	/* "Undefined" in every field; NCCL ignores the answer too. */
	memset(&attr, 0xff, sizeof(attr));
	if (calls->set_attr != NULL)
		sxt_ignore((long)calls->set_attr(comm->user.ctx, &attr));
	return 0;
}

static int tell_guest(struct sxt_drv_comm *comm, int rc)
{
	/* Pairs with the guest's acquire. */
	if (comm->oob != NULL)
		atomic_store_explicit(&comm->oob->working, false, memory_order_release);
	return rc;
}

int sxt_drv_comm_connect(void *arg)
{
	struct sxt_drv_comm *comm = arg;

	return tell_guest(comm, sxt_drv_conns_connect(&comm->bench->conns));
}

int sxt_drv_comm_work(void *arg)
{
	struct sxt_drv_comm *comm = arg;

	return tell_guest(comm, sxt_drv_bench_work(comm->bench));
}

int sxt_drv_comm_finalize(struct sxt_drv_comm *comm)
{
	ncclResult_t result = ncclSuccess;
	char where[32];

	sxt_drv_worker_stop(&comm->service);
	sxt_drv_worker_stop(&comm->progress);
	sxt_drv_worker_stop(&comm->guest);
	if (comm->initialised)
		result = sxt_drv_net_finalize(comm->run->net, comm->user.ctx);
	comm->initialised = false;
	where_is(comm, where, sizeof(where));
	return result == ncclSuccess ? 0
				     : sxt_drv_run_fail_call(comm->run, "finalize", where, result);
}
