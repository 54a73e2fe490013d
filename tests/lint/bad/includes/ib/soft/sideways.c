/*
 * sideways.c - the software HCA may use the verbs header, not the transport.
 */
#include <infiniband/verbs.h>

#include "ib/conn.h"
