/*
 * test_nic.c - NICs as NCCL sees them: their places, merging, and registrations on all their
 * ports.
 */
#include "ib/nic.h"

#include "ib/mr.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/rig.h"
#include "tests/unit/ib/tree.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How the machine differs from the fake's. */
static struct {
	int two_ports;   /* the device that has two, or -1 */
	int infiniband;  /* the device that is InfiniBand, or -1 */
	int unlike;      /* the device with twice the speed and small messages, or -1 */
	int reg_refuser; /* the device that registers nothing, or -1 */
	int reg_cnt;
	int dereg_cnt;
} machine;

static int number_of(struct ibv_context *context)
{
	return rig.verbs.get_device_name(context->device)[5] - '0';
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int rc = sxt_fake_verbs()->query_device(context, attr);

	if (number_of(context) == machine.two_ports)
		attr->phys_port_cnt = 2;
	return rc;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	int rc = sxt_fake_verbs()->query_port(context, 1, attr);

	(void)port;
	if (number_of(context) == machine.infiniband) {
		attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
		attr->lid = 5;
		attr->sm_lid = 1;
	}
	if (number_of(context) == machine.unlike) {
		attr->active_speed = 128;
		attr->max_msg_sz = 1u << 20;
	}
	return rc;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)port;
	return sxt_fake_verbs()->query_gid(context, 1, index, gid);
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	(void)port;
	return sxt_fake_verbs()->query_gid_ex(context, 1, index, entry, flags, bytes);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	if (number_of(pd->context) == machine.reg_refuser) {
		errno = ENOMEM;
		return NULL;
	}
	machine.reg_cnt++;
	return sxt_fake_verbs()->reg_mr(pd, addr, bytes, access);
}

static int dereg_mr(struct ibv_mr *mr)
{
	machine.dereg_cnt++;
	return sxt_fake_verbs()->dereg_mr(mr);
}

static int setup(void **state)
{
	static const struct sxt_fake_config eight = {
		.devices_cnt = 8,
		.inline_bytes = 64,
		.max_msg_bytes = 1u << 30,
		.max_cqe = 1 << 20,
	};

	rig_setup(state);
	memset(&machine, 0, sizeof(machine));
	machine.two_ports = machine.infiniband = machine.unlike = machine.reg_refuser = -1;
	rig.verbs.query_device = query_device;
	rig.verbs.query_port = query_port;
	rig.verbs.query_gid = query_gid;
	rig.verbs.query_gid_ex = query_gid_ex;
	rig.verbs.reg_mr = reg_mr;
	rig.verbs.reg_mr_iova2 = NULL;
	rig.verbs.dereg_mr = dereg_mr;
	return sxt_fake_reset(&eight);
}

static void start(void)
{
	assert_int_equal(rig_start(0, true), 0);
}

static struct sxt_nic_props props_of(int dev)
{
	struct sxt_nic_props props = {0};

	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], dev, &props), 0);
	return props;
}

static int merge(const int *devs, int cnt)
{
	int dev = -1;

	assert_int_equal(sxt_ib_merge(rig.ibs[0], devs, cnt, SXT_NIC_DEVS_MAX, &dev), 0);
	return dev;
}

static void a_merged_nic_is_the_sum_of_its_parts(void **state)
{
	static const int devs[] = {3, 1};
	struct sxt_nic_props props;

	(void)state;
	machine.unlike = 1;
	start();
	assert_int_equal(merge(devs, 2), 8);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 9);
	props = props_of(8);
	assert_string_equal(props.name, "sxt_fake_3+fake_1");
	assert_int_equal(props.speed_mbps, 600000);
	assert_int_equal(props.guid, props_of(3).guid);
	assert_int_equal(props.port, 1);
	assert_int_equal(props.devs_cnt, 2);
	assert_memory_equal(props.devs, devs, sizeof(devs));
	assert_int_equal(props.max_message_bytes, props_of(1).max_message_bytes);
	assert_true(props.max_message_bytes < props_of(3).max_message_bytes);
	assert_int_equal(rig_logged("\n2 NIC 8: sxt_fake_3+fake_1 merges fake_3 (200 Gb/s), "
				    "fake_1 (400 Gb/s): 600 Gb/s; their speeds differ"),
			 1);
	props = props_of(3);
	assert_int_equal(props.devs_cnt, 1);
	assert_int_equal(props.devs[0], 3);
}

