/*
 * fabric.c - the fabric file: its keys, and how hosts, HCAs and ports nest (slow path).
 */
#include "ib/soft/fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX     SXT_SOFT_HOSTS_MAX
#define HCAS_MAX      64 /* per host */
#define PORTS_MAX     8  /* per HCA */
#define ACTIONS_MAX   100000
#define FILE_MAX      (16u << 20)
#define BANDWIDTH_MAX 100000.0  /* Gbit/s */
#define LATENCY_MAX   1000000.0 /* us */

/* Two hosts with two RoCE HCAs each; everything else is default. */
static const char builtin[] = "{\"version\": 1, \"hosts\": ["
			      "{\"name\": \"a\", \"hcas\": [{}, {}]}, "
			      "{\"name\": \"b\", \"hcas\": [{}, {}]}]}";

/* The document's walk and what it fills; handlers get back to it from the walk. */
struct builder {
	struct sxt_soft_doc doc;
	struct sxt_soft_plan plan;
	uint32_t version;
	/* The timeline names hosts and ports: it is read last, wherever it stands. */
	const json_t *faults;
	size_t faults_at;
};

static struct builder *builder_of(struct sxt_soft_doc *doc)
{
	return SXT_CONTAINER_OF(doc, struct builder, doc);
}

static const struct sxt_soft_name link_layers[] = {
	{"ethernet", SXT_SOFT_ETHERNET},
	{"infiniband", SXT_SOFT_INFINIBAND},
	{NULL, 0},
};

static const struct sxt_soft_name port_states[] = {
	{"active", SXT_SOFT_PORT_ACTIVE},
	{"down", SXT_SOFT_PORT_DOWN},
	{"init", SXT_SOFT_PORT_INIT},
	{NULL, 0},
};

static const struct sxt_soft_name gid_types[] = {
	{"ib", SXT_SOFT_GID_IB},
	{"roce_v1", SXT_SOFT_GID_ROCE_V1},
	{"roce_v2", SXT_SOFT_GID_ROCE_V2},
	{NULL, 0},
};

static int read_mtu(struct sxt_soft_doc *doc, const json_t *value, uint8_t *out)
{
	json_int_t bytes = json_integer_value(value);
	char seen[64];

	for (uint8_t mtu = 1; mtu <= 5 && json_is_integer(value); mtu++) {
		if (bytes == 128 << mtu) {
			*out = mtu;
			return 0;
		}
	}
	sxt_soft_doc_show(value, seen, sizeof(seen));
	return sxt_soft_doc_fail(doc, "is %s; expected 256, 512, 1024, 2048 or 4096", seen);
}

static int read_active_mtu(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return read_mtu(doc, value, &((struct sxt_soft_port *)into)->active_mtu);
}

static int read_max_mtu(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return read_mtu(doc, value, &((struct sxt_soft_port *)into)->max_mtu);
}

static int read_port_state(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_port *port = into;
	uint32_t state;
	int rc = sxt_soft_doc_choice(doc, value, port_states, &state);

	if (rc != 0)
		return rc;
	atomic_init(&port->state, state);
	atomic_init(&port->phys_state,
		    state == SXT_SOFT_PORT_DOWN ? SXT_SOFT_PHYS_DISABLED : SXT_SOFT_PHYS_UP);
	return 0;
}

static int read_bandwidth(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_port *port = into;
	double gbps = json_number_value(value);
	char seen[64];

	if (json_is_string(value) && strcmp(json_string_value(value), "unlimited") == 0) {
		port->bandwidth_bps = 0;
		return 0;
	}
	if (!json_is_number(value) || gbps < 0.001 || gbps > BANDWIDTH_MAX) {
		sxt_soft_doc_show(value, seen, sizeof(seen));
		return sxt_soft_doc_fail(doc,
					 "is %s; expected Gbit/s 0.001..%.0f, or \"unlimited\"",
					 seen, BANDWIDTH_MAX);
	}
	port->bandwidth_bps = (uint64_t)(gbps * 1e9);
	return 0;
}

