/*
 * conn.c - the life of both ends: memory, queue pair, joining, draining, freeing.
 *
 * Slow paths only; sxt_conn_destroy() shares the context with the data path through the owner word.
 */
#include "ib/conn.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/data.h"
#include "ib/process.h"
#include "ib/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How long closing waits for the flushed work requests; after that the queue pair goes anyway. */
#define DRAIN_NS    (100 * SXT_NS_PER_MS)
#define DRAIN_POLLS 200000u

#define CHUNK_LOG2_MIN 7u /* every cut lies at a multiple of 128 bytes */

#define RING_BYTES    (SXT_RING_ENTRIES * sizeof(struct sxt_wire_cts))
#define RECORDS_BYTES (SXT_MEMBERS_MAX * sizeof(struct sxt_wire_record))

/*
 * Memory that HCAs read and write. Shared, so that a fork never moves a page away from the HCA by
 * copy-on-write; zeroed by the kernel and backed only where it is touched. Behind a descriptor, so
 * that an HCA made of software can map it too; the descriptor is needed while registering only.
 */
static void *memory_map(size_t bytes, int *fd_out)
{
	int fd = memfd_create("sextant ring", MFD_CLOEXEC);
	int flags = MAP_SHARED;
	void *memory;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		flags |= MAP_ANONYMOUS;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	*fd_out = fd;
	return memory != MAP_FAILED ? memory : NULL;
}

static void descriptor_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

static struct sxt_request *requests_create(struct sxt_conn *conn, uint32_t cnt)
{
	struct sxt_request *requests = aligned_alloc(SXT_CACHELINE, cnt * sizeof(*requests));
	uint32_t i;

	if (requests == NULL)
		return NULL;
	memset(requests, 0, cnt * sizeof(*requests));
	for (i = cnt; i-- > 0;) {
		requests[i].conn = conn;
		requests[i].index = (uint16_t)i;
		requests[i].cnt = 1;
		sxt_request_give(&requests[i]);
	}
	return requests;
}

static int send_memory(struct sxt_send_end *end)
{
	int fd = -1;
	int rc = -ENOMEM;

	end->requests = requests_create(&end->conn, SXT_SENDS_MAX);
	end->memory = memory_map(RING_BYTES, &fd);
	end->ring = end->memory;
	if (end->requests != NULL && end->memory != NULL)
		rc = sxt_mr_register_ring(end->conn.port, end->ring, RING_BYTES,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
					  "clear-to-send ring", &end->ring_mr);
	descriptor_close(fd);
	if (rc != 0)
		return rc;
	end->wr.sg_list = &end->sge;
	end->wr.send_flags = IBV_SEND_SIGNALED;
	return 0;
}

static int recv_register(struct sxt_recv_end *end)
{
	int rc = sxt_mr_register_ring(end->conn.port, end->shadow, RING_BYTES,
				      IBV_ACCESS_LOCAL_WRITE, "clear-to-send shadow",
				      &end->shadow_mr);

	if (rc != 0)
		return rc;
	return sxt_mr_register_ring(end->conn.port, end->records, RECORDS_BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
				    "size records", &end->records_mr);
}

static void members_init(struct sxt_recv_end *end)
{
	uint32_t i;

	for (i = 0; i < SXT_MEMBERS_MAX; i++)
		end->members[i].next_free = (uint16_t)(i + 1 < SXT_MEMBERS_MAX ? i + 1 : SXT_NONE);
	end->members_free_cnt = SXT_MEMBERS_MAX;
}

static int recv_memory(struct sxt_recv_end *end)
{
	int fd = -1;
	int rc = -ENOMEM;

	end->requests = requests_create(&end->conn, SXT_REQUESTS_MAX);
	end->members = calloc(SXT_MEMBERS_MAX, sizeof(*end->members));
	end->memory = memory_map(RING_BYTES + RECORDS_BYTES, &fd);
	if (end->requests != NULL && end->members != NULL && end->memory != NULL) {
		end->shadow = end->memory;
		end->records = (struct sxt_wire_record *)(end->shadow + SXT_RING_ENTRIES);
		rc = recv_register(end);
	}
	descriptor_close(fd);
	if (rc != 0)
		return rc;
	members_init(end);
	end->records_rkey = end->records_mr->rkey;
	end->sge.lkey = end->shadow_mr->lkey;
	end->wr.sg_list = &end->sge;
	end->wr.num_sge = 1;
	end->wr.opcode = IBV_WR_RDMA_WRITE;
	return 0;
}