static void the_same_list_gives_the_same_nic(void **state)
{
	static const int devs[] = {0, 1, 2, 3, 4, 5, 6, 7};
	static const int turned[] = {1, 0};

	(void)state;
	start();
	assert_int_equal(merge(devs, 2), 8);
	assert_int_equal(merge(devs, 8), 9);
	assert_int_equal(merge(turned, 2), 10);
	assert_int_equal(merge(devs, 2), 8);
	assert_int_equal(merge(devs, 8), 9);
	assert_int_equal(props_of(9).speed_mbps, 1600000);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 11);
	/* A list of one is that one: two of the same name would be one to NCCL. */
	assert_int_equal(merge(devs + 5, 1), 5);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 11);
}

static void lists_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		int devs[SXT_NIC_DEVS_MAX + 1];
		int cnt;
		int most;
		const char *why;
	} bad[] = {
		{{0}, 0, 8, "merging 0 NICs: expected 1 to 8"},
		{{0}, -1, 4, "merging -1 NICs: expected 1 to 4"},
		{{0, 1, 2, 3, 4}, 5, 4, "merging 5 NICs: expected 1 to 4"},
		{{0, 1, 2, 3, 4, 5, 6, 7, 8}, 9, 100, "merging 9 NICs: expected 1 to 8"},
		{{0, 9}, 2, 8, "merging NICs: there is no NIC 9, they are 0..8"},
		{{-1}, 1, 8, "merging NICs: there is no NIC -1, they are 0..8"},
		{{2, 1, 2}, 3, 8, "merging NICs: 2 (fake_2) is in the list twice"},
		{{2, 8}, 2, 8, "merging NICs: 8 (fake_0+fake_1) is merged itself"},
	};
	static const int devs[] = {0, 1};

	(void)state;
	start();
	assert_int_equal(merge(devs, 2), 8);
	for (size_t i = 0; i < SXT_ARRAY_LEN(bad); i++) {
		int dev = 77;

		assert_int_equal(sxt_ib_merge(rig.ibs[0], bad[i].devs, bad[i].cnt, bad[i].most,
					      &dev),
				 -EINVAL);
		assert_int_equal(dev, 77);
		if (rig_logged(bad[i].why) != 1)
			fail_msg("nothing logged with \"%s\"", bad[i].why);
	}
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 9);
}

static void expect_apart(const int *devs, int cnt, const char *why)
{
	int dev = 77;

	assert_int_equal(sxt_ib_merge(rig.ibs[0], devs, cnt, 8, &dev), -EOPNOTSUPP);
	assert_int_equal(dev, 77);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 8);
	if (rig_logged(why) != 1)
		fail_msg("nothing logged with \"%s\"", why);
}

static void infiniband_and_roce_stay_apart(void **state)
{
	static const int devs[] = {0, 1, 2};

	(void)state;
	machine.infiniband = 2;
	rig_set(&rig.config.ib_hca, "fake"); /* who names them gets both kinds */
	start();
	expect_apart(devs, 3, "fake_0 and fake_2 cannot be merged: one is InfiniBand, the other");
}

static void merging_can_be_forbidden(void **state)
{
	static const int devs[] = {0, 1};

	(void)state;
	rig.config.ib_merge_nics = 0;
	start();
	expect_apart(devs, 2, "merging 2 NICs: NCCL_IB_MERGE_NICS=0 forbids it");
	assert_int_equal(merge(devs, 1), 0);
}

