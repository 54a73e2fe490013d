/*
 * pairs_hello.c - how two doctors tell each other about their ports. What the other end says is
 * checked as if anybody had said it.
 */
#include "cli/doctor/pairs.h"

#include "ib/gid.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Changes with all that both ends must do alike: steps, order, what counts as slow. */
#define PROTOCOL 1

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c != '\0' ? strchr(digits, c) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

static bool gid_parse(const char *text, uint8_t out[16])
{
	if (strlen(text) != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		int high = hex_digit(text[2 * i]);
		int low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static json_t *address_write(const struct sxt_wire_candidate *address)
{
	char gid[33];

	for (int i = 0; i < 16; i++)
		snprintf(gid + 2 * (size_t)i, 3, "%02x", address->gid[i]);
	return json_pack("[s, i, i]", gid, (int)address->gid_type, (int)address->prefix_len);
}

static json_t *port_write(const struct sxt_pairs_port *port)
{
	json_t *addresses = json_array();

	for (uint32_t i = 0; i < port->addresses_cnt; i++)
		json_array_append_new(addresses, address_write(&port->addresses[i]));
	return json_pack("{s:s, s:I, s:i, s:i, s:i, s:I, s:I, s:o}", "name", port->name,
			 "speed_mbps", (json_int_t)port->speed_mbps, "lid", (int)port->lid, "mtu",
			 (int)port->mtu, "link_layer", (int)port->link_layer, "addr",
			 (json_int_t)port->addr, "rkey", (json_int_t)port->rkey, "addresses",
			 addresses);
}

json_t *sxt_pairs_hello_write(const struct sxt_pairs_host *host)
{
	json_t *ports = json_array();

	for (uint32_t i = 0; i < host->ports_cnt; i++)
		json_array_append_new(ports, port_write(&host->ports[i]));
	return json_pack("{s:i, s:s, s:s, s:s, s:o}", "sextant_pairs", PROTOCOL, "version",
			 host->version, "host", host->name, "left_out", host->left_out, "ports",
			 ports);
}

/* Where reading has come to; the first thing that makes no sense stays. */
struct reader {
	char where[64];
	bool failed;
	char *why;
	size_t why_bytes;
};

static SXT_PRINTF(2, 3) void refuse(struct reader *r, const char *fmt, ...)
{
	va_list args;
	size_t used;

	if (r->failed)
		return;
	r->failed = true;
	used = (size_t)snprintf(r->why, r->why_bytes, "%s", r->where);
	va_start(args, fmt);
	if (used < r->why_bytes)
		vsnprintf(r->why + used, r->why_bytes - used, fmt, args);
	va_end(args);
}

static void read_text(struct reader *r, const json_t *from, const char *key, char *out,
		      size_t out_bytes)
{
	const char *text = json_string_value(json_object_get(from, key));

	if (text == NULL || strlen(text) >= out_bytes) {
		refuse(r, "%s is no text of less than %zu bytes", key, out_bytes);
		return;
	}
	for (const char *c = text; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~')
			refuse(r, "%s has a character that cannot be printed", key);
	}
	snprintf(out, out_bytes, "%s", text);
}

static uint64_t read_number(struct reader *r, const json_t *from, const char *key, json_int_t min,
			    json_int_t max)
{
	json_int_t value = json_integer_value(from);

	if (!json_is_integer(from) || value < min || value > max) {
		refuse(r, "%s is no number of %" JSON_INTEGER_FORMAT "..%" JSON_INTEGER_FORMAT, key,
		       min, max);
		return 0;
	}
	return (uint64_t)value;
}

static uint64_t member(struct reader *r, const json_t *from, const char *key, json_int_t min,
		       json_int_t max)
{
	return read_number(r, json_object_get(from, key), key, min, max);
}

static uint32_t members_cnt(struct reader *r, const json_t *array, const char *key, uint32_t max)
{
	size_t cnt = json_array_size(array);

	if (cnt < 1 || cnt > max) {
		refuse(r, "%s is no list of 1..%u", key, max);
		return 0;
	}
	return (uint32_t)cnt;
}

static void address_read(struct reader *r, const json_t *from, uint8_t link_layer,
			 struct sxt_wire_candidate *out)
{
	const char *gid = json_string_value(json_array_get(from, 0));

	*out = (struct sxt_wire_candidate){.link_layer = link_layer};
	if (gid == NULL || !gid_parse(gid, out->gid))
		refuse(r, "an address is no GID");
	out->gid_type = (uint8_t)read_number(r, json_array_get(from, 1), "type", 0, UINT8_MAX);
	out->prefix_len = (uint8_t)read_number(r, json_array_get(from, 2), "prefix_len", 0,
					       sxt_gid_is_ipv4(out->gid) ? 32 : 128);
}

static void port_read(struct reader *r, const json_t *from, struct sxt_pairs_port *out)
{
	const json_t *addresses = json_object_get(from, "addresses");

	read_text(r, from, "name", out->name, sizeof(out->name));
	out->speed_mbps = (uint32_t)member(r, from, "speed_mbps", 0, UINT32_MAX);
	out->lid = (uint16_t)member(r, from, "lid", 0, UINT16_MAX);
	out->mtu = (uint8_t)member(r, from, "mtu", 1, 5);
	out->link_layer =
		(uint8_t)member(r, from, "link_layer", SXT_LINK_INFINIBAND, SXT_LINK_ETHERNET);
	out->addr = member(r, from, "addr", 1, INT64_MAX);
	out->rkey = (uint32_t)member(r, from, "rkey", 0, UINT32_MAX);
	out->addresses_cnt = members_cnt(r, addresses, "addresses", SXT_CANDIDATES_PER_PORT);
	for (uint32_t i = 0; i < out->addresses_cnt; i++)
		address_read(r, json_array_get(addresses, i), out->link_layer, &out->addresses[i]);
}

int sxt_pairs_hello_read(const json_t *hello, struct sxt_pairs_host *out, char *why,
			 size_t why_bytes)
{
	struct reader r = {.why = why, .why_bytes = why_bytes};
	const json_t *protocol = json_object_get(hello, "sextant_pairs");
	const char *version = json_string_value(json_object_get(hello, "version"));
	const json_t *ports = json_object_get(hello, "ports");
	struct sxt_pairs_host host = {0};

	if (!json_is_integer(protocol))
		return -EPROTO;
	if (json_integer_value(protocol) != PROTOCOL) {
		snprintf(why, why_bytes,
			 "it is of version %.32s and speaks %" JSON_INTEGER_FORMAT
			 ", this one is of version " SXT_VERSION " and speaks %d",
			 version != NULL ? version : "unknown", json_integer_value(protocol),
			 PROTOCOL);
		return -EPROTONOSUPPORT;
	}
	read_text(&r, hello, "version", host.version, sizeof(host.version));
	read_text(&r, hello, "host", host.name, sizeof(host.name));
	read_text(&r, hello, "left_out", host.left_out, sizeof(host.left_out));
	host.ports_cnt = members_cnt(&r, ports, "ports", SXT_PAIRS_PORTS_MAX);
	for (uint32_t i = 0; i < host.ports_cnt && !r.failed; i++) {
		snprintf(r.where, sizeof(r.where), "ports[%u].", i);
		port_read(&r, json_array_get(ports, i), &host.ports[i]);
	}
	if (r.failed)
		return -EBADMSG;
	*out = host;
	return 0;
}
