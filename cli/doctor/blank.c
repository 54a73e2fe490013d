/*
 * blank.c - addresses become others that are related to each other as the first ones were.
 *
 * Each bit is flipped, or not, by a keyed hash of the bits before it (Crypto-PAn's scheme with a
 * plain hash): two addresses share as long a prefix afterwards as before.
 */
#include "cli/doctor/blank.h"

#include "cli/doctor/routes.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUID_TEXT 19 /* 0202:c903:0000:0001 */
#define MAC_TEXT  17 /* 02:02:c9:00:00:01 */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Flips bits from @first on, of @bytes bytes. */
static void flip(const struct sxt_blank *blank, uint8_t *raw, size_t bytes, size_t first)
{
	uint64_t hash = blank->key[0];

	for (size_t bit = 0; bit < bytes * 8; bit++) {
		uint8_t mask = (uint8_t)(0x80 >> bit % 8);
		bool set = (raw[bit / 8] & mask) != 0;

		if (bit >= first && (mix(hash ^ blank->key[1]) & 1) != 0)
			raw[bit / 8] ^= mask;
		hash = mix(hash + (set ? 0x9e3779b97f4a7c15ull : 0xd1b54a32d192ed03ull) + bit);
	}
}

uint32_t sxt_blank_ipv4(const struct sxt_blank *blank, uint32_t addr)
{
	uint8_t raw[4] = {(uint8_t)(addr >> 24), (uint8_t)(addr >> 16), (uint8_t)(addr >> 8),
			  (uint8_t)addr};

	if (addr == 0 || addr == UINT32_MAX || raw[0] == 127 || raw[0] == 255)
		return addr;
	flip(blank, raw, sizeof(raw), raw[0] == 169 && raw[1] == 254 ? 16 : 8);
	return (uint32_t)raw[0] << 24 | (uint32_t)raw[1] << 16 | (uint32_t)raw[2] << 8 | raw[3];
}

void sxt_blank_gid(const struct sxt_blank *blank, uint8_t *raw)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t zero[15];
	uint32_t addr;

	if (memcmp(raw, mapped, sizeof(mapped)) == 0) {
		memcpy(&addr, raw + 12, sizeof(addr));
		addr = htonl(sxt_blank_ipv4(blank, ntohl(addr)));
		memcpy(raw + 12, &addr, sizeof(addr));
	} else if (memcmp(raw, zero, sizeof(zero)) != 0) {
		flip(blank, raw, 16, raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 64 : 16);
	}
}

static unsigned int hex_digit(char c)
{
	return c <= '9' ? (unsigned int)(c - '0') : (unsigned int)((c | 32) - 'a' + 10);
}

/* "0202:c903:0000:0001" or "02:02:c9:00:00:01": all digits become others. */
static bool blank_groups(const struct sxt_blank *blank, const char *word, size_t len, char *out,
			 size_t out_bytes)
{
	size_t group = len == GUID_TEXT ? 4 : 2;
	uint8_t raw[8] = {0};
	size_t digits = 0;

	if (len != GUID_TEXT && len != MAC_TEXT)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (i % (group + 1) == group) {
			if (word[i] != ':')
				return false;
			continue;
		}
		if (!isxdigit((unsigned char)word[i]))
			return false;
		raw[digits / 2] |= (uint8_t)(hex_digit(word[i]) << (digits % 2 == 0 ? 4 : 0));
		digits++;
	}
	flip(blank, raw, digits / 2, 0);
	if (group == 4)
		snprintf(out, out_bytes, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", raw[0], raw[1],
			 raw[2], raw[3], raw[4], raw[5], raw[6], raw[7]);
	else
		snprintf(out, out_bytes, "%02x:%02x:%02x:%02x:%02x:%02x", raw[0], raw[1], raw[2],
			 raw[3], raw[4], raw[5]);
	return true;
}

/* The kernel writes GIDs with all digits; readers of saved trees may count on that. */
static void gid_text(const uint8_t *raw, char *out, size_t out_bytes)
{
	size_t len = 0;

	for (size_t i = 0; i < 16; i += 2)
		len += (size_t)snprintf(out + len, out_bytes - len, "%s%02x%02x", i > 0 ? ":" : "",
					raw[i], raw[i + 1]);
}