static void the_table_ends_at_nccls(void **state)
{
	static const int again[] = {7, 6, 5};
	int dev = 0;
	int rc = 0;

	(void)state;
	start();
	for (int i = 0; i < 8 * 8 * 8 && rc == 0; i++) {
		const int devs[] = {i / 64, i / 8 % 8, i % 8};

		if (devs[0] != devs[1] && devs[1] != devs[2] && devs[0] != devs[2])
			rc = sxt_ib_merge(rig.ibs[0], devs, 3, 8, &dev);
	}
	assert_int_equal(rc, -ENOBUFS);
	assert_int_equal(dev, 127);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 128);
	assert_int_equal(rig_logged("there are 128, which is all that NCCL numbers"), 1);
	assert_int_equal(sxt_ib_merge(rig.ibs[0], again, 3, 8, &dev), -ENOBUFS);
	assert_int_equal(dev, 127);
}

static struct sxt_merges kept;

/* The transport of the next communicator, after the last one's has ended. */
static void start_next(void)
{
	const struct sxt_ib_parts parts = {
		.sys = &rig.sys,
		.config = &rig.config,
		.verbs = &rig.verbs,
		.merges = &kept,
		.is_manual = true,
	};

	sxt_ib_destroy(rig.ibs[0]);
	rig.ibs[0] = NULL;
	assert_int_equal(sxt_ib_create(&parts, &rig.ibs[0]), 0);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), rig.ibs[0]->ports_cnt);
}

/* The process's first one, where NCCL merges the first two NICs. */
static void start_first(void)
{
	static const int devs[] = {0, 1};

	memset(&kept, 0, sizeof(kept));
	start_next();
	assert_int_equal(merge(devs, 2), 8);
}

static void numbers_outlive_the_transport(void **state)
{
	static const int devs[] = {0, 1, 2, 3};
	struct sxt_nic_props props;

	(void)state;
	start_first();
	assert_int_equal(merge(devs + 2, 2), 9);
	/* NCCL goes on with the numbers it has, ... */
	start_next();
	assert_string_equal(props_of(9).name, "sxt_fake_2+fake_3");
	assert_string_equal(props_of(8).name, "sxt_fake_0+fake_1");
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 10, &props), -EINVAL);
	/* ... or merges anew, alike ... */
	start_next();
	assert_int_equal(merge(devs, 2), 8);
	assert_string_equal(props_of(9).name, "sxt_fake_2+fake_3");
	/* ... or not: then what came later is void. */
	start_next();
	assert_int_equal(merge(devs, 4), 8);
	assert_string_equal(props_of(9).name, "sxt_fake_1");
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 10, &props), -EINVAL);
}

static void a_port_that_is_gone_has_a_stand_in(void **state)
{
	struct sxt_nic_props props;

	(void)state;
	start_first();
	rig_set(&rig.config.ib_hca, "^fake_0,fake_6");
	start_next();
	assert_string_equal(props_of(5).name, "sxt_fake_7");
	assert_string_equal(props_of(7).name, "sxt_fake_2");
	/* The merged one as well, since its list was of other ports. */
	assert_string_equal(props_of(8).name, "sxt_fake_3");
	assert_string_equal(props_of(8).name, "sxt_fake_3");
	assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 9, &props), -EINVAL);
	assert_int_equal(rig_logged("\n1 properties: NCCL was told of 9 NICs before, and there are "
				    "6 now"),
			 2);
	assert_int_equal(rig_logged("fake_3 stands in for NIC 8; start the job again"), 1);
}

/* @places: PCI folder of fake_0 and so on. @vf, @pf: which is whose virtual function, or -1. */
static void make_sysfs(const char *const *places, int cnt, int vf, int pf)
{
	char path[192];

	rig_set(&rig.config.sysroot, tree_open());
	for (int i = 0; i < cnt; i++) {
		tree_folder(places[i]);
		snprintf(path, sizeof(path), "/sys/class/infiniband/fake_%d/device", i);
		tree_link(path, places[i]);
	}
	if (vf >= 0) {
		snprintf(path, sizeof(path), "%s/physfn", places[vf]);
		tree_link(path, places[pf]);
	}
}

static int teardown(void **state)
{
	tree_close();
	return rig_teardown(state);
}

#define BUS "/sys/devices/pci0000:00/0000:00:01.0/"

static const char *const card[] = {
	BUS "0000:3b:00.0",                             /* a card's two ports */
	BUS "0000:3b:00.1",         BUS "0000:3b:01.2", /* a virtual function of the second */
	BUS "0000:5e:00.0",                             /* another card */
	BUS "0000:5e:00.0/virtio1",
};

