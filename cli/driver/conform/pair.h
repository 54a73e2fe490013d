/*
 * pair.h - the two ends of one connection, in one process or in two, and the messages on it.
 *
 * Calls do the part of the ends that this process plays and skip the other. A pair is used by one
 * thread at a time. Requests are tested oldest first, as NCCL does.
 */
#ifndef SXT_CLI_DRIVER_CONFORM_PAIR_H
#define SXT_CLI_DRIVER_CONFORM_PAIR_H

#include "cli/driver/conform/trial.h"

#define SXT_PAIR_GROUP_MAX 8
#define SXT_PAIR_OPS       512 /* of one direction that are kept */
#define SXT_PAIR_BYTES     (1u << 20)
#define SXT_PAIR_GUARD     64   /* bytes watched on either side of a receive */
#define SXT_PAIR_HOME      4096 /* where plain messages stand in the buffer */
#define SXT_PAIR_TAG       7

/* One isend, or one irecv of a group. */
struct sxt_op {
	void *request;
	int n;
	int sizes[SXT_PAIR_GROUP_MAX]; /* once done */
	bool sizeless;                 /* test gets NULL for the sizes */
};

/* One direction's requests: done <= posted. */
struct sxt_flow {
	struct sxt_op ops[SXT_PAIR_OPS];
	unsigned int posted;
	unsigned int done;
};

struct sxt_memory {
	uint8_t *data;
	size_t bytes;
	void *mhandle;
};

struct sxt_pair {
	struct sxt_trial *trial;
	void *ctx;
	int dev;
	void *listen_comm;
	void *send_comm;
	void *recv_comm;
	struct sxt_memory out;
	struct sxt_memory in;
	struct sxt_flow sends;
	struct sxt_flow recvs;
	bool keeps_done; /* the caller makes the calls of irecvConsumed */
	_Alignas(16) char handle[NCCL_NET_HANDLE_BYTES];
};

/**
 * sxt_pair_init() - an unconnected pair on the trial's context and device.
 * @pair: overwritten.
 */
void sxt_pair_init(struct sxt_pair *pair, struct sxt_trial *trial);

/**
 * sxt_pair_listen() - listen, and the handle to the sender. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_listen(struct sxt_pair *pair);

/**
 * sxt_pair_poll_connect() - one poll of connect, unless it has given a comm.
 * Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_poll_connect(struct sxt_pair *pair);

/**
 * sxt_pair_poll_accept() - one poll of accept, unless it has given a comm. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_poll_accept(struct sxt_pair *pair);

/**
 * sxt_pair_meet() - poll connect and accept in turns until both are there. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_meet(struct sxt_pair *pair);

/**
 * sxt_pair_buffers() - map and register the buffer of each end.
 * @bytes: of each. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_buffers(struct sxt_pair *pair, size_t bytes);

/**
 * sxt_pair_open() - init, listen, meet and buffers of SXT_PAIR_BYTES.
 * @pair: overwritten. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_open(struct sxt_pair *pair, struct sxt_trial *trial);

/**
 * sxt_pair_close() - deregister, close the comms and the listen comm, unmap.
 * Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_close(struct sxt_pair *pair);

/**
 * sxt_pair_close_send() - the sender's part of sxt_pair_close(). Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_close_send(struct sxt_pair *pair);

/**
 * sxt_pair_close_recv() - the receiver's part of sxt_pair_close(). Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_close_recv(struct sxt_pair *pair);

/**
 * sxt_memory_map() - a shared mapping, which another process's software HCA can write.
 * @bytes: rounded up to pages. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_memory_map(struct sxt_trial *trial, size_t bytes, struct sxt_memory *out);

/**
 * sxt_pair_reg() - register one end's memory, or a range of it.
 * @comm: the end's. @memory: its mhandle is set. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_reg(struct sxt_pair *pair, void *comm, struct sxt_memory *memory);

/**
 * sxt_pair_fill() - a message to send, its bytes made from @seed.
 * @offset: in the sender's buffer. Return: for sxt_pair_send().
 */
struct sxt_drv_msg sxt_pair_fill(struct sxt_pair *pair, size_t offset, size_t bytes, uint32_t seed);

