/*
 * names.h - NCCL's lists of device and interface names: [^][=]name[:port],name[:port]...
 */
#ifndef SXT_IB_NAMES_H
#define SXT_IB_NAMES_H

#include "core/compiler.h"

#include <stdbool.h>

/**
 * sxt_names_match() - is a name picked by a list?
 * @list: `^` in front picks what is not listed, `=` whole names instead of beginnings; either
 * order. An empty list picks everything. A port behind a name narrows it; empty names are skipped.
 * @name: of a device or interface. @port: its port, or -1 where there is none.
 * Thread: any. Return: true if it is picked.
 */
bool sxt_names_match(const char *list, const char *name, int port);

#endif
