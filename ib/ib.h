/*
 * ib.h - the transport as plugin/ sees it: process, NICs, contexts, listeners, connections.
 *
 * Errors are negative errno values whose meaning for NCCL is fixed in plugin/result.c:
 * -EAGAIN call again; -ECONNREFUSED, -ECONNRESET, -EREMOTEIO, -ETIMEDOUT the peer or the network;
 * -EINVAL, -EFAULT, -EMSGSIZE the caller; -ENODEV, -EOPNOTSUPP, -ENOMEM this machine.
 */
#ifndef SXT_IB_IB_H
#define SXT_IB_IB_H

#include "core/compiler.h"
#include "core/config.h"

#include <stdbool.h>

#define SXT_HANDLE_BYTES   128 /* NCCL_NET_HANDLE_MAXSIZE */
#define SXT_RECVS_MAX      8   /* members of one grouped receive */
#define SXT_REQUESTS_MAX   32  /* receives in flight per connection, NCCL_NET_MAX_REQUESTS */
#define SXT_NIC_DEVS_MAX   8   /* physical NICs merged into one */
#define SXT_TCLASS_DEFAULT (-1)

struct sxt_ib;       /* this process: verbs library, ports, watcher thread, side channels */
struct sxt_context;  /* one communicator: CQs, owner word, its connections */
struct sxt_listener; /* one NCCL listen comm */
struct sxt_conn;     /* one NCCL send or receive comm */
struct sxt_mr;       /* one registration, NCCL's mhandle */
struct sxt_request;  /* one isend or irecv in flight */

/* What NCCL learns of one NIC; strings live as long as the process object. */
struct sxt_nic_props {
	const char *name;     /* unique, "sxt_mlx5_0:2" for a second port, "sxt_mlx5_0+mlx5_1" */
	const char *pci_path; /* below /sys, alike for the ports of one card; or NULL */
	uint64_t guid;
	uint32_t speed_mbps; /* of all ports together */
	int port;            /* counts on among those with the same pci_path */
	int rail;            /* of NCCL_IB_HCA, the same for all ports; -1 undefined */
	int plane;
	int devs_cnt; /* 1: itself, else the physical NICs that it merges */
	int devs[SXT_NIC_DEVS_MAX];
	int max_conns;
	uint64_t max_message_bytes;
};

/**
 * sxt_ib_get() - the process's transport, made by the first caller.
 * @out: set on success; give back with sxt_ib_put().
 * Reads the settings, opens the verbs library, lists ports. Every port left out and every reason
 * for having none is logged.
 * Thread: any, takes a lock. Path: slow, system calls.
 * Return: 0, -ENODEV if no port can be used or the transport is disabled, -EINVAL for bad
 * settings under SEXTANT_STRICT, -ENOENT/-ENOSYS for the verbs library, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_ib_get(struct sxt_ib **out);

/**
 * sxt_ib_note_abi() - which version of NCCL's network interface is in use, to tell peers.
 * @ib: the transport. @abi: 6 and up. Thread: any.
 */
void sxt_ib_note_abi(struct sxt_ib *ib, int abi);

struct sxt_wire_tuner;

/**
 * sxt_tuner_fn - what this process's tuner answers by.
 * @comm: number of the communicator; 0 not known, which is any. @out: written.
 * Thread: any, also under locks of the transport.
 */
typedef void (*sxt_tuner_fn)(uint64_t comm, struct sxt_wire_tuner *out);

/**
 * sxt_ib_note_tuner() - who knows it, to tell peers.
 * @ib: the transport. @tuner: stays callable. Thread: any.
 */
void sxt_ib_note_tuner(struct sxt_ib *ib, sxt_tuner_fn tuner);

/**
 * sxt_ib_put() - give the process's transport back; the last one stops the watcher and frees all.
 * @ib: from sxt_ib_get(); NULL is fine. Every context and connection must be gone.
 * Thread: any but the watcher, takes a lock and joins it.
 */
void sxt_ib_put(struct sxt_ib *ib);

/**
 * sxt_ib_stop() - join the watcher thread and nothing else, at process exit, when connections may
 * still be in use by threads that never end. The transport makes no new connection afterwards.
 * @ib: the transport. Thread: the one that runs exit(). May be called more than once.
 */
void sxt_ib_stop(struct sxt_ib *ib);

/**
 * sxt_ib_nics_cnt() - how many NICs NCCL is offered, the merged ones last.
 * @ib: the transport. Thread: any. Return: at least 1.
 */
int sxt_ib_nics_cnt(const struct sxt_ib *ib);

