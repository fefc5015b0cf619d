/*
 * The application's allocations in the arena. An allocation is an extent of its own, or a block of a heap: extents (the heap's chunks)
 * shared by smaller allocations. Addresses are multiples of 512 bytes.
 *
 * The memory lock protects arena, allocations, heaps and pools. Order of locks: memory, then order's, then a lane's; so code that holds one of
 * the latter must not call these functions (tsr_arena_holds takes no lock and may be called anywhere).
 */
#ifndef TSR_MEMORY_ALLOCATION_H
#define TSR_MEMORY_ALLOCATION_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blocks.h"

struct tsr_extent;
struct tsr_pool;

struct tsr_heap {
    struct tsr_blocks blocks;
    struct tsr_pool *pool; /* NULL: of ordinary memory */
    uint64_t chunk_bytes;  /* extents are multiples of it */
    uint64_t most_bytes;   /* of all chunks; 0: no limit */
    uint64_t mapped_bytes; /* of all chunks */
    uint32_t peers;        /* bit n: device n, too, may access its chunks */
    CUdeviceptr spare;     /* of ordinary memory: a chunk that is kept although nothing is in it */
};

struct tsr_allocation {
    CUdeviceptr address;
    size_t bytes; /* as asked for */
    CUcontext context;
    uint64_t id;             /* of all the process' allocations */
    struct tsr_heap *heap;   /* NULL: an extent of its own */
    struct tsr_block *block; /* in the heap */
    struct tsr_extent *extent;
    bool sync_memops; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    bool doomed;      /* freed by the application, in use by the GPU: not found any more */
};

void tsr_memory_lock(void);
void tsr_memory_unlock(void);

/* The rest with the lock held. */

/* The heap has no room: a chunk that fits `bytes`. Errors: the driver's; OUT_OF_MEMORY beyond most_bytes. */
CUresult tsr_heap_grow(struct tsr_heap *heap, uint64_t bytes);
/* Returns chunks that are free for all to the driver, while more than keep_bytes are mapped. */
void tsr_heap_trim(struct tsr_heap *heap, uint64_t keep_bytes);
/* Bytes of chunks that tsr_heap_trim could return. */
uint64_t tsr_heap_idle_bytes(const struct tsr_heap *heap);
/* Lets another device at the heap's memory (NULL: at all extents that are one allocation), or not any more. */
CUresult tsr_heap_grant(struct tsr_heap *heap, CUdevice device, CUmemAccess_flags flags);

/* From a set of the heap's blocks; NULL: nothing fits there. */
struct tsr_allocation *tsr_allocation_take(struct tsr_heap *heap, uint64_t set, size_t bytes, CUcontext context);
/* In an extent of its own. */
CUresult tsr_allocation_map(size_t bytes, uint32_t peers, CUcontext context, struct tsr_allocation **out);
/* Gives it back; set: of its heap, TSR_BLOCKS_FREE for all. */
void tsr_allocation_give(struct tsr_allocation *allocation, uint64_t set);

/* The application has freed it, but it cannot be given back yet: it is not found any more. */
void tsr_allocation_hide(struct tsr_allocation *allocation);

/* The allocation that holds the address; NULL: there is none. Where it begins and ends, tsr_address_find_range() says without a lock. */
struct tsr_allocation *tsr_allocation_find(CUdeviceptr address);
/* Calls visit for every allocation; it may give the one that it is called with back. */
void tsr_allocation_each(void (*visit)(struct tsr_allocation *allocation, void *argument), void *argument);

void tsr_allocation_forget(void);

#endif
