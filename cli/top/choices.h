/*
 * choices.h - what the tuner of a process chose, for people and as JSON.
 */
#ifndef SXT_CLI_TOP_CHOICES_H
#define SXT_CLI_TOP_CHOICES_H

#include "cli/top/sample.h"

#include <jansson.h>

/**
 * sxt_top_choices_say() - "allreduce: tree/ll 1K 12, 4K 40; left to NCCL 64K 3".
 * @sample: the process. @out, @bytes: text, cut where it is too long; "" when nothing was chosen.
 */
void sxt_top_choices_say(const struct sxt_top_sample *sample, char *out, size_t bytes);

/**
 * sxt_top_choices_json() - the same as a list. @sample: the process. Return: an array.
 */
json_t *sxt_top_choices_json(const struct sxt_top_sample *sample);

#endif