static void expect_place(const char *name, const char *path, int port)
{
	for (int i = 0; i < sxt_ib_nics_cnt(rig.ibs[0]); i++) {
		struct sxt_nic_props props = props_of(i);

		if (strcmp(props.name, name) != 0)
			continue;
		assert_string_equal(props.pci_path, path);
		assert_int_equal(props.port, port);
		return;
	}
	fail_msg("there is no %s", name);
}

static void the_functions_of_a_card_are_its_ports(void **state)
{
	(void)state;
	make_sysfs(card, 5, -1, -1);
	start();
	expect_place("sxt_fake_0", BUS "0000:3b:00.0", 1);
	expect_place("sxt_fake_1", BUS "0000:3b:00.0", 2);
	expect_place("sxt_fake_2", BUS "0000:3b:00.0", 3);
	expect_place("sxt_fake_3", BUS "0000:5e:00.0", 1);
	expect_place("sxt_fake_4", BUS "0000:5e:00.0/virtio1", 1);
	assert_null(props_of(0).pci_path); /* of fake_5, which sysfs does not know */
	assert_int_equal(props_of(0).port, 1);
}

static void virtual_functions_can_be_kept_apart(void **state)
{
	(void)state;
	rig.config.ib_merge_vfs = 0;
	machine.two_ports = 0;
	make_sysfs(card, 5, -1, -1);
	start();
	expect_place("sxt_fake_0", BUS "0000:3b:00.0", 1);
	expect_place("sxt_fake_0:2", BUS "0000:3b:00.0", 3);
	expect_place("sxt_fake_1", BUS "0000:3b:00.0", 3);
	expect_place("sxt_fake_2", BUS "0000:3b:01.0", 1);
}

static void the_order_is_by_pci_path_or_the_librarys(void **state)
{
	static const char *const places[] = {BUS "0000:5e:00.0", BUS "0000:3b:00.0"};

	(void)state;
	make_sysfs(places, 2, -1, -1);
	start();
	/* Those without a path come first. */
	assert_string_equal(props_of(0).name, "sxt_fake_2");
	assert_string_equal(props_of(6).name, "sxt_fake_1");
	assert_string_equal(props_of(7).name, "sxt_fake_0");
	sxt_ib_destroy(rig.ibs[0]);
	rig.config.ib_device_pci_order = 0;
	start();
	assert_string_equal(props_of(0).name, "sxt_fake_0");
	assert_string_equal(props_of(1).name, "sxt_fake_1");
}

static void a_virtual_function_stays_apart_from_physical_ones_of_its_card(void **state)
{
	static const int own[] = {1, 2};
	static const int other_port[] = {2, 0};
	static const int other_card[] = {2, 3};

	(void)state;
	rig.config.ib_device_pci_order = 0;
	make_sysfs(card, 5, 2, 1);
	start();
	expect_apart(own, 2, "fake_1 and fake_2 cannot be merged: a virtual function and");
	expect_apart(other_port, 2, "fake_2 and fake_0 cannot be merged: a virtual function and");
	assert_int_equal(merge(other_card, 2), 8);
}

static _Alignas(4096) char memory[4096];
static const struct sxt_mr_spec whole = {.addr = memory, .bytes = sizeof(memory), .dmabuf_fd = -1};

/* NIC 10 of fake_0's both ports and of fake_1. */
static struct sxt_nic *three_ports(void)
{
	static const int devs[] = {0, 2, 1};
	struct sxt_nic *nic = NULL;

	machine.two_ports = 0;
	start();
	assert_string_equal(props_of(1).name, "sxt_fake_0:2");
	assert_int_equal(sxt_ib_nic(rig.ibs[0], merge(devs, 3), "test", &nic), 0);
	assert_string_equal(nic->label, "fake_0+fake_1+fake_0:2");
	return nic;
}

