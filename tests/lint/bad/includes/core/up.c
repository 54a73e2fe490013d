/*
 * up.c - an include that points up, one from nowhere, and the own header not first.
 */
#include <stdio.h>

#include "core/up.h"
#include "ib/conn.h"
#include "up.h"
#include "core/other.c"
