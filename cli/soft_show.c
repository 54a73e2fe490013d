/*
 * soft_show.c - `sextant soft show`: a running fabric, as text or JSON.
 */
#include "cli/cli.h"
#include "cli/soft.h"
#include "cli/soft_dir.h"

#include "ib/soft/names.h"
#include "ib/soft/sysfs_tree.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct show_args {
	const char *dir;
	bool json;
};

static error_t parse_arg(int key, char *arg, struct argp_state *state)
{
	struct show_args *args = state->input;

	switch (key) {
	case 's':
		args->dir = arg;
		return 0;
	case 'j':
		args->json = true;
		return 0;
	default:
		return sxt_cli_no_argument(key, arg, state);
	}
}

static uint64_t load(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static const char *state_word(uint32_t state)
{
	return state == SXT_SOFT_PORT_ACTIVE ? "active"
	       : state == SXT_SOFT_PORT_INIT ? "init"
					     : "down";
}

static const char *gid_type_word(uint32_t type)
{
	return type == SXT_SOFT_GID_ROCE_V2 ? "roce_v2"
	       : type == SXT_SOFT_GID_IB    ? "ib"
					    : "roce_v1";
}

static void format_gid(const struct sxt_soft_gid *gid, char out[INET6_ADDRSTRLEN])
{
	if (inet_ntop(AF_INET6, gid->raw, out, INET6_ADDRSTRLEN) == NULL)
		out[0] = '\0';
}

static const char *link_layer_word(const struct sxt_soft_port *port)
{
	return port->link_layer == SXT_SOFT_ETHERNET ? "ethernet" : "infiniband";
}

static json_t *gids_json(const struct sxt_soft_port *port)
{
	struct sxt_soft_gid table[SXT_SOFT_GIDS_MAX];
	json_t *gids = json_array();
	char text[INET6_ADDRSTRLEN];

	sxt_soft_gids_read(port, table);
	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		format_gid(&table[i], text);
		json_array_append_new(gids, json_pack("{s:s, s:s, s:s}", "gid", text, "type",
						      gid_type_word(table[i].type), "netdev",
						      table[i].ndev));
	}
	return gids;
}

/* value << 32 | count, or null. */
static json_t *fault_json(uint64_t word, const char *name)
{
	if ((uint32_t)word == 0)
		return json_null();
	return json_pack("{s:s, s:I}", "error", name, "count", (json_int_t)(uint32_t)word);
}

static json_t *port_json(const struct sxt_soft_port *port)
{
	uint64_t fault = load(&port->fault_wc);
	json_t *counters = json_object();

#define SET_COUNTER(name, folder, file) \
	json_object_set_new(counters, #name, json_integer((json_int_t)load(&port->counters.name)));
	SXT_SOFT_COUNTERS(SET_COUNTER)
#undef SET_COUNTER
	return json_pack("{s:i, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:b, s:I, s:I, s:I, s:o, s:o, "
			 "s:o}",
			 "port", port->port_num, "state", state_word(atomic_load(&port->state)),
			 "link_layer", link_layer_word(port), "lid", port->lid, "sm_lid",
			 port->sm_lid, "mtu", 128 << port->active_mtu, "netdev", port->netdev,
			 "network", port->network, "drop", (int)atomic_load(&port->drop),
			 "rate_mbps", (json_int_t)port->rate_mbps, "bandwidth_bps",
			 (json_int_t)port->bandwidth_bps, "latency_ns",
			 (json_int_t)port->latency_ns, "gids", gids_json(port), "armed",
			 fault_json(fault,
				    sxt_soft_name_of(sxt_soft_wc_names, (uint32_t)(fault >> 32))),
			 "counters", counters);
}

static json_t *hca_json(const struct sxt_soft_fabric *fabric, const struct sxt_soft_hca *hca)
{
	uint64_t fault = load(&hca->fault_reg);
	json_t *ports = json_array();
	char guid[20];

	for (uint32_t i = 0; i < hca->port_cnt; i++)
		json_array_append_new(ports, port_json(&fabric->ports[hca->first_port + i]));
	snprintf(guid, sizeof(guid), "0x%016" PRIx64, hca->node_guid);
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:o}", "name", hca->name, "node_guid",
			 guid, "fw_ver", hca->fw_ver, "pci", hca->pci, "numa_node", hca->numa_node,
			 "armed", fault_json(fault, sxt_errname((int)(fault >> 32))), "ports",
			 ports);
}

static json_t *hosts_json(const struct sxt_soft_fabric *fabric)
{
	json_t *hosts = json_array();

	for (uint32_t h = 0; h < fabric->host_cnt; h++) {
		const struct sxt_soft_host *host = &fabric->hosts[h];
		json_t *hcas = json_array();

		for (uint32_t i = 0; i < host->hca_cnt; i++)
			json_array_append_new(hcas,
					      hca_json(fabric, &fabric->hcas[host->first_hca + i]));
		json_array_append_new(hosts,
				      json_pack("{s:s, s:o}", "name", host->name, "hcas", hcas));
	}
	return hosts;
}

static json_t *procs_json(const struct sxt_soft_fabric *fabric)
{
	json_t *procs = json_array();

	for (uint32_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		const struct sxt_soft_proc *proc = &fabric->procs[i];
		uint32_t state = sxt_soft_proc_word_state(
			atomic_load_explicit(&proc->word, memory_order_acquire));

		if (state == SXT_SOFT_PROC_FREE)
			continue;
		json_array_append_new(procs,
				      json_pack("{s:i, s:i, s:s, s:s, s:s}", "slot", (int)i, "pid",
						proc->pid, "host", fabric->hosts[proc->host].name,
						"state",
						state == SXT_SOFT_PROC_ALIVE ? "alive" : "dead",
						"command", proc->comm));
	}
	return procs;
}

