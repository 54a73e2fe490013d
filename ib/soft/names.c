/*
 * names.c - tables of words for numbers of verbs.
 */
#include "ib/soft/names.h"

#include "ib/soft/state.h"

#include <infiniband/verbs.h>
#include <string.h>

#define WC(name)                     \
	{                            \
#name, IBV_WC_##name \
	}
#define EVENT(name)                     \
	{                               \
#name, IBV_EVENT_##name \
	}

const struct sxt_soft_name sxt_soft_wc_names[] = {
	WC(LOC_LEN_ERR),       WC(LOC_QP_OP_ERR),  WC(LOC_EEC_OP_ERR), WC(LOC_PROT_ERR),
	WC(WR_FLUSH_ERR),      WC(MW_BIND_ERR),    WC(BAD_RESP_ERR),   WC(LOC_ACCESS_ERR),
	WC(REM_INV_REQ_ERR),   WC(REM_ACCESS_ERR), WC(REM_OP_ERR),     WC(RETRY_EXC_ERR),
	WC(RNR_RETRY_EXC_ERR), WC(REM_ABORT_ERR),  WC(FATAL_ERR),      WC(RESP_TIMEOUT_ERR),
	WC(GENERAL_ERR),       {NULL, 0},
};

/* Those that concern a port or the device; the others belong to one object of one process. */
const struct sxt_soft_name sxt_soft_event_names[] = {
	EVENT(PORT_ERR),          EVENT(PORT_ACTIVE),  EVENT(LID_CHANGE),
	EVENT(PKEY_CHANGE),       EVENT(GID_CHANGE),   EVENT(SM_CHANGE),
	EVENT(CLIENT_REREGISTER), EVENT(DEVICE_FATAL), {NULL, 0},
};

const struct sxt_soft_name sxt_soft_speed_names[] = {
	{"SDR", 1},  {"DDR", 2},  {"QDR", 4},   {"FDR10", 8}, {"FDR", 16},
	{"EDR", 32}, {"HDR", 64}, {"NDR", 128}, {"XDR", 256}, {NULL, 0},
};

const struct sxt_soft_name sxt_soft_width_names[] = {
	{"1x", 1}, {"2x", 16}, {"4x", 2}, {"8x", 4}, {"12x", 8}, {NULL, 0},
};

_Static_assert((int)SXT_SOFT_INFINIBAND == (int)IBV_LINK_LAYER_INFINIBAND, "as verbs");
_Static_assert((int)SXT_SOFT_ETHERNET == (int)IBV_LINK_LAYER_ETHERNET, "as verbs");
_Static_assert((int)SXT_SOFT_PORT_DOWN == (int)IBV_PORT_DOWN, "as verbs");
_Static_assert((int)SXT_SOFT_PORT_INIT == (int)IBV_PORT_INIT, "as verbs");
_Static_assert((int)SXT_SOFT_PORT_ACTIVE == (int)IBV_PORT_ACTIVE, "as verbs");
_Static_assert((int)SXT_SOFT_GID_IB == (int)IBV_GID_TYPE_IB, "as verbs");
_Static_assert((int)SXT_SOFT_GID_ROCE_V1 == (int)IBV_GID_TYPE_ROCE_V1, "as verbs");
_Static_assert((int)SXT_SOFT_GID_ROCE_V2 == (int)IBV_GID_TYPE_ROCE_V2, "as verbs");

const char *sxt_soft_name_of(const struct sxt_soft_name *names, uint32_t value)
{
	for (; names->word != NULL; names++) {
		if (names->value == value)
			return names->word;
	}
	return "?";
}

uint64_t sxt_soft_rate_mbps(uint32_t width, uint32_t speed)
{
	/* By bit of the number: width 1x, 4x, 8x, 12x, 2x; speed SDR upward, Mbit/s per lane. */
	static const uint32_t lanes[] = {1, 4, 8, 12, 2};
	static const uint32_t lane_mbps[] = {2500,  5000,  10000,  10000, 14000,
					     25000, 50000, 100000, 200000};

	for (size_t w = 0; w < SXT_ARRAY_LEN(lanes); w++) {
		for (size_t s = 0; s < SXT_ARRAY_LEN(lane_mbps); s++) {
			if (width == 1u << w && speed == 1u << s)
				return (uint64_t)lanes[w] * lane_mbps[s];
		}
	}
	return 0;
}

uint32_t sxt_soft_value_of(const struct sxt_soft_name *names, const char *word)
{
	while (names->word != NULL && strcmp(names->word, word) != 0)
		names++;
	return names->value;
}
