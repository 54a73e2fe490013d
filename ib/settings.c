/*
 * settings.c - telling what settings come to (slow path, once per process).
 */
#include "ib/settings.h"

#include "core/log.h"

#include <stdio.h>

#define ACK_UNIT_S     4.096e-6
#define SHORTEST_LOG2  14 /* 67 ms: a switch may keep a packet that long */
#define ECN_MASK       3u
#define DURATION_BYTES 32

static void duration_text(double seconds, char out[DURATION_BYTES])
{
	if (seconds < 1e-3)
		snprintf(out, DURATION_BYTES, "%.0f us", seconds * 1e6);
	else if (seconds < 1)
		snprintf(out, DURATION_BYTES, "%.0f ms", seconds * 1e3);
	else
		snprintf(out, DURATION_BYTES, "%.*f s", seconds < 10 ? 1 : 0, seconds);
}

static void tell_timeout(const struct sxt_config *config)
{
	uint32_t tries = config->ib_retry_cnt > 0 ? config->ib_retry_cnt : 1;
	char text[DURATION_BYTES];

	if (config->ib_timeout == 0) {
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_TIMEOUT=0: a path without an answer waits for ever and never "
			"fails");
		return;
	}
	duration_text(ACK_UNIT_S * (double)(1ull << config->ib_timeout) * tries, text);
	SXT_LOG(config->ib_timeout < SHORTEST_LOG2 ? SXT_LOG_WARN : SXT_LOG_INFO,
		"NCCL_IB_TIMEOUT=%u, NCCL_IB_RETRY_CNT=%u: a path without an answer fails after "
		"about %s%s",
		config->ib_timeout, config->ib_retry_cnt, text,
		config->ib_timeout < SHORTEST_LOG2
			? ", which busy networks exceed; the default is 20 (about 30 s)"
			: "");
}

static void tell_tclass(const char *name, int32_t tclass)
{
	unsigned int value = (unsigned int)tclass;

	if (tclass < 0)
		return;
	if ((value & ECN_MASK) != 0)
		SXT_LOG(SXT_LOG_INFO,
			"%s=%u: DSCP %u, ECN bits %u: the low 2 bits are ECN, which belongs to the "
			"network; %u has the same DSCP without them",
			name, value, value >> 2, value & ECN_MASK, value & ~ECN_MASK);
	else
		SXT_LOG(SXT_LOG_INFO, "%s=%u: DSCP %u", name, value, value >> 2);
}

void sxt_settings_tell(const struct sxt_config *config)
{
	tell_timeout(config);
	tell_tclass("NCCL_IB_TC", config->ib_tc);
	tell_tclass("NCCL_IB_FIFO_TC", config->ib_fifo_tc);
}
