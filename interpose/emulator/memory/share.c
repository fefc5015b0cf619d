/* See share.h. */
#include "share.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/vec.h"

#include "../machine/map.h"
#include "heap.h"

#define SHARE_MAGIC 0x54535248415245ull
#define PAGE 4096ull

struct opened {
    uint64_t inode, offset, address;
    uint32_t users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TSR_VEC(struct opened) opened; /* lock */

CUresult tsr_share_make(uint64_t address, struct tsr_share_name *out)
{
    struct tsr_range range;
    struct stat status;
    int descriptor;
    uint64_t offset;
    if (!tsr_space_lookup(tsr_space_instance(), address, &range) || !tsr_device_heap_file(range.base, &descriptor, &offset) ||
        fstat(descriptor, &status) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct tsr_share_name){
        .magic = SHARE_MAGIC,
        .pid = (uint32_t)getpid(),
        .descriptor = (uint32_t)descriptor,
        .number = tsr_machine_number(range.location),
        .offset = offset,
        .bytes = range.requested_bytes,
        .inode = (uint64_t)status.st_ino,
    };
    return CUDA_SUCCESS;
}

static int file_open(const struct tsr_share_name *name)
{
    char path[64];
    struct stat status;
    tsr_format(path, sizeof path, "/proc/%u/fd/%u", name->pid, name->descriptor);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    if (fstat(descriptor, &status) == 0 && (uint64_t)status.st_ino == name->inode && name->bytes &&
        name->bytes <= (uint64_t)status.st_size && name->offset <= (uint64_t)status.st_size - name->bytes)
        return descriptor;
    close(descriptor);
    return -1;
}

static CUresult publish(struct tsr_context *context, const struct tsr_share_name *name, void *pool, uint64_t mapped,
                        uint64_t mapped_bytes, uint64_t *address)
{
    uint32_t device = (uint32_t)tsr_machine_device(name->number);
    struct tsr_emulated_allocation *allocation = tsr_allocation_create(context, device);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint16_t access = (uint16_t)(tsr_peer_mask(device) | 1u << tsr_emulated_context_device(context));
    *address = mapped + name->offset % PAGE;
    allocation->detail = pool;
    allocation->mapped_bytes = mapped_bytes;
    allocation->user_base = *address;
    struct tsr_range range = {
        .base = *address,
        .bytes = (name->bytes + TSR_HEAP_UNIT - 1) / TSR_HEAP_UNIT * TSR_HEAP_UNIT,
        .location = device,
        .readable = access,
        .writable = access,
        .kind = TSR_RANGE_IPC,
        .requested_bytes = name->bytes,
        .owner = allocation,
    };
    tsr_memory_attach(context);
    CUresult result = tsr_space_add(tsr_space_instance(), &range);
    if (result != CUDA_SUCCESS)
        tsr_allocation_destroy(allocation);
    return result;
}

static CUresult open_locked(struct tsr_context *context, const struct tsr_share_name *name, void *pool, uint64_t *address)
{
    uint64_t begin = name->offset / PAGE * PAGE, end = (name->offset + name->bytes + PAGE - 1) / PAGE * PAGE;
    if (!tsr_vec_reserve(&opened, opened.count + 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int descriptor = file_open(name);
    if (descriptor < 0)
        return CUDA_ERROR_MAP_FAILED;
    void *mapped = mmap(NULL, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, (off_t)begin);
    close(descriptor);
    if (mapped == MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    CUresult result = publish(context, name, pool, (uint64_t)(uintptr_t)mapped, end - begin, address);
    if (result != CUDA_SUCCESS) {
        munmap(mapped, end - begin);
        return result;
    }
    opened.data[opened.count++] = (struct opened){name->inode, name->offset, *address, 1};
    return CUDA_SUCCESS;
}

CUresult tsr_emulated_share_open(struct tsr_context *context, const struct tsr_share_name *name, void *pool, uint64_t *address)
{
    if (name->magic != SHARE_MAGIC || tsr_machine_device(name->number) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pool && name->pid == (uint32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    struct opened *known = NULL;
    for (size_t i = 0; i < opened.count; i++)
        if (opened.data[i].inode == name->inode && opened.data[i].offset == name->offset)
            known = &opened.data[i];
    CUresult result = CUDA_SUCCESS;
    if (known) {
        known->users++;
        *address = known->address;
    } else {
        result = open_locked(context, name, pool, address);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_share_close(uint64_t address)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < opened.count; i++) {
        if (opened.data[i].address != address)
            continue;
        result = CUDA_SUCCESS;
        if (--opened.data[i].users == 0) {
            tsr_vec_remove_swap(&opened, i);
            tsr_memory_release(address, TSR_RANGE_IPC);
        }
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
