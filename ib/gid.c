/*
 * gid.c - putting the entries of a GID table into order (slow path, pure).
 */
#include "ib/gid.h"

#include "core/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IPV4_AT          12 /* where an IPv4 address begins in a GID */
#define IPV4_PREFIX_BITS 24 /* assumed, as NCCL_IB_SUBNET_PREFIX_LEN has it */
#define IPV6_PREFIX_BITS 64

/* Keys: whether a wish is met, version, class, index; what was passed over lies behind all. */
#define KEY_PASSED_OVER  (1ull << 62)
#define KEY_NO_VERSION   (1ull << 41)
#define KEY_NO_FAMILY    (1ull << 40)
#define KEY_VERSION_BITS 36
#define KEY_CLASS_BITS   32

static const uint8_t mapped[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

bool sxt_gid_is_ipv4(const uint8_t *raw)
{
	return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

static enum sxt_gid_class class_of_ipv4(const uint8_t *ip)
{
	if (ip[0] == 0 || ip[0] == 127 || ip[0] >= 224)
		return SXT_GID_UNUSABLE;
	return ip[0] == 169 && ip[1] == 254 ? SXT_GID_IPV4_LOCAL : SXT_GID_IPV4;
}

static bool is_zero(const uint8_t *bytes, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

enum sxt_gid_class sxt_gid_class_of(const uint8_t *raw)
{
	if (sxt_gid_is_ipv4(raw))
		return class_of_ipv4(raw + IPV4_AT);
	if (raw[0] == 0xff || (is_zero(raw, SXT_GID_BYTES - 1) && raw[SXT_GID_BYTES - 1] <= 1))
		return SXT_GID_UNUSABLE;
	if (raw[0] != 0xfe || (raw[1] & 0xc0) != 0x80)
		return SXT_GID_IPV6;
	/* An interface without a number of its own: what some drivers leave in unused entries. */
	return is_zero(raw + 8, 8) ? SXT_GID_UNUSABLE : SXT_GID_IPV6_LOCAL;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));

	return memcmp(a, b, bits / 8) == 0 &&
	       (bits % 8 == 0 || ((a[bits / 8] ^ b[bits / 8]) & mask) == 0);
}

bool sxt_gid_in_range(const struct sxt_gid_range *range, const uint8_t *raw)
{
	if (range->family == 0)
		return true;
	if ((range->family == 4) != sxt_gid_is_ipv4(raw))
		return false;
	if (range->family == 4)
		return same_bits(range->addr + IPV4_AT, raw + IPV4_AT, range->prefix_len);
	return same_bits(range->addr, raw, range->prefix_len);
}

uint16_t sxt_gid_flid(const uint8_t *raw)
{
	return (uint16_t)(raw[4] << 8 | raw[5]);
}

bool sxt_gid_same_subnet(const uint8_t *a, const uint8_t *b, uint8_t prefix_len)
{
	struct sxt_gid_range range = {.family = sxt_gid_is_ipv4(a) ? 4 : 6};
	uint8_t most = range.family == 4 ? 32 : 128;

	memcpy(range.addr, a, sizeof(range.addr));
	/* A peer may say anything. */
	range.prefix_len = prefix_len < most ? prefix_len : most;
	if (prefix_len == 0)
		range.prefix_len = range.family == 4 ? IPV4_PREFIX_BITS : IPV6_PREFIX_BITS;
	return sxt_gid_in_range(&range, b);
}

static int parse_address(const char *text, struct sxt_gid_range *out)
{
	memcpy(out->addr, mapped, sizeof(mapped));
	if (inet_pton(AF_INET, text, out->addr + IPV4_AT) == 1) {
		out->family = 4;
		return 0;
	}
	out->family = 6;
	return inet_pton(AF_INET6, text, out->addr) == 1 ? 0 : -EINVAL;
}

/* Digits only, and few of them. */
static int parse_prefix_len(const char *text, unsigned int most, uint8_t *out)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long value;

	if (digits == 0 || digits > 3 || text[digits] != '\0')
		return -EINVAL;
	value = strtoul(text, NULL, 10);
	if (value > most)
		return -EINVAL;
	*out = (uint8_t)value;
	return 0;
}

