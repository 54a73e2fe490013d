/*
 * segment.h - layout of a telemetry segment: what one process that uses Sextant tells about
 * itself, its ports, links, connections and paths, in shared memory that any process of the same
 * user can read at any moment, also after the writer died.
 *
 * A segment is a file of the folder below in native byte order, mode 0600, all of it reserved when
 * it is made, so that touching it never raises SIGBUS. Its name says whose it is. It begins with a
 * struct sxt_tele_header, whose sections say where the arrays of records are; a reader takes the
 * offset and the stride of each from there, so that records may grow at their end within a
 * version. A number that was released is never given another meaning.
 *
 * Who writes: each block has one writer, named beside it. A block whose first member is `sequence`
 * is written under it: odd while it is being written, even before and after; a reader copies the
 * block and takes the copy only if sequence was even and the same before and after. Everything
 * else is single words, aligned and written whole; counters only grow.
 *
 * Time stamps are ticks of the clock that the header describes. 0 means never.
 */
#ifndef SXT_TELEMETRY_SEGMENT_H
#define SXT_TELEMETRY_SEGMENT_H

#include <stdint.h>

#define SXT_TELE_MAGIC   0x454c455454585345ull /* "ESXTTELE" in the file */
#define SXT_TELE_VERSION 1u                    /* another one cannot be read */

#define SXT_TELE_DIR "/dev/shm"
/* SXT_TELE_DIR/sextant-UID-PID-STARTTIME; the last as in field 22 of /proc/PID/stat, ticks. */
#define SXT_TELE_NAME_PREFIX "sextant-"

enum sxt_tele_state {
	SXT_TELE_MAKING = 0, /* nothing else is valid yet */
	SXT_TELE_LIVE = 1,
	SXT_TELE_CLOSED = 2 /* its process ended in order; of one that crashed it stays live */
};

enum sxt_tele_clock {
	SXT_TELE_CLOCK_MONOTONIC = 0, /* clock_gettime, ticks are ns */
	SXT_TELE_CLOCK_TSC = 1,       /* x86, constant and nonstop */
	SXT_TELE_CLOCK_CNTVCT = 2     /* arm64 */
};

enum sxt_tele_section_kind {
	SXT_TELE_PORTS = 0, /* struct sxt_tele_port */
	SXT_TELE_LINKS,     /* struct sxt_tele_link */
	SXT_TELE_CONNS,     /* struct sxt_tele_conn */
	SXT_TELE_PATHS,     /* struct sxt_tele_path */
	SXT_TELE_COMMS,     /* struct sxt_tele_comm */
	SXT_TELE_EVENTS,    /* struct sxt_tele_event, a ring */
	SXT_TELE_CHOICES,   /* struct sxt_tele_choice */
	SXT_TELE_SECTIONS
};

struct sxt_tele_section {
	uint64_t offset; /* from the start of the segment */
	uint32_t stride; /* bytes from one record to the next */
	uint32_t cap;    /* records there is room for */
};

/* Written when the segment is made, but for what says otherwise. */
struct sxt_tele_header {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes_of_header;
	uint64_t bytes; /* of the segment */
	uint32_t state; /* enum sxt_tele_state; watcher */
	uint32_t clock; /* enum sxt_tele_clock */
	uint64_t ticks_per_sec;
	uint64_t made_ticks;     /* the same moment on three clocks */
	uint64_t made_mono_ns;   /* CLOCK_MONOTONIC */
	uint64_t made_wall_ns;   /* CLOCK_REALTIME */
	uint64_t closed_wall_ns; /* 0 while it is not closed; watcher */
	struct sxt_tele_section sections[8];

	/* Whose it is. */
	uint64_t start_time; /* of the process, ticks since boot, as in its name */
	uint64_t pid_ns;     /* inode of /proc/self/ns/pid: pid means something only there */
	uint32_t pid;
	uint32_t uid;
	uint32_t abi;     /* of NCCL's network interface, 6 and up; 0 until known; service thread */
	int32_t rank;     /* of the job, by the launcher's variables; -1 unknown */
	int32_t ranks;    /* in the job; -1 unknown */
	char release[32]; /* of Sextant; this and all texts are terminated, UTF-8 */
	char host[64];
	char command[64]; /* /proc/self/comm */
	char job[128];    /* id by the launcher's variables: "slurm:123.0", "k8s:NAMESPACE/POD" */

