/*
 * names.h - the words people write for numbers of verbs: completion statuses, events, link rates.
 */
#ifndef SXT_IB_SOFT_NAMES_H
#define SXT_IB_SOFT_NAMES_H

#include "core/compiler.h"

struct sxt_soft_name {
	const char *word;
	uint32_t value;
};

extern const struct sxt_soft_name sxt_soft_wc_names[];    /* "RETRY_EXC_ERR" = IBV_WC_... */
extern const struct sxt_soft_name sxt_soft_event_names[]; /* "PORT_ERR" = IBV_EVENT_... */
extern const struct sxt_soft_name sxt_soft_speed_names[]; /* "NDR" = ibv_port_attr.active_speed */
extern const struct sxt_soft_name sxt_soft_width_names[]; /* "4x" = ibv_port_attr.active_width */

/**
 * sxt_soft_name_of() - the word of a number.
 * @names: one of the tables, ended by a NULL word. @value: the number.
 * Return: a static word, "?" when the table lacks it.
 */
const char *sxt_soft_name_of(const struct sxt_soft_name *names, uint32_t value);

/**
 * sxt_soft_value_of() - the number of a word.
 * @names: one of the tables, ended by a NULL word. @word: exact. Return: the number, 0 if unknown.
 */
uint32_t sxt_soft_value_of(const struct sxt_soft_name *names, const char *word);

/**
 * sxt_soft_rate_mbps() - what a link of a width and a speed carries.
 * @width, @speed: numbers as verbs has them. Return: Mbit/s, 0 for numbers unknown.
 */
uint64_t sxt_soft_rate_mbps(uint32_t width, uint32_t speed);

#endif