int sxt_gid_range_parse(const char *text, struct sxt_gid_range *out, char *why, size_t why_bytes)
{
	const char *slash = strchr(text, '/');
	struct sxt_gid_range range = {0};
	char address[64];
	unsigned int most;

	if (slash == NULL) {
		snprintf(why, why_bytes,
			 "it has no /mask; write an address and the length of its "
			 "prefix, such as 10.2.0.0/16");
		return -EINVAL;
	}
	if ((size_t)(slash - text) >= sizeof(address)) {
		snprintf(why, why_bytes, "what stands before the / is no address");
		return -EINVAL;
	}
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	if (parse_address(address, &range) != 0) {
		snprintf(why, why_bytes, "\"%s\" is no IPv4 and no IPv6 address", address);
		return -EINVAL;
	}
	most = range.family == 4 ? 32 : 128;
	if (parse_prefix_len(slash + 1, most, &range.prefix_len) != 0) {
		snprintf(why, why_bytes, "the length after the / must be 0..%u for IPv%u", most,
			 range.family);
		return -EINVAL;
	}
	*out = range;
	return 0;
}

static int parse_range(const struct sxt_config *config, struct sxt_gid_wishes *out)
{
	char why[160];

	if (config->ib_addr_range[0] == '\0' ||
	    sxt_gid_range_parse(config->ib_addr_range, &out->range, why, sizeof(why)) == 0)
		return 0;
	SXT_LOG(SXT_LOG_WARN, "NCCL_IB_ADDR_RANGE=%s is ignored: %s", config->ib_addr_range, why);
	return 1;
}

static int parse_family(const struct sxt_config *config, struct sxt_gid_wishes *out)
{
	const char *text = config->ib_addr_family;

	if (text[0] == '\0')
		return 0;
	if (strcmp(text, "AF_INET") == 0)
		out->family = 4;
	else if (strcmp(text, "AF_INET6") == 0)
		out->family = 6;
	else
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_ADDR_FAMILY=%s is ignored: expected AF_INET or AF_INET6", text);
	return out->family == 0;
}

int sxt_gid_wishes_parse(const struct sxt_config *config, struct sxt_gid_wishes *out)
{
	int bad_cnt;

	*out = (struct sxt_gid_wishes){
		.index = config->ib_gid_index,
		.flid_index = config->ib_flid_gid_index,
		.version = (uint8_t)config->ib_roce_version,
	};
	bad_cnt = parse_range(config, out);
	return bad_cnt + parse_family(config, out);
}

static void pass_over(struct sxt_gid_rank *rank, enum sxt_gid_reason reason)
{
	rank->reason = reason;
	rank->key = KEY_PASSED_OVER | rank->at;
}

/* What neither library nor sysfs could tell is used as version 2, and as such meets that wish. */
static uint8_t version_of(const struct sxt_gid *gid)
{
	return gid->type == SXT_GID_TYPE_ROCE_V2 || gid->type == SXT_GID_TYPE_UNKNOWN ? 2 : 1;
}

static uint8_t family_of(const struct sxt_gid *gid)
{
	return sxt_gid_is_ipv4(gid->raw) ? 4 : 6;
}

static bool is_local(const struct sxt_gid *gid)
{
	return sxt_gid_class_of(gid->raw) >= SXT_GID_IPV4_LOCAL;
}

/* To NCCL a link-local address is none of any family. */
static bool is_of_family(const struct sxt_gid *gid, uint8_t family)
{
	return family_of(gid) == family && !is_local(gid);
}

