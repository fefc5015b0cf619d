/* Memory that cannot be shared with executors: managed memory, the application's own memory that it page-locks, variables of modules. */
#include "shim/engaged.h"
#include "shim/home_only.h"
#include "shim/memory.h"
#include "shim/order.h"
#include "shim/real.h"
#include "shim/session.h"

TSR_REDIRECTED(cuMemAllocManaged)(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    CUresult result = tsr_real.cuMemAllocManaged(dptr, bytesize, flags);
    if (result == CUDA_SUCCESS)
        tsr_home_only_add(*dptr, bytesize, TSR_REASON_MEMORY_MANAGED);
    return result;
}

TSR_REDIRECTED(cuMemHostRegister_v2)(void *p, size_t bytesize, unsigned int Flags)
{
    CUresult result = tsr_real.cuMemHostRegister_v2(p, bytesize, Flags);
    CUdeviceptr device;
    if (result != CUDA_SUCCESS)
        return result;
    tsr_home_only_add((uint64_t)(uintptr_t)p, bytesize, TSR_REASON_MEMORY_REGISTERED);
    if (tsr_real.cuMemHostGetDevicePointer_v2(&device, p, 0) == CUDA_SUCCESS && device != (CUdeviceptr)(uintptr_t)p)
        tsr_home_only_add(device, bytesize, TSR_REASON_MEMORY_REGISTERED);
    return result;
}

TSR_REDIRECTED(cuMemHostUnregister)(void *p)
{
    CUdeviceptr device = 0;
    if (tsr_host_is_allocated(p))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    CUresult result = tsr_order_join_all();
    if (result != CUDA_SUCCESS)
        return result;
    tsr_real.cuMemHostGetDevicePointer_v2(&device, p, 0);
    result = tsr_real.cuMemHostUnregister(p);
    if (result == CUDA_SUCCESS) {
        tsr_home_only_remove((uint64_t)(uintptr_t)p);
        tsr_home_only_remove(device);
    }
    return result;
}

void tsr_memory_variable(const CUdeviceptr *address)
{
    size_t bytes = 0;
    if (address && *address && tsr_session() && tsr_real.cuMemGetAddressRange_v2(NULL, &bytes, *address) == CUDA_SUCCESS)
        tsr_home_only_add(*address, bytes, TSR_REASON_MEMORY_VARIABLE);
}
