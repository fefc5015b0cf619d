/*
 * The device memory of this process: per device one memory file, mapped once at an address that is the same on every run, from which
 * allocations are cut. Capacity is counted in pages of 2 MiB that hold at least one allocation, as the driver does, and shared by all
 * processes (machine/live.h). What is freed goes back to the operating system and reads as zero when it is given out again.
 */
#ifndef TSR_MEMORY_HEAP_H
#define TSR_MEMORY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#define TSR_HEAP_UNIT 512u              /* allocations are aligned to it and rounded up to it */
#define TSR_HEAP_PAGE (2ull << 20)

/* Errors: OUT_OF_MEMORY. */
CUresult tsr_device_heap_alloc(uint32_t device, uint64_t bytes, uint64_t *address);
/* With what tsr_device_heap_alloc was given. */
void tsr_device_heap_free(uint32_t device, uint64_t address, uint64_t bytes);
/* The file behind an address of a heap, for sharing; false for other addresses. */
bool tsr_device_heap_file(uint64_t address, int *descriptor, uint64_t *offset);

/* Capacity for memory that has files of its own (VMM). */
bool tsr_device_memory_take(uint32_t device, uint64_t bytes);
void tsr_device_memory_give(uint32_t device, uint64_t bytes);
uint64_t tsr_device_memory_used(uint32_t device);

#endif
