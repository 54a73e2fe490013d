/*
 * test_pci.c - the PCI tree of a small /sys: path, link speed, ACS.
 */
#include "core/pci.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BRIDGE "/pci0000:17/0000:17:01.0"
#define CARD   BRIDGE "/0000:18:00.0"

static char root[] = "/tmp/sxt_pci_XXXXXX";

static void put(const char *name, const void *data, size_t bytes)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	fclose(file);
}

static int set_up(void **state)
{
	const char *const folders[] = {"/pci0000:17", BRIDGE, CARD, "/class"};
	char path[PATH_MAX];

	(void)state;
	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < SXT_ARRAY_LEN(folders); i++) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(path, sizeof(path), "%s/class/device", root);
	assert_int_equal(symlink(".." CARD, path), 0);
	return 0;
}

static int tear_down(void **state)
{
	const char *const names[] = {"/class/device",
				     "/class",
				     CARD "/config",
				     CARD "/current_link_speed",
				     CARD "/current_link_width",
				     CARD,
				     BRIDGE,
				     "/pci0000:17"};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s%s", root, names[i]);
		sxt_ignore(remove(path));
	}
	return rmdir(root);
}

static void path_goes_from_the_root_port_to_the_device(void **state)
{
	struct sxt_pci_path path;

	(void)state;
	assert_int_equal(sxt_pci_path_read(root, "/class/device", &path), 0);
	assert_int_equal(path.cnt, 2);
	assert_string_equal(path.steps[0].address, "0000:17:01.0");
	assert_string_equal(path.steps[0].folder, BRIDGE);
	assert_string_equal(path.steps[1].address, "0000:18:00.0");
	assert_string_equal(path.steps[1].folder, CARD);
	assert_int_equal(sxt_pci_path_read(root, "/class", &path), -ENODEV);
	assert_int_equal(sxt_pci_path_read(root, "/nothing", &path), -ENOENT);
}

static void link_is_read_and_what_is_unknown_refused(void **state)
{
	static const struct {
		const char *speed;
		const char *width;
		int rc;
	} cases[] = {
		{"32.0 GT/s PCIe\n", "16\n", 0}, {"Unknown\n", "16\n", -ENODATA},
		{"8 GT/s\n", "255\n", -ENODATA}, {"", "16\n", -ENODATA},
		{"-8 GT/s\n", "8\n", -ENODATA},  {"nan GT/s\n", "8\n", -ENODATA},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		struct sxt_pci_link link = {1, 2};

		put(CARD "/current_link_speed", cases[i].speed, strlen(cases[i].speed));
		put(CARD "/current_link_width", cases[i].width, strlen(cases[i].width));
		assert_int_equal(sxt_pci_link_read(root, CARD, "current", &link), cases[i].rc);
		assert_int_equal(link.speed_mts, cases[i].rc == 0 ? 32000 : 1);
		assert_int_equal(link.width, cases[i].rc == 0 ? 16 : 2);
	}
}

static void link_carries_what_its_coding_leaves(void **state)
{
	static const struct {
		struct sxt_pci_link link;
		uint64_t mbps;
	} cases[] = {
		{{2500, 1}, 2000},     {{5000, 8}, 32000},    {{8000, 8}, 63015},
		{{32000, 16}, 504123}, {{64000, 16}, 968000}, {{0, 16}, 0},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++)
		assert_int_equal(sxt_pci_link_mbps(&cases[i].link), cases[i].mbps);
}

static void put_bytes(unsigned char *config, size_t offset, uint64_t bytes, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		config[offset + i] = (unsigned char)(bytes >> 8 * i);
}

static void acs_is_found_behind_other_capabilities(void **state)
{
	unsigned char config[4096] = {0};
	uint16_t control = 0;

	(void)state;
	put(CARD "/config", config, sizeof(config));
	assert_int_equal(sxt_pci_acs_read(root, CARD, &control), -ENODATA);
	put_bytes(config, 0x100, 0x14810001, 4); /* AER, next at 0x148 */
	put_bytes(config, 0x148, 0x001d001f0001000d, 8);
	put(CARD "/config", config, sizeof(config));
	assert_int_equal(sxt_pci_acs_read(root, CARD, &control), 0);
	assert_int_equal(control, 0x1d);
}

static void acs_of_a_damaged_or_hidden_config_is_refused(void **state)
{
	unsigned char config[4096] = {0};
	uint16_t control = 7;

	(void)state;
	put(CARD "/config", config, 64);
	assert_int_equal(sxt_pci_acs_read(root, CARD, &control), -EACCES);
	put_bytes(config, 0x100, 0x10010001, 4); /* the next one is itself */
	put(CARD "/config", config, sizeof(config));
	assert_int_equal(sxt_pci_acs_read(root, CARD, &control), -ENODATA);
	put_bytes(config, 0x100, 0xffc10001, 4); /* the next one is cut off */
	put(CARD "/config", config, sizeof(config));
	assert_int_equal(sxt_pci_acs_read(root, CARD, &control), -ENODATA);
	assert_int_equal(control, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_goes_from_the_root_port_to_the_device),
		cmocka_unit_test(link_is_read_and_what_is_unknown_refused),
		cmocka_unit_test(link_carries_what_its_coding_leaves),
		cmocka_unit_test(acs_is_found_behind_other_capabilities),
		cmocka_unit_test(acs_of_a_damaged_or_hidden_config_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
