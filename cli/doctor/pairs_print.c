/*
 * pairs_print.c - what came out of all pairs: ports, matrix, findings, what to set; for a tired
 * reader in 80 columns, or as one JSON document.
 */
#include "cli/doctor/pairs.h"

#include "ib/gid.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 8 /* of the matrix, side by side */
#define NAME_WIDTH  14

static const char *const state_names[] = {
	[SXT_PAIRS_UNFIT] = "unfit",     [SXT_PAIRS_UNMADE] = "unmade",
	[SXT_PAIRS_REFUSED] = "refused", [SXT_PAIRS_SILENT] = "silent",
	[SXT_PAIRS_GOOD] = "good",
};

/* One report: what is at hand, from the own end. */
struct report {
	const struct sxt_pairs *pairs;
	int own;
	const struct sxt_pairs_host *here;
	const struct sxt_pairs_host *there;
	struct sxt_pairs_advice advice;
	uint8_t slow[SXT_PAIRS_PORTS_MAX * SXT_PAIRS_PORTS_MAX]; /* by cell */
};

static uint32_t cell_number(const struct report *r, uint32_t here, uint32_t there)
{
	uint32_t columns = r->pairs->hosts[SXT_PAIRS_LISTENER].ports_cnt;

	return r->own == SXT_PAIRS_CALLER ? here * columns + there : there * columns + here;
}

static void print_ports(const struct report *r)
{
	for (int end = 0; end < 2; end++) {
		const struct sxt_pairs_host *host = end == 0 ? r->here : r->there;

		printf("\n%-19.19s %-5s Gb/s   MTU  address\n", host->name,
		       end == 0 ? "here" : "there");
		for (uint32_t i = 0; i < host->ports_cnt; i++) {
			const struct sxt_pairs_port *port = &host->ports[i];
			char gid[64];

			sxt_gid_text(port->addresses[0].gid, gid, sizeof(gid));
			printf("  [%u]%*s%-*s %7u  %4u  %s %s\n", i, i < 10 ? 1 : 0, "", NAME_WIDTH,
			       port->name, port->speed_mbps / 1000, 128u << port->mtu,
			       port->link_layer == SXT_LINK_INFINIBAND
				       ? "InfiniBand"
				       : sxt_gid_type_text(port->addresses[0].gid_type),
			       gid);
		}
	}
}

static void rate_text(uint32_t mbps, char *out, size_t out_bytes)
{
	if (mbps >= 100000)
		snprintf(out, out_bytes, "%u", mbps / 1000);
	else if (mbps >= 1000)
		snprintf(out, out_bytes, "%.1f", mbps / 1e3);
	else
		snprintf(out, out_bytes, "%.2f", mbps / 1e3);
}

static enum sxt_severity cell_text(const struct report *r, uint32_t number, int sender, char *out,
				   size_t out_bytes)
{
	static const char *const marks[] = {
		[SXT_PAIRS_UNFIT] = "x",
		[SXT_PAIRS_UNMADE] = "!",
		[SXT_PAIRS_REFUSED] = "!",
		[SXT_PAIRS_SILENT] = "-",
	};
	const struct sxt_pairs_cell *cell = &r->pairs->cells[number];
	bool slow = (r->slow[number] >> sender & 1u) != 0;
	char rate[12];

	if (cell->state != SXT_PAIRS_GOOD) {
		bool apart = sxt_pairs_is_apart(r->pairs, number);

		snprintf(out, out_bytes, "%s", apart ? "." : marks[cell->state]);
		return apart ? SXT_SEVERITY_INFO : SXT_SEVERITY_BROKEN;
	}
	if (cell->way[sender].broke) {
		snprintf(out, out_bytes, "small");
		return SXT_SEVERITY_BROKEN;
	}
	rate_text(cell->way[sender].mbps, rate, sizeof(rate));
	snprintf(out, out_bytes, "%s%s", slow ? "*" : "", rate);
	return slow ? SXT_SEVERITY_WARNING : SXT_SEVERITY_OK;
}

static void print_cell(const struct report *r, uint32_t number, int sender)
{
	char text[16];
	const char *begin = sxt_doctor_colour(cell_text(r, number, sender, text, sizeof(text)));

	printf("%s%7s%s", begin, text, begin[0] != '\0' ? "\033[0m" : "");
}

/* Some columns of one direction's matrix. */
static void print_columns(const struct report *r, int sender, uint32_t first)
{
	uint32_t end = first + COLUMNS_MAX < r->there->ports_cnt ? first + COLUMNS_MAX
								 : r->there->ports_cnt;

	printf("%*s", NAME_WIDTH + 6, "");
	for (uint32_t i = first; i < end; i++) {
		char head[16];

		snprintf(head, sizeof(head), "[%u]", i);
		printf("%7s", head);
	}
	for (uint32_t i = 0; i < r->here->ports_cnt; i++) {
		printf("\n  [%u]%*s%-*.*s", i, i < 10 ? 1 : 0, "", NAME_WIDTH, NAME_WIDTH,
		       r->here->ports[i].name);
		for (uint32_t k = first; k < end; k++)
			print_cell(r, cell_number(r, i, k), sender);
	}
	putchar('\n');
}

