/*
 * side.h - side channels: one TCP connection per pair of processes, on which connections are
 * made, closed in order and reported as failed.
 */
#ifndef SXT_IB_SIDE_H
#define SXT_IB_SIDE_H

#include "core/compiler.h"

struct sxt_conn;

/**
 * sxt_side_tell_failed() - tell the peer that a connection failed here.
 * @conn: the connection; without a channel nothing happens. @error: negative errno.
 * @text: why, for the peer's log.
 * Thread: any; takes the side channels' lock, never waits for the network. Path: cold.
 */
SXT_COLD void sxt_side_tell_failed(struct sxt_conn *conn, int error, const char *text);

#endif
