/*
 * The application's own virtual memory management, mirrored in executors: its reservations, and what is mapped in them.
 *
 * The driver honours a requested address only for large ranges. So reservations for which the application requests no address are taken from one range,
 * the window, which the application and all executors have reserved at the same address. Memory mapped in it is mapped in executors with the access
 * that the home GPU has. What cannot be mirrored is home-only. The functions take the memory lock; those named _locked are called with it,
 * held since before the driver was called.
 */
#ifndef TSR_MEMORY_VMM_H
#define TSR_MEMORY_VMM_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A part of the window; sizes and alignment in whole pages of 2 MiB. hint 0: anywhere. NOT_SUPPORTED: the hint is outside, or there is no
 * window; then the driver is asked, and what is mapped in the answer is home-only (tsr_vmm_reserved).
 */
CUresult tsr_vmm_reserve(uint64_t bytes, uint64_t alignment, CUdeviceptr hint, CUdeviceptr *address);
void tsr_vmm_reserved(CUdeviceptr address, uint64_t bytes);
/* NOT_SUPPORTED: not a part of the window. INVALID_VALUE: not as it was reserved, or something is mapped. */
CUresult tsr_vmm_free(CUdeviceptr address, uint64_t bytes);
/* The application's reservation in the window that holds the address. False: it is outside of the window; else base 0: in none. */
bool tsr_vmm_find(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes);

/* The driver has done it; now the executors. */
void tsr_vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle);
void tsr_vmm_unmapped_locked(CUdeviceptr address, uint64_t bytes);
void tsr_vmm_access_locked(CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags);

/* The application has got the handle of what is mapped there. */
void tsr_vmm_retained(CUmemGenericAllocationHandle handle, CUdeviceptr address);
/* Which types of handle the application asked for. False: not known. */
bool tsr_vmm_types_at(CUdeviceptr address, CUmemAllocationHandleType *types);

/*
 * With the memory lock held. Calls visit for each stretch of whole pages in the window that is memory for the home GPU and all executors alike, to
 * read and write, that has no second address and that no other process has.
 */
void tsr_vmm_each_locked(void (*visit)(CUdeviceptr address, uint64_t bytes, void *argument), void *argument);

void tsr_vmm_forget(void);

#endif