static int show_json(const struct sxt_soft_state *state)
{
	return sxt_cli_print_json(
		json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", "sextant.soft.show/1", "state",
			  state->dir, "fabric", state->fabric->source, "hosts",
			  hosts_json(state->fabric), "processes", procs_json(state->fabric)));
}

static void print_bandwidth(const struct sxt_soft_port *port)
{
	if (port->bandwidth_bps == 0)
		fputs("unlimited", stdout);
	else
		printf("%g Gb/s", (double)port->bandwidth_bps / 1e9);
	printf(" + %g us", (double)port->latency_ns / 1000);
}

static void print_port(const struct sxt_soft_port *port)
{
	uint64_t fault = load(&port->fault_wc);
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];
	char text[INET6_ADDRSTRLEN];

	printf("    port %d  %-6s  %s  mtu %d  modelled ", port->port_num,
	       state_word(atomic_load(&port->state)), link_layer_word(port),
	       128 << port->active_mtu);
	print_bandwidth(port);
	if (port->lid != 0)
		printf("  lid %d", port->lid);
	putchar('\n');
	if (port->network[0] != '\0')
		printf("      network %s\n", port->network);
	sxt_soft_gids_read(port, gids);
	for (uint32_t i = 0; i < port->gid_cnt; i++) {
		format_gid(&gids[i], text);
		printf("      gid %-2" PRIu32 "  %-7s  %-24s  %s\n", i, gid_type_word(gids[i].type),
		       text, gids[i].ndev);
	}
	printf("      sent %" PRIu64 " bytes in %" PRIu64 " packets, received %" PRIu64
	       " in %" PRIu64 "\n",
	       load(&port->counters.xmit_bytes), load(&port->counters.xmit_packets),
	       load(&port->counters.rcv_bytes), load(&port->counters.rcv_packets));
	if (atomic_load(&port->drop) != 0)
		puts("      drop=on: all packets are lost");
	if ((uint32_t)fault != 0)
		printf("      armed: wc_error=%s, %" PRIu32 " to come\n",
		       sxt_soft_name_of(sxt_soft_wc_names, (uint32_t)(fault >> 32)),
		       (uint32_t)fault);
}

static void print_hca(const struct sxt_soft_fabric *fabric, const struct sxt_soft_hca *hca)
{
	uint64_t fault = load(&hca->fault_reg);

	printf("  %s/%s  pci %s  numa %" PRId32 "  firmware %s\n", fabric->hosts[hca->host].name,
	       hca->name, hca->pci, hca->numa_node, hca->fw_ver);
	if ((uint32_t)fault != 0)
		printf("    armed: reg_error=%s, %" PRIu32 " to come\n",
		       sxt_errname((int)(fault >> 32)), (uint32_t)fault);
	for (uint32_t i = 0; i < hca->port_cnt; i++)
		print_port(&fabric->ports[hca->first_port + i]);
}

static void print_procs(const struct sxt_soft_fabric *fabric)
{
	int cnt = 0;

	for (uint32_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		const struct sxt_soft_proc *proc = &fabric->procs[i];
		uint32_t state = sxt_soft_proc_word_state(
			atomic_load_explicit(&proc->word, memory_order_acquire));

		if (state == SXT_SOFT_PROC_FREE)
			continue;
		if (cnt++ == 0)
			printf("\n%-8s  %-16s  %-5s  %s\n", "process", "host", "state", "command");
		printf("%-8" PRId32 "  %-16s  %-5s  %s\n", proc->pid,
		       fabric->hosts[proc->host].name,
		       state == SXT_SOFT_PROC_ALIVE ? "alive" : "dead", proc->comm);
	}
	if (cnt == 0)
		puts("\nNo process has opened the software HCA.");
}

static void show_text(const struct sxt_soft_state *state)
{
	const struct sxt_soft_fabric *fabric = state->fabric;

	printf("fabric %s\nstate  %s\n", fabric->source, state->dir);
	for (uint32_t h = 0; h < fabric->host_cnt; h++) {
		printf("\nhost %s\n", fabric->hosts[h].name);
		for (uint32_t i = 0; i < fabric->hosts[h].hca_cnt; i++)
			print_hca(fabric, &fabric->hcas[fabric->hosts[h].first_hca + i]);
	}
	print_procs(fabric);
}

int sxt_cmd_soft_show(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"state", 's', "DIR", 0,
		 "The fabric's state folder, where more than one is running", 0},
		{"json", 'j', NULL, 0, "Machine-readable output (schema sextant.soft.show/1)", 0},
		{0},
	};
	static const struct argp argp = {
		options,
		parse_arg,
		NULL,
		"Show a running fabric: hosts, ports, GIDs, traffic, armed faults and processes.",
		NULL,
		NULL,
		NULL,
	};
	struct show_args args = {0};
	struct sxt_soft_state *state;
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	rc = sxt_soft_dir_open(args.dir, &state);
	if (rc != 0)
		return rc;
	/* Who looks at numbers here looks at the files next: let them agree. */
	for (uint32_t i = 0; i < state->fabric->port_cnt; i++)
		sxt_ignore(sxt_soft_tree_update_counters(state, i));
	if (args.json)
		rc = show_json(state);
	else
		show_text(state);
	sxt_soft_state_close(state);
	return rc;
}
