/*
 * common.h - what NCCL's net and tuner interfaces share: result codes, logger, profiler callback.
 *
 * Declarations of NCCL's binary interface, written from its facts. Names, order, types and values
 * are the interface, so they are NCCL's and not in this project's style. Natural alignment of
 * x86-64 and aarch64; enums are 4 bytes.
 */
#ifndef SXT_PLUGIN_NCCL_COMMON_H
#define SXT_PLUGIN_NCCL_COMMON_H

#include "core/compiler.h"

/* An nccl.h that was included before wins; the plugin also builds where there is none. */
#ifndef NCCL_H_
typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7, /* NCCL takes it for success: a plugin never returns it */
	ncclTimeout = 8,
} ncclResult_t;
#endif

_Static_assert(sizeof(ncclResult_t) == 4, "NCCL's enums are 4 bytes");

enum nccl_log_level {
	NCCL_LOG_NONE = 0,
	NCCL_LOG_VERSION = 1,
	NCCL_LOG_WARN = 2, /* also becomes the text of ncclGetLastError() */
	NCCL_LOG_INFO = 3,
	NCCL_LOG_ABORT = 4,
	NCCL_LOG_TRACE = 5,
};

/* Subsystem bits of a log line; a line goes out if one of its bits is in NCCL_DEBUG_SUBSYS. */
#define NCCL_SUBSYS_INIT       0x1ul
#define NCCL_SUBSYS_COLL       0x2ul
#define NCCL_SUBSYS_P2P        0x4ul
#define NCCL_SUBSYS_SHM        0x8ul
#define NCCL_SUBSYS_NET        0x10ul
#define NCCL_SUBSYS_GRAPH      0x20ul
#define NCCL_SUBSYS_TUNING     0x40ul
#define NCCL_SUBSYS_ENV        0x80ul
#define NCCL_SUBSYS_ALLOC      0x100ul
#define NCCL_SUBSYS_CALL       0x200ul
#define NCCL_SUBSYS_PROXY      0x400ul
#define NCCL_SUBSYS_NVLS       0x800ul
#define NCCL_SUBSYS_BOOTSTRAP  0x1000ul
#define NCCL_SUBSYS_REG        0x2000ul
#define NCCL_SUBSYS_PROFILE    0x4000ul
#define NCCL_SUBSYS_RAS        0x8000ul
#define NCCL_SUBSYS_DESTROY    0x10000ul
#define NCCL_SUBSYS_ALLOC_HOST 0x20000ul
#define NCCL_SUBSYS_ALL        (~0ul)

/*
 * NCCL's logger. A WARN is given NCCL_SUBSYS_ALL, so that no subsystem filter hides it; text goes
 * out as the argument of "%s".
 */
typedef void (*ncclDebugLogger_t)(int level, unsigned long flags, const char *file, int line,
				  const char *fmt, ...) SXT_PRINTF(5, 6);

enum nccl_profiler_event {
	NCCL_PROFILER_START = 0, /* reads *pHandle unchecked: never with a NULL pHandle */
	NCCL_PROFILER_STOP = 1,  /* only for an *eHandle that START has set */
	NCCL_PROFILER_UPDATE = 2,
	NCCL_PROFILER_UPDATE_AND_STOP = 3,
};

/* From net v10 on, handed to init; may be NULL in callers other than NCCL. */
typedef ncclResult_t (*ncclProfilerCallback_t)(void **eHandle, int type, void *pHandle,
					       int64_t pluginId, void *extData);

#endif
