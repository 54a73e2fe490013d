/*
 * test_oob.c - which interface the side channels listen on, over a made-up list of them.
 */
#include "ib/oob.h"

#include "core/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ENTRIES_MAX 8

static struct {
	struct ifaddrs list[ENTRIES_MAX];
	struct sockaddr_storage addrs[ENTRIES_MAX];
	char names[ENTRIES_MAX][16];
	size_t cnt;
	char log[2048];
} machine;

static int fake_getifaddrs(struct ifaddrs **out)
{
	*out = machine.cnt > 0 ? machine.list : NULL;
	return 0;
}

static void fake_freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

static int broken_getifaddrs(struct ifaddrs **out)
{
	(void)out;
	errno = ENOMEM;
	return -1;
}

static const struct sxt_sys sys = {
	.getifaddrs = fake_getifaddrs,
	.freeifaddrs = fake_freeifaddrs,
};

static void sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)level;
	(void)file;
	(void)line;
	snprintf(machine.log, sizeof(machine.log), "%s", text);
}

static void add(const char *name, const char *ip, unsigned int flags)
{
	size_t i = machine.cnt++;
	struct sockaddr_in *in = (void *)&machine.addrs[i];
	struct sockaddr_in6 *in6 = (void *)&machine.addrs[i];

	snprintf(machine.names[i], sizeof(machine.names[i]), "%s", name);
	if (inet_pton(AF_INET, ip, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
	} else {
		in6->sin6_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, ip, &in6->sin6_addr), 1);
	}
	machine.list[i] = (struct ifaddrs){
		.ifa_name = machine.names[i],
		.ifa_flags = flags,
		.ifa_addr = (struct sockaddr *)&machine.addrs[i],
	};
	if (i > 0)
		machine.list[i - 1].ifa_next = &machine.list[i];
}

static int setup(void **state)
{
	(void)state;
	memset(&machine, 0, sizeof(machine));
	sxt_log_set_sink(sink);
	return 0;
}

static void expect(const char *ifname, const char *family, const char *wanted)
{
	const struct sxt_config config = {.socket_ifname = ifname, .socket_family = family};
	struct sxt_oob oob = {0};

	assert_int_equal(sxt_oob_choose(&sys, &config, &oob), 0);
	assert_string_equal(oob.ifname, wanted);
}

static void the_order_is_ib_then_any_then_docker_then_loopback(void **state)
{
	(void)state;
	add("lo", "127.0.0.1", IFF_UP);
	expect("", "", "lo");
	add("docker0", "172.17.0.1", IFF_UP);
	expect("", "", "docker0");
	add("virbr0", "192.168.122.1", IFF_UP);
	expect("", "", "docker0");
	add("eth0", "10.0.0.1", IFF_UP);
	expect("", "", "eth0");
	add("ib0", "10.1.0.1", IFF_UP);
	expect("", "", "ib0");
}

static void the_setting_picks_by_prefix_name_and_exclusion(void **state)
{
	(void)state;
	add("eth0", "10.0.0.1", IFF_UP);
	add("eth10", "10.0.1.1", IFF_UP);
	add("ens3", "10.0.2.1", IFF_UP);
	expect("eth1", "", "eth10");
	expect("=ens3", "", "ens3");
	expect("^eth", "", "ens3");
	expect("nope,eth10", "", "eth10");
}

static void what_is_down_or_link_local_is_skipped(void **state)
{
	(void)state;
	add("eth0", "10.0.0.1", 0);
	add("eth1", "fe80::1", IFF_UP);
	add("eth2", "10.0.2.1", IFF_UP);
	expect("eth", "", "eth2");
}

static void the_family_is_obeyed(void **state)
{
	(void)state;
	add("eth0", "10.0.0.1", IFF_UP);
	add("eth1", "2001:db8::1", IFF_UP);
	expect("", "AF_INET", "eth0");
	expect("", "AF_INET6", "eth1");
}

static void nothing_that_fits_lists_what_was_seen(void **state)
{
	const struct sxt_config config = {.socket_ifname = "=bond0", .socket_family = ""};
	struct sxt_oob oob = {.ifname = "untouched"};

	(void)state;
	add("eth0", "10.0.0.1", IFF_UP);
	add("eth1", "10.0.1.1", 0);
	assert_int_equal(sxt_oob_choose(&sys, &config, &oob), -ENODEV);
	assert_string_equal(oob.ifname, "untouched");
	assert_non_null(strstr(machine.log, "NCCL_SOCKET_IFNAME==bond0"));
	assert_non_null(strstr(machine.log, "eth0 10.0.0.1"));
	assert_non_null(strstr(machine.log, "eth1 10.0.1.1:0 (down)"));
}

static void bad_settings_and_a_broken_system_are_told(void **state)
{
	const struct sxt_config bad = {.socket_ifname = "", .socket_family = "inet"};
	const struct sxt_config good = {.socket_ifname = "", .socket_family = ""};
	const struct sxt_sys broken = {.getifaddrs = broken_getifaddrs};
	struct sxt_oob oob;

	(void)state;
	add("eth0", "10.0.0.1", IFF_UP);
	assert_int_equal(sxt_oob_choose(&sys, &bad, &oob), -EINVAL);
	assert_non_null(strstr(machine.log, "NCCL_SOCKET_FAMILY=inet"));
	assert_int_equal(sxt_oob_choose(&broken, &good, &oob), -ENOMEM);
}

static void addresses_go_over_the_wire_and_back(void **state)
{
	struct sockaddr_storage back;
	struct sxt_wire_addr wire;
	socklen_t len = 0;
	char text[64];

	(void)state;
	add("eth0", "10.0.0.1", IFF_UP);
	add("eth1", "2001:db8::1", IFF_UP);
	((struct sockaddr_in *)(void *)&machine.addrs[0])->sin_port = htons(4711);
	((struct sockaddr_in6 *)(void *)&machine.addrs[1])->sin6_port = htons(4712);
	for (size_t i = 0; i < machine.cnt; i++) {
		sxt_oob_to_wire(&machine.addrs[i], &wire);
		assert_int_equal(sxt_oob_from_wire(&wire, &back, &len), 0);
		assert_memory_equal(&back, &machine.addrs[i], len);
	}
	sxt_oob_text(&machine.addrs[1], text, sizeof(text));
	assert_string_equal(text, "[2001:db8::1]:4712");
	wire.family = 7;
	assert_int_equal(sxt_oob_from_wire(&wire, &back, &len), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_order_is_ib_then_any_then_docker_then_loopback, setup),
		cmocka_unit_test_setup(the_setting_picks_by_prefix_name_and_exclusion, setup),
		cmocka_unit_test_setup(what_is_down_or_link_local_is_skipped, setup),
		cmocka_unit_test_setup(the_family_is_obeyed, setup),
		cmocka_unit_test_setup(nothing_that_fits_lists_what_was_seen, setup),
		cmocka_unit_test_setup(bad_settings_and_a_broken_system_are_told, setup),
		cmocka_unit_test_setup(addresses_go_over_the_wire_and_back, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
