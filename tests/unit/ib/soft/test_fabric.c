/*
 * test_fabric.c - fabric files: defaults, every key, and where and how mistakes are told.
 */
#include "ib/soft/fabric.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why[1024];

static int parse(const char *text, struct sxt_soft_plan *plan)
{
	why[0] = '\0';
	return sxt_soft_plan_parse("f.json", text, plan, why, sizeof(why));
}

static void expect_refusal(const char *text, const char *message)
{
	struct sxt_soft_plan untouched = {0};

	assert_int_equal(parse(text, &untouched), -EINVAL);
	assert_string_equal(why, message);
	assert_null(untouched.fabric);
}

/* The same, for a document of one port's keys; the port stands on line 1. */
static void expect_port_refusal(const char *members, const char *message)
{
	char text[1024];
	char full[1024];

	snprintf(text, sizeof(text),
		 "{\"version\": 1, \"hosts\": [{\"hcas\": [{\"ports\": [{%s}]}]}]}", members);
	snprintf(full, sizeof(full), "f.json:1: hosts[0].hcas[0].ports[0]%s", message);
	expect_refusal(text, full);
}

static void the_built_in_fabric_is_two_hosts_of_two_roce_hcas(void **state)
{
	const uint8_t ipv4[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1, [14] = 1, [15] = 2};
	struct sxt_soft_plan plan;
	const struct sxt_soft_port *port;

	(void)state;
	assert_int_equal(sxt_soft_plan_load(NULL, &plan, why, sizeof(why)), 0);
	assert_int_equal(plan.fabric->host_cnt, 2);
	assert_string_equal(plan.fabric->hosts[1].name, "b");
	assert_int_equal(plan.fabric->hca_cnt, 4);
	assert_string_equal(plan.fabric->hcas[3].name, "mlx5_1");
	assert_int_equal(plan.fabric->hcas[3].host, 1);
	assert_int_equal(plan.fabric->port_cnt, 4);
	port = &plan.fabric->ports[3];
	assert_int_equal(port->hca, 3);
	assert_int_equal(port->link_layer, SXT_SOFT_ETHERNET);
	assert_int_equal(port->state, SXT_SOFT_PORT_ACTIVE);
	assert_int_equal(port->bandwidth_bps, 400000000000);
	assert_int_equal(port->latency_ns, 1000);
	assert_int_equal(port->gid_cnt, 4);
	assert_int_equal(port->gids[0].raw[0], 0xfe);
	assert_int_equal(port->gids[0].type, SXT_SOFT_GID_ROCE_V1);
	assert_int_equal(port->gids[1].type, SXT_SOFT_GID_ROCE_V2);
	assert_memory_equal(port->gids[3].raw, ipv4, 16);
	assert_string_equal(port->gids[3].ndev, "eth1");
	assert_int_equal(plan.actions_cnt, 0);
	sxt_soft_plan_fini(&plan);
}

