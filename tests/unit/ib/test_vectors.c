/*
 * test_vectors.c - situations people met, on a whole machine: the address and the ports taken, the
 * line that says so, and whether SEXTANT_STRICT=1 lets the job start.
 */
#include "tests/unit/ib/machine.h"
#include "tests/unit/ib/rig.h"
#include "tests/unit/ib/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define IB MACHINE_IB
#define R1 "0=fe80::1/v1 1=fe80::1/v2 2=200.0.209.6/v1 3=200.0.209.6/v2"

/* Settings as a job has them: NAME=VALUE, or NULL. */
static int load(const char *setting, bool is_strict)
{
	char name[64] = "";
	int rc;

	sxt_config_fini(&rig.config);
	if (setting != NULL) {
		size_t len = strcspn(setting, "=");

		assert_true(len < sizeof(name));
		memcpy(name, setting, len);
		assert_int_equal(setenv(name, setting + len + 1, 1), 0);
	}
	if (is_strict)
		assert_int_equal(setenv("SEXTANT_STRICT", "1", 1), 0);
	rc = sxt_config_load(&rig.config);
	assert_int_equal(unsetenv("SEXTANT_STRICT"), 0);
	if (setting != NULL)
		assert_int_equal(unsetenv(name), 0);
	return rc;
}

/* With SEXTANT_STRICT=1 a wrong setting keeps the job from starting, and only that. */
static void check_strict(const char *setting, bool is_bad, int rc)
{
	int strict_rc = load(setting, true);

	if (strict_rc == 0)
		strict_rc = machine_start();
	if (strict_rc != (is_bad ? -EINVAL : rc))
		fail_msg("%s: strict %d", setting != NULL ? setting : "", strict_rc);
	if (rig.ibs[0] != NULL)
		machine_stop();
	assert_int_equal(load(NULL, false), 0);
}

struct gid_case {
	const char *table;
	const char *setting;
	int expected; /* -1: left out */
	const char *line;
	const char *warning; /* NULL: none at all */
	bool is_bad;
	uint8_t link_layer;
};

