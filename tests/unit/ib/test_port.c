/*
 * test_port.c - which ports are offered, under what name and address, and why others are not.
 */
#include "ib/port.h"

#include "tests/fake/verbs.h"
#include "tests/unit/ib/rig.h"
#include "tests/unit/ib/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the machine says instead of the fake, where a test sets it. */
static struct {
	struct ibv_port_attr attr; /* of device 0 */
	bool has_attr;
	int query_port_rc; /* errno, of device 0 */
	int open_errno;    /* of device 0 */
	uint8_t gids[8][16];
	uint8_t types[8];
	int gids_cnt;
} machine;

static bool is_first(const struct ibv_context *context)
{
	return strcmp(rig.verbs.get_device_name(context->device), "fake_0") == 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	int rc = sxt_fake_verbs()->query_port(context, port, attr);

	if (!is_first(context))
		return rc;
	if (machine.query_port_rc != 0)
		return machine.query_port_rc;
	if (machine.has_attr)
		*attr = machine.attr;
	if (machine.gids_cnt > 0)
		attr->gid_tbl_len = machine.gids_cnt;
	return 0;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	if (machine.open_errno != 0 && strcmp(rig.verbs.get_device_name(device), "fake_0") == 0) {
		errno = machine.open_errno;
		return NULL;
	}
	return sxt_fake_verbs()->open_device(device);
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (machine.gids_cnt == 0 || !is_first(context))
		return sxt_fake_verbs()->query_gid(context, port, index, gid);
	memcpy(gid->raw, machine.gids[index], sizeof(gid->raw));
	return 0;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	if (machine.gids_cnt == 0 || !is_first(context))
		return sxt_fake_verbs()->query_gid_ex(context, port, index, entry, flags, bytes);
	entry->gid_type = machine.types[index];
	return 0;
}

static int setup(void **state)
{
	rig_setup(state);
	memset(&machine, 0, sizeof(machine));
	rig.verbs.query_port = query_port;
	rig.verbs.open_device = open_device;
	rig.verbs.query_gid = query_gid;
	rig.verbs.query_gid_ex = query_gid_ex;
	machine.attr = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.phys_state = 5,
		.active_mtu = IBV_MTU_1024,
		.gid_tbl_len = 2,
		.max_msg_sz = 1u << 30,
		.lid = 17,
		.sm_lid = 1,
		.active_width = 2,
		.active_speed = 128,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};
	return 0;
}

static void add_gid(uint8_t type, const uint8_t gid[16])
{
	memcpy(machine.gids[machine.gids_cnt], gid, 16);
	machine.types[machine.gids_cnt++] = type;
}

static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 1};
static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9};

static void expect_left_out(const char *why)
{
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 1);
	assert_string_equal(rig.ibs[0]->ports[0]->name, "sxt_fake_1");
	if (rig_logged(why) != 1)
		fail_msg("nothing logged with \"%s\"", why);
}

static void ports_are_offered_with_their_properties(void **state)
{
	struct sxt_nic_props props = {0};

	(void)state;
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 2);
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 1, &props), 0);
	assert_string_equal(props.name, "sxt_fake_1");
	assert_null(props.pci_path);
	assert_int_equal(props.speed_mbps, 200000); /* 4 lanes of HDR */
	assert_int_equal(props.port, 1);
	assert_true(props.max_message_bytes >= 1ull << 30);
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 2, &props), -EINVAL);
	assert_int_equal(rig_logged("there is no NIC 2, they are 0..1"), 1);
	assert_int_equal(rig_logged("port sxt_fake_0: RoCE v2, 200 Gb/s, MTU 4096, GID index 1 "
				    "192.0.2.1"),
			 1);
}

static void a_port_that_is_down_says_what_to_check(void **state)
{
	(void)state;
	machine.has_attr = true;
	machine.attr.state = IBV_PORT_DOWN;
	machine.attr.phys_state = 2;
	expect_left_out("port fake_0:1 is left out: it is DOWN (polling); no signal: check cable");
}

static struct ibv_device **list_efa(int *cnt)
{
	struct ibv_device **list = sxt_fake_verbs()->get_device_list(cnt);

	list[0]->transport_type = IBV_TRANSPORT_UNSPECIFIED;
	list[1]->transport_type = IBV_TRANSPORT_IWARP;
	return list;
}

static void devices_of_another_kind_end_it_at_once_and_say_what_they_are(void **state)
{
	(void)state;
	rig.verbs.get_device_list = list_efa;
	assert_int_equal(rig_start(0, true), -ENODEV);
	assert_int_equal(rig_logged("2 HCA fake_0 is left out: it is no InfiniBand or RoCE device"),
			 1);
	assert_int_equal(rig_logged("0 none of 2 HCAs has a port that can be used: fake_0: it is "
				    "no InfiniBand or RoCE device and has no reliable connections "
				    "(EFA, usNIC): it needs the network plugin made for it (EFA: "
				    "aws-ofi-nccl); fake_1: it speaks iWARP, which has no "
				    "immediate data"),
			 1);
}

static void infiniband_without_a_subnet_manager_is_left_out(void **state)
{
	(void)state;
	machine.has_attr = true;
	machine.attr.sm_lid = 0;
	expect_left_out("no subnet manager (LID 17, SM LID 0)");
}

static void a_port_in_init_asks_for_a_subnet_manager(void **state)
{
	(void)state;
	machine.has_attr = true;
	machine.attr.state = IBV_PORT_INIT;
	expect_left_out("it is INIT (link up); is a subnet manager running?");
}

