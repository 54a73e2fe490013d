/*
 * resort.c - moving a connection that is being made to other ports (slow path, polled).
 */
#include "ib/resort.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/attempt.h"
#include "ib/conn.h"
#include "ib/pairs.h"
#include "ib/process.h"
#include "ib/prove.h"
#include "ib/watcher.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What one NIC of an end has; index 0 is the named one, the others follow. */
static const struct sxt_wire_candidate *addresses(const struct sxt_resort_end *end, uint32_t index,
						  uint32_t *cnt_out)
{
	*cnt_out = index == 0 ? end->named_cnt : 1;
	return index == 0 ? end->named : &end->others[index - 1];
}

static uint8_t number_of(const struct sxt_resort_end *end, uint32_t index)
{
	return index == 0 ? SXT_RESORT_NAMED : end->others[index - 1].place;
}

/* Does a move to these two belong into this half of the plan? */
static bool belongs(const struct sxt_resort_end *from, uint32_t i, const struct sxt_resort_end *to,
		    uint32_t j, bool is_near)
{
	struct sxt_pair_ends ends = {0};

	if (i == 0 && j == 0)
		return false;
	ends.from = addresses(from, i, &ends.from_cnt);
	ends.to = addresses(to, j, &ends.to_cnt);
	if (ends.from_cnt == 0 || ends.to_cnt == 0 || ends.from->link_layer != ends.to->link_layer)
		return false;
	return sxt_pairs_near(&ends) == is_near;
}

static void add(struct sxt_resort_plan *plan, const struct sxt_resort_end *from, uint32_t i,
		const struct sxt_resort_end *to, uint32_t j)
{
	plan->moves[plan->moves_cnt++] = (struct sxt_resort_move){
		.from = number_of(from, i),
		.to = number_of(to, j),
		.is_whole = i == 0 && j == 0,
	};
}

/*
 * The named NIC of either end with the others of the other one, in turn; then others with others,
 * which have half of the moves at least, in case both named ones are of no use.
 */
static void add_all(struct sxt_resort_plan *plan, const struct sxt_resort_end *from,
		    const struct sxt_resort_end *to, bool is_near, uint32_t most)
{
	uint32_t longest = from->others_cnt > to->others_cnt ? from->others_cnt : to->others_cnt;
	uint32_t half = plan->moves_cnt + most / 2;
	uint32_t end = plan->moves_cnt + most;

	for (uint32_t k = 1; k <= longest && plan->moves_cnt < half; k++) {
		if (k <= to->others_cnt && belongs(from, 0, to, k, is_near))
			add(plan, from, 0, to, k);
		if (k <= from->others_cnt && plan->moves_cnt < half &&
		    belongs(from, k, to, 0, is_near))
			add(plan, from, k, to, 0);
	}
	for (uint32_t i = 1; i <= from->others_cnt; i++) {
		for (uint32_t j = 1; j <= to->others_cnt && plan->moves_cnt < end; j++) {
			if (belongs(from, i, to, j, is_near))
				add(plan, from, i, to, j);
		}
	}
}

void sxt_resort_plan_make(const struct sxt_resort_end *from, const struct sxt_resort_end *to,
			  struct sxt_resort_plan *out)
{
	out->moves_cnt = 0;
	add_all(out, from, to, true, SXT_RESORT_NEAR_MAX);
	out->near_cnt = out->moves_cnt;
	if (out->near_cnt > 0)
		add(out, from, 0, to, 0);
	add_all(out, from, to, false, SXT_RESORT_FAR_MAX);
}

static bool has_port(const struct sxt_nic *nic, const struct sxt_port *port)
{
	for (uint32_t i = 0; i < nic->ports_cnt; i++) {
		if (nic->ports[i] == port)
			return true;
	}
	return false;
}

/* NCCL was told what the named NIC carries; memory is registered for any. */
static bool can_replace(const struct sxt_nic *nic, const struct sxt_port *port)
{
	return port->link_layer == nic->ports[0]->link_layer &&
	       port->max_message_log2 >= nic->max_message_log2 && sxt_port_is_alive(port);
}

/* NICs of one port come first in the table, in the ports' order. */
static uint32_t ports_cnt(const struct sxt_ib *ib)
{
	return ib->ports_cnt < SXT_NICS_MAX ? (uint32_t)ib->ports_cnt : SXT_NICS_MAX;
}

