/*
 * Legacy IPC of memory. Handles of arena memory are our own (ipc.h) and are opened by any process that has the shim, also one whose
 * launches all stay home: as virtual memory of the application, which executors can map. Memory of the driver's own handles is home-only.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "memory/allocation.h"
#include "driver/engaged.h"
#include "memory/home_only.h"
#include "memory/ipc.h"
#include "memory/home.h"
#include "order/order.h"
#include "driver/real.h"
#include "memory/physical.h"
#include "memory/vmm.h"

struct opened {
    struct tsr_ipc_name name;
    CUdeviceptr range; /* that the memory is mapped at */
    uint64_t bytes;
    CUdeviceptr address; /* of the allocation in it */
    CUmemGenericAllocationHandle memory;
    uint32_t uses;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TSR_VEC(struct opened) openings; /* lock */

TSR_REDIRECTED(cuIpcGetMemHandle)(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    struct tsr_ipc_name name;
    CUresult result = pHandle ? tsr_ipc_offer(dptr, &name) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_ERROR_INVALID_VALUE)
        return tsr_real.cuIpcGetMemHandle(pHandle, dptr);
    if (result != CUDA_SUCCESS)
        return result;
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &name, sizeof name);
    return CUDA_SUCCESS;
}

/* The functions of vmm.h mirror; where nothing is mirrored the driver's alone are called. */
static bool mirrors(void)
{
    return tsr_has_role(TSR_REDIRECTING);
}

static CUresult map(struct opened *of, CUdevice device, int descriptor)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = tsr_real.cuMemMap(of->range, of->bytes, 0, of->memory, 0);
    if (result != CUDA_SUCCESS)
        return result;
    if (mirrors()) {
        tsr_physical_created(of->memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, descriptor);
        tsr_physical_offered(of->memory);
        tsr_vmm_mapped(of->range, of->bytes, of->memory);
    }
    result = tsr_real.cuMemSetAccess(of->range, of->bytes, &access, 1);
    if (result == CUDA_SUCCESS && mirrors() && tsr_memory_is_home(&access.location)) {
        tsr_memory_lock();
        tsr_vmm_access_locked(of->range, of->bytes, access.flags);
        tsr_memory_unlock();
    }
    return result;
}

static void unmap(const struct opened *of)
{
    tsr_memory_lock();
    tsr_real.cuMemUnmap(of->range, of->bytes);
    if (mirrors()) {
        tsr_vmm_unmapped_locked(of->range, of->bytes);
        tsr_physical_released_locked(of->memory);
    }
    tsr_memory_unlock();
}

static CUresult reserve(struct opened *of)
{
    CUresult result = mirrors() ? tsr_vmm_reserve(of->bytes, 0, 0, &of->range) : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    result = tsr_real.cuMemAddressReserve(&of->range, of->bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS && mirrors())
        tsr_vmm_reserved(of->range, of->bytes);
    return result;
}

static void unreserve(const struct opened *of)
{
    if (mirrors() && tsr_vmm_free(of->range, of->bytes) != CUDA_ERROR_NOT_SUPPORTED)
        return;
    struct tsr_home_only taken = tsr_home_only_take(of->range);
    tsr_home_only_put_back(taken, tsr_real.cuMemAddressFree(of->range, of->bytes));
}

static CUresult take(struct opened *of, CUdevice device, int descriptor)
{
    CUresult result = tsr_real.cuMemImportFromShareableHandle(&of->memory, (void *)(intptr_t)descriptor,
                                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS)
        return result;
    result = reserve(of);
    if (result != CUDA_SUCCESS)
        goto release;
    result = map(of, device, descriptor);
    if (result == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    unmap(of);
    unreserve(of);
release:
    tsr_real.cuMemRelease(of->memory);
    return result;
}

static void give_back(const struct opened *of)
{
    unmap(of);
    unreserve(of);
    tsr_real.cuMemRelease(of->memory);
}

static CUresult open_locked(const struct tsr_ipc_name *name, CUdeviceptr *address)
{
    struct tsr_ipc_memory memory;
    struct opened of = {.name = *name, .uses = 1};
    CUdevice device;
    int descriptor = -1;
    for (size_t i = 0; i < openings.count; i++)
        if (memcmp(&openings.data[i].name, name, sizeof *name) == 0) {
            openings.data[i].uses++;
            *address = openings.data[i].address;
            return CUDA_SUCCESS;
        }
    CUresult result = tsr_real.cuCtxGetDevice(&device);
    if (result == CUDA_SUCCESS)
        result = tsr_ipc_ask(name, &memory, &descriptor);
    if (result == CUDA_SUCCESS) {
        of.bytes = memory.bytes;
        result = take(&of, device, descriptor);
    }
    if (descriptor >= 0)
        close(descriptor);
    if (result != CUDA_SUCCESS)
        return result;
    of.address = of.range + memory.offset;
    if (!tsr_vec_push(&openings, of)) {
        give_back(&of);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = of.address;
    return CUDA_SUCCESS;
}

CUresult tsr_ipc_open(CUdeviceptr *address, const CUipcMemHandle *handle, unsigned flags,
                      CUresult (*forward)(CUdeviceptr *, CUipcMemHandle, unsigned))
{
    struct tsr_ipc_name name;
    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !tsr_ipc_is_ours(handle, &name)) {
        CUresult result = forward(address, *handle, flags);
        size_t bytes = 0;
        if (result == CUDA_SUCCESS && mirrors() && tsr_real.cuMemGetAddressRange_v2(NULL, &bytes, *address) == CUDA_SUCCESS)
            tsr_home_only_add(*address, bytes, TSR_REASON_MEMORY_IPC);
        return result;
    }
    if (name.pid == (uint32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* what the driver says to the process that made the handle */
    pthread_mutex_lock(&lock);
    CUresult result = open_locked(&name, address);
    pthread_mutex_unlock(&lock);
    return result;
}

/* False: it is not one of ours. */
static bool close_ours(CUdeviceptr address, CUresult *result)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < openings.count && !found; i++) {
        struct opened *of = &openings.data[i];
        if (of->address != address)
            continue;
        found = true;
        *result = of->uses > 1 ? CUDA_SUCCESS : tsr_real.cuCtxSynchronize();
        if (*result == CUDA_SUCCESS && --of->uses == 0) {
            give_back(of);
            tsr_vec_remove_swap(&openings, i);
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

CUresult tsr_ipc_close(CUdeviceptr dptr)
{
    CUresult result = mirrors() ? tsr_order_join_all() : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && !close_ours(dptr, &result)) {
        struct tsr_home_only taken = tsr_home_only_take(dptr);
        result = tsr_real.cuIpcCloseMemHandle(dptr);
        tsr_home_only_put_back(taken, result);
    }
    return result;
}

bool tsr_ipc_describe(CUdeviceptr address, CUdeviceptr *base, size_t *bytes)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < openings.count && !found; i++) {
        const struct opened *of = &openings.data[i];
        found = address - of->address < of->name.bytes;
        if (found) {
            *base = of->address;
            *bytes = of->name.bytes;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}
