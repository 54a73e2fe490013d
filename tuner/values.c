/*
 * values.c - numbers of a rules file. Neither strtod() nor printf("%g"): a host program's locale
 * may have a decimal comma, and then its ranks would read another file than the others.
 */
#include "tuner/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DECIMALS_MAX 22   /* 10^22 is the largest power of ten that a double has exactly */
#define MANTISSA_MAX 1e15 /* likewise for every whole number below */
#define SUFFIXES     "KMGTPE"
#define REAL_TINY    1e-12 /* of which nine digits still fit DECIMALS_MAX */

/* Leading digits. Return: how many; 0 also if they do not fit: then *out is UINT64_MAX. */
static size_t read_digits(const char *text, uint64_t *out)
{
	size_t len = strspn(text, "0123456789");
	uint64_t value = 0;

	for (size_t i = 0; i < len; i++) {
		uint64_t digit = (uint64_t)(text[i] - '0');

		if (value > (UINT64_MAX - digit) / 10) {
			*out = UINT64_MAX;
			return 0;
		}
		value = value * 10 + digit;
	}
	*out = value;
	return len;
}

int sxt_bytes_parse(const char *text, uint64_t *out)
{
	uint64_t value;
	size_t len = read_digits(text, &value);
	const char *unit = text + len;
	const char *suffix;
	unsigned int shift = 0;

	if (strcasecmp(text, "inf") == 0 || strcmp(text, "-1") == 0) {
		*out = UINT64_MAX;
		return 0;
	}
	if (len == 0)
		return value == UINT64_MAX ? -ERANGE : -EINVAL;
	suffix = memchr(SUFFIXES, *unit & ~0x20, sizeof(SUFFIXES) - 1);
	if (suffix != NULL) {
		shift = 10 * (unsigned int)(suffix - SUFFIXES + 1);
		unit++;
		if (*unit == 'i' && (unit[1] == 'B' || unit[1] == 'b'))
			unit++;
	}
	if (*unit == 'B' || *unit == 'b')
		unit++;
	if (*unit != '\0')
		return -EINVAL;
	if (value > UINT64_MAX >> shift)
		return -ERANGE;
	*out = value << shift;
	return 0;
}

void sxt_bytes_write(uint64_t bytes, char out[24])
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
	size_t i = 0;

	if (bytes == UINT64_MAX) {
		snprintf(out, 24, "inf");
		return;
	}
	while (bytes != 0 && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, 24, "%" PRIu64 "%s", bytes, units[i]);
}

int sxt_count_parse(const char *text, uint64_t *out)
{
	uint64_t value;
	size_t len = read_digits(text, &value);

	if (len == 0 && value != UINT64_MAX)
		return -EINVAL;
	if (len != 0 && text[len] != '\0')
		return -EINVAL;
	if (value == 0 || value > UINT32_MAX)
		return -ERANGE;
	*out = value;
	return 0;
}

/* One end of a range; an empty one is open. */
static int parse_end(const char *text, bool is_bytes, uint64_t *out)
{
	if (text[0] == '\0')
		return 0;
	if (strcmp(text, "-1") == 0)
		return -EINVAL;
	if (is_bytes || strcasecmp(text, "inf") == 0)
		return sxt_bytes_parse(text, out);
	return sxt_count_parse(text, out);
}

int sxt_range_parse(const char *text, bool is_bytes, struct sxt_range *out)
{
	struct sxt_range range = {0, UINT64_MAX};
	const char *dots = strstr(text, "..");
	char first[SXT_VALUE_BYTES];
	size_t len = dots != NULL ? (size_t)(dots - text) : strlen(text);
	int rc;

	if (strcmp(text, "any") == 0) {
		*out = range;
		return 0;
	}
	if (len >= sizeof(first) || text[0] == '\0' || strcmp(text, "..") == 0)
		return -EINVAL;
	memcpy(first, text, len);
	first[len] = '\0';
	rc = parse_end(first, is_bytes, &range.min);
	if (rc == 0 && dots == NULL)
		range.max = range.min;
	if (rc == 0 && dots != NULL)
		rc = parse_end(dots + 2, is_bytes, &range.max);
	if (rc != 0)
		return rc;
	if (range.min == UINT64_MAX)
		return -EINVAL;
	if (range.min > range.max)
		return -EDOM;
	if (!is_bytes && range.min == 1 && range.max == UINT64_MAX)
		range.min = 0;
	*out = range;
	return 0;
}

