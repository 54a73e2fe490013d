/*
 * builtin.h - what NCCL's built-in transport (2.30) chooses, by its rules: a model to compare ours
 * with.
 */
#ifndef SXT_TESTS_UNIT_IB_BUILTIN_H
#define SXT_TESTS_UNIT_IB_BUILTIN_H

#include "ib/gid.h"

/**
 * builtin_gid() - the index it uses, without a word about it.
 * @table: by index; entries left out are empty. @wishes: what was set; family 0 is AF_INET,
 * version 0 is 2, as it has them.
 * Return: an index, of an empty entry too.
 */
uint32_t builtin_gid(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes);

/**
 * builtin_picks() - does its NCCL_IB_HCA pick a port?
 * @list: the setting. @device, @port: an active port. Return: true if so.
 */
bool builtin_picks(const char *list, const char *device, int port);

#endif