/**
 * sxt_ib_nic_props() - what one NIC is.
 * @ib: the transport. @dev: 0..sxt_ib_nics_cnt()-1. @out: written on success.
 * Thread: any. Return: 0, or -EINVAL for a number that is no NIC (logged).
 */
SXT_MUST_CHECK int sxt_ib_nic_props(struct sxt_ib *ib, int dev, struct sxt_nic_props *out);

/**
 * sxt_ib_merge() - one NIC that uses the ports of several.
 * @ib: the transport. @devs, @cnt: physical NICs, the first gives place, GUID and port.
 * @most: how many the caller's interface allows, up to SXT_NIC_DEVS_MAX.
 * @dev_out: set on success. The same list gives the same NIC again, and a list of one that one,
 * since names must stay unique.
 * Thread: any, takes a lock; other threads may use the transport meanwhile. Path: slow.
 * Return: 0, -EINVAL for a list that makes no sense, -EOPNOTSUPP for NICs that cannot be merged or
 * when NCCL_IB_MERGE_NICS=0 forbids it, -ENOMEM, -ENOBUFS when the table is full (all logged).
 */
SXT_MUST_CHECK int sxt_ib_merge(struct sxt_ib *ib, const int *devs, int cnt, int most,
				int *dev_out);

/**
 * sxt_context_create() - state of one communicator.
 * @ib: stays alive longer. @tclass: traffic class of the communicator, or SXT_TCLASS_DEFAULT.
 * @out: set on success; sxt_context_destroy() frees it.
 * Thread: any. Path: slow; CQs are made with the first connection. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_context_create(struct sxt_ib *ib, int tclass, struct sxt_context **out);

/**
 * sxt_context_note_comm() - which communicator a context is: telemetry tells its connections as
 * of it, and peers hear of its tuner. @ctx: without connections yet, and named once. @comm_id: as
 * NCCL has it. Thread: any, takes the segment's lock. Path: slow.
 */
void sxt_context_note_comm(struct sxt_context *ctx, uint64_t comm_id);

/**
 * sxt_context_destroy() - free a communicator's state with all that is left in it: listeners,
 * half-made and whole connections, registrations.
 * @ctx: NULL is fine. No other thread may be inside a call with it.
 */
void sxt_context_destroy(struct sxt_context *ctx);

/**
 * sxt_listen() - offer a place to connect to.
 * @ib: the transport. @ctx: the communicator, or NULL: each accepted connection then gets a
 * context of its own (ABI v6 to v10, which name no communicator). @dev: NIC.
 * @handle: SXT_HANDLE_BYTES, written on success, for the peer's sxt_connect().
 * @out: set on success; sxt_listener_close() frees it.
 * Thread: any. Path: slow. Return: 0, -EINVAL, -ENOMEM, or the error of a socket call.
 */
SXT_MUST_CHECK int sxt_listen(struct sxt_ib *ib, struct sxt_context *ctx, int dev, void *handle,
			      struct sxt_listener **out);

/**
 * sxt_listener_close() - stop listening; connections already accepted stay.
 * @listener: NULL is fine.
 */
void sxt_listener_close(struct sxt_listener *listener);

/**
 * sxt_connect() - one poll of making the sending end of a connection; never blocks.
 * @ib: the transport. @ctx: the communicator, or NULL for a context of the connection's own.
 * @dev: NIC. @tclass: traffic class asked for this connection, or SXT_TCLASS_DEFAULT.
 * @handle: what the peer's sxt_listen() wrote; the same memory at every poll, its scratch bytes
 * hold which attempt this is.
 * @out: set when the connection is made; sxt_conn_close() frees it.
 * Thread: one at a time per handle. Return: 0 when made, -EAGAIN to be polled again, -EINVAL or
 * -EBADMSG for a handle that is not ours, -ETIMEDOUT, -ECONNREFUSED and others when it failed
 * (logged, and nothing is left behind).
 */
SXT_MUST_CHECK int sxt_connect(struct sxt_ib *ib, struct sxt_context *ctx, int dev, int tclass,
			       void *handle, struct sxt_conn **out);

/**
 * sxt_accept() - one poll of making the receiving end of a connection; never blocks.
 * @listener: from sxt_listen(). @out: set when made; sxt_conn_close() frees it.
 * Thread: one at a time per listener. Return: 0 when made, -EAGAIN to be polled again, else why
 * it failed (logged).
 */
SXT_MUST_CHECK int sxt_accept(struct sxt_listener *listener, struct sxt_conn **out);

/**
 * sxt_conn_close() - end a connection: tells the peer how far it got, frees everything.
 * @conn: sending or receiving end, whatever its state; NULL is fine. Requests die with it.
 * Thread: any, not inside another call with this connection. Path: slow. Cannot fail.
 */
