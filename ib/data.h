/*
 * data.h - what send.c, recv.c, progress.c and their cold companions share: work-request numbers,
 * requests, both ends. Private to the data path; everything is under the context's owner word
 * unless said otherwise.
 */
#ifndef SXT_IB_DATA_H
#define SXT_IB_DATA_H

#include "ib/conn.h"
#include "ib/mr.h"

#include <arpa/inet.h>
#include <limits.h>
#include <string.h>

/*
 * Memory of ours per end, in bytes (the provider's queues come on top). The bar is 48 KiB for
 * either end with one path.
 *
 *                                send end      receive end
 *   end with its templates           2432             1472
 *   each path                         256              256
 *   requests of 64                  16384             2560   256 and 40
 *   members of 24                                     7680   320
 *   registered: CTS ring            16384
 *               CTS shadow                           16384
 *               size records         4096             4096   2560, and to the page's end
 *   sum, one path                   39552            32448
 *   stamps of telemetry              2096              368   by ib/measure.h, while it is on
 */
#define SXT_RING_ENTRIES 256u
#define SXT_SENDS_MAX    256u /* requests of a send end: one per member the peer can open */
/*
 * Requests of a receive end: the caller's, and some that wait for the proof of consumption which an
 * optional one asked for. The handle of a member on the wire is its request's index times
 * SXT_RECVS_MAX plus its place in the group.
 */
#define SXT_PROOFS_MAX   8u
#define SXT_RECEIVES_MAX (SXT_REQUESTS_MAX + SXT_PROOFS_MAX)
#define SXT_MEMBERS_MAX  (SXT_RECEIVES_MAX * SXT_RECVS_MAX)

/*
 * Depths asked of each queue pair. The marker that closing posts has a receive end's spare send, or
 * on a send end the place of the record of a group that is not told. A receive end can have 416
 * completions outstanding per path, a send end 289.
 */
#define SXT_SEND_SQ_DEPTH  288u /* 32 groups of 8 and their records */
#define SXT_SEND_RQ_DEPTH  1u
#define SXT_RECV_SQ_DEPTH  128u
#define SXT_RECV_SQ_USABLE (SXT_RECV_SQ_DEPTH - 1)
#define SXT_RECV_RQ_DEPTH  288u
#define SXT_RECV_BATCH     16u

/* A clear-to-send write in so many on a path asks for a completion, so that its queue drains. */
#define SXT_CTS_SIGNAL_EVERY 64u
/* Sizes of all members of a group, told at once. */
#define SXT_GROUP_RECORD_BYTES (SXT_RECVS_MAX * sizeof(struct sxt_wire_record))
/*
 * A member of a group below this waits for the last one, so that one doorbell does for all: it is
 * on the wire in no time. From this size on, what the wire does meanwhile is worth a doorbell.
 */
#define SXT_GATHER_BYTES 16384u
/*
 * Tests of requests that are not done until the members of a group that were sent go without the
 * others: whoever waits for one before it sends the next gets it.
 */
#define SXT_GATHER_PATIENCE 64u
/* Entries posted without asking for proof of consumption before an optional one asks. */
#define SXT_CREDIT_EVERY (SXT_RING_ENTRIES / 4)

/*
 * wr_id = index:16 generation:16 path:8 slot:16 kind:8, most significant first: without the index,
 * one comparison tells both the path and the kind.
 */
#define SXT_WR_INDEX_SHIFT      48
#define SXT_WR_GENERATION_SHIFT 32
#define SXT_WR_PATH_SHIFT       24
#define SXT_WR_PATH_MASK        0xffu
#define SXT_WR_SLOT_SHIFT       8
#define SXT_WR_SLOT_MASK        0xffffu
#define SXT_WR_KIND_MASK        0xffu
#define SXT_WR_USE_MASK         0xffff00ffff00ull /* generation and slot: whose it is */

enum sxt_wr_kind {
	SXT_WR_SEND = 1,  /* a message's last on its path; index: sxt_wr_send_index() */
	SXT_WR_GROUP = 2, /* the record behind writes of a group; index as above, of the last one */
	SXT_WR_CHUNK = 3, /* an earlier one, unsignaled: completes only in error; index as above */
	SXT_WR_CTS,       /* index: the path's cts_posted after it */
	SXT_WR_CTS_OPTIONAL, /* index: the receive it completes */
	SXT_WR_RECV,         /* a posted receive */
	SXT_WR_DRAIN,        /* marker of closing */
	SXT_WR_PROBE         /* does anything get through? */
};