static const struct gid_case gid_cases[] = {
	{.table = R1,
	 .expected = 3,
	 .line = "2 port sxt_mlx5_0: RoCE v2, 400 Gb/s, MTU 4096, GID index 3 200.0.209.6 (RoCE "
		 "v2, IPv4) by rank, first of 4, then index 1 fe80::1 (RoCE v2, link-local IPv6), "
		 "LID 3"},
	{.table = "4=fe80::1/v1 5=fe80::1/v2 6=10.156.1.2/v1 7=10.156.1.2/v2",
	 .expected = 7,
	 .line = "GID index 7 10.156.1.2 (RoCE v2, IPv4) by rank, first of 4"},
	{.table = "6=fe80::1/v1 7=fe80::1/v2 8=10.0.0.1/v1 9=10.0.0.1/v2",
	 .expected = 9,
	 .line = "GID index 9 10.0.0.1 (RoCE v2, IPv4) by rank, first of 4"},
	{.table = "0=fe80::1/v1 1=fe80::1/v2 2=10.1.1.1/v1 4=10.1.1.1/v2",
	 .expected = 4,
	 .line = "GID index 4 10.1.1.1 (RoCE v2, IPv4) by rank, first of 4"},
	{.table = "0=fe80::1/v1 1=fe80::1/v2 2=fd93::5/v1 3=fd93::5/v2",
	 .expected = 3,
	 .line = "GID index 3 fd93::5 (RoCE v2, IPv6) by rank, first of 4"},
	{.table = "2=10.0.0.1/v1 3=10.0.0.1/v2",
	 .expected = 3,
	 .line = "GID index 3 10.0.0.1 (RoCE v2, IPv4) by rank, first of 2"},
	{.table = "0=10.1.0.1/v2 1=10.2.0.1/v2",
	 .setting = "NCCL_IB_ADDR_RANGE=10.2.0.0/16",
	 .expected = 1,
	 .line = "GID index 1 10.2.0.1 (RoCE v2, IPv4) by rank, no other can be used"},
	{.table = "4=192.168.65.7/v2 5=192.168.64.7/v1 6=192.168.64.7/v2",
	 .setting = "NCCL_IB_ADDR_RANGE=192.168.64.0/24",
	 .expected = 6,
	 .line = "GID index 6 192.168.64.7 (RoCE v2, IPv4) by rank, first of 2"},
	{.table = "0=fe80::1/v1 1=fe80::1/v2",
	 .expected = 1,
	 .line = "GID index 1 fe80::1 (RoCE v2, link-local IPv6) by rank, first of 2",
	 .warning = "1 port mlx5_0: link-local only: none of its GIDs reaches further than this "
		    "segment; give its interface an IP address; the table: 0 fe80::1 (RoCE v1, "
		    "link-local IPv6), 1 fe80::1"},
	{.table = "0=::/v1 1=::/v2",
	 .expected = -1,
	 .line = "port mlx5_0:1 is left out",
	 .warning = "1 port mlx5_0:1 is left out: no entry of its GID table (16 entries) can be "
		    "used: give its interface an address"},
	{.table = "4=10.0.0.1/v1 5=10.0.0.1/v2",
	 .setting = "NCCL_IB_GID_INDEX=7",
	 .expected = 5,
	 .line = "GID index 5 10.0.0.1",
	 .warning = "1 port mlx5_0: NCCL_IB_GID_INDEX=7 is empty (the table has 16 entries); "
		    "choosing by rank",
	 .is_bad = true},
	{.table = R1,
	 .setting = "NCCL_IB_GID_INDEX=0",
	 .expected = 0,
	 .line = "GID index 0 fe80::1 (RoCE v1, link-local IPv6) by NCCL_IB_GID_INDEX, no other "
		 "can "
		 "be used"},
	{.table = R1,
	 .setting = "NCCL_IB_GID_INDEX=16",
	 .expected = 3,
	 .line = "GID index 3 200.0.209.6",
	 .warning = "1 port mlx5_0: NCCL_IB_GID_INDEX=16 is out of range (the table has 16 "
		    "entries, verbs can name 256); choosing by rank",
	 .is_bad = true},
	{.table = R1,
	 .setting = "NCCL_IB_GID_INDEX=abc",
	 .expected = 3,
	 .line = "GID index 3 200.0.209.6",
	 .warning = "1 setting NCCL_IB_GID_INDEX=abc: not a number",
	 .is_bad = true},
	{.table = R1,
	 .setting = "NCCL_IB_ADDR_RANGE=200.0.209.0",
	 .expected = 3,
	 .line = "GID index 3 200.0.209.6",
	 .warning = "1 NCCL_IB_ADDR_RANGE=200.0.209.0 is ignored: it has no /mask",
	 .is_bad = true},
	{.table = R1,
	 .setting = "NCCL_IB_ADDR_RANGE=10.0.0.0/8",
	 .expected = -1,
	 .line = "port mlx5_0:1 is left out",
	 .warning = "1 port mlx5_0:1 is left out: no GID in range: NCCL_IB_ADDR_RANGE=10.0.0.0/8 "
		    "matches none of 0 fe80::1 (RoCE v1, link-local IPv6), 1 fe80::1 (RoCE v2, "
		    "link-local IPv6), 2 200.0.209.6 (RoCE v1, IPv4), 3 200.0.209.6 (RoCE v2, "
		    "IPv4)"},
	{.table = "0=fe80::1/ib 1=fe80:0:7::1/ib",
	 .expected = 1,
	 .line = "InfiniBand, 400 Gb/s, MTU 4096, GID index 1 fe80:0:7::1 routable, by "
		 "NCCL_IB_ROUTABLE_FLID_GID_INDEX, first of 2, then index 0 fe80::1",
	 .link_layer = IB},
	{.table = "0=fe80::1/ib 1=fe80::2/ib",
	 .expected = 0,
	 .line = "GID index 0 fe80::1 the port's first, no other can be used",
	 .link_layer = IB},
	{.table = "0=fe80::1/ib 1=fe80::2/ib",
	 .setting = "NCCL_IB_GID_INDEX=3",
	 .expected = 0,
	 .line = "2 port mlx5_0: NCCL_IB_GID_INDEX=3 has no effect on InfiniBand",
	 .link_layer = IB},
};

static void check_gid_case(const struct gid_case *one)
{
	int rc = one->expected >= 0 ? 0 : -ENODEV;
	struct sxt_port_place place;

	rig_forget();
	machine_hcas[0].gids = one->table;
	machine_hcas[0].link_layer = one->link_layer;
	assert_int_equal(load(one->setting, false), 0);
	assert_int_equal(machine_start(), rc);
	machine_logged(one->line);
	if (one->warning == NULL && rig_logged("\n1 ") != 0)
		fail_msg("%s: a warning", one->table);
	if (one->warning != NULL)
		machine_logged(one->warning);
	if (rc == 0) {
		assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
		assert_int_equal(place.gid_index, one->expected);
		machine_stop();
	}
	check_strict(one->setting, one->is_bad, rc);
}