uint32_t sxt_resort_others(const struct sxt_ib *ib, const struct sxt_nic *nic,
			   struct sxt_wire_candidate *out)
{
	bool is_alive = sxt_nic_is_alive(nic);
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < ports_cnt(ib) && cnt < SXT_OTHERS_MAX; i++) {
		struct sxt_port *port = ib->ports[i];
		struct sxt_port_seen seen;

		if ((is_alive && has_port(nic, port)) || !can_replace(nic, port))
			continue;
		sxt_port_seen_get(port, &seen);
		if (!seen.is_usable)
			continue;
		out[cnt] = (struct sxt_wire_candidate){
			.place = (uint8_t)i,
			.gid_type = seen.place.path.gid_type,
			.prefix_len = seen.prefix_len,
			.link_layer = seen.place.path.link_layer,
		};
		memcpy(out[cnt++].gid, seen.place.path.gid, sizeof(out->gid));
	}
	return cnt;
}

int sxt_resort_check(const struct sxt_ib *ib, const struct sxt_nic *nic, const char *what)
{
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];

	if (sxt_nic_is_alive(nic) || sxt_resort_others(ib, nic, others) > 0)
		return 0;
	SXT_LOG(SXT_LOG_ERROR,
		"%s: an HCA of %s failed for good (device fatal event), is not used any more by "
		"this process, and no other port can stand in; reset its driver, and see the "
		"kernel's log",
		what, nic->label);
	return -ENODEV;
}

/* The connecting end, not yet moved. */
static void plan(struct sxt_attempt *attempt)
{
	struct sxt_resort *resort = &attempt->resort;
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];
	const struct sxt_resort_end from = {
		.named = attempt->own,
		.named_cnt = attempt->nic == resort->named ? attempt->own_cnt : 0,
		.others = others,
		.others_cnt = sxt_resort_others(attempt->ib, resort->named, others),
	};
	const struct sxt_resort_end to = {
		.named = attempt->theirs,
		.named_cnt = attempt->theirs_cnt,
		.others = resort->others,
		.others_cnt = resort->others_cnt,
	};

	if (!resort->is_planned)
		sxt_resort_plan_make(&from, &to, &resort->plan);
	resort->is_planned = true;
}

bool sxt_resort_beckons(struct sxt_attempt *attempt)
{
	plan(attempt);
	return attempt->resort.plan.near_cnt > 0;
}

bool sxt_resort_prefers(struct sxt_attempt *attempt)
{
	const struct sxt_pair_ends ends = {
		.from = attempt->own,
		.to = attempt->theirs,
		.from_cnt = attempt->own_cnt,
		.to_cnt = attempt->theirs_cnt,
	};

	return attempt->ib->config->ib_subnet_aware != 0 && attempt->resort.moves_cnt == 0 &&
	       !sxt_pairs_near(&ends) && sxt_resort_beckons(attempt);
}

/* For messages; both ends leave the named NICs once at least. */
static void remember_tried(struct sxt_attempt *attempt)
{
	struct sxt_resort *resort = &attempt->resort;

	if (resort->tried[0] == '\0')
		sxt_prove_tried(attempt, resort->tried, sizeof(resort->tried));
	if (resort->tried[0] == '\0')
		snprintf(resort->tried, sizeof(resort->tried), "no address fits another");
}

/* @number: of a NIC of ours, or SXT_RESORT_NAMED. */
static int stand_on(struct sxt_attempt *attempt, uint8_t number)
{
	struct sxt_nic *nic =
		number == SXT_RESORT_NAMED ? attempt->resort.named : attempt->ib->nics[number];
	int rc;

	if (nic == attempt->nic)
		return 0;
	attempt->nic = nic;
	rc = attempt->conn != NULL ? sxt_conn_move(attempt->conn, nic) : 0;
	return rc == 0 ? 0 : sxt_attempt_fail(attempt, rc, "moving to another port");
}

static int fail(struct sxt_attempt *attempt)
{
	const struct sxt_resort *resort = &attempt->resort;

	if (resort->moves_cnt == 0)
		return sxt_prove_fail(attempt);
	return sxt_attempt_fail(
		attempt, -ENETUNREACH,
		"no pair of addresses carries packets (%s), nor does any of %u other "
		"pairs of ports of the two hosts: check cables, VLAN and routes, or "
		"leave ports out with NCCL_IB_HCA",
		resort->tried, resort->plan.moves_cnt - (resort->plan.near_cnt > 0 ? 1 : 0));
}

int sxt_resort_move(struct sxt_attempt *attempt)
{
	struct sxt_watcher *watcher = attempt->ib->watcher;
	struct sxt_resort *resort = &attempt->resort;
	const struct sxt_resort_move *move;
	int rc;

	plan(attempt);
	do {
		if (resort->plan_next == resort->plan.moves_cnt)
			return fail(attempt);
		remember_tried(attempt);
		move = &resort->plan.moves[resort->plan_next++];
		rc = stand_on(attempt, move->from);
		if (rc != 0)
			return rc;
		/* It may have gone down meanwhile. */
		rc = sxt_prove_look(attempt);
	} while (rc != 0);
	resort->moves_cnt++;
	resort->is_whole = move->is_whole;
	pthread_mutex_lock(&watcher->lock);
	resort->to = move->to;
	attempt->theirs_cnt = 0;
	pthread_mutex_unlock(&watcher->lock);
	return sxt_prove_offer(attempt);
}

