/*
 * objects.h - the verbs objects of one process and what the files of the engine call in each other.
 *
 * Lock order: a QP's sq_lock, its rq_lock, engine->lock, the shared locks (shared.h), peer->lock;
 * a CQ's poll_lock comes after rq_lock and takes the CQ's own shared lock only; a channel's lock
 * comes after sq_lock and takes none of these. engine->lock guards
 * tables and mappings; no data-path call takes it except to find a peer for the first time.
 */
#ifndef SXT_IB_SOFT_OBJECTS_H
#define SXT_IB_SOFT_OBJECTS_H

#include "core/list.h"
#include "ib/soft/engine.h"
#include "ib/soft/event.h"
#include "ib/soft/shared.h"
#include "ib/soft/state.h"

#include <sys/uio.h>

/* Slots of one arena table, and the local object in each. Given out round robin. */
struct sxt_soft_table {
	void **items;
	uint32_t cap;
	uint32_t cursor;
	uint32_t high; /* no slot from here on was ever used */
};

struct sxt_soft_extent {
	uint64_t offset;
	uint64_t bytes;
	struct sxt_soft_extent *next;
};

/* A peer's file-backed registration as this process maps it. */
struct sxt_soft_window {
	_Atomic uint32_t key; /* whose; 0 while it changes */
	uint8_t *first_byte;  /* NULL: cannot be mapped, use process_vm_* */
	void *map;
	size_t map_bytes;
};

#define SXT_SOFT_PEER_FIFOS 16

struct sxt_soft_fifo {
	uint32_t channel;
	int fd; /* -1: none */
};

/* A process of the fabric, this one included. */
struct sxt_soft_peer {
	struct sxt_soft_arena *arena;
	uint32_t slot;
	uint64_t word;
	int32_t pid;
	bool is_self;
	uint32_t refs;                   /* under engine->lock */
	pthread_mutex_t lock;            /* over windows being filled and fifos; innermost */
	struct sxt_soft_window *windows; /* by MR index; NULL for this process */
	struct sxt_soft_fifo fifos[SXT_SOFT_PEER_FIFOS];
};

struct sxt_soft_device {
	struct ibv_device base;
	uint32_t hca; /* index into the fabric's hcas[] */
	struct sxt_soft_engine *engine;
};

struct sxt_soft_engine {
	struct sxt_soft_state *state;
	struct sxt_soft_registry *registry;
	struct sxt_soft_peer *self;
	pthread_mutex_t lock;
	struct sxt_soft_peer *peers[SXT_SOFT_PROCS_MAX];
	struct sxt_soft_table qps;
	struct sxt_soft_table cqs;
	struct sxt_soft_table srqs;
	struct sxt_soft_table mrs;
	struct sxt_soft_extent *free_extents; /* of the own heap, by offset */
	struct sxt_soft_device *devices;
	uint32_t device_cnt;
	uint32_t next_pd;
	uint32_t next_cq_id;
	uint32_t next_channel;
	int private_access; /* 0, or why peers cannot reach private memory: -EPERM, -ENOSYS */
	char private_why[256];
	/* QPs with work that cannot be carried now. */
	pthread_mutex_t stalled_lock;
	struct sxt_list stalled;
	_Atomic uint32_t stalled_cnt;
	struct sxt_soft_engine *inherited; /* the parent's, in a forked child: kept, never used */
};

struct sxt_soft_context {
	struct sxt_soft_device *device;
	struct sxt_soft_engine *engine;
	const struct sxt_soft_hca *hca;
	uint32_t slot; /* in arena->contexts[] */
	struct sxt_soft_event_box box;
	struct verbs_context verbs; /* last: ends in ibv_context */
};

struct sxt_soft_pd {
	struct ibv_pd base;
	uint32_t id;
	_Atomic uint32_t users;
};

struct sxt_soft_mr {
	struct ibv_mr base;
	uint32_t slot;
	int fd;    /* kept open for peers, -1 for private memory */
	void *map; /* of a DMA-BUF, else NULL */
	size_t map_bytes;
};

struct sxt_soft_channel {
	struct ibv_comp_channel base; /* fd: epoll over fifo_fd and timer_fd */
	uint32_t number;
	int fifo_fd;
	int timer_fd;
	pthread_mutex_t lock; /* over cqs and setting the timer */
	struct sxt_list cqs;
	char path[PATH_MAX];
};

