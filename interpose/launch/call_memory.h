/*
 * What happens inside library calls (calls/calls.h): memory that the application allocates there, which belongs to the library, and work that the thread
 * has given the GPU.
 */
#ifndef TSR_LAUNCH_CALL_MEMORY_H
#define TSR_LAUNCH_CALL_MEMORY_H

#include <stdint.h>

#include "calls/calls.h"

static inline void tsr_call_got_memory(uint64_t address, uint64_t bytes)
{
    if (tessera_library_memory)
        tessera_library_memory(address, bytes);
}

static inline void tsr_call_gave_memory(uint64_t address)
{
    if (tessera_library_memory_gone)
        tessera_library_memory_gone(address);
}

static inline void tsr_call_enqueued(void)
{
    if (tessera_library_enqueued)
        tessera_library_enqueued();
}

static inline void tsr_call_enqueued_bytes(uint64_t address, uint64_t bytes)
{
    if (tessera_library_enqueued_bytes)
        tessera_library_enqueued_bytes(address, bytes);
}

#endif
