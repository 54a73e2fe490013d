/*
 * test_sysfs_tree.c - the written /sys, read back the way the plugin reads the real one.
 */
#include "ib/soft/fabric.h"
#include "ib/soft/sysfs_tree.h"

#include "core/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char fabric_text[] =
	"{\"version\": 1, \"hosts\": [{\"name\": \"h\", \"hcas\": ["
	"{\"name\": \"ib0\", \"node_guid\": \"0x0002c90300a1b2c3\", \"fw_ver\": \"20.1\","
	" \"board_id\": \"B1\", \"hca_type\": \"MT4123\", \"numa_node\": -1, \"pci_width\": 8,"
	" \"pci_path\": \"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.1\","
	" \"ports\": [{\"link_layer\": \"infiniband\", \"lid\": 18, \"sm_lid\": 1,"
	"  \"speed\": \"HDR\", \"width\": \"2x\", \"pkeys\": [\"0xffff\", \"0x8001\"]},"
	"  {\"netdev\": \"roce7\", \"state\": \"down\", \"speed\": \"SDR\", \"width\": \"1x\","
	"   \"gids\": [{\"gid\": \"fe80::7\", \"type\": \"roce_v1\"}, {\"gid\": \"::\"}]}]}]}]}";

static char base[64];
static char root[PATH_MAX];
static struct sxt_soft_state *open_state;

