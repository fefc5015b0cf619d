/*
 * Physical memory of the VMM calls: a memory file of its own per cuMemCreate, with one page after the data that says what it is, so that a
 * process which is handed the descriptor can check it. Every mapping shows the same bytes, in every process. Capacity is charged to the
 * process that created it, until that process has released and unmapped it.
 */
#ifndef TSR_MEMORY_PHYSICAL_H
#define TSR_MEMORY_PHYSICAL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#define TSR_PHYSICAL_GRANULARITY (2ull << 20)

struct tsr_emulated_physical;

/*
 * bytes: a multiple of the granularity. device: or TSR_LOCATION_HOST, whose memory is not counted. The caller gets one handle reference. Errors:
 * OUT_OF_MEMORY.
 */
CUresult tsr_physical_create(uint32_t device, uint64_t bytes, unsigned handle_types, struct tsr_emulated_physical **out);
/* The descriptor stays the caller's. Errors: INVALID_VALUE when it is not such memory of this machine. */
CUresult tsr_physical_import(int descriptor, struct tsr_emulated_physical **out);
/* A new descriptor; -1 on failure. */
int tsr_physical_export(const struct tsr_emulated_physical *physical);

/* The handle, valid while there are handle references. */
CUmemGenericAllocationHandle tsr_physical_handle(const struct tsr_emulated_physical *physical);
/* The object with an object reference, or NULL. */
struct tsr_emulated_physical *tsr_physical_find(CUmemGenericAllocationHandle handle);
/* One more handle reference; makes a new handle when all were released. Errors: OUT_OF_MEMORY. */
CUresult tsr_physical_retain(struct tsr_emulated_physical *physical, CUmemGenericAllocationHandle *handle);
/* Errors: INVALID_VALUE when the handle is not valid. */
CUresult tsr_physical_release(CUmemGenericAllocationHandle handle);
/* Object references: mappings and callers. */
void tsr_physical_ref(struct tsr_emulated_physical *physical);
void tsr_physical_unref(struct tsr_emulated_physical *physical);

/* Or TSR_LOCATION_HOST. */
uint32_t tsr_physical_device(const struct tsr_emulated_physical *physical);
uint64_t tsr_physical_bytes(const struct tsr_emulated_physical *physical);
unsigned tsr_physical_handle_types(const struct tsr_emulated_physical *physical);
int tsr_physical_descriptor(const struct tsr_emulated_physical *physical);

#endif
