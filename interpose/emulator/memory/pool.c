/* See pool.h. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os.h"
#include "base/vec.h"

#include "../context/handles.h"
#include "../machine/map.h"
#include "heap.h"

enum block_state { BLOCK_USED, BLOCK_PENDING, BLOCK_FREE };

struct block {
    uint64_t address, bytes;   /* bytes: rounded to the heap's unit */
    uint64_t generation;       /* grows with every free */
    struct tsr_stream_key key; /* BLOCK_PENDING: where it was freed */
    enum block_state state;
};

struct tsr_emulated_pool {
    CUmemoryPool handle;       /* constant */
    uint32_t device;           /* constant */
    bool is_default, imported; /* constant */
    unsigned handle_types;     /* constant */
    uint64_t max_bytes;        /* constant; 0: the device's memory */
    uint64_t references;       /* atomic: handle, pending frees */
    pthread_mutex_t lock;      /* all below */
    TSR_VEC(struct block) blocks;
    uint64_t used, used_high, reserved, reserved_high, threshold;
    int reuse[3]; /* the three REUSE attributes; kept, without effect */
    uint16_t readable, writable;
    bool closed; /* destroyed by the application; the handle's reference goes with the last used block */
};

static pthread_mutex_t defaults_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_emulated_pool *defaults[TSR_MACHINE_DEVICES]; /* defaults_lock; never freed */
static struct tsr_emulated_pool *currents[TSR_MACHINE_DEVICES]; /* defaults_lock; NULL: the default one */