static const char whole[] =
	"{\"version\": 1, \"seed\": \"0xabc\",\n"
	" \"faults\": [{\"at_ms\": 20, \"target\": \"x/h0:2\", \"state\": \"down\"},\n"
	"  {\"at_ms\": 10, \"target\": \"x/h0:1\", \"wc_error\": \"RETRY_EXC_ERR\", \"count\": "
	"3},\n"
	"  {\"at_ms\": 20, \"target\": \"x/h0:2\", \"event\": \"PORT_ERR\"},\n"
	"  {\"target\": \"x/h0\", \"reg_error\": \"ENOMEM\"},\n"
	"  {\"at_ms\": 25, \"target\": \"x/h0:1\", \"drop\": true},\n"
	"  {\"at_ms\": 26, \"target\": \"x/h0:1\", \"drop\": \"off\"},\n"
	"  {\"at_ms\": 27, \"target\": \"x/h0:2\", \"gid\": 0, \"to\": 2},\n"
	"  {\"at_ms\": 28, \"target\": \"x/h0:2\", \"gid\": 1, \"to\": \"fe80::7\"},\n"
	"  {\"at_ms\": 30, \"target\": \"0\", \"kill\": \"all\"}],\n"
	" \"hosts\": [{\"name\": \"x\", \"hcas\": [{\"name\": \"h0\",\n"
	"  \"node_guid\": \"0002:c903:0001:0002\", \"sys_image_guid\": \"0x1\",\n"
	"  \"vendor_id\": \"0x1\", \"vendor_part_id\": 7, \"hw_ver\": 2, \"fw_ver\": \"1.2\",\n"
	"  \"board_id\": \"B\", \"hca_type\": \"T\", \"driver\": \"d\",\n"
	"  \"pci_path\": \"pci0001:00/0001:00:01.0/0001:01:00.1\",\n"
	"  \"pci_speed\": \"16.0 GT/s PCIe\", \"pci_width\": 8, \"numa_node\": -1,\n"
	"  \"limits\": {\"max_mr_size\": 4096, \"max_qp\": 1, \"max_qp_wr\": 2, \"max_sge\": 3,\n"
	"   \"max_cq\": 4, \"max_cqe\": 5, \"max_mr\": 6, \"max_pd\": 7, \"max_qp_rd_atom\": 8,\n"
	"   \"max_ah\": 9, \"max_srq\": 10, \"max_srq_wr\": 11, \"max_srq_sge\": 12,\n"
	"   \"max_inline\": 13},\n"
	"  \"ports\": [{\"link_layer\": \"infiniband\", \"lid\": 8, \"lmc\": 2, \"sm_lid\": 3,\n"
	"    \"mtu\": 2048, \"max_mtu\": 4096, \"width\": \"2x\", \"speed\": \"HDR\",\n"
	"    \"pkeys\": [\"0xffff\", \"0x8001\"], \"bandwidth_gbps\": \"unlimited\",\n"
	"    \"latency_us\": 2.5, \"state\": \"init\"},\n"
	"   {\"netdev\": \"roce0\", \"network\": \"left.1\", \"bandwidth_gbps\": 12.5, "
	"\"latency_us\": 0,\n"
	"    \"gids\": [{\"gid\": \"fe80::5\", \"type\": \"roce_v1\"}, {\"gid\": \"::\"},\n"
	"     {\"gid\": \"::ffff:1.2.3.4\", \"netdev\": \"vlan7\"}]}]}]}]}";

static void every_key_of_an_hca_arrives(void **state)
{
	struct sxt_soft_plan plan;
	const struct sxt_soft_hca *hca;

	(void)state;
	assert_int_equal(parse(whole, &plan), 0);
	hca = &plan.fabric->hcas[0];
	assert_int_equal(plan.fabric->seed, 0xabc);
	assert_string_equal(hca->name, "h0");
	assert_int_equal(hca->node_guid, 0x0002c90300010002);
	assert_int_equal(hca->sys_image_guid, 1);
	assert_int_equal(hca->vendor_id, 1);
	assert_int_equal(hca->vendor_part_id, 7);
	assert_int_equal(hca->hw_ver, 2);
	assert_string_equal(hca->fw_ver, "1.2");
	assert_string_equal(hca->board_id, "B");
	assert_string_equal(hca->hca_type, "T");
	assert_string_equal(hca->driver, "d");
	assert_string_equal(hca->pci, "0001:01:00.1");
	assert_string_equal(hca->pci_speed, "16.0 GT/s PCIe");
	assert_int_equal(hca->pci_width, 8);
	assert_int_equal(hca->numa_node, -1);
	assert_int_equal(hca->max_mr_size, 4096);
	assert_int_equal(hca->max_qp, 1);
	assert_int_equal(hca->max_qp_wr, 2);
	assert_int_equal(hca->max_sge, 3);
	assert_int_equal(hca->max_cq, 4);
	assert_int_equal(hca->max_cqe, 5);
	assert_int_equal(hca->max_mr, 6);
	assert_int_equal(hca->max_pd, 7);
	assert_int_equal(hca->max_qp_rd_atom, 8);
	assert_int_equal(hca->max_ah, 9);
	assert_int_equal(hca->max_srq, 10);
	assert_int_equal(hca->max_srq_wr, 11);
	assert_int_equal(hca->max_srq_sge, 12);
	assert_int_equal(hca->max_inline, 13);
	sxt_soft_plan_fini(&plan);
}

