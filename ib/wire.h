/*
 * wire.h - every byte that crosses to a peer: handle, side-channel frames, clear-to-send entries,
 * immediates and size records. Little-endian, no implicit padding, offsets asserted; numbers that
 * shipped are never given another meaning. docs/wire.md shows the same as tables.
 */
#ifndef SXT_IB_WIRE_H
#define SXT_IB_WIRE_H

#include "core/compiler.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little-endian");

#define SXT_WIRE_MAGIC       0x31545853u /* "SXT1" */
#define SXT_WIRE_VERSION     1           /* what we speak */
#define SXT_WIRE_VERSION_MIN 1           /* the oldest we understand */

#define SXT_UUID_BYTES  16
#define SXT_TOKEN_BYTES 16

/* An IP address as both families fit it; family is 4 or 6, not AF_*, which differs by system. */
struct sxt_wire_addr {
	uint8_t ip[16]; /* network order; IPv4 in the first four bytes */
	uint32_t scope_id;
	uint16_t port; /* host order */
	uint8_t family;
	uint8_t reserved;
};
SXT_ASSERT_SIZE(struct sxt_wire_addr, 24);

/*
 * What listen() writes into NCCL's handle; NCCL carries it to the peer by its own means. The tail
 * is the connecting side's scratch: NCCL hands connect() the same memory at every poll.
 */
struct sxt_wire_handle {
	uint32_t magic;
	uint16_t version;
	uint16_t version_min;
	uint8_t token[SXT_TOKEN_BYTES];  /* random: names and authorises one listener */
	uint8_t process[SXT_UUID_BYTES]; /* random: the listening process, key of side channels */
	struct sxt_wire_addr addr;       /* of the listening process's side-channel listener */
	uint8_t ports_cnt;               /* of the listening NIC; 0 says 1 */
	uint8_t reserved[39];
	uint64_t scratch_cookie; /* 0 until the first connect() poll */
	uint64_t scratch_check;  /* cookie and token hashed, so that garbage is recognised */
	uint64_t scratch_reserved;
};
SXT_ASSERT_SIZE(struct sxt_wire_handle, 128); /* NCCL_NET_HANDLE_MAXSIZE */
SXT_ASSERT_OFFSET(struct sxt_wire_handle, token, 8);
SXT_ASSERT_OFFSET(struct sxt_wire_handle, process, 24);
SXT_ASSERT_OFFSET(struct sxt_wire_handle, addr, 40);
SXT_ASSERT_OFFSET(struct sxt_wire_handle, scratch_cookie, 104);

/* Every side-channel frame: this header, then TLV records of `length` bytes in all. */
#define SXT_FRAME_BYTES_MAX 65536u

struct sxt_wire_frame {
	uint32_t magic;
	uint16_t version;
	uint16_t version_min;
	uint32_t length; /* of the records after the header, at most SXT_FRAME_BYTES_MAX */
	uint16_t type;   /* enum sxt_frame_type */
	uint16_t reserved;
	uint32_t conn_to;   /* the receiver's number of the connection, 0 while it has none */
	uint32_t conn_from; /* the sender's number of the connection, 0 for the channel itself */
	uint64_t reserved2;
};
SXT_ASSERT_SIZE(struct sxt_wire_frame, 32);
SXT_ASSERT_OFFSET(struct sxt_wire_frame, length, 8);
SXT_ASSERT_OFFSET(struct sxt_wire_frame, conn_to, 16);

enum sxt_frame_type {
	SXT_FRAME_HELLO = 1,    /* first on a channel: who dials, on whose token */
	SXT_FRAME_CONNECT = 2,  /* sender -> receiver: a new connection, its end of it */
	SXT_FRAME_ACCEPT = 3,   /* receiver -> sender: the other end */
	SXT_FRAME_READY = 4,    /* sender -> receiver: its QP can receive */
	SXT_FRAME_REJECT = 5,   /* either: this connection cannot be, and why */
	SXT_FRAME_CLOSE = 6,    /* either: orderly end, how far it got */
	SXT_FRAME_FAIL = 7,     /* either: this connection failed here, and why */
	SXT_FRAME_PROVEN = 8,   /* receiver -> sender: packets pass both ways on every path */
	SXT_FRAME_UNPROVEN = 9, /* receiver -> sender: on these paths they do not: try again */
};

/* A record: type, length of the value, value; padded to 4 bytes. Unknown types are skipped. */
struct sxt_wire_tlv {
	uint16_t type; /* enum sxt_tlv_type */
	uint16_t length;
};
SXT_ASSERT_SIZE(struct sxt_wire_tlv, 4);