CUresult tsr_pool_create(uint32_t device, uint64_t max_bytes, unsigned handle_types, struct tsr_emulated_pool **out)
{
    struct tsr_emulated_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&pool->lock, NULL);
    pool->references = 1;
    pool->device = device;
    pool->max_bytes = max_bytes;
    pool->handle_types = handle_types;
    pool->readable = pool->writable = (uint16_t)(1u << device);
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_POOL, pool, NULL);
    if (!pool->handle) {
        free(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = pool;
    return CUDA_SUCCESS;
}

struct label {
    uint64_t magic;
    uint32_t number, handle_types; /* number: of the device in the machine */
};

#define LABEL_MAGIC 0x4c4f4f50525354ull

int tsr_pool_export(const struct tsr_emulated_pool *pool)
{
    struct label label = {LABEL_MAGIC, tsr_machine_number(pool->device), pool->handle_types};
    int descriptor = tsr_os_memfd("tessera-pool", sizeof label);
    if (descriptor >= 0 && pwrite(descriptor, &label, sizeof label, 0) != (ssize_t)sizeof label) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

CUresult tsr_pool_import(int descriptor, struct tsr_emulated_pool **out)
{
    struct label label;
    if (pread(descriptor, &label, sizeof label, 0) != (ssize_t)sizeof label || label.magic != LABEL_MAGIC ||
        tsr_machine_device(label.number) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_pool_create((uint32_t)tsr_machine_device(label.number), 0, label.handle_types, out);
    if (result == CUDA_SUCCESS)
        (*out)->imported = true;
    return result;
}

bool tsr_pool_is_imported(const struct tsr_emulated_pool *pool)
{
    return pool->imported;
}

CUresult tsr_pool_default(uint32_t device, struct tsr_emulated_pool **out)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&defaults_lock);
    if (!defaults[device]) {
        result = tsr_pool_create(device, 0, 0, &defaults[device]);
        if (result == CUDA_SUCCESS)
            defaults[device]->is_default = true;
    }
    *out = defaults[device];
    pthread_mutex_unlock(&defaults_lock);
    return result;
}

CUresult tsr_pool_current(uint32_t device, struct tsr_emulated_pool **out)
{
    pthread_mutex_lock(&defaults_lock);
    struct tsr_emulated_pool *current = currents[device];
    pthread_mutex_unlock(&defaults_lock);
    if (!current)
        return tsr_pool_default(device, out);
    *out = current;
    return CUDA_SUCCESS;
}

void tsr_pool_current_set(uint32_t device, struct tsr_emulated_pool *pool)
{
    pthread_mutex_lock(&defaults_lock);
    currents[device] = pool;
    pthread_mutex_unlock(&defaults_lock);
}

CUmemoryPool tsr_emulated_pool_handle(const struct tsr_emulated_pool *pool)
{
    return pool->handle;
}

uint32_t tsr_pool_device(const struct tsr_emulated_pool *pool)
{
    return pool->device;
}

unsigned tsr_pool_handle_types(const struct tsr_emulated_pool *pool)
{
    return pool->handle_types;
}

static struct block *find_locked(struct tsr_emulated_pool *pool, uint64_t address)
{
    for (size_t i = 0; i < pool->blocks.count; i++)
        if (pool->blocks.data[i].address == address)
            return &pool->blocks.data[i];
    return NULL;
}

/* Takes the block's range out of the address space. */
static void hide(const struct block *block)
{
    struct tsr_range range;
    if (!tsr_space_lookup(tsr_space_instance(), block->address, &range))
        return;
    tsr_space_remove(tsr_space_instance(), block->address);
    tsr_allocations_lock();
    tsr_allocation_destroy(range.owner);
    tsr_allocations_unlock();
}

static CUresult show_locked(struct tsr_emulated_pool *pool, struct tsr_context *context, const struct block *block,
                            uint64_t requested)
{
    struct tsr_emulated_allocation *allocation = tsr_allocation_create(context, pool->device);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->detail = pool;
    allocation->user_base = block->address;
    struct tsr_range range = {
        .base = block->address,
        .bytes = block->bytes,
        .location = pool->device,
        .readable = pool->readable,
        .writable = pool->writable,
        .kind = TSR_RANGE_POOL,
        .requested_bytes = requested,
        .owner = allocation,
    };
    CUresult result = tsr_space_add(tsr_space_instance(), &range);
    if (result != CUDA_SUCCESS)
        tsr_allocation_destroy(allocation);
    return result;
}

static void drop_locked(struct tsr_emulated_pool *pool, size_t index)
{
    struct block *block = &pool->blocks.data[index];
    tsr_device_heap_free(pool->device, block->address, block->bytes);
    pool->reserved -= block->bytes;
    tsr_vec_remove_swap(&pool->blocks, index);
}

static void trim_locked(struct tsr_emulated_pool *pool, uint64_t keep_bytes)
{
    for (size_t i = pool->blocks.count; i-- > 0 && pool->reserved > keep_bytes;)
        if (pool->blocks.data[i].state == BLOCK_FREE)
            drop_locked(pool, i);
}

void tsr_emulated_pool_trim(struct tsr_emulated_pool *pool, uint64_t keep_bytes)
{
    pthread_mutex_lock(&pool->lock);
    trim_locked(pool, keep_bytes);
    pthread_mutex_unlock(&pool->lock);
}

static void raise_marks(struct tsr_emulated_pool *pool)
{
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
}

static struct block *reusable_locked(struct tsr_emulated_pool *pool, uint64_t bytes, struct tsr_stream_key key)
{
    struct block *found = NULL;
    for (size_t i = 0; i < pool->blocks.count; i++) {
        struct block *block = &pool->blocks.data[i];
        if (block->bytes != bytes || block->state == BLOCK_USED)
            continue;
        bool same_stream = block->key.stream == key.stream && block->key.context_id == key.context_id;
        if (block->state == BLOCK_PENDING && same_stream)
            return block;
        if (block->state == BLOCK_FREE && !found)
            found = block;
    }
    return found;
}

static CUresult fresh_locked(struct tsr_emulated_pool *pool, uint64_t bytes, struct block **out)
{
    uint64_t address;
    if (pool->max_bytes && pool->reserved + bytes > pool->max_bytes) {
        trim_locked(pool, pool->max_bytes > bytes ? pool->max_bytes - bytes : 0);
        if (pool->reserved + bytes > pool->max_bytes)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!tsr_vec_reserve(&pool->blocks, pool->blocks.count + 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = tsr_device_heap_alloc(pool->device, bytes, &address);
    if (result != CUDA_SUCCESS) {
        trim_locked(pool, 0);
        result = tsr_device_heap_alloc(pool->device, bytes, &address);
    }
    if (result != CUDA_SUCCESS)
        return result;
    *out = &pool->blocks.data[pool->blocks.count++];
    **out = (struct block){.address = address, .bytes = bytes, .state = BLOCK_FREE};
    pool->reserved += bytes;
    return CUDA_SUCCESS;
}

static CUresult alloc_locked(struct tsr_emulated_pool *pool, struct tsr_context *context, uint64_t bytes,
                             struct tsr_stream_key key, uint64_t *address)
{
    uint64_t whole = (bytes + TSR_HEAP_UNIT - 1) / TSR_HEAP_UNIT * TSR_HEAP_UNIT;
    if (whole < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *block = reusable_locked(pool, whole, key);
    CUresult result = CUDA_SUCCESS;
    if (!block)
        result = fresh_locked(pool, whole, &block);
    if (result == CUDA_SUCCESS && block->state == BLOCK_FREE)
        result = show_locked(pool, context, block, bytes);
    else if (result == CUDA_SUCCESS)
        tsr_space_requested_set(tsr_space_instance(), block->address, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    block->state = BLOCK_USED;
    pool->used += whole;
    raise_marks(pool);
    *address = block->address;
    return CUDA_SUCCESS;
}

CUresult tsr_pool_alloc(struct tsr_emulated_pool *pool, struct tsr_context *context, uint64_t bytes, struct tsr_stream_key key,
                        uint64_t *address)
{
    if (pool->imported)
        return CUDA_ERROR_NOT_PERMITTED;
    pthread_mutex_lock(&pool->lock);
    CUresult result = alloc_locked(pool, context, bytes, key, address);
    pthread_mutex_unlock(&pool->lock);
    return result;
}

static void pool_put(struct tsr_emulated_pool *pool)
{
    if (__atomic_sub_fetch(&pool->references, 1, __ATOMIC_ACQ_REL))
        return;
    trim_locked(pool, 0);
    tsr_vec_fini(&pool->blocks);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* The pool of a block, with a reference; NULL when the address does not begin one. */
static struct tsr_emulated_pool *pool_of(uint64_t address)
{
    struct tsr_range range;
    struct tsr_emulated_pool *pool = NULL;
    tsr_allocations_lock();
    if (tsr_space_lookup(tsr_space_instance(), address, &range) && range.kind == TSR_RANGE_POOL && range.base == address)
        pool = ((struct tsr_emulated_allocation *)range.owner)->detail;
    if (pool)
        __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED);
    tsr_allocations_unlock();
    return pool;
}

bool tsr_pool_free_begin(uint64_t address, struct tsr_stream_key key, struct tsr_pool_free *out)
{
    struct tsr_emulated_pool *pool = pool_of(address);
    if (!pool)
        return false;
    pthread_mutex_lock(&pool->lock);
    struct block *block = find_locked(pool, address);
    bool found = block && block->state == BLOCK_USED;
    if (found) {
        block->state = BLOCK_PENDING;
        block->key = key;
        pool->used -= block->bytes;
        *out = (struct tsr_pool_free){pool, address, ++block->generation};
    }
    pthread_mutex_unlock(&pool->lock);
    if (!found)
        pool_put(pool);
    return found;
}

void tsr_pool_free_end(const struct tsr_pool_free *pending)
{
    struct tsr_emulated_pool *pool = pending->pool;
    pthread_mutex_lock(&pool->lock);
    struct block *block = find_locked(pool, pending->address);
    if (block && block->state == BLOCK_PENDING && block->generation == pending->generation) {
        hide(block);
        block->state = BLOCK_FREE;
        trim_locked(pool, pool->threshold);
    }
    bool last = pool->closed && pool->used == 0;
    if (last)
        pool->closed = false;
    pthread_mutex_unlock(&pool->lock);
    if (last)
        pool_put(pool);
    pool_put(pool);
}

bool tsr_pool_free_now(uint64_t address)
{
    struct tsr_pool_free pending;
    if (!tsr_pool_free_begin(address, (struct tsr_stream_key){0}, &pending))
        return false;
    tsr_pool_free_end(&pending);
    return true;
}

CUresult tsr_pool_destroy(struct tsr_emulated_pool *pool)
{
    if (pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    if (!tsr_handle_remove(tsr_handle_table(), TSR_KIND_POOL, pool->handle))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&defaults_lock);
    for (int device = 0; device < TSR_MACHINE_DEVICES; device++)
        if (currents[device] == pool)
            currents[device] = NULL;
    pthread_mutex_unlock(&defaults_lock);
    pthread_mutex_lock(&pool->lock);
    bool in_use = pool->used > 0;
    pool->closed = in_use;
    pool->threshold = 0;
    pthread_mutex_unlock(&pool->lock);
    if (!in_use)
        pool_put(pool);
    return CUDA_SUCCESS;
}

CUresult tsr_pool_attribute_get(struct tsr_emulated_pool *pool, CUmemPool_attribute attribute, void *value)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&pool->lock);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->lock);
    return result;
}

/* The two high-water marks can only be reset. */
CUresult tsr_pool_attribute_set(struct tsr_emulated_pool *pool, CUmemPool_attribute attribute, const void *value)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&pool->lock);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(const cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const cuuint64_t *)value != 0)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
            pool->reserved_high = pool->reserved;
        else
            pool->used_high = pool->used;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->lock);
    return result;
}

void tsr_pool_access_get(struct tsr_emulated_pool *pool, uint32_t device, CUmemAccess_flags *flags)
{
    pthread_mutex_lock(&pool->lock);
    *flags = pool->writable >> device & 1   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : pool->readable >> device & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                            : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pthread_mutex_unlock(&pool->lock);
}

void tsr_pool_access_set(struct tsr_emulated_pool *pool, uint32_t device, CUmemAccess_flags flags)
{
    uint16_t bit = (uint16_t)(1u << device);
    pthread_mutex_lock(&pool->lock);
    pool->readable = (uint16_t)(flags & CU_MEM_ACCESS_FLAGS_PROT_READ ? pool->readable | bit : pool->readable & ~bit);
    pool->writable = (uint16_t)(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? pool->writable | bit : pool->writable & ~bit);
    for (size_t i = 0; i < pool->blocks.count; i++)
        if (pool->blocks.data[i].state != BLOCK_FREE)
            tsr_space_access_set(tsr_space_instance(), pool->blocks.data[i].address, pool->readable, pool->writable);
    pthread_mutex_unlock(&pool->lock);
}
