/*
 * net.h - includes nothing of ours but the assertions.
 */
#include "core/compiler.h"
#include "core/log.h"