struct sxt_soft_cq {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;
	};
	struct sxt_soft_engine *engine;
	struct sxt_soft_cq_shared *shared;
	struct sxt_soft_cqe *ring;
	pthread_mutex_t poll_lock;
	uint32_t slot;
	bool closing;                 /* under engine->lock: async events do not find it */
	_Atomic uint32_t users;       /* QPs */
	_Atomic uint32_t async_given; /* events handed to the program */
	uint32_t comp_given;          /* under base.mutex */
	struct sxt_list in_channel;
	struct sxt_soft_cqe current; /* of start_poll and next_poll */
	size_t ring_bytes;
};

/* A send work request as the executing code sees it; sge and ah point to the caller's or a copy. */
struct sxt_soft_wr {
	uint64_t wr_id;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t flags;  /* enum ibv_send_flags */
	uint32_t imm_data;
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	const struct ibv_ah *ah;
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint32_t index; /* its place in the SQ, free-running */
	uint32_t sge_cnt;
	const struct ibv_sge *sge;
};

/* A WR that waits: the WR, its SGEs and its inline bytes, in one slot of qp->waiting. */
struct sxt_soft_waiting {
	struct sxt_soft_wr wr;
	uint8_t tail[];
};

struct sxt_soft_ah {
	struct ibv_ah base;
	struct ibv_ah_attr attr;
};

enum sxt_soft_stall {
	SXT_SOFT_STALL_NONE,
	SXT_SOFT_STALL_UNREACHABLE,
	SXT_SOFT_STALL_RNR
};

/* The builder of ibv_wr_*: everything between wr_start and wr_complete. */
struct sxt_soft_builder {
	struct sxt_soft_wr *wrs;
	struct ibv_sge *sges;  /* max_sge for each */
	uint8_t *inline_bytes; /* max_inline for each */
	uint32_t cnt;
	int error; /* first one, positive */
};

struct sxt_soft_qp {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct sxt_soft_engine *engine;
	struct sxt_soft_context *context;
	struct sxt_soft_qp_shared *shared;
	struct sxt_soft_cq *send_cq;
	struct sxt_soft_port *port; /* set in INIT */
	uint32_t slot;
	bool closing; /* under engine->lock: async events do not find it */
	bool sq_sig_all;
	bool is_ex;
	uint32_t sq_room;
	uint32_t max_sge;
	uint32_t max_inline;

	pthread_mutex_t sq_lock; /* over all below, except where atomic */
	uint32_t sq_head;
	_Atomic uint32_t sq_tail; /* pollers write */
	uint32_t waiting_cnt;     /* the last so many of [.., sq_head) are in waiting[] */
	uint8_t *waiting;         /* sq_room slots of waiting_bytes, by index modulo sq_room */
	size_t waiting_bytes;
	struct sxt_list in_stalled; /* under engine->stalled_lock */
	enum sxt_soft_stall stall;
	uint64_t stalled_since_ns;
	uint64_t stall_limit_ns;
	uint64_t next_nak_ns;
	uint64_t send_visible_ns;

	/* Where it sends: resolved when first needed, kept while it holds. */
	struct sxt_soft_peer *dst;
	struct sxt_soft_qp_shared *dst_qp;
	struct sxt_soft_port *dst_port;

	struct ibv_qp_attr attr; /* as modified so far */
	struct ibv_qp_cap cap;
	_Atomic uint32_t recv_done; /* RQ slots free again: pollers write */
	_Atomic uint32_t async_given;
	pthread_mutex_t rq_lock;
	size_t rq_bytes;
	struct sxt_soft_builder build;
};

struct sxt_soft_srq {
	struct ibv_srq base;
	struct sxt_soft_engine *engine;
	struct sxt_soft_srq_shared *shared;
	uint32_t slot;
	bool closing; /* under engine->lock: async events do not find it */
	_Atomic uint32_t users;
	_Atomic uint32_t async_given;
	pthread_mutex_t post_lock;
	size_t ring_bytes;
};

static inline struct sxt_soft_context *sxt_soft_context_of(const struct ibv_context *context)
{
	return SXT_CONTAINER_OF(context, struct sxt_soft_context, verbs.context);
}

