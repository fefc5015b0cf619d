/*
 * The arena at home: device memory at addresses that are the same in the application and in every executor.
 *
 * Memory comes in extents of whole 2 MiB pages, each one physical allocation, mapped at home and handed to every executor, which maps it at the
 * same address. Allocations of up to half a page share pages by size class; larger ones have an extent of their own, which is
 * returned to the driver when freed. An allocation that the arena cannot serve is refused, and the caller forwards it to the driver.
 */
#ifndef TSR_SHIM_ARENA_H
#define TSR_SHIM_ARENA_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>

/* Errors: the driver's (OUT_OF_MEMORY, NOT_SUPPORTED, ...); the executor's when it cannot map. */
CUresult tsr_arena_alloc(size_t bytes, CUdeviceptr *address);
/* False: not an allocation of the arena. The caller has made sure that nothing uses it any more. */
bool tsr_arena_free(CUdeviceptr address);
/* The allocation that holds the address; false: none of the arena's. */
bool tsr_arena_find(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);

#endif
