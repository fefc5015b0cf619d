/* See driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 32

static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .entry count_up(.param .u64 memory)\n{\n"
                            "  .reg .b32 %r<3>;\n  .reg .b64 %a<3>;\n"
                            "  ld.param.u64 %a1, [memory];\n  mov.u32 %r1, %tid.x;\n  mul.wide.u32 %a2, %r1, 4;\n"
                            "  add.u64 %a1, %a1, %a2;\n  ld.global.u32 %r2, [%a1];\n  add.u32 %r2, %r2, 1;\n"
                            "  st.global.u32 [%a1], %r2;\n  ret;\n}\n";

struct driver driver;
static CUcontext primary;
static CUfunction function;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void expect_success(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s:%d: %s gave %d\n", file, line, call, (int)result);
    _Exit(2);
}

void expect(bool condition, const char *text, const char *file, int line)
{
    if (condition)
        return;
    fprintf(stderr, "%s:%d: expected %s\n", file, line, text);
    _Exit(2);
}

static void *find(const char *name)
{
    void *found = dlsym(driver.library, name);
    if (!found) {
        fprintf(stderr, "the driver lacks %s\n", name);
        _Exit(2);
    }
    return found;
}

void driver_open(void)
{
    driver.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver.library) {
        fprintf(stderr, "%s\n", dlerror());
        _Exit(2);
    }
#define DRIVER_FIND(call) driver.call = find(#call);
    DRIVER_CALLS(DRIVER_FIND)
}

void driver_close(void)
{
    void *library = driver.library;
    memset(&driver, 0, sizeof driver);
    dlclose(library);
}

static void make(void)
{
    CU(driver.cuInit(0));
    CU(driver.cuDevicePrimaryCtxRetain(&primary, 0));
    CU(driver.cuCtxSetCurrent(primary));
    driver_module(&function);
}

CUfunction driver_start(void)
{
    pthread_once(&once, make);
    CU(driver.cuCtxSetCurrent(primary));
    return function;
}

CUmodule driver_module(CUfunction *found)
{
    CUmodule module;
    CU(driver.cuModuleLoadData(&module, image));
    CU(driver.cuModuleGetFunction(found, module, "count_up"));
    return module;
}

void driver_launch(CUfunction kernel, CUstream stream, CUdeviceptr memory)
{
    void *parameters[] = {&memory};
    CU(driver.cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
}

void driver_check(CUfunction kernel)
{
    CUstream stream;
    CUdeviceptr memory;
    unsigned got[THREADS];
    CU(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(driver.cuMemAlloc_v2(&memory, sizeof got));
    CU(driver.cuMemsetD32Async(memory, 5, THREADS, stream));
    driver_launch(kernel, stream, memory);
    driver_launch(kernel, stream, memory);
    CU(driver.cuStreamSynchronize(stream));
    CU(driver.cuMemcpyDtoH_v2(got, memory, sizeof got));
    for (int i = 0; i < THREADS; i++)
        EXPECT(got[i] == 7);
    CU(driver.cuMemFree_v2(memory));
    CU(driver.cuStreamDestroy_v2(stream));
}
