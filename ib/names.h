/*
 * names.h - NCCL's lists of interface names: [^][=]name,name...
 */
#ifndef SXT_IB_NAMES_H
#define SXT_IB_NAMES_H

#include "core/compiler.h"

#include <stdbool.h>

/**
 * sxt_names_match() - is a name picked by a list?
 * @list: `^` in front picks what is not listed, `=` whole names instead of beginnings; either
 * order. An empty list picks everything; empty names are skipped.
 * @name: of an interface. Thread: any. Return: true if it is picked.
 */
bool sxt_names_match(const char *list, const char *name);

#endif