static inline uint64_t sxt_wr_id(const struct sxt_path *path, enum sxt_wr_kind kind, uint32_t index)
{
	return (uint64_t)index << SXT_WR_INDEX_SHIFT | path->wr_tail | (uint64_t)kind;
}

static inline bool sxt_wr_is_of(const struct sxt_conn *conn, uint64_t wr_id)
{
	return ((conn->wr_tail ^ wr_id) & SXT_WR_USE_MASK) == 0;
}

static inline uint32_t sxt_wr_index(uint64_t wr_id)
{
	return (uint32_t)(wr_id >> SXT_WR_INDEX_SHIFT);
}

static inline enum sxt_wr_kind sxt_wr_kind(uint64_t wr_id)
{
	return (enum sxt_wr_kind)(wr_id & SXT_WR_KIND_MASK);
}

/* Of a message's writes on one path: the request, and the send-queue entries they take. */
static inline uint32_t sxt_wr_send_index(uint32_t request, uint32_t wrs)
{
	return wrs << 8 | request;
}

/* The path of a clear-to-send, and the first of the message that answers it. */
static inline struct sxt_path *sxt_conn_path(const struct sxt_conn *conn, uint64_t position)
{
	if (SXT_LIKELY(conn->paths_cnt <= 1))
		return conn->paths;
	return &conn->paths[position % conn->paths_cnt];
}

/* The lap of a ring position as it stands in addr_lap: never that of the entry it replaces. */
static inline uint64_t sxt_cts_lap(uint64_t position)
{
	return (position / SXT_RING_ENTRIES + 1) << SXT_CTS_LAP_SHIFT;
}

/* The first two are the flags of a clear-to-send, shifted. */
#define SXT_REQ_IMM       0x1u /* send: carries an immediate */
#define SXT_REQ_OPTIONAL  0x2u
#define SXT_REQ_STRIPED   0x4u /* it completes on several paths */
#define SXT_REQ_CTS_SHIFT 9
_Static_assert(SXT_CTS_WANT_IMM >> SXT_REQ_CTS_SHIFT == SXT_REQ_IMM &&
		       SXT_CTS_OPTIONAL >> SXT_REQ_CTS_SHIFT == SXT_REQ_OPTIONAL,
	       "flags of a clear-to-send become those of a request");

/*
 * One line, so that starting and finishing touch one.
 *
 * Receives: a place of the group whose message is not whole has its bit in fresh or in open. In
 * fresh it was granted a single write and nothing came yet: the immediate that ends in imm
 * completes it at once. What comes in several, or as a size record, is open and counted in the
 * end's members.
 */
struct sxt_request {
	struct sxt_conn *conn;
	_Atomic uint8_t done; /* released by who drains, acquired by test */
	uint8_t index;        /* in the end's table */
	uint8_t fresh;        /* receive: see above */
	uint8_t open;         /* receive: see above; send: paths not acknowledged */
	uint8_t cnt;          /* sizes to report: members, 1 for a send */
	uint8_t flags;        /* SXT_REQ_* */
	uint16_t imm;         /* receive: generation and SXT_IMM_LAST, as an immediate ends */
	union {
		int sizes[SXT_RECVS_MAX];
		struct {
			int size;
			uint32_t tag;
			uint64_t bytes; /* set where size is saturated */
			uint64_t wr_id; /* of a message of one write, but for the path's part */
			struct sxt_request *earlier; /* of a group's that one record tells */
		} sent;
		struct {
			int size;
			uint16_t cts_end; /* its path's cts_posted after its entry */
		} optional;
		struct sxt_request *next; /* while free */
	};
	uint64_t position;     /* receive: ring position after its entries; send: of its entry */
	struct sxt_path *path; /* where it is expected to complete */
};
SXT_ASSERT_SIZE(struct sxt_request, 64);
SXT_ASSERT_OFFSET(struct sxt_request, imm, 14);

