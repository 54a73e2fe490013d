/*
 * conn.h - one connection of NCCL's proxy: made by the service thread, driven by the progress
 * thread, filled and emptied by what plays the GPU.
 *
 * A connection carries one lane, or several where receives are grouped. A lane is a ring of slots
 * with step counters, which only ever grow:
 *   sending:    done <= posted <= filled <= done + depth
 *   receiving:  consumed <= posted, done <= posted <= min(done, consumed) + depth, posted <= target
 * A receiver may consume before done: LL finds the data by its flags.
 */
#ifndef SXT_CLI_DRIVER_CONN_H
#define SXT_CLI_DRIVER_CONN_H

#include "cli/driver/proto.h"
#include "cli/driver/run.h"

#define SXT_DRV_DEPTH_MAX 32 /* requests in flight of one lane */
#define SXT_DRV_LANES_MAX 8  /* members of a grouped receive */

struct sxt_drv_lane {
	uint64_t filled;                 /* send: slots written by the GPU's part */
	uint64_t posted;                 /* slots handed to isend or irecv */
	uint64_t done;                   /* slots that test called done */
	uint64_t consumed;               /* receive: slots the GPU's part has emptied */
	uint64_t target;                 /* receive: steps of all work so far */
	size_t checked;                  /* receive: lines of the oldest slot seen so far */
	size_t sizes[SXT_DRV_DEPTH_MAX]; /* send: bytes to send; receive: bytes that test told */
	uint8_t *slots;
	void *mhandle;
	bool registered;
	int tag;
};

/* One isend, or one irecv of a group. */
struct sxt_drv_request {
	void *request;
	int n;
	uint8_t lanes[SXT_DRV_LANES_MAX];
	uint64_t steps[SXT_DRV_LANES_MAX];
};

/* Whose connections they are. */
struct sxt_drv_user {
	void *ctx; /* of the plugin, v11 and later */
	int dev;
	int comm; /* number of the communicator; -1 where there is but one */
};

/* What all connections of a communicator are alike in. */
struct sxt_drv_shape {
	const struct sxt_drv_proto *proto;
	size_t slot_bytes;
	unsigned int depth;  /* slots per lane */
	bool private_memory; /* malloc() instead of a memfd */
	struct sxt_drv_user user;
};

/* Requests that are posted, or done and not yet consumed. */
#define SXT_DRV_REQUESTS (2 * SXT_DRV_DEPTH_MAX * SXT_DRV_LANES_MAX)

enum sxt_drv_conn_state {
	SXT_DRV_CONN_LISTEN, /* receivers begin here */
	SXT_DRV_CONN_LISTENING,
	SXT_DRV_CONN_ACCEPT,
	SXT_DRV_CONN_CLOSE_LISTEN,
	SXT_DRV_CONN_CONNECT, /* senders begin here */
	SXT_DRV_CONN_REGISTER,
	SXT_DRV_CONN_READY,
	SXT_DRV_CONN_STATES_CNT,
};

struct sxt_drv_conn {
	struct sxt_drv_run *run;
	const struct sxt_drv_shape *shape;
	bool sender;
	int peer;
	int channel; /* of the first lane */
	enum sxt_drv_conn_state state;
	void *listen_comm;
	void *comm;
	struct sxt_drv_lane lanes[SXT_DRV_LANES_MAX];
	int lanes_cnt;
	/* Ring; each index only grows: released <= tested <= posted. */
	struct sxt_drv_request requests[SXT_DRV_REQUESTS];
	uint64_t posted;
	uint64_t tested;
	uint64_t released;
	_Alignas(16) char handle[NCCL_NET_HANDLE_BYTES];
};

/* The connections of one rank, as the argument of the jobs below. */
struct sxt_drv_conns {
	struct sxt_drv_run *run;
	struct sxt_drv_conn *list;
	int cnt;
};

/**
 * sxt_drv_conns_listen() - job: open every receiving connection's listen comm.
 * @arg: struct sxt_drv_conns. Thread: service. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_conns_listen(void *arg);

/**
 * sxt_drv_conns_connect() - job: poll connect and accept of all connections until every one is
 * there, then register their memory. Senders have their peer's handle.
 * @arg: struct sxt_drv_conns. Thread: service. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_conns_connect(void *arg);

/**
 * sxt_drv_conns_close() - job: deregister and close whatever is open, in any state; it may be
 * made again after that.
 * @arg: struct sxt_drv_conns. Thread: service. Return: 0, or -EIO with the failure noted.
 */
int sxt_drv_conns_close(void *arg);

/**
 * sxt_drv_conn_poll() - one round of NCCL's proxy: hand over what is ready, test the oldest.
 * Thread: progress. Path: hot. Return: number of steps that moved, or -EIO with the failure noted.
 */
int sxt_drv_conn_poll(struct sxt_drv_conn *conn);

/**
 * sxt_drv_conn_idle() - has every request been tested to its end?
 * Return: true when nothing is wanted, filled or outstanding.
 */
bool sxt_drv_conn_idle(const struct sxt_drv_conn *conn);

/**
 * sxt_drv_conn_where() - "to rank 1, channel 0".
 * @out, @out_bytes: text, always terminated.
 */
void sxt_drv_conn_where(const struct sxt_drv_conn *conn, char *out, size_t out_bytes);

/**
 * sxt_drv_conn_describe() - what each lane waits for, for messages about stalls.
 * @out, @out_bytes: text, always terminated.
 */
void sxt_drv_conn_describe(const struct sxt_drv_conn *conn, char *out, size_t out_bytes);

#endif
