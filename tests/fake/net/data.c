/*
 * data.c - the fake net plugin's messages: isend, irecv, test. One thread per comm.
 */
#include "tests/fake/net/fake.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

/* Bytes moved; 0 for "not now"; marks the comm broken when the peer is gone. */
static size_t pull(struct sxt_fake_comm *comm, void *buf, size_t bytes)
{
	ssize_t n = bytes > 0 ? recv(comm->fd, buf, bytes, 0) : 0;

	if (bytes > 0 && (n == 0 || (n < 0 && errno != EAGAIN)))
		comm->broken = true;
	return n > 0 ? (size_t)n : 0;
}

static size_t push(struct sxt_fake_comm *comm, const void *buf, size_t bytes)
{
	ssize_t n = send(comm->fd, buf, bytes, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN)
		comm->broken = true;
	return n > 0 ? (size_t)n : 0;
}

/* Reads clear-to-sends while there is room for them. */
static void read_cts(struct sxt_fake_comm *comm)
{
	while (comm->groups_in - comm->groups_done < SXT_FAKE_GROUPS_MAX) {
		comm->cts_got += pull(comm, (char *)&comm->cts_in + comm->cts_got,
				      sizeof(comm->cts_in) - comm->cts_got);
		if (comm->cts_got < sizeof(comm->cts_in))
			return;
		comm->groups[comm->groups_in++ % SXT_FAKE_GROUPS_MAX] =
			(struct sxt_fake_group){.cts = comm->cts_in};
		comm->cts_got = 0;
	}
}

static void write_messages(struct sxt_fake_comm *comm)
{
	while (comm->finished < comm->posted) {
		struct sxt_fake_request *r = &comm->requests[comm->finished % SXT_FAKE_SENDS_MAX];
		size_t sent;

		if (r->sent < sizeof(r->head))
			sent = push(comm, (char *)&r->head + r->sent, sizeof(r->head) - r->sent);
		else if (r->sent < sizeof(r->head) + r->head.bytes)
			sent = push(comm, r->data + r->sent - sizeof(r->head),
				    sizeof(r->head) + r->head.bytes - r->sent);
		else {
			r->done = true;
			comm->finished++;
			continue;
		}
		r->sent += sent;
		if (sent == 0)
			return;
	}
}

static void write_cts(struct sxt_fake_comm *comm)
{
	while (comm->cts_written < comm->posted) {
		struct sxt_fake_request *r =
			&comm->requests[comm->cts_written % SXT_FAKE_SENDS_MAX];

		r->cts_sent +=
			push(comm, (char *)&r->cts + r->cts_sent, sizeof(r->cts) - r->cts_sent);
		if (r->cts_sent < sizeof(r->cts))
			return;
		comm->cts_written++;
	}
}

static int saturate(uint64_t bytes)
{
	return bytes <= INT_MAX ? (int)bytes : INT_MAX;
}

/* Return: true when a whole message has arrived and more may. */
static bool read_message(struct sxt_fake_comm *comm)
{
	struct sxt_fake_request *r = &comm->requests[comm->finished % SXT_FAKE_SENDS_MAX];
	uint32_t member;

	if (comm->head_got < sizeof(comm->head))
		comm->head_got += pull(comm, (char *)&comm->head + comm->head_got,
				       sizeof(comm->head) - comm->head_got);
	if (comm->head_got < sizeof(comm->head))
		return false;
	member = comm->head.member;
	comm->data_got +=
		pull(comm, r->bufs[member] + comm->data_got, comm->head.bytes - comm->data_got);
	if (comm->data_got < comm->head.bytes)
		return false;
	r->sizes[member] = saturate(comm->head.bytes);
	if (comm->head.spoiled)
		r->bufs[member][comm->head.bytes - 1] ^= 1;
	comm->head_got = 0;
	comm->data_got = 0;
	if (++r->arrived_cnt == r->cts.n) {
		r->done = true;
		comm->finished++;
	}
	return true;
}

static void progress(struct sxt_fake_comm *comm)
{
	if (comm->sender) {
		read_cts(comm);
		write_messages(comm);
		return;
	}
	write_cts(comm);
	while (comm->finished < comm->posted && read_message(comm))
		;
}

static struct sxt_fake_request *next_request(struct sxt_fake_comm *comm)
{
	struct sxt_fake_request *r = &comm->requests[comm->posted % SXT_FAKE_SENDS_MAX];

	if (r->used)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->comm = comm;
	r->used = true;
	return r;
}

/* Index of the tag in the oldest incomplete group, or -1. */
static int find_member(const struct sxt_fake_comm *comm, int tag)
{
	const struct sxt_fake_group *g = &comm->groups[comm->groups_done % SXT_FAKE_GROUPS_MAX];

	bool any = SXT_FAKE_BREAKS(group_tags) && g->cts.n > 1 && g->cts.n < SXT_FAKE_MEMBERS_MAX;

	if (comm->groups_done == comm->groups_in)
		return -1;
	for (uint32_t i = 0; i < g->cts.n; i++) {
		if (!g->taken[i] && (g->cts.tags[i] == tag || any))
			return (int)i;
	}
	return -1;
}

static void take_member(struct sxt_fake_comm *comm, int member)
{
	struct sxt_fake_group *g = &comm->groups[comm->groups_done % SXT_FAKE_GROUPS_MAX];

	g->taken[member] = true;
	if (++g->taken_cnt == g->cts.n)
		comm->groups_done++;
}

