/*
 * cuda.h as the implementer of the driver needs it. The plain cuda.h renames functions to their newest version
 * (cuMemAlloc to cuMemAlloc_v2); with this header every name is the exported one, and the older versions are declared too.
 * An entry point is written as it is exported, once, for the legacy default stream:
 *
 *     CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
 *
 * and its row in driver.def says EMULATED. Its per-thread forms (_ptsz, _ptds) are generated: they call it with
 * tsr_driver_per_thread set, which only tsr_driver_stream looks at. So an entry point that has a stream, or that implies the
 * default one, passes the handle it got (or NULL) through tsr_driver_stream first and never compares it with NULL itself.
 *
 * Include it before, or instead of, cuda.h and cudaTypedefs.h. Entry points are visible whatever -fvisibility says; what leaves
 * the library is decided by the generated version script.
 */
#ifndef TESSERA_API_DRIVER_H
#define TESSERA_API_DRIVER_H

#if defined(__cuda_cuda_h__) && !defined(__CUDA_API_VERSION_INTERNAL)
#error "api/driver.h must come before cuda.h"
#endif
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif

#define TSR_DRIVER_EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(default)
#include <cuda.h>
/* cudaProfiler.h is not part of the wheel nvidia-cuda-runtime. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
#pragma GCC visibility pop

/* Nonzero while a per-thread form runs its base function on this thread. */
extern __thread int tsr_driver_per_thread __attribute__((visibility("hidden")));

/* The stream a handle means: NULL becomes CU_STREAM_LEGACY or CU_STREAM_PER_THREAD, every other handle stays. */
static inline CUstream tsr_driver_stream(CUstream stream)
{
    if (stream)
        return stream;
    return tsr_driver_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

#endif
