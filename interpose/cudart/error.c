/* Last errors, names and texts. Names come from the header's enumeration, texts from the driver where it has the same code. */
#include <stdint.h>

#include "cudart/state.h"

static const struct {
    cudaError_t code;
    const char *name;
} names[] = {
#include "error_names.inc"
};

/* Codes that only the runtime has. */
static const struct {
    cudaError_t code;
    const char *text;
} texts[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "no driver, or one that is too old for this runtime"},
    {cudaErrorMissingConfiguration, "launch without a call configuration"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
};

cudaError_t cudaGetLastError(void)
{
    cudaError_t status = tsr_cudart_thread.last_error;
    tsr_cudart_thread.last_error = cudaSuccess;
    return status;
}

cudaError_t cudaPeekAtLastError(void)
{
    return tsr_cudart_thread.last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].code == error)
            return names[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].code == error)
            return texts[i].text;
    tsr_cudart_start();
    if (tsr_driver.cuGetErrorString && tsr_driver.cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS && text)
        return text;
    return cudaGetErrorName(error);
}
