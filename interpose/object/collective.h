/*
 * Launches of NCCL, which reach memory of other GPUs by mappings that only the GPU has that the communicator is for: no other one can run them. They are
 * known by the call that they happen in, if library calls are marked (calls/calls.h), and by their code, which lies in NCCL's library or has
 * its names: also those that it makes from threads of its own, and those of programs that NCCL is linked into.
 */
#ifndef TSR_OBJECT_COLLECTIVE_H
#define TSR_OBJECT_COLLECTIVE_H

#include <stdbool.h>

struct tsr_function_record;

/* By its code; for tsr_function_ask. */
bool tsr_is_collective_code(const struct tsr_function_record *function);

/* Whether the calling thread is in a call of NCCL. */
bool tsr_is_collective_call(void);

#endif
