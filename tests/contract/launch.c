/* Launches: parameters, shapes, shared memory, attributes, refusals. */
#include "contract.h"

GROUP(launch, use_primary)

static CUresult launch(CUfunction function, unsigned blocks, unsigned threads, void **arguments)
{
    return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL);
}

TEST(adds_vectors)
{
    enum { COUNT = 10000 };
    static float a[COUNT], b[COUNT], out[COUNT], expected[COUNT];
    uint32_t words = COUNT;
    float scale = 2.5f;
    CUdeviceptr x = device_words(COUNT, 0), y = device_words(COUNT, 0), z = device_words(COUNT, 0);
    void *arguments[] = {&z, &x, &y, &scale, &words};
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i * 0.25f;
        b[i] = (float)(i % 17);
        expected[i] = a[i] * scale + b[i];
    }
    OK(cuMemcpyHtoD(x, a, sizeof(a)));
    OK(cuMemcpyHtoD(y, b, sizeof(b)));
    OK(launch(contract_kernel("scale_sum"), 79, 128, arguments));
    OK(cuMemcpyDtoH(out, z, sizeof(out)));
    BYTES(out, expected, sizeof(out));
    OK(cuMemFree(x));
    OK(cuMemFree(y));
    OK(cuMemFree(z));
}

TEST(passes_parameters_of_every_size)
{
    CUdeviceptr out = device_words(16, 0);
    uint8_t p1 = 0xfe;
    int16_t p2 = -2;
    uint32_t p3 = 0xdeadbeef;
    uint64_t p4 = 0x0123456789abcdef, p6[3] = {11, 22, 33}, read[8];
    double p5 = 1.5;
    void *arguments[] = {&out, &p1, &p2, &p3, &p4, &p5, p6};
    OK(launch(contract_kernel("params"), 1, 1, arguments));
    OK(cuMemcpyDtoH(read, out, sizeof(read)));
    EQ(read[0], 0xfe);
    EQ(read[1], -2);
    EQ(read[2], 0xdeadbeef);
    EQ(read[3], 0x0123456789abcdef);
    BYTES(&read[4], &p5, 8);
    BYTES(&read[5], p6, 24);
    OK(cuMemFree(out));
}

TEST(passes_a_parameter_buffer)
{
    CUdeviceptr a = device_words(64, 0);
    struct {
        CUdeviceptr out;
        uint32_t value, words;
    } buffer = {a, 99, 64};
    size_t size = sizeof(buffer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    void *arguments[] = {&buffer.out, &buffer.value, &buffer.words};
    CUfunction fill = contract_kernel("fill");
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 99));
    EXPECT_SURE(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, NULL, arguments, extra), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(arguments_are_read_at_the_launch)
{
    CUdeviceptr a = device_words(64, 0);
    uint32_t value = 1, words = 64;
    void *arguments[] = {&a, &value, &words};
    struct gate gate;
    CUstream stream = NULL;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    CUfunction fill = contract_kernel("fill");
    if (gate_close(&gate, stream)) {
        OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        value = 2;
        gate_open(&gate);
        OK(cuStreamSynchronize(stream));
        TRUE(device_holds(a, 64, 1));
    }
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(numbers_threads_and_blocks)
{
    enum { WORDS = 3 * 2 * 4 * 5 * 2 * 3 };
    static uint32_t read[WORDS];
    CUdeviceptr out = device_words(WORDS, 0);
    int wrong = 0;
    void *arguments[] = {&out};
    OK(cuLaunchKernel(contract_kernel("where"), 3, 2, 4, 5, 2, 3, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(read, out, sizeof(read)));
    for (uint32_t i = 0; i < WORDS; i++)
        wrong += read[i] != i + 1;
    EQ(wrong, 0);
    OK(cuMemFree(out));
}

TEST(many_blocks)
{
    uint32_t value = 3, words = 100000;
    CUdeviceptr a = device_words(words, 1);
    void *arguments[] = {&a, &value, &words};
    OK(launch(contract_kernel("add"), 100000, 1, arguments));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, words, 4));
    OK(cuMemFree(a));
}