/* Objects travel in async events and slots as slot | identity << 32. */
static inline uint64_t sxt_soft_cookie(uint32_t slot, uint32_t identity)
{
	return (uint64_t)identity << 32 | slot;
}

/* engine.c */

/**
 * sxt_soft_engine_get() - the process's engine, attached by the first caller.
 * @out: set on success only; lives until the process ends or sxt_soft_engine_detach().
 * Return: 0, -ENOMEM, or as sxt_soft_state_attach(); logged.
 */
SXT_MUST_CHECK int sxt_soft_engine_get(struct sxt_soft_engine **out);

/**
 * sxt_soft_engine_detach() - leave the fabric and forget everything; for tests.
 * Every context must be closed, no other thread may be inside the engine.
 */
void sxt_soft_engine_detach(void);

/**
 * sxt_soft_engine_devices() - make the device objects of this process's host. In device.c.
 * @engine: attached; gets devices and device_cnt. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_engine_devices(struct sxt_soft_engine *engine);

/**
 * sxt_soft_now_ns() - CLOCK_MONOTONIC, the clock of everything modelled.
 * Return: ns.
 */
uint64_t sxt_soft_now_ns(void);

/**
 * sxt_soft_back() - give a range of the own arena memory now, so that a full file system is an
 * error here and no SIGBUS later.
 * @addr, @bytes: range. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_back(const void *addr, size_t bytes);

/**
 * sxt_soft_lock_ready() - back a slot with memory and make its lock the first time it is used.
 * @lock: first member of the slot. @ready: remembers. Under engine->lock.
 * Return: 0, or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_lock_ready(pthread_mutex_t *lock, uint32_t *ready);

/**
 * sxt_soft_table_take() - a free slot.
 * @table: table. @item: goes into it. Under engine->lock.
 * Return: slot, or SXT_SOFT_NONE when all are taken.
 */
uint32_t sxt_soft_table_take(struct sxt_soft_table *table, void *item);

/**
 * sxt_soft_heap_take() - zeroed room in the own arena, backed by memory.
 * @engine: engine. @bytes: how many. @offset_out: in the arena; set on success only.
 * Takes engine->lock. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_heap_take(struct sxt_soft_engine *engine, size_t bytes,
				      uint64_t *offset_out);

/**
 * sxt_soft_heap_give() - give room back; its memory goes to the system.
 * @engine: engine. @offset, @bytes: from sxt_soft_heap_take(); 0 bytes is a no-op.
 */
void sxt_soft_heap_give(struct sxt_soft_engine *engine, uint64_t offset, size_t bytes);

/* peer.c */

/**
 * sxt_soft_peer_get() - a process by slot, its arena mapped.
 * @engine: engine. @slot, @word: which process. @out: set on success; sxt_soft_peer_put() it.
 * Takes engine->lock. Path: slow the first time. Return: 0, -ESRCH, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_peer_get(struct sxt_soft_engine *engine, uint32_t slot, uint64_t word,
				     struct sxt_soft_peer **out);

/**
 * sxt_soft_peer_put() - drop a reference.
 * @engine: engine. @peer: NULL is fine. Takes engine->lock; the last one unmaps.
 */
void sxt_soft_peer_put(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer);

/**
 * sxt_soft_peer_window() - where this process sees a peer's file-backed registration.
 * @peer: not this process. @mr: entry, valid while the caller holds a QP lock of the peer.
 * @key: its key. Return: address of its first byte, NULL when it cannot be mapped.
 */
uint8_t *sxt_soft_peer_window(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			      uint32_t key);

/**
 * sxt_soft_peer_wake() - make a completion channel of a process readable.
 * @engine: engine. @peer: whose. @channel: number. Never waits.
 */
void sxt_soft_peer_wake(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			uint32_t channel);

/**
 * sxt_soft_peer_event() - an asynchronous event for one context of a process.
 * @engine: engine. @peer: whose. @context: slot. @type: enum ibv_event_type.
 * @object: sxt_soft_cookie() of the object. Never waits; a full box loses it.
 */
void sxt_soft_peer_event(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
			 uint32_t context, uint32_t type, uint64_t object);

/* registry.c */

/**
 * sxt_soft_qpn_take() - a QP number nobody else in the fabric has.
 * @engine: engine. @qp_slot: of the QP in the own arena. @out: set on success only.
 * Return: 0, or -ENOMEM when all are in use.
 */
