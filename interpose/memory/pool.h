/*
 * Stream-ordered memory pools in the arena. A pool's identity is the driver's (its handle, properties, access list); its memory is a heap here.
 *
 * Memory freed in a stream is free for that stream at once (freed.h), and for all streams once the stream is seen to have completed its work. That is
 * checked only when memory is needed or statistics are asked for; free chunks beyond the release threshold are then returned. Memory lock held where the name says so.
 */
#ifndef TSR_MEMORY_POOL_H
#define TSR_MEMORY_POOL_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_allocation;
struct tsr_pool;

/* The pool of a handle of the home GPU that is served from here, or NULL. */
struct tsr_pool *tsr_pool_find(CUmemoryPool handle);
/* A pool that the driver has just made with these properties; does nothing if it is not to be served from here. */
void tsr_pool_created(CUmemoryPool handle, const CUmemPoolProps *properties);
/* The driver has taken the handle away. The memory stays as long as it is in use. */
void tsr_pool_destroyed_locked(CUmemoryPool handle);
CUmemoryPool tsr_pool_handle(const struct tsr_pool *pool);

/* Errors: as cuMemAllocFromPoolAsync. The stream is none that is being captured. */
CUresult tsr_pool_allocate(struct tsr_pool *pool, size_t bytes, CUstream stream, bool per_thread, CUdeviceptr *address);
/* False: the address does not begin an allocation of a pool. */
bool tsr_pool_free(CUdeviceptr address, CUstream stream, bool per_thread);
/* A stream is about to be destroyed: its handle will mean nothing, or another one. */
void tsr_pool_stream_ends(CUstream stream);

void tsr_pool_trim(struct tsr_pool *pool, uint64_t keep_bytes);
/* There is, or was, a pool that is served from here. Atomic. */
extern bool tsr_pools_are_used __attribute__((visibility("hidden")));
/* A device that can access the home GPU's memory copies, and one of these addresses may be a pool's: then it gets access to pools, as drivers copy theirs for
   devices without. */
void tsr_pools_open(CUdevice device, CUdeviceptr to, CUdeviceptr from);
CUresult tsr_pool_grant(struct tsr_pool *pool, CUdevice device, CUmemAccess_flags flags);

struct tsr_pool_counters {
    uint64_t used, used_high, reserved, reserved_high;
};
struct tsr_pool_counters tsr_pool_count(struct tsr_pool *pool);
void tsr_pool_reset_high(struct tsr_pool *pool, bool used);
void tsr_pool_set_threshold(struct tsr_pool *pool, uint64_t bytes);

/* For freed.h: a set of blocks in all pools becomes free for all, or is called another. */
void tsr_pool_release_set_locked(uint64_t set);
void tsr_pool_rename_set_locked(uint64_t set, uint64_t to);

/* To a stream's set, or TSR_BLOCKS_FREE when nothing uses it any more. */
void tsr_pool_give_locked(struct tsr_allocation *allocation, uint64_t set);
/* Makes free what is complete, and returns to the driver what is beyond the thresholds; reclaim: whatever is free. */
void tsr_pool_settle_all_locked(void);
/* What trimming would return, at a quiet moment. */
uint64_t tsr_pools_spare_bytes_locked(void);
void tsr_pool_reclaim_locked(void);
/* Whether that may return something. */
bool tsr_pools_have_idle_locked(void);
void tsr_pool_forget(void);

#endif
