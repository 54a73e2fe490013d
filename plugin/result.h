/*
 * result.h - our errors as NCCL's result codes.
 */
#ifndef SXT_PLUGIN_RESULT_H
#define SXT_PLUGIN_RESULT_H

#include "plugin/nccl/common.h"

/**
 * sxt_result() - what NCCL is told for an error of the transport.
 * @rc: 0 or a negative errno. -EAGAIN is not an error and never comes here: the callers turn it
 * into success with a NULL output. ncclInProgress is never returned, NCCL takes it for success.
 * Return: the result code; ncclInternalError for an errno that has no meaning of its own.
 */
ncclResult_t sxt_result(int rc);

#endif
