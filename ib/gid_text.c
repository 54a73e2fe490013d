/*
 * gid_text.c - GIDs, and why one was chosen, in words (slow path, pure).
 */
#include "ib/gid.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define GID_TEXT_BYTES 64

void sxt_gid_text(const uint8_t *raw, char *out, size_t out_bytes)
{
	const char *text;

	if (sxt_gid_is_ipv4(raw))
		text = inet_ntop(AF_INET, raw + 12, out, (socklen_t)out_bytes);
	else
		text = inet_ntop(AF_INET6, raw, out, (socklen_t)out_bytes);
	if (text == NULL)
		snprintf(out, out_bytes, "?");
}

const char *sxt_gid_type_text(uint8_t type)
{
	switch (type) {
	case SXT_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	case SXT_GID_TYPE_UNKNOWN:
		return "RoCE of unknown version";
	default:
		return "RoCE v1";
	}
}

const char *sxt_gid_class_text(enum sxt_gid_class cls)
{
	switch (cls) {
	case SXT_GID_IPV4:
		return "IPv4";
	case SXT_GID_IPV6:
		return "IPv6";
	case SXT_GID_IPV4_LOCAL:
		return "link-local IPv4";
	case SXT_GID_IPV6_LOCAL:
		return "link-local IPv6";
	case SXT_GID_UNUSABLE:
		break;
	}
	return "no address";
}

const char *sxt_gid_reason_text(enum sxt_gid_reason reason)
{
	switch (reason) {
	case SXT_GID_BY_RANK:
		return "by rank";
	case SXT_GID_BY_INDEX:
		return "by NCCL_IB_GID_INDEX";
	case SXT_GID_BY_FLID:
		return "routable, by NCCL_IB_ROUTABLE_FLID_GID_INDEX";
	case SXT_GID_BY_DEFAULT:
		return "the port's first";
	case SXT_GID_NOT_AN_ADDRESS:
		return "no address";
	case SXT_GID_NOT_HERE:
		return "its interface is in another network namespace";
	case SXT_GID_NOT_IN_RANGE:
		return "outside NCCL_IB_ADDR_RANGE";
	case SXT_GID_NOT_THE_INDEX:
		return "NCCL_IB_GID_INDEX names another";
	case SXT_GID_NOT_ADDRESSABLE:
		return "verbs cannot name an index above 255";
	case SXT_GID_NOT_NEEDED:
		return "InfiniBand uses the routable or the first one";
	}
	return "unknown";
}

/* "3 10.0.0.1 (RoCE v2, IPv4)"; an InfiniBand port has no kinds. Returns what snprintf() does. */
static int put_entry(const struct sxt_gid_table *table, const struct sxt_gid *gid, char *out,
		     size_t out_bytes)
{
	char text[GID_TEXT_BYTES];

	sxt_gid_text(gid->raw, text, sizeof(text));
	if (table->is_infiniband)
		return snprintf(out, out_bytes, "%u %s", gid->index, text);
	return snprintf(out, out_bytes, "%u %s (%s, %s)", gid->index, text,
			sxt_gid_type_text(gid->type),
			sxt_gid_class_text(sxt_gid_class_of(gid->raw)));
}

void sxt_gid_choice_text(const struct sxt_gid_table *table, const struct sxt_gid_rank *ranks,
			 uint32_t candidates_cnt, char *out, size_t out_bytes)
{
	char first[128];
	char second[128];

	put_entry(table, &table->gids[ranks[0].at], first, sizeof(first));
	if (candidates_cnt > 1) {
		put_entry(table, &table->gids[ranks[1].at], second, sizeof(second));
		snprintf(out, out_bytes, "GID index %s %s, first of %u, then index %s", first,
			 sxt_gid_reason_text(ranks[0].reason), candidates_cnt, second);
	} else {
		snprintf(out, out_bytes, "GID index %s %s, no other can be used", first,
			 sxt_gid_reason_text(ranks[0].reason));
	}
}

/* The entries with an address, cut with "..." where there is no room. */
static void table_text(const struct sxt_gid_table *table, char *out, size_t out_bytes)
{
	char entry[160];
	size_t used = 0;

	snprintf(out, out_bytes, "empty");
	for (uint32_t i = 0; i < table->cnt; i++) {
		const struct sxt_gid *gid = &table->gids[i];
		size_t len;

		if (sxt_gid_class_of(gid->raw) == SXT_GID_UNUSABLE)
			continue;
		put_entry(table, gid, entry, sizeof(entry));
		len = strlen(entry) + (used != 0 ? 2 : 0);
		/* Room for the dots is kept. */
		if (used + len + 6 > out_bytes) {
			snprintf(out + used, out_bytes - used, ", ...");
			return;
		}
		used += (size_t)snprintf(out + used, out_bytes - used, "%s%s",
					 used != 0 ? ", " : "", entry);
	}
}

static void range_text(const struct sxt_gid_range *range, char *out, size_t out_bytes)
{
	char addr[GID_TEXT_BYTES];

	sxt_gid_text(range->addr, addr, sizeof(addr));
	snprintf(out, out_bytes, "%s/%u", addr, range->prefix_len);
}

