/*
 * pairs_try.c - a batch of pairs from queue pairs to results. Both ends take the same steps in the
 * same order and tell each other after each, so neither writes before the other can receive.
 */
#include "cli/doctor/pairs_verbs.h"

#include "core/sys.h"
#include "ib/pairs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_FIRST_NS (2 * SXT_NS_PER_SEC)
#define PATIENCE_LATER_NS (500 * SXT_NS_PER_MS)
#define JOIN_NS           (60 * SXT_NS_PER_SEC) /* joining waits for neighbours to answer */
#define WINDOWS_NS        (4 * SXT_NS_PER_SEC)  /* of all pairs together, one direction */
#define WINDOW_MIN_NS     (5 * SXT_NS_PER_MS)
#define WINDOW_MAX_NS     (40 * SXT_NS_PER_MS)

/* One pair of the batch. */
struct entry {
	struct sxt_pairs_cell *cell;
	uint32_t port[2];   /* by end */
	uint8_t address[2]; /* of the turn, by end */
	bool open;          /* still to be tried */
};

struct batch {
	struct sxt_pairs *pairs;
	struct sxt_pairs_verbs *verbs;
	struct sxt_pairs_link *link;
	uint32_t cnt;
	uint32_t turn; /* the try, from 1; 0: good pairs, to be measured again */
	struct entry entries[SXT_PAIRS_BATCH];
	struct sxt_pairs_qp qps[SXT_PAIRS_BATCH];
};

static const struct sxt_pairs_port *port_of(const struct batch *b, const struct entry *entry,
					    enum sxt_pairs_end end)
{
	return &b->pairs->hosts[end].ports[entry->port[end]];
}

static enum sxt_pairs_end peer_of(const struct batch *b)
{
	return b->pairs->own == SXT_PAIRS_CALLER ? SXT_PAIRS_LISTENER : SXT_PAIRS_CALLER;
}

/* The addresses that the plugin would try at this turn. Return: false when none is left. */
static bool addresses_choose(const struct batch *b, struct entry *entry)
{
	const struct sxt_pairs_port *from = port_of(b, entry, SXT_PAIRS_CALLER);
	const struct sxt_pairs_port *to = port_of(b, entry, SXT_PAIRS_LISTENER);
	const struct sxt_pair_ends ends = {
		.from = from->addresses,
		.to = to->addresses,
		.from_cnt = from->addresses_cnt,
		.to_cnt = to->addresses_cnt,
		.from_ports_cnt = 1,
		.to_ports_cnt = 1,
	};
	struct sxt_pair pair;

	memcpy(entry->address, entry->cell->address, sizeof(entry->address));
	if (b->turn == 0)
		return true;
	if (sxt_pair_of(&ends, 0, b->turn, &pair) != 0)
		return false;
	entry->address[SXT_PAIRS_CALLER] = pair.from;
	entry->address[SXT_PAIRS_LISTENER] = pair.to;
	return true;
}

/* A text of the other end's, cut and made printable. */
static void take_text(const json_t *from, char *out, size_t out_bytes)
{
	const char *text = json_string_value(from);

	snprintf(out, out_bytes, "%s", text != NULL ? text : "");
	sxt_doctor_make_printable(out);
}

static void make_all(struct batch *b)
{
	enum sxt_pairs_end own = b->pairs->own;

	for (uint32_t i = 0; i < b->cnt; i++) {
		struct entry *entry = &b->entries[i];

		entry->open = entry->open && addresses_choose(b, entry);
		if (entry->open)
			sxt_pairs_qp_make(b->verbs, entry->port[own], entry->address[own], i,
					  &b->qps[i]);
	}
}

/* The other end's queue pair, with what its hello said of port and address. */
static bool peer_read(const struct batch *b, const struct entry *entry, const json_t *said,
		      struct sxt_wire_path *out)
{
	const struct sxt_pairs_port *port = port_of(b, entry, peer_of(b));
	const struct sxt_wire_candidate *address = &port->addresses[entry->address[peer_of(b)]];
	json_int_t qpn = json_integer_value(json_array_get(said, 0));
	json_int_t psn = json_integer_value(json_array_get(said, 1));

	*out = (struct sxt_wire_path){
		.qpn = (uint32_t)(qpn & 0xffffff),
		.psn = (uint32_t)(psn & 0xffffff),
		.lid = port->lid,
		.link_layer = port->link_layer,
		.mtu = port->mtu,
		.gid_type = address->gid_type,
	};
	memcpy(out->gid, address->gid, sizeof(out->gid));
	return qpn > 0 && qpn <= 0xffffff && psn >= 0 && psn <= 0xffffff;
}