/* Its place in the context, and from that what every work request of it carries. */
static int slot_take(struct sxt_conn *conn)
{
	/* Any number will do that a slot does not see again while completions of its earlier use
	 * may still lie in the CQ. */
	static _Atomic uint32_t uses;
	uint16_t generation;
	int rc;

	conn->wr_tail = UINT64_MAX; /* no completion's */
	rc = sxt_context_add_conn(conn->ctx, conn, &conn->slot);
	if (rc != 0)
		return rc;
	conn->has_slot = true;
	generation = (uint16_t)atomic_fetch_add_explicit(&uses, 1, memory_order_relaxed);
	/* Whoever drains compares it. */
	sxt_context_own(conn->ctx);
	conn->wr_tail = (uint64_t)generation << SXT_WR_GENERATION_SHIFT | conn->slot;
	sxt_context_disown(conn->ctx);
	return 0;
}

static int qp_make(struct sxt_conn *conn)
{
	bool sends = conn->kind == SXT_CONN_SEND;
	struct sxt_qp_spec spec = {
		.user = conn,
		.send_depth = sends ? SXT_SEND_SQ_DEPTH : SXT_RECV_SQ_DEPTH,
		.recv_depth = sends ? SXT_SEND_RQ_DEPTH : SXT_RECV_RQ_DEPTH,
		.inline_bytes = sends ? 0 : sizeof(struct sxt_wire_cts),
	};
	int rc;

	/* Flushed, every work request of both queues completes. */
	conn->cq_completions = spec.send_depth + spec.recv_depth;
	rc = sxt_context_cq_get(conn->ctx, conn->port, conn->cq_completions, &conn->cq);
	if (rc != 0)
		return rc;
	spec.cq = conn->cq->cq;
	rc = sxt_qp_create(conn->port, &spec, &conn->qp);
	if (rc != 0)
		return rc;
	if (!sends)
		sxt_recv_end(conn)->can_inline = spec.inline_bytes >= sizeof(struct sxt_wire_cts);
	return 0;
}

static int locate(struct sxt_conn *conn)
{
	uint32_t psn = 0;
	int rc = sxt_port_locate(conn->port, &conn->local);

	if (rc != 0)
		return rc;
	rc = sxt_sys_random(conn->ctx->ib->sys, &psn, sizeof(psn));
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "%s: no random numbers for a queue pair: %s",
			conn->port->label, sxt_strerror(rc));
		return rc;
	}
	conn->local.path.qpn = conn->qp->qp_num;
	conn->local.path.psn = psn & 0xffffffu;
	return 0;
}

int sxt_conn_create(struct sxt_context *ctx, struct sxt_nic *nic, enum sxt_conn_kind kind,
		    struct sxt_conn **out)
{
	size_t bytes =
		kind == SXT_CONN_SEND ? sizeof(struct sxt_send_end) : sizeof(struct sxt_recv_end);
	struct sxt_conn *conn = aligned_alloc(SXT_CACHELINE, bytes);
	int rc;

	if (conn == NULL)
		return -ENOMEM;
	memset(conn, 0, bytes);
	conn->ctx = ctx;
	conn->nic = nic;
	conn->port = nic->ports[0];
	conn->kind = (uint8_t)kind;
	sxt_list_init(&conn->side_node);
	rc = slot_take(conn);
	if (rc != 0)
		goto fail;
	rc = kind == SXT_CONN_SEND ? send_memory(sxt_send_end(conn))
				   : recv_memory(sxt_recv_end(conn));
	if (rc != 0)
		goto fail;
	rc = qp_make(conn);
	if (rc != 0)
		goto fail;
	rc = locate(conn);
	if (rc != 0)
		goto fail;
	*out = conn;
	return 0;
fail:
	sxt_conn_destroy(conn);
	return rc;
}

void sxt_conn_memory(const struct sxt_conn *conn, struct sxt_wire_memory *out)
{
	const struct ibv_mr *mr = conn->kind == SXT_CONN_SEND
					  ? ((const struct sxt_send_end *)conn)->ring_mr
					  : ((const struct sxt_recv_end *)conn)->records_mr;

	memset(out, 0, sizeof(*out));
	out->addr = (uintptr_t)mr->addr;
	out->bytes = (uint32_t)mr->length;
	out->rkeys_cnt = 1;
	out->rkeys[0] = mr->rkey;
}

