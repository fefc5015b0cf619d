/* Driver API: device memory of all sizes, allocated and freed at random, holds what kernels wrote; ranges, attributes, free memory and
   a context's end are right.
   devices: 2 */
#include "driver_check.h"

#define LITTLE ((size_t)64 << 20) /* what a driver may have taken for itself meanwhile */

enum { SLOTS = 60, STEPS = 600 };

struct slot {
    CUdeviceptr address;
    size_t bytes;
    int value;
};

static CUfunction fill_function;

static void fill(CUdeviceptr out, int value, int count)
{
    void *parameters[] = {&out, &value, &count};
    CU(cuLaunchKernel(fill_function, 4, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
}

static unsigned seed = 1;
static unsigned pick(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Few large ones, many small ones, odd sizes. */
static size_t pick_bytes(void)
{
    switch (pick(8)) {
    case 0:
        return ((size_t)1 << 20) + 4 * pick(1 << 20);
    case 1:
        return ((size_t)64 << 10) + 4 * pick(1 << 18);
    default:
        return 4 + 4 * (size_t)pick(4000);
    }
}

/* The first and the last words of the allocation. */
static int holds(const struct slot *slot)
{
    int words = (int)(slot->bytes / sizeof(int)), near = words < 64 ? words : 64, got[64], right = 1;
    CU(cuMemcpyDtoH(got, slot->address, (size_t)near * sizeof(int)));
    for (int i = 0; i < near; i++)
        right &= got[i] == slot->value + i;
    CU(cuMemcpyDtoH(got, slot->address + (size_t)(words - near) * sizeof(int), (size_t)near * sizeof(int)));
    for (int i = 0; i < near; i++)
        right &= got[i] == slot->value + words - near + i;
    return right;
}

static void described(const struct slot *slot, CUcontext context, CUdevice device)
{
    CUdeviceptr inside = slot->address + slot->bytes / 2, base = 0, start = 0;
    size_t bytes = 0, range = 0;
    CUcontext owner = NULL;
    unsigned type = 0;
    int ordinal = -1, managed = -1;
    CU(cuMemGetAddressRange(&base, &bytes, inside));
    EXPECT(base == slot->address && bytes == slot->bytes);
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&owner, &type, &ordinal, &start, &range, &managed};
    managed = 0;
    CU(cuPointerGetAttributes(6, names, values, inside));
    EXPECT(owner == context && type == CU_MEMORYTYPE_DEVICE && ordinal == device);
    EXPECT(start == slot->address && range == slot->bytes && managed == 0);
    CU(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside));
    EXPECT(start == inside);
    EXPECT_STATUS(cuMemGetAddressRange(&base, &bytes, slot->address + slot->bytes), CUDA_ERROR_NOT_FOUND);
}

static void churn(CUcontext context, CUdevice device)
{
    static struct slot slots[SLOTS];
    for (int step = 0; step < STEPS; step++) {
        struct slot *slot = &slots[pick(SLOTS)];
        if (slot->address) {
            EXPECT(holds(slot));
            CU(cuMemFree(slot->address));
            slot->address = 0;
            continue;
        }
        *slot = (struct slot){.bytes = pick_bytes(), .value = step * 1000};
        CU(cuMemAlloc(&slot->address, slot->bytes));
        EXPECT(slot->address % 256 == 0);
        fill(slot->address, slot->value, (int)(slot->bytes / sizeof(int)));
        if (step % 50 == 0)
            described(slot, context, device);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].address) {
            EXPECT(holds(&slots[i]));
            CU(cuMemFree(slots[i].address));
        }
}

static size_t free_bytes(void)
{
    size_t free, total;
    CU(cuMemGetInfo(&free, &total));
    EXPECT(free <= total);
    return free;
}

