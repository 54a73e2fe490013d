/*
 * state.h - what all processes on one software fabric share: the file `fabric` of a state folder.
 *
 * `sextant soft run` writes it, every process that opens the software HCA maps it. Plain members
 * never change once the file is there, but for GID tables; all else that changes is atomic.
 * Indices are global: hcas[] and ports[] are ordered by host, then HCA, then port number.
 */
#ifndef SXT_IB_SOFT_STATE_H
#define SXT_IB_SOFT_STATE_H

#include "core/compiler.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SXT_SOFT_MAGIC   0x434854464f535853ull /* "SXSOFTHC" in the file */
#define SXT_SOFT_VERSION 3u /* of this layout; a file of another one is refused */

#define SXT_SOFT_HOSTS_MAX 64
#define SXT_SOFT_HCAS_MAX  512
#define SXT_SOFT_PORTS_MAX 1024
#define SXT_SOFT_GIDS_MAX  16 /* per port */
#define SXT_SOFT_PKEYS_MAX 16 /* per port */
#define SXT_SOFT_PROCS_MAX 1024
#define SXT_SOFT_NAME_MAX  64 /* with the terminator, as IBV_SYSFS_NAME_MAX */

#define SXT_SOFT_NO_PROC UINT32_MAX

/* Numbers as the InfiniBand specification and verbs have them. */
enum sxt_soft_link_layer {
	SXT_SOFT_INFINIBAND = 1,
	SXT_SOFT_ETHERNET = 2
};
enum sxt_soft_port_state {
	SXT_SOFT_PORT_DOWN = 1,
	SXT_SOFT_PORT_INIT = 2,
	SXT_SOFT_PORT_ACTIVE = 4
};
enum sxt_soft_phys_state {
	SXT_SOFT_PHYS_POLLING = 2,
	SXT_SOFT_PHYS_DISABLED = 3,
	SXT_SOFT_PHYS_UP = 5
};
enum sxt_soft_gid_type {
	SXT_SOFT_GID_IB = 0,
	SXT_SOFT_GID_ROCE_V1 = 1,
	SXT_SOFT_GID_ROCE_V2 = 2
};

struct sxt_soft_gid {
	uint8_t raw[16]; /* network order; all zero is an empty entry */
	uint32_t type;   /* enum sxt_soft_gid_type */
	uint32_t ndev_ifindex;
	char ndev[16]; /* "" on InfiniBand */
};

/* Counters of a port: member, folder and file of its sysfs tree. */
#define SXT_SOFT_COUNTERS(X)                                              \
	X(xmit_bytes, "counters", "port_xmit_data") /* file: bytes / 4 */ \
	X(rcv_bytes, "counters", "port_rcv_data")   /* file: bytes / 4 */ \
	X(xmit_packets, "counters", "port_xmit_packets")                  \
	X(rcv_packets, "counters", "port_rcv_packets")                    \
	X(xmit_wait, "counters", "port_xmit_wait")                        \
	X(link_downed, "counters", "link_downed")                         \
	X(rnr_nak, "hw_counters", "rnr_nak_retry_err")                    \
	X(ack_timeout, "hw_counters", "local_ack_timeout_err")            \
	X(out_of_buffer, "hw_counters", "out_of_buffer")                  \
	X(remote_access, "hw_counters", "req_remote_access_errors")       \
	X(cqe_error, "hw_counters", "req_cqe_error")                      \
	X(cqe_flush, "hw_counters", "req_cqe_flush_error")

struct sxt_soft_counters {
#define SXT_SOFT_COUNTER_MEMBER(name, folder, file) _Atomic uint64_t name;
	SXT_SOFT_COUNTERS(SXT_SOFT_COUNTER_MEMBER)
#undef SXT_SOFT_COUNTER_MEMBER
};