static int read_latency(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_port *port = into;
	double us = json_number_value(value);
	char seen[64];

	if (!json_is_number(value) || us < 0 || us > LATENCY_MAX) {
		sxt_soft_doc_show(value, seen, sizeof(seen));
		return sxt_soft_doc_fail(doc, "is %s; expected microseconds 0..%.0f", seen,
					 LATENCY_MAX);
	}
	port->latency_ns = (uint64_t)(us * 1000);
	return 0;
}

static int read_gid_text(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_gid *gid = into;
	const char *text = json_string_value(value);

	if (text == NULL || inet_pton(AF_INET6, text, gid->raw) != 1)
		return sxt_soft_doc_fail(doc,
					 "is '%s'; expected an IPv6 address such as \"fe80::1\" or "
					 "\"::ffff:10.0.0.1\", \"::\" for an empty entry",
					 text != NULL ? text : "no text");
	return 0;
}

static int read_gid(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_CALL(gid, read_gid_text)},
		{SXT_SOFT_FIELD_CHOICE(type, struct sxt_soft_gid, type, gid_types)},
		{SXT_SOFT_FIELD_TEXT(netdev, struct sxt_soft_gid, ndev)},
		{0},
	};
	struct sxt_soft_port *port = into;
	struct sxt_soft_gid *gid = &port->gids[port->gid_cnt];

	gid->type = SXT_SOFT_GID_UNSET;
	port->gid_cnt++;
	return sxt_soft_doc_object(doc, value, fields, gid);
}

static int read_gids(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return sxt_soft_doc_array(doc, value, 1, SXT_SOFT_GIDS_MAX, read_gid, into);
}

static int read_pkey(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_port *port = into;
	uint64_t pkey;
	int rc = sxt_soft_doc_hex(doc, value, 0xffff, &pkey);

	if (rc == 0)
		port->pkeys[port->pkey_cnt++] = (uint16_t)pkey;
	return rc;
}

static int read_pkeys(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return sxt_soft_doc_array(doc, value, 1, SXT_SOFT_PKEYS_MAX, read_pkey, into);
}

static int read_port(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_CHOICE(link_layer, struct sxt_soft_port, link_layer, link_layers)},
		{SXT_SOFT_FIELD_CALL(state, read_port_state)},
		{SXT_SOFT_FIELD_INT(lid, struct sxt_soft_port, lid, 1, 0xbfff)},
		{SXT_SOFT_FIELD_INT(lmc, struct sxt_soft_port, lmc, 0, 7)},
		{SXT_SOFT_FIELD_INT(sm_lid, struct sxt_soft_port, sm_lid, 1, 0xbfff)},
		{SXT_SOFT_FIELD_CALL(mtu, read_active_mtu)},
		{SXT_SOFT_FIELD_CALL(max_mtu, read_max_mtu)},
		{SXT_SOFT_FIELD_CHOICE(width, struct sxt_soft_port, active_width,
				       sxt_soft_width_names)},
		{SXT_SOFT_FIELD_CHOICE(speed, struct sxt_soft_port, active_speed,
				       sxt_soft_speed_names)},
		{SXT_SOFT_FIELD_TEXT(netdev, struct sxt_soft_port, netdev)},
		{SXT_SOFT_FIELD_TEXT(network, struct sxt_soft_port, network)},
		{SXT_SOFT_FIELD_CALL(gids, read_gids)},
		{SXT_SOFT_FIELD_CALL(pkeys, read_pkeys)},
		{SXT_SOFT_FIELD_CALL(bandwidth_gbps, read_bandwidth)},
		{SXT_SOFT_FIELD_CALL(latency_us, read_latency)},
		{0},
	};
	struct sxt_soft_fabric *fabric = builder_of(doc)->plan.fabric;
	struct sxt_soft_port *port = &fabric->ports[fabric->port_cnt];
	struct sxt_soft_hca *hca = into;

	if (fabric->port_cnt == SXT_SOFT_PORTS_MAX)
		return sxt_soft_doc_fail(doc, "one port too many; a fabric has at most %d",
					 SXT_SOFT_PORTS_MAX);
	port->bandwidth_bps = SXT_SOFT_UNSET;
	port->latency_ns = 1000;
	fabric->port_cnt++;
	hca->port_cnt++;
	return sxt_soft_doc_object(doc, value, fields, port);
}

