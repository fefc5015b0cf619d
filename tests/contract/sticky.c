/* Faults of kernels break their context for good. Each fault happens in a process of its own. */
#include "contract.h"

GROUP(sticky, use_nothing)

static CUdeviceptr memory;
static CUstream stream;
static CUevent event;

static int begin(void)
{
    CUcontext context;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&memory, 4096) ||
           cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || cuEventCreate(&event, 0) || !contract_module();
}

/* Launches on `stream`, then tells what everything answers afterwards. */
static int launch_and_tell(const char *kernel, void **arguments)
{
    CUfunction function = contract_kernel(kernel), empty = contract_kernel("empty");
    CUcontext context = NULL;
    CUdeviceptr more = 0;
    CUstream other = NULL;
    CUmodule module = NULL;
    uint32_t word = 0;
    int value = 0;
    role_say("launch", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    role_say("first", cuStreamSynchronize(stream));
    role_say("again", cuCtxSynchronize());
    role_say("query", cuStreamQuery(stream));
    role_say("alloc", cuMemAlloc(&more, 64));
    role_say("copy", cuMemcpyDtoH(&word, memory, 4));
    role_say("set", cuMemsetD8(memory, 0, 4));
    role_say("free", cuMemFree(memory));
    role_say("next", cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    role_say("stream", cuStreamCreate(&other, 0));
    role_say("record", cuEventRecord(event, stream));
    role_say("event", cuEventQuery(event));
    role_say("module", cuModuleLoadData(&module, contract_ptx));
    role_say("current", cuCtxGetCurrent(&context));
    role_say("attribute", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    return 0;
}

ROLE(fault)
{
    uint32_t value = 1;
    if (count < 1 || begin())
        return 1;
    CUdeviceptr outside = 0x10, odd = memory + 2, far_away = memory + (1ull << 40);
    void *at_outside[] = {&outside, &value}, *at_odd[] = {&odd, &value}, *at_far[] = {&far_away, &value};
    if (strcmp(words[0], "outside") == 0)
        return launch_and_tell("store", at_outside);
    if (strcmp(words[0], "far") == 0)
        return launch_and_tell("store", at_far);
    if (strcmp(words[0], "odd") == 0)
        return launch_and_tell("store", at_odd);
    if (strcmp(words[0], "stop") == 0)
        return launch_and_tell("stop", NULL);
    return launch_and_tell("refuse", NULL);
}

static void expect_fault(const char *kind, CUresult code)
{
    static const char *const sticky[] = {"first", "again", "query", "alloc", "copy", "set", "free", "next", "record", "module"};
    struct role_end end = role_run("fault", kind, NULL);
    EQ(end.code, 0);
    EQ(role_heard(&end, "launch"), 0);
    for (size_t i = 0; i < sizeof(sticky) / sizeof(sticky[0]); i++)
        if (role_heard(&end, sticky[i]) != (long long)code) {
            char text[96];
            snprintf(text, sizeof(text), "%s after fault %s", sticky[i], kind);
            contract_equal(HERE(text), 0, role_heard(&end, sticky[i]), code);
        }
    EQ(role_heard(&end, "first"), code);
    EQ(role_heard(&end, "again"), code);
    EQ(role_heard(&end, "stream"), code);
    EQ(role_heard(&end, "event"), code);
    EQ(role_heard(&end, "current"), 0);
    EQ(role_heard(&end, "attribute"), 0);
}

TEST(store_outside)
{
    expect_fault("outside", CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(store_far_away)
{
    expect_fault("far", CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(misaligned_store)
{
    expect_fault("odd", CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST(trap)
{
    expect_fault("stop", CUDA_ERROR_LAUNCH_FAILED);
}

TEST(failed_assertion)
{
    expect_fault("assert", CUDA_ERROR_ASSERT);
}

/* One store by a kernel in a fresh context, and the word that it left. */
static void store_and_tell(uint32_t value)
{
    CUmodule module = NULL;
    CUfunction store = NULL;
    CUdeviceptr to = 0;
    uint32_t word = 0;
    void *arguments[] = {&to, &value};
    role_say("loads", cuModuleLoadData(&module, contract_ptx));
    role_say("finds", cuModuleGetFunction(&store, module, "store"));
    role_say("allocates", cuMemAlloc(&to, 4096));
    role_say("launches", cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    role_say("waits", cuCtxSynchronize());
    role_say("copies", cuMemcpyDtoH(&word, to, 4));
    role_say("word", word);
}

ROLE(afresh)
{
    CUcontext context = NULL;
    uint32_t value = 1;
    CUdeviceptr outside = 0x10;
    void *arguments[] = {&outside, &value};
    int own = count > 0 && strcmp(words[0], "own") == 0;
    if (cuInit(0) || (own && cuCtxCreate(&context, NULL, 0, 0)) || (!own && cuDevicePrimaryCtxRetain(&context, 0)) ||
        cuCtxSetCurrent(context) || !contract_module())
        return 1;
    role_say("launch", cuLaunchKernel(contract_kernel("store"), 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    role_say("fault", cuCtxSynchronize());
    role_say("end", own ? cuCtxDestroy(context) : cuDevicePrimaryCtxReset(0));
    role_say("begin", own ? cuCtxCreate(&context, NULL, 0, 0) : cuDevicePrimaryCtxRetain(&context, 0));
    role_say("set", cuCtxSetCurrent(context));
    store_and_tell(42);
    return 0;
}

static void expect_afresh(const char *how)
{
    static const char *const fine[] = {"launch", "end",       "begin",    "set",   "loads",
                                       "finds",  "allocates", "launches", "waits", "copies"};
    struct role_end end = role_run("afresh", how, NULL);
    EQ(end.code, 0);
    EQ(role_heard(&end, "fault"), CUDA_ERROR_ILLEGAL_ADDRESS);
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        if (role_heard(&end, fine[i]) != 0)
            contract_equal(HERE(fine[i]), 0, role_heard(&end, fine[i]), 0);
    EQ(role_heard(&end, "word"), 42);
}

TEST(another_context_works_after_a_fault)
{
    expect_afresh("own");
}

TEST(a_reset_primary_context_works_after_a_fault)
{
    expect_afresh("reset");
}