/* The kernel may wait a second for each neighbour that does not answer. */
static void join_all(struct batch *b, const json_t *theirs)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + JOIN_NS;

	for (uint32_t i = 0; i < b->cnt; i++) {
		const struct entry *entry = &b->entries[i];
		struct sxt_pairs_qp *qp = &b->qps[i];
		struct sxt_wire_path peer;

		if (!entry->open || qp->qp == NULL ||
		    !peer_read(b, entry, json_array_get(theirs, i), &peer))
			continue;
		if (sxt_sys_host.now_ns() < end_ns)
			sxt_pairs_qp_join(b->verbs, qp, &peer, port_of(b, entry, peer_of(b)));
		else
			snprintf(qp->why, sizeof(qp->why),
				 "not tried: joining the pairs before it took a minute");
	}
}

static int swap_qps(struct batch *b, json_t **theirs)
{
	json_t *mine = json_array();

	for (uint32_t i = 0; i < b->cnt; i++)
		json_array_append_new(mine,
				      json_pack("[I, I]", (json_int_t)b->qps[i].place.path.qpn,
						(json_int_t)b->qps[i].place.path.psn));
	return sxt_pairs_swap(b->link, "queue pairs", mine, b->cnt, theirs);
}

/* Where either end could not join there is nothing to probe. */
static int swap_joined(struct batch *b, json_t **theirs)
{
	json_t *mine = json_array();
	int rc;

	for (uint32_t i = 0; i < b->cnt; i++)
		json_array_append_new(mine, json_pack("[b, s]", b->qps[i].joined, b->qps[i].why));
	rc = sxt_pairs_swap(b->link, "joined", mine, b->cnt, theirs);
	for (uint32_t i = 0; rc == 0 && i < b->cnt; i++)
		b->qps[i].joined = b->qps[i].joined &&
				   json_is_true(json_array_get(json_array_get(*theirs, i), 0));
	return rc;
}

static int swap_acked(struct batch *b, json_t **theirs)
{
	json_t *mine = json_array();

	for (uint32_t i = 0; i < b->cnt; i++)
		json_array_append_new(mine, json_pack("[b, s]", b->qps[i].acked, b->qps[i].why));
	return sxt_pairs_swap(b->link, "probed", mine, b->cnt, theirs);
}

/* Only now has the other end sent all that it sends. */
static int swap_arrived(struct batch *b, json_t **theirs)
{
	json_t *mine = json_array();

	for (uint32_t i = 0; i < b->cnt; i++)
		json_array_append_new(mine, json_boolean(sxt_pairs_marked(b->verbs, i)));
	return sxt_pairs_swap(b->link, "arrived", mine, b->cnt, theirs);
}

/* What the steps of one turn brought, from the other end. */
struct said {
	json_t *qps;
	json_t *joined;
	json_t *acked;
	json_t *arrived;
};

static void said_release(struct said *said)
{
	json_decref(said->qps);
	json_decref(said->joined);
	json_decref(said->acked);
	json_decref(said->arrived);
}

/* Of a pair that does not work the first try is the one to tell about. */
static void keep(const struct batch *b, const struct entry *entry, enum sxt_pairs_state state,
		 const struct sxt_pairs_way way[2])
{
	struct sxt_pairs_cell *cell = entry->cell;

	if (state != SXT_PAIRS_GOOD && b->turn > 1)
		return;
	cell->state = state;
	cell->tries_cnt = b->turn;
	memcpy(cell->address, entry->address, sizeof(cell->address));
	memcpy(cell->way, way, sizeof(cell->way));
}

/* What this turn says about one pair. */
static void settle(struct batch *b, uint32_t i, const struct said *said)
{
	struct entry *entry = &b->entries[i];
	struct sxt_pairs_qp *qp = &b->qps[i];
	enum sxt_pairs_end own = b->pairs->own;
	enum sxt_pairs_end peer = peer_of(b);
	const json_t *qpn = json_array_get(json_array_get(said->qps, i), 0);
	const json_t *acked = json_array_get(said->acked, i);
	struct sxt_pairs_way way[2] = {0};
	enum sxt_pairs_state state = SXT_PAIRS_GOOD;

	way[own].acked = qp->acked;
	way[own].arrived = json_is_true(json_array_get(said->arrived, i));
	snprintf(way[own].why, sizeof(way[own].why), "%s", qp->why);
	way[peer].acked = json_is_true(json_array_get(acked, 0));
	way[peer].arrived = sxt_pairs_marked(b->verbs, i);
	take_text(json_array_get(qp->joined ? acked : json_array_get(said->joined, i), 1),
		  way[peer].why, sizeof(way[peer].why));
	if (qp->qp == NULL || json_integer_value(qpn) == 0)
		state = SXT_PAIRS_UNMADE;
	else if (!qp->joined)
		state = SXT_PAIRS_REFUSED;
	else if (!way[own].acked || !way[peer].acked)
		state = SXT_PAIRS_SILENT;
	keep(b, entry, state, way);
	entry->open = state != SXT_PAIRS_GOOD;
	if (entry->open)
		sxt_pairs_qp_drop(qp);
}