SXT_MUST_CHECK int sxt_soft_qpn_take(struct sxt_soft_engine *engine, uint32_t qp_slot,
				     uint32_t *out);

/**
 * sxt_soft_qpn_give() - the number is free again.
 * @engine: engine. @qpn: own number.
 */
void sxt_soft_qpn_give(struct sxt_soft_engine *engine, uint32_t qpn);

/**
 * sxt_soft_qpn_find() - who has a QP number.
 * @engine: engine. @qpn: number. @peer_out: sxt_soft_peer_put() it. @qp_out: its shared part,
 * which may be gone by the time its lock is held. Both set on success only.
 * Return: 0, -ENOENT, or as sxt_soft_peer_get().
 */
SXT_MUST_CHECK int sxt_soft_qpn_find(struct sxt_soft_engine *engine, uint32_t qpn,
				     struct sxt_soft_peer **peer_out,
				     struct sxt_soft_qp_shared **qp_out);

/* cq.c */

/**
 * sxt_soft_cq_push() - put a completion into a CQ, of any process.
 * @engine: engine. @peer: whose CQ. @cq: slot. @cqe: copied.
 * A full CQ is marked dead, with an IBV_EVENT_CQ_ERR. Takes the CQ's shared lock.
 */
void sxt_soft_cq_push(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer, uint32_t cq,
		      const struct sxt_soft_cqe *cqe);

/**
 * sxt_soft_cq_purge() - drop a QP's unpolled completions.
 * @cq: CQ. @qpn: whose.
 */
void sxt_soft_cq_purge(struct sxt_soft_cq *cq, uint32_t qpn);

/**
 * sxt_soft_cq_next() - take the next completion that is visible, and with it free the slots of
 * its work queue. Under poll_lock.
 * @cq: CQ. @out: written on success only. Return: 0, -ENOENT when there is none, -EIO when overrun.
 */
int sxt_soft_cq_next(struct sxt_soft_cq *cq, struct sxt_soft_cqe *out);

/**
 * sxt_soft_cq_next_visible_ns() - when the next completion becomes visible. Under poll_lock.
 * @cq: CQ. @now_ns: what is visible by then is not meant. Return: ns, 0 when none is on its way.
 */
uint64_t sxt_soft_cq_next_visible_ns(struct sxt_soft_cq *cq, uint64_t now_ns);

/**
 * sxt_soft_cq_ex_init() - fill the pointers of an extended CQ.
 * @cq: CQ. @wc_flags: what to offer.
 */
void sxt_soft_cq_ex_init(struct sxt_soft_cq *cq, uint64_t wc_flags);

/* channel.c */

/**
 * sxt_soft_channel_add() - events of a CQ go through a channel. Takes channel->lock.
 * @channel: channel. @cq: CQ.
 */
void sxt_soft_channel_add(struct sxt_soft_channel *channel, struct sxt_soft_cq *cq);

/**
 * sxt_soft_channel_remove() - undo sxt_soft_channel_add().
 * @channel: channel. @cq: CQ.
 */
void sxt_soft_channel_remove(struct sxt_soft_channel *channel, struct sxt_soft_cq *cq);

/* How often a sleeper tries work that could not be carried. */
#define SXT_SOFT_RETRY_NS 1000000u

/**
 * sxt_soft_channel_retry() - make the fd readable soon: there is work to try again.
 * @channel: channel. Call with the work counted in stalled_cnt. Takes channel->lock.
 */
void sxt_soft_channel_retry(struct sxt_soft_channel *channel);

/* mr.c */

/**
 * sxt_soft_mr_find() - the registration behind a key, if it allows the access.
 * @arena: whose. @pd: of the QP. @key: lkey or rkey. @addr, @bytes: range. @access: needed flags.
 * Return: entry, or NULL. Hot.
 */
const struct sxt_soft_mr_entry *sxt_soft_mr_find(struct sxt_soft_arena *arena, uint32_t pd,
						 uint32_t key, uint64_t addr, uint64_t bytes,
						 uint32_t access);

/* move.c */

/**
 * sxt_soft_move_write() - local pieces into a registration of a process. Hot.
 * @peer: whose memory. @mr: entry, checked. @key: its key. @addr: iova of the first byte.
 * @from, @cnt: local pieces; @bytes in all.
 * Up to 64 bytes appear whole, the last 8 last. Return: 0, or -errno of process_vm_writev().
 */