/**
 * sxt_pair_clear() - room for a message, spoiled, with SXT_PAIR_GUARD bytes on either side.
 * @offset: in the receiver's buffer. Return: for sxt_pair_recv().
 */
struct sxt_drv_msg sxt_pair_clear(struct sxt_pair *pair, size_t offset, size_t bytes);

/**
 * sxt_pair_verify() - the bytes of sxt_pair_fill(), and spoil up to @room and around.
 * @msg: of sxt_pair_clear(): where it was received and its room. @bytes: that were sent.
 * @seed: theirs. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_verify(struct sxt_pair *pair, const struct sxt_drv_msg *msg,
				   size_t bytes, uint32_t seed);

/**
 * sxt_pair_arrived() - do the bytes already look as filled? Polls memory; no call of the plugin.
 * @msg, @bytes, @seed: as for sxt_pair_verify(). Return: true when they do.
 */
bool sxt_pair_arrived(const struct sxt_drv_msg *msg, size_t bytes, uint32_t seed);

/**
 * sxt_pair_try_recv() - one irecv.
 * @hint: NCCL_NET_OPTIONAL_RECV, or NULL. @posted: false when it said "not now".
 * Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_try_recv(struct sxt_pair *pair, int n, const struct sxt_drv_msg *msgs,
				     void *hint, bool *posted);

/**
 * sxt_pair_try_send() - one isend. @posted: false when it said "not now". Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_try_send(struct sxt_pair *pair, const struct sxt_drv_msg *msg,
				     bool *posted);

/**
 * sxt_pair_recv() - irecv until it is taken; requests are tested meanwhile.
 * Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_recv(struct sxt_pair *pair, int n, const struct sxt_drv_msg *msgs);

/**
 * sxt_pair_send() - isend until it is taken; requests are tested meanwhile. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_send(struct sxt_pair *pair, const struct sxt_drv_msg *msg);

/**
 * sxt_pair_poll_sends() - test the oldest send until one is not done.
 * @moved: counts up by what is done. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_poll_sends(struct sxt_pair *pair, int *moved);

/**
 * sxt_pair_poll_recvs() - test the oldest receive until one is not done.
 * @moved: counts up by what is done. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_poll_recvs(struct sxt_pair *pair, int *moved);

/**
 * sxt_pair_poll() - both of the above. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_poll(struct sxt_pair *pair, int *moved);

/**
 * sxt_pair_wait() - poll until all that was posted is done. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_wait(struct sxt_pair *pair);

/**
 * sxt_pair_told() - the size that test told for a done receive.
 * @index: of the receive, among the last SXT_PAIR_OPS. @member: of its group.
 * @bytes: that must have been told. Return: 0, -EIO noted; 0 at the sender.
 */
SXT_MUST_CHECK int sxt_pair_told(struct sxt_pair *pair, unsigned int index, int member,
				 size_t bytes);

/**
 * sxt_pair_move() - one message from posted receive to verified data.
 * @offset: in both buffers. @room: of the receive. @bytes: of the message, at most @room.
 * Thread: main when the ends are two processes. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_move(struct sxt_pair *pair, size_t offset, size_t room, size_t bytes,
				 uint32_t seed);

/**
 * sxt_pair_exchange() - sxt_pair_move() of a plain message of @bytes. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_exchange(struct sxt_pair *pair, size_t bytes, uint32_t seed);

/**
 * sxt_pair_live() - open, exchange one message and close, on any context.
 * @pair: overwritten. @ctx: for listen and connect. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_live(struct sxt_pair *pair, struct sxt_trial *trial, void *ctx);

/**
 * sxt_pair_live_context() - init of one more context, sxt_pair_live() on it, finalize.
 * @pair: overwritten. @commid: of the context. v11 and later. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_live_context(struct sxt_pair *pair, struct sxt_trial *trial,
					 uint64_t commid);

/**
 * sxt_pair_end() - close the pair, then finalize: the end of most checks. Return: 0, -EIO noted.
 */
SXT_MUST_CHECK int sxt_pair_end(struct sxt_pair *pair);

#endif