static void each_table_is_used_and_told(void **state)
{
	(void)state;
	machine_add("mlx5_0");
	for (size_t i = 0; i < SXT_ARRAY_LEN(gid_cases); i++)
		check_gid_case(&gid_cases[i]);
}

/* Old libraries have no call for the table, and drivers answer EINVAL where it has a hole. */
static void each_table_is_read_entry_by_entry_as_well(void **state)
{
	(void)state;
	machine_add("mlx5_0");
	rig.verbs.query_gid_table = NULL;
	for (size_t i = 0; i < SXT_ARRAY_LEN(gid_cases); i++)
		check_gid_case(&gid_cases[i]);
}

static void each_port_has_an_index_of_its_own(void **state)
{
	struct sxt_port_place place;

	(void)state;
	machine_add("mlx5_1")->gids = R1;
	machine_add("mlx5_2")->gids = "4=fe80::1/v1 5=10.0.0.1/v1 6=10.0.0.1/v2";
	assert_int_equal(machine_start(), 0);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
	assert_int_equal(place.gid_index, 3);
	assert_int_equal(rig_locate(rig.ibs[0]->ports[1], &place), 0);
	assert_int_equal(place.gid_index, 6);
}

struct list_case {
	const char *list;
	const char *ports; /* "" when none is left */
	const char *line;  /* NULL: neither WARN nor a note about the list */
	bool is_bad;
	bool is_down; /* mlx5_1 */
};

static const struct list_case list_cases[] = {
	{.list = "mlx5_1",
	 .ports = "mlx5_1 mlx5_10 mlx5_11",
	 .line = "1 NCCL_IB_HCA: mlx5_1 also picks mlx5_10, mlx5_11, since it is the beginning of "
		 "a "
		 "name; write =mlx5_1 for that one alone\n"},
	{.list = "=mlx5_1", .ports = "mlx5_1"},
	{.list = "^=mlx5_1", .ports = "mlx5_0 mlx5_10 mlx5_11"},
	{.list = "^mlx5_1",
	 .ports = "mlx5_0",
	 .line = "1 NCCL_IB_HCA: ^mlx5_1 also excludes mlx5_10, mlx5_11, since it is the beginning "
		 "of a name; write ^=mlx5_1 for that one alone\n"},
	{.list = "mlx5_0, mlx5_10",
	 .ports = "mlx5_0 mlx5_10",
	 .line = "2 NCCL_IB_HCA=mlx5_0, mlx5_10: space removed around its entries; NCCL would take "
		 "it for a part of the names\n"},
	{.list = "=^mlx5_1",
	 .ports = "mlx5_0 mlx5_1 mlx5_10 mlx5_11",
	 .line = "1 NCCL_IB_HCA==^mlx5_1: write ^= to exclude whole names",
	 .is_bad = true},
	{.list = "", .ports = "mlx5_0 mlx5_1 mlx5_10 mlx5_11"},
	{.list = "=",
	 .ports = "mlx5_0 mlx5_1 mlx5_10 mlx5_11",
	 .line = "1 NCCL_IB_HCA== names no HCA, so every one is used, as in NCCL; unset it to say "
		 "so\n"},
	{.list = ":1",
	 .ports = "mlx5_0 mlx5_1 mlx5_10 mlx5_11",
	 .line = "1 NCCL_IB_HCA=:1 names no HCA, so every one is used, as in NCCL"},
	{.list = "^",
	 .ports = "",
	 .line = "1 NCCL_IB_HCA=^ excludes every HCA, as in NCCL, since nothing stands behind the "
		 "^; unset it to use all\n"},
	{.list = "=mlx5_1:2",
	 .ports = "",
	 .line = "1 NCCL_IB_HCA: mlx5_1:2 matches nothing: there is no port 2 at mlx5_1; ports "
		 "count from 1\n",
	 .is_bad = true},
	{.list = "=mlx5_0:18446744073709551615",
	 .ports = "mlx5_0 mlx5_1 mlx5_10 mlx5_11",
	 .line = "1 NCCL_IB_HCA==mlx5_0:18446744073709551615: column 9: \"18446744073709551615\" "
		 "is "
		 "no port, expected a number 1..255; the entry is ignored\n",
	 .is_bad = true},
	{.list = "=mlxl5_10",
	 .ports = "",
	 .line = "1 NCCL_IB_HCA: mlxl5_10 matches nothing; nearest is mlx5_10\n",
	 .is_bad = true},
	{.list = "=mlx5_1",
	 .ports = "",
	 .line = "1 port mlx5_1:1 is left out: it is DOWN (polling); no signal: check cable, "
		 "module "
		 "and the switch's port\n",
	 .is_down = true},
	{.list = "mlx5_0,mlx5_1",
	 .ports = "mlx5_0 mlx5_10 mlx5_11",
	 .line = "1 port mlx5_1:1 is left out: it is DOWN (polling)",
	 .is_down = true},
	{.list = "",
	 .ports = "mlx5_0 mlx5_10 mlx5_11",
	 .line = "2 port mlx5_1:1 is left out: it is DOWN (polling)",
	 .is_down = true},
};

