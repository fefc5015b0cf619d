/* The start of everything: the process' own cuInit. */
#include "shim/engaged.h"
#include "shim/real.h"
#include "shim/recorder.h"
#include "shim/seen.h"
#include "shim/session.h"

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    if (!tsr_real_open())
        return CUDA_ERROR_NO_DEVICE;
    struct tsr_anchor before_init = tsr_recorder_before_init();
    tsr_seen_start();
    CUresult result = tsr_real.cuInit(Flags);
    if (result != CUDA_SUCCESS)
        return result;
    tsr_engaged_prepare();
    tsr_recorder_start(before_init);
    tsr_session_start();
    return result;
}