static void index_note(enum sxt_gid_note note, const struct sxt_gid_table *table,
		       const struct sxt_gid_wishes *wishes, char *out, size_t out_bytes)
{
	char range[GID_TEXT_BYTES + 8];

	range_text(&wishes->range, range, sizeof(range));
	switch (note) {
	case SXT_GID_NOTE_INDEX_BEYOND:
		snprintf(out, out_bytes,
			 "NCCL_IB_GID_INDEX=%d is out of range (the table has %u entries, verbs "
			 "can name %u); choosing by rank",
			 wishes->index, table->len, SXT_GID_INDEX_MAX + 1);
		break;
	case SXT_GID_NOTE_INDEX_EMPTY:
		snprintf(out, out_bytes,
			 "NCCL_IB_GID_INDEX=%d is empty (the table has %u entries); choosing by "
			 "rank",
			 wishes->index, table->len);
		break;
	case SXT_GID_NOTE_INDEX_OUTSIDE:
		snprintf(out, out_bytes,
			 "NCCL_IB_GID_INDEX=%d lies outside NCCL_IB_ADDR_RANGE=%s, and the range "
			 "counts; choosing by rank",
			 wishes->index, range);
		break;
	case SXT_GID_NOTE_INDEX_FOREIGN:
		snprintf(out, out_bytes,
			 "NCCL_IB_GID_INDEX=%d is taken though its interface is not in this "
			 "network namespace; peers may not reach it",
			 wishes->index);
		break;
	default:
		snprintf(out, out_bytes,
			 "NCCL_IB_GID_INDEX=%d has no effect on InfiniBand, as in NCCL: "
			 "NCCL_IB_ROUTABLE_FLID_GID_INDEX is for it",
			 wishes->index);
		break;
	}
}

static void wish_note(enum sxt_gid_note note, const struct sxt_gid_table *table,
		      const struct sxt_gid_wishes *wishes, char *out, size_t out_bytes)
{
	char all[384];
	char range[GID_TEXT_BYTES + 8];

	table_text(table, all, sizeof(all));
	range_text(&wishes->range, range, sizeof(range));
	switch (note) {
	case SXT_GID_NOTE_NO_RANGE:
		snprintf(out, out_bytes,
			 "no GID in range: NCCL_IB_ADDR_RANGE=%s matches none of %s", range, all);
		break;
	case SXT_GID_NOTE_NO_FAMILY:
		snprintf(out, out_bytes,
			 "no GID of NCCL_IB_ADDR_FAMILY=%s, taking the next in rank; the table: %s",
			 wishes->family == 4 ? "AF_INET" : "AF_INET6", all);
		break;
	case SXT_GID_NOTE_NO_VERSION:
		snprintf(out, out_bytes,
			 "no GID of NCCL_IB_ROCE_VERSION_NUM=%u, taking the next in rank; the "
			 "table: %s",
			 wishes->version, all);
		break;
	default:
		snprintf(out, out_bytes,
			 "NCCL_IB_ROUTABLE_FLID_GID_INDEX=%u is past the table's %u entries; "
			 "taking index 0",
			 wishes->flid_index, table->len);
		break;
	}
}

void sxt_gid_note_text(enum sxt_gid_note note, const struct sxt_gid_table *table,
		       const struct sxt_gid_wishes *wishes, char *out, size_t out_bytes)
{
	char all[384];

	table_text(table, all, sizeof(all));
	switch (note) {
	case SXT_GID_NOTE_INDEX_BEYOND:
	case SXT_GID_NOTE_INDEX_EMPTY:
	case SXT_GID_NOTE_INDEX_OUTSIDE:
	case SXT_GID_NOTE_INDEX_FOREIGN:
	case SXT_GID_NOTE_INDEX_ON_IB:
		index_note(note, table, wishes, out, out_bytes);
		break;
	case SXT_GID_NOTE_NO_RANGE:
	case SXT_GID_NOTE_NO_FAMILY:
	case SXT_GID_NOTE_NO_VERSION:
	case SXT_GID_NOTE_FLID_BEYOND:
		wish_note(note, table, wishes, out, out_bytes);
		break;
	case SXT_GID_NOTE_LINK_LOCAL:
		snprintf(out, out_bytes,
			 "link-local only: none of its GIDs reaches further than this segment; "
			 "give its interface an IP address; the table: %s",
			 all);
		break;
	case SXT_GID_NOTE_V1_ONLY:
		snprintf(out, out_bytes,
			 "RoCE v1 only, which no router forwards: allow RoCE v2 on this port; the "
			 "table: %s",
			 all);
		break;
	case SXT_GID_NOTE_ALL_FOREIGN:
		snprintf(out, out_bytes,
			 "the interfaces of all its addresses are in other network namespaces: "
			 "give this container the port's interface, or name an entry with "
			 "NCCL_IB_GID_INDEX; the table: %s",
			 all);
		break;
	}
}