void sxt_conn_close(struct sxt_conn *conn);

/* Memory to register: plain, or behind a DMA-BUF file descriptor. */
struct sxt_mr_spec {
	void *addr;
	uint64_t bytes;
	int dmabuf_fd;          /* -1 for plain memory; not kept after the call */
	uint64_t dmabuf_offset; /* where addr lies in it */
};

/**
 * sxt_mr_get() - find or make a registration that covers a range.
 * @conn: whose port the memory is for. @spec: the range; any start and length but 0.
 * @out: set on success; give back with sxt_mr_put().
 * Thread: any, also while another thread moves data on @conn; takes a lock. Path: slow.
 * Return: 0, -EINVAL, -ENOMEM, -EFAULT, -EOPNOTSUPP or another error of the verbs (logged with
 * what to do about it).
 */
SXT_MUST_CHECK int sxt_mr_get(struct sxt_conn *conn, const struct sxt_mr_spec *spec,
			      struct sxt_mr **out);

/**
 * sxt_mr_put() - give a registration back; the last one deregisters.
 * @conn: as for sxt_mr_get(). @mr: NULL is fine.
 * Thread: any, takes a lock.
 */
void sxt_mr_put(struct sxt_conn *conn, struct sxt_mr *mr);

/**
 * sxt_send() - start one message, if the peer has room for it.
 * @conn: a sending end. @data, @bytes: 0 to SXT_MESSAGE_BYTES_MAX, inside @mr unless 0.
 * @tag: matched with the receiver's. @mr: from sxt_mr_get(), may be NULL when @bytes is 0.
 * @out: the request, for sxt_test(); set on success only.
 *
 * A message of a grouped receive may stay here until the last of the group is sent, or until
 * requests of this connection were tested a few times.
 * Thread: the data path. Path: hot. Return: 0; -EAGAIN when the peer has posted no receive with
 * this tag yet or a queue is full; -EMSGSIZE when it is larger than the posted receive; else the
 * connection's error, the same at every later call.
 */
SXT_MUST_CHECK int sxt_send(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
			    struct sxt_mr *mr, struct sxt_request **out);

/* What sxt_send_look() found. */
enum sxt_send_look {
	SXT_SEND_WAIT,   /* nothing can be sent now */
	SXT_SEND_SINGLE, /* a receive of one message is there: sxt_send_plain() */
	SXT_SEND_FIRST,  /* a grouped receive is there: sxt_send_open() */
	SXT_SEND_MEMBER, /* more of a grouped receive is there: sxt_send_member() */
	SXT_SEND_ANY     /* sxt_send_any() */
};

/**
 * sxt_send_look() - the first part of sxt_send(), for a caller that keeps the others out of the way
 * of the many calls before the peer has posted.
 * @conn: a sending end.
 * Thread: the data path. Path: hot. Return: SXT_SEND_WAIT, as -EAGAIN of sxt_send(); after the
 * others the caller has the connection and calls the part named there next.
 */
SXT_MUST_CHECK enum sxt_send_look sxt_send_look(struct sxt_conn *conn);

/* No errno: the caller still has the connection. */
#define SXT_SEND_OTHERWISE 1

/**
 * sxt_send_plain() - the second part after SXT_SEND_SINGLE.
 * @conn, @data, @bytes, @tag, @mr, @out: as for sxt_send().
 * Thread: the data path. Path: hot. Return: as sxt_send(), or SXT_SEND_OTHERWISE where one write
 * does not do: sxt_send_any() is next.
 */
SXT_MUST_CHECK int sxt_send_plain(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
				  struct sxt_mr *mr, struct sxt_request **out);

/**
 * sxt_send_open() - the second part after SXT_SEND_FIRST.
 * @conn: a sending end.
 * Thread: the data path. Path: hot. Return: true if all of the group is there: sxt_send_member() is
 * next; false for sxt_send_any().
 */
SXT_MUST_CHECK bool sxt_send_open(struct sxt_conn *conn);

/**
 * sxt_send_member() - the second part after SXT_SEND_MEMBER, without a call of the provider.
 * @conn, @data, @bytes, @tag, @mr: as for sxt_send().
 * Thread: the data path. Path: hot. Return: the request, and sxt_send_may_wait() is next; NULL for
 * sxt_send_any().
 */
SXT_MUST_CHECK struct sxt_request *sxt_send_member(struct sxt_conn *conn, void *data,
						   uint64_t bytes, uint32_t tag, struct sxt_mr *mr);

/**
 * sxt_send_may_wait() - is a member posted together with a later one?
 * @conn, @bytes: as for sxt_send_member().
 * Thread: the data path. Path: hot. Return: true if all is done; false: sxt_send_members() is next.
 */
