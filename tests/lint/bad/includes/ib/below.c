/*
 * below.c - the transport knows neither NCCL nor the software HCA nor CUDA.
 */
#include "core/up.h"
#include "ib/soft/soft.h"
#include "plugin/nccl/net.h"
#include "tuner/rules.h"

#include <cuda.h>
#include <nccl.h>
