/*
 * Launches of NCCL. They reach memory of other GPUs through mappings that exist on the communicator's GPU only, so no other GPU can run them. They are
 * recognised by the library call that they happen in, if library calls are marked (calls/calls.h), and by their code, which lies in NCCL's library
 * or has its names; that includes launches from NCCL's own threads, and programs into which NCCL is linked.
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
