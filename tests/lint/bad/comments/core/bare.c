#include "core/bare.h"

// a comment of the wrong kind
int sxt_bare;

/* ------------------------------ */