	/* Counters; each one its own writer's alone: any thread, atomically. */
	uint64_t conns_opened;
	uint64_t conns_shared; /* of them without a record of their own: see sxt_tele_link */
	uint64_t events;       /* ever told; the newest is at (events - 1) % cap */
	uint64_t warnings;     /* ever logged: events of a line or a stall */
	/* By section: records that were used at least once; those behind them are zeros. Not of
	 * events. Whoever gives out a record. */
	uint32_t used[8];
	uint32_t stall_sec; /* SEXTANT_STALL_SECONDS: what waits longer stalls; 0 nothing does */
	uint8_t reserved[3500];
};

enum sxt_tele_port_state {
	SXT_TELE_PORT_UNUSED = 0, /* the record is free */
	SXT_TELE_PORT_DOWN = 1,
	SXT_TELE_PORT_UP = 2,
	SXT_TELE_PORT_LEFT_OUT = 3, /* reason says why */
	SXT_TELE_PORT_DEAD = 4      /* its device failed */
};

/* A physical port. Writer: the watcher, and who opens the transport before there is one. */
struct sxt_tele_port {
	uint32_t sequence;
	uint32_t state; /* enum sxt_tele_port_state */
	char hca[32];   /* "mlx5_0", as in /sys/class/infiniband */
	uint32_t num;   /* from 1 */
	uint32_t speed_mbps;
	uint32_t link_layer; /* 1 InfiniBand, 2 Ethernet */
	uint32_t mtu;        /* bytes */
	uint32_t lid;
	uint32_t gid_index;
	uint8_t gid[16];  /* chosen last */
	uint64_t flaps;   /* times it went down since the start */
	uint64_t changed; /* ticks of the last change */
	char reason[96];
	char pci[24]; /* "0000:17:00.0" */
	uint8_t reserved[40];
};

/* What moved one way; as in struct sxt_tele_counters. */
struct sxt_tele_flow {
	uint64_t messages;
	uint64_t bytes;
	uint64_t not_now;
};

/*
 * All connections of one local NIC with one peer process. Flows are of those connections that
 * have no record of their own, added about every second, and of records that were given to another
 * connection. Index 0 is SXT_TELE_SENDS, 1 SXT_TELE_RECEIVES.
 * Writers: text the service thread or watcher; the rest whoever opens, ends or adds, atomically.
 */
struct sxt_tele_link {
	uint32_t sequence;
	uint32_t is_used;
	char nic[64];       /* "mlx5_0+mlx5_1" */
	char peer[96];      /* "host:pid" */
	uint32_t conns;     /* alive */
	uint32_t shared[2]; /* of them those without a record */
	uint32_t reserved0;
	struct sxt_tele_flow flows[2];
	uint8_t reserved[24];
};

enum sxt_tele_conn_state {
	SXT_TELE_CONN_FREE = 0, /* never used */
	SXT_TELE_CONN_LIVE = 1,
	SXT_TELE_CONN_CLOSED = 2, /* in order; the record may be given to another connection */
	SXT_TELE_CONN_FAILED = 3
};

enum sxt_tele_direction {
	SXT_TELE_SENDS = 1,
	SXT_TELE_RECEIVES = 2
};

/*
 * Latencies: bucket i begins at 2^(10 + i / 3) ns, rounded down, times 1, 5/4 or 25/16 for i % 3 of
 * 0, 1, 2; but the first at 0. The last one begins at about 13.4 s and is open.
 */
#define SXT_TELE_LATENCY_BUCKETS 72
/* Sizes: bucket 0 is 0 bytes, 1 begins at 1 byte, i from 2 on at 4^i; the last is open. */
#define SXT_TELE_SIZE_BUCKETS 16

/* What a message waits for. */
enum sxt_tele_wait {
	/* Sending: a caller that had data for the receive that the peer had not posted.
	 * Receiving: from posting the receive to its arrival, the wire's part included. */
	SXT_TELE_WAIT_PEER = 0,
	SXT_TELE_WAIT_WIRE = 1, /* sending: from posting the write to the caller's seeing it done */
	SXT_TELE_WAIT_CALLER = 2, /* nothing in flight: from the last end to the next beginning */
	SXT_TELE_WAITS = 3
};