static int take_turn(struct batch *b)
{
	struct said said = {0};
	int rc;

	make_all(b);
	rc = swap_qps(b, &said.qps);
	if (rc == 0) {
		join_all(b, said.qps);
		rc = swap_joined(b, &said.joined);
	}
	if (rc == 0) {
		sxt_pairs_probe(b->verbs, b->qps, b->cnt,
				b->turn <= 1 ? PATIENCE_FIRST_NS : PATIENCE_LATER_NS);
		rc = swap_acked(b, &said.acked);
	}
	if (rc == 0)
		rc = swap_arrived(b, &said.arrived);
	for (uint32_t i = 0; rc == 0 && b->turn > 0 && i < b->cnt; i++) {
		if (b->entries[i].open)
			settle(b, i, &said);
	}
	said_release(&said);
	return rc;
}

static bool any_open(const struct batch *b)
{
	for (uint32_t i = 0; i < b->cnt; i++) {
		if (b->entries[i].open)
			return true;
	}
	return false;
}

static uint64_t window_ns(const struct sxt_pairs *pairs)
{
	uint64_t ns =
		WINDOWS_NS / ((uint64_t)pairs->hosts[0].ports_cnt * pairs->hosts[1].ports_cnt);

	if (ns < WINDOW_MIN_NS)
		return WINDOW_MIN_NS;
	return ns < WINDOW_MAX_NS ? ns : WINDOW_MAX_NS;
}

static void result_keep(struct sxt_pairs_way *way, uint32_t mbps, const char *why)
{
	if (mbps > way->mbps)
		way->mbps = mbps;
	way->broke = way->mbps == 0;
	if (way->broke)
		snprintf(way->why, sizeof(way->why), "%s", why);
}

/* One direction of one pair; the other end waits meanwhile. */
static int measure(struct batch *b, uint32_t i, enum sxt_pairs_end sender)
{
	struct sxt_pairs_qp *qp = &b->qps[i];
	struct sxt_pairs_way *way = &b->entries[i].cell->way[sender];
	bool sends = sender == b->pairs->own;
	char why[sizeof(way->why)] = "";
	json_t *theirs = NULL;
	json_int_t mbps = 0;
	uint32_t own = 0;
	int rc;

	if (sends && qp->joined)
		sxt_pairs_measure(b->verbs, b->qps, i, window_ns(b->pairs), &own);
	rc = sxt_pairs_swap(b->link, "measured",
			    json_pack("[[I, s]]", (json_int_t)own, sends ? qp->why : ""), 1,
			    &theirs);
	if (rc != 0)
		return rc;
	if (sends) {
		result_keep(way, own, qp->why);
	} else {
		mbps = json_integer_value(json_array_get(json_array_get(theirs, 0), 0));
		take_text(json_array_get(json_array_get(theirs, 0), 1), why, sizeof(why));
		result_keep(way, mbps > 0 && mbps <= UINT32_MAX ? (uint32_t)mbps : 0, why);
	}
	json_decref(theirs);
	return 0;
}

static int measure_all(struct batch *b)
{
	int rc = 0;

	for (uint32_t i = 0; i < b->cnt && rc == 0; i++) {
		if (b->entries[i].cell->state != SXT_PAIRS_GOOD)
			continue;
		rc = measure(b, i, SXT_PAIRS_CALLER);
		if (rc == 0)
			rc = measure(b, i, SXT_PAIRS_LISTENER);
	}
	return rc;
}

static int batch_run(struct batch *b, const uint32_t *which, bool again)
{
	uint32_t columns = b->pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt;
	int rc = 0;

	for (uint32_t i = 0; i < b->cnt; i++)
		b->entries[i] = (struct entry){
			.cell = &b->pairs->cells[which[i]],
			.port = {which[i] / columns, which[i] % columns},
			.open = true,
		};
	if (again)
		rc = take_turn(b);
	for (b->turn = 1; !again && rc == 0 && b->turn <= SXT_PAIRS_TRIES && any_open(b); b->turn++)
		rc = take_turn(b);
	if (rc == 0)
		rc = measure_all(b);
	for (uint32_t i = 0; i < b->cnt; i++)
		sxt_pairs_qp_drop(&b->qps[i]);
	return rc;
}

/* Who looks on sees that it goes on: dead pairs take their time. */
static void tell_progress(uint32_t done, uint32_t cnt, bool again)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%u of %u pairs%s%s", done, cnt,
			again ? " that look slow, once more" : "", done == cnt ? "\n" : " ");
}

int sxt_pairs_try(struct sxt_pairs *pairs, struct sxt_pairs_verbs *verbs,
		  struct sxt_pairs_link *link, const uint32_t *which, uint32_t cnt, bool again)
{
	int rc = 0;

	for (uint32_t at = 0; at < cnt && rc == 0; at += SXT_PAIRS_BATCH) {
		struct batch b = {
			.pairs = pairs,
			.verbs = verbs,
			.link = link,
			.cnt = cnt - at < SXT_PAIRS_BATCH ? cnt - at : SXT_PAIRS_BATCH,
		};

		rc = batch_run(&b, which + at, again);
		tell_progress(at + b.cnt, cnt, again);
	}
	return rc;
}
