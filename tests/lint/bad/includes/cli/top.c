/*
 * top.c - a subcommand sees NCCL's types only below cli/driver/.
 */
#include "plugin/nccl/net.h"
#include "plugin/net.h"
