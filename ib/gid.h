/*
 * gid.h - which entry of a port's GID table is its address: all usable ones in order, and for
 * each entry why it was taken or passed over. Pure: tables come from verbs or from a saved /sys.
 */
#ifndef SXT_IB_GID_H
#define SXT_IB_GID_H

#include "core/compiler.h"
#include "core/config.h"

#include <stdbool.h>

#define SXT_GID_BYTES 16

/* An address handle has eight bits for the index. */
#define SXT_GID_INDEX_MAX 255

/* Entries of one table that are looked at. */
#define SXT_GIDS_MAX 4096

/* Numbers as in verbs and on the wire, but for UNKNOWN. */
enum sxt_gid_type {
	SXT_GID_TYPE_IB = 0, /* on an Ethernet port: RoCE v1, which sysfs calls by the same name */
	SXT_GID_TYPE_ROCE_V1 = 1,
	SXT_GID_TYPE_ROCE_V2 = 2,
	SXT_GID_TYPE_UNKNOWN = 255, /* neither library nor sysfs can tell; used as RoCE v2 */
};

/* What an address is, best first. */
enum sxt_gid_class {
	SXT_GID_IPV4,
	SXT_GID_IPV6,       /* global or unique local */
	SXT_GID_IPV4_LOCAL, /* 169.254/16 */
	SXT_GID_IPV6_LOCAL, /* fe80::/10 */
	SXT_GID_UNUSABLE,   /* empty, unspecified, loopback, multicast */
};

/* One entry of a table; what is not known stays zero. */
struct sxt_gid {
	uint8_t raw[SXT_GID_BYTES];
	uint32_t index;
	uint8_t type;       /* enum sxt_gid_type */
	uint8_t prefix_len; /* of the address on its interface, in bits of its family; 0 unknown */
	bool is_foreign;    /* its interface is in another network namespace */
	char netdev[16];    /* its interface, "" unknown */
};

/* Addresses that may be used. */
struct sxt_gid_range {
	uint8_t addr[SXT_GID_BYTES]; /* as in a GID: IPv4 mapped */
	uint8_t family;              /* 4 or 6; 0: no range */
	uint8_t prefix_len;          /* in bits of the family */
};

/* The settings that choose, as parsed; a zeroed one but for index and flid_index sets nothing. */
struct sxt_gid_wishes {
	struct sxt_gid_range range; /* NCCL_IB_ADDR_RANGE */
	int32_t index;              /* NCCL_IB_GID_INDEX; -1 not set */
	uint32_t flid_index;        /* NCCL_IB_ROUTABLE_FLID_GID_INDEX, InfiniBand only */
	uint8_t family;             /* NCCL_IB_ADDR_FAMILY: 4, 6 or 0; no link-local one meets it */
	uint8_t version;            /* NCCL_IB_ROCE_VERSION_NUM: 1, 2 or 0 */
};

/* Why an entry stands where it stands. */
enum sxt_gid_reason {
	SXT_GID_BY_RANK,
	SXT_GID_BY_INDEX,   /* NCCL_IB_GID_INDEX */
	SXT_GID_BY_FLID,    /* routable InfiniBand GID */
	SXT_GID_BY_DEFAULT, /* an InfiniBand port's first */
	/* Passed over, from here on. */
	SXT_GID_NOT_AN_ADDRESS,
	SXT_GID_NOT_HERE, /* netdev in another network namespace */
	SXT_GID_NOT_IN_RANGE,
	SXT_GID_NOT_THE_INDEX,   /* another one was asked for */
	SXT_GID_NOT_ADDRESSABLE, /* index past SXT_GID_INDEX_MAX */
	SXT_GID_NOT_NEEDED,      /* InfiniBand uses the routable or the first one */
};

/* One entry's place in the order. */
struct sxt_gid_rank {
	uint64_t key; /* smaller is better */
	uint32_t at;  /* in the table that was given */
	enum sxt_gid_reason reason;
};

/* What to tell the user about a choice, one bit each. */
enum sxt_gid_note {
	SXT_GID_NOTE_INDEX_BEYOND = 1u << 0,  /* the index is past the table's end */
	SXT_GID_NOTE_INDEX_EMPTY = 1u << 1,   /* the index holds no address */
	SXT_GID_NOTE_INDEX_OUTSIDE = 1u << 2, /* the index lies outside the range */
	SXT_GID_NOTE_INDEX_FOREIGN = 1u << 3, /* taken, though its netdev is not here */
	SXT_GID_NOTE_INDEX_ON_IB = 1u << 4,   /* it has no effect on InfiniBand */
	SXT_GID_NOTE_NO_RANGE = 1u << 5,      /* no address in the range: no candidate */
	SXT_GID_NOTE_NO_FAMILY = 1u << 6,     /* no candidate of the family */
	SXT_GID_NOTE_NO_VERSION = 1u << 7,    /* no candidate of the version */
	SXT_GID_NOTE_LINK_LOCAL = 1u << 8,    /* nothing of RoCE v2 but link-local addresses */
	SXT_GID_NOTE_V1_ONLY = 1u << 9,       /* nothing but RoCE v1 */
	SXT_GID_NOTE_ALL_FOREIGN = 1u << 10,  /* addresses, but all in other namespaces */
	SXT_GID_NOTE_FLID_BEYOND = 1u << 11,  /* the routable index is past the table's end */
};

