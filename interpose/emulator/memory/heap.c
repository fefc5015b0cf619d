/*
 * See heap.h. Small allocations share pages, those of a page and more begin on one. Between two small allocations one unit stays free, so that a
 * kernel that runs past the end of one is caught. Addresses are plentiful (four times the capacity), so fragments do not matter.
 */
#include "heap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/blocks.h"
#include "base/log.h"
#include "base/os.h"

#include "../context/context.h"
#include "../machine/live.h"
#include "../machine/map.h"

#ifdef __SANITIZE_THREAD__ /* the only region that ThreadSanitizer leaves to applications; enough for test machines */
#define HEAP_BASE 0x7e8000000000ull
#define HEAP_STRIDE 0x400000000ull
#else
#define HEAP_BASE 0x700000000000ull
#define HEAP_STRIDE 0x10000000000ull
#endif

struct heap {
    pthread_mutex_t lock; /* everything below; base, bytes and file are constant once base is set */
    uint64_t base, bytes; /* atomic base: 0 until made */
    int file;
    struct tsr_blocks blocks; /* one chunk: the heap; a block in use is an allocation and the gap after it */
    uint32_t *page_users;     /* allocations in each page */
};

static struct heap heaps[TSR_MACHINE_DEVICES] = {
    [0 ... TSR_MACHINE_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1}};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

bool tsr_device_memory_take(uint32_t device, uint64_t bytes)
{
    return tsr_live_memory_take(tsr_machine_instance(), tsr_driver_process_row(), device, bytes);
}

void tsr_device_memory_give(uint32_t device, uint64_t bytes)
{
    tsr_live_memory_give(tsr_machine_instance(), tsr_driver_process_row(), device, bytes);
}

uint64_t tsr_device_memory_used(uint32_t device)
{
    return __atomic_load_n(&tsr_machine_instance()->live[tsr_machine_number(device)].memory_used_bytes, __ATOMIC_ACQUIRE);
}

static CUresult heap_make_locked(struct heap *heap, uint32_t device)
{
    uint64_t bytes = round_up(tsr_machine_instance()->devices[device].memory_bytes, TSR_HEAP_PAGE) * 4;
    if (bytes > HEAP_STRIDE)
        bytes = HEAP_STRIDE;
    int file = tsr_os_memfd("tessera-device-memory", bytes);
    uint32_t *page_users = calloc(bytes / TSR_HEAP_PAGE, sizeof *page_users);
    void *base = NULL;
    if (file >= 0 && page_users) {
        base = tsr_os_map((void *)(uintptr_t)(HEAP_BASE + tsr_machine_number(device) * HEAP_STRIDE), bytes,
                          PROT_READ | PROT_WRITE, file, 0);
        if (!base) {
            base = tsr_os_map(NULL, bytes, PROT_READ | PROT_WRITE, file, 0);
            tsr_info("device %u: its usual addresses are taken, memory at %p", device, base);
        }
    }
    if (!base || !tsr_blocks_add(&heap->blocks, (uint64_t)(uintptr_t)base, bytes)) {
        tsr_error("device %u: no address space for %llu bytes", device, (unsigned long long)bytes);
        free(page_users);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise(base, bytes, MADV_DONTFORK);
    madvise(base, bytes, MADV_DONTDUMP);
    heap->file = file;
    heap->bytes = bytes;
    heap->page_users = page_users;
    __atomic_store_n(&heap->base, (uint64_t)(uintptr_t)base, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

/* Pages that [begin, end) touches and nobody uses yet; with change +1 or -1 the uses are counted as well. */
static uint64_t idle_page_bytes(struct heap *heap, uint64_t begin, uint64_t end, int change)
{
    uint64_t bytes = 0;
    for (uint64_t page = begin / TSR_HEAP_PAGE; page <= (end - 1) / TSR_HEAP_PAGE; page++) {
        if (change < 0)
            heap->page_users[page]--;
        if (heap->page_users[page] == 0)
            bytes += TSR_HEAP_PAGE;
        if (change > 0)
            heap->page_users[page]++;
    }
    return bytes;
}

static uint64_t size_with_gap(uint64_t bytes)
{
    return round_up(bytes, TSR_HEAP_UNIT) + TSR_HEAP_UNIT;
}

static CUresult alloc_locked(struct heap *heap, uint32_t device, uint64_t bytes, uint64_t *address)
{
    if (!heap->base) {
        CUresult result = heap_make_locked(heap, device);
        if (result != CUDA_SUCCESS)
            return result;
    }
    if (bytes > heap->bytes - TSR_HEAP_UNIT)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t align = bytes >= TSR_HEAP_PAGE ? TSR_HEAP_PAGE : TSR_HEAP_UNIT;
    struct tsr_block *block = tsr_blocks_take(&heap->blocks, TSR_BLOCKS_FREE, size_with_gap(bytes), align);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t begin = tsr_block_address(block) - heap->base, end = begin + round_up(bytes, TSR_HEAP_UNIT);
    uint64_t fresh = idle_page_bytes(heap, begin, end, 0);
    if (fresh && !tsr_device_memory_take(device, fresh)) {
        tsr_blocks_give(&heap->blocks, block, TSR_BLOCKS_FREE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    idle_page_bytes(heap, begin, end, 1);
    *address = heap->base + begin;
    return CUDA_SUCCESS;
}

CUresult tsr_device_heap_alloc(uint32_t device, uint64_t bytes, uint64_t *address)
{
    struct heap *heap = &heaps[device];
    pthread_mutex_lock(&heap->lock);
    CUresult result = alloc_locked(heap, device, bytes, address);
    pthread_mutex_unlock(&heap->lock);
    return result;
}

/* Every whole small page in the free block that the freed range touches. */
static void give_to_system(struct heap *heap, uint64_t begin, uint64_t end, const struct tsr_block *block)
{
    const uint64_t page = 4096;
    uint64_t first = begin / page * page, last = round_up(end, page);
    uint64_t free_begin = tsr_block_address(block) - heap->base, free_end = free_begin + tsr_block_bytes(block);
    if (first < free_begin)
        first = round_up(free_begin, page);
    if (last > free_end)
        last = free_end / page * page;
    if (first < last)
        fallocate(heap->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(last - first));
}

void tsr_device_heap_free(uint32_t device, uint64_t address, uint64_t bytes)
{
    struct heap *heap = &heaps[device];
    pthread_mutex_lock(&heap->lock);
    uint64_t begin = address - heap->base, end = begin + round_up(bytes, TSR_HEAP_UNIT);
    uint64_t idle = idle_page_bytes(heap, begin, end, -1);
    struct tsr_block *block = tsr_blocks_find(&heap->blocks, address);
    give_to_system(heap, begin, end, tsr_blocks_give(&heap->blocks, block, TSR_BLOCKS_FREE));
    if (idle)
        tsr_device_memory_give(device, idle);
    pthread_mutex_unlock(&heap->lock);
}

bool tsr_device_heap_file(uint64_t address, int *descriptor, uint64_t *offset)
{
    for (uint32_t device = 0; device < TSR_MACHINE_DEVICES; device++) {
        const struct heap *heap = &heaps[device];
        uint64_t base = __atomic_load_n(&heap->base, __ATOMIC_ACQUIRE);
        if (base && address - base < heap->bytes) {
            *descriptor = heap->file;
            *offset = address - base;
            return true;
        }
    }
    return false;
}
