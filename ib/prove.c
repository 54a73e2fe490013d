/*
 * prove.c - choosing and trying pairs of addresses while a connection is made (slow path, polled).
 */
#include "ib/prove.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/conn.h"
#include "ib/data.h"
#include "ib/gid.h"
#include "ib/pairs.h"
#include "ib/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_connecting(const struct sxt_attempt *attempt)
{
	return attempt->listener == NULL;
}

static void own_add(struct sxt_attempt *attempt, uint32_t place,
		    const struct sxt_port_address *address)
{
	struct sxt_wire_candidate *candidate = &attempt->own[attempt->own_cnt];

	*candidate = (struct sxt_wire_candidate){
		.place = (uint8_t)place,
		.gid_type = address->place.path.gid_type,
		.prefix_len = address->gid.prefix_len,
		.link_layer = address->place.path.link_layer,
	};
	memcpy(candidate->gid, address->gid.raw, sizeof(candidate->gid));
	attempt->own_places[attempt->own_cnt++] = address->place;
}

int sxt_prove_look(struct sxt_attempt *attempt)
{
	struct sxt_port_address addresses[SXT_CANDIDATES_PER_PORT];
	int rc = 0;

	attempt->own_cnt = 0;
	for (uint32_t place = 0; place < attempt->nic->ports_cnt; place++) {
		uint32_t cnt = 0;
		int port_rc = sxt_port_candidates(attempt->nic->ports[place], addresses,
						  SXT_CANDIDATES_PER_PORT, &cnt);

		if (port_rc != 0)
			rc = port_rc;
		for (uint32_t i = 0; i < cnt; i++)
			own_add(attempt, place, &addresses[i]);
	}
	return attempt->own_cnt != 0 ? 0 : rc;
}

/* A peer that names no addresses has those of its paths. */
static void theirs_complete(struct sxt_attempt *attempt)
{
	uint32_t seen = 0;

	if (attempt->theirs_cnt != 0)
		return;
	for (uint32_t i = 0; i < attempt->paths_cnt; i++) {
		const struct sxt_wire_path *path = &attempt->paths[i];
		struct sxt_wire_candidate *candidate = &attempt->theirs[attempt->theirs_cnt];

		if ((seen >> path->place & 1u) != 0)
			continue;
		seen |= 1u << path->place;
		*candidate = (struct sxt_wire_candidate){
			.place = path->place,
			.gid_type = path->gid_type,
			.link_layer = path->link_layer,
		};
		memcpy(candidate->gid, path->gid, sizeof(candidate->gid));
		attempt->theirs_cnt++;
	}
}

/* A port that stands in for what the handle speaks of is alone. */
static uint32_t listening_ports_cnt(const struct sxt_attempt *attempt)
{
	if (attempt->resort.to != SXT_RESORT_NAMED || attempt->handle.ports_cnt == 0)
		return 1;
	return attempt->handle.ports_cnt;
}

static struct sxt_pair_ends ends_of(const struct sxt_attempt *attempt)
{
	uint32_t own_ports_cnt = attempt->nic->ports_cnt;

	if (is_connecting(attempt))
		return (struct sxt_pair_ends){
			.from = attempt->own,
			.to = attempt->theirs,
			.from_cnt = attempt->own_cnt,
			.to_cnt = attempt->theirs_cnt,
			.from_ports_cnt = own_ports_cnt,
			.to_ports_cnt = listening_ports_cnt(attempt),
		};
	return (struct sxt_pair_ends){
		.from = attempt->theirs,
		.to = attempt->own,
		.from_cnt = attempt->theirs_cnt,
		.to_cnt = attempt->own_cnt,
		.from_ports_cnt = attempt->memory.rkeys_cnt,
		.to_ports_cnt = own_ports_cnt,
	};
}

/* Its place in our own list. */
static uint32_t own_of(const struct sxt_attempt *attempt, const struct sxt_pair *pair)
{
	return is_connecting(attempt) ? pair->from : pair->to;
}

static int pair_find(const struct sxt_attempt *attempt, uint32_t path, uint32_t epoch,
		     struct sxt_pair *out)
{
	const struct sxt_pair_ends ends = ends_of(attempt);

	return sxt_pair_of(&ends, path, epoch & SXT_EPOCH_TRY_MASK, out);
}

void sxt_prove_tried(const struct sxt_attempt *attempt, char *out, size_t out_bytes)
{
	const struct sxt_pair_ends ends = ends_of(attempt);

	sxt_pairs_text(&ends, 0, out, out_bytes);
}

