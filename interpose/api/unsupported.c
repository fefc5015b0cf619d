#include "api/unsupported.h"

#include "base/log.h"

CUresult tsr_driver_unsupported(const char *name, int *logged)
{
    if (!__atomic_exchange_n(logged, 1, __ATOMIC_RELAXED))
        tsr_info("%s is not supported by the emulated driver", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}