static int make_tree(void **state)
{
	struct sxt_soft_plan plan;
	char why[256];
	char dir[128];
	int rc = sxt_soft_plan_parse("f", fabric_text, &plan, why, sizeof(why));

	(void)state;
	snprintf(base, sizeof(base), "/tmp/sxt-tree-XXXXXX");
	if (rc != 0 || mkdtemp(base) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/state", base);
	rc = sxt_soft_state_create(dir, plan.fabric);
	sxt_soft_plan_fini(&plan);
	if (rc == 0)
		rc = sxt_soft_state_open(dir, &open_state);
	if (rc == 0)
		rc = sxt_soft_tree_create(open_state);
	return rc == 0 ? sxt_soft_tree_root(open_state, 0, root) : rc;
}

static int remove_tree(void **state)
{
	(void)state;
	sxt_soft_state_close(open_state);
	return sxt_soft_tree_remove(base);
}

static void expect(const char *path, const char *wanted)
{
	char text[256] = "";

	assert_int_equal(sxt_sysfs_read(root, path, text, sizeof(text)), 0);
	assert_string_equal(text, wanted);
}

static void an_hca_says_what_its_fabric_file_says(void **state)
{
	(void)state;
	expect("/sys/class/infiniband/ib0/node_guid", "0002:c903:00a1:b2c3");
	expect("/sys/class/infiniband/ib0/sys_image_guid", "0002:c903:00a1:b2c3");
	expect("/sys/class/infiniband/ib0/fw_ver", "20.1");
	expect("/sys/class/infiniband/ib0/board_id", "B1");
	expect("/sys/class/infiniband/ib0/hca_type", "MT4123");
	expect("/sys/class/infiniband/ib0/node_type", "1: CA");
	expect("/sys/class/infiniband/ib0/node_desc", "h ib0");
}

static void an_infiniband_port_reads_as_the_kernel_writes_it(void **state)
{
	(void)state;
	expect("/sys/class/infiniband/ib0/ports/1/state", "4: ACTIVE");
	expect("/sys/class/infiniband/ib0/ports/1/phys_state", "5: LinkUp");
	expect("/sys/class/infiniband/ib0/ports/1/rate", "100 Gb/sec (2X HDR)");
	expect("/sys/class/infiniband/ib0/ports/1/lid", "0x12");
	expect("/sys/class/infiniband/ib0/ports/1/sm_lid", "0x1");
	expect("/sys/class/infiniband/ib0/ports/1/link_layer", "InfiniBand");
	expect("/sys/class/infiniband/ib0/ports/1/gids/0",
	       "fe80:0000:0000:0000:0002:c903:00a1:b2c4");
	expect("/sys/class/infiniband/ib0/ports/1/gid_attrs/types/0", "IB/RoCE v1");
	expect("/sys/class/infiniband/ib0/ports/1/pkeys/1", "0x8001");
}

static void a_roce_port_has_netdevs_and_holes_in_its_table(void **state)
{
	char text[64];

	(void)state;
	expect("/sys/class/infiniband/ib0/ports/2/state", "1: DOWN");
	expect("/sys/class/infiniband/ib0/ports/2/phys_state", "3: Disabled");
	expect("/sys/class/infiniband/ib0/ports/2/rate", "2.5 Gb/sec (1X SDR)");
	expect("/sys/class/infiniband/ib0/ports/2/link_layer", "Ethernet");
	expect("/sys/class/infiniband/ib0/ports/2/gid_attrs/types/0", "IB/RoCE v1");
	expect("/sys/class/infiniband/ib0/ports/2/gid_attrs/ndevs/0", "roce7");
	expect("/sys/class/infiniband/ib0/ports/2/gids/1",
	       "0000:0000:0000:0000:0000:0000:0000:0000");
	assert_int_not_equal(sxt_sysfs_read(root,
					    "/sys/class/infiniband/ib0/ports/2/gid_attrs/types/1",
					    text, sizeof(text)),
			     0);
	expect("/sys/class/net/roce7/dev_port", "1");
	expect("/sys/class/net/roce7/device/class", "0x020700");
}

static void the_device_link_leads_to_its_pci_folder(void **state)
{
	char path[256];

	(void)state;
	assert_int_equal(sxt_sysfs_real_path(root, "/sys/class/infiniband/ib0/device", path,
					     sizeof(path)),
			 0);
	assert_string_equal(path, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.1");
	assert_int_equal(sxt_sysfs_real_path(root, "/sys/bus/pci/devices/0000:16:00.0", path,
					     sizeof(path)),
			 0);
	assert_string_equal(path, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0");
	assert_int_equal(sxt_sysfs_real_path(root, "/sys/class/infiniband/ib0/device/driver", path,
					     sizeof(path)),
			 0);
	assert_string_equal(path, "/sys/bus/pci/drivers/mlx5_core");
	expect("/sys/class/infiniband/ib0/device/class", "0x020700");
	expect("/sys/class/infiniband/ib0/device/vendor", "0x15b3");
	expect("/sys/class/infiniband/ib0/device/device", "0x1021");
	expect("/sys/class/infiniband/ib0/device/numa_node", "-1");
	expect("/sys/class/infiniband/ib0/device/current_link_speed", "32.0 GT/s PCIe");
	expect("/sys/class/infiniband/ib0/device/current_link_width", "8");
	expect("/sys/class/infiniband/ib0/device/../class", "0x060400");
}

static void state_and_counters_follow_the_port(void **state)
{
	struct sxt_soft_port *port = &open_state->fabric->ports[1];

	(void)state;
	port->state = SXT_SOFT_PORT_ACTIVE;
	port->phys_state = SXT_SOFT_PHYS_UP;
	port->counters.xmit_bytes = 4000;
	port->counters.rcv_packets = 7;
	port->counters.cqe_flush = 9;
	expect("/sys/class/infiniband/ib0/ports/2/state", "1: DOWN");
	assert_int_equal(sxt_soft_tree_update_state(open_state, 1), 0);
	expect("/sys/class/infiniband/ib0/ports/2/state", "4: ACTIVE");
	assert_int_equal(sxt_soft_tree_update_counters(open_state, 1), 0);
	expect("/sys/class/infiniband/ib0/ports/2/counters/port_xmit_data", "1000");
	expect("/sys/class/infiniband/ib0/ports/2/counters/port_rcv_packets", "7");
	expect("/sys/class/infiniband/ib0/ports/2/hw_counters/req_cqe_flush_error", "9");
}

static void the_rest_of_the_machine_is_its_own(void **state)
{
	char here[256];
	char there[256];

	(void)state;
	assert_int_equal(sxt_sysfs_read("/", "/proc/version", here, sizeof(here)), 0);
	assert_int_equal(sxt_sysfs_read(root, "/proc/version", there, sizeof(there)), 0);
	assert_string_equal(here, there);
}

static void a_host_is_found_by_its_number_as_well(void **state)
{
	char by_number[PATH_MAX];
	char text[64];

	(void)state;
	snprintf(by_number, sizeof(by_number), "%s/state/hosts/0", base);
	assert_int_equal(sxt_sysfs_read(by_number, "/sys/class/infiniband/ib0/fw_ver", text,
					sizeof(text)),
			 0);
	assert_string_equal(text, "20.1");
}

static void removing_follows_no_link_and_does_not_mind_what_is_gone(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/state", base);
	assert_int_equal(sxt_soft_tree_remove(path), 0);
	assert_int_equal(sxt_soft_tree_remove(path), 0);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
}

int main(void)
{
#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, make_tree, remove_tree)
	const struct CMUnitTest tests[] = {
		TREE_TEST(an_hca_says_what_its_fabric_file_says),
		TREE_TEST(an_infiniband_port_reads_as_the_kernel_writes_it),
		TREE_TEST(a_roce_port_has_netdevs_and_holes_in_its_table),
		TREE_TEST(the_device_link_leads_to_its_pci_folder),
		TREE_TEST(state_and_counters_follow_the_port),
		TREE_TEST(the_rest_of_the_machine_is_its_own),
		TREE_TEST(a_host_is_found_by_its_number_as_well),
		TREE_TEST(removing_follows_no_link_and_does_not_mind_what_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
