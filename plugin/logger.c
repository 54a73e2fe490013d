/*
 * logger.c - the bridge from core/log to NCCL's logger (slow path, any thread).
 */
#include "plugin/logger.h"

#include "core/log.h"

#include <stdatomic.h>

static _Atomic(ncclDebugLogger_t) nccl_logger;

/*
 * A WARN carries every subsystem bit: with NCCL's default filter it would be dropped otherwise.
 * The text is an argument, never the format: it may contain what a peer or a file said.
 */
static void nccl_sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	ncclDebugLogger_t logger = atomic_load_explicit(&nccl_logger, memory_order_acquire);

	if (logger == NULL)
		return;
	if (level <= SXT_LOG_WARN)
		logger(NCCL_LOG_WARN, NCCL_SUBSYS_ALL, file, line, "%s%s", "NET/Sextant : ", text);
	else if (level == SXT_LOG_INFO)
		logger(NCCL_LOG_INFO, NCCL_SUBSYS_INIT | NCCL_SUBSYS_NET, file, line, "%s%s",
		       "NET/Sextant : ", text);
	else
		logger(NCCL_LOG_TRACE, NCCL_SUBSYS_NET, file, line, "%s%s", "NET/Sextant : ", text);
}

void sxt_logger_set(ncclDebugLogger_t logger)
{
	if (logger == NULL)
		return;
	atomic_store_explicit(&nccl_logger, logger, memory_order_release);
	sxt_log_set_sink(nccl_sink);
}