int sxt_prove_fail(struct sxt_attempt *attempt)
{
	char tried[256];

	sxt_prove_tried(attempt, tried, sizeof(tried));
	if (tried[0] == '\0')
		return sxt_attempt_fail(
			attempt, -ENETUNREACH,
			"no address of one side fits one of the other (RoCE version, "
			"address family): give both ports an address of one kind; "
			"compare them with `show_gids`");
	return sxt_attempt_fail(attempt, -ENETUNREACH,
				"no pair of addresses carries packets (%s): check cable, VLAN and "
				"routes between the ports, or leave them out with NCCL_IB_HCA",
				tried);
}

/* Make a path's queue pair where a pair wants it; patience for its probe is kept in the path. */
static int path_place(struct sxt_attempt *attempt, uint32_t index, uint32_t epoch,
		      const struct sxt_pair *pair)
{
	struct sxt_conn *conn = attempt->conn;
	uint32_t own = own_of(attempt, pair);
	int rc = sxt_path_discard(conn, index);

	if (rc == 0)
		rc = sxt_path_create(conn, index, attempt->own[own].place,
				     &attempt->own_places[own]);
	if (rc == 0)
		conn->paths[index].local.path.epoch = epoch;
	return rc == 0 ? 0 : sxt_attempt_fail(attempt, rc, "making its queue pair");
}

static void path_address(struct sxt_attempt *attempt, uint32_t index, const struct sxt_pair *pair)
{
	attempt->conn->paths[index].patience_ns = pair->patience_ns;
	sxt_path_move(attempt->conn, index, &attempt->own_places[own_of(attempt, pair)]);
}

/* The best address of the preferred port, or of the next one that has any. */
static uint32_t first_of(const struct sxt_attempt *attempt, uint32_t index)
{
	uint32_t ports_cnt = attempt->nic->ports_cnt;

	for (uint32_t i = 0; i < ports_cnt; i++) {
		for (uint32_t j = 0; j < attempt->own_cnt; j++) {
			if (attempt->own[j].place == (index + i) % ports_cnt)
				return j;
		}
	}
	return 0;
}

int sxt_prove_offer(struct sxt_attempt *attempt)
{
	struct sxt_conn *conn = attempt->conn;
	int rc = 0;

	for (uint32_t i = 0; i < conn->paths_cnt && rc == 0; i++) {
		uint32_t first = first_of(attempt, i);

		/* Offered before, over a channel that has died. */
		rc = sxt_path_discard(conn, i);
		if (rc == 0)
			rc = sxt_path_create(conn, i, attempt->own[first].place,
					     &attempt->own_places[first]);
		conn->paths[i].local.path.epoch = attempt->resort.moves_cnt << SXT_EPOCH_MOVE_SHIFT;
	}
	return rc == 0 ? 0 : sxt_attempt_fail(attempt, rc, "making its queue pair");
}

/* One path of the accepting end to the peer's try; sets its bit where that cannot be. */
static int path_answer(struct sxt_attempt *attempt, uint32_t index, uint64_t *failed)
{
	struct sxt_path *path = &attempt->conn->paths[index];
	struct sxt_wire_path *peer = &attempt->paths[index];
	struct sxt_pair pair;
	int rc;

	if (path->qp != NULL && path->local.path.epoch == peer->epoch)
		return 0;
	rc = pair_find(attempt, index, peer->epoch, &pair);
	if (rc != 0 || attempt->theirs[pair.from].place != peer->place) {
		*failed |= 1ull << index;
		return 0;
	}
	memcpy(peer->gid, attempt->theirs[pair.from].gid, sizeof(peer->gid));
	peer->gid_type = attempt->theirs[pair.from].gid_type;
	rc = path_place(attempt, index, peer->epoch, &pair);
	if (rc == 0)
		path_address(attempt, index, &pair);
	return rc;
}

int sxt_prove_answer(struct sxt_attempt *attempt, uint64_t *failed_out)
{
	uint64_t failed = 0;
	int rc = sxt_attempt_check_links(attempt);

	if (rc == 0)
		rc = sxt_resort_follow(attempt);
	theirs_complete(attempt);
	for (uint32_t i = 0; i < attempt->conn->paths_cnt && rc == 0; i++)
		rc = path_answer(attempt, i, &failed);
	if (rc == 0 && failed == 0)
		rc = sxt_attempt_start_conn(attempt);
	*failed_out = failed;
	return rc;
}

