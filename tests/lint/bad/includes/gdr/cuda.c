/*
 * cuda.c - the one file that may see CUDA.
 */
#include <cuda.h>
