/*
 * The application's own virtual memory management, mirrored: its reservations, its physical memory and what is mapped where. Every
 * reservation is the driver's own, at an address where the executors, too, could reserve; what is mapped in it is mapped there with the
 * access that the home GPU has. What cannot be mirrored is home-only. The functions take the memory lock.
 */
#ifndef TSR_SHIM_VMM_H
#define TSR_SHIM_VMM_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* Where to ask the driver for a reservation that the application wants anywhere; 0: nowhere in particular. */
CUdeviceptr tsr_vmm_place(uint64_t bytes, uint64_t alignment);
/* The driver has not followed; the place is free again. */
void tsr_vmm_place_back(CUdeviceptr address);

/* The driver has done it; now the executors. */
void tsr_vmm_reserved(CUdeviceptr address, uint64_t bytes);
void tsr_vmm_freed(CUdeviceptr address);
void tsr_vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle);
void tsr_vmm_unmapped(CUdeviceptr address, uint64_t bytes);
void tsr_vmm_access(CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags);

/*
 * Handles of physical memory. types: the handle types that the application asked for, which may be less than it was created with.
 * descriptor: of imported memory, which is kept (a copy); -1: none.
 */
void tsr_vmm_created(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType types, int descriptor);
void tsr_vmm_released(CUmemGenericAllocationHandle handle);
/* The application has got the handle of what is mapped there. */
void tsr_vmm_retained(CUmemGenericAllocationHandle handle, CUdeviceptr address);
/* False: not known. */
bool tsr_vmm_types_of(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType *types);
bool tsr_vmm_types_at(CUdeviceptr address, CUmemAllocationHandleType *types);

void tsr_vmm_forget(void);

#endif
