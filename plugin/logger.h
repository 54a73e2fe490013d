/*
 * logger.h - our log lines to NCCL's logger.
 */
#ifndef SXT_PLUGIN_LOGGER_H
#define SXT_PLUGIN_LOGGER_H

#include "plugin/nccl/common.h"

/**
 * sxt_logger_set() - from now on lines go to NCCL's logger.
 * @logger: NCCL's, the same function for every communicator; NULL leaves things as they are.
 * Thread: any.
 */
void sxt_logger_set(ncclDebugLogger_t logger);

#endif
