/*
 * Physical memory for which the application holds handles: whether it can be exported, how often it has to be released, and a way to share it that
 * works for imported memory, too. It is freed when nothing is mapped and no handle is left.
 */
#ifndef TSR_MEMORY_PHYSICAL_H
#define TSR_MEMORY_PHYSICAL_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_physical;

/*
 * The application has created or imported it. types: the handle types that it asked for, which may be less than it was created with.
 * descriptor: of imported memory, which is kept (a copy); -1: none.
 */
void tsr_physical_created(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType types, int descriptor);
/* Of a pool (owners.h): the GPU whose memory it is. Memory lock. */
void tsr_physical_owned_locked(CUmemGenericAllocationHandle handle, uint32_t rank, uint64_t bytes);
/* TSR_OWNERS_NONE: of no pool. */
uint32_t tsr_physical_owner_locked(const struct tsr_physical *physical);
/* Another process has it, or may get it from now on. */
void tsr_physical_offered(CUmemGenericAllocationHandle handle);
/* False: not known. */
bool tsr_physical_types_of(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType *types);

/* Under the memory lock. physical NULL: memory of a handle that is not known. */
struct tsr_physical *tsr_physical_find_locked(CUmemGenericAllocationHandle handle);
/* It was released; the lock is held since before. */
void tsr_physical_released_locked(CUmemGenericAllocationHandle handle);
/* The application has got a handle of it that it has to release. */
void tsr_physical_retain_locked(struct tsr_physical *physical, CUmemGenericAllocationHandle handle);
void tsr_physical_mapped_locked(struct tsr_physical *physical);
void tsr_physical_unmapped_locked(struct tsr_physical *physical);
/* Whether it is mapped once and no other process has it. */
bool tsr_physical_is_private_locked(const struct tsr_physical *physical);
/* False: not known. */
bool tsr_physical_types_locked(const struct tsr_physical *physical, CUmemAllocationHandleType *types);
/* A descriptor of the memory, which the caller closes; -1: it cannot be shared. */
int tsr_physical_share_locked(const struct tsr_physical *physical, CUmemGenericAllocationHandle handle);

void tsr_physical_forget(void);

#endif
