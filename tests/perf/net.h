/*
 * net.h - the built plugin as NCCL sees it, for measuring: version 12's table out of the file, one
 * communicator for the sending ends and one for the receiving ones (as two ranks have them), and
 * connections between the two.
 */
#ifndef SXT_TESTS_PERF_NET_H
#define SXT_TESTS_PERF_NET_H

#include "plugin/nccl/net.h"

#include <stdbool.h>

#define NET_LARGE_BYTES ((size_t)512 << 10)
#define NET_GROUP       8

struct net {
	const struct nccl_net_v12 *table;
	void *send_ctx;
	void *recv_ctx;
};

struct net_pair {
	const struct nccl_net_v12 *table;
	void *send;
	void *recv;
	void *send_mr;
	void *recv_mr;
	char *from; /* NET_LARGE_BYTES, registered */
	char *to;
};

/**
 * net_die() - say what failed on stderr and end the program with status 2.
 * @what: what. @result: NCCL's result, or 0. Return: never.
 */
_Noreturn void net_die(const char *what, int result);

/**
 * net_open() - load the plugin and begin both communicators.
 * @net: filled. @path: the plugin's file.
 */
void net_open(struct net *net, const char *path);

/**
 * net_merge() - make one device of the first ports.
 * @net: from net_open(). @ports_cnt: how many. Return: its number, -1 where the plugin cannot.
 */
int net_merge(const struct net *net, int ports_cnt);

/* What memory grew by inside the calls of either end, in bytes. */
struct net_growth {
	int64_t send_heap;
	int64_t send_registered;
	int64_t recv_heap;
	int64_t recv_registered;
};

/**
 * net_connect() - make one connection: listen, connect, accept, closeListen.
 * @net: from net_open(). @dev: device of both ends. @pair: filled but for the buffers.
 * @growth: added to, or NULL. Between two rounds of polls the transport is left time to work, so
 * that nearly every poll makes progress.
 */
void net_connect(const struct net *net, int dev, struct net_pair *pair, struct net_growth *growth);

/**
 * net_register() - register a pair's buffers, of the program's own.
 * @pair: from net_connect().
 */
void net_register(struct net_pair *pair);

/**
 * net_close() - close both ends.
 * @pair: from net_connect().
 */
void net_close(struct net_pair *pair);

/**
 * net_irecv() - post a receive that must be taken.
 * @pair: where. @cnt: messages of `bytes` each, with tags 0 and up. @optional: ask for no
 * completion. Return: the request.
 */
void *net_irecv(struct net_pair *pair, int cnt, size_t bytes, bool optional);

/**
 * net_isend() - send a message for which there is a receive.
 * @pair: where. @bytes, @tag: of the message. Return: the request.
 */
void *net_isend(struct net_pair *pair, size_t bytes, int tag);

/**
 * net_wait() - test until done.
 * @pair: whose table. @request: gone afterwards. @bytes: what each member must have come to, or -1
 * where nobody counts.
 */
void net_wait(const struct net_pair *pair, void *request, int bytes);

#endif