int sxt_soft_move_write(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			uint64_t addr, const struct iovec *from, uint32_t cnt, size_t bytes);

/**
 * sxt_soft_move_read() - from a registration of a process into local pieces.
 * @peer, @mr, @addr: as for writing. @to, @cnt: local pieces; @bytes in all.
 * Return: 0, or -errno of process_vm_readv().
 */
int sxt_soft_move_read(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
		       uint64_t addr, const struct iovec *to, uint32_t cnt, size_t bytes);

/**
 * sxt_soft_move_atomic() - fetch and add, or compare and swap, of 8 aligned bytes.
 * @peer, @mr, @addr: as for writing. @wr: opcode and operands.
 * @old_out: value before; set on success only. Return: 0, or -errno.
 */
int sxt_soft_move_atomic(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			 uint64_t addr, const struct sxt_soft_wr *wr, uint64_t *old_out);

/* deliver.c */

/* What one message is, for the receiving side. */
struct sxt_soft_message {
	const struct iovec *from;
	uint32_t from_cnt;
	size_t bytes;
	uint32_t src_qpn;
	uint32_t imm_data;
	bool has_imm;
	bool is_write; /* the data is there already, only the immediate comes */
	bool solicited;
	uint8_t sl;
	uint16_t slid;
	const struct ibv_grh *grh; /* UD: the first 40 bytes of what arrives; NULL if none */
	uint64_t visible_ns;
};

enum sxt_soft_delivery {
	SXT_SOFT_DELIVERED,
	SXT_SOFT_DELIVER_EMPTY,    /* no receive work request */
	SXT_SOFT_DELIVER_DEAD,     /* the process is gone; nothing is consumed */
	SXT_SOFT_DELIVER_TOO_LONG, /* for the receive work request: it is completed in error */
	SXT_SOFT_DELIVER_BAD_KEY,  /* likewise */
	SXT_SOFT_DELIVER_FAULT     /* likewise: the memory is not there */
};

/**
 * sxt_soft_deliver() - consume a receive work request for a message. Under the QP's shared lock.
 * @engine: engine. @peer, @qp: receiver. @qp_slot: index of @qp. @message: what comes.
 * Return: what became of it; on an error the receive is completed so and the QP is left as it is.
 */
enum sxt_soft_delivery sxt_soft_deliver(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
					struct sxt_soft_qp_shared *qp,
					const struct sxt_soft_message *message);

/**
 * sxt_soft_qp_fail() - move a QP of any process to ERROR. Under its shared lock.
 * @engine: engine. @peer, @qp: which. @event: enum ibv_event_type, or -1.
 * Flushes its receive queue; the send queue is flushed by its owner. Once only.
 */
void sxt_soft_qp_fail(struct sxt_soft_engine *engine, struct sxt_soft_peer *peer,
		      struct sxt_soft_qp_shared *qp, int event);

/* sq.c */

/**
 * sxt_soft_sq_submit() - run work requests, or line them up behind those that wait. Hot.
 * @qp: QP, sq_lock held. @wr: copied if it must wait; its index is filled in.
 * Return: 0, EINVAL or ENOMEM (positive).
 */
int sxt_soft_sq_submit(struct sxt_soft_qp *qp, struct sxt_soft_wr *wr);

/**
 * sxt_soft_sq_complete() - a work request is over.
 * @qp: QP, sq_lock held. @wr: which. @status: enum ibv_wc_status. @byte_len: of reads and atomics.
 * @visible_ns: when it may be seen. A success that is not signaled leaves no completion.
 */
void sxt_soft_sq_complete(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr, uint32_t status,
			  uint32_t byte_len, uint64_t visible_ns);

/**
 * sxt_soft_sq_fail() - complete a work request in error and put the QP into ERROR.
 * @qp: QP, sq_lock held, no shared lock held. @wr: which. @status: enum ibv_wc_status.
 */
void sxt_soft_sq_fail(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr, uint32_t status);

/**
 * sxt_soft_sq_progress() - try waiting work of a QP again, or flush it.
 * @qp: QP, sq_lock held.
 */
void sxt_soft_sq_progress(struct sxt_soft_qp *qp);

