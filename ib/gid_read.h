/*
 * gid_read.h - what sysfs and the machine's interfaces tell about GIDs: which interface an entry
 * belongs to, whether that is here, how long its prefix is; and whole tables out of a saved /sys.
 */
#ifndef SXT_IB_GID_READ_H
#define SXT_IB_GID_READ_H

#include "ib/gid.h"

#include <ifaddrs.h>

/* Whose GIDs, and where to look. */
struct sxt_gid_source {
	const char *sysroot;
	const char *device; /* name of the HCA */
	unsigned int port;
	const struct ifaddrs *addrs; /* of this network namespace; NULL: no prefix is known */
};

/* A table that was read. */
struct sxt_gid_list {
	struct sxt_gid *gids; /* entries with an address, by index */
	uint32_t cnt;
	uint32_t len; /* with the empty ones */
};

/**
 * sxt_gid_read_facts() - fill in netdev, is_foreign and prefix_len of entries that have index and
 * address, and type where it is unknown.
 * @source: where to look; what cannot be read stays unknown. @gids, @cnt: the entries.
 * Path: slow, a few small files per entry.
 */
void sxt_gid_read_facts(const struct sxt_gid_source *source, struct sxt_gid *gids, uint32_t cnt);

/**
 * sxt_gid_read_table() - a port's table by sysfs alone, with all facts. An entry that cannot be
 * read, or is no GID, counts as empty.
 * @source: where to look. @out: written on success; free with sxt_gid_list_fini().
 * Path: slow. Return: 0, -ENOMEM, or the negative errno of opening the table's folder.
 */
SXT_MUST_CHECK int sxt_gid_read_table(const struct sxt_gid_source *source,
				      struct sxt_gid_list *out);

/**
 * sxt_gid_list_fini() - free a table's entries; a zeroed one is fine.
 * @list: empty afterwards.
 */
void sxt_gid_list_fini(struct sxt_gid_list *list);

#endif
