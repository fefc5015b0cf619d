/* Legacy IPC of memory. Events: see event.c. */
#include "guard.h"

#include <string.h>

#include "../memory/share.h"
#include "../stream/work.h"
#include "settle.h"

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_share_name name;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pHandle && tsr_space_lookup(tsr_space_instance(), dptr, &range) && range.kind == TSR_RANGE_PLAIN,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_share_make(dptr, &name));
    memcpy(pHandle, &name, sizeof name);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    struct tsr_context *context;
    struct tsr_share_name name;
    uint64_t address;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pdptr && Flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    memcpy(&name, &handle, sizeof name);
    TSR_TRY(tsr_emulated_share_open(context, &name, NULL, &address));
    *pdptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    struct tsr_context *context;
    struct tsr_range range;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(tsr_space_lookup(tsr_space_instance(), dptr, &range) && range.kind == TSR_RANGE_IPC, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_settle(context));
    return tsr_share_close(dptr);
}