struct sxt_soft_port {
	uint32_t hca; /* index */
	uint8_t port_num;
	uint8_t link_layer; /* enum sxt_soft_link_layer */
	uint8_t max_mtu;    /* 1..5 = 256..4096, as enum ibv_mtu */
	uint8_t active_mtu;
	uint8_t active_width; /* 1, 2, 4, 8 or 16 = 1x, 4x, 8x, 12x, 2x */
	uint8_t lmc;
	uint16_t lid; /* 0 on Ethernet */
	uint16_t sm_lid;
	uint16_t gid_cnt; /* entries of gids[]; the table a program sees has them and no more */
	uint16_t pkey_cnt;
	uint16_t pkeys[SXT_SOFT_PKEYS_MAX];
	uint32_t active_speed;  /* as ibv_port_attr.active_speed: 32 = EDR, 64 = HDR, 128 = NDR */
	uint64_t rate_mbps;     /* what width x speed says, for `rate` in sysfs */
	uint64_t bandwidth_bps; /* modelled, bits per second; 0 is unlimited */
	uint64_t latency_ns;    /* modelled, one way */
	char netdev[16];        /* "" on InfiniBand */
	char network[32];       /* "" is the one that all ports share which name none */
	uint32_t network_id;    /* equal where the name is */
	/* The GID table: this one, and gids_odd while gids_version is odd; the other is spare. */
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];
	struct sxt_soft_gid gids_odd[SXT_SOFT_GIDS_MAX];

	/* Written by `soft set`, the timeline, and where a fault is used up. */
	_Alignas(SXT_CACHELINE) _Atomic uint32_t state; /* enum sxt_soft_port_state */
	_Atomic uint32_t phys_state;                    /* enum sxt_soft_phys_state */
	_Atomic uint32_t drop;         /* 1: every packet of the port is lost, both ways */
	_Atomic uint32_t gids_version; /* how often the GID table changed */
	_Atomic uint64_t fault_wc; /* next sends fail: sxt_soft_fault_take(), value = wc status */

	/* Written by every sender through this port: when its last modelled transfer ends. */
	_Alignas(SXT_CACHELINE) _Atomic uint64_t busy_until_ns; /* CLOCK_MONOTONIC */

	_Alignas(SXT_CACHELINE) struct sxt_soft_counters counters;
};

struct sxt_soft_hca {
	char name[SXT_SOFT_NAME_MAX];
	uint32_t host;       /* index */
	uint32_t first_port; /* its ports are ports[first_port .. first_port + port_cnt) */
	uint32_t port_cnt;
	int32_t numa_node;  /* -1 unknown */
	uint64_t node_guid; /* host order */
	uint64_t sys_image_guid;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	char fw_ver[32];
	char board_id[32];
	char hca_type[32];  /* "MT4129" */
	char driver[32];    /* kernel driver its PCI folder names */
	char pci[16];       /* "0000:18:00.0" */
	char pci_path[128]; /* its folder below /sys/devices, "pci0000:17/0000:17:00.0/0000:18:00.0"
			     */
	char pci_speed[16]; /* "32.0 GT/s PCIe" */
	uint32_t pci_width;

	/* As ibv_device_attr has them. */
	uint64_t max_mr_size;
	uint32_t max_qp;
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_cq;
	uint32_t max_cqe;
	uint32_t max_mr;
	uint32_t max_pd;
	uint32_t max_qp_rd_atom; /* also the initiator's */
	uint32_t max_ah;
	uint32_t max_srq;
	uint32_t max_srq_wr;
	uint32_t max_srq_sge;
	uint32_t max_inline; /* bytes ibv_create_qp() grants */

	/* Next registrations fail: sxt_soft_fault_take(), value = errno. */
	_Alignas(SXT_CACHELINE) _Atomic uint64_t fault_reg;
};

struct sxt_soft_host {
	char name[SXT_SOFT_NAME_MAX];
	uint32_t first_hca; /* its HCAs are hcas[first_hca .. first_hca + hca_cnt) */
	uint32_t hca_cnt;
};

enum sxt_soft_proc_state {
	SXT_SOFT_PROC_FREE,
	SXT_SOFT_PROC_ALIVE,
	SXT_SOFT_PROC_DEAD
};

/*
 * One attached process. The word is generation << 2 | enum sxt_soft_proc_state: whoever keeps a
 * reference to a process keeps the word with it and compares; a slot taken again has another one.
 * The other members are written before the word says ALIVE (release; read it with acquire).
 */
struct sxt_soft_proc {
	_Alignas(SXT_CACHELINE) _Atomic uint64_t word;
	int32_t pid;
	uint32_t host;
	uint64_t start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid */
	char comm[16];
};

