/*
 * up.h - the own header of up.c.
 */
#include <infiniband/verbs.h>
