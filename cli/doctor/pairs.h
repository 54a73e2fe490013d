/*
 * pairs.h - what the parts of `sextant doctor pairs` share: both hosts' ports and, for each port of
 * one against each of the other, what was tried and how it went. Both ends hold the same facts and
 * judge them alike. One thread, slow path.
 */
#ifndef SXT_CLI_DOCTOR_PAIRS_H
#define SXT_CLI_DOCTOR_PAIRS_H

#include "cli/doctor/doctor.h"

#include "core/compiler.h"
#include "ib/wire.h"

#include <jansson.h>
#include <stdbool.h>

#define SXT_PAIRS_PORTS_MAX 32
#define SXT_PAIRS_BATCH     64 /* pairs tried at a time, each a queue pair on either side */
#define SXT_PAIRS_TRIES     4  /* addresses of a pair that get a turn */

/* One port as its own host knows it. */
struct sxt_pairs_port {
	char name[80]; /* "mlx5_0:1", as NCCL_IB_HCA has it */
	uint32_t speed_mbps;
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t link_layer;
	uint64_t addr; /* of the memory that the other end writes */
	uint32_t rkey;
	uint32_t addresses_cnt;
	struct sxt_wire_candidate addresses[SXT_CANDIDATES_PER_PORT]; /* best first */
};

struct sxt_pairs_host {
	char name[64];
	char version[32];
	char left_out[768]; /* ports that are not among these, and why; "" for none */
	uint32_t ports_cnt;
	struct sxt_pairs_port ports[SXT_PAIRS_PORTS_MAX];
};

/* How far a pair got. */
enum sxt_pairs_state {
	SXT_PAIRS_UNFIT,   /* no address of one port fits one of the other */
	SXT_PAIRS_UNMADE,  /* a host cannot make a queue pair */
	SXT_PAIRS_REFUSED, /* a host cannot aim its queue pair at the other port */
	SXT_PAIRS_SILENT,  /* no acknowledgement in one direction, or in both */
	SXT_PAIRS_GOOD,
};

/* One direction of a pair, as the sending end saw it. */
struct sxt_pairs_way {
	bool acked;    /* the write of no bytes */
	bool arrived;  /* a byte written before it was seen by the receiving end */
	bool broke;    /* small writes passed, large ones did not */
	uint32_t mbps; /* 0: not measured */
	char why[192]; /* of a refusal or an error, in the sending end's words */
};

/* The port of the calling end against one of the listening end. */
struct sxt_pairs_cell {
	enum sxt_pairs_state state;
	uint32_t tries_cnt;          /* up to the one that this is about; 0: none was possible */
	uint8_t address[2];          /* of either end's port, by enum sxt_pairs_end */
	struct sxt_pairs_way way[2]; /* by the end that sends */
};

enum sxt_pairs_end {
	SXT_PAIRS_CALLER,
	SXT_PAIRS_LISTENER,
};

struct sxt_pairs {
	enum sxt_pairs_end own;
	struct sxt_pairs_host hosts[2]; /* by end */
	struct sxt_pairs_cell *cells;   /* by port of the caller, then of the listener */
};

/* What follows from it all. */
struct sxt_pairs_advice {
	/* By end: the NCCL_IB_HCA to set, "" where nothing needs to be set. */
	char set[2][SXT_PAIRS_PORTS_MAX * 96];
	uint32_t rails_cnt; /* groups of ports that reach each other and no others; 1: all do */
};

/**
 * sxt_pairs_cell_of() - the pair of two ports.
 * @pairs: cells are allocated. @caller, @listener: numbers of the ports.
 * Return: the cell.
 */
static inline struct sxt_pairs_cell *sxt_pairs_cell_of(const struct sxt_pairs *pairs,
						       uint32_t caller, uint32_t listener)
{
	return &pairs->cells[caller * pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt + listener];
}

struct sxt_pairs_link;

/**
 * sxt_pairs_listen() - wait for the other doctor.
 * @address: "ADDR:PORT", ":PORT", "ADDR", or NULL for an address that NCCL would choose and any
 * free port. @timeout_s: how long. @pairs: the own host's facts; the other's are written.
 * @out: set on success; sxt_pairs_hang_up() frees it.
 * Says on standard error what to type on the other host, who came and was sent away, what failed.
 * Return: exit status.
 */
int sxt_pairs_listen(const char *address, int timeout_s, struct sxt_pairs *pairs,
		     struct sxt_pairs_link **out);