static void check_list_case(const struct list_case *one)
{
	int rc = one->ports[0] != '\0' ? 0 : -ENODEV;
	char setting[128];

	rig_forget();
	machine_hcas[1].state = one->is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	snprintf(setting, sizeof(setting), "NCCL_IB_HCA=%s", one->list);
	assert_int_equal(load(setting, false), 0);
	assert_int_equal(machine_start(), rc);
	if (one->line != NULL)
		machine_logged(one->line);
	else if (rig_logged("\n1 ") != 0 || rig_logged("space removed") != 0)
		fail_msg("%s: a warning", one->list);
	if (rc == 0) {
		machine_ports(one->ports);
		machine_stop();
	}
	check_strict(setting, one->is_bad, rc);
}

static void each_list_is_used_and_told(void **state)
{
	static const char *const names[] = {"mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11"};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++)
		machine_add(names[i]);
	for (size_t i = 0; i < SXT_ARRAY_LEN(list_cases); i++)
		check_list_case(&list_cases[i]);
}

/* Why a job has no device: each cause by its own line. */
struct absence {
	const char *what;
	bool has_hca; /* in the library's list */
	int open_errno;
	enum ibv_port_state state;
	const char *setting;
	const char *files[2]; /* of /sys */
	const char *line;
};

static const struct absence absences[] = {
	{.what = "no driver, or a container without the host's /sys",
	 .line = "0 there is no HCA: /sys/class/infiniband has none; load the driver of the card"},
	{.what = "no verbs module",
	 .files = {"/sys/class/infiniband/mlx5_0/node_type"},
	 .line = "0 there is no HCA that programs can use: the kernel has mlx5_0, and "
		 "/sys/class/infiniband_verbs none: modprobe ib_uverbs\n"},
	{.what = "no provider in the image",
	 .files = {"/sys/class/infiniband/mlx5_0/node_type",
		   "/sys/class/infiniband_verbs/uverbs0/ibdev"},
	 .line = "0 there is no HCA that libibverbs knows: the kernel has mlx5_0; install the "
		 "provider of its driver in this image (Debian and Ubuntu: ibverbs-providers"},
	{.what = "no device file",
	 .has_hca = true,
	 .open_errno = ENOENT,
	 .line = "1 HCA mlx5_0 is left out: opening it: No such file or directory; "
		 "/dev/infiniband/uverbs* is not there, or the HCA belongs to another network "
		 "namespace (`rdma system`): pass it into the container, load ib_uverbs\n"},
	{.what = "the device cgroup",
	 .has_hca = true,
	 .open_errno = EPERM,
	 .line = "1 HCA mlx5_0 is left out: opening it: Operation not permitted; the device cgroup "
		 "of this container keeps /dev/infiniband/uverbs* away"},
	{.what = "permissions",
	 .has_hca = true,
	 .open_errno = EACCES,
	 .line = "1 HCA mlx5_0 is left out: opening it: Permission denied; this user may not open "
		 "/dev/infiniband/uverbs*: allow it"},
	{.what = "all ports down",
	 .has_hca = true,
	 .state = IBV_PORT_DOWN,
	 .line = "0 none of 1 HCAs has a port that can be used: mlx5_0:1: it is DOWN (polling); no "
		 "signal: check cable"},
	{.what = "the list",
	 .has_hca = true,
	 .setting = "NCCL_IB_HCA=^mlx5_0",
	 .line = "0 none of 1 HCAs has a port that can be used: mlx5_0:1: NCCL_IB_HCA=^mlx5_0 "
		 "excludes it\n"},
};