SXT_MUST_CHECK bool sxt_send_may_wait(struct sxt_conn *conn, uint64_t bytes);

/**
 * sxt_send_members() - post the members made so far.
 * @conn: the same. Thread: the data path. Path: hot. Return: 0 or the connection's error.
 */
SXT_MUST_CHECK int sxt_send_members(struct sxt_conn *conn);

/**
 * sxt_send_any() - the second part after any of them.
 * @conn, @data, @bytes, @tag, @mr, @out: as for sxt_send().
 * Thread: the data path. Path: hot. Return: as sxt_send().
 */
SXT_MUST_CHECK int sxt_send_any(struct sxt_conn *conn, void *data, uint64_t bytes, uint32_t tag,
				struct sxt_mr *mr, struct sxt_request **out);

/*
 * Telemetry of the data path: called after the calls above by whoever measures, which is all
 * callers of a connection or none. Thread: the one that drives the connection. Path: hot.
 */

/* Given as a constant, so that no stamp asks which clock it is of. */
enum sxt_measuring {
	SXT_MEASURE_NOT = 0,
	SXT_MEASURE_BY_COUNTER, /* the processor's */
	SXT_MEASURE_BY_CLOCK    /* the system's */
};

/**
 * sxt_ib_measuring() - is telemetry on, and what does it measure by?
 * @ib: the transport. Return: how all of its connections are to be measured.
 */
enum sxt_measuring sxt_ib_measuring(const struct sxt_ib *ib);

struct sxt_tele;

/**
 * sxt_ib_tele() - the process's telemetry segment.
 * @ib: the transport; the segment stays as long. Return: NULL while telemetry is off.
 */
struct sxt_tele *sxt_ib_tele(const struct sxt_ib *ib);

/**
 * sxt_measure_sent() - a message was accepted.
 * @conn: a sending end. @request: of the message. @tag: as for sxt_send(). @how: as above,
 * measured.
 */
void sxt_measure_sent(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
		      enum sxt_measuring how);

/**
 * sxt_measure_not_now() - a caller was told to come again.
 * @conn: either end. @how: as above, measured.
 */
void sxt_measure_not_now(struct sxt_conn *conn, enum sxt_measuring how);

/**
 * sxt_measure_posted() - a receive was accepted.
 * @conn: a receiving end. @request: of the receive. @tag: its first. @how: as above, measured.
 */
void sxt_measure_posted(struct sxt_conn *conn, const struct sxt_request *request, uint32_t tag,
			enum sxt_measuring how);

/* One grouped receive; arrays of cnt. */
struct sxt_recv_spec {
	int cnt; /* 1..SXT_RECVS_MAX */
	void *const *data;
	const uint64_t *bytes;
	const int *tags;
	struct sxt_mr *const *mrs;
	bool optional; /* the caller sees the data arrive by itself; cnt must be 1 */
};

/**
 * sxt_recv() - post buffers for cnt messages.
 * @conn: a receiving end. @spec: the buffers; not kept. @out: as for sxt_send().
 * Thread: the data path. Path: hot. Return: 0; -EAGAIN when no room is left for another receive;
 * -EINVAL for a bad @spec; else the connection's error.
 */
SXT_MUST_CHECK int sxt_recv(struct sxt_conn *conn, const struct sxt_recv_spec *spec,
			    struct sxt_request **out);

/**
 * sxt_test() - is it done? A done request is freed.
 * @request: from sxt_send() or sxt_recv(). @sizes: NULL, or where the byte count of each member
 * goes when it is done (one for a send). @done_out: set on success.
 * Thread: the data path. Path: hot. Return: 0, or the connection's error.
 */
SXT_MUST_CHECK int sxt_test(struct sxt_request *request, bool *done_out, int *sizes);

/**
 * sxt_test_done() - the first half of sxt_test(), for a caller that keeps the second one out of its
 * way: many requests are done before they are asked about.
 * @request, @sizes: as for sxt_test(). @how: to be measured.
 * Thread: the data path. Path: hot. Return: true if it is done, and freed.
 */
SXT_MUST_CHECK bool sxt_test_done(struct sxt_request *request, int *sizes, enum sxt_measuring how);

/**
 * sxt_test_waiting() - the second half: looks for completions first.
 * @request, @done_out, @sizes, @how: as before; sxt_test_done() said false.
 * Thread: the data path. Path: hot. Return: as sxt_test().
 */
SXT_MUST_CHECK int sxt_test_waiting(struct sxt_request *request, bool *done_out, int *sizes,
				    enum sxt_measuring how);

#endif
