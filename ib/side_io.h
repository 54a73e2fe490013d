/*
 * side_io.h - the bytes of a side channel: buffers, reading frames, HELLO. Private to side.c and
 * side_io.c; everything is under the watcher's lock.
 */
#ifndef SXT_IB_SIDE_IO_H
#define SXT_IB_SIDE_IO_H

#include "ib/side.h"

/**
 * sxt_side_io_queue() - put a frame behind those that wait.
 * @side: the channel. @frame: copied. Return: 0, -ENOBUFS at the bound, or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_side_io_queue(struct sxt_side *side, const struct sxt_frame_out *frame);

/**
 * sxt_side_io_flush() - write what the socket takes.
 * @side: with a socket. A broken one is told by sxt_side_lost().
 */
void sxt_side_io_flush(struct sxt_side *side);

/**
 * sxt_side_io_say_hello() - queue our HELLO before everything else.
 * @side: newly connected.
 */
void sxt_side_io_say_hello(struct sxt_side *side);

/**
 * sxt_side_io_read() - take what the socket has and act on every whole frame.
 * @side: with a socket. May lose or kill it, or hand its socket to the channel it resumes.
 */
void sxt_side_io_read(struct sxt_side *side);

/**
 * sxt_side_io_reset() - forget half-sent and half-read frames: the socket is gone.
 * @side: what was queued and not sent whole is kept.
 */
void sxt_side_io_reset(struct sxt_side *side);

/**
 * sxt_side_io_free() - free the buffers.
 * @side: the channel.
 */
void sxt_side_io_free(struct sxt_side *side);

/**
 * sxt_side_io_warn() - at most one line in ten seconds about what strangers do.
 * @watcher: keeps count of those held back. @what, @why: two parts of one sentence.
 */
void sxt_side_io_warn(struct sxt_watcher *watcher, const char *what, const char *why);

/**
 * sxt_side_come_up() - a valid HELLO came.
 * @side: the channel; what waited is sent.
 */
void sxt_side_come_up(struct sxt_side *side);

/**
 * sxt_side_adopt() - a peer dialled again: its new socket replaces the broken one.
 * @side: the known channel. @fresh: the accepted one; left dead, without a socket.
 */
void sxt_side_adopt(struct sxt_side *side, struct sxt_side *fresh);

/**
 * sxt_side_watch() - tell epoll what the channel waits for.
 * @side: with a socket. @wants_out: also until it can be written to.
 */
void sxt_side_watch(struct sxt_side *side, bool wants_out);

#endif