/* One use further; the top bits of imm wrap by themselves. */
#define SXT_REQ_IMM_NEXT (1u << SXT_IMM_GEN_SHIFT)
_Static_assert(SXT_IMM_GENERATIONS << SXT_IMM_GEN_SHIFT == 0x10000u, "generations fill 16 bits");

static inline uint32_t sxt_request_generation(const struct sxt_request *request)
{
	return (uint32_t)request->imm >> SXT_IMM_GEN_SHIFT;
}

/* Places whose message is not whole. */
static inline uint32_t sxt_request_waits(const struct sxt_request *request)
{
	return (uint32_t)request->fresh | request->open;
}

static inline bool sxt_request_is_whole(const struct sxt_request *request)
{
	uint16_t both;

	memcpy(&both, (const char *)request + offsetof(struct sxt_request, fresh), sizeof(both));
	return both == 0;
}
SXT_ASSERT_OFFSET(struct sxt_request, open, offsetof(struct sxt_request, fresh) + 1);

/* What came of one message that is open; by handle. */
struct sxt_member {
	uint64_t chunks;  /* bit per chunk that came, SXT_CONN_CHUNKS_MAX of them */
	uint64_t bytes;   /* arrived */
	uint8_t granted;  /* chunks it may come in: receives reserved for it */
	uint8_t arrived;  /* of them */
	uint8_t expected; /* chunks it comes in, 0 until the last one says */
};
SXT_ASSERT_SIZE(struct sxt_member, 24);

struct sxt_member_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

/*
 * Invariants: sq_used of a path is the sum of the entries of requests posted there and not
 * completed, and at most SXT_SEND_SQ_DEPTH; ring entries below head are used up; free_mask is 0
 * until every member of the oldest group has been seen.
 */
struct sxt_send_end {
	struct sxt_conn conn;

	/* Hot. */
	_Alignas(SXT_CACHELINE) struct sxt_wire_cts *ring; /* written by the peer */
	uint64_t head;        /* position of the oldest group's first entry */
	uint32_t free_mask;   /* members of that group not taken yet, 0 while unknown */
	uint32_t group_cnt;   /* its members; valid with free_mask */
	uint64_t whole_bytes; /* up to this a message is one write */
	uint64_t imms;        /* messages with an immediate so far */
	struct sxt_request *requests;
	struct ibv_sge sge; /* template, with wr */
	_Alignas(SXT_CACHELINE) struct ibv_send_wr wr;

	/* Messages of a write and its size record: templates. */
	_Alignas(SXT_CACHELINE) uint64_t recorded_bytes; /* up to this, above whole_bytes */
	uint64_t *records;     /* sources of size records, one per request */
	uint64_t records_addr; /* the peer's, by handle */
	struct ibv_sge recorded_sges[2];
	_Alignas(SXT_CACHELINE) struct ibv_send_wr recorded_wrs[2];

	/*
	 * While the oldest group is gathered (conn.is_gathering) its members go as plain writes,
	 * the first place first, and one record behind the last tells the peer of all. A message
	 * out of turn or the end of patience ends that: those sent so far are told, and the rest of
	 * the group goes like any other message. Entries in the send queue were taken for all when
	 * the group was opened.
	 */
	_Alignas(SXT_CACHELINE) uint64_t member_bytes; /* up to this a member goes so, 0 for none */
	struct sxt_request *untold;                    /* the newest, further by sent.earlier */
	uint64_t member_tail;                          /* of their wr_id */
	uint64_t gathered_bytes; /* what the next group that is gathered has as member_bytes */
	uint32_t members_posted; /* of those sent; the others are kept back */
	uint32_t gathered_wrs;   /* entries taken, the record's among them */
	uint32_t patience;       /* tests left before they are told without the others */
	_Alignas(SXT_CACHELINE) uint64_t group_records[SXT_RECVS_MAX]; /* by place */
	struct sxt_member_wr members[SXT_RECVS_MAX];                   /* by place, linked */
	struct ibv_sge group_sge;
	struct ibv_send_wr group_wr;

