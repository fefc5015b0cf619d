/* The calling thread's context, for a while. */
#ifndef TSR_DRIVER_CURRENT_H
#define TSR_DRIVER_CURRENT_H

#include "driver/real.h"

#include <stdbool.h>

/* NULL: none. */
static inline CUcontext tsr_current_context(void)
{
    CUcontext context = NULL;
    return tsr_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

/* The context is current until it is popped; *pushed: for tsr_current_pop. Errors: the driver's. */
static inline CUresult tsr_current_push(CUcontext context, bool *pushed)
{
    CUcontext current = NULL;
    *pushed = tsr_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context;
    CUresult result = *pushed ? tsr_real.cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
    *pushed &= result == CUDA_SUCCESS;
    return result;
}

static inline void tsr_current_pop(bool pushed)
{
    CUcontext popped;
    if (pushed)
        tsr_real.cuCtxPopCurrent_v2(&popped);
}

#endif
