/* The start of everything: the process' own cuInit. */
#include "shim/entry/engaged.h"
#include "shim/entry/gpus.h"
#include "shim/entry/real.h"
#include "shim/record/recorder.h"
#include "shim/entry/seen.h"
#include "shim/launch/session.h"
#include "shim/launch/templates.h"
#include "shim/module/registry.h"

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
    tsr_gpus_start();
    tsr_registry_start();
    tsr_recorder_start(before_init);
    tsr_templates_start();
    tsr_session_start();
    return result;
}