static void every_key_of_a_port_arrives(void **state)
{
	struct sxt_soft_plan plan;
	const struct sxt_soft_port *ib;
	const struct sxt_soft_port *eth;

	(void)state;
	assert_int_equal(parse(whole, &plan), 0);
	ib = &plan.fabric->ports[0];
	assert_int_equal(ib->link_layer, SXT_SOFT_INFINIBAND);
	assert_int_equal(ib->state, SXT_SOFT_PORT_INIT);
	assert_int_equal(ib->lid, 8);
	assert_int_equal(ib->lmc, 2);
	assert_int_equal(ib->sm_lid, 3);
	assert_int_equal(ib->active_mtu, 4);
	assert_int_equal(ib->max_mtu, 5);
	assert_int_equal(ib->active_width, 16);
	assert_int_equal(ib->active_speed, 64);
	assert_int_equal(ib->rate_mbps, 100000);
	assert_int_equal(ib->pkeys[1], 0x8001);
	assert_int_equal(ib->bandwidth_bps, 0);
	assert_int_equal(ib->latency_ns, 2500);
	assert_int_equal(ib->gid_cnt, 1);
	assert_int_equal(ib->gids[0].type, SXT_SOFT_GID_IB);
	eth = &plan.fabric->ports[1];
	assert_int_equal(eth->bandwidth_bps, 12500000000);
	assert_int_equal(eth->latency_ns, 0);
	assert_int_equal(eth->gid_cnt, 3);
	assert_int_equal(eth->gids[0].type, SXT_SOFT_GID_ROCE_V1);
	assert_int_equal(eth->gids[2].type, SXT_SOFT_GID_ROCE_V2);
	assert_string_equal(eth->gids[0].ndev, "roce0");
	assert_string_equal(eth->gids[2].ndev, "vlan7");
	assert_string_equal(eth->network, "left.1");
	assert_string_equal(ib->network, "");
	sxt_soft_plan_fini(&plan);
}

static void the_timeline_is_ordered_by_time_then_by_place(void **state)
{
	const char *const wanted[] = {
		"x/h0 reg_error=ENOMEM count=1",
		"x/h0:1 wc_error=RETRY_EXC_ERR count=3",
		"x/h0:2 state=down",
		"x/h0:2 event=PORT_ERR",
		"x/h0:1 drop=on",
		"x/h0:1 drop=off",
		"x/h0:2 gid=0 to=2",
		"x/h0:2 gid=1 to=fe80::7",
		"x kill=all",
	};
	struct sxt_soft_plan plan;
	char text[256];

	(void)state;
	assert_int_equal(parse(whole, &plan), 0);
	assert_int_equal(plan.actions_cnt, SXT_ARRAY_LEN(wanted));
	for (size_t i = 0; i < SXT_ARRAY_LEN(wanted); i++) {
		sxt_soft_action_format(plan.fabric, &plan.actions[i], text, sizeof(text));
		assert_string_equal(text, wanted[i]);
	}
	assert_int_equal(plan.actions[8].at_ns, 30000000);
	sxt_soft_plan_fini(&plan);
}

