/*
 * pairs.c - the order of pairs. A path is tried a few dozen times at most, so the n-th pair is
 * looked for by counting; nothing is sorted or kept.
 */
#include "ib/pairs.h"

#include "core/sys.h"
#include "ib/gid.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Pairs that get a turn, and those of them that get a second, longer one. */
#define FIRST_TURNS  24u
#define SECOND_TURNS 4u

#define PATIENCE_FIRST_NS  (200 * SXT_NS_PER_MS)
#define PATIENCE_SECOND_NS (2 * SXT_NS_PER_SEC)

static bool is_local(enum sxt_gid_class cls)
{
	return cls == SXT_GID_IPV4_LOCAL || cls == SXT_GID_IPV6_LOCAL;
}

static bool fit(const struct sxt_wire_candidate *from, const struct sxt_wire_candidate *to)
{
	enum sxt_gid_class from_class = sxt_gid_class_of(from->gid);
	enum sxt_gid_class to_class = sxt_gid_class_of(to->gid);

	if (from->link_layer != to->link_layer)
		return false;
	if (from->link_layer == SXT_LINK_INFINIBAND)
		return true;
	return (from->gid_type == SXT_GID_TYPE_ROCE_V2) == (to->gid_type == SXT_GID_TYPE_ROCE_V2) &&
	       sxt_gid_is_ipv4(from->gid) == sxt_gid_is_ipv4(to->gid) &&
	       is_local(from_class) == is_local(to_class);
}

/* Link-local addresses all look like one subnet and tell nothing. */
static bool is_one_subnet(const struct sxt_wire_candidate *from,
			  const struct sxt_wire_candidate *to)
{
	uint8_t prefix_len = from->prefix_len != 0 ? from->prefix_len : to->prefix_len;

	if (from->link_layer == SXT_LINK_INFINIBAND)
		return memcmp(from->gid, to->gid, 8) == 0;
	if (is_local(sxt_gid_class_of(from->gid)))
		return false;
	return sxt_gid_same_subnet(from->gid, to->gid, prefix_len);
}

/* How many addresses of the same port come before it. */
static uint32_t rank_of(const struct sxt_wire_candidate *all, uint32_t at)
{
	uint32_t rank = 0;

	for (uint32_t i = 0; i < at; i++)
		rank += all[i].place == all[at].place ? 1 : 0;
	return rank;
}

/* From the preferred port on, round and round. */
static uint32_t distance(uint32_t place, uint32_t path, uint32_t ports_cnt)
{
	return (place + ports_cnt - path % ports_cnt) % ports_cnt;
}

/* Smaller is earlier; no two pairs of a path have the same. 0 where the two do not fit. */
static uint64_t key_of(const struct sxt_pair_ends *ends, uint32_t path, uint32_t from, uint32_t to)
{
	const struct sxt_wire_candidate *a = &ends->from[from];
	const struct sxt_wire_candidate *b = &ends->to[to];
	uint64_t key;

	if (!fit(a, b))
		return 0;
	key = 1u + distance(a->place, path, ends->from_ports_cnt);
	key = key << 1 | (is_one_subnet(a, b) ? 0u : 1u);
	key = key << 8 | distance(b->place, path, ends->to_ports_cnt);
	key = key << 8 | (rank_of(ends->from, from) + rank_of(ends->to, to));
	return key << 16 | from << 8 | to;
}

/* The pair with the smallest key above `after`; 0 when there is none. */
static uint64_t next_key(const struct sxt_pair_ends *ends, uint32_t path, uint64_t after)
{
	uint64_t best = 0;

	for (uint32_t i = 0; i < ends->from_cnt; i++) {
		for (uint32_t j = 0; j < ends->to_cnt; j++) {
			uint64_t key = key_of(ends, path, i, j);

			if (key > after && (best == 0 || key < best))
				best = key;
		}
	}
	return best;
}

int sxt_pair_of(const struct sxt_pair_ends *ends, uint32_t path, uint32_t epoch,
		struct sxt_pair *out)
{
	uint32_t turn = epoch != 0 ? epoch - 1 : 0;
	uint64_t keys[FIRST_TURNS];
	uint64_t key = 0;
	uint32_t cnt = 0;

	while (cnt < FIRST_TURNS && cnt <= turn) {
		key = next_key(ends, path, key);
		if (key == 0)
			break;
		keys[cnt++] = key;
	}
	out->patience_ns = PATIENCE_FIRST_NS;
	out->is_again = turn >= cnt;
	if (turn >= cnt) {
		uint32_t again = turn - cnt;

		if (again >= SECOND_TURNS || again >= cnt)
			return -ENETUNREACH;
		turn = again;
		out->patience_ns = PATIENCE_SECOND_NS;
	}
	out->from = keys[turn] >> 8 & 0xffu;
	out->to = keys[turn] & 0xffu;
	return 0;
}

bool sxt_pairs_near(const struct sxt_pair_ends *ends)
{
	for (uint32_t i = 0; i < ends->from_cnt; i++) {
		for (uint32_t j = 0; j < ends->to_cnt; j++) {
			if (fit(&ends->from[i], &ends->to[j]) &&
			    is_one_subnet(&ends->from[i], &ends->to[j]))
				return true;
		}
	}
	return false;
}

void sxt_pairs_text(const struct sxt_pair_ends *ends, uint32_t path, char *out, size_t out_bytes)
{
	uint64_t key = 0;
	size_t used = 0;

	out[0] = '\0';
	while ((key = next_key(ends, path, key)) != 0) {
		char piece[144];
		char from[64];
		char to[64];
		size_t len;

		sxt_gid_text(ends->from[key >> 8 & 0xffu].gid, from, sizeof(from));
		sxt_gid_text(ends->to[key & 0xffu].gid, to, sizeof(to));
		len = (size_t)snprintf(piece, sizeof(piece), "%s -> %s, ", from, to);
		/* The same at another RoCE version. */
		if (strstr(out, piece) != NULL)
			continue;
		if (used + len + sizeof("...") > out_bytes) {
			snprintf(out + used, out_bytes - used, "...");
			return;
		}
		memcpy(out + used, piece, len + 1);
		used += len;
	}
	if (used > 0)
		out[used - strlen(", ")] = '\0';
}
