/*
 * net.h - NCCL's own prototypes are NCCL's to describe.
 */
int ncclThing(void);
