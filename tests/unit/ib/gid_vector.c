/*
 * gid_vector.c - see gid_vector.h.
 */
#include "tests/unit/ib/gid_vector.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t parse_type(const char *text)
{
	if (strcmp(text, "v1") == 0)
		return SXT_GID_TYPE_ROCE_V1;
	if (strcmp(text, "v2") == 0)
		return SXT_GID_TYPE_ROCE_V2;
	return strcmp(text, "ib") == 0 ? SXT_GID_TYPE_IB : SXT_GID_TYPE_UNKNOWN;
}

static void parse_address(const char *text, uint8_t raw[SXT_GID_BYTES])
{
	memset(raw, 0, SXT_GID_BYTES);
	if (inet_pton(AF_INET, text, raw + 12) == 1)
		raw[10] = raw[11] = 0xff;
	else if (inet_pton(AF_INET6, text, raw) != 1)
		fail_msg("no address: %s", text);
}

static void parse_entry(const char *text, size_t len, struct sxt_gid *out)
{
	char copy[128];
	char *address;
	char *type;
	char *netdev;

	assert_true(len < sizeof(copy));
	memcpy(copy, text, len);
	copy[len] = '\0';
	address = strchr(copy, '=');
	type = strchr(copy, '/');
	if (address == NULL || type == NULL) {
		fail_msg("no entry: %s", copy);
		return;
	}
	*address++ = '\0';
	*type++ = '\0';
	memset(out, 0, sizeof(*out));
	netdev = strchr(address, '%');
	if (netdev != NULL) {
		*netdev++ = '\0';
		snprintf(out->netdev, sizeof(out->netdev), "%s", netdev);
	}
	out->index = (uint32_t)strtoul(copy, NULL, 10);
	out->type = parse_type(type);
	parse_address(address, out->raw);
}

uint32_t gid_vector_parse(const char *text, struct sxt_gid *out, uint32_t most)
{
	uint32_t cnt = 0;

	while (*text != '\0') {
		size_t len = strcspn(text, " ");

		assert_true(cnt < most);
		parse_entry(text, len, &out[cnt++]);
		text += len + strspn(text + len, " ");
	}
	return cnt;
}