	/* Messages of more. */
	_Alignas(SXT_CACHELINE) uint64_t chunk_bytes; /* largest write, a power of two from 128 */
	uint64_t ar_bytes; /* above, data may arrive in any order: the immediate comes on its own */
	uint32_t stripes;  /* paths of one message at most, with stripe_bytes each */
	uint32_t stripe_bytes;
	uint32_t inline_bytes; /* a work request takes as many */

	/* Cold. */
	struct ibv_mr *memory_mrs[SXT_PORTS_MAX];
	void *memory;
};
SXT_ASSERT_LINE(struct sxt_send_end, ring);
SXT_ASSERT_LINE(struct sxt_send_end, wr);
SXT_ASSERT_LINE(struct sxt_send_end, chunk_bytes);

/*
 * Positions count ring entries since the start. Invariants: consumed <= posted <= consumed +
 * SXT_RING_ENTRIES, which also keeps a shadow slot from being filled again before its write has
 * arrived; on each path cts_posted is at most SXT_RECV_SQ_USABLE past cts_acked, which bounds the
 * send queue; rq_reserved <= rq_low <= rq_posted of each path, so that no message ever meets an
 * empty receive queue, whatever path it takes.
 */
struct sxt_recv_end {
	struct sxt_conn conn;

	/* Hot, in one line: all that a plain receive looks at and that its message changes. */
	_Alignas(SXT_CACHELINE) uint64_t posted; /* position of the next entry */
	uint64_t consumed;                       /* entries below are proven used up */
	uint64_t asked; /* position after the last entry that wants proof */
	uint64_t messages_taken;
	struct sxt_request *requests;
	uint64_t ring_addr;   /* the peer's ring */
	uint32_t whole_bytes; /* up to this a message is one write */
	uint32_t plain_left;  /* plain receives that need no look at any of this */
	uint32_t rq_low;      /* receives posted on the path that has fewest */
	uint32_t rq_reserved; /* of them for messages that may still come, on every path */
	_Alignas(SXT_CACHELINE) struct ibv_send_wr wr;   /* template of plain receives, with sge */
	_Alignas(SXT_CACHELINE) struct sxt_wire_cts cts; /* their entries are made here */

	/* Other receives. */
	_Alignas(SXT_CACHELINE) struct sxt_member *members;
	struct sxt_wire_cts *shadow;
	struct ibv_sge sge;
	uint32_t proof_next; /* of requests[SXT_REQUESTS_MAX] and on */
	uint8_t chunk_log2;  /* of the largest write */
	uint8_t can_inline;  /* one entry fits in a work request */
	uint8_t stripes;     /* paths of one message */
	uint8_t ports_cnt;   /* keys that an entry carries */

	/* Cold. */
	_Alignas(SXT_CACHELINE) struct sxt_wire_record *records; /* written by the peer */
	struct ibv_mr *records_mrs[SXT_PORTS_MAX];
	struct ibv_mr *shadow_mrs[SXT_PORTS_MAX];
	void *memory;
	struct ibv_sge group_sge; /* template of groups, with group_wr */
	struct ibv_send_wr group_wr;
	struct ibv_recv_wr receives[SXT_RECV_BATCH]; /* of the path they were posted on last */
};
SXT_ASSERT_LINE(struct sxt_recv_end, posted);
SXT_ASSERT_OFFSET(struct sxt_recv_end, rq_reserved,
		  offsetof(struct sxt_recv_end, posted) + SXT_CACHELINE - 4);
SXT_ASSERT_LINE(struct sxt_recv_end, wr);
SXT_ASSERT_LINE(struct sxt_recv_end, cts);

static inline struct sxt_send_end *sxt_send_end(struct sxt_conn *conn)
{
	return SXT_CONTAINER_OF(conn, struct sxt_send_end, conn);
}

static inline struct sxt_recv_end *sxt_recv_end(struct sxt_conn *conn)
{
	return SXT_CONTAINER_OF(conn, struct sxt_recv_end, conn);
}

/* Nothing is to be attended to, and it is this end: one comparison for both. */
static inline bool sxt_conn_is_calm(const struct sxt_conn *conn, enum sxt_conn_kind kind)
{
	uint16_t both;

	memcpy(&both, (const char *)conn + offsetof(struct sxt_conn, kind), sizeof(both));
	return both == (uint16_t)kind;
}
SXT_ASSERT_OFFSET(struct sxt_conn, attention, offsetof(struct sxt_conn, kind) + 1);

