/*
 * rig.h - what tests of the telemetry share: a folder for segments, the WARN lines that were
 * said, one process's segment and a view of it.
 */
#ifndef SXT_TESTS_UNIT_TELEMETRY_RIG_H
#define SXT_TESTS_UNIT_TELEMETRY_RIG_H

#include "telemetry/own.h"
#include "telemetry/reader.h"

#include <stddef.h>

extern char rig_dir[64];
extern unsigned rig_warn_cnt;
extern char rig_warn[2048]; /* the last one */

/**
 * rig_set_up() - a new empty folder, no lines heard; for cmocka. @state: not used. Return: 0.
 */
int rig_set_up(void **state);

/** rig_tear_down() - remove the folder and the files in it. @state: not used. Return: 0. */
int rig_tear_down(void **state);

/**
 * rig_create() - make a segment in the folder; ends the test when that fails.
 * @conns_cap: connections with a record. Return: the segment.
 */
struct sxt_tele *rig_create(uint32_t conns_cap);

/** rig_view() - a view of a segment. @tele: from rig_create(). Return: the view. */
struct sxt_tele_view *rig_view(const struct sxt_tele *tele);

/** rig_files() - files in the folder that a reader would list. Return: how many. */
size_t rig_files(void);

/**
 * rig_open() - open a connection to peer number @peer. @tele: the segment. @paths_cnt: at most 8.
 * Return: its handle.
 */
struct sxt_tele_handle rig_open(struct sxt_tele *tele, uint32_t peer, uint32_t paths_cnt);

/**
 * rig_leave() - what a crash leaves: the file stays as it is, its lock goes.
 * @tele: from rig_create(), unusable afterwards. @path_out: PATH_MAX bytes, NULL is fine.
 */
void rig_leave(struct sxt_tele *tele, char *path_out);

#endif
