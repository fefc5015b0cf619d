/* What a stream's handle says by itself, without asking the driver. */
#ifndef TSR_DRIVER_STREAM_HANDLE_H
#define TSR_DRIVER_STREAM_HANDLE_H

#include "api/driver.h"

#include <stdbool.h>

/* Names the stream that NULL stands for: the thread's own in functions of the per-thread kind, else the legacy one. */
static inline CUstream tsr_stream_named(CUstream stream, bool per_thread)
{
    return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* A default stream, under any of its names: not created by the program. */
static inline bool tsr_stream_is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

#endif
