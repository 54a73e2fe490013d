/*
 * test_gid_read.c - GID tables out of a /sys tree, whole, sparse and damaged.
 */
#include "ib/gid_read.h"

#include "tests/unit/ib/tree.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT "/sys/class/infiniband/mlx5_0/ports/1"

static struct sxt_gid_source source;
static struct sxt_gid_list list;

static int setup(void **state)
{
	(void)state;
	source = (struct sxt_gid_source){.sysroot = tree_open(), .device = "mlx5_0", .port = 1};
	memset(&list, 0, sizeof(list));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sxt_gid_list_fini(&list);
	tree_close();
	return 0;
}

static void put_gid(uint32_t index, const char *gid, const char *type, const char *netdev)
{
	char path[128];

	snprintf(path, sizeof(path), PORT "/gids/%u", index);
	tree_text(path, gid);
	snprintf(path, sizeof(path), PORT "/gid_attrs/types/%u", index);
	if (type != NULL)
		tree_text(path, type);
	snprintf(path, sizeof(path), PORT "/gid_attrs/ndevs/%u", index);
	if (netdev != NULL)
		tree_text(path, netdev);
}

#define ZERO "0000:0000:0000:0000:0000:0000:0000:0000\n"
#define V4   "0000:0000:0000:0000:0000:ffff:0a9c:0102\n"
#define LL   "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n"

static void a_table_is_read_with_its_facts(void **state)
{
	char text[64];

	(void)state;
	put_gid(0, LL, "IB/RoCE v1\n", "eth0\n");
	put_gid(1, LL, "RoCE v2\n", "eth0\n");
	put_gid(2, ZERO, NULL, NULL);
	put_gid(3, V4, "RoCE v2\n", "eth0\n");
	put_gid(10, V4, "something new\n", "net9\n");
	tree_text("/sys/class/net/eth0/mtu", "1500\n");
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	assert_int_equal(list.cnt, 4);
	assert_int_equal(list.len, 11);
	assert_int_equal(list.gids[0].type, SXT_GID_TYPE_ROCE_V1);
	assert_int_equal(list.gids[2].index, 3);
	assert_int_equal(list.gids[2].type, SXT_GID_TYPE_ROCE_V2);
	assert_string_equal(list.gids[2].netdev, "eth0");
	assert_false(list.gids[2].is_foreign);
	sxt_gid_text(list.gids[2].raw, text, sizeof(text));
	assert_string_equal(text, "10.156.1.2");
	assert_int_equal(list.gids[3].index, 10);
	assert_int_equal(list.gids[3].type, SXT_GID_TYPE_UNKNOWN);
	assert_true(list.gids[3].is_foreign);
}

static void without_interfaces_in_sysfs_nothing_is_foreign(void **state)
{
	(void)state;
	put_gid(0, V4, "RoCE v2\n", "eth0\n");
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	assert_false(list.gids[0].is_foreign);
	assert_string_equal(list.gids[0].netdev, "eth0");
}

/* Pods whose interfaces have the same name, all virtual functions to be seen by each. */
static void a_virtual_function_has_its_own_interface(void **state)
{
	(void)state;
	put_gid(0, V4, "RoCE v2\n", "net1\n");
	tree_text("/sys/devices/vf0/vendor", "0x15b3\n");
	tree_text("/sys/devices/vf1/vendor", "0x15b3\n");
	tree_text("/sys/devices/pf/vendor", "0x15b3\n");
	tree_link("/sys/class/infiniband/mlx5_0/device", "../../../devices/vf0");
	tree_link("/sys/class/net/net1/device", "../../../devices/vf1");
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	assert_false(list.gids[0].is_foreign); /* a physical one may belong to a bond */
	sxt_gid_list_fini(&list);
	tree_link("/sys/devices/vf0/physfn", "../pf");
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	assert_true(list.gids[0].is_foreign);
}

static void a_missing_table_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(sxt_gid_read_table(&source, &list), -ENOENT);
	tree_text(PORT "/gids", "not a folder");
	assert_int_equal(sxt_gid_read_table(&source, &list), -ENOTDIR);
	source.device =
		"../../../../../../../../../../../../../../../../../../../../../../../../..";
	assert_int_equal(sxt_gid_read_table(&source, &list), -ENOENT);
}