int sxt_prove_join(struct sxt_attempt *attempt)
{
	int rc = sxt_attempt_check_links(attempt);

	theirs_complete(attempt);
	for (uint32_t i = 0; i < attempt->conn->paths_cnt && rc == 0; i++) {
		const struct sxt_path *path = &attempt->conn->paths[i];
		struct sxt_pair pair;

		if (path->is_joined)
			continue;
		rc = pair_find(attempt, i, path->local.path.epoch, &pair);
		if (rc != 0)
			return sxt_prove_fail(attempt);
		path_address(attempt, i, &pair);
	}
	return rc == 0 ? sxt_attempt_start_conn(attempt) : rc;
}

/* A first try that was never joined stood on a port that no pair begins with. */
static uint32_t next_epoch(const struct sxt_path *path)
{
	uint32_t epoch = path->local.path.epoch;
	bool is_first = (epoch & SXT_EPOCH_TRY_MASK) == 0;

	return epoch + (is_first && path->is_joined ? 2 : 1);
}

static void tell_next(const struct sxt_attempt *attempt, const struct sxt_path *path)
{
	char from[64];
	char to[64];

	if (!path->is_joined)
		return;
	sxt_gid_text(path->local.path.gid, from, sizeof(from));
	sxt_gid_text(path->peer.gid, to, sizeof(to));
	SXT_LOG(SXT_LOG_INFO,
		"connect to %s: no packet passes from %s %s to %s %s (%s), or none comes back; "
		"trying another pair of addresses",
		attempt->conn->peer_name, path->port->label, from, path->peer.hca, to,
		path->local.path.link_layer == SXT_LINK_ETHERNET
			? sxt_gid_type_text(path->local.path.gid_type)
			: "InfiniBand");
}

/*
 * The NICs that NCCL named, if they have a subnet in common, have all their pairs tried before
 * others get their turn, and at least two probes, since one may be lost. Without, they are left at
 * once where others have one. Of others the best pairs are tried.
 */
static bool is_enough(struct sxt_attempt *attempt, uint32_t epoch, const struct sxt_pair *pair)
{
	const struct sxt_pair_ends ends = ends_of(attempt);
	uint32_t tries = (epoch & SXT_EPOCH_TRY_MASK) - 1;
	bool is_near = sxt_pairs_near(&ends);

	if (attempt->resort.is_whole)
		return false;
	if (attempt->resort.moves_cnt != 0)
		return pair->is_again || tries > (is_near ? 1u : 0u);
	if (is_near && (!pair->is_again || tries < 2))
		return false;
	return tries > 0 && sxt_resort_beckons(attempt);
}

int sxt_prove_retry(struct sxt_attempt *attempt, uint64_t failed)
{
	int rc = 0;

	for (uint32_t i = 0; i < attempt->conn->paths_cnt && rc == 0; i++) {
		struct sxt_path *path = &attempt->conn->paths[i];
		uint32_t epoch = next_epoch(path);
		struct sxt_pair pair;

		if ((failed >> i & 1u) == 0)
			continue;
		tell_next(attempt, path);
		rc = pair_find(attempt, i, epoch, &pair);
		if (rc == 0 && is_enough(attempt, epoch, &pair))
			rc = -ENETUNREACH;
		if (rc == 0)
			rc = path_place(attempt, i, epoch, &pair);
	}
	return rc;
}

void sxt_prove_send(struct sxt_attempt *attempt)
{
	struct sxt_conn *conn = attempt->conn;

	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		if (conn->paths[i].probe == SXT_PROBE_NONE)
			sxt_path_probe(conn, i);
	}
}

int sxt_prove_wait(struct sxt_attempt *attempt, uint64_t *failed_out)
{
	struct sxt_conn *conn = attempt->conn;
	uint64_t now_ns = attempt->ib->sys->now_ns();
	uint64_t failed = 0;
	bool waits = false;

	sxt_context_own(conn->ctx);
	sxt_ignore(sxt_data_drain_all(conn));
	for (uint32_t i = 0; i < conn->paths_cnt; i++) {
		const struct sxt_path *path = &conn->paths[i];

		if (path->probe == SXT_PROBE_SENT && now_ns < path->probe_end_ns)
			waits = true;
		else if (path->probe != SXT_PROBE_ACKED)
			failed |= 1ull << i;
	}
	sxt_context_disown(conn->ctx);
	if (waits)
		return -EAGAIN;
	*failed_out = failed;
	return 0;
}