/**
 * sxt_pairs_call() - go and meet the other doctor.
 * @address: "HOST:PORT". @timeout_s, @pairs, @out: as for sxt_pairs_listen().
 * Return: exit status; what failed is said on standard error.
 */
int sxt_pairs_call(const char *address, int timeout_s, struct sxt_pairs *pairs,
		   struct sxt_pairs_link **out);

/**
 * sxt_pairs_hang_up() - end the conversation.
 * @link: NULL is fine.
 */
void sxt_pairs_hang_up(struct sxt_pairs_link *link);

/**
 * sxt_pairs_swap() - both ends say something at the same step.
 * @link: the conversation. @step: its name, the same on both ends.
 * @mine: an array, the reference is taken; NULL for lack of memory.
 * @cnt: how many elements the other end's must have. @out: set on success, to be released.
 * Return: 0, or a negative errno once the conversation is over (told on standard error).
 */
SXT_MUST_CHECK int sxt_pairs_swap(struct sxt_pairs_link *link, const char *step, json_t *mine,
				  size_t cnt, json_t **out);

/**
 * sxt_pairs_hello_write() - what one end says of itself.
 * @host: its facts. Return: the document, NULL without memory.
 */
json_t *sxt_pairs_hello_write(const struct sxt_pairs_host *host);

/**
 * sxt_pairs_hello_read() - what the other end said of itself, if it can be trusted to make sense.
 * @hello: any JSON. @out: written on success. @why, @why_bytes: what is wrong with it.
 * Return: 0, -EPROTO for what is no doctor, -EPROTONOSUPPORT for one of another version, -EBADMSG
 * for one whose facts make no sense.
 */
SXT_MUST_CHECK int sxt_pairs_hello_read(const json_t *hello, struct sxt_pairs_host *out, char *why,
					size_t why_bytes);

struct sxt_pairs_verbs;

/**
 * sxt_pairs_open() - open the ports that the plugin would use, chosen by its own code.
 * @host: the own host's; filled on success. @out: set on success; sxt_pairs_close() frees it.
 * Return: exit status; what failed is said on standard error.
 */
int sxt_pairs_open(struct sxt_pairs_host *host, struct sxt_pairs_verbs **out);

/**
 * sxt_pairs_close() - free what sxt_pairs_open() made.
 * @verbs: NULL is fine.
 */
void sxt_pairs_close(struct sxt_pairs_verbs *verbs);

/**
 * sxt_pairs_try() - join pairs of ports, see whether packets pass and how fast.
 * @pairs: cells are written. @verbs, @link: of the own end.
 * @which: numbers of cells, the same on both ends. @cnt: how many. @again: they are good and are
 * only measured once more; the better of two results stays.
 * Return: 0, or a negative errno (told on standard error).
 */
SXT_MUST_CHECK int sxt_pairs_try(struct sxt_pairs *pairs, struct sxt_pairs_verbs *verbs,
				 struct sxt_pairs_link *link, const uint32_t *which, uint32_t cnt,
				 bool again);

/**
 * sxt_pairs_slow() - which pairs are slow against the others?
 * @pairs: tried. @out: a byte for each cell: a bit for each end that sends slowly.
 */
void sxt_pairs_slow(const struct sxt_pairs *pairs, uint8_t *out);

/**
 * sxt_pairs_is_apart() - does a pair not work because it is not meant to: two ports of different
 * subnets, which both reach others?
 * @pairs: tried. @number: of the cell. Return: true if so.
 */
bool sxt_pairs_is_apart(const struct sxt_pairs *pairs, uint32_t number);

/**
 * sxt_pairs_judge() - findings about all that was tried, in the own end's view.
 * @pairs: tried. @d: where findings go.
 */
void sxt_pairs_judge(const struct sxt_pairs *pairs, struct sxt_doctor *d);

/**
 * sxt_pairs_advise() - which ports to use.
 * @pairs: tried. @out: written.
 */
void sxt_pairs_advise(const struct sxt_pairs *pairs, struct sxt_pairs_advice *out);

/**
 * sxt_pairs_print() - the report for people, or as JSON.
 * @pairs: tried. @d: judged. @json: as JSON. Return: exit status.
 */
int sxt_pairs_print(const struct sxt_pairs *pairs, const struct sxt_doctor *d, bool json);

/**
 * sxt_doctor_pairs() - `sextant doctor pairs`: every port of one host against every port of
 * another.
 * @argc, @argv: its own arguments. Return: exit status.
 */
int sxt_doctor_pairs(int argc, char **argv);

#endif
