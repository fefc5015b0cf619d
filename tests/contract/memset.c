/* Memsets: three widths, one and two dimensions, with and without a stream. */
#include "contract.h"

GROUP(memset, use_primary)

TEST(widths)
{
    CUdeviceptr a = device_words(64, 0);
    unsigned char read[256];
    OK(cuMemsetD8(a, 0xab, 10));
    OK(cuMemsetD16(a + 16, 0x1234, 4));
    OK(cuMemsetD32(a + 32, 0xdeadbeef, 2));
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[9], 0xab);
    EQ(read[10], 0);
    EQ(read[16] | read[17] << 8, 0x1234);
    EQ(read[23], 0x12);
    EQ(read[24], 0);
    EQ(read[32], 0xef);
    EQ(read[39], 0xde);
    EQ(read[40], 0);
    OK(cuMemFree(a));
}

TEST(asynchronous_widths)
{
    CUdeviceptr a = device_words(64, 0);
    unsigned char read[256];
    CUstream stream = NULL;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    OK(cuMemsetD8Async(a + 1, 7, 3, stream));
    OK(cuMemsetD16Async(a + 16, 0x0102, 8, stream));
    OK(cuMemsetD32Async(a + 64, 5, 16, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[0], 0);
    EQ(read[1], 7);
    EQ(read[3], 7);
    EQ(read[4], 0);
    EQ(read[16], 2);
    EQ(read[31], 1);
    EQ(read[124], 5);
    EQ(read[128], 0);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(two_dimensional)
{
    CUdeviceptr a = device_words(256, 0);
    uint32_t read[256];
    OK(cuMemsetD2D32(a, 64, 9, 4, 3));
    OK(cuMemsetD2D16(a + 256, 64, 0x0505, 8, 2));
    OK(cuMemsetD2D8(a + 512, 64, 6, 5, 2));
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[3], 9);
    EQ(read[4], 0);
    EQ(read[32], 9);
    EQ(read[48], 0);
    EQ(read[67], 0x05050505);
    EQ(read[68], 0);
    EQ(read[80], 0x05050505);
    EQ(read[128], 0x06060606);
    EQ(read[129], 6);
    EQ(read[144], 0x06060606);
    OK(cuMemFree(a));
}

TEST(two_dimensional_asynchronous)
{
    CUdeviceptr a = device_words(256, 0);
    uint32_t read[256];
    OK(cuMemsetD2D32Async(a, 128, 3, 2, 2, NULL));
    OK(cuMemsetD2D16Async(a + 512, 128, 4, 2, 2, NULL));
    OK(cuMemsetD2D8Async(a + 768, 128, 5, 4, 2, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[33], 3);
    EQ(read[34], 0);
    EQ(read[160], 0x00040004);
    EQ(read[224], 0x05050505);
    OK(cuMemFree(a));
}

TEST(arguments_are_checked)
{
    CUdeviceptr a = device_words(64, 0);
    EXPECT_SURE(cuMemsetD32(a + 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemsetD16(a + 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemsetD8(0, 0, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemsetD8(0x1234567800, 0, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemsetD2D32(a, 8, 0, 4, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemsetD32Async(a + 2, 0, 4, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8(a, 1, 0));
    TRUE(device_holds(a, 64, 0));
    OK(cuMemFree(a));
}

TEST(beyond_the_end_is_refused)
{
    CUdeviceptr a = 0;
    NEED_OK(cuMemAlloc(&a, 4 << 20));
    EXPECT_SURE(cuMemsetD8(a + (4 << 20) - 256, 0, 1 << 16), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}
