/*
 * oob.c - all-gathers of small letters round a ring, on a user's thread beside the data path.
 */
#include "cli/driver/oob.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG            0x0b
#define LETTER_BYTES   256
#define BETWEEN_NS     (200 * 1000) /* from one exchange to the next */
#define YIELDS_AT_ONCE 64           /* before a poll sleeps */

/* What goes round; the filling differs from byte to byte and from letter to letter. */
struct sxt_drv_oob_letter {
	int32_t rank;
	int32_t comm;
	uint64_t round;
	uint32_t finished;
	uint8_t filling[LETTER_BYTES - 20];
};
SXT_ASSERT_SIZE(struct sxt_drv_oob_letter, 256);

/* One message on its way, or none yet. */
struct transfer {
	void *request;
	bool done;
};

int sxt_drv_oob_create(struct sxt_drv_run *run, const struct sxt_drv_user *user,
		       struct sxt_drv_oob **out)
{
	struct sxt_drv_oob *oob = calloc(1, sizeof(*oob));

	if (oob == NULL)
		return -ENOMEM;
	oob->run = run;
	oob->user = *user;
	oob->letters = calloc((size_t)run->ranks, sizeof(*oob->letters));
	if (oob->letters == NULL)
		goto fail;
	*out = oob;
	return 0;
fail:
	sxt_drv_oob_destroy(oob);
	return -ENOMEM;
}

void sxt_drv_oob_destroy(struct sxt_drv_oob *oob)
{
	if (oob == NULL)
		return;
	free(oob->letters);
	free(oob);
}

static int fail_call(struct sxt_drv_oob *oob, const char *call, ncclResult_t result)
{
	return sxt_drv_run_fail_call(oob->run, call, "out of band", result);
}

/* Called when nothing moved. Return: 0, or -EIO when the run is over or has stood too long. */
static int wait_a_little(struct sxt_drv_oob *oob, unsigned int *polls, uint64_t since_ns)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000};
	int stop = atomic_load_explicit(&oob->run->stop, memory_order_relaxed);

	if (stop == SXT_DRV_STOP_FAILED)
		return -EIO;
	if (stop == SXT_DRV_STOP_TIMEOUT)
		return sxt_drv_run_fail(oob->run, SXT_EXIT_BROKEN,
					"--timeout is over out of band, in exchange %llu",
					(unsigned long long)oob->rounds);
	if (++*polls < YIELDS_AT_ONCE) {
		sched_yield();
		return 0;
	}
	if (sxt_sys_host.now_ns() - since_ns > oob->run->stall_ns)
		return sxt_drv_run_fail(oob->run, SXT_EXIT_BROKEN,
					"nothing moved for the time of --stall out of band, in "
					"exchange %llu",
					(unsigned long long)oob->rounds);
	nanosleep(&pause, NULL);
	return 0;
}

int sxt_drv_oob_listen(void *arg)
{
	struct sxt_drv_oob *oob = arg;
	ncclResult_t result = sxt_drv_net_listen(oob->run->net, oob->user.ctx, oob->user.dev,
						 oob->own_handle, &oob->listen_comm);

	return result == ncclSuccess ? 0 : fail_call(oob, "listen", result);
}

int sxt_drv_oob_connect(void *arg)
{
	struct sxt_drv_oob *oob = arg;
	struct sxt_drv_net *net = oob->run->net;
	uint64_t since_ns = sxt_sys_host.now_ns();
	unsigned int polls = 0;

	while (oob->send_comm == NULL || oob->recv_comm == NULL) {
		ncclResult_t result = ncclSuccess;

		if (oob->send_comm == NULL)
			result = sxt_drv_net_connect(net, oob->user.ctx, oob->user.dev,
						     oob->peer_handle, &oob->send_comm);
		if (result != ncclSuccess)
			return fail_call(oob, "connect", result);
		if (oob->recv_comm == NULL)
			result = sxt_drv_net_accept(net, oob->listen_comm, &oob->recv_comm);
		if (result != ncclSuccess)
			return fail_call(oob, "accept", result);
		if (wait_a_little(oob, &polls, since_ns) != 0)
			return -EIO;
	}
	return 0;
}

/* Tests one direction, if it has begun. Return: 0, or -EIO. */
static int test_once(struct sxt_drv_oob *oob, struct transfer *transfer)
{
	int done = 0;
	ncclResult_t result;

	if (transfer->request == NULL || transfer->done)
		return 0;
	result = oob->run->net->calls.test(transfer->request, &done, NULL);
	if (result != ncclSuccess)
		return fail_call(oob, "test", result);
	transfer->done = done != 0;
	return 0;
}

/* One step of the ring: a letter to the next rank and one from the rank before. */
static int step(struct sxt_drv_oob *oob, const struct sxt_drv_msg *out,
		const struct sxt_drv_msg *in)
{
	struct sxt_drv_net *net = oob->run->net;
	struct transfer send = {0};
	struct transfer recv = {0};
	uint64_t since_ns = sxt_sys_host.now_ns();
	unsigned int polls = 0;

	while (!send.done || !recv.done) {
		ncclResult_t result = ncclSuccess;

		if (recv.request == NULL)
			result = sxt_drv_net_irecv_bare(net, oob->recv_comm, in, &recv.request);
		if (result != ncclSuccess)
			return fail_call(oob, "irecv", result);
		if (send.request == NULL)
			result = sxt_drv_net_isend(net, oob->send_comm, out, &send.request);
		if (result != ncclSuccess)
			return fail_call(oob, "isend", result);
		if (test_once(oob, &send) != 0 || test_once(oob, &recv) != 0)
			return -EIO;
		if ((!send.done || !recv.done) && wait_a_little(oob, &polls, since_ns) != 0)
			return -EIO;
	}
	return 0;
}

