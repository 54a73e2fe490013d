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
#include "ib/tell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How long closing waits for the flushed work requests; after that the queue pair goes anyway. */
#define DRAIN_NS    (100 * SXT_NS_PER_MS)
#define DRAIN_POLLS 200000u

#define RING_BYTES    (SXT_RING_ENTRIES * sizeof(struct sxt_wire_cts))
#define SOURCES_BYTES (SXT_SENDS_MAX * sizeof(uint64_t))
#define RECORDS_BYTES (SXT_MEMBERS_MAX * sizeof(struct sxt_wire_record))

/* NCCL's default for NCCL_IB_AR_THRESHOLD. */
#define AR_BYTES 8192u

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

/*
 * `cnt` of them, the first `free_cnt` for whoever starts a message. Written once each, whole:
 * clearing them before would cost more than all the rest of connecting.
 */
static struct sxt_request *requests_create(struct sxt_conn *conn, uint32_t cnt, uint32_t free_cnt)
{
	struct sxt_request *requests = aligned_alloc(SXT_CACHELINE, cnt * sizeof(*requests));
	uint32_t i;

	if (requests == NULL)
		return NULL;
	for (i = 0; i < cnt; i++) {
		requests[i] = (struct sxt_request){
			.conn = conn,
			.cnt = 1,
			.index = (uint8_t)i,
			.imm = SXT_IMM_LAST,
			.sent.wr_id = (uint64_t)sxt_wr_send_index(i, 1) << SXT_WR_INDEX_SHIFT |
				      SXT_WR_SEND,
		};
		requests[i].next = i + 1 < free_cnt ? &requests[i + 1] : NULL;
	}
	conn->free_requests = requests;
	return requests;
}

/* Memory of our own on every port of the NIC; `out` is for sxt_mr_deregister_ring() also if not. */
static int memory_register(const struct sxt_conn *conn, void *addr, size_t bytes, int access,
			   const char *what, struct ibv_mr **out)
{
	int rc = 0;

	for (uint32_t i = 0; i < conn->nic->ports_cnt && rc == 0; i++)
		rc = sxt_mr_register_ring(conn->nic->ports[i], addr, bytes, access, what, &out[i]);
	return rc;
}

static void memory_deregister(const struct sxt_conn *conn, struct ibv_mr **mrs)
{
	for (uint32_t i = 0; i < conn->nic->ports_cnt; i++) {
		sxt_mr_deregister_ring(conn->nic->ports[i], mrs[i]);
		mrs[i] = NULL;
	}
}

/* The ring comes first: the peer learns the address of all of it. */
static int send_memory(struct sxt_send_end *end)
{
	int fd = -1;
	int rc = -ENOMEM;

	end->requests = requests_create(&end->conn, SXT_SENDS_MAX, SXT_SENDS_MAX);
	end->memory = memory_map(RING_BYTES + SOURCES_BYTES, &fd);
	if (end->requests != NULL && end->memory != NULL) {
		end->ring = end->memory;
		end->records = (uint64_t *)(void *)(end->ring + SXT_RING_ENTRIES);
		rc = memory_register(&end->conn, end->memory, RING_BYTES + SOURCES_BYTES,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
				     "clear-to-send ring", end->memory_mrs);
	}
	descriptor_close(fd);
	if (rc != 0)
		return rc;
	return 0;
}

static int recv_register(struct sxt_recv_end *end)
{
	int rc = memory_register(&end->conn, end->shadow, RING_BYTES, IBV_ACCESS_LOCAL_WRITE,
				 "clear-to-send shadow", end->shadow_mrs);

	if (rc != 0)
		return rc;
	return memory_register(&end->conn, end->records, RECORDS_BYTES,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, "size records",
			       end->records_mrs);
}

static int recv_memory(struct sxt_recv_end *end)
{
	int fd = -1;
	int rc = -ENOMEM;

	end->requests = requests_create(&end->conn, SXT_RECEIVES_MAX, SXT_REQUESTS_MAX);
	/* Each is written whole before it is looked at. */
	end->members = aligned_alloc(SXT_CACHELINE, SXT_MEMBERS_MAX * sizeof(*end->members));
	end->memory = memory_map(RING_BYTES + RECORDS_BYTES, &fd);
	if (end->requests != NULL && end->members != NULL && end->memory != NULL) {
		end->shadow = end->memory;
		end->records = (struct sxt_wire_record *)(end->shadow + SXT_RING_ENTRIES);
		rc = recv_register(end);
	}
	descriptor_close(fd);
	return rc;
}

