/* The wrappers of functions that create streams. */
#include "driver/engaged.h"
#include "driver/real.h"
#include "object/stream_number.h"
#include "order/order.h"

static CUresult numbered(CUresult result, const CUstream *stream)
{
    if (result == CUDA_SUCCESS && tsr_has_role(TSR_REDIRECTING))
        tsr_stream_number_give(*stream);
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