static void an_unknown_key_is_told_with_its_line_and_the_nearest(void **state)
{
	(void)state;
	expect_refusal("{\"version\": 1,\n\"host\": []}",
		       "f.json:2: the document: unknown key 'host'; did you mean 'hosts'?; "
		       "docs/fabric.md lists all");
	expect_refusal("{\"version\": 1, \"hosts\": [{\"name\": \"mtuu: \\\"mtuu\\\":\"},\n"
		       "{\"hcas\": [\n{\"ports\": [{},\n{\"mtuu\" : 1}]}]}]}",
		       "f.json:4: hosts[1].hcas[0].ports[1]: unknown key 'mtuu'; did you mean "
		       "'mtu'?; docs/fabric.md lists all");
	expect_refusal("{\"version\": 1, \"hosts\": [{}], \"faults\": [\n{\"at_ms\": 1},\n{}]}",
		       "f.json:2: faults[0]: has no target; expected HOST, HOST/HCA or "
		       "HOST/HCA:PORT");
}

static void what_is_not_json_is_told_with_its_line(void **state)
{
	struct sxt_soft_plan untouched = {0};

	(void)state;
	assert_int_equal(parse("{\"version\": 1,\n}", &untouched), -EINVAL);
	assert_non_null(strstr(why, "f.json:2: not JSON: "));
	assert_int_equal(parse("{\"version\": 1, \"version\": 1}", &untouched), -EINVAL);
	assert_non_null(strstr(why, "f.json:1: not JSON: duplicate object key"));
	assert_int_equal(sxt_soft_plan_load("/nowhere.json", &untouched, why, sizeof(why)),
			 -ENOENT);
	assert_string_equal(why, "/nowhere.json: cannot read the fabric file: No such file or "
				 "directory");
}

static void values_outside_their_range_are_refused(void **state)
{
	(void)state;
	expect_port_refusal("\"mtu\": 1500",
			    ".mtu: is 1500; expected 256, 512, 1024, 2048 or 4096");
	expect_port_refusal("\"lid\": 49152", ".lid: is 49152; expected 1..49151");
	expect_port_refusal("\"lid\": \"1\"", ".lid: is text; expected a whole number 1..49151");
	expect_port_refusal("\"speed\": \"NDT\"",
			    ".speed: is 'NDT'; did you mean NDR; expected one of SDR, DDR, QDR, "
			    "FDR10, FDR, EDR, HDR, NDR, XDR");
	expect_port_refusal("\"link_layer\": 1",
			    ".link_layer: is a whole number; expected one of ethernet, infiniband");
	expect_port_refusal("\"bandwidth_gbps\": -1", ".bandwidth_gbps: is -1; expected Gbit/s "
						      "0.001..100000, or \"unlimited\"");
	expect_port_refusal("\"latency_us\": \"fast\"",
			    ".latency_us: is 'fast'; expected microseconds 0..1000000");
	expect_port_refusal("\"pkeys\": [\"0x10000\"]",
			    ".pkeys[0]: is 0x10000; expected at most 0xffff");
	expect_port_refusal("\"pkeys\": [\"fff\"]",
			    ".pkeys[0]: is 'fff'; expected a number such as \"0xffff\"");
	expect_port_refusal("\"gids\": []", ".gids: has 0 elements; expected 1..16");
	expect_port_refusal("\"gids\": [{\"gid\": \"10.0.0.1\"}]",
			    ".gids[0].gid: is '10.0.0.1'; expected an IPv6 address such as "
			    "\"fe80::1\" or \"::ffff:10.0.0.1\", \"::\" for an empty entry");
	expect_port_refusal("\"netdev\": \"a-name-that-is-too-long\"",
			    ".netdev: is 23 bytes long; expected 1..15 bytes");
	expect_port_refusal("\"state\": null",
			    ".state: is null; expected one of active, down, init");
}

static void a_document_of_the_wrong_shape_is_refused(void **state)
{
	(void)state;
	expect_refusal("[]", "f.json:1: the document: is an array; expected an object");
	expect_refusal("{\"hosts\": [{}]}",
		       "f.json:1: the document: has no \"version\"; expected \"version\": 1");
	expect_refusal("{\"version\": 2}", "f.json:1: version: is 2; expected 1..1");
	expect_refusal("{\"version\": 1}",
		       "f.json:1: the document: has no \"hosts\"; expected at least one");
	expect_refusal("{\"version\": 1, \"hosts\": {}}",
		       "f.json:1: hosts: is an object; expected an array");
	expect_refusal("{\"version\": 1, \"hosts\": [1]}",
		       "f.json:1: hosts[0]: is a whole number; expected an object");
}

