/*
 * torture.h - a path that makes something, run with its k-th fallible call failing for every k:
 * an honest error, outputs untouched, nothing left alive, and the next try works; or, where the
 * failure can be lived with, what was made works.
 */
#ifndef SXT_TESTS_TORTURE_H
#define SXT_TESTS_TORTURE_H

#include "ib/ib.h"
#include "ib/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* What an output holds before a call that may not write it. */
#define TORTURE_POISON ((void *)(uintptr_t)0x5a5a5a5a5a5a5a5a)

struct torture_path {
	const char *name;
	const char *const *calls; /* ended by NULL: some that must be among the fallible ones */
	bool is_nccl;             /* act answers with NCCL's codes, else with a negative errno */
	bool keeps;               /* a failure may leave tables behind that setup's objects own */
	bool keeps_cqs;           /* and completion queues in its contexts */
	const int *errors;        /* ended by 0: besides -ENOMEM and the error that was injected */
	bool is_mute;             /* the caller hears an errno and nothing else */
	uint32_t stride;     /* not every call fails but every so many-th, where many are alike */
	long (*count)(void); /* what else is alive, NULL for nothing */
	void (*setup)(void);
	int (*act)(void);   /* what is under test; checks its own outputs. Return: 0 or an error */
	void (*use)(void);  /* what act made does its work */
	void (*undo)(void); /* and ends */
	void (*teardown)(void);
};

/**
 * torture_setup() - cmocka's group setup: a machine of two HCAs, side channels on loopback.
 * @state: unused. Return: 0.
 */
int torture_setup(void **state);

/**
 * torture_run() - a path with every one of its calls failing once, and at last with none.
 * @path: whose setup to teardown are run as often as act has calls, and once more.
 */
void torture_run(const struct torture_path *path);

/**
 * torture_said() - something was logged that tells the user of a failure.
 */
void torture_said(void);

/* One connection being made; for a path of sxt_ calls. */
struct torture_link {
	struct sxt_ib *from;
	struct sxt_ib *to;
	struct sxt_context *from_ctx; /* NULL: private ones */
	struct sxt_context *to_ctx;
	int from_dev; /* NIC of each end */
	int to_dev;
	struct sxt_listener *listener;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	struct sxt_wire_handle handle;
};

/**
 * torture_turn() - run a transport's watcher once, without waiting.
 * @ib: NULL is fine.
 */
void torture_turn(struct sxt_ib *ib);

/**
 * torture_link_make() - listen, connect and accept until both ends are made or one has failed.
 * @link: from, to, NICs and contexts are set. Nothing of it is left when it fails.
 * Return: 0, or the error of the call that failed first.
 */
int torture_link_make(struct torture_link *link);

/**
 * torture_link_use() - a message goes over it and arrives whole.
 * @link: made.
 */
void torture_link_use(struct torture_link *link);

/**
 * torture_link_close() - close both ends.
 * @link: made.
 */
void torture_link_close(struct torture_link *link);

#endif