/**
 * sxt_soft_progress_all() - try all work of the process that waits.
 * @engine: engine, no lock held. Path: slow; call where stalled_cnt is not 0.
 */
void sxt_soft_progress_all(struct sxt_soft_engine *engine);

/**
 * sxt_soft_sq_drop() - forget waiting work, for RESET and destroy.
 * @qp: QP, sq_lock held.
 */
void sxt_soft_sq_drop(struct sxt_soft_qp *qp);

/* rc.c, ud.c, path.c */

#define SXT_SOFT_MAX_MSG_BYTES (1u << 30)

/* What came of trying one work request. */
struct sxt_soft_outcome {
	enum sxt_soft_stall stall; /* not NONE: nothing happened, try again later */
	uint32_t status;           /* enum ibv_wc_status */
	uint32_t byte_len;
	uint64_t visible_ns;
	uint64_t rnr_wait_ns; /* with STALL_RNR: the receiver's timer */
};

/**
 * sxt_soft_rc_execute() - carry out one work request of an RC QP. Hot.
 * @qp: QP in RTS, sq_lock held. @wr: which. @out: filled.
 */
void sxt_soft_rc_execute(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			 struct sxt_soft_outcome *out);

/**
 * sxt_soft_ud_execute() - send one datagram; what cannot be delivered is dropped. Hot.
 * @qp: QP in RTS, sq_lock held. @wr: which. @out: filled; never stalls.
 */
void sxt_soft_ud_execute(struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
			 struct sxt_soft_outcome *out);

/**
 * sxt_soft_gather() - the local memory of a work request.
 * @qp: QP. @wr: which. @access: 0 to read it, IBV_ACCESS_LOCAL_WRITE to write it.
 * @out: sge_cnt pieces. @bytes_out: in all. Both valid on success only.
 * Return: IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR when a key does not cover its piece,
 * IBV_WC_LOC_LEN_ERR when it is more than a message may have.
 */
enum ibv_wc_status sxt_soft_gather(const struct sxt_soft_qp *qp, const struct sxt_soft_wr *wr,
				   uint32_t access, struct iovec *out, size_t *bytes_out);

/**
 * sxt_soft_path_time() - when a transfer between two ports ends; claims the time at the sender.
 * @from, @to: ports. @bytes: payload. Return: ns, 0 where both are unlimited.
 */
uint64_t sxt_soft_path_time(struct sxt_soft_port *from, const struct sxt_soft_port *to,
			    uint64_t bytes);

/**
 * sxt_soft_path_latency() - one way between two ports.
 * @from, @to: ports. Return: ns.
 */
uint64_t sxt_soft_path_latency(const struct sxt_soft_port *from, const struct sxt_soft_port *to);

/**
 * sxt_soft_port_by_address() - the port an address leads to.
 * @engine: engine. @from: sending port. @attr: address.
 * Return: port, or NULL when nobody of that link layer has the address.
 */
struct sxt_soft_port *sxt_soft_port_by_address(const struct sxt_soft_engine *engine,
					       const struct sxt_soft_port *from,
					       const struct ibv_ah_attr *attr);

/* qp.c, qp_ex.c */

/**
 * sxt_soft_qp_unresolve() - forget where a QP sends to.
 * @qp: QP, sq_lock held.
 */
void sxt_soft_qp_unresolve(struct sxt_soft_qp *qp);

/**
 * sxt_soft_qp_ex_init() - make the ibv_wr_* builder of a QP.
 * @qp: QP, capacities set. @ops: enum ibv_qp_create_send_ops_flags asked for.
 * @is_ud: of a UD QP.
 * Return: 0, -EOPNOTSUPP, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_qp_ex_init(struct sxt_soft_qp *qp, uint64_t ops, bool is_ud);

/**
 * sxt_soft_qp_ex_fini() - free the builder; fine without one.
 * @qp: QP.
 */
void sxt_soft_qp_ex_fini(struct sxt_soft_qp *qp);

/**
 * sxt_soft_recv_ring_init() - make the ring of a receive queue.
 * @engine: engine. @ring: filled on success. @room, @max_sge: capacities. @bytes_out: for
 * sxt_soft_heap_give(). Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_recv_ring_init(struct sxt_soft_engine *engine,
					   struct sxt_soft_recv_ring *ring, uint32_t room,
					   uint32_t max_sge, size_t *bytes_out);

#endif