#define ONE_HOST(hcas) "{\"version\": 1, \"hosts\": [{\"name\": \"a\", \"hcas\": [" hcas "]}]}"
#define ONE_PORT(port) ONE_HOST("{\"ports\": [{" port "}]}")
#define IB             "\"link_layer\": \"infiniband\""
#define IB_PORT(more)  "{" IB ", " more "}"

static void what_contradicts_itself_is_refused(void **state)
{
	(void)state;
	expect_refusal("{\"version\": 1, \"hosts\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
		       "f.json: a: two hosts have this name");
	expect_refusal("{\"version\": 1, \"hosts\": [{\"name\": \"12\"}]}",
		       "f.json: 12: bad host name; expected letters, digits, _ . -, not only "
		       "digits");
	expect_refusal(ONE_HOST("{\"name\": \"../x\"}"),
		       "f.json: a/../x: bad HCA name; expected letters, digits, _ . -, not only "
		       "digits");
	expect_refusal(ONE_HOST("{\"name\": \"m\"}, {\"name\": \"m\"}"),
		       "f.json: a/m: the host has another HCA of this name");
	expect_refusal(ONE_HOST("{\"node_guid\": 5}, {\"node_guid\": \"0x5\"}"),
		       "f.json: a/mlx5_1: node_guid 0x0000000000000005 belongs to a/mlx5_0 "
		       "already");
	expect_refusal(ONE_HOST("{\"pci_path\": \"0000:18:00.0\"}"),
		       "f.json: a/mlx5_0: pci_path is '0000:18:00.0'; expected the folder below "
		       "/sys/devices, such as \"pci0000:17/0000:17:00.0/0000:18:00.0\"");
	expect_refusal(ONE_PORT("\"lid\": 5"),
		       "f.json: a/mlx5_0:1: has a lid, sm_lid or lmc; an Ethernet port has none");
	expect_refusal(ONE_PORT(IB ", \"netdev\": \"e\""),
		       "f.json: a/mlx5_0:1: netdev is 'e'; an InfiniBand port has none");
	expect_refusal(ONE_PORT(IB ", \"lid\": 5, \"lmc\": 1"),
		       "f.json: a/mlx5_0:1: lid is 5; expected a multiple of 2, for lmc 1");
	expect_refusal(ONE_PORT("\"mtu\": 4096, \"max_mtu\": 1024"),
		       "f.json: a/mlx5_0:1: mtu is 4096; expected at most max_mtu, 1024");
	expect_refusal(ONE_PORT("\"gids\": [{\"gid\": \"fe80::1\", \"type\": \"ib\"}]"),
		       "f.json: a/mlx5_0:1: gids[0].type is of the other link layer; expected "
		       "roce_v1 or roce_v2");
	expect_refusal(ONE_HOST("{\"ports\": [" IB_PORT("\"lid\": 4, \"lmc\": 1") ", " IB_PORT(
			       "\"lid\": 5") "]}"),
		       "f.json: a/mlx5_0:1: lid 4 belongs to a/mlx5_0:2 already");
	expect_refusal(ONE_HOST("{\"ports\": [{\"gids\": [{\"gid\": \"fe80::1\"}]}, "
				"{\"gids\": [{\"gid\": \"fe80::1\"}]}]}"),
		       "f.json: a/mlx5_0:2: gids[0] belongs to a/mlx5_0:1 already");
}