/* Notes that only inform; the others are worth a warning. */
#define SXT_GID_NOTES_INFO (SXT_GID_NOTE_INDEX_ON_IB | SXT_GID_NOTE_FLID_BEYOND)

/* Notes that say a setting's value is wrong: with SEXTANT_STRICT=1 nothing starts. */
#define SXT_GID_NOTES_STRICT \
	(SXT_GID_NOTE_INDEX_BEYOND | SXT_GID_NOTE_INDEX_EMPTY | SXT_GID_NOTE_INDEX_OUTSIDE)

/* A port's table, ready to be ranked. */
struct sxt_gid_table {
	const struct sxt_gid *gids; /* any order; empty entries may be left out */
	uint32_t cnt;
	uint32_t len; /* of the port's table, the empty entries too */
	bool is_infiniband;
};

/**
 * sxt_gid_wishes_parse() - the settings that choose among GIDs.
 * @config: settings. @out: always written; a value that is no use is left unset.
 * Logs one WARN for each such value. Thread: any. Return: how many there were.
 */
int sxt_gid_wishes_parse(const struct sxt_config *config, struct sxt_gid_wishes *out);

/**
 * sxt_gid_range_parse() - a range as NCCL_IB_ADDR_RANGE has it: "10.2.0.0/16", "fd00::/8".
 * @text: the whole text. @out: written on success. @why, @why_bytes: on failure what is wrong.
 * Return: 0 or -EINVAL.
 */
SXT_MUST_CHECK int sxt_gid_range_parse(const char *text, struct sxt_gid_range *out, char *why,
				       size_t why_bytes);

/**
 * sxt_gid_rank_table() - put a table's entries into order.
 * @table: the entries. @wishes: what was set.
 * @out: room for table->cnt, all written: the candidates, best first, then what was passed over in
 * the table's order. Entries that are alike in all that counts stand by their index.
 * @notes_out: SXT_GID_NOTE_* bits.
 * Thread: any, pure. Return: how many candidates there are.
 */
uint32_t sxt_gid_rank_table(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
			    struct sxt_gid_rank *out, uint32_t *notes_out);

/**
 * sxt_gid_class_of() - what kind of address a GID holds.
 * @raw: 16 bytes. Return: its class.
 */
enum sxt_gid_class sxt_gid_class_of(const uint8_t *raw);

/**
 * sxt_gid_is_ipv4() - does a GID stand for an IPv4 address (::ffff:a.b.c.d)?
 * @raw: 16 bytes; the address is the last four. Return: true if so.
 */
bool sxt_gid_is_ipv4(const uint8_t *raw);

/**
 * sxt_gid_in_range() - may an address be used?
 * @range: family 0 allows all. @raw: 16 bytes. Return: true if so.
 */
bool sxt_gid_in_range(const struct sxt_gid_range *range, const uint8_t *raw);

/**
 * sxt_gid_flid() - the routable LID in an InfiniBand GID (bytes 4 and 5).
 * @raw: 16 bytes. Return: host order, 0 for none.
 */
uint16_t sxt_gid_flid(const uint8_t *raw);

/**
 * sxt_gid_same_subnet() - can two addresses talk without a router, as far as they tell?
 * @a, @b: two GIDs of one family. @prefix_len: of @a; 0 takes 24 for IPv4 and 64 for IPv6.
 * Return: true if so.
 */
bool sxt_gid_same_subnet(const uint8_t *a, const uint8_t *b, uint8_t prefix_len);

/**
 * sxt_gid_text() - a GID for messages: dotted quad where IPv4 is mapped, else IPv6 text.
 * @raw: 16 bytes. @out, @out_bytes: text, at least 64 bytes.
 */
void sxt_gid_text(const uint8_t *raw, char *out, size_t out_bytes);

/**
 * sxt_gid_type_text() - a type for messages.
 * @type: enum sxt_gid_type. Return: such as "RoCE v2".
 */
const char *sxt_gid_type_text(uint8_t type);

/**
 * sxt_gid_class_text() - a class for messages.
 * @cls: the class. Return: such as "link-local IPv6".
 */
const char *sxt_gid_class_text(enum sxt_gid_class cls);

/**
 * sxt_gid_reason_text() - a reason for messages.
 * @reason: the reason. Return: such as "its interface is in another network namespace".
 */
const char *sxt_gid_reason_text(enum sxt_gid_reason reason);

/**
 * sxt_gid_note_text() - one note as a sentence that names setting, value and what to do.
 * @note: one bit. @table: what was ranked. @wishes: what was set.
 * @out, @out_bytes: text, 512 bytes are enough.
 */
void sxt_gid_note_text(enum sxt_gid_note note, const struct sxt_gid_table *table,
		       const struct sxt_gid_wishes *wishes, char *out, size_t out_bytes);

/**
 * sxt_gid_choice_text() - the choice in one line: the entry taken, why, and the runner-up.
 * @table: what was ranked. @ranks: as ranked. @candidates_cnt: at least 1.
 * @out, @out_bytes: text, 512 bytes are enough.
 */
void sxt_gid_choice_text(const struct sxt_gid_table *table, const struct sxt_gid_rank *ranks,
			 uint32_t candidates_cnt, char *out, size_t out_bytes);

#endif