static struct sxt_drv_oob_letter letter_of(const struct sxt_drv_oob *oob, int rank)
{
	struct sxt_drv_oob_letter letter = {.rank = rank,
					    .comm = oob->user.comm,
					    .round = oob->rounds};

	for (size_t i = 0; i < sizeof(letter.filling); i++)
		letter.filling[i] = (uint8_t)(oob->rounds * 7 + (uint64_t)rank * 31 + i * (i + 3));
	return letter;
}

/* Return: 0 and whether all ranks are through, or -EIO for a letter that is wrong. */
static int read_letters(struct sxt_drv_oob *oob, bool *all_finished)
{
	*all_finished = true;
	for (int rank = 0; rank < oob->run->ranks; rank++) {
		struct sxt_drv_oob_letter expected = letter_of(oob, rank);

		expected.finished = oob->letters[rank].finished & 1;
		if (memcmp(&expected, &oob->letters[rank], sizeof(expected)) != 0)
			return sxt_drv_run_fail(oob->run, SXT_EXIT_FOUND,
						"wrong data out of band: the letter of rank %d in "
						"exchange %llu names rank %d, exchange %llu",
						rank, (unsigned long long)oob->rounds,
						oob->letters[rank].rank,
						(unsigned long long)oob->letters[rank].round);
		*all_finished = *all_finished && expected.finished != 0;
	}
	return 0;
}

/* Every rank's letter to every rank. */
static int pass_round(struct sxt_drv_oob *oob, void *send_mhandle, void *recv_mhandle)
{
	const int n = oob->run->ranks;
	int rc = 0;

	for (int i = 0; i < n - 1 && rc == 0; i++) {
		const struct sxt_drv_msg out = {
			.data = &oob->letters[(oob->run->rank - i + n) % n],
			.bytes = LETTER_BYTES,
			.tag = TAG,
			.mhandle = send_mhandle,
		};
		const struct sxt_drv_msg in = {
			.data = &oob->letters[(oob->run->rank - i - 1 + n) % n],
			.bytes = LETTER_BYTES,
			.tag = TAG,
			.mhandle = recv_mhandle,
		};

		rc = step(oob, &out, &in);
	}
	return rc;
}

/* One exchange, with the memory registered for it alone. */
static int exchange(struct sxt_drv_oob *oob)
{
	struct sxt_drv_net *net = oob->run->net;
	const struct sxt_drv_mem mem = {
		.data = oob->letters,
		.bytes = sizeof(*oob->letters) * (size_t)oob->run->ranks,
		.type = NCCL_PTR_HOST,
	};
	void *send_mhandle = NULL;
	void *recv_mhandle = NULL;
	ncclResult_t result = sxt_drv_net_reg(net, oob->send_comm, &mem, &send_mhandle);
	int rc;

	if (result != ncclSuccess)
		return fail_call(oob, "regMr", result);
	result = sxt_drv_net_reg(net, oob->recv_comm, &mem, &recv_mhandle);
	if (result == ncclSuccess) {
		rc = pass_round(oob, send_mhandle, recv_mhandle);
		result = net->calls.dereg(oob->recv_comm, recv_mhandle);
	} else {
		rc = fail_call(oob, "regMr", result);
		result = ncclSuccess;
	}
	if (result != ncclSuccess)
		rc = fail_call(oob, "deregMr", result);
	result = net->calls.dereg(oob->send_comm, send_mhandle);
	return result == ncclSuccess ? rc : fail_call(oob, "deregMr", result);
}

int sxt_drv_oob_talk(void *arg)
{
	const struct timespec pause = {.tv_nsec = BETWEEN_NS};
	struct sxt_drv_oob *oob = arg;
	bool all_finished = false;

	while (!all_finished) {
		struct sxt_drv_oob_letter *own = &oob->letters[oob->run->rank];

		*own = letter_of(oob, oob->run->rank);
		/* Pairs with the release of whoever did the work. */
		own->finished = !atomic_load_explicit(&oob->working, memory_order_acquire);
		if (exchange(oob) != 0 || read_letters(oob, &all_finished) != 0)
			return -EIO;
		oob->rounds++;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int sxt_drv_oob_close(void *arg)
{
	struct sxt_drv_oob *oob = arg;
	const struct sxt_drv_calls *calls = &oob->run->net->calls;
	int rc = 0;

	if (oob->send_comm != NULL && calls->close_send(oob->send_comm) != ncclSuccess)
		rc = fail_call(oob, "closeSend", ncclSystemError);
	if (oob->recv_comm != NULL && calls->close_recv(oob->recv_comm) != ncclSuccess)
		rc = fail_call(oob, "closeRecv", ncclSystemError);
	if (oob->listen_comm != NULL && calls->close_listen(oob->listen_comm) != ncclSuccess)
		rc = fail_call(oob, "closeListen", ncclSystemError);
	oob->send_comm = NULL;
	oob->recv_comm = NULL;
	oob->listen_comm = NULL;
	return rc;
}