static void a_registration_has_keys_for_every_port(void **state)
{
	struct sxt_nic *nic = three_ports();
	struct sxt_mr *mr = NULL;

	(void)state;
	assert_int_equal(sxt_mr_cache_get(nic, &whole, &mr), 0);
	assert_int_equal(machine.reg_cnt, 2);
	assert_int_equal(mr->lkeys[0], mr->verbs_mrs[0]->lkey);
	assert_int_equal(mr->rkeys[0], mr->verbs_mrs[0]->rkey);
	assert_int_equal(mr->lkeys[1], mr->verbs_mrs[1]->lkey);
	assert_int_equal(mr->rkeys[1], mr->verbs_mrs[1]->rkey);
	assert_int_not_equal(mr->rkeys[1], mr->rkeys[0]);
	assert_null(mr->verbs_mrs[2]); /* shares the first one's */
	assert_int_equal(mr->lkeys[2], mr->lkeys[0]);
	assert_int_equal(mr->rkeys[2], mr->rkeys[0]);
	assert_int_equal(mr->lkeys[3] | mr->rkeys[3], 0);
	sxt_mr_cache_put(nic, mr);
	assert_int_equal(machine.dereg_cnt, 2);
}

static void a_port_that_refuses_is_named_and_nothing_stays(void **state)
{
	struct sxt_nic *nic = three_ports();
	struct sxt_mr *mr = NULL;

	(void)state;
	machine.reg_refuser = 1;
	assert_int_equal(sxt_mr_cache_get(nic, &whole, &mr), -ENOMEM);
	assert_null(mr);
	assert_int_equal(nic->mrs_cnt, 0);
	assert_int_equal(machine.reg_cnt, machine.dereg_cnt);
	assert_int_equal(rig_logged(" on fake_1: "), 1);
}

static _Atomic int readers_stop;

static void *read_on(void *arg)
{
	struct sxt_nic_props props;
	int bad = 0;

	while (atomic_load(&readers_stop) == 0) {
		int last = sxt_ib_nics_cnt(rig.ibs[0]) - 1;

		if (sxt_ib_nic_props(rig.ibs[0], last, &props) != 0 || props.name[0] != 's')
			bad++;
	}
	*(int *)arg = bad;
	return NULL;
}

static void *merge_all(void *arg)
{
	for (int i = 0; i < 8 * 8; i++) {
		const int devs[] = {i / 8, i % 8};
		int dev;

		if (devs[0] != devs[1] && sxt_ib_merge(rig.ibs[0], devs, 2, 8, &dev) != 0)
			(*(int *)arg)++;
	}
	return NULL;
}

static void merging_runs_beside_everything_else(void **state)
{
	pthread_t reader;
	pthread_t mergers[2];
	int bad[3] = {0};

	(void)state;
	start();
	atomic_store(&readers_stop, 0);
	assert_int_equal(pthread_create(&reader, NULL, read_on, &bad[2]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&mergers[i], NULL, merge_all, &bad[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(mergers[i], NULL);
	atomic_store(&readers_stop, 1);
	pthread_join(reader, NULL);
	assert_int_equal(bad[0] + bad[1] + bad[2], 0);
	assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 8 + 56); /* each pair once */
}

#define NIC_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NIC_TEST(a_merged_nic_is_the_sum_of_its_parts),
		NIC_TEST(the_same_list_gives_the_same_nic),
		NIC_TEST(lists_that_make_no_sense_are_refused),
		NIC_TEST(infiniband_and_roce_stay_apart),
		NIC_TEST(merging_can_be_forbidden),
		NIC_TEST(the_table_ends_at_nccls),
		NIC_TEST(numbers_outlive_the_transport),
		NIC_TEST(a_port_that_is_gone_has_a_stand_in),
		NIC_TEST(the_functions_of_a_card_are_its_ports),
		NIC_TEST(virtual_functions_can_be_kept_apart),
		NIC_TEST(the_order_is_by_pci_path_or_the_librarys),
		NIC_TEST(a_virtual_function_stays_apart_from_physical_ones_of_its_card),
		NIC_TEST(a_registration_has_keys_for_every_port),
		NIC_TEST(a_port_that_refuses_is_named_and_nothing_stays),
		NIC_TEST(merging_runs_beside_everything_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
