/* Libraries that the program loads itself. Library and kernel handles are the driver's own. */
#include "cudart/register.h"

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit_options, void **jit_values,
                                unsigned int jit_count, enum cudaLibraryOption *options, void **values, unsigned int count)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jit_options, jit_values,
                                                      jit_count, (CUlibraryOption *)options, values, count));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *file, enum cudaJitOption *jit_options,
                                    void **jit_values, unsigned int jit_count, enum cudaLibraryOption *options, void **values,
                                    unsigned int count)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuLibraryLoadFromFile((CUlibrary *)library, file, (CUjit_option *)jit_options, jit_values,
                                                          jit_count, (CUlibraryOption *)options, values, count));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuLibraryUnload((CUlibrary)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    cudaError_t status = TSR_CALL_WITHOUT_CONTEXT(cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)library, name));
    return status == cudaSuccess ? tsr_cudart_result(tsr_cudart_kernel_note((CUkernel)*kernel)) : status;
}

cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return TSR_CALL(cuLibraryGetGlobal((CUdeviceptr *)address, bytes, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return TSR_CALL(cuLibraryGetManaged((CUdeviceptr *)address, bytes, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *name)
{
    return TSR_CALL(cuLibraryGetUnifiedFunction(function, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t library)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuLibraryGetKernelCount(count, (CUlibrary)library));
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int count, cudaLibrary_t library)
{
    cudaError_t status = TSR_CALL_WITHOUT_CONTEXT(cuLibraryEnumerateKernels((CUkernel *)kernels, count, (CUlibrary)library));
    for (unsigned i = 0; i < count && status == cudaSuccess && kernels[i]; i++)
        status = tsr_cudart_result(tsr_cudart_kernel_note((CUkernel)kernels[i]));
    return status;
}
