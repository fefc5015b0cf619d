/* Profiler control, which programs call whether or not a profiler listens. */
#include "contract.h"

/* cudaProfiler.h is not part of the wheel nvidia-cuda-runtime. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

GROUP(profiler, use_primary)

TEST(started_and_stopped)
{
    OK(cuProfilerStart());
    OK(cuProfilerStart());
    OK(cuProfilerStop());
    OK(cuProfilerStop());
}
