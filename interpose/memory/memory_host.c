/*
 * Page-locked host memory: a memory file mapped at one address in the application and in every executor, registered with each one's GPU, so
 * that its device address is its host address everywhere. What cannot be had so is the driver's and home-only.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tessera/lane.h>

#include "base/blocks.h"
#include "base/os.h"
#include "memory/allocation.h"
#include "driver/engaged.h"
#include "lane/executors.h"
#include "memory/home_only.h"
#include "memory/home.h"
#include "memory/host_space.h"
#include "memory/memory.h"
#include "order/order.h"
#include "driver/real.h"

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

struct host_memory { /* owner of its block */
    size_t bytes;    /* as asked for */
    unsigned flags;
    CUcontext context;
    bool shared; /* all executors have it */
};

static void *pointer(const struct tsr_block *block)
{
    return (void *)(uintptr_t)tsr_block_address(block);
}

static CUresult register_at_home(const struct tsr_block *block, size_t bytes, int file)
{
    CUdeviceptr device = 0;
    void *host = tsr_os_map(pointer(block), tsr_block_bytes(block), PROT_READ | PROT_WRITE, file, 0);
    if (!host)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = tsr_real.cuMemHostRegister_v2(host, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS &&
        (tsr_real.cuMemHostGetDevicePointer_v2(&device, host, 0) != CUDA_SUCCESS || device != (CUdeviceptr)(uintptr_t)host)) {
        tsr_real.cuMemHostUnregister(host);
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (result != CUDA_SUCCESS)
        tsr_os_unmap(host, tsr_block_bytes(block));
    return result;
}

static bool share(const struct tsr_block *block, int file)
{
    struct tsr_message message = {
        .kind = TSR_MESSAGE_HOST, .address = tsr_block_address(block), .bytes = tsr_block_bytes(block)};
    struct tsr_message undo = {.kind = TSR_MESSAGE_HOST_FREE, .address = tsr_block_address(block)};
    return tsr_executors_ask(&message, file, &undo) == CUDA_SUCCESS;
}

static CUresult allocate_locked(struct host_memory *memory, void **out)
{
    struct tsr_block *block = tsr_host_space_take_locked(memory->bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t whole = tsr_block_bytes(block);
    int file = tsr_os_memfd("tessera-host", whole);
    bool fixed = file >= 0 && tsr_os_seal(file, F_SEAL_SHRINK | F_SEAL_GROW);
    CUresult result = fixed ? register_at_home(block, memory->bytes, file) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        memory->shared = share(block, file);
        if (!memory->shared)
            tsr_home_only_add(tsr_block_address(block), whole, TSR_REASON_MEMORY_NOT_SHARED);
        block->owner = memory;
        *out = pointer(block);
    } else {
        tsr_host_space_give_locked(block);
    }
    if (file >= 0)
        close(file);
    return result;
}

static CUresult allocate(void **out, size_t bytes, unsigned flags)
{
    struct host_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = (struct host_memory){.bytes = bytes, .flags = flags | CU_MEMHOSTALLOC_DEVICEMAP};
    CUresult result = tsr_real.cuCtxGetCurrent(&memory->context);
    if (result == CUDA_SUCCESS && !memory->context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        result = tsr_memory_refused();
    if (result == CUDA_SUCCESS) {
        CUstreamCaptureMode mode = tsr_memory_relax_begin();
        tsr_memory_lock();
        result = allocate_locked(memory, out);
        tsr_memory_unlock();
        tsr_memory_relax_end(mode);
    }
    if (result != CUDA_SUCCESS)
        free(memory);
    return result;
}

static void note_home_only(CUresult result, void *const *host, size_t bytes)
{
    if (result == CUDA_SUCCESS && bytes)
        tsr_home_only_add((uint64_t)(uintptr_t)*host, bytes, TSR_REASON_MEMORY_NOT_SHARED);
}

TSR_REDIRECTED(cuMemHostAlloc)(void **pp, size_t bytesize, unsigned int Flags)
{
    if (pp && bytesize && !(Flags & ~(unsigned)ALLOC_FLAGS)) {
        CUresult result = allocate(pp, bytesize, Flags);
        if (result != CUDA_ERROR_NOT_SUPPORTED)
            return result;
    }
    CUresult result = tsr_real.cuMemHostAlloc(pp, bytesize, Flags);
    note_home_only(result, pp, bytesize);
    return result;
}

TSR_REDIRECTED(cuMemAllocHost_v2)(void **pp, size_t bytesize)
{
    if (pp && bytesize) {
        CUresult result = allocate(pp, bytesize, 0);
        if (result != CUDA_ERROR_NOT_SUPPORTED)
            return result;
    }
    CUresult result = tsr_real.cuMemAllocHost_v2(pp, bytesize);
    note_home_only(result, pp, bytesize);
    return result;
}

/* The block in use that holds the address, or NULL. */
static struct tsr_block *find_locked(const void *p)
{
    uint64_t address = (uint64_t)(uintptr_t)p;
    struct tsr_block *block = tsr_host_space_find_locked(address);
    const struct host_memory *memory = block ? block->owner : NULL;
    return memory && address - tsr_block_address(block) < memory->bytes ? block : NULL;
}

static void free_locked(struct tsr_block *block)
{
    struct host_memory *memory = block->owner;
    struct tsr_message message = {.kind = TSR_MESSAGE_HOST_FREE, .address = tsr_block_address(block)};
    if (memory->shared)
        tsr_executors_tell(&message);
    else
        tsr_home_only_take(tsr_block_address(block));
    tsr_real.cuMemHostUnregister(pointer(block)); /* if its context is gone, so is the registration */
    tsr_os_unmap(pointer(block), tsr_block_bytes(block));
    tsr_host_space_give_locked(block);
    free(memory);
}

static bool describe(const void *p, struct host_memory *memory, bool *begins)
{
    tsr_memory_lock();
    const struct tsr_block *block = find_locked(p);
    if (block) {
        *memory = *(const struct host_memory *)block->owner;
        *begins = pointer(block) == p;
    }
    tsr_memory_unlock();
    return block != NULL;
}

TSR_REDIRECTED(cuMemFreeHost)(void *p)
{
    struct host_memory memory;
    bool begins;
    CUresult result;
    if (describe(p, &memory, &begins)) {
        result = begins ? tsr_memory_wait(memory.context) : CUDA_ERROR_INVALID_VALUE;
        tsr_memory_lock();
        struct tsr_block *block = result == CUDA_SUCCESS ? find_locked(p) : NULL;
        if (block)
            free_locked(block);
        tsr_memory_unlock();
        return result == CUDA_SUCCESS && !block ? CUDA_ERROR_INVALID_VALUE : result;
    }
    result = tsr_order_join_all();
    if (result != CUDA_SUCCESS)
        return result;
    struct tsr_home_only taken = tsr_home_only_take((uint64_t)(uintptr_t)p);
    result = tsr_real.cuMemFreeHost(p);
    tsr_home_only_put_back(taken, result);
    return result;
}

TSR_REDIRECTED(cuMemHostGetFlags)(unsigned int *pFlags, void *p)
{
    struct host_memory memory;
    bool begins;
    if (!pFlags || !describe(p, &memory, &begins))
        return tsr_real.cuMemHostGetFlags(pFlags, p);
    *pFlags = memory.flags;
    return CUDA_SUCCESS;
}

bool tsr_host_is_allocated(const void *p)
{
    struct host_memory memory;
    bool begins;
    return describe(p, &memory, &begins);
}

bool tsr_host_is_shared(uint64_t address, uint64_t bytes)
{
    if (!tsr_host_covers(address))
        return false;
    tsr_memory_lock();
    const struct tsr_block *block = find_locked((const void *)(uintptr_t)address);
    const struct host_memory *memory = block ? block->owner : NULL;
    bool shared = memory && memory->shared && bytes <= memory->bytes - (address - tsr_block_address(block));
    tsr_memory_unlock();
    return shared;
}

void tsr_host_context_gone_locked(CUcontext context)
{
    for (struct tsr_block *block = tsr_host_space_first_locked(); block;) {
        uint64_t address = tsr_block_address(block);
        const struct host_memory *memory = block->owner;
        if (memory && memory->context == context)
            free_locked(block);
        block = tsr_host_space_find_locked(address)->next;
    }
}

void tsr_host_forget(void)
{
    tsr_host_space_forget();
}