bool sxt_range_is_any(const struct sxt_range *range)
{
	return range->min == 0 && range->max == UINT64_MAX;
}

static void write_end(uint64_t value, bool is_bytes, char out[24])
{
	if (is_bytes)
		sxt_bytes_write(value, out);
	else
		snprintf(out, 24, "%" PRIu64, value);
}

void sxt_range_write(const struct sxt_range *range, bool is_bytes, char out[SXT_VALUE_BYTES])
{
	char min[24] = "";
	char max[24] = "";

	if (sxt_range_is_any(range)) {
		snprintf(out, SXT_VALUE_BYTES, "any");
		return;
	}
	if (range->min != 0 || range->max == 0)
		write_end(range->min, is_bytes, min);
	if (range->max != UINT64_MAX)
		write_end(range->max, is_bytes, max);
	if (range->min == range->max)
		snprintf(out, SXT_VALUE_BYTES, "%s", min);
	else
		snprintf(out, SXT_VALUE_BYTES, "%s..%s", min, max);
}

static double power_of_ten(unsigned int exponent)
{
	double power = 1;

	while (exponent-- > 0)
		power *= 10;
	return power;
}

/*
 * A whole number and a power of ten that a double both has exactly: their quotient is rounded once
 * and the float of it once more, the same on every machine.
 */
int sxt_real_parse(const char *text, double min, double max, float *out)
{
	uint64_t mantissa = 0;
	unsigned int decimals = 0;
	unsigned int digits = 0;
	bool has_dot = false;
	double value;

	for (; *text != '\0'; text++) {
		if (*text == '.' && !has_dot && digits > 0) {
			has_dot = true;
			continue;
		}
		if (*text < '0' || *text > '9')
			return -EINVAL;
		digits++;
		decimals += has_dot;
		mantissa = mantissa * 10 + (uint64_t)(*text - '0');
		if ((double)mantissa >= MANTISSA_MAX || decimals > DECIMALS_MAX)
			return -ERANGE;
	}
	if (digits == 0 || (has_dot && decimals == 0))
		return -EINVAL;
	value = (double)mantissa / power_of_ten(decimals);
	if (value < min || value > max)
		return -ERANGE;
	*out = (float)value;
	return 0;
}

/* A whole number with a point before its last @decimals digits. */
static void put_decimal(uint64_t mantissa, unsigned int decimals, char out[SXT_VALUE_BYTES])
{
	char backwards[SXT_VALUE_BYTES];
	size_t len = 0;

	do {
		if (len == decimals && len > 0)
			backwards[len++] = '.';
		backwards[len++] = (char)('0' + mantissa % 10);
		mantissa /= 10;
	} while (mantissa > 0 || len <= decimals + (decimals > 0));
	for (size_t i = 0; i < len; i++)
		out[i] = backwards[len - 1 - i];
	out[len] = '\0';
}

void sxt_real_write(float value, char out[SXT_VALUE_BYTES])
{
	unsigned int decimals = 0;
	uint64_t mantissa = 0;

	if (!((double)value >= REAL_TINY)) {
		snprintf(out, SXT_VALUE_BYTES, "0");
		return;
	}
	for (; decimals <= DECIMALS_MAX; decimals++) {
		double power = power_of_ten(decimals);

		mantissa = (uint64_t)((double)value * power + 0.5);
		if ((float)((double)mantissa / power) == value)
			break;
	}
	put_decimal(mantissa, decimals, out);
}
