/*
 * blank.h - takes addresses, GUIDs and names out of text, alike everywhere, so that what was in one
 * subnet stays in one subnet and the kinds of addresses stay visible.
 */
#ifndef SXT_CLI_DOCTOR_BLANK_H
#define SXT_CLI_DOCTOR_BLANK_H

#include "core/compiler.h"

#include <stdbool.h>

/* One collection's key and names; with another key the same text becomes another. */
struct sxt_blank {
	uint64_t key[2];
	char host[256]; /* becomes "host"; "" for none */
	char home[256]; /* becomes "/user-home"; "" for none */
};

/**
 * sxt_blank_ipv4() - an address, prefix-preserving behind its first octet (169.254 stays).
 * @blank: the key. @addr: host order. Return: the address to show instead.
 */
uint32_t sxt_blank_ipv4(const struct sxt_blank *blank, uint32_t addr);

/**
 * sxt_blank_gid() - a GID or IPv6 address: mapped IPv4 as above; link-local ones keep their first
 * 8 bytes, others their first 2; zero and loopback stay.
 * @blank: the key. @raw: 16 bytes, changed in place.
 */
void sxt_blank_gid(const struct sxt_blank *blank, uint8_t *raw);

/**
 * sxt_blank_text() - a text without addresses, GUIDs, host name and home folder.
 * @blank: key and names. @text, @len: any bytes; zeros are kept.
 * @len_out: of the new text. Return: memory to free(), zero-terminated, or NULL without memory.
 */
char *sxt_blank_text(const struct sxt_blank *blank, const char *text, size_t len, size_t *len_out);

/**
 * sxt_blank_routes() - /proc/net/route without addresses.
 * @blank: the key. @text: zero-terminated, changed in place.
 */
void sxt_blank_routes(const struct sxt_blank *blank, char *text);

#endif