int sxt_resort_follow(struct sxt_attempt *attempt)
{
	struct sxt_resort *resort = &attempt->resort;
	uint32_t moves_cnt = attempt->paths[0].epoch >> SXT_EPOCH_MOVE_SHIFT;
	int rc;

	if (moves_cnt == resort->moves_cnt)
		return 0;
	if (resort->to != SXT_RESORT_NAMED && resort->to >= ports_cnt(attempt->ib))
		return sxt_attempt_fail(attempt, -EPROTO,
					"the peer asks for NIC %u of this process, which has %u: "
					"do both sides run the same Sextant?",
					resort->to, ports_cnt(attempt->ib));
	remember_tried(attempt);
	resort->moves_cnt = moves_cnt;
	rc = stand_on(attempt, resort->to);
	if (rc == 0 && sxt_prove_look(attempt) != 0)
		attempt->own_cnt = 0;
	return rc;
}

/* The first of our other ports that has an address now. */
static int stand_on_any(struct sxt_attempt *attempt, int rc)
{
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];
	uint32_t cnt = sxt_resort_others(attempt->ib, attempt->resort.named, others);

	for (uint32_t i = 0; i < cnt; i++) {
		int stand_rc = stand_on(attempt, others[i].place);

		if (stand_rc != 0)
			return stand_rc;
		if (sxt_prove_look(attempt) == 0)
			return 0;
	}
	return sxt_attempt_fail(attempt, rc, "finding its address");
}

/* A dead HCA cannot even hold the memory of an end that offers no address of it. */
static int begin_beside_dead(struct sxt_attempt *attempt)
{
	struct sxt_resort *resort = &attempt->resort;
	int rc = sxt_resort_check(attempt->ib, resort->named, "making a connection");

	if (rc != 0)
		return sxt_attempt_fail(attempt, rc, "an HCA of %s failed", resort->named->label);
	snprintf(resort->tried, sizeof(resort->tried), "%.100s: its HCA failed",
		 resort->named->label);
	rc = stand_on_any(attempt, -ENODEV);
	if (rc == 0 && attempt->listener != NULL)
		attempt->own_cnt = 0;
	return rc;
}

int sxt_resort_begin(struct sxt_attempt *attempt)
{
	struct sxt_resort *resort = &attempt->resort;
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];
	int rc;

	memset(&resort->moves_cnt, 0,
	       offsetof(struct sxt_resort, plan) - offsetof(struct sxt_resort, moves_cnt));
	resort->to = SXT_RESORT_NAMED;
	if (!sxt_nic_is_alive(resort->named))
		return begin_beside_dead(attempt);
	rc = stand_on(attempt, SXT_RESORT_NAMED);
	if (rc != 0)
		return rc;
	rc = sxt_prove_look(attempt);
	if (rc == 0)
		return 0;
	snprintf(resort->tried, sizeof(resort->tried), "%.100s: %s", resort->named->label,
		 sxt_strerror(rc));
	/* The accepting end waits for the peer to choose among the others. */
	if (attempt->listener != NULL && sxt_resort_others(attempt->ib, resort->named, others) > 0)
		return 0;
	return stand_on_any(attempt, rc);
}

void sxt_resort_tell(const struct sxt_attempt *attempt)
{
	const struct sxt_resort *resort = &attempt->resort;
	const struct sxt_conn *conn = attempt->conn;
	bool is_wanted = attempt->ib->config->ib_subnet_aware != 0;
	bool was_told;

	if (attempt->nic == resort->named && resort->to == SXT_RESORT_NAMED)
		return;
	was_told =
		atomic_exchange_explicit(&resort->named->resort_told, true, memory_order_relaxed);
	SXT_LOG(was_told || is_wanted ? SXT_LOG_INFO : SXT_LOG_WARN,
		"NIC %s, peer %s: %s (%s), so port %s here and %s there carry the connection, "
		"continuing; if the two should reach each other, check cable, VLAN and routes",
		resort->named->label, conn->peer_name,
		is_wanted ? "the two NICs that NCCL chose have no subnet in common "
			    "(NCCL_IB_SUBNET_AWARE_ROUTING=1), or do not reach each other"
			  : "no packet passes between the two NICs that NCCL chose",
		resort->tried, attempt->nic->label, conn->paths[0].peer.hca);
}
