/* The driver as the stress programs use it: found at run time, so that it can be closed again; errors end the program. */
#ifndef TESSERA_TESTS_STRESS_DRIVER_H
#define TESSERA_TESTS_STRESS_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

#define DRIVER_CALLS(X)                                                                                                        \
    X(cuInit) X(cuDeviceGetCount) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuCtxSetCurrent)                \
    X(cuCtxGetCurrent) X(cuCtxCreate_v4) X(cuCtxDestroy_v2) X(cuCtxSynchronize) X(cuModuleLoadData) X(cuModuleUnload)           \
    X(cuModuleGetFunction) X(cuLaunchKernel) X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuEventCreate)    \
    X(cuEventRecord) X(cuEventDestroy_v2) X(cuStreamWaitEvent) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemcpyDtoH_v2)              \
    X(cuMemsetD32Async) X(cuGetProcAddress_v2)

struct driver {
    void *library;
#define DRIVER_FIELD(call) __typeof__(&call) call;
    DRIVER_CALLS(DRIVER_FIELD)
#undef DRIVER_FIELD
};

extern struct driver driver;

#define CU(call) expect_success((call), #call, __FILE__, __LINE__)
#define EXPECT(condition) expect((condition), #condition, __FILE__, __LINE__)

void expect_success(CUresult result, const char *call, const char *file, int line);
void expect(bool condition, const char *text, const char *file, int line);

void driver_open(void);
void driver_close(void);

/* The primary context of the first GPU and the module with `count_up`, current in this thread; made by the first caller. */
CUfunction driver_start(void);
/* One launch that adds 1 to the 32 numbers at `memory`. */
void driver_launch(CUfunction function, CUstream stream, CUdeviceptr memory);
CUmodule driver_module(CUfunction *function);
/* A launch with fresh memory, checked. */
void driver_check(CUfunction function);

#endif