/* What the peer says must be something the data path can trust. */
static int peer_check(const struct sxt_conn *conn, const struct sxt_wire_path *peer,
		      const struct sxt_wire_memory *memory)
{
	size_t wanted = conn->kind == SXT_CONN_SEND ? RECORDS_BYTES : RING_BYTES;

	if (peer->max_message_log2 < CHUNK_LOG2_MIN) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: %s says its port takes messages of 2^%u bytes, at least 2^%u are "
			"needed",
			conn->port->label, conn->peer_name, peer->max_message_log2, CHUNK_LOG2_MIN);
		return -EPROTO;
	}
	if (memory->rkeys_cnt != 1 || memory->bytes < wanted ||
	    memory->addr % sizeof(struct sxt_wire_record) != 0 ||
	    (conn->kind == SXT_CONN_RECV && memory->addr % sizeof(struct sxt_wire_cts) != 0)) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: %s offers %u bytes at 0x%llx with %u keys as its %s; %zu aligned "
			"bytes "
			"with 1 key are needed: do both sides run the same Sextant?",
			conn->port->label, conn->peer_name, memory->bytes,
			(unsigned long long)memory->addr, memory->rkeys_cnt,
			conn->kind == SXT_CONN_SEND ? "size records" : "clear-to-send ring",
			wanted);
		return -EPROTO;
	}
	return 0;
}

static int receives_post(struct sxt_conn *conn)
{
	int rc;

	if (conn->kind != SXT_CONN_RECV)
		return 0;
	/* Nothing arrives yet, but completions of the CQ are counted under the owner word. */
	sxt_context_own(conn->ctx);
	rc = sxt_recv_fill(sxt_recv_end(conn));
	sxt_context_disown(conn->ctx);
	return rc;
}

int sxt_conn_start(struct sxt_conn *conn, const struct sxt_wire_path *peer,
		   const struct sxt_wire_memory *memory)
{
	struct sxt_qp_route route = {
		.local = &conn->local,
		.peer = peer,
		.tclass = conn->tclass,
		.peer_name = conn->peer_name,
	};
	uint32_t log2 = conn->local.path.max_message_log2;
	int rc = peer_check(conn, peer, memory);

	if (rc != 0)
		return rc;
	if (peer->max_message_log2 < log2)
		log2 = peer->max_message_log2;
	if (log2 > SXT_CONN_CHUNK_LOG2_MAX)
		log2 = SXT_CONN_CHUNK_LOG2_MAX;
	conn->peer = *peer;
	if (conn->kind == SXT_CONN_SEND) {
		sxt_send_end(conn)->chunk_bytes = 1ull << log2;
	} else {
		sxt_recv_end(conn)->chunk_log2 = (uint8_t)log2;
		sxt_recv_end(conn)->ring_addr = memory->addr;
		sxt_recv_end(conn)->wr.wr.rdma.rkey = memory->rkeys[0];
	}
	rc = receives_post(conn);
	if (rc != 0)
		return rc;
	return sxt_qp_join(conn->port, conn->qp, &route);
}

static uint64_t send_acked_cnt(const struct sxt_send_end *end)
{
	uint64_t cnt = end->ordinal;
	uint32_t i;

	for (i = 0; i < SXT_SENDS_MAX; i++) {
		const struct sxt_request *request = &end->requests[i];

		if ((request->flags & SXT_REQ_IMM) != 0 &&
		    atomic_load_explicit(&request->done, memory_order_relaxed) == 0)
			cnt--;
	}
	return cnt;
}

void sxt_conn_progress_get(const struct sxt_conn *conn, struct sxt_wire_progress *out)
{
	if (conn->kind == SXT_CONN_SEND) {
		const struct sxt_send_end *end = (const struct sxt_send_end *)conn;

		out->cts_posted = end->head;
		out->messages_taken = send_acked_cnt(end);
	} else {
		const struct sxt_recv_end *end = (const struct sxt_recv_end *)conn;

		out->cts_posted = end->posted;
		out->messages_taken = end->messages_taken;
	}
}

