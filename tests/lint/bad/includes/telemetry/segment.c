/*
 * segment.c - never calls up.
 */
#include "gdr/probe.h"
