/*
 * abi.h - what the files that make up libibverbs' ABI share.
 *
 * verbs.h hides some functions behind macros and inline wrappers; here their plain names are
 * defined, so the macros go.
 */
#ifndef SXT_IB_SOFT_ABI_H
#define SXT_IB_SOFT_ABI_H

#include "core/compiler.h"

#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#endif
