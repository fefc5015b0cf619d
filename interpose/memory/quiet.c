/* See quiet.h. */
#include "memory/quiet.h"

#include "base/os.h"
#include "driver/real.h"
#include "memory/contexts.h"
#include "order/order.h"

static CUresult poll_event(CUevent event, uint64_t deadline)
{
    static const uint32_t never;
    uint64_t now;
    CUresult result;
    while ((result = tsr_real.cuEventQuery(event)) == CUDA_ERROR_NOT_READY && (now = tsr_os_monotonic_ns()) < deadline)
        tsr_os_futex_wait(&never, 0, tsr_os_pause_ns(deadline - now), false);
    return result;
}

/* All streams of the context, which is current. */
static CUresult wait_for_current(CUcontext context, uint64_t deadline)
{
    CUevent event;
    CUresult result = tsr_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuCtxRecordEvent(context, event);
    if (result == CUDA_SUCCESS)
        result = poll_event(event, deadline);
    tsr_real.cuEventDestroy_v2(event);
    return result;
}

static CUresult wait_for(CUcontext context, uint64_t deadline)
{
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = wait_for_current(context, deadline);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

CUresult tsr_quiet_wait(uint64_t timeout_ns)
{
    uint64_t deadline = tsr_os_monotonic_ns() + timeout_ns;
    CUcontext contexts[TSR_MEMORY_CONTEXTS];
    unsigned count = 0;
    if (!tsr_memory_contexts_locked(contexts, &count))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = tsr_order_join_all_until(deadline);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = wait_for(contexts[i], deadline);
    return result;
}