TEST(dynamic_shared_memory)
{
    CUfunction reverse = contract_kernel("reverse");
    static uint32_t host[1024], read[1024];
    int wrong = 0, limit = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    CUdeviceptr a = device_words(1024, 0);
    void *arguments[] = {&a};
    for (uint32_t i = 0; i < 1024; i++)
        host[i] = i;
    OK(cuMemcpyHtoD(a, host, sizeof(host)));
    OK(cuLaunchKernel(reverse, 1, 1, 1, 1024, 1, 1, 4096, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    for (uint32_t i = 0; i < 1024; i++)
        wrong += read[i] != 1023 - i;
    EQ(wrong, 0);
    EXPECT_SURE(cuLaunchKernel(reverse, 1, 1, 1, 32, 1, 1, 49153, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit));
    OK(cuLaunchKernel(reverse, 1, 1, 1, 32, 1, 1, (unsigned)limit, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    EXPECT_SURE(cuLaunchKernel(reverse, 1, 1, 1, 32, 1, 1, (unsigned)limit + 1, NULL, arguments, NULL),
                CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(bad_shapes_are_refused)
{
    CUfunction empty = contract_kernel("empty");
    EXPECT_SURE(cuLaunchKernel(empty, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 0, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 1, 1, 0, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 1, 1, 32, 32, 2, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 1, 1, 65536, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(empty, 0x80000000u, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
}

TEST(missing_arguments_are_refused)
{
    EXPECT_SURE(launch(contract_kernel("fill"), 1, 32, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(more_threads_than_the_kernel_allows)
{
    CUdeviceptr out = device_words(1, 0);
    void *arguments[] = {&out};
    OK(launch(contract_kernel("bounded"), 1, 64, arguments));
    OK(cuCtxSynchronize());
    TRUE(device_holds(out, 1, 64));
    EXPECT_SURE(launch(contract_kernel("bounded"), 1, 128, arguments), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(out));
}

TEST(launched_with_a_configuration)
{
    CUdeviceptr a = device_words(64, 0);
    uint32_t value = 44, words = 64;
    void *arguments[] = {&a, &value, &words};
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    CUfunction fill = contract_kernel("fill");
    memset(&config, 0, sizeof(config));
    config.gridDimX = 2;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 32;
    OK(cuLaunchKernelEx(&config, fill, arguments, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 44));
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attribute.value.priority = 0;
    config.attrs = &attribute;
    config.numAttrs = 1;
    value = 45;
    OK(cuLaunchKernelEx(&config, fill, arguments, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 45));
    EXPECT_SURE(cuLaunchKernelEx(NULL, fill, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
    config.blockDimX = 0;
    EXPECT_SURE(cuLaunchKernelEx(&config, fill, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(cooperative_blocks_meet)
{
    CUdeviceptr arrived = device_words(1, 0), out = device_words(8, 0);
    void *arguments[] = {&arrived, &out};
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    OK(cuLaunchCooperativeKernel(contract_kernel("meet"), 8, 1, 1, 1, 1, 1, 0, NULL, arguments));
    OK(cuCtxSynchronize());
    TRUE(device_holds(out, 8, 8));
    OK(cuMemsetD32(arrived, 0, 1));
    memset(&config, 0, sizeof(config));
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    config.gridDimX = 4;
    config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cuLaunchKernelEx(&config, contract_kernel("meet"), arguments, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(out, 4, 4));
    TRUE(device_holds(out + 16, 4, 8));
    OK(cuMemFree(arrived));
    OK(cuMemFree(out));
}

TEST(cooperative_grid_must_fit)
{
    CUdeviceptr arrived = device_words(1, 0), out = device_words(8, 0);
    void *arguments[] = {&arrived, &out};
    EXPECT_SURE(cuLaunchCooperativeKernel(contract_kernel("meet"), 1000000, 1, 1, 1024, 1, 1, 0, NULL, arguments),
                CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(cuCtxSynchronize());
    OK(cuMemFree(arrived));
    OK(cuMemFree(out));
}

TEST(kernels_of_a_stream_run_in_order)
{
    CUdeviceptr a = device_words(256, 0);
    uint32_t one = 1, value = 5, words = 256;
    void *set[] = {&a, &value, &words}, *increase[] = {&a, &one, &words};
    CUstream stream = NULL;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    CUfunction fill = contract_kernel("fill"), add = contract_kernel("add");
    OK(cuLaunchKernel(fill, 8, 1, 1, 32, 1, 1, 0, stream, set, NULL));
    for (int i = 0; i < 20; i++)
        EQ(cuLaunchKernel(add, 8, 1, 1, 32, 1, 1, 0, stream, increase, NULL), CUDA_SUCCESS);
    OK(cuStreamSynchronize(stream));
    TRUE(device_holds(a, 256, 25));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(kernel_reads_pinned_and_managed_memory)
{
    uint32_t *pinned = NULL, value = 1, words = 64;
    CUdeviceptr managed = 0;
    NEED_OK(cuMemAllocHost((void **)&pinned, 256));
    NEED_OK(cuMemAllocManaged(&managed, 256, CU_MEM_ATTACH_GLOBAL));
    uint32_t *shared = (uint32_t *)(uintptr_t)managed;
    for (int i = 0; i < 64; i++)
        pinned[i] = shared[i] = 10;
    CUdeviceptr first = (CUdeviceptr)(uintptr_t)pinned;
    void *in_pinned[] = {&first, &value, &words}, *in_managed[] = {&managed, &value, &words};
    OK(launch(contract_kernel("add"), 2, 32, in_pinned));
    OK(launch(contract_kernel("add"), 2, 32, in_managed));
    OK(cuCtxSynchronize());
    EQ(pinned[63], 11);
    EQ(shared[63], 11);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(managed));
}

ROLE(printing)
{
    CUcontext context;
    (void)count;
    (void)words;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    return launch(contract_kernel("say"), 1, 2, NULL) || cuCtxSynchronize();
}

TEST(kernel_prints)
{
    struct role_end end = role_run("printing", NULL);
    EQ(end.code, 0);
    TEXT(end.output, "values -7 8 1f 2.50 text c\nvalues -7 8 1f 2.50 text c\n");
}
