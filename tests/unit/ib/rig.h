/*
 * rig.h - transports over the verbs fake, real loopback sockets and a clock that the test moves;
 * what they log is kept.
 */
#ifndef SXT_TESTS_RIG_H
#define SXT_TESTS_RIG_H

#include "core/config.h"
#include "core/sys.h"
#include "ib/process.h"
#include "ib/verbs.h"
#include "ib/watcher.h"
#include "ib/wire.h"

#include <stdbool.h>

#define RIG_IBS 2

struct rig {
	struct sxt_config config;
	struct sxt_sys sys;          /* the machine, but the clock */
	struct sxt_verbs verbs;      /* the fake; a test may replace functions */
	struct sxt_ib *ibs[RIG_IBS]; /* processes, as far as the transport can tell */
	int fds_before;
};

extern struct rig rig;

/**
 * rig_setup() - cmocka's setup: settings, fake and clock, no transport yet.
 * @state: unused. Return: 0.
 */
int rig_setup(void **state);

/**
 * rig_teardown() - cmocka's teardown: ends the transports; fails if an object of the fake or a
 * descriptor is left.
 * @state: unused. Return: 0.
 */
int rig_teardown(void **state);

/**
 * rig_start() - make a transport.
 * @i: which. @is_manual: without a thread; rig_turn() runs its watcher.
 * Return: what sxt_ib_create() said.
 */
int rig_start(int i, bool is_manual);

/**
 * rig_set() - replace a text among the settings.
 * @field: in rig.config. @value: copied.
 */
void rig_set(const char **field, const char *value);

/**
 * rig_locate() - where a port is reached now, at its best address.
 * @port: the port. @out: written on success. Return: as sxt_port_candidates().
 */
int rig_locate(struct sxt_port *port, struct sxt_port_place *out);

/**
 * rig_turn() - run the watcher of every manual transport once, without waiting.
 */
void rig_turn(void);

/**
 * rig_advance() - move the clock.
 * @ns: by how much.
 */
void rig_advance(uint64_t ns);

/**
 * rig_logged() - how often a text stands in what was logged since the setup.
 * @text: what to look for; lines begin with their level's number and a space. Return: a count.
 */
int rig_logged(const char *text);

/**
 * rig_forget() - begin the kept log anew.
 */
void rig_forget(void);

/* One connection being made between two transports. */
struct rig_link {
	struct sxt_ib *from;
	struct sxt_ib *to;
	struct sxt_context *from_ctx; /* NULL: private ones */
	struct sxt_listener *listener;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	int connect_rc;
	int accept_rc;
	struct sxt_wire_handle handle;
};

/**
 * rig_listen() - begin a link.
 * @link: filled. @from, @to: transports; the receiving end is on @to, on its second NIC if it has
 * one. @to_ctx: its context.
 */
void rig_listen(struct rig_link *link, struct sxt_ib *from, struct sxt_ib *to,
		struct sxt_context *to_ctx);

/**
 * rig_poll() - one poll of connect and of accept, as far as they are not done, and one turn.
 * @link: from rig_listen().
 */
void rig_poll(struct rig_link *link);

/**
 * rig_join() - poll until both ends are made; fails the test if they are not.
 * @link: from rig_listen(); its listener is closed.
 */
void rig_join(struct rig_link *link);

/**
 * rig_move_message() - send a message over a whole link; fails the test if it does not arrive.
 * @link: from rig_join().
 */
void rig_move_message(struct rig_link *link);

/**
 * rig_dial() - a plain TCP connection to where a listener of the transport listens.
 * @ib: has a listener. Return: the socket, blocking.
 */
int rig_dial(const struct sxt_ib *ib);

/**
 * rig_hung_up() - was a socket closed by the transport? Runs turns until it was or it is clear
 * that it was not.
 * @fd: from rig_dial(). Return: true if so.
 */
bool rig_hung_up(int fd);

#endif