static uint64_t key_of(const struct sxt_gid *gid, const struct sxt_gid_wishes *wishes)
{
	uint64_t key = gid->index;

	if (wishes->version != 0 && version_of(gid) != wishes->version)
		key |= KEY_NO_VERSION;
	if (wishes->family != 0 && !is_of_family(gid, wishes->family))
		key |= KEY_NO_FAMILY;
	if (version_of(gid) == 1)
		key |= 2ull << KEY_VERSION_BITS;
	else if (gid->type == SXT_GID_TYPE_UNKNOWN)
		key |= 1ull << KEY_VERSION_BITS;
	return key | (uint64_t)sxt_gid_class_of(gid->raw) << KEY_CLASS_BITS;
}

static void rank_by_kind(const struct sxt_gid *gid, const struct sxt_gid_wishes *wishes,
			 struct sxt_gid_rank *rank)
{
	if (sxt_gid_class_of(gid->raw) == SXT_GID_UNUSABLE)
		pass_over(rank, SXT_GID_NOT_AN_ADDRESS);
	else if (gid->is_foreign)
		pass_over(rank, SXT_GID_NOT_HERE);
	else if (!sxt_gid_in_range(&wishes->range, gid->raw))
		pass_over(rank, SXT_GID_NOT_IN_RANGE);
	else if (gid->index > SXT_GID_INDEX_MAX)
		pass_over(rank, SXT_GID_NOT_ADDRESSABLE);
	else
		rank->key = key_of(gid, wishes);
}

/* NCCL: the routable GID where the index set has one, else the first. */
static void rank_infiniband(const struct sxt_gid *gid, const struct sxt_gid_wishes *wishes,
			    struct sxt_gid_rank *rank)
{
	if (is_zero(gid->raw, sizeof(gid->raw))) {
		pass_over(rank, SXT_GID_NOT_AN_ADDRESS);
	} else if (gid->index > SXT_GID_INDEX_MAX) {
		pass_over(rank, SXT_GID_NOT_ADDRESSABLE);
	} else if (gid->index == wishes->flid_index && sxt_gid_flid(gid->raw) != 0) {
		rank->reason = SXT_GID_BY_FLID;
		rank->key = 0;
	} else if (gid->index == 0) {
		rank->reason = SXT_GID_BY_DEFAULT;
		rank->key = 1;
	} else {
		pass_over(rank, SXT_GID_NOT_NEEDED);
	}
}

/* NULL when it holds no address; out of range counts as long as nothing wrong was seen. */
static const struct sxt_gid *find_index(const struct sxt_gid_table *table,
					const struct sxt_gid_wishes *wishes, uint32_t *notes)
{
	const struct sxt_gid *found = NULL;

	for (uint32_t i = 0; i < table->cnt && found == NULL; i++) {
		if (table->gids[i].index == (uint32_t)wishes->index)
			found = &table->gids[i];
	}
	if ((uint32_t)wishes->index >= table->len || wishes->index > SXT_GID_INDEX_MAX)
		*notes |= SXT_GID_NOTE_INDEX_BEYOND;
	else if (found == NULL || sxt_gid_class_of(found->raw) == SXT_GID_UNUSABLE)
		*notes |= SXT_GID_NOTE_INDEX_EMPTY;
	else if (!sxt_gid_in_range(&wishes->range, found->raw))
		*notes |= SXT_GID_NOTE_INDEX_OUTSIDE;
	else
		return found;
	return NULL;
}

