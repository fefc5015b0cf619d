/* See memory.h. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE (2u << 20)

void expect_success(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s:%d: %s gave %d\n", file, line, call, (int)result);
    fflush(stdout);
    _Exit(3);
}

static void make_plain(struct memory *memory, CUstream stream)
{
    (void)stream;
    CU(cuMemAlloc(&memory->address, memory->bytes));
}

static void drop_plain(struct memory *memory, CUstream stream)
{
    (void)stream;
    CU(cuMemFree(memory->address));
}

static void make_exported(struct memory *memory, CUstream stream)
{
    CUipcMemHandle handle;
    make_plain(memory, stream);
    CU(cuIpcGetMemHandle(&handle, memory->address));
}

static void make_pitched(struct memory *memory, CUstream stream)
{
    size_t pitch;
    (void)stream;
    CU(cuMemAllocPitch(&memory->address, &pitch, 260, memory->bytes / 260 + 1, 4));
}

static void make_async(struct memory *memory, CUstream stream)
{
    CU(cuMemAllocAsync(&memory->address, memory->bytes, stream));
}

static void drop_async(struct memory *memory, CUstream stream)
{
    CU(cuMemFreeAsync(memory->address, stream));
}

static void make_pooled(struct memory *memory, CUstream stream)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CU(cuMemPoolCreate(&memory->pool, &properties));
    CU(cuMemAllocFromPoolAsync(&memory->address, memory->bytes, memory->pool, stream));
}

static void drop_pooled(struct memory *memory, CUstream stream)
{
    CU(cuMemFreeAsync(memory->address, stream));
    CU(cuMemPoolDestroy(memory->pool));
}

static void make_mapped(struct memory *memory, CUstream stream)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    (void)stream;
    memory->bytes = (memory->bytes + PAGE - 1) / PAGE * PAGE;
    CU(cuMemCreate(&memory->physical, memory->bytes, &properties, 0));
    CU(cuMemAddressReserve(&memory->address, memory->bytes, 0, 0, 0));
    CU(cuMemMap(memory->address, memory->bytes, 0, memory->physical, 0));
    CU(cuMemSetAccess(memory->address, memory->bytes, &access, 1));
}

static void drop_mapped(struct memory *memory, CUstream stream)
{
    CU(cuStreamSynchronize(stream));
    CU(cuMemUnmap(memory->address, memory->bytes));
    CU(cuMemRelease(memory->physical));
    CU(cuMemAddressFree(memory->address, memory->bytes));
}

static void make_pinned(struct memory *memory, CUstream stream)
{
    void *host;
    (void)stream;
    CU(cuMemHostAlloc(&host, memory->bytes, CU_MEMHOSTALLOC_PORTABLE));
    CU(cuMemHostGetDevicePointer(&memory->address, host, 0));
}

static void drop_pinned(struct memory *memory, CUstream stream)
{
    CU(cuStreamSynchronize(stream));
    CU(cuMemFreeHost((void *)(uintptr_t)memory->address));
}

const struct memory_kind memory_kinds[MEMORY_KINDS] = {
    {"plain", 6u << 20, make_plain, drop_plain},     {"exported", 1u << 20, make_exported, drop_plain},
    {"pitched", 3u << 20, make_pitched, drop_plain}, {"async", 4u << 20, make_async, drop_async},
    {"pool", 2u << 20, make_pooled, drop_pooled},    {"mapped", 5u << 20, make_mapped, drop_mapped},
    {"pinned", 1u << 20, make_pinned, drop_pinned},
};