static int memory_make(struct sxt_conn *conn)
{
	return conn->kind == SXT_CONN_SEND ? send_memory(sxt_send_end(conn))
					   : recv_memory(sxt_recv_end(conn));
}

static void memory_unmap(void **memory, size_t bytes)
{
	if (*memory != NULL)
		munmap(*memory, bytes);
	*memory = NULL;
}

/* Also of half-made ones. */
static void memory_unmake(struct sxt_conn *conn)
{
	if (conn->kind == SXT_CONN_SEND) {
		struct sxt_send_end *end = sxt_send_end(conn);

		memory_deregister(conn, end->memory_mrs);
		memory_unmap(&end->memory, RING_BYTES + SOURCES_BYTES);
		free(end->requests);
		end->requests = NULL;
	} else {
		struct sxt_recv_end *end = sxt_recv_end(conn);

		memory_deregister(conn, end->records_mrs);
		memory_deregister(conn, end->shadow_mrs);
		memory_unmap(&end->memory, RING_BYTES + RECORDS_BYTES);
		free(end->members);
		free(end->requests);
		end->members = NULL;
		end->requests = NULL;
	}
}

/* Its place in the context, and from that what every work request of it carries. */
static int slot_take(struct sxt_conn *conn)
{
	/* Any number will do that a slot does not see again while completions of its earlier use
	 * may still lie in the CQ. */
	static _Atomic uint32_t uses;
	uint16_t generation;
	uint32_t slot;
	int rc;

	conn->wr_tail = UINT64_MAX; /* no completion's */
	rc = sxt_context_add_conn(conn->ctx, conn, &slot);
	if (rc != 0)
		return rc;
	conn->slot = (uint16_t)slot;
	conn->has_slot = true;
	generation = (uint16_t)atomic_fetch_add_explicit(&uses, 1, memory_order_relaxed);
	/* Whoever drains compares it. */
	sxt_context_own(conn->ctx);
	conn->wr_tail = (uint64_t)generation << SXT_WR_GENERATION_SHIFT |
			(uint64_t)conn->slot << SXT_WR_SLOT_SHIFT;
	sxt_context_disown(conn->ctx);
	return 0;
}

/* Each CQ of the paths once: what a test that may complete anywhere has to look at. */
static void cqs_collect(struct sxt_conn *conn)
{
	conn->cqs_cnt = 0;
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		uint32_t known = 0;

		while (known < conn->cqs_cnt && conn->cqs[known] != conn->paths[i].cq)
			known++;
		if (known == conn->cqs_cnt)
			conn->cqs[conn->cqs_cnt++] = conn->paths[i].cq;
	}
}

static void inline_set(struct sxt_conn *conn)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		if (conn->paths[i].inline_bytes < least)
			least = conn->paths[i].inline_bytes;
	}
	if (conn->kind == SXT_CONN_SEND)
		sxt_send_end(conn)->inline_bytes = least;
	else
		sxt_recv_end(conn)->can_inline = least >= sizeof(struct sxt_wire_cts) &&
						 conn->ctx->ib->config->ib_use_inline != 0;
}

uint32_t sxt_conn_paths_cnt(struct sxt_nic *nic, uint32_t peer_ports_cnt)
{
	uint32_t ports_cnt = nic->ports_cnt > peer_ports_cnt ? nic->ports_cnt : peer_ports_cnt;
	uint32_t each = nic->ports[0]->device->ib->config->ib_qps_per_connection;

	if (each * ports_cnt <= SXT_PATHS_MAX)
		return each * ports_cnt;
	if (atomic_exchange_explicit(&nic->paths_told, true, memory_order_relaxed) == 0)
		SXT_LOG(SXT_LOG_WARN,
			"%s: NCCL_IB_QPS_PER_CONNECTION=%u on %u ports asks for %u queue pairs per "
			"connection, taking %u: set it to %u or less",
			nic->label, each, ports_cnt, each * ports_cnt,
			SXT_PATHS_MAX / ports_cnt * ports_cnt, SXT_PATHS_MAX / ports_cnt);
	return SXT_PATHS_MAX / ports_cnt * ports_cnt;
}

