/* Events are recorded after all strands of their stream (order/aside.h). */
#include "driver/engaged.h"
#include "order/order.h"

static CUresult record(CUevent event, CUstream stream, bool per_thread, unsigned flags)
{
    CUresult result = tsr_order_record(event, stream, per_thread, flags);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}

TSR_REDIRECTED(cuEventRecord)(CUevent hEvent, CUstream hStream)
{
    return record(hEvent, hStream, false, 0);
}

TSR_REDIRECTED(cuEventRecord_ptsz)(CUevent hEvent, CUstream hStream)
{
    return record(hEvent, hStream, true, 0);
}

TSR_REDIRECTED(cuEventRecordWithFlags)(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return record(hEvent, hStream, false, flags);
}

TSR_REDIRECTED(cuEventRecordWithFlags_ptsz)(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return record(hEvent, hStream, true, flags);
}
