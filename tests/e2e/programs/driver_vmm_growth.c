/* Driver API: a reservation that grows and shrinks by pages, as allocators with expandable segments do; memory that is not
   meant to be shared stays so; reservations at a chosen address, with an alignment, and next to each other. */
#include "driver_check.h"

enum { PAGES = 12 };

static CUfunction fill_function;
static CUmemAllocationProp properties;
static CUmemAccessDesc access_both;
static size_t page;

static void fill(CUdeviceptr out, int value, size_t bytes)
{
    int count = (int)(bytes / sizeof(int));
    void *parameters[] = {&out, &value, &count};
    CU(cuLaunchKernel(fill_function, 8, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
}

static int word(CUdeviceptr address)
{
    int value;
    CU(cuMemcpyDtoH(&value, address, sizeof value));
    return value;
}

/* The application's allocator forgets the handle as soon as the memory is mapped. */
static void grow(CUdeviceptr address, size_t pages)
{
    for (size_t i = 0; i < pages; i++) {
        CUmemGenericAllocationHandle handle;
        CU(cuMemCreate(&handle, page, &properties, 0));
        CU(cuMemMap(address + i * page, page, 0, handle, 0));
        CU(cuMemRelease(handle));
    }
    CU(cuMemSetAccess(address, pages * page, &access_both, 1));
}

static void segments(void)
{
    CUdeviceptr segment, again;
    CU(cuMemAddressReserve(&segment, 64 * page, 0, 0, 0));
    CU(cuMemAddressReserve(&again, 4 * page, 0, 0, 0));
    EXPECT(again >= segment + 64 * page || again + 4 * page <= segment);
    CU(cuMemAddressFree(again, 4 * page));
    grow(segment, 2);
    grow(segment + 2 * page, PAGES - 2);
    int per_page = (int)(page / sizeof(int));
    fill(segment, 100, PAGES * page);
    for (int i = 0; i < PAGES; i++)
        EXPECT(word(segment + (size_t)i * page + 8) == 100 + i * per_page + 2);

    /* Pages from the middle go, and others come in their place. */
    CU(cuCtxSynchronize());
    CU(cuMemUnmap(segment + 3 * page, 4 * page));
    grow(segment + 3 * page, 4);
    fill(segment + 2 * page, -7, 6 * page);
    EXPECT(word(segment + 3 * page) == -7 + per_page);
    EXPECT(word(segment + 2 * page - 4) == 100 + 2 * per_page - 1);
    EXPECT(word(segment + 8 * page) == 100 + 8 * per_page);

    CU(cuCtxSynchronize());
    EXPECT_STATUS(cuMemAddressFree(segment, 64 * page), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemUnmap(segment, PAGES * page));
    CU(cuMemAddressFree(segment, 64 * page));
    EXPECT_STATUS(cuMemAddressFree(segment, 64 * page), CUDA_ERROR_INVALID_VALUE);
}

/* What the application asked for is what it is told, and what it did not ask for it does not get. */
static void unshared(void)
{
    CUmemGenericAllocationHandle handle, retained;
    CUmemAllocationProp told;
    CUdeviceptr address;
    int descriptor = -1;
    unsigned long long types = 1, flags = 0;
    CU(cuMemCreate(&handle, page, &properties, 0));
    CU(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    EXPECT(told.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE && told.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    EXPECT_STATUS(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                  CUDA_ERROR_INVALID_VALUE);
    CU(cuMemAddressReserve(&address, 2 * page, 0, 0, 0));
    CU(cuMemMap(address, page, 0, handle, 0));
    CU(cuMemRelease(handle));
    CU(cuMemSetAccess(address, page, &access_both, 1));
    CU(cuMemRetainAllocationHandle(&retained, (void *)(address + 100)));
    CU(cuMemGetAllocationPropertiesFromHandle(&told, retained));
    EXPECT(told.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE);
    CU(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
    EXPECT(types == CU_MEM_HANDLE_TYPE_NONE);
    CU(cuMemGetAccess(&flags, &access_both.location, address));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    /* One allocation at two places; ordinary memory has no handle. */
    CU(cuMemMap(address + page, page, 0, retained, 0));
    CU(cuMemRelease(retained));
    CU(cuMemSetAccess(address + page, page, &access_both, 1));
    fill(address + page, 31, page);
    EXPECT(word(address + 40) == 41);
    CUdeviceptr plain;
    CU(cuMemAlloc(&plain, 3 * page));
    EXPECT_STATUS(cuMemRetainAllocationHandle(&retained, (void *)plain), CUDA_ERROR_INVALID_VALUE);
    EXPECT_STATUS(cuMemUnmap(plain, 3 * page), CUDA_ERROR_INVALID_VALUE);
    EXPECT_STATUS(cuMemAddressFree(plain, 3 * page), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFree(plain));
    CU(cuMemUnmap(address, 2 * page));
    CU(cuMemAddressFree(address, 2 * page));
}

/* Read-only memory is read as any other. */
static void read_only(void)
{
    CUdeviceptr address, copy;
    CUmemAccessDesc reading = access_both;
    reading.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    float factor = 2;
    int count = 256;
    float ones[256], got[256];
    CU(cuMemAddressReserve(&address, page, 0, 0, 0));
    grow(address, 1);
    CU(cuMemAlloc(&copy, sizeof ones));
    for (int i = 0; i < count; i++)
        ones[i] = (float)i;
    CU(cuMemcpyHtoD(address, ones, sizeof ones));
    CU(cuMemcpyHtoD(copy, ones, sizeof ones));
    CU(cuMemSetAccess(address, page, &reading, 1));
    void *parameters[] = {&factor, &address, &copy, &count};
    CUmodule module;
    char *image = read_beside("driver_kernels.fatbin", NULL);
    CU(cuModuleLoadData(&module, image));
    free(image);
    CU(cuLaunchKernel(get_function(module, "saxpy"), 4, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    CU(cuMemcpyDtoH(got, copy, sizeof got));
    int right = 1;
    for (int i = 0; i < count; i++)
        right &= got[i] == 3 * (float)i;
    EXPECT(right);
    CU(cuMemFree(copy));
    CU(cuMemUnmap(address, page));
    CU(cuMemAddressFree(address, page));
}

static void chosen_addresses(void)
{
    CUdeviceptr first, second, aligned;
    CU(cuMemAddressReserve(&first, 8 * page, 0, 0, 0));
    CU(cuMemAddressFree(first, 8 * page));
    CU(cuMemAddressReserve(&second, 8 * page, 0, first, 0));
    EXPECT(second == first);
    grow(second, 1);
    fill(second, 3, page);
    EXPECT(word(second + 4) == 4);
    CU(cuMemUnmap(second, page));
    CU(cuMemAddressFree(second, 8 * page));
    CU(cuMemAddressReserve(&aligned, 8 * page, 64 * page, 0, 0));
    EXPECT(aligned % (64 * page) == 0);
    grow(aligned, 1);
    fill(aligned, 3, page);
    EXPECT(word(aligned + page - 4) == 3 + (int)(page / 4) - 1);
    CU(cuMemUnmap(aligned, page));
    CU(cuMemAddressFree(aligned, 8 * page));
}

int main(void)
{
    CUdevice device;
    CUmodule module = start(&device);
    fill_function = get_function(module, "fill");
    properties = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .location.id = device};
    access_both = (CUmemAccessDesc){.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    segments();
    unshared();
    read_only();
    chosen_addresses();
    return finish();
}
