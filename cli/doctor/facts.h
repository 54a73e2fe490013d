/*
 * facts.h - statistics of an interface, of the kind `ethtool -S` prints.
 */
#ifndef SXT_CLI_DOCTOR_FACTS_H
#define SXT_CLI_DOCTOR_FACTS_H

#include "cli/doctor/doctor.h"

/* In a saved tree: lines KEY=VALUE, keys as sxt_doctor_fact() takes them. */
#define SXT_FACTS_FILE "/sextant.facts"

#define SXT_DOCTOR_STATS_MAX 128

struct sxt_doctor_stat {
	char name[48];
	uint64_t value;
};

/* Those about PAUSE frames and discarded packets. */
struct sxt_doctor_stats {
	struct sxt_doctor_stat list[SXT_DOCTOR_STATS_MAX];
	size_t cnt;
};

/**
 * sxt_doctor_stats_read() - what an interface counted.
 * @d: says the root. @netdev: interface. @out: always written, empty where nothing is told.
 */
void sxt_doctor_stats_read(const struct sxt_doctor *d, const char *netdev,
			   struct sxt_doctor_stats *out);

/**
 * sxt_doctor_counts_pauses() - is it a count of PAUSE frames, and not of how long they held?
 * @name: of a statistic. Return: true for those of one priority and of the whole link.
 */
bool sxt_doctor_counts_pauses(const char *name);

#endif
