/*
 * Memory pools: memory that is given out and taken back in stream order.
 *
 * A block that was freed on a stream can be given out again on the same stream at once; on others when the stream has come to the free.
 * Then its range leaves the address space, and the memory stays with the pool as long as what it has reserved does not exceed the release
 * threshold. Blocks are reused for the same rounded size only, so that a range never covers more than was asked for.
 *
 * Pools know streams only as opaque keys; submitting the frees is the business of entry/pool.c.
 */
#ifndef TSR_MEMORY_POOL_H
#define TSR_MEMORY_POOL_H

#include "alloc.h"

struct tsr_emulated_pool;

struct tsr_stream_key {
    const void *stream;
    uint64_t context_id;
};

/* A free that has been asked for and not yet reached. */
struct tsr_pool_free {
    struct tsr_emulated_pool *pool; /* a reference */
    uint64_t address, generation;
};

CUresult tsr_pool_create(uint32_t device, uint64_t max_bytes, unsigned handle_types, struct tsr_emulated_pool **out);
/* Sharing by descriptor: -1 on failure. An imported pool gives out nothing itself; pointers are opened for it with memory/share.h. */
int tsr_pool_export(const struct tsr_emulated_pool *pool);
/* Errors: INVALID_VALUE. */
CUresult tsr_pool_import(int descriptor, struct tsr_emulated_pool **out);
bool tsr_pool_is_imported(const struct tsr_emulated_pool *pool);
/* The handle becomes invalid; the pool ends with its last block. Default pools: INVALID_VALUE. */
CUresult tsr_pool_destroy(struct tsr_emulated_pool *pool);
/* Made on first use. */
CUresult tsr_pool_default(uint32_t device, struct tsr_emulated_pool **out);
CUresult tsr_pool_current(uint32_t device, struct tsr_emulated_pool **out);
void tsr_pool_current_set(uint32_t device, struct tsr_emulated_pool *pool);

CUmemoryPool tsr_emulated_pool_handle(const struct tsr_emulated_pool *pool);
uint32_t tsr_pool_device(const struct tsr_emulated_pool *pool);
unsigned tsr_pool_handle_types(const struct tsr_emulated_pool *pool);

/* Errors: OUT_OF_MEMORY (after giving back what the pool keeps unused), NOT_PERMITTED for an imported pool. */
CUresult tsr_pool_alloc(struct tsr_emulated_pool *pool, struct tsr_context *context, uint64_t bytes, struct tsr_stream_key key,
                        uint64_t *address);
/* First half: the block is no longer the application's. False: not a block in use. */
bool tsr_pool_free_begin(uint64_t address, struct tsr_stream_key key, struct tsr_pool_free *out);
/* Second half, when the stream has come to it; nothing happens when the block has been given out again meanwhile. */
void tsr_pool_free_end(const struct tsr_pool_free *pending);
/* Both at once; the caller has waited for work. */
bool tsr_pool_free_now(uint64_t address);
void tsr_emulated_pool_trim(struct tsr_emulated_pool *pool, uint64_t keep_bytes);

/* Errors: INVALID_VALUE. */
CUresult tsr_pool_attribute_get(struct tsr_emulated_pool *pool, CUmemPool_attribute attribute, void *value);
CUresult tsr_pool_attribute_set(struct tsr_emulated_pool *pool, CUmemPool_attribute attribute, const void *value);
void tsr_pool_access_get(struct tsr_emulated_pool *pool, uint32_t device, CUmemAccess_flags *flags);
void tsr_pool_access_set(struct tsr_emulated_pool *pool, uint32_t device, CUmemAccess_flags flags);

#endif