struct sxt_soft_fabric {
	uint64_t magic;
	uint32_t version;
	uint32_t host_cnt;
	uint64_t bytes; /* of the file */
	uint32_t hca_cnt;
	uint32_t port_cnt;
	uint64_t seed;     /* of everything random */
	uint64_t start_ns; /* CLOCK_MONOTONIC when the fabric came up; the timeline's zero */
	_Atomic uint32_t timeline_next; /* how many actions of it are taken; any `soft run` takes */
	char source[PATH_MAX];          /* the fabric file's real path, or "built-in" */
	struct sxt_soft_host hosts[SXT_SOFT_HOSTS_MAX];
	struct sxt_soft_hca hcas[SXT_SOFT_HCAS_MAX];
	struct sxt_soft_port ports[SXT_SOFT_PORTS_MAX];
	struct sxt_soft_proc procs[SXT_SOFT_PROCS_MAX];
};

/* A process's hold on the state. Immutable between attach and detach. */
struct sxt_soft_state {
	struct sxt_soft_fabric *fabric;
	size_t map_bytes;
	char dir[PATH_MAX]; /* absolute */
	uint32_t host;      /* index of the host this process runs on; valid if attached */
	uint32_t proc;      /* own slot in procs[], SXT_SOFT_NO_PROC if only opened */
	uint64_t proc_word; /* own word */
	int lock_fd;        /* `lock` of the folder, for sxt_soft_state_lock() */
	int32_t pid;        /* who attached; a forked child must attach for itself */
};

/**
 * sxt_soft_state_create() - make the state folder and its fabric file; `soft run` only.
 * @dir: the folder, made with mode 0700; must not exist.
 * @fabric: content; procs are cleared, magic, version and size filled in. Not kept.
 * Makes `fabric`, `lock`, the FIFO `wake` and the folder `proc`; nothing is left on failure.
 * Return: 0, or a negative errno, logged.
 */
SXT_MUST_CHECK int sxt_soft_state_create(const char *dir, const struct sxt_soft_fabric *fabric);

/**
 * sxt_soft_state_open() - map the state without being one of its processes (commands, tests).
 * @dir: state folder. @out: set on success only; give back with sxt_soft_state_close().
 * Return: 0, -ENOENT when there is no state, -EPROTO when it is of another version or damaged,
 * -ENOMEM, or the negative errno of a system call; logged.
 */
SXT_MUST_CHECK int sxt_soft_state_open(const char *dir, struct sxt_soft_state **out);

/**
 * sxt_soft_state_attach() - map the state and take a process slot; the verbs library's way in.
 * @dir: state folder; NULL takes SEXTANT_SOFT_STATE.
 * @host: name of a host, or its number from 0; NULL takes SEXTANT_SOFT_HOST, "" is the first.
 * @out: set on success only; give back with sxt_soft_state_close().
 * Makes the folder proc/SLOT for the files of this process and wakes `soft run`.
 * Thread: any; one attach per process (a forked child attaches anew). Path: slow, takes a file
 * lock. Return: 0, -ENODEV when not under `soft run` or the host is unknown, -EUSERS when all slots
 * are taken, or as sxt_soft_state_open(); logged.
 */
SXT_MUST_CHECK int sxt_soft_state_attach(const char *dir, const char *host,
					 struct sxt_soft_state **out);

/**
 * sxt_soft_state_close() - unmap; frees the slot and proc/SLOT if this process attached.
 * @state: NULL is fine. In a forked child only the memory is let go.
 */
void sxt_soft_state_close(struct sxt_soft_state *state);

/**
 * sxt_soft_state_lock() - exclusive lock over the whole fabric, for slow shared changes.
 * @state: open. Released by the kernel if the holder dies. Not for the data path; not recursive,
 * and it does not exclude threads of one process from each other.
 * Return: 0, or the negative errno of flock().
 */
SXT_MUST_CHECK int sxt_soft_state_lock(struct sxt_soft_state *state);

/**
 * sxt_soft_state_unlock() - let go of sxt_soft_state_lock().
 * @state: locked by the caller.
 */
void sxt_soft_state_unlock(struct sxt_soft_state *state);

/**
 * sxt_soft_state_map() - map a file of the state folder, shared, made with zeros if not there.
 * @state: open. @name: below the folder, such as "qps" or "proc/3/rings".
 * @bytes: its size; a smaller file is grown. @out: the mapping, set on success only; give back
 * with munmap(). The file goes with the folder it lies in.
 * Return: 0, or a negative errno (-ENOENT: proc/SLOT of a process that is gone).
 */
SXT_MUST_CHECK int sxt_soft_state_map(struct sxt_soft_state *state, const char *name, size_t bytes,
				      void **out);

/**
 * sxt_soft_host_find() - a host by name or by number from 0.
 * @fabric: the fabric. @text: as the user wrote it; "" is the first host.
 * Return: index, or -ENOENT.
 */