static void ports_of_one_name_are_on_one_network(void **state)
{
	const struct sxt_soft_port *ports;
	struct sxt_soft_plan plan;

	(void)state;
	assert_int_equal(parse("{\"version\": 1, \"hosts\": ["
			       "{\"hcas\": [{\"ports\": [{}, {\"network\": \"x\"}]}]},"
			       "{\"hcas\": [{\"ports\": [{\"network\": \"y\"}, {}]},"
			       "{\"ports\": [{\"network\": \"x\"}]}]}]}",
			       &plan),
			 0);
	ports = plan.fabric->ports;
	assert_int_equal(ports[0].network_id, 0);
	assert_int_equal(ports[3].network_id, 0);
	assert_int_not_equal(ports[1].network_id, 0);
	assert_int_equal(ports[1].network_id, ports[4].network_id);
	assert_int_not_equal(ports[2].network_id, 0);
	assert_int_not_equal(ports[2].network_id, ports[1].network_id);
	sxt_soft_plan_fini(&plan);
}

static void bad_network_names_are_refused(void **state)
{
	(void)state;
	expect_port_refusal("\"netwrk\": \"x\"",
			    ": unknown key 'netwrk'; did you mean 'network'?; docs/fabric.md lists "
			    "all");
	expect_port_refusal("\"network\": 1", ".network: is a whole number; expected text");
	expect_port_refusal("\"network\": \"\"", ".network: is 0 bytes long; expected 1..31 bytes");
	expect_refusal(ONE_PORT("\"network\": \"a b\""),
		       "f.json: a/mlx5_0:1: network is 'a b'; expected letters, digits, _ . -, not "
		       "only digits");
}

static void lids_left_out_go_around_those_that_are_said(void **state)
{
	struct sxt_soft_plan plan;

	(void)state;
	assert_int_equal(parse(ONE_HOST("{\"ports\": [{" IB "}, {" IB "}, " IB_PORT(
				       "\"lid\": 2") ", " IB_PORT("\"lmc\": 2") "]}"),
			       &plan),
			 0);
	assert_int_equal(plan.fabric->ports[0].lid, 3);
	assert_int_equal(plan.fabric->ports[1].lid, 4);
	assert_int_equal(plan.fabric->ports[3].lid, 8);
	sxt_soft_plan_fini(&plan);
}

static void expect_fault_refusal(const char *members, const char *message)
{
	char text[512];
	char full[512];

	snprintf(text, sizeof(text),
		 "{\"version\": 1, \"hosts\": [{\"name\": \"aa\", \"hcas\": [{\"ports\": [{}, "
		 "{}]}]}],"
		 "\"faults\": [{%s}]}",
		 members);
	snprintf(full, sizeof(full), "f.json:1: faults[0]%s", message);
	expect_refusal(text, full);
}