/* One block: the end, its paths, the list of their CQs. Each begins on a line of its own. */
static struct sxt_conn *end_alloc(enum sxt_conn_kind kind, uint32_t paths_cnt)
{
	size_t end_bytes =
		kind == SXT_CONN_SEND ? sizeof(struct sxt_send_end) : sizeof(struct sxt_recv_end);
	size_t paths_bytes = paths_cnt * sizeof(struct sxt_path);
	size_t bytes = end_bytes + paths_bytes + paths_cnt * sizeof(struct sxt_cq *);
	struct sxt_conn *conn;

	bytes = (bytes + SXT_CACHELINE - 1) / SXT_CACHELINE * SXT_CACHELINE;
	conn = aligned_alloc(SXT_CACHELINE, bytes);
	if (conn == NULL)
		return NULL;
	memset(conn, 0, bytes);
	conn->paths = (struct sxt_path *)(void *)((char *)conn + end_bytes);
	conn->cqs = (struct sxt_cq **)(void *)((char *)conn + end_bytes + paths_bytes);
	conn->paths_cnt = (uint8_t)paths_cnt;
	conn->kind = (uint8_t)kind;
	return conn;
}

int sxt_conn_create(struct sxt_context *ctx, struct sxt_nic *nic, enum sxt_conn_kind kind,
		    uint32_t paths_cnt, struct sxt_conn **out)
{
	struct sxt_conn *conn = end_alloc(kind, paths_cnt);
	int rc;

	if (conn == NULL)
		return -ENOMEM;
	conn->ctx = ctx;
	conn->nic = nic;
	conn->is_making = 1;
	sxt_list_init(&conn->side_node);
	rc = slot_take(conn);
	if (rc != 0)
		goto fail;
	rc = sxt_tell_conn_making(conn);
	if (rc != 0)
		goto fail;
	rc = memory_make(conn);
	if (rc != 0)
		goto fail;
	*out = conn;
	return 0;
fail:
	sxt_conn_destroy(conn);
	return rc;
}

int sxt_conn_move(struct sxt_conn *conn, struct sxt_nic *nic)
{
	int rc = 0;

	for (uint32_t i = 0; i < conn->paths_cnt && rc == 0; i++)
		rc = sxt_path_discard(conn, i);
	if (rc != 0)
		return rc;
	memory_unmake(conn);
	conn->nic = nic;
	return memory_make(conn);
}

void sxt_conn_memory(const struct sxt_conn *conn, struct sxt_wire_memory *out)
{
	struct ibv_mr *const *mrs = conn->kind == SXT_CONN_SEND
					    ? ((const struct sxt_send_end *)conn)->memory_mrs
					    : ((const struct sxt_recv_end *)conn)->records_mrs;

	memset(out, 0, sizeof(*out));
	out->addr = (uintptr_t)mrs[0]->addr;
	out->bytes = conn->kind == SXT_CONN_SEND ? RING_BYTES : RECORDS_BYTES;
	out->rkeys_cnt = conn->nic->ports_cnt;
	for (uint32_t i = 0; i < out->rkeys_cnt; i++)
		out->rkeys[i] = mrs[i]->rkey;
}