static void print_matrix(const struct report *r)
{
	for (int n = 0; n < 2; n++) {
		int sender = n == 0 ? r->own : !r->own;

		printf("\nGb/s that %s (rows) %s %s (columns)\n", r->here->name,
		       n == 0 ? "sends to" : "receives from", r->there->name);
		for (uint32_t i = 0; i < r->there->ports_cnt; i += COLUMNS_MAX)
			print_columns(r, sender, i);
	}
	puts("  . another subnet   - no answer   x no addresses that fit   ! refused   * slow\n"
	     "  small: only small packets pass");
}

static void print_advice(const struct report *r)
{
	const char *here = r->advice.set[r->own];
	const char *there = r->advice.set[!r->own];

	if (r->advice.rails_cnt == 0)
		puts("No NCCL_IB_HCA helps while no pair works.");
	else if (here[0] == '\0' && there[0] == '\0')
		puts("NCCL_IB_HCA needs no change on either host.");
	for (int n = 0; n < 2; n++) {
		const char *set = n == 0 ? here : there;

		if (set[0] != '\0')
			printf("For these two hosts, on %s (%s):\n  export NCCL_IB_HCA='%s'\n",
			       n == 0 ? r->here->name : r->there->name, n == 0 ? "here" : "there",
			       set);
	}
}

static int print_text(const struct report *r, const struct sxt_doctor *d)
{
	printf("sextant doctor pairs: %s (here) %u port%s, %s (there) %u port%s\n", r->here->name,
	       r->here->ports_cnt, r->here->ports_cnt == 1 ? "" : "s", r->there->name,
	       r->there->ports_cnt, r->there->ports_cnt == 1 ? "" : "s");
	print_ports(r);
	print_matrix(r);
	if (d->findings_cnt > 0)
		sxt_doctor_print_theme(d, SXT_THEME_PAIRS);
	putchar('\n');
	print_advice(r);
	return sxt_doctor_end_text(d);
}

static json_t *port_json(const struct sxt_pairs_port *port)
{
	char gid[64];

	sxt_gid_text(port->addresses[0].gid, gid, sizeof(gid));
	return json_pack("{s:s, s:I, s:i, s:s, s:s, s:s}", "name", port->name, "speed_mbps",
			 (json_int_t)port->speed_mbps, "mtu", 128 << port->mtu, "link_layer",
			 port->link_layer == SXT_LINK_INFINIBAND ? "infiniband" : "ethernet",
			 "gid_type", sxt_gid_type_text(port->addresses[0].gid_type), "address",
			 gid);
}

/* @set: what to set, null for nothing. */
static json_t *host_json(const struct sxt_pairs_host *host, const char *set)
{
	json_t *ports = json_array();

	for (uint32_t i = 0; i < host->ports_cnt; i++)
		json_array_append_new(ports, port_json(&host->ports[i]));
	return json_pack("{s:s, s:s, s:s, s:o, s:s?}", "name", host->name, "version", host->version,
			 "left_out", host->left_out, "ports", ports, "set_nccl_ib_hca",
			 set[0] != '\0' ? set : NULL);
}

static json_t *way_json(const struct sxt_pairs_way *way, bool slow)
{
	return json_pack("{s:b, s:b, s:b, s:b, s:I, s:s}", "acked", way->acked, "arrived",
			 way->arrived, "large_lost", way->broke, "slow", slow, "mbps",
			 (json_int_t)way->mbps, "why", way->why);
}

static json_t *cell_json(const struct report *r, uint32_t here, uint32_t there)
{
	uint32_t number = cell_number(r, here, there);
	const struct sxt_pairs_cell *cell = &r->pairs->cells[number];
	const struct sxt_pairs_port *own = &r->here->ports[here];
	const struct sxt_pairs_port *peer = &r->there->ports[there];
	char from[64];
	char to[64];

	sxt_gid_text(own->addresses[cell->address[r->own]].gid, from, sizeof(from));
	sxt_gid_text(peer->addresses[cell->address[!r->own]].gid, to, sizeof(to));
	return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:o, s:o}", "here", own->name, "there",
			 peer->name, "state", state_names[cell->state], "tries",
			 (int)cell->tries_cnt, "address_here", from, "address_there", to, "out",
			 way_json(&cell->way[r->own], (r->slow[number] >> r->own & 1) != 0), "in",
			 way_json(&cell->way[!r->own], (r->slow[number] >> !r->own & 1) != 0));
}

static int print_json(const struct report *r, const struct sxt_doctor *d)
{
	json_t *cells = json_array();

	for (uint32_t i = 0; i < r->here->ports_cnt * r->there->ports_cnt; i++)
		json_array_append_new(cells, cell_json(r, i / r->there->ports_cnt,
						       i % r->there->ports_cnt));
	return sxt_doctor_end_json(d,
				   json_pack("{s:s, s:s, s:o, s:o, s:i, s:o}", "schema",
					     "sextant.doctor-pairs/1", "version", SXT_VERSION,
					     "here", host_json(r->here, r->advice.set[r->own]),
					     "there", host_json(r->there, r->advice.set[!r->own]),
					     "rails", (int)r->advice.rails_cnt, "pairs", cells));
}

int sxt_pairs_print(const struct sxt_pairs *pairs, const struct sxt_doctor *d, bool json)
{
	struct report r = {
		.pairs = pairs,
		.own = pairs->own,
		.here = &pairs->hosts[pairs->own],
		.there = &pairs->hosts[!pairs->own],
	};

	sxt_pairs_advise(pairs, &r.advice);
	sxt_pairs_slow(pairs, r.slow);
	return json ? print_json(&r, d) : print_text(&r, d);
}
