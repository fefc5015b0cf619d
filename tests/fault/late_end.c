/*
 * late_end: what destructors of C++ objects do that were made before the first call of CUDA: it gives all back after the driver has ended, and prints what each call says.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#define LAUNCHES 50
#define BYTES 4096u

static const char ptx[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .entry add(.param .u64 to) {\n"
    " .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    " ld.param.u64 %rd1, [to]; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; ret; }\n";

static CUcontext context;
static CUmodule module;
static CUstream stream;
static CUdeviceptr memory;

static void say(const char *what, CUresult result)
{
    printf("%s %d\n", what, (int)result);
    fflush(stdout);
}

static void give_back(void)
{
    say("wait", cuStreamSynchronize(stream));
    say("free", cuMemFree(memory));
    say("unload", cuModuleUnload(module));
    say("stream", cuStreamDestroy(stream));
    say("context", cuCtxSynchronize());
    say("release", cuDevicePrimaryCtxRelease(0));
}

int main(void)
{
    CUfunction function;
    void *parameters[] = {&memory};
    atexit(give_back);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuModuleLoadData(&module, ptx) ||
        cuModuleGetFunction(&function, module, "add") || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
        cuMemAlloc(&memory, BYTES) || cuMemsetD8(memory, 0, BYTES))
        return 1;
    for (int i = 0; i < LAUNCHES; i++)
        if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL))
            return 1;
    return 0;
}