static int read_ports(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return sxt_soft_doc_array(doc, value, 1, PORTS_MAX, read_port, into);
}

#define HCA struct sxt_soft_hca

static int read_limits(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_INT(max_mr_size, HCA, max_mr_size, 4096, INT64_MAX)},
		{SXT_SOFT_FIELD_INT(max_qp, HCA, max_qp, 1, 1 << 24)},
		{SXT_SOFT_FIELD_INT(max_qp_wr, HCA, max_qp_wr, 1, 32768)},
		{SXT_SOFT_FIELD_INT(max_sge, HCA, max_sge, 1, 64)},
		{SXT_SOFT_FIELD_INT(max_cq, HCA, max_cq, 1, 1 << 24)},
		{SXT_SOFT_FIELD_INT(max_cqe, HCA, max_cqe, 1, (1 << 22) - 1)},
		{SXT_SOFT_FIELD_INT(max_mr, HCA, max_mr, 1, 1 << 24)},
		{SXT_SOFT_FIELD_INT(max_pd, HCA, max_pd, 1, 1 << 24)},
		{SXT_SOFT_FIELD_INT(max_qp_rd_atom, HCA, max_qp_rd_atom, 0, 128)},
		{SXT_SOFT_FIELD_INT(max_ah, HCA, max_ah, 1, INT32_MAX)},
		{SXT_SOFT_FIELD_INT(max_srq, HCA, max_srq, 0, 1 << 24)},
		{SXT_SOFT_FIELD_INT(max_srq_wr, HCA, max_srq_wr, 0, 32768)},
		{SXT_SOFT_FIELD_INT(max_srq_sge, HCA, max_srq_sge, 0, 64)},
		{SXT_SOFT_FIELD_INT(max_inline, HCA, max_inline, 0, 1024)},
		{0},
	};

	return sxt_soft_doc_object(doc, value, fields, into);
}

static void init_hca(struct sxt_soft_hca *hca)
{
	*hca = (struct sxt_soft_hca){
		.vendor_id = 0x02c9,
		.vendor_part_id = 4129,
		.fw_ver = "28.39.1002",
		.board_id = "SXT_SOFT_HCA",
		.hca_type = "MT4129",
		.driver = "mlx5_core",
		.pci_speed = "32.0 GT/s PCIe",
		.pci_width = 16,
		.max_mr_size = INT64_MAX,
		.max_qp = 131072,
		.max_qp_wr = 32768,
		.max_sge = 30,
		.max_cq = 1 << 24,
		.max_cqe = (1 << 22) - 1,
		.max_mr = 1 << 24,
		.max_pd = 1 << 23,
		.max_qp_rd_atom = 16,
		.max_ah = INT32_MAX,
		.max_srq = 1 << 23,
		.max_srq_wr = 32767,
		.max_srq_sge = 31,
		.max_inline = 512,
	};
}

static int read_hca(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_TEXT(name, HCA, name)},
		{SXT_SOFT_FIELD_HEX(node_guid, HCA, node_guid, 1, -1)},
		{SXT_SOFT_FIELD_HEX(sys_image_guid, HCA, sys_image_guid, 1, -1)},
		{SXT_SOFT_FIELD_HEX(vendor_id, HCA, vendor_id, 0, 0xffffff)},
		{SXT_SOFT_FIELD_INT(vendor_part_id, HCA, vendor_part_id, 0, 65535)},
		{SXT_SOFT_FIELD_INT(hw_ver, HCA, hw_ver, 0, INT32_MAX)},
		{SXT_SOFT_FIELD_TEXT(fw_ver, HCA, fw_ver)},
		{SXT_SOFT_FIELD_TEXT(board_id, HCA, board_id)},
		{SXT_SOFT_FIELD_TEXT(hca_type, HCA, hca_type)},
		{SXT_SOFT_FIELD_TEXT(driver, HCA, driver)},
		{SXT_SOFT_FIELD_TEXT(pci_path, HCA, pci_path)},
		{SXT_SOFT_FIELD_TEXT(pci_speed, HCA, pci_speed)},
		{SXT_SOFT_FIELD_INT(pci_width, HCA, pci_width, 1, 32)},
		{SXT_SOFT_FIELD_INT(numa_node, HCA, numa_node, -1, 1023)},
		{SXT_SOFT_FIELD_CALL(limits, read_limits)},
		{SXT_SOFT_FIELD_CALL(ports, read_ports)},
		{0},
	};
	struct sxt_soft_fabric *fabric = builder_of(doc)->plan.fabric;
	struct sxt_soft_hca *hca = &fabric->hcas[fabric->hca_cnt];
	struct sxt_soft_host *host = into;

	if (fabric->hca_cnt == SXT_SOFT_HCAS_MAX)
		return sxt_soft_doc_fail(doc, "one HCA too many; a fabric has at most %d",
					 SXT_SOFT_HCAS_MAX);
	init_hca(hca);
	hca->first_port = fabric->port_cnt;
	fabric->hca_cnt++;
	host->hca_cnt++;
	return sxt_soft_doc_object(doc, value, fields, hca);
}

