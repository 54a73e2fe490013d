/*
 * tell.h - what the transport tells this process's telemetry segment outside the data path: ports,
 * connections as they come and go, warnings. All of it does nothing without a segment.
 */
#ifndef SXT_IB_TELL_H
#define SXT_IB_TELL_H

#include "core/compiler.h"
#include "core/log.h"

struct sxt_conn;
struct sxt_ib;
struct sxt_port;
struct sxt_tele;

/**
 * sxt_tell_ports() - write every port's record.
 * @ib: its ports are open. Thread: the one that opens them. Path: slow.
 */
void sxt_tell_ports(struct sxt_ib *ib);

/**
 * sxt_tell_port() - write a port's record as it was seen last.
 * @port: the port. Thread: the watcher, or who opens the port. Path: slow.
 */
void sxt_tell_port(struct sxt_port *port);

/**
 * sxt_tell_conn_making() - memory for what a connection's measuring keeps.
 * @conn: its context and kind are known. Thread: any. Path: slow. Return: 0, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_tell_conn_making(struct sxt_conn *conn);

/**
 * sxt_tell_conn_made() - give a connection its record; its messages are measured from here on.
 * @conn: whole, its caller has not got it yet. Thread: any, takes the segment's lock. Path: slow.
 */
void sxt_tell_conn_made(struct sxt_conn *conn);

/**
 * sxt_tell_conn_failed() - a connection failed.
 * @conn: the connection. @error: negative errno. @text: its cause, as it was logged.
 * Thread: any, takes the segment's lock. Path: cold.
 */
SXT_COLD void sxt_tell_conn_failed(struct sxt_conn *conn, int error, const char *text);

/**
 * sxt_tell_conn_gone() - nobody uses a connection any more.
 * @conn: being freed. Thread: any, takes the segment's lock. Path: slow.
 */
void sxt_tell_conn_gone(struct sxt_conn *conn);

/**
 * sxt_tell_line() - a line of the log becomes an event, if it is a warning or worse.
 * @tele: the segment. @level, @text: the line. Thread: any, called by the logger's tap.
 */
void sxt_tell_line(struct sxt_tele *tele, enum sxt_log_level level, const char *text);

/**
 * sxt_tell_stall() - a stall: a warning in the log, and one event that knows its connection.
 * @tele: the segment. @record: of the connection, UINT32_MAX none. @text: sxt_stall_line()'s.
 * Thread: any. Path: slow.
 */
void sxt_tell_stall(struct sxt_tele *tele, uint32_t record, const char *text);

#endif
