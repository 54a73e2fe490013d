/*
 * agree.h - what the two ends of a channel should have alike: told to the peer as lines of text,
 * and compared with what the peer tells. Pure functions.
 */
#ifndef SXT_IB_AGREE_H
#define SXT_IB_AGREE_H

#include "core/config.h"
#include "core/log.h"
#include "ib/wire.h"

#include <stdbool.h>

/* What is told, apart from the settings. */
struct sxt_agree_own {
	const struct sxt_config *config;
	const char *links; /* kinds of port: "RoCE", "InfiniBand", "RoCE and InfiniBand" */
	int abi;           /* version of NCCL's network interface; 0 unknown, not told */
};

/**
 * sxt_agree_write() - the lines for the peer: "NAME=value", each ended by a newline.
 * @own: this process. @out: terminated; printable but for the newlines.
 */
void sxt_agree_write(const struct sxt_agree_own *own, char out[SXT_SETTINGS_BYTES]);

/* One end, as messages name it, and its lines. */
struct sxt_agree_end {
	const char *name; /* "host:pid" */
	const char *lines;
};

/* A difference: what to log of it, and how loud. */
struct sxt_agree_line {
	enum sxt_log_level level;
	char text[1024];
};

/**
 * sxt_agree_next() - the next difference between two ends. What one of them does not tell, an older
 * release, is no difference.
 * @own, @peer: the ends. @at: where to go on, 0 at first. @out: written when there is one: both
 * values, both ends, what it leads to and what to do.
 * Return: true if there is one.
 */
bool sxt_agree_next(const struct sxt_agree_end *own, const struct sxt_agree_end *peer, uint32_t *at,
		    struct sxt_agree_line *out);

/**
 * sxt_agree_tuner() - do the tuners of two ends answer alike?
 * @own, @peer: names of the ends. @own_tuner, @peer_tuner: what they say.
 * @out: written when they may not: SXT_LOG_ERROR where both are in use, so that ranks would wait
 * for each other for ever; both ends, both digests, what to do.
 * Return: true if there is something to tell.
 */
bool sxt_agree_tuner(const char *own, const struct sxt_wire_tuner *own_tuner, const char *peer,
		     const struct sxt_wire_tuner *peer_tuner, struct sxt_agree_line *out);

#define SXT_TUNER_TEXT_BYTES 64

/**
 * sxt_tuner_text() - what an end says of its tuner, for messages.
 * @tuner: the words. @out: "no rules", "digest 0123456789abcdef in use" and the like.
 */
void sxt_tuner_text(const struct sxt_wire_tuner *tuner, char out[SXT_TUNER_TEXT_BYTES]);

#endif
