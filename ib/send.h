/*
 * send.h - what send.c and cut.c share: one message on its way, and what goes with it. Private to
 * the sending half of the data path; everything is under the context's owner word.
 */
#ifndef SXT_IB_SEND_H
#define SXT_IB_SEND_H

#include "ib/data.h"

/* One message on its way to the queue pair. */
struct sxt_message {
	const struct sxt_wire_cts *cts;
	struct sxt_request **out;
	const struct sxt_mr *mr; /* NULL where bytes are 0 */
	uint64_t addr;
	uint64_t bytes;
	uint64_t position; /* of cts */
	uint64_t place;    /* in the oldest group */
	uint32_t tag;
};

/* In network order; index counts a message's chunks or says what a record tells. */
static SXT_INLINE uint32_t sxt_send_immediate(const struct sxt_wire_cts *cts, uint32_t index,
					      uint32_t flags)
{
	return htonl((uint32_t)cts->handle << SXT_IMM_HANDLE_SHIFT |
		     (cts->generation & (SXT_IMM_GENERATIONS - 1)) << SXT_IMM_GEN_SHIFT |
		     index << SXT_IMM_INDEX_SHIFT | flags);
}

/* The size record of a message that is told on its own. */
static inline uint64_t sxt_send_record(const struct sxt_message *message)
{
	return message->bytes | (uint64_t)message->cts->generation << 48;
}

/* Before the write: what it reads would be out of the cache behind a large one. */
static inline void sxt_send_use_member(struct sxt_send_end *end, uint64_t place)
{
	end->free_mask &= ~(1u << place);
	if (end->free_mask == 0)
		end->head += end->group_cnt;
}

/**
 * sxt_send_room() - see to room in a path's send queue; polls once where it is full, since no other
 * call may come to.
 * @end: the end. @path: which. @wrs: entries wanted. Path: hot.
 * Return: 0, -EAGAIN, or the connection's error.
 */
SXT_MUST_CHECK int sxt_send_room(struct sxt_send_end *end, const struct sxt_path *path,
				 uint32_t wrs);

/**
 * sxt_send_request_start() - the request of a message that is posted, or need not be.
 * @end: the end. @message: its out is set. Path: hot.
 */
void sxt_send_request_start(struct sxt_send_end *end, const struct sxt_message *message);

/**
 * sxt_send_cut() - post a message in more than one write, over as many paths as gain by it.
 * @end: the end. @message: which; its member is used. Path: hot.
 * Return: 0, -EAGAIN where a queue has no room for all of it, or the connection's error.
 */
SXT_MUST_CHECK int sxt_send_cut(struct sxt_send_end *end, const struct sxt_message *message);

#endif