static int read_hca_with_ports(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_fabric *fabric = builder_of(doc)->plan.fabric;
	json_t *one_port;
	int rc = read_hca(doc, value, into);

	if (rc != 0 || fabric->hcas[fabric->hca_cnt - 1].port_cnt > 0)
		return rc;
	one_port = json_object();
	if (one_port == NULL)
		return -ENOMEM;
	rc = read_port(doc, one_port, &fabric->hcas[fabric->hca_cnt - 1]);
	json_decref(one_port);
	return rc;
}

static int read_hcas(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return sxt_soft_doc_array(doc, value, 0, HCAS_MAX, read_hca_with_ports, into);
}

static int read_host(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_TEXT(name, struct sxt_soft_host, name)},
		{SXT_SOFT_FIELD_CALL(hcas, read_hcas)},
		{0},
	};
	struct sxt_soft_fabric *fabric = builder_of(doc)->plan.fabric;
	struct sxt_soft_host *host = &fabric->hosts[fabric->host_cnt++];

	(void)into;
	host->first_hca = fabric->hca_cnt;
	return sxt_soft_doc_object(doc, value, fields, host);
}

static int read_hosts(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	return sxt_soft_doc_array(doc, value, 1, HOSTS_MAX, read_host, into);
}

static int read_seed(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	(void)into;
	return sxt_soft_doc_hex(doc, value, UINT64_MAX, &builder_of(doc)->plan.fabric->seed);
}

static int keep_faults(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct builder *builder = into;

	builder->faults = value;
	builder->faults_at = doc->at;
	return 0;
}

static int read_fault(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct sxt_soft_plan *plan = into;
	struct sxt_soft_action *action = &plan->actions[plan->actions_cnt];
	int rc = sxt_soft_action_parse(doc, value, plan->fabric, action);

	if (rc == 0)
		action->order = (uint32_t)plan->actions_cnt++;
	return rc;
}

static int compare_actions(const void *a, const void *b)
{
	const struct sxt_soft_action *one = a;
	const struct sxt_soft_action *other = b;

	if (one->at_ns != other->at_ns)
		return one->at_ns < other->at_ns ? -1 : 1;
	return one->order < other->order ? -1 : 1;
}

static int read_faults(struct builder *builder)
{
	struct sxt_soft_plan *plan = &builder->plan;
	size_t cnt = json_array_size(builder->faults);
	int rc;

	if (builder->faults == NULL)
		return 0;
	plan->actions = calloc(cnt + 1, sizeof(*plan->actions));
	if (plan->actions == NULL)
		return -ENOMEM;
	builder->doc.at = builder->faults_at;
	snprintf(builder->doc.path, sizeof(builder->doc.path), "faults");
	rc = sxt_soft_doc_array(&builder->doc, builder->faults, 0, ACTIONS_MAX, read_fault, plan);
	if (rc == 0)
		qsort(plan->actions, plan->actions_cnt, sizeof(*plan->actions), compare_actions);
	return rc;
}