/* What the peer says must be something the data path can trust. */
static int memory_check(const struct sxt_conn *conn, const struct sxt_wire_memory *memory)
{
	size_t wanted = conn->kind == SXT_CONN_SEND ? RECORDS_BYTES : RING_BYTES;

	if (memory->rkeys_cnt >= 1 && memory->rkeys_cnt <= SXT_PORTS_MAX &&
	    memory->bytes >= wanted && memory->addr % sizeof(struct sxt_wire_record) == 0 &&
	    (conn->kind == SXT_CONN_SEND || memory->addr % sizeof(struct sxt_wire_cts) == 0))
		return 0;
	SXT_LOG(SXT_LOG_ERROR,
		"%s: %s offers %u bytes at 0x%llx with %u keys as its %s; %zu aligned bytes with 1 "
		"to %d keys are needed: do both sides run the same Sextant?",
		sxt_conn_label(conn), conn->peer_name, memory->bytes,
		(unsigned long long)memory->addr, memory->rkeys_cnt,
		conn->kind == SXT_CONN_SEND ? "size records" : "clear-to-send ring", wanted,
		SXT_PORTS_MAX);
	return -EPROTO;
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

/* NCCL's: on for InfiniBand, off for RoCE unless it is asked for. */
static bool routes_adaptively(const struct sxt_conn *conn)
{
	int wanted = conn->ctx->ib->config->ib_adaptive_routing;

	if (wanted >= 0)
		return wanted != 0;
	for (uint32_t i = 0; i < conn->nic->ports_cnt; i++) {
		if (conn->nic->ports[i]->link_layer != IBV_LINK_LAYER_INFINIBAND)
			return false;
	}
	return true;
}

static void send_limits(struct sxt_send_end *end, uint32_t chunk_log2, uint32_t stripes)
{
	const struct sxt_config *config = end->conn.ctx->ib->config;
	int threshold = config->ib_ar_threshold;

	end->chunk_bytes = 1ull << chunk_log2;
	end->stripes = stripes;
	end->ar_bytes = UINT64_MAX;
	if (routes_adaptively(&end->conn))
		end->ar_bytes = threshold >= 0 ? (uint64_t)threshold : AR_BYTES;
	end->whole_bytes = end->chunk_bytes;
	end->stripe_bytes = sxt_conn_stripe_bytes(chunk_log2);
	if (stripes > 1)
		end->whole_bytes = end->stripe_bytes;
	if (end->whole_bytes > end->ar_bytes)
		end->whole_bytes = end->ar_bytes;
}

static void recv_limits(struct sxt_recv_end *end, uint32_t chunk_log2, uint32_t stripes)
{
	end->chunk_log2 = (uint8_t)chunk_log2;
	end->stripes = (uint8_t)stripes;
	end->ports_cnt = (uint8_t)end->conn.nic->ports_cnt;
	end->whole_bytes = 1u << chunk_log2;
	if (stripes > 1)
		end->whole_bytes = sxt_conn_stripe_bytes(chunk_log2);
}

/* What both ends make of their settings and of each other's ports. */
static void limits_set(struct sxt_conn *conn, const struct sxt_wire_memory *memory)
{
	uint32_t ports_cnt = conn->nic->ports_cnt;
	uint32_t log2 = SXT_CONN_CHUNK_LOG2_MAX;

	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		struct sxt_path *path = &conn->paths[i];

		if (path->local.path.max_message_log2 < log2)
			log2 = path->local.path.max_message_log2;
		if (path->peer.max_message_log2 < log2)
			log2 = path->peer.max_message_log2;
	}
	if (memory->rkeys_cnt > ports_cnt)
		ports_cnt = memory->rkeys_cnt;
	if (conn->ctx->ib->config->ib_split_data_on_qps != 0 || ports_cnt > conn->paths_cnt)
		ports_cnt = conn->paths_cnt;
	if (conn->kind == SXT_CONN_SEND) {
		send_limits(sxt_send_end(conn), log2, ports_cnt);
		sxt_send_end(conn)->records_addr = memory->addr;
		sxt_send_ready(sxt_send_end(conn));
	} else {
		recv_limits(sxt_recv_end(conn), log2, ports_cnt);
		sxt_recv_end(conn)->ring_addr = memory->addr;
		sxt_recv_ready(sxt_recv_end(conn));
	}
}

static int path_start(struct sxt_conn *conn, uint32_t index, const struct sxt_wire_path *peer,
		      const struct sxt_wire_memory *memory)
{
	struct sxt_path *path = &conn->paths[index];
	int rc;

	if (path->is_joined)
		return 0;
	if (peer->place >= memory->rkeys_cnt) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: %s says that a path lies on its port %u and gives keys for %u ports: "
			"do both sides run the same Sextant?",
			sxt_conn_label(conn), conn->peer_name, peer->place, memory->rkeys_cnt);
		return -EPROTO;
	}
	path->peer_place = peer->place;
	path->rkey = memory->rkeys[peer->place];
	rc = sxt_path_join(conn, index, peer);
	path->is_joined = rc == 0;
	return rc;
}