static int compare(const void *left, const void *right)
{
	const struct sxt_gid_rank *a = left;
	const struct sxt_gid_rank *b = right;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* What the candidates have in common, and what the rest tells when there is none. */
struct summary {
	uint32_t candidates_cnt;
	uint32_t local_cnt;
	uint32_t routed_cnt; /* that a router forwards */
	uint32_t v1_cnt;
	uint32_t version_cnt; /* that meet the wish */
	uint32_t family_cnt;
	uint32_t foreign_cnt;
	uint32_t outside_cnt;
};

static void count(const struct sxt_gid *gid, const struct sxt_gid_wishes *wishes,
		  const struct sxt_gid_rank *rank, struct summary *sum)
{
	sum->foreign_cnt += rank->reason == SXT_GID_NOT_HERE;
	sum->outside_cnt += rank->reason == SXT_GID_NOT_IN_RANGE;
	if (rank->key >= KEY_PASSED_OVER)
		return;
	sum->candidates_cnt++;
	sum->local_cnt += is_local(gid);
	sum->routed_cnt += !is_local(gid) && version_of(gid) == 2;
	sum->v1_cnt += version_of(gid) == 1;
	sum->version_cnt += version_of(gid) == wishes->version;
	sum->family_cnt += is_of_family(gid, wishes->family);
}

static uint32_t notes_of(const struct summary *sum, const struct sxt_gid_wishes *wishes)
{
	uint32_t notes = 0;

	if (sum->candidates_cnt == 0) {
		if (sum->outside_cnt > 0)
			return SXT_GID_NOTE_NO_RANGE;
		return sum->foreign_cnt > 0 ? SXT_GID_NOTE_ALL_FOREIGN : 0;
	}
	if (wishes->family != 0 && sum->family_cnt == 0)
		notes |= SXT_GID_NOTE_NO_FAMILY;
	if (wishes->version != 0 && sum->version_cnt == 0)
		notes |= SXT_GID_NOTE_NO_VERSION;
	/* Beside link-local ones there may be others of RoCE v1. */
	if (sum->local_cnt == sum->candidates_cnt ||
	    (sum->routed_cnt == 0 && sum->v1_cnt < sum->candidates_cnt))
		notes |= SXT_GID_NOTE_LINK_LOCAL;
	if (sum->v1_cnt == sum->candidates_cnt && wishes->version == 0)
		notes |= SXT_GID_NOTE_V1_ONLY;
	return notes;
}

static uint32_t infiniband_notes(const struct sxt_gid_table *table,
				 const struct sxt_gid_wishes *wishes)
{
	uint32_t notes = wishes->index >= 0 ? SXT_GID_NOTE_INDEX_ON_IB : 0;

	/* 1 is what NCCL looks at without being asked; a port need not have it. */
	if (wishes->flid_index > 1 && wishes->flid_index >= table->len)
		notes |= SXT_GID_NOTE_FLID_BEYOND;
	return notes;
}

static void rank_one(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
		     const struct sxt_gid *pinned, struct sxt_gid_rank *rank)
{
	const struct sxt_gid *gid = &table->gids[rank->at];

	rank->reason = SXT_GID_BY_RANK;
	if (table->is_infiniband) {
		rank_infiniband(gid, wishes, rank);
	} else if (pinned == NULL) {
		rank_by_kind(gid, wishes, rank);
	} else if (gid == pinned) {
		rank->reason = SXT_GID_BY_INDEX;
		rank->key = 0;
	} else {
		pass_over(rank, SXT_GID_NOT_THE_INDEX);
	}
}

uint32_t sxt_gid_rank_table(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
			    struct sxt_gid_rank *out, uint32_t *notes_out)
{
	const struct sxt_gid *pinned = NULL;
	struct summary sum = {0};
	uint32_t notes = 0;

	if (table->is_infiniband)
		notes = infiniband_notes(table, wishes);
	else if (wishes->index >= 0)
		pinned = find_index(table, wishes, &notes);
	for (uint32_t i = 0; i < table->cnt; i++) {
		out[i].at = i;
		rank_one(table, wishes, pinned, &out[i]);
		count(&table->gids[i], wishes, &out[i], &sum);
	}
	qsort(out, table->cnt, sizeof(*out), compare);
	if (pinned != NULL)
		notes |= pinned->is_foreign ? SXT_GID_NOTE_INDEX_FOREIGN : 0;
	else if (!table->is_infiniband)
		notes |= notes_of(&sum, wishes);
	*notes_out = notes;
	return sum.candidates_cnt;
}