enum sxt_tlv_type {
	SXT_TLV_PROCESS = 1,    /* uuid of the process that sends */
	SXT_TLV_TOKEN = 2,      /* token out of the handle */
	SXT_TLV_HOST = 3,       /* host name and process id as text, for messages */
	SXT_TLV_RELEASE = 4,    /* Sextant's version as text, for messages */
	SXT_TLV_PATH = 5,       /* struct sxt_wire_path, one per path */
	SXT_TLV_RING = 6,       /* struct sxt_wire_memory: the sender's clear-to-send ring */
	SXT_TLV_RECORDS = 7,    /* struct sxt_wire_memory: the receiver's size records */
	SXT_TLV_PROGRESS = 8,   /* struct sxt_wire_progress, in CLOSE */
	SXT_TLV_ERROR = 9,      /* uint32 errno, then text */
	SXT_TLV_CANDIDATE = 10, /* struct sxt_wire_candidate, one per address */
	SXT_TLV_FAILED = 11,    /* uint64, a bit per path */
	SXT_TLV_SETTINGS = 12,  /* lines "NAME=value" of what both ends should have alike */
	SXT_TLV_TUNER = 13,     /* struct sxt_wire_tuner, in CONNECT */
	SXT_TLV_OTHER = 14,     /* struct sxt_wire_candidate of a port outside the NIC */
	SXT_TLV_RESORT = 15,    /* uint32: NIC of the receiver to use in place of the listener's */
	SXT_TLV_TRIES = 16,     /* uint32: sum of the epochs in the CONNECT that is answered */
	SXT_TLV_ECE = 17,       /* struct sxt_wire_ece, one per path that has any */
};

/* Of the lines of SXT_TLV_SETTINGS with a terminator; what is longer is cut. */
#define SXT_SETTINGS_BYTES 2048

/* One end of one queue pair. */
struct sxt_wire_path {
	uint32_t qpn;
	uint32_t psn;
	uint8_t gid[16];
	uint16_t lid;
	uint8_t link_layer; /* IBV_LINK_LAYER_INFINIBAND 1, IBV_LINK_LAYER_ETHERNET 2 */
	uint8_t mtu;        /* enum ibv_mtu */
	uint8_t gid_type;   /* 0 IB, 1 RoCE v1, 2 RoCE v2 */
	uint8_t port_num;
	uint8_t place;             /* of its port in the NIC */
	uint8_t rail;              /* 1 + that of NCCL_IB_HCA; 0 not said */
	uint32_t max_message_log2; /* largest message of the port, as a power of two */
	uint32_t epoch; /* which try of this path; in the upper half, how often the NICs changed */
	char hca[24];   /* HCA name, for messages; terminated */
};
SXT_ASSERT_SIZE(struct sxt_wire_path, 64);
SXT_ASSERT_OFFSET(struct sxt_wire_path, gid, 8);
SXT_ASSERT_OFFSET(struct sxt_wire_path, hca, 40);

/* What a queue pair's provider offers the peer's, and what that one accepts of it. */
struct sxt_wire_ece {
	uint32_t vendor_id; /* as struct ibv_ece has these, never 0 */
	uint32_t options;
	uint32_t comp_mask;
	uint8_t path; /* of the connection */
	uint8_t reserved[3];
};
SXT_ASSERT_SIZE(struct sxt_wire_ece, 16);
SXT_ASSERT_OFFSET(struct sxt_wire_ece, path, 12);

/* What the sender's tuner answers by. */
struct sxt_wire_tuner {
	uint64_t digest; /* of its rules; 0 none */
	uint8_t use;     /* enum sxt_tuner_use */
	uint8_t reserved[7];
};
SXT_ASSERT_SIZE(struct sxt_wire_tuner, 16);
SXT_ASSERT_OFFSET(struct sxt_wire_tuner, use, 8);

enum sxt_tuner_use {
	SXT_TUNER_UNKNOWN = 0, /* which communicator it is for is not known, or no tuner yet */
	SXT_TUNER_UNUSED = 1,  /* no tuner of the communicator, or one that leaves all to NCCL */
	SXT_TUNER_USED = 2
};

#define SXT_PORTS_MAX 8  /* physical ports of one virtual NIC, ABI v12 */
#define SXT_PATHS_MAX 64 /* queue pairs of one connection */

#define SXT_LINK_INFINIBAND 1 /* IBV_LINK_LAYER_INFINIBAND */
#define SXT_LINK_ETHERNET   2 /* IBV_LINK_LAYER_ETHERNET */

/* An address that an end can be reached at. */
struct sxt_wire_candidate {
	uint8_t gid[16];
	uint8_t place; /* of its port in the NIC; in OTHER the number of its NIC */
	uint8_t gid_type;
	uint8_t prefix_len; /* of the address on its interface, in bits of its family; 0 unknown */
	uint8_t link_layer;
};
SXT_ASSERT_SIZE(struct sxt_wire_candidate, 20);