static bool is_registered(const struct sxt_fake_mr *mr, const void *data, size_t bytes)
{
	if (bytes == 0)
		return true;
	return mr != NULL && (const char *)data >= mr->data &&
	       (const char *)data + bytes <= mr->data + mr->bytes;
}

static ncclResult_t check_send(struct sxt_fake_comm *comm, const struct sxt_fake_send *send,
			       int member)
{
	const struct sxt_fake_group *g = &comm->groups[comm->groups_done % SXT_FAKE_GROUPS_MAX];

	if (!is_registered(send->mhandle, send->data, send->bytes)) {
		SXT_FAKE_WARN("fake: the memory of isend is not in its registration");
		return ncclInvalidArgument;
	}
	if (SXT_FAKE_BREAKS(message_3gib) && send->bytes > INT_MAX)
		return sxt_broken_refuse();
	if (send->bytes <= g->cts.room[member] || SXT_FAKE_BREAKS(message_too_large))
		return ncclSuccess;
	SXT_FAKE_WARN("fake: a message of %zu bytes, tag %d, is larger than its receive",
		      send->bytes, send->tag);
	return ncclInvalidUsage;
}

ncclResult_t sxt_fake_isend(struct sxt_fake_comm *comm, const struct sxt_fake_send *given,
			    void **request)
{
	struct sxt_fake_send send = *given;
	struct sxt_fake_request *r;
	ncclResult_t result;
	int member;

	*request = NULL;
	progress(comm);
	if (comm->broken) {
		SXT_FAKE_WARN("fake: the receiver has gone");
		return ncclRemoteError;
	}
	if (sxt_fake_fault("stall", send.tag) ||
	    comm->requests[comm->posted % SXT_FAKE_SENDS_MAX].used)
		return ncclSuccess;
	member = find_member(comm, send.tag);
	result = sxt_broken_isend(comm, member);
	if (result != ncclSuccess || member < 0)
		return result;
	result = check_send(comm, &send, member);
	if (result == ncclSuccess)
		result = sxt_fake_fault_isend(&send);
	if (result != ncclSuccess)
		return result;
	take_member(comm, member);
	r = next_request(comm);
	r->head = (struct sxt_fake_head){
		.bytes = send.bytes,
		.member = (uint32_t)member,
		.spoiled = sxt_broken_spoils(comm, &send),
	};
	r->data = send.data;
	comm->posted++;
	write_messages(comm);
	*request = r;
	return ncclSuccess;
}

/* The hint of an optional receive is ignored, as NCCL allows. */
ncclResult_t sxt_fake_irecv(struct sxt_fake_comm *comm, const struct sxt_fake_recv *recv,
			    void **request)
{
	struct sxt_fake_request *r;
	bool take = true;
	ncclResult_t result;

	*request = NULL;
	result = sxt_broken_irecv(comm, recv, &take);
	if (result != ncclSuccess || !take || comm->posted - comm->finished >= SXT_FAKE_GROUPS_MAX)
		return result;
	for (int i = 0; i < recv->n; i++) {
		if (!is_registered(recv->mhandles[i], recv->data[i], recv->sizes[i])) {
			SXT_FAKE_WARN("fake: the memory of irecv is not in its registration");
			return ncclInvalidArgument;
		}
	}
	r = next_request(comm);
	if (r == NULL)
		return ncclSuccess;
	r->cts.n = (uint32_t)recv->n;
	r->optional = recv->optional;
	for (int i = 0; i < recv->n; i++) {
		r->cts.tags[i] = recv->tags[i];
		r->cts.room[i] = recv->sizes[i];
		r->bufs[i] = recv->data[i];
	}
	sxt_broken_posted(comm, r);
	comm->posted++;
	progress(comm);
	*request = r;
	return ncclSuccess;
}

/* What the variant with bad flushes gives out. */
static struct sxt_fake_request bad_flush;

static void tell_sizes(const struct sxt_fake_request *r, int *sizes)
{
	if (r->comm->sender)
		sizes[0] = saturate(r->head.bytes);
	else
		memcpy(sizes, r->sizes, sizeof(sizes[0]) * r->cts.n);
}

ncclResult_t sxt_fake_test(void *opaque, int *done, int *sizes)
{
	struct sxt_fake_request *r = opaque;

	*done = 0;
	if (r == &bad_flush)
		return sxt_broken_refuse();
	if (!r->done)
		progress(r->comm);
	*done = r->done;
	if (!r->done && r->comm->broken) {
		SXT_FAKE_WARN("fake: the %s has gone", r->comm->sender ? "receiver" : "sender");
		return ncclRemoteError;
	}
	if (r->done && sizes != NULL)
		tell_sizes(r, sizes);
	if (r->done)
		r->used = r->comm->consumes && !r->comm->sender;
	return sxt_broken_test(r, sizes);
}

ncclResult_t sxt_fake_consumed(void *comm, int n, void *request)
{
	struct sxt_fake_request *r = request;

	if (r->comm != comm || r->cts.n != (uint32_t)n || !r->done || !r->used)
		return ncclInvalidArgument;
	r->used = false;
	return sxt_broken_consumed(r);
}

ncclResult_t sxt_fake_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
			     void **request)
{
	(void)comm;
	(void)n;
	(void)data;
	(void)sizes;
	(void)mhandles;
	*request = SXT_FAKE_BREAKS(flush_nothing) ? &bad_flush : NULL;
	return ncclSuccess;
}
