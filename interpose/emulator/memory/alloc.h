/*
 * Allocations: what the application was given and must hand back. Each is one range of the address space with a struct
 * tsr_emulated_allocation as its owner. Made and freed here for all kinds that occupy a heap or host memory; VMM and pools attach their own.
 *
 * One lock protects all allocation records; tsr_emulated_allocation_find copies one out under it.
 */
#ifndef TSR_MEMORY_ALLOC_H
#define TSR_MEMORY_ALLOC_H

#include "../context/context.h"
#include "../space/space.h"

struct tsr_emulated_allocation {
    struct tsr_context *context; /* that made it; a reference; NULL for VMM */
    uint32_t device;             /* TSR_LOCATION_HOST when none */
    unsigned flags;              /* CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*, CU_MEM_ATTACH_* */
    bool registered;             /* host memory of the application itself */
    bool sync_memops;
    uint64_t user_base; /* what the application knows as the start; differs from the range's only for registered memory */
    int descriptor;     /* VMM, IPC: file behind the mapping, not owned; else -1 */
    uint64_t descriptor_offset;
    uint64_t mapped_bytes; /* IPC: what was mapped at the range's page-rounded begin, to unmap */
    void *detail;          /* VMM: the physical memory; pool: the pool */
    /* managed memory: what cuMemAdvise said */
    int preferred_location, last_prefetch;
    bool read_mostly;
    uint32_t accessed_by; /* bit d */
};

/* Device memory of the context's device. Errors: OUT_OF_MEMORY. bytes > 0. */
CUresult tsr_memory_alloc(struct tsr_context *context, uint64_t bytes, enum tsr_range_kind kind, uint64_t *address);
/* Page-locked host memory. Errors: OUT_OF_MEMORY. */
CUresult tsr_memory_alloc_host(struct tsr_context *context, uint64_t bytes, unsigned flags, uint64_t *address);
CUresult tsr_memory_alloc_managed(struct tsr_context *context, uint64_t bytes, unsigned flags, uint64_t *address);
/* Errors: HOST_MEMORY_ALREADY_REGISTERED, INVALID_VALUE (not mapped in this process), OUT_OF_MEMORY. */
CUresult tsr_memory_register(struct tsr_context *context, uint64_t address, uint64_t bytes, unsigned flags);
/* Ends the range that begins at base and everything it owns; the caller has waited for work. False: there is none, or of another kind. */
bool tsr_memory_release(uint64_t base, enum tsr_range_kind kind);

/* The range that holds the address and its allocation, copied. detail is only to be followed by its own part. */
bool tsr_emulated_allocation_find(uint64_t address, struct tsr_range *range, struct tsr_emulated_allocation *allocation);
/* Changes the record under the lock; false: no such range. */
bool tsr_allocation_change(uint64_t address, void (*change)(struct tsr_emulated_allocation *allocation, void *argument),
                           void *argument);

/* Devices (bits) that may access ordinary memory of the device: itself and those that enabled it as a peer. */
uint16_t tsr_peer_mask(uint32_t device);
/* Peer access of a context: NOT_ENABLED / ALREADY_ENABLED as the driver. */
CUresult tsr_peer_enable(struct tsr_context *context, struct tsr_context *peer);
CUresult tsr_peer_disable(struct tsr_context *context, struct tsr_context *peer);

/* Registers the destruction of the context's allocations with it. */
bool tsr_memory_attach(struct tsr_context *context);
/* For other parts that hang their own owner on a range. */
struct tsr_emulated_allocation *tsr_allocation_create(struct tsr_context *context, uint32_t device);
void tsr_allocation_destroy(struct tsr_emulated_allocation *allocation);
void tsr_allocations_lock(void);
void tsr_allocations_unlock(void);

#endif
