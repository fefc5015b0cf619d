/* Start of the process' session. */
#include "shim/engaged.h"
#include "shim/real.h"
#include "shim/session.h"

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    if (!tsr_real_open())
        return CUDA_ERROR_NO_DEVICE;
    CUresult result = tsr_real.cuInit(Flags);
    if (result != CUDA_SUCCESS)
        return result;
    tsr_engaged_prepare();
    tsr_session_start();
    return result;
}
