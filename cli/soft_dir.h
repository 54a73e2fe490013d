/*
 * soft_dir.h - where states of software fabrics live, and who belongs to one.
 *
 * Below /dev/shm/sextant-soft-UID each running fabric has a folder, named for its content. Every
 * `soft run` of it holds a shared lock on the folder's `members` file; the kernel drops it when
 * that parent dies, so a folder nobody holds is a leftover. The base's `lock` orders coming and
 * going.
 */
#ifndef SXT_CLI_SOFT_DIR_H
#define SXT_CLI_SOFT_DIR_H

#include "ib/soft/fabric.h"
#include "ib/soft/state.h"

/* A `soft run`'s part in a fabric. */
struct sxt_soft_member {
	struct sxt_soft_state *state;
	int members_fd; /* holds the shared lock */
};

/**
 * sxt_soft_dir_join() - become a member of a fabric, making its state if it is not there.
 * @plan: the fabric; its hash (and @name) name the folder.
 * @name: tells apart runs of one fabric that shall not meet; "" for none.
 * @out: written on success only; give back with sxt_soft_dir_leave().
 * Removes leftovers of killed runs on the way.
 * Return: 0, or a negative errno; a message was written to standard error.
 */
SXT_MUST_CHECK int sxt_soft_dir_join(const struct sxt_soft_plan *plan, const char *name,
				     struct sxt_soft_member *out);

/**
 * sxt_soft_dir_join_at() - become a member of the fabric of a surrounding `soft run`.
 * @dir: its folder. @out: as sxt_soft_dir_join(). Return: 0 or a negative errno, told.
 */
SXT_MUST_CHECK int sxt_soft_dir_join_at(const char *dir, struct sxt_soft_member *out);

/**
 * sxt_soft_dir_leave() - leave; the last one removes the folder.
 * @member: from a join; unusable afterwards.
 */
void sxt_soft_dir_leave(struct sxt_soft_member *member);

/**
 * sxt_soft_dir_open() - the state a command is to work on.
 * @dir: what --state says, NULL takes SEXTANT_SOFT_STATE, else the only fabric that runs.
 * @out: set on success only; give back with sxt_soft_state_close().
 * Return: 0, or an enum sxt_exit; a message was written to standard error.
 */
SXT_MUST_CHECK int sxt_soft_dir_open(const char *dir, struct sxt_soft_state **out);

#endif
