/*
 * values.h - numbers of a rules file as text and back, the same in every locale.
 */
#ifndef SXT_TUNER_VALUES_H
#define SXT_TUNER_VALUES_H

#include "tuner/rules.h"

#define SXT_VALUE_BYTES 64u /* of any value's text, terminated */

/**
 * sxt_count_parse() - a whole number, at least 1.
 * @text: the whole word. @out: written on success.
 * Return: 0, -EINVAL, -ERANGE if it is 0 or needs more than 32 bits.
 */
SXT_MUST_CHECK int sxt_count_parse(const char *text, uint64_t *out);

/**
 * sxt_range_parse() - "4", "4..8", "4..", "..8", "any".
 * @text: the whole word. @is_bytes: ends are sizes, else counts. @out: written on success.
 * Return: 0, -EINVAL, -ERANGE for an end out of bounds, -EDOM if it begins after its end.
 */
SXT_MUST_CHECK int sxt_range_parse(const char *text, bool is_bytes, struct sxt_range *out);

/** sxt_range_is_any() - does it leave nothing out? @range: to look at. Return: true if so. */
bool sxt_range_is_any(const struct sxt_range *range);

/**
 * sxt_range_write() - the text that sxt_range_parse() reads back to the same.
 * @range: to write. @is_bytes: as there. @out: terminated.
 */
void sxt_range_write(const struct sxt_range *range, bool is_bytes, char out[SXT_VALUE_BYTES]);

/**
 * sxt_real_parse() - a plain decimal number, without sign and exponent.
 * @text: the whole word, at most 15 digits that count. @min, @max: what it may be.
 * @out: written on success. Return: 0, -EINVAL, -ERANGE.
 */
SXT_MUST_CHECK int sxt_real_parse(const char *text, double min, double max, float *out);

/**
 * sxt_real_write() - the shortest text that sxt_real_parse() reads back to the same; what is below
 * 10^-12, or no number, is written as 0.
 * @value: at most 10^14. @out: terminated.
 */
void sxt_real_write(float value, char out[SXT_VALUE_BYTES]);

#endif
