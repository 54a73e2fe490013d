/*
 * units.c - numbers as people write them on a command line, and what bandwidths are counted by.
 */
#include "cli/tune/tune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return: where the number ends, NULL when there is none above 0. */
static const char *parse_number(const char *text, double *out)
{
	char *end = NULL;

	*out = strtod(text, &end);
	return end == text || !isfinite(*out) || *out <= 0 ? NULL : end;
}

/* What a letter multiplies by; 0 for one that is none. */
static double scale_of(char letter)
{
	static const char letters[] = "kMGBT";
	static const double scales[] = {1e3, 1e6, 1e9, 1e9, 1e12};
	const char *at = strchr(letters, letter == 'K' ? 'k' : letter);

	return letter != '\0' && at != NULL ? scales[at - letters] : 0;
}

int sxt_tune_count(const char *text, double *out)
{
	double value;
	const char *end = parse_number(text, &value);

	if (end != NULL && scale_of(*end) > 0)
		value *= scale_of(*end++);
	if (end == NULL || *end != '\0')
		return -EINVAL;
	*out = value;
	return 0;
}

int sxt_tune_bandwidth(const char *text, double *out)
{
	static const struct {
		const char *suffix;
		double bytes;
	} units[] = {
		{"G", 1e9 / 8},    {"Gb", 1e9 / 8}, {"Gb/s", 1e9 / 8}, {"Gbit", 1e9 / 8},
		{"GB", 1e9},       {"GB/s", 1e9},   {"M", 1e6 / 8},    {"Mb", 1e6 / 8},
		{"Mb/s", 1e6 / 8}, {"MB", 1e6},     {"MB/s", 1e6},
	};
	double value;
	const char *end = parse_number(text, &value);

	for (size_t i = 0; end != NULL && i < SXT_ARRAY_LEN(units); i++) {
		if (strcmp(end, units[i].suffix) != 0)
			continue;
		*out = value * units[i].bytes;
		return 0;
	}
	return -EINVAL;
}

const char *sxt_tune_bus_formula(enum sxt_coll coll)
{
	if (coll == SXT_COLL_ALL_REDUCE)
		return " x 2(n-1)/n";
	return coll == SXT_COLL_ALL_GATHER || coll == SXT_COLL_REDUCE_SCATTER ? " x (n-1)/n" : "";
}
