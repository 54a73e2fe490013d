/*
 * probe.c - may not see CUDA.
 */
#include <cuda.h>