static void damage_is_a_hole(void **state)
{
	static const char junk[5000] = {'f', 'e', '8', '0', ':', 1, (char)0xff};
	char full[512];

	(void)state;
	tree_text(PORT "/gids/0", "");
	tree_text(PORT "/gids/1", "\n");
	tree_text(PORT "/gids/2", "fe80:0000\n");
	tree_put(PORT "/gids/3", junk, sizeof(junk));
	tree_text(PORT "/gids/4", "10.0.0.1\n");
	tree_path(PORT "/gids/5/x", full); /* a folder: reading it is EISDIR */
	tree_text(PORT "/gids/name", V4);
	tree_text(PORT "/gids/99999", V4);
	tree_text(PORT "/gids/-1", V4);
	tree_text(PORT "/gids/123456789012345678901", V4);
	tree_link(PORT "/gids/6", "nowhere");
	tree_link(PORT "/gids/7", "7");
	put_gid(8, V4, "", "../../../etc\n");
	put_gid(9, V4, "RoCE v2 and more that no kernel says\n", "a-name-longer-than-16-bytes\n");
	tree_text(PORT "/gids/10", V4);
	tree_put(PORT "/gid_attrs/types/10", junk, sizeof(junk));
	tree_put(PORT "/gid_attrs/ndevs/10", junk, sizeof(junk));
	tree_text("/sys/class/net/lo/mtu", "65536\n");
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	assert_int_equal(list.cnt, 3);
	assert_int_equal(list.len, 11);
	for (uint32_t i = 0; i < list.cnt; i++) {
		assert_int_equal(list.gids[i].index, 8 + i);
		assert_int_equal(list.gids[i].type, SXT_GID_TYPE_UNKNOWN);
		assert_true(i == 2 || list.gids[i].netdev[0] == '\0');
		assert_int_equal(list.gids[i].prefix_len, 0);
	}
}

static void a_file_of_gigabytes_is_read_at_its_beginning(void **state)
{
	char full[512];

	(void)state;
	tree_text(PORT "/gids/0", V4);
	tree_text(PORT "/gids/1", V4);
	tree_path(PORT "/gids/1", full);
	assert_int_equal(truncate(full, (off_t)4 << 30), 0);
	tree_path(PORT "/gids/2", full);
	tree_text(PORT "/gids/2", "");
	assert_int_equal(truncate(full, (off_t)4 << 30), 0);
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	assert_int_equal(list.cnt, 2);
}

static void a_pipe_does_not_block(void **state)
{
	char full[512];

	(void)state;
	tree_text(PORT "/gids/0", V4);
	tree_path(PORT "/gids/1", full);
	assert_int_equal(mkfifo(full, 0644), 0);
	alarm(20);
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	alarm(0);
	assert_int_equal(list.cnt, 1);
}

static void prefixes_come_from_the_interfaces_own_addresses(void **state)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in v4_mask = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in6 v6_mask = {.sin6_family = AF_INET6};
	struct ifaddrs none = {.ifa_name = (char *)"eth0"};
	struct ifaddrs other = {.ifa_next = &none,
				.ifa_name = (char *)"eth1",
				.ifa_addr = (void *)&v4,
				.ifa_netmask = (void *)&v6_mask};
	struct ifaddrs first = {.ifa_next = &other,
				.ifa_name = (char *)"eth0",
				.ifa_addr = (void *)&v4,
				.ifa_netmask = (void *)&v4_mask};
	struct ifaddrs second = {.ifa_next = &first,
				 .ifa_name = (char *)"eth0",
				 .ifa_addr = (void *)&v6,
				 .ifa_netmask = (void *)&v6_mask};

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "10.156.1.2", &v4.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET, "255.255.252.0", &v4_mask.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET6, "fe80::202:c9ff:fe00:1", &v6.sin6_addr), 1);
	assert_int_equal(inet_pton(AF_INET6, "ffff:ffff:ffff:ffff::", &v6_mask.sin6_addr), 1);
	put_gid(0, V4, "RoCE v2\n", "eth0\n");
	put_gid(1, LL, "RoCE v2\n", "eth0\n");
	put_gid(2, "2001:0db8:0000:0000:0000:0000:0000:0001\n", "RoCE v2\n", "eth0\n");
	source.addrs = &second;
	assert_int_equal(sxt_gid_read_table(&source, &list), 0);
	source.addrs = NULL;
	assert_int_equal(list.gids[0].prefix_len, 22);
	assert_int_equal(list.gids[1].prefix_len, 64);
	assert_int_equal(list.gids[2].prefix_len, 0);
}

#define READ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		READ_TEST(a_table_is_read_with_its_facts),
		READ_TEST(without_interfaces_in_sysfs_nothing_is_foreign),
		READ_TEST(a_virtual_function_has_its_own_interface),
		READ_TEST(a_missing_table_is_an_error),
		READ_TEST(damage_is_a_hole),
		READ_TEST(a_file_of_gigabytes_is_read_at_its_beginning),
		READ_TEST(a_pipe_does_not_block),
		READ_TEST(prefixes_come_from_the_interfaces_own_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
