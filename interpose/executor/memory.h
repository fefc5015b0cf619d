/*
 * The application's memory in an executor: the arena's address range, and in it what the shim has mapped at home, at the same addresses.
 * The memory itself is the home GPU's, this executor's or another's.
 */
#ifndef TSR_EXECUTOR_MEMORY_H
#define TSR_EXECUTOR_MEMORY_H

#include <cuda.h>
#include <tessera/lane.h>

struct tsr_memory;

/* streams: all that work is given to, TSR_LANE_STREAMS; NULL: none. Errors: NOT_SUPPORTED when the arena's range is taken. */
CUresult tsr_memory_create(CUdevice device, CUstream *streams, struct tsr_memory **out);
/* Nothing uses the memory any more. */
void tsr_memory_destroy(struct tsr_memory *memory);

/* Carries out a control message about memory. Takes no ownership of the descriptor (-1: none). Errors: NOT_READY where it would have to wait for work that
   the application may hold up. */
CUresult tsr_memory_apply(struct tsr_memory *memory, const struct tsr_message *message, int descriptor);

#endif
