/*
 * Address reservations and mappings of physical memory. A mapping is one range of the address space, of kind VMM, without access for any
 * device until it is given. All functions return the driver's error codes; sizes and addresses are multiples of 2 MiB or refused.
 */
#ifndef TSR_MEMORY_VMM_H
#define TSR_MEMORY_VMM_H

#include "physical.h"

/* hint 0: anywhere. A hint that is free is honoured exactly. Errors: INVALID_VALUE, OUT_OF_MEMORY. */
CUresult tsr_emulated_vmm_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t *address);
/* Exactly what was reserved, with nothing mapped in it. */
CUresult tsr_emulated_vmm_free(uint64_t address, uint64_t bytes);
CUresult tsr_vmm_map(uint64_t address, uint64_t bytes, uint64_t offset, struct tsr_emulated_physical *physical);
/* Whole mappings, any number. */
CUresult tsr_vmm_unmap(uint64_t address, uint64_t bytes);
/* Covers whole mappings. */
CUresult tsr_vmm_access_set(uint64_t address, uint64_t bytes, uint32_t device, CUmemAccess_flags flags);
CUresult tsr_vmm_access_get(uint64_t address, uint32_t device, unsigned long long *flags);
/* The physical memory mapped at the address, with a reference; NULL when there is none. */
struct tsr_emulated_physical *tsr_vmm_physical(uint64_t address);

#endif