/* Nothing is to be attended to or told, and there is one place to look for completions. */
static inline bool sxt_conn_is_simple(const struct sxt_conn *conn)
{
	uint32_t all;

	memcpy(&all, (const char *)conn + offsetof(struct sxt_conn, attention), sizeof(all));
	return all == 1u << CHAR_BIT;
}
SXT_ASSERT_OFFSET(struct sxt_conn, cqs_cnt, offsetof(struct sxt_conn, attention) + 1);
SXT_ASSERT_OFFSET(struct sxt_conn, is_gathering, offsetof(struct sxt_conn, attention) + 2);
SXT_ASSERT_OFFSET(struct sxt_conn, peer_closed, offsetof(struct sxt_conn, attention) + 3);

/* A clear-to-send from size_high to group as one number. */
static inline uint64_t sxt_cts_word(const struct sxt_wire_cts *cts)
{
	uint64_t word;

	memcpy(&word, (const char *)cts + offsetof(struct sxt_wire_cts, size_high), sizeof(word));
	return word;
}
#define SXT_CTS_WORD_HANDLE_SHIFT 16
#define SXT_CTS_WORD_CHUNKS_SHIFT 32
#define SXT_CTS_WORD_GEN_SHIFT    48
#define SXT_CTS_WORD_GROUP_SHIFT  56
SXT_ASSERT_OFFSET(struct sxt_wire_cts, handle, 50);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, max_chunks, 52);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, generation, 54);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, group, 55);

/* The size of the buffer that a clear-to-send entry offers. */
static inline uint64_t sxt_cts_bytes(const struct sxt_wire_cts *cts)
{
	return cts->size_low | (uint64_t)(cts->size_high & SXT_CTS_SIZE_HIGH_MASK) << 32;
}

/* NCCL's sizes are int; more is told as the most. */
static inline int sxt_size_saturate(uint64_t bytes)
{
	return bytes > INT_MAX ? INT_MAX : (int)bytes;
}

/* Of a message that is sent. */
static inline uint64_t sxt_request_bytes(const struct sxt_request *request)
{
	return request->sent.size == INT_MAX ? request->sent.bytes : (uint64_t)request->sent.size;
}

static inline struct sxt_request *sxt_request_take(struct sxt_conn *conn)
{
	struct sxt_request *request = conn->free_requests;

	conn->free_requests = request->next;
	return request;
}

static inline void sxt_request_give(struct sxt_request *request)
{
	request->next = request->conn->free_requests;
	request->conn->free_requests = request;
}

static inline void sxt_request_finish(struct sxt_request *request)
{
	/* Pairs with the acquire in sxt_test(): whoever sees done sees the sizes. */
	atomic_store_explicit(&request->done, 1, memory_order_release);
}

/**
 * sxt_data_drain() - take completions of one CQ of a connection, at most SXT_DRAIN_MAX, and act on
 * them whatever connection of the context they belong to.
 * @conn: the connection; the caller holds the owner word. @cq: which. Path: hot.
 * Return: how many were taken.
 */
int sxt_data_drain(struct sxt_conn *conn, struct sxt_cq *cq);

/**
 * sxt_data_drain_all() - the same for every CQ of a connection.
 * @conn: the connection; the caller holds the owner word. Return: how many were taken.
 */
int sxt_data_drain_all(struct sxt_conn *conn);

/**
 * sxt_send_ready() - what messages have in common, once the limits are known.
 * @end: its paths are joined. Path: slow.
 */
void sxt_send_ready(struct sxt_send_end *end);

/**
 * sxt_send_untold_cnt() - members of the oldest group that were sent and are not told.
 * @end: it gathers; the caller holds the owner word. Return: 0..SXT_RECVS_MAX.
 */
uint32_t sxt_send_untold_cnt(const struct sxt_send_end *end);

/**
 * sxt_send_tell() - end the gathering of a group: post the record of the members sent so far.
 * @end: it gathers; the caller holds the owner word. Path: hot.
 * Return: 0, or the connection's error.
 */
int sxt_send_tell(struct sxt_send_end *end);

