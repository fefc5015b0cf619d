/* Exports for memory of other processes, which work in every process that opens some. */
#include "driver/real.h"
#include "memory/ipc.h"
#include "record/recorder.h"
#include "shim/deferred.h"

#define OPEN(symbol)                                                                                                           \
    CUresult CUDAAPI symbol(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)                                     \
    {                                                                                                                          \
        CUresult result = tsr_ipc_open(pdptr, &handle, Flags, tsr_real.symbol);                                                 \
        tsr_record_failure(TSR_ROW_##symbol, result);                                                                          \
        return result;                                                                                                         \
    }

OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    CUresult result = tsr_deferred_is_on() ? tsr_deferred_wait(true) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = tsr_ipc_close(dptr);
    tsr_record_failure(TSR_ROW_cuIpcCloseMemHandle, result);
    return result;
}
