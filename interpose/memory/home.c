/* See home.h. */
#include "memory/home.h"

#include "driver/real.h"
#include "object/session.h"

bool tsr_memory_at_home(void)
{
    const struct tsr_session *session = tsr_session();
    CUdevice device;
    return session && tsr_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device == session->home;
}

bool tsr_memory_is_home(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == tsr_session()->home;
}

CUstreamCaptureMode tsr_memory_relax_begin(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void tsr_memory_relax_end(CUstreamCaptureMode mode)
{
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
}

CUresult tsr_memory_event_query(CUevent event)
{
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    CUresult result = tsr_real.cuEventQuery(event);
    tsr_memory_relax_end(mode);
    return result;
}