int sxt_conn_start(struct sxt_conn *conn, const struct sxt_wire_path *peers,
		   const struct sxt_wire_memory *memory)
{
	int rc = memory_check(conn, memory);

	cqs_collect(conn);
	inline_set(conn);
	if (rc == 0)
		rc = receives_post(conn);
	for (uint32_t i = 0; i < conn->paths_cnt && rc == 0; i++)
		rc = path_start(conn, i, &peers[i], memory);
	if (rc == 0)
		limits_set(conn, memory);
	return rc;
}

void sxt_conn_made(struct sxt_conn *conn)
{
	sxt_context_own(conn->ctx);
	conn->is_making = 0;
	sxt_context_disown(conn->ctx);
	sxt_tell_conn_made(conn);
}

static uint64_t send_acked_cnt(const struct sxt_send_end *end)
{
	uint64_t cnt = end->imms + (end->conn.is_gathering ? sxt_send_untold_cnt(end) : 0);
	uint32_t i;

	for (i = 0; i < SXT_SENDS_MAX; i++) {
		const struct sxt_request *request = &end->requests[i];

		if ((request->flags & SXT_REQ_IMM) != 0 &&
		    atomic_load_explicit(&request->done, memory_order_relaxed) == 0)
			cnt--;
	}
	return cnt;
}

/* The first entry whose message is waited for and not whole. */
static uint64_t recv_taken(const struct sxt_recv_end *end)
{
	uint64_t taken = end->posted;
	uint32_t i;

	for (i = 0; i < SXT_REQUESTS_MAX; i++) {
		const struct sxt_request *request = &end->requests[i];
		uint64_t position;

		if (sxt_request_waits(request) == 0)
			continue;
		position = request->position - request->cnt +
			   (uint32_t)__builtin_ctz(sxt_request_waits(request));
		if (position < taken)
			taken = position;
	}
	return taken;
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
		out->messages_taken = recv_taken(end);
	}
}

static bool is_flushed(const struct sxt_conn *conn, const struct sxt_path *only)
{
	if (only != NULL)
		return sxt_path_is_flushed(conn, only);
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		if (!sxt_path_is_flushed(conn, &conn->paths[i]))
			return false;
	}
	return true;
}

/* The CQ of one path, or all there are. */
static int drain_once(struct sxt_conn *conn, const struct sxt_path *only)
{
	int cnt = 0;

	if (only != NULL)
		return only->cq != NULL ? sxt_data_drain(conn, only->cq) : 0;
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		cnt += conn->paths[i].cq != NULL ? sxt_data_drain(conn, conn->paths[i].cq) : 0;
	return cnt;
}

/*
 * Completions that stay behind in a CQ are recognised by their generation. Time is up only when
 * none comes: the thread may have been away meanwhile.
 */
bool sxt_conn_drain(struct sxt_conn *conn, const struct sxt_path *only)
{
	const struct sxt_sys *sys = conn->ctx->ib->sys;
	uint64_t deadline_ns = sys->now_ns() + DRAIN_NS;
	uint32_t polls = 0;
	bool done;
	int cnt;

	do {
		sxt_context_own(conn->ctx);
		cnt = drain_once(conn, only);
		done = is_flushed(conn, only);
		sxt_context_disown(conn->ctx);
	} while (!done && ++polls < DRAIN_POLLS && (cnt > 0 || sys->now_ns() < deadline_ns));
	return done;
}

static void paths_unmake(struct sxt_conn *conn)
{
	/* All of them first, so that they flush at the same time. */
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		sxt_path_to_error(conn, &conn->paths[i]);
	sxt_ignore(sxt_conn_drain(conn, NULL));
	if (conn->has_slot) {
		sxt_context_own(conn->ctx);
		sxt_context_remove_conn(conn->ctx, conn->slot);
		sxt_context_disown(conn->ctx);
	}
	for (uint32_t i = 0; i < conn->paths_cnt; i++)
		sxt_path_destroy(conn, i, sxt_path_is_flushed(conn, &conn->paths[i]));
}

void sxt_conn_destroy(struct sxt_conn *conn)
{
	if (conn == NULL)
		return;
	sxt_tell_conn_gone(conn);
	paths_unmake(conn);
	memory_unmake(conn);
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
