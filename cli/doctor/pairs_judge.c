/*
 * pairs_judge.c - which pair is at fault and why: what was tried, as findings in the own end's
 * view. Numbers are compared as shares of what the slower port of a pair can.
 */
#include "cli/doctor/pairs.h"

#include "ib/gid.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_PERCENT 70      /* of the median */
#define WHOLE_PPM    1000000 /* a share is in millionths of what the slower port can */

struct judge {
	const struct sxt_pairs *pairs;
	struct sxt_doctor *d;
	enum sxt_pairs_end own;
	enum sxt_pairs_end peer;
	uint32_t good_cnt;
	bool alone[2][SXT_PAIRS_PORTS_MAX];
	uint32_t told[SXT_FINDINGS_CNT];
};

/* A pair in the judge's view. */
struct view {
	const struct sxt_pairs_cell *cell;
	uint32_t at[2]; /* numbers of the ports, by end */
	const struct sxt_pairs_port *here;
	const struct sxt_pairs_port *there;
};

static struct view view_of(const struct judge *j, uint32_t caller, uint32_t listener)
{
	const struct sxt_pairs_port *ports[2] = {
		&j->pairs->hosts[SXT_PAIRS_CALLER].ports[caller],
		&j->pairs->hosts[SXT_PAIRS_LISTENER].ports[listener],
	};

	return (struct view){
		.cell = sxt_pairs_cell_of(j->pairs, caller, listener),
		.at = {caller, listener},
		.here = ports[j->own],
		.there = ports[j->peer],
	};
}

/* Findings of one kind; the matrix has them all. */
static uint32_t most_of(enum sxt_finding_id id)
{
	return sxt_finding_kinds[id].severity == SXT_SEVERITY_INFO ? 1 : 6;
}