int sxt_soft_host_find(const struct sxt_soft_fabric *fabric, const char *text);

/**
 * sxt_soft_gids_read() - a port's GID table as it is now, of one moment.
 * @port: the port. @out: gid_cnt entries are written. Thread: any, no lock. Path: connect time.
 */
void sxt_soft_gids_read(const struct sxt_soft_port *port,
			struct sxt_soft_gid out[SXT_SOFT_GIDS_MAX]);

/**
 * sxt_soft_gids_write() - put another GID table in its place, at once for all readers.
 * @port: the port. @gids: gid_cnt entries. Thread: holds sxt_soft_state_lock().
 */
void sxt_soft_gids_write(struct sxt_soft_port *port, const struct sxt_soft_gid *gids);

/**
 * sxt_soft_gid_is_empty() - is there no address at this place of a table?
 * @gid: an entry. Return: true if so.
 */
bool sxt_soft_gid_is_empty(const struct sxt_soft_gid *gid);

/**
 * sxt_soft_port_by_gid() - the port that answers to a GID; scans, so connect time only.
 * @fabric: the fabric. @raw: 16 bytes, network order.
 * Return: index into ports[], or -ENOENT.
 */
int sxt_soft_port_by_gid(const struct sxt_soft_fabric *fabric, const uint8_t raw[16]);

/**
 * sxt_soft_port_by_lid() - the InfiniBand port that answers to a LID (with its LMC).
 * @fabric: the fabric. @lid: 1..0xbfff.
 * Return: index into ports[], or -ENOENT.
 */
int sxt_soft_port_by_lid(const struct sxt_soft_fabric *fabric, uint16_t lid);

/**
 * sxt_soft_proc_start_ticks() - when a process started, to tell it from a later one of its pid.
 * @pid: any process. @out: field 22 of /proc/PID/stat; set on success only.
 * Return: 0, or -ESRCH when there is none, or only its zombie.
 */
SXT_MUST_CHECK int sxt_soft_proc_start_ticks(int32_t pid, uint64_t *out);

/**
 * sxt_soft_proc_bury() - mark a process dead, if it still is the one of that word.
 * @state: open. @slot, @word: whom. Its proc/SLOT folder is removed. Idempotent, any process.
 */
void sxt_soft_proc_bury(struct sxt_soft_state *state, uint32_t slot, uint64_t word);

static inline uint32_t sxt_soft_proc_word_state(uint64_t word)
{
	return (uint32_t)(word & 3);
}

/* Is the process that had this word when we met it still there? Pairs with the store in attach. */
static inline bool sxt_soft_proc_is_alive(const struct sxt_soft_fabric *fabric, uint32_t slot,
					  uint64_t word)
{
	return atomic_load_explicit(&fabric->procs[slot].word, memory_order_acquire) == word;
}

static inline bool sxt_soft_port_is_up(const struct sxt_soft_port *port)
{
	return atomic_load_explicit(&port->state, memory_order_relaxed) == SXT_SOFT_PORT_ACTIVE;
}

/* Do packets get from one port to the other, and the answers back? */
static inline bool sxt_soft_path_is_open(const struct sxt_soft_port *from,
					 const struct sxt_soft_port *to)
{
	return sxt_soft_port_is_up(from) && sxt_soft_port_is_up(to) &&
	       from->network_id == to->network_id &&
	       (atomic_load_explicit(&from->drop, memory_order_relaxed) |
		atomic_load_explicit(&to->drop, memory_order_relaxed)) == 0;
}

/* Faults are armed as value << 32 | count in one word, so that both change together. */
static inline uint64_t sxt_soft_fault_word(uint32_t value, uint32_t count)
{
	return (uint64_t)value << 32 | count;
}

/*
 * Uses up one of an armed fault: true, and its value, once per count. Costs one relaxed load
 * where nothing is armed. Relaxed is enough: the word carries all there is to know.
 */
static inline bool sxt_soft_fault_take(_Atomic uint64_t *word, uint32_t *value_out)
{
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);

	while ((uint32_t)seen != 0) {
		uint64_t next = (uint32_t)seen == 1 ? 0 : seen - 1;

		if (atomic_compare_exchange_weak_explicit(word, &seen, next, memory_order_relaxed,
							  memory_order_relaxed)) {
			*value_out = (uint32_t)(seen >> 32);
			return true;
		}
	}
	return false;
}

#endif