/* Writer: the data path of the connection, one thread at a time. Starts a cache line. */
struct sxt_tele_counters {
	uint64_t started;  /* messages or receives accepted from the caller */
	uint64_t done;     /* of them */
	uint64_t messages; /* done; a grouped receive is several */
	uint64_t bytes;    /* of those */
	uint64_t not_now;  /* answers to a caller that has to come again */
	uint64_t waiting;  /* ticks of the first such answer since the last acceptance, else 0 */
	uint64_t last_start;
	uint64_t last_done; /* before the first: of the connection's beginning */
	uint32_t latency[SXT_TELE_WAITS][SXT_TELE_LATENCY_BUCKETS];
	uint32_t sizes[SXT_TELE_SIZE_BUCKETS]; /* of sent messages, of done receives */
	uint32_t tag;                          /* of the last: the sender's rank as NCCL gives it */
	uint32_t reserved[23];
};

/* One end of a connection. Writer of all but the counters: the service thread or the watcher. */
struct sxt_tele_conn {
	uint32_t sequence;
	uint32_t state;     /* enum sxt_tele_conn_state */
	uint32_t direction; /* enum sxt_tele_direction */
	uint32_t link;      /* its record's index */
	uint32_t id;        /* on the side channel, unique in the process */
	uint32_t peer_id;
	uint32_t path_first; /* index of its first path's record */
	uint32_t paths;      /* how many; 0 when none were left */
	uint64_t opened;
	uint64_t ended;
	int32_t error;       /* errno of its failure */
	uint32_t generation; /* connections that had this record before */
	char text[192];      /* of the failure */
	uint64_t comm;       /* communicator's id as NCCL has it; 0 unknown: v6 to v10 */
	uint8_t reserved[64];
	struct sxt_tele_counters counters; /* starts a cache line */
	uint8_t reserved2[640];
};

/* One queue pair. Writer: the service thread or watcher. */
struct sxt_tele_path {
	uint32_t sequence;
	uint32_t conn; /* index of the connection's record */
	uint32_t port; /* index of the local port's record */
	uint32_t qpn;
	uint32_t peer_qpn;
	uint32_t mtu; /* bytes */
	uint8_t gid[16];
	uint8_t peer_gid[16];
	uint16_t lid;
	uint16_t peer_lid;
	char peer_hca[24];
	uint8_t reserved[44];
	/* Not written: readers put in an even share of the connection's, whose messages go round
	 * over its paths. */
	uint64_t messages;
	uint64_t bytes;
	uint8_t reserved2[112];
};

#define SXT_TELE_CHOICE_LEFT UINT32_MAX /* algorithm and protocol: left to NCCL */

/*
 * How often the tuner of any communicator answered a collective by one algorithm and protocol.
 * Numbers are those of NCCL's tuner interface. Writers: who launches collectives, atomically.
 */
struct sxt_tele_choice {
	uint32_t coll;
	uint32_t algo;
	uint32_t proto;
	uint32_t reserved0;
	uint64_t calls[SXT_TELE_SIZE_BUCKETS];
	uint8_t reserved[16];
};

/*
 * A communicator of this process, from NCCL's init to its finalize: v11 and up, which tell its id.
 * NCCL may begin the same one more than once; each is a record. Those that ended are overwritten,
 * oldest first; one that finds no record has none. Writer: NCCL's init thread.
 */
struct sxt_tele_comm {
	uint32_t sequence;
	uint32_t is_used;
	uint64_t id;
	uint64_t made;
	uint64_t ended;
	uint8_t reserved[32];
};

enum sxt_tele_event_kind {
	SXT_TELE_EVENT_LINE = 1,   /* a warning as NCCL's log has it; those of stalls are below */
	SXT_TELE_EVENT_PORT = 2,   /* a port changed; subject is its record */
	SXT_TELE_EVENT_OPENED = 3, /* a connection; subject is its record */
	SXT_TELE_EVENT_CLOSED = 4,
	SXT_TELE_EVENT_FAILED = 5, /* with the text of the error */
	SXT_TELE_EVENT_STALL = 6   /* a warning of who waits for whom; subject is its record */
};

/* Writer: whoever took the number, sequence = 2 * number + 2 when it is whole. */
struct sxt_tele_event {
	uint64_t sequence;
	uint64_t ticks;
	uint32_t kind;    /* enum sxt_tele_event_kind */
	uint32_t subject; /* index of a record, UINT32_MAX none */
	char text[232];
};

_Static_assert(sizeof(struct sxt_tele_header) == 4096, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_port) == 256, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_link) == 256, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_counters) == 1088, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_conn) == 2048, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_path) == 256, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_comm) == 64, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_event) == 256, "the layout is released");
_Static_assert(sizeof(struct sxt_tele_choice) == 160, "the layout is released");

#endif