static SXT_PRINTF(5, 6) void tell(struct judge *j, enum sxt_finding_id id, const struct view *v,
				  const char *arrow, const char *fmt, ...)
{
	char object[200];
	char seen[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(seen, sizeof(seen), fmt, args);
	va_end(args);
	snprintf(object, sizeof(object), "%s %s %s", v->here->name, arrow, v->there->name);
	if (j->told[id]++ < most_of(id))
		sxt_doctor_add(j->d, id, object, NULL, "%s", seen);
}

static void tell_rest(struct judge *j)
{
	for (int i = 0; i < SXT_FINDINGS_CNT; i++) {
		enum sxt_finding_id id = (enum sxt_finding_id)i;

		if (j->told[id] > most_of(id))
			sxt_doctor_add(j->d, id, "and more", NULL,
				       "%u pairs in all; the matrix shows them, --json has why",
				       j->told[id]);
	}
}

static void subnet_text(const struct sxt_wire_candidate *address, uint8_t prefix_len, char *out,
			size_t out_bytes)
{
	uint32_t bits = (sxt_gid_is_ipv4(address->gid) ? 96u : 0) + prefix_len;
	uint8_t raw[16] = {0};
	char text[64];

	memcpy(raw, address->gid, bits < 128 ? bits / 8 : sizeof(raw));
	if (bits < 128)
		raw[bits / 8] = (uint8_t)(address->gid[bits / 8] & ~(0xffu >> bits % 8));
	sxt_gid_text(raw, text, sizeof(text));
	snprintf(out, out_bytes, "%s/%u", text, prefix_len);
}

static bool ib_subnets_text(const uint8_t *own, const uint8_t *peer, char *out, size_t out_bytes)
{
	bool same = memcmp(own, peer, 8) == 0;

	snprintf(out, out_bytes, "%s",
		 same ? "one InfiniBand subnet" : "different InfiniBand subnets");
	return same;
}

/* Own subnet first. Return: true if it is one subnet, as far as the addresses tell. */
static bool subnets_text(const struct judge *j, const struct view *v, char *out, size_t out_bytes)
{
	const struct sxt_wire_candidate *own = &v->here->addresses[v->cell->address[j->own]];
	const struct sxt_wire_candidate *peer = &v->there->addresses[v->cell->address[j->peer]];
	uint8_t known = own->prefix_len != 0 ? own->prefix_len : peer->prefix_len;
	uint8_t len = known != 0 ? known : sxt_gid_is_ipv4(own->gid) ? 24 : 64;
	enum sxt_gid_class cls = sxt_gid_class_of(own->gid);
	char a[80];
	char b[80];

	if (own->link_layer == SXT_LINK_INFINIBAND)
		return ib_subnets_text(own->gid, peer->gid, out, out_bytes);
	if (cls == SXT_GID_IPV4_LOCAL || cls == SXT_GID_IPV6_LOCAL) {
		snprintf(out, out_bytes, "link-local addresses, which do not tell the subnet");
		return false;
	}
	if (sxt_gid_same_subnet(own->gid, peer->gid, len)) {
		subnet_text(own, len, a, sizeof(a));
		snprintf(out, out_bytes, "both %s in %s", known != 0 ? "are" : "seem to be", a);
		return true;
	}
	subnet_text(own, len, a, sizeof(a));
	subnet_text(peer, len, b, sizeof(b));
	snprintf(out, out_bytes, "different subnets %s and %s", a, b);
	return false;
}

static void kinds_text(const struct sxt_pairs_port *port, char *out, size_t out_bytes)
{
	size_t used = 0;

	out[0] = '\0';
	if (port->link_layer == SXT_LINK_INFINIBAND) {
		snprintf(out, out_bytes, "InfiniBand");
		return;
	}
	for (uint32_t i = 0; i < port->addresses_cnt && used < out_bytes; i++) {
		char kind[64];

		snprintf(kind, sizeof(kind), "%s %s",
			 sxt_gid_type_text(port->addresses[i].gid_type),
			 sxt_gid_class_text(sxt_gid_class_of(port->addresses[i].gid)));
		if (strstr(out, kind) == NULL)
			used += (size_t)snprintf(out + used, out_bytes - used, "%s%s",
						 used != 0 ? ", " : "", kind);
	}
}

/* Why a pair does not work, in words that stand behind "A -> B: ". */
static void reason_text(const struct judge *j, const struct view *v, char *out, size_t out_bytes)
{
	const struct sxt_pairs_way *own = &v->cell->way[j->own];
	const struct sxt_pairs_way *peer = &v->cell->way[j->peer];
	char here[190]; /* both fit with what stands around them */
	char there[190];

	if (v->cell->state == SXT_PAIRS_UNFIT) {
		kinds_text(v->here, here, sizeof(here));
		kinds_text(v->there, there, sizeof(there));
		snprintf(out, out_bytes, "%s here, %s there", here, there);
		return;
	}
	if (own->why[0] != '\0' || peer->why[0] != '\0') {
		snprintf(out, out_bytes, "%s: %s", own->why[0] != '\0' ? "here" : "there",
			 own->why[0] != '\0' ? own->why : peer->why);
		return;
	}
	sxt_ignore(subnets_text(j, v, here, sizeof(here)));
	snprintf(out, out_bytes, "no acknowledgement in 2 s: %s", here);
}

/* Does exactly one direction lose what is sent? */
static bool is_one_way(const struct sxt_pairs_cell *cell)
{
	bool passes[2];

	for (int end = 0; end < 2; end++)
		passes[end] = cell->way[end].acked || cell->way[end].arrived;
	return cell->state == SXT_PAIRS_SILENT &&
	       (passes[0] != passes[1] || cell->way[0].acked != cell->way[1].acked);
}

static const char *arrow_of(const struct judge *j, int sender)
{
	return sender == (int)j->own ? "->" : "<-";
}

static void judge_one_way(struct judge *j, const struct view *v)
{
	const struct sxt_pairs_way *own = &v->cell->way[j->own];
	const struct sxt_pairs_way *peer = &v->cell->way[j->peer];
	bool own_passes = own->acked || (own->arrived && !peer->acked && !peer->arrived);
	const struct sxt_pairs_way *bad = own_passes ? peer : own;

	tell(j, SXT_FINDING_PAIRS_ONE_WAY, v, own_passes ? "<-" : "->",
	     "what %s sends gets through, what %s sends %s%s%s",
	     own_passes ? "this host" : "the other", own_passes ? "the other" : "this host",
	     bad->arrived ? "arrives but is not acknowledged" : "does not arrive",
	     bad->why[0] != '\0' ? ": " : "", bad->why);
}

/* What a pair that does not work is a case of. */
static enum sxt_finding_id kind_of(const struct judge *j, const struct view *v)
{
	char subnets[200];

	if (v->cell->state == SXT_PAIRS_UNMADE)
		return SXT_FINDING_PAIRS_UNMADE;
	if (is_one_way(v->cell))
		return SXT_FINDING_PAIRS_ONE_WAY;
	if (j->good_cnt > 0 && (j->alone[0][v->at[0]] || j->alone[1][v->at[1]]))
		return SXT_FINDING_PAIRS_ALONE;
	if (v->cell->state == SXT_PAIRS_UNFIT)
		return SXT_FINDING_PAIRS_UNFIT;
	if (!subnets_text(j, v, subnets, sizeof(subnets)))
		return SXT_FINDING_PAIRS_APART;
	return v->cell->state == SXT_PAIRS_REFUSED ? SXT_FINDING_PAIRS_REFUSED
						   : SXT_FINDING_PAIRS_SILENT;
}

static void judge_dead(struct judge *j, const struct view *v)
{
	enum sxt_finding_id kind = kind_of(j, v);
	char why[400];

	reason_text(j, v, why, sizeof(why));
	if (kind == SXT_FINDING_PAIRS_ONE_WAY)
		judge_one_way(j, v);
	else if (kind != SXT_FINDING_PAIRS_ALONE) /* told of the port */
		tell(j, kind, v, "->", "%s", why);
}

static void judge_late(struct judge *j, const struct view *v)
{
	char here[64];
	char there[64];

	sxt_gid_text(v->here->addresses[v->cell->address[j->own]].gid, here, sizeof(here));
	sxt_gid_text(v->there->addresses[v->cell->address[j->peer]].gid, there, sizeof(there));
	tell(j, SXT_FINDING_PAIRS_LATE, v, "->", "it took %u tries, the last with %s -> %s",
	     v->cell->tries_cnt, here, there);
}

static void judge_good(struct judge *j, const struct view *v)
{

	for (int end = 0; end < 2; end++) {
		const struct sxt_pairs_way *way = &v->cell->way[end];

		if (way->broke)
			tell(j, SXT_FINDING_PAIRS_LARGE, v, arrow_of(j, end),
			     "writes of 256 KiB in packets of %u bytes: %s",
			     128u << (v->here->mtu < v->there->mtu ? v->here->mtu : v->there->mtu),
			     way->why[0] != '\0' ? way->why : "no acknowledgement in 2 s");
	}
	if (v->cell->tries_cnt > 1)
		judge_late(j, v);
	if (v->here->mtu != v->there->mtu)
		tell(j, SXT_FINDING_PAIRS_MTU, v, "->", "%u here, %u there", 128u << v->here->mtu,
		     128u << v->there->mtu);
	if (v->here->speed_mbps != v->there->speed_mbps)
		tell(j, SXT_FINDING_PAIRS_SPEED, v, "->", "%u Gb/s here, %u Gb/s there",
		     v->here->speed_mbps / 1000, v->there->speed_mbps / 1000);
}

static uint32_t limit_mbps(const struct sxt_pairs *pairs, uint32_t caller, uint32_t listener)
{
	uint32_t a = pairs->hosts[SXT_PAIRS_CALLER].ports[caller].speed_mbps;
	uint32_t b = pairs->hosts[SXT_PAIRS_LISTENER].ports[listener].speed_mbps;
	uint32_t least = a < b ? a : b;

	return least != 0 ? least : 1000000; /* unknown: only compared with its like */
}

/* Of what the slower port can; 0 where nothing was measured. */
static uint32_t share(const struct sxt_pairs *pairs, uint32_t caller, uint32_t listener, int end)
{
	const struct sxt_pairs_cell *cell = sxt_pairs_cell_of(pairs, caller, listener);

	if (cell->state != SXT_PAIRS_GOOD || cell->way[end].mbps == 0)
		return 0;
	return (uint32_t)((uint64_t)cell->way[end].mbps * WHOLE_PPM /
			  limit_mbps(pairs, caller, listener)) +
	       1;
}

static int compare_u32(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left;
	uint32_t b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

static uint32_t median(uint32_t *values, uint32_t cnt)
{
	if (cnt == 0)
		return 0;
	qsort(values, cnt, sizeof(*values), compare_u32);
	return values[cnt / 2];
}

/* Of all pairs where @sender sends: two hosts need not be alike. */
static uint32_t median_of_host(const struct sxt_pairs *pairs, int sender)
{
	uint32_t values[SXT_PAIRS_PORTS_MAX * SXT_PAIRS_PORTS_MAX];
	uint32_t cnt = 0;

	for (uint32_t row = 0; row < pairs->hosts[SXT_PAIRS_CALLER].ports_cnt; row++) {
		for (uint32_t i = 0; i < pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt; i++) {
			uint32_t value = share(pairs, row, i, sender);

			if (value > 0)
				values[cnt++] = value;
		}
	}
	return median(values, cnt);
}

/* Of one port of an end, where it sends (to the other end) or where the other end sends to it. */
static uint32_t median_of_port(const struct sxt_pairs *pairs, int end, uint32_t port, int sender,
			       uint32_t *cnt_out)
{
	uint32_t values[SXT_PAIRS_PORTS_MAX];
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < pairs->hosts[!end].ports_cnt; i++) {
		uint32_t value = end == SXT_PAIRS_CALLER ? share(pairs, port, i, sender)
							 : share(pairs, i, port, sender);

		if (value > 0)
			values[cnt++] = value;
	}
	*cnt_out = cnt;
	return median(values, cnt);
}

static bool is_slow(uint32_t value, uint32_t usual)
{
	return value > 0 && (uint64_t)value * 100 < (uint64_t)usual * SLOW_PERCENT;
}

static bool is_slow_host(const struct sxt_pairs *pairs, int sender)
{
	return is_slow(median_of_host(pairs, sender), median_of_host(pairs, !sender));
}

void sxt_pairs_slow(const struct sxt_pairs *pairs, uint8_t *out)
{
	uint32_t columns = pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt;

	memset(out, 0, (size_t)pairs->hosts[SXT_PAIRS_CALLER].ports_cnt * columns);
	for (int end = 0; end < 2; end++) {
		uint32_t usual = median_of_host(pairs, is_slow_host(pairs, end) ? !end : end);

		for (uint32_t i = 0; i < pairs->hosts[SXT_PAIRS_CALLER].ports_cnt * columns; i++) {
			if (is_slow(share(pairs, i / columns, i % columns, end), usual))
				out[i] |= (uint8_t)(1u << end);
		}
	}
}

/* A port with several pairs, all of them slow where @sender sends. */
static bool is_slow_port(const struct sxt_pairs *pairs, int end, uint32_t port, int sender)
{
	uint32_t cnt;
	uint32_t value = median_of_port(pairs, end, port, sender, &cnt);

	return cnt > 1 && is_slow(value, median_of_host(pairs, sender));
}

static double gbps_of(uint32_t share_ppm, uint32_t speed_mbps)
{
	return (double)share_ppm * speed_mbps / (1e3 * WHOLE_PPM);
}

static void judge_speeds_of_ports(struct judge *j)
{
	for (int n = 0; n < 4; n++) {
		int end = n / 2;
		int sender = n % 2;
		const struct sxt_pairs_host *host = &j->pairs->hosts[end];

		for (uint32_t i = 0; i < host->ports_cnt; i++) {
			char object[100];
			uint32_t cnt;

			if (!is_slow_port(j->pairs, end, i, sender))
				continue;
			snprintf(object, sizeof(object), "%s %s", host->ports[i].name,
				 end == (int)j->own ? "here" : "there");
			sxt_doctor_add(j->d, SXT_FINDING_PAIRS_SLOW_PORT, object, NULL,
				       "%s about %.2f Gb/s; as the other ports it would be %.2f",
				       sender == end ? "sends" : "receives",
				       gbps_of(median_of_port(j->pairs, end, i, sender, &cnt),
					       host->ports[i].speed_mbps),
				       gbps_of(median_of_host(j->pairs, sender),
					       host->ports[i].speed_mbps));
		}
	}
}

static void judge_speed_of_pair(struct judge *j, int sender, uint32_t usual, const struct view *v)
{
	if (!is_slow(share(j->pairs, v->at[0], v->at[1], sender), usual) ||
	    is_slow_port(j->pairs, SXT_PAIRS_CALLER, v->at[0], sender) ||
	    is_slow_port(j->pairs, SXT_PAIRS_LISTENER, v->at[1], sender))
		return;
	tell(j, SXT_FINDING_PAIRS_SLOW, v, arrow_of(j, sender),
	     "%.2f Gb/s; as the other pairs it would be %.2f", v->cell->way[sender].mbps / 1e3,
	     gbps_of(usual, limit_mbps(j->pairs, v->at[0], v->at[1])));
}

/* Pairs that no slow port explains. */
static void judge_speeds_of_pairs(struct judge *j, int sender)
{
	uint32_t usual = median_of_host(j->pairs, sender);

	for (uint32_t row = 0; row < j->pairs->hosts[SXT_PAIRS_CALLER].ports_cnt; row++) {
		for (uint32_t i = 0; i < j->pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt; i++) {
			struct view v = view_of(j, row, i);

			judge_speed_of_pair(j, sender, usual, &v);
		}
	}
}

static void judge_speeds(struct judge *j)
{
	uint32_t usual[2] = {median_of_host(j->pairs, 0), median_of_host(j->pairs, 1)};
	uint32_t better = usual[0] > usual[1] ? usual[0] : usual[1];

	judge_speeds_of_ports(j);
	for (int end = 0; end < 2; end++) {
		judge_speeds_of_pairs(j, end);
		if (is_slow_host(j->pairs, end))
			sxt_doctor_add(j->d, SXT_FINDING_PAIRS_SLOW_HOST, j->pairs->hosts[end].name,
				       NULL,
				       "%u%% of what the slower port of each pair can, %u%% the "
				       "other way",
				       usual[end] / (WHOLE_PPM / 100),
				       usual[!end] / (WHOLE_PPM / 100));
	}
	if (better > 0 && better < WHOLE_PPM / 2)
		sxt_doctor_add(j->d, SXT_FINDING_PAIRS_BELOW_LINE, "most pairs", NULL,
			       "%u%% of what the slower port of each can",
			       better / (WHOLE_PPM / 100));
}

static void find_alone(struct judge *j)
{
	uint32_t columns = j->pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt;

	memset(j->alone, true, sizeof(j->alone));
	for (uint32_t i = 0; i < j->pairs->hosts[SXT_PAIRS_CALLER].ports_cnt * columns; i++) {
		if (j->pairs->cells[i].state != SXT_PAIRS_GOOD)
			continue;
		j->alone[SXT_PAIRS_CALLER][i / columns] = false;
		j->alone[SXT_PAIRS_LISTENER][i % columns] = false;
		j->good_cnt++;
	}
}

static struct view view_from(const struct judge *j, int end, uint32_t port, uint32_t other)
{
	return end == SXT_PAIRS_CALLER ? view_of(j, port, other) : view_of(j, other, port);
}

/* The pair of a port that would have been the likeliest: within one subnet, else of its number. */
static struct view likeliest(const struct judge *j, int end, uint32_t port)
{
	uint32_t cnt = j->pairs->hosts[!end].ports_cnt;
	char text[200];

	for (uint32_t i = 0; i < cnt; i++) {
		struct view v = view_from(j, end, port, i);

		if (v.cell->state != SXT_PAIRS_UNFIT && subnets_text(j, &v, text, sizeof(text)))
			return v;
	}
	return view_from(j, end, port, port < cnt ? port : 0);
}

static void judge_alone(struct judge *j)
{
	for (int end = 0; end < 2; end++) {
		const struct sxt_pairs_host *host = &j->pairs->hosts[end];

		for (uint32_t i = 0; i < host->ports_cnt; i++) {
			struct view v;
			char object[100];
			char why[400];

			if (!j->alone[end][i])
				continue;
			v = likeliest(j, end, i);
			reason_text(j, &v, why, sizeof(why));
			snprintf(object, sizeof(object), "%s %s", host->ports[i].name,
				 end == (int)j->own ? "here" : "there");
			sxt_doctor_add(j->d, SXT_FINDING_PAIRS_ALONE, object, NULL, "%s -> %s: %s",
				       v.here->name, v.there->name, why);
		}
	}
}

static void judge_hosts(struct judge *j)
{
	struct sxt_pairs_advice advice;

	sxt_pairs_advise(j->pairs, &advice);
	if (advice.rails_cnt > 1)
		sxt_doctor_add(j->d, SXT_FINDING_PAIRS_RAILS, "all ports", NULL,
			       "%u rails; the matrix shows which", advice.rails_cnt);
	for (int end = 0; end < 2; end++) {
		const struct sxt_pairs_host *host = &j->pairs->hosts[end];

		if (host->left_out[0] != '\0')
			sxt_doctor_add(j->d, SXT_FINDING_PAIRS_LEFT_OUT, host->name, NULL, "%s",
				       host->left_out);
	}
}

static struct judge judge_of(const struct sxt_pairs *pairs)
{
	struct judge j = {
		.pairs = pairs,
		.own = pairs->own,
		.peer = pairs->own == SXT_PAIRS_CALLER ? SXT_PAIRS_LISTENER : SXT_PAIRS_CALLER,
	};

	find_alone(&j);
	return j;
}

bool sxt_pairs_is_apart(const struct sxt_pairs *pairs, uint32_t number)
{
	const struct judge j = judge_of(pairs);
	uint32_t columns = pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt;
	struct view v = view_of(&j, number / columns, number % columns);

	return v.cell->state != SXT_PAIRS_GOOD && j.good_cnt > 0 &&
	       kind_of(&j, &v) == SXT_FINDING_PAIRS_APART;
}

void sxt_pairs_judge(const struct sxt_pairs *pairs, struct sxt_doctor *d)
{
	struct judge j = judge_of(pairs);
	uint32_t columns = pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt;

	j.d = d;
	if (j.good_cnt == 0)
		sxt_doctor_add(d, SXT_FINDING_PAIRS_NONE, "all pairs", NULL, "%u tried, none works",
			       pairs->hosts[SXT_PAIRS_CALLER].ports_cnt * columns);
	else
		judge_alone(&j);
	for (uint32_t i = 0; i < pairs->hosts[SXT_PAIRS_CALLER].ports_cnt * columns; i++) {
		struct view v = view_of(&j, i / columns, i % columns);

		if (v.cell->state == SXT_PAIRS_GOOD)
			judge_good(&j, &v);
		else
			judge_dead(&j, &v);
	}
	judge_speeds(&j);
	judge_hosts(&j);
	tell_rest(&j);
}