/**
 * sxt_conn_drain() - take completions until nothing more can come, within bounds.
 * @conn: the connection; its paths, or the one, were moved to ERROR. @only: NULL for all.
 * Path: slow, waits for the owner word. Return: true if everything came.
 */
bool sxt_conn_drain(struct sxt_conn *conn, const struct sxt_path *only);

/**
 * sxt_recv_ready() - what plain receives have in common, once the peer's ring is known.
 * @end: its paths are joined. Path: slow.
 */
void sxt_recv_ready(struct sxt_recv_end *end);

/**
 * sxt_recv_fill() - post receives in batches on every path while one fits.
 * @end: the end. Path: hot, once in SXT_RECV_BATCH messages. Return: 0, or the negative errno of
 * ibv_post_recv().
 */
SXT_MUST_CHECK int sxt_recv_fill(struct sxt_recv_end *end);

/**
 * sxt_conn_attend() - what a connection with its attention flag up answers.
 * @conn: the connection; the caller holds the owner word and has just drained the CQ or is about
 * to start something new.
 * @request: the one asked about, not done; NULL for a new one.
 * Return: 0 to go on, -EAGAIN for not now, else the connection's error.
 */
SXT_COLD int sxt_conn_attend(struct sxt_conn *conn, const struct sxt_request *request);

/**
 * sxt_conn_completion_error() - act on a completion in error: keep the books, remember the cause.
 * @conn: whose it is. @wc: the completion.
 */
SXT_COLD void sxt_conn_completion_error(struct sxt_conn *conn, const struct ibv_wc *wc);

/* What is wrong with an immediate, for the message. */
enum sxt_imm_problem {
	SXT_IMM_NO_MEMBER,
	SXT_IMM_OLD,
	SXT_IMM_CHUNK,
	SXT_IMM_STALE_RECORD,
	SXT_IMM_OPCODE
};

/**
 * sxt_recv_bad_imm() - fail a connection over a receive completion that fits nothing open.
 * @end: the end. @wc: the completion. @problem: why.
 */
SXT_COLD void sxt_recv_bad_imm(struct sxt_recv_end *end, const struct ibv_wc *wc,
			       enum sxt_imm_problem problem);

/**
 * sxt_conn_post_failed() - fail a connection whose work request was refused.
 * @conn: the connection. @path: where. @rc: what ibv_post_send() or ibv_post_recv() answered.
 * @what: "a clear-to-send". Return: the connection's error.
 */
SXT_COLD int sxt_conn_post_failed(struct sxt_conn *conn, const struct sxt_path *path, int rc,
				  const char *what);

/**
 * sxt_conn_misuse() - fail a connection over a call its end cannot serve: the wrong end, or bytes
 * without a registration.
 * @conn: the connection. @bytes: of the message. Return: the connection's error.
 */
SXT_COLD int sxt_conn_misuse(struct sxt_conn *conn, uint64_t bytes);

/**
 * sxt_conn_poll_failed() - fail a connection whose completion queue cannot be read.
 * @conn: the connection. @rc: what ibv_poll_cq() answered.
 */
SXT_COLD void sxt_conn_poll_failed(struct sxt_conn *conn, int rc);

/**
 * sxt_send_closed() - fail a sending end whose peer closed before it took the message.
 * @end: the end. Return: the connection's error.
 */
SXT_COLD int sxt_send_closed(struct sxt_send_end *end);

/**
 * sxt_send_too_large() - fail a connection over a message larger than the receive posted for it.
 * @end: the end. @cts: the receive. @bytes: the message's. Return: the connection's error.
 */
SXT_COLD int sxt_send_too_large(struct sxt_send_end *end, const struct sxt_wire_cts *cts,
				uint64_t bytes);

/**
 * sxt_send_bad_cts() - fail a connection over a clear-to-send entry that makes no sense.
 * @end: the end. @cts: the entry. Return: the connection's error.
 */
SXT_COLD int sxt_send_bad_cts(struct sxt_send_end *end, const struct sxt_wire_cts *cts);

/**
 * sxt_recv_bad_spec() - fail a connection over a receive that cannot be served.
 * @end: the end. @spec: the receive. Return: the connection's error.
 */
SXT_COLD int sxt_recv_bad_spec(struct sxt_recv_end *end, const struct sxt_recv_spec *spec);

#endif
