/*
 * The physical memory of an extent of the arena: one allocation, on some GPU, mapped at the extent's address at home and in every executor.
 * Where it is affects how fast programs access it, not what they read. Called with the memory lock held.
 */
#ifndef TSR_MEMORY_BACKING_H
#define TSR_MEMORY_BACKING_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_extent;

/*
 * Who gives extents further copies, on other GPUs (copies.h); constant while there are extents. `begin`: the extent's memory is at home,
 * mapped there alone; NOT_SUPPORTED: it is to have one copy. `drop`: its own, mapped everywhere but at home, go. `fix`: others use home's.
 * `yield`: copies on the device make room for so many bytes; false: there are none.
 */
struct tsr_backing_copies {
    CUresult (*begin)(struct tsr_extent *extent, uint32_t gpu, uint32_t peers);
    void (*drop)(struct tsr_extent *extent);
    CUresult (*fix)(struct tsr_extent *extent);
    bool (*yield)(CUdevice device, uint64_t bytes);
};
void tsr_backing_have_copies(const struct tsr_backing_copies *copies);

/*
 * Gives an extent (address and bytes are set) memory of the GPU. Devices whose bit is set in `peers` may access it, too. What an executor
 * cannot map exists at home only (home_only.h); elsewhere than home that is an error. Errors: the driver's or an executor's; then
 * nothing has changed.
 */
CUresult tsr_backing_make(struct tsr_extent *extent, uint32_t gpu, uint32_t peers);
void tsr_backing_drop(struct tsr_extent *extent);

/*
 * Moves the bytes to another GPU. Nothing uses the extent meanwhile, in no process. Errors: as above; then all is where it was, unless the
 * driver also refuses to map again what was mapped before.
 */
CUresult tsr_backing_move(struct tsr_extent *extent, uint32_t gpu);

/* The extent has been given memory of another GPU. */
void tsr_backing_passed(struct tsr_extent *extent, uint32_t gpu);

bool tsr_backing_yield(CUdevice device, uint64_t bytes);

/* Lets another GPU of the application at it, or not any more; wherever it moves. */
CUresult tsr_backing_grant(struct tsr_extent *extent, CUdevice device, CUmemAccess_flags flags);

/*
 * Memory of the GPU, or of the host (TSR_GPU_HOST), near the home GPU; not mapped anywhere. Errors: NOT_SUPPORTED, of a GPU that is hidden from this process; the driver's.
 */
CUresult tsr_backing_create(CUmemGenericAllocationHandle *out, uint64_t bytes, uint32_t gpu);
/* The host's memory that is nearest to the home GPU. */
CUmemLocation tsr_backing_host(void);
/* Maps it in the application's process, where the home GPU and these others may use it from then on. */
CUresult tsr_backing_map(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle memory, uint32_t peers);

/* Bytes of extents whose memory is not on the home GPU. */
uint64_t tsr_backing_away_bytes(void);
/* Whether the home GPU would have room for this as well if all memory were there: to the application it is. Needs a context there. */
bool tsr_backing_fits(uint64_t bytes);
void tsr_backing_forget(void);

#endif
