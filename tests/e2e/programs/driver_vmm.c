/* Driver API: virtual memory management. Reserve, create, map, access; one physical allocation at two addresses;
   protection; remapping another allocation at the same address; export and import by file descriptor. */
#include "driver_check.h"

static CUmodule module;
static size_t granularity;

static void fill(CUdeviceptr out, int value, int count)
{
    void *parameters[] = {&out, &value, &count};
    CU(cuLaunchKernel(get_function(module, "fill"), 4, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    CU(cuCtxSynchronize());
}

static int holds(CUdeviceptr address, int value, int count)
{
    int *got = malloc((size_t)count * sizeof(int)), right = 1;
    CU(cuMemcpyDtoH(got, address, (size_t)count * sizeof(int)));
    for (int i = 0; i < count; i++)
        right &= got[i] == value + i;
    free(got);
    return right;
}

int main(void)
{
    CUdevice device;
    module = start(&device);
    int supported = 0;
    CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    EXPECT(supported == 1);
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                      .location.id = device};
    CU(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT(granularity >= 4096 && (granularity & (granularity - 1)) == 0);

    CUmemGenericAllocationHandle first, second, imported;
    CUdeviceptr range;
    CU(cuMemAddressReserve(&range, 4 * granularity, 0, 0, 0));
    CU(cuMemCreate(&first, granularity, &properties, 0));
    CU(cuMemCreate(&second, granularity, &properties, 0));
    EXPECT_STATUS(cuMemCreate(&imported, granularity + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    CUmemAccessDesc access = {
        .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .location.id = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    /* Two pages in a row, and the first once more behind a hole. */
    CU(cuMemMap(range, granularity, 0, first, 0));
    CU(cuMemMap(range + granularity, granularity, 0, second, 0));
    CU(cuMemMap(range + 3 * granularity, granularity, 0, first, 0));
    EXPECT_STATUS(cuMemMap(range, granularity, 0, second, 0), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemSetAccess(range, 2 * granularity, &access, 1));
    CU(cuMemSetAccess(range + 3 * granularity, granularity, &access, 1));
    int per_page = (int)(granularity / sizeof(int)), around = 1000;
    CUdeviceptr seam = range + granularity - (CUdeviceptr)around * sizeof(int);
    fill(seam, 500, 2 * around);
    EXPECT(holds(seam, 500, 2 * around));
    EXPECT(holds(range + 3 * granularity + (CUdeviceptr)(per_page - around) * sizeof(int), 500, around));
    fill(range + 3 * granularity, -3, 10);
    EXPECT(holds(range, -3, 10));
    unsigned long long flags = 0;
    CU(cuMemGetAccess(&flags, &access.location, range));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    /* Other memory at the same address; the first allocation keeps its contents. */
    CU(cuMemUnmap(range, granularity));
    CU(cuMemMap(range, granularity, 0, second, 0));
    CU(cuMemSetAccess(range, granularity, &access, 1));
    EXPECT(holds(range, 500 + around, around));
    EXPECT(holds(range + 3 * granularity, -3, 10));

    /* The descriptor keeps memory alive after its handle and mappings are gone. */
    int descriptor = -1;
    CU(cuMemExportToShareableHandle(&descriptor, first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT(descriptor >= 0);
    CU(cuMemUnmap(range + 3 * granularity, granularity));
    CU(cuMemRelease(first));
    CU(cuMemImportFromShareableHandle(&imported, (void *)(size_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    CU(cuMemMap(range + 2 * granularity, granularity, 0, imported, 0));
    CU(cuMemSetAccess(range + 2 * granularity, granularity, &access, 1));
    EXPECT(holds(range + 2 * granularity, -3, 10));

    CUmemGenericAllocationHandle retained;
    CU(cuMemRetainAllocationHandle(&retained, (void *)(range + 2 * granularity + 64)));
    CU(cuMemRelease(retained));
    CU(cuMemUnmap(range, 3 * granularity));
    CU(cuMemRelease(second));
    CU(cuMemRelease(imported));
    CU(cuMemAddressFree(range, 4 * granularity));
    return finish();
}
