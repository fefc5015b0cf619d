/* Driver API: libraries and kernels that belong to no context, launch configurations, entry points by name. */
#include "driver_check.h"

enum { COUNT = 1000 };

int main(void)
{
    CUdevice device;
    start(&device);
    CUcontext context;
    CU(cuCtxPopCurrent(&context));
    CUlibrary library;
    char *image = read_beside("driver_kernels.fatbin", NULL);
    CU(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    free(image);
    unsigned kernels = 0;
    CU(cuLibraryGetKernelCount(&kernels, library));
    EXPECT(kernels == 4);
    CUkernel fill;
    CU(cuLibraryGetKernel(&fill, library, "fill"));
    CU(cuCtxPushCurrent(context));
    const char *name = NULL;
    CU(cuKernelGetName(&name, fill));
    EXPECT(name && strcmp(name, "fill") == 0);
    size_t offset, size;
    CU(cuKernelGetParamInfo(fill, 1, &offset, &size));
    EXPECT(offset == 8 && size == 4);
    int threads = 0;
    CU(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill, device));
    EXPECT(threads == 1024);

    CUstream stream;
    CUdeviceptr out;
    int value = 40, count = COUNT, got[COUNT], right = 1;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocAsync(&out, sizeof(got), stream));
    void *parameters[] = {&out, &value, &count};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0};
    CUlaunchConfig config = {.gridDimX = 3,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 64,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};
    CU(cuLaunchKernelEx(&config, (CUfunction)fill, parameters, NULL));
    CU(cuMemcpyDtoHAsync(got, out, sizeof(got), stream));
    CU(cuStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++)
        right &= got[i] == 40 + i;
    EXPECT(right);

    CUfunction function;
    CU(cuKernelGetFunction(&function, fill));
    value = 7;
    CU(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    CU(cuMemcpyDtoHAsync(got, out, sizeof(got), stream));
    CU(cuMemFreeAsync(out, stream));
    CU(cuStreamSynchronize(stream));
    EXPECT(got[0] == 7 && got[COUNT - 1] == 7 + COUNT - 1);

    CUdeviceptr counter;
    CU(cuLibraryGetGlobal(&counter, &size, library, "launches"));
    EXPECT(size == 8);
    CUdriverProcAddressQueryResult status;
    void *entry = NULL;
    CU(cuGetProcAddress("cuMemAlloc", &entry, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(entry != NULL && status == CU_GET_PROC_ADDRESS_SUCCESS);
    CU(cuGetProcAddress("cuNoSuchFunction", &entry, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(entry == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CU(cuLibraryUnload(library));
    CU(cuStreamDestroy(stream));
    return finish();
}
