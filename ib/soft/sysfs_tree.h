/*
 * sysfs_tree.h - /sys of each host of the fabric, written below the state folder.
 *
 * HOST's root is <state>/hosts/HOST, also under the host's number: its sys/ is ours, proc and etc
 * lead to the machine's own.
 */
#ifndef SXT_IB_SOFT_SYSFS_TREE_H
#define SXT_IB_SOFT_SYSFS_TREE_H

#include "ib/soft/state.h"

/**
 * sxt_soft_tree_root() - the folder to give as SEXTANT_SYSROOT.
 * @state: open. @host: index. @out: absolute path. Return: 0 or -ENAMETOOLONG.
 */
SXT_MUST_CHECK int sxt_soft_tree_root(const struct sxt_soft_state *state, uint32_t host,
				      char out[PATH_MAX]);

/**
 * sxt_soft_tree_create() - write the trees of all hosts.
 * @state: open, nobody reads the trees yet. What was written stays on failure.
 * Return: 0, or a negative errno, logged.
 */
SXT_MUST_CHECK int sxt_soft_tree_create(const struct sxt_soft_state *state);

/**
 * sxt_soft_tree_update_state() - rewrite `state` and `phys_state` of a port.
 * @state: open. @port: index. Each file is replaced whole. Return: 0 or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_tree_update_state(const struct sxt_soft_state *state, uint32_t port);

/**
 * sxt_soft_tree_update_gids() - rewrite the files of a port's GID table.
 * @state: open. @port: index. Each file is replaced whole. Return: 0 or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_tree_update_gids(const struct sxt_soft_state *state, uint32_t port);

/**
 * sxt_soft_tree_update_counters() - rewrite the counter files of a port.
 * @state: open. @port: index. Each file is replaced whole. Return: 0 or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_tree_update_counters(const struct sxt_soft_state *state, uint32_t port);

/**
 * sxt_soft_tree_remove() - remove a folder and all that is in it, without following links.
 * @path: a state folder or a part of it. Missing files are fine. Return: 0 or a negative errno.
 */
SXT_MUST_CHECK int sxt_soft_tree_remove(const char *path);

#endif
