/*
 * broken.h - the fake net plugin's variants that break one rule each; broken.def lists them.
 *
 * SXT_FAKE_BREAK=<name> chooses one when the library is loaded. The honest code asks
 * SXT_FAKE_BREAKS(id) where the deed is a word; longer deeds are the functions here.
 */
#ifndef SXT_TESTS_FAKE_NET_BROKEN_H
#define SXT_TESTS_FAKE_NET_BROKEN_H

#include "core/list.h"
#include "plugin/nccl/net.h"

#include <pthread.h>
#include <stdbool.h>

struct sxt_fake_comm;
struct sxt_fake_ctx;
struct sxt_fake_recv;
struct sxt_fake_request;
struct sxt_fake_send;

enum sxt_broken {
	SXT_BROKEN_none,
#define SXT_BROKEN(id, name, abi, deed) SXT_BROKEN_##id,
#include "tests/fake/net/broken.def"
#undef SXT_BROKEN
	SXT_BROKEN_unknown, /* SXT_FAKE_BREAK names none: init fails */
};

#define SXT_FAKE_BREAKS(id) (sxt_broken_chosen() == SXT_BROKEN_##id)

/* What the variants remember of a comm. */
struct sxt_broken_notes {
	struct sxt_list node; /* in the list of all comms */
	const void *origin;   /* the object that became it */
	pthread_t maker;      /* of connect or accept */
	pthread_t user;       /* of isend or irecv; valid if used */
	bool used;
	int dev;
	const struct sxt_fake_request *tested; /* the last receive that test called done */
	/* In a row: */
	unsigned int not_now_cnt; /* isends without a receive */
	unsigned int early_cnt;   /* of them, before the first receive */
	unsigned int waits_cnt;   /* tests without a message */
	unsigned int full_cnt;    /* optional receives without room */
	unsigned int single_cnt;  /* receives of one size, one at a time */
	size_t room;              /* the size of the last receive */
	bool swapped;             /* two messages have changed places */
};

/**
 * sxt_broken_chosen() - the variant in force. Thread: any. Return: SXT_BROKEN_none for an honest
 * plugin.
 */
enum sxt_broken sxt_broken_chosen(void);

/**
 * sxt_broken_refuse() - say that a call fails on purpose. Return: what the call shall return.
 */
ncclResult_t sxt_broken_refuse(void);

/**
 * sxt_broken_init() - what variants do in every init.
 * Return: ncclSuccess, or what init shall return.
 */
ncclResult_t sxt_broken_init(void);

/**
 * sxt_broken_init_ctx() - what variants do to a new context.
 * @comm_id: as init got it. Return: ncclSuccess, or what init shall return.
 */
ncclResult_t sxt_broken_init_ctx(struct sxt_fake_ctx *ctx, uint64_t comm_id);

/**
 * sxt_broken_finalize() - what variants do before a context is freed.
 * @ctx: forgotten here.
 */
void sxt_broken_finalize(struct sxt_fake_ctx *ctx);

/**
 * sxt_broken_unload() - what variants do when the library is unloaded.
 * @left_open: something of the versions without contexts is.
 */
void sxt_broken_unload(bool left_open);

/**
 * sxt_broken_end_others() - end every connection that is not in a context.
 * @ctx: the context. Thread: any.
 */
void sxt_broken_end_others(const struct sxt_fake_ctx *ctx);

/**
 * sxt_broken_made() - remember a comm, and what variants do then.
 * @origin: the listen comm or the attempt to connect. @dev: its device.
 * Thread: the one of connect or accept.
 */
void sxt_broken_made(struct sxt_fake_comm *comm, const void *origin, int dev);

/**
 * sxt_broken_listen_closed() - what variants do in closeListen.
 * @listening: still whole.
 */
void sxt_broken_listen_closed(const void *listening);

/**
 * sxt_broken_close() - what variants do in closeSend and closeRecv, before anything is closed.
 * Return: what the call shall return.
 */
ncclResult_t sxt_broken_close(struct sxt_fake_comm *comm);

/**
 * sxt_broken_forget() - a comm is about to be freed, by whomever.
 */
void sxt_broken_forget(struct sxt_fake_comm *comm);

/**
 * sxt_broken_reg() - may this be registered?
 * Thread: any. Return: ncclSuccess, or what regMr shall return.
 */
ncclResult_t sxt_broken_reg(struct sxt_fake_comm *comm, const void *data);

/**
 * sxt_broken_isend() - what variants do in isend, before anything is taken.
 * @member: whose receive is there, or -1. Return: ncclSuccess, or what isend shall return.
 */
ncclResult_t sxt_broken_isend(struct sxt_fake_comm *comm, int member);

/**
 * sxt_broken_spoils() - shall this message arrive damaged? Return: true if so.
 */
bool sxt_broken_spoils(struct sxt_fake_comm *comm, const struct sxt_fake_send *send);

/**
 * sxt_broken_irecv() - what variants do in irecv, before anything is posted.
 * @take: set to false for "not now". Return: ncclSuccess, or what irecv shall return.
 */
ncclResult_t sxt_broken_irecv(struct sxt_fake_comm *comm, const struct sxt_fake_recv *recv,
			      bool *take);

/**
 * sxt_broken_posted() - what variants do to a receive before its clear-to-send goes out.
 */
void sxt_broken_posted(struct sxt_fake_comm *comm, struct sxt_fake_request *request);

/**
 * sxt_broken_test() - what variants do in test.
 * @sizes: NULL, or what is told of a request that is done.
 * Return: ncclSuccess, or what test shall return.
 */
ncclResult_t sxt_broken_test(struct sxt_fake_request *request, int *sizes);

/**
 * sxt_broken_consumed() - what variants do in irecvConsumed.
 * Return: ncclSuccess, or what it shall return.
 */
ncclResult_t sxt_broken_consumed(const struct sxt_fake_request *request);

#endif