static void a_port_that_cannot_be_queried_is_left_out(void **state)
{
	(void)state;
	machine.query_port_rc = EIO;
	expect_left_out("cannot be queried: Input/output error");
}

static void a_forbidden_device_names_the_permission(void **state)
{
	(void)state;
	machine.open_errno = EACCES;
	expect_left_out("may not open /dev/infiniband/uverbs*");
}

static void the_hca_list_excludes_by_name(void **state)
{
	(void)state;
	rig_set(&rig.config.ib_hca, "=fake_1");
	expect_left_out("port fake_0:1 is left out: NCCL_IB_HCA==fake_1 excludes it");
}

static void no_port_at_all_is_an_error_that_says_so(void **state)
{
	(void)state;
	rig_set(&rig.config.ib_hca, "mlx5");
	assert_int_equal(rig_start(0, true), -ENODEV);
	assert_null(rig.ibs[0]);
	assert_int_equal(rig_logged("none of 2 HCAs has a port"), 1);
}

static struct ibv_device **no_devices(int *cnt)
{
	static struct ibv_device *list[1];

	*cnt = 0;
	return list;
}

static struct ibv_device **no_kernel(int *cnt)
{
	(void)cnt;
	errno = ENOSYS;
	return NULL;
}

static void free_nothing(struct ibv_device **list)
{
	(void)list;
}

static void no_device_and_no_kernel_support_are_told_apart(void **state)
{
	(void)state;
	rig.verbs.free_device_list = free_nothing;
	rig.verbs.get_device_list = no_devices;
	assert_int_equal(rig_start(0, true), -ENODEV);
	assert_int_equal(rig_logged("there is no HCA"), 1);
	rig.verbs.get_device_list = no_kernel;
	assert_int_equal(rig_start(0, true), -ENODEV);
	assert_int_equal(rig_logged("modprobe ib_uverbs"), 1);
}

static void infiniband_uses_lid_and_index_0(void **state)
{
	struct sxt_port_place place;

	(void)state;
	machine.has_attr = true;
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
	assert_int_equal(place.path.lid, 17);
	assert_int_equal(place.gid_index, 0);
	assert_int_equal(place.path.mtu, IBV_MTU_1024);
	assert_int_equal(place.path.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 400000);
	assert_string_equal(place.path.hca, "fake_0");
}

static void address_and_state_are_read_afresh(void **state)
{
	struct sxt_port_place place;

	(void)state;
	add_gid(IBV_GID_TYPE_ROCE_V2, link_local);
	add_gid(IBV_GID_TYPE_ROCE_V2, mapped);
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
	assert_int_equal(place.gid_index, 1);
	/* The interface lost its address and got it again: the table is in another order. */
	memcpy(machine.gids[0], mapped, 16);
	memcpy(machine.gids[1], link_local, 16);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
	assert_int_equal(place.gid_index, 0);
	machine.has_attr = true;
	machine.attr.state = IBV_PORT_DOWN;
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), -ENETDOWN);
	assert_int_equal(rig_logged("port fake_0 (port 1) cannot be used: it is DOWN"), 1);
}

#define PORT "/sys/class/infiniband/fake_0/ports/1/"
#define BUS  "/sys/devices/pci0000:00/"

static void sysfs_gives_place_order_speed_and_gid_types(void **state)
{
	struct sxt_nic_props props = {0};
	struct sxt_port_place place;

	(void)state;
	rig_set(&rig.config.sysroot, tree_open());
	tree_text(PORT "rate", "800 Gb/sec (4X XDR)\n");
	tree_text(PORT "gid_attrs/types/0", "IB/RoCE v1\n");
	tree_text(PORT "gid_attrs/types/1", "RoCE v2\n");
	tree_folder("/sys/class/infiniband/fake_1");
	tree_folder(BUS "0000:00:01.0");
	tree_folder(BUS "0000:00:02.0");
	tree_link("/sys/class/infiniband/fake_0/device", BUS "0000:00:02.0");
	tree_link("/sys/class/infiniband/fake_1/device", BUS "0000:00:01.0");
	rig.config.ib_merge_vfs = 0;   /* it would zero the device's number */
	rig.verbs.query_gid_ex = NULL; /* a library too old to tell */
	add_gid(0, mapped);
	add_gid(0, mapped);
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 1, &props), 0);
	assert_string_equal(props.name, "sxt_fake_0");
	assert_string_equal(props.pci_path, "/sys/devices/pci0000:00/0000:00:02.0");
	assert_int_equal(props.speed_mbps, 800000);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[1], &place), 0);
	assert_int_equal(place.gid_index, 1);
	assert_int_equal(place.path.gid_type, IBV_GID_TYPE_ROCE_V2);
	tree_close();
}

#define PORT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PORT_TEST(ports_are_offered_with_their_properties),
		PORT_TEST(a_port_that_is_down_says_what_to_check),
		PORT_TEST(devices_of_another_kind_end_it_at_once_and_say_what_they_are),
		PORT_TEST(infiniband_without_a_subnet_manager_is_left_out),
		PORT_TEST(a_port_in_init_asks_for_a_subnet_manager),
		PORT_TEST(a_port_that_cannot_be_queried_is_left_out),
		PORT_TEST(a_forbidden_device_names_the_permission),
		PORT_TEST(the_hca_list_excludes_by_name),
		PORT_TEST(no_port_at_all_is_an_error_that_says_so),
		PORT_TEST(no_device_and_no_kernel_support_are_told_apart),
		PORT_TEST(infiniband_uses_lid_and_index_0),
		PORT_TEST(address_and_state_are_read_afresh),
		PORT_TEST(sysfs_gives_place_order_speed_and_gid_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
