/*
 * round_robin.h - the plugin's time beside that of the work requests alone, going round many
 * connections.
 */
#ifndef SXT_TESTS_PERF_ROUND_ROBIN_H
#define SXT_TESTS_PERF_ROUND_ROBIN_H

#include "tests/perf/net.h"

/**
 * round_robin_measure() - print, for some numbers of connections, the median over rounds of the
 * plugin's CPU time divided by a bare loop's in the same round.
 * @net: from net_open().
 */
void round_robin_measure(const struct net *net);

#endif
