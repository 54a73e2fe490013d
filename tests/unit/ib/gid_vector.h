/*
 * gid_vector.h - GID tables written as text: "0=fe80::1/v1 3=10.0.0.1/v2", "/ib" and "/?" too.
 */
#ifndef SXT_TESTS_GID_VECTOR_H
#define SXT_TESTS_GID_VECTOR_H

#include "ib/gid.h"

/**
 * gid_vector_parse() - the entries of a table; fails the test where the text is wrong.
 * @text: entries apart by spaces; a netdev may follow an address as "%net1".
 * @out: room for @most. Return: how many there are.
 */
uint32_t gid_vector_parse(const char *text, struct sxt_gid *out, uint32_t most);

#endif
