/* Copies of every kind and direction. */
#include "contract.h"

GROUP(copy, use_primary)

#define WORDS 4096

static uint32_t pattern[WORDS], back[WORDS];

static void fill_pattern(uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++)
        pattern[i] = seed + i * 2654435761u;
    memset(back, 0, sizeof(back));
}

TEST(to_the_device_and_back)
{
    CUdeviceptr a = device_words(WORDS, 0);
    fill_pattern(1);
    OK(cuMemcpyHtoD(a, pattern, sizeof(pattern)));
    OK(cuMemcpyDtoH(back, a, sizeof(back)));
    BYTES(back, pattern, sizeof(back));
    OK(cuMemcpyDtoH(back, a + 400, 8));
    EQ(back[0], pattern[100]);
    EQ(back[2], pattern[2]);
    OK(cuMemFree(a));
}

TEST(between_device_memories)
{
    CUdeviceptr a = device_words(WORDS, 0), b = device_words(WORDS, 0);
    fill_pattern(2);
    OK(cuMemcpyHtoD(a, pattern, sizeof(pattern)));
    OK(cuMemcpyDtoD(b + 40, a, sizeof(pattern) - 40));
    OK(cuMemcpyDtoH(back, b, sizeof(back)));
    EQ(back[9], 0);
    BYTES(back + 10, pattern, sizeof(back) - 40);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(odd_sizes_and_places)
{
    CUdeviceptr a = device_words(64, 0);
    unsigned char text[13] = "hello, world", read[13] = "";
    OK(cuMemcpyHtoD(a + 3, text, 13));
    OK(cuMemcpyDtoH(read, a + 3, 13));
    BYTES(read, text, 13);
    OK(cuMemcpyDtoD(a + 101, a + 3, 13));
    OK(cuMemcpyDtoH(read, a + 101, 13));
    BYTES(read, text, 13);
    OK(cuMemFree(a));
}

TEST(nothing_is_copied)
{
    CUdeviceptr a = device_words(16, 5);
    OK(cuMemcpyHtoD(a, pattern, 0));
    OK(cuMemcpyDtoH(back, a, 0));
    OK(cuMemcpyDtoD(a, a + 32, 0));
    TRUE(device_holds(a, 16, 5));
    OK(cuMemFree(a));
}

TEST(bad_addresses_are_refused)
{
    CUdeviceptr a = device_words(16, 5);
    EXPECT_SURE(cuMemcpyHtoD(0, pattern, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyDtoH(back, 0, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyDtoD(a, 0, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyHtoD(0x1234567800, pattern, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyHtoD(a, NULL, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyDtoH(NULL, a, 16), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
    EXPECT_SURE(cuMemcpyHtoD(a, pattern, 16), CUDA_ERROR_INVALID_VALUE);
}

TEST(beyond_the_end_is_refused)
{
    CUdeviceptr a = 0;
    NEED_OK(cuMemAlloc(&a, 4 << 20));
    static char block[1 << 16];
    EXPECT_SURE(cuMemcpyHtoD(a + (4 << 20) - 256, block, sizeof(block)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyDtoH(block, a + (4 << 20) - 256, sizeof(block)), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(directions_are_inferred)
{
    CUdeviceptr a = device_words(WORDS, 0), b = device_words(WORDS, 0);
    uint32_t *pinned = NULL;
    fill_pattern(3);
    NEED_OK(cuMemAllocHost((void **)&pinned, sizeof(pattern)));
    OK(cuMemcpy(a, (CUdeviceptr)(uintptr_t)pattern, sizeof(pattern)));
    OK(cuMemcpy(b, a, sizeof(pattern)));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)pinned, b, sizeof(pattern)));
    OK(cuCtxSynchronize());
    BYTES(pinned, pattern, sizeof(pattern));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)back, (CUdeviceptr)(uintptr_t)pinned, sizeof(back)));
    OK(cuCtxSynchronize());
    BYTES(back, pattern, sizeof(back));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(asynchronous)
{
    CUdeviceptr a = device_words(WORDS, 0), b = device_words(WORDS, 0);
    uint32_t *pinned = NULL;
    CUstream stream = NULL;
    fill_pattern(4);
    NEED_OK(cuMemAllocHost((void **)&pinned, 2 * sizeof(pattern)));
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memcpy(pinned, pattern, sizeof(pattern));
    OK(cuCtxSynchronize());
    OK(cuMemcpyHtoDAsync(a, pinned, sizeof(pattern), stream));
    OK(cuMemcpyDtoDAsync(b, a, sizeof(pattern), stream));
    OK(cuMemcpyDtoHAsync(pinned + WORDS, b, sizeof(pattern), stream));
    OK(cuStreamSynchronize(stream));
    BYTES(pinned + WORDS, pattern, sizeof(pattern));
    memset(pinned + WORDS, 0, sizeof(pattern));
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)(pinned + WORDS), a, sizeof(pattern), stream));
    OK(cuStreamSynchronize(stream));
    BYTES(pinned + WORDS, pattern, sizeof(pattern));
    EXPECT_SURE(cuMemcpyHtoDAsync(0, pinned, 16, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(stream));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

static CUDA_MEMCPY2D to_device_2d(CUdeviceptr a, size_t pitch)
{
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pattern;
    copy.srcPitch = 64;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = a;
    copy.dstPitch = pitch;
    copy.WidthInBytes = 40;
    copy.Height = 8;
    return copy;
}

static void check_rows(CUdeviceptr a, size_t pitch)
{
    for (int row = 0; row < 8; row++) {
        OK(cuMemcpyDtoH(back, a + row * pitch, 44));
        BYTES(back, pattern + row * 16, 40);
        EQ(back[10], 0xeeeeeeee);
    }
}

TEST(two_dimensional)
{
    CUdeviceptr a = 0;
    size_t pitch = 0;
    fill_pattern(6);
    NEED_OK(cuMemAllocPitch(&a, &pitch, 44, 8, 4));
    OK(cuMemsetD8(a, 0xee, pitch * 8));
    CUDA_MEMCPY2D copy = to_device_2d(a, pitch);
    OK(cuMemcpy2D(&copy));
    check_rows(a, pitch);
    OK(cuMemsetD8(a, 0xee, pitch * 8));
    OK(cuMemcpy2DUnaligned(&copy));
    check_rows(a, pitch);
    OK(cuMemsetD8(a, 0xee, pitch * 8));
    OK(cuMemcpy2DAsync(&copy, NULL));
    OK(cuCtxSynchronize());
    check_rows(a, pitch);
    OK(cuMemFree(a));
}

TEST(two_dimensional_with_offsets)
{
    CUdeviceptr a = device_words(1024, 0);
    CUDA_MEMCPY2D copy;
    fill_pattern(7);
    OK(cuMemcpyHtoD(a, pattern, 4096));
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = a;
    copy.srcPitch = 128;
    copy.srcXInBytes = 8;
    copy.srcY = 2;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = back;
    copy.dstPitch = 32;
    copy.dstXInBytes = 4;
    copy.dstY = 1;
    copy.WidthInBytes = 12;
    copy.Height = 3;
    OK(cuMemcpy2D(&copy));
    EQ(back[0], 0);
    for (int row = 0; row < 3; row++)
        BYTES(back + (row + 1) * 8 + 1, pattern + (row + 2) * 32 + 2, 12);
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.dstDevice = (CUdeviceptr)(uintptr_t)back;
    memset(back, 0, sizeof(back));
    OK(cuMemcpy2D(&copy));
    BYTES(back + 9, pattern + 66, 12);
    OK(cuMemFree(a));
}

TEST(two_dimensional_arguments_are_checked)
{
    CUdeviceptr a = device_words(1024, 0);
    CUDA_MEMCPY2D copy = to_device_2d(a, 128);
    copy.dstPitch = 20;
    EXPECT_SURE(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = to_device_2d(a, 128);
    copy.srcPitch = 20;
    EXPECT_SURE(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = to_device_2d(0, 128);
    EXPECT_SURE(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = to_device_2d(a, 128);
    copy.Height = 0;
    OK(cuMemcpy2D(&copy));
    EXPECT_SURE(cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(three_dimensional)
{
    CUdeviceptr a = device_words(WORDS, 0);
    CUDA_MEMCPY3D copy;
    fill_pattern(8);
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pattern;
    copy.srcPitch = 32;
    copy.srcHeight = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = a;
    copy.dstPitch = 64;
    copy.dstHeight = 8;
    copy.WidthInBytes = 24;
    copy.Height = 3;
    copy.Depth = 5;
    OK(cuMemcpy3D(&copy));
    OK(cuMemcpyDtoH(back, a, sizeof(back)));
    for (int z = 0; z < 5; z++)
        for (int y = 0; y < 3; y++)
            BYTES(back + (z * 8 + y) * 16, pattern + (z * 4 + y) * 8, 24);
    EQ(back[6], 0);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = a;
    copy.srcPitch = 64;
    copy.srcHeight = 8;
    copy.srcZ = 1;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = back;
    copy.dstPitch = 24;
    copy.dstHeight = 3;
    copy.Depth = 2;
    OK(cuMemcpy3DAsync(&copy, NULL));
    OK(cuCtxSynchronize());
    BYTES(back, pattern + 32, 24);
    BYTES(back + 6 * 3, pattern + 64, 24);
    copy.dstPitch = 16;
    EXPECT_SURE(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(peer_copy_within_one_context)
{
    CUdeviceptr a = device_words(64, 9), b = device_words(64, 0);
    CUcontext context = NULL;
    OK(cuCtxGetCurrent(&context));
    OK(cuMemcpyPeer(b, context, a, context, 256));
    TRUE(device_holds(b, 64, 9));
    OK(cuMemsetD32(a, 10, 64));
    OK(cuMemcpyPeerAsync(b, context, a, context, 256, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(b, 64, 10));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(batch)
{
    CUdeviceptr a = device_words(64, 1), b = device_words(64, 2), c = device_words(64, 0), d = device_words(64, 0);
    CUdeviceptr sources[] = {a, b}, targets[] = {c, d};
    size_t sizes[] = {256, 128}, indices[] = {0};
    CUmemcpyAttributes attributes;
    CUstream stream = NULL;
    memset(&attributes, 0, sizeof(attributes));
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    OK(cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, indices, 1, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(device_holds(c, 64, 1));
    TRUE(device_holds(d, 32, 2));
    TRUE(device_holds(d + 128, 32, 0));
    EXPECT_SURE(cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, indices, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemcpyBatchAsync(targets, sources, sizes, 0, &attributes, indices, 1, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    OK(cuMemFree(c));
    OK(cuMemFree(d));
}

TEST(large)
{
    size_t size = 24 << 20;
    CUdeviceptr a = 0, b = 0;
    unsigned char *host = malloc(size), *read = calloc(1, size);
    for (size_t i = 0; i < size; i++)
        host[i] = (unsigned char)(i * 31 + (i >> 12));
    NEED_OK(cuMemAlloc(&a, size));
    NEED_OK(cuMemAlloc(&b, size));
    OK(cuMemcpyHtoD(a, host, size));
    OK(cuMemcpyDtoD(b, a, size));
    OK(cuMemcpyDtoH(read, b, size));
    BYTES(read, host, size);
    free(host);
    free(read);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}
