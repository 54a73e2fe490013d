/*
 * broken_comm.c - the deeds of the fake net plugin's broken variants on connections and messages.
 */
#include "tests/fake/net/broken.h"

#include "tests/fake/net/fake.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

/* Calls in a row that variants put up with. */
#define PATIENCE       900
#define PATIENCE_EARLY 40
#define PATIENCE_FULL  300

/* All comms, for what one does to another. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sxt_list comms = {&comms, &comms};
static int made_cnt;
static int regs_cnt;
/* The first that sent on a connection of its own. */
static struct {
	bool known;
	pthread_t thread;
	const struct sxt_fake_ctx *ctx;
} pioneer;

static struct sxt_fake_comm *comm_of(struct sxt_list *node)
{
	return SXT_CONTAINER_OF(node, struct sxt_fake_comm, notes.node);
}

static bool is_used_elsewhere(const struct sxt_fake_comm *comm)
{
	return comm->notes.used && !pthread_equal(comm->notes.user, pthread_self());
}

/* Both ends find the connection gone. */
static void end_comm(const struct sxt_fake_comm *comm)
{
	shutdown(comm->fd, SHUT_RDWR);
}

/* The lock is held meanwhile. */
static void end_where(bool (*is)(const struct sxt_fake_comm *comm, const void *what),
		      const void *what)
{
	struct sxt_list *node;
	struct sxt_list *after;

	pthread_mutex_lock(&lock);
	sxt_list_for_each (node, after, &comms) {
		if (is(comm_of(node), what))
			end_comm(comm_of(node));
	}
	pthread_mutex_unlock(&lock);
}

static bool is_outside(const struct sxt_fake_comm *comm, const void *ctx)
{
	return comm->object.ctx != ctx;
}

static bool is_from(const struct sxt_fake_comm *comm, const void *origin)
{
	return comm->notes.origin == origin;
}

static bool is_handed_over(const struct sxt_fake_comm *comm, const void *unused)
{
	(void)unused;
	return comm->notes.used && !pthread_equal(comm->notes.user, comm->notes.maker);
}

static bool is_any(const struct sxt_fake_comm *comm, const void *unused)
{
	(void)comm;
	(void)unused;
	return true;
}

void sxt_broken_end_others(const struct sxt_fake_ctx *ctx)
{
	end_where(is_outside, ctx);
}

void sxt_broken_listen_closed(const void *listening)
{
	if (SXT_FAKE_BREAKS(listen_closed))
		end_where(is_from, listening);
}

void sxt_broken_made(struct sxt_fake_comm *comm, const void *origin, int dev)
{
	comm->notes.origin = origin;
	comm->notes.maker = pthread_self();
	comm->notes.dev = dev;
	if (SXT_FAKE_BREAKS(connect_during_traffic))
		end_where(is_handed_over, NULL);
	pthread_mutex_lock(&lock);
	made_cnt++;
	sxt_list_append(&comms, &comm->notes.node);
	pthread_mutex_unlock(&lock);
}

static bool has_peer_gone(const struct sxt_fake_comm *comm)
{
	struct pollfd peer = {.fd = comm->fd};

	return poll(&peer, 1, 0) > 0 && (peer.revents & (POLLHUP | POLLERR)) != 0;
}

ncclResult_t sxt_broken_close(struct sxt_fake_comm *comm)
{
	/* Nothing else was made or registered: no thread but the user's was at work. */
	if (SXT_FAKE_BREAKS(threads_handover) && is_used_elsewhere(comm) && made_cnt == 2 &&
	    regs_cnt == 2)
		return sxt_broken_refuse();
	if (SXT_FAKE_BREAKS(close_receiver_first) && comm->sender && has_peer_gone(comm))
		return sxt_broken_refuse();
	if (SXT_FAKE_BREAKS(close_in_flight) && comm->posted != comm->finished)
		end_where(is_any, NULL);
	return ncclSuccess;
}

void sxt_broken_forget(struct sxt_fake_comm *comm)
{
	pthread_mutex_lock(&lock);
	sxt_list_remove(&comm->notes.node);
	pthread_mutex_unlock(&lock);
}

ncclResult_t sxt_broken_reg(struct sxt_fake_comm *comm, const void *data)
{
	bool elsewhere;

	pthread_mutex_lock(&lock);
	regs_cnt++;
	elsewhere = is_used_elsewhere(comm);
	pthread_mutex_unlock(&lock);
	if (SXT_FAKE_BREAKS(reg_any_range) && (uintptr_t)data % 2 != 0)
		return sxt_broken_refuse();
	if (SXT_FAKE_BREAKS(reg_during_traffic) && elsewhere)
		return sxt_broken_refuse();
	return ncclSuccess;
}

static unsigned int count_requests(const struct sxt_fake_comm *comm)
{
	unsigned int cnt = 0;

	for (size_t i = 0; i < SXT_FAKE_SENDS_MAX; i++)
		cnt += comm->requests[i].used;
	return cnt;
}

static void note_use(struct sxt_fake_comm *comm)
{
	pthread_mutex_lock(&lock);
	comm->notes.user = pthread_self();
	comm->notes.used = true;
	pthread_mutex_unlock(&lock);
}

