/*
 * shared.h - what a process's peers touch without it: its arena file, and the fabric's QP numbers.
 *
 * An arena holds fixed tables of MRs, QPs, CQs and SRQs, whose slots never change their type (so a
 * peer with an old reference locks a real lock and then sees that the object is another one), and
 * a heap for the rings. The owner maps it at attach, an initiator when it first sends there. Plain
 * members are written by the owner under the object's lock and read under it, unless said
 * otherwise. Lock order: QP -> SRQ, QP -> CQ; never two of one kind.
 */
#ifndef SXT_IB_SOFT_SHARED_H
#define SXT_IB_SOFT_SHARED_H

#include "core/compiler.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SXT_SOFT_ARENA_MAGIC   0x32414e4552415853ull /* also the layout's version */
#define SXT_SOFT_CONTEXTS_MAX  64
#define SXT_SOFT_MRS_MAX       65536
#define SXT_SOFT_QPS_MAX       16384
#define SXT_SOFT_CQS_MAX       16384
#define SXT_SOFT_SRQS_MAX      4096
#define SXT_SOFT_ARENA_HEAP    (1ull << 30) /* sparse: only what rings use takes memory */
#define SXT_SOFT_NONE          UINT32_MAX
#define SXT_SOFT_SGE_MAX       32 /* per work request */
#define SXT_SOFT_QPN_SLOT_BITS 16
#define SXT_SOFT_QPN_SLOTS     (1u << SXT_SOFT_QPN_SLOT_BITS)
#define SXT_SOFT_QPN_FIRST     16 /* below are numbers that mean something on InfiniBand */

enum sxt_soft_mr_kind {
	SXT_SOFT_MR_PRIVATE, /* process_vm_* */
	SXT_SOFT_MR_FILE     /* a shared mapping of the file behind `fd` of the owner */
};

/*
 * A registration. The owner fills it, then stores the key (release); deregistering clears the key
 * and then takes and drops every QP lock of the process, after which no initiator that saw the
 * key is still at work.
 */
struct sxt_soft_mr_entry {
	_Atomic uint32_t key; /* index << 8 | generation; 0 is free */
	uint32_t access;      /* enum ibv_access_flags */
	uint32_t pd;
	uint32_t kind; /* enum sxt_soft_mr_kind */
	uint64_t iova;
	uint64_t addr; /* in the owner */
	uint64_t bytes;
	uint64_t file_offset; /* of addr */
	uint64_t dev;         /* st_dev and st_ino, to know the file opened is the one meant */
	uint64_t ino;
	int32_t fd;
	uint32_t generation; /* of the last key of this slot */
};

SXT_ASSERT_SIZE(struct sxt_soft_mr_entry, 72);

/* A receive work request in a QP's or SRQ's ring; sge[] is max_sge long. */
struct sxt_soft_recv_wqe {
	uint64_t wr_id;
	uint32_t sge_cnt;
	uint32_t pad;
	struct ibv_sge sge[];
};

/* Free-running head and tail over a ring of `mask` + 1 slots that admits `room` entries. */
struct sxt_soft_recv_ring {
	uint64_t offset; /* in the arena */
	uint32_t mask;
	uint32_t stride_bytes;
	uint32_t room;
	uint32_t max_sge;
	_Atomic uint32_t head; /* owner writes */
	_Atomic uint32_t tail; /* written under the QP's or SRQ's lock */
};

struct sxt_soft_qp_shared {
	pthread_mutex_t lock;   /* robust; whoever moves data into this QP holds it */
	uint32_t lock_ready;    /* made on the slot's first use, never again */
	_Atomic uint32_t qpn;   /* 0: not in use */
	_Atomic uint32_t state; /* enum ibv_qp_state; written under the lock */
	uint32_t type;          /* enum ibv_qp_type */
	uint32_t pd;
	uint32_t context;     /* index into contexts[] */
	uint32_t port;        /* index into the fabric's ports[] */
	uint32_t answer_port; /* whom its address vector leads to, or SXT_SOFT_NONE */
	uint32_t send_cq;
	uint32_t recv_cq;
	uint32_t srq; /* or SXT_SOFT_NONE */
	uint32_t dest_qpn;
	uint32_t rq_psn;
	uint32_t access; /* enum ibv_access_flags */
	uint32_t qkey;
	uint32_t max_dest_rd_atomic;
	uint8_t path_mtu; /* enum ibv_mtu */
	uint8_t min_rnr_timer;
	uint16_t pkey;
	uint64_t recv_visible_ns; /* of the last receive completion: completions keep their order */
	_Alignas(SXT_CACHELINE) struct sxt_soft_recv_ring rq;
};

struct sxt_soft_srq_shared {
	pthread_mutex_t lock; /* robust */
	uint32_t lock_ready;
	uint32_t live;
	uint32_t pd;
	uint32_t context;
	uint32_t limit; /* 0: not armed */
	_Alignas(SXT_CACHELINE) struct sxt_soft_recv_ring rq;
};

enum sxt_soft_cqe_kind {
	SXT_SOFT_CQE_SEND,
	SXT_SOFT_CQE_RECV,
	SXT_SOFT_CQE_SRQ,
	SXT_SOFT_CQE_GONE /* polled, or its QP is gone: step over it */
};