static void each_reason_for_no_device_is_told_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(absences); i++) {
		const struct absence *one = &absences[i];

		print_message("%s\n", one->what);
		rig_forget();
		memset(machine_hcas, 0, sizeof(machine_hcas));
		machine_cnt = 0;
		if (one->has_hca) {
			machine_add("mlx5_0")->open_errno = one->open_errno;
			machine_hcas[0].state = one->state;
		}
		assert_int_equal(load(one->setting, false), 0);
		rig_set(&rig.config.sysroot, tree_open());
		for (size_t k = 0; k < SXT_ARRAY_LEN(one->files) && one->files[k] != NULL; k++)
			tree_text(one->files[k], "mlx5_0\n");
		assert_int_equal(machine_start(), -ENODEV);
		machine_logged(one->line);
	}
	tree_close();
}

/* A pod sees every virtual function of the host, and has the interface of one. */
static void virtual_functions_of_other_pods_are_left_out(void **state)
{
	static char names[8][16];
	char path[128];

	(void)state;
	rig_set(&rig.config.sysroot, tree_open());
	tree_text("/sys/class/net/net1/mtu", "9000\n");
	for (int i = 0; i < 8; i++) {
		snprintf(names[i], sizeof(names[i]), "mlx5_%d", i);
		machine_add(names[i]);
		snprintf(path, sizeof(path),
			 "/sys/class/infiniband/mlx5_%d/ports/1/gid_attrs/ndevs/1", i);
		tree_text(path, i == 5 ? "net1\n" : "net7\n");
		snprintf(path, sizeof(path),
			 "/sys/class/infiniband/mlx5_%d/ports/1/gid_attrs/ndevs/0", i);
		tree_text(path, i == 5 ? "net1\n" : "net7\n");
	}
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_5");
	assert_int_equal(rig_logged("is left out: the interfaces of all its addresses are in other "
				    "network namespaces: give this container the port's interface"),
			 7);
	machine_logged("2 port mlx5_4:1 is left out: the interfaces of all its addresses");
	/* So it is in every pod; who names one hears of it. */
	assert_int_equal(rig_logged("\n1 "), 0);
	machine_stop();
	rig_set(&rig.config.ib_hca, "=mlx5_4,mlx5_5");
	assert_int_equal(machine_start(), 0);
	machine_logged("1 port mlx5_4:1 is left out: the interfaces of all its addresses");
	machine_stop();
	machine_hcas[5].state = IBV_PORT_DOWN;
	rig_set(&rig.config.ib_hca, "");
	assert_int_equal(machine_start(), -ENODEV);
	machine_logged("0 none of 8 HCAs has a port that can be used: mlx5_0:1: the interfaces of "
		       "all its addresses are in other network namespaces");
	tree_close();
}

static void ports_without_a_table_are_left_out(void **state)
{
	(void)state;
	machine_add("mlx5_0");
	machine_add("mlx5_1")->gid_table_len = -1;
	assert_int_equal(machine_start(), 0);
	machine_ports("mlx5_0");
	machine_logged(
		"1 port mlx5_1:1 is left out: no entry of its GID table (0 entries) can be used");
}

/* 1,000 entries, one of them more than link-local. */
static const char *long_table(int ipv4_at)
{
	static char text[40000];
	size_t used = 0;

	for (int i = 0; i < 1000; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%d=%s/v%d ", i,
					 i == ipv4_at ? "10.1.2.3" : "fe80::1", 1 + i % 2);
	return text;
}

static void long_tables_are_searched_and_cut(void **state)
{
	struct sxt_port_address out[8];
	uint32_t cnt;

	(void)state;
	machine_add("mlx5_0")->gids = long_table(201);
	machine_hcas[0].gid_table_len = 1000;
	assert_int_equal(machine_start(), 0);
	machine_logged("GID index 201 10.1.2.3 (RoCE v2, IPv4) by rank, first of 256, then index "
		       "1 ");
	assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
	assert_int_equal(cnt, 8);
	assert_int_equal(out[0].gid.index, 201);
	machine_stop();
	/* An entry that verbs cannot name. */
	machine_hcas[0].gids = long_table(999);
	assert_int_equal(machine_start(), 0);
	machine_logged("1 port mlx5_0: link-local only");
}