static int read_root(struct builder *builder, const json_t *root)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_INT(version, struct builder, version, 1, 1)},
		{SXT_SOFT_FIELD_CALL(seed, read_seed)},
		{SXT_SOFT_FIELD_CALL(hosts, read_hosts)},
		{SXT_SOFT_FIELD_CALL(faults, keep_faults)},
		{0},
	};
	struct sxt_soft_doc *doc = &builder->doc;
	char why[512];
	int rc = sxt_soft_doc_object(doc, root, fields, builder);

	if (rc != 0)
		return rc;
	if (builder->version == 0)
		return sxt_soft_doc_fail(doc, "has no \"version\"; expected \"version\": 1");
	if (builder->plan.fabric->host_cnt == 0)
		return sxt_soft_doc_fail(doc, "has no \"hosts\"; expected at least one");
	rc = sxt_soft_fabric_complete(builder->plan.fabric, why, sizeof(why));
	if (rc != 0)
		snprintf(doc->why, doc->why_bytes, "%s: %s", doc->file, why);
	return rc != 0 ? rc : read_faults(builder);
}

/* FNV-1a, 64 bits: tells fabrics apart, protects nothing. */
static uint64_t hash_text(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
	return hash;
}

int sxt_soft_plan_parse(const char *file, const char *text, struct sxt_soft_plan *out, char *why,
			size_t why_bytes)
{
	struct builder builder = {
		.doc = {.file = file, .text = text, .why = why, .why_bytes = why_bytes},
	};
	json_error_t error;
	json_t *root;
	int rc = -ENOMEM;

	snprintf(why, why_bytes, "%s: out of memory", file);
	root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	/* Where it has nothing against the text, memory ran out. */
	if (root == NULL && error.text[0] == '\0')
		return rc;
	if (root == NULL) {
		snprintf(why, why_bytes, "%s:%d: not JSON: %s (column %d)", file, error.line,
			 error.text, error.column);
		return -EINVAL;
	}
	builder.plan.fabric = calloc(1, sizeof(*builder.plan.fabric));
	if (builder.plan.fabric == NULL)
		goto fail;
	rc = read_root(&builder, root);
	if (rc != 0)
		goto fail;
	json_decref(root);
	builder.plan.hash = hash_text(text);
	snprintf(builder.plan.fabric->source, sizeof(builder.plan.fabric->source), "%s", file);
	*out = builder.plan;
	return 0;
fail:
	json_decref(root);
	sxt_soft_plan_fini(&builder.plan);
	return rc;
}

static int read_file(const char *path, char **out, char *why, size_t why_bytes)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t got = 0;
	int rc = 0;

	if (file == NULL) {
		rc = -errno;
		snprintf(why, why_bytes, "%s: cannot read the fabric file: %m", path);
		return rc;
	}
	text = malloc(FILE_MAX + 1);
	if (text != NULL)
		got = fread(text, 1, FILE_MAX + 1, file);
	if (text == NULL || ferror(file) != 0) {
		rc = text == NULL ? -ENOMEM : -EIO;
		snprintf(why, why_bytes, "%s: cannot read the fabric file: %s", path,
			 text == NULL ? "out of memory" : "input error");
	} else if (got > FILE_MAX || memchr(text, '\0', got) != NULL) {
		rc = -EINVAL;
		snprintf(why, why_bytes, "%s: not a fabric file: %s", path,
			 got > FILE_MAX ? "larger than 16 MiB" : "it has zero bytes");
	}
	fclose(file);
	if (rc != 0) {
		free(text);
		return rc;
	}
	text[got] = '\0';
	*out = text;
	return 0;
}

int sxt_soft_plan_load(const char *path, struct sxt_soft_plan *out, char *why, size_t why_bytes)
{
	char *text = NULL; /* not every compiler sees that read_file() sets it */
	int rc;

	if (path == NULL || path[0] == '\0')
		return sxt_soft_plan_parse("built-in", builtin, out, why, why_bytes);
	rc = read_file(path, &text, why, why_bytes);
	if (rc != 0)
		return rc;
	rc = sxt_soft_plan_parse(path, text, out, why, why_bytes);
	free(text);
	return rc;
}

void sxt_soft_plan_fini(struct sxt_soft_plan *plan)
{
	free(plan->fabric);
	free(plan->actions);
	*plan = (struct sxt_soft_plan){0};
}