ncclResult_t sxt_broken_isend(struct sxt_fake_comm *comm, int member)
{
	struct sxt_broken_notes *notes = &comm->notes;

	note_use(comm);
	notes->not_now_cnt = member < 0 ? notes->not_now_cnt + 1 : 0;
	notes->early_cnt += member < 0 && comm->groups_in == 0;
	if (SXT_FAKE_BREAKS(isend_not_now) && notes->not_now_cnt == PATIENCE)
		return sxt_broken_refuse();
	if (SXT_FAKE_BREAKS(group_256_isends) && member >= 0 &&
	    count_requests(comm) == SXT_FAKE_SENDS_MAX - 1)
		return sxt_broken_refuse();
	return ncclSuccess;
}

/* Does a second thread send, in the first one's context or in another? */
static bool is_follower(const struct sxt_fake_comm *comm, bool same_ctx)
{
	bool follows = false;

	if (!pthread_equal(comm->notes.maker, pthread_self()))
		return false;
	pthread_mutex_lock(&lock);
	if (!pioneer.known) {
		pioneer.known = true;
		pioneer.thread = pthread_self();
		pioneer.ctx = comm->object.ctx;
	} else {
		follows = !pthread_equal(pioneer.thread, pthread_self()) &&
			  (pioneer.ctx == comm->object.ctx) == same_ctx;
	}
	pthread_mutex_unlock(&lock);
	return follows;
}

bool sxt_broken_spoils(struct sxt_fake_comm *comm, const struct sxt_fake_send *send)
{
	const struct sxt_fake_mr *mr = send->mhandle;
	bool merged = comm->notes.dev >= SXT_FAKE_DEVICES;

	if (send->bytes == 0)
		return false;
	switch (sxt_broken_chosen()) {
	case SXT_BROKEN_vdevice_data:
		return merged;
	case SXT_BROKEN_message_unaligned:
		return ((const char *)send->data - mr->data) % 2 != 0;
	case SXT_BROKEN_message_sizes:
		return !merged && send->bytes >= 1 << 20 && send->bytes <= INT_MAX;
	case SXT_BROKEN_order_send_first:
		return comm->posted == 0 && comm->notes.early_cnt >= PATIENCE_EARLY;
	case SXT_BROKEN_threads_two_comms:
		return is_follower(comm, false);
	case SXT_BROKEN_threads_one_context:
		return is_follower(comm, true);
	default:
		return false;
	}
}

ncclResult_t sxt_broken_irecv(struct sxt_fake_comm *comm, const struct sxt_fake_recv *recv,
			      bool *take)
{
	struct sxt_broken_notes *notes = &comm->notes;
	unsigned int cnt = count_requests(comm);

	note_use(comm);
	notes->single_cnt = cnt == 0 && recv->sizes[0] == notes->room ? notes->single_cnt + 1 : 0;
	notes->room = recv->sizes[0];
	notes->full_cnt = recv->optional && cnt >= SXT_FAKE_GROUPS_MAX ? notes->full_cnt + 1 : 0;
	if (SXT_FAKE_BREAKS(order_one_by_one) && notes->single_cnt == PATIENCE)
		return sxt_broken_refuse();
	if (SXT_FAKE_BREAKS(optional_idle_sender) && notes->full_cnt == PATIENCE_FULL)
		return sxt_broken_refuse();
	if (SXT_FAKE_BREAKS(inflight_32) && recv->n == 1 && cnt >= NCCL_NET_MAX_REQUESTS - 1)
		*take = false;
	return ncclSuccess;
}

/* The second of two that wait changes places with the first. */
void sxt_broken_posted(struct sxt_fake_comm *comm, struct sxt_fake_request *request)
{
	struct sxt_fake_request *before;
	char *buf = request->bufs[0];

	if (!SXT_FAKE_BREAKS(order_fifo) || comm->notes.swapped || request->cts.n > 1 ||
	    comm->posted < 2 * PATIENCE || comm->finished == comm->posted)
		return;
	before = &comm->requests[(comm->posted - 1) % SXT_FAKE_SENDS_MAX];
	request->bufs[0] = before->bufs[0];
	before->bufs[0] = buf;
	comm->notes.swapped = true;
}

static void tell_wrong_size(const struct sxt_fake_request *request, int *sizes)
{
	bool grouped = request->cts.n > 1;

	if (SXT_FAKE_BREAKS(message_zero) && !grouped && sizes[0] == 0)
		sizes[0] = 1;
	if (SXT_FAKE_BREAKS(message_shorter) && !grouped && sizes[0] > 0)
		sizes[0] = (int)request->cts.room[0];
	for (uint32_t i = 1; SXT_FAKE_BREAKS(group_sizes) && i < request->cts.n; i++)
		sizes[i] = sizes[0];
}

ncclResult_t sxt_broken_test(struct sxt_fake_request *request, int *sizes)
{
	struct sxt_fake_comm *comm = request->comm;
	struct sxt_broken_notes *notes = &comm->notes;

	if (comm->sender)
		return ncclSuccess;
	notes->waits_cnt = comm->head_got == 0 && !request->done ? notes->waits_cnt + 1 : 0;
	if (SXT_FAKE_BREAKS(test_not_done) && notes->waits_cnt == PATIENCE)
		return sxt_broken_refuse();
	if (!request->done)
		return ncclSuccess;
	notes->tested = request;
	if (SXT_FAKE_BREAKS(optional_done) && request->optional && request->sizes[0] > 0)
		return sxt_broken_refuse();
	if (sizes != NULL)
		tell_wrong_size(request, sizes);
	return ncclSuccess;
}

ncclResult_t sxt_broken_consumed(const struct sxt_fake_request *request)
{
	if (SXT_FAKE_BREAKS(consumed_after_done) && request->comm->notes.tested != request)
		return sxt_broken_refuse();
	return ncclSuccess;
}
