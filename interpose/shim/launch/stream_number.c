/* See stream_number.h. A handle that the driver gives out again gets a new number with its new stream. */
#include "shim/launch/stream_number.h"

#include "base/map.h"
#include "shim/entry/engaged.h"
#include "shim/entry/real.h"
#include "shim/order/order.h"
#include "shim/entry/stream_handle.h"

static struct tsr_map numbers; /* by handle */
static uintptr_t made;         /* atomic */

uint32_t tsr_stream_number(CUstream stream)
{
    if (tsr_stream_is_default(stream))
        return 0;
    uintptr_t number = (uintptr_t)tsr_map_find(&numbers, (uint64_t)(uintptr_t)stream);
    return number ? (uint32_t)number : TSR_STREAM_UNNUMBERED;
}

void tsr_stream_number_forget(CUstream stream)
{
    if (stream)
        tsr_map_remove(&numbers, (uint64_t)(uintptr_t)stream);
}

static CUresult numbered(CUresult result, const CUstream *stream)
{
    if (result == CUDA_SUCCESS && tsr_has_role(TSR_REDIRECTING))
        tsr_map_set(&numbers, (uint64_t)(uintptr_t)*stream, (void *)__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED));
    return result;
}

TSR_REDIRECTED(cuStreamCreate)(CUstream *phStream, unsigned int Flags)
{
    CUresult state = tsr_order_state();
    return state == CUDA_SUCCESS ? numbered(tsr_real.cuStreamCreate(phStream, Flags), phStream) : state;
}

TSR_REDIRECTED(cuStreamCreateWithPriority)(CUstream *phStream, unsigned int flags, int priority)
{
    CUresult state = tsr_order_state();
    return state == CUDA_SUCCESS ? numbered(tsr_real.cuStreamCreateWithPriority(phStream, flags, priority), phStream) : state;
}

TSR_REDIRECTED(cuGreenCtxStreamCreate)(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
    return numbered(tsr_real.cuGreenCtxStreamCreate(phStream, greenCtx, flags, priority), phStream);
}