/* A completion. Written under the CQ's lock; then only its owner touches it. */
struct sxt_soft_cqe {
	uint64_t visible_ns; /* not polled before; 0 is at once */
	uint64_t wr_id;
	uint32_t qpn;
	uint32_t qp_slot;
	uint32_t byte_len;
	uint32_t imm_data; /* network order, as it came */
	uint32_t src_qp;
	uint32_t wq_release; /* the SQ, or the QP's own RQ, is free up to here */
	uint8_t kind;        /* enum sxt_soft_cqe_kind */
	uint8_t status;      /* enum ibv_wc_status */
	uint8_t opcode;      /* enum ibv_wc_opcode */
	uint8_t flags;       /* enum ibv_wc_flags */
	uint16_t slid;
	uint16_t pkey_index;
	uint8_t sl;
	uint8_t solicited;
	uint8_t pad[14];
};

SXT_ASSERT_SIZE(struct sxt_soft_cqe, 64);

enum sxt_soft_armed {
	SXT_SOFT_ARMED_NO,
	SXT_SOFT_ARMED_SOLICITED,
	SXT_SOFT_ARMED_ANY
};

struct sxt_soft_cq_shared {
	pthread_mutex_t lock; /* robust; producers hold it, the owner's pollers do not */
	uint32_t lock_ready;
	uint32_t live;
	uint32_t id; /* tells a CQ from an earlier one of its slot */
	uint32_t context;
	uint32_t channel; /* number of its completion channel, or SXT_SOFT_NONE */
	uint64_t offset;  /* of the ring in the arena */
	uint32_t mask;
	uint32_t room;
	_Atomic uint32_t overrun;
	_Atomic uint32_t armed;    /* enum sxt_soft_armed */
	_Atomic uint32_t events;   /* due or coming, not yet given to the program */
	_Atomic uint64_t event_ns; /* when the last of them is due */
	_Alignas(SXT_CACHELINE) _Atomic uint32_t head; /* producers write, under the lock */
	_Alignas(SXT_CACHELINE) _Atomic uint32_t tail; /* owner writes */
};

SXT_ASSERT_LINE(struct sxt_soft_cq_shared, head);
SXT_ASSERT_LINE(struct sxt_soft_cq_shared, tail);

/* An open device of the process: where its asynchronous events go. */
struct sxt_soft_context_shared {
	_Atomic uint32_t live;
	char box[PATH_MAX]; /* FIFO */
};

struct sxt_soft_arena {
	uint64_t magic;
	uint64_t proc_word;           /* whose it is: a slot taken again has another word */
	pthread_mutex_t atomics_lock; /* robust; held over atomics on private memory */
	struct sxt_soft_context_shared contexts[SXT_SOFT_CONTEXTS_MAX];
	_Alignas(SXT_CACHELINE) struct sxt_soft_qp_shared qps[SXT_SOFT_QPS_MAX];
	struct sxt_soft_cq_shared cqs[SXT_SOFT_CQS_MAX];
	struct sxt_soft_srq_shared srqs[SXT_SOFT_SRQS_MAX];
	struct sxt_soft_mr_entry mrs[SXT_SOFT_MRS_MAX];
	_Alignas(4096) uint8_t heap[SXT_SOFT_ARENA_HEAP];
};

/*
 * The fabric's QP numbers. A number is slot | generation << 16; a slot is taken again only after
 * the cursor has gone round, with the next generation.
 */
struct sxt_soft_qpn_entry {
	_Atomic uint64_t word; /* qpn | proc << 24 | QP slot << 34 | in use << 63 */
	_Atomic uint64_t proc_word;
};

struct sxt_soft_registry {
	_Atomic uint32_t cursor;
	uint32_t pad[15];
	struct sxt_soft_qpn_entry qpns[SXT_SOFT_QPN_SLOTS];
};

/**
 * sxt_soft_shared_lock_init() - make a lock in shared memory that survives its holder's death.
 * @lock: zeroed memory. Return: 0, or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_shared_lock_init(pthread_mutex_t *lock);

/*
 * Takes a shared lock. A holder that was killed leaves what it protects usable: every critical
 * section publishes with its last store.
 */
static inline void sxt_soft_shared_lock(pthread_mutex_t *lock)
{
	if (SXT_UNLIKELY(pthread_mutex_lock(lock) == EOWNERDEAD))
		pthread_mutex_consistent(lock);
}

static inline void sxt_soft_shared_unlock(pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
}

static inline struct sxt_soft_recv_wqe *sxt_soft_recv_wqe_at(struct sxt_soft_arena *arena,
							     const struct sxt_soft_recv_ring *ring,
							     uint32_t index)
{
	uint64_t at = ring->offset + (uint64_t)(index & ring->mask) * ring->stride_bytes;

	return (struct sxt_soft_recv_wqe *)((uint8_t *)arena + at);
}

static inline struct sxt_soft_cqe *sxt_soft_cqe_at(struct sxt_soft_arena *arena,
						   const struct sxt_soft_cq_shared *cq,
						   uint32_t index)
{
	return (struct sxt_soft_cqe *)((uint8_t *)arena + cq->offset) + (index & cq->mask);
}

#endif
