/*
 * text.h - texts of a segment: terminated, valid UTF-8, free of control characters.
 */
#ifndef SXT_TELEMETRY_TEXT_H
#define SXT_TELEMETRY_TEXT_H

#include <stddef.h>

/**
 * sxt_tele_text_clean() - make an array of any bytes a text.
 * @text: what is not valid becomes '?', what follows the end becomes zeros.
 * @bytes: of the array, at least 1.
 */
void sxt_tele_text_clean(char *text, size_t bytes);

/**
 * sxt_tele_text_put() - copy a text, clean, cut between two characters where it is too long.
 * @out, @out_bytes: the array. @text: NULL is an empty one.
 */
void sxt_tele_text_put(char *out, size_t out_bytes, const char *text);

#endif
