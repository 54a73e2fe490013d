/*
 * pair.h - one connection for tests: both ends in this process, each in a context of its own, over
 * the verbs fake, with the clock in the test's hand.
 */
#ifndef SXT_TESTS_UNIT_IB_PAIR_H
#define SXT_TESTS_UNIT_IB_PAIR_H

#include "core/config.h"
#include "ib/data.h"
#include "ib/process.h"
#include "ib/watcher.h"
#include "tests/fake/verbs.h"

#define PAIR_BUFFER (1u << 20)

struct pair {
	struct sxt_config config;
	struct sxt_ib ib;
	struct sxt_watcher watcher;
	struct sxt_context *send_ctx;
	struct sxt_context *recv_ctx;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	uint8_t *from; /* PAIR_BUFFER bytes, registered for send */
	uint8_t *to;   /* and for recv */
	struct sxt_mr *from_mr;
	struct sxt_mr *to_mr;
};

extern const struct sxt_fake_config pair_usual;

/* How many paths a connection has and what goes over each; zeroes: one path, NCCL's defaults. */
struct pair_shape {
	uint32_t send_ports; /* of the sending NIC; the machine has this many devices more ... */
	uint32_t recv_ports; /* ... than this */
	uint32_t qps;        /* per port */
	bool split;
	bool adaptive;
	int ar_bytes;
};

/**
 * pair_open() - a machine and a connection on it.
 * @pair: filled. @fake: the machine.
 */
void pair_open(struct pair *pair, const struct sxt_fake_config *fake);

/**
 * pair_open_shaped() - the same with several paths.
 * @pair: filled. @fake: the machine; devices_cnt is the shape's. @shape: which.
 */
void pair_open_shaped(struct pair *pair, const struct sxt_fake_config *fake,
		      const struct pair_shape *shape);

/**
 * pair_close() - free it; fails the test if anything is left, or if a queue ever overflowed or an
 * immediate met no receive.
 * @pair: its ends may have been closed before (and set to NULL).
 */
void pair_close(struct pair *pair);

/**
 * pair_more() - another connection in the same contexts.
 * @pair: the first. @send_out, @recv_out: the ends, for sxt_conn_destroy().
 */
void pair_more(struct pair *pair, struct sxt_conn **send_out, struct sxt_conn **recv_out);

/**
 * pair_paths_make() - every path's queue pair, path i on port i modulo the ports of the NIC.
 * @conn: from sxt_conn_create(). Return: 0, or the error of the port or of sxt_path_create().
 */
int pair_paths_make(struct sxt_conn *conn);

/**
 * pair_advance() - let time pass. @ns: how much.
 */
void pair_advance(uint64_t ns);

/**
 * pair_log() - what was said last.
 * Return: the last ERROR line since pair_open(), "" when there was none.
 */
const char *pair_log(void);

/**
 * pair_log_cnt() - how much was said.
 * Return: how many ERROR lines there were since pair_open().
 */
int pair_log_cnt(void);

/**
 * pair_send() - sxt_send() from an offset of `from`.
 * Return: its answer.
 */
int pair_send(struct pair *pair, size_t offset, uint64_t bytes, uint32_t tag,
	      struct sxt_request **out);

/**
 * pair_recv() - a receive of one message at an offset of `to`.
 * Return: the answer of sxt_recv().
 */
int pair_recv(struct pair *pair, size_t offset, uint64_t bytes, int tag, struct sxt_request **out);

/**
 * pair_recv_optional() - the same with optional completion.
 * Return: the answer of sxt_recv().
 */
int pair_recv_optional(struct pair *pair, size_t offset, uint64_t bytes, int tag,
		       struct sxt_request **out);

/**
 * pair_recv_group() - cnt messages; member i at i * stride with tag tags[i].
 * Return: the answer of sxt_recv().
 */
int pair_recv_group(struct pair *pair, int cnt, size_t stride, const int *tags,
		    struct sxt_request **out);

/**
 * pair_done() - test until done, at most a few times; fails the test when it is not.
 * @request: gone afterwards. @sizes: as sxt_test() takes them.
 */
void pair_done(struct sxt_request *request, int *sizes);

/**
 * pair_message_arrives() - a message of some size crosses the connection, whole and alone; fails
 * the test if it does not.
 * @pair: open. @bytes: at most PAIR_BUFFER - 256.
 */
void pair_message_arrives(struct pair *pair, uint64_t bytes);

/**
 * pair_waits() - test once; fails the test when it is done or an error.
 */
void pair_waits(struct sxt_request *request);

#endif