static void odd_names_are_names(void **state)
{
	static const char *const names[] = {"mlx5 %s%n", "",         "../../..",
					    "a:1,^=b",   "\x1b[31m", "."};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++)
		machine_add(names[i]);
	rig_set(&rig.config.ib_hca, "^mlx5_0");
	assert_int_equal(machine_start(), 0);
	assert_int_equal(rig.ibs[0]->ports_cnt, SXT_ARRAY_LEN(names));
	machine_logged("2 port sxt_mlx5 %s%n: RoCE v2, ");
}

/* Lists, ranges and tables of any make. */
static uint64_t random_state;

static uint32_t random_u32(uint32_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % below;
}

static const char *const pieces[] = {"mlx5_1", "mlx5_", "^",  "=",  ",",  ":",
				     "1",      "0",     "99", " ",  "\t", "mlx5_10",
				     ":1:2:3", "-1",    "%s", "::", "",   "\xff"};
static const char *const addresses[] = {"fe80::1",  "10.1.0.1",    "10.2.0.1", "169.254.0.1",
					"fd00::1",  "2001:db8::1", "::",       "127.0.0.1",
					"10.1.9.9", "ff02::1",     "0.0.0.0",  "fe80::"};
static const char *const ranges[] = {"", "10.1.0.0/16", "fd00::/8", "10.0.0.0/33", "0.0.0.0/0",
				     "/"};

static void random_table(char *out, size_t out_bytes, uint32_t cnt)
{
	static const char *const types[] = {"v1", "v2", "?"};
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < cnt; i++)
		used += (size_t)snprintf(out + used, out_bytes - used, "%s%u=%s/%s",
					 used != 0 ? " " : "", i + random_u32(3) * 16,
					 addresses[random_u32(SXT_ARRAY_LEN(addresses))],
					 types[random_u32(SXT_ARRAY_LEN(types))]);
}

static void random_list(char *out, size_t out_bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t left = random_u32(12); left > 0; left--)
		used += (size_t)snprintf(out + used, out_bytes - used, "%s",
					 pieces[random_u32(SXT_ARRAY_LEN(pieces))]);
}

static void check_range(struct sxt_port *port)
{
	const struct sxt_gid_wishes *wishes = &rig.ibs[0]->gid_wishes;
	struct sxt_port_address out[SXT_CANDIDATES_PER_PORT];
	uint32_t cnt = 0;

	assert_int_equal(sxt_port_candidates(port, out, SXT_ARRAY_LEN(out), &cnt), 0);
	assert_in_range(cnt, 1, SXT_CANDIDATES_PER_PORT);
	for (uint32_t i = 0; i < cnt; i++)
		assert_true(sxt_gid_in_range(&wishes->range, out[i].gid.raw));
}

static void nothing_is_picked_outside_what_is_set(void **state)
{
	static char table[2048];
	static char list[256];
	int started_cnt = 0;

	(void)state;
	machine_add("mlx5_1")->gids = table;
	machine_add("mlx5_10");
	for (uint64_t seed = 0; seed < 400; seed++) {
		random_state = seed;
		random_table(table, sizeof(table), random_u32(16));
		random_list(list, sizeof(list));
		rig_forget();
		rig_set(&rig.config.ib_hca, list);
		rig_set(&rig.config.ib_addr_range, ranges[random_u32(SXT_ARRAY_LEN(ranges))]);
		rig.config.ib_gid_index = random_u32(4) == 0 ? (int)random_u32(20) : -1;
		if (machine_start() != 0)
			continue;
		started_cnt++;
		for (int i = 0; i < rig.ibs[0]->ports_cnt; i++)
			check_range(rig.ibs[0]->ports[i]);
		machine_stop();
	}
	assert_in_range(started_cnt, 100, 399);
}

#define VECTOR_TEST(name) cmocka_unit_test_setup_teardown(name, machine_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		VECTOR_TEST(each_table_is_used_and_told),
		VECTOR_TEST(each_table_is_read_entry_by_entry_as_well),
		VECTOR_TEST(each_port_has_an_index_of_its_own),
		VECTOR_TEST(each_list_is_used_and_told),
		VECTOR_TEST(each_reason_for_no_device_is_told_apart),
		VECTOR_TEST(virtual_functions_of_other_pods_are_left_out),
		VECTOR_TEST(ports_without_a_table_are_left_out),
		VECTOR_TEST(long_tables_are_searched_and_cut),
		VECTOR_TEST(odd_names_are_names),
		VECTOR_TEST(nothing_is_picked_outside_what_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