/* One run of digits, dots and colons. Return: true if it was an address, @out then replaces it. */
static bool blank_word(const struct sxt_blank *blank, const char *word, size_t len, char *out,
		       size_t out_bytes)
{
	char text[64];
	uint8_t raw[16];
	uint32_t addr;

	if (len >= sizeof(text) || len < 3)
		return false;
	memcpy(text, word, len);
	text[len] = '\0';
	if (inet_pton(AF_INET, text, &addr) == 1) {
		addr = htonl(sxt_blank_ipv4(blank, ntohl(addr)));
		return inet_ntop(AF_INET, &addr, out, (socklen_t)out_bytes) != NULL;
	}
	if (inet_pton(AF_INET6, text, raw) == 1) {
		sxt_blank_gid(blank, raw);
		gid_text(raw, out, out_bytes);
		return true;
	}
	return blank_groups(blank, word, len, out, out_bytes);
}

static bool starts_with(const char *text, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	return name_len > 2 && len >= name_len && memcmp(text, name, name_len) == 0;
}

/* What stands at @text. @taken_out: how much of it is replaced. Return: by what. */
static const char *replacement(const struct sxt_blank *blank, const char *text, size_t len,
			       char *word_out, size_t *taken_out)
{
	size_t run = 0;

	if (starts_with(text, len, blank->home)) {
		*taken_out = strlen(blank->home);
		return "/user-home";
	}
	if (starts_with(text, len, blank->host)) {
		*taken_out = strlen(blank->host);
		return "host";
	}
	while (run < len && text[run] != '\0' && strchr("0123456789abcdefABCDEF.:", text[run]))
		run++;
	/* A port behind an IPv4 address, the end of a sentence. */
	while (run > 0 && !blank_word(blank, text, run, word_out, 64)) {
		while (run > 0 && text[run - 1] != ':' && text[run - 1] != '.')
			run--;
		run -= run > 0;
	}
	*taken_out = run;
	return run > 0 ? word_out : NULL;
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '.' ||
	       c == ':';
}

char *sxt_blank_text(const struct sxt_blank *blank, const char *text, size_t len, size_t *len_out)
{
	char *out = NULL;
	size_t out_len = 0;
	FILE *file = open_memstream(&out, &out_len);

	if (file == NULL)
		return NULL;
	for (size_t at = 0; at < len;) {
		char word[64];
		size_t taken = 0;
		const char *instead = NULL;

		if (at == 0 || !is_word(text[at - 1]))
			instead = replacement(blank, text + at, len - at, word, &taken);
		if (instead != NULL)
			fputs(instead, file);
		else
			fputc(text[at], file);
		at += instead != NULL ? taken : 1;
	}
	if (fclose(file) != 0) {
		free(out);
		return NULL;
	}
	*len_out = out_len;
	return out;
}

static void put_column(char *line, const char *column, uint32_t addr)
{
	char text[9];

	snprintf(text, sizeof(text), "%08X", addr);
	memcpy(line + (column - line), text, sizeof(text) - 1);
}

/* A subnet keeps its empty host part. */
static void blank_route(const struct sxt_blank *blank, char *line)
{
	uint32_t subnet;
	uint32_t gateway;
	uint32_t mask;
	const char *subnet_at = sxt_route_column(line, SXT_ROUTE_SUBNET, &subnet);
	const char *gateway_at = sxt_route_column(line, SXT_ROUTE_GATEWAY, &gateway);

	if (subnet_at == NULL || gateway_at == NULL ||
	    sxt_route_column(line, SXT_ROUTE_MASK, &mask) == NULL)
		return;
	put_column(line, subnet_at, htonl(sxt_blank_ipv4(blank, ntohl(subnet))) & mask);
	put_column(line, gateway_at, htonl(sxt_blank_ipv4(blank, ntohl(gateway))));
}

void sxt_blank_routes(const struct sxt_blank *blank, char *text)
{
	while (*text != '\0') {
		size_t len = strcspn(text, "\n");

		blank_route(blank, text);
		text += len + (text[len] == '\n');
	}
}
