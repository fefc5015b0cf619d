/*
 * Physical memory of several GPUs for one extent of the arena. Each GPU that uses the extent has its own memory at the extent's address; the processes of these
 * GPUs also map each other's memory in windows (tessera/lane.h), between which pulls copy. Copy 0 is the home GPU's, copy n + 1 that of lane n; that of
 * the host's rank (tsr_session_host), if there is one, is in host memory, which no GPU's kernels run beside. One
 * of them, home's unless there is a pool (owners.h), is its owner's, and there always is. All of it is created in the application's process and
 * outlives an executor. A GPU that has not used the extent has no memory for it; home then uses the owner's. Memory lock held.
 */
#ifndef TSR_MEMORY_REPLICAS_H
#define TSR_MEMORY_REPLICAS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "memory/directory.h"

struct tsr_extent;

struct tsr_replicas {
    uint16_t own;   /* bit n: there is a copy n */
    uint16_t ready; /* bit n: GPU n, numbered as copies, has a copy at the extent's address, its own or the owner's */
    uint8_t owner;
    CUmemGenericAllocationHandle memory[TSR_DIRECTORY_COPIES];
    uint8_t
        used_by[TSR_DIRECTORY_COPIES]; /* by GPU, numbered as copies: the copy that is mapped at the extent's address there */
};

/* Reserves the windows at home and in all executors. False: impossible; then memory has no copies. */
bool tsr_replicas_open(void);
void tsr_replicas_forget(void);

/* For an extent whose memory is the owner's and mapped at home only. Errors: the driver's; then nothing has changed. */
CUresult tsr_replicas_make(const struct tsr_extent *extent, uint32_t owner, struct tsr_replicas *out);
/* Frees the copies, which nothing uses any more. The owner's memory stays. */
void tsr_replicas_drop(const struct tsr_extent *extent, struct tsr_replicas *replicas);

/*
 * Gives a GPU, numbered as its copy, memory of its own, unless `own` is false, or the owner's, if it has no room. Nothing there has used the
 * extent. Errors: the driver's or an executor's; then nothing has changed.
 */
CUresult tsr_replicas_give(const struct tsr_extent *extent, uint32_t copy, bool own, struct tsr_replicas *replicas);
/* Undoes that. Nothing on any GPU uses the extent. */
void tsr_replicas_take(const struct tsr_extent *extent, uint32_t copy, struct tsr_replicas *replicas);
/* The home GPU gets memory of its own in the place of the owner's, or gives it back. Nothing on any GPU uses the extent. Errors: as above. */
CUresult tsr_replicas_give_home(const struct tsr_extent *extent, struct tsr_replicas *replicas);
void tsr_replicas_take_home(const struct tsr_extent *extent, struct tsr_replicas *replicas);
/* Another copy, which has all bytes, becomes the owner's; the owner's own goes. Nothing on any GPU uses the extent. Errors: as above. */
CUresult tsr_replicas_pass(struct tsr_extent *extent, uint32_t to, struct tsr_replicas *replicas);

#define TSR_PRIVATE_BYTES (4ull << 30) /* of addresses, behind the windows */
/* Memory of the GPU, numbered as its copy, that only its own process maps. The address is behind the windows. Errors: as above. */
CUresult tsr_replicas_private(CUdeviceptr address, uint64_t bytes, uint32_t copy);
void tsr_replicas_private_drop(CUdeviceptr address, uint64_t bytes, uint32_t copy);

/* Where a byte of the arena is in the window of a copy. */
static inline CUdeviceptr tsr_window_at(uint32_t copy, CUdeviceptr address)
{
    return TSR_WINDOWS_ADDRESS + copy * TSR_ARENA_BYTES + (address - TSR_ARENA_ADDRESS);
}

#endif