/* Nothing of this queue pair can complete any more. */
static bool flushed(struct sxt_conn *conn)
{
	if (conn->kind == SXT_CONN_SEND)
		return sxt_send_end(conn)->sq_used == 0;
	return sxt_recv_end(conn)->rq_posted == 0 && sxt_recv_end(conn)->drain_seen;
}

/*
 * Unsignaled entries leave no count of what is still to be flushed, so a marker behind them tells.
 * A send end needs none: its last write is always signaled.
 */
static void marker_post(struct sxt_recv_end *end)
{
	struct ibv_send_wr wr = {
		.wr_id = sxt_wr_id(&end->conn, SXT_WR_DRAIN, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	/* A provider that refuses it in ERROR has nothing left to say either. */
	if (ibv_post_send(end->conn.qp, &wr, &bad) != 0)
		end->drain_seen = true;
}

/*
 * Whether everything came. Completions that stay behind in the CQ are recognised by their
 * generation. Time is up only when none comes: the thread may have been away meanwhile.
 */
static bool drain(struct sxt_conn *conn)
{
	const struct sxt_sys *sys = conn->ctx->ib->sys;
	uint64_t deadline_ns = sys->now_ns() + DRAIN_NS;
	uint32_t polls = 0;
	bool done;
	int cnt;

	do {
		sxt_context_own(conn->ctx);
		cnt = sxt_data_drain(conn);
		done = flushed(conn);
		sxt_context_disown(conn->ctx);
	} while (!done && ++polls < DRAIN_POLLS && (cnt > 0 || sys->now_ns() < deadline_ns));
	return done;
}

static void qp_unmake(struct sxt_conn *conn)
{
	bool is_empty = conn->qp == NULL;

	if (!is_empty && sxt_qp_to_error(conn->port, conn->qp) == 0) {
		if (conn->kind == SXT_CONN_RECV)
			marker_post(sxt_recv_end(conn));
		is_empty = drain(conn);
	}
	if (conn->has_slot) {
		sxt_context_own(conn->ctx);
		sxt_context_remove_conn(conn->ctx, conn->slot);
		sxt_context_disown(conn->ctx);
	}
	sxt_qp_destroy(conn->port, conn->qp);
	/* What may still come into the CQ needs its room: an overrun would fail everybody in it. */
	if (is_empty)
		sxt_context_cq_put(conn->ctx, conn->cq, conn->cq_completions);
}

void sxt_conn_destroy(struct sxt_conn *conn)
{
	if (conn == NULL)
		return;
	qp_unmake(conn);
	if (conn->kind == SXT_CONN_SEND) {
		struct sxt_send_end *end = sxt_send_end(conn);

		sxt_mr_deregister_ring(conn->port, end->ring_mr);
		if (end->memory != NULL)
			munmap(end->memory, RING_BYTES);
		free(end->requests);
	} else {
		struct sxt_recv_end *end = sxt_recv_end(conn);

		sxt_mr_deregister_ring(conn->port, end->records_mr);
		sxt_mr_deregister_ring(conn->port, end->shadow_mr);
		if (end->memory != NULL)
			munmap(end->memory, RING_BYTES + RECORDS_BYTES);
		free(end->members);
		free(end->requests);
	}
	free(conn);
}

void sxt_conn_note(struct sxt_conn *conn, uint32_t notes)
{
	/* Release pairs with the acquires in sxt_context_read_notes(): first what the note says,
	 * then the note, then the flag that makes the data path look. */
	atomic_fetch_or_explicit(&conn->notes, notes, memory_order_release);
	atomic_store_explicit(&conn->ctx->mailbox, 1, memory_order_release);
}

void sxt_context_read_notes(struct sxt_context *ctx)
{
	uint32_t slot;

	atomic_exchange_explicit(&ctx->mailbox, 0, memory_order_acquire);
	for (slot = 0; slot < ctx->conns_cap; slot++) {
		struct sxt_conn *conn = ctx->conns[slot];
		uint32_t notes;

		if (conn == NULL)
			continue;
		notes = atomic_exchange_explicit(&conn->notes, 0, memory_order_acquire);
		/* Whoever left the note has logged why. */
		if ((notes & SXT_NOTE_FAILED) != 0 && conn->error == 0)
			conn->error = conn->note_error;
		if ((notes & SXT_NOTE_PEER_CLOSED) != 0)
			conn->peer_closed = 1;
		if (notes != 0)
			conn->attention = 1;
	}
}
