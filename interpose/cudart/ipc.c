/* Memory and events shared between processes by handle. */
#include "cudart/state.h"

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "one layout");
_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "one layout");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    return TSR_CALL(cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)pointer));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle in;
    __builtin_memcpy(&in, &handle, sizeof(in));
    return TSR_CALL(cuIpcOpenMemHandle((CUdeviceptr *)pointer, in, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
    return TSR_CALL(cuIpcCloseMemHandle((CUdeviceptr)pointer));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return TSR_CALL(cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle in;
    __builtin_memcpy(&in, &handle, sizeof(in));
    return TSR_CALL(cuIpcOpenEventHandle(event, in));
}