static void faults_that_cannot_be_done_are_refused(void **state)
{
	(void)state;
	expect_fault_refusal("\"target\": \"aa/mlx5_0\", \"state\": \"down\"",
			     ": target is 'aa/mlx5_0'; expected HOST/HCA:PORT");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:3\", \"state\": \"down\"",
			     ": target is 'aa/mlx5_0:3': no port '3' of mlx5_0; expected 1..2");
	expect_fault_refusal("\"target\": \"aa/mlx5_00:1\", \"state\": \"down\"",
			     ": target is 'aa/mlx5_00:1': no HCA of host aa named 'mlx5_00'; did "
			     "you mean 'mlx5_0'?; `sextant soft show` lists them");
	expect_fault_refusal("\"target\": \"bb\", \"kill\": 0",
			     ": target is 'bb': no host 'bb'; `sextant soft show` lists them");
	expect_fault_refusal("\"target\": \"aa/mlx5_0\", \"kill\": 0",
			     ": target is 'aa/mlx5_0'; expected HOST");
	expect_fault_refusal("\"target\": \"aa\", \"reg_error\": \"ENOMEM\"",
			     ": target is 'aa'; expected HOST/HCA");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\"",
			     ": says 0 things to do; expected exactly one of state, wc_error, "
			     "event, reg_error, drop, gid and kill");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"drop\": true, \"state\": \"down\"",
			     ": says 2 things to do; expected exactly one of state, wc_error, "
			     "event, reg_error, drop, gid and kill");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"drop\": \"onn\"",
			     ".drop: is 'onn'; did you mean on; expected one of off, on");
	expect_fault_refusal(
		"\"target\": \"aa/mlx5_0:1\", \"dropp\": true",
		": unknown key 'dropp'; did you mean 'drop'?; docs/fabric.md lists all");
	expect_fault_refusal("\"target\": \"aa\", \"drop\": true",
			     ": target is 'aa'; expected HOST/HCA:PORT");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"gid\": 1",
			     ": gid lacks to; expected the index that entry 1 goes to, or its new "
			     "address");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"gid\": 1, \"to\": 4",
			     ": to is 4; the GID table of aa/mlx5_0:1 has 0..3");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"gid\": 5, \"to\": \"::\"",
			     ": gid is 5; the GID table of aa/mlx5_0:1 has 0..3");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"gid\": 16, \"to\": 1",
			     ".gid: is 16; expected an index of the port's GID table, 0..15");
	expect_fault_refusal(
		"\"target\": \"aa/mlx5_0:1\", \"gid\": 1, \"to\": \"10.0.0.1\"",
		".to: is '10.0.0.1'; expected an index of the port's GID table, 0..15, "
		"or an address such as \"::ffff:10.0.0.1\", \"::\" for none");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"state\": \"down\", \"to\": 1",
			     ": to goes with gid, not with others");
	expect_fault_refusal("\"target\": \"aa/mlx5_0:1\", \"event\": \"PORT_ERR\", \"count\": 2",
			     ": count goes with wc_error and reg_error, not with others");
	expect_fault_refusal("\"target\": \"aa/mlx5_0\", \"reg_error\": \"ENOMEMM\"",
			     ".reg_error: is 'ENOMEMM'; did you mean ENOMEM; expected an errno "
			     "such as ENOMEM");
	expect_fault_refusal("\"target\": \"aa\", \"kill\": -1",
			     ".kill: expected \"all\" or which process of the host, 0..1023");
}

static void a_fabric_that_is_too_big_is_refused(void **state)
{
	static char text[65536];
	struct sxt_soft_plan untouched = {0};
	size_t len = (size_t)snprintf(text, sizeof(text), "{\"version\": 1, \"hosts\": [");

	(void)state;
	for (int i = 0; i < 9; i++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s{\"hcas\": [",
					i > 0 ? "," : "");
		for (int k = 0; k < 60; k++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s{}",
						k > 0 ? "," : "");
		len += (size_t)snprintf(text + len, sizeof(text) - len, "]}");
	}
	snprintf(text + len, sizeof(text) - len, "]}");
	assert_int_equal(parse(text, &untouched), -EINVAL);
	assert_string_equal(why, "f.json:1: hosts[8].hcas[32]: one HCA too many; a fabric has at "
				 "most 512");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_built_in_fabric_is_two_hosts_of_two_roce_hcas),
		cmocka_unit_test(every_key_of_an_hca_arrives),
		cmocka_unit_test(every_key_of_a_port_arrives),
		cmocka_unit_test(the_timeline_is_ordered_by_time_then_by_place),
		cmocka_unit_test(an_unknown_key_is_told_with_its_line_and_the_nearest),
		cmocka_unit_test(what_is_not_json_is_told_with_its_line),
		cmocka_unit_test(values_outside_their_range_are_refused),
		cmocka_unit_test(a_document_of_the_wrong_shape_is_refused),
		cmocka_unit_test(what_contradicts_itself_is_refused),
		cmocka_unit_test(ports_of_one_name_are_on_one_network),
		cmocka_unit_test(bad_network_names_are_refused),
		cmocka_unit_test(lids_left_out_go_around_those_that_are_said),
		cmocka_unit_test(faults_that_cannot_be_done_are_refused),
		cmocka_unit_test(a_fabric_that_is_too_big_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