static void pitched(void)
{
    size_t pitch = 0, bytes = 0;
    CUdeviceptr rows, base;
    CU(cuMemAllocPitch(&rows, &pitch, 1000, 33, 4));
    EXPECT(pitch >= 1000 && pitch % 256 == 0);
    CU(cuMemGetAddressRange(&base, &bytes, rows + 32 * pitch + 999));
    EXPECT(base == rows && bytes >= 32 * pitch + 1000);
    fill(rows, 5, (int)(33 * pitch / sizeof(int)));
    struct slot slot = {rows, 33 * pitch, 5};
    EXPECT(holds(&slot));
    EXPECT_STATUS(cuMemAllocPitch(&base, &pitch, 1000, 33, 3), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFree(rows));
}

/* What cannot be had changes nothing, and what is freed can be had again. */
static void limits(void)
{
    size_t before = free_bytes();
    CUdeviceptr most, more;
    EXPECT_STATUS(cuMemAlloc(&more, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_STATUS(cuMemAlloc(&more, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_STATUS(cuMemAlloc(&more, SIZE_MAX - (3 << 20)), CUDA_ERROR_OUT_OF_MEMORY);
    size_t half = before / 2;
    CU(cuMemAlloc(&most, half));
    EXPECT(free_bytes() <= before - half);
    EXPECT_STATUS(cuMemAlloc(&more, half + (64 << 20)), CUDA_ERROR_OUT_OF_MEMORY);
    fill(most + half - 4096, 9, 1024);
    int last = 0;
    CU(cuMemcpyDtoH(&last, most + half - 4, 4));
    EXPECT(last == 9 + 1023);
    CU(cuMemFree(most));
    EXPECT(free_bytes() + LITTLE >= before);
    CU(cuMemFree(0));
    EXPECT_STATUS(cuMemFree(most), CUDA_ERROR_INVALID_VALUE);
}

/* A context takes its memory with it. */
static void end_of_context(CUdevice device)
{
    CUcontext context;
    CUdeviceptr large, small, base;
    size_t bytes;
    CU(cuCtxCreate(&context, NULL, 0, device));
    size_t before = free_bytes();
    CU(cuMemAlloc(&large, 256 << 20));
    CU(cuMemAlloc(&small, 100));
    EXPECT(free_bytes() <= before - (256 << 20));
    CU(cuCtxDestroy(context));
    EXPECT_STATUS(cuMemGetAddressRange(&base, &bytes, large), CUDA_ERROR_NOT_FOUND);
    EXPECT(free_bytes() + LITTLE >= before);
}

/* The other device reads and writes memory of this one while it may. */
static void peers(CUcontext context, const char *image)
{
    CUcontext other;
    CUmodule there;
    int possible = 0, value = 70, count = 256, got[256];
    CUdeviceptr before, after;
    CU(cuDeviceCanAccessPeer(&possible, 1, 0));
    if (!possible)
        return;
    CU(cuMemAlloc(&before, 3 << 20));
    CU(cuCtxCreate(&other, NULL, 0, 1));
    CU(cuModuleLoadData(&there, image));
    CU(cuMemcpyHtoD(before, &value, sizeof value)); /* copies need no peer access */
    CU(cuMemcpyDtoH(&got[0], before, sizeof value));
    EXPECT(got[0] == value);
    CU(cuCtxEnablePeerAccess(context, 0));
    CU(cuCtxPopCurrent(NULL));
    CU(cuMemAlloc(&after, 1024));
    CU(cuCtxPushCurrent(other));
    CUdeviceptr both[] = {before, after};
    for (int i = 0; i < 2; i++) {
        void *parameters[] = {&both[i], &value, &count};
        CU(cuLaunchKernel(get_function(there, "fill"), 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
        CU(cuCtxSynchronize());
    }
    CU(cuCtxDestroy(other));
    for (int i = 0; i < 2; i++) {
        CU(cuMemcpyDtoH(got, both[i], sizeof got));
        EXPECT(got[0] == value && got[255] == value + 255);
        CU(cuMemFree(both[i]));
    }
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module = start(&device);
    fill_function = get_function(module, "fill");
    CU(cuCtxGetCurrent(&context));
    char *image = read_beside("driver_kernels.fatbin", NULL);
    churn(context, device);
    pitched();
    limits();
    end_of_context(device);
    peers(context, image);
    free(image);
    return finish();
}
