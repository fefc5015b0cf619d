/* Driver API: modules from PTX text and from a fatbin, globals, parameters passed both ways, attributes, linking. */
#include "driver_check.h"

enum { COUNT = 5000 };

static void check_saxpy(CUmodule module)
{
    static float x[COUNT], y[COUNT], want[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 100);
        y[i] = (float)(i % 7);
        want[i] = 3.0f * x[i] + y[i];
    }
    CUdeviceptr dx, dy, counter;
    size_t counter_bytes;
    CU(cuMemAlloc(&dx, sizeof(x)));
    CU(cuMemAlloc(&dy, sizeof(y)));
    CU(cuMemcpyHtoD(dx, x, sizeof(x)));
    CU(cuMemcpyHtoD(dy, y, sizeof(y)));
    float a = 3;
    int count = COUNT;
    void *parameters[] = {&a, &dx, &dy, &count};
    CUfunction saxpy = get_function(module, "saxpy");
    CU(cuLaunchKernel(saxpy, (COUNT + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
    CU(cuMemcpyDtoH(y, dy, sizeof(y)));
    EXPECT(memcmp(y, want, sizeof(y)) == 0);

    unsigned long long launches = 0;
    CU(cuModuleGetGlobal(&counter, &counter_bytes, module, "launches"));
    EXPECT(counter_bytes == 8);
    CU(cuMemcpyDtoH(&launches, counter, 8));
    EXPECT(launches == 1);
    int threads = 0;
    CU(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, saxpy));
    EXPECT(threads == 1024);
    size_t offset, size;
    CU(cuFuncGetParamInfo(saxpy, 3, &offset, &size));
    EXPECT(offset == 24 && size == 4);
    EXPECT_STATUS(cuFuncGetParamInfo(saxpy, 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFree(dx));
    CU(cuMemFree(dy));
}

static void check_packed_parameters(CUmodule module)
{
    struct {
        char c;
        struct {
            char tag;
            double weight;
            short rest[3];
        } mixed __attribute__((aligned(8)));
        short s;
        CUdeviceptr out __attribute__((aligned(8)));
    } block = {.c = 5, .mixed = {7, 0.125, {10, 20, 30}}, .s = -9};
    double got[2];
    size_t size = sizeof(block);
    CU(cuMemAlloc(&block.out, sizeof(got)));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CU(cuLaunchKernel(get_function(module, "mixed_parameters"), 1, 1, 1, 2, 1, 1, 0, NULL, NULL, extra));
    CU(cuMemcpyDtoH(got, block.out, sizeof(got)));
    EXPECT(got[0] == 5 + 7 + 0.125 + 20 + 30 - 9 && got[1] == got[0]);
    CU(cuMemFree(block.out));
}

static void check_constant(CUmodule module)
{
    int in[8] = {10, 20, 30, 40, 50, 60, 70, 80}, got[8], changed[2] = {100, 200}, count = 8;
    CUdeviceptr device_in, device_out, bias;
    size_t bytes;
    CU(cuMemAlloc(&device_in, sizeof(in)));
    CU(cuMemAlloc(&device_out, sizeof(got)));
    CU(cuMemcpyHtoD(device_in, in, sizeof(in)));
    CU(cuModuleGetGlobal(&bias, &bytes, module, "bias"));
    EXPECT(bytes == 16);
    CU(cuMemcpyHtoD(bias + 4, changed, sizeof(changed)));
    void *parameters[] = {&device_in, &device_out, &count};
    CU(cuLaunchKernel(get_function(module, "biased"), 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    CU(cuMemcpyDtoH(got, device_out, sizeof(got)));
    const int want[8] = {11, 120, 230, 44, 51, 160, 270, 84};
    EXPECT(memcmp(got, want, sizeof(want)) == 0);
}

int main(void)
{
    CUdevice device;
    CUmodule from_fatbin = start(&device), from_ptx, linked;
    check_saxpy(from_fatbin);
    check_packed_parameters(from_fatbin);
    check_constant(from_fatbin);

    size_t size;
    char *ptx = read_beside("driver_kernels.ptx", &size);
    CU(cuModuleLoadData(&from_ptx, ptx));
    check_saxpy(from_ptx);

    CUlinkState link;
    void *image;
    size_t image_size;
    CU(cuLinkCreate(0, NULL, NULL, &link));
    CU(cuLinkAddData(link, CU_JIT_INPUT_PTX, ptx, size + 1, "kernels", 0, NULL, NULL));
    CU(cuLinkComplete(link, &image, &image_size));
    CU(cuModuleLoadData(&linked, image));
    CU(cuLinkDestroy(link));
    check_saxpy(linked);
    free(ptx);

    CUfunction missing;
    EXPECT_STATUS(cuModuleGetFunction(&missing, linked, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    EXPECT_STATUS(cuModuleLoadData(&linked, ".version 8.0\n.target sm_80\n.address_size 64\n.entry broken() { nonsense; }"),
                  CUDA_ERROR_INVALID_PTX);
    CU(cuModuleUnload(from_ptx));
    CU(cuDevicePrimaryCtxRelease(device));
    return finish();
}
