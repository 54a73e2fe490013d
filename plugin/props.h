/*
 * props.h - what every version's properties have in common, for the net_vN.c shims.
 */
#ifndef SXT_PLUGIN_PROPS_H
#define SXT_PLUGIN_PROPS_H

#include "core/compiler.h"

/* Fields of v6, which all later versions keep. */
#define SXT_PROPS_COPY_V6(to, from)                    \
	do {                                           \
		(to)->name = (from)->name;             \
		(to)->pciPath = (from)->pciPath;       \
		(to)->guid = (from)->guid;             \
		(to)->ptrSupport = (from)->ptrSupport; \
		(to)->speed = (from)->speed;           \
		(to)->port = (from)->port;             \
		(to)->latency = (from)->latency;       \
		(to)->maxComms = (from)->maxComms;     \
		(to)->maxRecvs = (from)->maxRecvs;     \
	} while (0)

/* v6 and what v7 added. */
#define SXT_PROPS_COPY_V7(to, from)                                \
	do {                                                       \
		SXT_PROPS_COPY_V6(to, from);                       \
		(to)->netDeviceType = (from)->netDeviceType;       \
		(to)->netDeviceVersion = (from)->netDeviceVersion; \
	} while (0)

/* v7 and what v8 added. */
#define SXT_PROPS_COPY_V8(to, from)                      \
	do {                                             \
		SXT_PROPS_COPY_V7(to, from);             \
		(to)->regIsGlobal = (from)->regIsGlobal; \
	} while (0)

/*
 * v8 and what v9 added. A NIC that v12 merged of more parts than the older struct has room for
 * shows the first ones; NCCL speaks one version, and never meets it.
 */
#define SXT_PROPS_COPY_V9(to, from)                                    \
	do {                                                           \
		int room = (int)SXT_ARRAY_LEN((to)->vProps.devs);      \
		int cnt = (from)->vProps.ndevs;                        \
                                                                       \
		SXT_PROPS_COPY_V8(to, from);                           \
		(to)->forceFlush = (from)->forceFlush;                 \
		(to)->vProps.ndevs = cnt < room ? cnt : room;          \
		for (int i = 0; i < (to)->vProps.ndevs; i++)           \
			(to)->vProps.devs[i] = (from)->vProps.devs[i]; \
		(to)->maxP2pBytes = (from)->maxP2pBytes;               \
		(to)->maxCollBytes = (from)->maxCollBytes;             \
	} while (0)

#endif