#define SXT_CANDIDATES_PER_PORT 8
#define SXT_CANDIDATES_MAX      (SXT_PORTS_MAX * SXT_CANDIDATES_PER_PORT)
#define SXT_OTHERS_MAX          32 /* ports outside the NIC that a peer is told */

#define SXT_RESORT_NAMED 0xffu /* the NIC that NCCL named, whatever its number */

#define SXT_EPOCH_MOVE_SHIFT 16
#define SXT_EPOCH_TRY_MASK   0xffffu

/* Memory that the peer writes. */
struct sxt_wire_memory {
	uint64_t addr;
	uint32_t bytes;
	uint32_t rkeys_cnt;
	uint32_t rkeys[SXT_PORTS_MAX]; /* one per port of the NIC, by place */
};
SXT_ASSERT_SIZE(struct sxt_wire_memory, 48);

/* How far a connection got when it was closed in order, as each end counts it. */
struct sxt_wire_progress {
	uint64_t cts_posted; /* clear-to-send entries written; by the sender: used up */
	/*
	 * By the receiver: position of the first entry whose message, if one is waited for, has not
	 * arrived whole. By the sender: messages with an immediate that were acknowledged.
	 */
	uint64_t messages_taken;
};
SXT_ASSERT_SIZE(struct sxt_wire_progress, 16);

/*
 * Clear-to-send: one per member of a receive, written by the receiver into the sender's ring.
 * The whole line arrives at once on an HCA. A software device copies it word by word, from either
 * end (the kernel's memcpy goes backwards where the addresses ask for it), so both ends say which
 * entry it is: sequence = 1 + the entry's running number, whose place in the ring is that number
 * modulo the ring's length, and the top byte of addr_lap = 1 + the number of laps before it, modulo
 * 256. The rest of addr_lap is the buffer's address: user space ends at 2^56 with five page levels.
 */
struct sxt_wire_cts {
	uint64_t addr_lap;
	uint32_t rkeys[SXT_PORTS_MAX];
	uint32_t tag;
	uint32_t size_low;   /* bits 0..31 of the buffer's size */
	uint16_t size_high;  /* bits 32..40 in the low 9; flags SXT_CTS_* above */
	uint16_t handle;     /* the receiver's open member */
	uint16_t max_chunks; /* receive work requests granted: 1..4096 */
	uint8_t generation;  /* of the handle, modulo SXT_IMM_GENERATIONS */
	uint8_t group;       /* SXT_CTS_GROUP_*: its members, the place of this one */
	uint64_t sequence;
};
SXT_ASSERT_SIZE(struct sxt_wire_cts, 64);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, rkeys, 8);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, tag, 40);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, handle, 50);
SXT_ASSERT_OFFSET(struct sxt_wire_cts, sequence, 56);

#define SXT_CTS_LAP_SHIFT         56
#define SXT_CTS_ADDR_MASK         ((1ull << SXT_CTS_LAP_SHIFT) - 1)
#define SXT_CTS_SIZE_HIGH_MASK    0x01ffu
#define SXT_CTS_WANT_IMM          0x0200u /* the receiver waits for an immediate */
#define SXT_CTS_OPTIONAL          0x0400u /* nobody waits for the message; WANT_IMM asks for proof */
#define SXT_CTS_GROUP_CNT         0x0fu
#define SXT_CTS_GROUP_PLACE       0x70u
#define SXT_CTS_GROUP_PLACE_SHIFT 4
#define SXT_CTS_GROUP_TOGETHER    0x80u /* the receiver takes one record for many of the group */
#define SXT_MESSAGE_BYTES_MAX     (1ull << 40)

/*
 * Immediate: handle:16 generation:2 record:1 index:12 last:1, most significant first, in host
 * order before htonl(). index counts the message's chunks, last marks its final one, record says
 * that the payload is a struct sxt_wire_record and not data. Of a group's record index is
 * SXT_IMM_GROUP plus how many it tells, the first ones of the group; handle that of the first.
 */
#define SXT_IMM_GENERATIONS  4u
#define SXT_IMM_HANDLE_SHIFT 16
#define SXT_IMM_GEN_SHIFT    14
#define SXT_IMM_RECORD       (1u << 13)
#define SXT_IMM_INDEX_SHIFT  1
#define SXT_IMM_INDEX_MASK   0xfffu
#define SXT_IMM_GROUP        0x800u /* in the index */
#define SXT_IMM_LAST         1u

/* Size record: the whole message's size where the immediate's own write carries no data. */
struct sxt_wire_record {
	uint64_t size_and_generation; /* size in the low 48 bits, generation above */
};
SXT_ASSERT_SIZE(struct sxt_wire_record, 8);

#endif
